//! Power cuts while a checkpoint removes log segments: any subset of the removals may be on disk,
//! and the store opens with all rows.

use crate::common::{all, options, set};
use parking_lot::Mutex;
use porpoise_base::disk::{Disk, MemDisk};
use porpoise_kv::Engine;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::path::Path;
use std::sync::Arc;

fn segments(disk: &MemDisk) -> usize {
    let names = disk.list(Path::new("/data")).unwrap_or_default();
    names.iter().filter(|name| name.ends_with(".seg")).count()
}

#[test]
fn a_power_cut_during_the_removal_of_segments_loses_nothing() {
    let disk = MemDisk::new();
    let options = |disk: &MemDisk| KvMemOptions {
        checkpoint_bytes: 1 << 30,
        ..options(disk)
    };
    let engine = KvMem::open(options(&disk)).unwrap();
    let value = "v".repeat(1000);
    for n in 0..80 {
        set(&engine, &format!("key-{n:03}"), &value).unwrap();
    }
    let rows = all(&engine);
    let before = segments(&disk);
    assert!(before >= 5, "{before} segments");
    let cuts: Arc<Mutex<Vec<MemDisk>>> = Arc::default();
    let (place, watched) = (cuts.clone(), disk.clone());
    disk.watch(Some(Arc::new(move |operation, _| {
        let some = (0..6).map(|n| watched.after_power_cut(operation * 6 + n));
        place.lock().extend(some);
    })));
    engine.checkpoint().unwrap();
    disk.watch(None);
    engine.shutdown().unwrap();
    assert!(segments(&disk) < before);
    let cuts = std::mem::take(&mut *cuts.lock());
    let mut gaps = 0;
    for disk in cuts {
        let left = segments(&disk);
        gaps += usize::from(left > 2 && left < before);
        let engine = KvMem::open(options(&disk)).unwrap();
        assert_eq!(all(&engine), rows, "with {left} segments left");
    }
    assert!(gaps > 0, "no cut left some of the segments");
}
