//! CHECK TABLE, the second half: every row lies in the partition of its
//! values, every value outside of its row has all its parts with all their
//! bytes, and no part is left over.

use crate::catalog::Table;
use crate::check::hex;
use crate::db::Db;
use crate::ddl::DdlCx;
use crate::error::Result;
use crate::row::RowRef;
use porpoise_kv::{self as kv, Key, Read, SpaceId};
use std::collections::HashSet;

impl Db {
    /// Reports rows in wrong partitions, and parts that are missing or left
    /// over.
    pub(crate) fn check_placement(
        &self,
        cx: &DdlCx<'_>,
        table: &Table,
        report: &mut dyn FnMut(String),
    ) -> Result<()> {
        if table.partitioning.is_none() && table.parts.is_empty() {
            return Ok(());
        }
        for (partition, space) in table.index_spaces(0).iter().enumerate() {
            let mut named: HashSet<Vec<u8>> = HashSet::new();
            let parts = table.parts.get(partition).copied();
            self.each_entry(cx, *space, |txn, key, value| {
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
                        "row {} lies in the wrong partition `{name}`",
                        hex(key)
                    ));
                }
                match parts {
                    Some(space) => check_parts(txn, space, &row, key, &mut named, report),
                    None => Ok(()),
                }
            })?;
            let Some(parts) = parts else { continue };
            self.each_entry(cx, parts, |_, key, _| {
                if !named.contains(key) {
                    report(format!("part {} belongs to no row", hex(key)));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Walks a space; each entry comes with the transaction that read it.
    fn each_entry(
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

fn check_parts(
    txn: &mut dyn kv::Txn,
    space: SpaceId,
    row: &RowRef<'_>,
    key: &[u8],
    named: &mut HashSet<Vec<u8>>,
    report: &mut dyn FnMut(String),
) -> Result<()> {
    for column in row.blobs() {
        let keys: Vec<_> = (0..column.blob.parts())
            .map(|n| column.blob.key(n))
            .collect();
        let wanted: Vec<Key<'_>> = keys.iter().map(|k| Key::new(space, k)).collect();
        let mut bytes = column.blob.prefix();
        let mut missing = 0;
        txn.get(Read::CURRENT, &wanted, &mut |_, value| match value {
            Some(value) => bytes += value.len(),
            None => missing += 1,
        })?;
        if missing > 0 || bytes != column.blob.len() {
            report(format!(
                "row {} lacks {missing} parts of column {}: {bytes} of {} bytes",
                hex(key),
                column.position,
                column.blob.len()
            ));
        }
        named.extend(keys.iter().map(|k| k.to_vec()));
    }
    Ok(())
}
