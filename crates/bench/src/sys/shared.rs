//! Counters that generator processes share: memory that a forked child and its parent both see.

use std::alloc::{Layout, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter in a mapping of its own. A process that is forked later sees the same counter, not a copy.
#[derive(Debug)]
pub struct SharedCounter(NonNull<AtomicU64>);

// SAFETY: the mapping belongs to the value alone, and its content is atomic.
unsafe impl Send for SharedCounter {}
// SAFETY: as above.
unsafe impl Sync for SharedCounter {}

impl SharedCounter {
    /// A counter that begins at `value`. As with other allocations, the process ends if there is no
    /// memory.
    pub fn new(value: u64) -> SharedCounter {
        // SAFETY: a new anonymous mapping at an address that the kernel chooses; no memory of ours
        // is passed.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<AtomicU64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let counter = match NonNull::new(mapped.cast()) {
            Some(found) if mapped != libc::MAP_FAILED => SharedCounter(found),
            _ => handle_alloc_error(Layout::new::<AtomicU64>()),
        };
        counter.store(value, Ordering::Relaxed);
        counter
    }
}

impl Deref for SharedCounter {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        // SAFETY: the mapping is large enough, aligned to a page, zeroed at first (a valid value)
        // and lives as long as `self`.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedCounter {
    fn drop(&mut self) {
        // SAFETY: the mapping was created with this address and length, and no reference to it
        // outlives `self`. Other processes keep their own mapping.
        unsafe {
            libc::munmap(self.0.as_ptr().cast(), size_of::<AtomicU64>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_start_at_their_value_and_count_in_all_threads() {
        let counter = SharedCounter::new(40);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| counter.fetch_add(1, Ordering::Relaxed));
            }
        });
        assert_eq!(counter.load(Ordering::Relaxed), 42);
    }
}
