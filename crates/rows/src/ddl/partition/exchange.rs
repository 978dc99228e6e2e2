//! EXCHANGE PARTITION: the rows of a partition or subpartition and those of a table change places.
//!
//! A partition (here: a leaf) consists of spaces, one for each index and one for overflow values, and so does a
//! table without partitions. If rows of both are read alike (the same columns with the same ids, the
//! same layouts, declared keys), their spaces change owners and no row is touched. Otherwise the rows of
//! both are copied into new spaces, each written as the other table writes its rows. Either way the
//! commit of the catalog is the exchange.
//!
//! ```text
//!  partition p: (primary 10) (index 11)        primary 20, index 21
//!  table t:     (primary 20) (index 21)  -->   primary 10, index 11
//! ```
//!
//! Invariants:
//! 1. Every row of the table belongs to the partition, also WITHOUT VALIDATION: a row in another
//!    partition than its key says would not be found.
//! 2. Afterwards both tables have the greater version of the two: a later layout of either is newer
//!    than all its rows.
//! 3. The auto-increment counter of both is the greater one of the two.

use super::super::alter::{CopyOptions, strict_cast};
use super::super::{DdlCx, DdlOutcome, errors, spaces};
use super::check::{refuse, unknown};
use crate::catalog::Catalog;
use crate::db::Db;
use crate::definition::{Column, ColumnId, Index, LayoutDef, TableDef};
use crate::error::{Error, Result};
use crate::row::RowRef;
use crate::table::Table;
use porpoise_kv::{CommitPosition, SpaceId};
use std::sync::Arc;

/// EXCHANGE PARTITION of a table with another table; names are database and table.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The partitioned table.
    pub table: (String, String),
    /// Its partition, or its subpartition.
    pub partition: String,
    /// The other table.
    pub with: (String, String),
}

/// The spaces of a partition, or of a table without partitions.
struct Spaces {
    /// One of each index.
    indexes: Vec<SpaceId>,
    /// Those of overflow values: one or none.
    overflow: Option<SpaceId>,
}

impl Spaces {
    fn of(table: &TableDef, partition: usize) -> Spaces {
        let indexes = table.indexes.iter();
        Spaces {
            indexes: indexes
                .filter_map(|index| index.spaces.get(partition).copied())
                .collect(),
            overflow: table.overflow_spaces.get(partition).copied(),
        }
    }

    fn all(&self) -> impl Iterator<Item = SpaceId> + '_ {
        self.indexes.iter().copied().chain(self.overflow)
    }

    /// Makes these the spaces of a partition.
    fn assign(&self, table: &mut TableDef, partition: usize) {
        for (index, space) in table.indexes.iter_mut().zip(&self.indexes) {
            if let Some(place) = index.spaces.get_mut(partition) {
                *place = *space;
            }
        }
        if let (Some(place), Some(space)) =
            (table.overflow_spaces.get_mut(partition), self.overflow)
        {
            *place = space;
        }
    }
}

impl Db {
    /// Exchanges a partition with a table.
    ///
    /// # Errors
    /// 1505, 1732, 1735, 1736, 1737 and 1740 as on MySQL; the engine's.
    pub fn exchange_partition(&self, cx: &DdlCx<'_>, exchange: &Exchange) -> Result<DdlOutcome> {
        let find = |catalog: &Catalog, (database, name): &(String, String)| {
            let table = catalog.table(database, name).cloned();
            table.ok_or_else(|| errors::no_table(database, name))
        };
        let both = |catalog: &Catalog| -> Result<(Arc<Table>, Arc<Table>)> {
            Ok((
                find(catalog, &exchange.table)?,
                find(catalog, &exchange.with)?,
            ))
        };
        let _barrier = self.barrier(cx, |catalog| {
            let (table, with) = both(catalog)?;
            Ok(vec![table.id, with.id])
        })?;
        let (table, with) = both(&self.catalog())?;
        let at = check(&table, &exchange.partition, &with)?;
        self.check_rows(cx, &table, at, &with)?;
        self.raise_counters(&table, &with)?;
        let (old, other) = (Spaces::of(&table, at), Spaces::of(&with, 0));
        let (position, rows) = if are_read_alike(&table, &with) {
            let position = self.commit_exchange(cx, &table, at, &with, &other, &old)?;
            (position, 0)
        } else {
            self.exchange_copies(cx, &table, at, &with)?
        };
        Ok(DdlOutcome {
            position,
            is_note: false,
            rows,
        })
    }

    /// 1737 unless all rows of the table belong to the partition.
    fn check_rows(&self, cx: &DdlCx<'_>, table: &Table, at: usize, with: &Table) -> Result<()> {
        self.for_each_batch(cx, with, |batch| {
            for (_, bytes) in batch {
                let row = RowRef::new(with, bytes)?;
                if table.partition_of_columns(&row).ok() != Some(at) {
                    return Err(refuse(
                        1737,
                        "Found a row that does not match the partition",
                    ));
                }
            }
            Ok(())
        })
    }

    /// Copies the rows of both into new spaces, and exchanges those.
    fn exchange_copies(
        &self,
        cx: &DdlCx<'_>,
        table: &Table,
        at: usize,
        with: &Table,
    ) -> Result<(CommitPosition, u64)> {
        let new = self.create_exchanged_spaces(table, at)?;
        let new_with = match self.create_exchanged_spaces(with, 0) {
            Ok(spaces) => spaces,
            Err(error) => {
                self.abandon_spaces(&new.all().collect::<Vec<_>>(), &error);
                return Err(error);
            }
        };
        let fresh: Vec<SpaceId> = new.all().chain(new_with.all()).collect();
        let copied = || {
            let rows = self.copy_into(cx, with, 0, table, at, &new)?
                + self.copy_into(cx, table, at, with, 0, &new_with)?;
            let position = self.commit_exchange(cx, table, at, with, &new, &new_with)?;
            Ok((position, rows))
        };
        let done = copied();
        match &done {
            Ok(_) => {
                let old = Spaces::of(table, at);
                let leaving: Vec<SpaceId> = old.all().chain(Spaces::of(with, 0).all()).collect();
                self.retire_spaces(&leaving);
            }
            Err(error) => self.abandon_spaces(&fresh, error),
        }
        done
    }

    fn create_exchanged_spaces(&self, table: &TableDef, partition: usize) -> Result<Spaces> {
        let of = |index: &Index| spaces::partition_space(table, index, partition);
        let mut specs: Vec<_> = table.indexes.iter().map(of).collect();
        let overflow = spaces::overflow_space(table, partition);
        specs.extend((!table.overflow_spaces.is_empty()).then_some(overflow));
        let mut made = self.engine().create_spaces(&specs)?;
        let overflow = made.split_off(table.indexes.len().min(made.len()));
        Ok(Spaces {
            indexes: made,
            overflow: overflow.first().copied(),
        })
    }

    /// Copies the rows of a partition of `from` into new spaces of a partition of `to`.
    fn copy_into(
        &self,
        cx: &DdlCx<'_>,
        from: &Table,
        from_at: usize,
        to: &Table,
        to_at: usize,
        target: &Spaces,
    ) -> Result<u64> {
        let source = Table::new(alone(from, from_at, to));
        let mut after = to.definition().clone();
        target.assign(&mut after, to_at);
        let after = to.with_definition(after);
        let options = CopyOptions {
            rekeys_rows: true,
            ..CopyOptions::default()
        };
        let mut ignore = |_| ();
        let cast = &mut strict_cast(cx, &mut ignore);
        self.copy_rows(cx, &source, &after, options, cast)
    }

    /// Commits the exchange: the partition gets the spaces `new`, the table gets `new_with`.
    fn commit_exchange(
        &self,
        cx: &DdlCx<'_>,
        table: &Table,
        at: usize,
        with: &Table,
        new: &Spaces,
        new_with: &Spaces,
    ) -> Result<CommitPosition> {
        let row_version = table.version.max(with.version);
        self.change_catalog(cx, |draft| {
            let version = draft.catalog.version + 1;
            for (changed, partition, spaces) in [(table, at, new), (with, 0, new_with)] {
                let edited = draft.edit(changed.id, |now| {
                    spaces.assign(now, partition);
                    now.version = row_version;
                    now.incompatible_since = version;
                });
                edited.ok_or_else(|| errors::no_table(&changed.database, &changed.name))?;
            }
            Ok(())
        })
    }

    /// Raises the auto-increment counter of both tables to the greater one.
    fn raise_counters(&self, table: &Table, with: &Table) -> Result<()> {
        if table.auto_increment().is_none() {
            return Ok(());
        }
        let (next, next_with) = (
            self.next_auto_increment(table)?,
            self.next_auto_increment(with)?,
        );
        if next < next_with {
            self.set_auto_increment(table, next_with)
        } else if next_with < next {
            self.set_auto_increment(with, next)
        } else {
            Ok(())
        }
    }
}

/// Checks that a partition or subpartition can be exchanged with a table. Returns its position among
/// the leaves.
fn check(table: &Table, partition: &str, with: &Table) -> Result<usize> {
    let Some(by) = &table.partitioning else {
        return Err(refuse(
            1505,
            "Partition management on a not partitioned table is not possible",
        ));
    };
    if with.partitioning.is_some() {
        let text = format!(
            "Table to exchange with partition is partitioned: '{}'",
            with.name
        );
        return Err(refuse(1732, text));
    }
    if by.sub.is_some() && by.partition(partition).is_some() {
        return Err(refuse(
            1734,
            "Subpartitioned table, use subpartition instead of partition",
        ));
    }
    let leaf = by.named_leaves(partition);
    let at = leaf.ok_or_else(|| unknown(partition, table))?.start;
    let related = |t: &Table| !t.foreign_keys.is_empty() || !t.referenced_by.is_empty();
    if let Some(found) = [with, table].into_iter().find(|t| related(t)) {
        let text = format!(
            "Table to exchange with partition has foreign key references: '{}'",
            found.name
        );
        return Err(refuse(1740, text));
    }
    if has_same_structure(table, with) {
        Ok(at)
    } else {
        Err(different())
    }
}

fn different() -> Error {
    refuse(1736, "Tables have different definitions")
}

/// Whether two tables have the same columns, indexes and checks.
fn has_same_structure(a: &TableDef, b: &TableDef) -> bool {
    let same_column = |(a, b): (&Column, &Column)| {
        a.name.eq_ignore_ascii_case(&b.name)
            && a.ty == b.ty
            && a.nullable == b.nullable
            && a.auto_increment == b.auto_increment
            && a.generated == b.generated
    };
    let same_index = |(a, b): (&Index, &Index)| {
        a.name.eq_ignore_ascii_case(&b.name) && a.kind == b.kind && a.parts == b.parts
    };
    let checks = |t: &TableDef| {
        let all = t
            .checks
            .iter()
            .map(|c| (c.expression.text.clone(), c.enforced));
        let mut all: Vec<_> = all.collect();
        all.sort();
        all
    };
    a.columns.len() == b.columns.len()
        && a.columns.iter().zip(&b.columns).all(same_column)
        && a.indexes.len() == b.indexes.len()
        && a.indexes.iter().zip(&b.indexes).all(same_index)
        && a.hidden_key == b.hidden_key
        && a.options.memory == b.options.memory
        && a.overflow_spaces.is_empty() == b.overflow_spaces.is_empty()
        && checks(a) == checks(b)
}

/// Whether the rows of two tables of the same structure are read alike, and their keys are the same:
/// hidden keys of a partitioned table contain the partition.
fn are_read_alike(a: &TableDef, b: &TableDef) -> bool {
    let same_column =
        |(a, b): (&Column, &Column)| a.id == b.id && a.backfill == b.backfill && a.ty == b.ty;
    !a.hidden_key && a.layouts == b.layouts && a.columns.iter().zip(&b.columns).all(same_column)
}

/// The table that a partition of `from` is by itself. Its columns have the ids of those of `to` at
/// the same positions, so that its rows can be copied there.
fn alone(from: &TableDef, partition: usize, to: &TableDef) -> TableDef {
    /// Added to the ids of columns that `from` has no more.
    const DROPPED: u32 = 1 << 31;
    let spaces = Spaces::of(from, partition);
    let mut table = from.clone();
    table.partitioning = None;
    for (index, space) in table.indexes.iter_mut().zip(&spaces.indexes) {
        index.spaces = vec![*space];
    }
    table.overflow_spaces = spaces.overflow.into_iter().collect();
    let new_id = |id: ColumnId| {
        let at = from.columns.iter().position(|c| c.id == id);
        let found = at.and_then(|at| to.columns.get(at));
        found.map_or(ColumnId(id.0 | DROPPED), |c| c.id)
    };
    for column in &mut table.columns {
        column.id = new_id(column.id);
    }
    let renumber = |layout: &LayoutDef| LayoutDef {
        version: layout.version,
        columns: layout
            .columns
            .iter()
            .map(|(id, ty)| (new_id(*id), ty.clone()))
            .collect(),
    };
    table.layouts = from.layouts.iter().map(renumber).collect();
    table
}
