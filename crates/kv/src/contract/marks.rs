//! Guarantee 8: statement marks and savepoints.

use super::{Fixture, New, lock_one, read, scan_all, text};
use crate::{Check, LockMode, Read, ScanRange, StatementMark};

fn at(mark: StatementMark) -> Read {
    Read {
        mark,
        ..Read::SNAPSHOT
    }
}

/// The same key before, between and after two writes.
pub fn guarantee_8_reads_see_own_writes_below_the_mark(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "0");
    let mut txn = bed.begin();
    let before = txn.mark();
    txn.put(bed.key("a"), b"1", Check::FirstCommitter).unwrap();
    let between = txn.mark();
    txn.delete(bed.key("a"), Check::FirstCommitter).unwrap();
    let after = txn.mark();
    assert!(before < between && between < after && after < StatementMark::ALL);
    let key = bed.key("a");
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
pub fn guarantee_8_scans_see_own_writes_below_the_mark(new: New<'_>) {
    let bed = Fixture::new(new);
    for key in ["b", "d"] {
        bed.set(key, key);
    }
    let mut txn = bed.begin();
    txn.put(bed.key("c"), b"own", Check::Blind).unwrap();
    txn.delete(bed.key("b"), Check::Blind).unwrap();
    let mark = txn.mark();
    txn.put(bed.key("e"), b"later", Check::Blind).unwrap();
    txn.put(bed.key("b"), b"later", Check::Blind).unwrap();
    txn.delete(bed.key("c"), Check::Blind).unwrap();
    txn.put(bed.key("d"), b"later", Check::Blind).unwrap();
    for reverse in [false, true] {
        let range = ScanRange {
            space: bed.space,
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
pub fn guarantee_8_rollback_to_takes_back_exactly_the_later_writes(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "0");
    let mut txn = bed.begin();
    let start = txn.mark();
    txn.put(bed.key("a"), b"1", Check::FirstCommitter).unwrap();
    txn.put(bed.key("b"), b"1", Check::FirstCommitter).unwrap();
    let savepoint = txn.mark();
    txn.put(bed.key("a"), b"2", Check::FirstCommitter).unwrap();
    txn.delete(bed.key("b"), Check::FirstCommitter).unwrap();
    txn.put(bed.key("c"), b"2", Check::FirstCommitter).unwrap();
    txn.rollback_to(savepoint);
    assert_eq!(txn.mark(), savepoint);
    assert!(txn.has_writes());
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
    assert_eq!(bed.at_snapshot(&mut *txn, "b").as_deref(), Some("1"));
    assert_eq!(bed.at_snapshot(&mut *txn, "c"), None);
    txn.put(bed.key("d"), b"3", Check::FirstCommitter).unwrap();
    bed.commit(txn);
    let all = ["a", "b", "c", "d"].map(|key| bed.get(key));
    assert_eq!(
        all,
        [
            Some("1".to_owned()),
            Some("1".to_owned()),
            None,
            Some("3".to_owned())
        ]
    );
    let mut txn = bed.begin();
    txn.put(bed.key("a"), b"9", Check::FirstCommitter).unwrap();
    txn.rollback_to(start);
    assert!(!txn.has_writes());
    bed.commit(txn);
    assert_eq!(bed.get("a").as_deref(), Some("1"));
}

/// MySQL's savepoints keep locks, too.
pub fn guarantee_8_rollback_to_keeps_locks(new: New<'_>) {
    let bed = Fixture::new(new);
    let mut txn = bed.begin();
    let mark = txn.mark();
    lock_one(&mut *txn, bed.key("a"), LockMode::Exclusive).unwrap();
    txn.put(bed.key("a"), b"1", Check::Locked).unwrap();
    txn.rollback_to(mark);
    let mut other = bed.begin();
    assert!(!bed.try_lock(&mut *other, "a", LockMode::Exclusive));
}
