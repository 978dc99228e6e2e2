//! The delay of syncs reaches a real server.

use crate::support::home;
use porpoise_bench::connect::{Access, Endpoint};
use porpoise_bench::experiments::kv::Operation;
use porpoise_bench::experiments::store::Layout;
use porpoise_bench::load::Shape;
use porpoise_bench::peers::{Durability, Peer, Settings, shim};
use std::path::PathBuf;
use std::time::Duration;

#[test]
fn a_commit_waits_for_the_delay() {
    let home = home();
    let delay = Duration::from_millis(30);
    let settings = Settings {
        binary_log: false,
        processors: None,
        durability: Durability::Sync,
        directory: home.path().to_owned(),
        porpoise: PathBuf::new(),
        preload: Some(shim::build(home.path(), delay).unwrap()),
    };
    let started = Peer::Postgres
        .start(&settings)
        .unwrap()
        .expect("PostgreSQL");
    let endpoint = Endpoint {
        target: started.target.clone(),
        access: Access::Postgres,
    };
    let store = crate::support::store(Layout::Plain, "");
    store.fill(&endpoint.target).unwrap();
    let outcome = crate::support::run(&store, &endpoint, Operation::Update, Shape::ThreadEach);
    assert_eq!(outcome.failure, None);
    // Counted from its own sync; one that joins another's may wait less.
    assert!(
        outcome.latency_micros(0.5) >= 25_000.0,
        "{}",
        outcome.latency_micros(0.5)
    );
    let outcome = crate::support::run(&store, &endpoint, Operation::Select, Shape::ThreadEach);
    assert!(outcome.latency_micros(0.5) < 25_000.0);
}
