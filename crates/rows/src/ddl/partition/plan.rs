//! Plans a change of partitions: the new list of partitions, and the old ones whose rows are
//! redistributed. Does not access rows.
//!
//! Clauses change whole partitions, and a partition keeps its subpartitions; only TRUNCATE names
//! single subpartitions. The plan is in leaves (see [`crate::partition`]).

use super::PartitionChange;
use super::check::{refuse, unknown};
use crate::definition::TableDef;
use crate::error::{Error, Result};
use crate::partition::{Method, Partition, PartitionBound, Partitioning, default_name};

/// Plan of a partition change.
pub(super) struct Plan {
    pub(super) after: TableDef,
    /// For each new leaf, the position of the old one whose spaces it keeps.
    pub(super) kept_from: Vec<Option<usize>>,
    /// Positions of old leaves whose rows are redistributed.
    pub(super) redistributed: Vec<usize>,
}

fn not_partitioned() -> Error {
    refuse(
        1505,
        "Partition management on a not partitioned table is not possible",
    )
}

fn wrong_method_error(what: &str) -> Error {
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

/// The table after a change.
///
/// # Errors
/// MySQL's refusals (1481 to 1520).
pub(super) fn plan(before: &TableDef, change: &PartitionChange) -> Result<Plan> {
    let mut after = before.clone();
    let old = before.leaf_count();
    let (by, kept, redistributed) = match (change, &before.partitioning) {
        (PartitionChange::By(by), _) => {
            let fresh = vec![None; by.leaf_count()];
            (Some(by.clone()), fresh, (0..old).collect())
        }
        (_, None) => return Err(not_partitioned()),
        (PartitionChange::Remove, Some(_)) => (None, vec![None], (0..old).collect()),
        (change, Some(by)) => {
            let (by, kept, redistributed) = match change {
                PartitionChange::Truncate(names) => truncate_partitions(before, by.clone(), names)?,
                change => leaves_of(rearrange(by.clone(), change)?),
            };
            (Some(by), kept, redistributed)
        }
    };
    after.partitioning = by;
    Ok(Plan {
        after,
        kept_from: kept,
        redistributed,
    })
}

/// The new partitioning, for each new partition the position of the old one that it keeps, and the
/// positions of those that are redistributed.
type Rearrangement = (Partitioning, Vec<Option<usize>>, Vec<usize>);

/// The same in positions of leaves.
fn leaves_of((by, kept, redistributed): Rearrangement) -> Rearrangement {
    let each = by.leaves_per_partition();
    let kept = kept.into_iter();
    let kept = kept.flat_map(|old| (0..each).map(move |sub| old.map(|old| old * each + sub)));
    let redistributed = redistributed.into_iter();
    let redistributed = redistributed.flat_map(|old| old * each..(old + 1) * each);
    let (kept, redistributed) = (kept.collect(), redistributed.collect());
    (by, kept, redistributed)
}

fn rearrange(by: Partitioning, change: &PartitionChange) -> Result<Rearrangement> {
    match change {
        PartitionChange::Add(new) => add_partitions(by, new),
        PartitionChange::AddCount(count) => add_partition_count(by, *count),
        PartitionChange::Coalesce(count) => coalesce(by, *count),
        PartitionChange::Drop(names) => drop_partitions(by, names),
        PartitionChange::Reorganize(names, new) => reorganize(by, names, new),
        PartitionChange::By(_) | PartitionChange::Remove | PartitionChange::Truncate(_) => {
            Err(not_partitioned())
        }
    }
}

fn add_partitions(mut by: Partitioning, new: &[Partition]) -> Result<Rearrangement> {
    let old = by.partitions.len();
    if by.method.is_hash() {
        // Definitions of HASH and KEY partitions have only names.
        insert(&mut by, old, new);
        return Ok(redistribute_all(by, old));
    }
    refuse_after_maxvalue(&by)?;
    if has_other_count(&by, new) {
        return Err(refuse(
            1513,
            "Trying to Add partition(s) with wrong number of subpartitions",
        ));
    }
    let mut kept: Vec<Option<usize>> = (0..old).map(Some).collect();
    kept.resize(old + new.len(), None);
    insert(&mut by, old, new);
    Ok((by, kept, Vec::new()))
}

fn add_partition_count(mut by: Partitioning, count: usize) -> Result<Rearrangement> {
    let old = by.partitions.len();
    if !by.method.is_hash() {
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
    if count == 0 {
        return Err(refuse(1515, "At least one partition must be added"));
    }
    let names = free_names(&by, count);
    let new: Vec<Partition> = names.into_iter().map(unbounded).collect();
    insert(&mut by, old, &new);
    Ok(redistribute_all(by, old))
}

fn coalesce(mut by: Partitioning, count: usize) -> Result<Rearrangement> {
    let old = by.partitions.len();
    if !by.method.is_hash() {
        return Err(refuse(
            1509,
            "COALESCE PARTITION can only be used on HASH/KEY partitions",
        ));
    }
    if count == 0 {
        return Err(refuse(1516, "At least one partition must be coalesced"));
    }
    if count >= old {
        return Err(cannot_remove_all());
    }
    by.partitions.truncate(old - count);
    Ok(redistribute_all(by, old))
}

fn drop_partitions(mut by: Partitioning, names: &[String]) -> Result<Rearrangement> {
    if by.method.is_hash() {
        return Err(wrong_method_error("DROP"));
    }
    let gone = positions(&by, names, "DROP")?;
    if gone.len() == by.partitions.len() {
        return Err(cannot_remove_all());
    }
    let kept = remove(&mut by, &gone);
    Ok((by, kept, Vec::new()))
}

/// Empties partitions and subpartitions; in positions of leaves.
fn truncate_partitions(
    before: &TableDef,
    by: Partitioning,
    names: &[String],
) -> Result<Rearrangement> {
    let old = by.leaf_count();
    let mut emptied: Vec<usize> = Vec::new();
    for name in names {
        emptied.extend(by.named_leaves(name).ok_or_else(|| unknown(name, before))?);
    }
    if names.is_empty() {
        emptied.extend(0..old);
    }
    let kept = (0..old).map(|n| (!emptied.contains(&n)).then_some(n));
    let kept = kept.collect();
    Ok((by, kept, Vec::new()))
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
        subpartitions: Vec::new(),
    }
}

/// Whether a new partition has another number of subpartitions than those of the table.
fn has_other_count(by: &Partitioning, new: &[Partition]) -> bool {
    let count = by.sub.as_ref().map_or(0, |sub| sub.count);
    new.iter().any(|p| p.subpartitions.len() != count)
}

/// Returns generated partition names: `p` and the next numbers, as in MySQL.
fn free_names(by: &Partitioning, count: usize) -> Vec<String> {
    let from = by.partitions.len();
    (from..)
        .map(|n| format!("p{n}"))
        .filter(|name| by.partition(name).is_none())
        .take(count)
        .collect()
}

/// Removes partitions by position. Returns the old positions of the remaining ones.
fn remove(by: &mut Partitioning, gone: &[usize]) -> Vec<Option<usize>> {
    let stays = |n: &usize| !gone.contains(n);
    let kept: Vec<Option<usize>> = (0..by.partitions.len()).filter(stays).map(Some).collect();
    let mut numbers = 0..;
    by.partitions
        .retain(|_| numbers.next().is_some_and(|n| stays(&n)));
    kept
}

/// Inserts new partitions at a position, and numbers them and their subpartitions.
fn insert(by: &mut Partitioning, at: usize, new: &[Partition]) {
    let mut tail = by.partitions.split_off(at.min(by.partitions.len()));
    for partition in new {
        let mut partition = partition.clone();
        by.number(&mut partition);
        by.partitions.push(partition);
    }
    by.partitions.append(&mut tail);
    if let Some(sub) = &mut by.sub {
        let is_default = |p: &Partition| {
            let names = p.subpartitions.iter().enumerate();
            let mut names = names.map(|(n, sub)| (default_name(&p.name, n), &sub.name));
            names.all(|(default, name)| default == *name)
        };
        sub.by_number &= new.iter().all(is_default);
    }
}

/// Redistributes all rows to all partitions.
fn redistribute_all(by: Partitioning, old: usize) -> Rearrangement {
    let kept = vec![None; by.partitions.len()];
    (by, kept, (0..old).collect())
}

fn reorganize(mut by: Partitioning, names: &[String], new: &[Partition]) -> Result<Rearrangement> {
    if by.method.is_hash() {
        return Err(wrong_method_error("REORGANIZE"));
    }
    let gone = positions(&by, names, "REORGANIZE")?;
    let (Some(first), Some(last)) = (gone.first().copied(), gone.last().copied()) else {
        return Err(refuse(1507, "Error in list of partitions to REORGANIZE"));
    };
    if has_other_count(&by, new) {
        return Err(refuse(
            1485,
            "Wrong number of subpartitions defined, mismatch with previous setting",
        ));
    }
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
    let mut kept = remove(&mut by, &gone);
    kept.splice(first..first, std::iter::repeat_n(None, new.len()));
    insert(&mut by, first, new);
    Ok((by, kept, gone))
}
