//! Replies to several connections that leave with one system call, and the same without io_uring.

use crate::harness::{Client, Server, config, eventually};
use porpoise_kv::{CommitPosition, DurableListener};
use porpoise_server::metrics::{Counter, sum};
use porpoise_server::net::NetConfig;
use std::io::Read;
use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// One group, so that all connections share their rounds.
fn one_group(io_uring: bool) -> NetConfig {
    NetConfig {
        groups: 1,
        io_uring,
        ..config()
    }
}

/// Occupies the event loop until it is retaken from this call, sends a request on each connection
/// meanwhile, and returns: the next round serves them all.
fn send_at_once(busy: &mut Client, clients: &mut [Client], request: &str) {
    busy.send("burn 20\n");
    for client in clients {
        client.send(request);
    }
}

#[test]
fn replies_of_a_round_arrive_whole_and_in_order() {
    for io_uring in [true, false] {
        let server = Server::start(one_group(io_uring));
        let mut busy = server.connect();
        let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
        let before = sum(Counter::BatchedSends);
        for round in 0..20 {
            let requests: String = (0..3)
                .map(|n| format!("echo {}\n", round * 10 + n))
                .collect();
            send_at_once(&mut busy, &mut clients, &requests);
            for client in &mut clients {
                for n in 0..3 {
                    assert_eq!(client.line(), (round * 10 + n).to_string());
                }
            }
            assert_eq!(busy.line(), "burnt");
        }
        if io_uring && io_uring_is_allowed() {
            assert!(sum(Counter::BatchedSends) > before, "nothing was batched");
        }
    }
}

/// Whether this machine's kernel lets a process use io_uring.
fn io_uring_is_allowed() -> bool {
    porpoise_server::net::has_io_uring()
}

#[test]
fn what_a_socket_does_not_accept_follows_when_the_client_reads() {
    for io_uring in [true, false] {
        let server = Server::start(one_group(io_uring));
        let mut busy = server.connect();
        let mut clients: Vec<_> = (0..6).map(|_| server.connect()).collect();
        // More than the buffers of a socket.
        send_at_once(&mut busy, &mut clients, "big 12000000\necho 7\n");
        let start = Barrier::new(clients.len());
        std::thread::scope(|scope| {
            for client in &mut clients {
                scope.spawn(|| {
                    start.wait();
                    std::thread::sleep(Duration::from_millis(50));
                    assert_eq!(client.line().len(), 12_000_000);
                    assert_eq!(client.line(), "7");
                });
            }
        });
        assert_eq!(busy.line(), "burnt");
    }
}

#[test]
fn deferred_replies_stay_when_others_of_the_round_leave() {
    for io_uring in [true, false] {
        let server = Server::start(one_group(io_uring));
        let mut busy = server.connect();
        let mut writers: Vec<_> = (0..8).map(|_| server.connect()).collect();
        let mut readers: Vec<_> = (0..8).map(|_| server.connect()).collect();
        busy.send("burn 20\n");
        for (writer, reader) in writers.iter_mut().zip(&mut readers) {
            writer.send("echo 1\ncommit 5\n");
            reader.send("echo 2\n");
        }
        for (writer, reader) in writers.iter_mut().zip(&mut readers) {
            assert_eq!(writer.line(), "1");
            assert_eq!(reader.line(), "2");
        }
        assert!(writers.iter_mut().all(Client::silent));
        server.durability.durable(CommitPosition(5));
        for writer in &mut writers {
            assert_eq!(writer.line(), "done 5");
        }
    }
}

#[test]
fn clients_that_vanish_in_a_round_do_not_disturb_the_others() {
    for io_uring in [true, false] {
        let server = Server::start(one_group(io_uring));
        let mut busy = server.connect();
        let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
        for round in 0..30 {
            let mut leaving: Vec<_> = (0..10).map(|_| server.connect()).collect();
            assert_eq!(leaving.last_mut().unwrap().ask("echo 3"), "3");
            busy.send("burn 3\n");
            for (client, leaver) in clients.iter_mut().zip(&mut leaving) {
                leaver.send("big 200000\n");
                client.send(&format!("echo {round}\n"));
            }
            // Unread replies turn the end of these connections into a reset.
            drop(leaving);
            for client in &mut clients {
                assert_eq!(client.line(), round.to_string());
            }
            assert_eq!(busy.line(), "burnt");
        }
        eventually("the vanished are gone", || {
            server.seen.open.load(Ordering::SeqCst) == 11
        });
    }
}

#[test]
fn a_session_that_ends_in_a_round_sends_its_last_reply() {
    for io_uring in [true, false] {
        let server = Server::start(one_group(io_uring));
        let mut busy = server.connect();
        let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
        send_at_once(&mut busy, &mut clients, "echo 1\nquit\n");
        for client in &mut clients {
            let mut rest = String::new();
            client.0.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "1\n");
        }
    }
}
