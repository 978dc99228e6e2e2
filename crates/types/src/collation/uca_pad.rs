//! utf8mb4_unicode_ci and utf8mb4_unicode_520_ci: weights of the Unicode collation
//! algorithm, PAD SPACE.
//!
//! Texts compare as if their weights were followed by infinitely many weights of spaces. A
//! sort key is a symbol of two bytes for each weight, in the manner of the other PAD
//! SPACE collations: with s the space's weight, a weight below s is itself, one above s
//! is 2 more; a space is s if the next weight after the run of spaces is below s, else
//! s + 2; the end is s + 1. Spaces at the end are left out.
//!
//! Spaces are recognised by weight: U+00A0 has the weight of a space, and a character without
//! a weight after the last space does not end the run.

use std::cmp::Ordering;

use super::uca::{Scanner, Uca, ascii_prefix};

pub(super) fn compare(uca: &'static Uca, a: &[u8], b: &[u8]) -> Ordering {
    let same = match ascii_prefix(uca, a, b) {
        Err(order) => return order,
        Ok(same) => same,
    };
    let space = uca.ascii(b' ');
    let mut a = Scanner::new(uca, a.get(same..).unwrap_or_default());
    let mut b = Scanner::new(uca, b.get(same..).unwrap_or_default());
    loop {
        let (x, y) = (a.next(), b.next());
        if x.is_none() && y.is_none() {
            return Ordering::Equal;
        }
        let by_weight = x.unwrap_or(space).cmp(&y.unwrap_or(space));
        if by_weight.is_ne() {
            return by_weight;
        }
    }
}

/// Calls `take` with each weight except those of trailing spaces, and with the number of
/// spaces before it.
fn without_end(uca: &'static Uca, text: &[u8], mut take: impl FnMut(usize, u16)) {
    let space = uca.ascii(b' ');
    let mut spaces = 0;
    for weight in Scanner::new(uca, text) {
        if weight == space {
            spaces += 1;
        } else {
            take(std::mem::take(&mut spaces), weight);
        }
    }
}

pub(super) fn sort_key(uca: &'static Uca, text: &[u8], out: &mut Vec<u8>) {
    let space = uca.ascii(b' ');
    out.reserve(2 * text.len() + 2);
    without_end(uca, text, |spaces, weight| {
        let (filling, symbol) = if weight < space {
            (space, weight)
        } else {
            // No weight is above 0xFFFD.
            (space + 2, weight.saturating_add(2))
        };
        for _ in 0..spaces {
            out.extend_from_slice(&filling.to_be_bytes());
        }
        out.extend_from_slice(&symbol.to_be_bytes());
    });
    out.extend_from_slice(&end(uca));
}

/// Number of bytes of a sort key's end symbol.
pub(super) const END_LEN: usize = 2;

/// The symbol that ends a sort key.
fn end(uca: &Uca) -> [u8; END_LEN] {
    (uca.ascii(b' ') + 1).to_be_bytes()
}

/// Length of the sort key at the start of `key`, including its end symbol.
pub(super) fn key_len(uca: &Uca, key: &[u8]) -> Option<usize> {
    let end = end(uca);
    Some(2 * key.chunks(2).position(|symbol| symbol == end)? + END_LEN)
}
