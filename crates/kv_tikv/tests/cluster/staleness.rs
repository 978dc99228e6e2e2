//! Snapshots that may be stale: what they cost, how old they are, and which commits they show.

use super::double::{Double, begin, set, space};
use porpoise_kv::{Engine, Key, Read, SpaceId, Txn};
use porpoise_kv_tikv::KvTikv;
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

struct Fixture {
    _cluster: Double,
    engine: Arc<KvTikv>,
    server: Arc<dyn Engine>,
    other: Arc<dyn Engine>,
    space: SpaceId,
}

impl Fixture {
    fn new() -> Fixture {
        let cluster = Double::start();
        let engine = cluster.engine();
        let server: Arc<dyn Engine> = engine.clone();
        let other = cluster.server();
        let space = space(&server);
        set(&server, space, &[("a", "0"), ("b", "0")]);
        let fixture = Fixture {
            _cluster: cluster,
            engine,
            server,
            other,
            space,
        };
        // The region is known, and the look for interrupted drops is over.
        assert_eq!(fixture.fresh(), "0");
        std::thread::sleep(Duration::from_millis(300));
        fixture
    }

    fn value(&self, txn: &mut dyn Txn) -> String {
        let mut value = String::new();
        let keys = [Key::new(self.space, b"a"), Key::new(self.space, b"b")];
        txn.get(Read::SNAPSHOT, &keys, &mut |at, found| {
            if at == 0 {
                value = String::from_utf8(found.unwrap().to_vec()).unwrap();
            }
        })
        .unwrap();
        value
    }

    fn fresh(&self) -> String {
        self.value(&mut *begin(&self.server))
    }

    fn stale(&self, staleness: Duration) -> String {
        let mut txn = begin(&self.server);
        txn.refresh_within(staleness).unwrap();
        self.value(&mut *txn)
    }

    /// The result of a read, its timestamps, and its requests to stores.
    fn costs(&self, read: impl FnOnce() -> String) -> (String, u64, u64) {
        let before = self.engine.request_counts();
        let value = read();
        let cost = self.engine.request_counts().since(&before);
        (value, cost.timestamps, cost.requests())
    }
}

#[test]
fn a_read_within_a_bound_costs_no_timestamp_and_one_request() {
    let f = Fixture::new();
    assert_eq!(f.fresh(), "0");
    for _ in 0..3 {
        assert_eq!(f.costs(|| f.stale(MINUTE)), ("0".to_owned(), 0, 1));
    }
    // Without a bound that allows it, and as usual, a new timestamp is taken.
    assert_eq!(f.costs(|| f.stale(Duration::ZERO)), ("0".to_owned(), 1, 1));
    assert_eq!(f.costs(|| f.fresh()), ("0".to_owned(), 1, 1));
}

#[test]
fn a_snapshot_is_not_older_than_the_bound() {
    let f = Fixture::new();
    let bound = Duration::from_millis(400);
    set(&f.other, f.space, &[("a", "1")]);
    std::thread::sleep(bound);
    assert_eq!(f.costs(|| f.stale(bound)), ("1".to_owned(), 1, 1));
}

#[test]
fn commits_of_the_own_server_are_seen_and_those_of_others_within_the_bound() {
    let f = Fixture::new();
    assert_eq!(f.fresh(), "0");
    set(&f.other, f.space, &[("a", "1")]);
    assert_eq!(f.stale(MINUTE), "0");
    for n in 2..20 {
        let n = n.to_string();
        set(&f.server, f.space, &[("a", &n)]);
        assert_eq!(f.stale(MINUTE), n);
        // The timestamp that was taken for that serves the next ones.
        assert_eq!(f.costs(|| f.stale(MINUTE)), (n, 0, 1));
    }
}

#[test]
fn a_stale_snapshot_does_not_move_and_a_pinned_one_is_not_replaced() {
    let f = Fixture::new();
    let mut txn = begin(&f.server);
    txn.refresh_within(MINUTE).unwrap();
    txn.pin().unwrap();
    set(&f.server, f.space, &[("a", "1")]);
    txn.refresh_within(MINUTE).unwrap();
    assert_eq!(f.value(&mut *txn), "0");
    assert_eq!(f.stale(MINUTE), "1");
}

/// A writer that began before a stale snapshot and commits after its read is not seen by it, whatever form its commit
/// has: reads at one snapshot do not change.
#[test]
fn a_commit_under_way_comes_after_the_reads_of_a_stale_snapshot() {
    let f = Fixture::new();
    for n in 1..30 {
        let value = n.to_string();
        let mut reader = begin(&f.server);
        reader.refresh_within(MINUTE).unwrap();
        let mut writer = begin(&f.other);
        for key in [b"a", b"b"] {
            let key = Key::new(f.space, key);
            writer
                .put(key, value.as_bytes(), porpoise_kv::Check::Blind)
                .unwrap();
        }
        let seen = f.value(&mut *reader);
        writer.commit().unwrap();
        assert_eq!(f.value(&mut *reader), seen);
        assert_ne!(seen, value);
        assert_eq!(f.fresh(), value);
    }
}
