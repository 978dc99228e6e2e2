//! Guarantee 14: snapshot refresh.

use super::{Fixture, New, dump};
use crate::{CommitPosition, LockMode, Read, ScanRange, StatementMark, Txn};
use std::ops::ControlFlow;

/// Begins a transaction with a pinned snapshot and tracked reads.
fn begin_tracking(bed: &Fixture) -> Box<dyn Txn> {
    let mut txn = bed.begin();
    txn.track_reads();
    txn.pin().unwrap();
    txn
}

/// After the refresh, the snapshot is one later state.
pub fn guarantee_14_an_advanced_snapshot_is_a_later_state(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "1");
    bed.set("b", "1");
    let mut txn = begin_tracking(&bed);
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
    bed.set("b", "2");
    bed.set("c", "2");
    let moved = txn.advance().unwrap();
    let expected = if moved { Some("2") } else { Some("1") };
    assert!(txn.pinned());
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
    assert_eq!(bed.at_snapshot(&mut *txn, "b").as_deref(), expected);
    assert_eq!(bed.at_snapshot(&mut *txn, "c").is_some(), moved);
    let newer = super::lock_one(&mut *txn, bed.key("b"), LockMode::Update).unwrap();
    assert_eq!(newer.newer, !moved);
    // The refreshed snapshot is pinned.
    bed.set("d", "3");
    txn.refresh().unwrap();
    assert_eq!(bed.at_snapshot(&mut *txn, "d"), None);
}

/// Changes of a key, of an absent key, and of ranges by an insertion and a deletion.
pub fn guarantee_14_a_snapshot_stays_where_what_was_read_has_changed(new: New<'_>) {
    let changes: [fn(&Fixture) -> CommitPosition; 4] = [
        |bed| bed.set("key", "2"),
        |bed| bed.set("absent", "2"),
        |bed| bed.set("r2", "2"),
        |bed| bed.delete("r1"),
    ];
    for change in changes {
        let bed = Fixture::new(new);
        bed.set("key", "1");
        bed.set("r1", "1");
        let mut txn = begin_tracking(&bed);
        bed.at_snapshot(&mut *txn, "key");
        bed.at_snapshot(&mut *txn, "absent");
        let range = ScanRange {
            space: bed.space,
            start: b"r",
            end: Some(b"s"),
            reverse: false,
        };
        txn.scan(Read::SNAPSHOT, &[range], 10, &mut |_, _, _| {
            ControlFlow::Continue(())
        })
        .unwrap();
        bed.set("other", "2");
        change(&bed);
        assert!(!txn.advance().unwrap());
        let before = [("key", "1"), ("r1", "1")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(dump(&mut *txn, Read::SNAPSHOT, bed.space), before);
    }
}

/// With untracked reads, or reads of a key whose lock was released, the refresh is refused.
pub fn guarantee_14_a_snapshot_stays_where_not_all_is_known(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "1");
    bed.set("b", "1");
    let mut late = bed.begin();
    late.pin().unwrap();
    late.track_reads();
    assert!(!late.advance().unwrap());
    let mut unpinned = bed.begin();
    unpinned.track_reads();
    bed.at_snapshot(&mut *unpinned, "a");
    assert!(!unpinned.advance().unwrap());
    // The key was locked and unlocked, so it may change, and it was read.
    let mut txn = begin_tracking(&bed);
    let mark = txn.mark();
    super::lock_one(&mut *txn, bed.key("a"), LockMode::Update).unwrap();
    txn.unlock(&[bed.key("a")], mark);
    assert_eq!(mark, StatementMark(0));
    let mut other = bed.begin();
    let request = crate::LockRequest {
        key: bed.key("a"),
        mode: LockMode::Update,
    };
    let mut free = false;
    let outcome = other.lock(&[request], crate::Wait::NoWait, &mut |_, l| {
        free = l.granted
    });
    if outcome.is_ok() && free {
        other.put(bed.key("a"), b"2", crate::Check::Locked).unwrap();
        bed.commit(other);
        assert!(!txn.advance().unwrap());
    }
}
