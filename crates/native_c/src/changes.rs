//! Subscriptions: further functions of the C interface (`calls.rs`).

#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the header of `calls.rs` has the rule for all functions"
)]

use crate::calls::{CTable, CTarget, target};
use crate::failure::{c_text, guarded, usage};
use crate::pointers::{changed, free, give, object, optional, put, slice};
use crate::value::{CBound, CValue, bound};
use porpoise_native_client::{
    Change, ChangedColumn, ChangedRow, ChangedTransaction, Subscription, Value,
};
use std::ffi::{CString, c_char, c_int};
use std::ops::Range;
use std::ptr;
use std::time::Duration;

/// A row was inserted: `after`.
pub const PORPOISE_INSERTED: c_int = 1;
/// A row was changed: `before`, `after`.
pub const PORPOISE_UPDATED: c_int = 2;
/// A row was deleted: `before`.
pub const PORPOISE_DELETED: c_int = 3;
/// A statement has changed the table: `definition`. The rows that follow may have other columns.
pub const PORPOISE_DEFINED: c_int = 4;

/// Changes of the rows of a table, over a connection of its own that is opened again when it breaks.
pub struct CSubscription {
    subscription: Subscription,
    /// The position as a C string.
    position: CString,
}

/// The changes of one transaction.
pub struct CTransaction {
    gtid: CString,
    position: CString,
    micros: u64,
    changes: Vec<Item>,
    values: Vec<CValue>,
    columns: Vec<CChangedColumn>,
    /// Texts of `values`, of `columns` and of `changes`.
    _texts: Vec<String>,
    _names: Vec<CString>,
    /// The changes as received, which are never changed: values point into them.
    _source: Box<ChangedTransaction>,
}

/// A range of the primary key.
#[repr(C)]
pub struct CRange {
    lower: CBound,
    upper: CBound,
}

/// Options of a subscription.
#[repr(C)]
pub struct CSubscribeRequest {
    /// Changes of rows whose key is in one of these ranges, before or after the change.
    ranges: *const CRange,
    /// 0: all rows.
    range_count: usize,
    /// Null or "now", "first", that of a transaction, or FILE:POSITION of the binary log.
    position: *const c_char,
}

/// Properties of a transaction. The strings are valid until it is freed.
#[repr(C)]
pub struct CTransactionInfo {
    /// Identifier; empty if it has none.
    gtid: *const c_char,
    /// The position after the transaction, from which another process can continue: store it together with the results of the changes.
    position: *const c_char,
    /// Time of the commit in microseconds since 1970 UTC.
    micros: u64,
    change_count: usize,
}

/// A column that the table had when a change was logged.
#[repr(C)]
pub struct CChangedColumn {
    name: *const c_char,
    /// The type in SQL.
    sql_type: *const c_char,
    /// Whether it is part of the primary key.
    is_in_key: c_int,
}

/// A change. Everything in it is valid until the transaction is freed.
#[repr(C)]
pub struct CChange {
    /// PORPOISE_INSERTED to PORPOISE_DEFINED.
    kind: c_int,
    /// "create", "alter", "truncate" (all rows were removed), "drop", "rename" or "unknown"; null for rows.
    definition: *const c_char,
    columns: *const CChangedColumn,
    /// Number of columns, and of values of each row.
    column_count: usize,
    /// The row before; null for an inserted one. A value of kind PORPOISE_MISSING is not in the log.
    before: *const CValue,
    /// The row after; null for a deleted one.
    after: *const CValue,
}

/// A change, whose rows are ranges of the transaction's values.
struct Item {
    kind: c_int,
    definition: *const c_char,
    columns: Range<usize>,
    before: Option<Range<usize>>,
    after: Option<Range<usize>>,
}

/// Collects the values and texts that the changes of a transaction point to.
#[derive(Default)]
struct Builder {
    values: Vec<CValue>,
    columns: Vec<CChangedColumn>,
    texts: Vec<String>,
    names: Vec<CString>,
    /// The columns of the last row, and their range.
    last: Option<(*const ChangedColumn, Range<usize>)>,
}

impl Builder {
    /// A text as a C string at a stable address.
    fn name(&mut self, text: &str) -> *const c_char {
        let text = c_text(text);
        let start = text.as_ptr();
        self.names.push(text);
        start
    }

    /// The columns of a row. Adjacent rows of one definition share them.
    fn columns(&mut self, row: &ChangedRow) -> Range<usize> {
        let columns = row.columns();
        if let Some((known, range)) = &self.last
            && *known == columns.as_ptr()
        {
            return range.clone();
        }
        let start = self.columns.len();
        for column in columns {
            let shown = CChangedColumn {
                name: self.name(&column.name),
                sql_type: self.name(&column.sql_type),
                is_in_key: c_int::from(column.is_in_key),
            };
            self.columns.push(shown);
        }
        let range = start..self.columns.len();
        self.last = Some((columns.as_ptr(), range.clone()));
        range
    }

    fn row(&mut self, row: &ChangedRow) -> Range<usize> {
        let start = self.values.len();
        for value in row.values() {
            let value = value.as_ref().map(Value::as_ref);
            let value = value.map_or(CValue::MISSING, |v| CValue::of(v, &mut self.texts));
            self.values.push(value);
        }
        start..self.values.len()
    }

    fn change(&mut self, change: &Change) -> Item {
        let (kind, before, after) = match change {
            Change::Insert(after) => (PORPOISE_INSERTED, None, Some(after)),
            Change::Update { before, after } => (PORPOISE_UPDATED, Some(before), Some(after)),
            Change::Delete(before) => (PORPOISE_DELETED, Some(before), None),
            Change::Definition(kind) => {
                return Item {
                    kind: PORPOISE_DEFINED,
                    definition: self.name(kind),
                    columns: 0..0,
                    before: None,
                    after: None,
                };
            }
        };
        Item {
            kind,
            definition: ptr::null(),
            columns: after.or(before).map_or(0..0, |row| self.columns(row)),
            before: before.map(|row| self.row(row)),
            after: after.map(|row| self.row(row)),
        }
    }
}

impl CTransaction {
    fn of(transaction: ChangedTransaction) -> CTransaction {
        let source = Box::new(transaction);
        let mut builder = Builder::default();
        let changes = source.changes.iter().map(|change| builder.change(change));
        CTransaction {
            changes: changes.collect(),
            gtid: c_text(&source.gtid),
            position: c_text(&source.position),
            micros: source.micros,
            values: builder.values,
            columns: builder.columns,
            _texts: builder.texts,
            _names: builder.names,
            _source: source,
        }
    }

    fn get(&self, position: usize) -> Option<CChange> {
        let item = self.changes.get(position)?;
        let row = |range: &Option<Range<usize>>| {
            let values = range.clone().and_then(|range| self.values.get(range));
            values.map_or(ptr::null(), <[CValue]>::as_ptr)
        };
        let columns = self.columns.get(item.columns.clone()).unwrap_or_default();
        Some(CChange {
            kind: item.kind,
            definition: item.definition,
            columns: columns.as_ptr(),
            column_count: columns.len(),
            before: row(&item.before),
            after: row(&item.after),
        })
    }
}

/// Subscribes to changes of the rows of a table (docs/guide/native.md, "Changes of rows"). It connects by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_subscribe(
    to: *const CTarget,
    table: *const CTable,
    request: *const CSubscribeRequest,
    out: *mut *mut CSubscription,
) -> c_int {
    guarded(|| {
        // SAFETY: arguments of the caller.
        let (to, table, wanted) =
            unsafe { (target(object(to)?)?, object(table)?, object(request)?) };
        // SAFETY: an array and a string of the caller.
        let (ranges, position) = unsafe {
            (
                slice(wanted.ranges, wanted.range_count),
                optional(wanted.position)?,
            )
        };
        let mut request = table.0.subscribe();
        for range in ranges {
            // SAFETY: values of the caller.
            let (lower, upper) = unsafe { (bound(&range.lower)?, bound(&range.upper)?) };
            request = request.range(lower, upper);
        }
        if let Some(position) = position {
            request = request.position(position);
        }
        let subscription = Subscription::open(&to, request)?;
        let position = c_text(subscription.position());
        // SAFETY: an output of the caller.
        unsafe {
            give(
                out,
                CSubscription {
                    subscription,
                    position,
                },
            )
        }
    })
}

/// The next transaction, if there is one within `wait_ms`; otherwise *out is null. A broken connection is opened again within
/// that time; after PORPOISE_BROKEN and PORPOISE_CONNECT the next call tries it again. Any other error ends the subscription:
/// 1142 after REVOKE, 1236 if the log has lost the position, 1317 or 3169 after KILL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_next_transaction(
    subscription: *mut CSubscription,
    wait_ms: u32,
    out: *mut *mut CTransaction,
) -> c_int {
    guarded(|| {
        // SAFETY: an object of the caller.
        let subscription = unsafe { changed(subscription) }?;
        if out.is_null() {
            return Err(usage("an output is a null pointer"));
        }
        let wait = Duration::from_millis(u64::from(wait_ms));
        let transaction = subscription.subscription.next(wait)?;
        subscription.position = c_text(subscription.subscription.position());
        let transaction = transaction.map(|found| Box::new(CTransaction::of(found)));
        // SAFETY: an output of the caller.
        unsafe { put(out, transaction.map_or(ptr::null_mut(), Box::into_raw)) }
    })
}

/// The position after the returned transactions, and after transactions of other rows up to the next one. Valid until
/// the next call with the subscription.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_subscription_position(
    subscription: *const CSubscription,
) -> *const c_char {
    // SAFETY: an object of the caller.
    let subscription = unsafe { subscription.as_ref() };
    subscription.map_or(ptr::null(), |s| s.position.as_ptr())
}

/// Id of the subscription's connection, for KILL; 0 while there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_subscription_id(subscription: *const CSubscription) -> u64 {
    // SAFETY: an object of the caller.
    let subscription = unsafe { subscription.as_ref() };
    subscription.map_or(0, |s| s.subscription.id())
}

/// Ends and frees a subscription.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_unsubscribe(subscription: *mut CSubscription) {
    // SAFETY: an object of the caller.
    unsafe { free(subscription) }
}

/// Properties of a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_get_transaction(
    transaction: *const CTransaction,
    out: *mut CTransactionInfo,
) -> c_int {
    guarded(|| {
        // SAFETY: an object of the caller.
        let transaction = unsafe { object(transaction) }?;
        let info = CTransactionInfo {
            gtid: transaction.gtid.as_ptr(),
            position: transaction.position.as_ptr(),
            micros: transaction.micros,
            change_count: transaction.changes.len(),
        };
        // SAFETY: an output of the caller.
        unsafe { put(out, info) }
    })
}

/// The change at a position in a transaction, counted from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_get_change(
    transaction: *const CTransaction,
    position: usize,
    out: *mut CChange,
) -> c_int {
    guarded(|| {
        // SAFETY: an object of the caller.
        let change = unsafe { object(transaction) }?.get(position);
        let change = change.ok_or_else(|| usage("the position is beyond the last change"))?;
        // SAFETY: an output of the caller.
        unsafe { put(out, change) }
    })
}

/// Frees a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn porpoise_free_transaction(transaction: *mut CTransaction) {
    // SAFETY: an object of the caller.
    unsafe { free(transaction) }
}
