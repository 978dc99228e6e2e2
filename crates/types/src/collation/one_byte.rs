//! Character sets of one byte a character, each of which contains ASCII.
//!
//! Code points, case mappings and weights are those of data/one_byte.bin and
//! data/one_byte_weights.bin, which scripts/one_byte.py writes in the order of [`SETS`].

#![expect(
    clippy::indexing_slicing,
    reason = "tables have 256 entries and are indexed by bytes; sets by numbers below their count; the rest is evaluated at compile time"
)]

use super::Collation;

/// A character set of one byte a character: its position in [`SETS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OneByteSet(u8);

/// Names of a character set, and its collations: the default first, the `_bin` one last.
pub(super) struct Set {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) collations: &'static [(u16, &'static str)],
}

const fn set(
    name: &'static str,
    description: &'static str,
    collations: &'static [(u16, &'static str)],
) -> Set {
    Set {
        name,
        description,
        collations,
    }
}

#[rustfmt::skip]
pub(super) static SETS: [Set; COUNT] = [
    set("latin1", "cp1252 West European", &[(8, "latin1_swedish_ci"), (48, "latin1_general_ci"),
        (5, "latin1_german1_ci"), (15, "latin1_danish_ci"), (49, "latin1_general_cs"), (94, "latin1_spanish_ci"),
        (47, "latin1_bin")]),
    set("armscii8", "ARMSCII-8 Armenian", &[(32, "armscii8_general_ci"), (64, "armscii8_bin")]),
    set("cp1250", "Windows Central European", &[(26, "cp1250_general_ci"), (44, "cp1250_croatian_ci"),
        (99, "cp1250_polish_ci"), (66, "cp1250_bin")]),
    set("cp1251", "Windows Cyrillic", &[(51, "cp1251_general_ci"), (14, "cp1251_bulgarian_ci"),
        (52, "cp1251_general_cs"), (23, "cp1251_ukrainian_ci"), (50, "cp1251_bin")]),
    set("cp1256", "Windows Arabic", &[(57, "cp1256_general_ci"), (67, "cp1256_bin")]),
    set("cp1257", "Windows Baltic", &[(59, "cp1257_general_ci"), (29, "cp1257_lithuanian_ci"), (58, "cp1257_bin")]),
    set("cp850", "DOS West European", &[(4, "cp850_general_ci"), (80, "cp850_bin")]),
    set("cp852", "DOS Central European", &[(40, "cp852_general_ci"), (81, "cp852_bin")]),
    set("cp866", "DOS Russian", &[(36, "cp866_general_ci"), (68, "cp866_bin")]),
    set("dec8", "DEC West European", &[(3, "dec8_swedish_ci"), (69, "dec8_bin")]),
    set("geostd8", "GEOSTD8 Georgian", &[(92, "geostd8_general_ci"), (93, "geostd8_bin")]),
    set("greek", "ISO 8859-7 Greek", &[(25, "greek_general_ci"), (70, "greek_bin")]),
    set("hebrew", "ISO 8859-8 Hebrew", &[(16, "hebrew_general_ci"), (71, "hebrew_bin")]),
    set("hp8", "HP West European", &[(6, "hp8_english_ci"), (72, "hp8_bin")]),
    set("keybcs2", "DOS Kamenicky Czech-Slovak", &[(37, "keybcs2_general_ci"), (73, "keybcs2_bin")]),
    set("koi8r", "KOI8-R Relcom Russian", &[(7, "koi8r_general_ci"), (74, "koi8r_bin")]),
    set("koi8u", "KOI8-U Ukrainian", &[(22, "koi8u_general_ci"), (75, "koi8u_bin")]),
    set("latin2", "ISO 8859-2 Central European", &[(9, "latin2_general_ci"), (27, "latin2_croatian_ci"),
        (21, "latin2_hungarian_ci"), (77, "latin2_bin")]),
    set("latin5", "ISO 8859-9 Turkish", &[(30, "latin5_turkish_ci"), (78, "latin5_bin")]),
    set("latin7", "ISO 8859-13 Baltic", &[(41, "latin7_general_ci"), (20, "latin7_estonian_cs"),
        (42, "latin7_general_cs"), (79, "latin7_bin")]),
    set("macce", "Mac Central European", &[(38, "macce_general_ci"), (43, "macce_bin")]),
    set("macroman", "Mac West European", &[(39, "macroman_general_ci"), (53, "macroman_bin")]),
];

const COUNT: usize = 22;

/// The tables of a set in data/one_byte.bin, of 256 bytes each: code points (two tables), upper case, lower case.
type Parts = [[u8; 256]; 4];

static TABLES: &[Parts] = {
    let (parts, rest) = include_bytes!("../../data/one_byte.bin").as_chunks::<256>();
    let (sets, left) = parts.as_chunks::<4>();
    assert!(rest.is_empty() && left.is_empty() && sets.len() == COUNT);
    sets
};

static WEIGHTS: &[[u8; 256]] = {
    let (tables, rest) = include_bytes!("../../data/one_byte_weights.bin").as_chunks::<256>();
    let mut count = 0;
    let mut at = 0;
    while at < COUNT {
        count += SETS[at].collations.len() - 1;
        at += 1;
    }
    assert!(rest.is_empty() && tables.len() == count);
    // Keys use two byte values above the weight of a space.
    at = 0;
    while at < count {
        assert!(tables[at][b' ' as usize] < 0xFC);
        at += 1;
    }
    tables
};

/// Code points of the bytes from 0x80 up, in ascending order, with their bytes.
static BYTES: [[(u16, u8); 128]; COUNT] = {
    let mut all = [[(0, 0); 128]; COUNT];
    let mut set = 0;
    while set < COUNT {
        let mut used = 0;
        while used < 128 {
            let byte = used as u8 | 0x80;
            let code = code_of(&TABLES[set], byte);
            // Insertion after equal ones: of several bytes with one code point the first is used.
            let mut at = used;
            while at > 0 && all[set][at - 1].0 > code {
                all[set][at] = all[set][at - 1];
                at -= 1;
            }
            all[set][at] = (code, byte);
            used += 1;
        }
        set += 1;
    }
    all
};

const fn code_of(parts: &Parts, byte: u8) -> u16 {
    let at = 2 * (byte as usize & 0x7F);
    let part = &parts[(byte >> 7) as usize];
    (part[at] as u16) << 8 | part[at + 1] as u16
}

/// The weights of a collation, by its position among those that are not `_bin`.
pub(super) fn weights(at: u8) -> &'static [u8; 256] {
    &WEIGHTS[usize::from(at)]
}

impl OneByteSet {
    /// MySQL's latin1: Windows code page 1252, with its five unassigned bytes mapped to the control characters with the
    /// same number.
    pub const LATIN1: OneByteSet = OneByteSet(0);

    /// The set at a position of [`SETS`].
    pub(super) const fn at(at: usize) -> OneByteSet {
        assert!(at < COUNT);
        OneByteSet(at as u8)
    }

    /// All sets.
    pub(super) fn all() -> impl Iterator<Item = OneByteSet> {
        (0..COUNT).map(OneByteSet::at)
    }

    pub(super) fn set(self) -> &'static Set {
        &SETS[usize::from(self.0)]
    }

    pub(super) fn default_collation(self) -> Collation {
        self.set()
            .collations
            .first()
            .map_or(Collation::BINARY, |(id, _)| Collation(*id))
    }

    pub(super) fn bin_collation(self) -> Collation {
        self.set()
            .collations
            .last()
            .map_or(Collation::BINARY, |(id, _)| Collation(*id))
    }

    fn parts(self) -> &'static Parts {
        &TABLES[usize::from(self.0)]
    }

    /// The code point of a byte; `None` if no character is assigned to it.
    #[inline]
    pub(super) fn code(self, byte: u8) -> Option<u32> {
        match code_of(self.parts(), byte) {
            0 if byte != 0 => None,
            code => Some(u32::from(code)),
        }
    }

    /// The byte of a code point; `None` if the set lacks it.
    pub(super) fn byte(self, code: u32) -> Option<u8> {
        let code = u16::try_from(code).ok()?;
        if code < 0x80 {
            return Some(code as u8);
        }
        let bytes = &BYTES[usize::from(self.0)];
        let at = bytes.partition_point(|(other, _)| *other < code);
        bytes
            .get(at)
            .filter(|(other, _)| *other == code)
            .map(|(_, byte)| *byte)
    }

    /// The byte in upper case.
    #[must_use]
    pub fn upper(self, byte: u8) -> u8 {
        self.parts()[2][usize::from(byte)]
    }

    /// The byte in lower case.
    #[must_use]
    pub fn lower(self, byte: u8) -> u8 {
        self.parts()[3][usize::from(byte)]
    }
}
