//! EXPLAIN FORMAT=JSON, in the format that MySQL's tools read.
//!
//! Member names are those of the manual ("Extended EXPLAIN Output Format", version 1); the unit of
//! costs is one row read in primary key order. Members that do not apply are omitted.

use super::explain_columns::{indexes_used, lengths, names, reference, union_kind};
use super::expression::Printer;
use porpoise_sql_expr::expr::query::Subquery;
use porpoise_sql_expr::expr::{Expr, ExprKind};
use porpoise_sql_plan::bind::window::shown_name;
use porpoise_sql_plan::bind::{Origin, Source};
use porpoise_sql_plan::plan::derived::{Derived, TableOperator, is_table_function, operator_of};
use porpoise_sql_plan::plan::physical::{AggregateMethod, DistinctMethod, Join, JoinKind, Window};
use porpoise_sql_plan::plan::scan::{Access, Scan};
use porpoise_sql_plan::plan::sinks::{Change, ChangeKind, Plan};
use porpoise_sql_plan::plan::{QueryPlan, plan_of};
use porpoise_types::ValueRef;
use std::fmt::Write as _;
use std::sync::Arc;

/// A JSON value.
enum Json {
    Bool(bool),
    Number(u64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    fn print(&self, depth: usize, out: &mut String) {
        let line = |depth: usize, out: &mut String| {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth));
        };
        match self {
            Json::Bool(v) => out.push_str(if *v { "true" } else { "false" }),
            Json::Number(v) => {
                let _ = write!(out, "{v}");
            }
            Json::Text(text) => quote(text, out),
            Json::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    line(depth + 1, out);
                    item.print(depth + 1, out);
                }
                line(depth, out);
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    line(depth + 1, out);
                    let _ = write!(out, "\"{name}\": ");
                    value.print(depth + 1, out);
                }
                line(depth, out);
                out.push('}');
            }
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn text(s: impl Into<String>) -> Json {
    Json::Text(s.into())
}

/// An estimated number of rows, at least 1.
fn row_count(rows: f64) -> Json {
    Json::Number(rows.round().max(1.0) as u64)
}

fn cost(cost: f64) -> Json {
    text(format!("{cost:.2}"))
}

/// Builder of the document.
pub struct Document<'d> {
    params: &'d [ValueRef<'d>],
    /// The last number given to a query block.
    last_id: u64,
    /// Subqueries already shown, because a condition may occur in several places of a plan.
    shown: Vec<Arc<Subquery>>,
    /// The change whose input is shown next.
    change: Option<&'d Change>,
}

impl<'d> Document<'d> {
    /// Creates the builder for a statement with these parameters.
    pub fn new(params: &'d [ValueRef<'d>]) -> Document<'d> {
        Document {
            params,
            last_id: 0,
            shown: Vec::new(),
            change: None,
        }
    }

    /// The document of a plan.
    pub fn text(&mut self, plan: &'d Plan) -> String {
        if let Plan::Change(change) = plan {
            self.change = Some(change);
        }
        let mut block = plan
            .input()
            .map_or_else(Vec::new, |input| self.block(input));
        if let Plan::Insert(insert) = plan {
            let table = vec![
                ("insert", Json::Bool(true)),
                ("table_name", text(&insert.table.name)),
                ("access_type", text("ALL")),
            ];
            let mut members = vec![
                ("select_id", Json::Number(1)),
                ("table", Json::Object(table)),
            ];
            if !block.is_empty() {
                members.push(("insert_from", Json::Object(block)));
            }
            block = members;
        }
        let mut found = Vec::new();
        plan.sink_expressions(&mut |e| queries_of(e, &mut found));
        block.extend(self.new_subqueries("update_value_subqueries", found));
        let mut out = String::new();
        Json::Object(vec![("query_block", Json::Object(block))]).print(0, &mut out);
        out
    }

    /// The members of a query block.
    fn block(&mut self, plan: &QueryPlan) -> Vec<(&'static str, Json)> {
        self.last_id += 1;
        let change = self.change.take();
        let mut members = vec![("select_id", Json::Number(self.last_id))];
        let mut last = None;
        plan.scans(&mut |scan| last = Some(scan.estimate.cost));
        if let Some(last) = last {
            let total = Json::Object(vec![("query_cost", cost(last))]);
            members.push(("cost_info", total));
        }
        let mut inner = self.joins(plan, change);
        let aggregate = plan.rows().and_then(|rows| rows.aggregate());
        if let Some(aggregate) = aggregate.filter(|a| !a.group_by.is_empty()) {
            let hashes = matches!(aggregate.method, AggregateMethod::Hash);
            let mut grouping = vec![
                ("using_temporary_table", Json::Bool(hashes)),
                ("using_filesort", Json::Bool(false)),
            ];
            grouping.append(&mut inner);
            inner = vec![("grouping_operation", Json::Object(grouping))];
        }
        if let Some(window) = plan.window() {
            let printer = Printer {
                sources: &plan.sources,
                params: self.params,
            };
            let mut windowing = vec![("windows", windows(window, &printer))];
            windowing.append(&mut inner);
            inner = vec![("windowing", Json::Object(windowing))];
        }
        if let Some(method) = plan.root.distinct() {
            let hashes = method == DistinctMethod::Hash;
            let mut removal = vec![("using_temporary_table", Json::Bool(hashes))];
            removal.append(&mut inner);
            inner = vec![("duplicates_removal", Json::Object(removal))];
        }
        if !plan.root.order().is_empty() {
            let mut ordering = vec![("using_filesort", Json::Bool(true))];
            ordering.append(&mut inner);
            inner = vec![("ordering_operation", Json::Object(ordering))];
        }
        members.append(&mut inner);
        let mut found: Vec<Arc<Subquery>> = Vec::new();
        plan.expressions(&mut |e| queries_of(e, &mut found));
        members.extend(self.new_subqueries("attached_subqueries", found));
        members
    }

    /// The member `name` with the subqueries that are not shown yet; `None` if there are none.
    fn new_subqueries(
        &mut self,
        name: &'static str,
        found: Vec<Arc<Subquery>>,
    ) -> Option<(&'static str, Json)> {
        let mut blocks = Vec::new();
        for query in found {
            if self.shown.iter().any(|q| Arc::ptr_eq(q, &query)) {
                continue;
            }
            self.shown.push(query.clone());
            let Ok(plan) = plan_of(&query) else {
                continue;
            };
            let dependent = !query.free.is_empty();
            let block = self.block(plan);
            blocks.push(Json::Object(vec![
                ("dependent", Json::Bool(dependent)),
                ("cacheable", Json::Bool(query.is_deterministic)),
                ("query_block", Json::Object(block)),
            ]));
        }
        (!blocks.is_empty()).then_some((name, Json::List(blocks)))
    }

    fn joins(&mut self, plan: &QueryPlan, change: Option<&Change>) -> Vec<(&'static str, Json)> {
        let mut tables: Vec<Vec<(&'static str, Json)>> = Vec::new();
        plan.each_table(&mut |scan, join| {
            let mut table = Vec::new();
            let is_target = |change: &&Change| {
                let targets = change.targets.all();
                targets.iter().any(|target| target.slot == scan.slot)
            };
            if let Some(change) = change.filter(is_target) {
                let verb = match change.kind {
                    ChangeKind::Update => "update",
                    ChangeKind::Delete => "delete",
                };
                table.push((verb, Json::Bool(true)));
            }
            table.extend(self.table(scan, join, &plan.sources));
            tables.push(table);
        });
        let mut tables = tables
            .into_iter()
            .map(|table| ("table", Json::Object(table)));
        match (tables.next(), tables.len()) {
            (None, _) => vec![("message", text("No tables used"))],
            (Some(only), 0) => vec![only],
            (Some(first), _) => {
                let all = std::iter::once(first).chain(tables);
                let each = all.map(|table| Json::Object(vec![table]));
                vec![("nested_loop", Json::List(each.collect()))]
            }
        }
    }

    /// The members of a table.
    fn table(
        &mut self,
        scan: &Scan,
        join: Option<&Join>,
        sources: &[Source],
    ) -> Vec<(&'static str, Json)> {
        let Some(source) = sources.get(scan.slot) else {
            return Vec::new();
        };
        let printer = Printer {
            sources,
            params: self.params,
        };
        let mut out = vec![
            ("table_name", text(&source.alias)),
            ("access_type", text(scan.access.kind())),
        ];
        if let Some(table) = source.table() {
            let used = indexes_used(&scan.access, table);
            if !used.is_empty() {
                if !matches!(scan.access, Access::FullScan { .. }) {
                    let names = used.iter().map(|(index, _)| text(&index.name));
                    out.push(("possible_keys", Json::List(names.collect())));
                }
                let union = union_kind(&scan.access, table);
                out.push(("key", text(union.unwrap_or_else(|| names(&used)))));
                if let [(index, parts)] = used.as_slice() {
                    let columns = index.parts.iter().take(*parts);
                    let names = columns.filter_map(|p| table.columns.get(p.column));
                    let names = names.map(|c| text(c.shown_name())).collect();
                    out.push(("used_key_parts", Json::List(names)));
                }
                out.push(("key_length", text(lengths(table, &used))));
            }
            if let Some([key]) = scan.access.keys() {
                let refs = key.iter().map(|e| text(reference(e))).collect();
                out.push(("ref", Json::List(refs)));
            }
            let estimate = scan.estimate;
            out.push(("rows_examined_per_scan", row_count(estimate.rows)));
            out.push(("rows_produced_per_join", row_count(estimate.join_rows)));
            let filtered = format!("{:.2}", estimate.selectivity * 100.0);
            out.push(("filtered", text(filtered)));
            let costs = vec![("prefix_cost", cost(estimate.cost))];
            out.push(("cost_info", Json::Object(costs)));
        }
        if scan.is_covering() {
            out.push(("using_index", Json::Bool(true)));
        }
        match join.map(|j| j.kind) {
            Some(JoinKind::Semi) => out.push(("first_match", text(&source.alias))),
            Some(JoinKind::Anti) => out.push(("not_exists", Json::Bool(true))),
            Some(JoinKind::Inner | JoinKind::Left) | None => {}
        }
        if join.is_some_and(|j| !j.hash_keys().is_empty()) {
            out.push(("using_join_buffer", text("hash join")));
        }
        let mut conditions: Vec<Expr> = scan.filter.clone();
        if let Some(join) = join {
            conditions.extend(join.on.iter().chain(&join.filter).cloned());
        }
        if !conditions.is_empty() {
            out.push(("attached_condition", text(printer.conjunction(&conditions))));
        }
        out.extend(self.origin(source));
        out
    }

    /// The members about the rows of a derived table or of JSON_TABLE.
    fn origin(&mut self, source: &Source) -> Vec<(&'static str, Json)> {
        match &source.origin {
            Origin::Derived(_) if is_table_function(source) => vec![
                ("table_function", text("json_table")),
                ("using_temporary_table", Json::Bool(true)),
            ],
            Origin::Derived(derived)
                if !matches!(operator_of(derived), TableOperator::WorkingTable) =>
            {
                vec![("materialized_from_subquery", self.derived(derived))]
            }
            _ => Vec::new(),
        }
    }

    fn derived(&mut self, derived: &Arc<Derived>) -> Json {
        let mut blocks: Vec<Json> = Vec::new();
        for (_, plan) in operator_of(derived).inputs() {
            blocks.push(Json::Object(self.block(plan)));
        }
        let dependent = ("dependent", Json::Bool(!derived.free.is_empty()));
        let mut blocks = blocks.into_iter();
        match (blocks.next(), blocks.len()) {
            (Some(block), 0) => Json::Object(vec![dependent, ("query_block", block)]),
            (Some(first), _) => {
                let all = std::iter::once(first).chain(blocks);
                let each = all.map(|block| Json::Object(vec![("query_block", block)]));
                let union = vec![("query_specifications", Json::List(each.collect()))];
                Json::Object(vec![dependent, ("union_result", Json::Object(union))])
            }
            (None, _) => Json::Object(vec![dependent, ("message", text("No tables used"))]),
        }
    }
}

/// The windows in the order of execution.
fn windows(window: &Window, printer: &Printer<'_>) -> Json {
    let mut list = Vec::new();
    for pass in &window.passes {
        for (at, planned) in pass.windows.iter().enumerate() {
            let name = planned.window.name.as_deref();
            let sorts = at == 0 && pass.is_sorted();
            let mut members = vec![
                ("name", text(shown_name(name))),
                ("using_filesort", Json::Bool(sorts)),
            ];
            if sorts {
                let keys = pass.sort.iter();
                let keys = keys.map(|key| text(printer.keys(std::slice::from_ref(key))));
                members.push(("filesort_key", Json::List(keys.collect())));
            }
            if !planned.streams() {
                let buffer = vec![("using_temporary_table", Json::Bool(true))];
                members.push(("frame_buffer", Json::Object(buffer)));
            }
            let names = planned.calls.iter().map(|call| text(&call.name));
            members.push(("functions", Json::List(names.collect())));
            list.push(Json::Object(members));
        }
    }
    Json::List(list)
}

/// Adds the subqueries of an expression to `found`.
fn queries_of(e: &Expr, found: &mut Vec<Arc<Subquery>>) {
    e.walk(&mut |e| {
        if let ExprKind::Query(test) = &e.kind {
            found.push(test.query.clone());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_members_indented() {
        let mut out = String::new();
        let list = Json::List(vec![Json::Number(1), Json::Bool(true)]);
        Json::Object(vec![("a", text("x\"\\\n\u{1}")), ("b", list)]).print(0, &mut out);
        let expected = "{\n  \"a\": \"x\\\"\\\\\\n\\u0001\",\n  \"b\": [\n    1,\n    true\n  ]\n}";
        assert_eq!(out, expected);
    }
}
