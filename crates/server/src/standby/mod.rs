//! Taking over from a source: `porpoise promote`, and the epoch that fences a former source.
//!
//! * [`epoch`]: the greatest epoch known, on disk.
//! * [`promote`]: the command.

pub mod epoch;
pub mod promote;
