//! Types and collations of compound expressions (manual, "Type Conversion in
//! Expression Evaluation", "Collation Coercibility in Expressions").

use crate::error::Result;
pub use crate::expr::collations::is_text;
use crate::expr::collations::{Use, agree};
use crate::expr::convert::is_bits;
pub use crate::expr::types::{merged_type, precision};
use crate::expr::{ArithOp, Expr, ExprKind};
use porpoise_types::column_type::NOT_FIXED_DECIMALS;
use porpoise_types::{Collation, ColumnType, CompareAs, Kind, comparison_type};

/// The common collation of two compared operands. Error 1267 if there is none.
pub fn collation_of_two(a: &Expr, b: &Expr, operation: &str) -> Result<Collation> {
    let common = agree(&[a, b], operation, Use::Comparison)?;
    Ok(common.map_or(a.ty.collation, |claim| claim.collation))
}

/// The type of an expression that yields one of its branches. Bits become a number.
pub(super) fn chosen_type(branches: &[&Expr], collation: Collation) -> ColumnType {
    let ty = merged_type(branches, collation);
    if ty.kind != Kind::Bit {
        return ty;
    }
    ColumnType {
        unsigned: true,
        ..ColumnType::bigint()
    }
}

/// Makes all operands that are compared as text use their common collation; an error if there is
/// none. `how` has the comparisons of all operands but the first.
pub(super) fn compare_alike(
    operands: &[&Expr],
    how: &mut [&mut CompareAs],
    operation: &str,
) -> Result<()> {
    if !how.iter().any(|how| matches!(how, CompareAs::Bytes(_))) {
        return Ok(());
    }
    if let Some(common) = agree(operands, operation, Use::Comparison)? {
        for how in how {
            if let CompareAs::Bytes(own) = how {
                *own = common.collation;
            }
        }
    }
    Ok(())
}

/// The comparison of two operands.
pub fn comparison(a: &Expr, b: &Expr, operation: &str) -> Result<CompareAs> {
    let how = comparison_among(a, b);
    if !matches!(how, CompareAs::Bytes(_)) {
        return Ok(how);
    }
    Ok(CompareAs::Bytes(collation_of_two(a, b, operation)?))
}

/// The comparison of two operands out of several, whose collation is determined by all of them
/// ([`compare_alike`]).
pub(super) fn comparison_among(a: &Expr, b: &Expr) -> CompareAs {
    let how = match (is_bits(&a.ty), is_bits(&b.ty)) {
        // A hexadecimal literal is an integer beside a number.
        (true, false) if b.ty.is_numeric() => {
            comparison_type(&ColumnType::bigint_unsigned(), &b.ty)
        }
        (false, true) if a.ty.is_numeric() => {
            comparison_type(&a.ty, &ColumnType::bigint_unsigned())
        }
        _ => comparison_type(&a.ty, &b.ty),
    };
    if how != CompareAs::Double {
        return how;
    }
    let exact = column_with_text(a, b).or_else(|| column_with_text(b, a));
    exact
        .or_else(|| fixed_digits_comparison(a, b))
        .unwrap_or(how)
}

/// The comparison of numbers that both have a fixed number of digits after the point.
fn fixed_digits_comparison(a: &Expr, b: &Expr) -> Option<CompareAs> {
    let digits = |e: &Expr| match e.ty.kind {
        Kind::Float | Kind::Double | Kind::Decimal => Some(e.ty.decimals),
        _ if e.ty.is_integer() => Some(0),
        _ => None,
    };
    let most = digits(a)?.max(digits(b)?);
    (most < NOT_FIXED_DECIMALS).then_some(CompareAs::FixedDouble(most))
}

/// The comparison of a DECIMAL or integer column with a constant text, which is converted to the
/// column's type: a double has too few digits.
fn column_with_text(column: &Expr, constant: &Expr) -> Option<CompareAs> {
    let is_column = matches!(
        column.kind,
        ExprKind::Column { .. } | ExprKind::Outer { .. }
    );
    // A hexadecimal literal is a number here.
    let is_constant_text = is_text(&constant.ty) && !is_bits(&constant.ty) && constant.is_literal();
    if !is_column || !is_constant_text {
        return None;
    }
    match column.ty.kind {
        Kind::Decimal => Some(CompareAs::Decimal),
        Kind::TinyInt | Kind::SmallInt | Kind::MediumInt | Kind::Int | Kind::BigInt => {
            Some(CompareAs::Number)
        }
        _ => None,
    }
}

/// The comparisons of BETWEEN with its bounds; texts use the common collation of all three.
pub(super) fn between_as(arg: &Expr, low: &Expr, high: &Expr) -> Result<[CompareAs; 2]> {
    let mut by_low = comparison_among(arg, low);
    let mut by_high = comparison_among(arg, high);
    // A text between a number and a text is compared as a number with both.
    if let (CompareAs::Double, CompareAs::Bytes(_)) | (CompareAs::Bytes(_), CompareAs::Double) =
        (by_low, by_high)
    {
        (by_low, by_high) = (CompareAs::Double, CompareAs::Double);
    }
    // Beside a date, texts are dates, whichever of the three it is (manual, "BETWEEN").
    let is_dated = |how: CompareAs| matches!(how, CompareAs::Date | CompareAs::DateTime);
    if is_dated(by_low) && matches!(by_high, CompareAs::Bytes(_)) {
        by_high = CompareAs::DateTime;
    } else if is_dated(by_high) && matches!(by_low, CompareAs::Bytes(_)) {
        by_low = CompareAs::DateTime;
    }
    let how = &mut [&mut by_low, &mut by_high];
    compare_alike(&[arg, low, high], how, "between")?;
    Ok([by_low, by_high])
}

/// The type of `a op b` (manual, "Arithmetic Operators").
pub fn arithmetic(op: ArithOp, a: &ColumnType, b: &ColumnType, increment: u8) -> ColumnType {
    let (a, b) = (number_like(a), number_like(b));
    let unsigned = a.unsigned || b.unsigned;
    if op == ArithOp::IntDiv {
        let mut ty = ColumnType::bigint();
        ty.unsigned = unsigned;
        return ty;
    }
    if a.kind == Kind::Double || b.kind == Kind::Double {
        let mut ty = ColumnType::double();
        let shown = a.decimals.max(b.decimals);
        let more = if op == ArithOp::Div { increment } else { 0 };
        ty.decimals = shown.saturating_add(more).min(ty.decimals);
        return ty;
    }
    if a.is_integer() && b.is_integer() && op != ArithOp::Div {
        let mut ty = ColumnType::bigint();
        ty.unsigned = unsigned && (op != ArithOp::Mod || a.unsigned);
        return ty;
    }
    let (pa, sa) = precision(&a);
    let (pb, sb) = precision(&b);
    let (whole, scale) = match op {
        ArithOp::Add | ArithOp::Sub => ((pa - sa).max(pb - sb) + 1, sa.max(sb)),
        ArithOp::Mul => (pa - sa + pb - sb, sa + sb),
        ArithOp::Div => (pa - sa + sb, sa + increment),
        ArithOp::IntDiv | ArithOp::Mod => ((pa - sa).max(pb - sb), sa.max(sb)),
    };
    let scale = scale.min(30);
    ColumnType::decimal(whole.saturating_add(scale).clamp(1, 65), scale)
}

/// The numeric type that an operand is converted to.
pub fn number_like(ty: &ColumnType) -> ColumnType {
    match ty.kind {
        Kind::Decimal => ty.clone(),
        Kind::Float | Kind::Double => {
            let mut number = ColumnType::double();
            number.decimals = ty.decimals;
            number
        }
        Kind::Null => ColumnType::bigint(),
        Kind::Year | Kind::Bit => ColumnType::bigint_unsigned(),
        // A hexadecimal or bit literal.
        Kind::VarBinary if ty.unsigned => ColumnType::bigint_unsigned(),
        Kind::Date => ColumnType::bigint(),
        Kind::DateTime | Kind::Timestamp | Kind::Time if ty.decimals > 0 => {
            ColumnType::decimal(20, ty.decimals)
        }
        Kind::DateTime | Kind::Timestamp | Kind::Time => ColumnType::bigint(),
        _ if ty.is_integer() => {
            let mut number = ColumnType::bigint();
            number.unsigned = ty.unsigned;
            number.length = ty.length;
            number
        }
        _ => ColumnType::double(),
    }
}
