//! String functions (manual, "String Functions and Operators"). Positions
//! count characters of the argument's character set; binary strings count
//! bytes.

use super::{
    Call, Function, Nullable, bigint, common_collation, joined, like_both, like_first, long_blob,
    text_of, width, widths,
};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use porpoise_base::interrupt::{self, Pacer};
use porpoise_types::{Charset, Collation, ColumnType, Kind, ValueRef};

/// The characters of `text` as byte strings.
fn chars(text: &[u8], collation: Collation) -> impl DoubleEndedIterator<Item = &[u8]> {
    let utf8 = collation.charset().max_len() > 1;
    let starts = move |i: &usize| !utf8 || text.get(*i).is_some_and(|b| b & 0xc0 != 0x80);
    let mut pacer = Pacer::new();
    let paced = (0..text.len()).take_while(|_| !pacer.leaves());
    let mut bounds: Vec<usize> = paced.filter(starts).collect();
    bounds.push(text.len());
    (1..bounds.len()).map(move |i| {
        let (from, to) = (bounds.get(i - 1), bounds.get(i));
        from.zip(to)
            .and_then(|(from, to)| text.get(*from..*to))
            .unwrap_or_default()
    })
}

fn char_count(text: &[u8], collation: Collation) -> usize {
    if collation.charset().max_len() > 1 {
        text.iter().filter(|b| *b & 0xc0 != 0x80).count()
    } else {
        text.len()
    }
}

/// The byte offset of character number `at` (from 0), or the end of the text.
fn offset(text: &[u8], at: usize, collation: Collation) -> usize {
    if collation.charset().max_len() <= 1 {
        return at.min(text.len());
    }
    text.iter()
        .enumerate()
        .filter(|(_, b)| **b & 0xc0 != 0x80)
        .nth(at)
        .map_or(text.len(), |(i, _)| i)
}

fn concat<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let mut out: Vec<u8> = Vec::new();
    for at in 0..c.len() {
        match c.text(at)? {
            Some(text) => out.extend_from_slice(text),
            None => return Ok(ValueRef::Null),
        }
        if let Some(null) = c.too_long(out.len()) {
            return Ok(null);
        }
    }
    Ok(c.keep(&out))
}

fn concat_ws<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(separator) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let mut out: Vec<u8> = Vec::new();
    let mut first = true;
    for at in 1..c.len() {
        if let Some(text) = c.text(at)? {
            if !first {
                out.extend_from_slice(separator);
            }
            first = false;
            out.extend_from_slice(text);
            if let Some(null) = c.too_long(out.len()) {
                return Ok(null);
            }
        }
    }
    Ok(c.keep(&out))
}

fn repeat_type(args: &[Expr], collation: Collation) -> ColumnType {
    let times = args.get(1).and_then(|e| match e.as_const() {
        Some(porpoise_types::Value::Int(n)) => u32::try_from((*n).max(0)).ok(),
        _ => None,
    });
    let own = common_collation(args.get(..1).unwrap_or(&[]), collation);
    match (args.first(), times) {
        (Some(text), Some(times)) => text_of(width(text).saturating_mul(times), own),
        _ => ColumnType::text(Kind::LongText, own),
    }
}

fn repeat<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(times)) = (c.text(0)?, c.count(1)?) else {
        return Ok(ValueRef::Null);
    };
    if let Some(null) = c.too_long(text.len().saturating_mul(times)) {
        return Ok(null);
    }
    Ok(if text.is_empty() {
        ValueRef::Bytes(b"")
    } else {
        c.keep(&text.repeat(times))
    })
}

fn length<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(c.text(0)?
        .map_or(ValueRef::Null, |t| ValueRef::Int(t.len() as i64)))
}

fn bit_length<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(c.text(0)?
        .map_or(ValueRef::Null, |t| ValueRef::Int(t.len() as i64 * 8)))
}

fn char_length<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let count = c.text(0)?.map(|t| char_count(t, c.collation(0)));
    Ok(count.map_or(ValueRef::Null, |n| ValueRef::Int(n as i64)))
}

fn change_case<'a>(c: &Call<'_, 'a>, upper: bool) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let charset = c.collation(0).charset();
    if charset == Charset::Binary {
        return Ok(ValueRef::Bytes(text));
    }
    if let Charset::OneByte(set) = charset {
        let mut pacer = Pacer::new();
        let bytes = text.iter().take_while(|_| !pacer.leaves());
        let one = |byte: &u8| {
            if upper {
                set.upper(*byte)
            } else {
                set.lower(*byte)
            }
        };
        return Ok(c.keep(&bytes.map(one).collect::<Vec<u8>>()));
    }
    let text = &*charset.convert(Charset::Utf8mb4, text).0;
    let one = |ch: char| {
        // A character maps to one character, as in MySQL's simple case mapping.
        let mut mapped: Vec<char> = if upper {
            ch.to_uppercase().collect()
        } else {
            // The simple mapping has no second character.
            ch.to_lowercase().take(1).collect()
        };
        match (mapped.pop(), mapped.is_empty()) {
            (Some(one), true) => one,
            _ => ch,
        }
    };
    Ok(match std::str::from_utf8(text) {
        Ok(text) => {
            let mut pacer = Pacer::new();
            let letters = text.chars().take_while(|_| !pacer.leaves());
            let changed = letters.map(one).collect::<String>();
            c.keep(&Charset::Utf8mb4.convert(charset, changed.as_bytes()).0)
        }
        Err(_) if upper => c.keep(&text.to_ascii_uppercase()),
        Err(_) => c.keep(&text.to_ascii_lowercase()),
    })
}

fn substring<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(from)) = (c.text(0)?, c.int(1)?) else {
        return Ok(ValueRef::Null);
    };
    let count = match c.len() {
        3 => match c.count(2)? {
            Some(count) => count,
            None => return Ok(ValueRef::Null),
        },
        _ => usize::MAX,
    };
    if matches!(c.arg(1).0, ValueRef::UInt(from) if i64::try_from(from).is_err()) {
        return Ok(ValueRef::Bytes(b""));
    }
    let collation = c.collation(0);
    let total = char_count(text, collation);
    let start = match from {
        0 => return Ok(ValueRef::Bytes(b"")),
        1.. => usize::try_from(from - 1).unwrap_or(usize::MAX),
        _ => match total.checked_sub(usize::try_from(from.unsigned_abs()).unwrap_or(usize::MAX)) {
            Some(start) => start,
            None => return Ok(ValueRef::Bytes(b"")),
        },
    };
    Ok(ValueRef::Bytes(slice(text, start, count, collation)))
}

fn slice(text: &[u8], start: usize, count: usize, collation: Collation) -> &[u8] {
    let from = offset(text, start, collation);
    let rest = text.get(from..).unwrap_or_default();
    let to = offset(rest, count, collation);
    rest.get(..to).unwrap_or_default()
}

fn left<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(count)) = (c.text(0)?, c.count(1)?) else {
        return Ok(ValueRef::Null);
    };
    Ok(ValueRef::Bytes(slice(text, 0, count, c.collation(0))))
}

fn right<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(count)) = (c.text(0)?, c.count(1)?) else {
        return Ok(ValueRef::Null);
    };
    let total = char_count(text, c.collation(0));
    let start = total.saturating_sub(count);
    Ok(ValueRef::Bytes(slice(text, start, count, c.collation(0))))
}

fn trim_with<'a>(c: &Call<'_, 'a>, leading: bool, trailing: bool) -> Result<ValueRef<'a>> {
    let Some(mut text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let pad = match c.len() {
        2 => match c.text(1)? {
            Some(pad) => pad,
            None => return Ok(ValueRef::Null),
        },
        _ => b" ",
    };
    if pad.is_empty() {
        return Ok(ValueRef::Bytes(text));
    }
    while let Some(rest) = text.strip_prefix(pad).filter(|_| leading) {
        text = rest;
    }
    while let Some(rest) = text.strip_suffix(pad).filter(|_| trailing) {
        text = rest;
    }
    Ok(ValueRef::Bytes(text))
}

fn replace<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(from), Some(to)) = (c.text(0)?, c.text(1)?, c.text(2)?) else {
        return Ok(ValueRef::Null);
    };
    if from.is_empty() {
        return Ok(ValueRef::Bytes(text));
    }
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut pacer = Pacer::new();
    while let Some(at) = memchr::memmem::find(rest, from) {
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        out.extend_from_slice(to);
        rest = rest.get(at + from.len()..).unwrap_or_default();
        pacer.tick()?;
        if let Some(null) = c.too_long(out.len()) {
            return Ok(null);
        }
    }
    out.extend_from_slice(rest);
    Ok(c.keep(&out))
}

fn pad<'a>(c: &Call<'_, 'a>, at_left: bool) -> Result<ValueRef<'a>> {
    let (Some(text), Some(count), Some(pad)) = (c.text(0)?, c.int(1)?, c.text(2)?) else {
        return Ok(ValueRef::Null);
    };
    let collation = c.collation(0);
    let Ok(count) = usize::try_from(count) else {
        return Ok(ValueRef::Null);
    };
    if let Some(null) =
        c.too_long(count.saturating_mul(collation.charset().max_len().max(1) as usize))
    {
        return Ok(null);
    }
    let have = char_count(text, collation);
    if have >= count {
        return Ok(ValueRef::Bytes(slice(text, 0, count, collation)));
    }
    if pad.is_empty() {
        return Ok(ValueRef::Bytes(b""));
    }
    let unit: Vec<&[u8]> = chars(pad, c.collation(2)).collect();
    let mut pacer = Pacer::new();
    let filling = unit.iter().cycle().take(count - have).copied();
    let filling = filling.take_while(|_| !pacer.leaves());
    let out: Vec<u8> = if at_left {
        filling.chain([text]).flatten().copied().collect()
    } else {
        std::iter::once(text)
            .chain(filling)
            .flatten()
            .copied()
            .collect()
    };
    Ok(c.keep(&out))
}

/// Bytes of HEX's argument between two interrupt checkpoints.
const HEX_PART: usize = 64 * 1024;

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

fn hex<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let numeric = c.args.first().is_some_and(|e| e.ty.is_numeric());
    if numeric {
        let number = c.int(0)?;
        return Ok(number.map_or(ValueRef::Null, |n| c.keep(format!("{n:X}").as_bytes())));
    }
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    if let Some(null) = c.too_long(text.len().saturating_mul(2)) {
        return Ok(null);
    }
    let digit = |half: u8| DIGITS.get(usize::from(half)).copied().unwrap_or(b'0');
    let mut out = Vec::with_capacity(text.len() * 2);
    for part in text.chunks(HEX_PART) {
        interrupt::check()?;
        out.extend(part.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]));
    }
    Ok(c.keep(&out))
}

fn unhex<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let mut nibbles = Vec::with_capacity(text.len() + 1);
    if text.len() % 2 == 1 {
        nibbles.push(0);
    }
    let mut pacer = Pacer::new();
    for byte in text {
        pacer.tick()?;
        match (*byte as char).to_digit(16) {
            Some(digit) => nibbles.push(digit as u8),
            None => return super::codes::incorrect_argument(c, "string"),
        }
    }
    let bytes: Vec<u8> = nibbles
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |all, n| (all << 4) | n))
        .collect();
    Ok(c.keep(&bytes))
}

fn position<'a>(text: &[u8], part: &[u8], from: i64, collation: Collation) -> ValueRef<'a> {
    let before = from.checked_sub(1);
    let Some(start) = before.and_then(|n| usize::try_from(n).ok()) else {
        return ValueRef::Int(0);
    };
    let mut pacer = Pacer::new();
    let mut paced = |text| -> Vec<&[u8]> {
        let chars = chars(text, collation);
        chars.take_while(|_| !pacer.leaves()).collect()
    };
    let (whole, wanted) = (paced(text), paced(part));
    if start > whole.len() {
        return ValueRef::Int(0);
    }
    let same = |a: &&[u8], b: &&[u8]| collation.compare(a, b).is_eq();
    let found = (start..=whole.len().saturating_sub(wanted.len())).find(|at| {
        if pacer.leaves_by(1 + wanted.len() / 8) {
            return true;
        }
        let window = whole.get(*at..at + wanted.len()).unwrap_or_default();
        window.len() == wanted.len() && window.iter().zip(&wanted).all(|(a, b)| same(a, b))
    });
    ValueRef::Int(found.map_or(0, |at| at as i64 + 1))
}

fn locate<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(part), Some(text)) = (c.text(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    let from = match c.len() {
        3 => c.int(2)?.unwrap_or(0),
        _ => 1,
    };
    Ok(position(text, part, from, c.collation(1)))
}

fn instr<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(part)) = (c.text(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    Ok(position(text, part, 1, c.collation(0)))
}

fn reverse<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let mut pacer = Pacer::new();
    let out: Vec<u8> = chars(text, c.collation(0))
        .rev()
        .take_while(|_| !pacer.leaves())
        .flatten()
        .copied()
        .collect();
    Ok(c.keep(&out))
}

fn ascii<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let first = c.text(0)?.map(|t| t.first().copied().unwrap_or(0));
    Ok(first.map_or(ValueRef::Null, |b| ValueRef::Int(i64::from(b))))
}

fn space<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(count) = c.int(0)? else {
        return Ok(ValueRef::Null);
    };
    let count = u64::try_from(count).unwrap_or(0);
    if let Some(null) = c.too_long(usize::try_from(count).unwrap_or(usize::MAX)) {
        return Ok(null);
    }
    Ok(c.keep(&vec![b' '; usize::try_from(count).unwrap_or(0)]))
}

fn quote<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Bytes(b"NULL"));
    };
    let escaped = |b: &&u8| matches!(b, b'\'' | b'\\' | 0 | 0x1a);
    if let Some(null) = c.too_long(text.len() + text.iter().filter(escaped).count() + 2) {
        return Ok(null);
    }
    let mut out = vec![b'\''];
    for byte in text {
        match byte {
            b'\'' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0 => out.extend_from_slice(b"\\0"),
            0x1a => out.extend_from_slice(b"\\Z"),
            _ => out.push(*byte),
        }
    }
    out.push(b'\'');
    Ok(c.keep(&out))
}

fn strcmp<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(a), Some(b)) = (c.text(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    let order = common_collation(c.args, Collation::BINARY).compare(a, b);
    Ok(ValueRef::Int(order as i64))
}

macro_rules! f {
    ($name:literal, $args:expr, $ty:expr, $run:expr, $doc:literal, $call:literal => $result:literal) => {
        Function {
            name: $name,
            args: $args,
            constant: true,
            nullable: Nullable::IfArgument,
            ty: $ty,
            run: $run,
            doc: $doc,
            example: ($call, $result),
        }
    };
}

const MAX_ARGUMENTS: usize = 65_535;

/// LIKE with an escape character that is known when the statement executes. Error 1210 if it is no
/// single byte.
fn like_escape<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let escape = match c.text(2)? {
        None => Some('\\'),
        Some([]) => None,
        Some(escape) => {
            let charset = c.collation(2).charset();
            let (escape, _) = charset.convert(Charset::Utf8mb4, escape);
            let text = String::from_utf8_lossy(&escape);
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (first, None) => first,
                _ => return Err(SqlError::wrong_arguments("ESCAPE")),
            }
        }
    };
    let (Some(text), Some(pattern)) = (c.text(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    let operands = c.args.get(..2).unwrap_or(&[]);
    let collation = common_collation(operands, Collation::UTF8MB4_GENERAL_CI);
    Ok(ValueRef::Int(i64::from(
        collation.like(text, pattern, escape),
    )))
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    f!("CONCAT", (1, MAX_ARGUMENTS), joined, concat, "Joins its arguments; NULL when one is.", "CONCAT('a', 1)" => "a1"),
    f!("CONCAT_WS", (2, MAX_ARGUMENTS), widths::joined_with, concat_ws, "Joins with a separator, leaving NULLs out.", "CONCAT_WS('-', 'a', NULL, 'b')" => "a-b"),
    f!("LIKE ESCAPE", (3, 3), bigint, like_escape, "LIKE with an escape character that is not a literal.", "'a%' LIKE 'a|%' ESCAPE LEFT('|', 1)" => "1"),
    f!("REPEAT", (2, 2), repeat_type, repeat, "The text, repeated a number of times.", "REPEAT('ab', 3)" => "ababab"),
    f!("LENGTH", (1, 1), bigint, length, "Length in bytes.", "LENGTH('äb')" => "3"),
    f!("OCTET_LENGTH", (1, 1), bigint, length, "Length in bytes.", "OCTET_LENGTH('ab')" => "2"),
    f!("BIT_LENGTH", (1, 1), bigint, bit_length, "Length in bits.", "BIT_LENGTH('ab')" => "16"),
    f!("CHAR_LENGTH", (1, 1), bigint, char_length, "Length in characters.", "CHAR_LENGTH('äb')" => "2"),
    f!("CHARACTER_LENGTH", (1, 1), bigint, char_length, "Length in characters.", "CHARACTER_LENGTH('äb')" => "2"),
    f!("UPPER", (1, 1), like_first, |c| change_case(c, true), "In upper case.", "UPPER('aä')" => "AÄ"),
    f!("UCASE", (1, 1), like_first, |c| change_case(c, true), "In upper case.", "UCASE('a')" => "A"),
    f!("LOWER", (1, 1), like_first, |c| change_case(c, false), "In lower case.", "LOWER('AÄ')" => "aä"),
    f!("LCASE", (1, 1), like_first, |c| change_case(c, false), "In lower case.", "LCASE('A')" => "a"),
    f!("SUBSTRING", (2, 3), widths::part, substring, "Part of a text, counted from 1 or from the end.", "SUBSTRING('abcd', -3, 2)" => "bc"),
    f!("SUBSTR", (2, 3), widths::part, substring, "As SUBSTRING.", "SUBSTR('abcd', 2)" => "bcd"),
    f!("MID", (3, 3), widths::part, substring, "As SUBSTRING.", "MID('abcd', 2, 1)" => "b"),
    f!("LEFT", (2, 2), widths::cut, left, "The first characters.", "LEFT('abcd', 2)" => "ab"),
    f!("RIGHT", (2, 2), widths::cut, right, "The last characters.", "RIGHT('abcd', 2)" => "cd"),
    f!("LTRIM", (1, 1), like_first, |c| trim_with(c, true, false), "Without leading spaces.", "LTRIM(' a ')" => "a "),
    f!("RTRIM", (1, 1), like_first, |c| trim_with(c, false, true), "Without trailing spaces.", "RTRIM(' a ')" => " a"),
    f!("TRIM", (1, 2), like_both, |c| trim_with(c, true, true), "Without spaces, or another text, on both sides.", "TRIM(' a ')" => "a"),
    f!("TRIM LEADING", (1, 2), like_both, |c| trim_with(c, true, false), "TRIM(LEADING x FROM text).", "TRIM(LEADING 'x' FROM 'xax')" => "ax"),
    f!("TRIM TRAILING", (1, 2), like_both, |c| trim_with(c, false, true), "TRIM(TRAILING x FROM text).", "TRIM(TRAILING 'x' FROM 'xax')" => "xa"),
    f!("REPLACE", (3, 3), widths::replaced, replace, "With every occurrence replaced.", "REPLACE('abab', 'b', 'x')" => "axax"),
    f!("LPAD", (3, 3), widths::padded, |c| pad(c, true), "Filled up on the left.", "LPAD('5', 3, '0')" => "005"),
    f!("RPAD", (3, 3), widths::padded, |c| pad(c, false), "Filled up on the right.", "RPAD('a', 3, 'xy')" => "axy"),
    f!("HEX", (1, 1), |a, c| text_of(a.first().map_or(0, width).saturating_mul(8), c), hex, "Hexadecimal digits of a text or number.", "HEX('ab')" => "6162"),
    f!("UNHEX", (1, 1), long_blob, unhex, "Bytes from hexadecimal digits.", "UNHEX('6162')" => "ab"),
    f!("LOCATE", (2, 3), bigint, locate, "Position of a text in another, from 1; 0 if it is absent.", "LOCATE('b', 'abab', 3)" => "4"),
    f!("POSITION", (2, 2), bigint, locate, "POSITION(part IN text).", "POSITION('b' IN 'ab')" => "2"),
    f!("INSTR", (2, 2), bigint, instr, "As LOCATE with its arguments exchanged.", "INSTR('abc', 'C')" => "3"),
    f!("REVERSE", (1, 1), like_first, reverse, "The characters in reverse order.", "REVERSE('abc')" => "cba"),
    f!("ASCII", (1, 1), bigint, ascii, "The first byte.", "ASCII('a')" => "97"),
    f!("SPACE", (1, 1), widths::spaces, space, "A number of spaces.", "CONCAT('a', SPACE(2), 'b')" => "a  b"),
    f!("QUOTE", (1, 1), widths::quoted, quote, "As an SQL literal.", "QUOTE('a''b')" => "'a\\'b'"),
    f!("STRCMP", (2, 2), bigint, strcmp, "-1, 0 or 1 if the first argument is less, equal or greater.", "STRCMP('a', 'b')" => "-1"),
];
