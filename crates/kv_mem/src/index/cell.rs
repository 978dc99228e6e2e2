//! Where the index keeps addresses, and all its unsafe code.
//!
//! A [`Cell`] leads to a record, a [`Link`] to a node or a table. Readers load
//! them under an epoch pin and may use what they find as long as the pin lasts.
//!
//! Invariants, for which the modules beside this one answer:
//! 1. A cell or a hash slot that is not empty leads to a record of which the
//!    index has a count. The count is given up by [`release`], through the
//!    epoch, after no cell and no slot leads there any more; or with a node
//!    that is freed through the epoch.
//! 2. What a link leads to is freed through the epoch, after nothing that a
//!    new reader reaches leads there.

use crate::record::{Pinned, RecordAddress, RecordHead, RecordRef};
use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use porpoise_base::sync::atomic::{AtomicPtr, Ordering};
use porpoise_base::sync::point;

/// A place for a record.
#[derive(Default)]
pub(super) struct Cell(AtomicPtr<RecordHead>);

impl Cell {
    /// The record here.
    pub(super) fn load<'g>(&self, guard: &'g Guard) -> Option<Pinned<'g>> {
        let address = RecordAddress::new(self.0.load(Ordering::Acquire))?;
        // SAFETY: invariant 1: the index held the count when the cell was read.
        Some(unsafe { Pinned::new(address, guard) })
    }

    pub(super) fn address(&self) -> *mut RecordHead {
        self.0.load(Ordering::Relaxed)
    }

    /// Puts an address here, or null. A count of the record is the index's.
    pub(super) fn set(&self, address: *mut RecordHead) {
        self.0.store(address, Ordering::Release);
    }

    pub(super) const fn empty() -> Cell {
        Cell(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Gives up the count of what is here; nobody reads here any more.
    pub(super) fn give_up(&mut self) {
        if let Some(address) = RecordAddress::new(*self.0.get_mut()) {
            // SAFETY: the count of what a cell leads to is the index's, and
            // `&mut self` says that no reader is left; the cell is emptied.
            drop(unsafe { RecordRef::from_address(address) });
        }
        *self.0.get_mut() = std::ptr::null_mut();
    }
}

/// Gives up a count of the index once nobody reads there any more.
pub(super) fn release(address: RecordAddress, guard: &Guard) {
    // SAFETY: the count was the index's, and the caller made sure that no cell
    // leads to the record any more. `RecordAddress` outlives the closure, and
    // freeing a record may happen on any thread (`RecordRef` is Send).
    unsafe {
        let record = RecordRef::from_address(address);
        guard.defer_unchecked(move || drop(record));
    }
}

/// A record by the address that a hash slot keeps.
pub(super) fn at_address(address: usize, guard: &Guard) -> Option<Pinned<'_>> {
    let head = std::ptr::with_exposed_provenance_mut::<RecordHead>(address);
    // SAFETY: invariant 1: the slot was read under the pin.
    RecordAddress::new(head).map(|address| unsafe { Pinned::new(address, guard) })
}

/// A link to something that readers reach under a pin.
pub(super) struct Link<T>(Atomic<T>);

impl<T> Default for Link<T> {
    fn default() -> Link<T> {
        Link::empty()
    }
}

impl<T> Link<T> {
    /// One that leads nowhere.
    pub(super) const fn empty() -> Link<T> {
        Link(Atomic::null())
    }

    pub(super) fn load<'g>(&self, guard: &'g Guard) -> Option<&'g T> {
        point();
        // SAFETY: invariant 2: what a link led to after the pin began lives as
        // long as the pin.
        unsafe { self.0.load(Ordering::Acquire, guard).as_ref() }
    }

    /// Whether it leads there.
    pub(super) fn is(&self, to: &T, guard: &Guard) -> bool {
        std::ptr::eq(self.0.load(Ordering::Acquire, guard).as_raw(), to)
    }

    /// Lets it lead to something new; what it led to before is not freed.
    pub(super) fn set_new<'g>(&self, new: T, guard: &'g Guard) -> &'g T {
        point();
        let shared = Owned::new(new).into_shared(guard);
        self.0.store(shared, Ordering::Release);
        // SAFETY: it was made just now, and is freed through the epoch only.
        unsafe { shared.deref() }
    }

    /// Lets it lead where another does.
    pub(super) fn copy(&self, from: &Link<T>, guard: &Guard) {
        point();
        let shared = from.0.load(Ordering::Relaxed, guard);
        self.0.store(shared, Ordering::Release);
    }

    /// Lets it lead nowhere.
    pub(super) fn clear(&self) {
        point();
        self.0.store(Shared::null(), Ordering::Release);
    }

    /// Frees what it leads to once nobody reads there. Nothing else leads
    /// there; the link leads nowhere from now on.
    pub(super) fn retire(&self, guard: &Guard) {
        let old = self.0.swap(Shared::null(), Ordering::AcqRel, guard);
        free(old, guard);
    }

    /// Lets it lead to something new, and frees what it led to before.
    pub(super) fn replace<'g>(&self, new: T, guard: &'g Guard) -> &'g T {
        let old = self.0.load(Ordering::Relaxed, guard);
        let new = self.set_new(new, guard);
        free(old, guard);
        new
    }
}

fn free<T>(old: Shared<'_, T>, guard: &Guard) {
    if !old.is_null() {
        // SAFETY: no link leads there any more, by the callers' contract.
        unsafe { guard.defer_destroy(old) };
    }
}
