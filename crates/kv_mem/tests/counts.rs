//! Counts agree with scans, at old and new snapshots and beside writers. Counts mark records that all snapshots see, and
//! later counts do not read these again.

use crate::common::SPACE;
use porpoise_kv::{Check, Engine, Key, Read, ScanEnd, ScanRange, Txn, TxnOptions};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

const ALL: ScanRange<'static> = ScanRange {
    space: SPACE,
    start: &[],
    end: None,
    reverse: false,
};

fn memory() -> std::sync::Arc<KvMem> {
    KvMem::open(KvMemOptions::default()).unwrap()
}

fn scanned(txn: &mut dyn Txn, range: ScanRange<'_>) -> usize {
    let mut found = 0;
    txn.scan(Read::SNAPSHOT, &[range], usize::MAX, &mut |_, _, _| {
        found += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

fn counted(txn: &mut dyn Txn, range: ScanRange<'_>) -> usize {
    let (found, end) = txn.count(Read::SNAPSHOT, &[range], usize::MAX).unwrap();
    assert_eq!(end, ScanEnd::Done);
    found
}

/// Puts or deletes some keys in one commit.
fn change(engine: &dyn Engine, keys: impl Iterator<Item = (u32, bool)>) {
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    for (key, is_put) in keys {
        let bytes = key.to_be_bytes();
        let key = Key::new(SPACE, &bytes);
        if is_put {
            txn.put(key, b"value", Check::Blind).unwrap();
        } else {
            txn.delete(key, Check::Blind).unwrap();
        }
    }
    txn.commit().unwrap();
}

#[test]
fn counts_agree_with_scans_at_all_snapshots() {
    let engine = memory();
    let mut rng = fastrand::Rng::with_seed(5);
    let mut held: Vec<(Box<dyn Txn>, usize)> = Vec::new();
    for _ in 0..200 {
        let changes: Vec<(u32, bool)> = (0..rng.u32(1..60))
            .map(|_| (rng.u32(..2000), rng.u8(..3) > 0))
            .collect();
        change(&*engine, changes.into_iter());
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        txn.pin().unwrap();
        let all = scanned(&mut *txn, ALL);
        held.push((txn, all));
        if rng.u8(..4) == 0 {
            held.swap_remove(rng.usize(..held.len()));
        }
        for (txn, all) in &mut held {
            assert_eq!(counted(&mut **txn, ALL), *all);
            let (start, end) = (rng.u32(..2000).to_be_bytes(), rng.u32(..2000).to_be_bytes());
            let range = ScanRange {
                space: SPACE,
                start: &start,
                end: Some(&end),
                reverse: rng.bool(),
            };
            assert_eq!(counted(&mut **txn, range), scanned(&mut **txn, range));
        }
    }
}

#[test]
fn a_count_resumes_after_its_limit() {
    let engine = memory();
    change(&*engine, (0..500).map(|key| (key, true)));
    change(&*engine, (0..500).step_by(3).map(|key| (key, false)));
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    for _ in 0..3 {
        let (mut start, mut found) = (Vec::new(), 0);
        loop {
            let range = ScanRange {
                start: &start,
                ..ALL
            };
            let (some, end) = txn.count(Read::SNAPSHOT, &[range], 7).unwrap();
            found += some;
            match end {
                ScanEnd::Done => break,
                ScanEnd::Stopped { key, .. } => {
                    assert_eq!(some, 7);
                    start = key;
                    start.push(0);
                }
            }
        }
        assert_eq!(found, 333);
    }
}

#[test]
fn counts_beside_writers_see_whole_commits() {
    let engine = memory();
    change(&*engine, (0..300).map(|key| (2 * key, true)));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Each commit moves a key: there are 300 of them at all times.
            let mut at: Vec<u32> = (0..300).map(|key| 2 * key).collect();
            let mut rng = fastrand::Rng::with_seed(9);
            for _ in 0..4000 {
                let place = &mut at[rng.usize(..300)];
                let to = *place ^ 1;
                change(&*engine, [(*place, false), (to, true)].into_iter());
                *place = to;
            }
            done.store(true, Ordering::Release);
        });
        let mut counts = 0;
        while !done.load(Ordering::Acquire) || counts < 10 {
            let mut txn = engine.begin(TxnOptions::default()).unwrap();
            assert_eq!(counted(&mut *txn, ALL), 300);
            counts += 1;
        }
    });
}
