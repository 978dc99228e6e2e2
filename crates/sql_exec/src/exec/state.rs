//! Results cached by an execution between rows: those of subqueries and derived tables.
//!
//! Results are found by the address of their part of the plan, which outlives the execution. Cached
//! rows count against the statement's memory limit, as do those of sorts, groups and joins.

use super::spill::records::RecordFile;
use crate::error::SqlError;
use crate::expr::text_search::{FoundTexts, SearchMode};
use crate::memory::refused;
use porpoise_base::memory::MemoryTracker;
use porpoise_base::temp_files::TempDir;
use porpoise_rows::catalog::TableId;
use porpoise_types::{Value, ValueRef};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Materialized rows.
#[derive(Debug, Default)]
pub struct RowSet {
    /// The rows in memory.
    pub rows: Vec<Vec<Value>>,
    /// All rows, if they are in a temporary file.
    pub(super) file: Option<RecordFile>,
    /// For sets used only for membership tests: the rows without NULL, encoded so that equal rows
    /// have equal bytes.
    pub hashed: Option<HashSet<Vec<u8>>>,
    /// Positions of the rows that contain a NULL, which the hash set does not have.
    pub null_rows: Vec<usize>,
    /// Bytes charged for the rows.
    pub held: u64,
}

/// Cached results of one subquery.
#[derive(Debug, Default)]
pub(super) struct SubqueryCache {
    /// Answers by the values that they depend on.
    pub(super) answers: HashMap<Vec<u8>, Value>,
    /// The last materialized rows, with the values that they depend on.
    pub(super) rows: Option<(Vec<u8>, Rc<RowSet>)>,
}

/// Maximum number of cached answers of a subquery; when it is exceeded, all are dropped.
const MAX_CACHED_ANSWERS: usize = 65_536;

/// Cached results of an execution. Memory that is still charged when it is dropped is released.
#[derive(Debug, Default)]
pub struct States {
    /// Made by the first result, because most statements cache none.
    caches: RefCell<Option<Box<Caches>>>,
    used: Cell<u64>,
    /// The tracker that the bytes in `used` are charged to.
    tracker: Option<Arc<MemoryTracker>>,
    /// Whether an operator of the statement has spilled, or is about to.
    spilling: Cell<bool>,
    /// Whether an engine visitor is running: no file may be written then.
    in_visitor: Cell<bool>,
    /// Whether a subquery met a row newer than the snapshot: the statement must restart.
    pub restart: Cell<bool>,
    /// Whether the statement says IGNORE, so that a scalar subquery of several rows is NULL.
    pub(super) ignores_errors: Cell<bool>,
}

/// Table, position of the index, mode, whether rows may be newer, and text of a search.
pub(super) type SearchKey = (TableId, usize, SearchMode, bool, String);

/// Cached results.
#[derive(Debug, Default)]
struct Caches {
    subqueries: HashMap<usize, SubqueryCache>,
    /// Rows of the previous iterations of recursive expressions.
    working: HashMap<usize, Rc<RowSet>>,
    /// Results of searches, by the address of what clones of an expression share.
    searches: HashMap<usize, Rc<FoundTexts>>,
    searches_by_key: HashMap<SearchKey, Rc<FoundTexts>>,
}

/// Minimum number of bytes that an operator must keep before it spills.
const MIN_SPILL_BYTES: u64 = 128 << 10;

/// Upper bound of [`States::share`].
const MAX_SHARE: u64 = 64 << 20;

/// Approximate memory of a row.
pub fn size_of_row(row: &[Value]) -> u64 {
    let cells = row.iter().map(|v| match v {
        Value::Bytes(text) => 32 + text.len() as u64,
        _ => 32,
    });
    24 + cells.sum::<u64>()
}

impl Drop for States {
    fn drop(&mut self) {
        self.release(self.used.get());
    }
}

impl States {
    /// Creates the state of an execution that charges its memory to this tracker.
    pub fn new(tracker: Option<Arc<MemoryTracker>>) -> States {
        let mut states = States::default();
        states.tracker = tracker;
        states
    }

    /// The directory of temporary files; `None` if operators must not spill.
    fn spill_dir(&self) -> Option<&Arc<TempDir>> {
        self.tracker.as_ref()?.connection().server().temp_dir()
    }

    /// The directory of temporary files.
    pub(super) fn temp_dir(&self) -> Result<&Arc<TempDir>, SqlError> {
        let none = || SqlError::internal("no directory of temporary files");
        self.spill_dir().ok_or_else(none)
    }

    /// An operator's share: once the headroom is used up, operators that keep this much or more
    /// spill.
    fn share(&self) -> u64 {
        let limit = self.tracker.as_ref().map_or(u64::MAX, |t| t.limit());
        (limit / 16).clamp(MIN_SPILL_BYTES, MAX_SHARE)
    }

    /// Charges bytes of an operator that keeps `kept` bytes with them. Returns whether it must
    /// spill: now or, while an engine visitor runs, as soon as [`States::may_spill`] is true. The bytes
    /// are charged then, too, even beyond the limit.
    ///
    /// # Errors
    /// As [`States::hold`], if the operator keeps too little for spilling to help.
    pub(super) fn hold_or_spill(&self, bytes: u64, kept: u64) -> Result<bool, SqlError> {
        let can = kept >= MIN_SPILL_BYTES && self.spill_dir().is_some();
        match self.hold(bytes) {
            Ok(()) if !can || self.headroom() > 0 || kept < self.share() => return Ok(false),
            Ok(()) => {}
            Err(_) if can => self.hold_always(bytes),
            Err(error) => return Err(error),
        }
        self.spilling.set(true);
        Ok(true)
    }

    /// Counts a merge of sorted runs, for the status variables.
    pub(super) fn count_merge(&self) {
        if let Some(dir) = self.spill_dir() {
            dir.merge_passes.fetch_add(1, Relaxed);
        }
    }

    /// Counts an intermediate result that is moved to files.
    pub(super) fn count_disk_table(&self) {
        if let Some(dir) = self.spill_dir() {
            dir.disk_tables.fetch_add(1, Relaxed);
        }
    }

    /// Charges bytes that are already allocated, even beyond the limit.
    fn hold_always(&self, bytes: u64) {
        if let Some(tracker) = &self.tracker {
            tracker.hold_always(bytes);
        }
        self.used.set(self.used.get().saturating_add(bytes));
    }

    /// Bytes that a batch of rows may take while operators spill: half of what is left before the others
    /// do, because the files are read for each batch.
    pub(super) fn batch_budget(&self) -> u64 {
        (self.headroom() / 2).min(MAX_SHARE)
    }

    /// Whether this many more bytes belong in files rather than in memory.
    pub(super) fn exceeds(&self, bytes: u64) -> bool {
        bytes > self.headroom() && self.spill_dir().is_some()
    }

    /// Whether an operator that keeps this many more bytes must spill.
    pub(super) fn exceeds_share(&self, bytes: u64) -> bool {
        self.exceeds(bytes) && bytes >= self.share()
    }

    /// Number of bytes that the statement may still charge before its operators spill.
    pub(super) fn headroom(&self) -> u64 {
        self.tracker.as_ref().map_or(u64::MAX, |t| t.headroom())
    }

    /// Whether an operator spills: scans then pass copies of rows to consumers.
    pub(super) fn is_spilling(&self) -> bool {
        self.spilling.get()
    }

    /// Whether a temporary file may be written now.
    pub(super) fn may_spill(&self) -> bool {
        !self.in_visitor.get()
    }

    /// Runs an engine call that visits rows in place.
    pub(super) fn while_in_visitor<T>(&self, call: impl FnOnce() -> T) -> T {
        let before = self.in_visitor.replace(true);
        let done = call();
        self.in_visitor.set(before);
        done
    }

    /// Charges bytes to the statement until they are released.
    ///
    /// # Errors
    /// 1038, 4081 or 4082 if a limit is exceeded; nothing is charged then.
    #[inline]
    pub fn hold(&self, bytes: u64) -> Result<(), SqlError> {
        if let Some(tracker) = &self.tracker {
            tracker.hold(bytes).map_err(refused)?;
        }
        self.used.set(self.used.get().saturating_add(bytes));
        Ok(())
    }

    /// Bytes charged now.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// Called when an inner query ends: of the bytes charged since `before`, only `left` remain.
    pub fn release_since(&self, before: u64, left: u64) {
        let (used, now) = (self.used.get(), before.saturating_add(left));
        if let Some(more) = now.checked_sub(used) {
            if let Some(tracker) = self.tracker.as_ref().filter(|_| more > 0) {
                tracker.hold_always(more);
            }
            self.used.set(now);
        } else {
            self.release(used - now);
        }
    }

    /// Releases charged bytes.
    pub fn release(&self, bytes: u64) {
        let used = self.used.get();
        let bytes = bytes.min(used);
        self.used.set(used - bytes);
        if let Some(tracker) = self.tracker.as_ref().filter(|_| bytes > 0) {
            tracker.release(bytes);
        }
    }

    /// A cached result, if there is one.
    fn cached<T>(&self, find: impl FnOnce(&Caches) -> Option<T>) -> Option<T> {
        find(self.caches.borrow().as_deref()?)
    }

    /// The caches, to store a result.
    fn caches(&self) -> RefMut<'_, Caches> {
        RefMut::map(self.caches.borrow_mut(), |caches| {
            &mut **caches.get_or_insert_default()
        })
    }

    pub(super) fn cached_answer(&self, of: usize, key: &[u8]) -> Option<Value> {
        self.cached(|caches| caches.subqueries.get(&of)?.answers.get(key).cloned())
    }

    pub(super) fn cache_answer(&self, of: usize, key: Vec<u8>, value: Value) {
        let mut caches = self.caches();
        let memo = caches.subqueries.entry(of).or_default();
        if memo.answers.len() >= MAX_CACHED_ANSWERS {
            memo.answers.clear();
        }
        memo.answers.insert(key, value);
    }

    pub(super) fn rows(&self, of: usize, key: &[u8]) -> Option<Rc<RowSet>> {
        self.cached(|caches| {
            let (known, rows) = caches.subqueries.get(&of)?.rows.as_ref()?;
            (known == key).then(|| rows.clone())
        })
    }

    pub(super) fn keep_rows(&self, of: usize, key: Vec<u8>, rows: Rc<RowSet>) {
        let mut caches = self.caches();
        let memo = caches.subqueries.entry(of).or_default();
        if let Some((_, old)) = memo.rows.replace((key, rows)) {
            self.release(old.held);
        }
    }

    pub(super) fn search(&self, address: usize) -> Option<Rc<FoundTexts>> {
        self.cached(|caches| caches.searches.get(&address).cloned())
    }

    pub(super) fn same_search(&self, key: &SearchKey) -> Option<Rc<FoundTexts>> {
        self.cached(|caches| caches.searches_by_key.get(key).cloned())
    }

    pub(super) fn keep_search(&self, address: usize, key: SearchKey, found: Rc<FoundTexts>) {
        let mut caches = self.caches();
        caches.searches.insert(address, found.clone());
        caches.searches_by_key.insert(key, found);
    }

    /// The rows that the previous iteration of a recursive expression found.
    pub(super) fn working_rows(&self, of: usize) -> Rc<RowSet> {
        let rows = self.cached(|caches| caches.working.get(&of).cloned());
        rows.unwrap_or_default()
    }

    pub(super) fn set_working(&self, of: usize, rows: Rc<RowSet>) {
        let old = self.caches().working.insert(of, rows);
        if let Some(old) = old {
            self.release(old.held);
        }
    }
}

/// Appends an encoding in which different values have different bytes, even if they compare equal.
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
