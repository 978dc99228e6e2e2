//! East Asian character sets of one or two bytes a character: cp932, euckr, gbk, sjis.
//!
//! Texts are kept as UTF-8 (see `unicode_form`). data/multi_byte.bin, which scripts/multi_byte.py
//! describes, has the characters, their bytes and their weights; a set's tables are made from it
//! when it is first used.
//!
//! Collations order by weights of characters, PAD SPACE. Those of ASCII are below 0x80, a space is
//! 0x20; others are the character's bytes (`_bin`) or what the default collation has for it, from
//! 0x8000 up. Sort keys are those of utf8mb4_general_ci over these weights.

#![expect(
    clippy::indexing_slicing,
    reason = "sets are numbered below their count"
)]

use porpoise_base::interrupt::Pacer;
use std::cmp::Ordering;
use std::sync::OnceLock;

use super::Collation;
use super::charset::{INVALID, decode_utf8};

/// An East Asian character set: its position in [`SETS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MultiByteSet(u8);

/// Names of a character set, and numbers and names of its default and its `_bin` collation.
pub(super) struct Set {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) default: (u16, &'static str),
    pub(super) bin: (u16, &'static str),
}

#[rustfmt::skip]
pub(super) static SETS: [Set; COUNT] = [
    Set { name: "cp932", description: "SJIS for Windows Japanese", default: (95, "cp932_japanese_ci"), bin: (96, "cp932_bin") },
    Set { name: "euckr", description: "EUC-KR Korean", default: (19, "euckr_korean_ci"), bin: (85, "euckr_bin") },
    Set { name: "gbk", description: "GBK Simplified Chinese", default: (28, "gbk_chinese_ci"), bin: (87, "gbk_bin") },
    Set { name: "sjis", description: "Shift-JIS Japanese", default: (13, "sjis_japanese_ci"), bin: (88, "sjis_bin") },
];

const COUNT: usize = 4;

const DATA: &[u8] = include_bytes!("../../data/multi_byte.bin");

static LOADED: [OnceLock<Tables>; COUNT] = [const { OnceLock::new() }; COUNT];

/// The tables of a set, each with an entry for every 16-bit number; 0 stands for none.
pub(super) struct Tables {
    /// Bytes by code point; a single byte is the high one.
    bytes: Vec<u16>,
    /// Weights of the default collation by code point.
    weights: Vec<u16>,
    /// Code points by bytes.
    codes: Vec<u16>,
}

/// Weights of characters in a collation of a multi-byte set.
#[derive(Clone, Copy)]
pub(super) struct Weights {
    tables: &'static Tables,
    /// Whether the weights are the bytes.
    bin: bool,
}

impl Tables {
    /// Reads the tables of one set and advances `numbers`.
    fn read(numbers: &mut impl Iterator<Item = u16>) -> Tables {
        let mut out = Tables {
            bytes: vec![0; 0x1_0000],
            weights: vec![0; 0x1_0000],
            codes: vec![0; 0x1_0000],
        };
        for code in 0..0x80 {
            let weight = numbers.next().unwrap_or(0);
            put(&mut out.bytes, code, code << 8);
            put(&mut out.weights, code, weight);
            put(&mut out.codes, code << 8, code);
        }
        let mut next = || numbers.next().unwrap_or(0);
        for _ in 0..next() {
            let (code, bytes) = (next(), next());
            put(&mut out.bytes, code, bytes);
            put(&mut out.codes, bytes, code);
            put(&mut out.weights, code, bytes);
        }
        for _ in 0..next() {
            let (code, weight) = (next(), next());
            put(&mut out.weights, code, weight);
        }
        for _ in 0..next() {
            let (bytes, code) = (next(), next());
            put(&mut out.codes, bytes, code);
        }
        out
    }
}

fn put(table: &mut [u16], at: u16, value: u16) {
    if let Some(place) = table.get_mut(usize::from(at)) {
        *place = value;
    }
}

fn get(table: &[u16], at: u32) -> Option<u16> {
    let at = usize::try_from(at).ok()?;
    table.get(at).copied().filter(|found| *found != 0)
}

impl MultiByteSet {
    /// The set at a position of [`SETS`].
    pub(super) const fn at(at: usize) -> MultiByteSet {
        assert!(at < COUNT);
        MultiByteSet(at as u8)
    }

    /// All sets.
    pub(super) fn all() -> impl Iterator<Item = MultiByteSet> {
        (0..COUNT).map(MultiByteSet::at)
    }

    pub(super) fn set(self) -> &'static Set {
        &SETS[usize::from(self.0)]
    }

    pub(super) fn default_collation(self) -> Collation {
        Collation(self.set().default.0)
    }

    pub(super) fn bin_collation(self) -> Collation {
        Collation(self.set().bin.0)
    }

    fn tables(self) -> &'static Tables {
        LOADED[usize::from(self.0)].get_or_init(|| {
            let pairs = DATA.as_chunks::<2>().0.iter();
            let mut numbers = pairs.map(|pair| u16::from_be_bytes(*pair));
            let mut tables = Tables::read(&mut numbers);
            for _ in 0..self.0 {
                tables = Tables::read(&mut numbers);
            }
            tables
        })
    }

    /// The weights of the default collation, or of the `_bin` one.
    pub(super) fn weights(self, bin: bool) -> Weights {
        Weights {
            tables: self.tables(),
            bin,
        }
    }

    /// Whether the set has the character.
    pub(super) fn has(self, code: u32) -> bool {
        code < 0x80 || get(&self.tables().bytes, code).is_some()
    }

    /// The UTF-8 text of bytes, and the position of the first that are no character; these become
    /// `?`.
    pub(super) fn text_of(self, bytes: &[u8]) -> (Vec<u8>, Option<usize>) {
        let tables = self.tables();
        let mut out = String::with_capacity(bytes.len() * 2);
        let mut invalid = None;
        let mut at = 0;
        let mut pacer = Pacer::new();
        while let Some(first) = bytes.get(at).filter(|_| !pacer.leaves()) {
            let high = u32::from(*first) << 8;
            let two = bytes.get(at + 1).map(|low| high | u32::from(*low));
            let pair = two.and_then(|two| get(&tables.codes, two)).map(|c| (c, 2));
            let one = || get(&tables.codes, high).map(|c| (c, 1));
            let (code, len) = match first {
                0..0x80 => (u16::from(*first), 1),
                _ => pair
                    .filter(|_| two != Some(high))
                    .or_else(one)
                    .unwrap_or_else(|| {
                        invalid.get_or_insert(at);
                        (u16::from(b'?'), 1)
                    }),
            };
            out.push(char::from_u32(u32::from(code)).unwrap_or('?'));
            at += len;
        }
        (out.into_bytes(), invalid)
    }

    /// The bytes of a UTF-8 text.
    pub(super) fn bytes_of(self, text: &[u8]) -> Vec<u8> {
        let tables = self.tables();
        let mut out = Vec::with_capacity(text.len());
        let mut pacer = Pacer::new();
        let mut rest = text;
        while let Some(first) = rest.first().filter(|_| !pacer.leaves()) {
            let (code, len) = decode_utf8(rest).unwrap_or((INVALID, 1));
            rest = rest.get(len..).unwrap_or_default();
            match get(&tables.bytes, code).map(u16::to_be_bytes) {
                _ if first.is_ascii() => out.push(*first),
                Some([one, 0]) => out.push(one),
                Some(two) => out.extend_from_slice(&two),
                None => out.push(b'?'),
            }
        }
        out
    }
}

impl Weights {
    /// The weight of a character. Characters that the set lacks and invalid bytes weigh more than all
    /// others.
    pub(super) fn weight(self, code: u32) -> u32 {
        let table = if self.bin {
            &self.tables.bytes
        } else {
            &self.tables.weights
        };
        match code {
            0..0x80 if self.bin => code,
            _ => get(table, code)
                .map_or_else(|| if code == 0 { 0 } else { 0x1_0000 + code }, u32::from),
        }
    }

    /// The weight and the length of the first character.
    pub(super) fn first(self, text: &[u8]) -> Option<(u32, usize)> {
        let first = text.first()?;
        let (code, len) = decode_utf8(text).unwrap_or((INVALID + u32::from(*first), 1));
        Some((self.weight(code), len))
    }

    pub(super) fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        let (mut a, mut b) = (a, b);
        let mut pacer = Pacer::new();
        loop {
            if pacer.leaves() {
                return Ordering::Equal;
            }
            let (x, y) = (self.first(a), self.first(b));
            if x.is_none() && y.is_none() {
                return Ordering::Equal;
            }
            let space = (u32::from(b' '), 0);
            let ((x, a_len), (y, b_len)) = (x.unwrap_or(space), y.unwrap_or(space));
            if x != y {
                return x.cmp(&y);
            }
            a = a.get(a_len..).unwrap_or_default();
            b = b.get(b_len..).unwrap_or_default();
        }
    }
}
