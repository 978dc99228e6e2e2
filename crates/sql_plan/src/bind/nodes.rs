//! Constructors of bound nodes, and conversion of the syntax tree's enums.

use super::types::{comparison, is_text};
use crate::error::{Result, SqlError};
use crate::expr::types::is_temporal;
use crate::expr::{CmpOp, Coercibility, Expr, ExprKind, Load, Unit};
use crate::functions::{self, text_of};
use crate::parse::ast::{self, BinaryOp, IntervalUnit, TypeKind};
use porpoise_types::{Charset, Collation, ColumnType, Kind, Value};

/// Creates a node that is neither a column nor a literal.
pub fn node(kind: ExprKind, ty: ColumnType, nullable: bool) -> Expr {
    Expr {
        kind,
        ty,
        nullable,
        coercibility: Coercibility::Literal,
    }
}

/// Returns the comparison that an operator stands for, if it is one.
pub fn comparison_operator(op: BinaryOp) -> Option<CmpOp> {
    Some(match op {
        BinaryOp::Eq => CmpOp::Eq,
        BinaryOp::NullSafeEq => CmpOp::NullSafe,
        BinaryOp::NotEq => CmpOp::Ne,
        BinaryOp::Less => CmpOp::Lt,
        BinaryOp::LessEq => CmpOp::Le,
        BinaryOp::Greater => CmpOp::Gt,
        BinaryOp::GreaterEq => CmpOp::Ge,
        _ => return None,
    })
}

/// Creates a comparison of two bound expressions.
pub fn compare(op: CmpOp, a: Expr, b: Expr) -> Result<Expr> {
    let (a, b) = (enum_as_number(&a, &b).unwrap_or(a), b);
    let b = enum_as_number(&b, &a).unwrap_or(b);
    let how = comparison(&a, &b, op.sign())?;
    let nullable = op != CmpOp::NullSafe && (a.nullable || b.nullable);
    Ok(Expr::boolean(
        ExprKind::Compare(op, how, Box::new([a, b])),
        nullable,
    ))
}

/// For ENUM and SET compared with a number: their numeric value.
pub(super) fn enum_as_number(e: &Expr, other: &Expr) -> Option<Expr> {
    let numbered = matches!(e.ty.kind, Kind::Enum | Kind::Set);
    (numbered && other.ty.is_numeric()).then(|| numeric_operand(e))
}

/// Creates the AND of conditions.
pub fn conjunction(mut parts: Vec<Expr>) -> Expr {
    if parts.len() == 1 {
        return parts.pop().unwrap_or_else(Expr::null);
    }
    let nullable = parts.iter().any(|p| p.nullable);
    Expr::boolean(ExprKind::And(parts), nullable)
}

/// Creates a conversion to `ty`.
pub fn cast_to(arg: Expr, ty: ColumnType) -> Expr {
    let coercibility = match arg.coercibility {
        Coercibility::Numeric | Coercibility::Ignorable => Coercibility::Literal,
        other => other,
    };
    Expr {
        kind: ExprKind::Cast(Box::new(arg)),
        ty,
        nullable: true,
        coercibility,
    }
}

/// An operand in a numeric context: ENUM and SET yield their numbers.
pub fn numeric_operand(e: &Expr) -> Expr {
    let mut e = e.clone();
    if !matches!(e.ty.kind, Kind::Enum | Kind::Set) {
        return e;
    }
    match &mut e.kind {
        ExprKind::Column { load, .. } if *load != Load::Plain => {
            *load = Load::Plain;
            e.ty = ColumnType::bigint_unsigned();
            e
        }
        // The columns of derived tables and of enclosing queries have the text.
        ExprKind::Column { .. } | ExprKind::Outer { .. } => {
            match functions::find("MEMBER NUMBER") {
                Some(f) => {
                    let nullable = e.nullable;
                    node(
                        ExprKind::Call(f, vec![e]),
                        ColumnType::bigint_unsigned(),
                        nullable,
                    )
                }
                None => e,
            }
        }
        _ => e,
    }
}

/// An operand of arithmetic: as [`numeric_operand`]. A date or time that is computed as text is
/// converted to the number of its digits, 20240131 for '2024-01-31'.
pub(super) fn arithmetic_operand(e: &Expr) -> Expr {
    if !is_text(&e.ty) || !is_moment(&e.kind) {
        return numeric_operand(e);
    }
    match functions::find("TEMPORAL NUMBER") {
        Some(f) => {
            let call = ExprKind::Call(f, vec![e.clone()]);
            node(call, ColumnType::double(), true)
        }
        None => numeric_operand(e),
    }
}

/// Whether the expression adds to a date or time: its value is then a date or time as text.
fn is_moment(kind: &ExprKind) -> bool {
    match kind {
        ExprKind::DateAdd { .. } => true,
        ExprKind::Call(f, args) => match f.name {
            "ADDTIME" | "SUBTIME" => true,
            "GREATEST" | "LEAST" => args.iter().any(|arg| is_temporal(&arg.ty)),
            _ => false,
        },
        _ => false,
    }
}

/// Negates an expression; a negated constant is folded.
pub(super) fn fold_negation(arg: Expr, ty: ColumnType, nullable: bool) -> Expr {
    let folded = match arg.as_const() {
        Some(Value::Decimal(d)) => Some(Value::Decimal(d.neg())),
        Some(Value::Double(d)) => Some(Value::Double(-d)),
        _ => None,
    };
    match folded {
        Some(value) => Expr::constant(value, arg.ty),
        None => node(ExprKind::Negate(Box::new(arg)), ty, nullable),
    }
}

/// The canonical name of a user variable, in lower case: names are case-insensitive.
pub fn variable_name(name: &[u8]) -> std::sync::Arc<str> {
    String::from_utf8_lossy(name).to_lowercase().into()
}

/// The character set with this name. Error 1115 if it is unknown.
pub fn charset_named(name: &str) -> Result<Charset> {
    let unknown = || SqlError::new(1115, "42000", format!("Unknown character set: '{name}'"));
    Charset::by_name(name).ok_or_else(unknown)
}

/// The clause of the expressions in which CAST to an array is allowed.
pub const MULTI_VALUED_CLAUSE: &str = "functional index";

/// The construct that error 1235 names for CAST to an array elsewhere.
pub const ARRAY_OUTSIDE_OF_INDEX: &str = "Use of CAST( .. AS .. ARRAY) outside of functional index in \
     CREATE(non-SELECT)/ALTER TABLE or in general expressions";

/// Maximum length of the elements of an array, in characters or bytes.
const MAX_ELEMENT_LENGTH: u64 = 512;

/// The type of the elements of `CAST(... AS type ARRAY)`. Texts compare as JSON strings do.
pub(super) fn array_element_type(ty: &ast::DataType<'_>, arg: &Expr) -> Result<ColumnType> {
    let refused = |what: &str| Err(SqlError::not_supported(what));
    let array_of = |name: &str| refused(&format!("CAST-ing data to array of {name}"));
    match ty.kind {
        TypeKind::Char if ty.charset.is_some() => {
            return refused("specifying charset for multi-valued index");
        }
        TypeKind::Char | TypeKind::Binary
            if ty.length.is_none_or(|length| length > MAX_ELEMENT_LENGTH) =>
        {
            return array_of("char/binary BLOBs");
        }
        TypeKind::Json => return array_of("JSON"),
        TypeKind::Year => return array_of("YEAR"),
        TypeKind::Float => return array_of("FLOAT"),
        TypeKind::Double | TypeKind::Real => return array_of("DOUBLE"),
        _ => {}
    }
    let ty = cast_type(ty, arg, Collation::UTF8MB4_0900_BIN)?;
    Ok(match ty.kind {
        Kind::Binary => ColumnType::varbinary(ty.length),
        _ => ty,
    })
}

/// The target type of a CAST.
pub(super) fn cast_type(
    ty: &ast::DataType<'_>,
    arg: &Expr,
    connection: Collation,
) -> Result<ColumnType> {
    let length = ty.length.map(|l| u32::try_from(l).unwrap_or(u32::MAX));
    let fsp = u8::try_from(ty.length.unwrap_or(0).min(6)).unwrap_or(0);
    digits_fit(ty)?;
    Ok(match ty.kind {
        TypeKind::Int | TypeKind::BigInt if ty.unsigned => ColumnType::bigint_unsigned(),
        TypeKind::Int | TypeKind::BigInt => ColumnType::bigint(),
        TypeKind::Decimal => {
            decimal_fits(ty.length, ty.decimals)?;
            let precision = u8::try_from(ty.length.unwrap_or(10).min(65)).unwrap_or(65);
            let scale = u8::try_from(ty.decimals.unwrap_or(0).min(30)).unwrap_or(30);
            ColumnType::decimal(precision.max(1), scale)
        }
        TypeKind::Double | TypeKind::Real => ColumnType::double(),
        TypeKind::Float if ty.length.is_some_and(|bits| bits > 24) => ColumnType::double(),
        TypeKind::Float => ColumnType::float(),
        TypeKind::Date => ColumnType::date(),
        TypeKind::DateTime => ColumnType::datetime(fsp),
        TypeKind::Time => ColumnType::time(fsp),
        TypeKind::Year => ColumnType::year(),
        TypeKind::Json => ColumnType::json(),
        TypeKind::Binary => match length {
            Some(length) => ColumnType::binary(length),
            None if is_text(&arg.ty) => {
                let bytes = arg.ty.collation.charset().max_len();
                ColumnType::varbinary(functions::width(arg).saturating_mul(bytes))
            }
            None => ColumnType::varbinary(functions::width(arg)),
        },
        TypeKind::Char => {
            let collation = match &ty.charset {
                Some(charset) => charset_named(charset.name)?.default_collation(),
                None => connection,
            };
            match length {
                Some(length) if collation == Collation::BINARY => ColumnType::binary(length),
                Some(length) => ColumnType::varchar(length, collation),
                None => text_of(functions::width(arg), collation),
            }
        }
        _ => return Err(SqlError::not_supported("this target type of CAST")),
    })
}

/// Checks the precision of a CAST to FLOAT, a date or a time: error 1426.
fn digits_fit(ty: &ast::DataType<'_>) -> Result<()> {
    let most = match ty.kind {
        TypeKind::Float => 53,
        TypeKind::DateTime | TypeKind::Time => 6,
        _ => return Ok(()),
    };
    match ty.length.filter(|digits| *digits > most) {
        Some(digits) => {
            let text =
                format!("Too-big precision {digits} specified for 'CAST'. Maximum is {most}.");
            Err(SqlError::new(1426, "42000", text))
        }
        None => Ok(()),
    }
}

/// Checks DECIMAL(precision, scale) of a CAST: errors 1425, 1426 and 1427.
fn decimal_fits(precision: Option<u64>, scale: Option<u64>) -> Result<()> {
    let (precision, scale) = (precision.unwrap_or(10), scale.unwrap_or(0));
    let (code, text) = if scale > 30 {
        let text = format!("Too big scale {scale} specified for column 'cast'. Maximum is 30.");
        (1425, text)
    } else if precision > 65 {
        let text = format!("Too-big precision {precision} specified for 'cast'. Maximum is 65.");
        (1426, text)
    } else if scale > precision {
        let text = "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column 'cast').";
        (1427, text.to_owned())
    } else {
        return Ok(());
    };
    Err(SqlError::new(code, "42000", text))
}

/// The unit of an interval.
pub fn unit_of(unit: IntervalUnit) -> Unit {
    match unit {
        IntervalUnit::Microsecond => Unit::Microsecond,
        IntervalUnit::Second => Unit::Second,
        IntervalUnit::Minute => Unit::Minute,
        IntervalUnit::Hour => Unit::Hour,
        IntervalUnit::Day => Unit::Day,
        IntervalUnit::Week => Unit::Week,
        IntervalUnit::Month => Unit::Month,
        IntervalUnit::Quarter => Unit::Quarter,
        IntervalUnit::Year => Unit::Year,
        IntervalUnit::SecondMicrosecond => Unit::SecondMicrosecond,
        IntervalUnit::MinuteMicrosecond => Unit::MinuteMicrosecond,
        IntervalUnit::MinuteSecond => Unit::MinuteSecond,
        IntervalUnit::HourMicrosecond => Unit::HourMicrosecond,
        IntervalUnit::HourSecond => Unit::HourSecond,
        IntervalUnit::HourMinute => Unit::HourMinute,
        IntervalUnit::DayMicrosecond => Unit::DayMicrosecond,
        IntervalUnit::DaySecond => Unit::DaySecond,
        IntervalUnit::DayMinute => Unit::DayMinute,
        IntervalUnit::DayHour => Unit::DayHour,
        IntervalUnit::YearMonth => Unit::YearMonth,
    }
}

/// NOT of a condition, if `is_negated`.
pub(super) fn negated(e: Expr, is_negated: bool) -> Expr {
    if !is_negated {
        return e;
    }
    let nullable = e.nullable;
    Expr::boolean(ExprKind::Not(Box::new(e)), nullable)
}
