//! Helpers shared by the tests.

use porpoise_bench::connect::Endpoint;
use porpoise_bench::experiments::kv::{KvWorkload, Operation};
use porpoise_bench::experiments::store::{Layout, Store};
use porpoise_bench::load::{self, Outcome, Plan, Shape};
use porpoise_bench::peers::{Durability, Peer, Settings, Started};
use porpoise_bench::sys::SharedCounter;
use porpoise_bench::value;
use std::path::PathBuf;
use std::time::Duration;

/// A started server, and the directory it is in.
pub struct Running {
    pub started: Started,
    pub home: tempfile::TempDir,
}

/// Starts a peer, which must be installed.
pub fn start(peer: Peer, preload: Option<PathBuf>) -> Running {
    let home = home();
    let settings = Settings {
        binary_log: false,
        processors: None,
        durability: Durability::Memory,
        directory: home.path().to_owned(),
        porpoise: PathBuf::new(),
        preload,
    };
    let started = peer.start(&settings).unwrap();
    Running {
        started: started.expect("it is not installed: run `make needs`"),
        home,
    }
}

/// A directory that another user may pass through, as PostgreSQL's must.
pub fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path(), permissions).unwrap();
    home
}

pub fn store(layout: Layout, prefix: &str) -> Store {
    Store {
        layout,
        rows: 1234,
        length: value::USUAL,
        prefix: prefix.to_owned(),
        inserted: SharedCounter::new(0),
        deleted: SharedCounter::new(0),
        confirmed: SharedCounter::new(0),
        version: SharedCounter::new(1),
    }
}

pub fn run(store: &Store, endpoint: &Endpoint, operation: Operation, shape: Shape) -> Outcome {
    let workload = KvWorkload::new(store, endpoint.access, operation, 1, operation as u64);
    let plan = Plan {
        endpoint,
        connections: 4,
        shape,
        warm_up: Duration::from_millis(50),
        time: Duration::from_millis(200),
        pace: load::Pace::default(),
    };
    load::run(&plan, &workload).unwrap()
}

/// Every operation by both kinds of client; each must do something, fail
/// nowhere and count the server's processor time.
pub fn exercise(store: &Store, endpoint: &Endpoint) {
    exercise_with(store, endpoint, true);
}

/// The same of a server that may have no process of its own.
pub fn exercise_with(store: &Store, endpoint: &Endpoint, has_process: bool) {
    store.fill(&endpoint.target).unwrap();
    for operation in [
        Operation::Select,
        Operation::Update,
        Operation::Insert,
        Operation::Mix,
        Operation::Delete,
    ] {
        for shape in [Shape::ThreadEach, Shape::Multiplexed(2)] {
            if operation == Operation::Delete {
                // More than can be deleted before measuring begins.
                store.top_up(&endpoint.target, 20_000).unwrap();
            }
            let outcome = run(store, endpoint, operation, shape);
            let what = format!("{operation:?} {shape:?} {:?}", endpoint.access);
            assert_eq!(outcome.failure, None, "{what}");
            assert!(outcome.requests > 0, "{what}");
            assert_eq!(outcome.latency.len(), outcome.requests, "{what}");
            assert_eq!(outcome.spent.server.is_some(), has_process, "{what}");
        }
    }
}
