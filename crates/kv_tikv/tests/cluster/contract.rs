//! The contract suite: all functions use one cluster, each with its own server.

use super::double::AnyCluster;
use porpoise_kv::{Engine, contract};
use std::sync::{Arc, OnceLock};

fn new_engine() -> Arc<dyn Engine> {
    static CLUSTER: OnceLock<AnyCluster> = OnceLock::new();
    CLUSTER.get_or_init(AnyCluster::start).server()
}

porpoise_kv::contract_suite!(new_engine);

/// The same with key-share locks by guards in all spaces.
mod with_guards {
    use super::{AnyCluster, Arc, Engine, OnceLock};

    fn new_engine() -> Arc<dyn Engine> {
        static CLUSTER: OnceLock<AnyCluster> = OnceLock::new();
        let engine = CLUSTER.get_or_init(AnyCluster::start).engine();
        engine.treat_all_spaces_as_referenced();
        engine
    }

    porpoise_kv::contract_suite!(new_engine);
}

#[test]
fn restart_guarantees() {
    for function in [
        contract::restart::guarantee_11_commits_and_spaces_survive,
        contract::restart::guarantee_10_counters_are_exact_after_a_clean_shutdown,
        contract::restart::guarantee_10_ids_never_repeat_without_a_shutdown,
    ] {
        let cluster = AnyCluster::start();
        function(&|| cluster.server());
    }
}
