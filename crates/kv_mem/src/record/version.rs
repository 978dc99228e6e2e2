//! Versions: one committed state of a key each.
//!
//! Head and value are one allocation. `Atomic<Version>` has only the address; the length that makes a
//! reference of it is in the head.

use crossbeam_epoch::{Atomic, Owned, Pointable, Pointer};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::offset_of;

/// Accounted bytes of a version beside its value: head and allocation.
pub(crate) const VERSION_BYTES: usize = 32;

/// `len` of a deletion.
const DELETED: u32 = u32::MAX;

/// One committed state of a key; the value's bytes stand in the same
/// allocation, so that a reader meets them in the lines that it loads anyway.
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

    /// Memory for a version, its head filled in, its value not.
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

    /// From the address of a version to a pointer with its length.
    ///
    /// # Safety
    /// The address is one that `init` made and `drop` has not seen.
    unsafe fn fat(address: usize) -> *mut Version {
        let head = address as *const VersionHead;
        // SAFETY: the caller vouches for the address; `VersionHead` is laid out
        // as the beginning of `Version` (both C).
        let len = unsafe { (*head).len };
        let len = if len == DELETED { 0 } else { len as usize };
        std::ptr::slice_from_raw_parts_mut(address as *mut u8, len) as *mut Version
    }
}

/// The sized beginning of a [`Version`].
#[repr(C)]
struct VersionHead {
    ts: u64,
    next: Atomic<Version>,
    len: u32,
    value: [u8; 0],
}

/// A version that is in no chain yet, made before the commit point.
pub(crate) struct NewVersion(pub(super) Owned<Version>);

impl NewVersion {
    /// A version with a value's bytes; `None` is a deletion.
    pub(crate) fn new(value: Option<&[u8]>) -> NewVersion {
        let len = value.map(<[u8]>::len);
        let bytes = value.unwrap_or_default();
        // SAFETY: room for as many bytes lies behind the head, and they are
        // filled before anybody sees them.
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

/// Addresses are those that `init` made: memory that it allocated and filled.
/// References are made with the length noted there, and memory is freed with
/// the layout it was allocated with.
impl Pointable for Version {
    const ALIGN: usize = align_of::<VersionHead>();

    /// Bytes of the value, `None` for a deletion. The value begins as zeroes.
    type Init = Option<usize>;

    unsafe fn init(len: Option<usize>) -> usize {
        let address = Version::allocate(len);
        // SAFETY: room for as many bytes lies behind the head.
        unsafe {
            let to = (address as *mut u8).add(offset_of!(VersionHead, value));
            std::ptr::write_bytes(to, 0, len.unwrap_or(0));
        }
        address
    }

    unsafe fn deref<'a>(ptr: usize) -> &'a Self {
        // SAFETY: the caller vouches for the address, as `Pointable` demands.
        unsafe { &*Version::fat(ptr) }
    }

    unsafe fn deref_mut<'a>(ptr: usize) -> &'a mut Self {
        // SAFETY: as in `deref`.
        unsafe { &mut *Version::fat(ptr) }
    }

    unsafe fn drop(ptr: usize) {
        // SAFETY: as in `deref`; nothing in a version needs dropping, for its
        // link does not own what it leads to.
        unsafe {
            let len = Self::deref(ptr).value.len();
            dealloc(ptr as *mut u8, Version::layout(len));
        }
    }
}
