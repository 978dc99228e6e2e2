//! Buffers of writing statements, kept from one transaction to the next.

use super::keyset::KeySet;
use std::cell::RefCell;

/// Buffers of writing statements. They are returned to a thread-local pool, so that a small
/// statement allocates almost nothing.
#[derive(Default)]
pub(super) struct Scratch {
    /// Key set, taken by a writing statement while it runs.
    pub(super) keys: KeySet,
    /// Encoded row.
    pub(super) row: Vec<u8>,
    /// Encoded entry.
    pub(super) entry: Vec<u8>,
}

thread_local! {
    static POOL: RefCell<Vec<Scratch>> = const { RefCell::new(Vec::new()) };
}

impl Scratch {
    /// Takes buffers from the pool.
    pub(super) fn take() -> Scratch {
        POOL.try_with(|pool| pool.try_borrow_mut().ok()?.pop())
            .ok()
            .flatten()
            .unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        const MAX_POOLED: usize = 8;
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        let (row, entry) = (
            std::mem::take(&mut self.row),
            std::mem::take(&mut self.entry),
        );
        if row.capacity() > 1 << 20 || row.capacity() + entry.capacity() == 0 {
            return;
        }
        // While a thread ends, its pool no longer exists: the buffers are freed.
        let _ = POOL.try_with(|pool| {
            if let Ok(mut pool) = pool.try_borrow_mut()
                && pool.len() < MAX_POOLED
            {
                // Its own drop finds nothing to keep once the pool drops it.
                pool.push(Scratch { keys, row, entry });
            }
        });
    }
}
