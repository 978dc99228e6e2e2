//! Changes that arrive in one write, and are executed together.

use crate::with_sql::sql;
use porpoise_testkit::Porpoise;
use porpoise_testkit::Random;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A server with two tables of the same definition: keys with the prefixes `a:` and `b:`, values
/// of a few bytes, CHECK constraints, and a row that another table refers to.
fn start() -> Porpoise {
    let server = Porpoise::builder().arg("--durability", "memory").start();
    sql(
        &server,
        "CREATE DATABASE t; CREATE TABLE t.log (id INT AUTO_INCREMENT PRIMARY KEY, k INT)",
    );
    for name in ["a", "b"] {
        sql(
            &server,
            &format!(
                "CREATE TABLE t.{name} (id INT PRIMARY KEY, v VARCHAR(8), n BIGINT UNSIGNED,
                     CHECK (v <> 'bad'), CHECK (id <> 13));
                 CREATE TABLE t.child_{name} (id INT PRIMARY KEY, parent INT,
                     FOREIGN KEY (parent) REFERENCES t.{name} (id));
                 INSERT INTO t.{name} VALUES (7, 'held', 1);
                 INSERT INTO t.child_{name} VALUES (1, 7);
                 INSERT INTO ndbmemcache.containers SET name = '{name}', db_schema = 't',
                     db_table = '{name}', key_columns = 'id', value_columns = 'v',
                     increment_column = 'n';
                 INSERT INTO ndbmemcache.key_prefixes VALUES (0, '{name}:', 0, 'ndb-only', '{name}')"
            ),
        );
    }
    server
}

/// A random change of one of few keys; `@` stands for the prefix.
fn change(random: &mut Random) -> String {
    let key = match random.below(24) {
        0 => "no-number".to_owned(),
        n => (n % 16).to_string(),
    };
    let value = *random.pick(&["x", "12", "bad", "too long", "much too long", "", "v5"]);
    let exptime = *random.pick(&["0", "0", "0", "1000", "-1"]);
    let noreply = if random.once_in(6) { " noreply" } else { "" };
    let size = value.len();
    match random.below(12) {
        0..4 => format!("set @:{key} 0 {exptime} {size}{noreply}\r\n{value}\r\n"),
        4 => format!("add @:{key} 0 0 {size}\r\n{value}\r\n"),
        5 => format!("replace @:{key} 0 0 {size}\r\n{value}\r\n"),
        6 => format!("append @:{key} 0 0 {size}\r\n{value}\r\n"),
        7 => format!("incr @:{key} {size}{noreply}\r\n"),
        8 => format!("delete @:{key}{noreply}\r\n"),
        9 => format!("touch @:{key} {exptime}\r\n"),
        10 => format!("ms @:{key} {size} ME\r\n{value}\r\n"),
        _ => format!("md @:{key} q\r\n"),
    }
}

/// Sends random changes of one table in one write, and the same changes of another table one by one.
fn compare(
    server: &Porpoise,
    [a, b]: [&str; 2],
    seeds: u64,
    change: impl Fn(&mut Random) -> String,
) {
    for seed in 0..seeds {
        let mut random = Random(seed);
        let count = 2 + random.below(80);
        let changes: Vec<String> = (0..count).map(|_| change(&mut random)).collect();
        let together = server.memcached(&changes.concat().replace('@', a));
        let mut one_by_one = String::new();
        for change in &changes {
            one_by_one += &server.memcached(&change.replace('@', b));
        }
        for (before, after) in [("'", "_chk"), ("child_", ""), ("`", "")] {
            let of = |table| format!("{before}{table}{after}");
            one_by_one = one_by_one.replace(&of(b), &of(a));
        }
        assert_eq!(together, one_by_one, "seed {seed}: {changes:#?}");
        let rows = |table| {
            sql(
                server,
                &format!("SELECT id, v, n FROM t.{table} ORDER BY id"),
            )
        };
        assert_eq!(rows(a), rows(b), "seed {seed}: {changes:#?}");
    }
    let checked = sql(server, &format!("CHECK TABLE t.{a}, t.{b}"));
    assert_eq!(checked.matches("OK").count(), 2);
}

#[test]
fn changes_in_one_write_have_the_results_that_they_have_one_by_one() {
    let server = start();
    compare(&server, ["a", "b"], 25, change);
}

#[test]
fn sets_of_a_table_without_foreign_keys_have_the_results_that_they_have_one_by_one() {
    let server = Porpoise::builder().arg("--durability", "memory").start();
    sql(&server, "CREATE DATABASE t");
    for name in ["c", "d"] {
        sql(
            &server,
            &format!(
                "CREATE TABLE t.{name} (id INT PRIMARY KEY, v VARCHAR(8), n BIGINT UNSIGNED,
                     expires INT, word VARCHAR(9) AS (CONCAT('w', v)), KEY (v), KEY (word));
                 INSERT INTO ndbmemcache.containers SET name = '{name}', db_schema = 't',
                     db_table = '{name}', key_columns = 'id', value_columns = 'v',
                     increment_column = 'n', expire_time_column = 'expires';
                 INSERT INTO ndbmemcache.key_prefixes VALUES (0, '{name}:', 0, 'ndb-only', '{name}')"
            ),
        );
    }
    // Mostly plain `set`s.
    compare(&server, ["c", "d"], 25, |random| match random.below(4) {
        0 => change(random),
        _ => {
            let key = random.below(40);
            let value = *random.pick(&[
                "x",
                "12",
                "",
                "v5",
                "v6",
                "abcdefgh",
                "abcdefgh",
                "ninechars",
            ]);
            let exptime = *random.pick(&["0", "0", "0", "0", "1000", "-1"]);
            format!("set @:{key} 0 {exptime} {}\r\n{value}\r\n", value.len())
        }
    });
}

#[test]
fn sets_that_replace_bytes_of_rows_have_the_results_of_updates() {
    let server = Porpoise::builder().arg("--durability", "memory").start();
    sql(&server, "CREATE DATABASE t");
    // `set`s of `c` copy rows with some bytes replaced; an index on the value prevents that for `d`.
    for (name, key) in [("c", ""), ("d", ", KEY (v(4))")] {
        sql(
            &server,
            &format!(
                "CREATE TABLE t.{name} (before_all VARCHAR(20) DEFAULT 'left', id INT PRIMARY KEY, f INT UNSIGNED NOT NULL,
                     v TEXT, n BIGINT DEFAULT 5, expires TIMESTAMP NULL, after_all VARCHAR(20) DEFAULT 'right',
                     mark BIGINT UNSIGNED{key});
                 INSERT INTO ndbmemcache.containers SET name = '{name}', db_schema = 't',
                     db_table = '{name}', key_columns = 'id', value_columns = 'v', flags = 'f',
                     cas_column = 'mark', expire_time_column = 'expires';
                 INSERT INTO ndbmemcache.key_prefixes VALUES (0, '{name}:', 0, 'ndb-only', '{name}')"
            ),
        );
    }
    let (long, too_long) = ("l".repeat(5000), "o".repeat(20_000));
    compare(&server, ["c", "d"], 25, |random| {
        let key = random.below(30);
        let value = *random.pick(&["x", "", "v5", "\u{e4}\u{e4}", &long, &too_long]);
        let exptime = *random.pick(&["0", "0", "0", "1000", "-1"]);
        let flags = *random.pick(&["0", "7", "4294967295"]);
        let bytes = value.len();
        match random.below(8) {
            0 => format!("delete @:{key}\r\n"),
            1 => format!("append @:{key} 0 0 {bytes}\r\n{value}\r\n"),
            2 => format!("set @:{key} 0 0 1\r\n\u{ff}\r\n"),
            _ => format!("set @:{key} {flags} {exptime} {bytes}\r\n{value}\r\n"),
        }
    });
    let columns = "id, before_all, f, v, n, expires IS NULL, after_all";
    let rows = |table| {
        sql(
            &server,
            &format!("SELECT {columns} FROM t.{table} ORDER BY id"),
        )
    };
    assert_eq!(rows("c"), rows("d"));
    assert!(rows("c").lines().count() > 9);
    // The column has each row's CAS value, which changes with every `set`.
    sql(&server, "DELETE FROM t.c");
    let one = "set c:1 1 0 1\r\nx\r\n";
    let two = format!("{one}set c:2 1 0 1\r\ny\r\n");
    let mut before = 0;
    for sets in [&two, one, &two, one, one] {
        server.memcached(sets);
        let mark: u64 = sql(&server, "SELECT mark FROM t.c WHERE id = 1")
            .trim()
            .parse()
            .unwrap();
        assert!(mark > before);
        before = mark;
        let shown = server.memcached("gets c:1\r\n");
        assert!(
            shown.starts_with(&format!("VALUE c:1 1 1 {mark}\r\n")),
            "{shown}"
        );
    }
}

#[test]
fn changes_of_one_key_get_versions_of_their_own() {
    let server = start();
    let requests = "ms a:1 1 c\r\nx\r\nms a:2 1 c\r\nx\r\nms a:1 1 c\r\ny\r\n\
                    md a:2\r\nms a:2 1 c\r\nz\r\n";
    let replies = server.memcached(requests);
    let versions: Vec<&str> = replies
        .lines()
        .filter_map(|line| line.strip_prefix("HD c"))
        .collect();
    let [first, _, second, recreated] = versions[..] else {
        panic!("{replies}");
    };
    // A client behind a proxy has seen only its own reply: its `cas` must not hit the other's item.
    assert_ne!(first, second);
    let [_, deleted, ..] = versions[..] else {
        panic!("{replies}");
    };
    assert_ne!(deleted, recreated);
    let by_first = format!("ms a:1 1 C{first}\r\nw\r\n");
    assert_eq!(server.memcached(&by_first), "EX\r\n");
}

/// Runs statements that lock rows, and keeps the locks for some seconds.
fn hold(server: &Porpoise, locks: &str, seconds: u32) {
    let statements = format!("BEGIN; {locks}; SELECT SLEEP({seconds}); COMMIT");
    sql(server, &statements);
}

/// Waits until a number of clients run [`hold`].
fn await_holders(server: &Porpoise, count: u32) {
    server.wait_for("the rows are locked", Duration::from_secs(10), || {
        let locked = "SELECT COUNT(*) FROM information_schema.PROCESSLIST
                      WHERE INFO LIKE '%SLEEP%' AND ID <> CONNECTION_ID()";
        (sql(server, locked) == format!("{count}\n")).then_some(())
    });
}

/// Sends a `set` for each of the keys in one write.
fn send_sets(server: &Porpoise, keys: &[u32]) -> TcpStream {
    let mut socket = TcpStream::connect(server.memcached_addr).unwrap();
    let mut requests = String::new();
    for key in keys {
        let _ = write!(requests, "set a:{key} 0 0 3\r\nnew\r\n");
    }
    socket.write_all(requests.as_bytes()).unwrap();
    socket
}

fn await_first_change(server: &Porpoise) {
    server.wait_for("the first change", Duration::from_secs(10), || {
        let first = sql(server, "SELECT v FROM t.a WHERE id = 1");
        (first == "new\n").then_some(())
    });
}

#[test]
fn a_change_that_waits_for_a_lock_does_not_keep_those_before_it() {
    let server = start();
    sql(&server, "INSERT INTO t.a VALUES (2, 'two', 0)");
    std::thread::scope(|scope| {
        let lock = "SELECT * FROM t.a WHERE id = 2 FOR UPDATE";
        let holder = scope.spawn(|| hold(&server, lock, 3));
        await_holders(&server, 1);
        let socket = send_sets(&server, &[1, 2, 3]);
        await_first_change(&server);
        assert!(!holder.is_finished(), "the first change waited, too");
        let mut replies = BufReader::new(socket).lines();
        for _ in 0..3 {
            assert_eq!(replies.next().unwrap().unwrap(), "STORED");
        }
        assert!(holder.is_finished() || sql(&server, "SELECT v FROM t.a WHERE id = 2") == "new\n");
    });
}

#[test]
fn a_trigger_that_waits_for_a_lock_does_not_keep_the_changes_before_it() {
    let server = start();
    sql(
        &server,
        "INSERT INTO t.log VALUES (2, 0);
         CREATE TRIGGER t.count AFTER INSERT ON t.a FOR EACH ROW
             UPDATE t.log SET k = k + 1 WHERE id = NEW.id",
    );
    std::thread::scope(|scope| {
        let lock = "SELECT * FROM t.log WHERE id = 2 FOR UPDATE";
        let holder = scope.spawn(|| hold(&server, lock, 3));
        await_holders(&server, 1);
        let socket = send_sets(&server, &[1, 2, 3]);
        await_first_change(&server);
        assert!(!holder.is_finished(), "the first change waited, too");
        let mut replies = BufReader::new(socket).lines();
        for _ in 0..3 {
            assert_eq!(replies.next().unwrap().unwrap(), "STORED");
        }
    });
    assert_eq!(sql(&server, "SELECT k FROM t.log WHERE id = 2"), "1\n");
}

#[test]
fn replies_do_not_wait_for_locks_of_later_changes() {
    let server = start();
    sql(
        &server,
        "INSERT INTO t.a VALUES (2, 'two', 0), (3, 'three', 0)",
    );
    std::thread::scope(|scope| {
        let (second, third) = (
            "SELECT * FROM t.a WHERE id = 2 FOR UPDATE",
            "SELECT * FROM t.a WHERE id = 3 FOR UPDATE",
        );
        let began = Instant::now();
        scope.spawn(|| hold(&server, third, 8));
        scope.spawn(|| hold(&server, second, 2));
        await_holders(&server, 2);
        let socket = send_sets(&server, &[1, 2, 3]);
        let mut replies = BufReader::new(socket).lines();
        for _ in 0..2 {
            assert_eq!(replies.next().unwrap().unwrap(), "STORED");
        }
        assert!(
            began.elapsed() < Duration::from_secs(7),
            "the replies waited for the last one"
        );
        assert_eq!(replies.next().unwrap().unwrap(), "STORED");
    });
}

#[test]
fn a_change_that_fails_is_counted_once() {
    let server = start();
    sql(&server, "SET GLOBAL hot_key_sample_interval = 1");
    let replies = server.memcached(&"set a:13 0 0 1\r\nx\r\n".repeat(40));
    assert_eq!(replies.matches("SERVER_ERROR").count(), 40);
    // The first ones are counted at the old interval.
    let lookups = "SELECT LOOKUPS BETWEEN 1 AND 40 FROM information_schema.HOT_KEYS
                   WHERE INTERFACE = 'memcached' AND KEY_TEXT LIKE '%13%'";
    assert_eq!(sql(&server, lookups), "1\n");
    let commands = server.memcached("stats\r\n");
    assert!(commands.contains("STAT cmd_set 40\r\n"), "{commands}");
}

#[test]
fn connections_that_change_the_same_keys_in_different_orders_all_succeed() {
    let server = start();
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let server = &server;
            scope.spawn(move || {
                for round in 0..50_usize {
                    let keys: Vec<usize> = (1..6).map(|n| (n * (thread + 1) + round) % 6).collect();
                    let mut requests = String::new();
                    for key in &keys {
                        let _ = write!(requests, "ma d{key} N0 J1\r\n");
                    }
                    let replies = server.memcached(&requests);
                    assert_eq!(replies, "HD\r\n".repeat(keys.len()));
                }
            });
        }
    });
    let mut sum = 0;
    for key in 0..6 {
        let reply = server.memcached(&format!("get d{key}\r\n"));
        let value = reply.lines().nth(1).unwrap_or("0");
        sum += value.parse::<usize>().unwrap();
    }
    assert_eq!(sum, 4 * 50 * 5);
}

#[test]
fn sets_of_contended_keys_are_all_stored() {
    let server = start();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let server = &server;
            scope.spawn(move || {
                let mut random = Random(thread);
                for _ in 0..60 {
                    let mut requests = String::new();
                    for _ in 0..16 {
                        let _ = write!(requests, "set a:{} 0 0 1\r\nx\r\n", random.below(12));
                    }
                    assert_eq!(server.memcached(&requests), "STORED\r\n".repeat(16));
                }
            });
        }
    });
}
