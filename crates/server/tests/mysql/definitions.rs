//! DDL statements that are interrupted by KILL or a crash of the server: the table is unchanged, and
//! the statement can be run again.

use crate::client::Client;
use porpoise_testkit::Porpoise;
use std::time::{Duration, Instant};

/// Statements over many rows, and the state that they show while they run.
const LONG: [(&str, &str); 4] = [
    ("ALTER TABLE t ADD INDEX by_text (s, k)", "altering table"),
    ("ALTER TABLE t ADD UNIQUE one (k, id)", "altering table"),
    (
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (k) REFERENCES p (id)",
        "checking table",
    ),
    ("ALTER TABLE t MODIFY s CHAR(60)", "copy to tmp table"),
];

/// So many rows that no statement is over before it was seen.
const DOUBLINGS: u32 = 17;

fn fill(c: &mut Client) {
    c.good("CREATE DATABASE d");
    c.good("USE d");
    c.good("CREATE TABLE p (id INT PRIMARY KEY)");
    c.good("INSERT INTO p VALUES (0), (1), (2), (3), (4), (5), (6)");
    c.good(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, s VARCHAR(40), \
         big BLOB, KEY by_k (k))",
    );
    c.good("INSERT INTO t (k, s, big) VALUES (3, 'some words', REPEAT('x', 9000))");
    for n in 0..DOUBLINGS {
        c.good(&format!(
            "INSERT INTO t (k, s) SELECT id % 7, CONCAT(s, {n}) FROM t"
        ));
    }
}

/// Table definition and contents that must not have changed.
fn shape(c: &mut Client) -> Vec<String> {
    let definition = c.good("SHOW CREATE TABLE d.t").texts()[0][1].clone();
    // The next id may have moved on.
    let (start, end) = definition.split_once(" AUTO_INCREMENT=").unwrap();
    let end = end.trim_start_matches(|c: char| c.is_ascii_digit());
    let mut shape = vec![format!("{start}{end}")];
    for text in [
        "SELECT CONCAT_WS(' ', COUNT(*), SUM(id), SUM(k), SUM(LENGTH(s)), SUM(LENGTH(big))) FROM d.t",
        "SELECT COUNT(*) FROM d.t FORCE INDEX (by_k) WHERE k = 3",
        "SELECT COUNT(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'd'",
        "SELECT COUNT(*) FROM information_schema.TABLE_CONSTRAINTS WHERE TABLE_SCHEMA = 'd'",
    ] {
        shape.push(c.good(text).one());
    }
    let check = c.good("CHECK TABLE d.t, d.p").texts();
    assert!(check.iter().all(|row| row[3] == "OK"), "{check:?}");
    shape
}

/// Waits until the session shows the state, and everywhere the part of the rows that is done.
fn until_at(watcher: &mut Client, id: u32, state: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let select = format!(
        "SELECT p.STATE, s.EVENT_NAME, s.WORK_COMPLETED, s.WORK_ESTIMATED, l.progress \
         FROM information_schema.PROCESSLIST p \
         JOIN performance_schema.events_stages_current s ON s.THREAD_ID = p.ID \
         JOIN sys.`x$processlist` l ON l.conn_id = p.ID \
         WHERE p.ID = {id} AND s.WORK_COMPLETED > 0 AND s.WORK_ESTIMATED > 100000"
    );
    loop {
        let rows = watcher.good(&select).texts();
        let is_shown = rows.iter().any(|row| {
            let percent: f64 = row[4].parse().unwrap_or(0.0);
            row[0].starts_with(state)
                && row[0].ends_with(" %)")
                && row[1] == format!("stage/sql/{state}")
                && percent > 0.0
                && percent <= 100.0
        });
        if is_shown {
            return;
        }
        assert!(Instant::now() < deadline, "never at {state:?}: {rows:?}");
    }
}

#[test]
fn a_killed_definition_leaves_the_table_as_it_was() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    fill(&mut c);
    let before = shape(&mut c);
    let mut worker = Client::root(server.mysql_addr);
    worker.good("USE d");
    for (text, state) in LONG {
        let bytes = worker.query_bytes(text);
        worker.send(&bytes);
        until_at(&mut c, worker.id, state);
        c.good(&format!("KILL QUERY {}", worker.id));
        assert_eq!(worker.answers(false)[0].code(), 1317, "{text}");
        assert_eq!(shape(&mut c), before, "{text}");
        c.good("INSERT INTO d.t (k, s) VALUES (5, 'between')");
        c.good("DELETE FROM d.t WHERE s = 'between'");
    }
    for (text, _) in LONG {
        worker.good(text);
    }
    let after = shape(&mut c);
    assert_ne!(after[0], before[0]);
    assert_eq!(after[1..3], before[1..3]);
}

#[test]
fn the_process_list_shows_ddl_that_waits_for_a_transaction() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    c.good("CREATE DATABASE d");
    c.good("CREATE TABLE d.t (id INT PRIMARY KEY)");
    c.good("BEGIN");
    c.good("SELECT * FROM d.t");
    let mut worker = Client::root(server.mysql_addr);
    let bytes = worker.query_bytes("ALTER TABLE d.t ADD COLUMN x INT");
    worker.send(&bytes);
    let state = "Waiting for table metadata lock";
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let list = c.good("SHOW PROCESSLIST").texts();
        let mine = list.iter().find(|row| row[0] == worker.id.to_string());
        if mine.is_some_and(|row| row[6] == state) {
            break;
        }
        assert!(Instant::now() < deadline, "never {state:?}: {list:?}");
    }
    c.good("COMMIT");
    assert_eq!(worker.answers(false)[0].code(), 0);
}

#[test]
fn a_server_crash_during_ddl_leaves_the_table_unchanged() {
    let mut server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    fill(&mut c);
    let before = shape(&mut c);
    for (text, state) in LONG {
        let mut worker = Client::root(server.mysql_addr);
        worker.good("USE d");
        let bytes = worker.query_bytes(text);
        worker.send(&bytes);
        until_at(&mut c, worker.id, state);
        server.kill9();
        server.restart();
        c = Client::root(server.mysql_addr);
        assert_eq!(shape(&mut c), before, "{text}");
    }
    c.good("USE d");
    for (text, _) in LONG {
        c.good(text);
    }
    let after = shape(&mut c);
    assert_ne!(after[0], before[0]);
    assert_eq!(after[1..3], before[1..3]);
}
