//! Scans over many pages and several regions, and regions that split under a
//! transaction.

use super::double::{Double, begin, get, hex, prefix, set, space};
use porpoise_kv::{Check, Engine, Key, Read, ScanEnd, ScanRange, SpaceId};
use std::ops::ControlFlow;
use std::sync::Arc;

const ROWS: usize = 2500;

fn name(n: usize) -> String {
    format!("{n:05}")
}

fn fill(server: &Arc<dyn Engine>, space: SpaceId) {
    let mut txn = begin(server);
    for n in 0..ROWS {
        txn.put(
            Key::new(space, name(n).as_bytes()),
            n.to_string().as_bytes(),
            Check::Blind,
        )
        .unwrap();
    }
    txn.commit().unwrap();
}

fn walk(server: &Arc<dyn Engine>, space: SpaceId, reverse: bool, limit: usize) -> Vec<String> {
    let mut txn = begin(server);
    let mut all: Vec<String> = Vec::new();
    let (mut start, mut end) = (Vec::new(), None);
    loop {
        let range = ScanRange {
            space,
            start: &start,
            end: end.as_deref(),
            reverse,
        };
        let stopped = txn
            .scan(Read::SNAPSHOT, &[range], limit, &mut |_, key, _| {
                all.push(String::from_utf8(key.to_vec()).unwrap());
                ControlFlow::Continue(())
            })
            .unwrap();
        match stopped {
            ScanEnd::Done => return all,
            ScanEnd::Stopped { key, .. } if reverse => end = Some(key),
            ScanEnd::Stopped { mut key, .. } => {
                key.push(0);
                start = key;
            }
        }
    }
}

#[test]
fn a_scan_sees_every_row_once_both_ways() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    fill(&server, space);
    for n in [400, 1111, 2222] {
        let at = [&prefix(space)[..], name(n).as_bytes()].concat();
        cluster.command(&format!("/split?key={}", hex(&at)));
    }
    let mut expected: Vec<String> = (0..ROWS).map(name).collect();
    for limit in [700, usize::MAX] {
        assert_eq!(walk(&server, space, false, limit), expected);
    }
    expected.reverse();
    for limit in [700, usize::MAX] {
        assert_eq!(walk(&server, space, true, limit), expected);
    }
}

#[test]
fn a_region_split_during_a_transaction_is_harmless() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    set(&server, space, &[("a", "0"), ("z", "0")]);
    let mut txn = begin(&server);
    let keys = [Key::new(space, b"a"), Key::new(space, b"z")];
    txn.get(Read::SNAPSHOT, &keys, &mut |_, v| {
        assert_eq!(v, Some(&b"0"[..]));
    })
    .unwrap();
    let at = [&prefix(space)[..], b"m"].concat();
    cluster.command(&format!("/split?key={}", hex(&at)));
    for key in keys {
        txn.put(key, b"1", Check::FirstCommitter).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(get(&server, space, "a").as_deref(), Some("1"));
    assert_eq!(get(&server, space, "z").as_deref(), Some("1"));
}

#[test]
fn a_batch_get_costs_one_request() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    fill(&server, space);
    let names: Vec<String> = (0..50).map(|n| name(n * 7)).collect();
    let keys: Vec<Key<'_>> = names
        .iter()
        .map(|n| Key::new(space, n.as_bytes()))
        .collect();
    // The first reader resolves the last locks of the fill.
    assert_eq!(walk(&server, space, false, usize::MAX).len(), ROWS);
    let mut txn = begin(&server);
    txn.pin().unwrap();
    let before = cluster.calls("KvBatchGet");
    let mut found = 0;
    txn.get(Read::SNAPSHOT, &keys, &mut |_, v| {
        found += usize::from(v.is_some())
    })
    .unwrap();
    assert_eq!((found, cluster.calls("KvBatchGet") - before), (50, 1));
}
