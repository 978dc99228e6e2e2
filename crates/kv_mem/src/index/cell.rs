//! The places where the index keeps addresses.
//!
//! A [`Cell`] leads to a record, a [`Link`] to a node or a table. Readers load them under an epoch
//! pin and may use what they find as long as the pin lasts.
//!
//! Invariants, on which the safe functions rely, and which callers of the unsafe ones keep:
//! 1. The index holds a count of each record that a cell or hash slot leads to. The count is given
//!    up through the epoch after no cell and no slot leads there any more ([`Removed::retire`]), or
//!    with its node, which is itself freed through the epoch.
//! 2. Outside of a change, one cell leads to a record.
//! 3. The target of a link is freed through the epoch, after no link that a later reader loads leads
//!    there.

use crate::record::{Pinned, RecordAddress, RecordHead, RecordRef};
use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use porpoise_base::sync::atomic::{AtomicPtr, Ordering};
use porpoise_base::sync::point;

/// A place for a record; owns a count of it.
#[derive(Default)]
pub(super) struct Cell(AtomicPtr<RecordHead>);

impl Cell {
    pub(super) const fn empty() -> Cell {
        Cell(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The record here.
    pub(super) fn load<'g>(&self, guard: &'g Guard) -> Option<Pinned<'g>> {
        let address = RecordAddress::new(self.0.load(Ordering::Acquire))?;
        // SAFETY: invariant 1: the index held the count when the cell was read, under the pin.
        Some(unsafe { Pinned::new(address, guard) })
    }

    /// The address here, or null.
    pub(super) fn address(&self) -> *mut RecordHead {
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces the address here.
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

    /// Gives the count up once no reader is left.
    pub(super) fn retire(self, guard: &Guard) {
        // SAFETY: the count was a cell's, by `new`. `RecordRef` is Send and owns what it frees, so
        // the closure may run later and on any thread.
        unsafe {
            let record = RecordRef::from_address(self.0);
            guard.defer_unchecked(move || drop(record));
        }
    }
}

/// The record at an address that a hash slot keeps.
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
    /// A link that leads nowhere.
    pub(super) const fn empty() -> Link<T> {
        Link(Atomic::null())
    }

    /// The target.
    pub(super) fn load<'g>(&self, guard: &'g Guard) -> Option<&'g T> {
        point();
        // SAFETY: invariant 3: a target that was loaded under the pin lives as long as the pin.
        unsafe { self.0.load(Ordering::Acquire, guard).as_ref() }
    }

    /// Whether it leads there.
    pub(super) fn is(&self, to: &T, guard: &Guard) -> bool {
        std::ptr::eq(self.0.load(Ordering::Acquire, guard).as_raw(), to)
    }

    /// Leads to a new target; the old one is not freed.
    pub(super) fn set_new<'g>(&self, new: T, guard: &'g Guard) -> &'g T {
        point();
        let shared = Owned::new(new).into_shared(guard);
        self.0.store(shared, Ordering::Release);
        // SAFETY: it was allocated above, and is freed through the epoch only (invariant 3).
        unsafe { shared.deref() }
    }

    /// Leads to the target of another link.
    pub(super) fn copy(&self, from: &Link<T>, guard: &Guard) {
        point();
        let shared = from.0.load(Ordering::Relaxed, guard);
        self.0.store(shared, Ordering::Release);
    }

    /// Leads nowhere; the target is not freed.
    pub(super) fn clear(&self) {
        point();
        self.0.store(Shared::null(), Ordering::Release);
    }

    /// Leads nowhere, and frees the target once no reader is left.
    ///
    /// # Safety
    /// No other link leads to the target, but links that are never loaded under a later pin. No
    /// other thread changes the link.
    pub(super) unsafe fn retire(&self, guard: &Guard) {
        let old = self.0.swap(Shared::null(), Ordering::AcqRel, guard);
        // SAFETY: by the caller; this link leads there no more, either.
        unsafe { free(old, guard) };
    }

    /// Leads to a new target, and frees the old one once no reader is left.
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
/// No link that a later reader loads leads there, and it is freed once.
unsafe fn free<T>(old: Shared<'_, T>, guard: &Guard) {
    if !old.is_null() {
        // SAFETY: by the caller.
        unsafe { guard.defer_destroy(old) };
    }
}
