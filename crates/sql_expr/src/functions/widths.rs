//! Result types of functions whose maximum length depends on their arguments (manual, "String
//! Functions and Operators"), for result metadata and the columns of CREATE TABLE ... SELECT.

use super::{common_collation, text_of, width};
use crate::expr::{Expr, ExprKind};
use porpoise_types::{Collation, ColumnType, Kind, Value};

/// A text type of this many characters; without a number, the longest one.
fn text_of_width(chars: Option<u32>, args: &[Expr], c: Collation) -> ColumnType {
    let collation = common_collation(args, c);
    match chars {
        Some(chars) => text_of(chars, collation),
        None => ColumnType::text(Kind::LongText, collation),
    }
}

/// The value of an argument that is a constant number.
fn number(e: Option<&Expr>) -> Option<u32> {
    match e?.as_const()? {
        Value::Int(n) => Some(u32::try_from(*n).unwrap_or(0)),
        Value::UInt(n) => Some(u32::try_from(*n).unwrap_or(u32::MAX)),
        _ => None,
    }
}

fn chars(args: &[Expr], at: usize) -> u32 {
    args.get(at).map_or(0, width)
}

/// CONCAT_WS: the texts and the separators between them.
pub(super) fn joined_with(args: &[Expr], c: Collation) -> ColumnType {
    let texts = args.iter().skip(1).map(width).fold(0, u32::saturating_add);
    let gaps = u32::try_from(args.len().saturating_sub(2)).unwrap_or(u32::MAX);
    let all = texts.saturating_add(chars(args, 0).saturating_mul(gaps));
    text_of_width(Some(all), args, c)
}

/// LEFT, RIGHT: the length given by the second argument.
pub(super) fn cut(args: &[Expr], c: Collation) -> ColumnType {
    cut_at(args, 1, c)
}

/// SUBSTRING: the length given by the third argument.
pub(super) fn part(args: &[Expr], c: Collation) -> ColumnType {
    cut_at(args, 2, c)
}

/// The first argument, cut to a constant length at a position.
fn cut_at(args: &[Expr], at: usize, c: Collation) -> ColumnType {
    let whole = super::like_first(args, c);
    match number(args.get(at)) {
        Some(chars) if whole.is_string() && !whole.is_blob() => {
            text_of(chars.min(whole.length), whole.collation)
        }
        _ => whole,
    }
}

/// LPAD, RPAD: the length given by the second argument.
pub(super) fn padded(args: &[Expr], c: Collation) -> ColumnType {
    let texts: Vec<Expr> = args.iter().step_by(2).cloned().collect();
    text_of_width(number(args.get(1)), &texts, c)
}

/// SPACE: the number given by the argument.
pub(super) fn spaces(args: &[Expr], c: Collation) -> ColumnType {
    text_of_width(number(args.first()), &[], c)
}

/// QUOTE: every character escaped, in quotes; at least as long as `NULL`.
pub(super) fn quoted(args: &[Expr], c: Collation) -> ColumnType {
    let most = chars(args, 0).saturating_mul(2).saturating_add(2);
    text_of_width(Some(most.max(4)), args, c)
}

/// REPLACE: each occurrence of a constant text grows by the difference in length; of another text,
/// each character.
pub(super) fn replaced(args: &[Expr], c: Collation) -> ColumnType {
    let (text, to) = (chars(args, 0), chars(args, 2));
    let from = args.get(1).filter(|e| is_known_text(e)).map_or(1, width);
    let times = text / from.max(1);
    let longer = times.saturating_mul(to.saturating_sub(from));
    text_of_width(Some(text.saturating_add(longer)), args, c)
}

/// Whether an expression is a literal text, or its conversion to another character set.
fn is_known_text(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Cast(inner) => is_known_text(inner),
        _ => matches!(e.as_const(), Some(Value::Bytes(text)) if !text.is_empty()),
    }
}

/// INSERT: both texts.
pub(super) fn inserted(args: &[Expr], c: Collation) -> ColumnType {
    let texts: Vec<Expr> = args.iter().step_by(3).cloned().collect();
    text_of_width(
        Some(chars(args, 0).saturating_add(chars(args, 3))),
        &texts,
        c,
    )
}

/// SOUNDEX: at most one letter for each letter; at least four.
pub(super) fn soundex(args: &[Expr], c: Collation) -> ColumnType {
    text_of_width(Some(chars(args, 0).max(4)), args, c)
}

/// EXPORT_SET: 64 bits with separators.
pub(super) fn exported(args: &[Expr], c: Collation) -> ColumnType {
    let widest = chars(args, 1).max(chars(args, 2));
    let between = args.get(3).map_or(1, width);
    let all = widest
        .saturating_mul(64)
        .saturating_add(between.saturating_mul(63));
    let texts: Vec<Expr> = args.iter().skip(1).take(3).cloned().collect();
    text_of_width(Some(all), &texts, c)
}
