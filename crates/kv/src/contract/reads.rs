//! Guarantees 2 to 4: what reads see.

use super::{EngineFactory, Fixture, dump, read};
use crate::{Check, Key, LockMode, Read, ReadMode};
use std::sync::atomic::{AtomicBool, Ordering};

/// A batch visits every key once, with its index, including repeated keys.
pub fn guarantee_2_get_shows_each_key_once(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "1");
    fixture.set("c", "3");
    let mut txn = fixture.begin();
    let keys = [
        fixture.key("c"),
        fixture.key("b"),
        fixture.key("a"),
        fixture.key("c"),
    ];
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
    txn.get(Read::SNAPSHOT, &[], &mut |_, _| {
        panic!("no key was requested")
    })
    .unwrap();
}

/// REPEATABLE READ: the snapshot stays, whatever others commit.
pub fn guarantee_2_a_pinned_snapshot_does_not_move(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "old");
    fixture.set("gone", "here");
    let mut txn = fixture.begin();
    assert!(!txn.pinned());
    txn.pin().unwrap();
    assert!(txn.pinned());
    fixture.set("a", "new");
    fixture.set("b", "new");
    fixture.delete("gone");
    txn.refresh().unwrap();
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("old"));
    assert_eq!(fixture.at_snapshot(&mut *txn, "b"), None);
    assert_eq!(
        fixture.at_snapshot(&mut *txn, "gone").as_deref(),
        Some("here")
    );
    assert_eq!(
        dump(&mut *txn, Read::SNAPSHOT, fixture.space),
        [
            ("a".to_owned(), "old".to_owned()),
            ("gone".to_owned(), "here".to_owned())
        ]
    );
}

/// READ COMMITTED: each refresh sees earlier commits, and the snapshot does not change in between.
pub fn guarantee_2_refresh_moves_an_unpinned_snapshot(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "1");
    let mut txn = fixture.begin();
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
    fixture.set("a", "2");
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
    txn.refresh().unwrap();
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("2"));
    txn.pin().unwrap();
    fixture.set("a", "3");
    txn.refresh().unwrap();
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("2"));
}

/// Neither begin nor locking takes a snapshot.
pub fn guarantee_2_no_snapshot_is_taken_before_it_is_needed(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let mut txn = fixture.begin();
    super::lock_one(&mut *txn, fixture.key("other"), LockMode::Exclusive).unwrap();
    txn.put(fixture.key("other"), b"x", Check::Locked).unwrap();
    fixture.set("a", "1");
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("1"));
}

/// Two keys that always change together are always seen equal.
pub fn guarantee_2_a_snapshot_is_one_committed_state(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "0");
    fixture.set("b", "0");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..200 {
                let mut txn = fixture.begin();
                let value = round.to_string();
                for key in ["a", "b"] {
                    super::lock_one(&mut *txn, fixture.key(key), LockMode::Update).unwrap();
                    txn.put(fixture.key(key), value.as_bytes(), Check::Locked)
                        .unwrap();
                }
                fixture.commit(txn);
            }
            stop.store(true, Ordering::Release);
        });
        while !stop.load(Ordering::Acquire) {
            let mut txn = fixture.begin();
            let first = fixture.at_snapshot(&mut *txn, "a");
            let mut both = Vec::new();
            txn.get(
                Read::SNAPSHOT,
                &[fixture.key("b"), fixture.key("a")],
                &mut |_, value| both.push(value.map(super::text)),
            )
            .unwrap();
            assert_eq!(both, [first.clone(), first.clone()]);
            let all = dump(&mut *txn, Read::SNAPSHOT, fixture.space);
            assert!(all.iter().all(|(_, v)| Some(v) == first.as_ref()));
        }
    });
}

/// A deletion is a committed state like any other.
pub fn guarantee_2_deleted_and_absent_keys_read_as_none(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "1");
    fixture.set("empty", "");
    fixture.delete("a");
    fixture.delete("never");
    assert_eq!(fixture.get("a"), None);
    assert_eq!(fixture.get("never"), None);
    assert_eq!(fixture.get("empty").as_deref(), Some(""));
    fixture.set("a", "2");
    assert_eq!(fixture.get("a").as_deref(), Some("2"));
    let mut txn = fixture.begin();
    assert_eq!(
        read(&mut *txn, Read::SNAPSHOT, Key::new(fixture.space, b"")),
        None
    );
}

/// Current reads see newer commits even if the snapshot is pinned.
pub fn guarantee_3_current_reads_see_the_newest_commit(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "old");
    let mut txn = fixture.begin();
    txn.pin().unwrap();
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("old"));
    fixture.set("a", "new");
    fixture.set("b", "new");
    assert_eq!(fixture.current(&mut *txn, "a").as_deref(), Some("new"));
    assert_eq!(dump(&mut *txn, Read::CURRENT, fixture.space).len(), 2);
    assert_eq!(fixture.at_snapshot(&mut *txn, "a").as_deref(), Some("old"));
}

/// No dirty reads, in either read mode.
pub fn guarantee_3_no_transaction_sees_uncommitted_writes(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("a", "old");
    let mut writer = fixture.begin();
    for key in ["a", "b"] {
        super::lock_one(&mut *writer, fixture.key(key), LockMode::Exclusive).unwrap();
        writer.put(fixture.key(key), b"new", Check::Locked).unwrap();
    }
    let mut reader = fixture.begin();
    for how in [Read::SNAPSHOT, Read::CURRENT] {
        assert_eq!(
            read(&mut *reader, how, fixture.key("a")).as_deref(),
            Some("old")
        );
        assert_eq!(read(&mut *reader, how, fixture.key("b")), None);
        assert_eq!(dump(&mut *reader, how, fixture.space).len(), 1);
    }
    assert_eq!(
        fixture.at_snapshot(&mut *writer, "b").as_deref(),
        Some("new")
    );
    writer.rollback();
    assert_eq!(fixture.current(&mut *reader, "a").as_deref(), Some("old"));
}

/// Every transaction that begins after a commit was reported sees it.
pub fn guarantee_4_begin_sees_what_was_reported(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let (send, receive) = std::sync::mpsc::sync_channel::<u32>(0);
    std::thread::scope(|scope| {
        let fixture = &fixture;
        scope.spawn(move || {
            for round in 0..100 {
                fixture.set("a", &round.to_string());
                send.send(round).unwrap();
            }
        });
        for reported in receive {
            let seen: u32 = fixture.get("a").unwrap().parse().unwrap();
            assert!(seen >= reported, "reported {reported}, saw {seen}");
        }
    });
}

/// A reply with results of current reads may be sent once `seen` is durable, and then every new
/// transaction sees those results.
pub fn guarantee_4_seen_covers_what_current_reads_showed(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    for round in 0..20 {
        let value = round.to_string();
        let mut writer = fixture.begin();
        super::lock_one(&mut *writer, fixture.key("a"), LockMode::Exclusive).unwrap();
        writer
            .put(fixture.key("a"), value.as_bytes(), Check::Locked)
            .unwrap();
        let position = writer.commit().unwrap().position;
        let mut reader = fixture.begin();
        assert_eq!(fixture.current(&mut *reader, "a"), Some(value.clone()));
        assert!(reader.seen() >= position || fixture.engine.durable_position() >= position);
        let done = reader.commit().unwrap().position;
        fixture.engine.wait_durable(done).unwrap();
        assert!(fixture.engine.durable_position() >= position);
        assert_eq!(fixture.get("a"), Some(value));
    }
}
