//! Requests in sequence of whole statements and commands, counted by the server: timestamps, and steps to stores.
//!
//! The server's own threads ask the cluster, too, a few times a second. Each operation is repeated, and its least cost counts.

use super::{server, value};
use porpoise_testkit::{Porpoise, TikvDouble};
use std::fmt::Write;

const RUNS: usize = 10;
const RUNS_OF_COMMANDS: usize = 6;
const COUNTS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Porpoise_engine_timestamps_total', 'Porpoise_engine_request_rounds_total')";

/// Timestamps and steps so far, of each SHOW STATUS in an output.
fn counts(output: &str) -> Vec<[u64; 2]> {
    let of = |name: &str| -> Vec<u64> {
        let lines = output.lines().filter_map(|line| line.strip_prefix(name));
        lines.map(|n| n.trim().parse().unwrap()).collect()
    };
    let timestamps = of("Porpoise_engine_timestamps_total");
    let steps = of("Porpoise_engine_request_rounds_total");
    assert_eq!(timestamps.len(), steps.len(), "{output}");
    timestamps
        .into_iter()
        .zip(steps)
        .map(|(t, s)| [t, s])
        .collect()
}

/// The least cost between two counts that follow each other.
fn least(counts: &[[u64; 2]]) -> [u64; 2] {
    let costs = counts
        .windows(2)
        .map(|w| [w[1][0] - w[0][0], w[1][1] - w[0][1]]);
    costs
        .min_by_key(|[timestamps, steps]| timestamps + steps)
        .unwrap()
}

/// Timestamps and steps of statements; the number of the run replaces `{n}` in them.
fn cost(server: &Porpoise, before: &str, statements: &str) -> [u64; 2] {
    let mut script = format!("{before}; {COUNTS};");
    for n in 0..RUNS {
        let statements = statements.replace("{n}", &n.to_string());
        let _ = write!(script, "{statements}; {COUNTS};");
    }
    let output = server.sql(&script);
    assert!(output.is_ok, "{statements}: {output:?}");
    least(&counts(&output.stdout))
}

/// As [`cost`], of a memcached command.
fn cost_of_command(server: &Porpoise, command: &str) -> [u64; 2] {
    let mut all = counts(&server.sql(COUNTS).stdout);
    for _ in 0..RUNS_OF_COMMANDS {
        let reply = server.memcached(command);
        assert!(!reply.contains("ERROR"), "{command}: {reply}");
        all.extend(counts(&server.sql(COUNTS).stdout));
    }
    least(&all)
}

fn prepare(server: &Porpoise) {
    let mut rows = String::new();
    for n in 0..1000 {
        let _ = write!(rows, "{}({n}, 'u{n}', {n})", if n > 0 { "," } else { "" });
    }
    value(
        server,
        &format!(
            "CREATE DATABASE d; USE d;
             CREATE TABLE t (id INT PRIMARY KEY, u VARCHAR(20) NOT NULL, v INT, UNIQUE (u));
             CREATE TABLE many (id INT PRIMARY KEY, u VARCHAR(20), v INT);
             CREATE TABLE p (id INT PRIMARY KEY, v INT);
             CREATE TABLE q (id INT PRIMARY KEY, v INT);
             CREATE TABLE c (id INT PRIMARY KEY, p INT, q INT, FOREIGN KEY (p) REFERENCES p (id), FOREIGN KEY (q) REFERENCES q (id));
             CREATE TABLE g (id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT);
             INSERT INTO t VALUES {rows}; INSERT INTO many VALUES {rows};
             INSERT INTO p SELECT id, v FROM t WHERE id < 20; INSERT INTO q SELECT id, v FROM p;
             INSERT INTO c VALUES (1000, 1, 1);
             SET GLOBAL auto_increment_prefetch = 1024"
        ),
    );
    server.memcached("set counter 0 0 1\r\n5\r\n");
    for n in 0..50 {
        server.memcached(&format!("set k{n} 0 0 1\r\n5\r\n"));
    }
}

/// What is measured: reads of a key and of 50, by both protocols.
fn reads(server: &Porpoise, before: &str) -> [(&'static str, [u64; 2]); 4] {
    let numbers: Vec<String> = (100..150).map(|n| n.to_string()).collect();
    let many = format!(
        "SELECT COUNT(v) FROM d.t WHERE id IN ({})",
        numbers.join(",")
    );
    let keys: String = (0..50).map(|n| format!(" k{n}")).collect();
    let one = "SELECT v FROM d.t WHERE id = {n}";
    [
        ("select", cost(server, before, one)),
        ("select of 50", cost(server, before, &many)),
        ("get", cost_of_command(server, "get counter\r\n")),
        (
            "get of 50",
            cost_of_command(server, &format!("get{keys}\r\n")),
        ),
    ]
}

fn writes(server: &Porpoise) -> Vec<(&'static str, [u64; 2])> {
    let inserted = "(NULL, 1),".repeat(15) + "(NULL, 2)";
    let generated = format!("INSERT INTO d.g VALUES {inserted}");
    let two = "BEGIN; UPDATE d.t SET v = v + 1 WHERE id = {n}; UPDATE d.t SET v = v + 1 WHERE id = 50 + {n}; COMMIT";
    let statements = [
        ("update", "UPDATE d.t SET v = v + 1 WHERE id = {n}"),
        ("insert", "INSERT INTO d.t VALUES (2000 + {n}, 'new{n}', 1)"),
        (
            "update by unique key",
            "UPDATE d.t SET v = v + 1 WHERE u = 'u{n}'",
        ),
        (
            "insert with two foreign keys",
            "INSERT INTO d.c VALUES ({n}, {n}, {n})",
        ),
        ("two updates", two),
        ("update of 1000 rows", "UPDATE d.many SET v = v + 1"),
        ("insert of 16 generated ids", &generated),
    ];
    let mut found: Vec<_> = statements
        .iter()
        .map(|(what, statement)| (*what, cost(server, "DO 0", statement)))
        .collect();
    found.push(("incr", cost_of_command(server, "incr counter 1\r\n")));
    found
}

#[test]
fn statements_and_commands_take_few_requests_in_sequence() {
    let store = TikvDouble::start(1);
    let server = server(&store);
    prepare(&server);
    assert_eq!(
        reads(&server, "DO 0"),
        [
            ("select", [1, 1]),
            ("select of 50", [1, 1]),
            ("get", [1, 1]),
            ("get of 50", [1, 1]),
        ]
    );
    assert_eq!(
        writes(&server),
        [
            ("update", [1, 2]),
            ("insert", [1, 2]),
            ("update by unique key", [1, 3]),
            ("insert with two foreign keys", [1, 2]),
            ("two updates", [2, 3]),
            ("update of 1000 rows", [1, 3]),
            ("insert of 16 generated ids", [1, 2]),
            ("incr", [1, 2]),
        ]
    );
    value(&server, "SET GLOBAL read_staleness = 30");
    for (what, cost) in reads(&server, "SET read_staleness = 30") {
        assert_eq!(cost, [0, 1], "{what}");
    }
}
