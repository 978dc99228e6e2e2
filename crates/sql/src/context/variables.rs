//! System variables as expressions read them, and evaluation of expressions outside of queries.

use super::StatementContext;
use crate::programs::program::sql_type;
use crate::vars::{self, VarValue};
use bumpalo::Bump;
use porpoise_rows::catalog::{Catalog, RoutineKind, Table};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::Expr;
use porpoise_sql_expr::expr::eval::{EvalCx, eval};
use porpoise_sql_expr::expr::stored::{Definition, FunctionName, StoredFunction};
use porpoise_sql_parser::ast;
use porpoise_sql_plan::bind::types::is_text;
use porpoise_sql_plan::bind::{BindEnv, Binder, Scope, SystemVariables};
use porpoise_sql_plan::statistics::{StatisticsSource, TableStatistics};
use porpoise_types::{Charset, Collation, ColumnType, Kind, Value, ValueRef, Warning};
use std::sync::Arc;

impl StatisticsSource for StatementContext {
    fn of(&self, table: &Table) -> Arc<TableStatistics> {
        self.server.statistics.of(&self.server.db, table)
    }

    /// Only an engine that stores its rows on this machine can estimate their number.
    fn is_local(&self, table: &Table) -> bool {
        self.server.db.approximate_rows(table).is_some()
    }

    fn parameter(&self, number: usize) -> Option<Value> {
        self.planning.uses_parameters.set(true);
        self.planning.parameters.borrow().get(number).cloned()
    }

    fn note_partial_plans(&self, count: u64) {
        self.planning
            .partial_plans
            .set(self.planning.partial_plans.get() + count);
    }

    fn estimates_are_shown(&self) -> bool {
        self.planning.explaining.get()
    }

    fn depends_on_literals(&self) {
        self.planning.volatile.set(true);
    }
}

impl SystemVariables for StatementContext {
    fn shared_catalog(&self) -> Option<Arc<Catalog>> {
        let has_temporary = !self.temporary.tables.is_empty();
        has_temporary.then(|| self.server.db.catalog())
    }

    fn get(&self, global: bool, name: &str) -> Result<Expr> {
        self.planning.volatile.set(true);
        let (at, variable) = vars::entry(name)?;
        if global {
            if !variable.scope.global() {
                return Err(SqlError::wrong_variable_scope(variable.name, "SESSION"));
            }
            return Ok(self.awaited_global_value(at, variable.name).expr());
        }
        if !variable.scope.session() {
            return Ok(self.awaited_global_value(at, variable.name).expr());
        }
        if matches!(variable.name, "warning_count" | "error_count") {
            self.diagnostics.retain_list();
        }
        Ok(self.session_value(at, variable.name).expr())
    }

    fn stored_function(&self, name: &FunctionName<'_>) -> Result<Option<Arc<StoredFunction>>> {
        let Some(database) = name.database() else {
            return Ok(None);
        };
        let catalog = self.server.db.catalog();
        let Some(routine) = catalog.routine(database, RoutineKind::Function, name.name) else {
            return Ok(None);
        };
        let program = self.compile_routine(routine)?;
        self.planning.calls_functions.set(true);
        if name.invoker.is_none()
            && let Some(named) = self.planning.named_functions.borrow_mut().as_mut()
        {
            named.push((routine.database.clone(), routine.name.clone()));
        }
        Ok(Some(Arc::new(StoredFunction {
            database: routine.database.clone(),
            name: routine.name.clone(),
            invoker: name.invoker.map(str::to_owned),
            parameters: program.parameters.len(),
            returns: program
                .returns
                .as_ref()
                .map(sql_type)
                .unwrap_or_else(ColumnType::null),
            definition: Definition(routine.clone()),
        })))
    }

    fn runs_functions(&self) -> bool {
        self.planning.calls_functions.set(true);
        true
    }

    /// A plan that caused a warning about hints is not cached, so that each execution warns.
    fn warn(&self, code: u16, message: String) {
        self.planning.volatile.set(true);
        let known = |w: &Warning| w.code == code && w.message == message;
        if !self.env.warnings.borrow().iter().any(known) {
            StatementContext::warn(self, code, message);
        }
    }

    /// A statement is bound to the type that the variable's value has at that time (manual,
    /// "User-Defined Variables"), so its plan is valid for one execution only.
    fn user_variable(&self, name: &str) -> Option<ColumnType> {
        self.planning.volatile.set(true);
        let variables = self.env.user_variables.borrow();
        let (value, ty) = variables.get(name)?;
        Some(match value {
            Value::Int(_) => ColumnType::bigint(),
            Value::UInt(_) => ColumnType::bigint_unsigned(),
            Value::Double(_) => ColumnType::double(),
            Value::Decimal(d) => ColumnType::decimal(65, d.scale()),
            Value::Bytes(_) if is_text(ty) => {
                let kind = if ty.collation == Collation::BINARY {
                    Kind::LongBlob
                } else {
                    Kind::LongText
                };
                ColumnType::text(kind, ty.collation)
            }
            // NULL has the type that it was assigned with.
            Value::Null if ty.is_integer() && ty.unsigned => ColumnType::bigint_unsigned(),
            Value::Null if ty.is_integer() => ColumnType::bigint(),
            Value::Null if ty.kind == Kind::Null => ColumnType::blob(Kind::LongBlob),
            Value::Null if matches!(ty.kind, Kind::Float | Kind::Double) => ColumnType::double(),
            _ => return None,
        })
    }
}

impl StatementContext {
    /// The global value of a variable. Variables of the binary log have their present values: a list of variables waits
    /// for no commit.
    pub(crate) fn global_value(&self, at: usize, name: &str) -> VarValue {
        self.value_of_log(name, false)
            .unwrap_or_else(|| self.server.globals.read().value_at(at).clone())
    }

    /// As [`Self::global_value`], but variables of the binary log agree with a snapshot taken now: it waits for
    /// earlier commits.
    fn awaited_global_value(&self, at: usize, name: &str) -> VarValue {
        self.value_of_log(name, true)
            .unwrap_or_else(|| self.global_value(at, name))
    }

    /// The value of a variable of the binary log; `None` for other variables.
    fn value_of_log(&self, name: &str, awaits_commits: bool) -> Option<VarValue> {
        if !matches!(name, "gtid_executed" | "gtid_purged") {
            return None;
        }
        let log = self.server.binary_log()?;
        let status = if awaits_commits {
            log.status()
        } else {
            log.present_status()
        };
        let text = if name == "gtid_executed" {
            status.executed
        } else {
            status.purged
        };
        Some(VarValue::Text(Arc::from(text)))
    }

    /// The session's value of a variable, including computed ones.
    pub(crate) fn session_value(&self, at: usize, name: &str) -> VarValue {
        match name {
            "warning_count" => VarValue::Int(self.diagnostics.condition_count()),
            "error_count" => VarValue::Int(self.diagnostics.error_count()),
            "last_insert_id" => VarValue::Int(self.last_insert_id),
            "pseudo_thread_id" => VarValue::Int(self.client.connection_id),
            "timestamp" => VarValue::Double(self.env.now_utc.to_unix_micros() as f64 / 1e6),
            _ => self.values.value_at(at).clone(),
        }
    }

    /// Evaluates an expression outside of a query.
    pub(crate) fn evaluate(
        &self,
        e: &ast::Expr<'_>,
        params: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<(Value, ColumnType)> {
        let bound = self.bind(e, types)?;
        self.evaluate_bound(&bound, params)
    }

    /// Evaluates a bound expression outside of a query.
    pub(crate) fn evaluate_bound(
        &self,
        bound: &Expr,
        params: &[ValueRef<'_>],
    ) -> Result<(Value, ColumnType)> {
        let arena = Bump::new();
        let cx = EvalCx {
            arena: &arena,
            env: &self.env,
            params,
            aggregates: &[],
            new_row: &[],
            outer: None,
            queries: None,
        };
        let value = eval(bound, &[], &cx)?.to_owned();
        Ok((value, bound.ty.clone()))
    }

    /// Binds an expression outside of a query.
    pub(crate) fn bind(&self, e: &ast::Expr<'_>, types: &[ColumnType]) -> Result<Expr> {
        let env = self.bind_env(types.to_vec());
        let scope = Scope::default();
        let mut binder = Binder {
            scope: &scope,
            env: &env,
            clause: "field list",
            aggregates: None,
            in_aggregate: false,
            windows_allowed: false,
            values_allowed: false,
            system: self,
            aliases: &[],
            preceding_aliases: None,
            later_aliases: &[],
            group_keys: None,
            plan: None,
        };
        binder.expr(e)
    }

    /// The collation for a character set given without one.
    pub(crate) fn collation_for(&self, charset: Charset) -> Collation {
        match charset {
            Charset::Utf8mb4 => self.settings.utf8mb4_collation,
            other => other.default_collation(),
        }
    }

    /// The collation of `SET NAMES DEFAULT`.
    pub(crate) fn default_collation(&self) -> Collation {
        let globals = self.server.globals.read();
        Collation::by_name(globals.text("collation_connection"))
            .unwrap_or(Collation::UTF8MB4_0900_AI_CI)
    }

    /// The settings that binding depends on.
    pub(crate) fn bind_env(&self, params: Vec<ColumnType>) -> BindEnv {
        BindEnv {
            mode: self.settings.mode,
            collation: self.settings.collation,
            params,
            params_are_variables: self.planning.binds_variables.get(),
            database: self.env.database.clone(),
            div_precision: self.settings.div_precision,
        }
    }
}
