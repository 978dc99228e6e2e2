//! Releases of stores: older ones than the client can use are refused, when it connects and when they join.

use super::double::{Double, begin, get, hex, prefix, set, space};
use porpoise_kv::{Error, Key, Read};
use porpoise_kv_tikv::KvTikv;

const NEEDED: &str = "Porpoise needs TiKV 6.5.0 or later on every store";

#[test]
fn a_cluster_with_a_store_of_an_older_release_is_refused_at_connect() {
    let cluster = Double::start();
    cluster.command("/store-version?n=1&v=6.1.7");
    let outcome = KvTikv::connect(cluster.options()).map(|_| ());
    let Err(Error::Unavailable(text)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(text.starts_with("store 2 at 127.0.0.1:"), "{text}");
    assert!(
        text.contains("runs TiKV 6.1.7;") && text.ends_with(NEEDED),
        "{text}"
    );
    cluster.command("/store-version?n=1&v=v6.5.0");
    let server = cluster.server();
    assert_eq!(get(&server, space(&server), "a"), None);
}

#[test]
fn a_store_of_an_older_release_that_joins_gets_no_request_until_it_is_upgraded() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    set(&server, space, &[("a", "1"), ("z", "1")]);
    // A second store takes over a part of the rows.
    cluster.command("/store-version?n=1&v=6.1.0");
    let at = [&prefix(space)[..], b"m"].concat();
    cluster.command(&format!("/split?key={}", hex(&at)));
    let mut txn = begin(&server);
    let outcome = txn.get(Read::CURRENT, &[Key::new(space, b"z")], &mut |_, _| {});
    let Err(Error::Unavailable(text)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        text.contains("runs TiKV 6.1.0;") && text.ends_with(NEEDED),
        "{text}"
    );
    assert_eq!(get(&server, space, "a").as_deref(), Some("1"));
    cluster.command("/store-version?n=1&v=8.5.0");
    assert_eq!(get(&server, space, "z").as_deref(), Some("1"));
}
