//! Guarantee 15: prepared transactions.

use super::{Fixture, New, lock_one, scan_all};
use crate::{Check, Error, LockMode, PreparedTxn, Read, ScanRange, Txn};
use std::sync::Arc;

/// A transaction that has written `value` to `key` under a lock.
fn writer(bed: &Fixture, key: &str, value: Option<&str>) -> Box<dyn Txn> {
    let mut txn = bed.begin();
    lock_one(&mut *txn, bed.key(key), LockMode::Exclusive).unwrap();
    match value {
        Some(value) => txn.put(bed.key(key), value.as_bytes(), Check::Locked),
        None => txn.delete(bed.key(key), Check::Locked),
    }
    .unwrap();
    txn
}

/// Whether the engine prepares transactions. If not, checks that it says so.
fn is_supported(bed: &Fixture) -> bool {
    if bed.engine.capabilities().prepare {
        return true;
    }
    let refused = writer(bed, "a", Some("1")).prepare(b"x", b"").err();
    assert!(
        matches!(refused, Some(Error::Unsupported(_))),
        "{refused:?}"
    );
    assert!(bed.try_lock(&mut *bed.begin(), "a", LockMode::Exclusive));
    assert!(bed.engine.take_restored().unwrap().is_empty());
    false
}

fn prepare(bed: &Fixture, txn: Box<dyn Txn>, name: &str) -> Box<dyn PreparedTxn> {
    let prepared = txn.prepare(&name_of(bed, name), b"note").unwrap();
    bed.engine.wait_durable(prepared.position()).unwrap();
    prepared
}

/// A name that is unique in a store that several functions share.
fn name_of(bed: &Fixture, name: &str) -> Vec<u8> {
    format!("{name}{}", bed.space.0).into_bytes()
}

/// The locks stay, the writes are not visible, until the end applies all or nothing.
pub fn guarantee_15_a_prepared_transaction_keeps_its_locks(new: New<'_>) {
    let bed = Fixture::new(new);
    if !is_supported(&bed) {
        return;
    }
    bed.set("a", "old");
    bed.set("gone", "old");
    for commits in [false, true] {
        let mut txn = writer(&bed, "a", Some("new"));
        lock_one(&mut *txn, bed.key("shared"), LockMode::Share).unwrap();
        lock_one(&mut *txn, bed.key("gone"), LockMode::Exclusive).unwrap();
        txn.delete(bed.key("gone"), Check::Locked).unwrap();
        txn.put(bed.key("blind"), b"new", Check::Blind).unwrap();
        let mut prepared = prepare(&bed, txn, "x");
        assert_eq!(prepared.name(), name_of(&bed, "x"));
        assert_eq!(prepared.note(), b"note");
        assert_eq!(bed.get("a").as_deref(), Some("old"));
        assert_eq!(bed.get("blind"), None);
        let mut other = bed.begin();
        for key in ["a", "gone", "shared"] {
            assert!(
                !bed.try_lock(&mut *other, key, LockMode::Exclusive),
                "{key}"
            );
        }
        if bed.engine.capabilities().share_locks {
            assert!(bed.try_lock(&mut *other, "shared", LockMode::Share));
        }
        drop(other);
        let done = if commits {
            prepared.commit()
        } else {
            prepared.rollback()
        };
        bed.engine.wait_durable(done.unwrap().position).unwrap();
        let (a, gone) = if commits {
            (Some("new"), None)
        } else {
            (Some("old"), Some("old"))
        };
        assert_eq!(bed.get("a").as_deref(), a);
        assert_eq!(bed.get("gone").as_deref(), gone);
        assert_eq!(bed.get("blind").is_some(), commits);
        let mut other = bed.begin();
        for key in ["a", "gone", "shared"] {
            assert!(bed.try_lock(&mut *other, key, LockMode::Exclusive), "{key}");
        }
        assert!(matches!(prepared.commit(), Err(Error::Ended)));
        assert!(matches!(prepared.rollback(), Err(Error::Ended)));
    }
}

/// A write that is compared with the snapshot is compared when the transaction is prepared, and its
/// key stays locked; a refused preparation leaves nothing.
pub fn guarantee_15_preparing_checks_what_a_commit_would(new: New<'_>) {
    let bed = Fixture::new(new);
    if !is_supported(&bed) {
        return;
    }
    bed.set("a", "1");
    let compared = |bed: &Fixture| {
        let mut txn = bed.begin();
        txn.pin().unwrap();
        assert!(bed.at_snapshot(&mut *txn, "a").is_some());
        txn.put(bed.key("a"), b"mine", Check::FirstCommitter)
            .unwrap();
        txn
    };
    let txn = compared(&bed);
    bed.set("a", "2");
    let refused = txn.prepare(&name_of(&bed, "x"), b"").err();
    assert!(matches!(refused, Some(Error::Conflict)), "{refused:?}");
    let mut prepared = prepare(&bed, compared(&bed), "x");
    assert!(!bed.try_lock(&mut *bed.begin(), "a", LockMode::Update));
    bed.engine
        .wait_durable(prepared.commit().unwrap().position)
        .unwrap();
    assert_eq!(bed.get("a").as_deref(), Some("mine"));
}

/// A name is in use until the end of its transaction.
pub fn guarantee_15_names_are_unique(new: New<'_>) {
    let bed = Fixture::new(new);
    if !is_supported(&bed) {
        return;
    }
    let mut first = prepare(&bed, writer(&bed, "a", Some("1")), "x");
    let mut longer = prepare(&bed, writer(&bed, "b", Some("1")), "x-");
    let refused = writer(&bed, "c", Some("1")).prepare(&name_of(&bed, "x"), b"");
    assert!(matches!(refused.err(), Some(Error::LockBusy)));
    assert!(bed.try_lock(&mut *bed.begin(), "c", LockMode::Exclusive));
    longer.rollback().unwrap();
    first.rollback().unwrap();
    let mut again = prepare(&bed, writer(&bed, "a", Some("2")), "x");
    bed.engine
        .wait_durable(again.commit().unwrap().position)
        .unwrap();
    assert_eq!(bed.get("a").as_deref(), Some("2"));
    assert_eq!(bed.get("b"), None);
    let long = vec![b'n'; crate::MAX_PREPARED_NAME + 1];
    let refused = writer(&bed, "a", Some("1")).prepare(&long, b"");
    assert!(matches!(refused.err(), Some(Error::TooLarge { .. })));
}

/// Scans the keys below "m" with validation, then writes `result`.
fn reader(bed: &Fixture, result: &str) -> Box<dyn Txn> {
    let mut txn = bed.begin();
    let range = ScanRange {
        space: bed.space,
        start: b"",
        end: Some(b"m"),
        reverse: false,
    };
    let read = Read {
        validate: true,
        ..Read::SNAPSHOT
    };
    scan_all(&mut *txn, read, range, 10);
    txn.put(bed.key(result), b"1", Check::Blind).unwrap();
    txn
}

/// What a prepared transaction validated does not change before its end: the commit that would
/// change it is refused.
pub fn capability_prepared_transactions_keep_validated_ranges(new: New<'_>) {
    let bed = Fixture::new(new);
    if !is_supported(&bed) || !bed.engine.capabilities().range_validation {
        return;
    }
    bed.set("b", "1");
    let mut prepared = prepare(&bed, reader(&bed, "z"), "x");
    let insert = |key: &str| {
        let done = writer(&bed, key, Some("1")).commit();
        done.map(|done| bed.engine.wait_durable(done.position).unwrap())
    };
    assert!(matches!(insert("c"), Err(Error::Conflict)));
    insert("n").unwrap();
    // Nor is a transaction prepared that would have to change it.
    let refused = writer(&bed, "c", Some("1")).prepare(&name_of(&bed, "y"), b"");
    assert!(matches!(refused.err(), Some(Error::Conflict)));
    bed.engine
        .wait_durable(prepared.commit().unwrap().position)
        .unwrap();
    insert("c").unwrap();
    // The other way round: the later one has read what the first will change.
    let mut first = prepare(&bed, writer(&bed, "d", Some("1")), "x");
    let refused = reader(&bed, "z").prepare(&name_of(&bed, "y"), b"");
    assert!(matches!(refused.err(), Some(Error::Conflict)));
    first.rollback().unwrap();
    let mut second = prepare(&bed, reader(&bed, "z"), "y");
    second.rollback().unwrap();
    insert("e").unwrap();
}

/// Large write sets are stored and applied whole.
pub fn guarantee_15_large_transactions_are_whole(new: New<'_>) {
    let bed = Fixture::new(new);
    if !is_supported(&bed) {
        return;
    }
    let mut txn = bed.begin();
    let value = vec![7; 30_000];
    for n in 0..100 {
        txn.put(bed.key(&format!("k{n:03}")), &value, Check::Blind)
            .unwrap();
    }
    let mut prepared = prepare(&bed, txn, "x");
    assert_eq!(bed.get("k000"), None);
    bed.engine
        .wait_durable(prepared.commit().unwrap().position)
        .unwrap();
    for n in [0, 50, 99] {
        assert_eq!(bed.get(&format!("k{n:03}")).map(|v| v.len()), Some(30_000));
    }
}

/// After a restart the engine returns what was prepared, with its locks and validated ranges. For
/// engines whose commits survive restarts; run beside [`super::restart`].
pub fn guarantee_15_prepared_transactions_survive(open: New<'_>) {
    let space = {
        let bed = Fixture::new(open);
        bed.set("p", "old");
        bed.set("r", "old");
        for (key, name) in [("p", "commit"), ("r", "rollback"), ("d", "done")] {
            let mut txn = writer(&bed, key, Some("new"));
            lock_one(&mut *txn, bed.key(&format!("{key}-share")), LockMode::Share).unwrap();
            txn.put(bed.key(&format!("{key}-blind")), b"new", Check::Blind)
                .unwrap();
            let mut prepared = prepare(&bed, txn, name);
            if name == "done" {
                let done = prepared.commit().unwrap();
                bed.engine.wait_durable(done.position).unwrap();
            }
        }
        if bed.engine.capabilities().range_validation {
            drop(prepare(&bed, reader(&bed, "z"), "reader"));
        }
        bed.engine.shutdown().unwrap();
        bed.space
    };
    // A second restart finds the same.
    for last in [false, true] {
        let bed = Fixture {
            engine: open(),
            space,
        };
        let restored = bed.engine.take_restored().unwrap();
        assert!(bed.engine.take_restored().unwrap().is_empty());
        let expected = 2 + usize::from(bed.engine.capabilities().range_validation);
        assert_eq!(restored.len(), expected);
        for key in ["p", "r", "p-share"] {
            assert!(
                !bed.try_lock(&mut *bed.begin(), key, LockMode::Exclusive),
                "{key}"
            );
        }
        assert!(bed.try_lock(&mut *bed.begin(), "d", LockMode::Exclusive));
        assert_eq!(bed.get("p").as_deref(), Some("old"));
        if last {
            end_restored(&bed, restored);
        }
        bed.engine.shutdown().unwrap();
    }
    let bed = Fixture {
        engine: open(),
        space,
    };
    assert!(bed.engine.take_restored().unwrap().is_empty());
    for (key, value) in [
        ("p", Some("new")),
        ("p-blind", Some("new")),
        ("r", Some("old")),
        ("r-blind", None),
        ("d", Some("new")),
        ("d-blind", Some("new")),
    ] {
        assert_eq!(bed.get(key).as_deref(), value, "{key}");
    }
    bed.engine.shutdown().unwrap();
}

fn end_restored(bed: &Fixture, restored: Vec<Box<dyn PreparedTxn>>) {
    let engine = Arc::clone(&bed.engine);
    for mut prepared in restored {
        assert_eq!(prepared.note(), b"note");
        let done = if prepared.name().starts_with(b"reader") {
            let refused = writer(bed, "c", Some("1")).commit();
            assert!(matches!(refused, Err(Error::Conflict)), "{refused:?}");
            prepared.rollback()
        } else if prepared.name().starts_with(b"commit") {
            prepared.commit()
        } else {
            assert!(prepared.name().starts_with(b"rollback"));
            prepared.rollback()
        };
        engine.wait_durable(done.unwrap().position).unwrap();
    }
    for key in ["p", "r", "p-share"] {
        assert!(
            bed.try_lock(&mut *bed.begin(), key, LockMode::Exclusive),
            "{key}"
        );
    }
    bed.set("c", "2");
}
