//! latin1_german2_ci: the order of German telephone directories, in which ä equals ae and ß ss.
//!
//! Each byte has one or two weights; a string compares as the sequence of its bytes' weights, PAD SPACE. The sort
//! key is computed from that sequence as in other single-byte collations. data/german2.bin, which
//! scripts/multi_byte.py writes, has the first weights of all bytes, then the second ones (0: none).

#![expect(
    clippy::indexing_slicing,
    reason = "there are two tables of 256 entries, indexed by bytes"
)]

use porpoise_base::interrupt::Pacer;
use std::cmp::Ordering;

use super::{order, tables};

static TABLES: &[[u8; 256]] = {
    let (tables, rest) = include_bytes!("../../data/german2.bin").as_chunks::<256>();
    assert!(rest.is_empty() && tables.len() == 2);
    tables
};

/// The weights of a text.
pub(super) fn weights(text: &[u8]) -> impl Iterator<Item = u8> {
    text.iter().flat_map(|byte| {
        let [first, second] = weights_of(*byte);
        [Some(first), Some(second).filter(|second| *second > 0)]
            .into_iter()
            .flatten()
    })
}

fn weights_of(byte: u8) -> [u8; 2] {
    [TABLES[0][usize::from(byte)], TABLES[1][usize::from(byte)]]
}

/// Whether two characters have the same weights.
pub(super) fn same(a: u8, b: u8) -> bool {
    weights_of(a) == weights_of(b)
}

pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) = (weights(a), weights(b));
    let mut pacer = Pacer::new();
    loop {
        let (x, y) = (a.next(), b.next());
        if x.is_none() && y.is_none() || pacer.leaves() {
            return Ordering::Equal;
        }
        let by_weight = x.unwrap_or(b' ').cmp(&y.unwrap_or(b' '));
        if by_weight.is_ne() {
            return by_weight;
        }
    }
}

pub(super) fn sort_key(text: &[u8], out: &mut Vec<u8>) {
    let weights: Vec<u8> = weights(text).collect();
    order::key_table(&tables::IDENTITY, &weights, out);
}
