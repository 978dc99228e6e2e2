//! Corruption, failing syncs, full disks, and two servers on one directory.

use crate::common::{all, get, options, set, stat, write};
use parking_lot::Mutex;
use porpoise_base::disk::{Disk, MemDisk};
use porpoise_kv::{CommitPosition, DurableListener, Engine, Error, Resource};
use porpoise_kv_mem::KvMem;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn files(disk: &MemDisk, prefix: &str) -> Vec<String> {
    let mut names = disk.list(Path::new("/data")).unwrap();
    names.retain(|name| name.starts_with(prefix));
    names
}

fn refused(disk: &MemDisk, names: &str) {
    match KvMem::open(options(disk)).map(|_| ()) {
        Err(Error::Corrupt(what)) => assert!(what.contains(names), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_flipped_bit_in_the_middle_of_the_log_stops_the_start() {
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    for n in 0..20 {
        set(&engine, &format!("k{n}"), "some value").unwrap();
    }
    drop(engine);
    let segment = files(&disk, "log-0").pop().unwrap();
    let path = Path::new("/data").join(&segment);
    for offset in [20, 200, 700, 1500] {
        let broken = disk.after_power_cut(0);
        broken.flip_bit(&path, offset, 3).unwrap();
        refused(&broken, &segment);
        // Nothing was changed by the attempt.
        broken.flip_bit(&path, offset, 3).unwrap();
        assert_eq!(all(&KvMem::open(options(&broken)).unwrap()).len(), 20);
    }
}

#[test]
fn an_empty_group_confirms_the_last_group() {
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    set(&engine, "a", "first").unwrap();
    std::thread::sleep(Duration::from_millis(400));
    set(&engine, "b", "last").unwrap();
    let before = stat(&engine, "log_syncs_total");
    std::thread::sleep(Duration::from_millis(400));
    assert!(
        stat(&engine, "log_syncs_total") > before,
        "no empty group was synced"
    );
    let segment = files(&disk, "log-0").pop().unwrap();
    let path = Path::new("/data").join(&segment);
    let bytes = disk.open(&path).unwrap().read_all().unwrap();
    let at = bytes.windows(4).position(|w| w == b"last").unwrap();
    let broken = disk.after_power_cut(0);
    drop(engine);
    broken.flip_bit(&path, at, 0).unwrap();
    refused(&broken, &segment);
}

#[test]
fn a_flipped_bit_in_a_checkpoint_or_manifest_stops_the_start() {
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    for n in 0..50 {
        set(&engine, &format!("k{n}"), "some value").unwrap();
    }
    engine.shutdown().unwrap();
    drop(engine);
    let checkpoint = files(&disk, "ckpt").pop().unwrap();
    for name in [checkpoint.as_str(), "MANIFEST"] {
        let path = Path::new("/data").join(name);
        let len = disk.open(&path).unwrap().len().unwrap() as usize;
        for offset in [0, 10, len / 2, len - 1] {
            let broken = disk.after_power_cut(0);
            broken.flip_bit(&path, offset, 1).unwrap();
            refused(&broken, name);
        }
    }
    let missing = disk.after_power_cut(0);
    missing
        .remove(&Path::new("/data").join(&checkpoint))
        .unwrap();
    assert!(
        matches!(KvMem::open(options(&missing)), Err(Error::Corrupt(e)) if e.contains(&checkpoint))
    );
}

#[test]
fn a_second_server_on_the_directory_is_refused() {
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    match KvMem::open(options(&disk)).map(|_| ()) {
        Err(Error::Io(what)) => assert!(what.contains("/data") && what.contains("in use")),
        other => panic!("{other:?}"),
    }
    engine.shutdown().unwrap();
    KvMem::open(options(&disk)).unwrap();
}

#[test]
fn a_real_directory_is_kept_and_locked() {
    let dir = tempfile::tempdir().unwrap();
    let real = || porpoise_kv_mem::KvMemOptions {
        dir: Some(dir.path().join("data")),
        segment_bytes: 1 << 20,
        ..Default::default()
    };
    let engine = KvMem::open(real()).unwrap();
    set(&engine, "a", "1").unwrap();
    assert!(KvMem::open(real()).is_err());
    drop(engine);
    assert_eq!(
        get(&KvMem::open(real()).unwrap(), "a").as_deref(),
        Some("1")
    );
}

#[derive(Default)]
struct Notifications(Mutex<(CommitPosition, Option<String>)>);

impl DurableListener for Notifications {
    fn durable(&self, position: CommitPosition) {
        self.0.lock().0 = position;
    }
    fn failed(&self, error: &Error) {
        self.0.lock().1 = Some(error.to_string());
    }
}

/// The log also syncs on its own, for instance when it reserves timestamps. If that sync fails
/// first, no commit has an unknown outcome, so the test is repeated.
#[test]
fn after_a_failed_sync_outcomes_are_unknown_reads_continue_and_writes_are_refused() {
    assert!((0..50).any(|_| commit_during_failing_sync()));
}

/// Returns false if another sync failed before that of the commit.
fn commit_during_failing_sync() -> bool {
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    let notified = Arc::new(Notifications::default());
    engine.subscribe(notified.clone());
    let position = write(&engine, &[("a", Some("1"))]).unwrap();
    engine.wait_durable(position).unwrap();
    while notified.0.lock().0 < position {
        std::thread::yield_now();
    }
    disk.fail_syncs(true);
    let lost = match write(&engine, &[("a", Some("2"))]) {
        Err(Error::ReadOnly(_)) => return false,
        written => written.unwrap(),
    };
    assert!(matches!(
        engine.wait_durable(lost),
        Err(Error::UnknownOutcome(_))
    ));
    let notified = notified.0.lock().clone();
    assert!(notified.0 < lost && notified.1.is_some());
    assert_eq!(
        get(&engine, "a").as_deref(),
        Some("1"),
        "the durable position stays"
    );
    let refused = write(&engine, &[("b", Some("1"))]);
    assert!(matches!(refused, Err(Error::ReadOnly(_))), "{refused:?}");
    disk.fail_syncs(false);
    assert!(
        set(&engine, "b", "1").is_err(),
        "a later sync proves nothing"
    );
    drop(engine);
    let after = disk.after_power_cut(3);
    let engine = KvMem::open(options(&after)).unwrap();
    assert!(matches!(get(&engine, "a").as_deref(), Some("1" | "2")));
    set(&engine, "a", "3").unwrap();
    true
}

#[test]
fn a_full_disk_refuses_before_the_commit_point_and_recovers_when_there_is_room() {
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    set(&engine, "first", "1").unwrap();
    disk.set_capacity(Some(disk.used() + (1 << 14)));
    let mut acknowledged = 0;
    let value = "v".repeat(500);
    let refused = loop {
        match set(&engine, &format!("k{acknowledged:04}"), &value) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 10_000);
    };
    assert!(
        matches!(refused, Error::Full(Resource::Disk)),
        "{refused:?}"
    );
    assert_eq!(
        all(&engine).len(),
        acknowledged + 1,
        "a refused commit left rows"
    );
    assert_eq!(get(&engine, "first").as_deref(), Some("1"));
    disk.set_capacity(None);
    let began = Instant::now();
    while set(&engine, "again", "1").is_err() {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "writes are still refused"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(engine);
    let engine = KvMem::open(options(&disk.after_power_cut(0))).unwrap();
    assert_eq!(all(&engine).len(), acknowledged + 2);
}
