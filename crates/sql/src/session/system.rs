//! System variables as expressions see them, and expressions outside of
//! queries.

use super::SqlSession;
use crate::bind::types::is_text;
use crate::bind::{Binder, Scope, SystemVariables};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, eval};
use crate::parse::ast;
use crate::statistics::{Figures, TableStatistics};
use crate::vars::{self, VarValue};
use bumpalo::Bump;
use porpoise_rows::catalog::Table;
use porpoise_types::{Collation, ColumnType, Kind, Value, ValueRef};
use std::sync::Arc;

/// 1238: a variable used in a scope that it does not have.
pub(crate) fn wrong_scope(name: &str, kind: &str) -> SqlError {
    SqlError::new(
        1238,
        "HY000",
        format!("Variable '{name}' is a {kind} variable"),
    )
}

impl Figures for SqlSession {
    fn of(&self, table: &Table) -> Arc<TableStatistics> {
        self.server.statistics.of(&self.server.db, table)
    }

    fn shown(&self) -> bool {
        self.notes.explaining.get()
    }
}

impl SystemVariables for SqlSession {
    fn get(&self, global: bool, name: &str) -> Result<Expr> {
        self.volatile.set(true);
        let (at, variable) = vars::entry(name)?;
        if global {
            if !variable.scope.global() {
                return Err(wrong_scope(variable.name, "SESSION"));
            }
            return Ok(self.server.globals.read().at(at).expr());
        }
        if !variable.scope.session() {
            return Ok(self.server.globals.read().at(at).expr());
        }
        if matches!(variable.name, "warning_count" | "error_count") {
            self.diagnostics.keep();
        }
        Ok(self.session_value(at, variable.name).expr())
    }

    /// A statement is bound to the type that the value has then (manual, "User-Defined
    /// Variables"), so its plan serves this execution alone.
    fn user_variable(&self, name: &str) -> Option<ColumnType> {
        self.volatile.set(true);
        let variables = self.env.user_variables.borrow();
        let (value, ty) = variables.get(name)?;
        Some(match value {
            Value::Int(_) => ColumnType::bigint(),
            Value::UInt(_) => ColumnType::bigint_unsigned(),
            Value::Double(_) => ColumnType::double(),
            Value::Decimal(d) => ColumnType::decimal(65, d.scale()),
            Value::Bytes(_) if is_text(ty) => {
                let kind = match ty.collation == Collation::BINARY {
                    true => Kind::LongBlob,
                    false => Kind::LongText,
                };
                ColumnType::text(kind, ty.collation)
            }
            _ => return None,
        })
    }
}

impl SqlSession {
    /// The session's value, those computed included.
    pub(crate) fn session_value(&self, at: usize, name: &str) -> VarValue {
        match name {
            "warning_count" => VarValue::Int(self.diagnostics.count(false)),
            "error_count" => VarValue::Int(self.diagnostics.count(true)),
            "last_insert_id" => VarValue::Int(self.last_insert_id),
            "pseudo_thread_id" => VarValue::Int(self.client.connection_id),
            "timestamp" => VarValue::Double(self.env.now_utc.to_unix_micros() as f64 / 1e6),
            _ => self.values.at(at).clone(),
        }
    }

    /// The value of an expression that stands in no query.
    pub(crate) fn evaluate(
        &self,
        e: &ast::Expr<'_>,
        params: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<(Value, ColumnType)> {
        let env = self.bind_env(types.to_vec());
        let scope = Scope::default();
        let mut binder = Binder {
            scope: &scope,
            env: &env,
            place: "field list",
            aggregates: None,
            values_allowed: false,
            system: self,
            aliases: &[],
            keys: None,
            plan: None,
        };
        let bound = binder.expr(e)?;
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
        let value = eval(&bound, &[], &cx)?.to_owned();
        Ok((value, bound.ty))
    }
}
