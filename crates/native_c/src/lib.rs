//! C interface of the native client: `libporpoise_c.so`, declared in `include/porpoise.h`, which is
//! written by hand and documents each function. `examples/thousand_rows.c` calls all of them; a test
//! compiles and runs it.
//!
//! * [`calls`]: the functions. Each checks its pointers for null, runs safe code, and stores the text of
//!   a failure for the thread ([`failure`]).
//! * [`value`]: values, whose bytes are borrowed from the caller or from a reply.
//! * [`reply`]: results, decoded when a reply is received.
//!
//! Invariants:
//! 1. An object is owned by the caller from the function that returns it to the one that frees it.
//! 2. Pointers into a reply are valid until the reply is freed: nothing in it changes after it was made.
//! 3. No panic leaves the library: it is reported as an error.
//! 4. Unsafe code is in [`calls`] and [`value`] only.

mod calls;
mod failure;
mod reply;
mod value;
