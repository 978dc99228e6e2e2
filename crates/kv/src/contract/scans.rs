//! Guarantee 9: scans are exact, ordered both ways, and resumable.

use super::{EngineFactory, Fixture, Rng, dump, scan_all, text};
use crate::{Check, LockMode, Read, ScanEnd, ScanRange, SpaceId, SpaceSpec};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

fn range<'a>(
    space: SpaceId,
    start: &'a [u8],
    end: Option<&'a [u8]>,
    reverse: bool,
) -> ScanRange<'a> {
    ScanRange {
        space,
        start,
        end,
        reverse,
    }
}

fn names(found: &[(Vec<u8>, Vec<u8>)]) -> Vec<String> {
    found.iter().map(|(k, _)| text(k)).collect()
}

/// Fills the space by blind writes in one transaction.
fn fill(fixture: &Fixture, keys: &[&[u8]]) {
    let mut txn = fixture.begin();
    for key in keys {
        txn.put(crate::Key::new(fixture.space, key), key, Check::Blind)
            .unwrap();
    }
    fixture.commit(txn);
}

/// Bytewise order, shorter before longer.
pub fn guarantee_9_in_order_both_ways(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let sorted: [&[u8]; 8] = [
        b"",
        b"\0",
        b"\0\0",
        b"\0\x01",
        b"a",
        b"a\0",
        b"ab",
        b"\xff\xff",
    ];
    let mut mixed = sorted;
    mixed.reverse();
    mixed.swap(1, 5);
    fill(&fixture, &mixed);
    let mut txn = fixture.begin();
    for how in [Read::SNAPSHOT, Read::CURRENT] {
        let found = scan_all(&mut *txn, how, range(fixture.space, b"", None, false), 100);
        assert_eq!(found.len(), sorted.len());
        assert!(found.iter().zip(sorted).all(|((k, v), s)| k == s && v == s));
        let mut back = scan_all(&mut *txn, how, range(fixture.space, b"", None, true), 100);
        back.reverse();
        assert_eq!(back, found);
    }
}

/// Empty and inverted ranges contain nothing.
pub fn guarantee_9_bounds_are_start_included_end_excluded(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fill(&fixture, &[b"a", b"b", b"c", b"d"]);
    let mut txn = fixture.begin();
    for reverse in [false, true] {
        let mut of = |start: &[u8], end: Option<&[u8]>| {
            let mut found = names(&scan_all(
                &mut *txn,
                Read::SNAPSHOT,
                range(fixture.space, start, end, reverse),
                100,
            ));
            if reverse {
                found.reverse();
            }
            found
        };
        assert_eq!(of(b"b", Some(b"d")), ["b", "c"]);
        assert_eq!(of(b"b\0", Some(b"d\0")), ["c", "d"]);
        assert_eq!(of(b"c", None), ["c", "d"]);
        assert!(of(b"b", Some(b"b")).is_empty());
        assert!(of(b"c", Some(b"a")).is_empty());
        assert!(of(b"x", None).is_empty());
    }
}

/// Every batch size gives the same result.
pub fn guarantee_9_resumes_without_gap_or_repetition(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let keys: Vec<Vec<u8>> = (0..60u8)
        .map(|n| vec![b'k', n, 0][..2 + usize::from(n % 2)].to_vec())
        .collect();
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    fill(&fixture, &refs);
    let mut txn = fixture.begin();
    txn.pin().unwrap();
    for reverse in [false, true] {
        let whole = scan_all(
            &mut *txn,
            Read::SNAPSHOT,
            range(fixture.space, b"", None, reverse),
            1000,
        );
        assert_eq!(whole.len(), keys.len());
        for batch in [1, 2, 7, 59, 60, 61] {
            let parts = scan_all(
                &mut *txn,
                Read::SNAPSHOT,
                range(fixture.space, b"", None, reverse),
                batch,
            );
            assert_eq!(parts, whole, "batches of {batch}");
        }
    }
}

/// Own insertions, changes and deletions are merged in.
pub fn guarantee_9_own_writes_are_merged_in(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fill(&fixture, &[b"b", b"d", b"f"]);
    let mut txn = fixture.begin();
    for (key, value) in [
        ("a", Some("A")),
        ("d", Some("D")),
        ("f", None),
        ("e", Some("E")),
        ("g", Some("G")),
    ] {
        match value {
            Some(value) => txn
                .put(fixture.key(key), value.as_bytes(), Check::Blind)
                .unwrap(),
            None => txn.delete(fixture.key(key), Check::Blind).unwrap(),
        }
    }
    txn.delete(fixture.key("absent"), Check::Blind).unwrap();
    let expected = [("a", "A"), ("b", "b"), ("d", "D"), ("e", "E"), ("g", "G")]
        .map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()));
    for how in [Read::SNAPSHOT, Read::CURRENT] {
        for batch in [1, 2, 3, 100] {
            let found = scan_all(
                &mut *txn,
                how,
                range(fixture.space, b"", None, false),
                batch,
            );
            assert_eq!(found, expected);
            let mut back = scan_all(&mut *txn, how, range(fixture.space, b"", None, true), batch);
            back.reverse();
            assert_eq!(back, expected);
        }
    }
}

/// The entry on which it breaks counts as visited.
pub fn guarantee_9_the_visitor_may_break_off(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fill(&fixture, &[b"a", b"b", b"c"]);
    let mut txn = fixture.begin();
    let mut seen = Vec::new();
    let end = txn
        .scan(
            Read::SNAPSHOT,
            &[range(fixture.space, b"", None, false)],
            100,
            &mut |_, key, _| {
                seen.push(text(key));
                if key == b"b" {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        )
        .unwrap();
    assert_eq!(seen, ["a", "b"]);
    assert_eq!(
        end,
        ScanEnd::Stopped {
            range: 0,
            key: b"b".to_vec()
        }
    );
}

/// Two hundred random ranges, compared with a sorted map.
pub fn guarantee_9_random_ranges_against_a_sorted_map(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    let mut rng = Rng::new(7);
    let mut map = BTreeMap::new();
    let random_key = |rng: &mut Rng| -> Vec<u8> {
        (0..rng.below(4))
            .map(|_| [0, 1, b'a', 0xff][rng.below(4) as usize])
            .collect()
    };
    let mut txn = fixture.begin();
    for n in 0..150u32 {
        let key = random_key(&mut rng);
        let value = n.to_string().into_bytes();
        txn.put(crate::Key::new(fixture.space, &key), &value, Check::Blind)
            .unwrap();
        map.insert(key, value);
    }
    fixture.commit(txn);
    let mut txn = fixture.begin();
    for n in 0..60u32 {
        let key = random_key(&mut rng);
        let k = crate::Key::new(fixture.space, &key);
        if rng.below(2) == 0 {
            txn.delete(k, Check::Blind).unwrap();
            map.remove(&key);
        } else {
            let value = format!("own{n}").into_bytes();
            txn.put(k, &value, Check::Blind).unwrap();
            map.insert(key, value);
        }
    }
    for _ in 0..200 {
        let (start, end) = (random_key(&mut rng), random_key(&mut rng));
        let end = (rng.below(3) > 0).then_some(end);
        let reverse = rng.below(2) == 0;
        let batch = 1 + rng.below(20) as usize;
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = map
            .iter()
            .filter(|(k, _)| **k >= start && end.as_ref().is_none_or(|e| *k < e))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        if reverse {
            expected.reverse();
        }
        let found = scan_all(
            &mut *txn,
            Read::SNAPSHOT,
            range(fixture.space, &start, end.as_deref(), reverse),
            batch,
        );
        assert_eq!(found, expected, "{start:?}..{end:?} reverse {reverse}");
    }
}

/// One writer moves a token from key to key; every scan finds it once.
pub fn guarantee_9_a_snapshot_scans_one_state_beside_writers(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fixture.set("t00", "token");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..150u32 {
                let (from, to) = (format!("t{:02}", n % 20), format!("t{:02}", (n + 1) % 20));
                let mut txn = fixture.begin();
                super::lock_one(&mut *txn, fixture.key(&from), LockMode::Exclusive).unwrap();
                super::lock_one(&mut *txn, fixture.key(&to), LockMode::Exclusive).unwrap();
                txn.delete(fixture.key(&from), Check::Locked).unwrap();
                txn.put(fixture.key(&to), b"token", Check::Locked).unwrap();
                fixture.commit(txn);
            }
            stop.store(true, Ordering::Release);
        });
        while !stop.load(Ordering::Acquire) {
            let mut txn = fixture.begin();
            assert_eq!(dump(&mut *txn, Read::SNAPSHOT, fixture.space).len(), 1);
            let back = scan_all(
                &mut *txn,
                Read::SNAPSHOT,
                range(fixture.space, b"", None, true),
                1,
            );
            assert_eq!(back.len(), 1);
        }
    });
}

/// Ranges are walked in the order given, each tagged with its index.
pub fn guarantee_9_several_ranges_and_spaces(new: EngineFactory<'_>) {
    let fixture = Fixture::new(new);
    fill(&fixture, &[b"a", b"b", b"c"]);
    let second = fixture
        .engine
        .create_spaces(&[SpaceSpec::default()])
        .unwrap()[0];
    let other = Fixture {
        engine: fixture.engine.clone(),
        space: second,
    };
    fill(&other, &[b"x", b"y"]);
    let mut txn = fixture.begin();
    let ranges = [
        range(second, b"y", None, false),
        range(fixture.space, b"b", None, true),
        range(fixture.space, b"q", None, false),
        range(second, b"", Some(b"y"), false),
    ];
    let mut seen = Vec::new();
    let mut visit = |index: usize, key: &[u8], _: &[u8]| {
        seen.push((index, text(key)));
        ControlFlow::Continue(())
    };
    assert_eq!(
        txn.scan(Read::SNAPSHOT, &ranges, 100, &mut visit).unwrap(),
        ScanEnd::Done
    );
    let expected = [(0, "y"), (1, "c"), (1, "b"), (3, "x")].map(|(n, k)| (n, k.to_owned()));
    assert_eq!(seen, expected);
    seen = Vec::new();
    let mut visit = |index: usize, key: &[u8], _: &[u8]| {
        seen.push((index, text(key)));
        ControlFlow::Continue(())
    };
    assert_eq!(
        txn.scan(Read::SNAPSHOT, &ranges, 2, &mut visit).unwrap(),
        ScanEnd::Stopped {
            range: 1,
            key: b"c".to_vec()
        }
    );
    assert_eq!(seen, expected[..2]);
}
