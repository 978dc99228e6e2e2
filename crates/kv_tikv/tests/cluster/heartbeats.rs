//! Heartbeats prolong the locks of a long transaction; if one fails, the transaction ends with an
//! error.

use super::double::{Double, begin, get, lock, set, space};
use porpoise_kv::{Check, Error, Key};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_failed_heartbeat_ends_the_transaction() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    set(&server, space, &[("a", "0")]);
    let mut alive = begin(&server);
    lock(&mut *alive, space, &["b"], LONG).unwrap();
    std::thread::sleep(Duration::from_secs(6));
    assert!(cluster.calls("KvTxnHeartBeat") >= 1);
    let mut dead = begin(&server);
    lock(&mut *dead, space, &["a"], LONG).unwrap();
    dead.put(Key::new(space, b"a"), b"1", Check::Locked)
        .unwrap();
    // Its lock is lost: the heartbeat finds none to prolong.
    cluster.command("/forget-pessimistic-locks");
    std::thread::sleep(Duration::from_secs(6));
    assert!(matches!(dead.commit(), Err(Error::Conflict)));
    assert_eq!(get(&server, space, "a").as_deref(), Some("0"));
    alive.rollback();
}
