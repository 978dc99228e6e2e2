//! Printing: the normal form, and JSON_PRETTY's.

use super::Json;
use crate::text::write_double;
use porpoise_base::interrupt;

/// Appends the normal form. Recursion is bounded by the depth of documents.
pub(super) fn write(value: &Json, out: &mut Vec<u8>) {
    if interrupt::leaves() {
        return;
    }
    match value {
        Json::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.extend_from_slice(b", ");
                }
                write(item, out);
            }
            out.push(b']');
        }
        Json::Object(members) => {
            out.push(b'{');
            for (i, (key, item)) in members.iter().enumerate() {
                if i > 0 {
                    out.extend_from_slice(b", ");
                }
                quote(key, out);
                out.extend_from_slice(b": ");
                write(item, out);
            }
            out.push(b'}');
        }
        scalar => write_scalar(scalar, out),
    }
}

fn write_scalar(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Bool(true) => out.extend_from_slice(b"true"),
        Json::Bool(false) => out.extend_from_slice(b"false"),
        Json::Int(v) => out.extend_from_slice(itoa::Buffer::new().format(*v).as_bytes()),
        Json::UInt(v) => out.extend_from_slice(itoa::Buffer::new().format(*v).as_bytes()),
        Json::Double(v) => write_number(*v, out),
        Json::Decimal(v) => v.write_text(out),
        Json::String(s) => quote(s, out),
        _ => out.extend_from_slice(b"null"),
    }
}

/// Appends a double, in a form that differs from integers.
fn write_number(v: f64, out: &mut Vec<u8>) {
    let start = out.len();
    write_double(v, out);
    let written = out.get(start..).unwrap_or_default();
    if !written.iter().any(|b| matches!(b, b'.' | b'e')) {
        out.extend_from_slice(b".0");
    }
}

/// Number of bytes of a string that are escaped between two interrupt checkpoints.
const ESCAPED_PART: usize = 64 * 1024;

/// Appends a string in quotation marks, escaped.
pub fn quote(s: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for (n, part) in s.as_bytes().chunks(ESCAPED_PART).enumerate() {
        if n > 0 && interrupt::should_abandon() {
            return;
        }
        escape(part, out);
    }
    out.push(b'"');
}

fn escape(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match *byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte @ 0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => out.push(byte),
        }
    }
}

/// Appends the form of JSON_PRETTY: one item per line, indented by two spaces per level.
pub fn pretty(value: &Json, level: usize, out: &mut Vec<u8>) {
    let line = |level: usize, out: &mut Vec<u8>| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', level * 2));
    };
    if interrupt::leaves() {
        return;
    }
    match value {
        Json::Array(items) if !items.is_empty() => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                line(level + 1, out);
                pretty(item, level + 1, out);
            }
            line(level, out);
            out.push(b']');
        }
        Json::Object(members) if !members.is_empty() => {
            out.push(b'{');
            for (i, (key, item)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                line(level + 1, out);
                quote(key, out);
                out.extend_from_slice(b": ");
                pretty(item, level + 1, out);
            }
            line(level, out);
            out.push(b'}');
        }
        other => write(other, out),
    }
}
