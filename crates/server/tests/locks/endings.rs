//! Events other than the grant that end a wait for a row lock.

use crate::support::{Cache, Failure, Sql};
use crate::{await_waits, session, start};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const WANTED: &str = "UPDATE t SET a = 7 WHERE id = 1";

/// A session that holds row 1.
fn holder(server: &porpoise_testkit::Porpoise) -> Sql {
    let mut sql = session(server);
    sql.run("BEGIN; UPDATE t SET a = 1 WHERE id = 1");
    sql
}

#[test]
fn kill_query_ends_the_statement_and_kill_the_session() {
    let (server, mut sql) = start();
    let mut holder = holder(&server);
    let mut waiter = session(&server);
    let id = waiter.number("SELECT CONNECTION_ID()");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.refused(WANTED));
        await_waits(&mut sql, 1);
        sql.run(&format!("KILL QUERY {id}"));
        assert_eq!(waiting.join().unwrap().code, 1317);
    });
    await_waits(&mut sql, 0);
    waiter.run("BEGIN; UPDATE t SET a = 5 WHERE id = 2");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.attempt(WANTED));
        await_waits(&mut sql, 1);
        sql.run(&format!("KILL {id}"));
        match waiting.join().unwrap() {
            Err(Failure::Refused(error)) => assert_eq!(error.code, 1317),
            Err(Failure::Gone(_)) => {}
            Ok(answer) => panic!("{answer:?}"),
        }
    });
    await_waits(&mut sql, 0);
    // Its locks are released and its changes rolled back.
    assert_eq!(sql.number("SELECT a FROM t WHERE id = 2 FOR UPDATE"), 0);
    holder.run("COMMIT");
    assert_eq!(sql.number("SELECT a FROM t WHERE id = 1"), 1);
}

#[test]
fn the_wait_of_a_disconnected_client_ends() {
    let (server, mut sql) = start();
    let mut holder = holder(&server);
    // The client is a process of its own, killed while it waits.
    let mut client = std::process::Command::new("mariadb");
    client.args(["--no-defaults", "--protocol=tcp", "--user=root"]);
    client.arg(format!("--host={}", server.mysql_addr.ip()));
    client.arg(format!("--port={}", server.mysql_addr.port()));
    client.args([
        "-e",
        "BEGIN; UPDATE h.t SET a = 5 WHERE id = 2; UPDATE h.t SET a = 7 WHERE id = 1",
    ]);
    let mut client = client.spawn().unwrap();
    await_waits(&mut sql, 1);
    client.kill().unwrap();
    client.wait().unwrap();
    await_waits(&mut sql, 0);
    assert_eq!(sql.number("SELECT a FROM t WHERE id = 2 FOR UPDATE"), 0);
    holder.run("COMMIT");
    assert_eq!(sql.number("SELECT a FROM t WHERE id = 1"), 1);
}

#[test]
fn the_wait_of_a_disconnected_memcached_client_ends() {
    let (server, mut sql) = start();
    let mut holder = holder(&server);
    let mut client = TcpStream::connect(server.memcached_addr).unwrap();
    client.write_all(b"set t:1 0 0 1\r\n7\r\n").unwrap();
    await_waits(&mut sql, 1);
    // A reset; one that merely closes may still be reading, as `nc -N` does, and is asked.
    let socket = socket2::Socket::from(client);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    drop(socket);
    await_waits(&mut sql, 0);
    holder.run("COMMIT");
    let mut cache = Cache::connect(server.memcached_addr);
    assert_eq!(cache.get("t:1").as_deref(), Some("1"));
}

#[test]
fn the_time_out_ends_the_statement_only() {
    let (server, _sql) = start();
    let mut holder = holder(&server);
    let mut waiter = session(&server);
    waiter.run("SET innodb_lock_wait_timeout = 1");
    waiter.run("BEGIN; UPDATE t SET a = 5 WHERE id = 2");
    let begun = Instant::now();
    assert_eq!(waiter.refused(WANTED).code, 1205);
    let waited = begun.elapsed();
    assert!(waited > Duration::from_millis(900), "{waited:?}");
    holder.run("ROLLBACK");
    waiter.run(WANTED);
    waiter.run("COMMIT");
    assert_eq!(
        waiter.numbers("SELECT a FROM t ORDER BY id"),
        [[7], [5], [0]]
    );
}

#[test]
fn nowait_and_skip_locked_do_not_wait() {
    let (server, mut sql) = start();
    let mut holder = holder(&server);
    let begun = Instant::now();
    let busy = sql.refused("SELECT a FROM t WHERE id IN (1, 2) FOR UPDATE NOWAIT");
    assert_eq!(busy.code, 3572);
    assert_eq!(
        sql.refused("SELECT a FROM t WHERE id = 1 FOR SHARE NOWAIT")
            .code,
        3572
    );
    let free = "SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
    assert_eq!(sql.numbers(free), [[2]]);
    assert!(begun.elapsed() < Duration::from_secs(20));
    holder.run("COMMIT");
    assert_eq!(sql.numbers(free), [[1]]);
}

/// Ten workers take jobs from a queue: none is taken twice, none is left, and no statement fails.
#[test]
fn skip_locked_distributes_a_queue_of_jobs() {
    let (server, mut sql) = start();
    sql.run(
        "CREATE TABLE job (id INT PRIMARY KEY, state VARCHAR(9) NOT NULL, by_whom INT, \
         KEY (state))",
    );
    let jobs: Vec<String> = (0..200).map(|n| format!("({n}, 'new', NULL)")).collect();
    sql.run(&format!("INSERT INTO job VALUES {}", jobs.join(",")));
    let server = &server;
    let taken: Vec<i64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..10)
            .map(|worker| {
                scope.spawn(move || {
                    let mut sql = session(server);
                    let mut taken = Vec::new();
                    loop {
                        sql.run("BEGIN");
                        let next = "SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 \
                                    FOR UPDATE SKIP LOCKED";
                        let Some(row) = sql.numbers(next).pop() else {
                            sql.run("COMMIT");
                            return taken;
                        };
                        let id = row[0];
                        sql.run(&format!(
                            "UPDATE job SET state = 'done', by_whom = {worker} WHERE id = {id}"
                        ));
                        sql.run("COMMIT");
                        taken.push(id);
                    }
                })
            })
            .collect();
        let taken = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap());
        taken.collect()
    });
    let mut sorted = taken;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..200).collect::<Vec<i64>>());
}

/// Statements that find their rows by a range restart at a commit that is not yet durable, and
/// succeed on a slow disk, too.
#[test]
fn ranges_over_a_hot_row_are_changed_on_a_slow_disk() {
    let server = crate::support::server()
        .disk_faults("sync_delay_us=20000")
        .start();
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("CREATE DATABASE h; USE h; CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL)");
    sql.run("INSERT INTO t VALUES (1, 0), (2, 0)");
    let server = &server;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let mut sql = session(server);
                for _ in 0..5 {
                    sql.run("UPDATE t SET a = a + 1 WHERE id >= 1 AND id <= 2");
                }
            });
        }
    });
    assert_eq!(sql.numbers("SELECT a FROM t ORDER BY id"), [[20], [20]]);
}
