//! Results kept between rows by an execution: those of subqueries and derived
//! tables.
//!
//! Everything is found by the address of the plan's part that it belongs to;
//! the plan outlives the execution. Rows kept count against one limit of the
//! statement, as do those that sorts, groups and joins hold.

use super::spill::records::RecordFile;
use crate::error::SqlError;
use crate::memory::refused;
use porpoise_base::memory::MemoryTracker;
use porpoise_base::temp_files::TempDir;
use porpoise_types::{Value, ValueRef};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Rows that were kept.
#[derive(Debug, Default)]
pub struct RowSet {
    /// The rows in memory.
    pub rows: Vec<Vec<Value>>,
    /// All rows, if they are in a temporary file.
    pub(super) file: Option<RecordFile>,
    /// For sets that are only asked whether they contain something: the rows
    /// without NULL, encoded so that equal ones are equal bytes.
    pub hashed: Option<HashSet<Vec<u8>>>,
    /// Rows that hold a NULL, which no look-up finds.
    pub with_null: Vec<usize>,
    /// Bytes that were counted for it.
    pub held: u64,
}

/// Results remembered for one subquery.
#[derive(Debug, Default)]
pub(super) struct Memo {
    /// By the values that they depend on.
    pub(super) answers: HashMap<Vec<u8>, Value>,
    /// The last set of rows, with the values that it depends on.
    pub(super) rows: Option<(Vec<u8>, Rc<RowSet>)>,
}

/// Answers remembered for one subquery at most; past it all are forgotten.
const MOST_ANSWERS: usize = 65_536;

/// Results that an execution keeps. Memory that is still counted at its drop is released.
#[derive(Debug, Default)]
pub struct States {
    memos: RefCell<HashMap<usize, Memo>>,
    working: RefCell<HashMap<usize, Rc<RowSet>>>,
    used: Cell<u64>,
    /// The tracker that `used` is charged to.
    tracker: Option<Arc<MemoryTracker>>,
    /// An operator of the statement has spilled, or is about to.
    spilling: Cell<bool>,
    /// The engine shows rows: nothing may be written now.
    showing: Cell<bool>,
    /// A subquery met a row newer than the view: the statement runs again.
    pub restart: Cell<bool>,
}

/// Bytes that an operator keeps at least before it spills.
const LEAST_SPILLED: u64 = 128 << 10;

/// The greatest share of an operator beside others that have used the statement's memory.
const MOST_SHARED: u64 = 64 << 20;

/// About what a row costs.
pub fn size_of_row(row: &[Value]) -> u64 {
    let cells = row.iter().map(|v| match v {
        Value::Bytes(text) => 32 + text.len() as u64,
        _ => 32,
    });
    24 + cells.sum::<u64>()
}

impl Drop for States {
    fn drop(&mut self) {
        self.let_go(self.used.get());
    }
}

impl States {
    /// The state of an execution that counts its memory with this tracker.
    pub fn new(tracker: Option<Arc<MemoryTracker>>) -> States {
        let mut states = States::default();
        states.tracker = tracker;
        states
    }

    /// The directory of temporary files; without one nothing is spilled.
    fn spill_dir(&self) -> Option<&Arc<TempDir>> {
        self.tracker.as_ref()?.connection().server().temp_dir()
    }

    /// The directory of temporary files.
    pub(super) fn temp_dir(&self) -> Result<&Arc<TempDir>, SqlError> {
        let none = || SqlError::internal("no directory of temporary files");
        self.spill_dir().ok_or_else(none)
    }

    /// Bytes that an operator keeps before it spills, if less does not exceed a limit.
    fn share(&self) -> u64 {
        let limit = self.tracker.as_ref().map_or(u64::MAX, |t| t.limit());
        (limit / 16).clamp(LEAST_SPILLED, MOST_SHARED)
    }

    /// Counts bytes of an operator that keeps `kept` with them; whether it is to spill now, or,
    /// while the engine shows rows, as soon as [`States::may_spill`].
    ///
    /// # Errors
    /// As [`States::hold`], where the operator keeps too little for spilling to help.
    pub(super) fn hold_or_spill(&self, bytes: u64, kept: u64) -> Result<bool, SqlError> {
        let can = kept >= LEAST_SPILLED && self.spill_dir().is_some();
        match self.hold(bytes) {
            Ok(()) if !can || self.headroom() > 0 || kept < self.share() => return Ok(false),
            Ok(()) => {}
            Err(_) if can => self.hold_always(bytes),
            Err(error) => return Err(error),
        }
        self.spilling.set(true);
        Ok(true)
    }

    /// Counts a merge of sorted runs.
    pub(super) fn count_merge(&self) {
        if let Some(dir) = self.spill_dir() {
            dir.merges.fetch_add(1, Relaxed);
        }
    }

    /// Counts an intermediate result that begins to be kept in files.
    pub(super) fn count_disk_table(&self) {
        if let Some(dir) = self.spill_dir() {
            dir.tables.fetch_add(1, Relaxed);
        }
    }

    /// Counts bytes that are already allocated, beyond any limit if need be.
    fn hold_always(&self, bytes: u64) {
        if let Some(tracker) = &self.tracker {
            tracker.hold_always(bytes);
        }
        self.used.set(self.used.get().saturating_add(bytes));
    }

    /// Whether so many bytes more are to be kept in files rather than in memory.
    pub(super) fn exceeds(&self, bytes: u64) -> bool {
        bytes > self.headroom() && self.spill_dir().is_some()
    }

    /// Bytes that the statement may hold before its operators spill.
    pub(super) fn headroom(&self) -> u64 {
        self.tracker.as_ref().map_or(u64::MAX, |t| t.headroom())
    }

    /// Whether an operator spills: scans then show no rows to consumers, but copies.
    pub(super) fn is_spilling(&self) -> bool {
        self.spilling.get()
    }

    /// Whether a temporary file may be written now.
    pub(super) fn may_spill(&self) -> bool {
        !self.showing.get()
    }

    /// Runs a call of the engine that shows rows to consumers.
    pub(super) fn while_showing<T>(&self, call: impl FnOnce() -> T) -> T {
        self.showing.set(true);
        let done = call();
        self.showing.set(false);
        done
    }

    /// Counts bytes that the statement goes on holding.
    ///
    /// # Errors
    /// 1038, 4081 or 4082 when they are too many; they are not counted then.
    #[inline]
    pub fn hold(&self, bytes: u64) -> Result<(), SqlError> {
        if let Some(tracker) = &self.tracker {
            tracker.hold(bytes).map_err(refused)?;
        }
        self.used.set(self.used.get().saturating_add(bytes));
        Ok(())
    }

    /// Bytes held now.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// A query inside has ended: of what it held since `before`, only so much
    /// is left.
    pub fn settle(&self, before: u64, left: u64) {
        let (used, now) = (self.used.get(), before.saturating_add(left));
        if let Some(more) = now.checked_sub(used) {
            if let Some(tracker) = self.tracker.as_ref().filter(|_| more > 0) {
                tracker.hold_always(more);
            }
            self.used.set(now);
        } else {
            self.let_go(used - now);
        }
    }

    /// Releases counted bytes.
    pub fn let_go(&self, bytes: u64) {
        let used = self.used.get();
        let bytes = bytes.min(used);
        self.used.set(used - bytes);
        if let Some(tracker) = self.tracker.as_ref().filter(|_| bytes > 0) {
            tracker.release(bytes);
        }
    }

    pub(super) fn answer(&self, of: usize, key: &[u8]) -> Option<Value> {
        self.memos.borrow().get(&of)?.answers.get(key).cloned()
    }

    pub(super) fn remember(&self, of: usize, key: Vec<u8>, value: Value) {
        let mut memos = self.memos.borrow_mut();
        let memo = memos.entry(of).or_default();
        if memo.answers.len() >= MOST_ANSWERS {
            memo.answers.clear();
        }
        memo.answers.insert(key, value);
    }

    pub(super) fn rows(&self, of: usize, key: &[u8]) -> Option<Rc<RowSet>> {
        let memos = self.memos.borrow();
        let (known, rows) = memos.get(&of)?.rows.as_ref()?;
        (known == key).then(|| rows.clone())
    }

    pub(super) fn keep_rows(&self, of: usize, key: Vec<u8>, rows: Rc<RowSet>) {
        let mut memos = self.memos.borrow_mut();
        let memo = memos.entry(of).or_default();
        if let Some((_, old)) = memo.rows.replace((key, rows)) {
            self.let_go(old.held);
        }
    }

    /// The rows that the iteration before of a recursive expression found.
    pub(super) fn working(&self, of: usize) -> Rc<RowSet> {
        self.working.borrow().get(&of).cloned().unwrap_or_default()
    }

    pub(super) fn set_working(&self, of: usize, rows: Rc<RowSet>) {
        if let Some(old) = self.working.borrow_mut().insert(of, rows) {
            self.let_go(old.held);
        }
    }
}

/// Appends bytes that differ for any two values that differ in any way.
pub fn append_exact(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => out.push(0),
        ValueRef::Int(v) => {
            out.push(1);
            out.extend_from_slice(&v.to_le_bytes());
        }
        ValueRef::UInt(v) => {
            out.push(2);
            out.extend_from_slice(&v.to_le_bytes());
        }
        ValueRef::Double(v) => {
            out.push(3);
            out.extend_from_slice(&v.to_bits().to_le_bytes());
        }
        ValueRef::Bytes(text) => {
            out.push(4);
            out.extend_from_slice(&(text.len() as u64).to_le_bytes());
            out.extend_from_slice(text);
        }
        ValueRef::Decimal(v) => {
            out.push(5);
            v.write_text(out);
            out.push(0);
        }
        ValueRef::Date(v) => {
            out.push(6);
            out.extend_from_slice(&v.packed().to_le_bytes());
        }
        ValueRef::DateTime(v) => {
            out.push(7);
            out.extend_from_slice(&v.packed().to_le_bytes());
        }
        ValueRef::Time(v) => {
            out.push(8);
            v.write_text(6, out);
            out.push(0);
        }
    }
}
