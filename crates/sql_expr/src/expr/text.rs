//! Texts read from rows without evaluation: tests of a column, or of its beginning, against constants.
//!
//! Texts of ASCII characters are compared by bytes ([`porpoise_types::AsciiEquality`],
//! [`LikePattern`]). `SUBSTRING(column, 1, 2)` and the like are slices of the row.
//!
//! Invariant: a test whose text has other characters, or is not whole in the row, is
//! [`ConditionResult::NotApplicable`].

use super::condition::ConditionResult;
use super::eval::{EvalCx, Slot, eval};
use super::{CmpOp, Expr, ExprKind, Load};
use porpoise_types::{AsciiEquality, Charset, Collation, CompareAs, LikePattern, ValueRef};
use smallvec::SmallVec;
use std::ops::Range;

/// A text column of a row, or a part of it.
#[derive(Clone, Debug)]
struct TextExpr {
    /// Slot of the table, and position of the column in it.
    column: (usize, usize),
    /// The characters of the text that are read; all if `None`.
    part: Option<Range<usize>>,
}

/// A text read from a row.
enum TextResult<'a> {
    Null,
    Text(&'a [u8]),
    NotApplicable,
}

impl TextExpr {
    /// The expression as a text column in this character set, or a part of one.
    fn of(e: &Expr, charset: Charset, cx: &EvalCx<'_>) -> Option<TextExpr> {
        match &e.kind {
            ExprKind::Column {
                slot,
                column,
                load: Load::Plain,
            } if e.ty.is_string() && e.ty.collation.charset() == charset => Some(TextExpr {
                column: (*slot, *column),
                part: None,
            }),
            ExprKind::Call(function, args) => {
                let (text, from, count) = match (function.name, args.as_slice()) {
                    ("SUBSTRING" | "SUBSTR" | "MID", [text, from, count]) => {
                        (text, position(from, cx)?.checked_sub(1)?, count)
                    }
                    ("LEFT", [text, count]) => (text, 0, count),
                    _ => return None,
                };
                let whole = TextExpr::of(text, charset, cx)?;
                let end = from.checked_add(position(count, cx)?)?;
                whole.part.is_none().then_some(TextExpr {
                    part: Some(from..end),
                    ..whole
                })
            }
            _ => None,
        }
    }

    #[inline]
    fn read<'a>(&self, row: &[Slot<'a>]) -> TextResult<'a> {
        let (slot, column) = self.column;
        let Some(slot) = row.get(slot) else {
            return TextResult::Null;
        };
        let has_overflow = match slot {
            Slot::Row(row) => row.has_overflow(),
            Slot::Keyed(keyed) => keyed.row.has_overflow(),
            Slot::Values(_) | Slot::Null => false,
        };
        match slot.get(column) {
            _ if has_overflow => TextResult::NotApplicable,
            ValueRef::Null => TextResult::Null,
            ValueRef::Bytes(text) => self.part_of(text),
            _ => TextResult::NotApplicable,
        }
    }

    #[inline]
    fn part_of<'a>(&self, text: &'a [u8]) -> TextResult<'a> {
        let Some(part) = &self.part else {
            return TextResult::Text(text);
        };
        let read = text.get(..part.end).unwrap_or(text);
        if read.is_ascii() {
            TextResult::Text(read.get(part.start..).unwrap_or_default())
        } else {
            TextResult::NotApplicable
        }
    }
}

/// The value of a constant that is not a negative integer.
fn position(e: &Expr, cx: &EvalCx<'_>) -> Option<usize> {
    match constant(e, cx)? {
        ValueRef::Int(v) => usize::try_from(v).ok(),
        ValueRef::UInt(v) => usize::try_from(v).ok(),
        _ => None,
    }
}

/// The value of a literal or parameter.
fn constant<'a>(e: &'a Expr, cx: &EvalCx<'a>) -> Option<ValueRef<'a>> {
    match e.kind {
        ExprKind::Const(_) | ExprKind::Param(_) => eval(e, &[], cx).ok(),
        _ => None,
    }
}

/// Equality of a text with one of some constants.
#[derive(Clone, Debug)]
pub struct TextTest {
    text: TextExpr,
    equality: AsciiEquality,
    /// The constants in normal form.
    items: Items,
    /// Whether NULL is one of them.
    has_null: bool,
}

/// A normalized text; longer ones are allocated.
type Normal = SmallVec<[u8; 64]>;

/// Normalized texts, ascending.
#[derive(Clone, Debug)]
enum Items {
    /// Texts that are numbers ([`as_number`]), as numbers.
    Numbers(Vec<u128>),
    /// Texts, of which one or more is long.
    Texts(Vec<Normal>),
}

/// Number of items up to which they are compared one after the other.
const FEW_ITEMS: usize = 8;

/// A text of at most 15 bytes as a number: its bytes, and its length in the highest one.
#[inline]
fn as_number(text: &[u8]) -> Option<u128> {
    let mut bytes = [0; 16];
    bytes
        .get_mut(..15)?
        .get_mut(..text.len())?
        .copy_from_slice(text);
    Some(u128::from_le_bytes(bytes) | (text.len() as u128) << 120)
}

impl Items {
    fn of(mut texts: Vec<Normal>) -> Items {
        let numbers: Option<Vec<u128>> = texts.iter().map(|text| as_number(text)).collect();
        if let Some(mut numbers) = numbers {
            numbers.sort_unstable();
            return Items::Numbers(numbers);
        }
        texts.sort_unstable();
        Items::Texts(texts)
    }

    #[inline]
    fn contain(&self, text: &Normal) -> bool {
        match self {
            Items::Numbers(numbers) => match as_number(text) {
                Some(number) if numbers.len() <= FEW_ITEMS => numbers.contains(&number),
                Some(number) => numbers.binary_search(&number).is_ok(),
                None => false,
            },
            Items::Texts(texts) => texts.binary_search(text).is_ok(),
        }
    }
}

impl TextTest {
    /// Compiles `a = b` or `a <> b`, of which one is a constant. The negation of `<>` is the
    /// caller's.
    pub(super) fn of_comparison(
        (op, how): (CmpOp, CompareAs),
        (a, b): (&Expr, &Expr),
        cx: &EvalCx<'_>,
    ) -> Option<TextTest> {
        if !matches!(op, CmpOp::Eq | CmpOp::Ne) {
            return None;
        }
        let (text, item) = match constant(b, cx) {
            Some(_) => (a, b),
            None => (b, a),
        };
        TextTest::new(text, std::iter::once((how, item)), cx)
    }

    /// Compiles IN.
    pub(super) fn of_list(
        arg: &Expr,
        list: &[(CompareAs, Expr)],
        cx: &EvalCx<'_>,
    ) -> Option<TextTest> {
        let items = list.iter().map(|(how, item)| (*how, item));
        TextTest::new(arg, items, cx)
    }

    fn new<'e>(
        text: &Expr,
        list: impl Iterator<Item = (CompareAs, &'e Expr)>,
        cx: &EvalCx<'_>,
    ) -> Option<TextTest> {
        let mut list = list.peekable();
        let (CompareAs::Bytes(collation), _) = list.peek()? else {
            return None;
        };
        let collation: Collation = *collation;
        let mut test = TextTest {
            text: TextExpr::of(text, collation.charset(), cx)?,
            equality: collation.ascii_equality()?,
            items: Items::Numbers(Vec::new()),
            has_null: false,
        };
        let mut items = Vec::new();
        for (how, item) in list {
            if how != CompareAs::Bytes(collation) {
                return None;
            }
            // Constants may have another character set, of which the test knows ASCII only.
            item.ty.collation.ascii_equality()?;
            match constant(item, cx)? {
                ValueRef::Null => test.has_null = true,
                ValueRef::Bytes(text) => {
                    let mut normal = Normal::new();
                    test.equality
                        .normalize(text, &mut normal)
                        .then(|| items.push(normal))?;
                }
                _ => return None,
            }
        }
        test.items = Items::of(items);
        Some(test)
    }

    #[inline]
    pub(super) fn holds(&self, row: &[Slot<'_>]) -> ConditionResult {
        let text = match self.text.read(row) {
            TextResult::Text(text) => text,
            TextResult::Null => return ConditionResult::Unknown,
            TextResult::NotApplicable => return ConditionResult::NotApplicable,
        };
        let mut normal = Normal::new();
        if !self.equality.normalize(text, &mut normal) {
            return ConditionResult::NotApplicable;
        }
        match (self.items.contain(&normal), self.has_null) {
            (true, _) => ConditionResult::Yes,
            (false, true) => ConditionResult::Unknown,
            (false, false) => ConditionResult::No,
        }
    }
}

/// LIKE with a constant pattern.
#[derive(Clone, Debug)]
pub struct LikeTest {
    text: TextExpr,
    /// The pattern; NULL if `None`.
    pattern: Option<LikePattern>,
}

impl LikeTest {
    /// Compiles `arg LIKE pattern`.
    pub(super) fn of(
        arg: &Expr,
        (pattern, escape): (&Expr, Option<u8>),
        collation: Collation,
        cx: &EvalCx<'_>,
    ) -> Option<LikeTest> {
        let text = TextExpr::of(arg, collation.charset(), cx)?;
        let is_same_set = pattern.ty.collation.charset() == collation.charset();
        let both_have_ascii = || {
            let own = collation.ascii_equality();
            own.and(pattern.ty.collation.ascii_equality()).is_some()
        };
        let pattern = match constant(pattern, cx)? {
            ValueRef::Null => None,
            ValueRef::Bytes(text) if is_same_set || text.is_ascii() && both_have_ascii() => {
                Some(collation.like_pattern(text, escape.map(char::from)))
            }
            _ => return None,
        };
        Some(LikeTest { text, pattern })
    }

    #[inline]
    pub(super) fn holds(&self, row: &[Slot<'_>]) -> ConditionResult {
        match (self.text.read(row), &self.pattern) {
            (TextResult::NotApplicable, _) => ConditionResult::NotApplicable,
            (TextResult::Text(text), Some(pattern)) => pattern.matches(text).into(),
            (TextResult::Null, _) | (_, None) => ConditionResult::Unknown,
        }
    }
}
