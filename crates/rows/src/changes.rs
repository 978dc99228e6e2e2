//! Capture of row changes for the change log (docs/internals/replication.md).
//!
//! Every row that a transaction inserts, updates or deletes passes through three functions of
//! [`crate::txn`]. If the database has a [`ChangeLog`], they add the row before and after to the transaction's
//! [`TransactionChanges`], in the order of the writes; at commit the log turns them into bytes that the engine
//! stores with the commit (an annotation, [`porpoise_kv::AnnotationReader`]). Changes of foreign-key actions,
//! triggers, memcached commands, the native protocol and expiry are captured like all others, because nothing
//! else writes rows. A data definition statement is captured as its text, with the commit of the catalog.
//!
//! Invariants:
//! 1. A transaction without a log pays for one comparison a row.
//! 2. What a rollback to a savepoint undoes is not in the log: a change has the statement mark before its writes,
//!    and a rollback to that mark, or an earlier one, removes it.
//! 3. Images are complete: overflow values are read before they are deleted.
//! 4. System tables and temporary tables are not logged.
//!
//! Rejected: images rebuilt from the engine's log (it has no old values, and only keys of deleted rows); capture
//! in the protocols (cascades would be missing).

use crate::definition::TableId;
use crate::row::RowRef;
use crate::table::Table;
use porpoise_kv::{CommitPosition, StatementMark};
use porpoise_types::{Value, ValueRef};
use smallvec::SmallVec;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Maximum number of keys that are recorded for a transaction; one with more depends on all before it.
const MAX_KEYS: usize = 1000;

/// Databases whose rows are not logged: the server itself writes to them.
const SYSTEM_DATABASES: [&str; 4] = ["mysql", "sys", "information_schema", "performance_schema"];

/// Whether rows of a database are never logged.
#[must_use]
pub fn is_system_database(name: &str) -> bool {
    SYSTEM_DATABASES
        .iter()
        .any(|system| name.eq_ignore_ascii_case(system))
}

/// The kind of a row's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A row was inserted.
    Insert,
    /// A row was changed.
    Update,
    /// A row was deleted.
    Delete,
}

/// The row before a change, with all values.
#[derive(Clone, Copy)]
pub struct OldRow<'a> {
    row: RowRef<'a>,
}

impl<'a> OldRow<'a> {
    /// The value of a column.
    #[must_use]
    pub fn get(&self, column: usize) -> ValueRef<'a> {
        self.row.get(column)
    }
}

/// The row after a change.
#[derive(Clone, Copy)]
pub struct NewRow<'a> {
    values: &'a [Value],
    /// The row before as the statement read it, and with all values, if it was read with prefixes of some: a value
    /// that equals the prefix stands for the whole.
    old: Option<(RowRef<'a>, RowRef<'a>)>,
}

impl<'a> NewRow<'a> {
    /// The value of a column.
    #[must_use]
    pub fn get(&self, column: usize) -> ValueRef<'a> {
        let new = self
            .values
            .get(column)
            .map_or(ValueRef::Null, Value::as_ref);
        match &self.old {
            Some((read, whole)) if read.get(column) == new => whole.get(column),
            _ => new,
        }
    }
}

/// One row's change.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// A row was inserted.
    Insert(NewRow<'a>),
    /// A row was changed.
    Update(OldRow<'a>, NewRow<'a>),
    /// A row was deleted.
    Delete(OldRow<'a>),
}

impl<'a> Change<'a> {
    pub(crate) fn insert(values: &'a [Value]) -> Change<'a> {
        Change::Insert(NewRow { values, old: None })
    }

    pub(crate) fn delete(whole: RowRef<'a>) -> Change<'a> {
        Change::Delete(OldRow { row: whole })
    }

    /// `whole` is the old row with all values, `read` the same as the statement read it, if it has read prefixes only.
    pub(crate) fn update(
        read: Option<RowRef<'a>>,
        whole: RowRef<'a>,
        values: &'a [Value],
    ) -> Change<'a> {
        let new = NewRow {
            values,
            old: read.map(|read| (read, whole)),
        };
        Change::Update(OldRow { row: whole }, new)
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ChangeKind {
        match self {
            Change::Insert(_) => ChangeKind::Insert,
            Change::Update(..) => ChangeKind::Update,
            Change::Delete(_) => ChangeKind::Delete,
        }
    }
}

/// The columns in the images of a change: bits before, then after. Empty: all columns.
pub type ImageColumns = Vec<bool>;

/// A captured change.
#[derive(Clone, Debug)]
struct Captured {
    mark: StatementMark,
    table: usize,
    kind: ChangeKind,
    columns: ImageColumns,
    version: u64,
    /// End of its images in the buffer.
    end: usize,
}

/// A table that a transaction has changed.
#[derive(Clone, Debug)]
struct ChangedTable {
    id: TableId,
    version: u32,
    /// The log's description of it; `None` if it is not logged.
    description: Option<Arc<[u8]>>,
}

/// Keys by which the transactions of a log depend on each other: for each row before and after, its values in the
/// unique indexes, which it writes, and those of the parents that its foreign keys reference. Two transactions may be
/// applied in any order if neither writes a key that the other uses.
#[derive(Clone, Debug, Default)]
pub struct ChangedKeys {
    /// Hashes of keys; the lowest bit is set if the key is written.
    hashes: SmallVec<[u64; 4]>,
    /// Whether there were too many.
    is_incomplete: bool,
}

impl ChangedKeys {
    /// The hashes of keys, and whether each is written; `None`: they are not known.
    #[must_use]
    pub fn iter(&self) -> Option<impl Iterator<Item = (u64, bool)>> {
        let keys = self.hashes.iter().map(|hash| (hash >> 1, hash & 1 == 1));
        (!self.is_incomplete).then_some(keys)
    }

    /// Adds a key in a unique index of a table.
    pub(crate) fn push(&mut self, table: TableId, index: usize, key: &[u8], is_written: bool) {
        if self.hashes.len() == MAX_KEYS {
            self.is_incomplete = true;
            self.hashes.clear();
        }
        if !self.is_incomplete {
            let hash = xxh3_64_with_seed(key, table.0 << 8 ^ index as u64);
            self.hashes.push(hash & !1 | u64::from(is_written));
        }
    }

    /// Adds the key of a change that may affect any row of a table.
    pub(crate) fn push_table(&mut self, table: TableId) {
        self.push(table, usize::MAX, &[], true);
    }
}

/// The changes of a transaction.
#[derive(Clone, Debug, Default)]
pub struct TransactionChanges {
    tables: Vec<ChangedTable>,
    changes: Vec<Captured>,
    images: Vec<u8>,
    /// Keys of all changes, including those that were rolled back.
    pub(crate) keys: ChangedKeys,
    /// Origin of the transaction, if another server ran it first.
    pub origin: Option<Origin>,
}

/// A captured change, for the log.
pub struct LoggedChange<'c> {
    /// Number of its table among those of the transaction.
    pub table: usize,
    /// The log's description of the table.
    pub description: &'c [u8],
    /// Its kind.
    pub kind: ChangeKind,
    /// The columns in its images.
    pub columns: &'c [bool],
    /// Version of the row after the change; 0 of a deletion.
    pub version: u64,
    /// The encoded images.
    pub images: &'c [u8],
}

impl TransactionChanges {
    /// Whether nothing was captured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes of the captured images.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.images.len()
    }

    /// The changes in the order of the writes.
    pub fn iter(&self) -> impl Iterator<Item = LoggedChange<'_>> {
        let mut start = 0;
        self.changes.iter().map(move |change| {
            let images = self.images.get(start..change.end).unwrap_or_default();
            start = change.end;
            let table = self.tables.get(change.table);
            LoggedChange {
                table: change.table,
                description: table
                    .and_then(|table| table.description.as_deref())
                    .unwrap_or_default(),
                kind: change.kind,
                columns: &change.columns,
                version: change.version,
                images,
            }
        })
    }

    /// Number of a table, which `describe` describes if it is new; `None` if it is not logged.
    pub(crate) fn table(
        &mut self,
        table: &Table,
        describe: impl FnOnce() -> Option<Arc<[u8]>>,
    ) -> Option<usize> {
        let is = |known: &ChangedTable| known.id == table.id && known.version == table.version;
        // The last one is most often the one.
        let known = self.tables.iter().rposition(is);
        let at = known.unwrap_or_else(|| {
            self.tables.push(ChangedTable {
                id: table.id,
                version: table.version,
                description: describe(),
            });
            self.tables.len() - 1
        });
        let is_logged = self.tables.get(at).is_some_and(|t| t.description.is_some());
        is_logged.then_some(at)
    }

    /// Captures a change of a row of the table with this number; `version` is that of the row after the change.
    pub(crate) fn push(
        &mut self,
        log: &dyn ChangeLog,
        mark: StatementMark,
        (number, table): (usize, &Table),
        change: &Change<'_>,
        version: u64,
    ) {
        let Some(columns) = log.encode(table, change, &mut self.images) else {
            return;
        };
        self.changes.push(Captured {
            mark,
            table: number,
            kind: change.kind(),
            columns,
            version,
            end: self.images.len(),
        });
    }

    /// Removes what was captured since a statement mark.
    pub(crate) fn rollback_to(&mut self, mark: StatementMark) {
        let kept = self.changes.partition_point(|change| change.mark < mark);
        self.changes.truncate(kept);
        let end = self.changes.last().map_or(0, |change| change.end);
        self.images.truncate(end);
    }
}

/// Origin of a transaction that another server ran first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Number of that server.
    pub server_id: u32,
    /// Its global transaction id: the source's UUID and the number.
    pub gtid: Option<([u8; 16], i64)>,
    /// Time of its commit there, in microseconds since 1970 UTC.
    pub commit_micros: u64,
}

/// A statement that is logged as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedStatement {
    /// Number of the connection.
    pub connection: u32,
    /// The text, in UTF-8.
    pub text: Vec<u8>,
    /// The default database; empty: none.
    pub database: String,
    /// The bits of `sql_mode`.
    pub sql_mode: u64,
    /// Whether foreign keys are checked.
    pub foreign_key_checks: bool,
    /// `time_zone`.
    pub time_zone: String,
    /// Time of the statement in microseconds since 1970 UTC.
    pub micros: i64,
    /// Origin of the statement, if another server ran it first.
    pub origin: Option<Origin>,
}

/// State and counters of commits that wait for replicas' acknowledgement, as SHOW STATUS has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckStatus {
    /// Whether commits wait at present.
    pub is_waiting_mode: bool,
    /// Connected replicas that acknowledge.
    pub clients: u64,
    /// Commits that wait.
    pub waiting: u64,
    /// Commits acknowledged in time.
    pub acknowledged: u64,
    /// Commits that passed without acknowledgement.
    pub passed: u64,
    /// Number of timeouts.
    pub timeouts: u64,
    /// Total time in which commits have waited, in microseconds.
    pub wait_micros: u64,
}

/// A log of changes.
pub trait ChangeLog: Send + Sync {
    /// Describes a table for the log, or returns `None` if its rows are not logged.
    fn describe(&self, table: &Table) -> Option<Arc<[u8]>>;

    /// Appends the images of a change, and returns their columns. Appends nothing and returns `None` if the log
    /// needs nothing of it: no value differs.
    fn encode(&self, table: &Table, change: &Change<'_>, out: &mut Vec<u8>)
    -> Option<ImageColumns>;

    /// The annotation of a transaction. `micros` is the time in microseconds since 1970 UTC.
    fn transaction(&self, changes: &TransactionChanges, micros: i64) -> Vec<u8>;

    /// Records the keys of a transaction that was committed at this position with an annotation of
    /// [`ChangeLog::transaction`]. The log may already have read the annotation.
    fn committed(&self, position: CommitPosition, keys: ChangedKeys) {
        let _ = (position, keys);
    }

    /// The annotation of a statement.
    fn statement(&self, statement: &LoggedStatement) -> Vec<u8>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::TableDef;

    struct Plain;

    impl ChangeLog for Plain {
        fn describe(&self, table: &Table) -> Option<Arc<[u8]>> {
            (!is_system_database(&table.database)).then(|| table.name.as_bytes().into())
        }

        fn encode(&self, _: &Table, _: &Change<'_>, out: &mut Vec<u8>) -> Option<ImageColumns> {
            out.push(7);
            Some(Vec::new())
        }

        fn transaction(&self, _: &TransactionChanges, _: i64) -> Vec<u8> {
            Vec::new()
        }

        fn statement(&self, _: &LoggedStatement) -> Vec<u8> {
            Vec::new()
        }
    }

    fn table(id: u64, database: &str) -> Table {
        Table::new(TableDef::without_columns(id, database, &format!("t{id}")))
    }

    #[test]
    fn a_rollback_to_a_mark_removes_what_was_captured_since() {
        let mut changes = TransactionChanges::default();
        let tables = [table(1, "d"), table(2, "d"), table(3, "MySQL")];
        for (mark, at) in [(0, 0), (2, 1), (2, 0), (5, 1)] {
            let table = &tables[at];
            let number = changes.table(table, || Plain.describe(table)).unwrap();
            changes.push(
                &Plain,
                StatementMark(mark),
                (number, table),
                &Change::insert(&[]),
                1,
            );
        }
        assert_eq!(
            changes.table(&tables[2], || Plain.describe(&tables[2])),
            None
        );
        changes.rollback_to(StatementMark(6));
        assert_eq!(changes.iter().count(), 4);
        changes.rollback_to(StatementMark(2));
        let left: Vec<_> = changes
            .iter()
            .map(|c| (c.table, c.images.to_vec()))
            .collect();
        assert_eq!(left, [(0, vec![7])]);
        changes.rollback_to(StatementMark(0));
        assert!(changes.is_empty() && changes.bytes() == 0);
    }
}
