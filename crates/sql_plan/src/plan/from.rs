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
use super::placement::named_partitions;
use super::query::{derived_source, name_columns, plan_lateral, plan_nested, plan_query};
use super::scan::LockSpec;
use super::select::PlanCx;
use super::semi::SemiJoin;
use crate::bind::hints::Hints;
use crate::bind::json_table::{JsonTable, bind_columns};
use crate::bind::nodes::compare;
use crate::bind::{Scope, Source};
use crate::error::{Result, SqlError};
use crate::expr::json::is_document_text;
use crate::expr::query::FreeRef;
use crate::expr::{CmpOp, Expr, ExprKind};
use crate::parse::ast::{self, Join, JoinCondition, JoinKind, TableFactor, TableRef};
use crate::plan::derived::{Derived, References, TableOperator, materialized};
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
        let slot = self.scope.add(source)?;
        let block = Block {
            tables: vec![slot],
            conditions: view.map_or_else(Vec::new, |v| v.conditions_at(slot)),
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
            let alias = source.alias.map(|a| a.name);
            let mut found = cx.source(&source.name, alias)?;
            if let Some(table) = found.table() {
                let hints = Hints::of(table, &found.alias, source.hints)?;
                found.partitions = named_partitions(table, source.partitions)?;
                found.hints = hints;
            } else if !source.partitions.is_empty() {
                let text = "PARTITION () clause on non partitioned table";
                return Err(SqlError::new(1747, "HY000", text));
            }
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
        is_shared: false,
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
            common = common_names(from, &left.1, before);
            Some(common.iter().map(String::as_str).collect())
        }
        (JoinCondition::None, false) => None,
    };
    if let Some(names) = names {
        star = merge_using_columns(
            from,
            &left.1,
            &right.1,
            &names,
            right_join,
            cx,
            &mut conditions,
        )?;
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

/// Column names that both sides of a NATURAL JOIN have.
fn common_names(from: &From, left: &[ColumnRef], before: usize) -> Vec<String> {
    let right = from.scope.sources.iter().skip(before);
    let right: Vec<&str> = right
        .flat_map(|s| s.columns.iter().map(|c| c.name.as_str()))
        .collect();
    let mut names: Vec<String> = Vec::new();
    for place in left {
        let name = name_at(from, *place);
        if right.iter().any(|r| r.eq_ignore_ascii_case(name)) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Merges columns of both sides by name. Returns the columns of `*`: the merged columns first, then
/// the rest of either side.
fn merge_using_columns(
    from: &mut From,
    left: &[ColumnRef],
    right: &[ColumnRef],
    names: &[&str],
    right_join: bool,
    cx: &PlanCx<'_>,
    conditions: &mut Vec<Expr>,
) -> Result<Vec<ColumnRef>> {
    let mut common: Vec<(ColumnRef, ColumnRef)> = Vec::with_capacity(names.len());
    for name in names {
        let find = |side: &[ColumnRef]| -> Result<ColumnRef> {
            let mut found = side
                .iter()
                .filter(|p| name_at(from, **p).eq_ignore_ascii_case(name));
            match (found.next(), found.next()) {
                (Some(place), None) => Ok(*place),
                (Some(_), Some(_)) => Err(SqlError::ambiguous(name, "from clause")),
                (None, _) => Err(SqlError::unknown_column(name, "from clause")),
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
    star_columns.extend(first.iter().copied().filter(|p| !joined(p)));
    star_columns.extend(second.iter().copied().filter(|p| !joined(p)));
    Ok(star_columns)
}
