//! Expressions in definitions: CHECK, generated columns, DEFAULT (expression).
//!
//! The catalog stores an expression as canonical text, as [`print`] writes it with all parentheses,
//! so that it has the same meaning under every SQL mode, and the names of the columns that it
//! reads.
//!
//! [`print`]: porpoise_sql_parser::print

use super::text;
use crate::table_expressions::ExpressionOwner;
use porpoise_rows::catalog::Expression;
use porpoise_rows::ddl::CheckSpec;
use porpoise_sql_expr::error::Result;
use porpoise_sql_parser::LexMode;
use porpoise_sql_parser::ast::{CheckDef, Expr, ExprKind, UnaryOp};
use porpoise_sql_parser::lexer::Lexer;
use porpoise_sql_parser::print::expr_shape;
use porpoise_sql_parser::token::TokenKind;

/// Converts an expression to its form in the catalog.
///
/// # Errors
/// For subqueries, which definitions must not contain.
pub fn expression(e: &Expr<'_>, owner: ExpressionOwner<'_>) -> Result<Expression> {
    if e.has_subquery() {
        return Err(owner.disallowed(None));
    }
    let mode = LexMode::default();
    Ok(without_qualifiers(&expr_shape(e, mode)))
}

/// Whether a default is a literal or NOW(), as opposed to an expression.
pub fn is_literal(e: &Expr<'_>) -> bool {
    match &e.kind {
        ExprKind::Literal(_) => true,
        ExprKind::Unary(UnaryOp::Neg | UnaryOp::Plus, arg) => is_literal(arg),
        _ => super::now_digits(e).is_some(),
    }
}

/// Removes table qualifiers from column names, and collects the column names. In canonical text
/// only names are in backticks.
fn without_qualifiers(canonical: &[u8]) -> Expression {
    let mut lexer = Lexer::new(canonical, 0, LexMode::default());
    let mut out: Vec<u8> = Vec::with_capacity(canonical.len());
    let mut columns: Vec<String> = Vec::new();
    // Start in `out` of the current name, which qualifiers may precede; `None` between names.
    let mut name_start = None;
    // End of the part of `canonical` that is copied to `out`.
    let mut copied = 0usize;
    let mut last_name: Option<String> = None;
    let (mut after_collate, mut after_period) = (false, false);
    loop {
        let token = lexer.next_token();
        let (start, end) = (token.start as usize, token.end as usize);
        let token_text = canonical.get(start..end).unwrap_or_default();
        let period = token_text == b"." && name_start.is_some();
        if !(period || after_period && token.kind == TokenKind::QuotedIdent) {
            if let Some(name) = last_name.take()
                && !columns.iter().any(|c| c.eq_ignore_ascii_case(&name))
            {
                columns.push(name);
            }
            name_start = None;
        }
        if token.kind == TokenKind::End || token.kind == TokenKind::Invalid {
            break;
        }
        out.extend_from_slice(canonical.get(copied..start).unwrap_or_default());
        copied = end;
        if token.kind == TokenKind::QuotedIdent && !after_collate {
            match name_start {
                Some(at) if after_period => out.truncate(at),
                _ => name_start = Some(out.len()),
            }
            last_name = Some(unquoted(token_text));
        }
        out.extend_from_slice(token_text);
        after_collate = token_text.eq_ignore_ascii_case(b"collate");
        after_period = period;
    }
    out.extend_from_slice(canonical.get(copied..).unwrap_or_default());
    Expression {
        text: text(&out),
        columns,
    }
}

fn unquoted(name: &[u8]) -> String {
    let inner = name.get(1..name.len().saturating_sub(1));
    text(inner.unwrap_or_default()).replace("``", "`")
}

/// Converts a CHECK constraint of a column or of the table.
///
/// # Errors
/// As [`expression`].
pub fn check(def: &CheckDef<'_>, of_column: Option<&str>) -> Result<CheckSpec> {
    let name = def.constraint.map(|n| n.name.to_owned());
    let owner = ExpressionOwner::Check(name.as_deref().unwrap_or_default());
    Ok(CheckSpec {
        expression: expression(&def.expr, owner)?,
        enforced: def.enforced,
        of_column: of_column.map(str::to_owned),
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_collected_and_lose_their_tables() {
        let e = without_qualifiers(b"((`d`.`t`.`a` > 0) AND (`b` COLLATE `utf8mb4_bin` = '`x`'))");
        assert_eq!(
            e.text,
            "((`a` > 0) AND (`b` COLLATE `utf8mb4_bin` = '`x`'))"
        );
        assert_eq!(e.columns, ["a", "b"]);
        let e = without_qualifiers(b"concat(`t`.`a```, `A```)");
        assert_eq!(
            (e.text.as_str(), e.columns.len()),
            ("concat(`a```, `A```)", 1)
        );
    }
}
