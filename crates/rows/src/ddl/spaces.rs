//! The spaces of a table: for each partition one per index, and one for overflow values if a column
//! may have them.
//!
//! All spaces of a partition have the same co-location group and partition number, so that an
//! engine can store them together.

use crate::definition::{Index, TableDef};
use porpoise_kv::{SpaceDurability, SpaceId, SpaceSpec};

fn spec(table: &TableDef, partition: usize, point_lookups: bool) -> SpaceSpec {
    SpaceSpec {
        group: table.group(),
        partition: u32::try_from(partition).unwrap_or(u32::MAX),
        durability: if table.options.memory {
            SpaceDurability::Memory
        } else {
            SpaceDurability::Server
        },
        point_lookups,
    }
}

/// Specification of the space of an index in a partition.
pub(super) fn partition_space(table: &TableDef, index: &Index, partition: usize) -> SpaceSpec {
    spec(table, partition, index.kind.is_unique())
}

/// Specification of the space of overflow values in a partition.
pub(super) fn overflow_space(table: &TableDef, partition: usize) -> SpaceSpec {
    spec(table, partition, true)
}

/// Specifications of the spaces of an index, one per partition.
pub(super) fn index_spaces(table: &TableDef, index: &Index) -> Vec<SpaceSpec> {
    let partitions = 0..table.leaf_count();
    partitions
        .map(|p| partition_space(table, index, p))
        .collect()
}

/// All spaces of a table: its indexes in order, then the overflow values.
pub(super) fn table_spaces(table: &TableDef) -> Vec<SpaceSpec> {
    let indexes = table.indexes.iter().flat_map(|i| index_spaces(table, i));
    let overflow = if table.may_overflow() {
        0..table.leaf_count()
    } else {
        0..0
    };
    indexes
        .chain(overflow.map(|p| overflow_space(table, p)))
        .collect()
}

/// Assigns to a table the spaces created for [`table_spaces`].
pub(super) fn assign(table: &mut TableDef, spaces: &[SpaceId]) {
    let mut by_index = spaces.chunks(table.leaf_count().max(1));
    for index in &mut table.indexes {
        index.spaces = by_index.next().unwrap_or(&[]).to_vec();
    }
    table.overflow_spaces = by_index.next().unwrap_or(&[]).to_vec();
}
