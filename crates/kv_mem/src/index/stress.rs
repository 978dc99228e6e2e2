//! Stress test of the index: many threads, with a locked map as the oracle.
//!
//! Each key has a change number beside the map, odd during a change (a seqlock). A reader of the
//! index reads the number before and after; if it is even and unchanged, the expected answer is
//! certain, down to the record. Keys are removed as in the engine: marked dead under the latch, and
//! unlinked later by a separate thread or by the next thread that meets them.
//!
//! `STRESS_SECONDS` sets the duration; the default is a fraction of a second.

use super::*;
use crate::record::{NewVersion, RecordAddress};
use porpoise_base::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Expected state of a key.
struct State {
    key: Vec<u8>,
    /// Grows with each change, odd during one.
    number: AtomicU64,
    /// The living record's address, or 0.
    record: AtomicUsize,
    /// The record that a writer is changing.
    writing: Mutex<Option<RecordRef>>,
}

struct Stress {
    index: Index,
    keys: Vec<State>,
    oracle: Mutex<BTreeMap<Vec<u8>, usize>>,
    dead: Mutex<Vec<RecordRef>>,
    over: AtomicBool,
    certain: AtomicU64,
}

/// Keys that are easily confused: the empty key, runs of zeroes, keys with the same four bytes,
/// numbers in both byte orders, and the longest key allowed.
fn hard_keys(seed: u64, scale: u64) -> Vec<Vec<u8>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut keys: Vec<Vec<u8>> = (0..scale / 10).map(|n| vec![0; n as usize % 300]).collect();
    for n in 0..scale {
        keys.push(n.to_be_bytes().to_vec());
        let mut key = b"a common beginning of some length/".to_vec();
        key.extend_from_slice(rng.u16(..).to_string().as_bytes());
        keys.push(key);
        keys.push((0..rng.usize(0..9)).map(|_| rng.u8(0..3)).collect());
        if n % 20 == 0 {
            let mut key = vec![b'z'; 3072];
            let last = key.len() - 2;
            key[last..].copy_from_slice(&(n as u16).to_be_bytes());
            keys.push(key);
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

fn is_alive(record: &Pinned<'_>) -> bool {
    !record.record().latch().dead
}

impl Stress {
    fn new(point_lookups: bool, scale: u64) -> Stress {
        let keys = hard_keys(7, scale).into_iter().map(|key| State {
            key,
            number: AtomicU64::new(0),
            record: AtomicUsize::new(0),
            writing: Mutex::new(None),
        });
        Stress {
            index: Index::new(point_lookups),
            keys: keys.collect(),
            oracle: Mutex::default(),
            dead: Mutex::default(),
            over: AtomicBool::new(false),
            certain: AtomicU64::new(0),
        }
    }

    /// Expected record of a key and its change number; `None` during a change.
    fn expected(&self, at: usize) -> Option<(u64, usize)> {
        let state = &self.keys[at];
        let number = state.number.load(Ordering::SeqCst);
        let record = state.record.load(Ordering::SeqCst);
        let whole = number.is_multiple_of(2) && state.number.load(Ordering::SeqCst) == number;
        whole.then_some((number, record))
    }

    /// Returns a live record of the key, found or created as by a commit.
    fn revive(&self, key: &[u8], ts: u64) -> RecordRef {
        loop {
            let (record, _) = self.index.get_or_create(key);
            let mut latch = record.latch();
            if latch.dead {
                drop(latch);
                self.index.remove(&record);
                continue;
            }
            let guard = crossbeam_epoch::pin();
            latch.push(ts, NewVersion::new(Some(key)), &guard);
            drop(latch);
            return record;
        }
    }

    fn change(&self, at: usize, insert: bool, at_once: bool) {
        let state = &self.keys[at];
        let mut own = state.writing.lock();
        if own.is_some() == insert {
            return;
        }
        let number = state.number.fetch_add(1, Ordering::SeqCst);
        if insert {
            let record = self.revive(&state.key, number + 1);
            let address = record.address().as_ptr().addr();
            let before = self.oracle.lock().insert(state.key.clone(), address);
            assert!(before.is_none());
            state.record.store(address, Ordering::SeqCst);
            *own = Some(record);
        } else if let Some(record) = own.take() {
            record.latch().dead = true;
            assert!(self.oracle.lock().remove(&state.key).is_some());
            state.record.store(0, Ordering::SeqCst);
            if at_once {
                self.index.remove(&record);
            } else {
                self.dead.lock().push(record);
            }
        }
        state.number.fetch_add(1, Ordering::SeqCst);
    }

    /// Changes single random keys, and runs of keys that split and merge nodes.
    fn write(&self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        while !self.over.load(Ordering::Relaxed) {
            let from = rng.usize(..self.keys.len());
            let (insert, at_once) = (rng.bool(), rng.bool());
            match rng.u8(0..4) {
                0 => {
                    let run = rng.usize(1..600);
                    for at in from..(from + run).min(self.keys.len()) {
                        self.change(at, insert, at_once);
                    }
                }
                1 => {
                    for at in (from.saturating_sub(rng.usize(1..600))..from).rev() {
                        self.change(at, insert, at_once);
                    }
                }
                // Mostly one key, so that its hash word and cell are reused.
                2 => (0..20).for_each(|n| self.change(from, n % 2 == 0, at_once)),
                _ => self.change(from, insert, at_once),
            }
        }
    }

    fn reclaim(&self) {
        while !self.over.load(Ordering::Relaxed) {
            for record in std::mem::take(&mut *self.dead.lock()) {
                self.index.remove(&record);
            }
            crossbeam_epoch::pin().flush();
            std::thread::yield_now();
        }
    }

    /// Compares the found keys with the expected ones, where those are certain.
    fn compare(&self, at: usize, before: Option<(u64, usize)>, met: Option<RecordAddress>) {
        let met = met.map_or(0, |address| address.as_ptr().addr());
        if let Some((number, record)) = before
            && self.keys[at].number.load(Ordering::SeqCst) == number
        {
            assert_eq!(record, met, "key {at} at its change {number}");
            self.certain.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn look_up(&self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        while !self.over.load(Ordering::Relaxed) {
            let guard = crossbeam_epoch::pin();
            let some: Vec<usize> = (0..BATCH).map(|_| rng.usize(..self.keys.len())).collect();
            let before: Vec<_> = some.iter().map(|at| self.expected(*at)).collect();
            let mut found = [None; BATCH];
            let mut keys = some.iter().map(|at| &self.keys[*at].key[..]);
            self.index.find_batch(&mut keys, &guard, &mut found);
            for ((at, before), met) in some.iter().zip(before).zip(found) {
                let met = met.filter(is_alive);
                if let Some(record) = met {
                    assert_eq!(record.record().key(), self.keys[*at].key);
                    let value = record.record().newest(&guard).and_then(|v| v.value());
                    assert!(value.is_none_or(|value| value == self.keys[*at].key));
                }
                self.compare(*at, before, met.map(Pinned::address));
            }
        }
    }

    /// Walks a range in steps, and renews the epoch pin between them.
    fn scan(&self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        while !self.over.load(Ordering::Relaxed) {
            let from = rng.usize(..self.keys.len());
            let to = (from + rng.usize(1..800)).min(self.keys.len() - 1);
            let (reverse, step) = (rng.bool(), rng.usize(1..200));
            let before: Vec<_> = (from..to).map(|at| self.expected(at)).collect();
            let mut met: Vec<Option<RecordAddress>> = vec![None; to - from];
            let (start, end) = (&self.keys[from].key[..], &self.keys[to].key[..]);
            let mut last: Option<InlineKey> = None;
            let mut guard = crossbeam_epoch::pin();
            loop {
                let (lower, upper) = match (&last, reverse) {
                    (None, _) => (Bound::Included(start), Bound::Excluded(end)),
                    (Some(key), false) => (Bound::Excluded(&key[..]), Bound::Excluded(end)),
                    (Some(key), true) => (Bound::Included(start), Bound::Excluded(&key[..])),
                };
                let mut order: Option<usize> = None;
                let walk = self
                    .index
                    .walk(lower, upper, reverse, step, &guard, |record| {
                        let key = record.record().key();
                        let at = self.keys.binary_search_by(|s| s.key[..].cmp(key)).unwrap();
                        let after = order.is_none_or(|last| (last < at) != reverse && last != at);
                        assert!(after, "{order:?} is shown before {at}");
                        assert!((from..to).contains(&at), "{at} is not in {from}..{to}");
                        order = Some(at);
                        if is_alive(&record) {
                            met[at - from] = Some(record.address());
                        }
                        ControlFlow::Continue(())
                    });
                let WalkOutcome::Paused(key) = walk else {
                    break;
                };
                last = Some(key);
                guard.repin();
            }
            drop(guard);
            for (at, (before, met)) in before.into_iter().zip(met).enumerate() {
                self.compare(from + at, before, met);
            }
        }
    }

    fn settle(&self) {
        for record in std::mem::take(&mut *self.dead.lock()) {
            self.index.remove(&record);
        }
        self.index.check().unwrap();
        let guard = crossbeam_epoch::pin();
        let mut met = Vec::new();
        let all = Bound::Unbounded;
        self.index
            .walk(all, all, false, usize::MAX, &guard, |record| {
                let address = record.address().as_ptr().addr();
                met.push((record.record().key().to_vec(), address));
                ControlFlow::Continue(())
            });
        let expected: Vec<_> = std::mem::take(&mut *self.oracle.lock())
            .into_iter()
            .collect();
        assert!(met == expected, "{} of {}", met.len(), expected.len());
    }
}

fn run(point_lookups: bool, scale: u64, writers: u64) {
    let stress = Stress::new(point_lookups, scale);
    let asked = std::env::var("STRESS_SECONDS").ok();
    let seconds = asked.and_then(|s| s.parse().ok()).unwrap_or(0.4);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    std::thread::scope(|scope| {
        let stress = &stress;
        for n in 0..writers {
            scope.spawn(move || stress.write(n));
        }
        for n in 0..2 {
            scope.spawn(move || stress.look_up(100 + n));
            scope.spawn(move || stress.scan(200 + n));
        }
        scope.spawn(|| stress.reclaim());
        // Slow machines go on until something has been seen.
        while Instant::now() < end || stress.certain.load(Ordering::Relaxed) < 1000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        stress.over.store(true, Ordering::Relaxed);
    });
    stress.settle();
}

#[test]
fn threads_agree_with_a_map_without_a_hash_index() {
    run(false, 2000, 3);
}

#[test]
fn threads_agree_with_a_map_with_a_hash_index() {
    run(true, 2000, 3);
}

#[test]
fn threads_on_few_keys_agree_with_a_map() {
    run(true, 40, 4);
    run(false, 40, 4);
}
