//! Answers in read chunks: complete and in order for keys of every kind of
//! container, and in bounded memory.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;
use std::fmt::Write as _;
use std::hash::BuildHasher;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Prefixes of every kind of container: the default table, rows, a unique key,
/// values in a table of parts, values outside of their rows, the memory cache.
const PREFIXES: &[&str] = &["d:", "r:", "u:", "p:", "t:", "c:"];

fn start() -> Porpoise {
    let server = Porpoise::builder().arg("--durability", "memory").start();
    sql(
        &server,
        "CREATE DATABASE t;
         CREATE TABLE t.r (id INT PRIMARY KEY, v VARCHAR(16000) CHARACTER SET latin1);
         CREATE TABLE t.u (id INT PRIMARY KEY AUTO_INCREMENT, k INT UNIQUE, v MEDIUMTEXT);
         CREATE TABLE t.t (id INT PRIMARY KEY, v LONGTEXT);
         ALTER TABLE t.r MEMCACHED PREFIX 'r:' VALUE (v);
         ALTER TABLE t.u MEMCACHED PREFIX 'u:' KEY (k) VALUE (v);
         ALTER TABLE t.t MEMCACHED PREFIX 't:' VALUE (v);
         INSERT INTO ndbmemcache.key_prefixes VALUES (0, 'p:', 0, 'ndb-only', 'demo_ext'),
             (0, 'c:', 0, 'memcache-only', NULL)",
    );
    server
}

/// The value of a key: tens of thousands of bytes, or few.
fn value(key: &str, n: usize) -> String {
    let length = match n % 5 {
        0 => 16_000,
        1 if !key.starts_with('r') => 70_000,
        _ => n * 7 % 300,
    };
    key.chars().cycle().take(length).collect()
}

#[test]
fn keys_of_all_kinds_come_whole_and_in_order() {
    let server = start();
    let mut sets = String::new();
    let mut keys = Vec::new();
    for n in 0..120 {
        for prefix in PREFIXES {
            let key = format!("{prefix}{n}");
            let value = value(&key, n);
            let _ = write!(sets, "set {key} 0 0 {} noreply\r\n{value}\r\n", value.len());
            keys.push((key, value));
            keys.push((format!("{prefix}{}", 1000 + n), String::new()));
        }
        keys.push((format!("r:no number {n}").replace(' ', "_"), String::new()));
    }
    sets.push_str("set last 0 0 1\r\nx\r\n");
    assert_eq!(server.memcached(&sets), "STORED\r\n");
    let block = |key: &str, value: &str| {
        if value.is_empty() && key.len() > 4 {
            String::new()
        } else {
            format!("VALUE {key} 0 {}\r\n{value}\r\n", value.len())
        }
    };
    let several: [&[&str]; 5] = [PREFIXES, &["u:"], &["p:"], &["t:"], &["r:", "c:"]];
    for only in several {
        let mut asked: Vec<_> = keys
            .iter()
            .filter(|(key, _)| only.iter().any(|prefix| key.starts_with(prefix)))
            .collect();
        // In no order that a container's keys have.
        asked.sort_by_cached_key(|(key, _)| foldhash::fast::FixedState::default().hash_one(key));
        // In one request, and in several, one after the other.
        let mut one = String::from("get");
        let (mut several, mut expected) = (String::new(), String::new());
        let mut expected_of_several = String::new();
        for (key, value) in asked {
            let block = block(key, value);
            let _ = write!(one, " {key}");
            let _ = write!(several, "get {key}\r\n");
            expected += &block;
            let _ = write!(expected_of_several, "{block}END\r\n");
        }
        expected += "END\r\n";
        let answer = server.memcached(&(one + "\r\n"));
        assert!(answer == expected, "{only:?}: {} bytes", answer.len());
        let answer = server.memcached(&several);
        assert!(answer == expected_of_several, "{only:?}, pipelined");
    }
}

#[test]
fn one_client_wins_the_recache_of_a_stale_item_in_several_containers() {
    let server = start();
    let mut setup = String::new();
    let mut asks = String::new();
    for n in 0..30 {
        for prefix in ["r:", "t:", "c:", "d:"] {
            let value = "v".repeat(15_000);
            let _ = write!(setup, "set {prefix}{n} 0 0 15000 noreply\r\n{value}\r\n");
            let _ = write!(setup, "md {prefix}{n} I q\r\n");
            let _ = write!(asks, "mg {prefix}{n} s\r\n");
        }
    }
    let stale = server.memcached(&(setup + "mn\r\n"));
    assert_eq!(stale, "MN\r\n");
    let answer = server.memcached(&asks);
    assert_eq!(
        answer,
        "HD s15000 W X\r\n"
            .repeat(120)
            .replace("s15000 W X", "s15000 X W")
    );
    let answer = server.memcached(&asks);
    assert_eq!(answer, "HD s15000 Z X\r\n".repeat(120));
}

/// Peak resident memory of the server, in KiB.
fn most_held(server: &Porpoise) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn clients_that_do_not_read_hold_little_memory() {
    let server = start();
    // The largest value of a key of three bytes.
    let large = "x".repeat((1 << 20) - 62);
    let mut sets = String::new();
    for prefix in ["d:", "u:", "t:", "c:", "p:"] {
        let length = if prefix == "d:" { large.len() } else { 200_000 };
        let _ = write!(
            sets,
            "set {prefix}1 0 0 {length}\r\n{}\r\n",
            &large[..length]
        );
    }
    assert_eq!(server.memcached(&sets), "STORED\r\n".repeat(5));
    let before = most_held(&server);
    let mut clients = Vec::new();
    for request in [
        format!("get{}\r\n", " d:1".repeat(500)),
        format!("get{}\r\n", " u:1".repeat(500)),
        format!("get{}\r\n", " p:1".repeat(500)),
        format!("get{}\r\n", " t:1".repeat(500)),
        format!("get{}\r\n", " c:1 d:1 t:1".repeat(200)),
        "get d:1\r\n".repeat(500),
        "mg d:1 v\r\n".repeat(500),
    ] {
        let mut client = TcpStream::connect(server.memcached_addr).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        clients.push(client);
    }
    // All have begun to be answered, and the buffers of the sockets are full.
    for client in &mut clients {
        client.read_exact(&mut [0; 1]).unwrap();
    }
    std::thread::sleep(Duration::from_secs(1));
    let each = most_held(&server).saturating_sub(before) / clients.len();
    assert!(each < 6 << 10, "{each} KiB for a client");
    // The remaining answers still arrive.
    let mut answer = Vec::new();
    let mut first = clients.swap_remove(0);
    first.shutdown(std::net::Shutdown::Write).unwrap();
    first.read_to_end(&mut answer).unwrap();
    let value = large.len() + "VALUE d:1 0 1048514\r\n\r\n".len();
    assert_eq!(answer.len(), 500 * value + "END\r\n".len() - 1);
}
