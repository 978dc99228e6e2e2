//! Replies and durability: no reply reveals a commit before it is durable.

use crate::client::Client;
use porpoise_testkit::Porpoise;
use porpoise_wire::mysql::client;
use porpoise_wire::mysql::command::code;
use std::time::{Duration, Instant};

/// Duration of a sync in these tests.
const SYNC: Duration = Duration::from_millis(800);

fn slow_disk() -> Porpoise {
    let spec = format!("sync_delay_us={}", SYNC.as_micros());
    Porpoise::builder().disk_faults(spec).start()
}

#[test]
fn replies_keep_their_order_around_a_held_one() {
    let server = slow_disk();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (a INT PRIMARY KEY)");
    let mut out = Vec::new();
    client::simple(&mut out, code::PING);
    client::query(&mut out, c.caps, b"INSERT INTO d.t VALUES (1)", &[]);
    client::query(&mut out, c.caps, b"SELECT 'after'", &[]);
    let start = Instant::now();
    c.send(&out);
    assert_eq!(c.answers(false)[0].code(), 0);
    assert!(start.elapsed() < SYNC, "a reply before a held one leaves");
    assert_eq!(c.answers(false)[0].affected, 1);
    assert!(start.elapsed() >= SYNC, "{:?}", start.elapsed());
    assert_eq!(c.answers(false)[0].one(), "after");
}

#[test]
fn others_see_a_commit_when_it_is_durable_and_locking_readers_wait_for_it() {
    let server = slow_disk();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (a INT PRIMARY KEY)");
    let mut other = Client::root(server.mysql_addr);
    let insert = c.query_bytes("INSERT INTO d.t VALUES (1)");
    let start = Instant::now();
    c.send(&insert);
    // The row is there as soon as the statement ran; not so for snapshots.
    std::thread::sleep(SYNC / 6);
    let seen = other.good("SELECT COUNT(*) FROM d.t").one();
    assert!(start.elapsed() < SYNC && seen == "0", "{seen}");
    let refused = other.query("INSERT INTO d.t VALUES (1)");
    assert_eq!(refused.code(), 1062);
    assert!(start.elapsed() >= SYNC, "an error may reveal a commit, too");
    assert_eq!(c.answers(false)[0].affected, 1);
    assert_eq!(other.good("SELECT COUNT(*) FROM d.t").one(), "1");
}

#[test]
fn a_failed_log_leaves_the_outcome_unknown_and_reads_go_on() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (a INT PRIMARY KEY)");
    c.good("INSERT INTO d.t VALUES (1)");
    drop(c);
    let mut server = server;
    server.reconfigure(|b| b.disk_faults("fail_sync_at=40"));
    server.restart();
    let mut c = Client::root(server.mysql_addr);
    let mut failed = None;
    for n in 2..200 {
        let insert = c.query_bytes(&format!("INSERT INTO d.t VALUES ({n})"));
        c.send(&insert);
        c.expect(1);
        let Some(packet) = c.packet() else { break };
        if let Some(error) = client::result::parse_error(&packet) {
            failed = Some(error.code);
            break;
        }
    }
    assert_eq!(failed, Some(1180));
    let mut other = Client::root(server.mysql_addr);
    assert_ne!(other.good("SELECT COUNT(*) FROM d.t").one(), "0");
    assert_ne!(other.query("INSERT INTO d.t VALUES (1000)").code(), 0);
}
