//! Sessions that wait, and others that they must not block.

use crate::harness::{Server, config, eventually};
use porpoise_server::net::{End, NetConfig};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn one_group() -> NetConfig {
    NetConfig {
        groups: 1,
        ..config()
    }
}

#[test]
fn a_waiting_session_does_not_block_its_thread_group() {
    let server = Server::start(one_group());
    let mut waiting: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for client in &mut waiting {
        client.send("wait\necho 7\n");
    }
    eventually("all five wait", || {
        server.seen.waiting.load(Ordering::SeqCst) == 5
    });
    let mut other = server.connect();
    for i in 0..100 {
        assert_eq!(other.ask(&format!("echo {i}")), i.to_string());
    }
    server.seen.release();
    for client in &mut waiting {
        assert_eq!(client.line(), "waited");
        assert_eq!(client.line(), "7");
        assert_eq!(client.ask("echo 8"), "8");
    }
}

#[test]
fn a_connection_reset_ends_the_wait_of_its_session() {
    let server = Server::start(one_group());
    let mut client = server.connect();
    client.send("wait\n");
    eventually("it waits", || {
        server.seen.waiting.load(Ordering::SeqCst) == 1
    });
    let socket = socket2::Socket::from(client.0.into_inner());
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    drop(socket);
    eventually("the wait is cancelled", || {
        server.seen.cancelled.load(Ordering::SeqCst) == 1
    });
    eventually("the session is gone", || {
        server.seen.open.load(Ordering::SeqCst) == 0
    });
}

#[test]
fn a_client_with_a_half_closed_connection_gets_the_reply_after_a_wait() {
    let server = Server::start(one_group());
    let mut client = server.connect();
    client.send("echo 1\nwait\necho 2\n");
    client
        .0
        .get_ref()
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    eventually("it waits", || {
        server.seen.waiting.load(Ordering::SeqCst) == 1
    });
    std::thread::sleep(Duration::from_millis(100));
    server.seen.release();
    let lines: Vec<_> = (0..4).map(|_| client.line()).collect();
    assert_eq!(lines, ["1", "waited", "2", ""]);
    assert_eq!(server.seen.cancelled.load(Ordering::SeqCst), 0);
    eventually("its end is reported", || server.seen.ended(End::Eof));
}

#[test]
fn a_client_that_closes_its_unix_socket_ends_the_wait_of_its_session() {
    let server = Server::start(one_group());
    let mut client = std::os::unix::net::UnixStream::connect(&server.path).unwrap();
    client.write_all(b"wait\n").unwrap();
    eventually("it waits", || {
        server.seen.waiting.load(Ordering::SeqCst) == 1
    });
    client.shutdown(std::net::Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(server.seen.cancelled.load(Ordering::SeqCst), 0);
    drop(client);
    eventually("the wait is cancelled", || {
        server.seen.cancelled.load(Ordering::SeqCst) == 1
    });
}

#[test]
fn beyond_the_request_limit_only_lock_holders_are_served() {
    let server = Server::start(NetConfig {
        max_running_statements: 2,
        ..one_group()
    });
    let mut holder = server.connect();
    assert_eq!(holder.ask("lock"), "locked");
    let mut waiting: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for client in &mut waiting {
        client.send("wait\n");
    }
    eventually("two wait", || {
        server.seen.waiting.load(Ordering::SeqCst) == 2
    });
    let mut late = server.connect();
    late.send("echo 5\n");
    assert!(late.silent(), "served past the cap");
    assert_eq!(holder.ask("echo 1"), "1");
    server.seen.release();
    assert_eq!(late.line(), "5");
    for client in &mut waiting {
        assert_eq!(client.line(), "waited");
    }
}

#[test]
fn a_panic_ends_only_its_session_with_an_error() {
    let server = Server::start(one_group());
    let mut other = server.connect();
    assert_eq!(other.ask("echo 1"), "1");
    let mut client = server.connect();
    client.send("echo 2\npanic\necho 3\n");
    assert_eq!(client.line(), "2");
    assert_eq!(client.line(), "end InternalError");
    assert_eq!(client.line(), "");
    assert_eq!(other.ask("echo 4"), "4");
    eventually("its session is dropped", || {
        server.seen.open.load(Ordering::SeqCst) == 1
    });
}
