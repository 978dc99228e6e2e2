//! memcached.

use crate::support::{exercise, start, store};
use porpoise_bench::connect::{Access, Endpoint};
use porpoise_bench::experiments::store::Layout;
use porpoise_bench::peers::Peer;

#[test]
fn every_operation() {
    let running = start(Peer::Memcached, None);
    let endpoint = Endpoint {
        target: running.started.target.clone(),
        access: Access::Memcached,
    };
    exercise(&store(Layout::Items, "kv:"), &endpoint);
    let pid = running.started.server.id();
    drop(running);
    assert_eq!(
        porpoise_bench::procfs::server_time(pid),
        None,
        "it was stopped"
    );
}
