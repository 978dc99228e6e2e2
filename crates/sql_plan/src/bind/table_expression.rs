//! Expressions of table definitions, bound to the columns of their table.
//!
//! The catalog has them as text in the default SQL mode. They depend on no setting of a session.

use super::{BindEnv, Binder, Scope, Source, SystemVariables};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::parse::{ParseOptions, ast, parse_expr};
use bumpalo::Bump;
use porpoise_rows::catalog::Table;
use porpoise_types::{Collation, SqlMode};
use std::sync::Arc;

/// Parses and binds an expression of a table's definition, with the table in slot 0. `clause` is
/// for messages, `system` for the rejection of variables.
///
/// # Errors
/// The errors of parsing and binding.
pub fn table_expression<'a>(
    arena: &'a Bump,
    table: &Arc<Table>,
    text: &'a str,
    clause: &'static str,
    system: &dyn SystemVariables,
) -> Result<(ast::Expr<'a>, Expr)> {
    let text = text.as_bytes();
    let parsed = parse_expr(arena, text, &ParseOptions::default());
    let parsed = parsed.map_err(|e| SqlError::syntax(&e, text))?;
    let scope = Scope::of(Source::stored(table.clone(), None));
    let env = BindEnv {
        mode: SqlMode::default(),
        collation: Collation::UTF8MB4_0900_AI_CI,
        params: Vec::new(),
        params_are_variables: false,
        database: None,
        div_precision: 4,
    };
    let mut binder = Binder {
        scope: &scope,
        env: &env,
        clause,
        aggregates: None,
        in_aggregate: false,
        windows_allowed: false,
        values_allowed: false,
        system,
        aliases: &[],
        preceding_aliases: None,
        later_aliases: &[],
        group_keys: None,
        plan: None,
    };
    let bound = binder.expr(&parsed)?;
    Ok((parsed, bound))
}
