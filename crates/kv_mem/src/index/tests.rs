//! Compares the index with a `BTreeMap`, in one thread and with concurrent readers.

use super::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn walk(index: &Index, lower: Bound<&[u8]>, upper: Bound<&[u8]>, reverse: bool) -> Vec<Vec<u8>> {
    let guard = crossbeam_epoch::pin();
    let mut seen = Vec::new();
    let end = index.walk(lower, upper, reverse, usize::MAX, &guard, |record| {
        seen.push(record.key().to_vec());
        ControlFlow::Continue(())
    });
    assert!(matches!(end, WalkOutcome::Done));
    seen
}

#[test]
fn created_records_are_found_and_removed_ones_are_not() {
    for point_lookups in [false, true] {
        let index = Index::new(point_lookups);
        let (a, created) = index.get_or_create(b"a");
        assert!(created);
        let (again, created) = index.get_or_create(b"a");
        assert!(!created && a.address() == again.address());
        for n in 0..1000u32 {
            index.get_or_create(&n.to_be_bytes());
        }
        index.check().unwrap();
        assert!(index.remove(&a));
        assert!(!index.remove(&a));
        assert!(index.get(b"a").is_none());
        assert_eq!(index.len(), 1000);
        index.check().unwrap();
        assert_eq!(index.clear().len(), 1000);
        assert_eq!(index.len(), 0);
        assert!(index.get(&7u32.to_be_bytes()).is_none());
        index.check().unwrap();
    }
}

#[test]
fn a_walk_pauses_and_resumes() {
    let index = Index::new(false);
    for n in 0..10u8 {
        index.get_or_create(&[n]);
    }
    for reverse in [false, true] {
        let guard = crossbeam_epoch::pin();
        let mut seen = Vec::new();
        let mut last: Option<InlineKey> = None;
        loop {
            let behind = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let (lower, upper) = if reverse {
                (Bound::Included(&[2][..]), behind)
            } else {
                (behind, Bound::Excluded(&[8][..]))
            };
            match index.walk(lower, upper, reverse, 3, &guard, |r| {
                seen.push(r.key()[0]);
                ControlFlow::Continue(())
            }) {
                WalkOutcome::Paused(key) => last = Some(key),
                _ => break,
            }
        }
        let mut expected: Vec<u8> = if reverse {
            (2..10).collect()
        } else {
            (0..8).collect()
        };
        if reverse {
            expected.reverse();
        }
        assert_eq!(seen, expected);
    }
}

/// Keys of several shapes: runs of numbers, long common prefixes, short texts, keys that are
/// prefixes of others, the empty key, zero bytes at the end.
fn some_key(rng: &mut fastrand::Rng, shape: u8, range: u64) -> Vec<u8> {
    let n = rng.u64(0..range);
    match shape {
        0 => n.to_be_bytes().to_vec(),
        1 => {
            let mut key = vec![b'p'; 40];
            key.extend_from_slice(n.to_string().as_bytes());
            key
        }
        2 => vec![0; (n % 200) as usize],
        3 => (0..n % 5).map(|_| rng.u8(0..4)).collect(),
        _ => {
            let mut key = (n % 7).to_be_bytes().to_vec();
            key.extend_from_slice(&n.to_le_bytes());
            key
        }
    }
}

fn bound<'k>(rng: &mut fastrand::Rng, key: &'k [u8]) -> Bound<&'k [u8]> {
    match rng.u8(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

#[test]
fn random_changes_agree_with_an_ordered_map() {
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let index = Index::new(seed % 2 == 0);
        let mut map: BTreeMap<Vec<u8>, RecordRef> = BTreeMap::new();
        let (shape, range) = (rng.u8(0..5), *rng.choice(&[300, 3000, 1 << 40]).unwrap());
        for round in 0..6 {
            let growing = round % 2 == 0;
            for _ in 0..1500 {
                let key = some_key(&mut rng, shape, range);
                if (rng.u8(0..10) < 8) == growing {
                    let (record, created) = index.get_or_create(&key);
                    assert_eq!(created, !map.contains_key(&key), "seed {seed}");
                    map.insert(key, record);
                } else {
                    // Removes the next existing key.
                    let next = map.range(key.clone()..).next().map(|(key, _)| key.clone());
                    let gone = map.remove(&next.unwrap_or(key));
                    if let Some(record) = gone {
                        assert!(index.remove(&record), "seed {seed}");
                    }
                }
            }
            index.check().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert_eq!(index.len(), map.len());
            for _ in 0..100 {
                let (a, b) = (
                    some_key(&mut rng, shape, range),
                    some_key(&mut rng, shape, range),
                );
                let found = index.get(&a).map(|record| record.address());
                assert_eq!(found, map.get(&a).map(|record| record.address()));
                let (low, high) = (a.clone().min(b.clone()), a.max(b));
                let (lower, upper) = (bound(&mut rng, &low), bound(&mut rng, &high));
                let mut expected: Vec<Vec<u8>> = if empty(lower, upper) {
                    Vec::new()
                } else {
                    map.range::<[u8], _>((lower, upper))
                        .map(|(key, _)| key.clone())
                        .collect()
                };
                assert_eq!(walk(&index, lower, upper, false), expected, "seed {seed}");
                expected.reverse();
                assert_eq!(walk(&index, lower, upper, true), expected, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_bulk_insert_equals_single_inserts() {
    for seed in 0..20 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let index = Index::new(seed % 2 == 0);
        let mut keys = std::collections::BTreeSet::new();
        for _ in 0..10 {
            let shape = rng.u8(0..5);
            let mut fresh: Vec<Vec<u8>> = (0..500)
                .map(|_| some_key(&mut rng, shape, 1 << 30))
                .filter(|key| keys.insert(key.clone()))
                .collect();
            if rng.bool() {
                fresh.sort();
            }
            let records: Vec<RecordRef> = fresh.iter().map(|key| RecordRef::new(key)).collect();
            // SAFETY: no other thread has the index.
            assert!(unsafe { index.insert_new(&records) });
            if let Some(again) = records.first() {
                // SAFETY: as above.
                assert!(unsafe { !index.insert_new(&[RecordRef::new(again.key())]) });
            }
            index.check().unwrap();
        }
        let all: Vec<Vec<u8>> = keys.into_iter().collect();
        assert_eq!(walk(&index, Bound::Unbounded, Bound::Unbounded, false), all);
    }
}

#[test]
fn ascending_keys_fill_their_nodes_and_removal_frees_all_nodes() {
    let guard = crossbeam_epoch::pin();
    for descending in [false, true] {
        let index = Index::new(false);
        let mut records = Vec::new();
        for n in 0..100_000u64 {
            let n = if descending { 100_000 - n } else { n };
            records.push(index.get_or_create(&n.to_be_bytes()).0);
        }
        index.check().unwrap();
        let full = index.tree.leaves(&guard);
        assert!(full < 100_000 / node::WIDTH + 10, "{full} leaves");
        fastrand::Rng::with_seed(1).shuffle(&mut records);
        for record in records.drain(1000..) {
            assert!(index.remove(&record));
        }
        index.check().unwrap();
        let left = index.tree.leaves(&guard);
        assert!(left < 1000 / (node::WIDTH / 4) + 10, "{left} leaves");
    }
}

/// Interleaved ascending runs, as when several threads load checkpoint files, or several sessions
/// append rows to a table.
#[test]
fn interleaved_ascending_runs_fill_their_nodes() {
    let guard = crossbeam_epoch::pin();
    let record = |n: u64| RecordRef::new(&n.to_be_bytes());
    let index = Index::new(false);
    const EACH: u64 = 20_000;
    for from in (0..EACH).step_by(100) {
        for run in [2, 0, 3, 1] {
            let block: Vec<_> = (from..from + 100).map(|n| record(run * EACH + n)).collect();
            // SAFETY: as above.
            assert!(unsafe { index.insert_new(&block) });
        }
    }
    index.check().unwrap();
    let full = index.tree.leaves(&guard);
    let fewest = 4 * EACH as usize / node::WIDTH;
    assert!(
        full < fewest + fewest / 20,
        "{full} leaves, {fewest} would do"
    );
    let index = Index::new(false);
    let mut rng = fastrand::Rng::with_seed(3);
    let mut near: Vec<u64> = (0..40_000).collect();
    for some in near.chunks_mut(8) {
        rng.shuffle(some);
    }
    for n in near {
        index.get_or_create(&n.to_be_bytes());
    }
    index.check().unwrap();
    let (full, fewest) = (index.tree.leaves(&guard), 40_000 / node::WIDTH);
    assert!(
        full < fewest + fewest / 5,
        "{full} leaves, {fewest} would do"
    );
}

/// One thread inserts and removes odd keys continuously. The even keys stay, and readers must find
/// each of them, in order, in both directions.
#[test]
fn concurrent_readers_miss_no_key() {
    const KEYS: u64 = 4000;
    for point_lookups in [false, true] {
        let index = Index::new(point_lookups);
        let key = |n: u64| n.to_be_bytes();
        (0..KEYS).step_by(2).for_each(|n| {
            index.get_or_create(&key(n));
        });
        let (over, walks) = (AtomicBool::new(false), AtomicU64::new(0));
        let (over, walks, index) = (&over, &walks, &index);
        std::thread::scope(|scope| {
            for seed in 0..2 {
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed);
                    while !over.load(Ordering::Relaxed) {
                        let even = rng.u64(0..KEYS / 2) * 2;
                        assert!(index.get(&key(even)).is_some(), "{even} is missing");
                        let to = (even + rng.u64(2..400)).min(KEYS);
                        let reverse = rng.bool();
                        let (low, high) = (key(even), key(to));
                        let (low, high) = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
                        let mut seen = walk(index, low, high, reverse);
                        if reverse {
                            seen.reverse();
                        }
                        assert!(seen.windows(2).all(|two| two[0] < two[1]), "out of order");
                        let evens = seen.iter().filter(|key| key[7] % 2 == 0).count() as u64;
                        assert_eq!(evens, (to - even).div_ceil(2), "from {even} to {to}");
                        walks.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut rng = fastrand::Rng::with_seed(9);
            let mut odd: Vec<Option<RecordRef>> = (0..KEYS / 2).map(|_| None).collect();
            let mut begun = 0;
            while walks.load(Ordering::Relaxed) < 20_000 || begun < 40 {
                begun += 1;
                // Runs of changes, so that nodes split and merge.
                let from = rng.usize(0..odd.len());
                for place in odd.iter_mut().enumerate().skip(from).take(300) {
                    let (n, place) = place;
                    match place.take() {
                        Some(record) => assert!(index.remove(&record)),
                        None => *place = Some(index.get_or_create(&key(n as u64 * 2 + 1)).0),
                    }
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        index.check().unwrap();
    }
}
