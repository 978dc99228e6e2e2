//! A simulated power cut ends a child process during commits on a real disk; the next process
//! finds every acknowledged commit.

use crate::common::{all, set};
use porpoise_base::disk::{Faults, FaultyDisk};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

const DIR: &str = "PORPOISE_TEST_ABORT_DIR";
const FAULTS: &str = "PORPOISE_TEST_ABORT_FAULTS";

/// The process that dies; does nothing when it is run as a test by itself.
#[test]
fn child() {
    let (Ok(dir), Ok(faults)) = (std::env::var(DIR), std::env::var(FAULTS)) else {
        return;
    };
    let dir = PathBuf::from(dir);
    let engine = KvMem::open(KvMemOptions {
        dir: Some(dir.join("data")),
        disk: Arc::new(FaultyDisk::new(Faults::parse(&faults).unwrap())),
        segment_bytes: 1 << 16,
        checkpoint_bytes: 1 << 16,
        ..KvMemOptions::default()
    })
    .unwrap();
    for n in 0..100_000 {
        set(&engine, &format!("k{n}"), &"v".repeat(n % 300)).unwrap();
        // The reply to the client: a file outside of the faulty disk, replaced atomically.
        std::fs::write(dir.join("acknowledged.tmp"), n.to_string()).unwrap();
        std::fs::rename(dir.join("acknowledged.tmp"), dir.join("acknowledged")).unwrap();
    }
}

#[test]
fn acknowledged_commits_survive_a_power_cut() {
    for round in 1..=8u64 {
        let dir = tempfile::tempdir().unwrap();
        let faults = format!("seed={},cut_at={}", round / 2, 40 + round * 211);
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "aborted_process::child"])
            .env(DIR, dir.path())
            .env(FAULTS, &faults)
            .output()
            .unwrap()
            .status;
        assert!(!status.success(), "the child must end by the power cut");
        let acknowledged = std::fs::read_to_string(dir.path().join("acknowledged"));
        let acknowledged: usize = acknowledged.map_or(0, |n| n.parse().unwrap());
        let engine = KvMem::open(KvMemOptions {
            dir: Some(dir.path().join("data")),
            segment_bytes: 1 << 16,
            ..KvMemOptions::default()
        })
        .unwrap();
        let rows = all(&engine);
        assert!(
            acknowledged > 0 && rows.len() > acknowledged,
            "{} rows, acknowledged {acknowledged}, {faults}",
            rows.len()
        );
        for n in 0..=acknowledged {
            assert_eq!(rows.get(&format!("k{n}")).map(String::len), Some(n % 300));
        }
        engine.verify().unwrap();
    }
}
