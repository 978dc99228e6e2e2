//! Shutting down, in order.

use crate::harness::{Server, config, eventually};
use porpoise_kv::{CommitPosition, DurableListener};
use porpoise_server::net::End;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn idle_sessions_end_at_once_and_are_told() {
    let mut server = Server::start(config());
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("echo 1"), "1");
    }
    let start = Instant::now();
    assert!(server.net.take().unwrap().shutdown(Duration::from_secs(5)));
    assert!(start.elapsed() < Duration::from_secs(2));
    for client in &mut clients {
        assert_eq!(client.line(), "end Shutdown");
    }
    assert_eq!(server.seen.open.load(Ordering::SeqCst), 0);
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn a_shutdown_lets_statements_finish_and_cancels_long_waits() {
    let mut server = Server::start(config());
    let mut waiting = server.connect();
    waiting.send("wait\n");
    let mut held = server.connect();
    held.send("commit 5\n");
    eventually("it waits", || {
        server.seen.waiting.load(Ordering::SeqCst) == 1
    });
    let durability = server.durability.clone();
    let log = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        durability.durable(CommitPosition(5));
    });
    assert!(
        server
            .net
            .take()
            .unwrap()
            .shutdown(Duration::from_millis(400))
    );
    log.join().unwrap();
    assert_eq!(held.line(), "done 5");
    assert_eq!(waiting.line(), "cancelled");
    assert_eq!(server.seen.cancelled.load(Ordering::SeqCst), 1);
    assert_eq!(server.seen.open.load(Ordering::SeqCst), 0);
    assert!(server.seen.ended(End::Shutdown));
}
