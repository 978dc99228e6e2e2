//! Foundations that every other crate uses: time, disk, waiting, memory accounting.
//!
//! Time, disk and waiting are reached through small interfaces, so that tests can
//! replace them; checksums and limits are stated once.
//!
//! * [`base64`]: encoding and decoding.
//! * [`cancel`]: ending a wait from outside (KILL, a client gone, shutdown).
//! * [`blocking`]: announcing waits, so that other work can be handed over.
//! * [`clock`]: wall and monotonic time, replaceable.
//! * [`mod@counters`]: counters sharded by core, and the macro for their tables.
//! * [`disk`]: files and their durability, replaceable by disks with faults.
//! * [`lend`]: a cell from which a supervisor retakes what was lent for too long.
//! * [`memory`]: the memory budget of statements, connections and the server.
//! * [`password`]: the forms in which passwords are stored.
//! * [`sleeper`]: falling asleep without missing what one is woken for.
//! * [`stack`]: how much stack is left, for whatever recurses on input.
//! * [`sync`]: mutexes, atomics and threads, replaceable by ones that a test
//!   schedules.
//! * [`threads`]: starting threads, and the policy for their panics.

pub mod base64;
pub mod blocking;
pub mod cancel;
pub mod clock;
pub mod counters;
pub mod disk;
pub mod interrupt;
pub mod lend;
pub mod memory;
pub mod password;
pub mod sleeper;
pub mod sorting;
pub mod stack;
pub mod sync;
pub mod threads;
