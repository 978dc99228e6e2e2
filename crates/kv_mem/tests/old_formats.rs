//! Stores that older versions wrote.

use porpoise_kv::{CounterId, Engine, Error, Read, ScanRange, SpaceId};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

fn copy(fixture: &str, to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(fixture);
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn options(dir: &Path) -> KvMemOptions {
    KvMemOptions {
        dir: Some(dir.to_owned()),
        segment_bytes: 1 << 14,
        checkpoint_bytes: u64::MAX,
        ..KvMemOptions::default()
    }
}

fn open(dir: &Path) -> Arc<KvMem> {
    KvMem::open(options(dir)).unwrap()
}

fn rows(engine: &KvMem, space: SpaceId) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    let range = ScanRange {
        space,
        start: b"",
        end: None,
        reverse: false,
    };
    let mut txn = engine.begin(Default::default()).unwrap();
    txn.scan(Read::SNAPSHOT, &[range], usize::MAX, &mut |_, k, v| {
        found.push((u32::from_be_bytes(k.try_into().unwrap()), v.to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

/// Written before checkpoints had units: rows 0 to 39 in the checkpoint, 30
/// to 59 in the log after it, row 0 of the first space deleted there, ids 1
/// to 5 of a counter used; then the process was ended.
#[test]
fn a_manifest_of_version_1_is_read_and_the_next_checkpoint_writes_the_present_one() {
    let dir = tempfile::tempdir().unwrap();
    copy("manifest-1", dir.path());
    let version = || std::fs::read(dir.path().join("MANIFEST")).unwrap()[12];
    assert_eq!(version(), 1);
    for round in 0..3 {
        let engine = open(dir.path());
        engine.verify().unwrap();
        for (space, first) in [(SpaceId(64), 1), (SpaceId(65), 0)] {
            let expected: Vec<(u32, Vec<u8>)> = (first..60)
                .map(|n| (n, if n < 30 { b"before" } else { b"behind" }.to_vec()))
                .collect();
            assert_eq!(rows(&engine, space), expected, "round {round}");
        }
        assert!(engine.next_id(CounterId(64)).unwrap() >= 6);
        engine.checkpoint().unwrap();
        assert_eq!(version(), 2);
    }
}

/// Its segment is of log format 2, from before stores had a head file: it is
/// accepted, and from then on a missing head file is refused.
#[test]
fn a_log_of_version_2_is_accepted_without_a_head_file_and_gets_one() {
    let dir = tempfile::tempdir().unwrap();
    copy("manifest-1", dir.path());
    let version = |name: &str| std::fs::read(dir.path().join(name)).unwrap()[12];
    assert_eq!(version("log-0000000000000001.seg"), 2);
    assert!(!dir.path().join("HEAD").exists());
    let engine = open(dir.path());
    assert_eq!(rows(&engine, SpaceId(65)).len(), 60);
    drop(engine);
    assert_eq!(version("HEAD"), 1);
    assert_eq!(version("log-0000000000000002.seg"), 5);
    for name in [
        "HEAD",
        "log-0000000000000001.seg",
        "log-0000000000000002.seg",
        "MANIFEST",
    ] {
        let (path, aside) = (dir.path().join(name), dir.path().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        let refused = KvMem::open(options(dir.path())).map(|_| ());
        assert!(
            matches!(&refused, Err(Error::Corrupt(message)) if message.contains(name)),
            "{refused:?}"
        );
        std::fs::rename(&aside, &path).unwrap();
    }
    assert_eq!(rows(&open(dir.path()), SpaceId(65)).len(), 60);
}

/// A store of an older version that lost its manifest is not initialised again.
#[test]
fn a_checkpoint_of_version_1_without_its_manifest_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    copy("manifest-1", dir.path());
    for name in ["MANIFEST", "log-0000000000000001.seg"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let refused = KvMem::open(options(dir.path())).map(|_| ());
    assert!(
        matches!(&refused, Err(Error::Corrupt(message)) if message.contains("MANIFEST")),
        "{refused:?}"
    );
}

/// Written by the version before annotations: 60 rows in each of two spaces.
#[test]
fn a_log_of_version_4_is_read() {
    let dir = tempfile::tempdir().unwrap();
    copy("log-4", dir.path());
    let version = |name: &str| std::fs::read(dir.path().join(name)).unwrap()[12];
    assert_eq!(version("log-0000000000000001.seg"), 4);
    let engine = open(dir.path());
    assert_eq!(version("log-0000000000000002.seg"), 5);
    for space in [SpaceId(64), SpaceId(65)] {
        assert_eq!(rows(&engine, space).len(), 60);
    }
    engine.verify().unwrap();
}
