//! Incremental checkpoints: only changed spaces are written, and the files of unchanged ones are
//! reused.

use crate::common::{options, stat};
use porpoise_base::disk::{Disk, MemDisk};
use porpoise_kv::{Check, Engine, Error, Key, Read, Resource, ScanRange, SpaceId, SpaceSpec};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(disk: &MemDisk) -> Arc<KvMem> {
    KvMem::open(KvMemOptions {
        checkpoint_bytes: u64::MAX,
        ..options(disk)
    })
    .unwrap()
}

fn files(disk: &MemDisk) -> BTreeSet<String> {
    let names = disk.list(Path::new("/data")).unwrap();
    names
        .into_iter()
        .filter(|n| n.starts_with("ckpt-"))
        .collect()
}

fn spaces(engine: &KvMem, count: usize) -> Vec<SpaceId> {
    engine
        .create_spaces(&vec![SpaceSpec::default(); count])
        .unwrap()
}

/// Writes numbered rows, all with one value.
fn fill(engine: &KvMem, space: SpaceId, keys: std::ops::Range<u32>, value: &[u8]) {
    let mut txn = engine.begin(Default::default()).unwrap();
    for n in keys {
        txn.put(Key::new(space, &n.to_be_bytes()), value, Check::Blind)
            .unwrap();
    }
    engine.wait_durable(txn.commit().unwrap().position).unwrap();
}

fn rows(engine: &KvMem, space: SpaceId) -> Rows {
    let mut found = Rows::new();
    let range = ScanRange {
        space,
        start: b"",
        end: None,
        reverse: false,
    };
    let mut txn = engine.begin(Default::default()).unwrap();
    txn.scan(Read::SNAPSHOT, &[range], usize::MAX, &mut |_, k, v| {
        found.insert(k.to_vec(), v.to_vec());
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

#[test]
fn files_of_unchanged_spaces_are_reused_also_after_a_restart() {
    let disk = MemDisk::new();
    let engine = open(&disk);
    let made = spaces(&engine, 2);
    let (large, small) = (made[0], made[1]);
    fill(&engine, large, 0..20_000, b"first");
    fill(&engine, small, 0..10, b"first");
    engine.checkpoint().unwrap();
    let first = files(&disk);
    assert_eq!(first.len(), 2, "{first:?}");
    fill(&engine, small, 5..15, b"second");
    engine.checkpoint().unwrap();
    let second = files(&disk);
    assert_eq!(first.intersection(&second).count(), 1, "{second:?}");
    // Nothing has changed: no file is written.
    engine.checkpoint().unwrap();
    assert_eq!(files(&disk), second);
    engine.shutdown().unwrap();
    drop(engine);
    let engine = open(&disk);
    engine.verify().unwrap();
    fill(&engine, small, 0..1, b"third");
    engine.checkpoint().unwrap();
    let third = files(&disk);
    assert_eq!(second.intersection(&third).count(), 1, "{third:?}");
    assert_eq!(
        first.intersection(&third).count(),
        1,
        "the file of the large space is reused"
    );
    // A change in the large space: its files are written again, those of the small one are reused.
    fill(&engine, large, 7..8, b"fourth");
    engine.checkpoint().unwrap();
    let fourth = files(&disk);
    assert_eq!(third.intersection(&fourth).count(), 1);
    assert_eq!(first.intersection(&fourth).count(), 0);
    drop(engine);
    let engine = open(&disk);
    assert_eq!(rows(&engine, large).len(), 20_000);
    assert_eq!(rows(&engine, large)[&7u32.to_be_bytes()[..]], b"fourth");
    assert_eq!(rows(&engine, small).len(), 15);
    assert_eq!(rows(&engine, small)[&0u32.to_be_bytes()[..]], b"third");
}

#[test]
fn a_changed_space_does_not_cause_unchanged_ones_to_be_written() {
    let disk = MemDisk::new();
    let engine = open(&disk);
    let made = spaces(&engine, 6);
    made.iter()
        .for_each(|space| fill(&engine, *space, 0..100, b"first"));
    engine.checkpoint().unwrap();
    assert_eq!(files(&disk).len(), 1, "small spaces share a file");
    for round in 0..3 {
        fill(&engine, made[0], 0..10, b"again");
        engine.checkpoint().unwrap();
        assert_eq!(files(&disk).len(), 2, "round {round}");
    }
    let before = files(&disk);
    fill(&engine, made[0], 0..10, b"and again");
    engine.checkpoint().unwrap();
    assert_eq!(before.intersection(&files(&disk)).count(), 1);
    engine.drop_spaces(&made[..1]).unwrap();
    engine.checkpoint().unwrap();
    drop(engine);
    let engine = open(&disk);
    assert_eq!(engine.spaces().unwrap().len(), 5);
    made[1..]
        .iter()
        .for_each(|space| assert_eq!(rows(&engine, *space).len(), 100));
    engine.verify().unwrap();
}

/// Random changes of several spaces, checkpoints, drops of spaces, power cuts.
#[test]
fn recovery_from_reused_files_agrees_with_a_model() {
    for seed in 0..40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut disk = MemDisk::new();
        let mut engine = open(&disk);
        let mut model: BTreeMap<SpaceId, Rows> = BTreeMap::new();
        for _ in 0..40 {
            match rng.u8(0..12) {
                0 => {
                    model.insert(spaces(&engine, 1)[0], Rows::new());
                }
                1 if model.len() > 3 => {
                    let gone = *rng
                        .choice(&model.keys().copied().collect::<Vec<_>>())
                        .unwrap();
                    engine.drop_spaces(&[gone]).unwrap();
                    model.remove(&gone);
                }
                2..=4 => engine.checkpoint().unwrap(),
                5 => {
                    let after = disk.after_power_cut(rng.u64(..));
                    drop(engine);
                    disk = after;
                    engine = open(&disk);
                    engine.verify().unwrap();
                    for (space, expected) in &model {
                        assert_eq!(&rows(&engine, *space), expected, "seed {seed}, {space:?}");
                    }
                }
                _ => {
                    let Some(space) = rng
                        .choice(&model.keys().copied().collect::<Vec<_>>())
                        .copied()
                    else {
                        continue;
                    };
                    let rows = model.get_mut(&space).unwrap();
                    let mut txn = engine.begin(Default::default()).unwrap();
                    for _ in 0..rng.usize(1..30) {
                        let key = [rng.u8(0..40)];
                        let at = Key::new(space, &key);
                        if rng.u8(0..3) == 0 {
                            txn.delete(at, Check::Blind).unwrap();
                            rows.remove(&key[..]);
                        } else {
                            let value = rng.u32(..).to_be_bytes();
                            txn.put(at, &value, Check::Blind).unwrap();
                            rows.insert(key.to_vec(), value.to_vec());
                        }
                    }
                    engine.wait_durable(txn.commit().unwrap().position).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_checkpoint_on_a_full_disk_uses_its_reserve() {
    let disk = MemDisk::new();
    let engine = open(&disk);
    let space = spaces(&engine, 1)[0];
    fill(&engine, space, 0..3000, &[b'v'; 100]);
    engine.checkpoint().unwrap();
    let has_reserve = || {
        let names = disk.list(Path::new("/data")).unwrap();
        names.iter().any(|name| name == "reserve.dat")
    };
    assert!(has_reserve());
    fill(&engine, space, 0..10, &[b'w'; 100]);
    disk.set_capacity(Some(disk.used()));
    let before = files(&disk);
    engine.checkpoint().unwrap();
    assert_eq!(
        before.intersection(&files(&disk)).count(),
        0,
        "all files were written again"
    );
    assert_eq!(stat(&engine, "checkpoints_total"), 2);
    disk.set_capacity(None);
    drop(engine);
    let engine = open(&disk);
    assert_eq!(rows(&engine, space).len(), 3000);
    assert_eq!(rows(&engine, space)[&3u32.to_be_bytes()[..]], [b'w'; 100]);
}

#[test]
fn a_checkpoint_that_fails_on_a_full_disk_leaves_the_previous_one() {
    let disk = MemDisk::new();
    let engine = open(&disk);
    let space = spaces(&engine, 1)[0];
    fill(&engine, space, 0..300, &[b'v'; 100]);
    engine.checkpoint().unwrap();
    disk.remove(Path::new("/data/reserve.dat")).unwrap();
    fill(&engine, space, 0..10, &[b'w'; 100]);
    disk.set_capacity(Some(disk.used()));
    let before = files(&disk);
    let refused = engine.checkpoint();
    assert!(
        matches!(refused, Err(Error::Full(Resource::Disk))),
        "{refused:?}"
    );
    assert_eq!(files(&disk), before);
    drop(engine);
    disk.set_capacity(None);
    let engine = open(&disk);
    assert_eq!(rows(&engine, space).len(), 300);
    assert_eq!(rows(&engine, space)[&3u32.to_be_bytes()[..]], [b'w'; 100]);
}
