//! Guarantee 14: snapshot refresh.

use super::{EngineFactory, Fixture, dump};
use crate::{CommitPosition, LockMode, Read, ScanRange, StatementMark, Txn};
use std::ops::ControlFlow;

/// Begins a transaction with a pinned snapshot and tracked reads.
fn begin_tracking(fixture: &Fixture) -> Box<dyn Txn> {
    let mut txn = fixture.begin();
    txn.track_reads();
    txn.pin().unwrap();
    txn
}

/// After the refresh, the snapshot is one later state.
pub fn guarantee_14_an_advanced_snapshot_is_a_later_state(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "1");
    fixture.set("b", "1");
    let mut txn = begin_tracking(&fixture);
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
    fixture.set("b", "2");
    fixture.set("c", "2");
    let moved = txn.advance().unwrap();
    let expected = if moved { Some("2") } else { Some("1") };
    assert!(txn.pinned());
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
    assert_eq!(fixture.at_snapshot(&mut *txn, "b").as_deref(), expected);
    assert_eq!(fixture.at_snapshot(&mut *txn, "c").is_some(), moved);
    let newer = super::lock_one(&mut *txn, fixture.key("b"), LockMode::Update).unwrap();
    assert_eq!(newer.newer, !moved);
    // The refreshed snapshot is pinned.
    fixture.set("d", "3");
    txn.refresh().unwrap();
    assert_eq!(fixture.at_snapshot(&mut *txn, "d"), None);
}

/// Changes of a key, of an absent key, and of ranges by an insertion and a deletion.
pub fn guarantee_14_advance_is_refused_after_a_change_of_what_was_read(new: EngineFactory<'_>) {
    let changes: [fn(&Fixture) -> CommitPosition; 4] = [
        |fixture| fixture.set("key", "2"),
        |fixture| fixture.set("absent", "2"),
        |fixture| fixture.set("r2", "2"),
        |fixture| fixture.delete("r1"),
    ];
    for change in changes {
        let fixture = Fixture::new(new);
        fixture.set("key", "1");
        fixture.set("r1", "1");
        let mut txn = begin_tracking(&fixture);
        fixture.at_snapshot(&mut *txn, "key");
        fixture.at_snapshot(&mut *txn, "absent");
        let range = ScanRange {
            space: fixture.space,
            start: b"r",
            end: Some(b"s"),
            reverse: false,
        };
        txn.scan(Read::SNAPSHOT, &[range], 10, &mut |_, _, _| {
            ControlFlow::Continue(())
        })
        .unwrap();
        fixture.set("other", "2");
        change(&fixture);
        assert!(!txn.advance().unwrap());
        let before = [("key", "1"), ("r1", "1")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(dump(&mut *txn, Read::SNAPSHOT, fixture.space), before);
    }
}

/// With untracked reads, or reads of a key whose lock was released, the refresh is refused.
pub fn guarantee_14_advance_is_refused_after_untracked_reads(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "1");
    fixture.set("b", "1");
    let mut late = fixture.begin();
    late.pin().unwrap();
    late.track_reads();
    assert!(!late.advance().unwrap());
    let mut unpinned = fixture.begin();
    unpinned.track_reads();
    fixture.at_snapshot(&mut *unpinned, "a");
    assert!(!unpinned.advance().unwrap());
    // The key was locked and unlocked, so it may change, and it was read.
    let mut txn = begin_tracking(&fixture);
    let mark = txn.mark();
    super::lock_one(&mut *txn, fixture.key("a"), LockMode::Update).unwrap();
    txn.unlock(&[fixture.key("a")], mark);
    assert_eq!(mark, StatementMark(0));
    let mut other = fixture.begin();
    let request = crate::LockRequest {
        key: fixture.key("a"),
        mode: LockMode::Update,
    };
    let mut free = false;
    let outcome = other.lock(&[request], crate::Wait::NoWait, &mut |_, l| {
        free = l.granted
    });
    if outcome.is_ok() && free {
        other
            .put(fixture.key("a"), b"2", crate::Check::Locked)
            .unwrap();
        fixture.commit(other);
        assert!(!txn.advance().unwrap());
    }
}
