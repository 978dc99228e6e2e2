//! Key-share locks by guards: what they exclude, what they cost, and that no child loses its parent.

use super::double::{AnyCluster, begin, get, set, space};
use porpoise_kv::{
    Check, Engine, Error, Key, LockMode, LockRequest, Read, ScanRange, SpaceId, Txn, Wait,
};
use porpoise_kv_tikv::KvTikv;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// Two servers with a referenced space and one of children.
struct Fixture {
    cluster: AnyCluster,
    engines: [Arc<KvTikv>; 2],
    servers: [Arc<dyn Engine>; 2],
    parents: SpaceId,
    children: SpaceId,
}

impl Fixture {
    fn on(cluster: AnyCluster) -> Fixture {
        let engines = [cluster.engine(), cluster.engine()];
        let servers = engines.clone().map(|e| e as Arc<dyn Engine>);
        let (parents, children) = (space(&servers[0]), space(&servers[0]));
        for server in &servers {
            server.set_referenced_spaces(HashSet::from([parents]));
        }
        set(&servers[0], parents, &[("p", "0"), ("q", "0")]);
        set(&servers[0], children, &[("first", "p")]);
        let fixture = Fixture {
            cluster,
            engines,
            servers,
            parents,
            children,
        };
        // Both know the spaces and the region, and have looked for interrupted drops.
        for server in &fixture.servers {
            assert!(
                get(server, parents, "p").is_some() && get(server, children, "first").is_some()
            );
        }
        std::thread::sleep(Duration::from_millis(300));
        fixture
    }

    fn lock(
        &self,
        txn: &mut dyn Txn,
        key: &str,
        mode: LockMode,
        wait: Wait,
    ) -> Result<Option<String>, Error> {
        let key = Key::new(self.parents, key.as_bytes());
        let mut value = None;
        txn.lock(&[LockRequest { key, mode }], wait, &mut |_, locked| {
            value = locked
                .value
                .map(|v| String::from_utf8_lossy(v).into_owned());
        })?;
        Ok(value)
    }

    fn now(&self, txn: &mut dyn Txn, key: &str, mode: LockMode) -> Result<Option<String>, Error> {
        self.lock(txn, key, mode, Wait::NoWait)
    }

    fn waiting(
        &self,
        txn: &mut dyn Txn,
        key: &str,
        mode: LockMode,
    ) -> Result<Option<String>, Error> {
        self.lock(txn, key, mode, Wait::Until(Instant::now() + PATIENCE))
    }

    /// Inserts a child of `parent` if that exists, as `rows` does: one lock call for parent and child.
    fn insert(&self, server: usize, child: &str, parent: &str) -> Result<bool, Error> {
        let mut txn = begin(&self.servers[server]);
        let own = Key::new(self.children, child.as_bytes());
        let requests = [
            LockRequest {
                key: Key::new(self.parents, parent.as_bytes()),
                mode: LockMode::KeyShare,
            },
            LockRequest {
                key: own,
                mode: LockMode::Exclusive,
            },
        ];
        let mut exists = false;
        let wait = Wait::Until(Instant::now() + PATIENCE);
        txn.lock(&requests, wait, &mut |i, locked| {
            if i == 0 {
                exists = locked.value.is_some();
            }
        })?;
        if exists {
            txn.put(own, parent.as_bytes(), Check::Locked)?;
            txn.commit()?;
        }
        Ok(exists)
    }

    /// Removes `parent` unless it has children.
    fn remove(&self, server: usize, parent: &str) -> Result<bool, Error> {
        let mut txn = begin(&self.servers[server]);
        if self
            .waiting(&mut *txn, parent, LockMode::Exclusive)?
            .is_none()
        {
            return Ok(false);
        }
        if self.children_of(&mut *txn, parent) > 0 {
            return Ok(false);
        }
        txn.delete(Key::new(self.parents, parent.as_bytes()), Check::Locked)?;
        txn.commit()?;
        Ok(true)
    }

    fn children_of(&self, txn: &mut dyn Txn, parent: &str) -> usize {
        let range = ScanRange {
            space: self.children,
            start: b"",
            end: None,
            reverse: false,
        };
        let mut found = 0;
        txn.scan(Read::CURRENT, &[range], usize::MAX, &mut |_, _, value| {
            found += usize::from(value == parent.as_bytes());
            ControlFlow::Continue(())
        })
        .unwrap();
        found
    }
}

#[test]
fn key_share_locks_exclude_exclusive_ones_only_in_either_order_on_either_server() {
    let f = Fixture::on(AnyCluster::start());
    let modes = [
        LockMode::KeyShare,
        LockMode::Share,
        LockMode::Update,
        LockMode::Exclusive,
    ];
    for (held_on, asked_on) in [(0, 0), (0, 1)] {
        for (held, asked) in modes
            .iter()
            .flat_map(|m| [(LockMode::KeyShare, *m), (*m, LockMode::KeyShare)])
        {
            let mut holder = begin(&f.servers[held_on]);
            f.waiting(&mut *holder, "p", held).unwrap();
            let mut other = begin(&f.servers[asked_on]);
            let granted = f.now(&mut *other, "p", asked);
            assert_eq!(
                granted.is_ok(),
                held.compatible(asked),
                "{held:?} {asked:?}: {granted:?}"
            );
            if let Ok(value) = granted {
                assert_eq!(value.as_deref(), Some("0"));
            }
            holder.rollback();
            other.rollback();
        }
    }
}

#[test]
fn thirty_two_transactions_of_two_servers_have_one_parent_at_a_time() {
    let f = Fixture::on(AnyCluster::start());
    let mut open: Vec<_> = (0..32).map(|n| begin(&f.servers[n % 2])).collect();
    let began = Instant::now();
    for txn in &mut open {
        // Two servers may have given the same slot: then the second waits for the first, which is ended here.
        if f.now(&mut **txn, "p", LockMode::KeyShare).is_err() {
            let other = std::mem::replace(txn, begin(&f.servers[0]));
            other.rollback();
        }
    }
    assert!(began.elapsed() < PATIENCE);
    let mut deleter = begin(&f.servers[1]);
    let refused = f.now(&mut *deleter, "p", LockMode::Exclusive);
    assert!(matches!(refused, Err(Error::LockBusy)), "{refused:?}");
    // The other parent is free.
    f.now(&mut *deleter, "q", LockMode::Exclusive).unwrap();
}

#[test]
fn a_child_costs_a_timestamp_and_two_steps_and_a_deleter_one_more() {
    let f = Fixture::on(AnyCluster::start());
    f.insert(0, "warm", "p").unwrap();
    let before = f.engines[0].request_counts();
    assert!(f.insert(0, "c", "p").unwrap());
    let cost = f.engines[0].request_counts().since(&before);
    assert_eq!((cost.timestamps, cost.rounds), (1, 2), "{cost:?}");
    let before = f.engines[0].request_counts();
    assert!(f.remove(0, "q").unwrap());
    // Lock, guards, scan at a new timestamp, commit.
    let cost = f.engines[0].request_counts().since(&before);
    assert_eq!((cost.timestamps, cost.rounds), (2, 4), "{cost:?}");
}

#[test]
fn a_parent_that_is_being_inserted_is_waited_for() {
    let f = Fixture::on(AnyCluster::start());
    let mut inserter = begin(&f.servers[0]);
    assert_eq!(
        f.waiting(&mut *inserter, "new", LockMode::Exclusive)
            .unwrap(),
        None
    );
    inserter
        .put(Key::new(f.parents, b"new"), b"1", Check::Locked)
        .unwrap();
    let refused = f.now(&mut *begin(&f.servers[1]), "new", LockMode::KeyShare);
    assert!(matches!(refused, Err(Error::LockBusy)), "{refused:?}");
    std::thread::scope(|scope| {
        let child = scope.spawn(|| f.insert(1, "c", "new"));
        std::thread::sleep(Duration::from_millis(50));
        inserter.commit().unwrap();
        assert!(child.join().unwrap().unwrap());
    });
    // An absent one stays absent as long as it is locked.
    let mut child = begin(&f.servers[0]);
    assert_eq!(
        f.now(&mut *child, "none", LockMode::KeyShare).unwrap(),
        None
    );
    let refused = f.now(&mut *begin(&f.servers[1]), "none", LockMode::Exclusive);
    assert!(matches!(refused, Err(Error::LockBusy)), "{refused:?}");
}

#[test]
fn a_child_waits_for_a_deleter_and_learns_what_it_did() {
    let f = Fixture::on(AnyCluster::start());
    for commits in [false, true] {
        let mut deleter = begin(&f.servers[0]);
        f.waiting(&mut *deleter, "q", LockMode::Exclusive).unwrap();
        deleter
            .delete(Key::new(f.parents, b"q"), Check::Locked)
            .unwrap();
        std::thread::scope(|scope| {
            let child = scope.spawn(|| f.insert(1, "c", "q"));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!child.is_finished());
            if commits {
                deleter.commit().unwrap();
            } else {
                deleter.rollback();
            }
            assert_eq!(child.join().unwrap().unwrap(), !commits);
        });
        let mut cleaner = begin(&f.servers[0]);
        let child = Key::new(f.children, b"c");
        cleaner.delete(child, Check::Blind).unwrap();
        cleaner.commit().unwrap();
    }
}

/// The locks of either side vanish, as after a change of a leader: one of the two is refused.
#[test]
fn a_guard_that_vanished_is_noticed_by_the_commit() {
    for child_first in [true, false] {
        let f = Fixture::on(AnyCluster::commanded());
        let mut child = begin(&f.servers[0]);
        let mut deleter = begin(&f.servers[1]);
        let lock_child = |child: &mut dyn Txn| f.waiting(child, "q", LockMode::KeyShare).unwrap();
        let lock_deleter = |deleter: &mut dyn Txn| {
            f.waiting(deleter, "q", LockMode::Exclusive).unwrap();
            deleter
                .delete(Key::new(f.parents, b"q"), Check::Locked)
                .unwrap();
        };
        if child_first {
            assert!(lock_child(&mut *child).is_some());
        } else {
            lock_deleter(&mut *deleter);
        }
        f.cluster.double().command("/forget-pessimistic-locks");
        let (done, other) = if child_first {
            lock_deleter(&mut *deleter);
            (deleter, child)
        } else {
            assert!(lock_child(&mut *child).is_some());
            let own = Key::new(f.children, b"c");
            child.put(own, b"q", Check::Blind).unwrap();
            (child, deleter)
        };
        done.commit().unwrap();
        let mut other = other;
        if child_first {
            let own = Key::new(f.children, b"c");
            other.put(own, b"q", Check::Blind).unwrap();
        }
        let refused = other.commit();
        assert!(matches!(refused, Err(Error::Conflict)), "{refused:?}");
    }
}

#[test]
fn many_parents_are_excluded_by_the_guards_of_their_space() {
    let f = Fixture::on(AnyCluster::commanded());
    let names: Vec<String> = (0..300).map(|n| format!("many{n:03}")).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "0")).collect();
    set(&f.servers[0], f.parents, &pairs);
    let mut deleter = begin(&f.servers[0]);
    let requests: Vec<LockRequest<'_>> = names
        .iter()
        .map(|name| LockRequest {
            key: Key::new(f.parents, name.as_bytes()),
            mode: LockMode::Exclusive,
        })
        .collect();
    let wait = Wait::Until(Instant::now() + PATIENCE);
    deleter.lock(&requests, wait, &mut |_, _| {}).unwrap();
    assert_eq!(f.cluster.double().locks().len(), 300 + 64);
    for parent in ["many000", "many299", "p"] {
        let refused = f.now(&mut *begin(&f.servers[1]), parent, LockMode::KeyShare);
        assert!(
            matches!(refused, Err(Error::LockBusy)),
            "{parent}: {refused:?}"
        );
    }
    // A transaction that has all guards may insert children itself.
    f.now(&mut *deleter, "q", LockMode::KeyShare).unwrap();
    deleter.rollback();
    f.now(&mut *begin(&f.servers[1]), "many000", LockMode::KeyShare)
        .unwrap();
}

/// Children are inserted and parents removed and inserted again on two servers: no child is without parent.
#[test]
fn no_child_loses_its_parent_in_races_of_two_servers() {
    let f = Fixture::on(AnyCluster::start());
    let (inserted, removed) = (AtomicU32::new(0), AtomicU32::new(0));
    let again = |e: &Error| matches!(e, Error::Conflict | Error::Deadlock | Error::LockTimeout);
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (f, inserted, removed) = (&f, &inserted, &removed);
            scope.spawn(move || {
                for n in 0..40 {
                    let parent = ["x", "y"][n % 2];
                    let child = format!("c{thread}-{n}");
                    let step = (n + thread) % 4;
                    let done = match step {
                        0 => f.remove(thread % 2, parent).map(|done| {
                            removed.fetch_add(u32::from(done), Ordering::Relaxed);
                        }),
                        1 => {
                            let mut txn = begin(&f.servers[thread % 2]);
                            let key = Key::new(f.parents, parent.as_bytes());
                            f.waiting(&mut *txn, parent, LockMode::Exclusive)
                                .and_then(|_| txn.put(key, b"0", Check::Locked))
                                .and_then(|()| txn.commit())
                                .map(drop)
                        }
                        2 => f.insert(thread % 2, &child, parent).map(|done| {
                            inserted.fetch_add(u32::from(done), Ordering::Relaxed);
                        }),
                        _ => {
                            let mut txn = begin(&f.servers[thread % 2]);
                            let gone = format!("c{}-{}", (thread + 1) % 4, n.saturating_sub(3));
                            txn.delete(Key::new(f.children, gone.as_bytes()), Check::Blind)
                                .and_then(|()| txn.commit())
                                .map(drop)
                        }
                    };
                    if let Err(e) = done {
                        assert!(again(&e), "{e:?}");
                    }
                }
            });
        }
    });
    let mut reader = begin(&f.servers[0]);
    for parent in ["x", "y"] {
        let mut exists = false;
        let keys = [Key::new(f.parents, parent.as_bytes())];
        reader
            .get(Read::CURRENT, &keys, &mut |_, value| {
                exists = value.is_some()
            })
            .unwrap();
        assert!(
            exists || f.children_of(&mut *reader, parent) == 0,
            "{parent}"
        );
    }
    assert!(inserted.into_inner() > 0);
}
