//! Optional capabilities: validated reads and SERIALIZABLE.

use super::{Fixture, New, scan_all};
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
pub fn capability_validated_ranges_refuse_phantoms(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("b", "1");
    let range = ScanRange {
        space: bed.space,
        start: b"a",
        end: Some(b"m"),
        reverse: false,
    };
    if !bed.engine.capabilities().range_validation {
        let outcome = bed.begin().scan(
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
            let mut txn = bed.begin();
            assert_eq!(scan_all(&mut *txn, validated(mode), range, 10).len(), 1);
            bed.set(key, "new");
            txn.put(bed.key("result"), b"1", Check::Blind).unwrap();
            let outcome = txn.commit();
            if refused {
                assert!(matches!(outcome, Err(Error::Conflict)), "{outcome:?}");
                bed.delete(key);
            } else {
                outcome.unwrap();
            }
        }
    }
    // A scan that stopped early has read only the keys that it visited.
    bed.set("c", "2");
    let mut txn = bed.begin();
    txn.scan(
        validated(ReadMode::Snapshot),
        &[range],
        1,
        &mut |_, _, _| ControlFlow::Continue(()),
    )
    .unwrap();
    bed.set("d", "3");
    txn.put(bed.key("result"), b"2", Check::Blind).unwrap();
    txn.commit().unwrap();
}

/// Reads of a restarted statement's discarded run do not count.
pub fn capability_forgotten_reads_refuse_nothing(new: New<'_>) {
    let bed = Fixture::new(new);
    if !bed.engine.capabilities().range_validation {
        let mut txn = bed.begin();
        txn.untrack_reads(0);
        assert_eq!(txn.tracked_reads(), 0);
        return;
    }
    for (forgets, key) in [(true, "b"), (false, "c")] {
        let mut txn = bed.begin();
        super::read(&mut *txn, validated(ReadMode::Snapshot), bed.key("a"));
        let kept = txn.tracked_reads();
        super::read(&mut *txn, validated(ReadMode::Snapshot), bed.key(key));
        bed.set(key, "1");
        if forgets {
            txn.untrack_reads(kept);
        }
        txn.refresh().unwrap();
        super::read(&mut *txn, validated(ReadMode::Snapshot), bed.key(key));
        txn.put(bed.key("result"), b"1", Check::Blind).unwrap();
        assert_eq!(txn.commit().is_ok(), forgets);
    }
    // Earlier reads stay tracked.
    let mut txn = bed.begin();
    super::read(&mut *txn, validated(ReadMode::Snapshot), bed.key("a"));
    txn.untrack_reads(txn.tracked_reads());
    bed.set("a", "1");
    txn.put(bed.key("result"), b"2", Check::Blind).unwrap();
    let outcome = txn.commit();
    assert!(matches!(outcome, Err(Error::Conflict)), "{outcome:?}");
}

/// Changes of present and of absent keys fail the commit.
pub fn capability_validated_keys_refuse_changes(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "1");
    if !bed.engine.capabilities().range_validation {
        let outcome = bed.begin().get(
            validated(ReadMode::Snapshot),
            &[bed.key("a")],
            &mut |_, _| {},
        );
        assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
        return;
    }
    for key in ["a", "absent"] {
        let mut txn = bed.begin();
        super::read(&mut *txn, validated(ReadMode::Snapshot), bed.key(key));
        bed.set(key, "2");
        txn.put(bed.key("result"), b"1", Check::Blind).unwrap();
        let outcome = txn.commit();
        assert!(matches!(outcome, Err(Error::Conflict)), "{key} {outcome:?}");
    }
    assert_eq!(bed.get("result"), None);
    let mut txn = bed.begin();
    super::read(&mut *txn, validated(ReadMode::Snapshot), bed.key("a"));
    txn.put(bed.key("a"), b"3", Check::FirstCommitter).unwrap();
    bed.commit(txn);
}

/// Two transactions each read what the other writes.
pub fn capability_serializable_refuses_write_skew(new: New<'_>) {
    let bed = Fixture::new(new);
    let options = || TxnOptions {
        isolation: Isolation::Serializable,
        ..TxnOptions::default()
    };
    if !bed.engine.capabilities().serializable {
        let outcome = bed.engine.begin(options()).map(|_| ());
        assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
        return;
    }
    bed.set("x", "1");
    bed.set("y", "1");
    let mut one = bed.engine.begin(options()).unwrap();
    let mut two = bed.engine.begin(options()).unwrap();
    let mut reader = bed.engine.begin(options()).unwrap();
    for txn in [&mut one, &mut two, &mut reader] {
        assert_eq!(bed.at_snapshot(&mut **txn, "x").as_deref(), Some("1"));
        assert_eq!(bed.at_snapshot(&mut **txn, "y").as_deref(), Some("1"));
    }
    one.put(bed.key("x"), b"0", Check::FirstCommitter).unwrap();
    two.put(bed.key("y"), b"0", Check::FirstCommitter).unwrap();
    bed.commit(one);
    let outcome = two.commit();
    assert!(matches!(outcome, Err(Error::Conflict)), "{outcome:?}");
    bed.commit(reader);
    assert_eq!(bed.get("y").as_deref(), Some("1"));
}
