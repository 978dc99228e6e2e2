//! The known collations: MySQL's numbers and names, their character sets, and how they order.

#![expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]

use super::charset::Charset;
use super::multi_byte::{self, MultiByteSet};
use super::one_byte::{OneByteSet, SETS};
use super::uca_levels::Levels;
use super::unicode_form::UnicodeForm;

/// Method by which a collation orders texts.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// By bytes, NO PAD.
    Bytes,
    /// By bytes, PAD SPACE.
    PaddedBytes,
    /// By the weights of bytes in the table at this position (`one_byte::weights`).
    OneByte(u8),
    /// latin1_german2_ci.
    Expanding,
    /// By bytes, ASCII letters folded.
    Ascii,
    /// utf8mb4_general_ci.
    General,
    /// The default collation of an East Asian character set.
    MultiByte(MultiByteSet),
    /// The `_bin` collation of an East Asian character set.
    MultiByteBin(MultiByteSet),
    /// utf8mb4_0900_ai_ci, or the variant of the language at this position
    /// (`uca_language::version_13`).
    Unicode900(Option<u8>),
    /// The same with further levels of weights.
    Levels900(Levels),
    /// utf8mb4_unicode_ci.
    Unicode400,
    /// utf8mb4_unicode_520_ci.
    Unicode520,
    /// As utf8mb4_unicode_ci, with the differences of the language at this position
    /// (`uca_language::language`).
    Language(u8),
}

/// A known collation.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) charset: Charset,
    pub(super) order: Order,
}

/// All numbers are below this.
const LIMIT: usize = 324;

/// Names of the collations of a Unicode character set that follow the Unicode collation algorithm.
/// Their numbers follow each other.
macro_rules! unicode_names {
    ($set:literal) => {
        unicode_names!($set: "unicode", "icelandic", "latvian", "romanian", "slovenian", "polish",
            "estonian", "spanish", "swedish", "turkish", "czech", "danish", "lithuanian", "slovak",
            "spanish2", "roman", "persian", "esperanto", "hungarian", "sinhala", "german2",
            "croatian", "unicode_520", "vietnamese")
    };
    ($set:literal : $($language:literal),*) => { [$(concat!($set, "_", $language, "_ci")),*] };
}

/// The collations of a language over version 13: its position in the data, `_ai_ci`, `_as_cs`.
/// Danish `_as_cs`, which orders capitals first, has the number 0: it is not known.
type Language900 = (u8, (u16, &'static str), (u16, &'static str));

/// An entry of [`LANGUAGES_900`].
macro_rules! language_900 {
    ($at:literal, $name:literal, $ci:literal, $cs:literal) => {
        (
            $at,
            ($ci, concat!("utf8mb4_", $name, "_0900_ai_ci")),
            ($cs, concat!("utf8mb4_", $name, "_0900_as_cs")),
        )
    };
}

/// The languages of the 0900 collations. Bosnian and Serbian in Latin script order as Croatian,
/// Galician as Spanish.
const LANGUAGES_900: [Language900; 24] = [
    language_900!(0, "de_pb", 256, 279),
    language_900!(1, "is", 257, 280),
    language_900!(2, "lv", 258, 281),
    language_900!(3, "ro", 259, 282),
    language_900!(4, "sl", 260, 283),
    language_900!(5, "pl", 261, 284),
    language_900!(6, "et", 262, 285),
    language_900!(7, "es", 263, 286),
    language_900!(8, "sv", 264, 287),
    language_900!(9, "tr", 265, 288),
    language_900!(10, "cs", 266, 289),
    language_900!(11, "da", 267, 0),
    language_900!(12, "lt", 268, 291),
    language_900!(13, "sk", 269, 292),
    language_900!(14, "es_trad", 270, 293),
    language_900!(15, "eo", 273, 296),
    language_900!(16, "hu", 274, 297),
    language_900!(17, "hr", 275, 298),
    language_900!(18, "vi", 277, 300),
    language_900!(19, "nb", 310, 311),
    language_900!(20, "nn", 312, 313),
    language_900!(17, "sr_latn", 314, 315),
    language_900!(17, "bs", 316, 317),
    language_900!(7, "gl", 320, 321),
];

/// The known collations by number.
static KNOWN: [Option<Known>; LIMIT] = {
    let mut all = [None; LIMIT];
    let (utf8mb4, utf8mb3) = (Charset::Utf8mb4, Charset::Utf8mb3);
    add(&mut all, 63, "binary", Charset::Binary, Order::Bytes);
    add(
        &mut all,
        255,
        "utf8mb4_0900_ai_ci",
        utf8mb4,
        Order::Unicode900(None),
    );
    add_levels(&mut all, 305, "utf8mb4_0900_as_ci", None, 2);
    add_levels(&mut all, 278, "utf8mb4_0900_as_cs", None, 3);
    let mut language = 0;
    while language < LANGUAGES_900.len() {
        let (at, ci, cs) = LANGUAGES_900[language];
        add(&mut all, ci.0, ci.1, utf8mb4, Order::Unicode900(Some(at)));
        if cs.0 > 0 {
            add_levels(&mut all, cs.0, cs.1, Some(at), 3);
        }
        language += 1;
    }
    add(&mut all, 309, "utf8mb4_0900_bin", utf8mb4, Order::Bytes);
    add(&mut all, 45, "utf8mb4_general_ci", utf8mb4, Order::General);
    add(&mut all, 46, "utf8mb4_bin", utf8mb4, Order::PaddedBytes);
    add(&mut all, 33, "utf8mb3_general_ci", utf8mb3, Order::General);
    add(&mut all, 83, "utf8mb3_bin", utf8mb3, Order::PaddedBytes);
    add(
        &mut all,
        11,
        "ascii_general_ci",
        Charset::Ascii,
        Order::Ascii,
    );
    add(
        &mut all,
        65,
        "ascii_bin",
        Charset::Ascii,
        Order::PaddedBytes,
    );
    add_unicode(&mut all, 224, unicode_names!("utf8mb4"), utf8mb4);
    add_unicode(&mut all, 192, unicode_names!("utf8mb3"), utf8mb3);
    let ucs2 = Charset::Unicode(UnicodeForm::Ucs2);
    add(&mut all, 35, "ucs2_general_ci", ucs2, Order::General);
    add(&mut all, 90, "ucs2_bin", ucs2, Order::PaddedBytes);
    add_unicode(&mut all, 128, unicode_names!("ucs2"), ucs2);
    let utf16 = Charset::Unicode(UnicodeForm::Utf16);
    add(&mut all, 54, "utf16_general_ci", utf16, Order::General);
    add(&mut all, 55, "utf16_bin", utf16, Order::PaddedBytes);
    add_unicode(&mut all, 101, unicode_names!("utf16"), utf16);
    let utf16le = Charset::Unicode(UnicodeForm::Utf16le);
    add(&mut all, 56, "utf16le_general_ci", utf16le, Order::General);
    add(&mut all, 62, "utf16le_bin", utf16le, Order::PaddedBytes);
    let utf32 = Charset::Unicode(UnicodeForm::Utf32);
    add(&mut all, 60, "utf32_general_ci", utf32, Order::General);
    add(&mut all, 61, "utf32_bin", utf32, Order::PaddedBytes);
    add_unicode(&mut all, 160, unicode_names!("utf32"), utf32);
    add_one_byte(&mut all);
    add(
        &mut all,
        31,
        "latin1_german2_ci",
        Charset::LATIN1,
        Order::Expanding,
    );
    let mut at = 0;
    while at < multi_byte::SETS.len() {
        let (set, names) = (MultiByteSet::at(at), &multi_byte::SETS[at]);
        let charset = Charset::MultiByte(set);
        add(
            &mut all,
            names.default.0,
            names.default.1,
            charset,
            Order::MultiByte(set),
        );
        add(
            &mut all,
            names.bin.0,
            names.bin.1,
            charset,
            Order::MultiByteBin(set),
        );
        if matches!(names.form, multi_byte::Form::Gb18030) {
            let name = "gb18030_unicode_520_ci";
            add(&mut all, 250, name, charset, Order::Unicode520);
        }
        at += 1;
    }
    all
};

/// Adds the collations of `unicode_names`, which have the numbers from `first` on.
const fn add_unicode(
    all: &mut [Option<Known>; LIMIT],
    first: u16,
    names: [&'static str; 24],
    charset: Charset,
) {
    let mut at = 0;
    while at < names.len() {
        let order = match at {
            0 => Order::Unicode400,
            22 => Order::Unicode520,
            1..22 => Order::Language(at as u8 - 1),
            // Behind unicode_520.
            _ => Order::Language(at as u8 - 2),
        };
        add(all, first + at as u16, names[at], charset, order);
        at += 1;
    }
}

const fn add(
    all: &mut [Option<Known>; LIMIT],
    id: u16,
    name: &'static str,
    charset: Charset,
    order: Order,
) {
    assert!(all[id as usize].is_none(), "a number is used twice");
    all[id as usize] = Some(Known {
        name,
        charset,
        order,
    });
}

/// Adds a collation of utf8mb4 with several levels of weights.
const fn add_levels(
    all: &mut [Option<Known>; LIMIT],
    id: u16,
    name: &'static str,
    language: Option<u8>,
    count: usize,
) {
    let order = Order::Levels900(Levels { language, count });
    add(all, id, name, Charset::Utf8mb4, order);
}

const fn add_one_byte(all: &mut [Option<Known>; LIMIT]) {
    let (mut set, mut table) = (0, 0);
    while set < SETS.len() {
        let collations = SETS[set].collations;
        let mut at = 0;
        while at < collations.len() {
            let (id, name) = collations[at];
            at += 1;
            let order = if at == collations.len() {
                Order::PaddedBytes
            } else {
                table += 1;
                Order::OneByte(table - 1)
            };
            add(all, id, name, Charset::OneByte(OneByteSet::at(set)), order);
        }
        set += 1;
    }
}

/// The collation with MySQL's number.
#[inline]
pub(super) fn known(id: u16) -> Option<&'static Known> {
    KNOWN.get(usize::from(id))?.as_ref()
}

/// All known collations with their numbers, in the order of these.
pub(super) fn all() -> impl Iterator<Item = (u16, &'static Known)> {
    (0..)
        .zip(&KNOWN)
        .filter_map(|(id, known)| known.as_ref().map(|known| (id, known)))
}
