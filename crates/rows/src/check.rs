//! CHECK TABLE: compares rows, index entries and foreign keys with each other.
//!
//! For tests, `porpoise check` and the SQL statement. Everything is read in batches
//! from one snapshot of one transaction, so that concurrent writes are neither blocked
//! nor reported as problems; nothing is changed.
//!
//! Checked: every row has its entry in each index, and no other entries exist; every child
//! row has its parent; the auto-increment counter is above every value in its column; rows
//! are in the right partitions; overflow values have all their chunks, and no other chunks
//! exist; CHECK constraints hold; generated columns have the values of their expressions.
//! EXTENDED also checks each value ([`crate::check_values`]), and the rows of other tables that reference
//! the table.
//!
//! Expressions that read a TIMESTAMP are not checked: its text depends on the
//! session's time zone. An expression that does not compile, or fails for a
//! row, is a problem, because writes to the table are refused.

use crate::check_text::{TextCheck, TextProblem};
use crate::check_values::value_problem;
use crate::db::Db;
use crate::ddl::DdlCx;
use crate::ddl::walk::{BATCH, Batch, read_batch};
use crate::definition::{Column, Index};
use crate::error::{Error, Result};
use crate::expressions::{RowContext, RowExpressions};
use crate::overflow;
use crate::progress::Stage;
use crate::row::RowRef;
use crate::table::Table;
use crate::text_index::TextIndex;
use porpoise_kv::{self as kv, Key, Read, SpaceId, TxnOptions};
use porpoise_types::{DateTime, Kind, Value, ValueRef, write_text};
use std::collections::HashSet;

/// An inconsistency found by the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The table, as `` `db`.`name` ``.
    pub table: String,
    /// Description of the inconsistency, with the key in hexadecimal.
    pub description: String,
}

/// Maximum number of problems reported for one table.
const MAX_PROBLEMS: usize = 100;

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The check of one table.
struct Checker<'a> {
    db: &'a Db,
    cx: &'a DdlCx<'a>,
    table: &'a Table,
    /// All reads use its snapshot.
    txn: Box<dyn kv::Txn>,
    problems: Vec<Problem>,
    /// Number of entries that the rows must have, by position of the index.
    elements: Vec<u64>,
    /// Checks of FULLTEXT indexes, by position of the index.
    texts: Vec<TextCheck>,
}

/// An index entry that a row must have.
struct Entry<'a> {
    space: SpaceId,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The row's primary key.
    primary: &'a [u8],
    /// Position of the index.
    position: usize,
}

impl Db {
    /// Checks one table against its indexes, its parents and its counter.
    /// Returns the number of rows and the problems found.
    ///
    /// # Errors
    /// The engine's; a cancellation.
    pub fn check_table(&self, cx: &DdlCx<'_>, table: &Table) -> Result<(u64, Vec<Problem>)> {
        self.check_with(cx, table, false)
    }

    /// As [`Db::check_table`]; checks also that each value is one that its column can store, and that the
    /// rows of other tables that reference this one have their parents.
    ///
    /// # Errors
    /// As there.
    pub fn check_table_extended(
        &self,
        cx: &DdlCx<'_>,
        table: &Table,
    ) -> Result<(u64, Vec<Problem>)> {
        self.check_with(cx, table, true)
    }

    fn check_with(
        &self,
        cx: &DdlCx<'_>,
        table: &Table,
        extended: bool,
    ) -> Result<(u64, Vec<Problem>)> {
        let mut txn = self.engine().begin(TxnOptions::default())?;
        txn.pin()?;
        let mut checker = Checker {
            db: self,
            cx,
            table,
            txn,
            problems: Vec::new(),
            elements: vec![0; table.indexes.len()],
            texts: table.indexes.iter().map(|_| TextCheck::default()).collect(),
        };
        self.begin_stage(cx, Stage::Validating, table, "");
        let mut rows = checker.check_all();
        if extended {
            rows = rows.and_then(|rows| checker.check_more().map(|()| rows));
        }
        cx.metadata_locks.progress().end();
        checker.txn.rollback();
        Ok((rows?, checker.problems))
    }
}

impl Checker<'_> {
    fn check_all(&mut self) -> Result<u64> {
        let table = self.table;
        let rows = self.check_rows()?;
        for (position, index) in table.indexes.iter().enumerate().skip(1) {
            if let Some(text_index) = table.text_index(position) {
                self.check_text_entries(position, index, text_index)?;
                continue;
            }
            let entries = self.count_entries(index)?;
            let counted = self.elements.get(position).copied().unwrap_or(0);
            let (expected, of) = if table.array_column_of(position).is_some() {
                (counted, "elements")
            } else {
                (rows, "rows")
            };
            if entries != expected {
                self.report(format!(
                    "index `{}` has {entries} entries for {expected} {of}",
                    index.name
                ));
            }
        }
        self.check_placement()?;
        self.check_expressions()?;
        self.check_parents()?;
        Ok(rows)
    }

    /// The additional checks of EXTENDED.
    fn check_more(&mut self) -> Result<()> {
        self.check_values()?;
        self.check_children()
    }

    fn report(&mut self, description: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem {
                table: self.table.quoted_name(),
                description,
            });
        }
    }

    /// Hands every batch of a space to `each`.
    fn for_each_batch(
        &mut self,
        space: SpaceId,
        mut each: impl FnMut(&mut Self, &Batch) -> Result<()>,
    ) -> Result<()> {
        let mut next = Some(Vec::new());
        while let Some(start) = next {
            let (txn, read) = (self.txn.as_mut(), Read::SNAPSHOT);
            let (batch, rest) = read_batch(self.cx, txn, read, space, &start, BATCH, <[u8]>::len)?;
            each(self, &batch)?;
            next = rest;
        }
        Ok(())
    }

    /// Hands every batch of rows to `each`.
    fn for_each_row_batch(
        &mut self,
        mut each: impl FnMut(&mut Self, &Batch) -> Result<()>,
    ) -> Result<()> {
        let spaces = self.table.index_spaces(0);
        spaces
            .iter()
            .try_for_each(|s| self.for_each_batch(*s, &mut each))
    }

    /// Checks that each row can be decoded, is stored under its primary key, and has all its
    /// index entries. Returns the number of rows.
    fn check_rows(&mut self) -> Result<u64> {
        let table = self.table;
        let auto = table.auto_increment();
        let mut count = 0u64;
        let mut highest = 0u64;
        self.for_each_row_batch(|checker, batch| {
            count += batch.len() as u64;
            let mut entries: Vec<Entry<'_>> = Vec::new();
            for (pk, bytes) in batch {
                let row = match RowRef::new(table, bytes) {
                    Ok(row) => row,
                    Err(error) => {
                        checker.report(format!("row {} cannot be read: {error}", hex(pk)));
                        continue;
                    }
                };
                if let Some(column) = auto {
                    highest = highest.max(match row.get(column) {
                        ValueRef::Int(v) => u64::try_from(v).unwrap_or(0),
                        ValueRef::UInt(v) => v,
                        _ => 0,
                    });
                }
                checker.entries_of_row(pk, &row, &mut entries)?;
            }
            checker.find_entries(&entries)?;
            let progress = checker.cx.metadata_locks.progress();
            progress.advance(batch.len() as u64);
            Ok(())
        })?;
        if auto.is_some() && highest >= self.db.auto_increment_bound(table)? {
            self.report(format!("the auto-increment counter is not above {highest}"));
        }
        Ok(count)
    }

    /// Reports a row at a wrong key, and adds the entries that it must have.
    fn entries_of_row<'b>(
        &mut self,
        pk: &'b [u8],
        row: &RowRef<'_>,
        entries: &mut Vec<Entry<'b>>,
    ) -> Result<()> {
        let table = self.table;
        let mut own = Vec::new();
        table.append_primary_key(row, &mut own);
        if !table.hidden_key && own != *pk {
            self.report(format!(
                "row {} is stored under a key that does not match its primary key",
                hex(pk)
            ));
        }
        for position in 1..table.indexes.len() {
            if let Some(index) = table.text_index(position) {
                self.add_texts(pk, row, position, index)?;
                continue;
            }
            let found = table.whole_entries(position, row, pk);
            if let Some(elements) = self.elements.get_mut(position) {
                *elements += found.len() as u64;
            }
            entries.extend(found.into_iter().map(|entry| Entry {
                space: table.space(position, &entry.key),
                key: entry.key,
                value: entry.value,
                primary: pk,
                position,
            }));
        }
        Ok(())
    }

    /// Adds the texts of a row to the check of a FULLTEXT index.
    fn add_texts(
        &mut self,
        pk: &[u8],
        row: &RowRef<'_>,
        position: usize,
        index: &TextIndex,
    ) -> Result<()> {
        let (txn, read) = (self.txn.as_mut(), Read::SNAPSHOT);
        let whole = match overflow::complete_row(txn, read, self.table, pk, row.bytes()) {
            // Missing chunks are reported elsewhere.
            Err(Error::Corrupt(_)) => return Ok(()),
            whole => whole?,
        };
        let whole = whole.as_deref().map(|bytes| RowRef::new(self.table, bytes));
        let whole = whole.transpose()?;
        let row = whole.as_ref().unwrap_or(row);
        let texts = index.texts(|column| row.get(column));
        let check = self.texts.get_mut(position);
        check.map_or(Ok(()), |check| check.add_row(index, &texts, pk))
    }

    /// Compares the entries of a FULLTEXT index with the texts of all rows.
    fn check_text_entries(
        &mut self,
        position: usize,
        definition: &Index,
        index: &TextIndex,
    ) -> Result<()> {
        let mut check = self
            .texts
            .get_mut(position)
            .map(std::mem::take)
            .unwrap_or_default();
        let mut problems = Vec::new();
        for is_removal_pass in [true, false] {
            for space in &definition.spaces {
                self.for_each_batch(*space, |_, batch| {
                    for (key, value) in batch {
                        let done = if is_removal_pass {
                            check.add_removal(key, value)
                        } else {
                            check.subtract(index, key, value)
                        };
                        problems.extend(done.err());
                    }
                    Ok(())
                })?;
            }
        }
        let name = &definition.name;
        for problem in problems.into_iter().chain(check.problems()) {
            self.report(match problem {
                TextProblem::Malformed(key) => {
                    format!("entry {} of `{name}` is malformed", hex(&key))
                }
                TextProblem::Missing(row) => format!("row {} has no entry in `{name}`", hex(&row)),
                TextProblem::Surplus(row) => {
                    format!(
                        "`{name}` has entries of row {} that are not its words",
                        hex(&row)
                    )
                }
            });
        }
        Ok(())
    }

    /// Looks the entries up in one engine call and reports missing ones.
    fn find_entries(&mut self, entries: &[Entry<'_>]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let keys: Vec<Key<'_>> = entries.iter().map(|e| Key::new(e.space, &e.key)).collect();
        let mut exists = vec![false; keys.len()];
        self.txn.get(Read::SNAPSHOT, &keys, &mut |n, value| {
            if let (Some(exists), Some(entry)) = (exists.get_mut(n), entries.get(n)) {
                *exists = value == Some(entry.value.as_slice());
            }
        })?;
        for (entry, _) in entries.iter().zip(exists).filter(|(_, exists)| !exists) {
            let index = self.table.indexes.get(entry.position);
            let name = index.map_or("", |index| index.name.as_str());
            let row = hex(entry.primary);
            self.report(format!("row {row} has no entry in `{name}`"));
        }
        Ok(())
    }

    /// Counts the entries of `index`. As [`Checker::check_rows`] finds the entries of all rows, an
    /// equal count means that no entry is left over.
    fn count_entries(&mut self, index: &Index) -> Result<u64> {
        let mut count = 0;
        for space in &index.spaces {
            self.for_each_batch(*space, |checker, batch| {
                count += batch.len() as u64;
                for (key, value) in batch {
                    if index.primary_of(key, value).is_err() {
                        let name = &index.name;
                        checker.report(format!("entry {} of `{name}` is malformed", hex(key)));
                    }
                }
                Ok(())
            })?;
        }
        Ok(count)
    }

    /// Reports rows without a parent.
    fn check_parents(&mut self) -> Result<()> {
        let (db, table) = (self.db, self.table);
        for key in &table.foreign_keys {
            self.for_each_row_batch(|checker, batch| {
                let mut orphans = Vec::new();
                let (txn, read) = (checker.txn.as_mut(), Read::SNAPSHOT);
                db.orphans(table, key, batch, txn, read, &mut |pk| {
                    orphans.push(hex(pk));
                    Ok(())
                })?;
                for pk in orphans {
                    checker.report(format!("row {pk} has no parent under `{}`", key.name));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Reports rows in wrong partitions, and chunks that are missing or left over.
    fn check_placement(&mut self) -> Result<()> {
        let table = self.table;
        if table.partitioning.is_none() && table.overflow_spaces.is_empty() {
            return Ok(());
        }
        for (partition, space) in table.index_spaces(0).iter().enumerate() {
            let mut referenced_chunks: HashSet<Vec<u8>> = HashSet::new();
            let overflow = table.overflow_spaces.get(partition).copied();
            self.for_each_batch(*space, |checker, batch| {
                for (key, value) in batch {
                    // A row that cannot be read is reported with the rows.
                    if let Ok(row) = RowRef::new(table, value) {
                        checker.check_partition(partition, key, &row);
                        if let Some(space) = overflow {
                            checker.check_chunks(space, key, &row, &mut referenced_chunks)?;
                        }
                    }
                }
                Ok(())
            })?;
            let Some(overflow) = overflow else { continue };
            self.for_each_batch(overflow, |checker, batch| {
                for (key, _) in batch
                    .iter()
                    .filter(|(key, _)| !referenced_chunks.contains(key))
                {
                    checker.report(format!(
                        "chunk {} of a large value belongs to no row",
                        hex(key)
                    ));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn check_partition(&mut self, partition: usize, key: &[u8], row: &RowRef<'_>) {
        let table = self.table;
        if table.partition_of_columns(row).ok() != Some(partition)
            || table.partition_of(0, key) != partition
        {
            let name = table.partitioning.as_ref();
            let name = name.and_then(|by| by.leaf_name(partition));
            let name = name.unwrap_or_default();
            self.report(format!(
                "row {} is in the wrong partition `{name}`",
                hex(key)
            ));
        }
    }

    /// Reports chunks of a row that are missing, and adds the keys of all to `referenced_chunks`.
    fn check_chunks(
        &mut self,
        space: SpaceId,
        key: &[u8],
        row: &RowRef<'_>,
        referenced_chunks: &mut HashSet<Vec<u8>>,
    ) -> Result<()> {
        for column in row.overflow_columns() {
            let keys: Vec<_> = (0..column.head.chunks())
                .map(|n| column.head.chunk_key(n))
                .collect();
            let wanted: Vec<Key<'_>> = keys.iter().map(|k| Key::new(space, k)).collect();
            let mut bytes = column.head.prefix();
            let mut missing = 0;
            let count = &mut |_, value: Option<&[u8]>| match value {
                Some(value) => bytes += value.len(),
                None => missing += 1,
            };
            self.txn.get(Read::SNAPSHOT, &wanted, count)?;
            if missing > 0 || bytes != column.head.len() {
                self.report(format!(
                    "row {}: {missing} chunks of column {} are missing: {bytes} of {} bytes were found",
                    hex(key),
                    column.position,
                    column.head.len()
                ));
            }
            referenced_chunks.extend(keys.iter().map(|k| k.to_vec()));
        }
        Ok(())
    }

    /// Calls `visit` with the primary key and the row of each row that can be read, with its large values.
    fn for_each_complete_row(
        &mut self,
        mut visit: impl FnMut(&mut Self, &[u8], &RowRef<'_>),
    ) -> Result<()> {
        let table = self.table;
        self.for_each_row_batch(|checker, batch| {
            for (primary, bytes) in batch {
                let (txn, read) = (checker.txn.as_mut(), Read::SNAPSHOT);
                let whole = match overflow::complete_row(txn, read, table, primary, bytes) {
                    Ok(whole) => whole,
                    // Missing chunks are reported elsewhere.
                    Err(Error::Corrupt(_)) => continue,
                    Err(error) => return Err(error),
                };
                if let Ok(row) = RowRef::new(table, whole.as_deref().unwrap_or(bytes)) {
                    visit(checker, primary, &row);
                }
            }
            Ok(())
        })
    }

    /// Reports values that their columns cannot store.
    fn check_values(&mut self) -> Result<()> {
        let table = self.table;
        // Elements of a multi-valued index have no column of their own kind.
        let arrays: Vec<usize> = (0..table.indexes.len())
            .filter_map(|index| table.array_column_of(index))
            .collect();
        self.for_each_complete_row(|checker, primary, row| {
            for (at, column) in table.columns.iter().enumerate() {
                if arrays.contains(&at) {
                    continue;
                }
                if let Some(problem) = value_problem(column, row.get(at)) {
                    let (row, name) = (hex(primary), &column.name);
                    checker.report(format!("row {row}: column `{name}` {problem}"));
                }
            }
        })
    }

    /// Reports rows of tables that reference this one, if they have no parent.
    fn check_children(&mut self) -> Result<()> {
        let catalog = self.db.catalog();
        for (child, position) in &self.table.referenced_by {
            let Some(child) = catalog.table_by_id(*child) else {
                continue;
            };
            let Some(key) = child.foreign_keys.get(*position) else {
                continue;
            };
            for space in child.index_spaces(0) {
                self.for_each_batch(*space, |checker, batch| {
                    let mut orphans = Vec::new();
                    let (db, txn) = (checker.db, checker.txn.as_mut());
                    db.orphans(child, key, batch, txn, Read::SNAPSHOT, &mut |row| {
                        orphans.push(hex(row));
                        Ok(())
                    })?;
                    for row in orphans {
                        let (child, key) = (child.quoted_name(), &key.name);
                        checker.report(format!("row {row} of {child} has no parent under `{key}`"));
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Reports rows that violate a check, or whose generated columns have other values
    /// than their expressions.
    fn check_expressions(&mut self) -> Result<()> {
        let table = self.table;
        if !table.evaluates_expressions() || depends_on_zone(table) {
            return Ok(());
        }
        let expressions = match self.db.expressions(table) {
            Ok(expressions) => expressions,
            Err(error) => {
                self.report(format!(
                    "an expression of the table definition cannot be compiled: {error}"
                ));
                return Ok(());
            }
        };
        let mut env = RowContext::plain(DateTime::ZERO);
        env.strict = false;
        self.for_each_complete_row(|checker, primary, row| {
            for problem in expression_problems(table, expressions.as_ref(), &row.values(), &env) {
                checker.report(format!("row {} {problem}", hex(primary)));
            }
        })
    }
}

/// Whether an expression reads a TIMESTAMP, whose text depends on the session's time zone.
fn depends_on_zone(table: &Table) -> bool {
    let zoned = |name: &String| {
        let column = table.column(name).and_then(|at| table.columns.get(at));
        column.is_some_and(|c| c.ty.kind == Kind::Timestamp)
    };
    let generated = table.columns.iter().filter_map(|c| c.generated.as_ref());
    let generated = generated.map(|g| &g.expression);
    let checks = table.enforced_checks().map(|c| &c.expression);
    generated.chain(checks).any(|e| e.columns.iter().any(zoned))
}

fn text(value: &Value, column: &Column) -> Vec<u8> {
    let mut out = Vec::new();
    write_text(value.as_ref(), &column.ty, &mut out);
    out
}

/// Problems of one row, each worded to follow "row KEY" in the message.
fn expression_problems(
    table: &Table,
    expressions: &dyn RowExpressions,
    row: &[Value],
    env: &RowContext,
) -> Vec<String> {
    let mut computed = row.to_vec();
    let mut all = Vec::new();
    match expressions.generate(&mut computed, 1, env) {
        Ok(()) => {
            for ((column, is), should) in table.columns.iter().zip(row).zip(&computed) {
                if is != should && text(is, column) != text(should, column) {
                    let name = &column.name;
                    all.push(format!(
                        "differs in column `{name}` from its generation expression"
                    ));
                }
            }
        }
        Err(error) => all.push(format!("cannot be computed: {error}")),
    }
    if let Err(error) = expressions.check(row, env) {
        all.push(format!("is refused: {error}"));
    }
    env.warnings.borrow_mut().clear();
    all
}
