//! Starts on a full disk.

use crate::common::{all, get, options, set, stat, write};
use porpoise_base::disk::{Disk, MemDisk};
use porpoise_kv::{CounterId, Engine, Error, Resource, SpaceSpec};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn filled(disk: &MemDisk, rows: u32) -> Arc<KvMem> {
    let engine = KvMem::open(KvMemOptions {
        checkpoint_bytes: u64::MAX,
        ..options(disk)
    })
    .unwrap();
    for n in 0..rows {
        set(&engine, &format!("k{n}"), &"v".repeat(300)).unwrap();
    }
    engine
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Full(Resource::Disk))
}

fn until_written(engine: &KvMem) {
    let end = Instant::now() + Duration::from_secs(20);
    while let Err(error) = set(engine, "after", "1") {
        assert!(is_full(&error), "{error}");
        assert!(Instant::now() < end, "writes are still refused");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn on_a_full_disk_reads_are_served_and_writes_refused() {
    for seed in 0..10 {
        let disk = MemDisk::new();
        let engine = filled(&disk, 40);
        let after = disk.after_power_cut(seed);
        drop(engine);
        after.set_capacity(Some(after.used()));
        let open = || {
            KvMem::open(KvMemOptions {
                // No checkpoint makes room here.
                checkpoint_bytes: u64::MAX,
                segment_bytes: 1 << 20,
                ..options(&after)
            })
            .unwrap()
        };
        for _ in 0..2 {
            let engine = open();
            assert_eq!(all(&engine).len(), 40);
            assert!(is_full(&write(&engine, &[("a", Some("1"))]).unwrap_err()));
            assert!(is_full(
                &engine.reserve_ids(CounterId(9), 1, 1).unwrap_err()
            ));
            let spaces = engine.create_spaces(&[SpaceSpec::default()]);
            assert!(is_full(&spaces.unwrap_err()));
            assert_eq!(stat(&engine, "log_full"), 1);
            engine.verify().unwrap();
            engine.shutdown().unwrap();
        }
        let engine = open();
        after.set_capacity(None);
        until_written(&engine);
        drop(engine);
        let engine = open();
        assert_eq!(all(&engine).len(), 41);
        assert_eq!(get(&engine, "after").as_deref(), Some("1"));
    }
}

/// With many segments and a reserve, the checkpoint at the start removes segments and so frees
/// space.
#[test]
fn a_checkpoint_at_the_start_makes_room() {
    let disk = MemDisk::new();
    let engine = filled(&disk, 200);
    engine.checkpoint().unwrap();
    for n in 0..200 {
        set(&engine, &format!("k{n}"), &"w".repeat(300)).unwrap();
    }
    let after = disk.after_power_cut(1);
    drop(engine);
    let segments = |disk: &MemDisk| {
        let names = disk.list(Path::new("/data")).unwrap();
        names.iter().filter(|n| n.starts_with("log-0")).count()
    };
    assert!(segments(&after) > 3);
    // Temporary files, which a start deletes as orphans, must not provide the free space.
    for name in after.list(Path::new("/data")).unwrap() {
        if name.ends_with(".tmp") {
            after.remove(&Path::new("/data").join(name)).unwrap();
        }
    }
    after.set_capacity(Some(after.used()));
    let engine = KvMem::open(KvMemOptions {
        checkpoint_bytes: u64::MAX,
        ..options(&after)
    })
    .unwrap();
    until_written(&engine);
    assert!(segments(&after) <= 3, "{}", segments(&after));
    drop(engine);
    let engine = KvMem::open(options(&after)).unwrap();
    assert_eq!(all(&engine).len(), 201);
    assert_eq!(get(&engine, "k7"), Some("w".repeat(300)));
}
