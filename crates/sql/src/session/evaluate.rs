//! Evaluation of expressions outside of queries: SET, DO, KILL.
//!
//! An expression without subqueries is evaluated directly. One with subqueries is executed as
//! `SELECT expr`, with the transaction rules of any other query.

use super::{Outcome, SqlSession};
use bumpalo::Bump;
use porpoise_rows::catalog::Catalog;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::eval::{Env, EvalCx, load_value};
use porpoise_sql_expr::expr::{Expr, convert, load_of};
use porpoise_sql_parser::ast;
use porpoise_sql_plan::bind::Scope;
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_sql_plan::plan::select::{NestedReads, PlanCx};
use porpoise_sql_plan::plan::sinks::Plan;
use porpoise_sql_plan::plan::uses::TableUse;
use porpoise_sql_plan::plan::{QueryPlan, ResultColumn};
use porpoise_types::{CastCx, ColumnType, Kind, Value, ValueRef, store};
use std::borrow::Cow;
use std::sync::Arc;

/// The destination of a value: a variable or a parameter of a program, or the result of a function.
#[derive(Clone, Copy)]
pub(super) struct Assigned<'a> {
    pub(super) name: &'a str,
    pub(super) ty: &'a ColumnType,
    /// Whether it is the result of a function.
    pub(super) is_result: bool,
}

impl Assigned<'_> {
    /// Converts a value of some type as an assignment to a column does.
    pub(super) fn convert(&self, env: &Env, value: Value, from: &ColumnType) -> Result<Value> {
        if is_unchanged(&value, from, self.ty) {
            return Ok(value);
        }
        let name = if self.is_result {
            Cow::Owned(format!("{}()", self.name))
        } else {
            Cow::Borrowed(self.name)
        };
        converted(env, &value, from, self.ty, &name)
    }
}

/// A sink for a result of a single value.
#[derive(Default)]
pub(super) struct SingleValue<'a> {
    pub(super) value: Value,
    /// Type of the value in the result, and its destination. The value is converted before the statement
    /// ends, so that a value that does not fit undoes what the functions that it calls have written.
    pub(super) assigned: Option<(&'a ColumnType, Assigned<'a>)>,
}

impl ResultSink for SingleValue<'_> {
    fn is_for_client(&self) -> bool {
        false
    }

    fn columns(&mut self, _: &[ResultColumn]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        if let Some(value) = values.first() {
            self.value = ValueRef::to_owned(*value);
        }
        Ok(())
    }

    fn complete(&mut self, env: &Env) -> Result<()> {
        if let Some((from, to)) = &self.assigned {
            self.value = to.convert(env, std::mem::take(&mut self.value), from)?;
        }
        Ok(())
    }
}

/// Converts a value to the form that a column stores, as an assignment to the column does.
pub(super) fn stored(
    env: &Env,
    value: &Value,
    from: &ColumnType,
    to: &ColumnType,
    name: &str,
) -> Result<Value> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    let mut warn = |w| env.warn(w);
    let mut cx = CastCx {
        mode: env.mode,
        strict: env.mode.is_strict(),
        warnings: &mut warn,
        tz: &env.time_zone,
        now: env.day_of(value.as_ref()),
    };
    let (value, from) = convert::for_assignment(value.as_ref(), from, to);
    let stored = store(value, Some(from), to, name, 1, &mut cx)?;
    Ok(stored.to_owned())
}

/// Converts a value as an assignment to a column does, to the form in which statements read it.
pub(super) fn converted(
    env: &Env,
    value: &Value,
    from: &ColumnType,
    to: &ColumnType,
    name: &str,
) -> Result<Value> {
    let stored = stored(env, value, from, to, name)?;
    if stored.is_null() {
        return Ok(Value::Null);
    }
    let arena = Bump::new();
    let cx = env_cx(env, &arena, &[]);
    Ok(load_value(stored.as_ref(), load_of(to), to, &cx)?.to_owned())
}

/// The context of an evaluation outside of queries.
pub(super) fn env_cx<'a>(env: &'a Env, arena: &'a Bump, params: &'a [ValueRef<'a>]) -> EvalCx<'a> {
    EvalCx {
        arena,
        env,
        params,
        aggregates: &[],
        new_row: &[],
        outer: None,
        queries: None,
    }
}

/// Whether a variable of type `to` has the same value as an expression of type `from`, so that
/// [`store`] need not be asked. False for most types, whose values it checks.
pub(super) fn is_unchanged(value: &Value, from: &ColumnType, to: &ColumnType) -> bool {
    let bits = to.kind.int_bits();
    match value {
        Value::Null => true,
        Value::Int(value) if bits > 0 && !to.unsigned => {
            let dropped = 64 - bits;
            value << dropped >> dropped == *value
        }
        Value::UInt(value) if bits > 0 && to.unsigned => value.unbounded_shr(bits) == 0,
        Value::Bytes(bytes) if to.kind == Kind::VarChar => {
            from.is_string()
                && from.collation.charset() == to.collation.charset()
                && bytes.len() <= to.length as usize
        }
        _ => false,
    }
}

impl SqlSession {
    /// Evaluates an expression, which may contain subqueries.
    pub(crate) fn value_of(
        &mut self,
        e: &ast::Expr<'_>,
        params: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<(Value, ColumnType)> {
        self.assigned_value_of(e, params, types, None)
    }

    /// As [`Self::value_of`]. If a query computes the value, and it has a destination, it is converted to the type of
    /// the destination, which is then the returned type.
    pub(super) fn assigned_value_of(
        &mut self,
        e: &ast::Expr<'_>,
        params: &[ValueRef<'_>],
        types: &[ColumnType],
        to: Option<Assigned<'_>>,
    ) -> Result<(Value, ColumnType)> {
        if !e.has_subquery() {
            let bound = self.cx.bind(e, types)?;
            if !bound.has_subquery() {
                return self.cx.evaluate_bound(&bound, params);
            }
        }
        let (planned, ty) = self.planned_value(e, types)?;
        let mut one = SingleValue {
            value: Value::Null,
            assigned: to.map(|to| (&ty, to)),
        };
        self.run_plan(&planned, params, &mut one)?;
        let value = one.value;
        Ok((value, to.map_or(ty, |to| to.ty.clone())))
    }

    /// Executes DO.
    pub(super) fn do_list(
        &mut self,
        list: &[ast::Expr<'_>],
        text: &[u8],
        values: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<Outcome> {
        // Aggregates and window functions need a query.
        let needs_query = |e: &ast::Expr<'_>| {
            let bound = self.cx.bind(e, types);
            bound.is_err_and(|e| matches!(e.code, 1111 | 3593))
        };
        if list.iter().any(needs_query) {
            self.do_query(list, text, values, types)?;
            return Ok(Outcome::default());
        }
        for e in list {
            self.value_of(e, values, types)?;
        }
        Ok(Outcome::default())
    }

    /// Runs `SELECT list` without its result.
    fn do_query(
        &mut self,
        list: &[ast::Expr<'_>],
        text: &[u8],
        values: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<Outcome> {
        let items = list.iter().map(|e| ast::SelectItem::Expr {
            expr: *e,
            alias: None,
            span: e.span,
        });
        let items: Vec<ast::SelectItem<'_>> = items.collect();
        let span = list.first().map(|e| e.span).unwrap_or_default();
        let select = ast::Select {
            options: ast::SelectOptions::default(),
            items: &items,
            from: &[],
            filter: None,
            group_by: &[],
            rollup: false,
            having: None,
            windows: &[],
            span,
        };
        let query = ast::Query {
            with: None,
            body: ast::QueryBody::Select(&select),
            order_by: &[],
            limit: None,
            locks: &[],
            into: None,
            span,
        };
        let statement = ast::Statement::Query(&query);
        self.run_statement(&statement, text, values, types, &mut SingleValue::default())
    }

    /// The plan of an expression as a query, whose tables are published.
    fn planned_value(
        &mut self,
        e: &ast::Expr<'_>,
        types: &[ColumnType],
    ) -> Result<(Arc<Planned>, ColumnType)> {
        let mut ty = ColumnType::null();
        let planned = self.plan_and_lock(|session, catalog| {
            let (planned, found) = session.plan_value(e, types, catalog)?;
            ty = found;
            Ok(planned)
        })?;
        Ok((planned, ty))
    }

    /// The plan of an expression as a query, and its type.
    pub(super) fn plan_value(
        &self,
        e: &ast::Expr<'_>,
        types: &[ColumnType],
        catalog: &Catalog,
    ) -> Result<(Arc<Planned>, ColumnType)> {
        let (plan, ty, uses) = self.plan_select_of(e, types, catalog)?;
        let mut planned = Planned::new(Plan::Select(plan), uses);
        planned.runs_programs = self.cx.planning.calls_functions.get();
        Ok((Arc::new(planned), ty))
    }

    /// The plan of `SELECT e`, its type, and the tables that it uses.
    fn plan_select_of(
        &self,
        e: &ast::Expr<'_>,
        types: &[ColumnType],
        catalog: &Catalog,
    ) -> Result<(QueryPlan, ColumnType, Box<[TableUse]>)> {
        self.cx.planning.calls_functions.set(false);
        let env = self.cx.bind_env(types.to_vec());
        let reads = NestedReads::default();
        let cx = PlanCx::new(catalog, &env, &*self.cx, "", &reads);
        let scope = Scope::default();
        let bound = cx.binder(&scope, "field list").expr(e);
        let bound: Expr = bound.map_err(|e| self.cx.hide_unauthorized(e, &reads.uses.names()))?;
        let ty = bound.ty.clone();
        let mut plan = QueryPlan::of_value(bound);
        plan.nested_tables = reads.tables.take();
        plan.has_nested_locks = reads.has_locks.get();
        if plan.has_nested_locks {
            Err(SqlError::not_supported("a locking subquery here"))
        } else {
            Ok((plan, ty, reads.uses.take()))
        }
    }
}
