//! Counters of a plan's operators: rows, loops and time, for EXPLAIN ANALYZE.
//!
//! Operators are identified by their addresses; the plan outlives the execution. The time of an
//! operator includes that of its inputs. Without a profile the cost is one test for each batch.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// Counters of one operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actual {
    /// Number of executions.
    pub loops: u64,
    /// Rows produced, in all loops.
    pub rows: u64,
    /// Time until the first row.
    pub time_to_first_row: Duration,
    /// Total time, in all loops.
    pub time: Duration,
    /// Runs or partitions written to temporary files.
    pub spilled: SpillSize,
}

/// Amount of data written to temporary files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpillSize {
    /// Number of runs or partitions.
    pub runs: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl AddAssign for SpillSize {
    fn add_assign(&mut self, other: SpillSize) {
        self.runs += other.runs;
        self.bytes += other.bytes;
    }
}

/// Kind of an operator. With the address it identifies the operator: a query and its first field
/// have equal addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A query.
    Query,
    /// A row operator other than a scan or join: aggregation, window.
    Group,
    /// The sort, DISTINCT or buffer of a query.
    Sort,
    /// A scan, with its join.
    Scan,
}

/// Counters of all operators of a plan.
#[derive(Debug, Default)]
pub struct Profile {
    parts: RefCell<HashMap<(usize, Role), Actual>>,
}

/// The address of an operator.
fn address<T>(part: &T) -> usize {
    std::ptr::from_ref(part).addr()
}

impl Profile {
    /// Adds loops, rows and time to an operator.
    pub fn add<T>(&self, part: &T, role: Role, loops: u64, rows: u64, since: Instant) {
        let time = since.elapsed();
        let mut parts = self.parts.borrow_mut();
        let actual = parts.entry((address(part), role)).or_default();
        if actual.rows == 0 {
            actual.time_to_first_row = actual.time + time;
        }
        actual.loops += loops;
        actual.rows += rows;
        actual.time += time;
    }

    /// Adds what an operator has written to temporary files.
    pub fn add_spilled<T>(&self, part: &T, role: Role, size: SpillSize) {
        let mut parts = self.parts.borrow_mut();
        let actual = parts.entry((address(part), role)).or_default();
        actual.spilled += size;
    }

    /// Counters of an operator; `None` if it was never executed.
    pub fn of<T>(&self, part: &T, role: Role) -> Option<Actual> {
        self.parts.borrow().get(&(address(part), role)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_by_address_and_role() {
        let profile = Profile::default();
        let (a, b) = ([1u8], [2u8]);
        profile.add(&a, Role::Scan, 1, 2, Instant::now());
        profile.add(&a, Role::Scan, 1, 3, Instant::now());
        let actual = profile.of(&a, Role::Scan).unwrap();
        assert_eq!((actual.loops, actual.rows), (2, 5));
        assert_eq!(profile.of(&a, Role::Sort), None);
        assert_eq!(profile.of(&b, Role::Scan), None);
    }
}
