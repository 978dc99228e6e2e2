//! Versions. A version is one committed state of a key.
//!
//! Head and value are one allocation. `Atomic<Version>` stores only the address; the length, which
//! a reference to the unsized `Version` needs, is in the head.

use crossbeam_epoch::{Atomic, Owned, Pointable, Pointer};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::offset_of;

/// Accounted bytes of a version without its value: header and allocation overhead.
pub(crate) const VERSION_BYTES: usize = 32;

/// `len` of a deletion.
const DELETED: u32 = u32::MAX;

/// One committed state of a key. The value's bytes are in the same allocation, so that readers find
/// them in cache lines that they load anyway.
#[repr(C)]
pub(crate) struct Version {
    /// The commit that wrote it.
    pub(super) ts: u64,
    pub(super) next: Atomic<Version>,
    /// Bytes of the value, or `DELETED`.
    len: u32,
    value: [u8],
}

impl Version {
    pub(crate) fn ts(&self) -> u64 {
        self.ts
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        (self.len != DELETED).then_some(&self.value)
    }

    pub(super) fn bytes(&self) -> usize {
        VERSION_BYTES + self.value.len()
    }

    /// The layout of a version with a value of `len` bytes.
    fn layout(len: usize) -> Layout {
        let head = Layout::new::<VersionHead>();
        let whole = Layout::from_size_align(offset_of!(VersionHead, value) + len, head.align());
        match whole {
            Ok(layout) => layout.pad_to_align(),
            Err(_) => unreachable!("values are shorter than 4 GiB"),
        }
    }

    /// Allocated bytes, and the part of them that is the value.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let len = self.value.len();
        (Version::layout(len).size(), len)
    }

    /// Allocates a version. The head is initialized, the value is not.
    fn allocate(len: Option<usize>) -> usize {
        // A length that does not fit would make references and deallocation undefined.
        let short = len.map_or(Some(DELETED), |len| {
            u32::try_from(len).ok().filter(|len| *len != DELETED)
        });
        let Some(head_len) = short else {
            unreachable!("values are shorter than 4 GiB");
        };
        let layout = Version::layout(len.unwrap_or(0));
        // SAFETY: the layout is not empty, and the head lies at its beginning.
        unsafe {
            let address = alloc(layout);
            if address.is_null() {
                handle_alloc_error(layout);
            }
            let head = VersionHead {
                ts: 0,
                next: Atomic::null(),
                len: head_len,
                value: [],
            };
            address.cast::<VersionHead>().write(head);
            address as usize
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
        let len = unsafe { (*head).len };
        let len = if len == DELETED { 0 } else { len as usize };
        std::ptr::slice_from_raw_parts_mut(address as *mut u8, len) as *mut Version
    }
}

/// The sized prefix of a [`Version`].
#[repr(C)]
struct VersionHead {
    ts: u64,
    next: Atomic<Version>,
    len: u32,
    value: [u8; 0],
}

/// A version that is not in a chain yet, created before the commit point.
pub(crate) struct NewVersion(pub(super) Owned<Version>);

impl NewVersion {
    /// Creates a version; `None` is a deletion.
    pub(crate) fn new(value: Option<&[u8]>) -> NewVersion {
        let len = value.map(<[u8]>::len);
        let bytes = value.unwrap_or_default();
        // SAFETY: the allocation has space for the value after the head; it is filled before any
        // other thread can see the version.
        unsafe {
            let address = Version::allocate(len);
            let to = (address as *mut u8).add(offset_of!(VersionHead, value));
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            NewVersion(Owned::from_usize(address))
        }
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
        let address = Version::allocate(len);
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
            let len = Self::deref(ptr).value.len();
            dealloc(ptr as *mut u8, Version::layout(len));
        }
    }
}
