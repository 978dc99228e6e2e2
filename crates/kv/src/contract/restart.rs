//! Guarantees across a restart. These functions take one that opens the same store again; the
//! previous engine was shut down and dropped.

use super::{EngineFactory, Fixture};
use crate::{Check, CounterId, SpaceSpec};

/// Committed rows, and spaces with their specifications, survive.
pub fn guarantee_11_commits_and_spaces_survive(open: EngineFactory<'_>) {
    let spec = SpaceSpec {
        group: 9,
        partition: 4,
        ..SpaceSpec::default()
    };
    let (fixture, dropped, kept) = {
        let fixture = Fixture::new(open);
        for n in 0..200 {
            fixture.set(&format!("k{n:03}"), &n.to_string());
        }
        fixture.delete("k007");
        let made = fixture
            .engine
            .create_spaces(&[spec.clone(), spec.clone()])
            .unwrap();
        fixture.engine.drop_spaces(&made[..1]).unwrap();
        let mut open_one = fixture.begin();
        open_one
            .put(fixture.key("never"), b"x", Check::Blind)
            .unwrap();
        drop(open_one);
        fixture.engine.shutdown().unwrap();
        (fixture.space, made[0], made[1])
    };
    let again = Fixture {
        engine: open(),
        space: fixture,
    };
    assert_eq!(again.get("k000").as_deref(), Some("0"));
    assert_eq!(again.get("k199").as_deref(), Some("199"));
    assert_eq!(again.get("k007"), None);
    assert_eq!(again.get("never"), None);
    let listed = again.engine.spaces().unwrap();
    assert!(listed.contains(&(kept, spec)));
    assert!(!listed.iter().any(|(id, _)| *id == dropped));
    let fresh = again.engine.create_spaces(&[SpaceSpec::default()]).unwrap()[0];
    assert!(fresh != dropped && fresh > kept.max(fixture));
    again.set("after", "1");
    again.engine.shutdown().unwrap();
}

/// A clean shutdown neither loses nor repeats an id.
pub fn guarantee_10_counters_are_exact_after_a_clean_shutdown(open: EngineFactory<'_>) {
    let id = {
        let fixture = Fixture::new(open);
        let id = CounterId(fixture.space.0);
        assert_eq!(fixture.engine.reserve_ids(id, 3, 1).unwrap(), 1..4);
        fixture.engine.shutdown().unwrap();
        id
    };
    {
        let engine = open();
        assert_eq!(engine.next_id(id).unwrap(), 4);
        assert_eq!(engine.reserve_ids(id, 5, 100).unwrap(), 100..105);
        engine.set_next_id(id, 50).unwrap();
        engine.shutdown().unwrap();
    }
    let engine = open();
    assert_eq!(engine.reserve_ids(id, 1, 1).unwrap(), 50..51);
    engine.shutdown().unwrap();
}

/// Without a shutdown, as after a crash, ids may be lost but are never repeated.
pub fn guarantee_10_ids_never_repeat_without_a_shutdown(open: EngineFactory<'_>) {
    let mut last = 0;
    let mut id = None;
    for _ in 0..4 {
        let engine = open();
        let counter = *id.get_or_insert_with(|| CounterId(Fixture::on(engine.clone()).space.0));
        for n in [1, 3, 70_000] {
            let got = engine.reserve_ids(counter, n, 1).unwrap();
            assert!(got.start > last, "{got:?} after {last}");
            last = got.end - 1;
        }
    }
}
