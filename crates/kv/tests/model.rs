//! The contract suite on the reference model.

use porpoise_kv::model::Model;
use porpoise_kv::{Engine, contract};
use std::sync::Arc;

fn new_engine() -> Arc<dyn Engine> {
    Arc::new(Model::new())
}

porpoise_kv::contract_suite!(new_engine);

#[test]
fn restart_guarantees() {
    for function in [
        contract::restart::guarantee_11_commits_and_spaces_survive,
        contract::prepared::guarantee_15_prepared_transactions_survive,
        contract::restart::guarantee_10_counters_are_exact_after_a_clean_shutdown,
        contract::restart::guarantee_10_ids_never_repeat_without_a_shutdown,
    ] {
        let store = Model::new();
        function(&|| Arc::new(store.reopen()));
    }
}

#[test]
fn an_engine_without_preparation_says_so() {
    let prepared = contract::ALL
        .iter()
        .filter(|function| function.name.starts_with("prepared::"));
    for function in prepared {
        (function.run)(&|| Arc::new(Model::new().without_preparation()));
    }
}
