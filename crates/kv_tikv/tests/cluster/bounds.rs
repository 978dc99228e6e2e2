//! Bounds of the time until service goes on after a failure, each measured from the failure to the first success. The
//! elections of the double are told to take a second; the rest is the client's.

use super::double::{Double, begin, get, hex, lock, prefix, set, space};
use porpoise_kv::{Check, Engine, Error, Key, SpaceId};
use porpoise_kv_tikv::{KvTikv, KvTikvOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ELECTION: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(30);

fn connect(cluster: &Double, change: impl FnOnce(&mut KvTikvOptions)) -> Arc<dyn Engine> {
    let mut options = cluster.options();
    change(&mut options);
    Arc::new(KvTikv::connect(options).unwrap())
}

/// A cluster whose server has written a key.
fn prepared(placement_drivers: usize, stores: usize) -> (Double, Arc<dyn Engine>, SpaceId) {
    let cluster = Double::with(placement_drivers, stores);
    let server = cluster.server();
    let space = space(&server);
    set(&server, space, &[("a", "0")]);
    assert_eq!(get(&server, space, "a").as_deref(), Some("0"));
    (cluster, server, space)
}

/// A write and a read take at most this time; and nothing is slow afterwards.
fn serves_within(server: &Arc<dyn Engine>, space: SpaceId, bound: Duration) {
    let began = Instant::now();
    set(server, space, &[("a", "1")]);
    assert_eq!(get(server, space, "a").as_deref(), Some("1"));
    let took = began.elapsed();
    println!("served after {took:?}");
    assert!(took < bound, "{took:?}");
    let began = Instant::now();
    set(server, space, &[("a", "2")]);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?} afterwards");
}

/// Locks of a killed server are gone two seconds after their time to live: those in memory, and those of a commit, in two
/// regions.
#[test]
fn all_locks_of_a_killed_server_are_gone_two_seconds_after_their_time_to_live() {
    const TTL: Duration = Duration::from_secs(2);
    for prewritten in [false, true] {
        let cluster = Double::with(1, 2);
        let server = cluster.server();
        let space = space(&server);
        let keys = ["a", "b", "x", "y"];
        set(&server, space, &keys.map(|key| (key, "0")));
        let at = [&prefix(space)[..], b"m"].concat();
        cluster.command(&format!("/split?key={}", hex(&at)));
        let dying = connect(&cluster, |o| {
            o.lock_ttl = TTL;
            o.retry_timeout = Duration::from_secs(1);
        });
        let mut txn = begin(&dying);
        lock(&mut *txn, space, &keys, LONG).unwrap();
        for method in [
            "KVPessimisticRollback",
            "KvCommit",
            "KvCheckTxnStatus",
            "KvBatchRollback",
        ] {
            cluster.command(&format!("/refuse?method={method}&n=1000000"));
        }
        if prewritten {
            cluster.command("/decline?on=1");
            for key in keys {
                txn.put(Key::new(space, key.as_bytes()), b"dead", Check::Locked)
                    .unwrap();
            }
            assert!(txn.commit().is_err());
        } else {
            txn.rollback();
        }
        drop(dying);
        let killed = Instant::now();
        assert_eq!(cluster.locks().len(), 4);
        cluster.command("/reset");
        let mut txn = begin(&server);
        let found = lock(&mut *txn, space, &keys, LONG).unwrap();
        let took = killed.elapsed();
        println!("locks gone after {took:?}");
        assert!(took < TTL + Duration::from_secs(2), "{took:?}");
        assert_eq!(found, vec![Some("0".to_owned()); 4]);
    }
}

#[test]
fn a_killed_store_costs_its_election_and_little_more() {
    let (cluster, server, space) = prepared(1, 2);
    cluster.command("/kill-store?n=0&elect=1000");
    serves_within(&server, space, ELECTION + Duration::from_secs(5));
}

#[test]
fn a_paused_store_costs_a_request_and_its_election() {
    let (cluster, server, space) = prepared(1, 2);
    cluster.command("/stop-store?n=0&elect=1000");
    // With the time limits that a server has by default.
    serves_within(&server, space, ELECTION + Duration::from_secs(12));
}

#[test]
fn a_slow_store_is_waited_for() {
    let (cluster, server, space) = prepared(1, 1);
    cluster.command("/latency?ms=1500");
    let began = Instant::now();
    set(&server, space, &[("a", "1")]);
    assert_eq!(get(&server, space, "a").as_deref(), Some("1"));
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_full_store_is_waited_for_and_serves_reads() {
    let (cluster, server, space) = prepared(1, 1);
    cluster.command("/full-store?n=0&on=1");
    assert_eq!(get(&server, space, "a").as_deref(), Some("0"));
    let impatient = cluster.impatient();
    let mut txn = begin(&impatient);
    txn.put(Key::new(space, b"a"), b"1", Check::Blind).unwrap();
    let refused = txn.commit();
    let Err(Error::Unavailable(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("disk full"), "{why}");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| set(&server, space, &[("a", "2")]));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!writer.is_finished());
        cluster.command("/full-store?n=0&on=0");
        writer.join().unwrap();
    });
    assert_eq!(get(&server, space, "a").as_deref(), Some("2"));
}

#[test]
fn a_killed_leader_of_the_placement_drivers_costs_its_election_and_little_more() {
    let (cluster, server, space) = prepared(3, 1);
    cluster.command("/kill-pd?n=0&elect=1000");
    serves_within(&server, space, ELECTION + Duration::from_secs(4));
}

#[test]
fn a_leader_of_the_placement_drivers_that_is_cut_off_costs_its_election_and_little_more() {
    let (cluster, server, space) = prepared(3, 1);
    cluster.command("/depose-pd?n=0&elect=1000");
    serves_within(&server, space, ELECTION + Duration::from_secs(4));
}

#[test]
fn a_restart_of_all_placement_drivers_costs_their_absence_and_little_more() {
    let (cluster, server, space) = prepared(3, 1);
    cluster.command("/restart-pds?ms=1000");
    serves_within(&server, space, ELECTION + Duration::from_secs(4));
}

/// Nothing fails after a few seconds while the cluster may come back.
#[test]
fn statements_wait_for_a_cluster_that_comes_back() {
    let (cluster, server, space) = prepared(1, 1);
    cluster.command("/stop-store?n=0&elect=100000");
    cluster.command("/stop-pd?n=0&elect=100000");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| get(&server, space, "a"));
        let writer = scope.spawn(|| set(&server, space, &[("b", "1")]));
        std::thread::sleep(Duration::from_secs(8));
        assert!(!reader.is_finished() && !writer.is_finished());
        cluster.command("/reset");
        assert_eq!(reader.join().unwrap().as_deref(), Some("0"));
        writer.join().unwrap();
    });
    assert_eq!(get(&server, space, "b").as_deref(), Some("1"));
}

/// Answers that come after their time limit, and answers that come twice, change nothing twice and lose nothing.
#[test]
fn late_and_repeated_answers_do_no_harm() {
    let (cluster, _, space) = prepared(1, 1);
    let server = connect(&cluster, |o| o.request_timeout = Duration::from_millis(500));
    cluster.command("/duplicate-answers?on=1");
    let mut expected = 0;
    for method in ["", "KvPrewrite", "KvPessimisticLock", "KvGet", "KvCommit"] {
        for one_phase in [true, false] {
            cluster.command(&format!("/decline?on={}", u8::from(!one_phase)));
            cluster.command(&format!("/late-answers?method={method}&n=1&ms=900"));
            let mut txn = begin(&server);
            let found = lock(&mut *txn, space, &["n"], LONG).unwrap();
            let before = found[0].as_deref().map_or(0, |n| n.parse().unwrap());
            assert_eq!(before, expected, "{method}");
            expected += 1;
            let value = expected.to_string();
            txn.put(Key::new(space, b"n"), value.as_bytes(), Check::Locked)
                .unwrap();
            txn.commit().unwrap();
            assert_eq!(get(&server, space, "n"), Some(value));
        }
    }
}

/// A region splits, is merged, or changes its leader just before each kind of request is executed.
#[test]
fn regions_change_in_each_phase_of_a_transaction() {
    let (cluster, server, space) = prepared(1, 2);
    let key = |key: &[u8]| hex(&[&prefix(space)[..], key].concat());
    set(&server, space, &[("a", "0"), ("z", "0")]);
    let changes = [
        ("split", key(b"m"), 0),
        ("lead", key(b"a"), 1),
        ("lead", key(b"z"), 0),
        ("merge", key(b"a"), 0),
        ("lead", key(b"a"), 0),
    ];
    let mut n = 0;
    for method in ["KvBatchGet", "KvPessimisticLock", "KvPrewrite", "KvCommit"] {
        for two_phases in [false, true] {
            cluster.command(&format!("/decline?on={}", u8::from(two_phases)));
            for (change, at, store) in &changes {
                n += 1;
                let value = n.to_string();
                let command = format!("/before?method={method}&do={change}&key={at}&store={store}");
                cluster.command(&command);
                let mut txn = begin(&server);
                lock(&mut *txn, space, &["a", "z"], LONG).unwrap();
                for key in [b"a", b"z"] {
                    txn.put(Key::new(space, key), value.as_bytes(), Check::Locked)
                        .unwrap();
                }
                txn.commit().unwrap();
                let mut txn = begin(&server);
                let keys = [Key::new(space, b"a"), Key::new(space, b"z")];
                txn.get(porpoise_kv::Read::SNAPSHOT, &keys, &mut |_, found| {
                    assert_eq!(found, Some(value.as_bytes()), "{command}");
                })
                .unwrap();
            }
        }
    }
}
