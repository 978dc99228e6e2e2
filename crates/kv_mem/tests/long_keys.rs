//! Keys beyond the length limit: every read finds them absent, and every lock is granted.

use porpoise_kv::{
    Check, Engine, Error, Key, LockMode, LockRequest, Read, ScanRange, SpaceId, SpaceSpec,
    StatementMark, Wait,
};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::ops::ControlFlow;

fn engine_and_space(point_lookups: bool) -> (std::sync::Arc<KvMem>, SpaceId) {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let spec = SpaceSpec {
        point_lookups,
        ..SpaceSpec::default()
    };
    let space = engine.create_spaces(&[spec]).unwrap()[0];
    (engine, space)
}

#[test]
fn a_lock_on_a_key_that_cannot_be_written_is_granted_and_leaves_nothing() {
    for point_lookups in [false, true] {
        let (engine, space) = engine_and_space(point_lookups);
        let limit = engine.limits().key;
        for size in [limit, limit + 1, 1 << 16, 1 << 20] {
            let long = vec![b'k'; size];
            let key = Key::new(space, &long);
            let request = LockRequest {
                key,
                mode: LockMode::Exclusive,
            };
            let mut first = engine.begin(Default::default()).unwrap();
            let mut shown = 0;
            first
                .lock(&[request], Wait::NoWait, &mut |_, locked| {
                    assert!(locked.granted && locked.value.is_none() && !locked.own);
                    shown += 1;
                })
                .unwrap();
            assert_eq!(shown, 1);
            let mut second = engine.begin(Default::default()).unwrap();
            let busy = second.lock(&[request], Wait::NoWait, &mut |_, _| ());
            assert_eq!(busy.is_err(), size == limit, "{size}: {busy:?}");
            let put = first.put(key, b"v", Check::Locked);
            if size == limit {
                put.unwrap()
            } else {
                assert!(matches!(put, Err(Error::TooLarge { what: "key", .. })))
            }
            first.unlock(&[key], StatementMark(0));
        }
        engine.verify().unwrap();
    }
}

#[test]
fn keys_beyond_the_limit_are_absent_and_valid_as_bounds() {
    for point_lookups in [false, true] {
        let (engine, space) = engine_and_space(point_lookups);
        let limit = engine.limits().key;
        let longest = vec![b'k'; limit];
        let mut txn = engine.begin(Default::default()).unwrap();
        for n in 0..200usize {
            let key = &longest[..limit - n * 3];
            txn.put(Key::new(space, key), b"v", Check::Blind).unwrap();
        }
        txn.commit().unwrap();
        let long = vec![b'k'; 1 << 17];
        let mut txn = engine.begin(Default::default()).unwrap();
        let mut found = true;
        txn.get(
            Read::SNAPSHOT,
            &[Key::new(space, &long)],
            &mut |_, value| {
                found = value.is_some();
            },
        )
        .unwrap();
        assert!(!found);
        for (start, end, reverse, expected) in [
            (&b""[..], Some(&long[..]), false, 200),
            (&b"j"[..], Some(&long[..]), true, 200),
            (&long[..], None, false, 0),
            (&longest[..], Some(&long[..]), true, 1),
        ] {
            let range = ScanRange {
                space,
                start,
                end,
                reverse,
            };
            let mut seen = 0;
            txn.scan(Read::SNAPSHOT, &[range], usize::MAX, &mut |_, _, _| {
                seen += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(seen, expected);
        }
        engine.verify().unwrap();
    }
}
