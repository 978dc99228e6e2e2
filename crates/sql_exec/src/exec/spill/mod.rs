//! Temporary files of operators that exceed their share of the statement's memory.
//!
//! * [`records`]: records in checksummed blocks of a temporary file.
//! * [`partitions`]: records of several partitions in one file.
//! * [`runs`]: sorted runs, and their merge.
//! * [`sorter`]: an external merge sort over encoded records.
//!
//! [`States::hold_or_spill`](super::state::States::hold_or_spill) returns whether an operator must
//! write its rows to files. A file is read only by the statement that writes it.

pub(super) mod partitions;
pub(super) mod records;
pub(super) mod runs;
pub(super) mod sorter;
#[cfg(test)]
mod tests;
