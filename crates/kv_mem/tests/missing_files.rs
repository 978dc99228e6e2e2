//! A store with missing or truncated files is refused, or opens without loss: it never opens with
//! acknowledged commits missing.

use crate::common::{all, options, set};
use porpoise_base::disk::{Disk, MemDisk};
use porpoise_kv::{Engine, Error};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

type Files = BTreeMap<String, Vec<u8>>;

const DIR: &str = "/data";

fn large(disk: &MemDisk) -> KvMemOptions {
    KvMemOptions {
        checkpoint_bytes: 1 << 30,
        ..options(disk)
    }
}

/// The files after a kill -9: everything written, synced or not.
fn files(disk: &MemDisk) -> Files {
    let dir = Path::new(DIR);
    let names = disk.list(dir).unwrap();
    names
        .into_iter()
        .map(|name| {
            let bytes = disk.open(&dir.join(&name)).unwrap().read_all().unwrap();
            (name, bytes)
        })
        .collect()
}

fn disk_with(files: &Files) -> MemDisk {
    let disk = MemDisk::new();
    for (name, bytes) in files {
        let file = disk.create(&Path::new(DIR).join(name)).unwrap();
        file.write_at(0, bytes).unwrap();
        file.sync_data().unwrap();
    }
    disk.sync_dir(Path::new(DIR)).unwrap();
    disk
}

/// Opens a store; the message if it is refused, else its rows.
fn open(files: &Files) -> Result<BTreeMap<String, String>, String> {
    let disk = disk_with(files);
    match KvMem::open(large(&disk)) {
        Ok(engine) => Ok(all(&engine)),
        Err(Error::Corrupt(message)) => {
            let mut after = self::files(&disk);
            after.remove("LOCK");
            let mut before = files.clone();
            before.remove("LOCK");
            assert!(after == before, "a refused start changed files");
            Err(message)
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn fill(engine: &KvMem, from: usize, to: usize) {
    let value = "v".repeat(700);
    for n in from..to {
        set(engine, &format!("key-{n:03}"), &value).unwrap();
    }
}

/// Waits until the head file records the durable position: it is written right after the commits
/// are acknowledged.
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(50));
}

/// A store with segments only, and one with a checkpoint and segments after
/// it, each as kill -9 leaves it.
fn stores() -> [(Files, usize); 2] {
    let disk = MemDisk::new();
    let engine = KvMem::open(large(&disk)).unwrap();
    fill(&engine, 0, 60);
    settle();
    let logged = files(&disk);
    engine.checkpoint().unwrap();
    fill(&engine, 60, 100);
    settle();
    let checkpointed = files(&disk);
    [(logged, 60), (checkpointed, 100)]
}

fn is_data(name: &str) -> bool {
    name.ends_with(".seg") || name.starts_with("ckpt-") || name == "MANIFEST" || name == "HEAD"
}

#[test]
fn every_combination_of_missing_files_is_refused() {
    for (store, rows) in stores() {
        assert_eq!(open(&store).unwrap().len(), rows);
        let names: Vec<&String> = store.keys().filter(|name| is_data(name)).collect();
        assert!((4..=10).contains(&names.len()), "{names:?}");
        for missing in 1_u32..1 << names.len() {
            let gone: BTreeSet<&String> = (0..names.len())
                .filter(|n| missing & 1 << n != 0)
                .filter_map(|n| names.get(n).copied())
                .collect();
            let mut left = store.clone();
            left.retain(|name, _| !gone.contains(name));
            match open(&left) {
                // Without any file the directory looks like a new one.
                Ok(rows) if gone.len() == names.len() => assert!(rows.is_empty()),
                Ok(rows) => panic!("{} rows without {gone:?}", rows.len()),
                Err(message) => {
                    let named = gone.iter().any(|name| message.contains(name.as_str()));
                    let after = message.contains("manifest") || message.contains("missing");
                    assert!(named || after, "{message} without {gone:?}");
                }
            }
        }
    }
}

#[test]
fn files_without_data_may_be_missing() {
    for (store, rows) in stores() {
        let mut left = store.clone();
        left.retain(|name, _| is_data(name));
        assert!(left.len() < store.len());
        assert_eq!(open(&left).unwrap().len(), rows);
    }
}

/// Wherever a file is truncated, commits acknowledged before the last entry of the head file are
/// never lost silently.
#[test]
fn a_truncated_file_is_refused_or_loses_nothing() {
    for (store, rows) in stores() {
        let (mut refused, mut harmless) = (0, 0);
        for (name, bytes) in store.iter().filter(|(name, _)| is_data(name)) {
            let step = if name == "HEAD" { 8 } else { 136 };
            for len in (0..bytes.len()).step_by(step) {
                let mut left = store.clone();
                left.insert(name.clone(), bytes.iter().copied().take(len).collect());
                match open(&left) {
                    Ok(found) => {
                        assert_eq!(found.len(), rows, "{name} cut at {len}");
                        harmless += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(refused > 100 && harmless > 0, "{refused}, {harmless}");
    }
}

/// Truncation at the end of each group: the log looks as if it ended there.
#[test]
fn a_log_truncated_at_a_group_is_refused_a_torn_tail_is_not() {
    let disk = MemDisk::new();
    let engine = KvMem::open(large(&disk)).unwrap();
    fill(&engine, 0, 8);
    settle();
    let store = files(&disk);
    let (name, bytes) = store.iter().rfind(|(n, _)| n.ends_with(".seg")).unwrap();
    let magic = 0x5052_4750_u32.to_le_bytes();
    let groups = bytes
        .chunks(8)
        .enumerate()
        .filter(|(_, b)| b.starts_with(&magic));
    let starts: Vec<usize> = groups.map(|(n, _)| n * 8).collect();
    assert!(starts.len() >= 9, "{starts:?}");
    for start in starts.iter().skip(1).take(8) {
        let mut left = store.clone();
        let cut = left.get_mut(name).unwrap();
        cut.iter_mut().skip(*start).for_each(|byte| *byte = 0);
        let message = open(&left).unwrap_err();
        assert!(
            message.contains(name) && message.contains("HEAD records"),
            "{message}"
        );
    }
}

/// The head file is durable after each segment switch and each checkpoint, so that a missing
/// file is detected after a power cut, too.
#[test]
fn after_a_power_cut_a_missing_segment_is_detected() {
    let disk = MemDisk::new();
    let engine = KvMem::open(large(&disk)).unwrap();
    for round in 0..3 {
        fill(&engine, round * 30, round * 30 + 30);
        let store = files(&disk.synced());
        let names: Vec<&String> = store.keys().filter(|n| n.ends_with(".seg")).collect();
        assert!(names.len() >= 2, "{names:?}");
        assert_eq!(open(&store).unwrap().len(), round * 30 + 30);
        for name in names.iter().copied().chain([&"HEAD".to_owned()]) {
            let mut left = store.clone();
            left.remove(name);
            let message = open(&left).unwrap_err();
            assert!(message.contains(name.as_str()), "{message}");
        }
        if round > 0 {
            let mut left = store.clone();
            left.remove("MANIFEST");
            assert!(open(&left).unwrap_err().contains("MANIFEST"));
        }
        engine.checkpoint().unwrap();
    }
}

#[test]
fn after_a_clean_shutdown_nothing_may_be_missing() {
    let disk = MemDisk::new();
    let engine = KvMem::open(large(&disk)).unwrap();
    fill(&engine, 0, 40);
    engine.shutdown().unwrap();
    drop(engine);
    let store = files(&disk.synced());
    assert_eq!(open(&store).unwrap().len(), 40);
    for name in store.keys().filter(|name| is_data(name)) {
        let mut left = store.clone();
        left.remove(name);
        let message = open(&left).unwrap_err();
        assert!(message.contains(name.as_str()), "{message}");
    }
}

#[test]
fn an_older_manifest_is_refused() {
    let disk = MemDisk::new();
    let engine = KvMem::open(large(&disk)).unwrap();
    fill(&engine, 0, 10);
    engine.checkpoint().unwrap();
    let older = files(&disk).remove("MANIFEST").unwrap();
    fill(&engine, 10, 20);
    engine.checkpoint().unwrap();
    let mut store = files(&disk);
    store.insert("MANIFEST".to_owned(), older);
    let message = open(&store).unwrap_err();
    assert!(
        message.contains("MANIFEST") && message.contains("checkpoint 2"),
        "{message}"
    );
}

#[test]
fn an_earlier_copy_of_all_files_but_the_head_file_is_refused() {
    let disk = MemDisk::new();
    let engine = KvMem::open(large(&disk)).unwrap();
    fill(&engine, 0, 10);
    settle();
    let earlier = files(&disk);
    fill(&engine, 10, 14);
    settle();
    let mut store = earlier;
    store.insert("HEAD".to_owned(), files(&disk).remove("HEAD").unwrap());
    assert!(open(&store).unwrap_err().contains("HEAD records"));
}
