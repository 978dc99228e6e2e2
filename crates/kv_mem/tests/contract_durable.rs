//! The contract suite on an engine with a log, in each durability, and what a
//! restart keeps.

use porpoise_base::disk::MemDisk;
use porpoise_kv::{Durability, Engine, contract};
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::sync::Arc;
use std::time::Duration;

fn options(disk: &MemDisk, durability: Durability) -> KvMemOptions {
    KvMemOptions {
        dir: Some("/data".into()),
        disk: Arc::new(disk.clone()),
        durability,
        segment_bytes: 1 << 16,
        checkpoint_bytes: 1 << 17,
        ..KvMemOptions::default()
    }
}

mod sync {
    use super::*;
    fn new_engine() -> Arc<dyn Engine> {
        KvMem::open(options(&MemDisk::new(), Durability::Sync)).unwrap()
    }
    porpoise_kv::contract_suite!(new_engine);
}

mod interval {
    use super::*;
    fn new_engine() -> Arc<dyn Engine> {
        let durability = Durability::Interval(Duration::from_millis(50));
        KvMem::open(options(&MemDisk::new(), durability)).unwrap()
    }
    porpoise_kv::contract_suite!(new_engine);
}

mod memory {
    use super::*;
    fn new_engine() -> Arc<dyn Engine> {
        KvMem::open(options(&MemDisk::new(), Durability::Memory)).unwrap()
    }
    porpoise_kv::contract_suite!(new_engine);
}

fn restarts(durability: Durability) {
    for function in [
        contract::restart::guarantee_11_commits_and_spaces_survive,
        contract::prepared::guarantee_15_prepared_transactions_survive,
        contract::restart::guarantee_10_counters_are_exact_after_a_clean_shutdown,
        contract::restart::guarantee_10_ids_never_repeat_without_a_shutdown,
    ] {
        let disk = MemDisk::new();
        function(&|| KvMem::open(options(&disk, durability)).unwrap());
    }
}

#[test]
fn restart_guarantees_in_sync_mode() {
    restarts(Durability::Sync);
}

#[test]
fn restart_guarantees_in_interval_mode() {
    restarts(Durability::Interval(Duration::from_millis(50)));
}

#[test]
fn counters_survive_a_restart_in_memory_mode() {
    for function in [
        contract::restart::guarantee_10_counters_are_exact_after_a_clean_shutdown,
        contract::restart::guarantee_10_ids_never_repeat_without_a_shutdown,
    ] {
        let disk = MemDisk::new();
        function(&|| KvMem::open(options(&disk, Durability::Memory)).unwrap());
    }
}
