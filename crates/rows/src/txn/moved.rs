//! Rows of an UPDATE that its own cascades have changed before their turn.

use super::Txn;
use super::update::RowChange;
use crate::Result;
use crate::catalog::Table;
use crate::row::{RowBuf, RowRef};
use foldhash::HashMap;
use porpoise_kv::{Key, Read};
use std::sync::Arc;

/// Where rows are by now, by the primary key they had when the statement
/// began.
pub(crate) type Moved = HashMap<Vec<u8>, Vec<u8>>;

impl Txn {
    /// A row that a cascade of this statement has changed since the caller
    /// read it: as it is now, with the caller's changes on top.
    pub(crate) fn changed_meanwhile(
        &mut self,
        table: &Arc<Table>,
        change: &RowChange,
        moved: &Moved,
    ) -> Result<Option<RowChange>> {
        let Some(primary) = moved.get(&change.key) else {
            return Ok(None);
        };
        let key = Key::new(table.space(0, primary), primary);
        let mut bytes = None;
        self.kv.get(Read::CURRENT, &[key], &mut |_, value| {
            bytes = value.map(<[u8]>::to_vec);
        })?;
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let was = change.old.row(table)?;
        let now = RowRef::new(table, &bytes)?;
        let mut new = now.values();
        for (n, (place, asked)) in new.iter_mut().zip(&change.new).enumerate() {
            if asked.as_ref() != was.get(n) {
                place.clone_from(asked);
            }
        }
        Ok(Some(RowChange {
            key: primary.clone(),
            old: RowBuf::from(bytes),
            new,
        }))
    }
}
