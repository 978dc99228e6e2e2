//! A reader walks a chain of versions while the reclaimer unlinks versions between the newest and
//! the one that the reader needs. An unlinked version stays readable until the reader has released
//! its epoch pin (invariant 3 of `record`).

use crate::common::{get, key, set, write};
use porpoise_kv::{Engine, Read};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::sync::atomic::{AtomicBool, Ordering};

/// Versions between the newest and the one that is read, at each reclaiming.
const BETWEEN: usize = 400;

#[test]
fn an_old_snapshot_reads_its_version_while_newer_ones_are_reclaimed() {
    let engine = KvMem::open(KvMemOptions::default()).unwrap();
    // Long enough that memory freed and used again would show.
    let first = "first".repeat(20);
    set(&engine, "k", &first).unwrap();
    let stop = AtomicBool::new(false);
    let reads = std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| {
            let mut old = engine.begin(Default::default()).unwrap();
            old.pin().unwrap();
            let (stop, first) = (&stop, &first);
            scope.spawn(move || {
                let mut reads = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    old.get(Read::SNAPSHOT, &[key("k")], &mut |_, value| {
                        assert_eq!(value, Some(first.as_bytes()));
                    })
                    .unwrap();
                    reads += 1;
                }
                reads
            })
        });
        for round in 0..2000 {
            let value = format!("later {round} ").repeat(10);
            for _ in 0..BETWEEN {
                write(&engine, &[("k", Some(&value))]).unwrap();
            }
            engine.reclaim();
        }
        stop.store(true, Ordering::Relaxed);
        readers.map(|reader| reader.join().unwrap())
    });
    assert!(reads.iter().all(|reads| *reads > 0), "{reads:?}");
    engine.reclaim();
    engine.verify().unwrap();
    assert!(get(&engine, "k").unwrap().starts_with("later 1999"));
}
