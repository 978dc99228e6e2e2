//! Encodings, identifiers and addresses (manual, "Encryption and
//! Compression Functions", "Miscellaneous Functions").

use super::json::truth;
use super::{Call, Function, Nullable, text_of, unsigned, width};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::expr::describe::describe;
use porpoise_base::base64;
use porpoise_base::interrupt::{self, Pacer};
use porpoise_types::{Collation, ColumnType, Kind, ValueRef};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Base64 characters decoded between two interrupt checkpoints: a multiple of four.
const BASE64_PIECE: usize = 64 * 1024;

fn to_base64<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(bytes) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let digits = bytes.len().div_ceil(3) * 4;
    if let Some(null) = c.too_long(digits + digits.saturating_sub(1) / 76) {
        return Ok(null);
    }
    let mut out = Vec::with_capacity(digits + digits / 76);
    let mut pacer = Pacer::new();
    for (n, line) in bytes.chunks(57).enumerate() {
        pacer.tick()?;
        if n > 0 {
            out.push(b'\n');
        }
        base64::encode(line, &mut out);
    }
    Ok(c.keep(&out))
}

fn from_base64<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let mut symbols = Vec::with_capacity(text.len());
    for piece in text.chunks(BASE64_PIECE) {
        interrupt::check()?;
        symbols.extend(piece.iter().filter(|b| !b.is_ascii_whitespace()));
    }
    let mut out = Vec::with_capacity(symbols.len() / 4 * 3);
    let mut pieces = symbols.chunks(BASE64_PIECE).peekable();
    while let Some(piece) = pieces.next() {
        interrupt::check()?;
        let Some(bytes) = base64::decode(piece) else {
            return Ok(ValueRef::Null);
        };
        // Padding is allowed only at the end of the whole text.
        if pieces.peek().is_some() && bytes.len() < piece.len() / 4 * 3 {
            return Ok(ValueRef::Null);
        }
        out.extend_from_slice(&bytes);
    }
    Ok(c.keep(&out))
}

/// Parses one of the three text forms of a UUID.
fn uuid_bytes(text: &[u8]) -> Option<[u8; 16]> {
    let text = match text {
        [b'{', inner @ .., b'}'] if inner.len() == 36 => inner,
        other => other,
    };
    let dashed = text.len() == 36;
    if !dashed && text.len() != 32 {
        return None;
    }
    let mut digits = Vec::with_capacity(32);
    for (at, byte) in text.iter().enumerate() {
        if dashed && matches!(at, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return None;
            }
            continue;
        }
        digits.push(u8::try_from(char::from(*byte).to_digit(16)?).ok()?);
    }
    let mut out = [0; 16];
    for (to, pair) in out.iter_mut().zip(digits.chunks(2)) {
        *to = pair.iter().fold(0, |n, d| n << 4 | d);
    }
    Some(out)
}

/// Moves the high groups of the time to the front (or `back`): low, mid, high to high, mid, low.
fn swap_uuid_time(b: [u8; 16], back: bool) -> [u8; 16] {
    let [b0, b1, b2, b3, b4, b5, b6, b7, rest @ ..] = b;
    let head = if back {
        [b4, b5, b6, b7, b2, b3, b0, b1]
    } else {
        [b6, b7, b4, b5, b0, b1, b2, b3]
    };
    let mut out = [0; 16];
    for (to, from) in out.iter_mut().zip(head.iter().chain(&rest)) {
        *to = *from;
    }
    out
}

fn wrong_uuid(text: &[u8], function: &str) -> SqlError {
    let text = format!(
        "Incorrect string value: '{}' for function {function}",
        String::from_utf8_lossy(text)
    );
    SqlError::new(1411, "HY000", text)
}

fn flag(c: &Call<'_, '_>, at: usize) -> Result<bool> {
    Ok(c.len() > at && c.int(at)?.unwrap_or(0) != 0)
}

fn uuid_to_bin<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let bytes = uuid_bytes(text).ok_or_else(|| wrong_uuid(text, "uuid_to_bin"))?;
    Ok(if flag(c, 1)? {
        c.keep(&swap_uuid_time(bytes, false))
    } else {
        c.keep(&bytes)
    })
}

fn bin_to_uuid<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(bytes) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let whole: [u8; 16] = bytes
        .try_into()
        .map_err(|_| wrong_uuid(bytes, "bin_to_uuid"))?;
    let whole = if flag(c, 1)? {
        swap_uuid_time(whole, true)
    } else {
        whole
    };
    let digits = format!("{:032x}", u128::from_be_bytes(whole));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    let parts: Vec<&str> = parts.into_iter().filter_map(|r| digits.get(r)).collect();
    Ok(c.keep(parts.join("-").as_bytes()))
}

fn is_uuid<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let valid = c.text(0)?.map(|t| uuid_bytes(t).is_some());
    Ok(valid.map_or(ValueRef::Null, |v| ValueRef::Int(i64::from(v))))
}

/// UUID_SHORT(): an increasing number, made of the server's clock and a counter.
fn uuid_short<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(0);
    let micros = c.cx.env.now_utc.to_unix_micros();
    let seconds = u64::try_from(micros / 1_000_000).unwrap_or(0) & 0xffff_ffff;
    let floor = 1 << 56 | seconds << 24;
    let next = |last: u64| last.max(floor) + 1;
    let before = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |v| Some(next(v)));
    Ok(ValueRef::UInt(next(before.unwrap_or(0))))
}

fn random_bytes<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(count) = c.int(0)? else {
        return Ok(ValueRef::Null);
    };
    let count = usize::try_from(count).unwrap_or(0);
    if !(1..=1024).contains(&count) {
        return Err(SqlError::out_of_range("length", "random_bytes"));
    }
    let mut bytes = vec![0; count];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        return Err(SqlError::internal("no random bytes"));
    }
    Ok(c.keep(&bytes))
}

/// NULL with warning 1411 about the first argument, or the error in a strict evaluation.
pub(super) fn incorrect_argument<'a>(c: &Call<'_, 'a>, kind: &str) -> Result<ValueRef<'a>> {
    let argument = c.args.first().map(describe).unwrap_or_default();
    let name = c.name.to_lowercase();
    let text = format!("Incorrect {kind} value: '{argument}' for function {name}");
    c.cx.env.warn_or_fail(1411, "HY000", text)?;
    Ok(ValueRef::Null)
}

/// `a.b.c.d`, `a.b.d` and `a.d` as MySQL reads them: missing parts before the last are zero.
fn inet_aton<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let mut parts: Vec<u64> = Vec::new();
    // With a fifth part the address is invalid.
    for part in text.split(|b| *b == b'.').take(5) {
        let digits = std::str::from_utf8(part).ok();
        let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        match digits.and_then(|d| d.parse().ok()) {
            Some(number) if number <= 255 => parts.push(number),
            _ => return incorrect_argument(c, "string"),
        }
    }
    let Some((last, first)) = parts.split_last().filter(|(_, f)| f.len() <= 3) else {
        return incorrect_argument(c, "string");
    };
    let high = first.iter().enumerate().map(|(i, p)| p << (24 - 8 * i));
    Ok(ValueRef::UInt(high.sum::<u64>() + last))
}

fn inet_ntoa<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(number) = c.int(0)? else {
        return Ok(ValueRef::Null);
    };
    match u32::try_from(number) {
        Ok(n) => Ok(c.keep(Ipv4Addr::from(n).to_string().as_bytes())),
        Err(_) => incorrect_argument(c, "integer"),
    }
}

fn parsed<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The text with the decimal numbers of an IPv4 address, of at most three digits, as they are written
/// without leading zeros.
fn without_leading_zeros(text: &[u8]) -> Vec<u8> {
    let start = text.iter().rposition(|b| *b == b':').map_or(0, |n| n + 1);
    let (before, address) = text.split_at(start);
    if !address.contains(&b'.') {
        return text.to_vec();
    }
    let numbers = address.split(|b| *b == b'.').map(|number| {
        let zeros = number.iter().take_while(|b| **b == b'0').count();
        let most = number.len().saturating_sub(1);
        if number.len() <= 3 {
            number.get(zeros.min(most)..).unwrap_or(number)
        } else {
            number
        }
    });
    let numbers: Vec<&[u8]> = numbers.collect();
    [before, &numbers.join(&b'.')].concat()
}

fn inet6_aton<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let text = &without_leading_zeros(text);
    if let Some(v4) = parsed::<Ipv4Addr>(text) {
        return Ok(c.keep(&v4.octets()));
    }
    match parsed::<Ipv6Addr>(text) {
        Some(v6) => Ok(c.keep(&v6.octets())),
        None => incorrect_argument(c, "string"),
    }
}

fn inet6_ntoa<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let is_binary = c.collation(0) == Collation::BINARY;
    let Some(bytes) = c.text(0)?.filter(|_| is_binary) else {
        return Ok(ValueRef::Null);
    };
    let text = if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        Some(Ipv4Addr::from(four).to_string())
    } else if let Ok(sixteen) = <[u8; 16]>::try_from(bytes) {
        Some(ipv6_text(Ipv6Addr::from(sixteen)))
    } else {
        None
    };
    match text {
        Some(text) => Ok(c.keep(text.as_bytes())),
        None => incorrect_argument(c, "string"),
    }
}

/// The text of an address; one that ends in an IPv4 address after 96 zero bits is printed with
/// dots, which Rust does for mapped addresses only. A single zero is shortened, too.
fn ipv6_text(address: Ipv6Addr) -> String {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
            format!(
                "::{}",
                Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
            )
        }
        segments => {
            let text = address.to_string();
            match segments.iter().position(|s| *s == 0) {
                Some(at) if !text.contains("::") => shortened(&segments, at),
                _ => text,
            }
        }
    }
}

/// The text of an address with `::` in place of the segment at a position.
fn shortened(segments: &[u16], zero: usize) -> String {
    let join = |part: &[u16]| {
        let texts: Vec<String> = part.iter().map(|s| format!("{s:x}")).collect();
        texts.join(":")
    };
    let (before, after) = segments.split_at(zero);
    join(before) + "::" + &join(after.get(1..).unwrap_or_default())
}

fn test_bytes<'a>(c: &Call<'_, 'a>, f: fn(&[u8]) -> bool) -> Result<ValueRef<'a>> {
    Ok(c.text(0)?
        .map_or(ValueRef::Null, |text| ValueRef::Int(i64::from(f(text)))))
}

fn is_mapped_ipv6(bytes: &[u8], tail: [u8; 2]) -> bool {
    let tail_at = bytes.get(10..12);
    bytes.len() == 16 && bytes.iter().take(10).all(|b| *b == 0) && tail_at == Some(&tail[..])
}

/// MD5 of RFC 1321, for MD5(); not used for security.
fn md5(message: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] = [
        [7, 12, 17, 22],
        [5, 9, 14, 20],
        [4, 11, 16, 23],
        [6, 10, 15, 21],
    ];
    let mut data = message.to_vec();
    data.push(0x80);
    while data.len() % 64 != 56 {
        data.push(0);
    }
    data.extend_from_slice(&(message.len() as u64).wrapping_mul(8).to_le_bytes());
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut pacer = Pacer::new();
    for block in data.chunks(64) {
        if pacer.leaves_by(4) {
            break;
        }
        let words: Vec<u32> = block
            .chunks(4)
            .map(|w| w.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b)))
            .collect();
        let [mut a, mut b, mut c, mut d] = state;
        for (round, shifts) in SHIFTS.iter().enumerate() {
            for (step, shift) in (0..16usize).zip(shifts.iter().cycle()) {
                let (mix, word) = match round {
                    0 => (b & c | !b & d, step),
                    1 => (d & b | !d & c, (5 * step + 1) % 16),
                    2 => (b ^ c ^ d, (3 * step + 5) % 16),
                    _ => (c ^ (b | !d), 7 * step % 16),
                };
                let constant = ((round * 16 + step + 1) as f64).sin().abs() * 4_294_967_296.0;
                let sum = a
                    .wrapping_add(mix)
                    .wrapping_add(constant as u32)
                    .wrapping_add(words.get(word).copied().unwrap_or(0));
                (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(*shift)));
            }
        }
        let [s0, s1, s2, s3] = state;
        state = [
            s0.wrapping_add(a),
            s1.wrapping_add(b),
            s2.wrapping_add(c),
            s3.wrapping_add(d),
        ];
    }
    let mut out = [0; 16];
    for (to, word) in out.chunks_mut(4).zip(state) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    out
}

fn md5_text<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let text = c.text(0)?;
    Ok(text.map_or(ValueRef::Null, |t| {
        c.keep(format!("{:032x}", u128::from_be_bytes(md5(t))).as_bytes())
    }))
}

/// Result type: binary text of the first argument, encrypted or decoded.
/// Maximum number of bytes of the first argument.
fn argument_bytes(args: &[Expr]) -> u32 {
    let bytes = |e: &Expr| width(e).saturating_mul(e.ty.collation.charset().max_len());
    args.first().map_or(0, bytes)
}

/// Result type of TO_BASE64: four characters for three bytes, and line ends.
fn base64_text(args: &[Expr], collation: Collation) -> ColumnType {
    let digits = argument_bytes(args).div_ceil(3).saturating_mul(4);
    text_of(
        digits.saturating_add(digits.saturating_sub(1) / 76),
        collation,
    )
}

/// Result type of FROM_BASE64.
fn base64_bytes(args: &[Expr], _: Collation) -> ColumnType {
    let bytes = argument_bytes(args) / 4 * 3 + argument_bytes(args) % 4 * 3 / 4;
    if bytes > 65_000 {
        ColumnType::blob(Kind::LongBlob)
    } else {
        ColumnType::varbinary(bytes)
    }
}

pub(super) fn bytes_type(args: &[Expr], _: Collation) -> ColumnType {
    let chars = args.first().map_or(0, |e| width(e).saturating_mul(4));
    if chars > 65_000 {
        ColumnType::blob(Kind::LongBlob)
    } else {
        ColumnType::varbinary(chars.saturating_add(32))
    }
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    f!("MD5", (1, 1), |_, c| text_of(32, c), IfArgument, md5_text, "The MD5 digest, as hexadecimal digits.", "MD5('testing')" => "ae2b1fca515949e5d54fb22b8ed95575"),
    f!("TO_BASE64", (1, 1), base64_text, IfArgument, to_base64, "In base 64, lines of 76 characters.", "TO_BASE64('abc')" => "YWJj"),
    f!("FROM_BASE64", (1, 1), base64_bytes, Always, from_base64, "The bytes that base 64 encodes; NULL for invalid base 64.", "FROM_BASE64('YWJj')" => "abc"),
    f!("UUID_TO_BIN", (1, 2), |_, _| ColumnType::varbinary(16), Always, uuid_to_bin, "The 16 bytes of a UUID; optionally with the time groups exchanged.", "HEX(UUID_TO_BIN('6ccd780c-baba-1026-9564-5b8c656024db', 1))" => "1026BABA6CCD780C95645B8C656024DB"),
    f!("BIN_TO_UUID", (1, 2), |_, c| text_of(36, c), Always, bin_to_uuid, "The text of a UUID from its bytes.", "BIN_TO_UUID(UUID_TO_BIN('6ccd780c-baba-1026-9564-5b8c656024db', 1), 1)" => "6ccd780c-baba-1026-9564-5b8c656024db"),
    f!("IS_UUID", (1, 1), truth, IfArgument, is_uuid, "Whether a text is a UUID.", "IS_UUID('6ccd780cbaba102695645b8c656024db')" => "1"),
    f!("UUID_SHORT", (0, 0), unsigned, Never, false, uuid_short, "A number that no other call returns.", "UUID_SHORT() < UUID_SHORT()" => "1"),
    f!("RANDOM_BYTES", (1, 1), |_, _| ColumnType::varbinary(1024), Always, false, random_bytes, "A number of random bytes, for cryptography.", "LENGTH(RANDOM_BYTES(7))" => "7"),
    f!("INET_ATON", (1, 1), unsigned, Always, inet_aton, "The number of an IPv4 address.", "INET_ATON('10.0.5.9')" => "167773449"),
    f!("INET_NTOA", (1, 1), |_, c| text_of(31, c), Always, inet_ntoa, "The IPv4 address of a number.", "INET_NTOA(167773449)" => "10.0.5.9"),
    f!("INET6_ATON", (1, 1), |_, _| ColumnType::varbinary(16), Always, inet6_aton, "The bytes of an IPv6 or IPv4 address.", "HEX(INET6_ATON('fdfe::5a55:caff:fefa:9089'))" => "FDFE0000000000005A55CAFFFEFA9089"),
    f!("INET6_NTOA", (1, 1), |_, c| text_of(39, c), Always, inet6_ntoa, "The address of its bytes.", "INET6_NTOA(INET6_ATON('10.0.5.9'))" => "10.0.5.9"),
    f!("IS_IPV4", (1, 1), truth, IfArgument, |c| test_bytes(c, |t| parsed::<Ipv4Addr>(&without_leading_zeros(t)).is_some()), "Whether a text is an IPv4 address.", "IS_IPV4('10.0.5.256')" => "0"),
    f!("IS_IPV6", (1, 1), truth, IfArgument, |c| test_bytes(c, |t| parsed::<Ipv6Addr>(&without_leading_zeros(t)).is_some()), "Whether a text is an IPv6 address.", "IS_IPV6('::1')" => "1"),
    f!("IS_IPV4_COMPAT", (1, 1), truth, IfArgument, |c| test_bytes(c, |t| is_mapped_ipv6(t, [0, 0]) && t.get(12..15) != Some(&[0, 0, 0])), "Whether bytes are an IPv4-compatible IPv6 address.", "IS_IPV4_COMPAT(INET6_ATON('::10.0.5.9'))" => "1"),
    f!("IS_IPV4_MAPPED", (1, 1), truth, IfArgument, |c| test_bytes(c, |t| is_mapped_ipv6(t, [0xff, 0xff])), "Whether bytes are an IPv4-mapped IPv6 address.", "IS_IPV4_MAPPED(INET6_ATON('::ffff:10.0.5.9'))" => "1"),
];
