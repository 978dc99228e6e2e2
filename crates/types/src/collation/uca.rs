//! utf8mb4_0900_ai_ci: primary weights of the Unicode collation algorithm.
//!
//! A character has none, one or several weights; those without an entry in
//! the table get two that are computed from the code point, Hangul
//! syllables those of their letters. The table is data/uca_primary.bin, written
//! by scripts/uca_weights.py, which tells its layout.

use std::cmp::Ordering;
use std::hash::Hasher;

use super::charset::decode_utf8;
use super::order::Chunk;

static TABLE: &[u8] = include_bytes!("../../data/uca_primary.bin");

/// 16-bit numbers of the page index.
const INDEX: usize = 0x1100;
const NO_ENTRY: u16 = 0xFFFF;
const EXPANSION: u16 = 0x8000;

/// Where the expansions begin, in 16-bit numbers.
const EXPANSIONS: usize = {
    let mut pages = 0;
    let mut i = 0;
    while i < INDEX {
        let page = number_const(i);
        if page > pages {
            pages = page;
        }
        i += 1;
    }
    INDEX + 256 * pages
};

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]
const fn number_const(at: usize) -> usize {
    (TABLE_CONST[2 * at] as usize) << 8 | TABLE_CONST[2 * at + 1] as usize
}

const TABLE_CONST: &[u8] = include_bytes!("../../data/uca_primary.bin");

/// Weights of ASCII, each of which has one or none.
static ASCII: [u16; 128] = {
    let mut table = [0; 128];
    let mut i = 0;
    while i < 128 {
        // ASCII is in the first page.
        #[expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]
        {
            table[i] = number_const(INDEX + i) as u16;
        }
        i += 1;
    }
    table
};

fn number(at: usize) -> u16 {
    match TABLE.get(2 * at..2 * at + 2) {
        Some([high, low]) => u16::from_be_bytes([*high, *low]),
        _ => 0,
    }
}

/// Weights of one character: at most these many are computed, more come from the table.
#[derive(Clone, Copy)]
struct Weights {
    /// Computed weights still to be given, from `at` on.
    computed: [u16; 3],
    at: u8,
    /// Weights of the table still to be given, and their position.
    left: u16,
    place: usize,
}

impl Weights {
    const NONE: Weights = Weights {
        computed: [0; 3],
        at: 3,
        left: 0,
        place: 0,
    };

    fn one(weight: u16) -> Weights {
        Weights {
            computed: [0, 0, weight],
            at: 2,
            ..Weights::NONE
        }
    }

    fn of(code: u32) -> Weights {
        if (0xAC00..0xD7A4).contains(&code) {
            return hangul(code - 0xAC00);
        }
        match entry(code) {
            0 => Weights::NONE,
            NO_ENTRY => {
                let [a, b] = implicit(code);
                Weights {
                    computed: [0, a, b],
                    at: 1,
                    ..Weights::NONE
                }
            }
            n if n < EXPANSION => Weights::one(n),
            n => {
                let place = EXPANSIONS + usize::from(n - EXPANSION);
                Weights {
                    left: number(place),
                    place: place + 1,
                    ..Weights::NONE
                }
            }
        }
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
        Some(number(self.place - 1))
    }
}

fn entry(code: u32) -> u16 {
    let page = usize::try_from(code >> 8).map_or(0, |p| if p < INDEX { number(p) } else { 0 });
    match page {
        0 => NO_ENTRY,
        _ => number(INDEX + 256 * (usize::from(page) - 1) + (code & 0xFF) as usize),
    }
}

/// Weights of a Hangul syllable: those of its two or three letters.
fn hangul(index: u32) -> Weights {
    let lead = entry(0x1100 + index / 588);
    let vowel = entry(0x1161 + index % 588 / 28);
    match index % 28 {
        0 => Weights {
            computed: [0, lead, vowel],
            at: 1,
            ..Weights::NONE
        },
        t => Weights {
            computed: [lead, vowel, entry(0x11A7 + t)],
            at: 0,
            ..Weights::NONE
        },
    }
}

/// Weights of a character without an entry (UTS #10, "Computing Implicit Weights").
fn implicit(code: u32) -> [u16; 2] {
    let tangut = matches!(code, 0x1_7000..=0x1_8AFF);
    if tangut {
        return [0xFB00, ((code - 0x1_7000) & 0x7FFF) as u16 | 0x8000];
    }
    let base: u32 = match code {
        0x4E00..=0x9FEF
        | 0xFA0E
        | 0xFA0F
        | 0xFA11
        | 0xFA13
        | 0xFA14
        | 0xFA1F
        | 0xFA21
        | 0xFA23
        | 0xFA24
        | 0xFA27..=0xFA29 => 0xFB40,
        0x3400..=0x4DB5
        | 0x2_0000..=0x2_A6D6
        | 0x2_A700..=0x2_B734
        | 0x2_B740..=0x2_B81D
        | 0x2_B820..=0x2_CEA1
        | 0x2_CEB0..=0x2_EBE0 => 0xFB80,
        _ => 0xFBC0,
    };
    [
        ((base + (code >> 15)) & 0xFFFF) as u16,
        (code & 0x7FFF) as u16 | 0x8000,
    ]
}

/// The weights of a whole text.
struct Scanner<'a> {
    rest: &'a [u8],
    current: Weights,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a [u8]) -> Scanner<'a> {
        Scanner {
            rest: text,
            current: Weights::NONE,
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
            if let Some(weight) = ASCII.get(usize::from(*first)) {
                self.rest = rest;
                if *weight != 0 {
                    return Some(*weight);
                }
                continue;
            }
            match decode_utf8(self.rest) {
                Some((code, len)) => {
                    self.rest = self.rest.get(len..).unwrap_or_default();
                    self.current = Weights::of(code);
                }
                None => {
                    // Bytes that are no character weigh more than all characters.
                    self.rest = rest;
                    return Some(0xFF00 | u16::from(*first));
                }
            }
        }
    }
}

pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    // While both are ASCII with a weight, weights stand side by side.
    let mut same = 0;
    for (x, y) in a.iter().zip(b) {
        if x != y || !x.is_ascii() {
            let weights = (ASCII.get(usize::from(*x)), ASCII.get(usize::from(*y)));
            let (Some(x @ 1..), Some(y @ 1..)) = weights else {
                break;
            };
            if x != y {
                return x.cmp(y);
            }
        }
        same += 1;
    }
    let a = a.get(same..).unwrap_or_default();
    let b = b.get(same..).unwrap_or_default();
    Scanner::new(a).cmp(Scanner::new(b))
}

pub(super) fn sort_key(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(2 * text.len() + 1);
    for weight in Scanner::new(text) {
        out.extend_from_slice(&weight.to_be_bytes());
    }
}

pub(super) fn hash<H: Hasher>(text: &[u8], hasher: &mut H) {
    let mut chunk = Chunk::new(hasher);
    for weight in Scanner::new(text) {
        let [high, low] = weight.to_be_bytes();
        chunk.push(high);
        chunk.push(low);
    }
    chunk.finish();
}

pub(super) fn same_char(a: u32, b: u32) -> bool {
    // Codes from 0x11_0000 up are bytes that are no character.
    a == b || (a.max(b) < 0x11_0000 && Weights::of(a).eq(Weights::of(b)))
}
