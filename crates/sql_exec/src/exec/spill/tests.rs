//! Temporary files and external sorts, against sorting in memory.

use super::super::record_sort::ByBytes;
use super::super::state::States;
use super::partitions::PartitionWriter;
use super::records::{BLOCK, RecordWriter};
use super::runs::Runs;
use super::sorter::Sorter;
use porpoise_base::memory::{ConnectionMemory, MemoryBudget, MemoryClass, MemoryTracker};
use porpoise_base::temp_files::TempDir;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Statement state with a directory of its own, which is removed at the end.
struct Place {
    path: PathBuf,
    dir: Arc<TempDir>,
}

impl Place {
    fn new(name: &str, limit: Option<u64>) -> Place {
        let name = format!("porpoise-spill-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let dir = TempDir::open(&path, limit).unwrap();
        Place { path, dir }
    }

    fn states(&self, memory: u64) -> States {
        let budget = Arc::new(MemoryBudget::default());
        budget.set_temp_dir(self.dir.clone());
        let connection = Arc::new(ConnectionMemory::new(budget));
        let tracker = MemoryTracker::new(connection, MemoryClass::Statement);
        tracker.set_limit(memory);
        States::new(Some(Arc::new(tracker)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

type Record = (Vec<u8>, Vec<u8>);

/// Records with few keys, so that many compare equal; values tell them apart.
fn records(count: usize, longest: usize, rng: &mut fastrand::Rng) -> Vec<Record> {
    let one = |n: usize| {
        let key = vec![rng.u8(..4); rng.usize(..3)];
        let mut value = (n as u64).to_le_bytes().to_vec();
        value.resize(8 + rng.usize(..longest), 7);
        (key, value)
    };
    (0..count).map(one).collect()
}

fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by(|a, b| a.0.cmp(&b.0));
    records
}

#[test]
fn an_external_sort_equals_a_stable_sort_in_memory() {
    let place = Place::new("sort", None);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut merges = 0;
    for (count, longest, memory) in [
        (0, 10, 1 << 20),
        (1, 10, 1 << 20),
        (5_000, 40, u64::MAX),
        (5_000, 400, 1 << 20),
        (40_000, 200, 1 << 20),
        (300, 100_000, 1 << 20),
    ] {
        let records = records(count, longest, &mut rng);
        let states = place.states(memory);
        let mut sorter = Sorter::new(ByBytes);
        for (key, value) in &records {
            sorter.add(key, value, &states).unwrap();
        }
        let mut found: Vec<Record> = Vec::new();
        let mut rows = sorter.finish(&states).unwrap();
        while rows.advance().unwrap() {
            let (key, value) = rows.record();
            found.push((key.to_vec(), value.to_vec()));
        }
        assert!(!rows.advance().unwrap());
        rows.close(&states);
        assert_eq!(states.used(), 0);
        assert!(found == sorted(records), "{count} records");
        let now = place.dir.merge_passes.load(Relaxed);
        assert_eq!(now > merges, memory < u64::MAX && count > 100, "{count}");
        merges = now;
        assert_eq!(place.dir.used(), 0);
    }
}

#[test]
fn many_runs_are_merged_in_passes() {
    let place = Place::new("passes", None);
    let records = records(3_000, 40, &mut fastrand::Rng::with_seed(3));
    // Three runs of 32 KiB blocks fit.
    let states = place.states(2 * 3 * (BLOCK as u64 + 2048));
    let mut runs = Runs::default();
    for run in records.chunks(40) {
        let run = sorted(run.to_vec());
        let parts = run.iter().map(|(k, v)| (k.as_slice(), v.as_slice()));
        runs.write_run(parts, &states).unwrap();
    }
    assert_eq!(runs.size().runs, 75);
    let mut merge = runs.merge(ByBytes, &states).unwrap();
    let mut found: Vec<Record> = Vec::new();
    while merge.advance().unwrap() {
        found.push((merge.key().to_vec(), merge.value().to_vec()));
    }
    merge.close(&states);
    assert!(found == sorted(records));
    // 75 runs, 25, 9, 3, and the last merge.
    assert_eq!(place.dir.merge_passes.load(Relaxed), 25 + 9 + 3 + 1);
}

#[test]
fn records_are_read_in_order_and_by_position() {
    let place = Place::new("records", None);
    let states = place.states(u64::MAX);
    let records = records(2_000, 300, &mut fastrand::Rng::with_seed(5));
    let mut writer = RecordWriter::create(states.temp_dir().unwrap(), 4096).unwrap();
    let mut positions = Vec::new();
    for (key, value) in &records {
        positions.push(writer.add(key, value).unwrap());
    }
    let file = writer.finish().unwrap();
    let mut reader = file.reader();
    for (key, value) in &records {
        assert!(reader.advance().unwrap());
        assert!(reader.key() == key && reader.value() == value);
    }
    assert!(!reader.advance().unwrap());
    for at in [1999, 0, 1, 700, 699, 1998] {
        reader.seek(positions[at]).unwrap();
        assert!(reader.value() == records[at].1, "{at}");
    }
}

#[test]
fn a_full_directory_is_error_1021() {
    let place = Place::new("full", Some(100_000));
    let states = place.states(1 << 20);
    let mut sorter = Sorter::new(ByBytes);
    let failed = (0..10_000).find_map(|_| sorter.add(b"", &[1; 1000], &states).err());
    assert_eq!(failed.unwrap().code, 1021);
    drop(sorter);
    assert_eq!(place.dir.used(), 0);
}

#[test]
fn partitions_keep_their_records_in_order() {
    let place = Place::new("partitions", None);
    let states = place.states(1 << 20);
    let mut rng = fastrand::Rng::with_seed(9);
    let mut writer = PartitionWriter::create(7, &states).unwrap();
    let held = states.used();
    assert!(held > 0);
    let mut expected: Vec<Vec<Record>> = vec![Vec::new(); 7];
    // The last partition has no record; some records are larger than a block.
    for (key, value) in records(5000, 400, &mut rng)
        .into_iter()
        .chain(records(20, 100_000, &mut rng))
    {
        let at = rng.usize(..6);
        writer.add(at, &key, &value).unwrap();
        expected[at].push((key, value));
    }
    assert!(writer.add(7, b"", b"").is_err());
    let partitions = writer.finish(&states).unwrap();
    assert_eq!(states.used(), 0);
    for (partition, expected) in partitions.iter().zip(&expected) {
        let mut reader = partition.reader();
        let mut found = Vec::new();
        while reader.advance().unwrap() {
            found.push((reader.key().to_vec(), reader.value().to_vec()));
        }
        assert!(!reader.advance().unwrap());
        assert!(found == *expected);
        assert_eq!(partition.records(), expected.len() as u64);
    }
    let bytes: u64 = partitions.iter().map(|p| p.bytes()).sum();
    assert_eq!(bytes, place.dir.used());
    drop(partitions);
    assert_eq!(place.dir.used(), 0);
}
