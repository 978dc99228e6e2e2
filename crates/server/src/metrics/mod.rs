//! Counters without contention.
//!
//! Each core has a block of cells of its own; a worker adds to the block of
//! its group, and the sum is made when it is read. One entry of the table
//! in [`registry`] is one metric: name, labels, kind, help.
//!
//! Invariants:
//! 1. Counting touches no cache line that another group writes.
//! 2. Counters only grow; gauges, which also fall, are kept by their owners.

pub mod registry;

pub use registry::{COUNTERS, Counter};

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks of cells; threads beyond share them.
const BLOCKS: usize = 16;

#[repr(align(128))]
struct Block([AtomicU64; COUNTERS.len()]);

static BLOCK: [Block; BLOCKS] =
    [const { Block([const { AtomicU64::new(0) }; COUNTERS.len()]) }; BLOCKS];

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(BLOCKS - 1) };
}

/// Lets this thread count in the block of group `index` from now on.
pub fn use_block(index: usize) {
    MINE.with(|m| m.set(index % BLOCKS));
}

/// Adds `n` to a counter.
pub fn add(counter: Counter, n: u64) {
    let cell = BLOCK
        .get(MINE.with(Cell::get))
        .and_then(|b| b.0.get(counter as usize));
    if let Some(cell) = cell {
        cell.fetch_add(n, Ordering::Relaxed);
    }
}

/// The counter's value now.
pub fn sum(counter: Counter) -> u64 {
    BLOCK
        .iter()
        .filter_map(|b| b.0.get(counter as usize))
        .map(|c| c.load(Ordering::Relaxed))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_several_threads_are_summed() {
        let before = sum(Counter::PanicsCaught);
        let threads: Vec<_> = (0..4)
            .map(|i| {
                std::thread::spawn(move || {
                    use_block(i);
                    (0..1000).for_each(|_| add(Counter::PanicsCaught, 1));
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(sum(Counter::PanicsCaught) - before, 4000);
    }
}
