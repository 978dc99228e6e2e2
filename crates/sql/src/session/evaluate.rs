//! Evaluation of expressions outside of queries: SET, DO, KILL.
//!
//! An expression without subqueries is evaluated directly. One with subqueries is executed as
//! `SELECT expr`, with the transaction rules of any other query.

use super::{Outcome, SqlSession};
use porpoise_rows::catalog::Catalog;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::Expr;
use porpoise_sql_parser::ast;
use porpoise_sql_plan::bind::Scope;
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_sql_plan::plan::select::{NestedReads, PlanCx};
use porpoise_sql_plan::plan::sinks::Plan;
use porpoise_sql_plan::plan::uses::TableUse;
use porpoise_sql_plan::plan::{QueryPlan, ResultColumn};
use porpoise_types::{ColumnType, Value, ValueRef};
use std::sync::Arc;

/// A sink for a result of a single value.
#[derive(Default)]
pub(super) struct SingleValue {
    pub(super) value: Value,
}

impl ResultSink for SingleValue {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        if let Some(value) = values.first() {
            self.value = ValueRef::to_owned(*value);
        }
        Ok(())
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
        if !e.has_subquery() {
            let bound = self.cx.bind(e, types)?;
            if !bound.has_subquery() {
                return self.cx.evaluate_bound(&bound, params);
            }
        }
        let (planned, ty) = self.planned_value(e, types)?;
        let mut one = SingleValue::default();
        self.run_plan(&planned, params, &mut one)?;
        Ok((one.value, ty))
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
        let cx = PlanCx::new(catalog, &env, &self.cx, "", &reads);
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
