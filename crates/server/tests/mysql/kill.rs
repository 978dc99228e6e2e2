//! Statements and sessions that are ended by KILL, lost clients, shutdown or idleness.

use crate::client::{Client, How};
use porpoise_testkit::{Porpoise, PorpoiseBuilder};
use std::time::{Duration, Instant};

/// A server with a row that its first client has locked.
fn locked() -> (Porpoise, Client) {
    locked_in(Porpoise::builder())
}

fn locked_in(builder: PorpoiseBuilder) -> (Porpoise, Client) {
    let server = builder.start();
    let mut holder = Client::root(server.mysql_addr);
    holder.good("CREATE DATABASE d");
    holder.good("CREATE TABLE d.t (a INT PRIMARY KEY, b INT)");
    holder.good("INSERT INTO d.t VALUES (1, 0)");
    holder.good("BEGIN");
    holder.good("UPDATE d.t SET b = 1 WHERE a = 1");
    (server, holder)
}

/// Waits until the session `id` shows a statement.
fn until_running(watcher: &mut Client, id: u32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let list = watcher.good("SHOW FULL PROCESSLIST").texts();
        let mine = list.iter().find(|row| row[0] == id.to_string());
        if mine.is_some_and(|row| row[7].contains("UPDATE")) {
            return;
        }
        assert!(Instant::now() < deadline, "{list:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

const WAITING: &str = "UPDATE d.t SET b = 2 WHERE a = 1";

#[test]
fn kill_query_ends_a_wait_and_the_session_lives() {
    let (server, mut holder) = locked();
    let mut c = Client::root(server.mysql_addr);
    let bytes = c.query_bytes(WAITING);
    c.send(&bytes);
    until_running(&mut holder, c.id);
    holder.good(&format!("KILL QUERY {}", c.id));
    assert_eq!(c.answers(false)[0].code(), 1317);
    assert_eq!(c.good("SELECT 1").one(), "1");
    assert_eq!(holder.query("KILL 4000000").code(), 1094);
}

#[test]
fn kill_ends_a_waiting_and_an_idle_session() {
    let (server, mut holder) = locked();
    let mut c = Client::root(server.mysql_addr);
    let bytes = c.query_bytes(WAITING);
    c.send(&bytes);
    until_running(&mut holder, c.id);
    holder.good(&format!("KILL {}", c.id));
    assert!(c.last_words(1).is_some(), "an error tells of it");
    let mut idle = Client::root(server.mysql_addr);
    holder.good(&format!("KILL CONNECTION {}", idle.id));
    assert_eq!(idle.last_words(0), Some(3169));
    holder.good("COMMIT");
    assert_eq!(holder.good("SELECT b FROM d.t").one(), "1");
}

#[test]
fn a_client_that_is_gone_leaves_no_locks() {
    // A Unix socket shows at once that it was closed.
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("listener.sock");
    let (server, holder) = locked_in(Porpoise::builder().arg("--mysql-socket", &socket));
    let mut c = Client::root(server.mysql_addr);
    let bytes = c.query_bytes(WAITING);
    c.send(&bytes);
    drop(holder);
    assert_eq!(c.answers(false)[0].affected, 1);
    // The wait of a disconnected client ends.
    c.good("BEGIN");
    c.good(WAITING.replace("= 2", "= 3").as_str());
    let mut gone = Client::connect_unix(&socket, &How::default()).unwrap();
    let bytes = gone.query_bytes(WAITING);
    gone.send(&bytes);
    until_running(&mut c, gone.id);
    let id = gone.id;
    drop(gone);
    let deadline = Instant::now() + Duration::from_secs(20);
    while c
        .good("SHOW PROCESSLIST")
        .texts()
        .iter()
        .any(|row| row[0] == id.to_string())
    {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_idle_session_ends_after_wait_timeout() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("SET wait_timeout = 1");
    let start = Instant::now();
    assert_eq!(c.last_words(0), Some(4031));
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(900) && took < Duration::from_secs(20));
}

#[test]
fn a_shutdown_notifies_idle_sessions_and_keeps_commits() {
    let mut server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)");
    c.good("INSERT INTO d.t (b) VALUES (1), (2)");
    assert!(server.terminate().success());
    assert_eq!(c.last_words(0), Some(1053));
    server.restart();
    let mut c = Client::root(server.mysql_addr);
    assert_eq!(c.good("INSERT INTO d.t (b) VALUES (3)").id, 3);
    assert_eq!(c.good("SELECT COUNT(*) FROM d.t").one(), "3");
}
