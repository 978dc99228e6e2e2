//! Failures of single machines: how soon statements go on.

use super::double::{Double, begin, get, hex, lock, prefix, set, space};
use porpoise_kv::{Check, Key};
use porpoise_kv_tikv::{KvTikv, KvTikvOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A stopped process accepts connections and answers nothing.
#[test]
fn a_stopped_leader_of_the_placement_drivers_costs_at_most_five_seconds() {
    let cluster = Double::with(3, 1);
    let server = cluster.server();
    let space = space(&server);
    set(&server, space, &[("a", "0")]);
    cluster.command("/stop-pd?n=0&elect=1500");
    let began = Instant::now();
    set(&server, space, &[("a", "1")]);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    // From then on nothing is slow.
    let began = Instant::now();
    set(&server, space, &[("a", "2")]);
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

/// During an election, and for a while after it, other members still name the stopped leader, and answer first. The client must
/// wait for the answer of the new leader.
#[test]
fn members_that_name_a_stopped_leader_are_ignored() {
    let cluster = Double::with(3, 1);
    let server = cluster.server();
    let space = space(&server);
    set(&server, space, &[("a", "0")]);
    cluster.command("/stop-pd?n=0&elect=500&behind=20000");
    let began = Instant::now();
    set(&server, space, &[("a", "1")]);
    // Requests for a region that is not in the cache go to the new leader, too.
    let at = hex(&[&prefix(space)[..], b"m"].concat());
    cluster.command(&format!("/split?key={at}"));
    set(&server, space, &[("z", "1")]);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_stopped_store_costs_a_request_and_the_election() {
    let cluster = Double::with(1, 2);
    let options = KvTikvOptions {
        request_timeout: Duration::from_secs(2),
        ..cluster.options()
    };
    let server: Arc<dyn porpoise_kv::Engine> = Arc::new(KvTikv::connect(options).unwrap());
    let space = space(&server);
    set(&server, space, &[("a", "0")]);
    cluster.command("/stop-store?n=0&elect=1000");
    let began = Instant::now();
    assert_eq!(get(&server, space, "a").as_deref(), Some("0"));
    set(&server, space, &[("a", "1")]);
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_busy_store_is_asked_again() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    for method in ["KvPrewrite", "KvGet"] {
        cluster.command(&format!("/busy?method={method}&n=3"));
    }
    set(&server, space, &[("a", "1")]);
    assert_eq!(get(&server, space, "a").as_deref(), Some("1"));
}

#[test]
fn regions_that_split_merge_and_change_their_leader_are_followed() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    let key = |key: &[u8]| hex(&[&prefix(space)[..], key].concat());
    for (n, command) in [
        format!("/split?key={}", key(b"m")),
        format!("/lead?key={}&store=1", key(b"a")),
        format!("/lead?key={}&store=0", key(b"z")),
        format!("/merge?key={}", key(b"a")),
        format!("/split?key={}", key(b"n")),
    ]
    .iter()
    .enumerate()
    {
        let value = n.to_string();
        let mut txn = begin(&server);
        lock(&mut *txn, space, &["a", "z"], Duration::from_secs(10)).unwrap();
        txn.put(Key::new(space, b"a"), value.as_bytes(), Check::Locked)
            .unwrap();
        cluster.command(command);
        txn.put(Key::new(space, b"z"), value.as_bytes(), Check::Locked)
            .unwrap();
        txn.commit().unwrap();
        assert_eq!(get(&server, space, "a"), Some(value.clone()));
        assert_eq!(get(&server, space, "z"), Some(value));
    }
}

/// A server that dies between prewrite and commit delays readers by no time to live.
#[test]
fn readers_do_not_wait_for_a_writer_that_died_before_its_commit() {
    for two_phases in [true, false] {
        let cluster = Double::start();
        let server = cluster.server();
        let space = space(&server);
        set(&server, space, &[("a", "0"), ("z", "0")]);
        let at = hex(&[&prefix(space)[..], b"m"].concat());
        cluster.command(&format!("/split?key={at}"));
        cluster.command(&format!("/decline?on={}", u8::from(two_phases)));
        for method in ["KvCommit", "KvCheckTxnStatus", "KvBatchRollback"] {
            cluster.command(&format!("/refuse?method={method}&n=1000000"));
        }
        let dying = cluster.impatient();
        let mut txn = begin(&dying);
        for key in [b"a", b"z"] {
            txn.put(Key::new(space, key), b"1", Check::Blind).unwrap();
        }
        // Without answers its outcome is unknown, or it is committed when all is prewritten.
        assert_eq!(txn.commit().is_ok(), !two_phases);
        drop(dying);
        cluster.command("/reset");
        // An asynchronous commit may turn its locks into records until the server's last thread ends.
        assert!(!two_phases || cluster.locks().len() == 2);
        let expected = if two_phases { "0" } else { "1" };
        let began = Instant::now();
        for key in ["z", "a"] {
            assert_eq!(get(&server, space, key).as_deref(), Some(expected));
        }
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    }
}
