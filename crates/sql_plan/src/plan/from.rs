//! The FROM clause: tables, table functions, joins and their conditions.
//!
//! Joins become blocks. A block is a set of inner-joined tables, in any order, with all their
//! conditions, and a list of outer parts: the right sides of LEFT JOINs, each a block itself. `a
//! RIGHT JOIN b` is `b LEFT JOIN a`.
//!
//! Invariants:
//! 1. Slots are in textual order, however the joins are rearranged.
//! 2. The ON of a join sees only the tables that it joins; a LATERAL table and JSON_TABLE see all
//!    tables to their left, and none that an outer join joins to them.

use super::equal_columns::EqualColumns;
use super::hinted::JoinHints;
use super::placement::set_named_partitions;
use super::query::{derived_source, name_columns, plan_lateral, plan_nested, plan_query};
use super::scan::LockSpec;
use super::select::PlanCx;
use super::semi::SemiJoin;
use super::sinks::ViewCheck;
use super::views::{JoinViewParts, ViewMerging};
use crate::bind::hints::Hints;
use crate::bind::json_table::{JsonTable, bind_columns};
use crate::bind::nodes::compare;
use crate::bind::{MergedView, Scope, Source};
use crate::error::{Result, SqlError};
use crate::expr::expiry::live_row;
use crate::expr::json::is_document_text;
use crate::expr::query::FreeRef;
use crate::expr::{CmpOp, Expr, ExprKind};
use crate::parse::ast::{self, Join, JoinCondition, JoinKind, TableFactor, TableRef};
use crate::plan::derived::{Derived, References, TableOperator, materialized};
use porpoise_access::Privileges;
use porpoise_rows::catalog::CheckOption;
use porpoise_types::Kind;
use std::sync::Arc;

/// A column: slot and position.
type ColumnRef = (usize, usize);

/// Inner-joined tables with their conditions, and the outer joins on them.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    /// Slots of the tables.
    pub(super) tables: Vec<usize>,
    /// Conditions, all of which must be true.
    pub(super) conditions: Vec<Expr>,
    /// Right sides of LEFT JOINs, in the order of the text.
    pub(super) outers: Vec<OuterBlock>,
    /// Columns that equal each other by the conditions.
    pub(super) equal: Vec<EqualColumns>,
}

/// The right side of a LEFT JOIN.
#[derive(Clone, Debug)]
pub(super) struct OuterBlock {
    /// The tables of the right side.
    pub(super) block: Block,
    /// The ON conditions, which decide about matches.
    pub(super) on: Vec<Expr>,
}

impl Block {
    /// The slots of all tables in it.
    pub(super) fn slots(&self) -> u64 {
        let own = self.tables.iter().fold(0, |all, slot| all | 1u64 << slot);
        let outers = self.outers.iter().map(|o| o.block.slots());
        outers.fold(own, |all, slots| all | slots)
    }

    fn join(&mut self, other: Block) {
        self.tables.extend(other.tables);
        self.conditions.extend(other.conditions);
        self.outers.extend(other.outers);
    }
}

/// The FROM clause, bound.
#[derive(Clone, Debug, Default)]
pub(super) struct From {
    pub(super) scope: Scope,
    pub(super) block: Block,
    /// STRAIGHT_JOIN: tables are read in textual order.
    pub(super) straight: bool,
    /// The columns that `*` expands to, in order.
    pub(super) star_columns: Vec<ColumnRef>,
    /// Semi-joins made of conditions.
    pub(super) semi_joins: Vec<SemiJoin>,
    /// Slots whose rows are locked, as a bit set.
    pub(super) locked_slots: u64,
    /// The lock of the slots whose rows the statement changes: these are read whole, beyond the
    /// columns in expressions.
    pub(super) change_lock: Option<LockSpec>,
    /// Optimizer hints of the block.
    pub(super) hints: JoinHints,
    /// The ON conditions of the view of several tables that is being bound, for its WITH CHECK OPTION.
    pub(super) view_on: Vec<Expr>,
}

impl From {
    /// Adds a table that is not joined by JOIN.
    pub(super) fn add(&mut self, source: Source) -> Result<()> {
        let (block, star) = self.part(source)?;
        self.block.join(block);
        self.star_columns.extend(star);
        Ok(())
    }

    /// Plans something that sees all tables so far (LATERAL). Also returns the columns that it reads.
    fn lateral<T>(
        &mut self,
        cx: &PlanCx<'_>,
        plan: impl FnOnce(&PlanCx<'_>) -> Result<T>,
    ) -> Result<(T, Vec<FreeRef>)> {
        let first_visible = std::mem::take(&mut self.scope.first_visible);
        let planned = plan_lateral(&self.scope, cx, plan);
        self.scope.first_visible = first_visible;
        planned
    }

    fn part(&mut self, source: Source) -> Result<Part> {
        let (places, view) = (source.star_columns(), source.view.clone());
        let table = source.table().cloned();
        let slot = self.scope.add(source)?;
        let live = table.and_then(|table| live_row(&table, slot));
        let mut conditions = view.map_or_else(Vec::new, |v| v.conditions_at(slot));
        conditions.extend(live);
        let block = Block {
            tables: vec![slot],
            conditions,
            ..Block::default()
        };
        Ok((block, places.into_iter().map(|at| (slot, at)).collect()))
    }
}

/// A part of the clause: its tables, and the columns of `*`.
type Part = (Block, Vec<ColumnRef>);

/// Splits a condition into its conjuncts.
pub fn split_conjuncts(condition: Expr, out: &mut Vec<Expr>) {
    match condition.kind {
        ExprKind::And(parts) => parts.into_iter().for_each(|p| split_conjuncts(p, out)),
        _ => out.push(condition),
    }
}

/// Binds the whole clause.
pub(super) fn bind_from(tables: &[TableRef<'_>], cx: &PlanCx<'_>) -> Result<From> {
    let mut from = From::default();
    for table in tables {
        let (block, star) = bind_table(table, &mut from, cx)?;
        from.block.join(block);
        from.star_columns.extend(star);
    }
    Ok(from)
}

fn bind_table(table: &TableRef<'_>, from: &mut From, cx: &PlanCx<'_>) -> Result<Part> {
    crate::bind::check_stack()?;
    let first = from.scope.sources.len();
    let mut left = bind_factor(&table.first, from, cx)?;
    for join in table.joins {
        left = bind_join(left, join, first, from, cx)?;
    }
    Ok(left)
}

fn bind_factor(factor: &TableFactor<'_>, from: &mut From, cx: &PlanCx<'_>) -> Result<Part> {
    match factor {
        TableFactor::Table(source) => {
            if let Some(part) = bind_join_view(source, from, cx)? {
                return Ok(part);
            }
            let alias = source.alias.map(|a| a.name);
            let mut found = cx.source(&source.name, alias)?;
            set_named_partitions(&mut found, source.partitions)?;
            found.hints = Hints::of_source(&found, source.hints)?;
            from.part(found)
        }
        TableFactor::Nested(tables) => {
            let mut part = Part::default();
            for table in *tables {
                let (block, star) = bind_table(table, from, cx)?;
                part.0.join(block);
                part.1.extend(star);
            }
            Ok(part)
        }
        TableFactor::Derived(derived) => {
            let source = bind_derived(derived, from, cx)?;
            from.part(source)
        }
        TableFactor::JsonTable(table) => {
            let source = bind_json_table(table, from, cx)?;
            from.part(source)
        }
    }
}

/// The tables of a view of several tables, and its columns; `None` for any other table.
fn bind_join_view(
    named: &ast::TableSource<'_>,
    from: &mut From,
    cx: &PlanCx<'_>,
) -> Result<Option<Part>> {
    let alias = named.alias.map(|a| a.name);
    let first = from.scope.sources.len();
    let bound = cx.join_view(&named.name, |view, at, select, cx| {
        // The view's query sees its own tables only, under their own names.
        let outside = std::mem::replace(&mut from.scope.first_visible, first);
        let around = from.scope.sources.iter_mut();
        let hidden: Vec<String> = around.map(|s| std::mem::take(&mut s.alias)).collect();
        for (slot, source) in from.scope.sources.iter_mut().enumerate() {
            source.alias = format!("\0{slot}");
        }
        let bound = bind_view_tables(select, first, from, cx);
        for (source, alias) in from.scope.sources.iter_mut().zip(hidden) {
            source.alias = alias;
        }
        from.scope.first_visible = outside;
        let Some(ViewTables { block, mut parts }) = bound? else {
            return Ok(None);
        };
        let (mut conditions, mut inherited) = (parts.conditions.clone(), Vec::new());
        for (slot, source) in from.scope.sources.iter_mut().enumerate().skip(first) {
            if let Some(beneath) = &source.view {
                conditions.extend(beneath.conditions_at(slot - first));
                inherited.extend(beneath.check_at(slot - first));
            }
            source.columns.truncate(source.width());
            source.columns.iter_mut().for_each(|c| c.name.clear());
            source.alias = format!("\0{slot}");
        }
        let Some(carrier) = from.scope.sources.get_mut(first) else {
            return Ok(None);
        };
        parts.check = match view.check {
            CheckOption::None => inherited,
            CheckOption::Local => [std::mem::take(&mut parts.conditions), inherited].concat(),
            CheckOption::Cascaded => conditions.clone(),
        };
        parts.conditions = conditions;
        super::views::carry_view(view, at, alias, carrier, parts, cx)?;
        let star = carrier.star_columns().into_iter();
        Ok(Some((block, star.map(|at| (first, at)).collect())))
    })?;
    if bound.is_none() {
        from.scope.sources.truncate(first);
    }
    Ok(bound)
}

/// The tables of a view, its columns and its own conditions.
struct ViewTables {
    block: Block,
    parts: JoinViewParts,
}

/// The tables of a view's query from the slot `first` on, its columns, and the conditions of its ON and WHERE; `None`
/// if it has aggregates or subqueries that cannot be merged.
fn bind_view_tables(
    select: &ast::Select<'_>,
    first: usize,
    from: &mut From,
    cx: &PlanCx<'_>,
) -> Result<Option<ViewTables>> {
    let mut block = Block::default();
    let enclosing_on = std::mem::take(&mut from.view_on);
    for table in select.from {
        block.join(bind_table(table, from, cx)?.0);
    }
    let mut conditions = std::mem::replace(&mut from.view_on, enclosing_on);
    let scope = &from.scope;
    if let Some(filter) = &select.filter {
        let filter = cx.binder(scope, "where clause").condition(filter)?;
        let before = block.conditions.len();
        split_conjuncts(filter, &mut block.conditions);
        conditions.extend(block.conditions.iter().skip(before).cloned());
    }
    // Slots are counted from that of the view's first table.
    let count_from_first = |e: &mut Expr| {
        e.rewrite(&mut |e| {
            if let ExprKind::Column { slot, .. } = &mut e.kind {
                *slot = slot.saturating_sub(first);
            }
        });
    };
    conditions.iter_mut().for_each(count_from_first);
    let mut columns = Vec::with_capacity(select.items.len());
    for item in select.items {
        let ast::SelectItem::Expr { expr, alias, .. } = item else {
            return Ok(None);
        };
        let name = match (&expr.kind, alias) {
            (_, Some(alias)) => alias.name,
            (ast::ExprKind::Column(named), None) => named.name.name,
            _ => return Ok(None),
        };
        let Ok(mut bound) = cx.binder(scope, "field list").expr(expr) else {
            return Ok(None);
        };
        if bound.has_subquery() && first > 0 {
            return Ok(None);
        }
        count_from_first(&mut bound);
        columns.push((name.to_owned(), bound));
    }
    let parts = JoinViewParts {
        columns,
        conditions,
        check: Vec::new(),
    };
    Ok(Some(ViewTables { block, parts }))
}

/// The table of a view of several tables that rows are inserted into, with the view's names for
/// its columns: that of the listed columns. Also returns the view's WITH CHECK OPTION. Errors 1393,
/// 1394, 1348, 1471.
pub(super) fn join_view_target(
    named: &ast::TableSource<'_>,
    listed: &[ast::Ident<'_>],
    cx: &PlanCx<'_>,
) -> Result<Option<(Source, Option<ViewCheck>)>> {
    let within = PlanCx {
        merging: ViewMerging::OneTable,
        ..*cx
    };
    let mut from = From::default();
    let Some((_, star)) = bind_join_view(named, &mut from, &within)? else {
        return Ok(None);
    };
    let carrier = from.scope.sources.first();
    let Some((carrier, view)) = carrier.and_then(|c| Some((c, c.view.clone()?))) else {
        return Ok(None);
    };
    if listed.is_empty() {
        let text = format!(
            "Can not insert into join view '{}.{}' without fields list",
            view.database, view.name
        );
        return Err(SqlError::new(1394, "HY000", text));
    }
    let mut target = None;
    for column in listed {
        let (_, at) = from.scope.resolve(None, None, column.name, "field list")?;
        cx.note_writes(carrier, [at], Privileges::INSERT);
        match view.base_column(at, 0) {
            Some((slot, _)) if target.is_some_and(|t| t != slot) => {
                return Err(several_tables(&view));
            }
            Some((slot, _)) => target = Some(slot),
            None => return Err(super::dml::not_updatable_column(column.name)),
        }
    }
    let base = target.and_then(|slot| from.scope.sources.get(slot));
    let Some(table) = base.and_then(Source::table) else {
        return Ok(None);
    };
    let mut source = Source::stored(table.clone(), Some(&carrier.alias));
    source.columns.iter_mut().for_each(|c| c.name.clear());
    source.use_index = if target == Some(0) {
        view.joined.flatten()
    } else {
        base.and_then(|b| b.use_index)
    };
    for (_, at) in star {
        let name = carrier.columns.get(at).map(|c| c.name.clone());
        if let (Some(name), Some((slot, column))) = (name, view.base_column(at, 0))
            && Some(slot) == target
            && let Some(column) = source.columns.get_mut(column)
            && column.name.is_empty()
        {
            column.name = name;
        }
    }
    let check = ViewCheck::of(&view, 0).map(|check| ViewCheck {
        slot: target.unwrap_or(0),
        ..check
    });
    Ok(Some((source, check)))
}

/// Error 1393: a statement changes several tables through one view.
pub(super) fn several_tables(view: &MergedView) -> SqlError {
    let text = format!(
        "Can not modify more than one base table through a join view '{}.{}'",
        view.database, view.name
    );
    SqlError::new(1393, "HY000", text)
}

fn bind_derived(derived: &ast::Derived<'_>, from: &mut From, cx: &PlanCx<'_>) -> Result<Source> {
    let plan = |cx: &PlanCx<'_>| plan_query(derived.query, cx);
    let (plan, free) = if derived.lateral {
        from.lateral(cx, plan)?
    } else {
        plan_nested(cx, plan)?
    };
    let mut columns = super::query::columns_of(&plan);
    name_columns(&mut columns, derived.columns)?;
    let rows = Arc::new(materialized(plan, columns, free));
    Ok(derived_source(rows, derived.alias.name.to_owned()))
}

fn bind_json_table(table: &ast::JsonTable<'_>, from: &mut From, cx: &PlanCx<'_>) -> Result<Source> {
    let (document, free) = from
        .lateral(cx, |cx| {
            let scope = Scope::default();
            cx.binder(&scope, "a table function argument")
                .expr(&table.doc)
        })
        .map_err(|error| unknown_argument(error, table, from, cx))?;
    let ty = &document.ty;
    if !matches!(ty.kind, Kind::Json | Kind::Null) && !is_document_text(ty) {
        return Err(SqlError::wrong_arguments("JSON_TABLE"));
    }
    let (rows, mut columns) = bind_columns(table, cx.env)?;
    name_columns(&mut columns, &[])?;
    let width = columns.len();
    let operator = TableOperator::JsonTable(Box::new(JsonTable {
        document,
        rows,
        width,
    }));
    let derived = Derived {
        rows: Box::new(operator),
        columns,
        free,
        references: References::default(),
    };
    Ok(derived_source(
        Arc::new(derived),
        table.alias.name.to_owned(),
    ))
}

/// The error of a document that names a column of a table which is not to the left: 1109 instead of
/// 1054.
fn unknown_argument(
    error: SqlError,
    table: &ast::JsonTable<'_>,
    from: &From,
    cx: &PlanCx<'_>,
) -> SqlError {
    let (1054, None, ast::ExprKind::Column(name)) = (error.code, cx.outer, &table.doc.kind) else {
        return error;
    };
    let Some(name) = name.table else {
        return error;
    };
    let mut known = from.scope.sources.iter();
    if known.any(|s| s.alias.eq_ignore_ascii_case(name.name)) {
        return error;
    }
    let text = format!("Unknown table '{}' in a table function argument", name.name);
    SqlError::new(1109, "42S02", text)
}

fn bind_join(
    left: Part,
    join: &Join<'_>,
    first: usize,
    from: &mut From,
    cx: &PlanCx<'_>,
) -> Result<Part> {
    let outside = std::mem::replace(&mut from.scope.first_visible, first);
    let before = from.scope.sources.len();
    let right = bind_factor(&join.right, from, cx)?;
    let right_join = join.kind == JoinKind::Right;
    if right_join {
        check_lateral(from, before, left.0.slots())?;
    }
    let mut conditions = Vec::new();
    let mut star = [left.1.as_slice(), right.1.as_slice()].concat();
    let common;
    let names: Option<Vec<&str>> = match (&join.condition, join.natural) {
        (JoinCondition::On(on), _) => {
            let on = cx.binder(&from.scope, "on clause").expr(on)?;
            split_conjuncts(on, &mut conditions);
            None
        }
        (JoinCondition::Using(names), _) => Some(names.iter().map(|n| n.name).collect()),
        (JoinCondition::None, true) => {
            common = common_names(from, &left.1, &right.1);
            Some(common.iter().map(String::as_str).collect())
        }
        (JoinCondition::None, false) => None,
    };
    if let Some(names) = names {
        let merged = merge_using_columns(from, (&left.1, &right.1), &names, right_join, cx)?;
        cx.note_merged(join, &from.scope, &merged.pairs);
        conditions.extend(merged.conditions);
        star = merged.star;
    }
    if cx.view.is_some() && cx.merging != ViewMerging::Plain {
        from.view_on.extend(conditions.iter().cloned());
    }
    from.scope.first_visible = outside;
    let (mut left, right) = (left.0, right.0);
    let block = match join.kind {
        JoinKind::Inner | JoinKind::Straight => {
            from.straight |= join.kind == JoinKind::Straight;
            left.join(right);
            left.conditions.extend(conditions);
            left
        }
        JoinKind::Left => {
            from.scope.set_nullable(right.slots());
            left.outers.push(OuterBlock {
                block: right,
                on: conditions,
            });
            left
        }
        JoinKind::Right => {
            from.scope.set_nullable(left.slots());
            let mut kept = right;
            kept.outers.push(OuterBlock {
                block: left,
                on: conditions,
            });
            kept
        }
    };
    Ok((block, star))
}

/// Checks that no table from slot `right` on reads one of the slots `left`, which a RIGHT JOIN joins to
/// it. Error 3668.
fn check_lateral(from: &From, right: usize, left: u64) -> Result<()> {
    let mut tables = from.scope.sources.iter().skip(right);
    let Some(source) = tables.find(|s| s.lateral_slots() & left != 0) else {
        return Ok(());
    };
    let text = format!(
        "INNER or LEFT JOIN must be used for LATERAL references made by '{}'",
        source.alias
    );
    Err(SqlError::new(3668, "HY000", text))
}

/// The name of a column in scope.
fn name_at(from: &From, (slot, column): ColumnRef) -> &str {
    from.scope.column(slot, column).map_or("", |c| &c.name)
}

/// Column names that both sides of a NATURAL JOIN have in `*`.
fn common_names(from: &From, left: &[ColumnRef], right: &[ColumnRef]) -> Vec<String> {
    let right: Vec<&str> = right.iter().map(|place| name_at(from, *place)).collect();
    let mut names: Vec<String> = Vec::new();
    for place in left {
        let name = name_at(from, *place);
        if right.iter().any(|r| r.eq_ignore_ascii_case(name)) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The INVISIBLE column of this name, which USING may name, in the tables of a side.
fn invisible_column(from: &From, side: &[ColumnRef], name: &str) -> Option<ColumnRef> {
    side.iter().find_map(|(slot, _)| {
        let table = from.scope.sources.get(*slot)?.table()?;
        let at = table.column(name)?;
        let column = table.columns.get(at)?;
        column.invisible.then_some((*slot, at))
    })
}

/// The columns of a join by USING or NATURAL JOIN.
struct MergedColumns {
    /// The columns of `*`.
    star: Vec<ColumnRef>,
    /// The equalities.
    conditions: Vec<Expr>,
    /// The columns of both sides that are merged.
    pairs: Vec<(ColumnRef, ColumnRef)>,
}

/// Merges columns of both sides by name. Returns the columns of `*`: the merged columns first, then
/// the rest of either side.
fn merge_using_columns(
    from: &mut From,
    (left, right): (&[ColumnRef], &[ColumnRef]),
    names: &[&str],
    right_join: bool,
    cx: &PlanCx<'_>,
) -> Result<MergedColumns> {
    let mut conditions = Vec::with_capacity(names.len());
    let mut common: Vec<(ColumnRef, ColumnRef)> = Vec::with_capacity(names.len());
    for name in names {
        let find = |side: &[ColumnRef]| -> Result<ColumnRef> {
            let mut found = side
                .iter()
                .filter(|p| name_at(from, **p).eq_ignore_ascii_case(name));
            match (found.next(), found.next()) {
                (Some(place), None) => Ok(*place),
                (Some(_), Some(_)) => Err(SqlError::ambiguous(name, "from clause")),
                (None, _) => invisible_column(from, side, name)
                    .ok_or_else(|| SqlError::unknown_column(name, "from clause")),
            }
        };
        let (l, r) = (find(left)?, find(right)?);
        let binder = cx.binder(&from.scope, "from clause");
        conditions.push(compare(
            CmpOp::Eq,
            binder.column_at(l.0, l.1),
            binder.column_at(r.0, r.1),
        )?);
        common.push((l, r));
    }
    // The merged column is that of the preserved side, which no outer join sets to NULL.
    for (l, r) in &common {
        from.scope
            .merged_columns
            .push(if right_join { *l } else { *r });
    }
    // The merged columns in the order of the first side.
    let (first, second) = if right_join {
        (right, left)
    } else {
        (left, right)
    };
    let joined = |p: &ColumnRef| common.iter().any(|(l, r)| l == p || r == p);
    let mut star_columns: Vec<ColumnRef> = first.iter().copied().filter(|p| joined(p)).collect();
    let invisible = common.iter().map(|(l, r)| if right_join { *r } else { *l });
    star_columns.extend(invisible.filter(|p| !first.contains(p)));
    star_columns.extend(first.iter().copied().filter(|p| !joined(p)));
    star_columns.extend(second.iter().copied().filter(|p| !joined(p)));
    Ok(MergedColumns {
        star: star_columns,
        conditions,
        pairs: common,
    })
}
