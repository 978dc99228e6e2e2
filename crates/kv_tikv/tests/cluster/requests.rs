//! Numbers of requests: what each operation of the contract costs, in timestamps and in steps that follow each
//! other.

use super::double::{AnyCluster, begin, get, hex, prefix, set, space};
use porpoise_kv::{
    Check, CounterId, Engine, Key, LockMode, LockRequest, Read, ScanRange, SpaceId, Txn, Wait,
};
use porpoise_kv_tikv::{KvTikv, RequestCounts, RequestKind};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Fixture {
    cluster: AnyCluster,
    engine: Arc<KvTikv>,
    server: Arc<dyn Engine>,
    space: SpaceId,
}

impl Fixture {
    fn on(cluster: AnyCluster) -> Fixture {
        let engine = cluster.engine();
        let server: Arc<dyn Engine> = engine.clone();
        let space = space(&server);
        set(&server, space, &[("a", "0"), ("b", "0"), ("c", "0")]);
        // The space and its region are known.
        assert_eq!(get(&server, space, "a").as_deref(), Some("0"));
        // The look for interrupted drops is over.
        std::thread::sleep(Duration::from_millis(300));
        Fixture {
            cluster,
            engine,
            server,
            space,
        }
    }

    fn key(&self, key: &'static str) -> Key<'static> {
        Key::new(self.space, key.as_bytes())
    }

    fn lock(&self, txn: &mut dyn Txn, keys: &[&'static str]) {
        let requests: Vec<LockRequest<'_>> = keys
            .iter()
            .map(|key| LockRequest {
                key: self.key(key),
                mode: LockMode::Exclusive,
            })
            .collect();
        let wait = Wait::Until(Instant::now() + Duration::from_secs(20));
        txn.lock(&requests, wait, &mut |_, locked| assert!(!locked.newer))
            .unwrap();
    }

    /// Asserts the timestamps, requests and steps of an operation.
    fn costs(&self, expected: [u64; 3], operation: impl FnOnce()) -> RequestCounts {
        let before = self.engine.request_counts();
        operation();
        let cost = self.engine.request_counts().since(&before);
        let found = [cost.timestamps, cost.requests(), cost.rounds];
        assert_eq!(found, expected, "{cost:?}");
        cost
    }
}

#[test]
fn a_locked_write_costs_a_timestamp_and_two_requests() {
    let f = Fixture::on(AnyCluster::start());
    let cost = f.costs([1, 2, 2], || {
        let mut txn = begin(&f.server);
        f.lock(&mut *txn, &["a", "b"]);
        // Held keys are read without a request.
        txn.get(Read::CURRENT, &[f.key("a"), f.key("b")], &mut |_, v| {
            assert_eq!(v, Some(&b"0"[..]));
        })
        .unwrap();
        txn.put(f.key("a"), b"1", Check::Locked).unwrap();
        txn.put(f.key("entry of an index"), b"1", Check::Blind)
            .unwrap();
        txn.commit().unwrap();
    });
    assert_eq!(cost.of(RequestKind::Lock), 1);
    assert_eq!(cost.of(RequestKind::Prewrite), 1);
    assert_eq!(get(&f.server, f.space, "a").as_deref(), Some("1"));
}

#[test]
fn a_lock_at_the_snapshot_shows_without_a_request_that_nothing_changed() {
    let f = Fixture::on(AnyCluster::start());
    f.costs([1, 3, 3], || {
        let mut txn = begin(&f.server);
        txn.get(Read::SNAPSHOT, &[f.key("a")], &mut |_, _| {})
            .unwrap();
        f.lock(&mut *txn, &["a"]);
        txn.get(Read::SNAPSHOT, &[f.key("a")], &mut |_, _| {})
            .unwrap();
        txn.put(f.key("a"), b"1", Check::Locked).unwrap();
        txn.commit().unwrap();
    });
}

#[test]
fn a_write_checked_against_the_snapshot_costs_a_timestamp_and_two_requests() {
    let f = Fixture::on(AnyCluster::start());
    f.costs([1, 2, 2], || {
        let mut txn = begin(&f.server);
        txn.get(Read::SNAPSHOT, &[f.key("a"), f.key("b")], &mut |_, _| {})
            .unwrap();
        txn.put(f.key("a"), b"1", Check::FirstCommitter).unwrap();
        txn.delete(f.key("b"), Check::FirstCommitter).unwrap();
        txn.commit().unwrap();
    });
}

#[test]
fn two_locking_statements_and_a_commit_cost_one_timestamp_and_three_requests() {
    let f = Fixture::on(AnyCluster::start());
    f.costs([1, 3, 3], || {
        let mut txn = begin(&f.server);
        f.lock(&mut *txn, &["a"]);
        txn.put(f.key("a"), b"1", Check::Locked).unwrap();
        f.lock(&mut *txn, &["b"]);
        txn.put(f.key("b"), b"1", Check::Locked).unwrap();
        txn.commit().unwrap();
    });
}

#[test]
fn reads_cost_a_timestamp_and_a_request_and_a_current_read_of_one_key_only_the_request() {
    let f = Fixture::on(AnyCluster::start());
    let all = ["a", "b", "c"].map(|k| f.key(k));
    f.costs([1, 1, 1], || {
        begin(&f.server)
            .get(Read::SNAPSHOT, &all, &mut |_, _| {})
            .unwrap();
    });
    f.costs([1, 1, 1], || {
        begin(&f.server)
            .get(Read::CURRENT, &all, &mut |_, _| {})
            .unwrap();
    });
    f.costs([0, 1, 1], || {
        begin(&f.server)
            .get(Read::CURRENT, &all[..1], &mut |_, _| {})
            .unwrap();
    });
}

#[test]
fn a_reservation_of_ids_costs_a_timestamp_and_two_requests() {
    let f = Fixture::on(AnyCluster::start());
    f.server.reserve_ids(CounterId(99), 10, 1).unwrap();
    f.costs([1, 2, 2], || {
        f.server.reserve_ids(CounterId(99), 10, 1).unwrap();
    });
}

/// Keys in two regions commit asynchronously: the commit is reported after one step.
#[test]
fn a_commit_in_several_regions_is_reported_after_one_step() {
    let f = Fixture::on(AnyCluster::commanded());
    let at = [&prefix(f.space)[..], b"b"].concat();
    f.cluster
        .double()
        .command(&format!("/split?key={}", hex(&at)));
    set(&f.server, f.space, &[("a", "1"), ("c", "1")]);
    std::thread::sleep(Duration::from_millis(200));
    f.cluster.double().command("/delay-secondaries?ms=200");
    let before = f.engine.request_counts();
    let mut txn = begin(&f.server);
    f.lock(&mut *txn, &["a"]);
    txn.put(f.key("a"), b"2", Check::Locked).unwrap();
    txn.put(f.key("c"), b"2", Check::Blind).unwrap();
    txn.commit().unwrap();
    let cost = f.engine.request_counts().since(&before);
    assert_eq!(cost.timestamps, 1);
    assert_eq!(cost.of(RequestKind::Prewrite), 2);
    // Others see it at once.
    for key in ["a", "c"] {
        assert_eq!(get(&f.server, f.space, key).as_deref(), Some("2"));
    }
}

#[test]
fn a_scan_asks_only_the_regions_that_it_needs() {
    let f = Fixture::on(AnyCluster::commanded());
    for key in [b"b", b"c"] {
        let at = [&prefix(f.space)[..], key].concat();
        f.cluster
            .double()
            .command(&format!("/split?key={}", hex(&at)));
    }
    let scan = |limit, reverse| {
        let range = ScanRange {
            space: f.space,
            start: b"",
            end: None,
            reverse,
        };
        let mut seen = Vec::new();
        begin(&f.server)
            .scan(Read::SNAPSHOT, &[range], limit, &mut |_, key, _| {
                seen.push(String::from_utf8_lossy(key).into_owned());
                ControlFlow::Continue(())
            })
            .unwrap();
        seen
    };
    assert_eq!(scan(usize::MAX, false), ["a", "b", "c"]);
    f.costs([1, 1, 1], || assert_eq!(scan(1, false), ["a"]));
    f.costs([1, 1, 1], || assert_eq!(scan(1, true), ["c"]));
    f.costs([1, 2, 2], || assert_eq!(scan(2, true), ["c", "b"]));
    f.costs([1, 3, 3], || {
        assert_eq!(scan(usize::MAX, false), ["a", "b", "c"]);
    });
}
