//! JSON documents in MySQL's binary form.
//!
//! ```text
//!   document  = type, value
//!   container = count, size, key entries (objects), value entries, keys, values
//!   key entry = offset, length of 2 bytes;   value entry = type, offset or small value
//! ```
//!
//! Counts, sizes and offsets have 2 bytes in small containers and 4 in large ones; offsets count from the start of the
//! container. Literals and 16-bit integers (in large containers also those of 32 bits) stand in the entry.
//!
//! Invariant: reading recurses at most [`MAX_DEPTH`] levels and visits each entry once by its place in a container; the
//! total number of values is bounded, because offsets may let one value be visited many times.

use super::bytes::put_uint;
use super::value::{code, put_decimal, take_decimal};
use super::{Decoded, Reader, temporal};
use porpoise_types::Value;
use porpoise_types::json::{Change, Json, MAX_DEPTH, Object, Path, change, parse, remove};

/// Types of values.
mod kind {
    pub const SMALL_OBJECT: u8 = 0;
    pub const LARGE_OBJECT: u8 = 1;
    pub const SMALL_ARRAY: u8 = 2;
    pub const LARGE_ARRAY: u8 = 3;
    pub const LITERAL: u8 = 4;
    pub const INT16: u8 = 5;
    pub const UINT16: u8 = 6;
    pub const INT32: u8 = 7;
    pub const UINT32: u8 = 8;
    pub const INT64: u8 = 9;
    pub const UINT64: u8 = 10;
    pub const DOUBLE: u8 = 11;
    pub const STRING: u8 = 12;
    pub const OPAQUE: u8 = 15;
}

/// Literals.
const NULL: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;

const EVENT: &str = "rows";

/// Converts a binary document to text in normal form. An empty one is `null`, which MySQL writes for columns that got
/// no value.
///
/// # Errors
/// The document does not follow the format, or is too deep.
pub fn to_text(document: &[u8]) -> Decoded<Vec<u8>> {
    let Some((kind, value)) = document.split_first() else {
        return Ok(b"null".to_vec());
    };
    // Each value has a place of its own of at least one byte, or three in a container's entries.
    let mut left = document.len();
    Ok(read(*kind, value, 1, &mut left)?.to_text())
}

/// Operations of changes.
mod operation {
    pub const REPLACE: u8 = 0;
    pub const INSERT: u8 = 1;
    pub const REMOVE: u8 = 2;
}

/// Applies the changes of a partial update to a document, both as text.
///
/// A change is an operation, a path with its length, and, unless it removes, a value in binary form with its length. An
/// insertion at the place of an array's element moves the elements from there on.
///
/// # Errors
/// A change that does not follow the format, or whose path the document lacks: the replica's row differs from that of the
/// source.
pub fn apply_changes(document: &[u8], changes: &[u8]) -> Decoded<Vec<u8>> {
    let mut body = Reader::new(EVENT, changes);
    let parsed = parse(document);
    let mut document =
        parsed.map_err(|_| body.error("the JSON document in the before-image is malformed"))?;
    while !body.is_empty() {
        let operation = body.u8("operation on a JSON document")?;
        let path = lenenc_bytes(&mut body, "path in a JSON document")?;
        let path = Path::parse(path).ok().filter(|path| !path.is_multiple());
        let path = path.ok_or_else(|| body.error("a malformed path in a JSON document"))?;
        let exists = path.exists(&document);
        if operation == operation::REMOVE {
            if !exists {
                return Err(body.error("a JSON value to be removed does not exist"));
            }
            remove(&mut document, &path);
            continue;
        }
        let value = lenenc_bytes(&mut body, "value in a JSON document")?;
        let mut left = value.len();
        let (kind, rest) = value
            .split_first()
            .ok_or_else(|| body.error("an empty JSON value"))?;
        let value = read(*kind, rest, 1, &mut left)?;
        match operation {
            operation::REPLACE if exists => change(&mut document, &path, value, Change::Replace),
            operation::REPLACE => {
                return Err(body.error("a JSON value to be replaced does not exist"));
            }
            operation::INSERT => {
                // False: the path ends in a member.
                if !document.array_insert(&path, value.clone()) {
                    change(&mut document, &path, value, Change::Insert);
                }
            }
            other => return Err(body.error(format!("the JSON operation {other}"))),
        }
    }
    Ok(document.to_text())
}

fn lenenc_bytes<'a>(body: &mut Reader<'a>, field: &'static str) -> Decoded<&'a [u8]> {
    let length = body.lenenc(field)?;
    body.take(usize::try_from(length).unwrap_or(usize::MAX), field)
}

fn read(kind: u8, value: &[u8], depth: usize, left: &mut usize) -> Decoded<Json> {
    let mut body = Reader::new(EVENT, value);
    match left.checked_sub(1) {
        Some(rest) => *left = rest,
        None => return Err(body.error("a JSON document with overlapping values")),
    }
    if depth > MAX_DEPTH {
        return Err(body.error(format!("a JSON document deeper than {MAX_DEPTH} levels")));
    }
    Ok(match kind {
        kind::SMALL_OBJECT => Container::parse(value, 2, true)?.object(depth, left)?,
        kind::LARGE_OBJECT => Container::parse(value, 4, true)?.object(depth, left)?,
        kind::SMALL_ARRAY => Container::parse(value, 2, false)?.array(depth, left)?,
        kind::LARGE_ARRAY => Container::parse(value, 4, false)?.array(depth, left)?,
        kind::LITERAL => match body.u8("JSON literal")? {
            NULL => Json::Null,
            TRUE => Json::Bool(true),
            FALSE => Json::Bool(false),
            other => return Err(body.error(format!("the JSON literal {other}"))),
        },
        kind::INT16 => Json::Int(i64::from(body.u16("JSON number")? as i16)),
        kind::UINT16 => Json::Int(i64::from(body.u16("JSON number")?)),
        kind::INT32 => Json::Int(i64::from(body.u32("JSON number")? as i32)),
        kind::UINT32 => Json::Int(i64::from(body.u32("JSON number")?)),
        kind::INT64 => Json::Int(body.u64("JSON number")? as i64),
        kind::UINT64 => {
            let number = body.u64("JSON number")?;
            i64::try_from(number).map_or(Json::UInt(number), Json::Int)
        }
        kind::DOUBLE => match f64::from_le_bytes(body.array("JSON number")?) {
            number if number.is_finite() => Json::Double(number),
            number => return Err(body.error(format!("the JSON number {number}"))),
        },
        kind::STRING => Json::String(text(take_string(&mut body)?)),
        kind::OPAQUE => opaque(&mut body)?,
        other => return Err(body.error(format!("the JSON type {other}"))),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A string with a length of seven bits a byte, the lowest first.
fn take_string<'a>(body: &mut Reader<'a>) -> Decoded<&'a [u8]> {
    let mut length = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = body.u8("length of a JSON string")?;
        length |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return body.take(length as usize, "JSON string");
        }
    }
    Err(body.error("a JSON string whose length has more than 5 bytes"))
}

/// A value of an SQL type: DECIMAL stays a number, dates and times become text as MySQL prints them, and others
/// become base64 in MySQL's notation.
fn opaque(body: &mut Reader<'_>) -> Decoded<Json> {
    let sql_type = body.u8("type of a JSON value")?;
    let data = take_string(body)?;
    let mut value = Reader::new(EVENT, data);
    let mut out = Vec::new();
    match sql_type {
        code::NEWDECIMAL => {
            let precision = u16::from(value.u8("precision")?);
            let metadata = precision << 8 | u16::from(value.u8("scale")?);
            return Ok(Json::Decimal(take_decimal(metadata, &mut value)?));
        }
        code::DATE | code::DATETIME | code::TIMESTAMP | code::TIME => {
            let packed = value.u64("JSON time")? as i64;
            let parsed = unpack(sql_type, packed)
                .ok_or_else(|| body.error(format!("a JSON time of {packed:#x}")))?;
            match parsed {
                Value::Date(date) => date.write_text(&mut out),
                Value::DateTime(time) => time.write_text(6, &mut out),
                Value::Time(time) => time.write_text(6, &mut out),
                _ => {}
            }
        }
        _ => {
            out.extend_from_slice(format!("base64:type{sql_type}:").as_bytes());
            out.extend_from_slice(base64(data).as_bytes());
        }
    }
    Ok(Json::String(text(&out)))
}

/// A packed time: the integer part above 24 bits of microseconds.
fn unpack(sql_type: u8, packed: i64) -> Option<Value> {
    let magnitude = packed.unsigned_abs();
    let (whole, micros) = (magnitude >> 24, (magnitude & 0xFF_FFFF) as u32);
    if sql_type == code::TIME {
        return temporal::unpack_time(packed < 0, whole, micros).map(Value::Time);
    }
    let time = temporal::unpack_datetime(whole, micros)?;
    Some(match sql_type {
        code::DATE => Value::Date(time.date()),
        _ => Value::DateTime(time),
    })
}

fn base64(data: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(data.len().div_ceil(3) * 4);
    for chunk in data.chunks(3) {
        let bits = chunk.iter().enumerate().fold(0u32, |bits, (at, byte)| {
            bits | u32::from(*byte) << (16 - 8 * at)
        });
        for at in 0..4 {
            let digit = DIGITS.get((bits >> (18 - 6 * at) & 63) as usize).copied();
            out.push(if at <= chunk.len() {
                char::from(digit.unwrap_or(b'='))
            } else {
                '='
            });
        }
    }
    out
}

/// An object or array in its bytes.
struct Container<'a> {
    bytes: &'a [u8],
    width: usize,
    count: usize,
    keys_at: usize,
    values_at: usize,
}

impl<'a> Container<'a> {
    fn parse(bytes: &'a [u8], width: usize, has_keys: bool) -> Decoded<Container<'a>> {
        let mut head = Reader::new(EVENT, bytes);
        let count = head.uint(width, "number of JSON values")? as usize;
        let size = head.uint(width, "size of a JSON container")? as usize;
        let keys_at = 2 * width;
        let key_entry = if has_keys { width + 2 } else { 0 };
        let entries = count.saturating_mul(key_entry + width + 1);
        let Some(bytes) = bytes
            .get(..size)
            .filter(|bytes| keys_at.saturating_add(entries) <= bytes.len())
        else {
            return Err(head.error(format!(
                "a JSON container of {count} values and {size} bytes, of which {} are there",
                bytes.len()
            )));
        };
        Ok(Container {
            bytes,
            width,
            count,
            keys_at,
            values_at: keys_at + count * key_entry,
        })
    }

    fn at(&self, offset: usize) -> Decoded<&'a [u8]> {
        self.bytes.get(offset..).ok_or_else(|| {
            Reader::new(EVENT, &[]).error(format!(
                "a JSON offset of {offset} in a container of {} bytes",
                self.bytes.len()
            ))
        })
    }

    fn key(&self, place: usize) -> Decoded<String> {
        let entry = self.at(self.keys_at + place * (self.width + 2))?;
        let mut entry = Reader::new(EVENT, entry);
        let offset = entry.uint(self.width, "offset of a JSON key")? as usize;
        let length = entry.u16("length of a JSON key")?;
        let mut key = Reader::new(EVENT, self.at(offset)?);
        Ok(text(key.take(usize::from(length), "JSON key")?))
    }

    fn value(&self, place: usize, depth: usize, left: &mut usize) -> Decoded<Json> {
        let entry = self.at(self.values_at + place * (self.width + 1))?;
        let mut entry = Reader::new(EVENT, entry);
        let kind = entry.u8("type of a JSON value")?;
        let is_inline = match kind {
            kind::LITERAL | kind::INT16 | kind::UINT16 => true,
            kind::INT32 | kind::UINT32 => self.width == 4,
            _ => false,
        };
        if is_inline {
            return read(kind, entry.rest(), depth + 1, left);
        }
        let offset = entry.uint(self.width, "offset of a JSON value")? as usize;
        read(kind, self.at(offset)?, depth + 1, left)
    }

    fn array(&self, depth: usize, left: &mut usize) -> Decoded<Json> {
        let mut items = Vec::new();
        for place in 0..self.count {
            items.push(self.value(place, depth, left)?);
        }
        Ok(Json::Array(items))
    }

    fn object(&self, depth: usize, left: &mut usize) -> Decoded<Json> {
        let mut members = Vec::new();
        for place in 0..self.count {
            members.push((self.key(place)?, self.value(place, depth, left)?));
        }
        Ok(Json::Object(Object::from_members(members)))
    }
}

/// Appends a document, given as text, in binary form. Text that is not JSON becomes `null`; `rows` stores none.
pub fn from_text(text: &[u8], out: &mut Vec<u8>) {
    let document = parse(text).unwrap_or(Json::Null);
    let start = out.len();
    out.push(0);
    let kind = write(&document, out);
    if let Some(place) = out.get_mut(start) {
        *place = kind;
    }
}

/// Appends a value, and returns its type.
fn write(value: &Json, out: &mut Vec<u8>) -> u8 {
    match value {
        Json::Null => write_number(out, kind::LITERAL, u64::from(NULL), 1),
        Json::Bool(value) => {
            let literal = if *value { TRUE } else { FALSE };
            write_number(out, kind::LITERAL, u64::from(literal), 1)
        }
        Json::Int(number) => match *number {
            n if i16::try_from(n).is_ok() => write_number(out, kind::INT16, n as u64, 2),
            n if u16::try_from(n).is_ok() => write_number(out, kind::UINT16, n as u64, 2),
            n if i32::try_from(n).is_ok() => write_number(out, kind::INT32, n as u64, 4),
            n if u32::try_from(n).is_ok() => write_number(out, kind::UINT32, n as u64, 4),
            n => write_number(out, kind::INT64, n as u64, 8),
        },
        Json::UInt(number) => write_number(out, kind::UINT64, *number, 8),
        Json::Double(number) => write_number(out, kind::DOUBLE, number.to_bits(), 8),
        Json::Decimal(number) => {
            let precision = number.precision().max(number.scale()).max(1);
            let metadata = u16::from(precision) << 8 | u16::from(number.scale());
            let mut data = vec![precision, number.scale()];
            put_decimal(*number, metadata, &mut data);
            out.push(code::NEWDECIMAL);
            write_string(&data, out);
            kind::OPAQUE
        }
        Json::String(text) => {
            write_string(text.as_bytes(), out);
            kind::STRING
        }
        Json::Array(items) => {
            let items: Vec<_> = items.iter().collect();
            write_container(None, &items, out)
        }
        Json::Object(object) => {
            let (keys, values): (Vec<_>, Vec<_>) = object.iter().unzip();
            write_container(Some(&keys), &values, out)
        }
    }
}

fn write_number(out: &mut Vec<u8>, kind: u8, number: u64, width: usize) -> u8 {
    put_uint(out, number, width);
    kind
}

fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    let mut length = bytes.len();
    while length > 0x7F {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
}

/// Appends a container in the small form, or in the large one if it does not fit.
fn write_container(keys: Option<&[&str]>, values: &[&Json], out: &mut Vec<u8>) -> u8 {
    let kinds = match keys {
        Some(_) => (kind::SMALL_OBJECT, kind::LARGE_OBJECT),
        None => (kind::SMALL_ARRAY, kind::LARGE_ARRAY),
    };
    let written: Vec<(u8, Vec<u8>)> = values
        .iter()
        .map(|value| {
            let mut bytes = Vec::new();
            (write(value, &mut bytes), bytes)
        })
        .collect();
    if layout(keys, &written, 2, out) {
        kinds.0
    } else {
        layout(keys, &written, 4, out);
        kinds.1
    }
}

/// Appends a container with offsets of `width` bytes. Returns false, having written nothing, if they are too narrow.
fn layout(
    keys: Option<&[&str]>,
    values: &[(u8, Vec<u8>)],
    width: usize,
    out: &mut Vec<u8>,
) -> bool {
    let is_inline = |kind: u8| match kind {
        kind::LITERAL | kind::INT16 | kind::UINT16 => true,
        kind::INT32 | kind::UINT32 => width == 4,
        _ => false,
    };
    let key_entries = keys.map_or(0, |keys| keys.len() * (width + 2));
    let mut offset = 2 * width + key_entries + values.len() * (width + 1);
    let key_bytes: usize = keys.map_or(0, |keys| keys.iter().map(|key| key.len()).sum());
    let value_bytes: usize = values
        .iter()
        .filter(|(kind, _)| !is_inline(*kind))
        .map(|(_, bytes)| bytes.len())
        .sum();
    let size = offset + key_bytes + value_bytes;
    if width == 2 && (size > 0xFFFF || values.len() > 0xFFFF) {
        return false;
    }
    put_uint(out, values.len() as u64, width);
    put_uint(out, size as u64, width);
    for key in keys.unwrap_or_default() {
        put_uint(out, offset as u64, width);
        put_uint(out, key.len() as u64, 2);
        offset += key.len();
    }
    for (kind, bytes) in values {
        out.push(*kind);
        if is_inline(*kind) {
            out.extend(
                bytes
                    .iter()
                    .copied()
                    .chain(std::iter::repeat(0))
                    .take(width),
            );
        } else {
            put_uint(out, offset as u64, width);
            offset += bytes.len();
        }
    }
    for key in keys.unwrap_or_default() {
        out.extend_from_slice(key.as_bytes());
    }
    for (_, bytes) in values.iter().filter(|(kind, _)| !is_inline(*kind)) {
        out.extend_from_slice(bytes);
    }
    true
}
