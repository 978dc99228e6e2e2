//! Functions, constants and structures of the C interface. `include/porpoise.h` is generated from this file, `failure.rs`,
//! `reply.rs`, `value.rs` and `changes.rs`, with their doc comments as its documentation.
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
use crate::pointers::{changed, free, give, object, optional, put, slice, text};
use crate::reply::{CReply, CResult};
use crate::value::{CBound, CValue, bound, values};
use porpoise_native_client::{
    Address, Batch, Connection, Isolation, Operation, OperationBuilder, Result, Table, Target,
    TlsMode,
};
use std::ffi::{c_char, c_int};
use std::time::Duration;

/// No TLS.
pub const PORPOISE_TLS_OFF: c_int = 0;
/// TLS; the certificate is not verified.
pub const PORPOISE_TLS_REQUIRED: c_int = 1;
/// TLS; an authority has signed the certificate.
pub const PORPOISE_TLS_VERIFY_CA: c_int = 2;
/// TLS; an authority has signed the certificate, and it names the host.
pub const PORPOISE_TLS_VERIFY_IDENTITY: c_int = 3;

/// Reads a row.
pub const PORPOISE_READ: c_int = 1;
/// Inserts a row.
pub const PORPOISE_INSERT: c_int = 2;
/// Changes a row.
pub const PORPOISE_UPDATE: c_int = 3;
/// Inserts a row, or changes the row with its key.
pub const PORPOISE_UPSERT: c_int = 4;
/// Deletes a row.
pub const PORPOISE_DELETE: c_int = 5;

/// Returns the version of the row.
pub const PORPOISE_WITH_VERSION: u32 = 1;
/// Returns the id generated for an inserted row.
pub const PORPOISE_WITH_GENERATED_ID: u32 = 2;
/// Locks rows that are read until the transaction ends.
pub const PORPOISE_FOR_UPDATE: u32 = 4;
/// Requires a version of the row.
pub const PORPOISE_IF_VERSION: u32 = 8;
/// Scans from the end of the range (scans only).
pub const PORPOISE_REVERSE: u32 = 16;

/// Returns whether an UPSERT has inserted its row.
pub const PORPOISE_WITH_CREATED: u32 = 32;

/// Reads or sets the column.
pub const PORPOISE_COLUMN: c_int = 0;
/// Adds to the column.
pub const PORPOISE_ADD: c_int = 1;
/// Requires a value of the column.
pub const PORPOISE_IF_EQUALS: c_int = 2;

/// A connection.
pub struct CConnection(Connection);

/// A table, as of one version of its definition.
pub struct CTable(pub(crate) Table);

/// An operation on one row.
pub struct COperation(Operation);

/// Operations that are sent together.
pub struct CBatch(Batch);

/// A server, and how to log in.
#[repr(C)]
pub struct CTarget {
    /// Host and port, or null.
    host: *const c_char,
    port: u16,
    /// Path of a Unix socket, or null.
    socket: *const c_char,
    user: *const c_char,
    /// Null: none.
    password: *const c_char,
    /// PORPOISE_TLS_...
    tls: c_int,
    /// File with certificates (PEM), or null.
    authorities: *const c_char,
    /// Longest wait for the connection and for each answer; 0: 10 seconds, and no limit.
    timeout_ms: u32,
}

/// A column of an operation.
#[repr(C)]
pub struct CColumn {
    name: *const c_char,
    /// PORPOISE_COLUMN, PORPOISE_ADD or PORPOISE_IF_EQUALS.
    used_as: c_int,
}

/// A scan.
#[repr(C)]
pub struct CScanRequest {
    /// Null: the primary key.
    index: *const c_char,
    columns: *const *const c_char,
    column_count: usize,
    lower: CBound,
    upper: CBound,
    /// Maximum number of rows of a page; 0: a page ends at about 1 MiB.
    limit: u32,
    /// PORPOISE_WITH_VERSION, PORPOISE_REVERSE.
    flags: u32,
    /// The continuation of the previous page; null for the first page.
    continuation: *const u8,
    continuation_length: usize,
}

/// The text of the calling thread's last failure, valid until its next one.
#[unsafe(no_mangle)]
pub extern "C" fn porpoise_error_message() -> *const c_char {
    failure::message()
}

/// # Safety
/// See the module.
pub(crate) unsafe fn target(target: &CTarget) -> Result<Target> {
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
        PORPOISE_TLS_OFF => TlsMode::Disabled,
        PORPOISE_TLS_REQUIRED => TlsMode::Required,
        PORPOISE_TLS_VERIFY_CA => TlsMode::VerifyCa,
        PORPOISE_TLS_VERIFY_IDENTITY => TlsMode::VerifyIdentity,
        _ => return Err(usage("tls has an unknown value")),
    };
    made.tls.authorities = authorities.map(Into::into);
    if target.timeout_ms > 0 {
        let limit = Duration::from_millis(u64::from(target.timeout_ms));
        (made.connect_timeout, made.read_timeout) = (limit, Some(limit));
    }
    Ok(made)
}

/// Connects and logs in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_connect(to: *const CTarget, out: *mut *mut CConnection) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        unsafe {
            give(
                out,
                CConnection(Connection::connect(&target(object(to)?)?)?),
            )
        }
    })
}

/// Closes and frees the connection. An open transaction is rolled back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_disconnect(connection: *mut CConnection) {
    // SAFETY: an object of the caller.
    unsafe { free(connection) }
}

/// Looks up a table. After error 1412 look it up again, and make its operations again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_open_table(
    connection: *mut CConnection,
    database: *const c_char,
    name: *const c_char,
    out: *mut *mut CTable,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (connection, database, name) =
            unsafe { (&mut changed(connection)?.0, text(database)?, text(name)?) };
        let table = connection.table(database, name)?;
        // SAFETY: an output of the caller.
        unsafe { give(out, CTable(table)) }
    })
}

/// Frees a table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_free_table(table: *mut CTable) {
    // SAFETY: an object of the caller.
    unsafe { free(table) }
}

fn builder(table: &Table, kind: c_int) -> Result<OperationBuilder> {
    Ok(match kind {
        PORPOISE_READ => table.read(),
        PORPOISE_INSERT => table.insert(),
        PORPOISE_UPDATE => table.update(),
        PORPOISE_UPSERT => table.upsert(),
        PORPOISE_DELETE => table.delete(),
        _ => return Err(usage("an operation is of an unknown kind")),
    })
}

fn with_flags(mut builder: OperationBuilder, flags: u32) -> Result<OperationBuilder> {
    let known = PORPOISE_WITH_VERSION
        | PORPOISE_WITH_GENERATED_ID
        | PORPOISE_WITH_CREATED
        | PORPOISE_FOR_UPDATE
        | PORPOISE_IF_VERSION;
    if flags & !known != 0 {
        return Err(usage("an operation has an unknown flag"));
    }
    if flags & PORPOISE_WITH_VERSION != 0 {
        builder = builder.with_version();
    }
    if flags & PORPOISE_WITH_GENERATED_ID != 0 {
        builder = builder.with_generated_id();
    }
    if flags & PORPOISE_WITH_CREATED != 0 {
        builder = builder.with_created();
    }
    if flags & PORPOISE_FOR_UPDATE != 0 {
        builder = builder.for_update();
    }
    if flags & PORPOISE_IF_VERSION != 0 {
        builder = builder.if_version();
    }
    Ok(builder)
}

/// An operation on one row, found by the unique key `index`, or by the primary key if it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_new_operation(
    table: *const CTable,
    kind: c_int,
    index: *const c_char,
    columns: *const CColumn,
    column_count: usize,
    flags: u32,
    out: *mut *mut COperation,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (table, index, columns) = unsafe {
            (
                &object(table)?.0,
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
                PORPOISE_COLUMN => builder.columns(&[name]),
                PORPOISE_ADD => builder.add_to(name),
                PORPOISE_IF_EQUALS => builder.if_equals(name),
                _ => return Err(usage("a column has an unknown use")),
            };
        }
        // SAFETY: an output of the caller.
        unsafe { give(out, COperation(builder.build()?)) }
    })
}

/// Frees an operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_free_operation(operation: *mut COperation) {
    // SAFETY: an object of the caller.
    unsafe { free(operation) }
}

/// An empty batch. Atomic: either all operations take effect or none; otherwise each succeeds or fails by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_new_batch(is_atomic: c_int, out: *mut *mut CBatch) -> c_int {
    guarded(|| {
        let batch = if is_atomic == 0 {
            Batch::new()
        } else {
            Batch::atomic()
        };
        // SAFETY: an output of the caller.
        unsafe { give(out, CBatch(batch)) }
    })
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_free_batch(batch: *mut CBatch) {
    // SAFETY: an object of the caller.
    unsafe { free(batch) }
}

/// Removes the operations, and keeps the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_clear_batch(batch: *mut CBatch) -> c_int {
    guarded(|| {
        // SAFETY: an object of the caller.
        unsafe { changed(batch) }?.0.clear();
        Ok(())
    })
}

/// Adds an operation on one row. The values are, in this order: those of the key's columns (not for INSERT and
/// UPSERT), the version to compare with, those of the columns to set or to add, those to compare with. They are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_add(
    batch: *mut CBatch,
    operation: *const COperation,
    row: *const CValue,
    count: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (batch, operation, row) = unsafe {
            (
                &mut changed(batch)?.0,
                &object(operation)?.0,
                values(row, count)?,
            )
        };
        batch.push(operation, &row)
    })
}

/// Executes a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_run(
    connection: *mut CConnection,
    batch: *const CBatch,
    out: *mut *mut CReply,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (connection, batch) = unsafe { (&mut changed(connection)?.0, &object(batch)?.0) };
        let reply = CReply::of_batch(connection.run(batch)?)?;
        // SAFETY: an output of the caller.
        unsafe { give(out, reply) }
    })
}

/// Sends a batch; porpoise_receive() returns its reply. Several may be in flight, and are answered in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_send(
    connection: *mut CConnection,
    batch: *const CBatch,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (connection, batch) = unsafe { (&mut changed(connection)?.0, &object(batch)?.0) };
        connection.send(batch)?;
        connection.flush()
    })
}

/// Receives the reply to the oldest batch that was sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_receive(
    connection: *mut CConnection,
    out: *mut *mut CReply,
) -> c_int {
    guarded(|| {
        // SAFETY: an object of the caller.
        let connection = &mut unsafe { changed(connection) }?.0;
        let reply = CReply::of_batch(connection.receive()?)?;
        // SAFETY: an output of the caller.
        unsafe { give(out, reply) }
    })
}

/// A page of a scan: a reply whose results are rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_scan(
    connection: *mut CConnection,
    table: *const CTable,
    request: *const CScanRequest,
    out: *mut *mut CReply,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (connection, table, request) = unsafe {
            (
                &mut changed(connection)?.0,
                &object(table)?.0,
                object(request)?,
            )
        };
        if request.flags & !(PORPOISE_WITH_VERSION | PORPOISE_REVERSE) != 0 {
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
        if request.flags & PORPOISE_REVERSE != 0 {
            scan = scan.reverse();
        }
        if request.flags & PORPOISE_WITH_VERSION != 0 {
            scan = scan.with_version();
        }
        let page = connection.scan(&scan, continuation)?;
        // SAFETY: an output of the caller.
        unsafe { give(out, CReply::of_page(page)?) }
    })
}

/// The number of results: one for each operation of the batch, or one for each row of the page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_result_count(reply: *const CReply) -> usize {
    // SAFETY: an object of the caller.
    unsafe { reply.as_ref() }.map_or(0, CReply::len)
}

/// A result of a reply.
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
        // SAFETY: an output of the caller.
        unsafe { put(out, result) }
    })
}

/// The continuation of a scan, for its next page; empty after the last page. Valid until the reply is freed.
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

/// Frees a reply.
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
    connection: *mut CConnection,
    call: impl FnOnce(&mut Connection) -> Result<()>,
) -> c_int {
    // SAFETY: an object of the caller.
    guarded(|| call(&mut unsafe { changed(connection) }?.0))
}

/// Begins a transaction of several batches.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_begin(
    connection: *mut CConnection,
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

/// Commits the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_commit(connection: *mut CConnection) -> c_int {
    // SAFETY: an object of the caller.
    unsafe { with_connection(connection, Connection::commit) }
}

/// Rolls the transaction back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_rollback(connection: *mut CConnection) -> c_int {
    // SAFETY: an object of the caller.
    unsafe { with_connection(connection, Connection::rollback) }
}

/// Waits for an answer of the server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_ping(connection: *mut CConnection) -> c_int {
    // SAFETY: an object of the caller.
    unsafe { with_connection(connection, Connection::ping) }
}
