//! Counters sharded by core.
//!
//! Each worker group has its own block of cells, to which its workers add; a read sums all blocks.
//! A crate defines its counters as a table with [`counters!`](crate::counters!): one entry is one
//! metric (name, labels, help).
//!
//! Invariants:
//! 1. Counting touches no cache line of another block.
//! 2. Counters only grow; gauges are kept by their owners.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of blocks of cells. With more groups, several share one.
pub const BLOCKS: usize = 16;

/// Description of a counter on the metrics page.
#[derive(Clone, Copy, Debug)]
pub struct CounterDef {
    /// Name of the family, complete, with unit suffix.
    pub name: &'static str,
    /// `key="value",...`, or empty.
    pub labels: &'static str,
    /// One line of explanation. Entries of one family are adjacent and repeat it.
    pub help: &'static str,
}

#[repr(align(128))]
struct Block<const N: usize>([AtomicU64; N]);

/// The block in which this thread counts, below [`BLOCKS`].
pub fn current_block() -> usize {
    CURRENT_BLOCK.with(Cell::get)
}

/// The cells of `N` counters.
pub struct Cells<const N: usize>([Block<N>; BLOCKS]);

thread_local! {
    static CURRENT_BLOCK: Cell<usize> = const { Cell::new(BLOCKS - 1) };
}

/// Makes this thread count in the block of group `index`.
pub fn use_block(index: usize) {
    CURRENT_BLOCK.with(|m| m.set(index % BLOCKS));
}

impl<const N: usize> Cells<N> {
    /// Cells that are all 0.
    #[expect(clippy::new_without_default, reason = "used in statics only")]
    pub const fn new() -> Cells<N> {
        Cells([const { Block([const { AtomicU64::new(0) }; N]) }; BLOCKS])
    }

    /// Adds `n` to the counter at position `at`.
    #[inline]
    pub fn add(&self, at: usize, n: u64) {
        let block = self.0.get(CURRENT_BLOCK.with(Cell::get));
        if let Some(cell) = block.and_then(|b| b.0.get(at)) {
            cell.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// The value of the counter at position `at`.
    pub fn sum(&self, at: usize) -> u64 {
        let cells = self.0.iter().filter_map(|b| b.0.get(at));
        cells.map(|c| c.load(Ordering::Relaxed)).sum()
    }
}

/// Defines a crate's counters: `Name: "family", "labels", "help";` for each. The macro makes the
/// enum `Counter`, its table `COUNTERS`, and the functions `add` and `sum`.
#[macro_export]
macro_rules! counters {
    ($($id:ident: $name:literal, $labels:literal, $help:literal;)*) => {
        /// One counter of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = $help] $id,)*
        }

        /// All counters, in the order of [`Counter`].
        pub const COUNTERS: &[$crate::counters::CounterDef] = &[
            $($crate::counters::CounterDef { name: $name, labels: $labels, help: $help },)*
        ];

        static CELLS: $crate::counters::Cells<{ COUNTERS.len() }> = $crate::counters::Cells::new();

        impl Counter {
            /// All counters, in order.
            pub const ALL: &[Counter] = &[$(Counter::$id,)*];
        }

        /// Adds `n` to a counter.
        #[inline]
        pub fn add(counter: Counter, n: u64) {
            CELLS.add(counter as usize, n);
        }

        /// The counter's value now.
        pub fn sum(counter: Counter) -> u64 {
            CELLS.sum(counter as usize)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::counters! {
        First: "first_total", "", "The first.";
        Second: "second_total", "", "The second.";
    }

    #[test]
    fn counts_of_several_threads_are_summed() {
        let threads: Vec<_> = (0..4)
            .map(|i| {
                std::thread::spawn(move || {
                    use_block(i);
                    (0..1000).for_each(|_| add(Counter::Second, 1));
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let sums: Vec<u64> = Counter::ALL.iter().map(|c| sum(*c)).collect();
        assert_eq!(sums, [0, 4000]);
    }
}
