//! References to records: counted ([`RecordRef`]), or borrowed from the index under a pin ([`Pinned`]).

use super::word::{FirstLock, unpack};
use super::{NewVersion, Record, RecordHead};
use crossbeam_epoch::{Atomic, Guard};
use porpoise_base::sync::RawLatch as _;
use porpoise_base::sync::RawMutex;
use porpoise_base::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, offset_of};
use std::ops::Deref;
use std::ptr::NonNull;

/// The address of a record, as the index keeps it.
pub(crate) type RecordAddress = NonNull<RecordHead>;

/// A counted reference to a record; the last one frees it.
pub(crate) struct RecordRef(RecordAddress);

// SAFETY: the mutable parts of a record are atomic, guarded by its latch, or a chain of versions,
// which `Atomic` makes shareable.
unsafe impl Send for RecordRef {}
// SAFETY: as above.
unsafe impl Sync for RecordRef {}

/// Converts an address to a reference, which includes the key's length.
///
/// # Safety
/// The record lives for `'r`.
unsafe fn to_record<'r>(address: RecordAddress) -> &'r Record {
    // SAFETY: the caller guarantees that the address is valid; `RecordHead` is laid out as the
    // beginning of `Record` (both C), and `key_len` bytes of key follow.
    unsafe {
        let len = (*address.as_ptr()).key_len as usize;
        let slice = std::ptr::slice_from_raw_parts(address.as_ptr().cast::<u8>(), len);
        &*(slice as *const Record)
    }
}

impl RecordRef {
    /// Creates a record without versions. The key has at most [`LONGEST_KEY`](super::LONGEST_KEY)
    /// bytes.
    pub(crate) fn new(key: &[u8]) -> RecordRef {
        RecordRef::with_counts(key, None, 1)
    }

    /// As [`RecordRef::new`], with two references to the record, which may have a lock.
    pub(crate) fn new_pair(key: &[u8], lock: Option<FirstLock>) -> (RecordRef, RecordRef) {
        let record = RecordRef::with_counts(key, lock, 2);
        let other = RecordRef(record.0);
        (record, other)
    }

    /// Creates a record with a number of counts, of which the reference that is returned owns one.
    fn with_counts(key: &[u8], lock: Option<FirstLock>, counts: u32) -> RecordRef {
        let Ok(key_len) = u16::try_from(key.len()) else {
            unreachable!("keys are shorter than 64 KiB");
        };
        let layout = RecordRef::layout(key.len());
        let head = RecordHead {
            head: Atomic::null(),
            lock: AtomicU64::new(lock.map_or(0, |lock| lock.0)),
            refs: AtomicU32::new(counts),
            key_len,
            latch: RawMutex::INIT,
            flags: AtomicU8::new(0),
            key: [],
        };
        // SAFETY: the layout is not empty; the head lies at its beginning, and
        // after it there is room for the key.
        unsafe {
            let address = alloc(layout);
            let Some(found) = NonNull::new(address.cast::<RecordHead>()) else {
                handle_alloc_error(layout);
            };
            found.as_ptr().write(head);
            let to = address.add(offset_of!(RecordHead, key));
            std::ptr::copy_nonoverlapping(key.as_ptr(), to, key.len());
            RecordRef(found)
        }
    }

    /// Creates a record with one version. Returns it with the version's accounted bytes.
    pub(crate) fn with_version(key: &[u8], ts: u64, version: NewVersion) -> (RecordRef, usize) {
        let record = RecordRef::new(key);
        let NewVersion(mut version) = version;
        version.ts = ts;
        let bytes = version.bytes();
        record.head.store(version, Ordering::Release);
        (record, bytes)
    }

    pub(super) fn layout(key: usize) -> Layout {
        let head = Layout::new::<RecordHead>();
        match Layout::from_size_align(offset_of!(RecordHead, key) + key, head.align()) {
            Ok(layout) => layout.pad_to_align(),
            Err(_) => unreachable!("keys are shorter than 64 KiB"),
        }
    }

    pub(crate) fn address(&self) -> RecordAddress {
        self.0
    }

    /// Releases ownership of the count; [`RecordRef::from_address`] takes it back.
    pub(crate) fn into_address(self) -> RecordAddress {
        ManuallyDrop::new(self).0
    }

    /// Takes ownership of a count.
    ///
    /// # Safety
    /// The count of the address was released by `into_address`, and was not taken back since.
    pub(crate) unsafe fn from_address(address: RecordAddress) -> RecordRef {
        RecordRef(address)
    }
}

impl Deref for RecordRef {
    type Target = Record;
    fn deref(&self) -> &Record {
        // SAFETY: a record lives as long as there is a count of it.
        unsafe { to_record(self.0) }
    }
}

impl Clone for RecordRef {
    fn clone(&self) -> RecordRef {
        if self.refs.fetch_add(1, Ordering::Relaxed) > u32::MAX / 2 {
            // Overflow: there cannot be two billion references to one row.
            std::process::abort();
        }
        RecordRef(self.0)
    }
}

impl Drop for RecordRef {
    fn drop(&mut self) {
        if self.refs.fetch_sub(1, Ordering::Release) > 1 {
            return;
        }
        // Synchronizes with the decrements of the other counts. A load, not a fence:
        // ThreadSanitizer understands it, and it costs the same.
        let _ = self.refs.load(Ordering::Acquire);
        let key = self.key.len();
        // SAFETY: this was the last count. No other thread can reach the record, and no reference
        // to its versions is left, because each borrows a count or a pin. The layout is that of
        // `new`.
        unsafe {
            drop(unpack(self.lock.load(Ordering::Relaxed)));
            let guard = crossbeam_epoch::unprotected();
            let mut next = self.head.load(Ordering::Relaxed, guard);
            while !next.is_null() {
                let version = next.into_owned();
                next = version.older(Ordering::Relaxed, guard);
            }
            dealloc(self.0.as_ptr().cast::<u8>(), RecordRef::layout(key));
        }
    }
}

/// A record found in the index, which lives as long as the pin.
#[derive(Clone, Copy)]
pub(crate) struct Pinned<'g> {
    address: RecordAddress,
    pin: PhantomData<&'g Guard>,
}

impl<'g> Pinned<'g> {
    /// Wraps the address of a record that was found under a pin.
    ///
    /// # Safety
    /// The index held a count of the record after the pin began.
    pub(crate) unsafe fn new(address: RecordAddress, _: &'g Guard) -> Pinned<'g> {
        Pinned {
            address,
            pin: PhantomData,
        }
    }

    /// The record.
    pub(crate) fn record(self) -> &'g Record {
        // SAFETY: the index's count is given up through the epoch, so that it
        // lasts as long as the pin.
        unsafe { to_record(self.address) }
    }

    pub(crate) fn address(self) -> RecordAddress {
        self.address
    }

    /// Returns a counted reference.
    pub(crate) fn to_counted(self) -> RecordRef {
        let borrowed = ManuallyDrop::new(RecordRef(self.address));
        // There is a count to copy, that of the index.
        RecordRef::clone(&borrowed)
    }
}

impl Deref for Pinned<'_> {
    type Target = Record;
    fn deref(&self) -> &Record {
        self.record()
    }
}
