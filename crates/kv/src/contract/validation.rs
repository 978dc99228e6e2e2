//! Optional capabilities: validated reads and SERIALIZABLE.

use super::{EngineFactory, Fixture, scan_all};
use crate::{Check, Error, Isolation, Read, ReadMode, ScanRange, TxnOptions};
use std::ops::ControlFlow;

fn validated(mode: ReadMode) -> Read {
    Read {
        mode,
        validate: true,
        ..Read::SNAPSHOT
    }
}

/// A key inserted into a range that was scanned with validation fails the commit.
pub fn capability_validated_ranges_refuse_phantoms(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("b", "1");
    let range = ScanRange {
        space: fixture.space,
        start: b"a",
        end: Some(b"m"),
        reverse: false,
    };
    if !fixture.engine.capabilities().range_validation {
        let outcome = fixture.begin().scan(
            validated(ReadMode::Snapshot),
            &[range],
            10,
            &mut |_, _, _| ControlFlow::Continue(()),
        );
        assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
        return;
    }
    for mode in [ReadMode::Snapshot, ReadMode::Current] {
        for (key, refused) in [("c", true), ("z", false)] {
            let mut txn = fixture.begin();
            assert_eq!(scan_all(&mut *txn, validated(mode), range, 10).len(), 1);
            fixture.set(key, "new");
            txn.put(fixture.key("result"), b"1", Check::Blind).unwrap();
            let outcome = txn.commit();
            if refused {
                assert!(matches!(outcome, Err(Error::Conflict)), "{outcome:?}");
                fixture.delete(key);
            } else {
                outcome.unwrap();
            }
        }
    }
    // A scan that stopped early has read only the keys that it visited.
    fixture.set("c", "2");
    let mut txn = fixture.begin();
    txn.scan(
        validated(ReadMode::Snapshot),
        &[range],
        1,
        &mut |_, _, _| ControlFlow::Continue(()),
    )
    .unwrap();
    fixture.set("d", "3");
    txn.put(fixture.key("result"), b"2", Check::Blind).unwrap();
    txn.commit().unwrap();
}

/// Reads of a restarted statement's discarded run do not count.
pub fn capability_untracked_reads_are_not_validated(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    if !fixture.engine.capabilities().range_validation {
        let mut txn = fixture.begin();
        txn.untrack_reads(0);
        assert_eq!(txn.tracked_reads(), 0);
        return;
    }
    for (forgets, key) in [(true, "b"), (false, "c")] {
        let mut txn = fixture.begin();
        super::read(&mut *txn, validated(ReadMode::Snapshot), fixture.key("a"));
        let kept = txn.tracked_reads();
        super::read(&mut *txn, validated(ReadMode::Snapshot), fixture.key(key));
        fixture.set(key, "1");
        if forgets {
            txn.untrack_reads(kept);
        }
        txn.refresh().unwrap();
        super::read(&mut *txn, validated(ReadMode::Snapshot), fixture.key(key));
        txn.put(fixture.key("result"), b"1", Check::Blind).unwrap();
        assert_eq!(txn.commit().is_ok(), forgets);
    }
    // Earlier reads stay tracked.
    let mut txn = fixture.begin();
    super::read(&mut *txn, validated(ReadMode::Snapshot), fixture.key("a"));
    txn.untrack_reads(txn.tracked_reads());
    fixture.set("a", "1");
    txn.put(fixture.key("result"), b"2", Check::Blind).unwrap();
    let outcome = txn.commit();
    assert!(matches!(outcome, Err(Error::Conflict)), "{outcome:?}");
}

/// Changes of present and of absent keys fail the commit.
pub fn capability_validated_keys_refuse_changes(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "1");
    if !fixture.engine.capabilities().range_validation {
        let outcome = fixture.begin().get(
            validated(ReadMode::Snapshot),
            &[fixture.key("a")],
            &mut |_, _| {},
        );
        assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
        return;
    }
    for key in ["a", "absent"] {
        let mut txn = fixture.begin();
        super::read(&mut *txn, validated(ReadMode::Snapshot), fixture.key(key));
        fixture.set(key, "2");
        txn.put(fixture.key("result"), b"1", Check::Blind).unwrap();
        let outcome = txn.commit();
        assert!(matches!(outcome, Err(Error::Conflict)), "{key} {outcome:?}");
    }
    assert_eq!(fixture.get("result"), None);
    let mut txn = fixture.begin();
    super::read(&mut *txn, validated(ReadMode::Snapshot), fixture.key("a"));
    txn.put(fixture.key("a"), b"3", Check::FirstCommitter)
        .unwrap();
    fixture.commit(txn);
}

/// Two transactions each read what the other writes.
pub fn capability_serializable_refuses_write_skew(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let options = || TxnOptions {
        isolation: Isolation::Serializable,
        ..TxnOptions::default()
    };
    if !fixture.engine.capabilities().serializable {
        let outcome = fixture.engine.begin(options()).map(|_| ());
        assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
        return;
    }
    fixture.set("x", "1");
    fixture.set("y", "1");
    let mut one = fixture.engine.begin(options()).unwrap();
    let mut two = fixture.engine.begin(options()).unwrap();
    let mut reader = fixture.engine.begin(options()).unwrap();
    for txn in [&mut one, &mut two, &mut reader] {
        assert_eq!(fixture.at_snapshot(&mut **txn, "x").as_deref(), Some("1"));
        assert_eq!(fixture.at_snapshot(&mut **txn, "y").as_deref(), Some("1"));
    }
    one.put(fixture.key("x"), b"0", Check::FirstCommitter)
        .unwrap();
    two.put(fixture.key("y"), b"0", Check::FirstCommitter)
        .unwrap();
    fixture.commit(one);
    let outcome = two.commit();
    assert!(matches!(outcome, Err(Error::Conflict)), "{outcome:?}");
    fixture.commit(reader);
    assert_eq!(fixture.get("y").as_deref(), Some("1"));
}
