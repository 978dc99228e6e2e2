//! The text of an expression in messages, in the form in which MySQL prints a bound expression.
//!
//! A column has no name once it is bound, and rarer kinds of expressions are abbreviated; both are
//! printed as `...`.

use super::function::Call;
use super::{Expr, ExprKind};
use porpoise_types::{ColumnType, Kind, Value, ValueRef};

/// Maximum nesting of operators that are printed.
const MAX_DEPTH: usize = 16;

/// The text of a bound expression.
pub fn describe(e: &Expr) -> String {
    nested(e, 0)
}

/// The text of a call.
pub fn describe_call(call: &Call<'_, '_>) -> String {
    call_text(call.name, call.args, 0)
}

fn call_text(name: &str, args: &[Expr], depth: usize) -> String {
    let args: Vec<String> = args.iter().map(|a| nested(a, depth + 1)).collect();
    format!("{}({})", printed_name(name), args.join(","))
}

/// The name under which a function is printed.
fn printed_name(name: &str) -> String {
    match name {
        "POWER" => "pow".to_owned(),
        "CEIL" => "ceiling".to_owned(),
        _ => name.to_lowercase(),
    }
}

fn nested(e: &Expr, depth: usize) -> String {
    if depth > MAX_DEPTH {
        return "...".to_owned();
    }
    match &e.kind {
        ExprKind::Const(value) => constant(value, &e.ty),
        ExprKind::Call(function, args) => call_text(function.name, args, depth),
        ExprKind::Negate(arg) => format!("-({})", nested(arg, depth + 1)),
        ExprKind::Arith(op, args) => {
            let [a, b] = args.as_ref();
            let (a, b) = (nested(a, depth + 1), nested(b, depth + 1));
            format!("({a} {} {b})", op.sign())
        }
        ExprKind::Cast(arg) => {
            format!("cast({} as {})", nested(arg, depth + 1), cast_name(&e.ty))
        }
        ExprKind::UserVariable(name) => format!("(@`{name}`)"),
        _ => "...".to_owned(),
    }
}

fn cast_name(ty: &ColumnType) -> String {
    let name = match ty.kind {
        Kind::Decimal => return format!("decimal({},{})", ty.length, ty.decimals),
        Kind::BigInt if ty.unsigned => "unsigned",
        Kind::BigInt => "signed",
        Kind::Double => "double",
        Kind::Float => "float",
        Kind::Date => "date",
        Kind::Time => "time",
        Kind::DateTime | Kind::Timestamp => "datetime",
        Kind::Json => "json",
        Kind::Year => "year",
        _ => "char",
    };
    name.to_owned()
}

fn constant(value: &Value, ty: &ColumnType) -> String {
    let mut out = Vec::new();
    porpoise_types::write_text(value.as_ref(), ty, &mut out);
    let text = String::from_utf8_lossy(&out).into_owned();
    match value.as_ref() {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Bytes(_) if ty.kind != Kind::Json => {
            format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
        }
        ValueRef::Int(_) | ValueRef::Decimal(_) | ValueRef::Double(_) => {
            match text.strip_prefix('-') {
                Some(positive) => format!("-({positive})"),
                None => text,
            }
        }
        ValueRef::Date(_) => format!("DATE'{text}'"),
        ValueRef::Time(_) => format!("TIME'{text}'"),
        ValueRef::DateTime(_) => format!("TIMESTAMP'{text}'"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{ArithOp, Coercibility};

    #[test]
    fn text_of_expressions() {
        let int = |n| Expr::constant(Value::Int(n), ColumnType::bigint());
        let sum = ExprKind::Arith(ArithOp::IntDiv, Box::new([int(5), int(-1)]));
        let sum = Expr {
            kind: sum,
            ty: ColumnType::bigint(),
            nullable: true,
            coercibility: Coercibility::Numeric,
        };
        assert_eq!(describe(&sum), "(5 DIV -(1))");
        let negated = ExprKind::Negate(Box::new(Expr { ..sum.clone() }));
        assert_eq!(
            describe(&Expr {
                kind: negated,
                ..sum
            }),
            "-((5 DIV -(1)))"
        );
    }
}
