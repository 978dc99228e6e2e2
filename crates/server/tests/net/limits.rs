//! Caps on connections, and time limits.

use crate::harness::{Server, config, eventually};
use porpoise_server::net::{End, NetConfig};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn two_thousand_connections_are_served() {
    porpoise_server::sys::raise_open_files().unwrap();
    let server = Server::start(config());
    let mut clients: Vec<_> = (0..2000).map(|_| server.connect()).collect();
    for round in 0..3 {
        for client in &mut clients {
            client.send(&format!("echo {round}\n"));
        }
        for client in &mut clients {
            assert_eq!(client.line(), round.to_string());
        }
    }
    assert_eq!(server.seen.open.load(Ordering::SeqCst), 2000);
    clients.truncate(10);
    eventually("closed ones are gone", || {
        server.seen.open.load(Ordering::SeqCst) == 10
    });
}

#[test]
fn beyond_max_connections_one_connection_is_reserved_for_administrators() {
    let server = Server::start(NetConfig {
        max_connections: 3,
        ..config()
    });
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("echo 1"), "1");
    }
    assert_eq!(server.seen.reserved.load(Ordering::SeqCst), 1);
    assert_eq!(server.connect().line(), "refused TooManyConnections");
    clients.clear();
    eventually("places are free again", || {
        let mut client = server.connect();
        client.send("echo 2\n");
        client.line() == "2"
    });
}

#[test]
fn a_login_has_a_deadline_even_if_its_bytes_arrive_slowly() {
    let server = Server::with(
        NetConfig {
            connect_timeout: Duration::from_millis(300),
            ..config()
        },
        true,
        None,
    );
    let mut fine = server.connect();
    assert_eq!(fine.ask("login"), "welcome");
    let start = Instant::now();
    let mut drip = server.connect();
    while start.elapsed() < Duration::from_secs(5) {
        if drip.0.get_mut().write_all(b"l").is_err() || server.seen.ended(End::LoginTimeout) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(drip.line(), "end LoginTimeout");
    assert_eq!(fine.ask("echo 1"), "1");
}

#[test]
fn a_request_must_arrive_in_time_and_an_idle_connection_may_have_a_limit() {
    let server = Server::with(
        NetConfig {
            net_read_timeout: Duration::from_millis(200),
            ..config()
        },
        false,
        Some(Duration::from_millis(600)),
    );
    let mut partial = server.connect();
    let mut idle = server.connect();
    assert_eq!(idle.ask("echo 1"), "1");
    partial.send("echo 1\nech");
    assert_eq!(partial.line(), "1");
    assert_eq!(partial.line(), "end RequestTimeout");
    assert_eq!(partial.line(), "");
    assert_eq!(idle.ask("echo 2"), "2");
    assert_eq!(idle.line(), "end IdleTimeout");
    assert_eq!(idle.line(), "");
}

#[test]
fn a_pending_login_is_dropped_if_too_many_are_in_progress() {
    let server = Server::with(
        NetConfig {
            max_before_login: 2,
            connect_timeout: Duration::from_secs(60),
            ..config()
        },
        true,
        None,
    );
    let mut strangers: Vec<_> = (0..2)
        .map(|n| {
            let client = server.connect();
            eventually("a stranger is in", || {
                server.seen.open.load(Ordering::SeqCst) == n + 1
            });
            client
        })
        .collect();
    let mut client = server.connect();
    assert_eq!(client.ask("login"), "welcome");
    assert_eq!(strangers[0].line(), "end LoginTimeout");
    assert_eq!(strangers[0].line(), "");
    assert_eq!(strangers[1].ask("login"), "welcome");
    assert_eq!(client.ask("echo 1"), "1");
}

#[test]
fn a_flood_of_half_open_logins_keeps_no_client_out() {
    porpoise_server::sys::raise_open_files().unwrap();
    let server = Server::with(
        NetConfig {
            max_before_login: 20,
            connect_timeout: Duration::from_secs(60),
            ..config()
        },
        true,
        None,
    );
    let _flood: Vec<_> = (0..300).map(|_| server.connect()).collect();
    assert_eq!(server.connect().ask("login"), "welcome");
    let gauges = server.net.as_ref().map(|net| net.monitor());
    // Connections past the limit are evicted as soon as there is a candidate.
    eventually("the flood is cut down", || {
        gauges
            .as_ref()
            .is_some_and(|g| g.gauges().before_login <= 21)
    });
    let mut other = std::os::unix::net::UnixStream::connect(&server.path).unwrap();
    other.write_all(b"login\n").unwrap();
    let mut reply = [0; 8];
    std::io::Read::read_exact(&mut other, &mut reply).unwrap();
    assert_eq!(&reply, b"welcome\n");
}

#[test]
fn one_listener_cannot_take_the_share_of_another() {
    let server = Server::start(NetConfig {
        max_connections: 40,
        ..config()
    });
    // Two listeners: a twentieth is kept for each; one more place is reserved.
    let mut clients: Vec<_> = (0..39).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("echo 1"), "1");
    }
    assert_eq!(server.seen.reserved.load(Ordering::SeqCst), 1);
    assert_eq!(server.connect().line(), "refused TooManyConnections");
    for _ in 0..2 {
        let mut other = std::os::unix::net::UnixStream::connect(&server.path).unwrap();
        other.write_all(b"echo 2\n").unwrap();
        let mut reply = [0; 2];
        std::io::Read::read_exact(&mut other, &mut reply).unwrap();
        assert_eq!(&reply, b"2\n");
    }
}
