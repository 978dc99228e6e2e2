//! EXPLAIN: the tables of a plan in MySQL's columns.
//!
//! `rows` and `filtered` are the planner's estimates ([`porpoise_sql_plan::statistics`]);
//! those of a virtual table are NULL, because they are not estimated.

use super::explain_columns::{indexes_used, lengths, names, reference, union_kind};
use super::explain_keys;
use super::plan_json::Document;
use super::table::{Rows, number_column, text, text_column, typed_column};
use super::tree::Tree;
use crate::context::StatementContext;
use bumpalo::Bump;
use porpoise_rows::InsertMode;
use porpoise_rows::catalog::{Catalog, Table};
use porpoise_sql_exec::exec::profile::Profile;
use porpoise_sql_exec::exec::pruning::Pruning;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::eval::{Env, EvalCx};
use porpoise_sql_expr::expr::query::Subquery;
use porpoise_sql_expr::expr::{Expr, ExprKind};
use porpoise_sql_parser::ast::{Explain, SetOp};
use porpoise_sql_plan::bind::{Origin, Source};
use porpoise_sql_plan::plan::derived::{Derived, TableOperator, is_table_function, operator_of};
use porpoise_sql_plan::plan::physical::{
    AggregateMethod, DistinctMethod, Join, JoinKind, JoinMethod, WindowPass,
};
use porpoise_sql_plan::plan::scan::{Access, Scan};
use porpoise_sql_plan::plan::sinks::{ChangeKind, Plan};
use porpoise_sql_plan::plan::{QueryPlan, plan_of};
use porpoise_types::{ColumnType, Value, ValueRef};
use std::sync::Arc;

/// Output format of EXPLAIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A table with MySQL's columns.
    Traditional,
    /// A JSON document.
    Json,
    /// An indented tree.
    Tree,
}

/// The format of an EXPLAIN statement.
///
/// # Errors
/// 1791 for an unknown format, 1235 for one that EXPLAIN ANALYZE does not support.
pub fn format_of(explain: &Explain<'_>) -> Result<Format> {
    let name = explain.format.map(|f| f.name);
    let named = |n: &str| name.is_some_and(|name| name.eq_ignore_ascii_case(n));
    let format = match name {
        None if explain.analyze => Format::Tree,
        None => Format::Traditional,
        Some(_) if named("TREE") => Format::Tree,
        Some(_) if named("TRADITIONAL") => Format::Traditional,
        Some(_) if named("JSON") => Format::Json,
        Some(name) => {
            let text = format!("Unknown EXPLAIN format name: '{name}'");
            return Err(SqlError::new(1791, "HY000", text));
        }
    };
    match (explain.analyze, format) {
        (true, Format::Traditional) => Err(SqlError::not_supported(
            "EXPLAIN ANALYZE with TRADITIONAL format",
        )),
        (true, Format::Json) => Err(SqlError::not_supported("EXPLAIN ANALYZE with JSON format")),
        _ => Ok(format),
    }
}

/// Formats a plan, with measurements if it was profiled.
pub fn format_plan(
    cx: &StatementContext,
    format: Format,
    plan: &Plan,
    params: &[ValueRef<'_>],
    profile: Option<&Profile>,
) -> Rows {
    match format {
        Format::Traditional => {
            let mut rows = rows(plan, &cx.env, params);
            if cx.settings.foreign_key_checks {
                let catalog = cx.server.db.catalog();
                foreign_keys(&catalog, plan, &mut rows);
            }
            rows
        }
        Format::Json => single_text_row(Document::new(params).text(plan)),
        Format::Tree => single_text_row(Tree::new(params, profile).text(plan)),
    }
}

/// The reply of EXPLAIN ANALYZE for single-table UPDATE and DELETE, which MySQL does not execute.
pub fn not_executable() -> Rows {
    single_text_row("-> <not executable by iterator executor>".to_owned())
}

fn single_text_row(shown: String) -> Rows {
    let mut rows = Rows::new(vec![super::table::long_column("EXPLAIN")]);
    rows.push(vec![text(shown)]);
    rows
}

fn rows(plan: &Plan, env: &Env, params: &[ValueRef<'_>]) -> Rows {
    let mut rows = Rows::new(vec![
        number_column("id"),
        text_column("select_type", 19),
        text_column("table", 64),
        text_column("partitions", 512),
        text_column("type", 10),
        text_column("possible_keys", 4096),
        text_column("key", 64),
        text_column("key_len", 4096),
        text_column("ref", 1024),
        number_column("rows"),
        typed_column("filtered", ColumnType::double()),
        text_column("Extra", 255),
    ]);
    let mut lines = RowBuilder {
        rows: &mut rows,
        last_id: 1,
        shown: Vec::new(),
        env,
        params,
    };
    let mut kind = None;
    match plan {
        Plan::Select(_) => {}
        Plan::Insert(p) => {
            let mut row = table_row("INSERT", Some(&p.table.name), Some("ALL"), "");
            if let (Some(cell), Some(_)) = (row.get_mut(cell::PARTITIONS), &p.table.partitioning) {
                *cell = partition_names(&p.table, p.partitions.as_deref());
            }
            lines.push(1, row);
        }
        Plan::Change(p) => kind = Some(verb(p.kind)),
    }
    if let Some(input) = plan.input() {
        lines.select(input, 1, kind);
    }
    plan.sink_expressions(&mut |e| lines.add_subqueries(e));
    rows
}

/// The keyword of a change, which is its `select_type`.
pub(super) fn verb(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Update => "UPDATE",
        ChangeKind::Delete => "DELETE",
    }
}

/// Adds the rows for foreign keys.
fn foreign_keys(catalog: &Catalog, plan: &Plan, rows: &mut Rows) {
    match plan {
        Plan::Select(_) => {}
        Plan::Insert(p) => {
            explain_keys::inserted(&p.table, rows);
            if p.mode == InsertMode::Replace {
                explain_keys::deleted(catalog, &p.table, rows);
            }
            let set = p.on_duplicate.iter().map(|(at, _)| *at);
            if set.len() > 0 {
                explain_keys::updated(catalog, &p.table, set, rows);
            }
        }
        Plan::Change(p) => {
            for target in p.targets.all() {
                let set = target.set.iter().map(|(at, _)| *at);
                match p.kind {
                    ChangeKind::Delete => explain_keys::deleted(catalog, &target.table, rows),
                    ChangeKind::Update => explain_keys::updated(catalog, &target.table, set, rows),
                }
            }
        }
    }
}

/// Positions of cells in a row of the traditional format.
pub(super) mod cell {
    pub const TABLE: usize = 2;
    pub const PARTITIONS: usize = 3;
    pub const POSSIBLE_KEYS: usize = 5;
    pub const KEY: usize = 6;
    pub const KEY_LEN: usize = 7;
    pub const REF: usize = 8;
    pub const ROWS: usize = 9;
    pub const FILTERED: usize = 10;
}

/// A row of the traditional format; `kind` is the select_type, `access` the type.
pub(super) fn table_row(
    kind: &str,
    table: Option<&str>,
    access: Option<&str>,
    extra: &str,
) -> Vec<Value> {
    let cell = |value: Option<&str>| value.map_or(Value::Null, text);
    vec![
        Value::UInt(1),
        text(kind),
        cell(table),
        Value::Null,
        cell(access),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        match extra {
            "" => Value::Null,
            extra => text(extra),
        },
    ]
}

/// Builder of EXPLAIN's rows, which numbers the queries.
struct RowBuilder<'r> {
    rows: &'r mut Rows,
    /// The last number given to a query.
    last_id: u64,
    /// Subqueries already shown, because a condition may occur in several places of a plan.
    shown: Vec<Arc<Subquery>>,
    env: &'r Env,
    params: &'r [ValueRef<'r>],
}

/// Names of these leaves, or of all for `None`: `p0`, or `p0_p0sp1` of a subpartition.
fn partition_names(table: &Table, positions: Option<&[usize]>) -> Value {
    let Some(by) = &table.partitioning else {
        return Value::Null;
    };
    let leaves =
        (0..by.leaf_count()).filter(|n| positions.is_none_or(|positions| positions.contains(n)));
    let name = |leaf: usize| match by.leaf(leaf)? {
        (partition, None) => Some(partition.name.clone()),
        (partition, Some(sub)) => Some(format!("{}_{}", partition.name, sub.name)),
    };
    let names: Vec<String> = leaves.filter_map(name).collect();
    match names.as_slice() {
        [] => Value::Null,
        names => text(names.join(",")),
    }
}

impl RowBuilder<'_> {
    /// Sets the partitions that the scan reads, as far as constants determine them.
    fn set_partitions(&self, source: &Source, scan: &Scan, row: &mut [Value]) {
        let Some(table) = source.table().filter(|t| t.partitioning.is_some()) else {
            return;
        };
        let arena = Bump::new();
        let cx = EvalCx {
            arena: &arena,
            env: self.env,
            params: self.params,
            aggregates: &[],
            new_row: &[],
            outer: None,
            queries: None,
        };
        let pruning = Pruning::of(scan, table, &cx).unwrap_or_default();
        if let Some(cell) = row.get_mut(cell::PARTITIONS) {
            *cell = partition_names(table, pruning.partitions());
        }
    }

    fn push(&mut self, id: u64, mut row: Vec<Value>) {
        if let Some(cell) = row.first_mut() {
            *cell = Value::UInt(id);
        }
        self.rows.push(row);
    }

    fn next_select_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Adds the tables of a query, then the queries in its FROM clause and expressions.
    fn select(&mut self, plan: &QueryPlan, id: u64, kind: Option<&str>) {
        let mut has_inner = plan.has_subqueries;
        for source in &plan.sources {
            has_inner |= matches!(source.origin, Origin::Derived(_)) && !is_table_function(source);
        }
        let kind = kind.unwrap_or(if has_inner { "PRIMARY" } else { "SIMPLE" });
        let mut tables: Vec<(&Scan, Option<&Join>)> = Vec::new();
        plan.each_table(&mut |scan, join| tables.push((scan, join)));
        if tables.is_empty() {
            self.push(id, table_row(kind, None, None, "No tables used"));
        }
        let passes = plan.window().map_or(&[][..], |window| &window.passes);
        let sorted = !plan.root.order().is_empty() || passes.iter().any(WindowPass::is_sorted);
        let temporary = uses_temporary(plan);
        let mut derived: Vec<(u64, &Derived)> = Vec::new();
        for (at, (scan, join)) in tables.into_iter().enumerate() {
            let Some(source) = plan.sources.get(scan.slot) else {
                continue;
            };
            let mut extra = extra(scan, join, at == 0 && sorted, at == 0 && temporary);
            if is_table_function(source) {
                extra = table_function_extra(&extra);
            }
            let mut row = scan_line(kind, source, scan, &extra);
            self.set_partitions(source, scan, &mut row);
            if let Origin::Derived(rows) = &source.origin
                && !is_table_function(source)
                && !matches!(operator_of(rows), TableOperator::WorkingTable)
            {
                let number = self.next_select_id();
                derived.push((number, rows));
                if let Some(cell) = row.get_mut(cell::TABLE) {
                    *cell = text(format!("<derived{number}>"));
                }
            }
            self.push(id, row);
        }
        for (number, rows) in derived {
            self.derived(rows, number);
        }
        plan.expressions(&mut |e| self.add_subqueries(e));
    }

    fn derived(&mut self, derived: &Derived, number: u64) {
        let inputs = operator_of(derived).inputs();
        if inputs.is_empty() {
            self.push(number, table_row("DERIVED", None, None, "No tables used"));
        }
        for (op, plan) in inputs {
            let Some(op) = op else {
                self.select(plan, number, Some("DERIVED"));
                continue;
            };
            let number = self.next_select_id();
            let kind = match op {
                SetOp::Union => "UNION",
                SetOp::Intersect => "INTERSECT",
                SetOp::Except => "EXCEPT",
            };
            self.select(plan, number, Some(kind));
        }
    }

    /// Adds the subqueries of an expression.
    fn add_subqueries(&mut self, e: &Expr) {
        let mut found: Vec<Arc<Subquery>> = Vec::new();
        e.walk(&mut |e| {
            if let ExprKind::Query(test) = &e.kind {
                found.push(test.query.clone());
            }
        });
        for query in found {
            let kind = if query.free.is_empty() {
                "SUBQUERY"
            } else {
                "DEPENDENT SUBQUERY"
            };
            if self.shown.iter().any(|q| Arc::ptr_eq(q, &query)) {
                continue;
            }
            self.shown.push(query.clone());
            let number = self.next_select_id();
            if let Ok(plan) = plan_of(&query) {
                self.select(plan, number, Some(kind));
            }
        }
    }
}

/// Whether grouping or DISTINCT uses a hash table, or a window function a buffer.
fn uses_temporary(plan: &QueryPlan) -> bool {
    let aggregate = plan.rows().and_then(|rows| rows.aggregate());
    let groups = aggregate
        .is_some_and(|a| !a.group_by.is_empty() && matches!(a.method, AggregateMethod::Hash));
    let passes = plan.window().map_or(&[][..], |window| &window.passes);
    let mut windows = passes.iter().flat_map(|pass| &pass.windows);
    groups || windows.any(|w| !w.streams()) || plan.root.distinct() == Some(DistinctMethod::Hash)
}

/// The column Extra of JSON_TABLE, whose rows are materialized.
fn table_function_extra(extra: &str) -> String {
    let own = "Table function: json_table; Using temporary";
    match extra.strip_prefix("Using temporary").unwrap_or(extra) {
        "" => own.to_owned(),
        rest => format!("{own}; {}", rest.trim_start_matches("; ")),
    }
}

/// The column Extra of a table; `sorted` and `temporary` describe the query's result, and are shown
/// with its first table.
fn extra(scan: &Scan, join: Option<&Join>, sorted: bool, temporary: bool) -> String {
    let mut parts = Vec::new();
    let conditions = join.is_some_and(|j| !j.on.is_empty() || !j.filter.is_empty());
    // MySQL checks the conditions of a range on its rows, too.
    let of_range = matches!(scan.access, Access::IndexRangeScan { .. }) && !scan.implied.is_empty();
    if conditions || of_range || !scan.filter.is_empty() {
        parts.push("Using where");
    }
    if temporary {
        parts.push("Using temporary");
    }
    if sorted {
        parts.push("Using filesort");
    }
    match join.map(|j| j.kind) {
        Some(JoinKind::Semi) => parts.push("FirstMatch"),
        Some(JoinKind::Anti) => parts.push("Not exists"),
        Some(JoinKind::Inner | JoinKind::Left) | None => {}
    }
    if matches!(scan.access, Access::TextSearch { .. }) {
        parts.push("Ft_hints: sorted");
    } else if matches!(scan.access, Access::LooseScan(_)) {
        parts.push("Using index for group-by");
    } else if scan.is_covering() {
        parts.push("Using index");
    }
    match join.map(|j| (&j.method, j.kind)) {
        Some((JoinMethod::Hash(_), _)) => parts.push("Using join buffer (hash join)"),
        Some((
            JoinMethod::Materialized | JoinMethod::Lateral,
            JoinKind::Inner | JoinKind::Left,
        )) => parts.push("Using join buffer"),
        _ => {}
    }
    if scan.access.reverse() {
        parts.push("Backward index scan");
    }
    parts.join("; ")
}

fn scan_line(kind: &str, source: &Source, scan: &Scan, extra: &str) -> Vec<Value> {
    let union = source.table().and_then(|t| union_kind(&scan.access, t));
    let union = union.map_or(String::new(), |union| match extra {
        "" => format!("Using {union}"),
        _ => format!("Using {union}; "),
    });
    let mut row = table_row(
        kind,
        Some(&source.alias),
        Some(scan.access.kind()),
        &format!("{union}{extra}"),
    );
    let Some(table) = source.table() else {
        return row;
    };
    let used = indexes_used(&scan.access, table);
    let mut set = |at: usize, value: Value| {
        if let Some(cell) = row.get_mut(at) {
            *cell = value;
        }
    };
    if !used.is_empty() {
        if !matches!(scan.access, Access::FullScan { .. }) {
            set(cell::POSSIBLE_KEYS, text(names(&used)));
        }
        set(cell::KEY, text(names(&used)));
        set(cell::KEY_LEN, text(lengths(table, &used)));
    }
    if let Some([key]) = scan.access.keys() {
        let refs: Vec<&str> = key.iter().map(reference).collect();
        set(cell::REF, text(refs.join(",")));
    } else if matches!(scan.access, Access::TextSearch { .. }) {
        set(cell::REF, text("const"));
    }
    set(
        cell::ROWS,
        Value::UInt(scan.estimate.rows.round().max(1.0) as u64),
    );
    let percent = (scan.estimate.selectivity * 10_000.0).round() / 100.0;
    set(cell::FILTERED, Value::Double(percent.clamp(0.01, 100.0)));
    row
}
