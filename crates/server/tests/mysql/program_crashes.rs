//! kill -9 while stored programs run: what they have committed is whole and there, the rest is gone.

use crate::client::{Client, How};
use porpoise_testkit::Porpoise;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

fn connect(server: &Porpoise) -> Client {
    let how = How {
        database: "d",
        ..How::default()
    };
    Client::connect(server.mysql_addr, &how).unwrap()
}

fn ready(statements: &[&str]) -> Porpoise {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("USE d");
    for statement in statements {
        c.good(statement);
    }
    server
}

/// Sends a statement whose answer does not come, because the server is killed meanwhile.
fn send(server: &Porpoise, statement: &'static str) -> JoinHandle<()> {
    let address: SocketAddr = server.mysql_addr;
    std::thread::spawn(move || {
        let how = How {
            database: "d",
            ..How::default()
        };
        let Ok(mut c) = Client::connect(address, &how) else {
            return;
        };
        let bytes = c.query_bytes(statement);
        c.send(&bytes);
        while c.packet().is_some() {}
    })
}

fn number(c: &mut Client, query: &str) -> u64 {
    c.good(query).one().parse().unwrap()
}

/// Waits until a query returns a number above 0.
fn wait_for_rows(server: &Porpoise, c: &mut Client, query: &str) -> u64 {
    server.wait_for(query, Duration::from_secs(30), || {
        Some(number(c, query)).filter(|n| *n > 0)
    })
}

#[test]
fn a_loop_of_a_procedure_keeps_its_committed_iterations() {
    let mut server = ready(&[
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT AUTO_INCREMENT PRIMARY KEY)",
        "CREATE PROCEDURE pairs() BEGIN DECLARE n INT DEFAULT (SELECT COUNT(*) FROM a); \
         LOOP SET n = n + 1; START TRANSACTION; INSERT INTO a VALUES (n); \
         INSERT INTO b VALUES (n); COMMIT; END LOOP; END",
        "CREATE PROCEDURE open_one() BEGIN START TRANSACTION; \
         LOOP INSERT INTO c VALUES (); END LOOP; END",
    ]);
    for _ in 0..3 {
        let mut c = connect(&server);
        let before = number(&mut c, "SELECT COUNT(*) FROM a");
        let calls = [
            send(&server, "CALL pairs()"),
            send(&server, "CALL open_one()"),
        ];
        let seen = server.wait_for("iterations", Duration::from_secs(30), || {
            Some(number(&mut c, "SELECT COUNT(*) FROM b")).filter(|n| *n > before + 20)
        });
        server.kill9();
        for call in calls {
            let _ = call.join();
        }
        server.restart();
        let mut c = connect(&server);
        let count = number(&mut c, "SELECT COUNT(*) FROM a");
        assert!(count >= seen, "{count} of {seen} acknowledged iterations");
        assert_eq!(number(&mut c, "SELECT COUNT(*) FROM b"), count);
        assert_eq!(number(&mut c, "SELECT MAX(id) FROM a"), count);
        assert_eq!(number(&mut c, "SELECT COUNT(*) FROM c"), 0);
    }
}

#[test]
fn an_event_keeps_its_committed_iterations_and_runs_again() {
    let mut server = ready(&[
        "CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY)",
        "CREATE TABLE total (v INT)",
        "INSERT INTO total VALUES (0)",
        "CREATE EVENT e ON SCHEDULE EVERY 1 SECOND DO BEGIN DECLARE n INT DEFAULT 0; \
         WHILE n < 1000000 DO SET n = n + 1; START TRANSACTION; INSERT INTO log VALUES (); \
         UPDATE total SET v = v + 1; COMMIT; END WHILE; END",
    ]);
    let mut before = 0;
    for _ in 0..2 {
        let mut c = connect(&server);
        let more = format!("SELECT v > {} FROM total", before + 20);
        wait_for_rows(&server, &mut c, &more);
        server.kill9();
        server.restart();
        let mut c = connect(&server);
        let counts = "SELECT (SELECT COUNT(*) FROM log), v FROM total";
        let row = c.good(counts).texts().remove(0);
        assert_eq!(
            row[0], row[1],
            "a transaction of the event is there in part"
        );
        let count: u64 = row[0].parse().unwrap();
        assert!(count > before + 20, "{count} after {before}");
        before = count;
    }
}

#[test]
fn a_cascade_with_triggers_is_there_whole_or_not_at_all() {
    let mut server = ready(&[
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, \
         FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
        "CREATE TABLE log (id INT PRIMARY KEY)",
        "CREATE TRIGGER t AFTER DELETE ON c FOR EACH ROW INSERT INTO log VALUES (OLD.id)",
        "SET SESSION cte_max_recursion_depth = 100000",
        "INSERT INTO p WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n \
         WHERE i < 4000) SELECT i FROM n",
        "INSERT INTO c SELECT id, id FROM p",
    ]);
    let mut before = 4000;
    for millis in [5, 20, 60] {
        let statement = "DELETE FROM p WHERE id > 100";
        let sent = send(&server, statement);
        std::thread::sleep(Duration::from_millis(millis));
        server.kill9();
        let _ = sent.join();
        server.restart();
        let mut c = connect(&server);
        let parents = number(&mut c, "SELECT COUNT(*) FROM p");
        let children = number(&mut c, "SELECT COUNT(*) FROM c");
        let logged = number(&mut c, "SELECT COUNT(*) FROM log");
        assert!(parents == before || parents == 100, "{parents} parents");
        assert_eq!((children, logged), (parents, 4000 - parents));
        before = parents;
    }
    let mut c = connect(&server);
    c.good("DELETE FROM p WHERE id > 100");
    assert_eq!(number(&mut c, "SELECT COUNT(*) FROM log"), 3900);
}
