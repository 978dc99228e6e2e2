//! XA transactions through the real binary: crashes, restarts, connections that end, both protocols.

use crate::client::{Client, How};
use porpoise_testkit::Porpoise;
use porpoise_wire::mysql::Status;
use std::time::Duration;

fn ready(server: &Porpoise) -> Client {
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("USE d");
    c.good("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), k INT, UNIQUE (k))");
    c.good("INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)");
    c
}

fn connect(server: &Porpoise) -> Client {
    let how = How {
        database: "d",
        ..How::default()
    };
    Client::connect(server.mysql_addr, &how).unwrap()
}

/// Runs a branch up to XA PREPARE.
fn prepare(c: &mut Client, xid: &str, statements: &[&str]) {
    c.good(&format!("XA START '{xid}'"));
    for statement in statements {
        c.good(statement);
    }
    c.good(&format!("XA END '{xid}'"));
    c.good(&format!("XA PREPARE '{xid}'"));
}

fn recovered(c: &mut Client) -> Vec<String> {
    let rows = c.good("XA RECOVER").texts();
    rows.into_iter().map(|row| row[3].clone()).collect()
}

/// Checks that the rows of the branches `keep` and `drop` are locked, and what they protect.
fn check_locked(server: &Porpoise) {
    let mut c = connect(server);
    c.good("SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 1");
    assert_eq!(recovered(&mut c), ["drop", "keep"]);
    assert_eq!(c.good("SELECT v FROM t WHERE id = 1").one(), "one");
    for (code, statement) in [
        (1205, "UPDATE t SET v = 'x' WHERE id = 1"),
        (1205, "DELETE FROM t WHERE id = 2"),
        (1205, "INSERT INTO t VALUES (4, 'mine', 40)"),
        (1205, "INSERT INTO t VALUES (40, 'mine', 4)"),
        (1213, "INSERT INTO t VALUES (150, 'mine', 150)"),
        (1205, "ALTER TABLE t ADD w INT"),
        (1205, "DROP DATABASE d"),
        (1440, "XA START 'keep'"),
    ] {
        assert_eq!(c.query(statement).code(), code, "{statement}");
    }
    c.good("UPDATE t SET v = 'free' WHERE id = 3");
}

/// The view of a coordinator after a crash between the phases.
#[test]
fn a_prepared_branch_survives_a_killed_server() {
    let mut server = Porpoise::builder().start();
    let mut c = ready(&server);
    prepare(
        &mut c,
        "keep",
        &[
            "UPDATE t SET v = 'kept' WHERE id = 1",
            "INSERT INTO t VALUES (4, 'kept', 4)",
            "UPDATE t SET v = 'x' WHERE id BETWEEN 100 AND 200",
        ],
    );
    // The session that prepared it goes on; another branch, and an active one that dies.
    prepare(&mut c, "drop", &["DELETE FROM t WHERE id = 2"]);
    c.good("XA START 'lost'");
    c.good("INSERT INTO t VALUES (5, 'lost', 5)");
    check_locked(&server);
    server.kill9();
    server.restart();
    check_locked(&server);
    // A clean shutdown keeps them, too.
    assert!(server.terminate().success());
    server.restart();
    check_locked(&server);
    let mut c = connect(&server);
    c.good("XA COMMIT 'keep'");
    c.good("XA ROLLBACK 'drop'");
    assert_eq!(c.query("XA COMMIT 'keep'").code(), 1397);
    server.kill9();
    server.restart();
    let mut c = connect(&server);
    assert_eq!(recovered(&mut c), [""; 0]);
    let rows = c.good("SELECT id, v FROM t ORDER BY id").texts();
    let expected = [["1", "kept"], ["2", "two"], ["3", "free"], ["4", "kept"]];
    assert_eq!(rows, expected);
    c.good("INSERT INTO t VALUES (150, 'mine', 150)");
    c.good("ALTER TABLE t ADD w INT");
    assert_eq!(c.good("CHECK TABLE t").texts().last().unwrap()[3], "OK");
}

/// In `interval` mode an answer does not wait for the disk, but those of XA do.
#[test]
fn prepared_branches_survive_a_power_failure_in_interval_mode() {
    let mut server = Porpoise::builder()
        .arg("--durability", "interval")
        .disk_faults("seed=3")
        .start();
    let mut c = ready(&server);
    prepare(&mut c, "keep", &["UPDATE t SET v = 'kept' WHERE id = 1"]);
    prepare(&mut c, "done", &["UPDATE t SET v = 'done' WHERE id = 2"]);
    c.good("XA COMMIT 'done'");
    server.kill9();
    server.restart();
    let mut c = connect(&server);
    assert_eq!(recovered(&mut c), ["keep"]);
    assert_eq!(c.good("SELECT v FROM t WHERE id = 2").one(), "done");
    c.good("XA ROLLBACK 'keep'");
}

/// A branch of a connection that ends is rolled back unless it is prepared; so it is after
/// COM_RESET_CONNECTION and KILL.
#[test]
fn a_branch_ends_with_its_connection_unless_it_is_prepared() {
    let server = Porpoise::builder().start();
    let mut admin = ready(&server);
    const RESET: u8 = 31;
    for (n, end) in ["close", "kill", "reset"].into_iter().enumerate() {
        for idle in [false, true] {
            let mut c = connect(&server);
            prepare(&mut c, &format!("kept{n}{idle}"), &[]);
            c.good("XA START 'x'");
            let answer = c.good("UPDATE t SET v = 'x' WHERE id = 1");
            assert!(answer.status.has(Status::IN_TRANSACTION));
            if idle {
                c.good("XA END 'x'");
            }
            match end {
                "close" => drop(c),
                "kill" => {
                    admin.good(&format!("KILL {}", c.id));
                }
                _ => {
                    assert_eq!(c.simple(RESET).code(), 0);
                    assert_eq!(c.query("XA ROLLBACK 'x'").code(), 1397);
                }
            }
            // The row is free, and so is the identifier.
            admin.good("UPDATE d.t SET v = 'free' WHERE id = 1");
            server.wait_for("the branch to end", Duration::from_secs(20), || {
                (admin.query("XA START 'x'").code() == 0).then_some(())
            });
            admin.good("XA END 'x'");
            admin.good("XA ROLLBACK 'x'");
        }
    }
    assert_eq!(recovered(&mut admin).len(), 6);
}

#[test]
fn xa_recover_needs_a_privilege_and_other_xa_statements_do_not() {
    let server = Porpoise::builder().start();
    let mut root = ready(&server);
    root.good("CREATE USER u@'%'");
    root.good("GRANT ALL ON d.* TO u@'%'");
    let how = How {
        user: "u",
        database: "d",
        ..How::default()
    };
    let mut c = Client::connect(server.mysql_addr, &how).unwrap();
    prepare(&mut c, "x", &["DELETE FROM t WHERE id = 1"]);
    let refused = c.query("XA RECOVER");
    assert_eq!(refused.code(), 1401, "{refused:?}");
    let causes = c.good("SHOW WARNINGS").texts();
    assert!(causes.iter().any(|row| row[1] == "1227"), "{causes:?}");
    c.good("XA COMMIT 'x'");
    root.good("GRANT XA_RECOVER_ADMIN ON *.* TO u@'%'");
    let mut c = Client::connect(server.mysql_addr, &how).unwrap();
    assert_eq!(recovered(&mut c), [""; 0]);
}

/// memcached commands wait for the rows of a prepared branch, and see its commit.
#[test]
fn prepared_rows_are_locked_for_both_protocols() {
    let mut server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("USE d");
    c.good("CREATE TABLE t (id VARCHAR(20) PRIMARY KEY, v VARCHAR(20))");
    c.good("ALTER TABLE t MEMCACHED PREFIX 't:'");
    c.good("INSERT INTO t VALUES ('a', 'old'), ('b', 'old')");
    prepare(&mut c, "x", &["UPDATE t SET v = 'new' WHERE id = 'a'"]);
    for _ in 0..2 {
        assert!(server.memcached("get t:a\r\n").contains("\r\nold\r\n"));
        assert_eq!(server.memcached("set t:b 0 0 3\r\nyes\r\n"), "STORED\r\n");
        let waiting = {
            let address = server.memcached_addr;
            std::thread::spawn(move || {
                porpoise_testkit::exchange(address, b"set t:a 0 0 4\r\nmine\r\n")
            })
        };
        std::thread::sleep(Duration::from_millis(300));
        assert!(!waiting.is_finished(), "a locked row was written");
        // It is waiting when the server dies, the second time when the branch is committed.
        server.kill9();
        let _ = waiting.join();
        server.restart();
    }
    let waiting = {
        let address = server.memcached_addr;
        std::thread::spawn(move || {
            porpoise_testkit::exchange(address, b"append t:a 0 0 3\r\ner!\r\n")
        })
    };
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished(), "a locked row was written");
    let mut c = connect(&server);
    c.good("XA COMMIT 'x'");
    assert_eq!(waiting.join().unwrap(), b"STORED\r\n");
    assert_eq!(c.good("SELECT v FROM t WHERE id = 'a'").one(), "newer!");
}
