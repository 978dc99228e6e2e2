//! Expressions of definitions in MySQL's spelling: CHECK, DEFAULT, generated columns, key parts.
//!
//! The catalog stores another text, on which formats depend; MySQL's spelling is generated when a definition is shown.

use bumpalo::Bump;
use porpoise_rows::catalog::ColumnDefault;
use porpoise_rows::definition::TableDef;
use porpoise_sql_parser::print::definition_expr;
use porpoise_sql_parser::{ParseOptions, parse_expr};

/// An expression of the catalog as SHOW CREATE TABLE has it.
pub(crate) fn shown(stored: &str) -> String {
    let arena = Bump::new();
    match parse_expr(&arena, stored.as_bytes(), &ParseOptions::default()) {
        Ok(expr) => String::from_utf8_lossy(&definition_expr(&expr)).into_owned(),
        Err(_) => stored.to_owned(),
    }
}

/// An expression of the catalog as information_schema has it: escaped as in a quoted string.
pub(crate) fn escaped(stored: &str) -> String {
    shown(stored).replace('\\', "\\\\").replace('\'', "\\'")
}

/// Replaces the expressions of a definition by their text in MySQL's spelling.
pub(crate) fn show_expressions(table: &mut TableDef) {
    for column in &mut table.columns {
        if let Some(generated) = &mut column.generated {
            generated.expression.text = shown(&generated.expression.text);
        }
        if let ColumnDefault::Expr(default) = &mut column.default {
            default.text = shown(&default.text);
        }
    }
    for check in &mut table.checks {
        check.expression.text = shown(&check.expression.text);
    }
}
