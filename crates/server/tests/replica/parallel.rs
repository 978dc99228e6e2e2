//! Workers of a replica: the same result as without, in the same order, with foreign keys that hold at every commit.

use super::support::{PATIENCE, Pair, SQL_RUNNING, source_options};
use porpoise_testkit::{Mariadb, Porpoise, wait_until};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const TABLES: &str = "
    CREATE DATABASE d; USE d;
    CREATE TABLE p (id INT PRIMARY KEY, u INT UNIQUE, n INT);
    CREATE TABLE cascading (id INT PRIMARY KEY, p INT, n INT,
      FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE grandchild (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES cascading (id) ON DELETE SET NULL);
    CREATE TABLE restricting (id INT PRIMARY KEY, u INT, FOREIGN KEY (u) REFERENCES p (u));
    CREATE TABLE account (id INT PRIMARY KEY, n INT);
    CREATE TABLE nokey (a INT, b INT);
    CREATE TABLE doc (id INT PRIMARY KEY, name VARCHAR(20), UNIQUE KEY (name));
    INSERT INTO account VALUES (1, 100), (2, 100), (3, 100), (4, 100), (5, 100), (6, 100);";

/// Queries that have no row in any state that the source has committed.
const VIOLATIONS: [&str; 4] = [
    "SELECT 'cascading' FROM d.cascading c LEFT JOIN d.p ON p.id = c.p WHERE c.p IS NOT NULL AND p.id IS NULL",
    "SELECT 'grandchild' FROM d.grandchild g LEFT JOIN d.cascading c ON c.id = g.c WHERE g.c IS NOT NULL AND c.id IS NULL",
    "SELECT 'restricting' FROM d.restricting r LEFT JOIN d.p ON p.u = r.u WHERE r.u IS NOT NULL AND p.id IS NULL",
    "SELECT 'sum' FROM d.account HAVING SUM(n) <> 600",
];

/// A statement of a few rows that many transactions want.
fn statement(random: &mut fastrand::Rng) -> String {
    let mut id = || random.u32(1..=24);
    let (a, b, c) = (id(), id(), id());
    match random.u32(0..18) {
        0..=2 => format!("INSERT INTO p VALUES ({a}, {b}, {c})"),
        3 => format!("UPDATE p SET u = {b} WHERE id = {a}"),
        4 => format!("UPDATE p SET n = n + 1 WHERE id IN ({a}, {b}, {c})"),
        5 => format!("UPDATE p SET id = {b} WHERE id = {a}"),
        6 => format!("DELETE FROM p WHERE id = {a}"),
        7..=8 => format!("INSERT INTO cascading VALUES ({a}, {b}, {c})"),
        9 => format!("UPDATE cascading SET n = n + 1, p = {b} WHERE id = {a}"),
        10 => format!("REPLACE INTO grandchild VALUES ({a}, {b})"),
        11 => format!("INSERT INTO restricting VALUES ({a}, {b})"),
        12 => format!("DELETE FROM restricting WHERE id = {a}"),
        13 => format!("INSERT INTO nokey VALUES ({a}, {b}), ({a}, {b})"),
        14 => format!("UPDATE nokey SET b = b + 1 WHERE a = {a} LIMIT 1"),
        15 => format!("DELETE FROM nokey WHERE a = {a} LIMIT 2"),
        16 => format!("INSERT INTO doc VALUES ({a}, 'n{b}') ON DUPLICATE KEY UPDATE name = 'm{c}'"),
        _ => format!("DELETE FROM doc WHERE name LIKE '_{b}'"),
    }
}

/// Transactions of random statements; those that fail are left out by the client.
fn script(seed: u64, transactions: u32) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = String::from("USE d;\n");
    for _ in 0..transactions {
        text.push_str("BEGIN;\n");
        for _ in 0..random.u32(1..5) {
            let _ = writeln!(text, "{};", statement(&mut random));
        }
        // One statement: after a deadlock what follows is a transaction of its own.
        let (from, step) = (random.u32(0..6), random.u32(1..6));
        let (from, to) = (from + 1, (from + step) % 6 + 1);
        let _ = writeln!(
            text,
            "UPDATE account SET n = n + IF(id = {from}, -1, 1) WHERE id IN ({from}, {to});"
        );
        text.push_str(if random.u32(0..12) == 0 {
            "ROLLBACK;\n"
        } else {
            "COMMIT;\n"
        });
    }
    text
}

/// Runs a script whose statements may fail.
fn run(address: SocketAddr, text: &str) {
    let mut client = Command::new("mariadb")
        .args(["--no-defaults", "--protocol=tcp", "--user=root", "--force"])
        .arg(format!("--host={}", address.ip()))
        .arg(format!("--port={}", address.port()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    client
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    client.wait().unwrap();
}

/// Runs scripts on several connections.
fn load(address: SocketAddr, seed: u64, connections: u64, transactions: u32) {
    thread::scope(|scope| {
        for connection in 0..connections {
            let text = script(seed * 1000 + connection, transactions);
            scope.spawn(move || run(address, &text));
        }
    });
}

fn source(options: porpoise_testkit::MariadbBuilder) -> Mariadb {
    let source = options.start();
    source
        .sql(
            "CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'replica secret'; \
             GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'; RESET MASTER",
        )
        .rows();
    source
}

fn replica(id: u32, workers: u32) -> Porpoise {
    let server = Porpoise::builder()
        .arg("--durability", "sync")
        .arg("--server-id", id.to_string())
        .start();
    server
        .sql(&format!("SET PERSIST replica_parallel_workers = {workers}"))
        .rows();
    server
}

fn contents(server: &Porpoise) -> String {
    let queries = "
        SELECT 'p', p.* FROM d.p ORDER BY id; SELECT 'cascading', c.* FROM d.cascading c ORDER BY id;
        SELECT 'grandchild', g.* FROM d.grandchild g ORDER BY id; SELECT 'restricting', r.* FROM d.restricting r ORDER BY id;
        SELECT 'account', a.* FROM d.account a ORDER BY id; SELECT 'nokey', n.* FROM d.nokey n ORDER BY a, b;
        SELECT 'doc', x.* FROM d.doc x ORDER BY id";
    let found = server.sql(queries);
    assert!(found.is_ok, "{}", found.stderr);
    found.stdout
}

/// Looks for states that the source never had until `done`.
fn watch(address: SocketAddr, done: &AtomicBool) -> u32 {
    let mut looks = 0;
    while !done.load(Ordering::Relaxed) {
        let found = porpoise_testkit::sql(address, &VIOLATIONS.join(";"));
        // Before the tables exist there is nothing to see.
        if found.is_ok {
            assert_eq!(found.stdout, "");
            looks += 1;
        }
        thread::sleep(Duration::from_millis(20));
    }
    looks
}

/// A random load is applied by eight workers and by none; both end as the source.
fn same_as_serial(seed: u64, connections: u64, transactions: u32, image: &str) {
    let source = source(source_options().arg(&format!("--binlog-row-image={image}")));
    source.sql(TABLES).rows();
    load(source.addr, seed, connections, transactions);
    let (parallel, serial) = (replica(11, 8), replica(12, 0));
    let (mut pair, serial) = (
        Pair {
            source,
            replica: parallel,
        },
        serial,
    );
    pair.configure("");
    pair.replica.sql("START REPLICA").rows();
    thread::sleep(Duration::from_millis(300));
    pair.replica.restart();
    let done = AtomicBool::new(false);
    let address = pair.replica.mysql_addr;
    thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(address, &done));
        pair.catch_up();
        // More, while it follows.
        load(pair.source.addr, seed + 1, connections, transactions);
        pair.catch_up();
        done.store(true, Ordering::Relaxed);
        assert!(watcher.join().unwrap() > 0);
    });
    for table in ["p", "cascading", "grandchild", "restricting", "account"] {
        pair.compare(&format!("SELECT * FROM d.{table} ORDER BY id"));
    }
    pair.compare("SELECT a, b, COUNT(*) FROM d.nokey GROUP BY a, b ORDER BY a, b");
    pair.compare("SELECT * FROM d.doc ORDER BY id");
    let expected = contents(&pair.replica);
    let other = Pair {
        source: pair.source,
        replica: serial,
    };
    other.configure("");
    other.replica.sql("START REPLICA").rows();
    other.catch_up();
    assert_eq!(contents(&other.replica), expected);
}

#[test]
fn workers_have_the_same_result_as_one_thread() {
    same_as_serial(1, 4, 150, "FULL");
}

#[test]
fn workers_have_the_same_result_with_minimal_images() {
    same_as_serial(7, 4, 100, "MINIMAL");
}

#[test]
#[ignore = "many seeds; minutes"]
fn workers_have_the_same_result_for_many_seeds() {
    for seed in 100..120 {
        same_as_serial(seed, 6, 400, if seed % 2 == 0 { "FULL" } else { "MINIMAL" });
    }
}

/// Lets a replica that runs apply by four workers.
fn start_workers(pair: &Pair) {
    pair.replica
        .sql("SET PERSIST replica_parallel_workers = 4; STOP REPLICA; START REPLICA")
        .rows();
}

#[test]
fn workers_are_shown_and_their_errors_stop_the_replica() {
    let pair = Pair::start();
    assert_eq!(
        pair.replica
            .sql("SELECT @@replica_parallel_workers, @@replica_preserve_commit_order")
            .rows(),
        [["1", "1"]]
    );
    start_workers(&pair);
    pair.source.sql(TABLES).rows();
    pair.source
        .sql("INSERT INTO d.doc VALUES (1, 'a'); INSERT INTO d.doc VALUES (2, 'b')")
        .rows();
    pair.catch_up();
    let shown = pair.replica.sql(
        "SELECT WORKER_ID, SERVICE_STATE, APPLYING_TRANSACTION FROM \
         performance_schema.replication_applier_status_by_worker ORDER BY 1; \
         SELECT COUNT(*) FROM performance_schema.replication_applier_status_by_worker \
         WHERE LAST_APPLIED_TRANSACTION LIKE '0-7-%' AND LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP > '2020-01-01'",
    );
    let rows = shown.rows();
    let workers: Vec<_> = rows[..4].iter().map(|row| row.join(" ")).collect();
    assert_eq!(workers, ["1 ON ", "2 ON ", "3 ON ", "4 ON "]);
    assert!(rows[4][0].parse::<u32>().unwrap() > 0);
    // A row that is in the way: those before it are applied, those after it are not.
    pair.replica
        .sql("INSERT INTO d.doc VALUES (5, 'own')")
        .rows();
    let mut text = String::from("USE d;");
    for id in 3..40 {
        let _ = write!(text, "INSERT INTO doc VALUES ({id}, 'n{id}');");
    }
    pair.source.sql(&text).rows();
    let (number, message) = pair.stopped();
    assert_eq!(number, "1062");
    for part in [
        "WRITE_ROWS event on table d.doc",
        "Duplicate entry '5'",
        "GTID 0-7-",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(
        pair.replica
            .sql("SELECT GROUP_CONCAT(id ORDER BY id) FROM d.doc")
            .rows(),
        [["1,2,3,4,5"]]
    );
    pair.replica
        .sql("DELETE FROM d.doc WHERE id = 5; START REPLICA")
        .rows();
    pair.catch_up();
    pair.compare("SELECT * FROM d.doc ORDER BY id");
}

#[test]
fn a_lock_of_a_client_holds_workers_up_and_nothing_is_lost() {
    let pair = Pair::start();
    start_workers(&pair);
    pair.source.sql(TABLES).rows();
    pair.source.sql("INSERT INTO d.doc VALUES (1, 'a')").rows();
    pair.catch_up();
    let address = pair.replica.mysql_addr;
    let holder = thread::spawn(move || {
        porpoise_testkit::sql(
            address,
            "BEGIN; SELECT * FROM d.doc WHERE id = 1 FOR UPDATE; DO SLEEP(1.5); COMMIT",
        )
    });
    let locked = wait_until(PATIENCE, || {
        let found = pair
            .replica
            .sql("SELECT * FROM d.doc WHERE id = 1 FOR UPDATE NOWAIT");
        (!found.is_ok).then_some(())
    });
    assert!(locked.is_some());
    let mut text = String::from("USE d; UPDATE doc SET name = 'changed' WHERE id = 1;");
    for id in 10..60 {
        let _ = write!(text, "INSERT INTO doc VALUES ({id}, 'n{id}');");
    }
    pair.source.sql(&text).rows();
    assert!(holder.join().unwrap().is_ok);
    pair.catch_up();
    pair.compare("SELECT * FROM d.doc ORDER BY id");
    assert_eq!(pair.status()[SQL_RUNNING], "Yes");
}
