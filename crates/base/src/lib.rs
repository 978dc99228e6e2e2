//! Foundations that every other crate uses: time, disk, waiting, memory accounting.
//!
//! Time, disk and waiting are reached through small interfaces, so that tests can
//! replace them.
//!
//! * [`base64`]: encoding and decoding.
//! * [`blocking`]: announces a blocking wait, so that the event loop can be handed over.
//! * [`calendar`]: dates of day numbers.
//! * [`cancel`]: cancellation of waits (KILL, a client that has disconnected, shutdown).
//! * [`clock`]: wall and monotonic time, replaceable.
//! * [`mod@counters`]: metric counters sharded by core, and the macro that defines them.
//! * [`disk`]: file operations and durability, with implementations that inject faults.
//! * [`escapes`]: backslash escapes of string literals.
//! * [`heavy_hitters`]: the most frequent items of a stream (Space-Saving).
//! * [`histogram`]: histograms of latencies.
//! * [`interrupt`]: checkpoints in loops that observe KILL, deadlines and shutdown.
//! * [`lend`]: a cell from which a supervisor can take a lent value back.
//! * [`log_file`]: files to which logs are appended.
//! * [`memory`]: the memory budget of statements, connections and the server.
//! * [`password`]: stored forms (hashes) of passwords.
//! * [`sampling`]: sampling of frequent events.
//! * [`sleeper`]: parks a worker without losing wake-ups (an event count).
//! * [`sorting`]: a stable sort that a KILL or a deadline can end.
//! * [`stack`]: remaining stack space, for code that recurses on input.
//! * [`statement_file`]: files that a statement names, within one directory.
//! * [`sync`]: mutexes, atomics and threads, replaceable by ones that a test
//!   schedules.
//! * [`temp_files`]: temporary files within a limit.
//! * [`threads`]: starting threads, and the policy for their panics.

pub mod base64;
pub mod blocking;
pub mod calendar;
pub mod cancel;
pub mod clock;
pub mod counters;
pub mod disk;
pub mod escapes;
pub mod heavy_hitters;
pub mod histogram;
pub mod interrupt;
pub mod lend;
pub mod log_file;
pub mod memory;
pub mod password;
pub mod sampling;
pub mod sleeper;
pub mod sorting;
pub mod stack;
pub mod statement_file;
pub mod sync;
pub mod temp_files;
pub mod threads;
