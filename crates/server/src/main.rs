//! Porpoise: the server binary.

use std::process::ExitCode;
use std::sync::Arc;
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let door = Arc::new(porpoise_server::noop::Noop);
    let addr = std::env::args().nth(1).unwrap().parse().unwrap();
    let l = porpoise_server::net::Listener::tcp(addr, door).unwrap();
    let mut net = porpoise_server::net::Net::start(
        Default::default(),
        porpoise_server::net::Marks::new(porpoise_kv::Ticket(0)),
    )
    .unwrap();
    net.serve(vec![l]).unwrap();
    loop {
        std::thread::park();
    }
}
