//! Two servers on one cluster conflict and lose no update.

use super::double::{AnyCluster, begin, get, lock, set, space};
use porpoise_kv::{Check, CounterId, Engine, Error, Key, Read, SpaceId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn read(txn: &mut dyn porpoise_kv::Txn, key: Key<'_>) -> u64 {
    let mut value = 0;
    txn.get(Read::SNAPSHOT, &[key], &mut |_, v| {
        value = std::str::from_utf8(v.unwrap()).unwrap().parse().unwrap();
    })
    .unwrap();
    value
}

#[test]
fn the_second_of_two_that_read_the_same_version_is_refused() {
    let cluster = AnyCluster::start();
    let (one, two) = (cluster.server(), cluster.server());
    let space = space(&one);
    set(&one, space, &[("n", "1")]);
    let key = Key::new(space, b"n");
    let (mut a, mut b) = (begin(&one), begin(&two));
    assert_eq!(read(&mut *a, key), read(&mut *b, key));
    a.put(key, b"2", Check::FirstCommitter).unwrap();
    b.put(key, b"3", Check::FirstCommitter).unwrap();
    a.commit().unwrap();
    assert!(matches!(b.commit(), Err(Error::Conflict)));
    assert_eq!(get(&two, space, "n").as_deref(), Some("2"));
}

fn count_optimistically(server: &Arc<dyn Engine>, space: SpaceId, times: u32) {
    let key = Key::new(space, b"n");
    for _ in 0..times {
        loop {
            let mut txn = begin(server);
            let n = read(&mut *txn, key);
            let next = (n + 1).to_string();
            txn.put(key, next.as_bytes(), Check::FirstCommitter)
                .unwrap();
            match txn.commit() {
                Ok(_) => break,
                Err(Error::Conflict | Error::Deadlock) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

fn count_under_locks(server: &Arc<dyn Engine>, space: SpaceId, times: u32) {
    for _ in 0..times {
        let mut txn = begin(server);
        let found = lock(&mut *txn, space, &["n"], Duration::from_secs(30)).unwrap();
        let n: u64 = found[0].as_ref().unwrap().parse().unwrap();
        let next = (n + 1).to_string();
        txn.put(Key::new(space, b"n"), next.as_bytes(), Check::Locked)
            .unwrap();
        txn.commit().unwrap();
    }
}

#[test]
fn concurrent_increments_through_two_servers_lose_nothing() {
    let cluster = AnyCluster::start();
    let (one, two) = (cluster.server(), cluster.server());
    let space = space(&one);
    set(&one, space, &[("n", "0")]);
    std::thread::scope(|scope| {
        for server in [&one, &two] {
            scope.spawn(move || count_optimistically(server, space, 15));
            scope.spawn(move || count_under_locks(server, space, 15));
        }
    });
    assert_eq!(get(&one, space, "n").as_deref(), Some("60"));
}

#[test]
fn ids_and_spaces_are_given_out_once() {
    let cluster = AnyCluster::start();
    let servers = [cluster.server(), cluster.server()];
    let counter = CounterId(99);
    let reserve = |server: &Arc<dyn Engine>| -> Vec<u64> {
        (0..10)
            .flat_map(|_| server.reserve_ids(counter, 3, 1).unwrap())
            .collect()
    };
    let (ids, spaces): (Vec<u64>, Vec<SpaceId>) = std::thread::scope(|scope| {
        let threads: Vec<_> = servers
            .iter()
            .map(|s| scope.spawn(|| (reserve(s), (0..5).map(|_| space(s)).collect::<Vec<_>>())))
            .collect();
        let (mut ids, mut spaces) = (Vec::new(), Vec::new());
        for thread in threads {
            let (i, s) = thread.join().unwrap();
            ids.extend(i);
            spaces.extend(s);
        }
        (ids, spaces)
    });
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 60);
    assert_eq!(*ids.iter().max().unwrap(), 60);
    assert_eq!(spaces.iter().collect::<BTreeSet<_>>().len(), 10);
    // A space that one server creates is known to the other.
    for &space in &spaces {
        set(&servers[0], space, &[("k", "v")]);
        assert_eq!(get(&servers[1], space, "k").as_deref(), Some("v"));
    }
}
