//! CHECK TABLE, the second half: every row lies in the partition of its
//! values, every value outside of its row has all its parts with all their
//! bytes, and no part is left over.

use crate::catalog::Table;
use crate::check::hex;
use crate::db::Db;
use crate::ddl::DdlCx;
use crate::error::{Error, Result};
use crate::row::RowRef;
use porpoise_kv::{self as kv, Key, Read, ScanEnd, ScanRange, SpaceId, TxnOptions};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Rows of one transaction.
const BATCH: usize = 1000;

/// What is done with each entry of a space: the walk's transaction, key, value.
type EachEntry<'a> = dyn FnMut(&mut dyn kv::Txn, &[u8], &[u8]) -> Result<()> + 'a;

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
            self.each_entry(cx, *space, &mut |txn, key, value| {
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
            self.each_entry(cx, parts, &mut |_, key, _| {
                if !named.contains(key) {
                    report(format!("part {} belongs to no row", hex(key)));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Walks a space in batches, a transaction each.
    fn each_entry(&self, cx: &DdlCx<'_>, space: SpaceId, each: &mut EachEntry<'_>) -> Result<()> {
        let mut start: Vec<u8> = Vec::new();
        loop {
            if let Some(reason) = cx.cancel.reason() {
                return Err(Error::Kv(kv::Error::Cancelled(reason)));
            }
            let mut batch: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let range = ScanRange {
                space,
                start: &start,
                end: None,
                reverse: false,
            };
            let mut txn = self.engine().begin(TxnOptions::default())?;
            let mut bytes = 0;
            let end = txn.scan(Read::SNAPSHOT, &[range], BATCH, &mut |_, key, value| {
                bytes += value.len();
                batch.push((key.to_vec(), value.to_vec()));
                match bytes > 16 << 20 {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })?;
            for (key, value) in &batch {
                each(txn.as_mut(), key, value)?;
            }
            txn.rollback();
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
        txn.get(Read::SNAPSHOT, &wanted, &mut |_, value| match value {
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
