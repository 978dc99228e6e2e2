//! Pointers of the caller. The header of `calls.rs` says what the caller promises.

#![allow(unsafe_code)]

use crate::failure::usage;
use porpoise_native_client::Result;
use std::ffi::{CStr, c_char};

/// A string; `None` for a null pointer.
///
/// # Safety
/// `text` is null, or ends with a zero byte and is not changed during `'s`.
pub(crate) unsafe fn optional<'s>(text: *const c_char) -> Result<Option<&'s str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not null, so it ends with a zero byte.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str().map_err(|_| usage("a string is not UTF-8"))?;
    Ok(Some(text))
}

/// A string that must not be null.
///
/// # Safety
/// As [`optional`].
pub(crate) unsafe fn text<'s>(text: *const c_char) -> Result<&'s str> {
    // SAFETY: as for this function.
    unsafe { optional(text) }?.ok_or_else(|| usage("a string is a null pointer"))
}

/// An object of the caller.
///
/// # Safety
/// `pointer` is null, or points to an object that lives and is not changed during `'o`.
pub(crate) unsafe fn object<'o, T>(pointer: *const T) -> Result<&'o T> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_ref() }.ok_or_else(|| usage("an object is a null pointer"))
}

/// An object of the caller, mutable.
///
/// # Safety
/// `pointer` is null, or points to an object that lives and that nothing else uses during `'o`.
pub(crate) unsafe fn changed<'o, T>(pointer: *mut T) -> Result<&'o mut T> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_mut() }.ok_or_else(|| usage("an object is a null pointer"))
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

/// Writes a value to an output of the caller. What it held before is not read.
///
/// # Safety
/// `out` is null, or can be written.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(usage("an output is a null pointer"));
    }
    // SAFETY: it is not null, so it can be written.
    unsafe { out.write(value) };
    Ok(())
}

/// Passes an object to the caller.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn give<T>(out: *mut *mut T, object: T) -> Result<()> {
    if out.is_null() {
        return Err(usage("an output is a null pointer"));
    }
    // SAFETY: the caller promises it.
    unsafe { put(out, Box::into_raw(Box::new(object))) }
}

/// Frees an object.
///
/// # Safety
/// `object` is null, or [`give`] has passed it to the caller, and it was not freed since.
pub(crate) unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: `give` created it, and it was not freed since.
        drop(unsafe { Box::from_raw(object) });
    }
}
