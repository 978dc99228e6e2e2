//! Comparison and sort keys of all collations except those of the Unicode collation algorithm.

#![expect(
    clippy::indexing_slicing,
    reason = "tables have 256 entries and are indexed by bytes; texts by counters below their length"
)]

use porpoise_base::interrupt::Pacer;
use std::cmp::Ordering;

use super::charset::decode_utf8;
use super::tables::general_weight;

const SPACE: u32 = 0x20;
/// Symbol of a space in a run before a weight below the space's.
const SPACE_BELOW: u32 = 0x20;
/// Symbol of the end of the text, which stands for infinitely many spaces.
pub(super) const END: u8 = 0x21;
/// Symbol of a space in a run before a weight above the space's.
const SPACE_ABOVE: u32 = 0x22;

/// The two bytes that end an escaped binary string.
pub(crate) const BINARY_END: [u8; 2] = [0, 0];

/// Appends a self-delimiting encoding of bytes: 00 becomes 00 FF, the end is 00 00.
pub(crate) fn escape_binary(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(0, rest) {
        out.extend_from_slice(&rest[..=at]);
        out.push(0xFF);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&BINARY_END);
}

pub(super) fn table_weight(table: &[u8; 256], byte: u8) -> u8 {
    table[usize::from(byte)]
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    let len = text.iter().rposition(|b| *b != b' ').map_or(0, |at| at + 1);
    &text[..len]
}

/// The text without the bytes at its end that weigh as a space.
fn trim_space_weights<'a>(table: &[u8; 256], text: &'a [u8]) -> &'a [u8] {
    let space = table_weight(table, b' ');
    let other = |b: &u8| table_weight(table, *b) != space;
    let len = text.iter().rposition(other).map_or(0, |at| at + 1);
    &text[..len]
}

/// The symbol that ends the sort keys of a table.
pub(super) fn table_end(table: &[u8; 256]) -> u8 {
    table_weight(table, b' ') + 1
}

pub(super) fn compare_table(table: &[u8; 256], a: &[u8], b: &[u8]) -> Ordering {
    for (x, y) in a.iter().zip(b) {
        if x != y {
            let by_weight = table_weight(table, *x).cmp(&table_weight(table, *y));
            if by_weight.is_ne() {
                return by_weight;
            }
        }
    }
    let space = table_weight(table, b' ');
    let against_spaces = |rest: &[u8]| {
        rest.iter()
            .map(|b| table_weight(table, *b).cmp(&space))
            .find(|o| o.is_ne())
    };
    if a.len() > b.len() {
        against_spaces(&a[b.len()..]).unwrap_or(Ordering::Equal)
    } else {
        against_spaces(&b[a.len()..]).map_or(Ordering::Equal, Ordering::reverse)
    }
}

/// Returns the weight of the first character of utf8 text, and its length. Invalid bytes weigh more
/// than all characters.
#[inline]
fn general_step(text: &[u8]) -> Option<(u32, usize)> {
    match decode_utf8(text) {
        Some((code, len)) => Some((general_weight(code), len)),
        None => text.first().map(|b| (0x11_0000 + u32::from(*b), 1)),
    }
}

pub(super) fn compare_general(a: &[u8], b: &[u8]) -> Ordering {
    let mut at = 0;
    let shorter = a.len().min(b.len());
    // Both are ASCII so far, so equal positions have corresponding characters.
    while at < shorter {
        let (x, y) = (a[at], b[at]);
        if (x | y) >= 0x80 {
            break;
        }
        if x != y {
            let (x, y) = (x.to_ascii_uppercase(), y.to_ascii_uppercase());
            if x != y {
                return x.cmp(&y);
            }
        }
        at += 1;
    }
    let (mut a, mut b) = (&a[at..], &b[at..]);
    let mut pacer = Pacer::new();
    loop {
        if pacer.leaves() {
            return Ordering::Equal;
        }
        let x = general_step(a);
        let y = general_step(b);
        if x.is_none() && y.is_none() {
            return Ordering::Equal;
        }
        let (wx, lx) = x.unwrap_or((SPACE, 0));
        let (wy, ly) = y.unwrap_or((SPACE, 0));
        if wx != wy {
            return wx.cmp(&wy);
        }
        (a, b) = (&a[lx..], &b[ly..]);
    }
}

/// With s the space's weight, a weight below s is its own symbol, one above s is 2 more; a space is
/// s or s + 2, the end is s + 1.
pub(super) fn key_table(table: &[u8; 256], text: &[u8], out: &mut Vec<u8>) {
    let text = trim_space_weights(table, text);
    out.reserve(text.len() + 1);
    let space = table_weight(table, b' ');
    let mut spaces = 0;
    for byte in text {
        let weight = table_weight(table, *byte);
        if weight == space {
            spaces += 1;
            continue;
        }
        let filling = if weight < space { space } else { space + 2 };
        for _ in 0..std::mem::take(&mut spaces) {
            out.push(filling);
        }
        if weight < space {
            out.push(weight);
        } else if weight <= 0xFC {
            out.push(weight + 2);
        } else {
            out.extend_from_slice(&[0xFF, weight]);
        }
    }
    out.push(table_end(table));
}

pub(super) fn key_general(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = trim_spaces(text);
    out.reserve(rest.len() + 1);
    let mut spaces = 0;
    while let Some(first) = rest.first() {
        // ASCII, the common case, needs no table: letters are folded to upper case.
        let (weight, len) = if first.is_ascii() {
            (u32::from(first.to_ascii_uppercase()), 1)
        } else {
            general_step(rest).unwrap_or((SPACE, 1))
        };
        rest = &rest[len..];
        if weight == SPACE {
            spaces += 1;
            continue;
        }
        let space = if weight < SPACE {
            SPACE_BELOW
        } else {
            SPACE_ABOVE
        } as u8;
        for _ in 0..std::mem::take(&mut spaces) {
            out.push(space);
        }
        push_symbol(if weight < SPACE { weight } else { weight + 2 }, out);
    }
    out.push(END);
}

/// Appends the sort key of weights of characters: `first` gives the weight and the length of the
/// first character of a text. A space weighs 0x20; no other character does.
pub(super) fn key_characters(
    first: impl Fn(&[u8]) -> Option<(u32, usize)>,
    text: &[u8],
    out: &mut Vec<u8>,
) {
    let mut rest = trim_spaces(text);
    out.reserve(rest.len() + 1);
    let mut spaces = 0;
    let mut pacer = Pacer::new();
    while let Some((weight, len)) = first(rest).filter(|_| !pacer.leaves()) {
        rest = &rest[len..];
        if weight == SPACE {
            spaces += 1;
            continue;
        }
        let space = if weight < SPACE {
            SPACE_BELOW
        } else {
            SPACE_ABOVE
        } as u8;
        for _ in 0..std::mem::take(&mut spaces) {
            out.push(space);
        }
        push_symbol(if weight < SPACE { weight } else { weight + 2 }, out);
    }
    out.push(END);
}

/// Appends a symbol below 0x40_0000 in one to four bytes, as UTF-8 does: the order is
/// preserved, and no symbol is a prefix of another.
fn push_symbol(symbol: u32, out: &mut Vec<u8>) {
    let low = |shift: u32| (symbol >> shift & 0x3F) as u8 | 0x80;
    match symbol {
        0..0x80 => out.push(symbol as u8),
        0x80..0x800 => out.extend_from_slice(&[(symbol >> 6) as u8 | 0xC0, low(0)]),
        0x800..0x1_0000 => {
            out.extend_from_slice(&[(symbol >> 12) as u8 | 0xE0, low(6), low(0)]);
        }
        _ => {
            out.extend_from_slice(&[(symbol >> 18) as u8 | 0xF0, low(12), low(6), low(0)]);
        }
    }
}
