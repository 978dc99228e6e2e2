//! Background deletion of expired rows of one table: scans it at a snapshot, and deletes in small
//! transactions.
//!
//! Invariants:
//! 1. A row is checked again under its lock: one that was changed meanwhile stays.
//! 2. A row that RESTRICT or a trigger refuses to delete, or that another transaction has locked,
//!    stays; other rows are deleted all the same. Only these errors count as kept rows: one of the
//!    engine (no memory, a log that cannot be written), or a metadata lock that is not granted, ends
//!    the pass.
//! 3. A pass goes on while other tables are changed by DDL; it ends when its own table or the table's
//!    relations do, under the metadata locks of a batch at the latest.
//! 4. No transaction lasts longer than one batch, so that writers wait little and versions are
//!    reclaimed.

use crate::db::Db;
use crate::definition::TableId;
use crate::error::{Error, Result};
use crate::row::{RowBuf, RowRef};
use crate::table::Table;
use crate::txn::scan::{Fetch, KeyRange, ScanPosition, ScanSpec};
use crate::txn::{BeginOptions, Txn};
use porpoise_base::cancel::Cancel;
use porpoise_kv::{self as kv, Read};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of rows scanned at one snapshot, and between two calls of [`Reap::go_on`].
const SCANNED_ROWS: usize = 1000;
/// Rows per transaction.
const BATCH: usize = 100;
/// Longest wait for a row lock.
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// Longest wait for the metadata locks of a batch.
const METADATA_LOCK_WAIT: Duration = Duration::from_secs(1);

/// An encoded primary key.
type PrimaryKey = Vec<u8>;

/// A predicate on rows.
pub type RowTest<'t> = dyn Fn(&RowRef<'_>) -> bool + 't;
/// Deletes locked rows within a transaction. Returns their number.
pub type DeleteRows<'t> = dyn Fn(&mut Txn, Vec<(Vec<u8>, RowBuf)>) -> Result<u64> + 't;

/// A pass over one table.
pub struct Reap<'t> {
    /// The database.
    pub db: &'t Arc<Db>,
    /// The table.
    pub table: &'t Arc<Table>,
    /// Tables that a deletion may read or change.
    pub write_set: &'t [TableId],
    /// Returns the test for expired rows at the present time; called for each batch.
    pub expired: &'t dyn Fn() -> Box<RowTest<'t>>,
    /// Deletes rows.
    pub delete: &'t DeleteRows<'t>,
    /// Called before each scan and after each deleting transaction: may pause, and returns false to
    /// end the pass.
    pub go_on: &'t dyn Fn() -> bool,
}

/// Result of a pass.
#[derive(Clone, Debug, Default)]
pub struct Reaped {
    /// Rows deleted.
    pub deleted: u64,
    /// Expired rows that could not be deleted, or had changed.
    pub kept: u64,
    /// An error of a row that neither children nor locks keep: of a trigger, for example.
    pub refusal: Option<Error>,
}

/// Whether an error is that of one row, so that others can be deleted.
fn is_of_row(error: &Error) -> bool {
    match error {
        Error::Kv(error) => matches!(
            error,
            kv::Error::LockTimeout | kv::Error::Deadlock | kv::Error::Conflict
        ),
        Error::DefinitionChanged | Error::Corrupt(_) => false,
        _ => true,
    }
}

/// Whether a row stays because of children or locks, which is not a defect.
fn is_expected(error: &Error) -> bool {
    matches!(error, Error::Kv(_) | Error::SnapshotConflict) || error.ignorable()
}

impl Reap<'_> {
    /// Scans the table once and deletes its expired rows.
    ///
    /// # Errors
    /// [`Error::DefinitionChanged`]; the engine's.
    pub fn run(&self) -> Result<Reaped> {
        let mut done = Reaped::default();
        let mut next = Some(Vec::new());
        while let Some(start) = next.take() {
            if !(self.go_on)() {
                break;
            }
            self.check_definition()?;
            let (expired, resume) = self.find(start)?;
            next = resume;
            for batch in expired.chunks(BATCH) {
                let deleted = self.delete_batch(batch, &mut done.refusal)?;
                done.deleted += deleted;
                done.kept += batch.len() as u64 - deleted.min(batch.len() as u64);
                if !(self.go_on)() {
                    return Ok(done);
                }
            }
        }
        Ok(done)
    }

    /// The keys of the expired rows among the next [`SCANNED_ROWS`] rows, and the key at which the
    /// next scan starts; `None` at the end of the table.
    fn find(&self, start: Vec<u8>) -> Result<(Vec<PrimaryKey>, Option<PrimaryKey>)> {
        let spec = ScanSpec {
            index: 0,
            ranges: vec![KeyRange { start, end: None }],
            reverse: false,
            entries_only: false,
        };
        let is_expired = (self.expired)();
        let mut expired: Vec<Vec<u8>> = Vec::new();
        let mut last = Vec::new();
        let mut txn = self.db.begin(BeginOptions::default())?;
        let more = txn.scan_with(
            self.table,
            &spec,
            Fetch::PREFIXES,
            Read::SNAPSHOT,
            &mut ScanPosition::default(),
            SCANNED_ROWS,
            &mut |key, row| {
                last.clear();
                last.extend_from_slice(key);
                if is_expired(&row) {
                    expired.push(key.to_vec());
                }
            },
        )?;
        last.push(0);
        Ok((expired, more.then_some(last)))
    }

    /// Fails if the table, or its relations to others, have changed.
    fn check_definition(&self) -> Result<()> {
        let catalog = self.db.catalog();
        let current = catalog.table_by_id(self.table.id);
        if current.is_some_and(|current| Arc::ptr_eq(current, self.table)) {
            return Ok(());
        }
        Err(Error::DefinitionChanged)
    }

    /// Deletes the rows of a batch, or each by itself if one of them cannot be deleted. Returns their
    /// number.
    fn delete_batch(&self, batch: &[PrimaryKey], refusal: &mut Option<Error>) -> Result<u64> {
        match self.delete_keys(batch) {
            Err(error) if is_of_row(&error) && batch.len() > 1 => {}
            done => return kept_row(done, refusal),
        }
        let mut deleted = 0;
        for key in batch {
            deleted += kept_row(self.delete_keys(std::slice::from_ref(key)), refusal)?;
        }
        Ok(deleted)
    }

    /// Deletes those of the rows that are still expired under their locks.
    fn delete_keys(&self, keys: &[PrimaryKey]) -> Result<u64> {
        let db = self.db;
        let metadata_locks = db.metadata_locks().session();
        let deadline = || db.clock().now() + METADATA_LOCK_WAIT;
        let locked = metadata_locks.share_for_writing(self.write_set, deadline, &Cancel::new());
        let deleted = match locked {
            // Another statement changes a definition: the pass begins again later.
            Err(_) => Err(Error::DefinitionChanged),
            Ok(()) => self
                .check_definition()
                .and_then(|()| self.delete_in_transaction(keys)),
        };
        metadata_locks.end();
        deleted
    }

    fn delete_in_transaction(&self, keys: &[Vec<u8>]) -> Result<u64> {
        let mut txn = self.db.begin(BeginOptions::default())?;
        txn.set_lock_wait(LOCK_WAIT);
        let is_expired = (self.expired)();
        let expired = txn.lock_present(self.table, keys, |row| is_expired(row))?;
        if expired.is_empty() {
            return Ok(0);
        }
        let deleted = (self.delete)(&mut txn, expired)?;
        txn.commit()?;
        Ok(deleted)
    }
}

/// Number of deleted rows; 0 for a row whose error keeps only itself.
fn kept_row(deleted: Result<u64>, refusal: &mut Option<Error>) -> Result<u64> {
    match deleted {
        Err(error) if is_of_row(&error) => {
            if !is_expected(&error) {
                refusal.get_or_insert(error);
            }
            Ok(0)
        }
        deleted => deleted,
    }
}
