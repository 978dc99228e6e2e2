//! Fetching rows under locks.
//!
//! Candidates are found first (whole unique keys need no search), locked in one call, and returned
//! in their newest versions. The caller re-checks its conditions on those. The conflict policy
//! decides about a candidate newer than the snapshot ([`ConflictPolicy`]).

use super::fetch::{Cursor, Fetched, copy_row};
use super::pruning::Batch;
use super::{ConflictPolicy, Exec, ExecError, ExecResult};
use crate::error::SqlError;
use crate::plan::scan::{LockSpec, LockWait};
use bumpalo::Bump;
use porpoise_kv::{Read, StatementMark, Wait};
use porpoise_rows::catalog::Table;
use porpoise_rows::{LockedRow, Lookup, RowRef};
use std::time::Instant;

impl Cursor {
    /// Returns the next rows, locked, in their newest versions. Rows found by a scan are locked
    /// only if they match.
    pub fn next_locked<'a>(
        &mut self,
        table: &'a Table,
        lock: LockSpec,
        batch: Batch<'_>,
        exec: &mut Exec<'_>,
        arena: &'a Bump,
        matches: &mut dyn FnMut(RowRef<'a>) -> ExecResult<bool>,
    ) -> ExecResult<Option<Vec<Fetched<'a>>>> {
        let pruning = batch.pruning;
        if let Cursor::Keys { index, keys, done } = self {
            if *done {
                return Ok(None);
            }
            *done = true;
            keys.retain(|key| pruning.allows(table, *index, key));
            let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let lookup = Lookup::unique(table, *index, &wanted).overflow(pruning.overflow());
            let mut granted = GrantedRows::new(table, wanted.len(), arena);
            let since = exec.txn().mark();
            granted.lock(&lookup, lock, exec)?;
            if !exec.shared.lock_gaps && !granted.absent.is_empty() {
                let absent = granted.absent_keys(&wanted);
                exec.txn().unlock_keys(table, *index, &absent, since);
            }
            return granted.rows(false, lock.wait, exec).map(Some);
        }
        // SKIP LOCKED does not validate the range it scanned.
        let read = Read {
            validate: exec.shared.validate && lock.wait != LockWait::SkipLocked,
            ..exec.read()
        };
        let Some(candidates) = self.next(read, true, table, batch, exec, arena)? else {
            return Ok(None);
        };
        let mut wanted: Vec<&[u8]> = Vec::with_capacity(candidates.len());
        for candidate in &candidates {
            if matches(candidate.row)? {
                wanted.push(candidate.key);
            }
        }
        if wanted.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let lookup = Lookup::primary(table, &wanted).overflow(pruning.overflow());
        let mut granted = GrantedRows::new(table, wanted.len(), arena);
        granted.lock(&lookup, lock, exec)?;
        granted.rows(true, lock.wait, exec).map(Some)
    }
}

fn wait_of(lock: LockSpec, exec: &Exec<'_>) -> Wait {
    match lock.wait {
        LockWait::Wait => Wait::Until(Instant::now() + exec.lock_wait),
        LockWait::NoWait => Wait::NoWait,
        LockWait::SkipLocked => Wait::Skip,
    }
}

/// Applies the conflict policy after a row newer than the snapshot was locked.
fn apply_conflict_policy(
    newer: bool,
    by_scan: bool,
    wait: LockWait,
    exec: &Exec<'_>,
) -> ExecResult<()> {
    if !newer {
        return Ok(());
    }
    match exec.conflicts {
        ConflictPolicy::UseNewest => Ok(()),
        // SKIP LOCKED would have skipped the row while it was locked, so it takes the newest
        // version if that still matches. Otherwise the workers of a queue would restart each other
        // for ever.
        ConflictPolicy::Restart if wait == LockWait::SkipLocked => Ok(()),
        ConflictPolicy::Advance => Err(ExecError::Restart),
        // Lookup by a whole key: the newest version is the result.
        ConflictPolicy::Restart if !by_scan => Ok(()),
        ConflictPolicy::Restart => Err(ExecError::Restart),
    }
}

/// Rows returned by a locking call, in the order of the request.
struct GrantedRows<'a> {
    table: &'a Table,
    arena: &'a Bump,
    found: Vec<Option<Fetched<'a>>>,
    /// Positions of keys that were locked and have no row.
    absent: Vec<usize>,
    newer: bool,
    error: Option<SqlError>,
}

impl<'a> GrantedRows<'a> {
    fn new(table: &'a Table, requested: usize, arena: &'a Bump) -> GrantedRows<'a> {
        GrantedRows {
            table,
            arena,
            found: vec![None; requested],
            absent: Vec::new(),
            newer: false,
            error: None,
        }
    }

    /// Locks the rows of a lookup, and records those found.
    fn lock(&mut self, lookup: &Lookup<'_>, lock: LockSpec, exec: &mut Exec<'_>) -> ExecResult<()> {
        let wait = wait_of(lock, exec);
        let visit = &mut |at, row: LockedRow<'_>| self.record(at, row.primary, row);
        exec.txn().lock(lookup, lock.mode, wait, visit)?;
        Ok(())
    }

    fn record(&mut self, at: usize, key: Option<&[u8]>, locked: LockedRow<'_>) {
        self.newer |= locked.granted && locked.newer;
        let Some((key, row)) = key.zip(locked.row) else {
            if locked.granted {
                self.absent.push(at);
            }
            return;
        };
        match (
            copy_row(self.table, key, row, self.arena),
            self.found.get_mut(at),
        ) {
            (Ok(row), Some(place)) => *place = Some(row),
            (Err(error), _) => self.error = Some(error),
            _ => {}
        }
    }

    /// The requested keys that were locked and have no row.
    fn absent_keys<'k>(&self, requested: &[&'k [u8]]) -> Vec<&'k [u8]> {
        let keys = self.absent.iter().filter_map(|at| requested.get(*at));
        keys.copied().collect()
    }

    fn rows(self, by_scan: bool, wait: LockWait, exec: &Exec<'_>) -> ExecResult<Vec<Fetched<'a>>> {
        if let Some(error) = self.error {
            return Err(ExecError::Error(error));
        }
        apply_conflict_policy(self.newer, by_scan, wait, exec)?;
        Ok(self.found.into_iter().flatten().collect())
    }
}

/// Unlocks rows that were locked since `since` and did not match.
pub fn unlock(table: &Table, keys: &[&[u8]], since: StatementMark, exec: &mut Exec<'_>) {
    if !keys.is_empty() {
        exec.txn().unlock_rows(table, keys, since);
    }
}
