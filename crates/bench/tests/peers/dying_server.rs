//! A server that dies, and one that answers wrongly: one clear line, and what
//! was measured before is kept.

use crate::support::{run, start, store};
use porpoise_bench::connect::{Access, Endpoint};
use porpoise_bench::error::Kind;
use porpoise_bench::experiments::kv::{KvWorkload, Operation};
use porpoise_bench::experiments::store::Layout;
use porpoise_bench::load::{self, Plan, Shape};
use porpoise_bench::peers::Peer;
use porpoise_bench::proto::{Answer, Call, Verb};
use std::time::Duration;

#[test]
fn a_run_that_loses_its_server_keeps_its_figures() {
    for shape in [Shape::ThreadEach, Shape::Multiplexed(1)] {
        let running = start(Peer::Memcached, None);
        let endpoint = Endpoint {
            target: running.started.target.clone(),
            access: Access::Memcached,
        };
        let store = store(Layout::Items, "kv:");
        store.fill(&endpoint.target).unwrap();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(400));
            drop(running);
        });
        let workload = KvWorkload::new(&store, Access::Memcached, Operation::Select, 1, 1);
        let plan = Plan {
            endpoint: &endpoint,
            connections: 3,
            shape,
            warm_up: Duration::ZERO,
            time: Duration::from_secs(60),
            pace: load::Pace::default(),
        };
        let outcome = load::run(&plan, &workload).unwrap();
        killer.join().unwrap();
        let failure = outcome.failure.clone().expect("a failure");
        assert_eq!(failure.kind, Kind::Failed);
        assert!(!failure.message.contains('\n') && !failure.message.is_empty());
        assert!(outcome.requests > 0 && outcome.seconds < 30.0);
    }
}

#[test]
fn a_wrong_value_ends_the_run_as_wrong() {
    let running = start(Peer::Memcached, None);
    let endpoint = Endpoint {
        target: running.started.target.clone(),
        access: Access::Memcached,
    };
    let mut store = store(Layout::Items, "kv:");
    store.rows = 10;
    store.fill(&endpoint.target).unwrap();
    let mut connection = endpoint.connect(&[]).unwrap();
    let (mut call, mut answer) = (Call::default(), Answer::default());
    call.begin(Verb::Set)
        .bytes(b"kv:7")
        .bytes(b"not what belongs here");
    connection.must(&call, &mut answer).unwrap();
    let outcome = run(&store, &endpoint, Operation::Select, Shape::ThreadEach);
    let failure = outcome.failure.expect("a failure");
    assert_eq!(failure.kind, Kind::Wrong);
    assert!(failure.message.contains("key 7"), "{failure}");
}
