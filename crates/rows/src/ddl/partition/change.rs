//! ADD, DROP, TRUNCATE, COALESCE and REORGANIZE PARTITION, PARTITION BY and
//! REMOVE PARTITIONING.
//!
//! Every change is worked out as a new list of partitions, each of which
//! either stays with its spaces or is new; and a list of old partitions whose
//! rows are dealt out again. DROP and TRUNCATE deal out nothing.
//!
//! Invariants:
//! 1. Old spaces are read only until the commit of the catalog; a failure or a
//!    crash before it leaves the table as it was.
//! 2. A row's bytes are copied as they are, its version too; only a hidden key
//!    changes, which names the partition.

use super::super::{DdlCx, DdlDone, errors, neighbours, spaces};
use super::check::{check, refuse};
use crate::catalog::{Catalog, Table};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::layout::DerivedCell;
use crate::partition::{Method, Partition, PartitionBound, Partitioning};
use crate::row::RowRef;
use porpoise_kv::{self as kv, Check, Key, Read, ScanEnd, ScanRange, SpaceId, TxnOptions};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Rows of one transaction at most, and bytes.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 16 << 20;

/// A partitioning clause of ALTER TABLE.
#[derive(Clone, Debug)]
pub enum PartitionChange {
    /// ADD PARTITION (definitions).
    Add(Vec<Partition>),
    /// ADD PARTITION PARTITIONS n.
    AddCount(usize),
    /// DROP PARTITION.
    Drop(Vec<String>),
    /// TRUNCATE PARTITION; no names: ALL.
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

/// What a change comes to.
struct Plan {
    after: Table,
    /// For each new partition the old one (position) whose spaces it keeps.
    kept: Vec<Option<usize>>,
    /// Old partitions whose rows are dealt out again.
    dealt: Vec<usize>,
}

impl Db {
    /// Changes a table's partitions.
    ///
    /// # Errors
    /// MySQL's refusals (1481 to 1526 and their neighbours), 1526 for a row
    /// that finds no partition; the engine's.
    pub fn change_partitions(
        &self,
        cx: &DdlCx<'_>,
        database: &str,
        name: &str,
        change: &PartitionChange,
    ) -> Result<DdlDone> {
        let find = |catalog: &Catalog| -> Result<Arc<Table>> {
            let table = catalog.table(database, name).cloned();
            table.ok_or_else(|| errors::no_table(database, name))
        };
        let _barrier = self.barrier(cx, |catalog| Ok(neighbours(&*find(catalog)?)))?;
        let catalog = self.catalog();
        let before = find(&catalog)?;
        let mut plan = plan(&before, change)?;
        if matches!(
            change,
            PartitionChange::Drop(_) | PartitionChange::Truncate(_)
        ) {
            refuse_if_referenced(&catalog, cx, &before)?;
        }
        check(&plan.after)?;
        let fresh = self.give_new_spaces(&before, &mut plan)?;
        let done = self.deal_and_commit(cx, &before, &plan);
        if let Err(error) = &done {
            self.abandon_spaces(&fresh, error);
        }
        let ticket = done?;
        let leaving: Vec<SpaceId> = before
            .all_spaces()
            .filter(|s| !plan.after.all_spaces().any(|kept| kept == *s))
            .collect();
        self.retire_spaces(&leaving);
        Ok(DdlDone {
            ticket,
            note: false,
            rows: 0,
        })
    }

    /// Makes the spaces of new partitions and puts the kept ones beside them.
    fn give_new_spaces(&self, before: &Table, plan: &mut Plan) -> Result<Vec<SpaceId>> {
        let mut specs = Vec::new();
        let new = |kept: &[Option<usize>]| -> Vec<usize> {
            let all = kept.iter().enumerate();
            all.filter(|(_, k)| k.is_none()).map(|(n, _)| n).collect()
        };
        let fresh = new(&plan.kept);
        for index in &plan.after.indexes {
            let of = |n: &usize| spaces::of_partition(&plan.after, index, *n);
            specs.extend(fresh.iter().map(of));
        }
        if !before.parts.is_empty() {
            specs.extend(fresh.iter().map(|n| spaces::of_parts(&plan.after, *n)));
        }
        let made = match specs.as_slice() {
            [] => Vec::new(),
            specs => self.engine().create_spaces(specs)?,
        };
        let mut given = made.iter().copied();
        let mut arrange = |old: &[SpaceId]| -> Vec<SpaceId> {
            let kept = plan.kept.iter();
            kept.filter_map(|kept| match kept {
                Some(at) => old.get(*at).copied(),
                None => given.next(),
            })
            .collect()
        };
        let arranged: Vec<Vec<SpaceId>> =
            before.indexes.iter().map(|i| arrange(&i.spaces)).collect();
        if !before.parts.is_empty() {
            plan.after.parts = arrange(&before.parts);
        }
        for (index, spaces) in plan.after.indexes.iter_mut().zip(arranged) {
            index.spaces = spaces;
        }
        Ok(made)
    }

    fn deal_and_commit(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        plan: &Plan,
    ) -> Result<porpoise_kv::Ticket> {
        for partition in &plan.dealt {
            self.deal_out(cx, before, &plan.after, *partition)?;
        }
        self.change_catalog(cx, |draft| {
            let version = draft.catalog.version + 1;
            let Some(table) = draft.table_mut(before.id) else {
                return Err(errors::no_table(&before.database, &before.name));
            };
            table.partitioning.clone_from(&plan.after.partitioning);
            table.indexes.clone_from(&plan.after.indexes);
            table.parts.clone_from(&plan.after.parts);
            table.incompatible_since = version;
            table.derived = DerivedCell::default();
            Ok(())
        })
    }

    /// Copies the rows of an old partition to where they belong now.
    fn deal_out(
        &self,
        cx: &DdlCx<'_>,
        before: &Table,
        after: &Table,
        partition: usize,
    ) -> Result<()> {
        let Some(space) = before.index_spaces(0).get(partition).copied() else {
            return Ok(());
        };
        let mut start: Vec<u8> = Vec::new();
        loop {
            if let Some(reason) = cx.cancel.reason() {
                return Err(Error::Kv(kv::Error::Cancelled(reason)));
            }
            let mut batch: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let mut bytes = 0;
            let range = ScanRange {
                space,
                start: &start,
                end: None,
                reverse: false,
            };
            let mut txn = self.engine().begin(TxnOptions::default())?;
            let end = txn.scan(Read::CURRENT, &[range], BATCH, &mut |_, key, value| {
                bytes += value.len();
                if let Ok(row) = RowRef::new(before, value) {
                    bytes += row.blobs().map(|b| b.blob.len()).sum::<usize>();
                }
                batch.push((key.to_vec(), value.to_vec()));
                match bytes > BATCH_BYTES {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })?;
            for (key, value) in &batch {
                copy_row(txn.as_mut(), before, after, key, value)?;
            }
            let commit = txn.commit()?;
            self.engine().wait_durable(commit.ticket)?;
            match end {
                ScanEnd::Done => return Ok(()),
                ScanEnd::Stopped { key, .. } => {
                    start = key;
                    start.push(0);
                }
            }
        }
    }
}

fn copy_row(
    txn: &mut dyn kv::Txn,
    before: &Table,
    after: &Table,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    let row = RowRef::new(after, value)?;
    let at = after.partition_of_columns(&row)?;
    let mut primary = key.to_vec();
    if after.hidden_key {
        primary.truncate(8);
        if let Some(p) = after
            .partitioning
            .as_ref()
            .and_then(|by| by.partitions.get(at))
        {
            primary.extend_from_slice(&p.id.to_be_bytes());
        }
    }
    let put = |txn: &mut dyn kv::Txn, space: Option<&SpaceId>, key: &[u8], value: &[u8]| {
        let space = space.ok_or(Error::DefinitionChanged)?;
        txn.put(Key::new(*space, key), value, Check::Blind)?;
        Ok::<(), Error>(())
    };
    put(txn, after.index_spaces(0).get(at), &primary, value)?;
    for index in after.indexes.iter().skip(1) {
        let mut entry = Vec::new();
        index.append_entry(after, &row, &primary, &mut entry);
        let end = entry.len();
        index.append_entry_value(&primary, &mut entry);
        let (key, value) = entry.split_at(end);
        put(txn, index.spaces.get(at), key, value)?;
    }
    let Some(from) = before.parts_space(key) else {
        return Ok(());
    };
    for column in row.blobs() {
        for number in 0..column.blob.parts() {
            let part = column.blob.key(number);
            let mut bytes = None;
            txn.get(Read::CURRENT, &[Key::new(from, &part)], &mut |_, value| {
                bytes = value.map(<[u8]>::to_vec);
            })?;
            let bytes = bytes.ok_or_else(|| {
                Error::Corrupt(format!("a part of a value of {}", before.quoted_name()))
            })?;
            put(txn, after.parts.get(at), &part, &bytes)?;
        }
    }
    Ok(())
}

/// Rows that go without a look at who refers to them must not be referred to.
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

fn not_partitioned() -> Error {
    refuse(
        1505,
        "Partition management on a not partitioned table is not possible",
    )
}

fn only_on(what: &str) -> Error {
    refuse(
        1512,
        format!("{what} PARTITION can only be used on RANGE/LIST partitions"),
    )
}

/// The positions of partitions by name.
fn positions(by: &Partitioning, names: &[String], what: &str) -> Result<Vec<usize>> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match by.partition(name) {
            Some(at) if !found.contains(&at) => found.push(at),
            _ => {
                return Err(refuse(
                    1507,
                    format!("Error in list of partitions to {what}"),
                ));
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn plan(before: &Table, change: &PartitionChange) -> Result<Plan> {
    let mut after = before.clone();
    let old = before.partition_count();
    let (by, kept, dealt) = match (change, &before.partitioning) {
        (PartitionChange::By(by), _) => {
            let fresh = vec![None; by.partitions.len()];
            (Some(by.clone()), fresh, (0..old).collect())
        }
        (_, None) => return Err(not_partitioned()),
        (PartitionChange::Remove, Some(_)) => (None, vec![None], (0..old).collect()),
        (change, Some(by)) => {
            let (by, kept, dealt) = rearranged(by.clone(), change)?;
            (Some(by), kept, dealt)
        }
    };
    after.partitioning = by;
    after.derived = DerivedCell::default();
    Ok(Plan { after, kept, dealt })
}

type Rearranged = (Partitioning, Vec<Option<usize>>, Vec<usize>);

fn rearranged(mut by: Partitioning, change: &PartitionChange) -> Result<Rearranged> {
    let old = by.partitions.len();
    let hash = by.method.is_hash();
    match change {
        PartitionChange::Add(new) if !hash => {
            let mut kept: Vec<Option<usize>> = (0..old).map(Some).collect();
            refuse_after_maxvalue(&by)?;
            kept.resize(old + new.len(), None);
            add(&mut by, old, new);
            Ok((by, kept, Vec::new()))
        }
        // HASH and KEY: definitions are names only.
        PartitionChange::Add(new) => {
            add(&mut by, old, new);
            Ok(dealt_anew(by, old))
        }
        PartitionChange::AddCount(count) => {
            if !hash {
                let method = if by.method.is_range() {
                    "RANGE"
                } else {
                    "LIST"
                };
                return Err(refuse(
                    1492,
                    format!("For {method} partitions each partition must be defined"),
                ));
            }
            if *count == 0 {
                return Err(refuse(1515, "At least one partition must be added"));
            }
            let names = free_names(&by, *count);
            let new: Vec<Partition> = names.into_iter().map(unbounded).collect();
            add(&mut by, old, &new);
            Ok(dealt_anew(by, old))
        }
        PartitionChange::Coalesce(count) => {
            if !hash {
                return Err(refuse(
                    1509,
                    "COALESCE PARTITION can only be used on HASH/KEY partitions",
                ));
            }
            if *count == 0 {
                return Err(refuse(1516, "At least one partition must be coalesced"));
            }
            if *count >= old {
                return Err(cannot_remove_all());
            }
            by.partitions.truncate(old - count);
            Ok(dealt_anew(by, old))
        }
        PartitionChange::Drop(names) => {
            if hash {
                return Err(only_on("DROP"));
            }
            let gone = positions(&by, names, "DROP")?;
            if gone.len() == old {
                return Err(cannot_remove_all());
            }
            let kept: Vec<usize> = (0..old).filter(|n| !gone.contains(n)).collect();
            let mut n = 0;
            by.partitions.retain(|_| {
                n += 1;
                !gone.contains(&(n - 1))
            });
            Ok((by, kept.into_iter().map(Some).collect(), Vec::new()))
        }
        PartitionChange::Truncate(names) => {
            let emptied = match names.as_slice() {
                [] => (0..old).collect(),
                names => positions(&by, names, "TRUNCATE")?,
            };
            let kept = (0..old).map(|n| (!emptied.contains(&n)).then_some(n));
            let kept = kept.collect();
            Ok((by, kept, Vec::new()))
        }
        PartitionChange::Reorganize(names, new) => reorganized(by, names, new),
        PartitionChange::By(_) | PartitionChange::Remove => Err(not_partitioned()),
    }
}

fn cannot_remove_all() -> Error {
    refuse(1508, "Cannot remove all partitions, use DROP TABLE instead")
}

fn refuse_after_maxvalue(by: &Partitioning) -> Result<()> {
    let last = by.partitions.last().map(|p| &p.bound);
    match last {
        Some(PartitionBound::LessThan(bounds))
            if by.method == Method::Range && matches!(bounds.as_slice(), [None]) =>
        {
            Err(refuse(
                1481,
                "MAXVALUE can only be used in last partition definition",
            ))
        }
        _ => Ok(()),
    }
}

fn unbounded(name: String) -> Partition {
    Partition {
        id: 0,
        name,
        bound: PartitionBound::None,
        comment: String::new(),
    }
}

/// `p` and the next free number, as MySQL names them.
fn free_names(by: &Partitioning, count: usize) -> Vec<String> {
    let from = by.partitions.len();
    (from..)
        .map(|n| format!("p{n}"))
        .filter(|name| by.partition(name).is_none())
        .take(count)
        .collect()
}

/// Inserts new partitions at a place and numbers them.
fn add(by: &mut Partitioning, at: usize, new: &[Partition]) {
    let mut tail = by.partitions.split_off(at.min(by.partitions.len()));
    for partition in new {
        let id = by.next_id;
        by.next_id += 1;
        by.partitions.push(Partition {
            id,
            ..partition.clone()
        });
    }
    by.partitions.append(&mut tail);
}

/// All rows are dealt out again to all partitions.
fn dealt_anew(by: Partitioning, old: usize) -> Rearranged {
    let kept = vec![None; by.partitions.len()];
    (by, kept, (0..old).collect())
}

fn reorganized(mut by: Partitioning, names: &[String], new: &[Partition]) -> Result<Rearranged> {
    if by.method.is_hash() {
        return Err(only_on("REORGANIZE"));
    }
    let gone = positions(&by, names, "REORGANIZE")?;
    let (Some(first), Some(last)) = (gone.first().copied(), gone.last().copied()) else {
        return Err(refuse(1507, "Error in list of partitions to REORGANIZE"));
    };
    let old = by.partitions.len();
    if by.method.is_range() {
        if last - first + 1 != gone.len() {
            return Err(refuse(
                1519,
                "When reorganizing a set of partitions they must be in consecutive order",
            ));
        }
        let bound = |p: Option<&Partition>| p.map(|p| p.bound.clone());
        let same = bound(by.partitions.get(last)) == bound(new.last());
        if last + 1 != old && !same {
            return Err(refuse(
                1520,
                "Reorganize of range partitions cannot change total ranges except for last \
                 partition where it can extend the range",
            ));
        }
    }
    let mut kept: Vec<Option<usize>> = (0..old).filter(|n| !gone.contains(n)).map(Some).collect();
    let mut n = 0;
    by.partitions.retain(|_| {
        n += 1;
        !gone.contains(&(n - 1))
    });
    kept.splice(first..first, std::iter::repeat_n(None, new.len()));
    add(&mut by, first, new);
    Ok((by, kept, gone))
}
