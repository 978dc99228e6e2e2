//! In-process figures of the embedded engine: nanoseconds a point read, single
//! and in batches of 50, and a single-row update with its commit, with one and
//! two threads. `cargo run --release -p porpoise-kv-mem --example native [rows]`
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark: it ends at the first surprise"
)]

use porpoise_kv::{Check, Engine, Key, LockMode, LockRequest, Read, SpaceId, SpaceSpec, Wait};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::hint::black_box;
use std::io::Write;
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
    let spec = SpaceSpec {
        point_lookups: true,
        ..SpaceSpec::default()
    };
    let space = *engine.create_spaces(&[spec]).unwrap().first().unwrap();
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
        txn.commit().unwrap();
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
        txn.commit().unwrap();
    });
}

fn main() {
    let rows: u64 = std::env::args()
        .nth(1)
        .map_or(1_000_000, |n| n.parse().unwrap());
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    let space = load(&engine, rows);
    measure("begin and drop", 1, 1, |_| {
        black_box(engine.begin(Default::default()).unwrap());
    });
    for threads in [1, 2] {
        reads(&engine, space, rows, threads);
        updates(&engine, space, rows, threads);
    }
    engine.reclaim();
    for stat in engine.stats().iter().filter(|stat| stat.value > 0) {
        tell(format_args!("{} {}", stat.name, stat.value));
    }
}
