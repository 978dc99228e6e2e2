//! Checkpoints concurrent with commits that are not durable yet, and checkpoints that fail.

use crate::common::controlled_disk::ControlledDisk;
use crate::common::{SPACE, all, get, options, set};
use porpoise_base::disk::{Disk, MemDisk};
use porpoise_kv::{Check, Engine, Key, SpaceSpec};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn options_on(disk: &ControlledDisk) -> KvMemOptions {
    KvMemOptions {
        disk: Arc::new(disk.clone()),
        checkpoint_bytes: u64::MAX,
        ..options(&disk.disk)
    }
}

/// Waits until an empty group has confirmed the last group, so that the log thread is idle.
fn wait_for_idle_log() {
    std::thread::sleep(Duration::from_millis(350));
}

#[test]
fn a_checkpoint_keeps_the_chunks_of_a_commit_that_is_not_durable_yet() {
    let disk = ControlledDisk::new();
    let engine = KvMem::open(KvMemOptions {
        segment_bytes: 24 << 20,
        ..options_on(&disk)
    })
    .unwrap();
    set(&engine, "first", "1").unwrap();
    wait_for_idle_log();
    disk.block_syncs();
    let mut txn = engine.begin(Default::default()).unwrap();
    let value = [b'v'; 4096];
    for n in 0..2048u32 {
        let name = format!("k{n}");
        txn.put(Key::new(SPACE, name.as_bytes()), &value, Check::Blind)
            .unwrap();
    }
    let position = txn.commit().unwrap().position;
    disk.wait_blocked();
    // The first chunks are on disk, the commit is not.
    disk.pass_one();
    disk.wait_blocked();
    std::thread::scope(|s| {
        let checkpoint = s.spawn(|| engine.checkpoint());
        std::thread::sleep(Duration::from_millis(300));
        disk.unblock_syncs();
        checkpoint.join().unwrap().unwrap();
    });
    engine.wait_durable(position).unwrap();
    let after = disk.disk.after_power_cut(0);
    drop(engine);
    let engine = KvMem::open(options(&after)).unwrap();
    assert_eq!(all(&engine).len(), 2049);
}

#[test]
fn a_manifest_that_may_be_in_place_keeps_its_files() {
    let disk = ControlledDisk::new();
    let engine = KvMem::open(options_on(&disk)).unwrap();
    for n in 0..50 {
        set(&engine, &format!("k{n}"), "some value").unwrap();
    }
    disk.fail_syncs_of_manifest(true);
    engine.checkpoint().unwrap_err();
    let first = disk.disk.after_power_cut(u64::MAX);
    engine.checkpoint().unwrap_err();
    let disks: Vec<MemDisk> = (0..20).map(|s| disk.disk.after_power_cut(s)).collect();
    for disk in disks.iter().chain([&first]) {
        assert_eq!(all(&KvMem::open(options(disk)).unwrap()).len(), 50);
    }
    disk.fail_syncs_of_manifest(false);
    engine.checkpoint().unwrap();
    engine.checkpoint().unwrap();
    drop(engine);
    let engine = KvMem::open(options(&disk.disk)).unwrap();
    assert_eq!(all(&engine).len(), 50);
}

#[test]
fn segments_whose_removal_failed_leave_no_gap_in_the_log() {
    let disk = ControlledDisk::new();
    let engine = KvMem::open(options_on(&disk)).unwrap();
    let value = "v".repeat(2000);
    let fill = |round: u32| {
        for n in 0..30 {
            set(&engine, &format!("k{n}-{round}"), &value).unwrap();
        }
    };
    fill(0);
    disk.fail_removals_of(Some("log-0"));
    engine.checkpoint().unwrap_err();
    disk.fail_removals_of(None);
    fill(1);
    engine.checkpoint().unwrap();
    fill(2);
    drop(engine);
    let engine = KvMem::open(options(&disk.disk)).unwrap();
    assert_eq!(all(&engine).len(), 90);
    assert!(get(&engine, "k7-2").is_some());
}

#[test]
fn a_space_whose_drop_is_not_durable_is_whole_after_a_crash() {
    let disk = ControlledDisk::new();
    let engine = KvMem::open(options_on(&disk)).unwrap();
    let space = engine.create_spaces(&[SpaceSpec::default()]).unwrap()[0];
    let mut txn = engine.begin(Default::default()).unwrap();
    txn.put(Key::new(space, b"k"), b"v", Check::Blind).unwrap();
    engine.wait_durable(txn.commit().unwrap().position).unwrap();
    wait_for_idle_log();
    disk.block_syncs();
    std::thread::scope(|s| {
        let dropping = s.spawn(|| engine.drop_spaces(&[space]));
        disk.wait_blocked();
        let checkpoint = s.spawn(|| engine.checkpoint());
        std::thread::sleep(Duration::from_millis(300));
        let after = disk.disk.synced();
        disk.unblock_syncs();
        checkpoint.join().unwrap().unwrap();
        dropping.join().unwrap().unwrap();
        let engine = KvMem::open(options(&after)).unwrap();
        assert_eq!(engine.spaces().unwrap().len(), 1);
        let mut txn = engine.begin(Default::default()).unwrap();
        let mut found = false;
        let read = porpoise_kv::Read::SNAPSHOT;
        txn.get(read, &[Key::new(space, b"k")], &mut |_, v| {
            found = v.is_some()
        })
        .unwrap();
        assert!(found, "an unacknowledged drop has taken effect in part");
    });
}

#[test]
fn no_file_is_removed_before_the_name_of_the_manifest_is_synced() {
    let disk = MemDisk::new();
    let engine = KvMem::open(KvMemOptions {
        checkpoint_bytes: u64::MAX,
        ..options(&disk)
    })
    .unwrap();
    for n in 0..200 {
        set(&engine, &format!("k{n}"), &"some value".repeat(40)).unwrap();
    }
    let dir = Path::new("/data");
    let files = || -> BTreeSet<PathBuf> {
        let names = disk.list(dir).unwrap().into_iter();
        names.map(|name| dir.join(name)).collect()
    };
    let (before, seen) = (files(), Arc::new(Mutex::new(Vec::new())));
    let notes = seen.clone();
    disk.watch(Some(Arc::new(move |_, path: &Path| {
        notes.lock().unwrap().push(path.to_owned());
    })));
    engine.checkpoint().unwrap();
    disk.watch(None);
    let after = files();
    let seen = seen.lock().unwrap();
    let named = seen.iter().rposition(|path| path.ends_with("MANIFEST"));
    let behind = &seen[named.unwrap() + 1..];
    let synced = behind.iter().position(|path| path == dir).unwrap();
    let gone: Vec<&PathBuf> = before.difference(&after).collect();
    assert!(gone.len() > 1, "{gone:?}");
    for path in gone {
        let at = seen.iter().rposition(|p| p == path).unwrap();
        assert!(
            at > named.unwrap() + synced,
            "{path:?} was removed too early"
        );
    }
}
