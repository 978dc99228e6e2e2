//! Values in C: a kind, which selects the field that is used.

#![allow(unsafe_code)]

use crate::failure::usage;
use porpoise_native_client::{Error, ValueRef};
use std::ffi::c_int;

/// Kinds of values, as in the header.
pub(crate) const NULL: c_int = 0;
pub(crate) const INT: c_int = 1;
pub(crate) const UINT: c_int = 2;
pub(crate) const DOUBLE: c_int = 3;
pub(crate) const BYTES: c_int = 4;

/// `porpoise_value`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CValue {
    pub(crate) kind: c_int,
    pub(crate) int_value: i64,
    pub(crate) uint_value: u64,
    pub(crate) double_value: f64,
    pub(crate) bytes: *const u8,
    pub(crate) length: usize,
}

impl CValue {
    const EMPTY: CValue = CValue {
        kind: NULL,
        int_value: 0,
        uint_value: 0,
        double_value: 0.0,
        bytes: std::ptr::null(),
        length: 0,
    };

    fn of_bytes(bytes: &[u8]) -> CValue {
        CValue {
            kind: BYTES,
            bytes: bytes.as_ptr(),
            length: bytes.len(),
            ..CValue::EMPTY
        }
    }

    /// Converts a value to C. `keep` stores the text form of a value that is not bytes, at a stable address.
    pub(crate) fn of(value: ValueRef<'_>, keep: &mut Vec<String>) -> CValue {
        match value {
            ValueRef::Null => CValue::EMPTY,
            ValueRef::Int(v) => CValue {
                kind: INT,
                int_value: v,
                ..CValue::EMPTY
            },
            ValueRef::UInt(v) => CValue {
                kind: UINT,
                uint_value: v,
                ..CValue::EMPTY
            },
            ValueRef::Double(v) => CValue {
                kind: DOUBLE,
                double_value: v,
                ..CValue::EMPTY
            },
            ValueRef::Bytes(bytes) => CValue::of_bytes(bytes),
            ValueRef::Decimal(v) => kept(v.to_string(), keep),
            ValueRef::Date(v) => kept(v.to_string(), keep),
            ValueRef::DateTime(v) => kept(v.to_string(), keep),
            ValueRef::Time(v) => kept(v.to_string(), keep),
        }
    }

    /// Converts the value for the client.
    ///
    /// # Safety
    /// The bytes of a value of kind `BYTES` are readable for `'v`.
    unsafe fn get<'v>(&self) -> Result<ValueRef<'v>, Error> {
        Ok(match self.kind {
            NULL => ValueRef::Null,
            INT => ValueRef::Int(self.int_value),
            UINT => ValueRef::UInt(self.uint_value),
            DOUBLE => ValueRef::Double(self.double_value),
            // SAFETY: the caller of this function promises it.
            BYTES => ValueRef::Bytes(unsafe { slice(self.bytes, self.length) }),
            _ => return Err(usage("a value is of an unknown kind")),
        })
    }
}

/// Stores a text in `keep`. The bytes of a `String` do not move while the vector grows.
fn kept(text: String, keep: &mut Vec<String>) -> CValue {
    let value = CValue::of_bytes(text.as_bytes());
    keep.push(text);
    value
}

/// A slice of the caller's; a null pointer is an empty one.
///
/// # Safety
/// `start` is null, or points to `length` readable elements that nothing changes during `'v`.
pub(crate) unsafe fn slice<'v, T>(start: *const T, length: usize) -> &'v [T] {
    if start.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the caller promises it; a length in bytes beyond `isize::MAX` cannot be readable.
    unsafe { std::slice::from_raw_parts(start, length) }
}

/// The values of the caller.
///
/// # Safety
/// As [`slice()`], and for the bytes of each value.
pub(crate) unsafe fn values<'v>(
    start: *const CValue,
    count: usize,
) -> Result<Vec<ValueRef<'v>>, Error> {
    // SAFETY: the caller promises it.
    let values = unsafe { slice(start, count) };
    let values = values.iter().map(|value| {
        // SAFETY: the caller promises it for the bytes of each value.
        unsafe { value.get() }
    });
    values.collect()
}
