//! A cluster that does not respond, or no longer responds: clear errors in bounded time.

use super::double::{Double, begin, lock, space};
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_kv::{Error, Key, Read, TxnOptions};
use porpoise_kv_tikv::{KvTikv, KvTikvOptions};
use std::time::{Duration, Instant};

#[test]
fn connecting_without_a_cluster_fails_and_names_the_address() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let began = Instant::now();
    let outcome = KvTikv::connect(KvTikvOptions {
        endpoints: vec![address.clone()],
        connect_timeout: Duration::from_millis(700),
        ..KvTikvOptions::default()
    });
    let Err(Error::Unavailable(text)) = outcome.map(|_| ()) else {
        panic!("connected without a cluster");
    };
    assert!(text.contains(&address), "{text}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_cluster_that_goes_away_is_reported() {
    let cluster = Double::start();
    let server = cluster.impatient();
    let space = space(&server);
    drop(cluster);
    let mut txn = server.begin(TxnOptions::default()).unwrap();
    let outcome = txn.get(Read::CURRENT, &[Key::new(space, b"k")], &mut |_, _| {});
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
}

#[test]
fn after_shutdown_nothing_begins() {
    let cluster = Double::start();
    let server = cluster.server();
    server.shutdown().unwrap();
    let outcome = server.begin(TxnOptions::default()).map(|_| ());
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
}

#[test]
fn a_slow_store_does_not_prolong_a_wait_beyond_its_deadline() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    cluster.command("/latency?ms=2500");
    let began = Instant::now();
    let mut txn = begin(&server);
    let outcome = lock(&mut *txn, space, &["k"], Duration::from_millis(300));
    assert!(matches!(outcome, Err(Error::LockTimeout)), "{outcome:?}");
    assert!(began.elapsed() < Duration::from_secs(2));
    drop(txn);
    cluster.command("/reset");
    // Locks that it acquired nevertheless are released.
    let mut other = begin(&server);
    lock(&mut *other, space, &["k"], Duration::from_secs(20)).unwrap();
}

#[test]
fn a_read_ends_when_its_session_is_killed() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    cluster.command("/latency?ms=4000");
    let cancel = Cancel::new();
    let options = TxnOptions {
        cancel: cancel.clone(),
        ..TxnOptions::default()
    };
    let mut txn = server.begin(options).unwrap();
    let began = Instant::now();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        cancel.cancel(Reason::Connection);
    });
    let outcome = txn.get(Read::CURRENT, &[Key::new(space, b"k")], &mut |_, _| {});
    killer.join().unwrap();
    assert!(
        matches!(outcome, Err(Error::Cancelled(Reason::Connection))),
        "{outcome:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(3));
}
