//! Guarantees 2 to 4: what reads see.

use super::{Fixture, New, dump, read};
use crate::{Check, Key, LockMode, Read, ReadMode};
use std::sync::atomic::{AtomicBool, Ordering};

/// A batch visits every key once, with its index, including repeated keys.
pub fn guarantee_2_get_shows_each_key_once(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "1");
    bed.set("c", "3");
    let mut txn = bed.begin();
    let keys = [bed.key("c"), bed.key("b"), bed.key("a"), bed.key("c")];
    for mode in [ReadMode::Snapshot, ReadMode::Current] {
        let how = Read {
            mode,
            ..Read::SNAPSHOT
        };
        let mut shown: Vec<Option<Option<Vec<u8>>>> = vec![None; keys.len()];
        txn.get(how, &keys, &mut |index, value| {
            assert!(shown[index].is_none(), "shown twice");
            shown[index] = Some(value.map(<[u8]>::to_vec));
        })
        .unwrap();
        assert_eq!(
            shown,
            [
                Some(Some(b"3".to_vec())),
                Some(None),
                Some(Some(b"1".to_vec())),
                Some(Some(b"3".to_vec()))
            ]
        );
    }
    txn.get(Read::SNAPSHOT, &[], &mut |_, _| panic!("nothing was asked"))
        .unwrap();
}

/// REPEATABLE READ: the snapshot stays, whatever others commit.
pub fn guarantee_2_a_pinned_snapshot_does_not_move(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "old");
    bed.set("gone", "here");
    let mut txn = bed.begin();
    assert!(!txn.pinned());
    txn.pin().unwrap();
    assert!(txn.pinned());
    bed.set("a", "new");
    bed.set("b", "new");
    bed.delete("gone");
    txn.refresh().unwrap();
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("old"));
    assert_eq!(bed.at_snapshot(&mut *txn, "b"), None);
    assert_eq!(bed.at_snapshot(&mut *txn, "gone").as_deref(), Some("here"));
    assert_eq!(
        dump(&mut *txn, Read::SNAPSHOT, bed.space),
        [
            ("a".to_owned(), "old".to_owned()),
            ("gone".to_owned(), "here".to_owned())
        ]
    );
}

/// READ COMMITTED: each refresh sees earlier commits, and the snapshot does not change in between.
pub fn guarantee_2_refresh_moves_an_unpinned_snapshot(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "1");
    let mut txn = bed.begin();
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
    bed.set("a", "2");
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
    txn.refresh().unwrap();
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("2"));
    txn.pin().unwrap();
    bed.set("a", "3");
    txn.refresh().unwrap();
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("2"));
}

/// Neither begin nor locking takes a snapshot.
pub fn guarantee_2_no_snapshot_is_taken_before_it_is_needed(new: New<'_>) {
    let bed = Fixture::new(new);
    let mut txn = bed.begin();
    super::lock_one(&mut *txn, bed.key("other"), LockMode::Exclusive).unwrap();
    txn.put(bed.key("other"), b"x", Check::Locked).unwrap();
    bed.set("a", "1");
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
}

/// Two keys that always change together are always seen equal.
pub fn guarantee_2_a_snapshot_is_one_committed_state(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "0");
    bed.set("b", "0");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..200 {
                let mut txn = bed.begin();
                let value = round.to_string();
                for key in ["a", "b"] {
                    super::lock_one(&mut *txn, bed.key(key), LockMode::Update).unwrap();
                    txn.put(bed.key(key), value.as_bytes(), Check::Locked)
                        .unwrap();
                }
                bed.commit(txn);
            }
            stop.store(true, Ordering::Release);
        });
        while !stop.load(Ordering::Acquire) {
            let mut txn = bed.begin();
            let first = bed.at_snapshot(&mut *txn, "a");
            let mut both = Vec::new();
            txn.get(
                Read::SNAPSHOT,
                &[bed.key("b"), bed.key("a")],
                &mut |_, value| both.push(value.map(super::text)),
            )
            .unwrap();
            assert_eq!(both, [first.clone(), first.clone()]);
            let all = dump(&mut *txn, Read::SNAPSHOT, bed.space);
            assert!(all.iter().all(|(_, v)| Some(v) == first.as_ref()));
        }
    });
}

/// A deletion is a committed state like any other.
pub fn guarantee_2_deleted_and_absent_keys_read_as_none(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "1");
    bed.set("empty", "");
    bed.delete("a");
    bed.delete("never");
    assert_eq!(bed.get("a"), None);
    assert_eq!(bed.get("never"), None);
    assert_eq!(bed.get("empty").as_deref(), Some(""));
    bed.set("a", "2");
    assert_eq!(bed.get("a").as_deref(), Some("2"));
    let mut txn = bed.begin();
    assert_eq!(
        read(&mut *txn, Read::SNAPSHOT, Key::new(bed.space, b"")),
        None
    );
}

/// Current reads see newer commits even if the snapshot is pinned.
pub fn guarantee_3_current_reads_see_the_newest_commit(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "old");
    let mut txn = bed.begin();
    txn.pin().unwrap();
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("old"));
    bed.set("a", "new");
    bed.set("b", "new");
    assert_eq!(bed.current(&mut *txn, "a").as_deref(), Some("new"));
    assert_eq!(dump(&mut *txn, Read::CURRENT, bed.space).len(), 2);
    assert_eq!(bed.at_snapshot(&mut *txn, "a").as_deref(), Some("old"));
}

/// No dirty reads, in either read mode.
pub fn guarantee_3_no_transaction_sees_uncommitted_writes(new: New<'_>) {
    let bed = Fixture::new(new);
    bed.set("a", "old");
    let mut writer = bed.begin();
    for key in ["a", "b"] {
        super::lock_one(&mut *writer, bed.key(key), LockMode::Exclusive).unwrap();
        writer.put(bed.key(key), b"new", Check::Locked).unwrap();
    }
    let mut reader = bed.begin();
    for how in [Read::SNAPSHOT, Read::CURRENT] {
        assert_eq!(
            read(&mut *reader, how, bed.key("a")).as_deref(),
            Some("old")
        );
        assert_eq!(read(&mut *reader, how, bed.key("b")), None);
        assert_eq!(dump(&mut *reader, how, bed.space).len(), 1);
    }
    assert_eq!(bed.at_snapshot(&mut *writer, "b").as_deref(), Some("new"));
    writer.rollback();
    assert_eq!(bed.current(&mut *reader, "a").as_deref(), Some("old"));
}

/// Every transaction that begins after a commit was reported sees it.
pub fn guarantee_4_begin_sees_what_was_reported(new: New<'_>) {
    let bed = Fixture::new(new);
    let (send, receive) = std::sync::mpsc::sync_channel::<u32>(0);
    std::thread::scope(|scope| {
        let bed = &bed;
        scope.spawn(move || {
            for round in 0..100 {
                bed.set("a", &round.to_string());
                send.send(round).unwrap();
            }
        });
        for told in receive {
            let seen: u32 = bed.get("a").unwrap().parse().unwrap();
            assert!(seen >= told, "told {told}, saw {seen}");
        }
    });
}

/// A reply with results of current reads may be sent once `seen` is durable, and then every new
/// transaction sees those results.
pub fn guarantee_4_seen_covers_what_current_reads_showed(new: New<'_>) {
    let bed = Fixture::new(new);
    for round in 0..20 {
        let value = round.to_string();
        let mut writer = bed.begin();
        super::lock_one(&mut *writer, bed.key("a"), LockMode::Exclusive).unwrap();
        writer
            .put(bed.key("a"), value.as_bytes(), Check::Locked)
            .unwrap();
        let position = writer.commit().unwrap().position;
        let mut reader = bed.begin();
        assert_eq!(bed.current(&mut *reader, "a"), Some(value.clone()));
        assert!(reader.seen() >= position || bed.engine.durable_position() >= position);
        let done = reader.commit().unwrap().position;
        bed.engine.wait_durable(done).unwrap();
        assert!(bed.engine.durable_position() >= position);
        assert_eq!(bed.get("a"), Some(value));
    }
}
