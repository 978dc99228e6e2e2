//! A held lock survives a lock call that fails: a failing call gives back what it locked itself, and nothing
//! that was held before. Otherwise another transaction would get a held key, and both would commit.

use super::double::{Double, begin, get, hex, lock, prefix, set, space};
use porpoise_kv::{Check, Error, Key};
use std::time::Duration;

const SOON: Duration = Duration::from_millis(400);
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_held_lock_survives_a_failing_lock_of_another_key() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    // Keys in two regions: a call for both succeeds in one of them, and its lock there is given back.
    cluster.command(&format!(
        "/split?key={}",
        hex(&[&prefix(space)[..], b"m"].concat())
    ));
    set(&server, space, &[("a", "0"), ("z", "0")]);
    let mut other = begin(&server);
    lock(&mut *other, space, &["z"], LONG).unwrap();

    let mut holder = begin(&server);
    lock(&mut *holder, space, &["a"], LONG).unwrap();
    let refused = lock(&mut *holder, space, &["a", "b", "z"], SOON);
    assert!(matches!(refused, Err(Error::LockTimeout)), "{refused:?}");
    // The store waits longer than the deadline, and the call fails only then.
    std::thread::sleep(Duration::from_millis(1500));

    let mut thief = begin(&server);
    let stolen = lock(&mut *thief, space, &["a"], SOON);
    assert!(matches!(stolen, Err(Error::LockTimeout)), "{stolen:?}");
    thief.rollback();
    other.rollback();

    holder
        .put(Key::new(space, b"a"), b"1", Check::Locked)
        .unwrap();
    lock(&mut *holder, space, &["a", "b", "z"], LONG).unwrap();
    holder
        .put(Key::new(space, b"z"), b"1", Check::Locked)
        .unwrap();
    holder.commit().unwrap();
    assert_eq!(get(&server, space, "a").as_deref(), Some("1"));
    assert_eq!(get(&server, space, "z").as_deref(), Some("1"));
}

#[test]
fn a_lock_granted_after_its_deadline_is_rolled_back_with_the_rest() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    let mut first = begin(&server);
    lock(&mut *first, space, &["a"], LONG).unwrap();
    let mut second = begin(&server);
    lock(&mut *second, space, &["own"], LONG).unwrap();
    let refused = lock(&mut *second, space, &["a"], SOON);
    assert!(matches!(refused, Err(Error::LockTimeout)), "{refused:?}");
    // The store still waits on behalf of the second one, and may grant it.
    first.rollback();
    second.rollback();
    let mut third = begin(&server);
    lock(&mut *third, space, &["a", "own"], LONG).unwrap();
    third.rollback();
    assert_eq!(cluster.locks(), Vec::<String>::new());
}
