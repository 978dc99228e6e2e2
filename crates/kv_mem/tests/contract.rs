//! The contract suite on an engine without a disk.

use porpoise_kv::Engine;
use porpoise_kv_mem::{KvMem, KvMemOptions};
use std::sync::Arc;

fn new_engine() -> Arc<dyn Engine> {
    KvMem::open(KvMemOptions::default()).unwrap()
}

porpoise_kv::contract_suite!(new_engine);
