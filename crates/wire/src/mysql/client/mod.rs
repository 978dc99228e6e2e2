//! Client half of the protocol: functions over byte buffers, for tests and
//! load generators. It reads packets of this server, MySQL and MariaDB; the caller handles
//! sockets, TLS and waiting.
//!
//! 1. [`login`]: greeting, login request, authentication.
//! 2. This module: commands.
//! 3. [`result`]: replies to commands.

pub mod login;
pub mod result;

use porpoise_types::ValueRef;

use super::capability::{Capabilities, type_code};
use super::command::code;
use super::cursor::{put_bytes, put_lenenc};
use super::frame;
use super::params::Param;
use super::row_binary::{put_datetime, put_time};

/// Appends a command without a body (ping, quit, statistics, ...).
pub fn simple(out: &mut Vec<u8>, code: u8) {
    frame::packet(out, &mut 0, &[code]);
}

/// Appends a command with text: COM_INIT_DB, COM_STMT_PREPARE.
pub fn text(out: &mut Vec<u8>, code: u8, text: &[u8]) {
    let packet = frame::begin(out);
    out.push(code);
    out.extend_from_slice(text);
    frame::finish(out, packet, &mut 0);
}

/// Appends a command with a number: COM_STMT_CLOSE, COM_STMT_RESET,
/// COM_PROCESS_KILL.
pub fn number(out: &mut Vec<u8>, code: u8, n: u32) {
    let packet = frame::begin(out);
    out.push(code);
    out.extend_from_slice(&n.to_le_bytes());
    frame::finish(out, packet, &mut 0);
}

/// Appends COM_QUERY, with attributes if the connection has `QUERY_ATTRIBUTES`.
pub fn query(
    out: &mut Vec<u8>,
    caps: Capabilities,
    text: &[u8],
    attributes: &[(&[u8], Param<'_>)],
) {
    let packet = frame::begin(out);
    out.push(code::QUERY);
    if caps.has(Capabilities::QUERY_ATTRIBUTES) {
        put_lenenc(out, attributes.len() as u64);
        put_lenenc(out, 1);
        if !attributes.is_empty() {
            let values = attributes.iter().map(|(_, p)| p);
            put_nulls(out, values.clone());
            out.push(1);
            for (name, param) in attributes {
                put_type(out, param);
                put_bytes(out, name);
            }
            values.for_each(|p| put_value(out, p));
        }
    }
    out.extend_from_slice(text);
    frame::finish(out, packet, &mut 0);
}

/// Appends COM_STMT_PREPARE.
pub fn prepare(out: &mut Vec<u8>, statement: &[u8]) {
    text(out, code::STMT_PREPARE, statement);
}

/// Appends COM_STMT_EXECUTE. `types`: whether to send the parameters' types, as the first
/// execution must. `long` selects the parameters that were sent as long data.
pub fn execute(
    out: &mut Vec<u8>,
    caps: Capabilities,
    id: u32,
    params: &[Param<'_>],
    types: bool,
    long: impl Fn(usize) -> bool,
) {
    let unnamed: Vec<_> = params.iter().map(|p| (&b""[..], *p)).collect();
    execute_with_attributes(out, caps, id, &unnamed, types, long);
}

/// Appends COM_STMT_EXECUTE with names: parameters with empty names come first, query attributes
/// follow.
pub fn execute_with_attributes(
    out: &mut Vec<u8>,
    caps: Capabilities,
    id: u32,
    params: &[(&[u8], Param<'_>)],
    types: bool,
    long: impl Fn(usize) -> bool,
) {
    let has_names = caps.has(Capabilities::QUERY_ATTRIBUTES);
    let packet = frame::begin(out);
    out.push(code::STMT_EXECUTE);
    out.extend_from_slice(&id.to_le_bytes());
    // Flags: 8 is PARAMETER_COUNT_AVAILABLE; no cursor.
    out.push(if has_names { 8 } else { 0 });
    // The iteration count, which is always 1.
    out.extend_from_slice(&1u32.to_le_bytes());
    if has_names {
        put_lenenc(out, params.len() as u64);
    }
    if !params.is_empty() {
        put_nulls(out, params.iter().map(|(_, param)| param));
        out.push(u8::from(types));
        if types {
            for (name, param) in params {
                put_type(out, param);
                if has_names {
                    put_bytes(out, name);
                }
            }
        }
        for (i, (_, param)) in params.iter().enumerate() {
            if !long(i) {
                put_value(out, param);
            }
        }
    }
    frame::finish(out, packet, &mut 0);
}

/// Appends a chunk of a long parameter (COM_STMT_SEND_LONG_DATA).
pub fn long_data(out: &mut Vec<u8>, id: u32, param: u16, data: &[u8]) {
    let packet = frame::begin(out);
    out.push(code::STMT_SEND_LONG_DATA);
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&param.to_le_bytes());
    out.extend_from_slice(data);
    frame::finish(out, packet, &mut 0);
}

impl<'a> From<ValueRef<'a>> for Param<'a> {
    /// Creates a parameter of a type that represents the value exactly.
    fn from(value: ValueRef<'a>) -> Param<'a> {
        let (type_code, unsigned) = match value {
            ValueRef::Null => (type_code::NULL, false),
            ValueRef::Int(_) => (type_code::LONGLONG, false),
            ValueRef::UInt(_) => (type_code::LONGLONG, true),
            ValueRef::Double(_) => (type_code::DOUBLE, false),
            ValueRef::Decimal(_) => (type_code::NEWDECIMAL, false),
            ValueRef::Bytes(_) => (type_code::VAR_STRING, false),
            ValueRef::Date(_) => (type_code::DATE, false),
            ValueRef::DateTime(_) => (type_code::DATETIME, false),
            ValueRef::Time(_) => (type_code::TIME, false),
        };
        Param {
            value,
            type_code,
            unsigned,
        }
    }
}

/// Appends the NULL bitmap of some parameters.
fn put_nulls<'p, 'v: 'p>(out: &mut Vec<u8>, params: impl Iterator<Item = &'p Param<'v>>) {
    let start = out.len();
    for (i, param) in params.enumerate() {
        if i % 8 == 0 {
            out.push(0);
        }
        if param.value.is_null()
            && let Some(bits) = out.get_mut(start + i / 8)
        {
            *bits |= 1 << (i % 8);
        }
    }
}

fn put_type(out: &mut Vec<u8>, param: &Param<'_>) {
    out.extend_from_slice(&[param.type_code, if param.unsigned { 0x80 } else { 0 }]);
}

/// Appends a value in the encoding of its declared type; NULL has no bytes.
fn put_value(out: &mut Vec<u8>, param: &Param<'_>) {
    use type_code as t;
    let integer = match param.value {
        ValueRef::Int(n) => Some(n as u64),
        ValueRef::UInt(n) => Some(n),
        _ => None,
    };
    if let Some(n) = integer {
        let width = match param.type_code {
            t::TINY | t::BOOL => 1,
            t::SHORT | t::YEAR => 2,
            t::LONG | t::INT24 => 4,
            _ => 8,
        };
        out.extend(n.to_le_bytes().iter().take(width));
        return;
    }
    match param.value {
        ValueRef::Double(d) if param.type_code == t::FLOAT => {
            out.extend_from_slice(&(d as f32).to_le_bytes());
        }
        ValueRef::Double(d) => out.extend_from_slice(&d.to_le_bytes()),
        ValueRef::Decimal(d) => {
            let mut text = Vec::new();
            d.write_text(&mut text);
            put_bytes(out, &text);
        }
        ValueRef::Bytes(bytes) => put_bytes(out, bytes),
        ValueRef::Date(d) => put_datetime(out, d.at_midnight()),
        ValueRef::DateTime(d) => put_datetime(out, d),
        ValueRef::Time(t) => put_time(out, t),
        ValueRef::Null | ValueRef::Int(_) | ValueRef::UInt(_) => {}
    }
}
