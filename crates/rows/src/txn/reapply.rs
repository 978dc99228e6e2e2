//! Reapplies an UPDATE to rows that its own foreign key cascades have changed
//! since the statement read them.

use super::update::RowChange;
use crate::Result;
use crate::row::{RowBuf, RowRef};
use crate::table::Table;
use foldhash::HashMap;
use porpoise_kv::{self as kv, Key, Read};
use std::sync::Arc;

/// Rows that cascades of the statement have changed.
#[derive(Default)]
pub(crate) struct CascadedRows {
    /// Current primary key, by the primary key at the start of the statement.
    current_keys: HashMap<Vec<u8>, Vec<u8>>,
    /// Inverse of `current_keys`, for rows whose primary key has changed.
    original_keys: HashMap<Vec<u8>, Vec<u8>>,
}

impl CascadedRows {
    pub(crate) fn is_empty(&self) -> bool {
        self.current_keys.is_empty()
    }

    /// Records that a row was changed, and its current primary key.
    pub(crate) fn note(&mut self, primary: &[u8], current_keys: &[u8]) {
        // A row that a cascade changed before is recorded under its original key.
        let first = self.original_keys.remove(primary);
        let first = first.unwrap_or_else(|| primary.to_vec());
        if first != current_keys {
            self.original_keys
                .insert(current_keys.to_vec(), first.clone());
        }
        self.current_keys.insert(first, current_keys.to_vec());
    }

    /// Rebases a change on the current row if a cascade of this statement has changed
    /// the row since the caller read it. Returns `None` if none has, or the row was deleted.
    pub(crate) fn reapply(
        &self,
        kv: &mut dyn kv::Txn,
        table: &Arc<Table>,
        change: &RowChange,
    ) -> Result<Option<RowChange>> {
        match self.current_keys.get(&change.key) {
            Some(primary) => rebase(kv, table, change, primary),
            None => Ok(None),
        }
    }
}

/// Rebases a change on the present values of the row that now has this primary key: columns that
/// the change sets are set. Returns `None` if there is no such row any more.
pub(crate) fn rebase(
    kv: &mut dyn kv::Txn,
    table: &Arc<Table>,
    change: &RowChange,
    primary: &[u8],
) -> Result<Option<RowChange>> {
    let key = Key::new(table.space(0, primary), primary);
    let mut bytes = None;
    kv.get(Read::CURRENT, &[key], &mut |_, value| {
        bytes = value.map(<[u8]>::to_vec);
    })?;
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    let was = change.old.row(table)?;
    let now = RowRef::new(table, &bytes)?;
    let mut new = now.values();
    for (n, (place, requested)) in new.iter_mut().zip(&change.new).enumerate() {
        if requested.as_ref() != was.get(n) {
            place.clone_from(requested);
        }
    }
    Ok(Some(RowChange {
        key: primary.to_vec(),
        old: RowBuf::from(bytes),
        new,
    }))
}
