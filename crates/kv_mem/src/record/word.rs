//! The lock of a record packed into one word, which is 0 when the lock is free.
//!
//! The word is unpacked and packed under the record's latch, so each word is unpacked only once,
//! and owns the allocation that it points to.

use crate::lock::{Holder, LockCell, Queue, TxnId};
use porpoise_kv::LockMode;

/// Tags of a packed lock word, in its two lowest bits; 0 is a free lock.
const SINGLE: u64 = 1;
const QUEUED: u64 = 2;
const BOXED: u64 = 3;
const TAG: u64 = 3;

/// Modes by their two bits in a packed lock word.
pub(super) const MODES: [LockMode; 4] = [
    LockMode::KeyShare,
    LockMode::Share,
    LockMode::Update,
    LockMode::Exclusive,
];

/// Bits of a transaction's number in a word.
const TXN_BITS: u32 = 48;

/// The word of a lock with one holder, which has called once.
#[derive(Clone, Copy)]
pub(crate) struct FirstLock(pub(super) u64);

impl FirstLock {
    /// `None` if the number of the transaction does not fit.
    #[inline]
    pub(crate) fn new(txn: TxnId, mode: LockMode) -> Option<FirstLock> {
        let word = (txn << 16) | (1 << 4) | (mode_bits(mode) << 2) | SINGLE;
        (txn < 1 << TXN_BITS).then_some(FirstLock(word))
    }
}

/// Whether a word is the lock of this lone holder.
#[inline]
pub(super) fn is_held_by(word: u64, txn: TxnId) -> bool {
    word & TAG == SINGLE && word >> 16 == txn
}

/// The position of a mode in [`MODES`].
#[inline]
fn mode_bits(mode: LockMode) -> u64 {
    match mode {
        LockMode::KeyShare => 0,
        LockMode::Share => 1,
        LockMode::Update => 2,
        LockMode::Exclusive => 3,
    }
}

/// Packs a lock into a word. A lone holder becomes 48 bits of its transaction number, 12 bits of
/// its count, 2 of its mode; a queue becomes its address; a holder that does not fit becomes the
/// address of a boxed cell.
pub(super) fn pack(cell: LockCell) -> u64 {
    match cell {
        LockCell::Free => 0,
        LockCell::Single(Holder { txn, mode, count }) if txn < 1 << TXN_BITS && count < 1 << 12 => {
            (txn << 16) | (u64::from(count) << 4) | (mode_bits(mode) << 2) | SINGLE
        }
        LockCell::Queued(queue) => Box::into_raw(queue).expose_provenance() as u64 | QUEUED,
        one => Box::into_raw(Box::new(one)).expose_provenance() as u64 | BOXED,
    }
}

/// Returns the address in a packed word.
fn address_of<T>(word: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut((word & !TAG) as usize)
}

/// Unpacks a word made by `pack`.
///
/// # Safety
/// A word is unpacked at most once: it owns the allocation that it points to.
pub(super) unsafe fn unpack(word: u64) -> LockCell {
    match word & TAG {
        SINGLE => LockCell::Single(Holder {
            txn: word >> 16,
            mode: *MODES
                .get((word >> 2 & 3) as usize)
                .unwrap_or(&LockMode::Exclusive),
            count: (word >> 4 & 0xfff) as u32,
        }),
        // SAFETY: `pack` released the box into the word; the caller unpacks each word only once.
        QUEUED => LockCell::Queued(unsafe { Box::from_raw(address_of::<Queue>(word)) }),
        BOXED => {
            // SAFETY: as above.
            let one = unsafe { Box::from_raw(address_of::<LockCell>(word)) };
            *one
        }
        _ => LockCell::Free,
    }
}
