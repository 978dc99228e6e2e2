//! Sessions that compute for long without yielding, and those beside them.

use crate::harness::{Client, Server, config, eventually};
use porpoise_server::metrics::{Counter, sum};
use porpoise_server::net::{End, NetConfig};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Tells a stall of seconds from a slow machine.
const PROMPT: Duration = Duration::from_secs(3);

fn one_group() -> NetConfig {
    NetConfig {
        groups: 1,
        ..config()
    }
}

/// Clients whose sessions compute for `millis`.
fn burners(server: &Server, count: usize, millis: u64) -> Vec<Client> {
    let mut clients: Vec<_> = (0..count).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(&format!("burn {millis}\necho 7\n"));
    }
    eventually("all compute", || {
        server.seen.burning.load(Ordering::SeqCst) == count
    });
    clients
}

#[test]
fn computing_sessions_block_neither_other_sessions_nor_logins() {
    let retakes = sum(Counter::Retakes);
    let server = Server::start(config());
    let mut old: Vec<_> = (0..4).map(|_| server.connect()).collect();
    let mut burning = burners(&server, 4, 9_000);
    let start = Instant::now();
    for i in 0..50 {
        for client in &mut old {
            assert_eq!(client.ask(&format!("echo {i}")), i.to_string());
        }
    }
    for i in 0..20 {
        assert_eq!(server.connect().ask(&format!("echo {i}")), i.to_string());
    }
    assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
    assert_eq!(server.seen.burning.load(Ordering::SeqCst), 4);
    assert!(sum(Counter::Retakes) >= retakes + 4);
    for client in &mut burning {
        assert_eq!(client.line(), "burnt");
        assert_eq!(client.line(), "7");
        assert_eq!(client.ask("echo 8"), "8");
    }
}

#[test]
fn a_client_that_goes_away_ends_its_computation() {
    let server = Server::start(one_group());
    let client = burners(&server, 1, 60_000).remove(0);
    // Long enough to be retaken before the client is gone.
    std::thread::sleep(Duration::from_millis(50));
    let socket = socket2::Socket::from(client.0.into_inner());
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    drop(socket);
    eventually("the computation is cancelled", || {
        server.seen.cancelled.load(Ordering::SeqCst) == 1
    });
    eventually("the session is gone", || {
        server.seen.open.load(Ordering::SeqCst) == 0
    });
}

#[test]
fn a_login_times_out_while_its_group_computes() {
    let server = Server::with(
        NetConfig {
            connect_timeout: Duration::from_millis(300),
            ..one_group()
        },
        true,
        None,
    );
    let mut burning = server.connect();
    assert_eq!(burning.ask("login"), "welcome");
    burning.send("burn 60000\n");
    let start = Instant::now();
    assert_eq!(server.connect().line(), "end LoginTimeout");
    assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
    assert!(server.seen.ended(End::LoginTimeout));
    assert_eq!(server.seen.burning.load(Ordering::SeqCst), 1);
}

#[test]
fn a_session_that_computes_then_waits_then_computes_comes_back() {
    let server = Server::start(one_group());
    let mut client = server.connect();
    client.send("burn 60\nwait\nburn 60\nwait\necho 3\n");
    eventually("it waits", || {
        server.seen.waiting.load(Ordering::SeqCst) == 1
    });
    let mut other = server.connect();
    assert_eq!(other.ask("echo 1"), "1");
    server.seen.release();
    for expected in ["burnt", "waited", "burnt", "waited", "3"] {
        assert_eq!(client.line(), expected);
    }
    let probe = server.net.as_ref().map(|net| net.monitor());
    eventually("nothing is counted any more", || {
        probe.as_ref().is_some_and(|p| {
            let gauges = p.gauges();
            gauges.waiting == 0 && gauges.computing == 0
        })
    });
}

#[test]
fn the_end_of_a_session_may_compute_too() {
    let server = Server::start(one_group());
    let mut client = server.connect();
    assert_eq!(client.ask("heavy"), "heavy");
    drop(client);
    eventually("its end computes", || {
        server.seen.burning.load(Ordering::SeqCst) == 1
    });
    let start = Instant::now();
    assert_eq!(server.connect().ask("echo 1"), "1");
    assert!(start.elapsed() < Duration::from_millis(1_500));
}

#[test]
fn computations_take_no_place_from_those_that_wait() {
    let server = Server::start(NetConfig {
        max_running_statements: 4,
        ..one_group()
    });
    let _burning = burners(&server, 3, 60_000);
    let mut waiting: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut waiting {
        client.send("wait\n");
    }
    eventually("three wait", || {
        server.seen.waiting.load(Ordering::SeqCst) == 3
    });
    assert_eq!(server.connect().ask("echo 1"), "1");
    server.seen.release();
    for client in &mut waiting {
        assert_eq!(client.line(), "waited");
    }
}

#[test]
fn a_connection_that_computed_long_waits_while_others_compute() {
    let server = Server::start(one_group());
    let mut again = server.connect();
    let _burning = burners(&server, 2, 5_000);
    let mut light = server.connect();
    assert_eq!(again.ask("burn 1000"), "burnt");
    again.send("burn 1\n");
    assert!(again.silent(), "served beside two that compute");
    assert_eq!(light.ask("echo 1"), "1");
    // Once they are done.
    assert_eq!(again.line(), "burnt");
    assert_eq!(again.ask("echo 2"), "2");
}

#[test]
fn requests_and_replies_survive_many_retakes() {
    let server = Server::start(config());
    let address = server.address;
    let threads: Vec<_> = (0..8u64)
        .map(|n| {
            std::thread::spawn(move || {
                use std::io::{BufRead, BufReader, Write};
                let mut stream = BufReader::new(std::net::TcpStream::connect(address).unwrap());
                for i in 0..60 {
                    // Around the limit, so that the ends of calls and retakes race.
                    let text = format!("burn {}\necho {i}\n", 3 + (n + i) % 5);
                    stream.get_mut().write_all(text.as_bytes()).unwrap();
                    for expected in ["burnt".to_owned(), i.to_string()] {
                        let mut line = String::new();
                        stream.read_line(&mut line).unwrap();
                        assert_eq!(line.trim_end(), expected);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn a_login_passes_a_long_row_of_requests_that_wait() {
    let server = Server::with(one_group(), true, None);
    let mut waiting: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for client in &mut waiting {
        assert_eq!(client.ask("login"), "welcome");
    }
    for client in &mut waiting {
        client.send("wait\n");
    }
    let start = Instant::now();
    assert_eq!(server.connect().ask("login"), "welcome");
    assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
    eventually("all wait", || {
        server.seen.waiting.load(Ordering::SeqCst) == 200
    });
    server.seen.release();
    for client in &mut waiting {
        assert_eq!(client.line(), "waited");
    }
}
