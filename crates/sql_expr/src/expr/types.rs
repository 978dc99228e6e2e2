//! Result types and collations: the width of texts, the common type of branches, and the collation
//! that wins (manual, "Type Conversion in Expression Evaluation", "Collation Coercibility in
//! Expressions").

use super::{Expr, ExprKind, collations};
use porpoise_types::{Collation, ColumnType, Kind, Value};

/// Maximum number of characters of an expression's text.
pub fn width(e: &Expr) -> u32 {
    let ty = &e.ty;
    let max = ty.collation.charset().max_len().max(1);
    match ty.kind {
        Kind::Char | Kind::VarChar | Kind::Binary | Kind::VarBinary => ty.length,
        Kind::TinyInt
        | Kind::SmallInt
        | Kind::MediumInt
        | Kind::Int
        | Kind::BigInt
        | Kind::Bit
        | Kind::Year => integer_width(e),
        Kind::Decimal => ty.length.saturating_add(2),
        Kind::Float => 12,
        Kind::Double => 22,
        Kind::Date => 10,
        Kind::DateTime | Kind::Timestamp => 19 + fraction_width(ty),
        Kind::Time => 10 + fraction_width(ty),
        Kind::Null => 0,
        Kind::Enum | Kind::Set => {
            let charset = ty.collation.charset();
            let chars = |m: &[u8]| u32::try_from(charset.char_count(m)).unwrap_or(u32::MAX);
            let lengths = ty.members.iter().map(|m| chars(m));
            match ty.kind {
                Kind::Enum => lengths.max().unwrap_or(0),
                _ => lengths.fold(0, |sum, n| sum.saturating_add(n).saturating_add(1)),
            }
        }
        _ => ty.max_bytes() / max,
    }
}

/// Characters of an integer: those of a literal with its sign, one of a truth value, or the most
/// that the type has.
fn integer_width(e: &Expr) -> u32 {
    let digits = |n: u64| n.checked_ilog10().unwrap_or(0) + 1;
    match e.as_const() {
        Some(Value::Int(n)) => return digits(n.unsigned_abs()) + 1,
        Some(Value::UInt(n)) => return digits(*n),
        _ => {}
    }
    let is_column = matches!(e.kind, ExprKind::Column { .. });
    let signed = u32::from(!e.ty.unsigned);
    if e.ty.kind == Kind::BigInt
        && e.ty.length != 1
        && let Some(chars) = computed_width(e)
    {
        return chars;
    }
    match e.ty.kind {
        Kind::TinyInt => 3 + signed,
        Kind::SmallInt => 5 + signed,
        Kind::MediumInt => 8 + signed,
        Kind::Int => 10 + signed,
        Kind::Year if is_column => 4,
        Kind::BigInt if is_column => 20,
        Kind::BigInt if e.ty.length == 1 => 1,
        _ => 21,
    }
}

/// Maximum number of digits of an integer.
fn integer_digits(e: &Expr) -> u8 {
    let is_literal = matches!(e.as_const(), Some(Value::UInt(_)));
    let sign = u32::from(!e.ty.unsigned && !is_literal);
    let digits = integer_width(e).saturating_sub(sign);
    u8::try_from(digits.clamp(1, 20)).unwrap_or(20)
}

/// Characters of a computed integer that follow from its operands or its function; `None` if the
/// type decides.
fn computed_width(e: &Expr) -> Option<u32> {
    // Digits, without the sign, of an operand with a known number of them.
    let digits = |e: &Expr| {
        let is_known = e.ty.is_integer() && !matches!(e.kind, ExprKind::Column { .. });
        is_known.then(|| integer_width(e).saturating_sub(1))
    };
    let widest = |args: &[Expr]| {
        let widths = args.iter().filter(|e| e.ty.kind != Kind::Null).map(digits);
        widths.collect::<Option<Vec<u32>>>()?.into_iter().max()
    };
    let chars = match &e.kind {
        ExprKind::Arith(op, args) => {
            let [a, b] = args.as_ref();
            let (a, b) = (digits(a)?, digits(b)?);
            1 + match op {
                super::ArithOp::Add | super::ArithOp::Sub => a.max(b) + 1,
                super::ArithOp::Mul => a + b,
                super::ArithOp::IntDiv | super::ArithOp::Div => a,
                super::ArithOp::Mod => a.max(b),
            }
        }
        ExprKind::Negate(arg) => 1 + digits(arg)?,
        ExprKind::Coalesce(args) => 1 + widest(args)?,
        ExprKind::NullIf(_, args) => {
            let [first, _] = args.as_ref();
            1 + digits(first)?
        }
        ExprKind::Case { whens, otherwise } => {
            let mut branches: Vec<Expr> = whens.iter().map(|w| w.result.clone()).collect();
            branches.extend(otherwise.as_deref().cloned());
            1 + widest(&branches)?
        }
        ExprKind::Benchmark(_) => 1,
        ExprKind::Call(function, args) => return function_width(function.name, args),
        _ => return None,
    };
    (chars <= 20).then_some(chars)
}

/// Characters of the integers that a function returns (manual, chapter "Functions and Operators").
fn function_width(name: &str, args: &[Expr]) -> Option<u32> {
    Some(match name {
        "STRCMP" | "QUARTER" | "WEEKDAY" | "DAYOFWEEK" | "INTERVAL" => 2,
        "FIELD" | "ASCII" | "FIND_IN_SET" | "DAY" | "DAYOFMONTH" | "MINUTE" | "SECOND" | "WEEK"
        | "WEEKOFYEAR" | "MONTH" => 3,
        "DAYOFYEAR" | "HOUR" | "YEAR" => 4,
        "YEARWEEK" => 7,
        "TO_DAYS" => 8,
        "LENGTH"
        | "OCTET_LENGTH"
        | "CHAR_LENGTH"
        | "CHARACTER_LENGTH"
        | "BIT_LENGTH"
        | "COERCIBILITY"
        | "UNCOMPRESSED_LENGTH"
        | "TIME_TO_SEC" => 10,
        "LOCATE" | "INSTR" => 11,
        "ABS" | "LEAST" | "GREATEST" => {
            let known = |e: &Expr| e.ty.is_integer() && !matches!(e.kind, ExprKind::Column { .. });
            let widths = args.iter().map(|e| known(e).then(|| integer_width(e)));
            widths.collect::<Option<Vec<u32>>>()?.into_iter().max()?
        }
        _ => return None,
    })
}

/// Characters of the fraction of a second, with its point.
fn fraction_width(ty: &ColumnType) -> u32 {
    match u32::from(ty.decimals) {
        0 => 0,
        digits => digits + 1,
    }
}

/// Text type of this many characters: VARCHAR, or LONGTEXT above its limit.
pub fn text_of(chars: u32, collation: Collation) -> ColumnType {
    if chars > 16_383 {
        return ColumnType::text(Kind::LongText, collation);
    }
    ColumnType::varchar(chars, collation)
}

/// The collation on which the texts among the arguments agree; if there is none, that of the lowest
/// coercibility, where binary wins over text.
pub fn common_collation(args: &[Expr], otherwise: Collation) -> Collation {
    let all: Vec<&Expr> = args.iter().collect();
    match collations::agree(&all, "", collations::Use::Result) {
        Ok(Some(claim)) => return claim.collation,
        Ok(None) => return otherwise,
        Err(_) => {}
    }
    let textual = |e: &&Expr| e.ty.is_string() || e.ty.is_binary() || e.ty.is_blob();
    if args
        .iter()
        .filter(textual)
        .any(|e| e.ty.collation == Collation::BINARY)
    {
        return Collation::BINARY;
    }
    let Some(least) = args.iter().filter(textual).map(|e| e.coercibility).min() else {
        return otherwise;
    };
    // Of those with equal coercibility, Unicode wins, and `_bin` over other collations of its set.
    let insisting = args
        .iter()
        .filter(textual)
        .filter(|e| e.coercibility == least);
    insisting
        .map(|e| e.ty.collation)
        .reduce(porpoise_types::compare::common_collation)
        .unwrap_or(otherwise)
}

/// Precision and scale of a number as a decimal.
pub fn precision(ty: &ColumnType) -> (u8, u8) {
    match ty.kind {
        Kind::Decimal => (u8::try_from(ty.length).unwrap_or(65), ty.decimals),
        _ => (20, 0),
    }
}

/// Whether values of this type are dates, times, or both.
pub fn is_temporal(ty: &ColumnType) -> bool {
    matches!(
        ty.kind,
        Kind::Date | Kind::DateTime | Kind::Timestamp | Kind::Time
    )
}

/// The common type of several branches (CASE, IF, COALESCE, UNION).
pub fn merged_type(branches: &[&Expr], collation: Collation) -> ColumnType {
    let mut known = branches.iter().filter(|e| e.ty.kind != Kind::Null);
    let Some(first) = known.next() else {
        return ColumnType::null();
    };
    if known.clone().all(|e| e.ty == first.ty) {
        return match first.ty.kind {
            // The result is an ordinary number, not a truth value.
            Kind::BigInt if branches.len() > 1 => ColumnType {
                length: ColumnType::bigint().length,
                ..first.ty.clone()
            },
            _ => first.ty.clone(),
        };
    }
    let known_types = || {
        branches
            .iter()
            .map(|e| &e.ty)
            .filter(|t| t.kind != Kind::Null)
    };
    let all = |test: fn(&ColumnType) -> bool| known_types().all(test);
    if all(|t| t.is_integer() || matches!(t.kind, Kind::Year | Kind::Bit)) {
        let mut ty = ColumnType::bigint();
        ty.unsigned = all(|t| t.unsigned);
        // No integer type has the values of both signed and unsigned BIGINT.
        if !ty.unsigned && known_types().any(|t| t.unsigned && t.kind == Kind::BigInt) {
            return ColumnType::decimal(20, 0);
        }
        return ty;
    }
    if all(|t| t.is_integer() || t.kind == Kind::Decimal) {
        let parts: Vec<(u8, u8)> = branches
            .iter()
            .filter(|e| e.ty.kind != Kind::Null)
            .map(|e| match e.ty.kind {
                Kind::Decimal => precision(&e.ty),
                _ => (integer_digits(e), 0),
            })
            .collect();
        let whole = parts.iter().map(|(p, s)| p - s).max().unwrap_or(0);
        let scale = parts.iter().map(|(_, s)| *s).max().unwrap_or(0);
        return ColumnType::decimal(whole.saturating_add(scale).clamp(1, 65), scale);
    }
    if all(ColumnType::is_numeric) {
        let mut ty = ColumnType::double();
        let shown = known_types().map(|t| t.decimals).max();
        ty.decimals = shown.unwrap_or(ty.decimals).min(ty.decimals);
        return ty;
    }
    if all(is_temporal) {
        let fsp = known_types().map(|t| t.decimals.min(6)).max().unwrap_or(0);
        return if all(|t| t.kind == Kind::Time) {
            ColumnType::time(fsp)
        } else {
            ColumnType::datetime(fsp)
        };
    }
    let owned: Vec<Expr> = branches.iter().map(|e| (*e).clone()).collect();
    let chars = branches.iter().map(|e| width(e)).max().unwrap_or(0);
    text_of(chars, common_collation(&owned, collation))
}
