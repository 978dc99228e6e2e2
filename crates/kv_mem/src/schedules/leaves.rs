//! Readers of the index against a writer that splits and merges its leaves.

use super::explore;
use crate::index::Index;
use porpoise_base::sync::thread;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Number of keys that stay in the index throughout: a full leaf.
const STAY: u32 = 61;

fn name(n: u32) -> [u8; 4] {
    (n * 16).to_be_bytes()
}

fn filled() -> Arc<Index> {
    let index = Index::new(false);
    for n in 0..STAY {
        index.get_or_create(&name(n));
    }
    Arc::new(index)
}

/// Looks up single keys that stay.
fn look_up(index: &Index) {
    for n in [0, STAY / 2, STAY - 1, STAY / 2 + 1] {
        let guard = crossbeam_epoch::pin();
        let found = index.find(&name(n), &guard);
        assert!(
            found.is_some_and(|record| record.record().key() == name(n)),
            "key {n} was not found"
        );
    }
}

/// Walks over all keys; those that stay must be found in order.
fn walk(index: &Index, reverse: bool) {
    let guard = crossbeam_epoch::pin();
    let all = Bound::Unbounded;
    let mut met = Vec::new();
    let _ = index.walk(all, all, reverse, usize::MAX, &guard, |record| {
        met.extend(record.record().key().first_chunk().copied());
        ControlFlow::Continue(())
    });
    if reverse {
        met.reverse();
    }
    assert!(met.is_sorted(), "{met:?}");
    met.retain(|key| u32::from_be_bytes(*key) % 16 == 0);
    assert!(met.iter().copied().eq((0..STAY).map(name)), "{met:?}");
}

/// Inserts keys between those that stay, so that the full leaf splits, and removes them again.
fn write(index: &Index, between: &[u32]) {
    let mut made = Vec::new();
    for n in between {
        let mut key = name(*n);
        key[3] += 1;
        let (record, new) = index.get_or_create(&key);
        assert!(new);
        made.push(record);
    }
    for record in made {
        record.latch().dead = true;
        assert!(index.remove(&record));
    }
}

#[test]
fn readers_miss_nothing_while_a_leaf_splits() {
    explore(1000, || {
        let index = filled();
        let readers = [false, true].map(|reverse| {
            let index = index.clone();
            thread::spawn(move || {
                look_up(&index);
                walk(&index, reverse);
            })
        });
        write(&index, &[STAY / 2, 3, STAY - 2]);
        for reader in readers {
            reader.join().unwrap();
        }
        index.check().unwrap();
    });
}

#[test]
fn readers_miss_nothing_while_leaves_merge() {
    explore(500, || {
        let index = filled();
        // A temporary key splits the leaf. Then so many keys are removed that one more removal
        // merges the remains of both halves.
        write(&index, &[STAY / 2]);
        let kept = [0, STAY / 2, STAY / 2 + 1, STAY - 1];
        let mut going = (0..STAY).filter(|n| !kept.contains(n));
        let remove = |n: u32| {
            let (record, new) = index.get_or_create(&name(n));
            assert!(!new);
            record.latch().dead = true;
            assert!(index.remove(&record));
        };
        going.by_ref().take(13).for_each(remove);
        let readers = [(); 2].map(|()| {
            let index = index.clone();
            thread::spawn(move || {
                look_up(&index);
                look_up(&index);
            })
        });
        going.by_ref().take(5).for_each(remove);
        for reader in readers {
            reader.join().unwrap();
        }
        going.for_each(remove);
        index.check().unwrap();
        assert_eq!(index.len(), kept.len());
    });
}
