//! The functions of the header.
//!
//! Safety, for all of them: a pointer to an object is null, or was returned by this library and not freed
//! since; no other thread uses the object during the call; a string is null or ends with a zero byte; an
//! array has as many elements as its count says; an output points to a place that can be written. The
//! header says the same.

#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the header of this module has the rule for all functions"
)]

use crate::failure::{self, guarded, usage};
use crate::reply::{CReply, CResult};
use crate::value::{CValue, slice, values};
use porpoise_native_client::{
    Address, Batch, Bound, Connection, Isolation, Operation, OperationBuilder, Result, Table,
    Target, TlsMode, ValueRef,
};
use std::ffi::{CStr, c_char, c_int};
use std::time::Duration;

/// Flags of operations and scans, as in the header.
const WITH_VERSION: u32 = 1;
const WITH_GENERATED_ID: u32 = 2;
const FOR_UPDATE: u32 = 4;
const IF_VERSION: u32 = 8;
const REVERSE: u32 = 16;

/// Uses of columns.
const COLUMN: c_int = 0;
const ADD: c_int = 1;
const IF_EQUALS: c_int = 2;

/// `porpoise_target`.
#[repr(C)]
pub struct CTarget {
    host: *const c_char,
    port: u16,
    socket: *const c_char,
    user: *const c_char,
    password: *const c_char,
    tls: c_int,
    authorities: *const c_char,
    timeout_ms: u32,
}

/// `porpoise_column`.
#[repr(C)]
pub struct CColumn {
    name: *const c_char,
    used_as: c_int,
}

/// `porpoise_bound`.
#[repr(C)]
pub struct CBound {
    values: *const CValue,
    count: usize,
    excludes: c_int,
}

/// `porpoise_scan_request`.
#[repr(C)]
pub struct CScanRequest {
    index: *const c_char,
    columns: *const *const c_char,
    column_count: usize,
    lower: CBound,
    upper: CBound,
    limit: u32,
    flags: u32,
    continuation: *const u8,
    continuation_length: usize,
}

/// A string; `None` for a null pointer.
///
/// # Safety
/// See the module.
unsafe fn optional<'s>(text: *const c_char) -> Result<Option<&'s str>> {
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
/// See the module.
unsafe fn text<'s>(text: *const c_char) -> Result<&'s str> {
    // SAFETY: as for this function.
    unsafe { optional(text) }?.ok_or_else(|| usage("a string is a null pointer"))
}

/// An object of the caller.
///
/// # Safety
/// See the module.
unsafe fn object<'o, T>(pointer: *const T) -> Result<&'o T> {
    // SAFETY: it is null, or points to an object that lives during the call.
    unsafe { pointer.as_ref() }.ok_or_else(|| usage("an object is a null pointer"))
}

/// An object of the caller, mutable.
///
/// # Safety
/// See the module.
unsafe fn changed<'o, T>(pointer: *mut T) -> Result<&'o mut T> {
    // SAFETY: it is null, or points to an object that nothing else uses during the call.
    unsafe { pointer.as_mut() }.ok_or_else(|| usage("an object is a null pointer"))
}

/// Passes an object to the caller.
///
/// # Safety
/// See the module.
unsafe fn give<T>(out: *mut *mut T, object: T) -> Result<()> {
    if out.is_null() {
        return Err(usage("an output is a null pointer"));
    }
    // SAFETY: it is not null, so it can be written. What it held before is not read.
    unsafe { out.write(Box::into_raw(Box::new(object))) };
    Ok(())
}

/// Frees an object.
///
/// # Safety
/// See the module.
unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: `give` created it, and it was not freed since.
        drop(unsafe { Box::from_raw(object) });
    }
}

/// The text of the calling thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn porpoise_error_message() -> *const c_char {
    failure::message()
}

/// # Safety
/// See the module.
unsafe fn target(target: &CTarget) -> Result<Target> {
    // SAFETY: strings of the caller.
    let (host, socket, user, password, authorities) = unsafe {
        (
            optional(target.host)?,
            optional(target.socket)?,
            text(target.user)?,
            optional(target.password)?.unwrap_or_default(),
            optional(target.authorities)?,
        )
    };
    let address = match (host, socket) {
        (Some(host), None) => Address::Tcp(host.to_owned(), target.port),
        (None, Some(path)) => Address::Unix(path.into()),
        _ => return Err(usage("a target needs a host or a socket")),
    };
    let mut made = Target::new(address, user, password);
    made.tls.mode = match target.tls {
        0 => TlsMode::Disabled,
        1 => TlsMode::Required,
        2 => TlsMode::VerifyCa,
        3 => TlsMode::VerifyIdentity,
        _ => return Err(usage("tls has an unknown value")),
    };
    made.tls.authorities = authorities.map(Into::into);
    if target.timeout_ms > 0 {
        let limit = Duration::from_millis(u64::from(target.timeout_ms));
        (made.connect_timeout, made.read_timeout) = (limit, Some(limit));
    }
    Ok(made)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_connect(to: *const CTarget, out: *mut *mut Connection) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        unsafe { give(out, Connection::connect(&target(object(to)?)?)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_disconnect(connection: *mut Connection) {
    // SAFETY: an object of the caller.
    unsafe { free(connection) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_open_table(
    connection: *mut Connection,
    database: *const c_char,
    name: *const c_char,
    out: *mut *mut Table,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (connection, database, name) =
            unsafe { (changed(connection)?, text(database)?, text(name)?) };
        let table = connection.table(database, name)?;
        // SAFETY: an output of the caller.
        unsafe { give(out, table) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_free_table(table: *mut Table) {
    // SAFETY: an object of the caller.
    unsafe { free(table) }
}

fn builder(table: &Table, kind: c_int) -> Result<OperationBuilder> {
    Ok(match kind {
        1 => table.read(),
        2 => table.insert(),
        3 => table.update(),
        4 => table.upsert(),
        5 => table.delete(),
        _ => return Err(usage("an operation is of an unknown kind")),
    })
}

fn with_flags(mut builder: OperationBuilder, flags: u32) -> Result<OperationBuilder> {
    if flags & !(WITH_VERSION | WITH_GENERATED_ID | FOR_UPDATE | IF_VERSION) != 0 {
        return Err(usage("an operation has an unknown flag"));
    }
    if flags & WITH_VERSION != 0 {
        builder = builder.with_version();
    }
    if flags & WITH_GENERATED_ID != 0 {
        builder = builder.with_generated_id();
    }
    if flags & FOR_UPDATE != 0 {
        builder = builder.for_update();
    }
    if flags & IF_VERSION != 0 {
        builder = builder.if_version();
    }
    Ok(builder)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_new_operation(
    table: *const Table,
    kind: c_int,
    index: *const c_char,
    columns: *const CColumn,
    column_count: usize,
    flags: u32,
    out: *mut *mut Operation,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (table, index, columns) = unsafe {
            (
                object(table)?,
                optional(index)?,
                slice(columns, column_count),
            )
        };
        let mut builder = with_flags(builder(table, kind)?, flags)?;
        if let Some(index) = index {
            builder = builder.by(index);
        }
        for column in columns {
            // SAFETY: a string of the caller.
            let name = unsafe { text(column.name) }?;
            builder = match column.used_as {
                COLUMN => builder.columns(&[name]),
                ADD => builder.add_to(name),
                IF_EQUALS => builder.if_equals(name),
                _ => return Err(usage("a column has an unknown use")),
            };
        }
        // SAFETY: an output of the caller.
        unsafe { give(out, builder.build()?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_free_operation(operation: *mut Operation) {
    // SAFETY: an object of the caller.
    unsafe { free(operation) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_new_batch(is_atomic: c_int, out: *mut *mut Batch) -> c_int {
    guarded(|| {
        let batch = if is_atomic == 0 {
            Batch::new()
        } else {
            Batch::atomic()
        };
        // SAFETY: an output of the caller.
        unsafe { give(out, batch) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_free_batch(batch: *mut Batch) {
    // SAFETY: an object of the caller.
    unsafe { free(batch) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_clear_batch(batch: *mut Batch) -> c_int {
    guarded(|| {
        // SAFETY: an object of the caller.
        unsafe { changed(batch) }?.clear();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_add(
    batch: *mut Batch,
    operation: *const Operation,
    row: *const CValue,
    count: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (batch, operation, row) =
            unsafe { (changed(batch)?, object(operation)?, values(row, count)?) };
        batch.push(operation, &row)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_run(
    connection: *mut Connection,
    batch: *const Batch,
    out: *mut *mut CReply,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (connection, batch) = unsafe { (changed(connection)?, object(batch)?) };
        let reply = CReply::of_batch(connection.run(batch)?)?;
        // SAFETY: an output of the caller.
        unsafe { give(out, reply) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_send(connection: *mut Connection, batch: *const Batch) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (connection, batch) = unsafe { (changed(connection)?, object(batch)?) };
        connection.send(batch)?;
        connection.flush()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_receive(
    connection: *mut Connection,
    out: *mut *mut CReply,
) -> c_int {
    guarded(|| {
        // SAFETY: an object of the caller.
        let connection = unsafe { changed(connection) }?;
        let reply = CReply::of_batch(connection.receive()?)?;
        // SAFETY: an output of the caller.
        unsafe { give(out, reply) }
    })
}

/// # Safety
/// See the module.
unsafe fn bound(bound: &CBound) -> Result<Bound> {
    // SAFETY: values of the caller.
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_scan(
    connection: *mut Connection,
    table: *const Table,
    request: *const CScanRequest,
    out: *mut *mut CReply,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (connection, table, request) =
            unsafe { (changed(connection)?, object(table)?, object(request)?) };
        if request.flags & !(WITH_VERSION | REVERSE) != 0 {
            return Err(usage("a scan has an unknown flag"));
        }
        // SAFETY: arrays and strings of the caller.
        let (index, columns, lower, upper, continuation) = unsafe {
            (
                optional(request.index)?,
                slice(request.columns, request.column_count),
                bound(&request.lower)?,
                bound(&request.upper)?,
                slice(request.continuation, request.continuation_length),
            )
        };
        let mut scan = table.scan().range(lower, upper).limit(request.limit);
        for column in columns {
            // SAFETY: a string of the caller.
            scan = scan.columns(&[unsafe { text(*column) }?]);
        }
        if let Some(index) = index {
            scan = scan.index(index);
        }
        if request.flags & REVERSE != 0 {
            scan = scan.reverse();
        }
        if request.flags & WITH_VERSION != 0 {
            scan = scan.with_version();
        }
        let page = connection.scan(&scan, continuation)?;
        // SAFETY: an output of the caller.
        unsafe { give(out, CReply::of_page(page)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_result_count(reply: *const CReply) -> usize {
    // SAFETY: an object of the caller.
    unsafe { reply.as_ref() }.map_or(0, CReply::len)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_get_result(
    reply: *const CReply,
    position: usize,
    out: *mut CResult,
) -> c_int {
    guarded(|| {
        // SAFETY: an object of the caller.
        let result = unsafe { object(reply) }?.get(position);
        let result = result.ok_or_else(|| usage("the position is beyond the last result"))?;
        if out.is_null() {
            return Err(usage("an output is a null pointer"));
        }
        // SAFETY: it is not null, so it can be written.
        unsafe { out.write(result) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_continuation(
    reply: *const CReply,
    length: *mut usize,
) -> *const u8 {
    // SAFETY: objects of the caller.
    let (reply, length) = unsafe { (reply.as_ref(), length.as_mut()) };
    let continuation = reply.map_or(&[][..], |reply| &reply.continuation);
    if let Some(length) = length {
        *length = continuation.len();
    }
    continuation.as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_free_reply(reply: *mut CReply) {
    // SAFETY: an object of the caller.
    unsafe { free(reply) }
}

/// Calls a function with the caller's connection.
///
/// # Safety
/// See the module.
unsafe fn with_connection(
    connection: *mut Connection,
    call: impl FnOnce(&mut Connection) -> Result<()>,
) -> c_int {
    // SAFETY: an object of the caller.
    guarded(|| call(unsafe { changed(connection) }?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_begin(
    connection: *mut Connection,
    is_serializable: c_int,
) -> c_int {
    let isolation = if is_serializable == 0 {
        Isolation::Snapshot
    } else {
        Isolation::Serializable
    };
    // SAFETY: an object of the caller.
    unsafe { with_connection(connection, |connection| connection.begin(isolation)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_commit(connection: *mut Connection) -> c_int {
    // SAFETY: an object of the caller.
    unsafe { with_connection(connection, Connection::commit) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_rollback(connection: *mut Connection) -> c_int {
    // SAFETY: an object of the caller.
    unsafe { with_connection(connection, Connection::rollback) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_ping(connection: *mut Connection) -> c_int {
    // SAFETY: an object of the caller.
    unsafe { with_connection(connection, Connection::ping) }
}
