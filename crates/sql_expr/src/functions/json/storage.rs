//! JSON_STORAGE_SIZE and JSON_STORAGE_FREE: the size of documents in MySQL's binary form.
//!
//! Documents are stored here as text; the size is computed as MySQL would store them. A value is a
//! byte for its type and a body. Arrays and objects have two forms, with offsets of 2 or of 4
//! bytes; the larger is taken for bodies over 64 KiB. Literals and integers that fit an offset's
//! place are stored in it.

use super::super::{Call, Function, Nullable, bigint};
use crate::error::Result;
use porpoise_types::ValueRef;
use porpoise_types::json::Json;

/// Number of bytes of a string with its length, which takes a byte for each 7 bits.
fn string_size(len: usize) -> usize {
    let bits = usize::BITS - len.leading_zeros();
    len + bits.div_ceil(7).max(1) as usize
}

/// Size of a body.
fn body(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) => 1,
        Json::Int(v) if i16::try_from(*v).is_ok() => 2,
        Json::Int(v) if i32::try_from(*v).is_ok() => 4,
        // Parsed documents contain no decimals.
        Json::Int(_) | Json::UInt(_) | Json::Double(_) | Json::Decimal(_) => 8,
        Json::String(text) => string_size(text.len()),
        Json::Array(items) => container(items.iter(), items.len(), 0, 0),
        Json::Object(members) => {
            let keys = members.iter().map(|(key, _)| key.len()).sum();
            container(
                members.iter().map(|(_, v)| v),
                members.len(),
                members.len(),
                keys,
            )
        }
    }
}

/// Size of an array or an object: a header, the places of keys and values, keys, bodies.
fn container<'j>(
    values: impl Iterator<Item = &'j Json>,
    count: usize,
    key_count: usize,
    key_bytes: usize,
) -> usize {
    let mut small = 4 + key_count * 4 + count * 3 + key_bytes;
    let mut large = 8 + key_count * 6 + count * 5 + key_bytes;
    for value in values {
        let bytes = body(value);
        let (in_small, in_large) = match value {
            Json::Null | Json::Bool(_) => (true, true),
            Json::Int(_) => (bytes <= 2, bytes <= 4),
            _ => (false, false),
        };
        small += if in_small { 0 } else { bytes };
        large += if in_large { 0 } else { bytes };
    }
    if small <= usize::from(u16::MAX) {
        small
    } else {
        large
    }
}

fn size<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let document = c.document(0, "json_storage_size")?;
    Ok(document.map_or(ValueRef::Null, |d| {
        ValueRef::Int(i64::try_from(1 + body(&d)).unwrap_or(i64::MAX))
    }))
}

fn free<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let document = c.document(0, "json_storage_free")?;
    Ok(document.map_or(ValueRef::Null, |_| ValueRef::Int(0)))
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "JSON_STORAGE_SIZE",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: bigint,
        run: size,
        doc: "Number of bytes of a document in MySQL's binary form.",
        example: (
            "JSON_STORAGE_SIZE('[100, \"sakila\", [1, 3, 5], 425.05]')",
            "45",
        ),
    },
    Function {
        name: "JSON_STORAGE_FREE",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: bigint,
        run: free,
        doc: "Number of bytes that partial updates freed: 0, because documents are stored as a whole.",
        example: ("JSON_STORAGE_FREE('{\"a\": 1}')", "0"),
    },
];
