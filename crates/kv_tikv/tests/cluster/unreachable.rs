//! No cluster, no cluster any more: clear errors in bounded time.

use super::double::{Double, space};
use porpoise_kv::{Error, Key, Read, TxnOptions};
use porpoise_kv_tikv::{KvTikv, KvTikvOptions};
use std::time::{Duration, Instant};

#[test]
fn connecting_to_nothing_names_the_address_and_ends() {
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
        panic!("connected to nothing");
    };
    assert!(text.contains(&address), "{text}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_cluster_that_goes_away_is_reported() {
    let cluster = Double::start();
    let server = cluster.server();
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
