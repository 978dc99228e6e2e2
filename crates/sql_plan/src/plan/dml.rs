//! Plans of single-table UPDATE and DELETE, and what they share with INSERT: assignments and the
//! target table.

use super::access::AccessPlanner;
use super::finish::result_operator;
use super::generated::use_generated_columns_of;
use super::physical::{ResultOperator, RowOperator};
use super::placement::{set_change_placement, set_named_partitions};
use super::query::with_ctes;
use super::scan::{LockSpec, LockWait, Scan, ScanMode};
use super::select::{PlanCx, limits, split_conjuncts};
use super::sinks::{Change, ChangeKind, NewValue, Target, Targets, ViewCheck};
use super::{OrderKey, QueryPlan};
use crate::bind::hints::Hints;
use crate::bind::nodes::numeric_operand;
use crate::bind::{Scope, Source};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::expr::expiry::live_row;
use crate::parse::ast::{
    self, Assignment, Delete, Limit, OrderItem, TableFactor, TableRef, Update,
};
use porpoise_access::Privileges;
use porpoise_kv::LockMode;
use porpoise_rows::catalog::Table;
use std::sync::Arc;

/// Error 3105: a generated column can only be set to DEFAULT.
pub(super) fn check_settable(table: &Table, column: usize, value: NewValue) -> Result<NewValue> {
    let given = matches!(value, NewValue::Expr(_));
    match given.then(|| table.columns.get(column)).flatten() {
        Some(c) if c.generated.is_some() => Err(generated_value(table, &c.name)),
        _ => Ok(value),
    }
}

pub(super) fn generated_value(table: &Table, column: &str) -> SqlError {
    let text = format!(
        "The value specified for generated column '{column}' in table '{}' is not allowed.",
        table.name
    );
    SqlError::new(3105, "HY000", text)
}

/// Error 1395: rows of several tables cannot be deleted through a view.
pub(super) fn join_view_delete(database: &str, view: &str) -> SqlError {
    let text = format!("Can not delete from join view '{database}.{view}'");
    SqlError::new(1395, "HY000", text)
}

/// Error 1348: the column of a view is an expression.
pub(super) fn not_updatable_column(name: &str) -> SqlError {
    let text = format!("Column '{name}' is not updatable");
    SqlError::new(1348, "HY000", text)
}

/// The stored table of a source, if it can be changed.
pub(super) fn target_table(source: &Source) -> Result<Arc<Table>> {
    let table = source.table().cloned();
    table.ok_or_else(|| SqlError::internal("rows of no table are changed"))
}

/// The WITH CHECK OPTION of the view that a statement writes through, if it has one. `slot` is the source's.
pub(super) fn view_check_of(source: &Source, slot: usize) -> Option<ViewCheck> {
    let view = source.view.as_ref()?;
    ViewCheck::of(view, slot)
}

pub(super) fn new_value(
    e: &ast::Expr<'_>,
    binder: &mut crate::bind::Binder<'_>,
) -> Result<NewValue> {
    match &e.kind {
        ast::ExprKind::Default => Ok(NewValue::Default),
        _ => binder.expr(e).map(NewValue::Expr),
    }
}

pub(super) fn bind_assignments(
    assignments: &[Assignment<'_>],
    table: &Table,
    scope: &Scope,
    cx: &PlanCx<'_>,
    values_allowed: bool,
) -> Result<Vec<(usize, NewValue)>> {
    let mut set = Vec::with_capacity(assignments.len());
    let own = Scope {
        sources: scope.sources.iter().take(1).cloned().collect(),
        ..Scope::default()
    };
    for assignment in assignments {
        let name = &assignment.column;
        let schema = name.schema.map(|s| s.name);
        let alias = name.table.map(|t| t.name);
        let (_, column) = own.resolve(schema, alias, name.name.name, "field list")?;
        if own.computed_at(0, column).is_some() {
            return Err(not_updatable_column(name.name.name));
        }
        if column >= table.columns.len() {
            return Err(SqlError::unknown_column(name.name.name, "field list"));
        }
        let mut binder = cx.binder(scope, "field list");
        binder.values_allowed = values_allowed;
        let value = new_value(&assignment.value, &mut binder)?;
        set.push((column, check_settable(table, column, value)?));
    }
    Ok(set)
}

/// Whether the statement updates a single table without a join, named or in a view.
pub(super) fn of_one_table(update: &Update<'_>, cx: &PlanCx<'_>) -> bool {
    match update.tables {
        [
            TableRef {
                first: TableFactor::Table(named),
                joins: [],
            },
        ] => !cx.is_join_view(&named.name),
        _ => false,
    }
}

/// Plans UPDATE of one table.
pub(super) fn plan_update(update: &Update<'_>, cx: &PlanCx<'_>) -> Result<Change> {
    let [
        TableRef {
            first: TableFactor::Table(named),
            joins: [],
        },
    ] = update.tables
    else {
        return Err(SqlError::internal("an UPDATE of several tables"));
    };
    with_ctes(update.with, cx, |cx| {
        let selection = RowSelection {
            filter: update.filter.as_ref(),
            order_by: update.order_by,
            limit: update.limit,
        };
        let (input, mut target, source) =
            plan_target(named, "UPDATE", selection, LockMode::Update, cx)?;
        let scope = Scope::of(source);
        target.set = bind_assignments(update.set, &target.table, &scope, cx, false)?;
        let source = scope.sources.first();
        let columns = target.set.iter().map(|(column, _)| *column);
        source.inspect(|source| cx.note_writes(source, columns, Privileges::UPDATE));
        target.check = source.and_then(|source| view_check_of(source, 0));
        let change = Change {
            kind: ChangeKind::Update,
            input,
            targets: Targets::Immediate(target),
            ignore: update.ignore,
        };
        Ok(finish_change(change, cx))
    })
}

/// Plans DELETE from one table.
pub(super) fn plan_delete(
    delete: &Delete<'_>,
    named: &ast::TableSource<'_>,
    cx: &PlanCx<'_>,
) -> Result<Change> {
    with_ctes(delete.with, cx, |cx| {
        let selection = RowSelection {
            filter: delete.filter.as_ref(),
            order_by: delete.order_by,
            limit: delete.limit,
        };
        let (input, target, _) = plan_target(named, "DELETE", selection, LockMode::Exclusive, cx)?;
        let change = Change {
            kind: ChangeKind::Delete,
            input,
            targets: Targets::Immediate(target),
            ignore: delete.ignore,
        };
        Ok(finish_change(change, cx))
    })
}

/// Fills in what depends on the whole plan.
fn finish_change(mut change: Change, cx: &PlanCx<'_>) -> Change {
    change.input.find_subqueries();
    set_change_placement(&mut change.input, change.targets.all());
    change.input.nested_tables = cx.reads.tables.take();
    change
}

/// The clauses of an UPDATE or DELETE that select its rows.
struct RowSelection<'q, 'a> {
    filter: Option<&'q ast::Expr<'a>>,
    order_by: &'q [OrderItem<'a>],
    limit: Option<&'q Limit<'a>>,
}

/// The rows of the table that a statement changes, and the table as it names it.
fn plan_target(
    named: &ast::TableSource<'_>,
    verb: &str,
    selection: RowSelection<'_, '_>,
    mode: LockMode,
    cx: &PlanCx<'_>,
) -> Result<(QueryPlan, Target, Source)> {
    let mut source = cx.target_source(&named.name, named.alias.map(|a| a.name), verb)?;
    let wanted = match mode {
        LockMode::Update => Privileges::UPDATE,
        _ => Privileges::DELETE,
    };
    cx.reads.uses.require(source.use_index, wanted);
    let table = target_table(&source)?;
    set_named_partitions(&mut source, named.partitions)?;
    let scope = Scope::of(source.clone());
    let view = source.view.as_ref();
    let mut conditions = view.map_or_else(Vec::new, |v| v.conditions_at(0));
    conditions.extend(live_row(&table, 0));
    if let Some(filter) = selection.filter {
        split_conjuncts(
            cx.binder(&scope, "where clause").condition(filter)?,
            &mut conditions,
        );
    }
    super::zero_dates::find_by_null(&mut conditions, &scope)?;
    let mut keys = Vec::with_capacity(selection.order_by.len());
    for item in selection.order_by {
        keys.push(OrderKey {
            expr: numeric_operand(&cx.binder(&scope, "order clause").expr(&item.expr)?),
            desc: item.desc,
        });
    }
    let (limit, _) = limits(selection.limit, cx)?;
    use_generated_columns_of(&source, &mut conditions, &mut keys, cx.statistics);
    let narrowing: Vec<&Expr> = conditions.iter().collect();
    source.hints = Hints::of_source(&source, named.hints)?;
    let mut planner = AccessPlanner::new(&table, 0, &narrowing, &source.hints, cx.statistics);
    planner.order = &keys;
    let path = planner.cheapest_path(limit.is_some());
    let estimate = planner.estimate(&path);
    if path.ordered {
        keys = Vec::new();
    }
    let (constant, filter) = conditions
        .into_iter()
        .partition(|c| c.slots() == 0 && c.is_fixed());
    let wait = LockWait::Wait;
    let scan = Scan {
        filter,
        mode: ScanMode::Locked(LockSpec { mode, wait }),
        estimate,
        ..Scan::new(0, path.access)
    };
    let rows = RowOperator::Scan(Box::new(scan)).with_one_time_filter(constant);
    let mut root = result_operator(rows, keys, None, true);
    if limit.is_some() {
        root = ResultOperator::with_limit(limit, None, root);
    }
    let target = Target {
        slot: 0,
        table,
        set: Vec::new(),
        check: None,
    };
    let input = QueryPlan::new(vec![source.clone()], Vec::new(), root);
    Ok((input, target, source))
}
