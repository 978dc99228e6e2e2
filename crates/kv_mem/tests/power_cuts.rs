//! Power cuts at every disk operation of a scripted workload: after each, the store opens with
//! every acknowledged commit, and no commit is there in part.

use crate::common::{all, options, write};
use porpoise_base::disk::MemDisk;
use porpoise_kv::{CounterId, Durability, Engine, SpaceSpec};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::collections::BTreeMap;
use std::time::Duration;

const STEPS: usize = 40;
const COUNTER: CounterId = CounterId(5);

/// Acknowledgements that a run received before the power cut.
#[derive(Default)]
struct Acknowledged {
    /// The last commit that was reported durable; 0 for none.
    durable: usize,
    /// The last commit that was tried.
    tried: usize,
    /// The last id given out.
    id: u64,
    /// Spaces reported as created.
    spaces: Vec<porpoise_kv::SpaceId>,
}

/// The rows after a number of commits.
fn state(commits: usize) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for n in 1..=commits {
        apply(n, |key, value| {
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        });
    }
    rows
}

/// Writes of commit `n`: two rows that always agree, one of its own, and a
/// deletion. Commit 20 is large.
fn apply(n: usize, mut write: impl FnMut(String, Option<String>)) {
    write("left".to_owned(), Some(n.to_string()));
    write("right".to_owned(), Some(n.to_string()));
    write(format!("row{n:03}"), Some("x".repeat(n * 37 % 600)));
    if n > 5 {
        write(format!("row{:03}", n - 5), None);
    }
    if n == 20 {
        for big in 0..3 {
            write(format!("big{big}"), Some("y".repeat(500_000)));
        }
    }
}

/// Runs the script until it ends or the disk fails.
fn run(options: KvMemOptions, acknowledged: &mut Acknowledged) {
    let wait = options.durability == Durability::Sync;
    let Ok(engine) = KvMem::open(options) else {
        return;
    };
    for n in 1..=STEPS {
        let mut writes = Vec::new();
        apply(n, |key, value| writes.push((key, value)));
        let borrowed: Vec<(&str, Option<&str>)> = writes
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_deref()))
            .collect();
        acknowledged.tried = n;
        let Ok(position) = write(&engine, &borrowed) else {
            return;
        };
        if wait && engine.wait_durable(position).is_err() {
            return;
        }
        if wait {
            acknowledged.durable = n;
        }
        if n % 6 == 0 {
            match engine.reserve_ids(COUNTER, 30_000, 1) {
                Ok(ids) => acknowledged.id = ids.end - 1,
                Err(_) => return,
            }
        }
        if n % 10 == 0 {
            match engine.create_spaces(&[SpaceSpec::default()]) {
                Ok(ids) => acknowledged.spaces.extend(ids),
                Err(_) => return,
            }
        }
        if n % 13 == 0 && engine.checkpoint().is_err() {
            return;
        }
    }
    let _ = engine.shutdown();
}

fn check(disk: &MemDisk, options: KvMemOptions, acknowledged: &Acknowledged, at: &str) {
    // Recovery itself must not depend on the survival of unsynced writes, either.
    let engine = KvMem::open(options.clone()).unwrap_or_else(|e| panic!("{at}: {e}"));
    let rows = all(&engine);
    let commits = rows.get("left").map_or(0, |n| n.parse().unwrap());
    assert!(
        commits >= acknowledged.durable,
        "{at}: {commits} of {} commits",
        acknowledged.durable
    );
    assert!(commits <= acknowledged.tried, "{at}");
    assert!(
        rows == state(commits),
        "{at}: commit {commits} is not whole"
    );
    engine.verify().unwrap();
    let next = engine.reserve_ids(COUNTER, 1, 1).unwrap();
    assert!(
        next.start > acknowledged.id,
        "{at}: id {next:?} after {}",
        acknowledged.id
    );
    let spaces = engine.spaces().unwrap();
    for space in &acknowledged.spaces {
        assert!(spaces.iter().any(|(id, _)| id == space), "{at}: {space:?}");
    }
    let fresh = engine.create_spaces(&[SpaceSpec::default()]).unwrap()[0];
    assert!(
        acknowledged.spaces.iter().all(|space| *space < fresh),
        "{at}"
    );
    crate::common::set(&engine, "after", "1").unwrap();
    drop(engine);
    // A second power cut right after the recovery: rows that were served are still there.
    let disk = disk.after_power_cut(1);
    let engine = KvMem::open(KvMemOptions {
        disk: std::sync::Arc::new(disk),
        ..options
    });
    let rows = all(&engine.unwrap_or_else(|e| panic!("{at}, again: {e}")));
    assert_eq!(rows.get("after").map(String::as_str), Some("1"), "{at}");
}

fn every_cut(with: impl Fn(&MemDisk) -> KvMemOptions, step: usize) {
    let whole = MemDisk::new();
    let mut acknowledged = Acknowledged::default();
    run(with(&whole), &mut acknowledged);
    assert_eq!(acknowledged.tried, STEPS);
    let operations = whole.operations();
    assert!(operations > 100);
    for cut in (1..=operations).step_by(step) {
        let disk = MemDisk::new();
        disk.stop_after(Some(cut));
        let mut acknowledged = Acknowledged::default();
        run(with(&disk), &mut acknowledged);
        for seed in 0..2 {
            let after = disk.after_power_cut(cut * 7 + seed);
            check(
                &after,
                with(&after),
                &acknowledged,
                &format!("cut at {cut}, seed {seed}"),
            );
        }
    }
}

#[test]
fn no_acknowledged_commit_is_lost_at_any_power_cut() {
    every_cut(options, 2);
}

#[test]
fn in_interval_mode_a_prefix_of_whole_commits_survives() {
    let interval = Durability::Interval(Duration::from_millis(2));
    every_cut(
        |disk| KvMemOptions {
            durability: interval,
            ..options(disk)
        },
        23,
    );
}
