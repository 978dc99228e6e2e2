//! Guarantee 10: ids from counters are never given out twice.

use super::{EngineFactory, Fixture};
use crate::{CounterId, Error};
use std::collections::BTreeSet;
use std::sync::Mutex;

fn counter(fixture: &Fixture) -> CounterId {
    CounterId(fixture.space.0)
}

/// The first id is 1, each range follows the one before.
pub fn guarantee_10_ranges_are_consecutive_and_begin_at_one(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let id = counter(&fixture);
    assert_eq!(fixture.engine.next_id(id).unwrap(), 1);
    assert_eq!(fixture.engine.reserve_ids(id, 1, 1).unwrap(), 1..2);
    assert_eq!(fixture.engine.reserve_ids(id, 10, 0).unwrap(), 2..12);
    assert_eq!(fixture.engine.next_id(id).unwrap(), 12);
    assert_eq!(
        fixture.engine.reserve_ids(id, 100_000, 1).unwrap(),
        12..100_012
    );
}

/// Explicit values raise the counter.
pub fn guarantee_10_at_least_is_respected(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let id = counter(&fixture);
    assert_eq!(fixture.engine.reserve_ids(id, 2, 500).unwrap(), 500..502);
    assert_eq!(fixture.engine.reserve_ids(id, 2, 100).unwrap(), 502..504);
    assert_eq!(
        fixture.engine.reserve_ids(id, 1, 1 << 40).unwrap(),
        1 << 40..(1 << 40) + 1
    );
}

/// Four threads, ranges of many sizes, no id twice.
pub fn guarantee_10_concurrent_reservations_never_overlap(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let id = counter(&fixture);
    let all = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 1..40 {
                    let got = fixture.engine.reserve_ids(id, n, 1).unwrap();
                    assert_eq!(got.end - got.start, n);
                    let mut all = all.lock().unwrap();
                    for one in got {
                        assert!(all.insert(one), "{one} given twice");
                    }
                }
            });
        }
    });
    assert_eq!(all.lock().unwrap().len(), 4 * 39 * 40 / 2);
}

/// An unused end can be returned only while no later range was reserved.
pub fn guarantee_10_an_unused_end_can_be_given_back(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let id = counter(&fixture);
    let engine = &fixture.engine;
    assert_eq!(engine.reserve_ids(id, 10, 1).unwrap(), 1..11);
    if engine.return_ids(id, 5..11).unwrap() {
        assert_eq!(engine.reserve_ids(id, 3, 1).unwrap(), 5..8);
    }
    let mine = engine.reserve_ids(id, 10, 1).unwrap();
    let later = engine.reserve_ids(id, 1, 1).unwrap();
    assert!(!engine.return_ids(id, mine.start + 1..mine.end).unwrap());
    let next = engine.reserve_ids(id, 1, 1).unwrap();
    assert!(next.start >= later.end);
}

/// ALTER TABLE ... AUTO_INCREMENT, and exhaustion of a counter.
pub fn guarantee_10_the_next_id_can_be_set_and_ends_somewhere(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let id = counter(&fixture);
    let engine = &fixture.engine;
    engine.reserve_ids(id, 5, 1).unwrap();
    engine.set_next_id(id, 1000).unwrap();
    assert_eq!(engine.next_id(id).unwrap(), 1000);
    assert_eq!(engine.reserve_ids(id, 1, 1).unwrap(), 1000..1001);
    engine.set_next_id(id, 10).unwrap();
    assert_eq!(engine.reserve_ids(id, 1, 1).unwrap(), 10..11);
    let end = engine.reserve_ids(id, 1, u64::MAX - 1).unwrap();
    assert_eq!(end, u64::MAX - 1..u64::MAX);
    let refused = engine.reserve_ids(id, 1, 1);
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
}
