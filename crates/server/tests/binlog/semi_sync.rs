//! Semi-synchronous replication with a MariaDB replica: commits of SQL and memcached wait until it has them.

use crate::support::{good, server};
use porpoise_native_client::{Address, Batch, Connection, Outcome, Target, ValueRef};
use porpoise_testkit::{Mariadb, Porpoise, exchange, http_request, sql, wait_until};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

/// Time for which a waiting commit is observed.
const WATCHED: Duration = Duration::from_millis(400);

fn status(source: &Porpoise, name: &str) -> String {
    let rows = good(
        source,
        &format!("SHOW STATUS LIKE 'Rpl_semi_sync_source_{name}'"),
    );
    let (_, value) = rows[0].split_once('|').unwrap();
    value.to_owned()
}

fn wait_for_status(source: &Porpoise, name: &str, wanted: &str) {
    source.wait_for(name, WAIT, || {
        (status(source, name) == wanted).then_some(())
    });
}

/// A source with a MariaDB replica that acknowledges.
fn pair() -> (Porpoise, Mariadb) {
    let source = server().arg("--durability", "sync").start();
    let replica = Mariadb::builder()
        .arg("--server-id=2")
        .arg("--rpl-semi-sync-slave-enabled=1")
        .arg("--replicate-ignore-db=ndbmemcache")
        .start();
    good(
        &source,
        "CREATE USER repl IDENTIFIED WITH mysql_native_password BY 'pw'; GRANT REPLICATION SLAVE ON *.* TO repl",
    );
    let port = source.mysql_addr.port();
    let follow = format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='repl', MASTER_PASSWORD='pw', \
         MASTER_USE_GTID=no, MASTER_CONNECT_RETRY=1, MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=4; START SLAVE"
    );
    replica.sql(&follow).rows();
    wait_for_status(&source, "clients", "1");
    good(
        &source,
        "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci; USE d;
         CREATE TABLE t (id INT PRIMARY KEY);
         CREATE TABLE cached (k VARCHAR(64) PRIMARY KEY, v VARCHAR(64)) COLLATE utf8mb4_general_ci;
         ALTER TABLE cached MEMCACHED PREFIX 'c:'; SET GLOBAL rpl_semi_sync_source_enabled = ON",
    );
    (source, replica)
}

#[test]
fn commits_wait_for_a_mariadb_replica_and_are_not_seen_before() {
    let (source, replica) = pair();
    good(&source, "INSERT INTO d.t VALUES (1)");
    assert_eq!(
        source.memcached("set c:a 0 0 1\r\n1\r\nget c:a\r\n"),
        "STORED\r\nVALUE c:a 0 1\r\n1\r\nEND\r\n"
    );
    assert_ne!(status(&source, "yes_tx"), "0");
    assert_eq!(status(&source, "no_tx"), "0");
    replica.sql("STOP SLAVE").rows();
    wait_for_status(&source, "clients", "0");
    let (send, done) = mpsc::channel();
    let (mysql, memcached) = (source.mysql_addr, source.memcached_addr);
    let by_sql = send.clone();
    let writers = [
        thread::spawn(move || {
            let output = sql(mysql, "INSERT INTO d.t VALUES (2)");
            let _ = by_sql.send(format!("{}{}", output.is_ok, output.stderr));
        }),
        thread::spawn(move || {
            let reply = exchange(memcached, b"set c:b 0 0 1\r\n2\r\n");
            let _ = send.send(String::from_utf8_lossy(&reply).into_owned());
        }),
    ];
    wait_for_status(&source, "wait_sessions", "2");
    // A change of accounts waits behind them, and does not prevent the replica from logging in either.
    let accounts = thread::spawn(move || {
        sql(
            mysql,
            "CREATE USER late IDENTIFIED WITH mysql_native_password BY 'x'",
        )
        .is_ok
    });
    assert_eq!(done.recv_timeout(WATCHED).ok(), None, "acknowledged early");
    assert_eq!(good(&source, "SELECT id FROM d.t"), ["1"]);
    assert_eq!(source.memcached("get c:b\r\n"), "END\r\n");
    replica.sql("START SLAVE").rows();
    let mut replies: Vec<String> = (0..2).map(|_| done.recv_timeout(WAIT).unwrap()).collect();
    replies.sort();
    assert_eq!(replies, ["STORED\r\n", "true"]);
    for writer in writers {
        writer.join().unwrap();
    }
    assert!(accounts.join().unwrap());
    assert_eq!(good(&source, "SELECT id FROM d.t"), ["1", "2"]);
    let applied = wait_until(WAIT, || {
        let rows = replica.sql("SELECT id FROM d.t; SELECT v FROM d.cached ORDER BY v");
        (rows.stdout.split_whitespace().eq(["1", "2", "1", "2"])).then_some(())
    });
    assert!(applied.is_some(), "the replica lacks acknowledged rows");
}

#[test]
fn after_a_timeout_commits_pass_until_the_replica_is_back() {
    let (source, replica) = pair();
    good(
        &source,
        "INSERT INTO d.t VALUES (1); SET GLOBAL rpl_semi_sync_source_timeout = 100",
    );
    replica.sql("STOP SLAVE").rows();
    good(
        &source,
        "INSERT INTO d.t VALUES (2); INSERT INTO d.t VALUES (3)",
    );
    assert_eq!(status(&source, "status"), "OFF");
    assert_ne!(status(&source, "no_tx"), "0");
    assert_eq!(status(&source, "no_times"), "1");
    replica.sql("START SLAVE").rows();
    wait_for_status(&source, "clients", "1");
    good(&source, "INSERT INTO d.t VALUES (4)");
    wait_for_status(&source, "status", "ON");
    let before: u64 = status(&source, "yes_tx").parse().unwrap();
    good(
        &source,
        "SET GLOBAL rpl_semi_sync_source_timeout = 60000; INSERT INTO d.t VALUES (5)",
    );
    let after: u64 = status(&source, "yes_tx").parse().unwrap();
    assert!(after > before);
    let (_, metrics) = source.http("/metrics");
    assert!(
        metrics.contains("replication_ack_timeouts_total 1"),
        "{metrics}"
    );
    good(&source, "SET GLOBAL rpl_semi_sync_source_enabled = OFF");
    replica.sql("STOP SLAVE").rows();
    good(&source, "INSERT INTO d.t VALUES (6)");
}

#[test]
fn acknowledgement_needs_a_log_that_is_synced() {
    let without = Porpoise::builder().arg("--replication-ack", "1");
    let unsynced = server()
        .arg("--durability", "interval")
        .arg("--replication-ack", "1");
    for builder in [without, unsynced] {
        let ended = builder.run_to_end(WAIT);
        assert_eq!(ended.status.code(), Some(2));
        assert!(
            ended.stderr.contains("--replication-ack needs"),
            "{}",
            ended.stderr
        );
    }
    let source = server()
        .arg("--durability", "sync")
        .arg("--replication-ack", "2")
        .arg("--replication-ack-timeout", "50ms")
        .start();
    let variables = "SELECT @@rpl_semi_sync_source_enabled, @@rpl_semi_sync_source_wait_for_replica_count, @@rpl_semi_sync_source_timeout";
    assert_eq!(good(&source, variables), ["1|2|50"]);
    good(&source, "CREATE DATABASE d");
    assert_eq!(status(&source, "status"), "OFF");
}

#[test]
fn a_server_ends_while_commits_wait_and_has_them_afterwards() {
    let mut source = server()
        .arg("--durability", "sync")
        .arg("--shutdown-timeout", "100ms")
        .start();
    good(
        &source,
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)",
    );
    // Waits until both are in the log: if they were written to it later, they would count as waiting, too.
    good(&source, "SHOW BINARY LOG STATUS");
    good(&source, "SET GLOBAL rpl_semi_sync_source_enabled = ON");
    let address = source.mysql_addr;
    let writers = ["INSERT INTO d.t VALUES (1)", "CREATE TABLE d.u (id INT)"];
    let writers = writers.map(|text| thread::spawn(move || sql(address, text).is_ok));
    wait_for_status(&source, "wait_sessions", "2");
    source.terminate();
    assert_eq!(writers.map(|writer| writer.join().unwrap()), [false, false]);
    source.restart();
    assert_eq!(
        good(&source, "SELECT id FROM d.t; SHOW TABLES FROM d"),
        ["1", "t", "u"]
    );
}

/// Address of a listener.
fn address(server: &Porpoise, listener: &str) -> SocketAddr {
    let place = server.socket(listener).expect(listener);
    place.to_str().unwrap().parse().unwrap()
}

/// Inserts row `id` of `d.t` by the native protocol.
fn insert_natively(server: SocketAddr, id: i64) -> bool {
    let address = Address::Tcp(server.ip().to_string(), server.port());
    let mut connection = Connection::connect(&Target::new(address, "root", "")).unwrap();
    let table = connection.table("d", "t").unwrap();
    let insert = table.insert().columns(&["id"]).build().unwrap();
    let mut batch = Batch::new();
    batch.push(&insert, &[ValueRef::Int(id)]).unwrap();
    connection.run(&batch).is_ok_and(|reply| {
        let outcome = reply.results().next().unwrap();
        matches!(outcome, Ok(Outcome::Written { .. }))
    })
}

/// Starts a writer for each interface, with keys that begin at `first`. Each sends its number when its commit is
/// acknowledged.
fn writers(source: &Porpoise, first: i64) -> mpsc::Receiver<usize> {
    let (send, done) = mpsc::channel();
    let (mysql, memcached) = (source.mysql_addr, source.memcached_addr);
    let (native, rest) = (address(source, "native"), address(source, "rest"));
    let by: [Box<dyn FnOnce() -> bool + Send>; 4] = [
        Box::new(move || sql(mysql, &format!("INSERT INTO d.t VALUES ({first})")).is_ok),
        Box::new(move || {
            let request = format!("set c:{first} 0 0 1\r\n1\r\n");
            exchange(memcached, request.as_bytes()) == b"STORED\r\n"
        }),
        Box::new(move || insert_natively(native, first + 1)),
        Box::new(move || {
            let headers = [
                "Authorization: Basic cm9vdDo=",
                "Content-Type: application/json",
            ];
            let row = format!("{{\"id\": {}}}", first + 2);
            http_request(rest, "POST", "/v1/tables/d/t/rows", &headers, &row).status == 201
        }),
    ];
    for (number, write) in by.into_iter().enumerate() {
        let send = send.clone();
        thread::spawn(move || {
            if write() {
                let _ = send.send(number);
            }
        });
    }
    done
}

#[test]
fn each_interface_waits_for_replicas_by_default_and_goes_on_after_a_timeout() {
    let source = server()
        .arg("--durability", "sync")
        .arg("--native-listen", "127.0.0.1:0")
        .arg("--rest-listen", "127.0.0.1:0")
        .start();
    good(
        &source,
        "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY);
         CREATE TABLE cached (k VARCHAR(64) PRIMARY KEY, v VARCHAR(64)); ALTER TABLE cached MEMCACHED PREFIX 'c:';
         SHOW BINARY LOG STATUS; SET GLOBAL rpl_semi_sync_source_enabled = ON",
    );
    // There is no replica, and no timeout: the default.
    let done = writers(&source, 10);
    wait_for_status(&source, "wait_sessions", "4");
    assert_eq!(done.recv_timeout(WATCHED).ok(), None, "acknowledged early");
    let visible = "SELECT COUNT(*) FROM d.t; SELECT COUNT(*) FROM d.cached";
    assert_eq!(good(&source, visible), ["0", "0"]);
    good(&source, "SET GLOBAL rpl_semi_sync_source_timeout = 1");
    for commits in [1, 2] {
        let done = match commits {
            1 => &done,
            // After a timeout commits no longer wait.
            _ => &writers(&source, 20),
        };
        let mut acknowledged: Vec<usize> =
            (0..4).map(|_| done.recv_timeout(WAIT).unwrap()).collect();
        acknowledged.sort_unstable();
        assert_eq!(acknowledged, [0, 1, 2, 3]);
        let rows = (3 * commits).to_string();
        assert_eq!(good(&source, visible), [rows, commits.to_string()]);
    }
    assert_eq!(status(&source, "status"), "OFF");
    assert_eq!(status(&source, "no_tx"), "8");
}
