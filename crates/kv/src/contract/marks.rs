//! Guarantee 8: statement marks and savepoints.

use super::{EngineFactory, Fixture, lock_one, read, scan_all, text};
use crate::{Check, LockMode, Read, ScanRange, StatementMark};

fn at(mark: StatementMark) -> Read {
    Read {
        mark,
        ..Read::SNAPSHOT
    }
}

/// The same key before, between and after two writes.
pub fn guarantee_8_reads_see_own_writes_below_the_mark(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "0");
    let mut txn = fixture.begin();
    let before = txn.mark();
    txn.put(fixture.key("a"), b"1", Check::FirstCommitter)
        .unwrap();
    let between = txn.mark();
    txn.delete(fixture.key("a"), Check::FirstCommitter).unwrap();
    let after = txn.mark();
    assert!(before < between && between < after && after < StatementMark::ALL);
    let key = fixture.key("a");
    assert_eq!(read(&mut *txn, at(before), key).as_deref(), Some("0"));
    assert_eq!(read(&mut *txn, at(between), key).as_deref(), Some("1"));
    assert_eq!(read(&mut *txn, at(after), key), None);
    assert_eq!(read(&mut *txn, at(StatementMark::ALL), key), None);
    let current = Read {
        mark: between,
        ..Read::CURRENT
    };
    assert_eq!(read(&mut *txn, current, key).as_deref(), Some("1"));
}

/// A scan that writes into its own range ends.
pub fn guarantee_8_scans_see_own_writes_below_the_mark(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    for key in ["b", "d"] {
        fixture.set(key, key);
    }
    let mut txn = fixture.begin();
    txn.put(fixture.key("c"), b"own", Check::Blind).unwrap();
    txn.delete(fixture.key("b"), Check::Blind).unwrap();
    let mark = txn.mark();
    txn.put(fixture.key("e"), b"later", Check::Blind).unwrap();
    txn.put(fixture.key("b"), b"later", Check::Blind).unwrap();
    txn.delete(fixture.key("c"), Check::Blind).unwrap();
    txn.put(fixture.key("d"), b"later", Check::Blind).unwrap();
    for reverse in [false, true] {
        let range = ScanRange {
            space: fixture.space,
            start: b"",
            end: None,
            reverse,
        };
        let mut of = |mark| {
            let mut all: Vec<String> = scan_all(&mut *txn, at(mark), range, 2)
                .iter()
                .map(|(k, v)| format!("{}={}", text(k), text(v)))
                .collect();
            if reverse {
                all.reverse();
            }
            all.join(" ")
        };
        assert_eq!(of(mark), "c=own d=d");
        assert_eq!(of(StatementMark(0)), "b=b d=d");
        assert_eq!(of(StatementMark::ALL), "b=later d=later e=later");
    }
}

/// Savepoints: the earlier own write is visible again, the later ones are gone.
pub fn guarantee_8_rollback_to_takes_back_exactly_the_later_writes(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "0");
    let mut txn = fixture.begin();
    let start = txn.mark();
    txn.put(fixture.key("a"), b"1", Check::FirstCommitter)
        .unwrap();
    txn.put(fixture.key("b"), b"1", Check::FirstCommitter)
        .unwrap();
    let savepoint = txn.mark();
    txn.put(fixture.key("a"), b"2", Check::FirstCommitter)
        .unwrap();
    txn.delete(fixture.key("b"), Check::FirstCommitter).unwrap();
    txn.put(fixture.key("c"), b"2", Check::FirstCommitter)
        .unwrap();
    txn.rollback_to(savepoint);
    assert_eq!(txn.mark(), savepoint);
    assert!(txn.has_writes());
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
    assert_eq!(fixture.at_snapshot(&mut *txn, "b").as_deref(), Some("1"));
    assert_eq!(fixture.at_snapshot(&mut *txn, "c"), None);
    txn.put(fixture.key("d"), b"3", Check::FirstCommitter)
        .unwrap();
    fixture.commit(txn);
    let all = ["a", "b", "c", "d"].map(|key| fixture.get(key));
    assert_eq!(
        all,
        [
            Some("1".to_owned()),
            Some("1".to_owned()),
            None,
            Some("3".to_owned())
        ]
    );
    let mut txn = fixture.begin();
    txn.put(fixture.key("a"), b"9", Check::FirstCommitter)
        .unwrap();
    txn.rollback_to(start);
    assert!(!txn.has_writes());
    fixture.commit(txn);
    assert_eq!(fixture.get("a").as_deref(), Some("1"));
}

/// MySQL's savepoints keep locks, too.
pub fn guarantee_8_rollback_to_keeps_locks(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let mut txn = fixture.begin();
    let mark = txn.mark();
    lock_one(&mut *txn, fixture.key("a"), LockMode::Exclusive).unwrap();
    txn.put(fixture.key("a"), b"1", Check::Locked).unwrap();
    txn.rollback_to(mark);
    let mut other = fixture.begin();
    assert!(!fixture.try_lock(&mut *other, "a", LockMode::Exclusive));
}
