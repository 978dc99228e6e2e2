//! Copies of an open store, stores rebuilt from them, and the log that an archive needs.

use crate::common::{all, options, set, write};
use porpoise_base::disk::{Disk, MemDisk};
use porpoise_kv::Engine;
use porpoise_kv_mem::{
    CommitCut, HotCopy, KvMem, KvMemOptions, LogCursor, LogGroup, StoreBuilder, records_until,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DIR: &str = "/data";

fn groups(copy: &mut HotCopy) -> Vec<LogGroup> {
    std::iter::from_fn(|| copy.log.next_group().unwrap()).collect()
}

/// Rebuilds a store on another disk, with the log up to a position. `None` if it ends too early.
fn rebuild(copy: &HotCopy, log: &[LogGroup], until: u64) -> Option<MemDisk> {
    let disk = MemDisk::new();
    let dir = Path::new(DIR);
    disk.create_dir(dir).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut builder = StoreBuilder::new(shared, dir, copy.manifest.as_deref()).unwrap();
    for (file, (name, bytes)) in copy.files.iter().zip(builder.files()) {
        assert_eq!((&file.name, file.bytes), (&name, bytes));
        let parts = (0..bytes.div_ceil(1000)).map(|n| file.read(n * 1000, 1000));
        assert_eq!(builder.put_file(&name, parts).unwrap(), bytes);
    }
    for group in log {
        let mut group = group.clone();
        let len = records_until(&group.records, group.start, until).unwrap();
        group.records.truncate(len);
        builder.put_group(&group).unwrap();
        // An overlap is passed over.
        builder.put_group(&group).unwrap();
    }
    builder.finish().ok()?;
    Some(disk)
}

fn opened(disk: &MemDisk) -> Arc<KvMem> {
    let engine = KvMem::open(options(disk)).unwrap();
    engine.verify().unwrap();
    engine
}

#[test]
fn a_copy_is_rebuilt_at_every_commit() {
    let disk = MemDisk::new();
    let engine = KvMem::open(KvMemOptions {
        checkpoint_bytes: 1 << 30,
        ..options(&disk)
    })
    .unwrap();
    let value = "v".repeat(700);
    for n in 0..40 {
        set(&engine, &format!("before-{n:02}"), &value).unwrap();
    }
    engine.checkpoint().unwrap();
    // The state after each commit, by the position of its end.
    let mut states: Vec<(u64, BTreeMap<String, String>)> =
        vec![(engine.log_position(), all(&engine))];
    for n in 0..60 {
        let (new, old) = (format!("after-{n:02}"), format!("before-{:02}", n % 40));
        let position = write(&engine, &[(&new, Some(&value)), (&old, None)]).unwrap();
        engine.wait_durable(position).unwrap();
        states.push((engine.log_position(), all(&engine)));
    }
    let mut copy = engine.begin_copy().unwrap();
    let log = groups(&mut copy);
    assert!(copy.manifest.is_some() && !copy.files.is_empty());
    assert_eq!(copy.log.end(), states.last().unwrap().0);
    assert!(log.iter().all(|group| group.time > 0));
    for (position, rows) in &states {
        let disk = rebuild(&copy, &log, *position).unwrap();
        assert_eq!(&all(&opened(&disk)), rows, "until {position}");
        // Behind a power cut, too: everything was synced.
        let disk = disk.after_power_cut(*position);
        assert_eq!(
            &all(&opened(&disk)),
            rows,
            "until {position}, after a power cut"
        );
    }
    for pair in states.windows(2) {
        let disk = rebuild(&copy, &log, pair[1].0 - 1).unwrap();
        assert_eq!(all(&opened(&disk)), pair[0].1, "before {}", pair[1].0);
    }
    let gap: Vec<LogGroup> = log.iter().skip(2).cloned().collect();
    let shared: Arc<dyn Disk> = Arc::new(MemDisk::new());
    let mut builder = StoreBuilder::new(shared, Path::new(DIR), copy.manifest.as_deref()).unwrap();
    let refused = gap.iter().find_map(|group| builder.put_group(group).err());
    assert!(refused.unwrap().to_string().contains("the log has a gap"));
}

/// Checkpoints replace files and remove segments while copies are read.
#[test]
fn copies_are_whole_while_checkpoints_go_on() {
    let disk = MemDisk::new();
    let engine = KvMem::open(options(&disk)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let value = "v".repeat(400);
            let mut n = 0;
            while !stop.load(Ordering::SeqCst) {
                // Both rows, or neither.
                let (a, b) = (format!("a-{:03}", n % 300), format!("b-{:03}", n % 300));
                write(&engine, &[(&a, Some(&value)), (&b, Some(&value))]).unwrap();
                if n % 50 == 0 {
                    engine.checkpoint().unwrap();
                }
                n += 1;
            }
        });
        for _ in 0..15 {
            set(&engine, "marker", "x").unwrap();
            let mut copy = engine.begin_copy().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            let log = groups(&mut copy);
            let rebuilt = opened(&rebuild(&copy, &log, u64::MAX).unwrap());
            let rows = all(&rebuilt);
            assert!(rows.contains_key("marker"));
            let count = |prefix: &str| rows.keys().filter(|key| key.starts_with(prefix)).count();
            assert_eq!(count("a-"), count("b-"));
            // The store goes on after its own shutdown.
            set(&rebuilt, "more", "y").unwrap();
        }
        stop.store(true, Ordering::SeqCst);
    });
}

#[test]
fn segments_wait_for_the_archive_up_to_a_bound() {
    let disk = MemDisk::new();
    let bound = 100_000;
    let engine = KvMem::open(KvMemOptions {
        archive_bound: Some(bound),
        checkpoint_bytes: 1 << 30,
        ..options(&disk)
    })
    .unwrap();
    let value = "v".repeat(1000);
    let fill = |count: usize| {
        for n in 0..count {
            set(&engine, &format!("key-{n:03}"), &value).unwrap();
        }
        engine.checkpoint().unwrap();
    };
    fill(50);
    assert_eq!(engine.first_log_position(), 0);
    let mut copy = engine.copy_log(LogCursor::default()).unwrap().unwrap();
    let mut archived = 0;
    while let Some(group) = copy.next_group().unwrap() {
        assert_eq!(group.start, archived);
        archived = group.end();
    }
    engine.set_archived(archived);
    fill(10);
    let first = engine.first_log_position();
    assert!(first > 0 && first <= archived, "{first}");
    // The next copy continues where this one ended.
    let mut next = engine.copy_log(copy.cursor()).unwrap().unwrap();
    assert_eq!(next.next_group().unwrap().unwrap().start, archived);
    // Without the archive, the bound holds.
    fill(200);
    let kept = engine.log_position() - engine.first_log_position();
    assert!(kept >= bound && kept < bound + 50_000, "{kept}");
    assert!(engine.copy_log(copy.cursor()).unwrap().is_none());
}

#[test]
fn a_store_is_cut_before_any_commit_and_gives_no_number_out_again() {
    let disk = MemDisk::new();
    let engine = KvMem::open(KvMemOptions {
        checkpoint_bytes: 1 << 30,
        ..options(&disk)
    })
    .unwrap();
    let counter = porpoise_kv::CounterId(9);
    let mut states = Vec::new();
    for n in 0..30 {
        set(&engine, &format!("key-{n:02}"), "value").unwrap();
        states.push((engine.newest_position().0, all(&engine)));
        engine.reserve_ids(counter, 7, 0).unwrap();
    }
    let next = engine.reserve_ids(counter, 1, 0).unwrap().end;
    let mut copy = engine.begin_copy().unwrap();
    let log = groups(&mut copy);
    for (at, (commit, _)) in states.iter().enumerate() {
        let rebuilt = MemDisk::new();
        let dir = Path::new(DIR);
        rebuilt.create_dir(dir).unwrap();
        let mut builder = StoreBuilder::new(Arc::new(rebuilt.clone()), dir, None).unwrap();
        let mut cut = CommitCut::before(*commit);
        for group in &log {
            builder.put_group_before(group, &mut cut).unwrap();
        }
        builder.finish().unwrap();
        let engine = opened(&rebuilt);
        let expected = at.checked_sub(1).map(|before| states[before].1.clone());
        assert_eq!(
            all(&engine),
            expected.unwrap_or_default(),
            "before commit {commit}"
        );
        assert!(engine.reserve_ids(counter, 1, 0).unwrap().start >= next);
        set(&engine, "later", "value").unwrap();
        let newest = states.last().unwrap().0;
        assert!(
            engine.newest_position().0 > newest,
            "timestamps are not given out again"
        );
    }
}
