//! The loss of pessimistic locks (a change of leader may drop them) loses no update: the commit
//! detects it.

use super::double::{Double, begin, get, lock, set, space};
use porpoise_kv::{Check, Error, Key};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_write_under_a_lost_lock_is_refused_after_another_write() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    set(&server, space, &[("n", "0")]);
    let mut txn = begin(&server);
    let found = lock(&mut *txn, space, &["n"], LONG).unwrap();
    assert_eq!(found, [Some("0".to_owned())]);
    assert_eq!(cluster.command("/forget-pessimistic-locks").trim(), "1");
    set(&server, space, &[("n", "7")]);
    txn.put(Key::new(space, b"n"), b"1", Check::Locked).unwrap();
    assert!(matches!(txn.commit(), Err(Error::Conflict)));
    assert_eq!(get(&server, space, "n").as_deref(), Some("7"));
}

#[test]
fn a_lost_lock_that_no_other_took_is_harmless() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    let mut txn = begin(&server);
    lock(&mut *txn, space, &["n"], LONG).unwrap();
    cluster.command("/forget-pessimistic-locks");
    txn.put(Key::new(space, b"n"), b"1", Check::Locked).unwrap();
    txn.commit().unwrap();
    assert_eq!(get(&server, space, "n").as_deref(), Some("1"));
}

#[test]
fn a_key_that_was_only_locked_is_checked_at_commit() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    set(&server, space, &[("parent", "here")]);
    let mut child = begin(&server);
    lock(&mut *child, space, &["parent"], LONG).unwrap();
    child
        .put(Key::new(space, b"child"), b"1", Check::Blind)
        .unwrap();
    cluster.command("/forget-pessimistic-locks");
    let mut deleter = begin(&server);
    lock(&mut *deleter, space, &["parent"], LONG).unwrap();
    deleter
        .delete(Key::new(space, b"parent"), Check::Locked)
        .unwrap();
    deleter.commit().unwrap();
    assert!(matches!(child.commit(), Err(Error::Conflict)));
    assert_eq!(get(&server, space, "child"), None);
    // The locks prewritten by the refused commit were removed; they need not expire first.
    set(&server, space, &[("child", "2")]);
}
