//! Annotations of commits: order, restarts, checkpoints, chunks, prepared transactions, release.

use porpoise_kv::{Annotation, Check, Engine, Key, SpaceId};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SPACE: SpaceId = SpaceId(7);

fn open(dir: &Path) -> Arc<KvMem> {
    let options = KvMemOptions {
        dir: Some(dir.to_owned()),
        segment_bytes: 1 << 16,
        checkpoint_bytes: u64::MAX,
        annotations: true,
        ..KvMemOptions::default()
    };
    KvMem::open(options).unwrap()
}

fn commit(engine: &KvMem, key: &[u8], annotation: &[u8]) {
    let mut txn = engine.begin(Default::default()).unwrap();
    txn.put(Key::new(SPACE, key), b"v", Check::Blind).unwrap();
    if !annotation.is_empty() {
        txn.annotate(annotation.to_vec()).unwrap();
    }
    let commit = txn.commit().unwrap();
    engine.wait_durable(commit.position).unwrap();
}

fn texts(found: &[Annotation]) -> Vec<Vec<u8>> {
    assert!(found.is_sorted_by(|a, b| a.commit < b.commit));
    found.iter().map(|a| a.bytes.clone()).collect()
}

fn segments(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|n| n.ends_with(".seg")).count()
}

#[test]
fn annotations_come_in_commit_order_and_those_not_released_again_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut reader = engine.annotations(0).unwrap();
    assert_eq!(reader.read(1000).unwrap(), []);
    commit(&engine, b"a", b"one");
    commit(&engine, b"b", b"");
    commit(&engine, b"c", b"two");
    let found = reader.read(1000).unwrap();
    assert_eq!(texts(&found), [b"one".to_vec(), b"two".to_vec()]);
    let position = reader.position();
    commit(&engine, b"d", b"three");
    assert_eq!(texts(&reader.read(1000).unwrap()), [b"three"]);
    reader.release(position);
    drop(reader);
    drop(engine);
    let engine = open(dir.path());
    engine.checkpoint().unwrap();
    let mut reader = engine.annotations(position).unwrap();
    commit(&engine, b"e", b"four");
    let found = reader.read(1000).unwrap();
    assert_eq!(texts(&found), [b"three".to_vec(), b"four".to_vec()]);
    engine.verify().unwrap();
}

#[test]
fn segments_stay_until_their_annotations_are_released() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut reader = engine.annotations(0).unwrap();
    let long = vec![b'x'; 30_000];
    for n in 0..20u32 {
        commit(&engine, &n.to_be_bytes(), &long);
    }
    engine.checkpoint().unwrap();
    let kept = segments(dir.path());
    assert!(kept >= 10, "{kept} segments");
    let mut count = 0;
    loop {
        let found = reader.read(100_000).unwrap();
        if found.is_empty() {
            break;
        }
        assert!(found.iter().all(|a| a.bytes == long));
        count += found.len();
    }
    assert_eq!(count, 20);
    reader.release(reader.position());
    commit(&engine, b"k", b"");
    engine.checkpoint().unwrap();
    assert!(segments(dir.path()) <= 2);
}

#[test]
fn an_annotation_larger_than_a_chunk_comes_back_whole_beside_a_transaction_that_fails() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let long: Vec<u8> = (0..5_000_000u32).map(|n| (n >> 3) as u8).collect();
    let mut reader = engine.annotations(0).unwrap();
    // It writes chunks, and then its space is gone.
    let spaces = engine.create_spaces(&[Default::default()]).unwrap();
    let mut failing = engine.begin(Default::default()).unwrap();
    let key = Key::new(spaces[0], b"k");
    failing.put(key, b"v", Check::Blind).unwrap();
    failing.annotate(long.clone()).unwrap();
    engine.drop_spaces(&spaces).unwrap();
    failing.commit().unwrap_err();
    commit(&engine, b"a", &long);
    let found = reader.read(1).unwrap();
    assert_eq!(texts(&found), [long.as_slice()]);
    commit(&engine, b"b", b"small");
    assert_eq!(texts(&reader.read(1000).unwrap()), [b"small"]);
    let end = reader.position();
    reader.wait(Duration::from_millis(1));
    assert_eq!(reader.read(1000).unwrap(), []);
    assert!(reader.position() >= end);
    drop((reader, engine));
    let engine = open(dir.path());
    let found = engine.annotations(0).unwrap().read(usize::MAX).unwrap();
    assert_eq!(texts(&found), [long, b"small".to_vec()]);
}

#[test]
fn a_prepared_transaction_has_its_annotation_when_it_is_committed_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let prepare = |name: &[u8], annotation: &[u8]| {
        let mut txn = engine.begin(Default::default()).unwrap();
        txn.put(Key::new(SPACE, name), b"v", Check::Blind).unwrap();
        txn.annotate(annotation.to_vec()).unwrap();
        txn.prepare(name, b"").unwrap()
    };
    let long = vec![b'p'; 3_000_000];
    let (mut first, mut second) = (prepare(b"1", b"first"), prepare(b"2", b"second"));
    let third = prepare(b"3", &long);
    commit(&engine, b"a", b"between");
    let mut reader = engine.annotations(0).unwrap();
    second.rollback().unwrap();
    let done = first.commit().unwrap();
    engine.wait_durable(done.position).unwrap();
    let found = reader.read(usize::MAX).unwrap();
    assert_eq!(texts(&found), [b"between".to_vec(), b"first".to_vec()]);
    let position = reader.position();
    drop((reader, first, second, third, engine));
    let engine = open(dir.path());
    let mut third = engine.take_restored().unwrap().remove(0);
    let done = third.commit().unwrap();
    engine.wait_durable(done.position).unwrap();
    let mut reader = engine.annotations(position).unwrap();
    assert_eq!(texts(&reader.read(usize::MAX).unwrap()), [long]);
}

#[test]
fn a_wait_ends_when_a_commit_is_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut reader = engine.annotations(0).unwrap();
    reader.read(1000).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            commit(&engine, b"a", b"late");
        });
        let until = std::time::Instant::now() + Duration::from_secs(20);
        let mut found = Vec::new();
        while found.is_empty() && std::time::Instant::now() < until {
            reader.wait(Duration::from_secs(20));
            found = reader.read(1000).unwrap();
        }
        assert_eq!(texts(&found), [b"late"]);
    });
}

#[test]
fn an_engine_that_keeps_none_refuses_them() {
    let dir = tempfile::tempdir().unwrap();
    let engine = KvMem::open(KvMemOptions {
        dir: Some(dir.path().to_owned()),
        ..KvMemOptions::default()
    });
    let engine = engine.unwrap();
    assert!(!engine.capabilities().annotations);
    assert!(engine.annotations(0).is_err());
    let mut txn = engine.begin(Default::default()).unwrap();
    assert!(txn.annotate(b"x".to_vec()).is_err());
}

/// Whether a new snapshot shows a value for a key.
fn sees(engine: &KvMem, key: &[u8]) -> bool {
    let mut txn = engine.begin(Default::default()).unwrap();
    let mut found = false;
    let keys = [Key::new(SPACE, key)];
    txn.get(porpoise_kv::Read::SNAPSHOT, &keys, &mut |_, value| {
        found = value.is_some();
    })
    .unwrap();
    found
}

#[test]
fn commits_that_wait_for_an_acknowledgement_are_neither_durable_nor_seen() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let put = |key: &[u8], annotation: &[u8]| {
        let mut txn = engine.begin(Default::default()).unwrap();
        txn.put(Key::new(SPACE, key), b"v", Check::Blind).unwrap();
        if !annotation.is_empty() {
            txn.annotate(annotation.to_vec()).unwrap();
        }
        txn.commit().unwrap().position
    };
    let sees = |key: &[u8]| sees(&engine, key);
    let mut reader = engine.annotations(0).unwrap();
    engine.require_acknowledgement(true).unwrap();
    // A commit without an annotation does not wait.
    engine.wait_durable(put(b"a", b"")).unwrap();
    let first = put(b"b", b"one");
    let second = put(b"c", b"two");
    let plain = put(b"d", b"");
    // The waiting commits are on disk.
    let found = loop {
        let found = reader.read(1000).unwrap();
        if !found.is_empty() {
            break found;
        }
        reader.wait(Duration::from_millis(20));
    };
    assert!(engine.durable_position() < first && !sees(b"b"));
    engine.acknowledge(found[0].commit);
    engine.wait_durable(first).unwrap();
    assert!(engine.durable_position() < second && sees(b"b") && !sees(b"c") && !sees(b"d"));
    engine.acknowledge(second.0);
    engine.wait_durable(plain).unwrap();
    assert!(sees(b"d"));
    let third = put(b"e", b"three");
    engine.require_acknowledgement(false).unwrap();
    engine.wait_durable(third).unwrap();
}

/// A checkpoint contains the commits that are on disk, acknowledged or not: recovery skips the log before its position.
#[test]
fn a_checkpoint_keeps_commits_that_wait_for_an_acknowledgement() {
    let (dir, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    {
        let engine = open(dir.path());
        let mut reader = engine.annotations(0).unwrap();
        engine.require_acknowledgement(true).unwrap();
        for (number, key) in [b"first", b"other"].into_iter().enumerate() {
            let mut txn = engine.begin(Default::default()).unwrap();
            txn.put(Key::new(SPACE, key), b"v", Check::Blind).unwrap();
            txn.annotate(key.to_vec()).unwrap();
            txn.commit().unwrap();
            // An annotation is read once its commit is on disk.
            while reader.read(1000).unwrap().is_empty() {
                reader.wait(Duration::from_millis(20));
            }
            if number == 0 {
                engine.checkpoint().unwrap();
                for file in std::fs::read_dir(dir.path()).unwrap() {
                    let file = file.unwrap();
                    std::fs::copy(file.path(), copied.path().join(file.file_name())).unwrap();
                }
            }
        }
        assert!(!sees(&engine, b"first") && !sees(&engine, b"other"));
        engine.abandon_acknowledgement();
        engine.shutdown().unwrap();
    }
    // After a crash that follows the checkpoint, and after the checkpoint of an orderly end.
    assert!(sees(&open(copied.path()), b"first"));
    let engine = open(dir.path());
    assert!(sees(&engine, b"first") && sees(&engine, b"other"));
}
