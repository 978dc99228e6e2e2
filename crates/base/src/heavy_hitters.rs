//! The most frequent items of a stream in bounded memory: Space-Saving (Metwally, Agrawal and
//! El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005).
//!
//! A fixed number of counters is kept. An item without a counter takes over the one with the least
//! count, and inherits that count as its possible error.
//!
//! Invariants, with `n` items so far and `k` counters:
//! 1. A count is at least the item's true count, and exceeds it by at most its error.
//! 2. An error is at most `n / k`, so that every item with more than `n / k` occurrences has a
//!    counter.
//!
//! So that old items are forgotten, all counts are halved after each [`HALF_LIFE`] items; the
//! invariants then hold for the weighted sums.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// Number of items after which all counts are halved.
const HALF_LIFE: u64 = 1 << 16;

/// The counter of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Estimated number of occurrences: too high by at most [`Count::error`], never too low.
    pub count: u64,
    /// Number of marked occurrences since the item has had this counter.
    pub marked: u64,
    /// Upper limit of the error of `count`.
    pub error: u64,
}

/// The most frequent items of a stream.
#[derive(Debug)]
pub struct HeavyHitters<T> {
    counts: HashMap<T, Count>,
    capacity: usize,
    total: u64,
}

impl<T: Hash + Eq + Clone> HeavyHitters<T> {
    /// Creates a list of at most `capacity` items.
    pub fn new(capacity: usize) -> HeavyHitters<T> {
        HeavyHitters {
            counts: HashMap::default(),
            capacity,
            total: 0,
        }
    }

    /// Counts an occurrence of an item, and separately whether it is `marked`. Calls `own` for the
    /// stored item if the item has no counter yet.
    pub fn add<Q>(&mut self, item: &Q, marked: bool, own: impl FnOnce() -> T)
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if self.total >= HALF_LIFE {
            self.halve();
        }
        self.total += 1;
        if let Some(known) = self.counts.get_mut(item) {
            known.count += 1;
            known.marked += u64::from(marked);
            return;
        }
        let mut error = 0;
        if self.counts.len() >= self.capacity {
            let least = self.counts.iter().min_by_key(|(_, count)| count.count);
            let Some((least, count)) = least.map(|(item, count)| (item.clone(), count.count))
            else {
                return;
            };
            self.counts.remove::<T>(&least);
            error = count;
        }
        let count = Count {
            count: error + 1,
            marked: u64::from(marked),
            error,
        };
        self.counts.insert(own(), count);
    }

    fn halve(&mut self) {
        self.total /= 2;
        self.counts.retain(|_, count| {
            count.count /= 2;
            count.marked /= 2;
            count.error /= 2;
            count.count > 0
        });
    }

    /// Number of occurrences so far; older ones count less.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The items with their counters, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&T, &Count)> {
        self.counts.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(hitters: &mut HeavyHitters<u64>, item: u64, marked: bool) {
        hitters.add(&item, marked, || item);
    }

    #[test]
    fn frequent_items_are_found_within_their_errors() {
        let mut hitters = HeavyHitters::new(20);
        let mut exact = std::collections::HashMap::new();
        let mut random = fastrand::Rng::with_seed(7);
        for n in 0..20_000u64 {
            // A quarter of the items are 1 or 2; the others have many different values.
            let item = if n % 4 == 0 {
                1 + n / 4 % 2
            } else {
                10 + random.u64(0..3000)
            };
            *exact.entry(item).or_insert(0u64) += 1;
            add(&mut hitters, item, item == 1);
        }
        assert!(hitters.iter().count() <= 20);
        for (item, count) in hitters.iter() {
            let exact = exact[item];
            assert!(count.count >= exact && count.count - count.error <= exact);
            assert!(count.error <= 20_000 / 20);
        }
        let found = |wanted: u64| hitters.iter().find(|(item, _)| **item == wanted);
        let (one, two) = (found(1).unwrap().1, found(2).unwrap().1);
        assert!(one.marked >= 2400 && two.marked == 0, "{one:?} {two:?}");
    }

    #[test]
    fn old_items_are_forgotten() {
        let mut hitters = HeavyHitters::new(4);
        (0..1000).for_each(|_| add(&mut hitters, 1, false));
        for n in 0..20 * HALF_LIFE {
            add(&mut hitters, 2 + n % 3, false);
        }
        assert!(hitters.iter().all(|(item, _)| *item != 1));
        assert!(hitters.total() <= HALF_LIFE);
    }
}
