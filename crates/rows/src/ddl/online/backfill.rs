//! Backfill of an online schema change: adds the index entries of existing rows, in small
//! transactions beside those of other sessions.
//!
//! Each transaction locks a batch of rows shared, so that none of them changes until its entries are
//! committed, and takes the locks of unique keys. It waits for none of these locks. Rows that others
//! have locked are done one by one afterwards, each with a short wait during which nothing else is
//! locked: the backfill never makes a writer wait for longer than one batch takes. If a whole batch is
//! refused, it is halved.
//!
//! While other sessions use the table the batches are small, and the backfill sleeps after each of
//! them for a multiple of the time that it took.

use super::throttle::{Throttle, check_cancel, pause};
use crate::db::Db;
use crate::ddl::DdlCx;
use crate::error::{Error, Result};
use crate::keys::Entry;
use crate::row::RowRef;
use crate::table::Table;
use porpoise_kv::{
    self as kv, Check, Key, LockMode, LockRequest, Read, ScanEnd, ScanRange, SpaceId, TxnOptions,
    Wait,
};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Longest wait for a row that another transaction has locked, during which those that come later
/// wait behind the backfill.
const ROW_WAIT: Duration = Duration::from_millis(20);
/// Pause before a row is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(2);
/// Batches after which the backfill waits until they are durable, so that the log's buffers do not
/// grow.
const BATCHES_UNTIL_DURABLE: u32 = 16;

/// Primary keys of rows.
type Keys = Vec<Vec<u8>>;

/// Outcome of a transaction.
enum Filled {
    /// All entries are committed, except those of these rows, which are locked.
    Except(Keys),
    /// Nothing was done, because a lock or the commit was refused.
    Refused,
}

struct Backfill<'a> {
    db: &'a Db,
    cx: &'a DdlCx<'a>,
    table: &'a Table,
    throttle: Throttle<'a>,
    /// Limit of the wait for a locked row.
    patience: Duration,
    batches: u32,
}

/// Adds the entries of all rows to the indexes of `table.changing`.
///
/// # Errors
/// [`Error::Duplicate`]; a cancellation; the engine's.
pub(super) fn run(db: &Db, cx: &DdlCx<'_>, table: &Table, patience: Duration) -> Result<()> {
    let mut backfill = Backfill {
        db,
        cx,
        table,
        throttle: Throttle::new(db, cx, table.id),
        patience,
        batches: 0,
    };
    for space in table.index_spaces(0) {
        backfill.fill_space(*space)?;
    }
    Ok(())
}

impl Backfill<'_> {
    fn fill_space(&mut self, space: SpaceId) -> Result<()> {
        // Rows that come later have their entries: the backfill does not follow those that writers
        // append meanwhile.
        let Some(end) = self.end_of_rows(space)? else {
            return Ok(());
        };
        let mut next = Some(Vec::new());
        while let Some(start) = next {
            let limit = self.throttle.begin()?;
            let (keys, rest) = self.row_keys(space, (&start, &end), limit)?;
            let count = keys.len();
            self.fill_batch(space, keys)?;
            self.throttle.end(count);
            next = rest;
        }
        Ok(())
    }

    /// The key that follows the last row; `None` without rows.
    fn end_of_rows(&self, space: SpaceId) -> Result<Option<Vec<u8>>> {
        let mut txn = self.db.engine().begin(TxnOptions::default())?;
        let range = ScanRange {
            space,
            start: &[],
            end: None,
            reverse: true,
        };
        let mut last = None;
        txn.scan(Read::CURRENT, &[range], 1, &mut |_, key, _| {
            last = Some([key, &[0]].concat());
            ControlFlow::Break(())
        })?;
        txn.rollback();
        Ok(last)
    }

    /// The keys of the next rows, and where to continue.
    fn row_keys(
        &self,
        space: SpaceId,
        (start, end): (&[u8], &[u8]),
        limit: usize,
    ) -> Result<(Keys, Option<Vec<u8>>)> {
        let mut txn = self.db.engine().begin(TxnOptions::default())?;
        let range = ScanRange {
            space,
            start,
            end: Some(end),
            reverse: false,
        };
        let mut keys = Vec::with_capacity(limit);
        let end = txn.scan(Read::CURRENT, &[range], limit, &mut |_, key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        txn.rollback();
        let next = match end {
            ScanEnd::Done => None,
            ScanEnd::Stopped { mut key, .. } => {
                key.push(0);
                Some(key)
            }
        };
        Ok((keys, next))
    }

    /// Adds the entries of rows, some of which other transactions may have locked. An engine that cannot skip locked rows refuses
    /// the whole batch for one of them; halving the batch then finds that row in few transactions.
    fn fill_batch(&mut self, space: SpaceId, mut keys: Keys) -> Result<()> {
        let left = match self.fill(space, &keys, None)? {
            Filled::Except(rows) => rows,
            Filled::Refused if keys.len() > 1 => {
                let second = keys.split_off(keys.len() / 2);
                self.fill_batch(space, keys)?;
                return self.fill_batch(space, second);
            }
            Filled::Refused => keys,
        };
        for key in left {
            self.fill_alone(space, key)?;
        }
        Ok(())
    }

    /// Adds the entries of one row that another transaction may have locked.
    fn fill_alone(&mut self, space: SpaceId, key: Vec<u8>) -> Result<()> {
        let keys = [key];
        let deadline = Instant::now() + self.patience;
        loop {
            check_cancel(self.cx)?;
            let now = Instant::now();
            if now >= deadline {
                return Err(Error::Kv(kv::Error::LockTimeout));
            }
            if let Filled::Except(_) = self.fill(space, &keys, Some(now + ROW_WAIT))? {
                return Ok(());
            }
            pause(RETRY_PAUSE);
        }
    }

    /// Adds the entries of rows in one transaction. Waits for the locks of the rows until `deadline`,
    /// or leaves locked rows out.
    fn fill(
        &mut self,
        space: SpaceId,
        keys: &[Vec<u8>],
        deadline: Option<Instant>,
    ) -> Result<Filled> {
        match self.try_fill(space, keys, deadline) {
            Err(Error::Kv(
                kv::Error::LockBusy
                | kv::Error::LockTimeout
                | kv::Error::Deadlock
                | kv::Error::Conflict,
            )) => Ok(Filled::Refused),
            done => done,
        }
    }

    fn try_fill(
        &mut self,
        space: SpaceId,
        keys: &[Vec<u8>],
        deadline: Option<Instant>,
    ) -> Result<Filled> {
        let engine = self.db.engine();
        let can_skip = engine.capabilities().skip_locked;
        let at_once = if can_skip { Wait::Skip } else { Wait::NoWait };
        let mut txn = engine.begin(TxnOptions {
            cancel: self.cx.cancel.clone(),
            ..TxnOptions::default()
        })?;
        let requests: Vec<LockRequest<'_>> = keys
            .iter()
            .map(|key| LockRequest {
                key: Key::new(space, key),
                mode: LockMode::Share,
            })
            .collect();
        let (mut rows, mut locked) = (Vec::with_capacity(keys.len()), Vec::new());
        let wait = deadline.map_or(at_once, Wait::Until);
        txn.lock(&requests, wait, &mut |n, found| {
            let Some(key) = keys.get(n) else { return };
            match found.value {
                _ if !found.granted => locked.push(key.clone()),
                Some(row) => rows.push((key, row.to_vec())),
                None => {}
            }
        })?;
        for position in self.positions() {
            self.fill_index(txn.as_mut(), position, &rows)?;
        }
        let commit = txn.commit()?;
        self.batches += 1;
        if self.batches.is_multiple_of(BATCHES_UNTIL_DURABLE) {
            engine.wait_durable(commit.position)?;
        }
        Ok(Filled::Except(locked))
    }

    /// The positions of the indexes that are built.
    fn positions(&self) -> std::ops::Range<usize> {
        let first = self.table.indexes.len();
        first..first + self.table.changing.len()
    }

    /// Writes the entries of locked rows in one index.
    fn fill_index(
        &self,
        txn: &mut dyn kv::Txn,
        position: usize,
        rows: &[(&Vec<u8>, Vec<u8>)],
    ) -> Result<()> {
        let mut entries: Vec<(RowRef<'_>, Entry)> = Vec::with_capacity(rows.len());
        for (primary, bytes) in rows {
            let row = RowRef::new(self.table, bytes)?;
            let found = self.table.whole_entries(position, &row, primary);
            entries.extend(found.into_iter().map(|entry| (row, entry)));
        }
        self.lock_unique(txn, position, &entries)?;
        for (_, entry) in &entries {
            let space = self.table.space(position, &entry.key);
            let check = if entry.exclusive {
                Check::Locked
            } else {
                Check::Blind
            };
            txn.put(Key::new(space, &entry.key), &entry.value, check)?;
        }
        Ok(())
    }

    /// Locks the keys that must be unique. 1062 if one belongs to another row.
    fn lock_unique(
        &self,
        txn: &mut dyn kv::Txn,
        position: usize,
        entries: &[(RowRef<'_>, Entry)],
    ) -> Result<()> {
        let mut owners: HashMap<&[u8], &[u8]> = HashMap::new();
        let (mut requests, mut unique) = (Vec::new(), Vec::new());
        for (row, entry) in entries.iter().filter(|(_, entry)| entry.exclusive) {
            if let Some(other) = owners.insert(&entry.key, &entry.value)
                && other != entry.value
            {
                return Err(self.table.duplicate_of_key(position, row, &entry.key));
            }
            requests.push(LockRequest {
                key: Key::new(self.table.space(position, &entry.key), &entry.key),
                mode: LockMode::Exclusive,
            });
            unique.push((row, entry));
        }
        if requests.is_empty() {
            return Ok(());
        }
        let mut duplicate = None;
        txn.lock(&requests, Wait::NoWait, &mut |n, found| {
            let Some((row, entry)) = unique.get(n) else {
                return;
            };
            if found.value.is_some_and(|owner| owner != entry.value) {
                duplicate = Some(self.table.duplicate_of_key(position, *row, &entry.key));
            }
        })?;
        duplicate.map_or(Ok(()), Err)
    }
}
