//! Garbage collection: the versions that are removed, and those that must be kept.

use super::double::{Double, begin, get, hex, prefix, set, space};
use porpoise_kv::{Engine, Error, Key, Read, SpaceId, Txn};
use porpoise_kv_tikv::{KvTikv, KvTikvOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server that retains versions for a second.
fn collecting(cluster: &Double) -> Arc<dyn Engine> {
    let options = KvTikvOptions {
        retention: Some(Duration::from_secs(1)),
        ..cluster.options()
    };
    Arc::new(KvTikv::connect(options).unwrap())
}

fn until(what: &str, mut is_done: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_done() {
        assert!(Instant::now() < give_up, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn stat(server: &Arc<dyn Engine>, name: &str) -> u64 {
    let all = server.stats();
    all.iter().find(|s| s.name == name).unwrap().value
}

fn value(txn: &mut dyn Txn, space: SpaceId) -> porpoise_kv::Result<Option<String>> {
    let mut found = None;
    txn.get(Read::SNAPSHOT, &[Key::new(space, b"k")], &mut |_, v| {
        found = v.map(|v| String::from_utf8_lossy(v).into_owned());
    })?;
    Ok(found)
}

#[test]
fn old_versions_go_but_not_those_of_an_open_snapshot_of_any_server() {
    let cluster = Double::start();
    let (one, two) = (collecting(&cluster), collecting(&cluster));
    let space = space(&one);
    set(&one, space, &[("k", "1")]);
    let mut reader = begin(&two);
    assert_eq!(value(&mut *reader, space).unwrap().as_deref(), Some("1"));
    for n in 2..6 {
        set(&one, space, &[("k", &n.to_string())]);
    }
    let moved = || cluster.calls("UpdateGCSafePoint");
    let before = moved();
    // By then the snapshot is older than the retention time.
    until("the safe point is moved", || moved() >= before + 4);
    assert_eq!(value(&mut *reader, space).unwrap().as_deref(), Some("1"));
    assert_eq!(cluster.versions(&prefix(space)), 5);
    reader.rollback();
    until("old versions go", || cluster.versions(&prefix(space)) == 1);
    assert_eq!(get(&two, space, "k").as_deref(), Some("5"));
    let runs = [&one, &two].map(|server| stat(server, "gc_runs_total"));
    assert!(runs.contains(&0), "two collectors: {runs:?}");
}

#[test]
fn locks_are_resolved_before_the_safe_point_passes_their_transactions() {
    let cluster = Double::start();
    let server = collecting(&cluster);
    let space = space(&server);
    let border = [&prefix(space)[..], b"m"].concat();
    cluster.command(&format!("/split?key={}", hex(&border)));
    cluster.command("/decline?on=1");
    cluster.command("/delay-secondaries?ms=3600000");
    set(&server, space, &[("a", "1"), ("z", "1")]);
    assert!(!cluster.locks().is_empty());
    until("the lock is resolved", || cluster.locks().is_empty());
    let moved = cluster.calls("UpdateGCSafePoint");
    until("the safe point is moved", || {
        cluster.calls("UpdateGCSafePoint") > moved
    });
    assert_eq!(cluster.ask("/missed-locks"), "0");
    assert_eq!(get(&server, space, "z").as_deref(), Some("1"));
}

#[test]
fn keys_of_a_dropped_space_are_destroyed_in_every_store_and_again_after_a_failure() {
    let cluster = Double::start();
    let server = collecting(&cluster);
    let (dropped, kept) = (space(&server), space(&server));
    for space in [dropped, kept] {
        set(&server, space, &[("a", "1"), ("b", "1")]);
    }
    cluster.command("/refuse?method=UnsafeDestroyRange&n=1");
    server.drop_spaces(&[dropped]).unwrap();
    until("the keys are destroyed", || {
        stat(&server, "spaces_destroyed_total") == 1
    });
    assert_eq!(cluster.versions(&prefix(dropped)), 0);
    assert_eq!(cluster.versions(&prefix(kept)), 2);
    assert!(stat(&server, "gc_failures_total") > 0);
    // One attempt failed, and two stores were asked.
    assert!(cluster.calls("UnsafeDestroyRange") >= 3);
}

#[test]
fn a_cluster_with_keys_of_another_program_is_left_alone() {
    let cluster = Double::start();
    cluster.command(&format!("/write?key={}", hex(b"mDB")));
    let server = collecting(&cluster);
    until("the server has looked twice", || {
        stat(&server, "gc_runs_total") >= 2
    });
    assert_eq!(cluster.calls("UpdateGCSafePoint"), 0);
    // It registers the versions that it needs with the placement driver.
    assert!(cluster.calls("UpdateServiceGCSafePoint") > 0);
}

#[test]
fn a_transaction_that_reads_at_a_timestamp_of_yesterday_is_ended() {
    let cluster = Double::start();
    let server = collecting(&cluster);
    let space = space(&server);
    set(&server, space, &[("k", "1")]);
    let mut reader = begin(&server);
    assert_eq!(value(&mut *reader, space).unwrap().as_deref(), Some("1"));
    cluster.command(&format!("/advance-clock?ms={}", 25 * 3_600_000));
    let mut end = Ok(None);
    until("it is ended", || {
        end = value(&mut *reader, space);
        end.is_err()
    });
    assert!(matches!(end, Err(Error::SnapshotGone)), "{end:?}");
    assert_eq!(stat(&server, "snapshots_lost_total"), 1);
}

#[test]
fn the_turn_passes_to_another_server_when_the_collector_is_gone() {
    let cluster = Double::start();
    let one = collecting(&cluster);
    until("the first collects", || stat(&one, "gc_runs_total") > 0);
    let two = collecting(&cluster);
    one.shutdown().unwrap();
    drop(one);
    until("the second collects", || stat(&two, "gc_runs_total") > 0);
}
