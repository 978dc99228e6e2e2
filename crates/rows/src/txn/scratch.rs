//! Buffers of writing statements, kept from one transaction to the next.

use super::keyset::KeySet;
use std::cell::RefCell;

/// Buffers of writing statements. They come from a thread-local pool at the first use and return to it, so that a small
/// statement allocates almost nothing, and a transaction that only reads does not touch the pool.
#[derive(Default)]
pub(super) struct Scratch(Option<Box<Buffers>>);

/// The buffers of a transaction.
#[derive(Default)]
pub(super) struct Buffers {
    /// Empty key set, taken by a writing statement while it runs.
    pub(super) keys: Option<Box<KeySet>>,
    /// Encoded row.
    pub(super) row: Vec<u8>,
    /// Encoded entry.
    pub(super) entry: Vec<u8>,
}

/// Boxed, so that taking and returning buffers moves a pointer.
type Pool = Vec<Box<Buffers>>;

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Vec::new()) };
}

/// Maximum number of buffers that a thread keeps.
const MAX_POOLED: usize = 8;

/// Capacity of a row's buffer that is not kept.
const MAX_ROW: usize = 1 << 20;

impl Scratch {
    /// The buffers, taken from the pool at the first use.
    #[inline]
    pub(super) fn buffers(&mut self) -> &mut Buffers {
        self.0.get_or_insert_with(take)
    }
}

fn take() -> Box<Buffers> {
    POOL.try_with(|pool| pool.try_borrow_mut().ok()?.pop())
        .ok()
        .flatten()
        .unwrap_or_default()
}

impl Drop for Scratch {
    #[inline]
    fn drop(&mut self) {
        if let Some(buffers) = self.0.take() {
            give_back(buffers);
        }
    }
}

fn give_back(buffers: Box<Buffers>) {
    if buffers.row.capacity() > MAX_ROW {
        return;
    }
    // While a thread ends, its pool no longer exists: the buffers are freed.
    let _ = POOL.try_with(|pool| {
        if let Ok(mut pool) = pool.try_borrow_mut()
            && pool.len() < MAX_POOLED
        {
            pool.push(buffers);
        }
    });
}
