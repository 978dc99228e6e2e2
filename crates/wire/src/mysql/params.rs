//! Parses parameters of executions and attributes of queries: types, NULL bits and values in binary
//! form.
//!
//! Invariants:
//! 1. The packet must contain a NULL bit for each parameter that it claims to have; no memory is
//!    reserved for parameters before that check.
//! 2. Types sent with one execution stay in force for later executions of the statement.
//! 3. A parameter that was sent as long data has no value in the packet.

use porpoise_types::{Date, DateTime, Decimal, Time, ValueRef};

use super::capability::{Capabilities, type_code};
use super::command::StmtExecute;
use super::cursor::Cursor;
use super::error::ProtocolError;

/// A parameter's value and the type announced by the client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param<'a> {
    /// The value; both texts and binary strings are [`ValueRef::Bytes`].
    pub value: ValueRef<'a>,
    /// The declared type, a code of [`type_code`].
    pub type_code: u8,
    /// Whether the declared type is unsigned.
    pub unsigned: bool,
}

/// Types of a statement's parameters, kept between executions: the code of each, and whether it is
/// unsigned.
#[derive(Clone, Debug, Default)]
pub struct ParamTypes(Vec<(u8, bool)>);

/// Attributes of a query or of an execution: an iterator of names and values.
#[derive(Clone, Copy, Debug)]
pub struct QueryAttributes<'a> {
    /// Number of parameters and attributes together.
    count: usize,
    /// Position of the next attribute among them.
    next: usize,
    /// The NULL bitmap.
    nulls: &'a [u8],
    /// Types and names of the attributes that have not been read yet.
    types: Cursor<'a>,
    /// Values of the attributes that have not been read yet.
    values: Cursor<'a>,
}

impl<'a> QueryAttributes<'a> {
    const fn none() -> Self {
        QueryAttributes {
            count: 0,
            next: 0,
            nulls: &[],
            types: Cursor::EMPTY,
            values: Cursor::EMPTY,
        }
    }

    /// Whether no attribute is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next >= self.count
    }

    /// Reads the next attribute; `None` if it is malformed.
    fn read_next(&mut self) -> Option<(&'a [u8], Param<'a>)> {
        let (type_code, unsigned) = read_type(&mut self.types)?;
        let name = self.types.lenenc_bytes()?;
        let value = if is_null(self.nulls, self.next) {
            ValueRef::Null
        } else {
            read_value(&mut self.values, type_code, unsigned)?
        };
        self.next += 1;
        Some((
            name,
            Param {
                value,
                type_code,
                unsigned,
            },
        ))
    }
}

impl<'a> Iterator for QueryAttributes<'a> {
    type Item = (&'a [u8], Param<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_empty() {
            return None;
        }
        self.read_next()
    }
}

/// Splits the body of COM_QUERY into text and attributes.
#[inline]
pub(super) fn parse_query(body: &[u8], caps: Capabilities) -> Option<(&[u8], QueryAttributes<'_>)> {
    if !caps.has(Capabilities::QUERY_ATTRIBUTES) {
        return Some((body, QueryAttributes::none()));
    }
    let mut cursor = Cursor::new(body);
    let count = usize::try_from(cursor.lenenc()?).ok()?;
    // The number of sets of parameters is always 1.
    cursor.lenenc()?;
    if count == 0 {
        return Some((cursor.rest(), QueryAttributes::none()));
    }
    let nulls = cursor.take(count.div_ceil(8))?;
    if cursor.u8()? != 1 {
        return None;
    }
    let types = cursor;
    for _ in 0..count {
        read_type(&mut cursor)?;
        cursor.lenenc_bytes()?;
    }
    let mut attributes = QueryAttributes {
        count,
        next: 0,
        nulls,
        types,
        values: cursor,
    };
    let all = attributes;
    // The text follows the last value.
    for _ in 0..count {
        attributes.read_next()?;
    }
    Some((attributes.values.rest(), all))
}

/// Reads the parameters of an execution into `out`, which is emptied first, and returns the query
/// attributes, which follow the parameters. `params` is the statement's number of parameters;
/// `long_data` returns the value of a parameter that was sent as long data. Attributes sent without
/// their types have no names and are discarded.
///
/// # Errors
/// [`ProtocolError::Malformed`] if the body is incomplete or invalid.
pub fn parse_execute<'a>(
    execute: &StmtExecute<'a>,
    caps: Capabilities,
    params: usize,
    types: &mut ParamTypes,
    long_data: impl Fn(usize) -> Option<&'a [u8]>,
    out: &mut Vec<Param<'a>>,
) -> Result<QueryAttributes<'a>, ProtocolError> {
    out.clear();
    parameters(execute, caps, params, types, long_data, out)
        .ok_or(ProtocolError::Malformed("parameters of an execution"))
}

/// Empties a list of parameters and returns it with another lifetime, so that its memory can be
/// used for the next packet. Without that, the list could not outlive the packet, from which its
/// values borrow.
pub fn reuse_allocation<'to>(mut params: Vec<Param<'_>>) -> Vec<Param<'to>> {
    params.clear();
    // The list is empty; collecting it in place changes nothing but its lifetime.
    params
        .into_iter()
        .map(|param| Param {
            value: ValueRef::Null,
            type_code: param.type_code,
            unsigned: param.unsigned,
        })
        .collect()
}

/// Flag of an execution: the packet contains a number of parameters even if the statement
/// has none.
const COUNT_AVAILABLE: u8 = 8;

fn parameters<'a>(
    execute: &StmtExecute<'a>,
    caps: Capabilities,
    params: usize,
    types: &mut ParamTypes,
    long_data: impl Fn(usize) -> Option<&'a [u8]>,
    out: &mut Vec<Param<'a>>,
) -> Option<QueryAttributes<'a>> {
    let named = caps.has(Capabilities::QUERY_ATTRIBUTES);
    if params == 0 && !(named && execute.flags & COUNT_AVAILABLE != 0) {
        return Some(QueryAttributes::none());
    }
    let mut cursor = Cursor::new(execute.body);
    let count = if named {
        usize::try_from(cursor.lenenc()?).ok()?
    } else {
        params
    };
    if count < params {
        return None;
    }
    if count == 0 {
        return Some(QueryAttributes::none());
    }
    let nulls = cursor.take(count.div_ceil(8))?;
    let mut attributes = QueryAttributes {
        nulls,
        next: params,
        ..QueryAttributes::none()
    };
    match cursor.u8()? {
        0 => {}
        1 => {
            attributes.types = read_types(&mut cursor, count, params, named, types)?;
            attributes.count = count;
        }
        _ => return None,
    }
    for i in 0..count {
        if i == params {
            attributes.values = cursor;
        }
        let &(type_code, unsigned) = types.0.get(i)?;
        let value = if let Some(data) = long_data(i).filter(|_| i < params) {
            ValueRef::Bytes(data)
        } else if is_null(nulls, i) {
            ValueRef::Null
        } else {
            read_value(&mut cursor, type_code, unsigned)?
        };
        if i < params {
            out.push(Param {
                value,
                type_code,
                unsigned,
            });
        }
    }
    Some(attributes)
}

/// Reads `count` types into `types`. Returns a cursor to the types after the first `params`. `named`:
/// whether a name follows each type.
fn read_types<'a>(
    cursor: &mut Cursor<'a>,
    count: usize,
    params: usize,
    named: bool,
    types: &mut ParamTypes,
) -> Option<Cursor<'a>> {
    types.0.clear();
    let mut rest = *cursor;
    for i in 0..count {
        types.0.push(read_type(cursor)?);
        if named {
            cursor.lenenc_bytes()?;
        }
        if i + 1 == params {
            rest = *cursor;
        }
    }
    Some(rest)
}

/// Reads a type: its code, and whether it is unsigned.
fn read_type(cursor: &mut Cursor<'_>) -> Option<(u8, bool)> {
    let [code, flags] = cursor.array()?;
    Some((code, flags & 0x80 != 0))
}

fn is_null(nulls: &[u8], i: usize) -> bool {
    nulls.get(i / 8).is_some_and(|b| b >> (i % 8) & 1 == 1)
}

/// Reads one value in binary form; shared with the client half.
#[inline]
pub(super) fn read_value<'a>(
    cursor: &mut Cursor<'a>,
    code: u8,
    unsigned: bool,
) -> Option<ValueRef<'a>> {
    use type_code as t;
    Some(match code {
        t::TINY | t::BOOL => {
            let [byte] = cursor.array()?;
            integer(u64::from(byte), i64::from(byte as i8), unsigned)
        }
        t::SHORT | t::YEAR => {
            let n = cursor.u16()?;
            integer(u64::from(n), i64::from(n as i16), unsigned)
        }
        t::LONG | t::INT24 => {
            let n = cursor.u32()?;
            integer(u64::from(n), i64::from(n as i32), unsigned)
        }
        t::LONGLONG => {
            let n = cursor.u64()?;
            integer(n, n as i64, unsigned)
        }
        t::FLOAT => ValueRef::Double(f64::from(f32::from_le_bytes(cursor.array()?))),
        t::DOUBLE => ValueRef::Double(f64::from_le_bytes(cursor.array()?)),
        t::NULL => ValueRef::Null,
        t::DECIMAL | t::NEWDECIMAL => {
            let text = cursor.lenenc_bytes()?;
            Decimal::parse(text).map_or(ValueRef::Bytes(text), ValueRef::Decimal)
        }
        t::DATE => ValueRef::Date(read_datetime(cursor)?.date()),
        t::DATETIME | t::TIMESTAMP => ValueRef::DateTime(read_datetime(cursor)?),
        t::TIME => ValueRef::Time(read_time(cursor)?),
        t::VARCHAR | t::BIT | t::JSON..=t::GEOMETRY => ValueRef::Bytes(cursor.lenenc_bytes()?),
        _ => return None,
    })
}

fn integer<'a>(unsigned_value: u64, signed_value: i64, unsigned: bool) -> ValueRef<'a> {
    if unsigned {
        ValueRef::UInt(unsigned_value)
    } else {
        ValueRef::Int(signed_value)
    }
}

/// Reads date and time in 0, 4, 7 or 11 bytes; omitted fields are 0.
fn read_datetime(cursor: &mut Cursor<'_>) -> Option<DateTime> {
    let length = cursor.u8()?;
    let mut part = Cursor::new(cursor.take(usize::from(length))?);
    if length == 0 {
        return Some(DateTime::ZERO);
    }
    let year = part.u16()?;
    let [month, day] = part.array()?;
    let date = Date::new(year, month, day)?;
    let [hour, minute, second] = if part.is_empty() {
        [0; 3]
    } else {
        part.array()?
    };
    let micros = if part.is_empty() { 0 } else { part.u32()? };
    DateTime::new(date, hour, minute, second, micros)
}

/// Reads a time in 0, 8 or 12 bytes. A value outside MySQL's range is clipped, as in MySQL.
fn read_time(cursor: &mut Cursor<'_>) -> Option<Time> {
    let length = cursor.u8()?;
    let mut part = Cursor::new(cursor.take(usize::from(length))?);
    if length == 0 {
        return Some(Time::ZERO);
    }
    let negative = part.u8()? != 0;
    let days = part.u32()?;
    let [hour, minute, second] = part.array()?;
    let micros = if part.is_empty() { 0 } else { part.u32()? };
    if hour > 23 || minute > 59 || second > 59 || micros > 999_999 {
        return None;
    }
    let hours = i64::from(days) * 24 + i64::from(hour);
    let seconds = (hours * 60 + i64::from(minute)) * 60 + i64::from(second);
    let total = seconds
        .saturating_mul(1_000_000)
        .saturating_add(i64::from(micros));
    Some(Time::clip(if negative { -total } else { total }).0)
}
