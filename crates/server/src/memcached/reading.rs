//! The rows of a container's keys, in the keys' order.
//!
//! Keys of the primary key without values elsewhere, which is nearly always,
//! are shown where the engine has them. A unique key takes a second batch for
//! the rows it names; values in a table of parts take another (see
//! [`super::large`]).

use super::container::Container;
use super::large;
use porpoise_kv::Read;
use porpoise_rows::{Result, RowBuf, RowRef, Txn};

/// What is shown of a key: its row, and its value where that lies elsewhere.
pub(super) type Shown<'r> = Option<(RowRef<'r>, Option<&'r [u8]>)>;

/// Shows the rows of keys (of the container's index) in the order of the keys.
///
/// # Errors
/// Those of reading.
pub(super) fn rows(
    container: &Container,
    txn: &mut Txn,
    keys: &[&[u8]],
    read: Read,
    visit: &mut dyn FnMut(usize, Shown<'_>),
) -> Result<()> {
    let table = &container.table;
    if container.index() == 0 && container.large().is_none() {
        return txn.get_rows_in_order(table, keys, read, &mut |n, row| {
            visit(n, row.map(|row| (row, None)));
        });
    }
    let mut found: Vec<Option<RowBuf>> = Vec::new();
    found.resize_with(keys.len(), || None);
    let index = container.index();
    txn.get_by_unique(table, index, keys, read, &mut |n, row| {
        if let (Some(place), Some((_, row))) = (found.get_mut(n), row) {
            *place = Some(row.to_buf());
        }
    })?;
    let values = large::values(container, txn, &found, read)?;
    for (n, row) in found.iter().enumerate() {
        let Some(row) = row else {
            visit(n, None);
            continue;
        };
        let value = values.get(n).and_then(Option::as_deref);
        visit(n, Some((row.row(table)?, value)));
    }
    Ok(())
}
