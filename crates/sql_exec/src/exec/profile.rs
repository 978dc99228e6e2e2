//! Counters of the parts of a plan: rows, loops and time, for EXPLAIN ANALYZE.
//!
//! Parts are told by their address; the plan outlives the execution. A part's
//! time holds that of what runs inside it. Nothing is counted unless a profile
//! is asked for, at the cost of one test a batch.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Counters of one part of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actual {
    /// Number of times it was begun.
    pub loops: u64,
    /// Rows that it gave, in all loops.
    pub rows: u64,
    /// Time until its first row.
    pub first: Duration,
    /// Time in it, in all loops.
    pub time: Duration,
    /// Runs or partitions that it has written to temporary files, and their bytes.
    pub spilled: (u64, u64),
}

/// The part at an address: a query and its first field have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A query.
    Whole,
    /// Its groups.
    Group,
    /// Its sort.
    Sort,
    /// A scan, with its join.
    Scan,
}

/// Counters of the parts of a plan.
#[derive(Debug, Default)]
pub struct Profile {
    parts: RefCell<HashMap<(usize, Role), Actual>>,
}

/// The address of a part of a plan.
fn address<T>(part: &T) -> usize {
    std::ptr::from_ref(part).addr()
}

impl Profile {
    /// Adds work to a part.
    pub fn add<T>(&self, part: &T, role: Role, (loops, rows): (u64, u64), since: Instant) {
        let time = since.elapsed();
        let mut parts = self.parts.borrow_mut();
        let actual = parts.entry((address(part), role)).or_default();
        if actual.rows == 0 {
            actual.first = actual.time + time;
        }
        actual.loops += loops;
        actual.rows += rows;
        actual.time += time;
    }

    /// Adds what a part has written to temporary files.
    pub fn add_spilled<T>(&self, part: &T, role: Role, (runs, bytes): (u64, u64)) {
        let mut parts = self.parts.borrow_mut();
        let actual = parts.entry((address(part), role)).or_default();
        actual.spilled.0 += runs;
        actual.spilled.1 += bytes;
    }

    /// Counters of a part; `None` when it was never begun.
    pub fn of<T>(&self, part: &T, role: Role) -> Option<Actual> {
        self.parts.borrow().get(&(address(part), role)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_by_address() {
        let profile = Profile::default();
        let (a, b) = ([1u8], [2u8]);
        profile.add(&a, Role::Scan, (1, 2), Instant::now());
        profile.add(&a, Role::Scan, (1, 3), Instant::now());
        let actual = profile.of(&a, Role::Scan).unwrap();
        assert_eq!((actual.loops, actual.rows), (2, 5));
        assert_eq!(profile.of(&a, Role::Sort), None);
        assert_eq!(profile.of(&b, Role::Scan), None);
    }
}
