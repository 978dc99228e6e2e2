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
//! large values have all their parts ([`crate::check_placement`]); checks hold
//! and generated columns are what they should be ([`crate::check_program`]).

use crate::catalog::{Index, IndexKind, Table};
use crate::db::Db;
use crate::ddl::DdlCx;
use crate::error::Result;
use crate::row::RowRef;
use porpoise_kv::{Key, Read, SpaceId, TxnOptions};
use porpoise_types::ValueRef;

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
        self.check_program(cx, table, &mut |what| found.add(what))?;
        for key in &table.foreign_keys {
            self.each_orphan(cx, table, key, |pk| {
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
        self.each_batch(cx, table, |batch| {
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
                    found.add(format!("row {} stands at a key not its own", hex(pk)));
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
