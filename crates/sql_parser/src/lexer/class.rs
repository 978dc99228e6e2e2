//! Character classes, and the names of introducers.

/// Names of character sets that form an introducer. Any other word that starts with an underscore
/// is an identifier.
const CHARSETS: &[&[u8]] = &[
    b"armscii8",
    b"ascii",
    b"big5",
    b"binary",
    b"cp1250",
    b"cp1251",
    b"cp1256",
    b"cp1257",
    b"cp850",
    b"cp852",
    b"cp866",
    b"cp932",
    b"dec8",
    b"eucjpms",
    b"euckr",
    b"gb18030",
    b"gb2312",
    b"gbk",
    b"geostd8",
    b"greek",
    b"hebrew",
    b"hp8",
    b"keybcs2",
    b"koi8r",
    b"koi8u",
    b"latin1",
    b"latin2",
    b"latin5",
    b"latin7",
    b"macce",
    b"macroman",
    b"sjis",
    b"swe7",
    b"tis620",
    b"ucs2",
    b"ujis",
    b"utf16",
    b"utf16le",
    b"utf32",
    b"utf8",
    b"utf8mb3",
    b"utf8mb4",
];

/// Character classes.
pub(super) const IDENT: u8 = 1;

pub(super) const DIGIT: u8 = 2;

pub(super) const SPACE: u8 = 4;

pub(super) const HEX: u8 = 8;

const HIGH: u8 = 16;

#[expect(
    clippy::indexing_slicing,
    reason = "the index runs from 0 to 255 over an array of 256"
)]
const fn build_classes() -> [u8; 256] {
    let mut classes = [0_u8; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        let mut class = 0;
        if b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80 {
            class |= IDENT;
        }
        if b.is_ascii_digit() {
            class |= DIGIT;
        }
        if matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C) {
            class |= SPACE;
        }
        if b.is_ascii_hexdigit() {
            class |= HEX;
        }
        if b >= 0x80 {
            class |= HIGH;
        }
        classes[i] = class;
        i += 1;
    }
    classes
}

static CLASSES: [u8; 256] = build_classes();

#[inline]
#[expect(clippy::indexing_slicing, reason = "a byte indexes an array of 256")]
pub(super) fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

pub(super) fn is_charset(name: &[u8]) -> bool {
    CHARSETS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}
