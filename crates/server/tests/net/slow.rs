//! Clients that do not read, and deep pipelines.

use crate::harness::{Server, config, eventually};
use porpoise_server::net::NetConfig;
use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn impatient() -> NetConfig {
    NetConfig {
        groups: 1,
        net_write_timeout: Duration::from_millis(300),
        ..config()
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_client_that_does_not_read_is_disconnected_without_effect_on_others() {
    let server = Server::start(impatient());
    let mut slow = server.connect();
    let stream = slow.0.get_mut();
    stream
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let before = resident_bytes();
    // Two gigabytes of replies; the server stops reading long before.
    let requests = "big 100000\n".repeat(20_000);
    let mut sent = 0;
    while sent < requests.len() {
        match stream.write(&requests.as_bytes()[sent..]) {
            Ok(n) => sent += n,
            Err(_) => break,
        }
        if server.seen.open.load(Ordering::SeqCst) == 0 {
            break;
        }
    }
    // Other tests of this process need memory, too, but not nearly as much.
    assert!(resident_bytes() < before + 500_000_000);
    let mut other = server.connect();
    let start = Instant::now();
    assert_eq!(other.ask("echo 1"), "1");
    assert!(start.elapsed() < Duration::from_secs(2));
    eventually("it is cut off", || {
        server.seen.open.load(Ordering::SeqCst) == 1
    });
}

#[test]
fn a_streamed_result_to_a_stalled_client_is_cut_off() {
    let server = Server::start(impatient());
    let mut slow = server.connect();
    slow.send("stream 100000000\n");
    let mut other = server.connect();
    assert_eq!(other.ask("echo 1"), "1");
    eventually("it is cut off", || {
        server.seen.open.load(Ordering::SeqCst) == 1
    });
}

#[test]
fn a_streamed_result_arrives_whole_at_a_client_that_reads() {
    let server = Server::start(config());
    let mut client = server.connect();
    client.send("stream 20000000\necho 5\n");
    assert_eq!(client.line().len(), 20_000_000);
    assert_eq!(client.line(), "5");
}

#[test]
fn a_deep_pipeline_is_answered_in_order_without_blocking_others() {
    let server = Server::start(NetConfig {
        groups: 1,
        ..config()
    });
    let mut client = server.connect();
    let requests: String = (0..50_000).map(|i| format!("echo {i}\n")).collect();
    let mut writer = client.0.get_ref().try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(requests.as_bytes()).unwrap());
    let mut other = server.connect();
    assert_eq!(other.ask("echo 1"), "1");
    for i in 0..50_000 {
        assert_eq!(client.line(), i.to_string());
    }
    sender.join().unwrap();
}

#[test]
fn a_request_of_many_buffers_arrives_whole() {
    let server = Server::start(config());
    let mut client = server.connect();
    client.send("echo 1\nput 5000000\n");
    client.0.get_mut().write_all(&vec![3; 5_000_000]).unwrap();
    client.send("put 3\nabcecho 2\n");
    assert_eq!(client.line(), "1");
    assert_eq!(client.line(), "sum 15000000");
    assert_eq!(client.line(), "sum 294");
    assert_eq!(client.line(), "2");
}

#[test]
fn a_request_in_single_bytes_arrives() {
    let server = Server::start(config());
    let mut client = server.connect();
    for byte in "echo 12345\n".bytes() {
        client.0.get_mut().write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.line(), "12345");
}

#[test]
fn the_last_reply_arrives_if_the_server_closes_with_unread_input() {
    let server = Server::start(config());
    for _ in 0..50 {
        let mut client = server.connect();
        client.send(&format!("big 200000\nquit\n{}", "echo 1\n".repeat(1000)));
        let mut all = Vec::new();
        client.0.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 200_001);
    }
}
