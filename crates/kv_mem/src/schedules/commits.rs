//! Schedules of commits: from the commit point to the deferred reply.

use super::{explore, in_memory, key, on_disk};
use crate::KvMem;
use porpoise_base::disk::{Disk, MemDisk};
use porpoise_base::sync::{Condvar, Mutex, thread};
use porpoise_kv::{
    Check, CommitPosition, DurableListener, Engine, Error, LockMode, LockRequest, Read, TxnOptions,
    Wait,
};
use std::path::Path;
use std::sync::Arc;

/// Commits a value for some keys. Returns the commit position, which may not be durable yet.
fn write(engine: &KvMem, names: &[&str], value: &str) -> CommitPosition {
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    for name in names {
        txn.put(key(name), value.as_bytes(), Check::Blind).unwrap();
    }
    txn.commit().unwrap().position
}

/// Reads a value, and the position that a reply with it waits for.
fn read(engine: &KvMem, how: Read, name: &str) -> (Option<String>, CommitPosition) {
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    let mut found = None;
    txn.get(how, &[key(name)], &mut |_, value| {
        found = value.map(|v| String::from_utf8_lossy(v).into_owned());
    })
    .unwrap();
    (found, txn.commit().unwrap().position)
}

/// As [`read`], with a locking read.
fn lock(engine: &KvMem, name: &str) -> (Option<String>, CommitPosition) {
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    let mut found = None;
    let request = LockRequest {
        key: key(name),
        mode: LockMode::KeyShare,
    };
    txn.lock(&[request], Wait::Skip, &mut |_, locked| {
        let text = |v: &[u8]| String::from_utf8_lossy(v).into_owned();
        found = locked.value.map(text);
    })
    .unwrap();
    (found, txn.commit().unwrap().position)
}

/// Whether the synced part of the disk, which survives a power cut, contains a value.
fn survives(disk: &MemDisk, value: &str) -> bool {
    let synced = disk.synced();
    let names = synced.list(Path::new("/data")).unwrap();
    names.iter().any(|name| {
        let file = synced.open(&Path::new("/data").join(name)).unwrap();
        let bytes = file.read_all().unwrap();
        bytes.windows(value.len()).any(|w| w == value.as_bytes())
    })
}

/// Deferred replies of a server, in the order of their requests. Each is sent when the durable
/// position has reached its commit position.
#[derive(Default)]
struct DeferredReplies {
    state: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    /// The newest position that the listener was notified of.
    notified: u64,
    failed: bool,
}

impl DurableListener for DeferredReplies {
    fn durable(&self, position: CommitPosition) {
        let mut state = self.state.lock();
        state.notified = state.notified.max(position.0);
        self.changed.notify_all();
    }

    fn failed(&self, _: &Error) {
        self.state.lock().failed = true;
        self.changed.notify_all();
    }
}

impl DeferredReplies {
    /// Sleeps until a position is durable, as a worker does: it reads the engine's durable position
    /// before it sleeps, and waits for a notification.
    fn wait(&self, engine: &KvMem, position: CommitPosition) {
        let mut state = self.state.lock();
        while state.notified < position.0 && engine.durable_position() < position {
            assert!(!state.failed);
            self.changed.wait(&mut state);
        }
    }
}

#[test]
fn nothing_is_acknowledged_before_it_is_on_disk() {
    explore(400, || {
        let disk = MemDisk::new();
        let engine = on_disk(&disk);
        let writers: Vec<_> = ["red", "green"]
            .map(|colour| {
                let (engine, disk) = (engine.clone(), disk.clone());
                thread::spawn(move || {
                    for n in 0..2 {
                        let value = format!("{colour}-{n}");
                        let position = write(&engine, &["row"], &value);
                        engine.wait_durable(position).unwrap();
                        assert!(
                            survives(&disk, &value),
                            "{value} was acknowledged before it was on disk"
                        );
                    }
                })
            })
            .into();
        let readers: Vec<_> = [Some(Read::SNAPSHOT), Some(Read::CURRENT), None]
            .map(|how| {
                let (engine, disk) = (engine.clone(), disk.clone());
                thread::spawn(move || {
                    let (value, position) = match how {
                        Some(how) => read(&engine, how, "row"),
                        None => lock(&engine, "row"),
                    };
                    engine.wait_durable(position).unwrap();
                    if let Some(value) = value {
                        assert!(
                            survives(&disk, &value),
                            "{value} was shown before it was on disk"
                        );
                    }
                })
            })
            .into();
        for thread in writers.into_iter().chain(readers) {
            thread.join().unwrap();
        }
    });
}

#[test]
fn every_deferred_reply_is_sent_after_its_sync_and_in_order() {
    explore(400, || {
        let disk = MemDisk::new();
        let engine = on_disk(&disk);
        let replies = Arc::new(DeferredReplies::default());
        engine.subscribe(replies.clone());
        let connections: Vec<_> = ["red", "green"]
            .map(|colour| {
                let (engine, replies, disk) = (engine.clone(), replies.clone(), disk.clone());
                thread::spawn(move || {
                    // Both requests run before the first reply is sent.
                    let values = [0, 1].map(|n| format!("{colour}-{n}"));
                    let positions = values.each_ref().map(|v| write(&engine, &[colour], v));
                    assert!(positions.is_sorted());
                    for (value, position) in values.iter().zip(positions) {
                        replies.wait(&engine, position);
                        assert!(
                            survives(&disk, value),
                            "the reply for {value} was sent before its sync"
                        );
                    }
                })
            })
            .into();
        for connection in connections {
            connection.join().unwrap();
        }
        engine.shutdown().unwrap();
    });
}

/// A commit of many keys is installed outside of the sequencer. Commits after it are published
/// when it is installed, even if no later commit comes.
#[test]
fn a_commit_behind_a_large_one_is_published() {
    explore(1000, || {
        let engine = in_memory();
        let replies = Arc::new(DeferredReplies::default());
        engine.subscribe(replies.clone());
        let large = {
            let (engine, replies) = (engine.clone(), replies.clone());
            thread::spawn(move || {
                let names: Vec<String> = (0..66).map(|n| format!("k{n:02}")).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let position = write(&engine, &names, "large");
                replies.wait(&engine, position);
            })
        };
        let small = {
            let (engine, replies) = (engine.clone(), replies.clone());
            thread::spawn(move || {
                let position = write(&engine, &["k65"], "small");
                replies.wait(&engine, position);
                let keys = ["k00", "k64", "k65"].map(key);
                let mut found = [false; 3];
                let mut txn = engine.begin(TxnOptions::default()).unwrap();
                txn.get(Read::SNAPSHOT, &keys, &mut |n, value| {
                    found[n] = value.is_some();
                })
                .unwrap();
                assert_eq!(found[0], found[1], "half of a commit is seen");
                assert!(found[2], "an acknowledged commit is not seen");
            })
        };
        large.join().unwrap();
        small.join().unwrap();
    });
}
