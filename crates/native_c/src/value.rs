//! Values in C: a kind, which selects the field that is used.

#![allow(unsafe_code)]

use crate::failure::usage;
use crate::pointers::slice;
use porpoise_native_client::{Bound, Error, ValueRef};
use std::ffi::c_int;

/// NULL.
pub const PORPOISE_NULL: c_int = 0;
/// A signed integer.
pub const PORPOISE_INT: c_int = 1;
/// An unsigned integer.
pub const PORPOISE_UINT: c_int = 2;
/// A number of double precision.
pub const PORPOISE_DOUBLE: c_int = 3;
/// Strings and bytes; DECIMAL, dates and times as text.
pub const PORPOISE_BYTES: c_int = 4;
/// A value that the change log does not have (`binlog_row_image`).
pub const PORPOISE_MISSING: c_int = 5;

/// A value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CValue {
    /// PORPOISE_NULL to PORPOISE_MISSING: selects the field that is used.
    kind: c_int,
    int_value: i64,
    uint_value: u64,
    double_value: f64,
    bytes: *const u8,
    length: usize,
}

/// A bound of a range: values of the first columns of an index.
#[repr(C)]
pub struct CBound {
    values: *const CValue,
    /// 0: the end of the index.
    count: usize,
    /// Keys that begin with the values are not in the range.
    excludes: c_int,
}

impl CValue {
    const EMPTY: CValue = CValue {
        kind: PORPOISE_NULL,
        int_value: 0,
        uint_value: 0,
        double_value: 0.0,
        bytes: std::ptr::null(),
        length: 0,
    };

    pub(crate) const MISSING: CValue = CValue {
        kind: PORPOISE_MISSING,
        ..CValue::EMPTY
    };

    fn of_bytes(bytes: &[u8]) -> CValue {
        CValue {
            kind: PORPOISE_BYTES,
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
                kind: PORPOISE_INT,
                int_value: v,
                ..CValue::EMPTY
            },
            ValueRef::UInt(v) => CValue {
                kind: PORPOISE_UINT,
                uint_value: v,
                ..CValue::EMPTY
            },
            ValueRef::Double(v) => CValue {
                kind: PORPOISE_DOUBLE,
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
    /// The bytes of a value of kind `PORPOISE_BYTES` are readable for `'v`.
    unsafe fn get<'v>(&self) -> Result<ValueRef<'v>, Error> {
        Ok(match self.kind {
            PORPOISE_NULL => ValueRef::Null,
            PORPOISE_INT => ValueRef::Int(self.int_value),
            PORPOISE_UINT => ValueRef::UInt(self.uint_value),
            PORPOISE_DOUBLE => ValueRef::Double(self.double_value),
            // SAFETY: the caller of this function promises it.
            PORPOISE_BYTES => ValueRef::Bytes(unsafe { slice(self.bytes, self.length) }),
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

/// The values of the caller.
///
/// # Safety
/// `start` is null, or points to `count` values. Nothing changes the values, or the bytes that they point to, during `'v`.
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

/// A bound of the caller.
///
/// # Safety
/// As [`values`], for the values of the bound.
pub(crate) unsafe fn bound(bound: &CBound) -> Result<Bound, Error> {
    // SAFETY: the caller promises it.
    let values = unsafe { values(bound.values, bound.count) }?;
    let values: Vec<_> = values.into_iter().map(ValueRef::to_owned).collect();
    Ok(if values.is_empty() {
        Bound::None
    } else if bound.excludes == 0 {
        Bound::Inclusive(values)
    } else {
        Bound::Exclusive(values)
    })
}
