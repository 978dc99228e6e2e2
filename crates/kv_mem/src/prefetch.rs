//! Prefetch hints, which let several cache misses overlap.

/// Prefetches the cache line at an address.
#[inline]
pub(crate) fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it accesses no memory and cannot fault, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The versions that a walk prefetches, ahead of the visitor.
#[derive(Clone, Copy)]
pub(crate) enum Prefetched {
    /// None.
    Nothing,
    /// This number of cache lines of each record's newest version.
    Lines(usize),
    /// The first cache line of the newest version of each record that is not marked as settled.
    Unsettled,
}
