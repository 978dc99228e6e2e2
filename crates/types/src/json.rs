//! JSON text: validated, and normalised as MySQL prints it.
//!
//! MySQL sorts the keys of an object by length, then by bytes, keeps the last of
//! equal keys, and prints `", "` and `": "` between items. Numbers keep their
//! kind: integers that fit 64 bits stay integers, all others are doubles.
//!
//! Rejected for now: a binary form; nothing reads parts of a document yet.

use serde_json::Value as Json;

use crate::text::write_double;

/// Normalises JSON text; the error is the parser's position and reason, as
/// MySQL words it within error 3140.
///
/// # Errors
/// Text that is no JSON, or nested deeper than 128 levels.
pub fn normalize(text: &[u8]) -> Result<Vec<u8>, String> {
    let value: Json = serde_json::from_slice(text).map_err(|e| {
        let message = e.to_string();
        let reason = message.split(" at line ").next().unwrap_or_default();
        format!(
            "\"{reason}\" at position {}",
            position(text, e.line(), e.column())
        )
    })?;
    let mut out = Vec::with_capacity(text.len() + text.len() / 8);
    write(&value, &mut out);
    Ok(out)
}

/// The byte position of a line and column, both from 1.
fn position(text: &[u8], line: usize, column: usize) -> usize {
    let before: usize = text
        .split(|b| *b == b'\n')
        .take(line.saturating_sub(1))
        .map(|l| l.len() + 1)
        .sum();
    (before + column.saturating_sub(1)).min(text.len())
}

/// Recursion is bounded by the parser's limit of nesting.
fn write(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.extend_from_slice(b"null"),
        Json::Bool(true) => out.extend_from_slice(b"true"),
        Json::Bool(false) => out.extend_from_slice(b"false"),
        Json::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
            (Some(v), ..) => out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes()),
            (_, Some(v), _) => out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes()),
            (.., Some(v)) => write_number(v, out),
            _ => out.extend_from_slice(n.to_string().as_bytes()),
        },
        Json::String(s) => write_string(s, out),
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
        Json::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
            out.push(b'{');
            for (i, (key, item)) in entries.iter().enumerate() {
                if i > 0 {
                    out.extend_from_slice(b", ");
                }
                write_string(key, out);
                out.extend_from_slice(b": ");
                write(item, out);
            }
            out.push(b'}');
        }
    }
}

/// A double, which always shows that it is one.
fn write_number(v: f64, out: &mut Vec<u8>) {
    let start = out.len();
    write_double(v, out);
    let written = out.get(start..).unwrap_or_default();
    if !written.iter().any(|b| matches!(b, b'.' | b'e')) {
        out.extend_from_slice(b".0");
    }
}

fn write_string(s: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in s.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        String::from_utf8(normalize(json.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn keys_are_sorted_by_length_then_bytes() {
        assert_eq!(
            text(r#"{"bb":1,"a":[1,2],"c":{}, "a": 3}"#),
            r#"{"a": 3, "c": {}, "bb": 1}"#
        );
    }

    #[test]
    fn numbers_keep_their_kind() {
        assert_eq!(
            text("[1, -5, 18446744073709551615, 1.0, 1.5e3, 1e100]"),
            "[1, -5, 18446744073709551615, 1.0, 1500.0, 1e100]"
        );
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(text(r#""a\u0001\n\/é\"""#), "\"a\\u0001\\n/é\\\"\"");
    }

    #[test]
    fn errors_name_the_position() {
        let e = normalize(b"{\"a\":}").unwrap_err();
        assert!(e.contains("at position 5"), "{e}");
        assert!(normalize("[".repeat(200).as_bytes()).is_err());
    }
}
