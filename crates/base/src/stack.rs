//! Remaining stack space of the current thread.
//!
//! A stack overflow ends the process, so code that recurses on a client's input checks the
//! remaining space first. The bounds come from the operating system once per thread and are
//! cached.
//!
//! Invariants
//! 1. The result never exceeds the space that is left above the guard pages.
//! 2. If the bounds are unavailable, [`ASSUMED_STACK`] bytes below the frame of the thread's first call
//!    are assumed. Every thread of this server and of the standard library has that much.
//!
//! Rejected: counting depth only; frames differ by a factor of ten between builds.

use std::cell::Cell;

/// Stack assumed below the first caller when the bounds are unknown.
const ASSUMED_STACK: usize = 256 * 1024;

thread_local! {
    /// Lowest usable address of this thread's stack, 0 while unknown.
    static STACK_LOW: Cell<usize> = const { Cell::new(0) };
}

/// Bytes between the caller's frame and the end of the current thread's stack.
#[must_use]
#[inline]
pub fn remaining() -> usize {
    let marker = 0_u8;
    let here = std::ptr::from_ref(&marker).addr();
    let low = STACK_LOW.with(Cell::get);
    let low = if low == 0 { find_low(here) } else { low };
    here.saturating_sub(low)
}

#[cold]
fn find_low(here: usize) -> usize {
    let low = bounds::lowest_address()
        .unwrap_or_else(|| here.saturating_sub(ASSUMED_STACK))
        .max(1);
    STACK_LOW.with(|cell| cell.set(low));
    low
}

#[cfg(target_os = "linux")]
mod bounds {
    use std::mem::MaybeUninit;

    /// Lowest usable address of the current thread's stack, guard pages excluded.
    pub fn lowest_address() -> Option<usize> {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let mut address = std::ptr::null_mut();
        let mut size = 0_usize;
        let mut guard = 0_usize;
        // SAFETY: pthread_getattr_np initialises `attributes` when it returns 0, and only then are
        // the two getters and the destroyer called on it; all pointers are to live locals.
        let found = unsafe {
            if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
                return None;
            }
            let stack =
                libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut address, &raw mut size);
            let guards = libc::pthread_attr_getguardsize(attributes.as_ptr(), &raw mut guard);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            stack == 0 && guards == 0
        };
        // The main thread's stack grows on demand, and glibc counts its guard inside or outside
        // depending on the version: leaving it out of the usable part is right either way.
        found.then(|| address.addr().saturating_add(guard))
    }
}

#[cfg(not(target_os = "linux"))]
mod bounds {
    /// Unknown on this system.
    pub fn lowest_address() -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::remaining;
    use std::hint::black_box;

    /// Measures from a separate frame, whatever is inlined elsewhere.
    #[inline(never)]
    fn ask() -> usize {
        black_box(remaining())
    }

    /// Measures below a frame that contains a block: neither the frame nor the measurement may
    /// be inlined into its caller.
    #[inline(never)]
    fn use_stack() -> usize {
        let mut block = [0_u8; 16 * 1024];
        black_box(&mut block);
        let figure = ask();
        black_box(&mut block);
        figure
    }

    #[test]
    fn the_result_depends_on_the_thread_and_the_frame() {
        let check = || {
            let here = ask();
            assert!(
                here > 150 * 1024 && here <= 256 * 1024 + 64 * 1024,
                "{here}"
            );
            let deeper = use_stack();
            assert!(deeper + 16 * 1024 <= here, "{deeper} {here}");
        };
        // The C library may reuse the stack of a thread that has ended, if it is no more than
        // four times as large; those of other tests have 2 MiB.
        std::thread::Builder::new()
            .stack_size(256 * 1024)
            .spawn(check)
            .unwrap()
            .join()
            .unwrap();
    }
}
