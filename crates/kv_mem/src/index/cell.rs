//! Atomic pointers of the index: to records ([`Cell`]), and to nodes or tables ([`Link`]).
//!
//! Readers load them under an epoch pin, and may use the target as long as the pin lasts.
//!
//! Invariants, on which the safe functions rely, and which callers of the unsafe ones keep:
//! 1. The index holds a count of each record that a cell or hash slot leads to. The count is given
//!    up through the epoch after no cell and no slot leads there any more ([`Removed::retire`]), or
//!    with its node, which is itself freed through the epoch.
//! 2. Except during a change, exactly one cell points to a record.
//! 3. The target of a link is freed through the epoch, after no link that a later reader loads leads
//!    there.

use crate::record::{Pinned, RecordAddress, RecordHead, RecordRef};
use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use porpoise_base::sync::atomic::{AtomicPtr, Ordering};
use porpoise_base::sync::scheduling_point;

/// A pointer to a record, which owns a count of it; may be null.
#[derive(Default)]
pub(super) struct Cell(AtomicPtr<RecordHead>);

impl Cell {
    pub(super) const fn empty() -> Cell {
        Cell(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Returns the record.
    pub(super) fn load<'g>(&self, guard: &'g Guard) -> Option<Pinned<'g>> {
        let address = RecordAddress::new(self.0.load(Ordering::Acquire))?;
        // SAFETY: invariant 1: the index held the count when the cell was read, under the pin.
        Some(unsafe { Pinned::new(address, guard) })
    }

    /// Returns the record's address, or null.
    pub(super) fn address(&self) -> *mut RecordHead {
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces the address.
    ///
    /// # Safety
    /// `address` is null, or the cell becomes the owner of a count of the record: the caller gives
    /// one, or empties the cell that owned it before the change ends. No other thread changes cells
    /// of this tree.
    pub(super) unsafe fn set(&self, address: *mut RecordHead) {
        self.0.store(address, Ordering::Release);
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        if let Some(address) = RecordAddress::new(*self.0.get_mut()) {
            // SAFETY: the count is the cell's (invariant 1), and `&mut self` shows that no reader
            // is left.
            drop(unsafe { RecordRef::from_address(address) });
        }
    }
}

/// A record that was taken out of its cell, with the count that the cell owned. Readers may still
/// use the record: a count that is dropped instead of retired is leaked.
#[must_use = "the count is leaked unless it is retired"]
pub(super) struct Removed(RecordAddress);

impl Removed {
    /// # Safety
    /// The count of the record was owned by a cell that was emptied.
    pub(super) unsafe fn new(address: RecordAddress) -> Removed {
        Removed(address)
    }

    /// Drops the count once no reader is left.
    pub(super) fn retire(self, guard: &Guard) {
        // SAFETY: the count was a cell's, by `new`. `RecordRef` is Send and owns what it frees, so
        // the closure may run later and on any thread.
        unsafe {
            let record = RecordRef::from_address(self.0);
            guard.defer_unchecked(move || drop(record));
        }
    }
}

/// Returns the record at an address from a hash slot.
///
/// # Safety
/// The slot was read under the pin, and leads to a record of which the index then held a count.
pub(super) unsafe fn at_address(address: usize, guard: &Guard) -> Option<Pinned<'_>> {
    let head = std::ptr::with_exposed_provenance_mut::<RecordHead>(address);
    // SAFETY: by the caller.
    RecordAddress::new(head).map(|address| unsafe { Pinned::new(address, guard) })
}

/// A link to a node or table that readers reach under a pin.
pub(super) struct Link<T>(Atomic<T>);

impl<T> Default for Link<T> {
    fn default() -> Link<T> {
        Link::empty()
    }
}

impl<T> Link<T> {
    /// Creates a null link.
    pub(super) const fn empty() -> Link<T> {
        Link(Atomic::null())
    }

    /// Returns the target.
    pub(super) fn load<'g>(&self, guard: &'g Guard) -> Option<&'g T> {
        scheduling_point();
        // SAFETY: invariant 3: a target that was loaded under the pin lives as long as the pin.
        unsafe { self.0.load(Ordering::Acquire, guard).as_ref() }
    }

    /// Whether `to` is the target.
    pub(super) fn points_to(&self, to: &T, guard: &Guard) -> bool {
        std::ptr::eq(self.0.load(Ordering::Acquire, guard).as_raw(), to)
    }

    /// Sets a new target. The old one is not freed.
    pub(super) fn set_new<'g>(&self, new: T, guard: &'g Guard) -> &'g T {
        scheduling_point();
        let shared = Owned::new(new).into_shared(guard);
        self.0.store(shared, Ordering::Release);
        // SAFETY: it was allocated above, and is freed through the epoch only (invariant 3).
        unsafe { shared.deref() }
    }

    /// Sets the target to that of another link. The old target is not freed.
    pub(super) fn copy_from(&self, from: &Link<T>, guard: &Guard) {
        scheduling_point();
        let shared = from.0.load(Ordering::Relaxed, guard);
        self.0.store(shared, Ordering::Release);
    }

    /// Sets the link to null. The target is not freed.
    pub(super) fn clear(&self) {
        scheduling_point();
        self.0.store(Shared::null(), Ordering::Release);
    }

    /// Sets the link to null, and frees the target once no reader is left.
    ///
    /// # Safety
    /// No other link points to the target, except links that are never loaded under a later pin. No
    /// other thread changes the link.
    pub(super) unsafe fn retire(&self, guard: &Guard) {
        let old = self.0.swap(Shared::null(), Ordering::AcqRel, guard);
        // SAFETY: by the caller; this link leads there no more, either.
        unsafe { free(old, guard) };
    }

    /// Sets a new target, and frees the old one once no reader is left.
    ///
    /// # Safety
    /// As for [`Link::retire`].
    pub(super) unsafe fn replace<'g>(&self, new: T, guard: &'g Guard) -> &'g T {
        let old = self.0.load(Ordering::Relaxed, guard);
        let new = self.set_new(new, guard);
        // SAFETY: by the caller; this link leads there no more, either.
        unsafe { free(old, guard) };
        new
    }
}

/// Frees a target once no reader is left.
///
/// # Safety
/// No link that a later reader loads points to the target, and it is freed only once.
unsafe fn free<T>(old: Shared<'_, T>, guard: &Guard) {
    if !old.is_null() {
        // SAFETY: by the caller.
        unsafe { guard.defer_destroy(old) };
    }
}
