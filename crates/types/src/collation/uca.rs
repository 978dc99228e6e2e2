//! Weights of the Unicode collation algorithm: primary ones for utf8mb4_0900_ai_ci,
//! utf8mb4_unicode_ci and utf8mb4_unicode_520_ci, and those of the other levels (`uca_levels`).
//!
//! A character has none, one or several weights; those without an entry in
//! the table get primary ones that are computed from the code point, and with
//! version 13 Hangul syllables those of their letters. The tables are
//! data/uca_*.bin, all of one layout, which scripts/uca_weights.py describes.
//!
//! Invariants:
//! 1. No weight is 0, and in NO PAD collations the first byte of none is 0.
//! 2. The weights of invalid bytes differ from those of all characters.
//!
//! This file has the NO PAD order of version 13; `uca_pad` has the other.

use porpoise_base::interrupt::Pacer;
use std::cmp::Ordering;

use super::charset::decode_utf8;

/// Number of 16-bit entries of the page index.
pub(super) const INDEX: usize = 0x1100;
pub(super) const NO_ENTRY: u16 = 0xFFFF;
pub(super) const EXPANSION: u16 = 0x8000;

/// A sequence of characters with weights of its own.
pub(super) struct Contraction {
    pub(super) codes: Vec<u32>,
    pub(super) weights: Vec<u16>,
}

/// The weights of a version on one level.
pub(super) struct Uca {
    table: &'static [u8],
    /// Offset of the expansions, in 16-bit numbers.
    expansions: usize,
    /// Weights of ASCII characters that have one and begin no contraction; 0 for the others.
    ascii: [u16; 128],
    /// Contractions in the order of their first characters, longer ones first.
    contractions: &'static [Contraction],
    /// Code points from here on weigh 0xFFFD.
    end: u32,
    /// Weights of characters without an entry; the second is 0 where there is only one.
    implicit: fn(u32) -> [u16; 2],
    /// Whether Hangul syllables have the weights of their letters.
    hangul: bool,
    /// Offset that is added to an invalid byte.
    invalid: u16,
}

/// Version 13, in place of 9: utf8mb4_0900_ai_ci.
pub(super) static V13: Uca = Uca {
    hangul: true,
    invalid: 0xFF00,
    ..Uca::new(include_bytes!("../../data/uca_primary.bin"), implicit_13)
};

/// Secondary weights of version 13: accents.
pub(super) static V13_SECONDARY: Uca = Uca {
    hangul: true,
    invalid: 0xFF00,
    ..Uca::new(include_bytes!("../../data/uca_secondary.bin"), |_| {
        [0x120, 0]
    })
};

/// Tertiary weights of version 13: case.
pub(super) static V13_TERTIARY: Uca = Uca {
    hangul: true,
    invalid: 0xFF00,
    ..Uca::new(include_bytes!("../../data/uca_tertiary.bin"), |_| {
        [0x102, 0]
    })
};

/// Version 4.0.0: utf8mb4_unicode_ci. It knows the basic plane only.
pub(super) static V400: Uca = Uca {
    end: 0x1_0000,
    ..Uca::new(include_bytes!("../../data/uca_400.bin"), implicit_old)
};

/// Version 5.2.0: utf8mb4_unicode_520_ci.
pub(super) static V520: Uca = Uca::new(include_bytes!("../../data/uca_520.bin"), implicit_old);

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]
const fn number_const(table: &[u8], at: usize) -> u16 {
    (table[2 * at] as u16) << 8 | table[2 * at + 1] as u16
}

impl Uca {
    const fn new(table: &'static [u8], implicit: fn(u32) -> [u16; 2]) -> Uca {
        let mut pages = 0;
        let mut i = 0;
        while i < INDEX {
            let page = number_const(table, i);
            if page > pages {
                pages = page;
            }
            i += 1;
        }
        let mut ascii = [0; 128];
        i = 0;
        while i < 128 {
            // ASCII is in the first page.
            #[expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]
            {
                ascii[i] = number_const(table, INDEX + i);
            }
            i += 1;
        }
        Uca {
            table,
            expansions: INDEX + 256 * pages as usize,
            ascii,
            contractions: &[],
            end: u32::MAX,
            implicit,
            hangul: false,
            invalid: 0xFE00,
        }
    }

    /// The table as numbers.
    pub(super) fn numbers(&self) -> Vec<u16> {
        let (pairs, _) = self.table.as_chunks::<2>();
        pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect()
    }

    /// Position of the expansions in the table.
    pub(super) fn expansions(&self) -> usize {
        self.expansions
    }

    /// The same version with another table and with contractions.
    pub(super) fn tailored(
        &self,
        table: &'static [u8],
        expansions: usize,
        contractions: &'static [Contraction],
    ) -> Uca {
        let mut out = Uca {
            table,
            expansions,
            contractions,
            ascii: [0; 128],
            ..*self
        };
        for code in 0..128 {
            let begins = |c: &Contraction| c.codes.first() == Some(&code);
            let entry = out.entry(code);
            if entry < EXPANSION
                && !contractions.iter().any(begins)
                && let Some(place) = out.ascii.get_mut(code as usize)
            {
                *place = entry;
            }
        }
        out
    }

    /// Whether some sequences of characters have weights of their own.
    pub(super) fn has_contractions(&self) -> bool {
        !self.contractions.is_empty()
    }

    /// Whether a contraction begins with the character.
    pub(super) fn begins_contraction(&self, code: u32) -> bool {
        !self.contractions_from(code).is_empty()
    }

    /// The contractions that begin with the character.
    fn contractions_from(&self, code: u32) -> &'static [Contraction] {
        let first = |c: &Contraction| c.codes.first().copied();
        let all = self.contractions;
        let start = all.partition_point(|c| first(c) < Some(code));
        let end = all.partition_point(|c| first(c) <= Some(code));
        all.get(start..end).unwrap_or_default()
    }

    /// The contraction at the start of a text, and its length.
    fn contraction(&self, text: &[u8]) -> Option<(&'static Contraction, usize)> {
        let (first, _) = decode_utf8(text)?;
        let found = |contraction: &'static Contraction| {
            let mut at = 0;
            for code in &contraction.codes {
                match decode_utf8(text.get(at..)?) {
                    Some((other, len)) if other == *code => at += len,
                    _ => return None,
                }
            }
            Some((contraction, at))
        };
        self.contractions_from(first).iter().find_map(found)
    }

    fn number(&self, at: usize) -> u16 {
        match self.table.get(2 * at..2 * at + 2) {
            Some([high, low]) => u16::from_be_bytes([*high, *low]),
            _ => 0,
        }
    }

    fn entry(&self, code: u32) -> u16 {
        let page = usize::try_from(code >> 8).map_or(0, |p| match p {
            0..INDEX => self.number(p),
            _ => 0,
        });
        match page {
            0 => NO_ENTRY,
            _ => self.number(INDEX + 256 * (usize::from(page) - 1) + (code & 0xFF) as usize),
        }
    }

    /// The weight of an ASCII character; 0 if it does not have exactly one, if a contraction begins
    /// with it, and for other bytes.
    #[inline]
    pub(super) fn ascii(&self, byte: u8) -> u16 {
        self.ascii.get(usize::from(byte)).copied().unwrap_or(0)
    }

    fn weights(&'static self, code: u32) -> Weights {
        if self.hangul && (0xAC00..0xD7A4).contains(&code) {
            return self.syllable(code - 0xAC00);
        }
        if code >= self.end {
            return Weights::one(self, 0xFFFD);
        }
        match self.entry(code) {
            0 => Weights::none(self),
            NO_ENTRY => match (self.implicit)(code) {
                [one, 0] => Weights::one(self, one),
                [a, b] => Weights::computed(self, [0, 0, a, b], 2),
            },
            n if n < EXPANSION => Weights::one(self, n),
            n => {
                let place = self.expansions + usize::from(n - EXPANSION);
                Weights {
                    left: self.number(place),
                    place: place + 1,
                    ..Weights::none(self)
                }
            }
        }
    }

    /// Weights of a Hangul syllable: those of its two or three letters.
    fn syllable(&'static self, index: u32) -> Weights {
        let lead = self.entry(0x1100 + index / 588);
        let vowel = self.entry(0x1161 + index % 588 / 28);
        match index % 28 {
            0 => Weights::computed(self, [0, 0, lead, vowel], 2),
            t => Weights::computed(self, [0, lead, vowel, self.entry(0x11A7 + t)], 1),
        }
    }

    /// Whether two single characters are equal, as LIKE compares them. Codes from 0x11_0000 up
    /// are invalid bytes; codes beyond the table equal only themselves.
    pub(super) fn same_char(&'static self, a: u32, b: u32) -> bool {
        let end = self.end.min(0x11_0000);
        a == b || (a.max(b) < end && self.weights(a).eq(self.weights(b)))
    }
}

/// Maximum number of weights that [`Weights`] holds itself.
const GIVEN: usize = 4;

/// Iterator over the weights of one character or contraction: weights that it holds itself
/// (`computed`), or those of the table.
#[derive(Clone, Copy)]
struct Weights {
    uca: &'static Uca,
    /// Weights that are not in the table; those from `at` on remain.
    computed: [u16; GIVEN],
    at: u8,
    /// Number of remaining weights in the table, and their position.
    left: u16,
    place: usize,
}

impl Weights {
    fn computed(uca: &'static Uca, computed: [u16; GIVEN], at: u8) -> Weights {
        Weights {
            uca,
            computed,
            at,
            left: 0,
            place: 0,
        }
    }

    fn none(uca: &'static Uca) -> Weights {
        Weights::computed(uca, [0; GIVEN], GIVEN as u8)
    }

    /// The weights of a contraction, at most four.
    fn listed(uca: &'static Uca, weights: &[u16]) -> Weights {
        let mut given = [0; GIVEN];
        given
            .iter_mut()
            .zip(weights)
            .for_each(|(place, weight)| *place = *weight);
        let unused = GIVEN.saturating_sub(weights.len());
        given.rotate_right(unused);
        Weights::computed(uca, given, unused as u8)
    }

    fn one(uca: &'static Uca, weight: u16) -> Weights {
        Weights::computed(uca, [0, 0, 0, weight], 3)
    }
}

impl Iterator for Weights {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        if let Some(weight) = self.computed.get(usize::from(self.at)) {
            self.at += 1;
            return Some(*weight);
        }
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        self.place += 1;
        Some(self.uca.number(self.place - 1))
    }
}

/// Unified ideographs among the compatibility ideographs (UTS #10, table of implicit weights).
fn is_unified_in_compatibility_block(code: u32) -> bool {
    matches!(
        code,
        0xFA0E | 0xFA0F | 0xFA11 | 0xFA13 | 0xFA14 | 0xFA1F | 0xFA21 | 0xFA23 | 0xFA24 | 0xFA27
            ..=0xFA29
    )
}

/// Weights of a character without an entry (UTS #10, "Computing Implicit Weights").
fn implicit_13(code: u32) -> [u16; 2] {
    let tangut = matches!(code, 0x1_7000..=0x1_8AFF);
    if tangut {
        return [0xFB00, ((code - 0x1_7000) & 0x7FFF) as u16 | 0x8000];
    }
    let base: u32 = match code {
        0x4E00..=0x9FEF => 0xFB40,
        _ if is_unified_in_compatibility_block(code) => 0xFB40,
        0x3400..=0x4DB5
        | 0x2_0000..=0x2_A6D6
        | 0x2_A700..=0x2_B734
        | 0x2_B740..=0x2_B81D
        | 0x2_B820..=0x2_CEA1
        | 0x2_CEB0..=0x2_EBE0 => 0xFB80,
        _ => 0xFBC0,
    };
    two_weights(base, code)
}

/// The same for versions 4.0.0 and 5.2.0 as in MySQL: only ideographs of the basic plane
/// differ from other characters.
fn implicit_old(code: u32) -> [u16; 2] {
    let base: u32 = match code {
        0x4E00..=0x9FA5 => 0xFB40,
        _ if is_unified_in_compatibility_block(code) => 0xFB40,
        0x3400..=0x4DB5 => 0xFB80,
        _ => 0xFBC0,
    };
    two_weights(base, code)
}

fn two_weights(base: u32, code: u32) -> [u16; 2] {
    [
        ((base + (code >> 15)) & 0xFFFF) as u16,
        (code & 0x7FFF) as u16 | 0x8000,
    ]
}

/// Iterator over the weights of a text.
pub(super) struct Scanner<'a> {
    uca: &'static Uca,
    rest: &'a [u8],
    current: Weights,
    /// Paces interrupt checkpoints; if the statement is abandoned, the iteration ends.
    pacer: Pacer,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(uca: &'static Uca, text: &'a [u8]) -> Scanner<'a> {
        Scanner {
            uca,
            rest: text,
            current: Weights::none(uca),
            pacer: Pacer::new(),
        }
    }
}

impl Iterator for Scanner<'_> {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        loop {
            if let Some(weight) = self.current.next() {
                return Some(weight);
            }
            let (first, rest) = self.rest.split_first()?;
            match self.uca.ascii(*first) {
                0 => {}
                weight => {
                    self.rest = rest;
                    return Some(weight);
                }
            }
            if self.pacer.leaves() {
                self.rest = &[];
                return None;
            }
            if self.uca.has_contractions()
                && let Some((contraction, len)) = self.uca.contraction(self.rest)
            {
                self.rest = self.rest.get(len..).unwrap_or_default();
                self.current = Weights::listed(self.uca, &contraction.weights);
                continue;
            }
            match decode_utf8(self.rest) {
                Some((code, len)) => {
                    self.rest = self.rest.get(len..).unwrap_or_default();
                    self.current = self.uca.weights(code);
                }
                None => {
                    self.rest = rest;
                    return Some(self.uca.invalid | u16::from(*first));
                }
            }
        }
    }
}

/// Returns the order by the first difference within the common ASCII prefix, or the prefix's
/// length: while both texts are weighted ASCII characters, weights correspond one to one. With
/// contractions, whose parts the prefix could separate, the length is 0.
pub(super) fn ascii_prefix(uca: &Uca, a: &[u8], b: &[u8]) -> Result<usize, Ordering> {
    let mut same = 0;
    if uca.has_contractions() {
        return Ok(same);
    }
    for (x, y) in a.iter().zip(b) {
        if x != y || !x.is_ascii() {
            let (x, y) = (uca.ascii(*x), uca.ascii(*y));
            if x == 0 || y == 0 {
                break;
            }
            if x != y {
                return Err(x.cmp(&y));
            }
        }
        same += 1;
    }
    Ok(same)
}

pub(super) fn compare(uca: &'static Uca, a: &[u8], b: &[u8]) -> Ordering {
    match ascii_prefix(uca, a, b) {
        Err(order) => order,
        Ok(same) => {
            let a = a.get(same..).unwrap_or_default();
            let b = b.get(same..).unwrap_or_default();
            Scanner::new(uca, a).cmp(Scanner::new(uca, b))
        }
    }
}

pub(super) fn sort_key(uca: &'static Uca, text: &[u8], out: &mut Vec<u8>) {
    // A contraction may begin with an ASCII letter.
    let read = if uca.has_contractions() {
        0
    } else {
        ascii_weights(uca, text, out)
    };
    for weight in Scanner::new(uca, text.get(read..).unwrap_or_default()) {
        out.extend_from_slice(&weight.to_be_bytes());
    }
}

/// Appends the weights of the ASCII prefix of `text` and returns its length. Space for all of
/// them is reserved at once, so that a byte costs a look-up and a store.
fn ascii_weights(uca: &Uca, text: &[u8], out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + 2 * text.len(), 0);
    let room = out.get_mut(start..).unwrap_or_default();
    let (places, _) = room.as_chunks_mut::<2>();
    let mut places = places.iter_mut();
    let mut read = 0;
    for byte in text.iter().take_while(|b| b.is_ascii()) {
        read += 1;
        let weight = uca.ascii(*byte);
        if weight == 0 {
            continue;
        }
        if let Some(place) = places.next() {
            *place = weight.to_be_bytes();
        }
    }
    let unused = places.len();
    out.truncate(out.len() - 2 * unused);
    read
}
