//! From UPDATE and DELETE of one table to their plans, and what they share with
//! INSERT: assignments, and the table that is changed.

use super::access::AccessPlanner;
use super::placement::{chosen, settle_target};
use super::scan::{Busy, LockSpec, Scan, ScanMode};
use super::select::{PlanCx, limits, split};
use super::{OrderKey, QueryPlan};
use crate::bind::hints::Hints;
use crate::bind::nodes::numeric_operand;
use crate::bind::{Scope, Source};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::parse::ast::{
    self, Assignment, Delete, DeleteTarget, Limit, OrderItem, TableFactor, TableRef, Update,
};
use porpoise_access::Privileges;
use porpoise_kv::LockMode;
use porpoise_rows::InsertMode;
use porpoise_rows::catalog::Table;
use std::sync::Arc;

/// A value of an INSERT or of an assignment.
#[derive(Clone, Debug)]
pub enum NewValue {
    /// Computed.
    Expr(Expr),
    /// DEFAULT.
    Default,
}

/// INSERT and REPLACE.
#[derive(Clone, Debug)]
pub struct InsertPlan {
    /// The table.
    pub table: Arc<Table>,
    /// Positions of the columns given, in the order of the values.
    pub columns: Vec<usize>,
    /// The rows of VALUES.
    pub rows: Vec<Vec<NewValue>>,
    /// The query that gives the rows instead. Values behind those of `columns` are those of
    /// `beside`.
    pub source: Option<Box<QueryPlan>>,
    /// Treatment of rows whose key exists.
    pub mode: InsertMode,
    /// ON DUPLICATE KEY UPDATE: positions and values, over the row that is there as slot 0.
    /// Slot 1 is the new row, or the slots from 1 on are the tables of `source`.
    pub on_duplicate: Vec<(usize, NewValue)>,
    /// Columns of the tables of `source` that `on_duplicate` names: slots there, and columns.
    pub beside: Vec<(usize, usize)>,
    /// PARTITION (names): rows must belong there.
    pub partitions: Option<Arc<[usize]>>,
    /// The table as the statement names it.
    pub named: Source,
    /// Conditions on new rows: the view's WITH CHECK OPTION.
    pub check: Option<ViewCheck>,
    /// Columns that are not given may have an expression as default.
    pub default_expressions: bool,
    /// Stored tables that queries inside read.
    pub inner_tables: Vec<Arc<Table>>,
}

/// WITH CHECK OPTION.
#[derive(Clone, Debug)]
pub struct ViewCheck {
    /// The view, for messages.
    pub name: String,
    /// Over the row as slot 0; all must be true.
    pub conditions: Vec<Expr>,
}

/// The rows that an UPDATE or DELETE is about.
#[derive(Clone, Debug)]
pub struct Target {
    /// The table, as slot 0.
    pub source: Source,
    /// The table.
    pub table: Arc<Table>,
    /// The scan that finds and locks its rows.
    pub scan: Scan,
    /// Conditions on no column.
    pub constant: Vec<Expr>,
    /// ORDER BY, where the access path does not give it.
    pub order_by: Vec<OrderKey>,
    /// LIMIT.
    pub limit: Option<Expr>,
}

/// UPDATE of one table.
#[derive(Clone, Debug)]
pub struct UpdatePlan {
    /// Which rows.
    pub target: Target,
    /// Positions and values, in the order of the text.
    pub set: Vec<(usize, NewValue)>,
    /// IGNORE.
    pub ignore: bool,
    /// Conditions on changed rows: the view's WITH CHECK OPTION.
    pub check: Option<ViewCheck>,
    /// Stored tables that queries inside read.
    pub inner_tables: Vec<Arc<Table>>,
}

/// DELETE from one table.
#[derive(Clone, Debug)]
pub struct DeletePlan {
    /// Which rows.
    pub target: Target,
    /// IGNORE.
    pub ignore: bool,
    /// Stored tables that queries inside read.
    pub inner_tables: Vec<Arc<Table>>,
}

/// 3105: only DEFAULT can be given for a generated column.
pub(super) fn settable(table: &Table, column: usize, value: NewValue) -> Result<NewValue> {
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

/// The table of a source that can be changed.
pub(super) fn stored(source: &Source) -> Result<Arc<Table>> {
    let table = source.table().cloned();
    table.ok_or_else(|| SqlError::internal("rows of no table are changed"))
}

/// WITH CHECK OPTION of the view that a statement writes through.
pub(super) fn check_of(source: &Source) -> Option<ViewCheck> {
    let view = source.view.as_ref().filter(|v| !v.check.is_empty())?;
    Some(ViewCheck {
        name: format!("{}.{}", view.database, view.name),
        conditions: view.check.clone(),
    })
}

pub(super) fn new_value(
    e: &ast::Expr<'_>,
    binder: &mut crate::bind::Binder<'_>,
) -> Result<NewValue> {
    match &e.kind {
        ast::ExprKind::Default => Ok(NewValue::Default),
        ast::ExprKind::DefaultOf(_) => Ok(NewValue::Default),
        _ => binder.expr(e).map(NewValue::Expr),
    }
}

pub(super) fn assigned(
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
        if column >= table.columns.len() {
            return Err(SqlError::unknown_column(name.name.name, "field list"));
        }
        let mut binder = cx.binder(scope, "field list");
        binder.values_allowed = values_allowed;
        let value = new_value(&assignment.value, &mut binder)?;
        set.push((column, settable(table, column, value)?));
    }
    Ok(set)
}

/// Whether it is about one table without a join.
pub fn of_one_table(update: &Update<'_>) -> bool {
    matches!(
        update.tables,
        [TableRef {
            first: TableFactor::Table(_),
            joins: [],
        }]
    )
}

/// Plans UPDATE.
pub fn plan_update(update: &Update<'_>, cx: &PlanCx<'_>) -> Result<UpdatePlan> {
    match update.with {
        Some(with) => {
            let ctes = super::query::entries(with, cx)?;
            update_one(update, &PlanCx { ctes: &ctes, ..*cx })
        }
        None => update_one(update, cx),
    }
}

fn update_one(update: &Update<'_>, cx: &PlanCx<'_>) -> Result<UpdatePlan> {
    let [
        TableRef {
            first: TableFactor::Table(source),
            joins: [],
        },
    ] = update.tables
    else {
        return Err(SqlError::internal("an UPDATE of several tables"));
    };
    let (mut target, scope) = target(
        source,
        "UPDATE",
        (update.filter.as_ref(), update.order_by, update.limit),
        LockMode::Update,
        cx,
    )?;
    let set = assigned(update.set, &target.table, &scope, cx, false)?;
    let columns = set.iter().map(|(column, _)| *column);
    cx.note_writes(&target.source, columns, Privileges::UPDATE);
    let check = check_of(&target.source);
    target.settle(&set, check.as_ref());
    Ok(UpdatePlan {
        target,
        set,
        check,
        ignore: update.ignore,
        inner_tables: cx.reads.tables.take(),
    })
}

/// Plans DELETE.
pub fn plan_delete(delete: &Delete<'_>, cx: &PlanCx<'_>) -> Result<DeletePlan> {
    match delete.with {
        Some(with) => {
            let ctes = super::query::entries(with, cx)?;
            delete_one(delete, &PlanCx { ctes: &ctes, ..*cx })
        }
        None => delete_one(delete, cx),
    }
}

fn delete_one(delete: &Delete<'_>, cx: &PlanCx<'_>) -> Result<DeletePlan> {
    let DeleteTarget::One(source) = &delete.target else {
        return Err(SqlError::internal("a DELETE from several tables"));
    };
    let (mut target, _) = target(
        source,
        "DELETE",
        (delete.filter.as_ref(), delete.order_by, delete.limit),
        LockMode::Exclusive,
        cx,
    )?;
    target.settle(&[], None);
    Ok(DeletePlan {
        target,
        ignore: delete.ignore,
        inner_tables: cx.reads.tables.take(),
    })
}

/// WHERE, ORDER BY and LIMIT of a changing statement.
type Which<'q, 'a> = (
    Option<&'q ast::Expr<'a>>,
    &'q [OrderItem<'a>],
    Option<&'q Limit<'a>>,
);

fn target(
    named: &ast::TableSource<'_>,
    verb: &str,
    (filter, order, limit): Which<'_, '_>,
    mode: LockMode,
    cx: &PlanCx<'_>,
) -> Result<(Target, Scope)> {
    let mut source = cx.changeable(&named.name, named.alias.map(|a| a.name), verb)?;
    let wanted = match mode {
        LockMode::Update => Privileges::UPDATE,
        _ => Privileges::DELETE,
    };
    cx.reads.uses.want(source.named, wanted);
    let table = &stored(&source)?;
    source.partitions = chosen(table, named.partitions)?;
    let mut scope = Scope::default();
    scope.add(source.clone())?;
    let view = source.view.as_ref();
    let mut conditions = view.map_or_else(Vec::new, |v| v.conditions_at(0));
    if let Some(filter) = filter {
        split(
            cx.binder(&scope, "where clause").expr(filter)?,
            &mut conditions,
        );
    }
    let mut keys = Vec::with_capacity(order.len());
    for item in order {
        keys.push(OrderKey {
            expr: numeric_operand(&cx.binder(&scope, "order clause").expr(&item.expr)?),
            desc: item.desc,
        });
    }
    let (limit, _) = limits(limit, cx)?;
    let narrowing: Vec<&Expr> = conditions.iter().collect();
    source.hints = Hints::of(table, &source.alias, named.hints)?;
    let mut planner = AccessPlanner::new(table, 0, &narrowing, &source.hints, cx.figures);
    planner.order = &keys;
    let path = planner.best(limit.is_some());
    let estimate = planner.estimate(&path);
    let ordered = path.ordered;
    let (constant, filter) = conditions
        .into_iter()
        .partition(|c| c.slots() == 0 && c.is_fixed());
    let target = Target {
        source,
        table: table.clone(),
        scan: Scan {
            filter,
            mode: ScanMode::Locked(LockSpec {
                mode,
                busy: Busy::Wait,
            }),
            estimate,
            ..Scan::new(0, path.access)
        },
        constant,
        order_by: if ordered { Vec::new() } else { keys },
        limit,
    };
    Ok((target, scope))
}

impl Target {
    /// Fills in partitions and large values, given the assignments.
    fn settle(&mut self, set: &[(usize, NewValue)], check: Option<&ViewCheck>) {
        let mut order: Vec<&Expr> = self.order_by.iter().map(|k| &k.expr).collect();
        order.extend(check.into_iter().flat_map(|c| &c.conditions));
        settle_target(&mut self.scan, &self.source, &order, set);
    }

    /// Whether it looks at more than whole unique keys.
    pub fn scans_ranges(&self) -> bool {
        !self.scan.is_point_lookup()
    }
}

/// Tables that are only read.
fn read(tables: &[Arc<Table>]) -> impl Iterator<Item = (Arc<Table>, bool)> {
    tables.iter().map(|t| (t.clone(), false))
}

impl InsertPlan {
    /// The stored tables it uses, and whether it writes them.
    pub fn tables(&self) -> Vec<(Arc<Table>, bool)> {
        let mut tables = vec![(self.table.clone(), true)];
        if let Some(source) = &self.source {
            tables.extend(source.tables());
        }
        tables.extend(read(&self.inner_tables));
        tables
    }

    /// Whether it looks at more than whole unique keys.
    pub fn scans_ranges(&self) -> bool {
        self.source.is_some() || !self.inner_tables.is_empty()
    }

    /// Whether it reads stored rows without locking them.
    pub fn reads_unlocked(&self) -> bool {
        let source = self.source.as_ref();
        !self.inner_tables.is_empty() || source.is_some_and(|p| p.reads_unlocked())
    }
}

impl UpdatePlan {
    /// The stored tables it uses, and whether it writes them.
    pub fn tables(&self) -> Vec<(Arc<Table>, bool)> {
        let mut tables = vec![(self.target.table.clone(), true)];
        tables.extend(read(&self.inner_tables));
        tables
    }

    /// Whether it looks at more than whole unique keys.
    pub fn scans_ranges(&self) -> bool {
        self.target.scans_ranges() || !self.inner_tables.is_empty()
    }
}

impl DeletePlan {
    /// The stored tables it uses, and whether it writes them.
    pub fn tables(&self) -> Vec<(Arc<Table>, bool)> {
        let mut tables = vec![(self.target.table.clone(), true)];
        tables.extend(read(&self.inner_tables));
        tables
    }

    /// Whether it looks at more than whole unique keys.
    pub fn scans_ranges(&self) -> bool {
        self.target.scans_ranges() || !self.inner_tables.is_empty()
    }
}
