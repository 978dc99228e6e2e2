//! What conditions leave of one index: leading parts that are equal to
//! something, and a range on the next part.

use super::access::{Asked, MAX_KEYS};
use super::facts::Facts;
use super::{Bound, Pattern, Span, cost};
use crate::expr::Expr;
use porpoise_rows::catalog::{Index, IndexKind, IndexPart, Table};

/// A part of an index.
pub(super) struct Piece {
    pub(super) span: Span,
    /// Leading parts that are equal to something.
    pub(super) equal: usize,
    /// A NULL is among what they may be.
    pub(super) null: bool,
    /// Ends of a range on the next part; texts that begin as a pattern does
    /// have both.
    pub(super) bounded: usize,
    /// Whole keys of a unique index, none with a NULL.
    pub(super) whole: bool,
}

impl Piece {
    /// It may turn out to be the whole table.
    pub(super) fn or_table(&self) -> bool {
        let pattern = self.span.low.as_ref().and_then(|b| b.pattern);
        pattern.is_some_and(|p| p.or_table)
    }
}

impl Asked<'_> {
    /// What the facts leave of an index, if they narrow it.
    pub(super) fn piece(&self, index: &Index, facts: &[Facts<'_>], entries: bool) -> Option<Piece> {
        let (keys, equal, null) = equal_keys(self.table, index, facts);
        let mut piece = Piece {
            span: Span {
                keys,
                low: None,
                high: None,
            },
            equal,
            null,
            bounded: 0,
            whole: equal == index.parts.len() && index.kind != IndexKind::Plain && !null,
        };
        if piece.whole {
            return Some(piece);
        }
        if index.using_hash {
            return None;
        }
        let next = index.parts.get(equal);
        let fact = next
            .filter(|p| p.prefix.is_none())
            .and_then(|p| facts.get(p.column));
        let (low, high) = bounds(fact, next.is_some_and(|p| p.desc));
        piece.bounded = usize::from(low.is_some()) + usize::from(high.is_some());
        (piece.span.low, piece.span.high) = (low, high);
        if piece.bounded == 0 {
            piece.span.low = like_bound(fact, equal == 0 && !entries);
            // As narrow as both ends are.
            piece.bounded = 2 * usize::from(piece.span.low.is_some());
        }
        (piece.bounded > 0 || equal > 0).then_some(piece)
    }

    /// Rows of a piece, about.
    pub(super) fn rows_of(&self, position: usize, piece: &Piece) -> f64 {
        let keys = piece.span.keys.len() as f64;
        match piece.whole {
            true => keys,
            false => {
                let each = self.of_keys(position, piece.equal);
                each * keys * cost::of_bounds(piece.bounded)
            }
        }
    }
}

/// The bounds of a column in the order of the index.
fn bounds(fact: Option<&Facts<'_>>, desc: bool) -> (Option<Bound>, Option<Bound>) {
    let Some(fact) = fact else {
        return (None, None);
    };
    let bound = |b: &Option<(&Expr, bool)>| {
        b.map(|(value, inclusive)| Bound {
            value: value.clone(),
            inclusive,
            pattern: None,
        })
    };
    match desc {
        false => (bound(&fact.low), bound(&fact.high)),
        true => (bound(&fact.high), bound(&fact.low)),
    }
}

/// The range of texts that begin as a pattern does. Read instead of the index,
/// where the pattern begins with a wildcard, is the table if `or_table` says so.
fn like_bound(fact: Option<&Facts<'_>>, or_table: bool) -> Option<Bound> {
    let (value, escape) = fact?.like?;
    Some(Bound {
        value: value.clone(),
        inclusive: true,
        pattern: Some(Pattern { escape, or_table }),
    })
}

/// The values that leading parts of an index are equal to, in all
/// combinations; of how many parts; and whether a NULL is among them.
fn equal_keys(table: &Table, index: &Index, facts: &[Facts<'_>]) -> (Vec<Vec<Expr>>, usize, bool) {
    let mut keys: Vec<Vec<Expr>> = vec![Vec::new()];
    let (mut equal, mut null) = (0, false);
    for part in &index.parts {
        let Some(fact) = facts.get(part.column) else {
            break;
        };
        let Some(values) = fact.equal.as_ref().filter(|_| finds_equal(table, part)) else {
            break;
        };
        let count = values.len() + usize::from(fact.null);
        if keys.len() * count > MAX_KEYS {
            break;
        }
        let mut longer = Vec::with_capacity(keys.len() * count);
        for key in keys {
            let nothing = fact.null.then(Expr::null);
            let values = values.iter().map(|value| (*value).clone());
            longer.extend(values.chain(nothing).map(|value| {
                let mut key = key.clone();
                key.push(value);
                key
            }));
        }
        keys = longer;
        null |= fact.null;
        equal += 1;
    }
    (keys, equal, null)
}

/// Whether the entries with a value's part are all that an equal value can
/// have. A prefix of so many characters is the same for equal texts, unless the
/// collation takes one character for several.
fn finds_equal(table: &Table, part: &IndexPart) -> bool {
    let ty = table.columns.get(part.column).map(|c| &c.ty);
    part.prefix.is_none() || ty.is_some_and(|ty| ty.collation.weighs_by_character())
}
