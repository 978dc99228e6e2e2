//! C interface of the native client: `libporpoise_c.so`, declared in `include/porpoise.h`, which cbindgen
//! generates from these sources (`cbindgen.toml`); a test compares the file, and makes it again with
//! `PORPOISE_UPDATE_HEADER=1`. `examples/thousand_rows.c` calls all functions of batches, `examples/follow.c` those of
//! subscriptions; tests compile and run both.
//!
//! * [`calls`], [`changes`]: the functions. Each checks its pointers for null ([`pointers`]), runs safe code, and
//!   stores the text of a failure for the thread ([`failure`]).
//! * [`value`]: values, whose bytes are borrowed from the caller or from a reply.
//! * [`reply`]: results, decoded when a reply is received.
//!
//! Invariants:
//! 1. An object is owned by the caller from the function that returns it to the one that frees it.
//! 2. Pointers into a reply or a transaction are valid until it is freed: nothing in it changes after it was made.
//! 3. No panic leaves the library: it is reported as an error.
//! 4. Unsafe code is in [`calls`], [`changes`], [`pointers`] and [`value`] only.

mod calls;
mod changes;
mod failure;
mod pointers;
mod reply;
mod value;
