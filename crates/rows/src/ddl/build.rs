//! Builds new indexes and validates new foreign keys from the existing rows. The caller's metadata
//! barrier excludes writers of the table; readers of other tables are not affected.
//!
//! Indexes are built concurrently, each by its own thread, in sorted runs:
//!
//! ```text
//!   rows in the order of the primary key -> entries -> run of 32 MiB -> sort -> transactions in key order
//! ```
//!
//! An index that fits into one run is appended in key order. If entries were written in the order of the rows, each would go to
//! another leaf, and miss the processor's caches when the index is larger than these.
//!
//! Runs are charged to the statement's connection; without memory for more they are shorter.
//!
//! Foreign keys are validated in batches ([`super::walk`]), each with one engine call for its look-ups.

use super::DdlCx;
use super::walk::Batch;
use crate::catalog::derive;
use crate::db::Db;
use crate::definition::{ForeignKey, Index};
use crate::error::{Error, Result};
use crate::fk;
use crate::row::RowRef;
use crate::table::Table;
use porpoise_base::memory::{MemoryClass, MemoryTracker};
use porpoise_kv::{self as kv, Check, CommitPosition, Key, Read, SpaceId, TxnOptions};
use std::cmp::Ordering;
use std::sync::atomic::{AtomicUsize, Ordering as MemoryOrdering};

/// Size in bytes of a sorted run; smaller in tests, so that they have several runs.
const RUN_BYTES: usize = if cfg!(test) { 16 << 10 } else { 32 << 20 };

/// Number of entries of one transaction.
const COMMIT_ENTRIES: usize = 4096;

/// Minimum number of rows for building indexes concurrently.
const MIN_CONCURRENT_ROWS: u64 = 10_000;

/// An entry of a run.
struct RunEntry {
    space: SpaceId,
    /// The first bytes of the key, which decide most comparisons.
    prefix: u64,
    /// Position of the key in the run's bytes; the value follows.
    start: usize,
    key: usize,
    value: usize,
    /// Whether the key must be unique.
    exclusive: bool,
}

/// Entries of an index, to be sorted.
#[derive(Default)]
struct Run {
    bytes: Vec<u8>,
    entries: Vec<RunEntry>,
}

impl Run {
    fn size(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<RunEntry>()
    }

    fn key(&self, entry: &RunEntry) -> &[u8] {
        let key = self.bytes.get(entry.start..entry.start + entry.key);
        key.unwrap_or_default()
    }

    fn value(&self, entry: &RunEntry) -> &[u8] {
        let start = entry.start + entry.key;
        let value = self.bytes.get(start..start + entry.value);
        value.unwrap_or_default()
    }

    /// Adds the entries of a row.
    fn add(
        &mut self,
        table: &Table,
        index: &Index,
        position: usize,
        row: &RowRef<'_>,
        primary: &[u8],
    ) {
        for entry in table.entries(position, row) {
            let start = self.bytes.len();
            let exclusive = index.append_entry(table, &entry, primary, &mut self.bytes);
            let end = self.bytes.len();
            index.append_entry_value(primary, &mut self.bytes);
            let key = self.bytes.get(start..end).unwrap_or_default();
            let mut prefix = [0; 8];
            for (to, from) in prefix.iter_mut().zip(key) {
                *to = *from;
            }
            self.entries.push(RunEntry {
                space: table.space(position, key),
                prefix: u64::from_be_bytes(prefix),
                start,
                key: end - start,
                value: self.bytes.len() - end,
                exclusive,
            });
        }
    }

    /// Puts the entries in the order of their spaces and keys.
    fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| self.compare(a, b));
        self.entries = entries;
    }

    fn compare(&self, a: &RunEntry, b: &RunEntry) -> Ordering {
        let order = (a.space, a.prefix).cmp(&(b.space, b.prefix));
        order.then_with(|| self.key(a).cmp(self.key(b)))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}

/// The build of one index.
struct Build<'a> {
    db: &'a Db,
    cx: &'a DdlCx<'a>,
    table: &'a Table,
    position: usize,
    run: Run,
    memory: Option<MemoryTracker>,
    /// Whether entries have been written.
    has_entries: bool,
}

impl Build<'_> {
    /// Writes the entries of the run if it is complete, or if there is no memory for more.
    fn flush_if_full(&mut self) -> Result<()> {
        let size = self.run.size();
        let memory = self.memory.as_ref();
        let is_refused = memory.is_some_and(|memory| {
            size as u64 > memory.used() && memory.resize(size as u64).is_err()
        });
        if is_refused || size > RUN_BYTES {
            self.flush()?;
        }
        if is_refused {
            self.run = Run::default();
            if let Some(memory) = &self.memory {
                memory.resize_always(0);
            }
        }
        Ok(())
    }

    /// Writes the entries of the run.
    fn flush(&mut self) -> Result<()> {
        let mut run = std::mem::take(&mut self.run);
        run.sort();
        let mut last = CommitPosition::NONE;
        for window in run.entries.windows(2) {
            if let [a, b] = window
                && b.exclusive
                && run.compare(a, b) == Ordering::Equal
            {
                return Err(self.duplicate(&run, b));
            }
        }
        for entries in run.entries.chunks(COMMIT_ENTRIES) {
            super::online::check_cancel(self.cx)?;
            last = self.write(&run, entries)?;
        }
        if last != CommitPosition::NONE {
            self.db.engine().wait_durable(last)?;
        }
        self.has_entries |= !run.entries.is_empty();
        run.clear();
        self.run = run;
        Ok(())
    }

    /// Writes entries, which are sorted, in one transaction.
    fn write(&self, run: &Run, entries: &[RunEntry]) -> Result<CommitPosition> {
        let mut txn = self.db.engine().begin(TxnOptions::default())?;
        if self.has_entries {
            self.check_unique(txn.as_mut(), run, entries)?;
        }
        txn.reserve_writes(entries.len());
        for entry in entries {
            let key = Key::new(entry.space, run.key(entry));
            txn.put_new(key, run.value(entry), Check::Blind)?;
        }
        Ok(txn.commit()?.position)
    }

    /// 1062 if an earlier run has written one of the entries' unique keys.
    fn check_unique(&self, txn: &mut dyn kv::Txn, run: &Run, entries: &[RunEntry]) -> Result<()> {
        let unique: Vec<&RunEntry> = entries.iter().filter(|entry| entry.exclusive).collect();
        if unique.is_empty() {
            return Ok(());
        }
        let key = |entry: &&RunEntry| Key::new(entry.space, run.key(entry));
        let keys: Vec<Key<'_>> = unique.iter().map(key).collect();
        let mut taken = None;
        txn.get(Read::CURRENT, &keys, &mut |n, value| {
            if value.is_some() && taken.is_none() {
                taken = unique.get(n).copied();
            }
        })?;
        taken.map_or(Ok(()), |entry| Err(self.duplicate(run, entry)))
    }

    /// The error for an entry of a unique index that another row has, too.
    fn duplicate(&self, run: &Run, entry: &RunEntry) -> Error {
        // The value of an entry of a unique index is the row's key.
        let primary = run.value(entry);
        let read = || -> Result<Error> {
            let mut txn = self.db.engine().begin(TxnOptions::default())?;
            let keys = [Key::new(self.table.space(0, primary), primary)];
            let mut row = Vec::new();
            txn.get(Read::CURRENT, &keys, &mut |_, value| {
                row.extend_from_slice(value.unwrap_or_default());
            })?;
            txn.rollback();
            let row = RowRef::new(self.table, &row)?;
            Ok(self
                .table
                .duplicate_of_key(self.position, &row, run.key(entry)))
        };
        read().unwrap_or_else(|error| error)
    }
}

impl Db {
    /// Writes the entries of the indexes of `after` at these positions, for all rows of `before`.
    ///
    /// # Errors
    /// Of the first index that fails: 1062; the engine's; a cancellation.
    pub(super) fn build_indexes(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        positions: &[usize],
    ) -> Result<()> {
        let is_text = |at: &usize| after.text_index(*at).is_some();
        let (texts, positions): (Vec<usize>, Vec<usize>) =
            positions.iter().partition(|at| is_text(at));
        // Each build may use the whole memory limit of a build.
        for at in texts {
            self.build_index(cx, before, after, at)?;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(positions.len());
        let is_small = self
            .approximate_rows(before)
            .is_some_and(|rows| rows < MIN_CONCURRENT_ROWS);
        if threads < 2 || is_small {
            let mut positions = positions.iter();
            return positions.try_for_each(|at| self.build_index(cx, before, after, *at));
        }
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(at) = positions.get(next.fetch_add(1, MemoryOrdering::Relaxed)) {
                done.push((*at, self.build_index(cx, before, after, *at)));
            }
            done
        };
        let ended = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let ended = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            ended.collect::<std::thread::Result<Vec<_>>>()
        });
        let ended =
            ended.map_err(|_| Error::Corrupt("a thread that built an index has failed".into()))?;
        let mut done: Vec<_> = ended.into_iter().flatten().collect();
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().try_for_each(|(_, done)| done)
    }

    /// Writes the entries of the index of `after` at a position, for all rows of `before`.
    fn build_index(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        position: usize,
    ) -> Result<()> {
        let Some(index) = after.indexes.get(position) else {
            return Ok(());
        };
        if let Some(text_index) = after.text_index(position) {
            return self.build_text_index(cx, before, after, index, text_index);
        }
        let mut build = Build {
            db: self,
            cx,
            table: after,
            position,
            run: Run::default(),
            memory: cx
                .memory
                .map(|memory| MemoryTracker::new(memory.clone(), MemoryClass::Statement)),
            has_entries: false,
        };
        self.for_each_batch(cx, before, |batch| {
            for (primary, bytes) in batch {
                let row = RowRef::new(after, bytes)?;
                build.run.add(after, index, position, &row, primary);
            }
            build.flush_if_full()
        })?;
        build.flush()
    }

    /// 1452 if a row of `table` has no parent.
    pub(super) fn validate_foreign_key(
        &self,
        cx: &DdlCx<'_>,
        table: &Table,
        key: &ForeignKey,
    ) -> Result<()> {
        self.for_each_batch(cx, table, |batch| {
            let mut txn = self.engine().begin(TxnOptions::default())?;
            let read = Read::CURRENT;
            let outcome = self.orphans(table, key, batch, txn.as_mut(), read, &mut |_| {
                Err(Error::NoReferencedRow {
                    constraint: fk::constraint_text(table, key),
                })
            });
            txn.rollback();
            outcome
        })
    }

    /// Calls `report` with the primary key of each row of the batch whose parent under
    /// `key` is missing in the state that is read.
    ///
    /// # Errors
    /// The engine's; those of `report`.
    pub(crate) fn orphans(
        &self,
        table: &Table,
        key: &ForeignKey,
        batch: &Batch,
        txn: &mut dyn kv::Txn,
        read: Read,
        report: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let catalog = self.catalog();
        let own = key.parent_database == table.database && key.parent_table == table.name;
        let parent = if own {
            Some(table)
        } else {
            let found = catalog.table(&key.parent_database, &key.parent_table);
            found.map(|t| t.as_ref())
        };
        let link = parent.and_then(|p| Some((p, derive::resolve_parent(p, key)?)));
        let mut probes: Vec<(&[u8], Vec<u8>)> = Vec::with_capacity(batch.len());
        for (pk, row) in batch {
            let row = RowRef::new(table, row)?;
            if key.columns.iter().any(|c| row.get(*c).is_null()) {
                continue;
            }
            match &link {
                None => report(pk)?,
                Some((parent, link)) => {
                    let mut probe = Vec::new();
                    fk::append_parent_key(parent, key, link, &row, &mut probe);
                    probes.push((pk, probe));
                }
            }
        }
        let Some((parent, link)) = &link else {
            return Ok(());
        };
        let wanted: Vec<Key<'_>> = probes
            .iter()
            .map(|(_, probe)| Key::new(parent.space(link.index, probe), probe))
            .collect();
        let mut exists = vec![false; wanted.len()];
        txn.get(read, &wanted, &mut |at, value| {
            if let Some(exists) = exists.get_mut(at) {
                *exists = value.is_some();
            }
        })?;
        let missing = probes.iter().zip(&exists).filter(|(_, exists)| !**exists);
        missing.map(|((pk, _), _)| *pk).try_for_each(report)
    }
}

#[cfg(test)]
mod tests {
    use crate::ddl::{AlterOp, ColumnSpec, DdlCx, IndexSpec, LockLevel, TableSpec};
    use crate::definition::{IndexKind, TableOptions};
    use crate::{BeginOptions, Db, DbOptions, Error, InsertMode};
    use porpoise_base::clock;
    use porpoise_base::memory::{ConnectionMemory, MemoryBudget};
    use porpoise_kv::model::Model;
    use porpoise_types::{Collation, ColumnType, Kind, Value};
    use std::sync::Arc;

    /// A database with a table of rows `n`, with `value(n)` in the second column.
    fn filled(rows: i64, value: impl Fn(i64) -> i64) -> Arc<Db> {
        let engine = Arc::new(Model::new());
        let db = Db::open(engine, clock::system(), DbOptions::default()).unwrap();
        let int = || ColumnType::int(Kind::Int);
        let columns = vec![
            ColumnSpec::new("id", int()).not_null(),
            ColumnSpec::new("a", int()),
            ColumnSpec::new("b", int()),
        ];
        let options = TableOptions {
            engine: "InnoDB".to_owned(),
            collation: Collation::UTF8MB4_BIN,
            comment: String::new(),
            memory: false,
            other: Vec::new(),
            created: 0,
            ttl: None,
        };
        let spec = TableSpec::new(
            "d",
            "t",
            columns,
            vec![IndexSpec::primary(&["id"])],
            options,
        );
        db.define(|cx| {
            db.create_database(cx, "d", Collation::UTF8MB4_BIN, false)?;
            db.create_table(cx, &spec)
        })
        .unwrap();
        let table = db.catalog().table("d", "t").unwrap().clone();
        let ids: Vec<i64> = (0..rows).collect();
        for ids in ids.chunks(500) {
            let row = |id: &i64| vec![Value::Int(*id), Value::Int(value(*id)), Value::Int(*id % 3)];
            let mut txn = db.begin(BeginOptions::default()).unwrap();
            let rows = ids.iter().map(row).collect();
            txn.insert(&table, rows, InsertMode::Plain).unwrap();
            txn.commit().unwrap();
        }
        db
    }

    fn add_indexes(db: &Db) -> Result<(), Error> {
        add_indexes_with(db, None)
    }

    fn add_indexes_with(db: &Db, memory: Option<&Arc<ConnectionMemory>>) -> Result<(), Error> {
        let add = |kind, name, columns: &[&str]| {
            AlterOp::AddIndex(IndexSpec::new(kind, Some(name), columns))
        };
        let ops = [
            add(IndexKind::Unique, "a", &["a"]),
            add(IndexKind::Plain, "b", &["b", "a"]),
            AlterOp::Lock(LockLevel::Exclusive),
        ];
        let alter = |cx: &DdlCx<'_>| db.alter_table(&DdlCx { memory, ..*cx }, "d", "t", &ops);
        db.define(alter).map(drop)
    }

    #[test]
    fn without_memory_for_a_run_runs_are_shorter() {
        let db = filled(2000, |id| 5000 - id);
        let budget = Arc::new(MemoryBudget::new(1));
        let memory = Arc::new(ConnectionMemory::new(budget));
        add_indexes_with(&db, Some(&memory)).unwrap();
        assert_eq!(memory.used(), 0);
        let table = db.catalog().table("d", "t").unwrap().clone();
        let (rows, problems) = db.define(|cx| db.check_table(cx, &table)).unwrap();
        assert_eq!((rows, problems.len()), (2000, 0), "{problems:?}");
    }

    #[test]
    fn indexes_of_several_runs_are_complete_and_unique() {
        // Descending: each run goes before those written earlier.
        let db = filled(2000, |id| 5000 - id);
        add_indexes(&db).unwrap();
        let table = db.catalog().table("d", "t").unwrap().clone();
        assert_eq!(table.indexes.len(), 3);
        let (rows, problems) = db.define(|cx| db.check_table(cx, &table)).unwrap();
        assert_eq!((rows, problems.len()), (2000, 0), "{problems:?}");
        // Duplicates within a run, and of rows that are many runs apart.
        for other in [1, 1900] {
            let db = filled(2000, |id| if id == other { 0 } else { id });
            let error = add_indexes(&db).unwrap_err();
            assert!(
                matches!(&error, Error::Duplicate { entry, key } if entry == "0" && key == "t.a"),
                "{error}"
            );
            assert_eq!(db.catalog().table("d", "t").unwrap().indexes.len(), 1);
        }
    }
}
