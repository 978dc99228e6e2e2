//! ADD, DROP, TRUNCATE, COALESCE and REORGANIZE PARTITION, PARTITION BY and
//! REMOVE PARTITIONING.
//!
//! Every change is planned first ([`super::plan`]): a new list of partitions, each of which keeps
//! its spaces or is new, and a list of old partitions whose rows are redistributed. DROP and
//! TRUNCATE redistribute nothing.
//!
//! Invariants:
//! 1. Old spaces are read only until the commit of the catalog; a failure or a
//!    crash before it leaves the table as it was.
//! 2. A row's bytes, including its version, are copied unchanged. Only a hidden key changes,
//!    because it contains the partition number.

use super::super::alter::{CopyOptions, strict_cast};
use super::super::online::{CopyJob, SMALL_TABLE_ROWS};
use super::super::{DdlCx, DdlOutcome, errors, foreign_key_relatives, spaces};
use super::check::check;
use super::plan::{Plan, plan};
use crate::catalog::Catalog;
use crate::db::Db;
use crate::definition::{TableId, UnfinishedChange};
use crate::error::{Error, Result};
use crate::metadata_lock::Exclusion;
use crate::overflow::{self, ChunkKey};
use crate::partition::{Partition, Partitioning};
use crate::row::RowRef;
use crate::table::Table;
use porpoise_kv::{self as kv, Check, Key, Read, SpaceId};
use std::sync::Arc;

/// A partitioning clause of ALTER TABLE.
#[derive(Clone, Debug)]
pub enum PartitionChange {
    /// ADD PARTITION (definitions).
    Add(Vec<Partition>),
    /// ADD PARTITION PARTITIONS n.
    AddCount(usize),
    /// DROP PARTITION.
    Drop(Vec<String>),
    /// TRUNCATE PARTITION of partitions and subpartitions; no names: ALL.
    Truncate(Vec<String>),
    /// COALESCE PARTITION n.
    Coalesce(usize),
    /// REORGANIZE PARTITION names INTO (definitions).
    Reorganize(Vec<String>, Vec<Partition>),
    /// PARTITION BY.
    By(Partitioning),
    /// REMOVE PARTITIONING.
    Remove,
}

impl Db {
    /// Changes a table's partitions.
    ///
    /// # Errors
    /// MySQL's (1481 to 1526 and related numbers), 1526 for a row that belongs to no partition; the
    /// engine's.
    pub fn change_partitions(
        &self,
        cx: &DdlCx<'_>,
        database: &str,
        name: &str,
        change: &PartitionChange,
    ) -> Result<DdlOutcome> {
        let find = |catalog: &Catalog| -> Result<Arc<Table>> {
            let table = catalog.table(database, name).cloned();
            table.ok_or_else(|| errors::no_table(database, name))
        };
        let relatives = |catalog: &Catalog| Ok(foreign_key_relatives(&*find(catalog)?));
        if let Some(done) = self.change_partitions_online(cx, &relatives, &find, change)? {
            return Ok(done);
        }
        let _barrier = self.brief_barrier_over(cx, &relatives)?;
        let catalog = self.catalog();
        let before = find(&catalog)?;
        self.finish_change(cx, before.id)?;
        let mut plan = plan(&before, change)?;
        if matches!(
            change,
            PartitionChange::Drop(_) | PartitionChange::Truncate(_)
        ) {
            refuse_if_referenced(&catalog, cx, &before)?;
        }
        check(&plan.after)?;
        let fresh = self.create_partition_spaces(&before, &mut plan)?;
        let after = Table::new(plan.after);
        let done = self.redistribute_and_commit(cx, &before, &after, &plan.redistributed);
        if let Err(error) = &done {
            self.abandon_spaces(&fresh, error);
        }
        let position = done?;
        let leaving: Vec<SpaceId> = before
            .all_spaces()
            .filter(|s| !after.all_spaces().any(|kept| kept == *s))
            .collect();
        self.retire_spaces(&leaving);
        Ok(DdlOutcome {
            position,
            is_note: false,
            rows: 0,
        })
    }

    /// Copies a table to its new partitions while other sessions use it. `None` if few rows change their partition:
    /// then the change is made under a barrier, and unchanged partitions are not copied.
    fn change_partitions_online(
        &self,
        cx: &DdlCx<'_>,
        relatives: &dyn Fn(&Catalog) -> Result<Vec<TableId>>,
        find: &dyn Fn(&Catalog) -> Result<Arc<Table>>,
        change: &PartitionChange,
    ) -> Result<Option<DdlOutcome>> {
        let _definitions = self.barrier_of(cx, Exclusion::Definitions, relatives)?;
        let before = find(&self.catalog())?;
        let plan = plan(&before, change)?;
        let old = before.index_spaces(0);
        let moved = plan.redistributed.iter().filter_map(|at| old.get(*at));
        let moved: Vec<SpaceId> = moved.copied().collect();
        let rows = self.engine().approximate_keys(&moved);
        if moved.is_empty() || rows.is_some_and(|rows| rows <= SMALL_TABLE_ROWS) {
            return Ok(None);
        }
        check(&plan.after)?;
        let mut after = plan.after;
        let fresh = self.engine().create_spaces(&spaces::table_spaces(&after))?;
        spaces::assign(&mut after, &fresh);
        let after = Table::new(after);
        let commit = |cx: &DdlCx<'_>| self.commit_partitions(cx, &before, &after);
        let job = CopyJob {
            before: &before,
            after: &after,
            options: CopyOptions::default(),
            tables: relatives,
            commit: &commit,
        };
        let mut ignore = |_| ();
        let done = self.copy_online(cx, &job, &mut strict_cast(cx, &mut ignore));
        match &done {
            Ok(_) => self.retire_spaces(&before.all_spaces().collect::<Vec<_>>()),
            Err(error) => self.abandon_spaces(&fresh, error),
        }
        let (_, position) = done?;
        Ok(Some(DdlOutcome {
            position,
            is_note: false,
            rows: 0,
        }))
    }

    /// Creates the spaces of new partitions, and assigns new and kept spaces to the plan's table.
    /// Returns the new ones.
    fn create_partition_spaces(&self, before: &Table, plan: &mut Plan) -> Result<Vec<SpaceId>> {
        let mut specs = Vec::new();
        let new = |kept: &[Option<usize>]| -> Vec<usize> {
            let all = kept.iter().enumerate();
            all.filter(|(_, k)| k.is_none()).map(|(n, _)| n).collect()
        };
        let fresh = new(&plan.kept_from);
        for index in &plan.after.indexes {
            let of = |n: &usize| spaces::partition_space(&plan.after, index, *n);
            specs.extend(fresh.iter().map(of));
        }
        if !before.overflow_spaces.is_empty() {
            specs.extend(
                fresh
                    .iter()
                    .map(|n| spaces::overflow_space(&plan.after, *n)),
            );
        }
        let made = match specs.as_slice() {
            [] => Vec::new(),
            specs => self.engine().create_spaces(specs)?,
        };
        let mut given = made.iter().copied();
        let mut arrange = |old: &[SpaceId]| -> Vec<SpaceId> {
            let kept = plan.kept_from.iter();
            kept.filter_map(|kept| match kept {
                Some(at) => old.get(*at).copied(),
                None => given.next(),
            })
            .collect()
        };
        let arranged: Vec<Vec<SpaceId>> =
            before.indexes.iter().map(|i| arrange(&i.spaces)).collect();
        if !before.overflow_spaces.is_empty() {
            plan.after.overflow_spaces = arrange(&before.overflow_spaces);
        }
        for (index, spaces) in plan.after.indexes.iter_mut().zip(arranged) {
            index.spaces = spaces;
        }
        Ok(made)
    }

    fn redistribute_and_commit(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        redistributed: &[usize],
    ) -> Result<porpoise_kv::CommitPosition> {
        for partition in redistributed {
            self.redistribute(cx, before, after, *partition)?;
        }
        self.commit_partitions(cx, before, after)
    }

    fn commit_partitions(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
    ) -> Result<kv::CommitPosition> {
        self.change_catalog(cx, |draft| {
            let version = draft.catalog.version + 1;
            let changed = draft.edit(before.id, |table| {
                table.partitioning.clone_from(&after.partitioning);
                table.indexes.clone_from(&after.indexes);
                table.overflow_spaces.clone_from(&after.overflow_spaces);
                table.incompatible_since = version;
                table.unfinished = UnfinishedChange::default();
            });
            changed.ok_or_else(|| errors::no_table(&before.database, &before.name))
        })
    }

    /// Copies the rows of an old leaf to their new leaves.
    fn redistribute(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        partition: usize,
    ) -> Result<()> {
        let Some(space) = before.index_spaces(0).get(partition).copied() else {
            return Ok(());
        };
        let weigh = |value: &[u8]| {
            let overflow = RowRef::new(before, value).map_or(0, |row| {
                row.overflow_columns().map(|c| c.head.len()).sum::<usize>()
            });
            value.len() + overflow
        };
        self.walk(cx, space, weigh, |mut txn, batch| {
            let mut chunks = Vec::new();
            for (key, value) in batch {
                copy_row(txn.as_mut(), before, after, key, value, &mut chunks)?;
            }
            copy_chunks(txn.as_mut(), before, &chunks)?;
            let commit = txn.commit()?;
            self.engine().wait_durable(commit.position)?;
            Ok(())
        })
    }
}

/// A chunk of an overflow value: its key, and its target space.
type MovedChunk = (ChunkKey, SpaceId);

/// Writes a row and its index entries to their new partition, and records the chunks of its
/// overflow values.
fn copy_row(
    txn: &mut dyn kv::Txn,
    before: &Table,
    after: &Table,
    key: &[u8],
    value: &[u8],
    chunks: &mut Vec<MovedChunk>,
) -> Result<()> {
    let row = RowRef::new(after, value)?;
    let at = after.partition_of_columns(&row)?;
    let mut primary = key.to_vec();
    if after.hidden_key {
        primary.truncate(8);
        let by = after.partitioning.as_ref();
        if let Some(id) = by.and_then(|by| by.leaf_id(at)) {
            primary.extend_from_slice(&id.to_be_bytes());
        }
    }
    let put = |txn: &mut dyn kv::Txn, space: Option<&SpaceId>, key: &[u8], value: &[u8]| {
        let space = space.ok_or(Error::DefinitionChanged)?;
        txn.put(Key::new(*space, key), value, Check::Blind)?;
        Ok::<(), Error>(())
    };
    put(txn, after.index_spaces(0).get(at), &primary, value)?;
    for (position, index) in after.indexes.iter().enumerate().skip(1) {
        let mut value = Vec::new();
        index.append_entry_value(&primary, &mut value);
        for (key, _) in index.entry_keys(after, position, &row, &primary) {
            put(txn, index.spaces.get(at), &key, &value)?;
        }
    }
    let Some(from) = before.overflow_space(key) else {
        return Ok(());
    };
    for column in row.overflow_columns() {
        let to = after
            .overflow_spaces
            .get(at)
            .ok_or(Error::DefinitionChanged)?;
        let places = (0..column.head.chunks()).map(|n| (from, column.head.chunk_key(n)));
        chunks.extend(places.map(|place| (place, *to)));
    }
    Ok(())
}

/// Copies chunks, which are read in one engine call.
fn copy_chunks(txn: &mut dyn kv::Txn, before: &Table, chunks: &[MovedChunk]) -> Result<()> {
    let places: Vec<ChunkKey> = chunks.iter().map(|(place, _)| *place).collect();
    let values = overflow::read_chunks(txn, &places, Read::CURRENT)?;
    for (((_, key), to), value) in chunks.iter().zip(values) {
        if value.is_empty() {
            return Err(overflow::missing_chunk(before));
        }
        txn.put(Key::new(*to, key), &value, Check::Blind)?;
    }
    Ok(())
}

/// Fails if a foreign key references the table, because rows are dropped without a check of
/// references.
fn refuse_if_referenced(catalog: &Catalog, cx: &DdlCx<'_>, table: &Table) -> Result<()> {
    let Some((child, at)) = table
        .referenced_by
        .first()
        .filter(|_| cx.foreign_key_checks)
    else {
        return Ok(());
    };
    let child = catalog.table_by_id(*child);
    let key = child.and_then(|c| Some((c, c.foreign_keys.get(*at)?)));
    let text = key.map_or_else(String::new, |(c, k)| {
        format!("{}, CONSTRAINT `{}`", c.quoted_name(), k.name)
    });
    Err(errors::cannot_truncate(&text))
}
