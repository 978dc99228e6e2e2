//! A dead server's locks block other servers until they expire, and no longer, whether or not the
//! primary lock still exists.

use super::double::{Double, begin, get, hex, lock, prefix, set, space};
use porpoise_kv::{Engine, Error, SpaceId};
use std::sync::Arc;
use std::time::Duration;

const SOON: Duration = Duration::from_millis(400);

/// Ends a server that holds two locks: pessimistic ones, or prewritten ones.
fn die_with_locks(cluster: &Double, space: SpaceId, prewritten: bool) {
    let server = cluster.impatient();
    let mut txn = begin(&server);
    lock(&mut *txn, space, &["a", "b"], Duration::from_secs(20)).unwrap();
    if prewritten {
        for key in [b"a", b"b"] {
            let key = porpoise_kv::Key::new(space, key);
            txn.put(key, b"dead", porpoise_kv::Check::Locked).unwrap();
        }
        cluster.command("/decline?on=1");
        for method in ["KvCommit", "KvCheckTxnStatus", "KvBatchRollback"] {
            cluster.command(&format!("/refuse?method={method}&n=1000000"));
        }
        assert!(matches!(txn.commit(), Err(Error::UnknownOutcome(_))));
        cluster.command("/reset");
    } else {
        cluster.command("/refuse?method=KVPessimisticRollback&n=1000000");
        txn.rollback();
    }
    drop(server);
    assert_eq!(cluster.locks().len(), 2);
    cluster.command("/reset");
}

fn others_continue(cluster: &Double, server: &Arc<dyn Engine>, space: SpaceId) {
    let mut early = begin(server);
    let refused = lock(&mut *early, space, &["b"], SOON);
    assert!(matches!(refused, Err(Error::LockTimeout)), "{refused:?}");
    drop(early);
    cluster.command("/advance-clock?ms=40000");
    assert_eq!(get(server, space, "b").as_deref(), Some("0"));
    set(server, space, &[("b", "1")]);
    set(server, space, &[("a", "1")]);
    assert_eq!(get(server, space, "a").as_deref(), Some("1"));
    assert_eq!(get(server, space, "b").as_deref(), Some("1"));
}

#[test]
fn locks_of_a_dead_server_expire() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    set(&server, space, &[("a", "0"), ("b", "0")]);
    die_with_locks(&cluster, space, false);
    others_continue(&cluster, &server, space);
}

#[test]
fn locks_whose_primary_is_gone_expire_too() {
    for prewritten in [false, true] {
        let cluster = Double::start();
        let server = cluster.server();
        let space = space(&server);
        set(&server, space, &[("a", "0"), ("b", "0")]);
        die_with_locks(&cluster, space, prewritten);
        let primary = [&prefix(space)[..], b"a"].concat();
        cluster.command(&format!("/forget-lock?key={}", hex(&primary)));
        others_continue(&cluster, &server, space);
    }
}
