//! Types and collations of compound expressions (manual, "Type Conversion in
//! Expression Evaluation", "Collation Coercibility in Expressions").

use crate::error::{Result, SqlError};
pub use crate::expr::types::{merged_type, precision};
use crate::expr::{ArithOp, Coercibility, Expr, ExprKind};
use porpoise_types::{Collation, ColumnType, CompareAs, Kind, comparison_type};

/// Whether a value of this type is a character or binary string.
pub fn is_text(ty: &ColumnType) -> bool {
    ty.is_string() || ty.is_binary() || ty.is_blob() || matches!(ty.kind, Kind::Enum | Kind::Set)
}

/// A collation with its coercibility.
type Claim = (Collation, Coercibility);

/// The common collation of two operands. Error 1267 if there is none.
pub fn collation_of_two(a: &Expr, b: &Expr, operation: &str) -> Result<Claim> {
    if !is_text(&b.ty) || a.ty.collation == b.ty.collation {
        return Ok((a.ty.collation, a.coercibility.min(b.coercibility)));
    }
    if !is_text(&a.ty) {
        return Ok((b.ty.collation, b.coercibility));
    }
    let claim = |e: &Expr| (e.ty.collation, e.coercibility);
    stronger_claim(claim(a), claim(b), operation)
}

/// Makes all operands that are compared as text use their common collation; error 1267 if there is
/// none. `how` has the comparisons of all operands but the first.
pub(super) fn compare_alike(
    operands: &[&Expr],
    how: &mut [&mut CompareAs],
    operation: &str,
) -> Result<()> {
    let texts = how.iter().filter_map(|how| match how {
        CompareAs::Bytes(collation) => Some(*collation),
        _ => None,
    });
    let mut texts = texts.collect::<Vec<_>>();
    texts.dedup();
    if texts.len() < 2 {
        return Ok(());
    }
    let mut common: Option<Claim> = None;
    for e in operands.iter().filter(|e| is_text(&e.ty)) {
        let own = (e.ty.collation, e.coercibility);
        common = Some(common.map_or(Ok(own), |before| stronger_claim(before, own, operation))?);
    }
    if let Some((collation, _)) = common {
        for how in how {
            if let CompareAs::Bytes(own) = how {
                *own = collation;
            }
        }
    }
    Ok(())
}

/// The claim with the lower coercibility wins (manual, "Collation Coercibility in Expressions").
fn stronger_claim(a: Claim, b: Claim, operation: &str) -> Result<Claim> {
    if a.0 == b.0 {
        return Ok((a.0, a.1.min(b.1)));
    }
    match a.1.cmp(&b.1) {
        std::cmp::Ordering::Less => return Ok(a),
        std::cmp::Ordering::Greater => return Ok(b),
        std::cmp::Ordering::Equal => {}
    }
    if let Some(binary) = [a, b].iter().find(|claim| claim.0 == Collation::BINARY) {
        return Ok(*binary);
    }
    for (one, other) in [(a, b), (b, a)] {
        // Unicode wins over a smaller character set, and `_bin` over other collations of its set.
        let (own, its) = (one.0.charset(), other.0.charset());
        if own.is_unicode() && (!its.is_unicode() || own.max_len() > its.max_len()) {
            return Ok(one);
        }
        if own == its && one.1 != Coercibility::Explicit && one.0.name().ends_with("_bin") {
            return Ok(one);
        }
    }
    let describe = |claim: Claim| {
        let level = match claim.1 {
            Coercibility::Explicit => "EXPLICIT",
            Coercibility::None => "NONE",
            Coercibility::Implicit => "IMPLICIT",
            Coercibility::System => "SYSCONST",
            Coercibility::Literal => "COERCIBLE",
            Coercibility::Numeric => "NUMERIC",
            Coercibility::Ignorable => "IGNORABLE",
        };
        format!("({},{level})", claim.0.name())
    };
    let text = format!(
        "Illegal mix of collations {} and {} for operation '{operation}'",
        describe(a),
        describe(b)
    );
    Err(SqlError::new(1267, "HY000", text))
}

/// The comparison of two operands.
pub fn comparison(a: &Expr, b: &Expr, operation: &str) -> Result<CompareAs> {
    let how = comparison_type(&a.ty, &b.ty);
    if how == CompareAs::Double
        && let Some(exact) = column_with_text(a, b).or_else(|| column_with_text(b, a))
    {
        return Ok(exact);
    }
    if !matches!(how, CompareAs::Bytes(_)) {
        return Ok(how);
    }
    let (collation, _) = collation_of_two(a, b, operation)?;
    Ok(CompareAs::Bytes(collation))
}

/// The comparison of a DECIMAL or integer column with a constant text, which is converted to the
/// column's type: a double has too few digits.
fn column_with_text(column: &Expr, constant: &Expr) -> Option<CompareAs> {
    let is_column = matches!(
        column.kind,
        ExprKind::Column { .. } | ExprKind::Outer { .. }
    );
    if !is_column || !is_text(&constant.ty) || !constant.is_literal() {
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
    let mut by_low = comparison(arg, low, "between")?;
    let mut by_high = comparison(arg, high, "between")?;
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
