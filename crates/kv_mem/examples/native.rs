//! In-process figures of the embedded engine: nanoseconds a point read, single
//! and in batches of 50, a scan of 100, an insert, a single-row update with its
//! commit, on any row and on one, with one and two threads; memory; and how
//! long a start takes, from a checkpoint and after a kill.
//!
//! `cargo run --release -p porpoise-kv-mem --example native [ROWS] [none|memory|interval|sync] [WORK]`
//! runs what has WORK in its name; `none` keeps nothing at all.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark: it ends at the first surprise"
)]

use porpoise_kv::{
    Check, Durability, Engine, Key, LockMode, LockRequest, Read, ScanRange, SpaceId, SpaceSpec,
    Wait,
};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const VALUE: [u8; 100] = [b'v'; 100];
const RUN: Duration = Duration::from_secs(2);

fn tell(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
}

fn key_of(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    for (to, from) in key
        .iter_mut()
        .zip(n.to_be_bytes().into_iter().chain(*b"user-key"))
    {
        *to = from;
    }
    key
}

/// Runs `work` on threads for a while; nanoseconds an operation, per thread.
fn measure(name: &str, threads: u64, per_call: u64, work: impl Fn(&mut fastrand::Rng) + Sync) {
    let ran: Vec<(u64, Duration)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|n| {
                let work = &work;
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(n + 1);
                    let began = Instant::now();
                    let mut calls = 0;
                    while calls % 256 != 0 || began.elapsed() < RUN {
                        work(&mut rng);
                        calls += 1;
                    }
                    (calls * per_call, began.elapsed())
                })
            })
            .collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let operations: u64 = ran.iter().map(|(n, _)| n).sum();
    let seconds = ran.iter().map(|(_, t)| t.as_secs_f64()).sum::<f64>() / threads as f64;
    tell(format_args!(
        "{name:28} threads {threads}: {:8.0} ns/op {:9.0} op/s",
        seconds * 1e9 * threads as f64 / operations as f64,
        operations as f64 / seconds
    ));
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|l| l.starts_with("VmRSS"))
        .unwrap_or("");
    let kb: String = line.chars().filter(char::is_ascii_digit).collect();
    kb.parse::<u64>().unwrap_or(0) / 1024
}

fn load(engine: &KvMem, rows: u64) -> SpaceId {
    let space = *engine
        .create_spaces(&[point_lookups()])
        .unwrap()
        .first()
        .unwrap();
    let (before, began) = (resident_mb(), Instant::now());
    for from in (0..rows).step_by(1000) {
        let mut txn = engine.begin(Default::default()).unwrap();
        for n in from..(from + 1000).min(rows) {
            let key = key_of(n);
            txn.put(Key::new(space, &key), &VALUE, Check::Blind)
                .unwrap();
        }
        txn.commit().unwrap();
    }
    tell(format_args!(
        "{rows} rows of 100 bytes: {:.0} ns each, {} MB",
        began.elapsed().as_nanos() as f64 / rows as f64,
        resident_mb() - before
    ));
    space
}

fn reads(engine: &KvMem, space: SpaceId, rows: u64, threads: u64) {
    measure("point read, single", threads, 1, |rng| {
        let mut txn = engine.begin(Default::default()).unwrap();
        let key = key_of(rng.u64(0..rows));
        txn.get(Read::SNAPSHOT, &[Key::new(space, &key)], &mut |_, found| {
            assert_eq!(found.map(<[u8]>::len), Some(100));
        })
        .unwrap();
    });
    measure("point read, batch of 50", threads, 50, |rng| {
        let mut txn = engine.begin(Default::default()).unwrap();
        let keys: [[u8; 16]; 50] = std::array::from_fn(|_| key_of(rng.u64(0..rows)));
        let keys = keys.each_ref().map(|key| Key::new(space, key));
        let mut sum = 0;
        txn.get(Read::SNAPSHOT, &keys, &mut |_, found| {
            sum += found.map_or(0, <[u8]>::len);
        })
        .unwrap();
        assert_eq!(sum, 5000);
    });
}

fn updates(engine: &KvMem, space: SpaceId, rows: u64, threads: u64) {
    measure("update, compared", threads, 1, |rng| {
        let mut txn = engine.begin(Default::default()).unwrap();
        let key = key_of(rng.u64(0..rows));
        txn.put(Key::new(space, &key), &VALUE, Check::FirstCommitter)
            .unwrap();
        finish(engine, txn);
    });
    measure("update under a lock", threads, 1, |rng| {
        let mut txn = engine.begin(Default::default()).unwrap();
        let key = key_of(rng.u64(0..rows));
        let key = Key::new(space, &key);
        let mode = LockMode::Update;
        let wait = Wait::Until(Instant::now() + RUN);
        txn.lock(&[LockRequest { key, mode }], wait, &mut |_, _| {})
            .unwrap();
        txn.put(key, &VALUE, Check::Locked).unwrap();
        finish(engine, txn);
    });
}

fn scans(engine: &KvMem, space: SpaceId, rows: u64, threads: u64) {
    measure("scan of 100", threads, 1, |rng| {
        let mut txn = engine.begin(Default::default()).unwrap();
        let key = key_of(rng.u64(0..rows.saturating_sub(100).max(1)));
        let range = ScanRange {
            space,
            start: &key,
            end: None,
            reverse: false,
        };
        let mut sum = 0;
        txn.scan(Read::SNAPSHOT, &[range], 100, &mut |_, _, value| {
            sum += value.len();
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(sum, 10_000);
    });
}

fn hot(engine: &KvMem, space: SpaceId, threads: u64) {
    measure("read-modify-write, one row", threads, 1, |_| {
        let key = key_of(0);
        let key = Key::new(space, &key);
        let mut txn = engine.begin(Default::default()).unwrap();
        let mode = LockMode::Update;
        let wait = Wait::Until(Instant::now() + RUN);
        let mut value = Vec::new();
        txn.lock(&[LockRequest { key, mode }], wait, &mut |_, locked| {
            value = locked.value.unwrap_or_default().to_vec();
        })
        .unwrap();
        value.reverse();
        txn.put(key, &value, Check::Locked).unwrap();
        finish(engine, txn);
    });
}

fn inserts(engine: &KvMem, threads: u64) {
    let space = *engine
        .create_spaces(&[point_lookups()])
        .unwrap()
        .first()
        .unwrap();
    let next = AtomicU64::new(0);
    measure("insert", threads, 1, |_| {
        let key = key_of(next.fetch_add(1, Ordering::Relaxed));
        let mut txn = engine.begin(Default::default()).unwrap();
        txn.put(Key::new(space, &key), &VALUE, Check::FirstCommitter)
            .unwrap();
        finish(engine, txn);
    });
    engine.drop_spaces(&[space]).unwrap();
}

/// Commits, and waits for what the durability promises.
fn finish(engine: &KvMem, txn: Box<dyn porpoise_kv::Txn>) {
    let ticket = txn.commit().unwrap().ticket;
    engine.wait_durable(ticket).unwrap();
}

/// How long a start takes behind a clean end, and behind a kill amid updates.
fn starts(options: &KvMemOptions, engine: Arc<KvMem>, space: SpaceId, rows: u64) {
    engine.checkpoint().unwrap();
    let mut rng = fastrand::Rng::with_seed(5);
    let before = figure(&engine, "log_bytes_total");
    while figure(&engine, "log_bytes_total") - before < options.checkpoint_bytes * 3 / 4 {
        let mut txn = engine.begin(Default::default()).unwrap();
        for _ in 0..1000 {
            let key = key_of(rng.u64(0..rows));
            txn.put(Key::new(space, &key), &VALUE, Check::Blind)
                .unwrap();
        }
        finish(&engine, txn);
    }
    // The log ends here; no checkpoint follows.
    drop(engine);
    for what in ["checkpoint and log", "checkpoint alone"] {
        let began = Instant::now();
        let engine = KvMem::open(options.clone()).unwrap();
        tell(format_args!(
            "start, {what:20} {:8.2} s, {} MB",
            began.elapsed().as_secs_f64(),
            resident_mb()
        ));
        engine.verify().unwrap();
        engine.shutdown().unwrap();
    }
}

fn figure(engine: &KvMem, name: &str) -> u64 {
    let stats = engine.stats();
    stats.iter().find(|s| s.name == name).map_or(0, |s| s.value)
}

fn point_lookups() -> SpaceSpec {
    SpaceSpec {
        point_lookups: true,
        ..SpaceSpec::default()
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rows: u64 = args.next().map_or(1_000_000, |n| n.parse().unwrap());
    let mode = args.next().unwrap_or_else(|| "none".to_owned());
    let wanted = args.next().unwrap_or_default();
    let home = tempfile::tempdir().unwrap();
    let durability = match mode.as_str() {
        "sync" => Durability::Sync,
        "interval" => Durability::Interval(Duration::from_secs(1)),
        _ => Durability::Memory,
    };
    let options = KvMemOptions {
        dir: (mode != "none").then(|| home.path().join("data")),
        durability,
        ..KvMemOptions::default()
    };
    let engine = KvMem::open(options.clone()).unwrap();
    let space = load(&engine, rows);
    let is_wanted = |name: &str| name.contains(&wanted);
    for threads in [1, 2] {
        if is_wanted("read") {
            reads(&engine, space, rows, threads);
        }
        if is_wanted("scan") {
            scans(&engine, space, rows, threads);
        }
        if is_wanted("update") {
            updates(&engine, space, rows, threads);
        }
        if is_wanted("hot") {
            hot(&engine, space, threads);
        }
        if is_wanted("insert") {
            inserts(&engine, threads);
        }
    }
    engine.reclaim();
    for stat in engine.stats().iter().filter(|stat| stat.value > 0) {
        tell(format_args!("{} {}", stat.name, stat.value));
    }
    if durability != Durability::Memory && is_wanted("start") {
        starts(&options, engine, space, rows);
    }
}
