//! Replies that wait for the log.

use crate::harness::{Server, config, eventually};
use porpoise_kv::{CommitPosition, DurableListener, Error};
use porpoise_server::net::End;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn deferred_replies_are_sent_in_order_after_the_sync() {
    let server = Server::start(config());
    let mut client = server.connect();
    client.send("echo 1\ncommit 5\necho 2\ncommit 7\ncommit 6\necho 3\n");
    assert_eq!(client.line(), "1");
    assert!(
        client.silent(),
        "a reply left before its commit was durable"
    );
    server.durability.durable(CommitPosition(4));
    assert!(client.silent());
    server.durability.durable(CommitPosition(5));
    assert_eq!(client.line(), "done 5");
    assert_eq!(client.line(), "2");
    assert!(client.silent());
    server.durability.durable(CommitPosition(9));
    assert_eq!(client.line(), "done 7");
    assert_eq!(client.line(), "done 6");
    assert_eq!(client.line(), "3");
    assert_eq!(client.ask("commit 9"), "done 9");
}

#[test]
fn held_replies_block_neither_their_connection_nor_others() {
    let server = Server::start(config());
    let mut held = server.connect();
    held.send("commit 5\n");
    let mut others: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for (i, other) in others.iter_mut().enumerate() {
        assert_eq!(other.ask(&format!("echo {i}")), i.to_string());
    }
    held.send("wait\n");
    eventually("the request behind a deferred reply runs", || {
        server.seen.waiting.load(Ordering::SeqCst) == 1
    });
    server.seen.release();
    assert!(held.silent());
    server.durability.durable(CommitPosition(5));
    assert_eq!(held.line(), "done 5");
    assert_eq!(held.line(), "waited");
}

#[test]
fn deferred_replies_report_an_unknown_outcome_after_a_log_failure() {
    let server = Server::start(config());
    let mut client = server.connect();
    client.send("echo 1\ncommit 5\ncommit 6\necho 2\n");
    assert_eq!(client.line(), "1");
    server.durability.durable(CommitPosition(5));
    assert_eq!(client.line(), "done 5");
    server.durability.failed(&Error::Io("fsync".into()));
    assert_eq!(client.line(), "end UnknownOutcome");
    assert_eq!(client.line(), "");
    assert!(server.seen.ended(End::UnknownOutcome));
    // Reads continue; commits that cannot become durable are unknown at once.
    let mut client = server.connect();
    assert_eq!(client.ask("echo 3"), "3");
    assert_eq!(client.ask("commit 6"), "end UnknownOutcome");
}

#[test]
fn a_deferred_reply_survives_the_half_close_of_its_client() {
    let server = Server::start(config());
    let mut client = server.connect();
    client.send("commit 5\necho 1\n");
    client
        .0
        .get_ref()
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    assert!(client.silent());
    server.durability.durable(CommitPosition(5));
    assert_eq!(client.line(), "done 5");
    assert_eq!(client.line(), "1");
    assert_eq!(client.line(), "");
}

#[test]
fn no_held_reply_is_lost_in_any_interleaving_of_mark_and_sleep() {
    let server = Server::start(config());
    let stop = Arc::new(AtomicBool::new(false));
    let (durability, done) = (server.durability.clone(), stop.clone());
    let log = std::thread::spawn(move || {
        let mut mark = 0;
        while !done.load(Ordering::Relaxed) {
            mark += 1;
            durability.durable(CommitPosition(mark));
            if mark % 64 == 0 {
                std::thread::yield_now();
            }
        }
    });
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = server.connect();
            let durability = server.durability.clone();
            std::thread::spawn(move || {
                for _ in 0..3000 {
                    let position = durability.durable_position().0 + 40;
                    assert_eq!(
                        client.ask(&format!("commit {position}")),
                        format!("done {position}")
                    );
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|c| c.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    log.join().unwrap();
}
