//! A commit whose answer is lost has an unknown outcome. Faults before the commit leave a known
//! outcome.

use super::double::{Double, begin, get, lock, set, space};
use porpoise_kv::{Check, Error, Key};
use std::time::Duration;

#[test]
fn a_commit_without_an_answer_is_unknown_and_the_transaction_over() {
    let cluster = Double::start();
    let server = cluster.impatient();
    let space = space(&server);
    set(&server, space, &[("a", "0"), ("b", "0")]);
    let mut txn = begin(&server);
    for key in [b"a", b"b"] {
        txn.put(Key::new(space, key), b"1", Check::Blind).unwrap();
    }
    cluster.command("/drop-commit-answers?n=1000000");
    cluster.command("/refuse?method=KvCheckTxnStatus&n=1000000");
    let outcome = txn.commit();
    assert!(
        matches!(outcome, Err(Error::UnknownOutcome(_))),
        "{outcome:?}"
    );
    cluster.command("/reset");
    // The commit was applied completely, although no answer arrived.
    assert_eq!(get(&server, space, "a").as_deref(), Some("1"));
    assert_eq!(get(&server, space, "b").as_deref(), Some("1"));
}

#[test]
fn a_lost_answer_is_requested_again() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    let mut txn = begin(&server);
    txn.put(Key::new(space, b"a"), b"1", Check::Blind).unwrap();
    cluster.command("/drop-commit-answers?n=1");
    txn.commit().unwrap();
    assert_eq!(get(&server, space, "a").as_deref(), Some("1"));
}

/// Whatever form the commit has, the transaction's status tells the outcome if its answers are lost.
#[test]
fn the_outcome_of_a_commit_without_an_answer_is_found_if_its_status_can_be_read() {
    for two_phases in [false, true] {
        let cluster = Double::start();
        let server = cluster.impatient();
        let space = space(&server);
        cluster.command(&format!("/decline?on={}", u8::from(two_phases)));
        let mut txn = begin(&server);
        txn.put(Key::new(space, b"a"), b"1", Check::Blind).unwrap();
        cluster.command("/drop-commit-answers?n=1000000");
        txn.commit().unwrap();
        cluster.command("/reset");
        assert_eq!(get(&server, space, "a").as_deref(), Some("1"));
    }
}

/// A store whose peer leaves the region, or loses its leader, does not know what became of a proposal.
#[test]
fn a_commit_that_the_store_calls_undetermined_is_not_called_refused() {
    for two_phases in [false, true] {
        for times in [1, 1_000_000] {
            let cluster = Double::start();
            let server = cluster.impatient();
            let space = space(&server);
            cluster.command(&format!("/decline?on={}", u8::from(two_phases)));
            let mut txn = begin(&server);
            txn.put(Key::new(space, b"a"), b"1", Check::Blind).unwrap();
            cluster.command(&format!("/undetermined-commits?n={times}"));
            txn.commit().unwrap();
            cluster.command("/reset");
            assert_eq!(get(&server, space, "a").as_deref(), Some("1"));
        }
    }
}

#[test]
fn a_commit_that_no_store_received_is_refused_and_never_comes() {
    for two_phases in [false, true] {
        let cluster = Double::start();
        let server = cluster.impatient();
        let space = space(&server);
        set(&server, space, &[("a", "0")]);
        cluster.command(&format!("/decline?on={}", u8::from(two_phases)));
        let mut txn = begin(&server);
        txn.put(Key::new(space, b"a"), b"1", Check::Blind).unwrap();
        let method = if two_phases { "KvCommit" } else { "KvPrewrite" };
        cluster.command(&format!("/refuse?method={method}&n=1000000"));
        let outcome = txn.commit();
        assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
        cluster.command("/reset");
        assert_eq!(get(&server, space, "a").as_deref(), Some("0"));
        set(&server, space, &[("a", "2")]);
        assert_eq!(cluster.locks(), Vec::<String>::new());
    }
}

#[test]
fn a_store_that_cannot_be_reached_before_the_commit_changes_nothing() {
    let cluster = Double::start();
    let server = cluster.impatient();
    let space = space(&server);
    set(&server, space, &[("a", "0")]);
    let mut txn = begin(&server);
    txn.put(Key::new(space, b"a"), b"1", Check::Blind).unwrap();
    cluster.command("/refuse?method=KvPrewrite&n=1000000");
    let outcome = txn.commit();
    assert!(
        matches!(outcome, Err(Error::Unavailable(_) | Error::LockTimeout)),
        "{outcome:?}"
    );
    cluster.command("/reset");
    assert_eq!(get(&server, space, "a").as_deref(), Some("0"));
    set(&server, space, &[("a", "2")]);
}

#[test]
fn writes_are_visible_before_their_secondary_keys_are_committed() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    cluster.command("/delay-secondaries?ms=3000");
    set(&server, space, &[("a", "1"), ("b", "1"), ("c", "1")]);
    for key in ["a", "b", "c"] {
        assert_eq!(get(&server, space, key).as_deref(), Some("1"));
    }
    let mut txn = begin(&server);
    let found = lock(&mut *txn, space, &["c"], Duration::from_secs(10)).unwrap();
    assert_eq!(found, [Some("1".to_owned())]);
}
