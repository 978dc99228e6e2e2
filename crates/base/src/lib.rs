//! The ground floor: what every other room needs and no room owns.
//!
//! Time, disk and waiting stand behind small seams here, so that tests can
//! replace them; checksums and limits are stated once.
//!
//! * [`cancel`]: ending a wait from outside (KILL, a client gone, shutdown).
//! * [`blocking`]: announcing that the current thread may stand still.
//! * [`clock`]: wall and monotonic time, replaceable.
//! * [`stack`]: how much stack is left, for whatever recurses on input.
//! * [`disk`]: files and their durability, replaceable by disks with faults.

pub mod blocking;
pub mod cancel;
pub mod clock;
pub mod disk;
pub mod stack;
