//! CHECK TABLE: rows, index entries and foreign keys held against each other.
//!
//! Meant for tests, for `porpoise check` and for the statement; it reads the
//! newest committed state in batches and changes nothing. On a table that is
//! being written to meanwhile it may report what was only in flight, so
//! callers hold a barrier over the table.
//!
//! Checked: every row has exactly its entry in each index; every entry leads
//! to a row that makes it; every child row has its parent; the auto-increment
//! counter is above every value in its column; rows lie in their partitions and
//! large values have all their parts, with none left over; checks hold and
//! generated columns have the values of their expressions.
//!
//! Expressions that read a TIMESTAMP are not checked: its text depends on the
//! session's time zone. An expression that does not compile, or fails for a
//! row, is a problem, because writes to the table are refused.

use crate::db::Db;
use crate::ddl::DdlCx;
use crate::definition::{Column, Index, IndexKind};
use crate::error::{Error, Result};
use crate::expressions::{RowContext, RowExpressions};
use crate::overflow;
use crate::row::RowRef;
use crate::table::Table;
use porpoise_kv::{self as kv, Key, Read, SpaceId, TxnOptions};
use porpoise_types::{DateTime, Kind, Value, ValueRef, write_text};
use std::collections::HashSet;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The table, as `` `db`.`name` ``.
    pub table: String,
    /// What is wrong, with the key in hexadecimal.
    pub what: String,
}

/// Problems reported at most for one table.
const MOST: usize = 100;

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

struct Found<'a> {
    table: &'a Table,
    problems: Vec<Problem>,
}

/// An entry that a row must have.
struct Entry<'a> {
    space: SpaceId,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The row's primary key.
    primary: &'a [u8],
    /// The index's name.
    index: &'a str,
}

impl Found<'_> {
    fn add(&mut self, what: String) {
        if self.problems.len() < MOST {
            self.problems.push(Problem {
                table: self.table.quoted_name(),
                what,
            });
        }
    }
}

impl Db {
    /// Checks one table against its indexes, its parents and its counter.
    /// Returns the number of rows and the problems found.
    pub fn check_table(&self, cx: &DdlCx<'_>, table: &Table) -> Result<(u64, Vec<Problem>)> {
        let mut found = Found {
            table,
            problems: Vec::new(),
        };
        let rows = self.check_rows(cx, table, &mut found)?;
        for index in table
            .indexes
            .iter()
            .filter(|i| i.kind != IndexKind::Primary)
        {
            let entries = self.check_entries(cx, index, &mut found)?;
            if entries != rows {
                found.add(format!(
                    "index `{}` has {entries} entries for {rows} rows",
                    index.name
                ));
            }
        }
        self.check_placement(cx, table, &mut |what| found.add(what))?;
        self.check_expressions_of_rows(cx, table, &mut |what| found.add(what))?;
        for key in &table.foreign_keys {
            self.for_each_orphan(cx, table, key, |pk| {
                let pk = hex(pk);
                found.add(format!("row {pk} has no parent under `{}`", key.name));
                Ok(())
            })?;
        }
        Ok((rows, found.problems))
    }

    /// Every row: readable, at its own key, with all its entries.
    fn check_rows(&self, cx: &DdlCx<'_>, table: &Table, found: &mut Found<'_>) -> Result<u64> {
        let auto = table.auto_increment();
        let mut count = 0u64;
        let mut highest = 0u64;
        self.for_each_batch(cx, table, |batch| {
            count += batch.len() as u64;
            let mut entries: Vec<Entry<'_>> = Vec::new();
            for (pk, bytes) in batch {
                let row = match RowRef::new(table, bytes) {
                    Ok(row) => row,
                    Err(error) => {
                        found.add(format!("row {} cannot be read: {error}", hex(pk)));
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
                let mut own = Vec::new();
                table.append_primary_key(&row, &mut own);
                if !table.hidden_key && own != *pk {
                    found.add(format!(
                        "row {} is stored under a key that does not match its primary key",
                        hex(pk)
                    ));
                }
                for (position, index) in table.indexes.iter().enumerate().skip(1) {
                    let (mut key, mut value) = (Vec::new(), Vec::new());
                    index.append_entry(table, &row, pk, &mut key);
                    index.append_entry_value(pk, &mut value);
                    entries.push(Entry {
                        space: table.space(position, &key),
                        key,
                        value,
                        primary: pk,
                        index: &index.name,
                    });
                }
            }
            self.check_there(&entries, found)
        })?;
        if auto.is_some() && highest >= self.next_auto_increment(table)? {
            found.add(format!("the auto-increment counter is not above {highest}"));
        }
        Ok(count)
    }

    /// Reports the entries that are not in the engine, by one call.
    fn check_there(&self, entries: &[Entry<'_>], found: &mut Found<'_>) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let keys: Vec<Key<'_>> = entries.iter().map(|e| Key::new(e.space, &e.key)).collect();
        let mut there = vec![false; keys.len()];
        let mut txn = self.engine().begin(TxnOptions::default())?;
        txn.get(Read::CURRENT, &keys, &mut |n, value| {
            if let (Some(place), Some(entry)) = (there.get_mut(n), entries.get(n)) {
                *place = value == Some(entry.value.as_slice());
            }
        })?;
        txn.rollback();
        for (entry, _) in entries.iter().zip(there).filter(|(_, there)| !there) {
            let (row, name) = (hex(entry.primary), entry.index);
            found.add(format!("row {row} has no entry in `{name}`"));
        }
        Ok(())
    }

    /// Counts the entries of `index`. With one entry a row guaranteed by
    /// `check_rows`, an equal count means that no entry is left over.
    fn check_entries(&self, cx: &DdlCx<'_>, index: &Index, found: &mut Found<'_>) -> Result<u64> {
        let mut count = 0;
        for space in &index.spaces {
            self.walk(cx, *space, <[u8]>::len, |txn, batch| {
                txn.rollback();
                count += batch.len() as u64;
                for (key, value) in batch {
                    if index.primary_of(key, value).is_err() {
                        let name = &index.name;
                        found.add(format!("entry {} of `{name}` is malformed", hex(key)));
                    }
                }
                Ok(())
            })?;
        }
        Ok(count)
    }
}

impl Db {
    /// Reports rows in wrong partitions, and parts that are missing or left
    /// over.
    pub(crate) fn check_placement(
        &self,
        cx: &DdlCx<'_>,
        table: &Table,
        report: &mut dyn FnMut(String),
    ) -> Result<()> {
        if table.partitioning.is_none() && table.overflow_spaces.is_empty() {
            return Ok(());
        }
        for (partition, space) in table.index_spaces(0).iter().enumerate() {
            let mut named: HashSet<Vec<u8>> = HashSet::new();
            let overflow = table.overflow_spaces.get(partition).copied();
            self.for_each_entry(cx, *space, |txn, key, value| {
                let Ok(row) = RowRef::new(table, value) else {
                    // Reported with the rows.
                    return Ok(());
                };
                if table.partition_of_columns(&row).ok() != Some(partition)
                    || table.partition_of(0, key) != partition
                {
                    let name = table.partitioning.as_ref();
                    let name = name.and_then(|by| by.partitions.get(partition));
                    let name = name.map_or("", |p| p.name.as_str());
                    report(format!(
                        "row {} is in the wrong partition `{name}`",
                        hex(key)
                    ));
                }
                match overflow {
                    Some(space) => check_chunks(txn, space, &row, key, &mut named, report),
                    None => Ok(()),
                }
            })?;
            let Some(overflow) = overflow else { continue };
            self.for_each_entry(cx, overflow, |_, key, _| {
                if !named.contains(key) {
                    report(format!(
                        "chunk {} of a large value belongs to no row",
                        hex(key)
                    ));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Walks a space; each entry comes with the transaction that read it.
    fn for_each_entry(
        &self,
        cx: &DdlCx<'_>,
        space: SpaceId,
        mut each: impl FnMut(&mut dyn kv::Txn, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.walk(cx, space, <[u8]>::len, |mut txn, batch| {
            for (key, value) in batch {
                each(txn.as_mut(), key, value)?;
            }
            txn.rollback();
            Ok(())
        })
    }
}

fn check_chunks(
    txn: &mut dyn kv::Txn,
    space: SpaceId,
    row: &RowRef<'_>,
    key: &[u8],
    named: &mut HashSet<Vec<u8>>,
    report: &mut dyn FnMut(String),
) -> Result<()> {
    for column in row.overflow_columns() {
        let keys: Vec<_> = (0..column.head.chunks())
            .map(|n| column.head.chunk_key(n))
            .collect();
        let wanted: Vec<Key<'_>> = keys.iter().map(|k| Key::new(space, k)).collect();
        let mut bytes = column.head.prefix();
        let mut missing = 0;
        txn.get(Read::CURRENT, &wanted, &mut |_, value| match value {
            Some(value) => bytes += value.len(),
            None => missing += 1,
        })?;
        if missing > 0 || bytes != column.head.len() {
            report(format!(
                "row {}: {missing} chunks of column {} are missing: {bytes} of {} bytes were found",
                hex(key),
                column.position,
                column.head.len()
            ));
        }
        named.extend(keys.iter().map(|k| k.to_vec()));
    }
    Ok(())
}

impl Db {
    /// Reports rows that violate a check, or hold another value than their
    /// expressions in a generated column.
    pub(crate) fn check_expressions_of_rows(
        &self,
        cx: &DdlCx<'_>,
        table: &Table,
        report: &mut dyn FnMut(String),
    ) -> Result<()> {
        if !table.evaluates_expressions() || depends_on_zone(table) {
            return Ok(());
        }
        let expressions = match self.expressions(table) {
            Ok(expressions) => expressions,
            Err(error) => {
                report(format!(
                    "an expression of the table definition cannot be compiled: {error}"
                ));
                return Ok(());
            }
        };
        let mut env = RowContext::plain(DateTime::ZERO);
        env.strict = false;
        self.for_each_batch(cx, table, |batch| {
            for (primary, bytes) in batch {
                let whole = match overflow::whole_row(self, table, primary, bytes) {
                    Ok(whole) => whole,
                    // What is missing of it is reported elsewhere.
                    Err(Error::Corrupt(_)) => continue,
                    Err(error) => return Err(error),
                };
                let Ok(row) = RowRef::new(table, whole.as_deref().unwrap_or(bytes)) else {
                    continue;
                };
                for problem in problems(table, expressions.as_ref(), &row.values(), &env) {
                    report(format!("row {} {problem}", hex(primary)));
                }
            }
            Ok(())
        })
    }
}

/// Whether an expression reads a column whose text depends on a session.
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

/// What is wrong with a row, in words that follow its key.
fn problems(
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
