//! String functions of lists, numbers and codes (manual, "String Functions and Operators"); the
//! others are in [`super::strings`].

use super::{
    Call, Function, Nullable, bigint, common_collation, joined, long_blob, text_of, width, widths,
};
use crate::error::Result;
use crate::expr::Expr;
use crate::locale::Locale;
use porpoise_base::interrupt::Pacer;
use porpoise_types::{Charset, Collation, ColumnType, Decimal, Kind, Level, ValueRef, Warning};

fn elt_type(args: &[Expr], collation: Collation) -> ColumnType {
    let rest = args.get(1..).unwrap_or(&[]);
    let chars = rest.iter().map(width).max().unwrap_or(0);
    text_of(chars, common_collation(rest, collation))
}

fn elt<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let at = c.int(0)?.and_then(|n| usize::try_from(n).ok());
    match at.filter(|n| (1..c.len()).contains(n)) {
        Some(at) => Ok(c.text(at)?.map_or(ValueRef::Null, ValueRef::Bytes)),
        None => Ok(ValueRef::Null),
    }
}

/// FIELD compares as text when all arguments are text, else as numbers.
fn field<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    // A NULL literal equals nothing and does not decide how the others are compared.
    let null = |e: &Expr| e.ty.kind == Kind::Null;
    let textual = |e: &Expr| e.ty.is_string() || e.ty.is_binary() || e.ty.is_blob();
    let all_text = c.args.iter().all(|e| null(e) || textual(e));
    let all_integer = c.args.iter().all(|e| null(e) || e.ty.is_integer());
    let collation = common_collation(c.args, Collation::BINARY);
    let mut pacer = Pacer::new();
    for at in 1..c.len() {
        pacer.tick()?;
        let same = if all_text {
            let both = c.text(0)?.zip(c.text(at)?);
            both.is_some_and(|(a, b)| collation.compare(a, b).is_eq())
        } else if all_integer {
            c.int(0)?.zip(c.int(at)?).is_some_and(|(a, b)| a == b)
        } else {
            c.double(0)?.zip(c.double(at)?).is_some_and(|(a, b)| a == b)
        };
        if same {
            return Ok(ValueRef::Int(at as i64));
        }
    }
    Ok(ValueRef::Int(0))
}

/// INTERVAL(): the number of limits before the first that is greater; NULL limits are skipped.
fn interval<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let exact = |at: usize| {
        let ty = c.args.get(at).map(|e| &e.ty);
        ty.is_some_and(|ty| ty.is_integer() || ty.kind == Kind::Decimal)
    };
    let (Some(value), decimal) = (c.double(0)?, c.decimal(0)?) else {
        return Ok(ValueRef::Int(-1));
    };
    let mut pacer = Pacer::new();
    for at in 1..c.len() {
        pacer.tick()?;
        let is_greater = match decimal {
            Some(decimal) if exact(0) && exact(at) => c
                .decimal(at)?
                .is_some_and(|v| v.cmp_value(&decimal).is_gt()),
            _ => c.double(at)?.is_some_and(|v| v > value),
        };
        if is_greater {
            return Ok(ValueRef::Int(at as i64 - 1));
        }
    }
    Ok(ValueRef::Int(c.len() as i64 - 1))
}

fn find_in_set<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(wanted), Some(list)) = (c.text(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    if list.is_empty() || wanted.contains(&b',') {
        return Ok(ValueRef::Int(0));
    }
    let collation = common_collation(c.args, Collation::BINARY);
    let mut items = list.split(|b| *b == b',');
    let mut pacer = Pacer::new();
    let found = items.position(|item| pacer.leaves() || collation.compare(item, wanted).is_eq());
    Ok(ValueRef::Int(found.map_or(0, |at| at as i64 + 1)))
}

fn make_set<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(bits) = c.int(0)? else {
        return Ok(ValueRef::Null);
    };
    let mut out: Vec<u8> = Vec::new();
    let mut first = true;
    for at in 1..c.len().min(65) {
        if bits >> (at - 1) & 1 == 0 {
            continue;
        }
        if let Some(text) = c.text(at)? {
            if !first {
                out.push(b',');
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

fn export_set<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(bits), Some(on), Some(off)) = (c.int(0)?, c.text(1)?, c.text(2)?) else {
        return Ok(ValueRef::Null);
    };
    let separator = if c.len() > 3 {
        c.text(3)?
    } else {
        Some(&b","[..])
    };
    let count = if c.len() > 4 { c.int(4)? } else { Some(64) };
    let (Some(separator), Some(count)) = (separator, count) else {
        return Ok(ValueRef::Null);
    };
    let count = usize::try_from(count).unwrap_or(64).min(64);
    let parts: Vec<&[u8]> = (0..count)
        .map(|bit| if bits >> bit & 1 == 1 { on } else { off })
        .collect();
    let texts: usize = parts.iter().map(|part| part.len()).sum();
    let between = separator.len() * count.saturating_sub(1);
    if let Some(null) = c.too_long(texts + between) {
        return Ok(null);
    }
    Ok(c.keep(&parts.join(separator)))
}

/// FORMAT(): digits grouped by three, rounded half away from zero.
fn format<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(places) = c.int(1)? else {
        return Ok(ValueRef::Null);
    };
    let scale = u8::try_from(places.clamp(0, 30)).unwrap_or(30);
    let textual = c.args.first().is_some_and(|e| {
        matches!(e.ty.kind, Kind::Double | Kind::Float) || e.ty.is_string() || e.ty.is_binary()
    });
    let number = if textual {
        c.double(0)?.map(Decimal::from_f64).and_then(|d| d.ok())
    } else {
        c.decimal(0)?
    };
    let Some(number) = number else {
        return Ok(ValueRef::Null);
    };
    let mut locale = Locale::english();
    if c.len() > 2
        && let Some(name) = c.text(2)?
    {
        locale = named_locale(c, name);
    }
    let rounded = number.rescale(scale).unwrap_or(number);
    let mut digits = Vec::new();
    rounded.write_text(&mut digits);
    let text = String::from_utf8_lossy(&digits).into_owned();
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.as_str()),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && locale.separates(whole.len() - i) {
            out.push_str(locale.separator);
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push_str(locale.point);
        out.push_str(fraction);
    }
    let charset = c.ty.collation.charset();
    Ok(c.keep(&Charset::Utf8mb4.convert(charset, out.as_bytes()).0))
}

/// The locale of FORMAT(); en_US with warning 1649 if there is none of this name.
fn named_locale(c: &Call<'_, '_>, name: &[u8]) -> &'static Locale {
    let name = String::from_utf8_lossy(name);
    Locale::named(&name).unwrap_or_else(|| {
        c.cx.env.warn(Warning {
            level: Level::Warning,
            code: 1649,
            message: format!("Unknown locale: '{name}'"),
        });
        Locale::english()
    })
}

/// Byte offsets of all characters, and the end of the text.
fn bounds(text: &[u8], collation: Collation) -> Vec<usize> {
    let wide = collation.charset().max_len() > 1;
    let starts = |i: &usize| !wide || text.get(*i).is_some_and(|b| b & 0xc0 != 0x80);
    let mut bounds: Vec<usize> = (0..text.len()).filter(starts).collect();
    bounds.push(text.len());
    bounds
}

fn insert<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(from), Some(count), Some(new)) =
        (c.text(0)?, c.int(1)?, c.int(2)?, c.text(3)?)
    else {
        return Ok(ValueRef::Null);
    };
    let bounds = bounds(text, c.collation(0));
    let chars = bounds.len() - 1;
    let before = from.checked_sub(1);
    let Some(start) = before
        .and_then(|n| usize::try_from(n).ok())
        .filter(|s| *s < chars)
    else {
        return Ok(ValueRef::Bytes(text));
    };
    let count = usize::try_from(count).unwrap_or(chars);
    let end = start.saturating_add(count).min(chars);
    let at = |i: usize| bounds.get(i).copied().unwrap_or(text.len());
    let (before, after) = (text.get(..at(start)), text.get(at(end)..));
    let kept = before.map_or(0, <[u8]>::len) + after.map_or(0, <[u8]>::len);
    if let Some(null) = c.too_long(kept + new.len()) {
        return Ok(null);
    }
    Ok(c.keep(&[before.unwrap_or_default(), new, after.unwrap_or_default()].concat()))
}

fn ord<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let end = bounds(text, c.collation(0)).get(1).copied().unwrap_or(0);
    let first = text.get(..end).unwrap_or_default();
    let first = c.collation(0).charset().encoded(first);
    let code = first.iter().fold(0i64, |n, b| n << 8 | i64::from(*b));
    Ok(ValueRef::Int(code))
}

fn char<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let mut out = Vec::new();
    for at in 0..c.len() {
        if let Some(code) = c.int(at)? {
            let bytes = (code as u32).to_be_bytes();
            let skip = bytes.iter().take(3).take_while(|b| **b == 0).count();
            out.extend(bytes.iter().skip(skip));
        }
    }
    Ok(c.keep(&out))
}

fn substring_index<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(mark), Some(count)) = (c.text(0)?, c.text(1)?, c.int(2)?) else {
        return Ok(ValueRef::Null);
    };
    if mark.is_empty() || count == 0 {
        return Ok(ValueRef::Bytes(b""));
    }
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let part = if count > 0 {
        let mut found = memchr::memmem::find_iter(text, mark);
        found.nth(wanted - 1).and_then(|at| text.get(..at))
    } else {
        let mut found = memchr::memmem::rfind_iter(text, mark);
        found
            .nth(wanted - 1)
            .and_then(|at| text.get(at + mark.len()..))
    };
    Ok(ValueRef::Bytes(part.unwrap_or(text)))
}

fn soundex<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let code = |c: char| match c.to_ascii_uppercase() {
        'B' | 'F' | 'P' | 'V' => b'1',
        'C' | 'G' | 'J' | 'K' | 'Q' | 'S' | 'X' | 'Z' => b'2',
        'D' | 'T' => b'3',
        'L' => b'4',
        'M' | 'N' => b'5',
        'R' => b'6',
        _ => b'0',
    };
    let text = String::from_utf8_lossy(text);
    let mut pacer = Pacer::new();
    let characters = text.chars().take_while(|_| !pacer.leaves());
    let mut letters = characters.filter(|c| c.is_alphabetic());
    let Some(first) = letters.next() else {
        return Ok(ValueRef::Bytes(b""));
    };
    let mut out: String = first.to_uppercase().collect();
    let mut last = code(first);
    for letter in letters {
        // In MySQL, letters with equal codes count once even if H, W or a vowel is between them.
        let next = code(letter);
        if next == b'0' {
            continue;
        }
        if next != last {
            out.push(char::from(next));
        }
        last = next;
    }
    while out.chars().count() < 4 {
        out.push('0');
    }
    Ok(c.keep(out.as_bytes()))
}

fn digits_of(mut n: u64, base: u32) -> String {
    let mut out = Vec::new();
    loop {
        let digit = u32::try_from(n % u64::from(base)).unwrap_or(0);
        out.push(
            char::from_digit(digit, base)
                .unwrap_or('0')
                .to_ascii_uppercase(),
        );
        n /= u64::from(base);
        if n == 0 {
            return out.into_iter().rev().collect();
        }
    }
}

fn conv<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(text), Some(from), Some(to)) = (c.text(0)?, c.int(1)?, c.int(2)?) else {
        return Ok(ValueRef::Null);
    };
    if text.is_empty() {
        return Ok(ValueRef::Null);
    }
    Ok(match converted(text, from, to) {
        Some(text) => c.keep(text.as_bytes()),
        None => ValueRef::Null,
    })
}

/// Converts the leading digits of a text to another base; a negative base means signed.
fn converted(text: &[u8], from: i64, to: i64) -> Option<String> {
    let base = |b: i64| {
        u32::try_from(b.unsigned_abs())
            .ok()
            .filter(|b| (2..=36).contains(b))
    };
    let (from_base, to_base) = (base(from)?, base(to)?);
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut value: u64 = 0;
    let (mut any, mut is_too_large) = (false, false);
    for digit in digits.chars().map_while(|c| c.to_digit(from_base)) {
        any = true;
        let next = value.checked_mul(u64::from(from_base));
        let next = next.and_then(|v| v.checked_add(u64::from(digit)));
        is_too_large |= next.is_none();
        value = next.unwrap_or(u64::MAX);
    }
    if !any {
        return Some("0".to_owned());
    }
    let value = match (negative, from < 0) {
        // A negative base reads signed numbers.
        (true, true) => i64::try_from(value).map_or(i64::MIN, |v| -v) as u64,
        (false, true) => value.min(i64::MAX as u64),
        (true, false) if is_too_large => 0,
        (true, false) => value.wrapping_neg(),
        (false, false) => value,
    };
    Some(if to < 0 && (value as i64) < 0 {
        format!("-{}", digits_of((value as i64).unsigned_abs(), to_base))
    } else {
        digits_of(value, to_base)
    })
}

fn in_base<'a>(c: &Call<'_, 'a>, base: i64) -> Result<ValueRef<'a>> {
    let value = c.arg(0).0;
    let text = match value {
        ValueRef::Double(v) => Some(format!("{}", v.trunc()).into_bytes()),
        // BIT, whose text would be its bytes.
        ValueRef::UInt(v) => Some(v.to_string().into_bytes()),
        _ => c.text(0)?.map(<[u8]>::to_vec),
    };
    let digits = text.and_then(|t| converted(&t, 10, base));
    Ok(digits.map_or(ValueRef::Null, |d| c.keep(d.as_bytes())))
}

fn weight_string<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let textual = c
        .args
        .first()
        .is_some_and(|e| e.ty.is_string() || e.ty.is_blob());
    let Some(text) = c.text(0)?.filter(|_| textual) else {
        return Ok(ValueRef::Null);
    };
    let limit = |at: usize| -> Result<usize> {
        if at >= c.len() {
            return Ok(0);
        }
        let given = c.int(at)?.unwrap_or(0);
        Ok(usize::try_from(given).unwrap_or(0))
    };
    let (bytes, chars) = (limit(1)?, limit(2)?);
    let fill = if limit(3)? & PAD_TO_LENGTH == 0 {
        0
    } else {
        bytes
    };
    let collation = c.collation(0);
    let longest = chars.saturating_mul(collation.weight_len()).max(bytes);
    if let Some(null) = c.too_long(longest) {
        return Ok(null);
    }
    let used = match chars {
        0 => text,
        _ => text
            .get(..collation.charset().prefix_len(text, chars))
            .unwrap_or(text),
    };
    let mut weights = Vec::new();
    collation.weights(used, chars, fill, &mut weights);
    if bytes > 0 {
        weights.truncate(bytes);
    }
    Ok(c.keep(&weights))
}

/// The flag of WEIGHT_STRING() that fills the result to its length.
const PAD_TO_LENGTH: usize = 0x80;

const MAX_ARGUMENTS: usize = 65_535;

fn after_first(args: &[Expr], collation: Collation) -> ColumnType {
    joined(args.get(1..).unwrap_or(&[]), collation)
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    f!("ELT", (2, MAX_ARGUMENTS), elt_type, Always, elt, "The argument of that number.", "ELT(2, 'Aa', 'Bb')" => "Bb"),
    f!("INTERVAL", (2, MAX_ARGUMENTS), bigint, Never, interval, "Number of the other arguments, in ascending order, that are not greater than the first; -1 for NULL.", "INTERVAL(23, 1, 15, 17, 30, 44, 200)" => "3"),
    f!("FIELD", (2, MAX_ARGUMENTS), bigint, Never, field, "Position of the first argument among the others; 0 if none equals it.", "FIELD('Bb', 'Aa', 'Bb', 'Cc')" => "2"),
    f!("FIND_IN_SET", (2, 2), bigint, IfArgument, find_in_set, "Position in a comma-separated list of texts; 0 if absent.", "FIND_IN_SET('b', 'a,b,c,d')" => "2"),
    f!("MAKE_SET", (2, 65), after_first, IfArgument, make_set, "The texts whose bits are set, between commas.", "MAKE_SET(1 | 4, 'hello', 'nice', 'world')" => "hello,world"),
    f!("EXPORT_SET", (3, 5), widths::exported, IfArgument, export_set, "One text for each bit that is set, another for those that are not.", "EXPORT_SET(5, 'Y', 'N', ',', 4)" => "Y,N,Y,N"),
    f!("FORMAT", (2, 3), |_, c| text_of(100, c), Always, format, "A number with groups of three digits and a number of decimals.", "FORMAT(12332.1234567, 4)" => "12,332.1235"),
    f!("INSERT", (4, 4), widths::inserted, IfArgument, insert, "A text with a part of it replaced, by position.", "INSERT('Quadratic', 3, 4, 'What')" => "QuWhattic"),
    f!("ORD", (1, 1), bigint, IfArgument, ord, "The code of the first character, from its bytes.", "ORD('ä')" => "50084"),
    f!("CHAR", (1, MAX_ARGUMENTS), long_blob, Never, char, "The bytes of the codes.", "CHAR(77, 121, 83, 81, '76')" => "MySQL"),
    f!("SUBSTRING_INDEX", (3, 3), super::like_both, IfArgument, substring_index, "The part before the n-th occurrence of a delimiter, or after it for negative n.", "SUBSTRING_INDEX('www.mysql.com', '.', -2)" => "mysql.com"),
    f!("SOUNDEX", (1, 1), widths::soundex, IfArgument, soundex, "The Soundex code of a word.", "SOUNDEX('Hello')" => "H400"),
    f!("CONV", (3, 3), |_, c| text_of(64, c), Always, conv, "A number in another base.", "CONV(-17, 10, -18)" => "-H"),
    f!("BIN", (1, 1), |_, c| text_of(64, c), IfArgument, |c| in_base(c, 2), "A number in base 2.", "BIN(12)" => "1100"),
    f!("OCT", (1, 1), |_, c| text_of(64, c), IfArgument, |c| in_base(c, 8), "A number in base 8.", "OCT(12)" => "14"),
    f!("WEIGHT_STRING", (1, 4), long_blob, Always, weight_string, "The bytes by which a text is ordered; NULL for other types.", "HEX(WEIGHT_STRING(_binary'AB'))" => "4142"),
    f!("LOAD_FILE", (1, 1), long_blob, Always, |_| Ok(ValueRef::Null), "The content of a file in `secure_file_priv`; the session evaluates it.", "LOAD_FILE('/etc/passwd') IS NULL" => "1"),
];
