//! Reclamation of versions and keys that no snapshot needs; the memory limit.

use crate::common::{all, get, key, set, stat, write};
use porpoise_kv::{
    Check, Engine, Error, Key, LockMode, LockRequest, Read, Resource, SpaceSpec, Txn, Wait,
};
use porpoise_kv_mem::{KvMem, KvMemOptions};

fn live_versions(engine: &KvMem) -> u64 {
    stat(engine, "versions_created_total") - stat(engine, "versions_reclaimed_total")
}

#[test]
fn a_long_snapshot_keeps_only_the_versions_it_sees() {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    for n in 0..100 {
        set(&engine, &format!("k{n}"), "old").unwrap();
    }
    let mut long = engine.begin(Default::default()).unwrap();
    long.pin().unwrap();
    for round in 0..200 {
        for n in 0..100 {
            write(&engine, &[(&format!("k{n}"), Some(&format!("{round}")))]).unwrap();
        }
    }
    engine.reclaim();
    engine.reclaim();
    assert_eq!(
        live_versions(&engine),
        200,
        "one seen by the snapshot, one now"
    );
    let mut seen = 0;
    long.get(Read::SNAPSHOT, &[key("k7")], &mut |_, value| {
        assert_eq!(value, Some(&b"old"[..]));
        seen += 1;
    })
    .unwrap();
    assert_eq!(seen, 1);
    drop(long);
    engine.reclaim();
    assert_eq!(live_versions(&engine), 100);
    engine.verify().unwrap();
}

#[test]
fn a_restarted_transaction_keeps_no_versions() {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    set(&engine, "k", "old").unwrap();
    let mut txn = engine.begin(Default::default()).unwrap();
    let read = |txn: &mut dyn Txn| {
        let mut seen = None;
        let mut visit = |_: usize, value: Option<&[u8]>| seen = value.map(<[u8]>::to_vec);
        txn.get(Read::SNAPSHOT, &[key("k")], &mut visit).unwrap();
        seen
    };
    assert_eq!(read(&mut *txn).as_deref(), Some(&b"old"[..]));
    set(&engine, "k", "new").unwrap();
    engine.reclaim();
    assert_eq!(live_versions(&engine), 2, "the snapshot sees the old one");
    assert!(txn.restart());
    engine.reclaim();
    engine.reclaim();
    assert_eq!(live_versions(&engine), 1);
    assert_eq!(read(&mut *txn).as_deref(), Some(&b"new"[..]));
    // Neither locks nor writes are lost, nor what is left of writes that were rolled back.
    let mark = txn.mark();
    txn.put(key("k"), b"mine", Check::Blind).unwrap();
    assert!(!txn.restart());
    txn.rollback_to(mark);
    assert!(txn.restarts() && txn.restart());
    txn.commit().unwrap();
    assert_eq!(get(&engine, "k").as_deref(), Some("new"));
}

#[test]
fn deleted_keys_leave_nothing_behind() {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let empty = stat(&engine, "live_bytes");
    for n in 0..1000 {
        set(&engine, &format!("k{n}"), "value").unwrap();
    }
    for n in 0..1000 {
        write(&engine, &[(&format!("k{n}"), None)]).unwrap();
    }
    engine.reclaim();
    engine.reclaim();
    assert_eq!(stat(&engine, "keys"), 0);
    assert_eq!(stat(&engine, "live_bytes"), empty);
    engine.verify().unwrap();
}

/// Inserts and deletes of the same few keys race with the reclaimer.
#[test]
fn reviving_keys_races_with_unlinking_them() {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                for n in 0..3000 {
                    let name = format!("k{}", n % 5);
                    let mut txn = engine.begin(Default::default()).unwrap();
                    if (n + thread) % 2 == 0 {
                        txn.put(key(&name), b"v", Check::FirstCommitter).unwrap();
                    } else {
                        txn.delete(key(&name), Check::FirstCommitter).unwrap();
                    }
                    txn.commit().unwrap();
                    if n % 7 == 0 {
                        engine.reclaim();
                    }
                }
            });
        }
    });
    for n in 0..5 {
        let name = format!("k{n}");
        set(&engine, &name, "last").unwrap();
        assert_eq!(get(&engine, &name).as_deref(), Some("last"));
    }
    engine.reclaim();
    assert_eq!(all(&engine).len(), 5);
    assert_eq!(live_versions(&engine), 5);
    engine.verify().unwrap();
}

#[test]
fn at_the_memory_limit_growth_is_refused_and_deletion_makes_room() {
    let engine = KvMem::open(KvMemOptions {
        memory_limit: Some(1 << 20),
        ..KvMemOptions::default()
    })
    .unwrap();
    let value = "v".repeat(1000);
    let mut written = 0;
    let refused = loop {
        match set(&engine, &format!("k{written}"), &value) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(refused, Error::Full(Resource::Memory)),
        "{refused:?}"
    );
    assert!(written > 500 && stat(&engine, "live_bytes") <= 1 << 20);
    assert_eq!(get(&engine, "k0").as_deref(), Some(value.as_str()));
    for n in 0..100 {
        write(&engine, &[(&format!("k{n}"), None)]).unwrap();
    }
    engine.reclaim();
    engine.reclaim();
    set(&engine, "again", &value).unwrap();
    engine.verify().unwrap();
}

#[test]
fn refused_commits_leave_no_keys_behind() {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    set(&engine, "read", "0").unwrap();
    engine.reclaim();
    let before = stat(&engine, "keys");
    for n in 0..100 {
        let mut txn = engine.begin(Default::default()).unwrap();
        let read = Read {
            validate: true,
            ..Read::SNAPSHOT
        };
        txn.get(read, &[key("read")], &mut |_, _| ()).unwrap();
        let name = format!("entry{n}");
        txn.put(key(&name), b"v", Check::Blind).unwrap();
        set(&engine, "read", &name).unwrap();
        assert!(matches!(txn.commit(), Err(Error::Conflict)));
    }
    engine.reclaim();
    assert_eq!(stat(&engine, "keys"), before);
    engine.verify().unwrap();
}

#[test]
fn a_lock_call_that_fails_leaves_no_keys_behind() {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let request = |name: &'static str| LockRequest {
        key: key(name),
        mode: LockMode::Exclusive,
    };
    let mut holder = engine.begin(Default::default()).unwrap();
    holder
        .lock(&[request("k3")], Wait::NoWait, &mut |_, _| ())
        .unwrap();
    let before = stat(&engine, "keys");
    let names = ["k1", "k2", "k3", "k4", "k5", "k6"];
    for _ in 0..3 {
        let mut other = engine.begin(Default::default()).unwrap();
        let refused = other.lock(&names.map(request), Wait::NoWait, &mut |_, _| ());
        assert!(matches!(refused, Err(Error::LockBusy)));
        drop(other);
        assert_eq!(stat(&engine, "keys"), before);
    }
    engine.verify().unwrap();
}

#[test]
fn versions_of_a_dropped_space_are_subtracted_once() {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let space = engine.create_spaces(&[SpaceSpec::default()]).unwrap()[0];
    let put = |value: &[u8]| {
        let mut txn = engine.begin(Default::default()).unwrap();
        txn.put(Key::new(space, b"k"), value, Check::Blind).unwrap();
        engine.wait_durable(txn.commit().unwrap().position).unwrap();
    };
    put(b"one");
    let mut long = engine.begin(Default::default()).unwrap();
    long.pin().unwrap();
    put(b"two");
    engine.reclaim();
    engine.drop_spaces(&[space]).unwrap();
    drop(long);
    engine.reclaim();
    engine.verify().unwrap();
}

/// A range of deleted versions that an older snapshot keeps shows nothing to its visitor: the scan
/// itself observes that its statement was ended. So do an insertion of many locks and reads.
#[test]
fn a_scan_over_deleted_versions_observes_a_cancellation() {
    use porpoise_base::cancel::{Cancel, Reason};
    use porpoise_base::interrupt::Scope;
    use porpoise_kv::{ScanEnd, ScanRange};
    use std::ops::ControlFlow;

    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let names: Vec<String> = (0..5_000).map(|n| format!("k{n:05}")).collect();
    let put = |value: Option<&str>| {
        let writes: Vec<_> = names.iter().map(|name| (name.as_str(), value)).collect();
        write(&engine, &writes).unwrap();
    };
    put(Some("v"));
    let mut long = engine.begin(Default::default()).unwrap();
    long.pin().unwrap();
    put(None);
    let scan = |name: &str, reverse: bool| {
        let start = key(name);
        let range = ScanRange {
            space: start.space,
            start: start.bytes,
            end: None,
            reverse,
        };
        let mut txn = engine.begin(Default::default()).unwrap();
        let mut seen = 0;
        let ended = txn.scan(Read::SNAPSHOT, &[range], usize::MAX, &mut |_, _, _| {
            seen += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(seen, 0);
        ended
    };
    assert!(matches!(scan("k", false), Ok(ScanEnd::Done)));
    let cancel = Cancel::new();
    let _scope = Scope::enter(&cancel);
    assert!(matches!(scan("k", false), Ok(ScanEnd::Done)));
    cancel.cancel(Reason::Query);
    for reverse in [false, true] {
        let ended = scan("k", reverse);
        assert!(
            matches!(ended, Err(Error::Cancelled(Reason::Query))),
            "{ended:?}"
        );
    }
    // A short one passes no checkpoint.
    assert!(matches!(scan("k04900", false), Ok(ScanEnd::Done)));
    let keys: Vec<Key<'_>> = names.iter().map(|name| key(name)).collect();
    let mut txn = engine.begin(Default::default()).unwrap();
    let read = txn.get(Read::SNAPSHOT, &keys, &mut |_, _| ());
    assert!(
        matches!(read, Err(Error::Cancelled(Reason::Query))),
        "{read:?}"
    );
}
