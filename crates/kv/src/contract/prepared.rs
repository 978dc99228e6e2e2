//! Guarantee 15: prepared transactions.

use super::{EngineFactory, Fixture, lock_one, scan_all};
use crate::{Check, Error, LockMode, PreparedTxn, Read, ScanRange, Txn};
use std::sync::Arc;

/// A transaction that has written `value` to `key` under a lock.
fn writer(fixture: &Fixture, key: &str, value: Option<&str>) -> Box<dyn Txn> {
    let mut txn = fixture.begin();
    lock_one(&mut *txn, fixture.key(key), LockMode::Exclusive).unwrap();
    match value {
        Some(value) => txn.put(fixture.key(key), value.as_bytes(), Check::Locked),
        None => txn.delete(fixture.key(key), Check::Locked),
    }
    .unwrap();
    txn
}

/// Whether the engine prepares transactions. If not, checks that it says so.
fn is_supported(fixture: &Fixture) -> bool {
    if fixture.engine.capabilities().prepare {
        return true;
    }
    let refused = writer(fixture, "a", Some("1")).prepare(b"x", b"").err();
    assert!(
        matches!(refused, Some(Error::Unsupported(_))),
        "{refused:?}"
    );
    assert!(fixture.try_lock(&mut *fixture.begin(), "a", LockMode::Exclusive));
    assert!(fixture.engine.take_restored().unwrap().is_empty());
    false
}

fn prepare(fixture: &Fixture, txn: Box<dyn Txn>, name: &str) -> Box<dyn PreparedTxn> {
    let prepared = txn.prepare(&name_of(fixture, name), b"note").unwrap();
    fixture.engine.wait_durable(prepared.position()).unwrap();
    prepared
}

/// A name that is unique in a store that several functions share.
fn name_of(fixture: &Fixture, name: &str) -> Vec<u8> {
    format!("{name}{}", fixture.space.0).into_bytes()
}

/// The locks stay, the writes are not visible, until the end applies all or nothing.
pub fn guarantee_15_a_prepared_transaction_keeps_its_locks(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    if !is_supported(&fixture) {
        return;
    }
    fixture.set("a", "old");
    fixture.set("gone", "old");
    for commits in [false, true] {
        let mut txn = writer(&fixture, "a", Some("new"));
        lock_one(&mut *txn, fixture.key("shared"), LockMode::Share).unwrap();
        lock_one(&mut *txn, fixture.key("gone"), LockMode::Exclusive).unwrap();
        txn.delete(fixture.key("gone"), Check::Locked).unwrap();
        txn.put(fixture.key("blind"), b"new", Check::Blind).unwrap();
        let mut prepared = prepare(&fixture, txn, "x");
        assert_eq!(prepared.name(), name_of(&fixture, "x"));
        assert_eq!(prepared.note(), b"note");
        assert_eq!(fixture.get("a").as_deref(), Some("old"));
        assert_eq!(fixture.get("blind"), None);
        let mut other = fixture.begin();
        for key in ["a", "gone", "shared"] {
            assert!(
                !fixture.try_lock(&mut *other, key, LockMode::Exclusive),
                "{key}"
            );
        }
        if fixture.engine.capabilities().share_locks {
            assert!(fixture.try_lock(&mut *other, "shared", LockMode::Share));
        }
        drop(other);
        let done = if commits {
            prepared.commit()
        } else {
            prepared.rollback()
        };
        fixture.engine.wait_durable(done.unwrap().position).unwrap();
        let (a, gone) = if commits {
            (Some("new"), None)
        } else {
            (Some("old"), Some("old"))
        };
        assert_eq!(fixture.get("a").as_deref(), a);
        assert_eq!(fixture.get("gone").as_deref(), gone);
        assert_eq!(fixture.get("blind").is_some(), commits);
        let mut other = fixture.begin();
        for key in ["a", "gone", "shared"] {
            assert!(
                fixture.try_lock(&mut *other, key, LockMode::Exclusive),
                "{key}"
            );
        }
        assert!(matches!(prepared.commit(), Err(Error::Ended)));
        assert!(matches!(prepared.rollback(), Err(Error::Ended)));
    }
}

/// A write that is compared with the snapshot is compared when the transaction is prepared, and its
/// key stays locked; a refused preparation leaves nothing.
pub fn guarantee_15_preparing_checks_what_a_commit_would(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    if !is_supported(&fixture) {
        return;
    }
    fixture.set("a", "1");
    let compared = |fixture: &Fixture| {
        let mut txn = fixture.begin();
        txn.pin().unwrap();
        assert!(fixture.at_snapshot(&mut *txn, "a").is_some());
        txn.put(fixture.key("a"), b"mine", Check::FirstCommitter)
            .unwrap();
        txn
    };
    let txn = compared(&fixture);
    fixture.set("a", "2");
    let refused = txn.prepare(&name_of(&fixture, "x"), b"").err();
    assert!(matches!(refused, Some(Error::Conflict)), "{refused:?}");
    let mut prepared = prepare(&fixture, compared(&fixture), "x");
    assert!(!fixture.try_lock(&mut *fixture.begin(), "a", LockMode::Update));
    fixture
        .engine
        .wait_durable(prepared.commit().unwrap().position)
        .unwrap();
    assert_eq!(fixture.get("a").as_deref(), Some("mine"));
}

/// A name is in use until the end of its transaction.
pub fn guarantee_15_names_are_unique(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    if !is_supported(&fixture) {
        return;
    }
    let mut first = prepare(&fixture, writer(&fixture, "a", Some("1")), "x");
    let mut longer = prepare(&fixture, writer(&fixture, "b", Some("1")), "x-");
    let refused = writer(&fixture, "c", Some("1")).prepare(&name_of(&fixture, "x"), b"");
    assert!(matches!(refused.err(), Some(Error::LockBusy)));
    assert!(fixture.try_lock(&mut *fixture.begin(), "c", LockMode::Exclusive));
    longer.rollback().unwrap();
    first.rollback().unwrap();
    let mut again = prepare(&fixture, writer(&fixture, "a", Some("2")), "x");
    fixture
        .engine
        .wait_durable(again.commit().unwrap().position)
        .unwrap();
    assert_eq!(fixture.get("a").as_deref(), Some("2"));
    assert_eq!(fixture.get("b"), None);
    let long = vec![b'n'; crate::MAX_PREPARED_NAME + 1];
    let refused = writer(&fixture, "a", Some("1")).prepare(&long, b"");
    assert!(matches!(refused.err(), Some(Error::TooLarge { .. })));
}

/// Scans the keys below "m" with validation, then writes `result`.
fn reader(fixture: &Fixture, result: &str) -> Box<dyn Txn> {
    let mut txn = fixture.begin();
    let range = ScanRange {
        space: fixture.space,
        start: b"",
        end: Some(b"m"),
        reverse: false,
    };
    let read = Read {
        validate: true,
        ..Read::SNAPSHOT
    };
    scan_all(&mut *txn, read, range, 10);
    txn.put(fixture.key(result), b"1", Check::Blind).unwrap();
    txn
}

/// Keys and ranges that a prepared transaction validated do not change before its end: the commit that would
/// change it is refused.
pub fn capability_prepared_transactions_keep_validated_ranges(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    if !is_supported(&fixture) || !fixture.engine.capabilities().range_validation {
        return;
    }
    fixture.set("b", "1");
    let mut prepared = prepare(&fixture, reader(&fixture, "z"), "x");
    let insert = |key: &str| {
        let done = writer(&fixture, key, Some("1")).commit();
        done.map(|done| fixture.engine.wait_durable(done.position).unwrap())
    };
    assert!(matches!(insert("c"), Err(Error::Conflict)));
    insert("n").unwrap();
    // Nor is a transaction prepared that would have to change it.
    let refused = writer(&fixture, "c", Some("1")).prepare(&name_of(&fixture, "y"), b"");
    assert!(matches!(refused.err(), Some(Error::Conflict)));
    fixture
        .engine
        .wait_durable(prepared.commit().unwrap().position)
        .unwrap();
    insert("c").unwrap();
    // The other way round: the later one has read what the first will change.
    let mut first = prepare(&fixture, writer(&fixture, "d", Some("1")), "x");
    let refused = reader(&fixture, "z").prepare(&name_of(&fixture, "y"), b"");
    assert!(matches!(refused.err(), Some(Error::Conflict)));
    first.rollback().unwrap();
    let mut second = prepare(&fixture, reader(&fixture, "z"), "y");
    second.rollback().unwrap();
    insert("e").unwrap();
}

/// Large write sets are stored and applied whole.
pub fn guarantee_15_large_transactions_are_whole(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    if !is_supported(&fixture) {
        return;
    }
    let mut txn = fixture.begin();
    let value = vec![7; 30_000];
    for n in 0..100 {
        txn.put(fixture.key(&format!("k{n:03}")), &value, Check::Blind)
            .unwrap();
    }
    let mut prepared = prepare(&fixture, txn, "x");
    assert_eq!(fixture.get("k000"), None);
    fixture
        .engine
        .wait_durable(prepared.commit().unwrap().position)
        .unwrap();
    for n in [0, 50, 99] {
        assert_eq!(
            fixture.get(&format!("k{n:03}")).map(|v| v.len()),
            Some(30_000)
        );
    }
}

/// After a restart the engine returns what was prepared, with its locks and validated ranges. For
/// engines whose commits survive restarts; run beside [`super::restart`].
pub fn guarantee_15_prepared_transactions_survive(open: EngineFactory<'_>) {
    let space = {
        let fixture = Fixture::new(open);
        fixture.set("p", "old");
        fixture.set("r", "old");
        for (key, name) in [("p", "commit"), ("r", "rollback"), ("d", "done")] {
            let mut txn = writer(&fixture, key, Some("new"));
            lock_one(
                &mut *txn,
                fixture.key(&format!("{key}-share")),
                LockMode::Share,
            )
            .unwrap();
            txn.put(fixture.key(&format!("{key}-blind")), b"new", Check::Blind)
                .unwrap();
            let mut prepared = prepare(&fixture, txn, name);
            if name == "done" {
                let done = prepared.commit().unwrap();
                fixture.engine.wait_durable(done.position).unwrap();
            }
        }
        if fixture.engine.capabilities().range_validation {
            drop(prepare(&fixture, reader(&fixture, "z"), "reader"));
        }
        fixture.engine.shutdown().unwrap();
        fixture.space
    };
    // A second restart finds the same.
    for last in [false, true] {
        let fixture = Fixture {
            engine: open(),
            space,
        };
        let restored = fixture.engine.take_restored().unwrap();
        assert!(fixture.engine.take_restored().unwrap().is_empty());
        let expected = 2 + usize::from(fixture.engine.capabilities().range_validation);
        assert_eq!(restored.len(), expected);
        for key in ["p", "r", "p-share"] {
            assert!(
                !fixture.try_lock(&mut *fixture.begin(), key, LockMode::Exclusive),
                "{key}"
            );
        }
        assert!(fixture.try_lock(&mut *fixture.begin(), "d", LockMode::Exclusive));
        assert_eq!(fixture.get("p").as_deref(), Some("old"));
        if last {
            end_restored(&fixture, restored);
        }
        fixture.engine.shutdown().unwrap();
    }
    let fixture = Fixture {
        engine: open(),
        space,
    };
    assert!(fixture.engine.take_restored().unwrap().is_empty());
    for (key, value) in [
        ("p", Some("new")),
        ("p-blind", Some("new")),
        ("r", Some("old")),
        ("r-blind", None),
        ("d", Some("new")),
        ("d-blind", Some("new")),
    ] {
        assert_eq!(fixture.get(key).as_deref(), value, "{key}");
    }
    fixture.engine.shutdown().unwrap();
}

fn end_restored(fixture: &Fixture, restored: Vec<Box<dyn PreparedTxn>>) {
    let engine = Arc::clone(&fixture.engine);
    for mut prepared in restored {
        assert_eq!(prepared.note(), b"note");
        let done = if prepared.name().starts_with(b"reader") {
            let refused = writer(fixture, "c", Some("1")).commit();
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
            fixture.try_lock(&mut *fixture.begin(), key, LockMode::Exclusive),
            "{key}"
        );
    }
    fixture.set("c", "2");
}
