//! Computes the dependencies between transactions of a source from the keys that they write: which of them must be committed
//! before another one may begin.
//!
//! The thread that reads the source adds each transaction in the order of the source's log. Its keys are
//!
//! * *written*: for each row before and after, its value in every unique index (the primary key is one);
//! * *referenced*: for each row before and after, the parent's key of every foreign key.
//!
//! Keys of parents are encoded as in the unique index that has them, so that keys of both kinds are comparable:
//!
//! ```text
//!    1  INSERT p(7)             writes p.7
//!    2  INSERT c(1, p = 7)      writes c.1, references p.7       depends on 1
//!    3  INSERT c(2, p = 7)      writes c.2, references p.7       depends on 1: may run beside 2
//!    4  DELETE p(8)             writes p.8                       depends on nothing
//!    5  DELETE c(1), c(2)       writes c.1, c.2, references p.7  depends on 3
//!    6  DELETE p(7)             writes p.7                       depends on 5
//! ```
//!
//! [`KeyHistory`] determines the dependencies. Where the keys do not determine the rows that a change affects, the whole table is the key (no primary key,
//! a unique index over expressions), or the transaction runs alone (actions of foreign keys that the source does not
//! log, tables that are not found).
//!
//! Invariant: a missed dependency costs time, not correctness: row locks are kept until the commits, which are in
//! order, so that of two transactions that change the same row the later one fails or is rolled back ([`super::workers`]).
//!
//! Rejected: the groups of the source's log (`last_committed`, MariaDB's commit ids). They say which transactions
//! committed together at the source, so that a source with few connections gives a replica nothing to do in parallel;
//! MySQL and MariaDB write them differently, and with the keys they are not needed.

use super::transaction::{Selection, Wanted, find_table};
use crate::apply::{Applied, DecodedRows, MappedTable, RowImages};
use crate::dependencies::KeyHistory;
use crate::event::rows::flags as row_flags;
use crate::event::{RowChangeKind, RowImage, RowsEvent, TableMap};
use porpoise_rows::Db;
use porpoise_rows::definition::{FkAction, TableId};
use porpoise_rows::table::Table;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// The keys of a transaction.
#[derive(Default)]
pub(super) struct Keys {
    /// Hashes of keys, and whether they are written.
    keys: Vec<(u64, bool)>,
    /// Whether it must run alone.
    pub(super) is_alone: bool,
}

/// The number that stands for an index in the key of a whole table.
const WHOLE_TABLE: usize = usize::MAX;

/// A table, and the description by which the keys of its rows are computed.
struct KeyedTable {
    map: Arc<TableMap>,
    mapped: MappedTable,
    /// Positions of the unique indexes whose values are in the rows of an event.
    unique: Vec<usize>,
    /// Whether a change may concern any row.
    is_whole: bool,
    /// The parents of its foreign keys, by position.
    parents: Vec<Option<Arc<Table>>>,
    /// Columns that other tables reference with an action on updates, and whether there is an action on deletions.
    acts_on_update: Vec<usize>,
    acts_on_delete: bool,
}

/// The history of keys.
#[derive(Default)]
pub(super) struct WriteSets {
    hasher: RandomState,
    history: KeyHistory,
    /// Tables by the numbers of the source; `None`: filtered.
    tables: HashMap<u64, Option<KeyedTable>>,
    /// Version of the catalog that `tables` belongs to.
    catalog_version: u64,
}

impl WriteSets {
    /// Records a table to which the next rows events refer.
    pub(super) fn describe(
        &mut self,
        db: &Db,
        selection: &Selection,
        map: &Arc<TableMap>,
        keys: &mut Keys,
    ) {
        let version = db.catalog_version();
        if self.catalog_version != version {
            self.catalog_version = version;
            self.tables.clear();
        }
        if let Some(Some(known)) = self.tables.get(&map.table_id)
            && *known.map == **map
        {
            return;
        }
        let (database, name) = selection.names(map);
        let keyed = match selection.ranges(&database, &name) {
            Wanted::Nothing => None,
            Wanted::All | Wanted::Ranges(_) => {
                let table = find_table(db, &database, &name);
                match table.and_then(|table| KeyedTable::new(db, table, map)) {
                    Ok(keyed) => Some(keyed),
                    Err(_) => {
                        // The error is found again, and reported, when the transaction is applied.
                        keys.is_alone = true;
                        None
                    }
                }
            }
        };
        self.tables.insert(map.table_id, keyed);
    }

    /// Adds the keys of an event. Returns its rows, if they are those of one table of this server.
    pub(super) fn collect(&self, event: &RowsEvent, keys: &mut Keys) -> Option<DecodedRows> {
        match self.tables.get(&event.table_id) {
            Some(Some(table)) => match table.collect(&self.hasher, event, keys) {
                Ok(rows) => {
                    return Some(DecodedRows {
                        table: table.mapped.table().clone(),
                        map: table.map.clone(),
                        rows,
                    });
                }
                Err(_) => keys.is_alone = true,
            },
            Some(None) => {}
            None => keys.is_alone |= !event.data.is_empty(),
        }
        None
    }

    /// Adds a transaction; numbers ascend. Returns the number of the last transaction that must be committed before it.
    pub(super) fn enter(&mut self, number: u64, keys: &Keys) -> u64 {
        if keys.is_alone {
            self.history.add_alone(number)
        } else {
            self.history.enter(number, &keys.keys)
        }
    }
}

impl KeyedTable {
    fn new(db: &Db, table: Arc<Table>, map: &Arc<TableMap>) -> Applied<KeyedTable> {
        let catalog = db.catalog();
        let (mut unique, mut is_whole) = (Vec::new(), table.hidden_key);
        for (at, index) in table.indexes.iter().enumerate() {
            if !index.kind.is_unique() || (at == 0 && table.hidden_key) {
                continue;
            }
            let mut parts = index.parts.iter();
            let is_hidden = |column: usize| {
                table
                    .columns
                    .get(column)
                    .is_none_or(|column| column.is_hidden())
            };
            if parts.any(|part| is_hidden(part.column)) {
                is_whole = true;
            } else {
                unique.push(at);
            }
        }
        let parent = |id: TableId| catalog.tables.get(&id).cloned();
        let parents = table.foreign_keys.iter();
        let parents = parents.map(|key| parent(key.parent.as_ref()?.table));
        let parents = parents.collect();
        let (mut acts_on_update, mut acts_on_delete) = (Vec::new(), false);
        let acts = |action| matches!(action, FkAction::Cascade | FkAction::SetNull);
        for (child, position) in &table.referenced_by {
            let child = catalog.tables.get(child);
            let Some(key) = child.and_then(|child| child.foreign_keys.get(*position)) else {
                continue;
            };
            acts_on_delete |= acts(key.on_delete);
            if acts(key.on_update) {
                let names = key.parent_columns.iter();
                acts_on_update.extend(names.filter_map(|name| table.column(name)));
            }
        }
        Ok(KeyedTable {
            mapped: MappedTable::new(table, map.clone())?,
            map: map.clone(),
            unique,
            is_whole,
            parents,
            acts_on_update,
            acts_on_delete,
        })
    }

    fn collect(
        &self,
        hasher: &RandomState,
        event: &RowsEvent,
        keys: &mut Keys,
    ) -> Applied<Vec<RowImages>> {
        let mut rows = Vec::new();
        let table = self.mapped.table();
        if self.is_whole {
            let whole = hasher.hash_one((table.id.0, WHOLE_TABLE));
            keys.keys.push((whole, true));
        }
        let executes_actions = event.flags & row_flags::NO_FOREIGN_KEY_CHECKS == 0;
        for images in self.mapped.decode(event)? {
            let (first, second) = images?;
            if executes_actions {
                keys.is_alone |= match (event.kind, &second) {
                    (RowChangeKind::Delete, _) => self.acts_on_delete,
                    (RowChangeKind::Update, Some(after)) => self.changes_parent(&first, after),
                    _ => false,
                };
            }
            self.add(hasher, &first, keys);
            if let Some(after) = &second {
                self.add(hasher, after, keys);
            }
            rows.push((first, second));
        }
        Ok(rows)
    }

    /// Whether an update changes a column that other tables reference with an action.
    fn changes_parent(&self, before: &RowImage, after: &RowImage) -> bool {
        let mut columns = self.acts_on_update.iter();
        columns.any(|column| match (before.get(*column), after.get(*column)) {
            (before, Some(Some(after))) => before != Some(&Some(after.clone())),
            _ => false,
        })
    }

    /// Adds the keys of a row.
    fn add(&self, hasher: &RandomState, image: &RowImage, keys: &mut Keys) {
        let table = self.mapped.table();
        for at in &self.unique {
            if let Some(key) = table.index_key_of_image(*at, image) {
                keys.keys
                    .push((hasher.hash_one((table.id.0, *at, key)), true));
            }
        }
        for (foreign, parent) in table.foreign_keys.iter().zip(&self.parents) {
            let Some(parent) = parent else {
                continue;
            };
            if let Some((at, key)) = parent.key_referenced_by(foreign, image) {
                let hash = hasher.hash_one((parent.id.0, at, key));
                keys.keys.push((hash, false));
            }
        }
    }
}
