//! Versions. A version is one committed state of a key.
//!
//! Head and value are one allocation. `Atomic<Version>` stores only the address; the length, which
//! a reference to the unsized `Version` needs, is in the head.
//!
//! ```text
//!  with a link   | link 8 | ts 8 | len 4 | value |
//!                         ^ address
//!  without       | ts 8 | len 4 | value |
//!                ^ address
//! ```
//!
//! The link to the next older version lies before the head, and only versions have one that may get an older version:
//! most rows and nearly all index entries are inserted once and stay as they are, so that 8 bytes for each are saved
//! (16 where the allocator's sizes are coarse).
//!
//! Invariant: [`LINKED`] of `len` says whether there is a link, and never changes.

use crossbeam_epoch::{Atomic, Guard, Owned, Pointable, Pointer, Shared};
use porpoise_base::sync::atomic::Ordering;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::offset_of;

/// Accounted bytes of a version without its value: header and allocation overhead.
pub(crate) const VERSION_BYTES: usize = 32;

/// The longest value that a version can have, in bytes; engines allow less.
pub(crate) const LONGEST_VALUE: usize = DELETED as usize - 1;

/// Bit of `len` of a version with a link.
const LINKED: u32 = 1 << 31;

/// `len` of a deletion, without [`LINKED`].
const DELETED: u32 = LINKED - 1;

/// Bytes of the link before a version.
const LINK_BYTES: usize = size_of::<Atomic<Version>>();

/// One committed state of a key. The value's bytes are in the same allocation, so that readers find
/// them in cache lines that they load anyway.
#[repr(C)]
pub(crate) struct Version {
    /// The commit that wrote it.
    pub(super) ts: u64,
    /// Bytes of the value, or `DELETED`; and `LINKED`.
    len: u32,
    value: [u8],
}

impl Version {
    pub(crate) fn ts(&self) -> u64 {
        self.ts
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        (self.len & !LINKED != DELETED).then_some(&self.value)
    }

    pub(super) fn bytes(&self) -> usize {
        VERSION_BYTES + self.value.len()
    }

    /// The link to the next older version; without one there is no older version.
    #[inline]
    pub(super) fn link(&self) -> Option<&Atomic<Version>> {
        if self.len & LINKED == 0 {
            return None;
        }
        let address = std::ptr::from_ref(self).addr() - LINK_BYTES;
        // SAFETY: a version with this bit lies behind its link, in the same allocation, whose address was exposed. The
        // link lives as long as the version, and is only accessed atomically.
        Some(unsafe { &*std::ptr::with_exposed_provenance(address) })
    }

    /// Returns the next older version.
    #[inline]
    pub(super) fn older<'g>(&self, order: Ordering, guard: &'g Guard) -> Shared<'g, Version> {
        match self.link() {
            Some(link) => link.load(order, guard),
            None => Shared::null(),
        }
    }

    /// The layout of a version with a value of `len` bytes.
    fn layout(is_linked: bool, len: usize) -> Layout {
        let head = Layout::new::<VersionHead>();
        let link = if is_linked { LINK_BYTES } else { 0 };
        let size = link + offset_of!(VersionHead, value) + len;
        match Layout::from_size_align(size, head.align()) {
            Ok(layout) => layout.pad_to_align(),
            Err(_) => unreachable!("values are shorter than 2 GiB"),
        }
    }

    fn own_layout(&self) -> Layout {
        Version::layout(self.len & LINKED != 0, self.value.len())
    }

    /// Allocated bytes, and the part of them that is the value.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.own_layout().size(), self.value.len())
    }

    /// Allocates a version, with a link or without. The head is initialized, the value is not.
    fn allocate(is_linked: bool, len: Option<usize>) -> usize {
        // A length that does not fit would make references and deallocation undefined.
        let short = len.map_or(Some(DELETED), |len| {
            u32::try_from(len).ok().filter(|len| *len < DELETED)
        });
        let Some(head_len) = short else {
            unreachable!("values are shorter than 2 GiB");
        };
        let layout = Version::layout(is_linked, len.unwrap_or(0));
        // SAFETY: the layout is not empty; the link, if there is one, lies at its beginning, and the head behind it.
        unsafe {
            let mut address = alloc(layout);
            if address.is_null() {
                handle_alloc_error(layout);
            }
            if is_linked {
                address.cast::<Atomic<Version>>().write(Atomic::null());
                address = address.add(LINK_BYTES);
            }
            let head = VersionHead {
                ts: 0,
                len: head_len | if is_linked { LINKED } else { 0 },
                value: [],
            };
            address.cast::<VersionHead>().write(head);
            address.expose_provenance()
        }
    }

    /// Converts the address of a version to a pointer, which includes its length.
    ///
    /// # Safety
    /// The address was returned by `init`, and was not dropped since.
    unsafe fn to_version(address: usize) -> *mut Version {
        let head = address as *const VersionHead;
        // SAFETY: the caller guarantees that the address is valid; `VersionHead` is laid out as the
        // beginning of `Version` (both C).
        let len = unsafe { (*head).len } & !LINKED;
        let len = if len == DELETED { 0 } else { len as usize };
        std::ptr::slice_from_raw_parts_mut(address as *mut u8, len) as *mut Version
    }
}

/// The sized prefix of a [`Version`].
#[repr(C)]
struct VersionHead {
    ts: u64,
    len: u32,
    value: [u8; 0],
}

/// A version that is not in a chain yet, created before the commit point.
pub(crate) struct NewVersion(pub(super) Owned<Version>);

impl NewVersion {
    /// Creates a version; `None` is a deletion.
    pub(crate) fn new(value: Option<&[u8]>) -> NewVersion {
        NewVersion::with_link(true, value)
    }

    /// Creates the version of a key that probably has none. If it has one, pushing this version copies it.
    pub(crate) fn first(value: &[u8]) -> NewVersion {
        NewVersion::with_link(false, Some(value))
    }

    fn with_link(is_linked: bool, value: Option<&[u8]>) -> NewVersion {
        let len = value.map(<[u8]>::len);
        let bytes = value.unwrap_or_default();
        // SAFETY: the allocation has space for the value after the head; it is filled before any
        // other thread can see the version.
        unsafe {
            let address = Version::allocate(is_linked, len);
            let to = (address as *mut u8).add(offset_of!(VersionHead, value));
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            NewVersion(Owned::from_usize(address))
        }
    }

    /// A copy of a version, with a link to an older one.
    #[cold]
    pub(super) fn linked_copy(of: &Version, older: Shared<'_, Version>) -> NewVersion {
        let mut copy = NewVersion::new(of.value());
        copy.0.ts = of.ts;
        copy.link_to(older);
        copy
    }

    /// Sets the link. Returns false if there is none.
    #[inline]
    pub(super) fn link_to(&mut self, older: Shared<'_, Version>) -> bool {
        let link = self.0.link();
        if let Some(link) = link {
            link.store(older, Ordering::Relaxed);
        }
        link.is_some()
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.0.value()
    }
}

/// Addresses come from `init`, which allocates and initializes the memory. References use the
/// length that the head records, and memory is freed with the layout of its allocation.
impl Pointable for Version {
    const ALIGN: usize = align_of::<VersionHead>();

    /// Bytes of the value, `None` for a deletion. The value begins as zeroes.
    type Init = Option<usize>;

    unsafe fn init(len: Option<usize>) -> usize {
        let address = Version::allocate(true, len);
        // SAFETY: the allocation has space for the value after the head.
        unsafe {
            let to = (address as *mut u8).add(offset_of!(VersionHead, value));
            std::ptr::write_bytes(to, 0, len.unwrap_or(0));
        }
        address
    }

    unsafe fn deref<'a>(ptr: usize) -> &'a Self {
        // SAFETY: the caller guarantees that the address is valid, as `Pointable` requires.
        unsafe { &*Version::to_version(ptr) }
    }

    unsafe fn deref_mut<'a>(ptr: usize) -> &'a mut Self {
        // SAFETY: as in `deref`.
        unsafe { &mut *Version::to_version(ptr) }
    }

    unsafe fn drop(ptr: usize) {
        // SAFETY: as in `deref`. No field of a version needs dropping: its link does not own the
        // target.
        unsafe {
            let version = Self::deref(ptr);
            let (layout, is_linked) = (version.own_layout(), version.len & LINKED != 0);
            let link = if is_linked { LINK_BYTES } else { 0 };
            dealloc((ptr - link) as *mut u8, layout);
        }
    }
}
