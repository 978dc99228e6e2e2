//! East Asian character sets: big5, cp932, eucjpms, euckr, gb18030, gb2312, gbk, sjis, ujis.
//!
//! Texts are kept as UTF-8 (see `unicode_form`). data/multi_byte.bin, which scripts/multi_byte.py
//! writes, has the characters, their bytes and their weights; a set's tables are made from it
//! when it is first used.
//!
//! Tables have 16-bit entries, in which a character's bytes are encoded:
//!
//! | bytes of the character | entry |
//! |---|---|
//! | one | the byte in the high half |
//! | two | the bytes |
//! | three (Extended Unix Code: 0x8F and two more) | the last two, with the highest bit of the last one cleared |
//! | four (GB18030) | none: these are the remaining characters in the order of their code points |
//!
//! Collations order by weights of characters, PAD SPACE. Weights of ASCII are below 0x80, a space is
//! 0x20. The weight of another character is at least 0x100: its bytes (`_bin`), or its entry in the
//! default collation's table. Sort keys are those of utf8mb4_general_ci over these weights.

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
    pub(super) form: Form,
}

/// Encoding scheme of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One or two bytes.
    Two,
    /// Extended Unix Code of Japanese: one or two bytes, or three of which the first is 0x8F.
    EucJp,
    /// GB18030: one, two or four bytes. All of Unicode.
    Gb18030,
}

/// The first byte of the characters of three bytes of Extended Unix Code.
const THREE: u8 = 0x8F;

/// The range of bytes of Extended Unix Code, and their number.
const EUC: (u32, u32) = (0xA1, 94);

/// Number of the first character beyond the basic plane among GB18030's characters of four bytes.
const SUPPLEMENT: u32 = 189_000;

/// Number of GB18030's characters of four bytes that have the same first byte.
const GB_LEAD: u32 = 10 * 126 * 10;

/// Base of the weights that MySQL shows for characters in the order of Pinyin.
const PINYIN: u32 = 0xFFA0_0000;

#[rustfmt::skip]
pub(super) static SETS: [Set; COUNT] = [
    Set { name: "cp932", description: "SJIS for Windows Japanese", default: (95, "cp932_japanese_ci"), bin: (96, "cp932_bin"), form: Form::Two },
    Set { name: "euckr", description: "EUC-KR Korean", default: (19, "euckr_korean_ci"), bin: (85, "euckr_bin"), form: Form::Two },
    Set { name: "gbk", description: "GBK Simplified Chinese", default: (28, "gbk_chinese_ci"), bin: (87, "gbk_bin"), form: Form::Two },
    Set { name: "sjis", description: "Shift-JIS Japanese", default: (13, "sjis_japanese_ci"), bin: (88, "sjis_bin"), form: Form::Two },
    Set { name: "big5", description: "Big5 Traditional Chinese", default: (1, "big5_chinese_ci"), bin: (84, "big5_bin"), form: Form::Two },
    Set { name: "gb2312", description: "GB2312 Simplified Chinese", default: (24, "gb2312_chinese_ci"), bin: (86, "gb2312_bin"), form: Form::Two },
    Set { name: "ujis", description: "EUC-JP Japanese", default: (12, "ujis_japanese_ci"), bin: (91, "ujis_bin"), form: Form::EucJp },
    Set { name: "eucjpms", description: "UJIS for Windows Japanese", default: (97, "eucjpms_japanese_ci"), bin: (98, "eucjpms_bin"), form: Form::EucJp },
    Set { name: "gb18030", description: "China National Standard GB18030", default: (248, "gb18030_chinese_ci"), bin: (249, "gb18030_bin"), form: Form::Gb18030 },
];

const COUNT: usize = 9;

const DATA: &[u8] = include_bytes!("../../data/multi_byte.bin");

static LOADED: [OnceLock<Tables>; COUNT] = [const { OnceLock::new() }; COUNT];

/// The tables of a set, each with an entry for every 16-bit number; 0 stands for none.
pub(super) struct Tables {
    /// Bytes by code point; a single byte is the high one.
    bytes: Vec<u16>,
    /// Weights of the default collation by code point. GB18030: positions in the order of Pinyin.
    weights: Vec<u16>,
    /// Code points by bytes.
    codes: Vec<u16>,
    /// GB18030: positions of characters of four bytes by code point, and the reverse.
    fours: (Vec<u16>, Vec<u16>),
}

/// Weights of characters in a collation of a multi-byte set.
#[derive(Clone, Copy)]
pub(super) struct Weights {
    tables: &'static Tables,
    form: Form,
    /// Whether the weights are the bytes.
    bin: bool,
}

impl Tables {
    /// Reads the tables of one set and advances `numbers`.
    fn read(form: Form, numbers: &mut impl Iterator<Item = u16>) -> Tables {
        let mut out = Tables {
            bytes: vec![0; 0x1_0000],
            weights: vec![0; 0x1_0000],
            codes: vec![0; 0x1_0000],
            fours: (Vec::new(), Vec::new()),
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
            if form != Form::Gb18030 {
                put(&mut out.weights, code, bytes);
            }
        }
        for _ in 0..next() {
            let (code, weight) = (next(), next());
            put(&mut out.weights, code, weight);
        }
        for _ in 0..next() {
            let (bytes, code) = (next(), next());
            put(&mut out.codes, bytes, code);
        }
        if form == Form::Gb18030 {
            out.number_fours();
        }
        out
    }

    /// Numbers the characters of the basic plane that have four bytes in GB18030: those without an entry. The
    /// edition of 2005 exchanged the bytes of two characters; numbers follow the first edition.
    fn number_fours(&mut self) {
        const EXCHANGED: (u16, u16) = (0x1E3F, 0xE7C7);
        let (mut positions, mut codes) = (vec![0; 0x1_0000], Vec::new());
        for code in 0x80..=0xFFFF_u16 {
            let two = get(&self.bytes, u32::from(code)).is_some();
            let first_edition = two && code != EXCHANGED.0 || code == EXCHANGED.1;
            if first_edition || (0xD800..0xE000).contains(&code) {
                continue;
            }
            let code = if code == EXCHANGED.0 {
                EXCHANGED.1
            } else {
                code
            };
            put(
                &mut positions,
                code,
                u16::try_from(codes.len()).unwrap_or(0),
            );
            codes.push(code);
        }
        self.fours = (positions, codes);
    }

    /// The position of a character of four bytes among these.
    fn position(&self, code: u32) -> u32 {
        match code.checked_sub(0x1_0000) {
            Some(beyond) => SUPPLEMENT + beyond,
            None => get(&self.fours.0, code).map_or(0, u32::from),
        }
    }

    /// The character at a position among those of four bytes.
    fn at_position(&self, position: u32) -> Option<u32> {
        match position.checked_sub(SUPPLEMENT) {
            Some(beyond) => Some(0x1_0000 + beyond).filter(|code| *code <= 0x10_FFFF),
            None => get(&self.fours.1, position).map(u32::from),
        }
    }

    /// The character at the start of bytes, and its length.
    fn decode(&self, form: Form, bytes: &[u8]) -> Option<(u32, usize)> {
        let code = |entry: u16| get(&self.codes, u32::from(entry)).map(u32::from);
        match *bytes {
            [first @ 0..=0x7F, ..] => Some((u32::from(first), 1)),
            [THREE, b @ 0xA1..=0xFE, c @ 0xA1..=0xFE, ..] if form == Form::EucJp => {
                Some((code(u16::from_be_bytes([b, c & 0x7F]))?, 3))
            }
            [
                a @ 0x81..=0xFF,
                b @ 0x30..0x3A,
                c @ 0x81..=0xFF,
                d @ 0x30..0x3A,
                ..,
            ] if form == Form::Gb18030 => {
                let digit = |byte: u8, first: u8| u32::from(byte - first);
                let lead = digit(a, 0x81) * 10 + digit(b, 0x30);
                let position = (lead * 126 + digit(c, 0x81)) * 10 + digit(d, 0x30);
                Some((self.at_position(position)?, 4))
            }
            [a, b, ..] if b != 0 && (form != Form::EucJp || b >= 0x80) => {
                let one = || code(u16::from_be_bytes([a, 0])).map(|c| (c, 1));
                let two = code(u16::from_be_bytes([a, b])).map(|c| (c, 2));
                two.or_else(one)
            }
            [a, ..] => code(u16::from_be_bytes([a, 0])).map(|c| (c, 1)),
            [] => None,
        }
    }

    /// Appends the bytes of a character beyond ASCII; `?` if the set lacks it.
    fn encode(&self, form: Form, code: u32, out: &mut Vec<u8>) {
        match get(&self.bytes, code).map(u16::to_be_bytes) {
            Some([one, 0]) => out.push(one),
            Some([b, c @ 0..0x80]) if form == Form::EucJp => {
                out.extend_from_slice(&[THREE, b, c | 0x80]);
            }
            Some(two) => out.extend_from_slice(&two),
            None if form == Form::Gb18030 && code < INVALID => {
                let position = self.position(code);
                let (lead, low) = (position / 1260, position % 1260);
                let bytes = [
                    lead / 10 + 0x81,
                    lead % 10 + 0x30,
                    low / 10 + 0x81,
                    low % 10 + 0x30,
                ];
                out.extend(bytes.map(|byte| byte as u8));
            }
            None => out.push(b'?'),
        }
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
            let mut tables = Tables::read(SETS[0].form, &mut numbers);
            for set in SETS.iter().take(usize::from(self.0) + 1).skip(1) {
                tables = Tables::read(set.form, &mut numbers);
            }
            tables
        })
    }

    /// Maximum number of bytes of a character.
    pub(super) fn max_len(self) -> u32 {
        match self.set().form {
            Form::Two => 2,
            Form::EucJp => 3,
            Form::Gb18030 => 4,
        }
    }

    /// The weights of the default collation, or of the `_bin` one.
    pub(super) fn weights(self, bin: bool) -> Weights {
        Weights {
            tables: self.tables(),
            form: self.set().form,
            bin,
        }
    }

    /// Whether the set has the character.
    pub(super) fn has(self, code: u32) -> bool {
        code < 0x80 || self.set().form == Form::Gb18030 || get(&self.tables().bytes, code).is_some()
    }

    /// The UTF-8 text of bytes, and the position of the first that are no character; these become
    /// `?`.
    pub(super) fn text_of(self, bytes: &[u8]) -> (Vec<u8>, Option<usize>) {
        let (tables, form) = (self.tables(), self.set().form);
        let mut out = String::with_capacity(bytes.len() * 2);
        let mut invalid = None;
        let mut at = 0;
        let mut pacer = Pacer::new();
        while at < bytes.len() && !pacer.leaves() {
            let rest = bytes.get(at..).unwrap_or_default();
            let (code, len) = tables.decode(form, rest).unwrap_or_else(|| {
                invalid.get_or_insert(at);
                (u32::from(b'?'), 1)
            });
            out.push(char::from_u32(code).unwrap_or('?'));
            at += len;
        }
        (out.into_bytes(), invalid)
    }

    /// The bytes of a UTF-8 text.
    pub(super) fn bytes_of(self, text: &[u8]) -> Vec<u8> {
        let (tables, form) = (self.tables(), self.set().form);
        let mut out = Vec::with_capacity(text.len());
        let mut pacer = Pacer::new();
        let mut rest = text;
        while let Some(first) = rest.first().filter(|_| !pacer.leaves()) {
            let (code, len) = decode_utf8(rest).unwrap_or((INVALID, 1));
            rest = rest.get(len..).unwrap_or_default();
            if first.is_ascii() {
                out.push(*first);
            } else {
                tables.encode(form, code, &mut out);
            }
        }
        out
    }
}

/// The character in upper case, if that is one character.
fn capital(code: u32) -> u32 {
    let mut capitals = char::from_u32(code)
        .into_iter()
        .flat_map(char::to_uppercase);
    match (capitals.next(), capitals.next()) {
        (Some(capital), None) => u32::from(capital),
        _ => code,
    }
}

impl Weights {
    /// The weight of a character. Characters that the set lacks and invalid bytes weigh more than all
    /// others.
    pub(super) fn weight(self, code: u32) -> u32 {
        if code < 0x80 {
            return if self.bin {
                code
            } else {
                get(&self.tables.weights, code).map_or(0, u32::from)
            };
        }
        match self.form {
            Form::Two => {
                let table = if self.bin {
                    &self.tables.bytes
                } else {
                    &self.tables.weights
                };
                get(table, code).map_or(0x1_0000 + code, u32::from)
            }
            Form::EucJp => self.euc_weight(code),
            Form::Gb18030 if code >= INVALID => 0x20_0000 + code,
            Form::Gb18030 if self.bin => self.gb_bytes_weight(code),
            Form::Gb18030 => self.gb_weight(code),
        }
    }

    /// The weight of a character of Extended Unix Code in the order of its bytes: characters of three
    /// bytes lie between those of two.
    fn euc_weight(self, code: u32) -> u32 {
        let Some(entry) = get(&self.tables.bytes, code) else {
            return 0x2_0000 + code;
        };
        let [b, c] = entry.to_be_bytes().map(u32::from);
        let (first, count) = EUC;
        match c {
            1..0x80 => 2 * (u32::from(THREE) << 8) + (b - first) * count + (c | 0x80) - first,
            _ => 2 * u32::from(entry),
        }
    }

    /// The weight of a character of GB18030 in the order of its bytes: of the characters with the same first
    /// byte, those of four bytes come first.
    fn gb_bytes_weight(self, code: u32) -> u32 {
        let stride = GB_LEAD + 0x100;
        let (lead, rest) = match get(&self.tables.bytes, code).map(u16::to_be_bytes) {
            Some([a, b]) => (u32::from(a).saturating_sub(0x81), GB_LEAD + u32::from(b)),
            None => {
                let position = self.tables.position(code);
                (position / GB_LEAD, position % GB_LEAD)
            }
        };
        0x100 + lead * stride + rest
    }

    /// The weight of a character of GB18030 in gb18030_chinese_ci. Chinese characters come last, in the order of
    /// Pinyin; all others are compared by the bytes of their capitals, those of two bytes before those of four.
    fn gb_weight(self, code: u32) -> u32 {
        if let Some(pinyin) = get(&self.tables.weights, code) {
            return 0x14_0000 + u32::from(pinyin);
        }
        let code = capital(code);
        get(&self.tables.bytes, code)
            .map_or_else(|| 0x1_0000 + self.tables.position(code), u32::from)
    }

    /// Maximum number of bytes of a weight that MySQL shows.
    pub(super) fn shown_len(self) -> usize {
        match self.form {
            Form::Two => 2,
            Form::EucJp => 3,
            Form::Gb18030 => 4,
        }
    }

    /// Appends the weight of a character as MySQL shows it.
    pub(super) fn push_shown(self, code: u32, out: &mut Vec<u8>) {
        let weight = self.weight(code);
        if let Ok(byte) = u8::try_from(weight) {
            out.push(byte);
            return;
        }
        match self.form {
            Form::Two => {
                let pair = u16::try_from(weight).unwrap_or(0xFFFD);
                out.extend_from_slice(&pair.to_be_bytes());
            }
            Form::Gb18030 if !self.bin => match get(&self.tables.weights, code) {
                Some(at) => out.extend_from_slice(&(PINYIN + u32::from(at)).to_be_bytes()),
                None => self.tables.encode(self.form, capital(code), out),
            },
            Form::EucJp | Form::Gb18030 => self.tables.encode(self.form, code, out),
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
