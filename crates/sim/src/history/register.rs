//! Linearizability of a register: searches for an order of concurrent calls in
//! which each takes effect between its request and its response.
//!
//! Each value is written once, so that a value identifies its write. The search
//! explores states (Wing and Gong): the calls linearized so far, and the current value.
//! The next call is any that was sent before the first outstanding response.
//! Calls are sorted by the time of sending; the linearized ones are a prefix of that
//! order and a few more, so a state is the length of the prefix, the few calls
//! beyond it, and the value.
//!
//! Invariants:
//! 1. A state is explored once: at most (calls × subsets of overlapping calls)
//!    states, few for the handful of clients that a test has.
//! 2. No recursion: a history may be long.
//!
//! Rejected: cycle detection in a dependency graph, as for lists: the order of two
//! writes without a read between them is not observable.

use std::collections::BTreeSet;

/// Effect of a call on the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Saw this value.
    Read(u64),
    /// Wrote this value unconditionally.
    Write(u64),
    /// A successful compare-and-swap: expected value, new value.
    Swapped(u64, u64),
    /// A failed compare-and-swap that expected this value.
    SwapFailed(u64),
}

/// A call and when it was made: times are of one clock.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Before it was sent.
    pub began: u64,
    /// After its answer was read.
    pub ended: u64,
    /// Effect.
    pub access: Access,
}

/// The value after a call, or `None` when it cannot have happened.
fn value_after(value: u64, access: Access) -> Option<u64> {
    match access {
        Access::Read(seen) => (seen == value).then_some(value),
        Access::Write(new) => Some(new),
        Access::Swapped(from, to) => (from == value).then_some(to),
        Access::SwapFailed(not) => (not != value).then_some(value),
    }
}

/// A state of the search: the calls that have happened, and the value after them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// Number of calls, in the order of sending, that have all happened.
    first: usize,
    /// Indexes of later calls that have happened, too.
    later_calls: Vec<usize>,
    value: u64,
}

impl State {
    /// The state after the call at `at` happened.
    fn with_call(&self, at: usize, value: u64) -> State {
        let mut beyond = self.later_calls.clone();
        let place = beyond.partition_point(|other| *other < at);
        beyond.insert(place, at);
        let mut first = self.first;
        let mut gone = 0;
        for one in &beyond {
            if *one != first {
                break;
            }
            first += 1;
            gone += 1;
        }
        beyond.drain(..gone);
        State {
            first,
            later_calls: beyond,
            value,
        }
    }
}

/// Checks that the calls on a register with value `initial` are linearizable.
///
/// # Errors
/// Describes the first call that no order explains, and the calls around it.
pub fn linearizable(calls: &[Call], initial: u64) -> Result<(), String> {
    let mut calls = calls.to_vec();
    calls.sort_by_key(|call| call.began);
    let start = State {
        first: 0,
        later_calls: Vec::new(),
        value: initial,
    };
    let mut known = BTreeSet::from([start.clone()]);
    let mut open = vec![start];
    let mut furthest = 0;
    while let Some(state) = open.pop() {
        furthest = furthest.max(state.first);
        if state.first == calls.len() {
            return Ok(());
        }
        let waiting = calls
            .iter()
            .enumerate()
            .skip(state.first)
            .filter(|(at, _)| state.later_calls.binary_search(at).is_err());
        let mut first_answer = u64::MAX;
        for (at, call) in waiting {
            if call.began > first_answer {
                break;
            }
            first_answer = first_answer.min(call.ended);
            if let Some(value) = value_after(state.value, call.access) {
                let next = state.with_call(at, value);
                if known.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
    }
    let from = furthest.saturating_sub(3);
    let near: Vec<String> = calls
        .iter()
        .skip(from)
        .take(12)
        .map(|call| format!("{call:?}"))
        .collect();
    Err(format!(
        "no order explains call {furthest} of {}; about there:\n{}",
        calls.len(),
        near.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(began: u64, ended: u64, access: Access) -> Call {
        Call {
            began,
            ended,
            access,
        }
    }

    #[test]
    fn overlapping_calls_may_happen_in_any_order() {
        let calls = [
            call(0, 10, Access::Write(1)),
            call(1, 9, Access::Write(2)),
            call(2, 3, Access::Read(2)),
            call(4, 5, Access::Read(1)),
            call(11, 12, Access::Swapped(1, 3)),
            call(11, 13, Access::SwapFailed(1)),
        ];
        linearizable(&calls, 0).unwrap();
    }

    #[test]
    fn a_stale_read_is_found() {
        let calls = [
            call(0, 1, Access::Write(1)),
            call(2, 3, Access::Write(2)),
            call(4, 5, Access::Read(1)),
        ];
        let why = linearizable(&calls, 0).unwrap_err();
        assert!(why.contains("call 2 of 3"), "{why}");
    }

    #[test]
    fn a_value_does_not_come_back() {
        let calls = [
            call(0, 20, Access::Write(1)),
            call(0, 20, Access::Write(2)),
            call(1, 2, Access::Read(1)),
            call(3, 4, Access::Read(2)),
            call(5, 6, Access::Read(1)),
        ];
        assert!(linearizable(&calls, 0).is_err());
    }

    #[test]
    fn two_cannot_both_swap_the_same_value() {
        let calls = [
            call(0, 5, Access::Swapped(0, 1)),
            call(0, 5, Access::Swapped(0, 2)),
        ];
        assert!(linearizable(&calls, 0).is_err());
        let calls = [
            call(0, 5, Access::Swapped(0, 1)),
            call(0, 5, Access::SwapFailed(0)),
        ];
        linearizable(&calls, 0).unwrap();
    }

    #[test]
    fn long_histories_are_checked() {
        let calls: Vec<Call> = (0..5_000)
            .map(|n| call(n * 2, n * 2 + 5, Access::Write(n)))
            .collect();
        linearizable(&calls, 0).unwrap();
    }
}
