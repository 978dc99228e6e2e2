//! XA transactions in two phases: branches that a source prepares are prepared here, survive restarts of the replica, and end with
//! those of the source.

use super::support::{PATIENCE, Pair, SQL_ERROR, SQL_RUNNING, source_options};
use super::written_source::{FILE, Log, WrittenSource};
use porpoise_testkit::{Porpoise, wait_until};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

const TABLE: &str =
    "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20)) CHARSET utf8mb4";

/// Lets a replica follow a written source.
fn follow(replica: &Porpoise, source: &WrittenSource) {
    let port = source.address.port();
    let change = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = 'repl', \
         SOURCE_PASSWORD = 'x', SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 0, SOURCE_HEARTBEAT_PERIOD = 1, \
         SOURCE_LOG_FILE = '{FILE}', SOURCE_LOG_POS = 4; START REPLICA"
    );
    replica.sql(&change).rows();
}

/// Waits until everything before a position is applied.
fn applied(replica: &Porpoise, position: u32) {
    let done = wait_until(PATIENCE, || {
        let shown = replica.sql("SHOW REPLICA STATUS");
        let row = shown.rows()[0].clone();
        assert_eq!(row[SQL_RUNNING], "Yes", "stopped: {}", row[SQL_ERROR]);
        (row[21].parse::<u32>().unwrap() >= position).then_some(())
    });
    assert!(done.is_some(), "position {position} is not reached");
}

/// Waits until the replica has stopped with an error; returns its text.
fn stopped(replica: &Porpoise) -> String {
    let stopped = wait_until(PATIENCE, || {
        let shown = replica.sql("SHOW REPLICA STATUS");
        let row = shown.rows()[0].clone();
        (row[SQL_RUNNING] == "No").then(|| row[SQL_ERROR].to_owned())
    });
    stopped.expect("the replica goes on")
}

fn ids(replica: &Porpoise) -> String {
    let ids = replica.sql("SELECT GROUP_CONCAT(id, v ORDER BY id) FROM d.t");
    ids.stdout.trim().to_owned()
}

fn branches(replica: &Porpoise) -> String {
    let branches = replica.sql("XA RECOVER");
    let names = branches
        .rows()
        .iter()
        .map(|row| row[3].to_owned())
        .collect::<Vec<_>>();
    names.join(" ")
}

/// Sets the stored position back to a place, as a crash between the end of a step and the commit of its position leaves it: the
/// step, which ends at `end`, is noted.
fn forget_step(replica: &Porpoise, begin: u32, end: u32) {
    replica.sql("STOP REPLICA").rows();
    let back = format!(
        "UPDATE mysql.replica_position SET Source_log_pos = {begin}, Pending_log_file = '{FILE}', Pending_log_pos = {end}, \
         Pending_catalog_version = 1"
    );
    replica.sql(&back).rows();
    replica.sql("START REPLICA").rows();
}

#[test]
fn branches_of_mysql_are_prepared_and_end_with_the_sources() {
    let mut log = Log::new();
    log.gtid().query("BEGIN").row(1, "a").xid();
    let begin = log.end();
    log.gtid().query("XA START X'6162',X'63',1").row(2, "b");
    log.query("XA END X'6162',X'63',1")
        .xa_prepare(false, "ab", "c");
    let (prepared, at) = (log.len(), log.end());
    log.gtid().query("BEGIN").row(3, "c").xid();
    let (beside, before) = (log.len(), log.end());
    log.gtid().query("XA COMMIT X'6162',X'63',1");
    let (committed, after) = (log.len(), log.end());
    log.gtid().query("XA START X'65',X'',1").row(4, "d");
    log.query("XA END X'65',X'',1").xa_prepare(false, "e", "");
    log.gtid().query("XA ROLLBACK X'65',X'',1");
    log.gtid().query("XA START X'66',X'',1").row(5, "e");
    log.query("XA END X'66',X'',1").xa_prepare(true, "f", "");
    let (ended, end) = (log.len(), log.end());
    log.gtid().query("XA COMMIT X'99',X'',1");
    let all = log.len();
    let source = WrittenSource::start(log);
    let mut replica = Porpoise::builder().arg("--durability", "sync").start();
    replica.sql(TABLE).rows();
    follow(&replica, &source);

    source.release(prepared);
    applied(&replica, at);
    assert_eq!(
        (ids(&replica), branches(&replica)),
        ("1a".into(), "abc".into())
    );
    replica.kill9();
    replica.restart();
    // It was prepared, and the server ended before the position was stored.
    forget_step(&replica, begin, at);
    source.release(beside);
    applied(&replica, before);
    assert_eq!(
        (ids(&replica), branches(&replica)),
        ("1a,3c".into(), "abc".into())
    );
    let locked = replica.sql("SET innodb_lock_wait_timeout = 1; INSERT INTO d.t VALUES (2, 'x')");
    assert!(
        locked.stderr.contains("1205"),
        "the row is locked: {}",
        locked.stderr
    );

    source.release(committed);
    applied(&replica, after);
    assert_eq!(
        (ids(&replica), branches(&replica)),
        ("1a,2b,3c".into(), String::new())
    );
    replica.kill9();
    replica.restart();
    forget_step(&replica, before, after);
    source.release(ended);
    applied(&replica, end);
    assert_eq!(
        (ids(&replica), branches(&replica)),
        ("1a,2b,3c,5e".into(), String::new())
    );

    // A branch that was prepared before the position at which the replica began.
    source.release(all);
    let error = stopped(&replica);
    assert!(error.contains("X'99',X'',1: XAER_NOTA"), "{error}");
}

#[test]
fn branches_with_an_identifier_of_this_server_stop_the_replica() {
    let mut log = Log::new();
    log.gtid().query("XA START X'61',X'',1").row(1, "a");
    log.query("XA END X'61',X'',1").xa_prepare(false, "a", "");
    let all = log.len();
    let source = WrittenSource::start(log);
    let replica = Porpoise::builder().arg("--durability", "sync").start();
    replica.sql(TABLE).rows();
    replica
        .sql("XA START 'a'; INSERT INTO d.t VALUES (9, 'own'); XA END 'a'; XA PREPARE 'a'")
        .rows();
    follow(&replica, &source);
    source.release(all);
    let error = stopped(&replica);
    assert!(error.contains("this server has the identifier"), "{error}");
    replica.sql("XA ROLLBACK 'a'; START REPLICA").rows();
    applied(&replica, 5);
    let found = wait_until(PATIENCE, || (branches(&replica) == "a").then_some(()));
    assert!(
        found.is_some() && ids(&replica) == "NULL",
        "{}",
        ids(&replica)
    );
}

/// Branches of a MariaDB source, each in a session of its own; every third is rolled back.
fn script(first: u32, count: u32) -> String {
    let mut text = String::from("USE d;\n");
    for id in first..first + count {
        let end = if id % 3 == 0 { "ROLLBACK" } else { "COMMIT" };
        writeln!(
            text,
            "XA START 'x{id}', 'b'; INSERT INTO t VALUES ({id}, 'v'); UPDATE n SET n = n + 1 WHERE id = 1; \
             XA END 'x{id}', 'b'; XA PREPARE 'x{id}', 'b'; XA {end} 'x{id}', 'b'; INSERT INTO t VALUES ({}, 'plain');",
            id + 100_000
        )
        .unwrap();
    }
    text
}

#[test]
fn branches_of_mariadb_are_followed_through_kills_of_the_replica() {
    for workers in ["0", "4"] {
        let mut pair = Pair::with(source_options(), ", MASTER_USE_GTID = slave_pos");
        let set = format!(
            "STOP REPLICA; SET PERSIST replica_parallel_workers = {workers}; START REPLICA"
        );
        pair.replica.sql(&set).rows();
        pair.source
            .sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20)) CHARSET utf8mb4; \
                 CREATE TABLE d.n (id INT PRIMARY KEY, n INT); INSERT INTO d.n VALUES (1, 0)")
            .rows();
        let mut client = Command::new("mariadb")
            .args(["--no-defaults", "-h127.0.0.1", "-uroot"])
            .arg(format!("-P{}", pair.source.addr.port()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = client.stdin.take().unwrap();
        for part in 0..4 {
            input.write_all(script(part * 40, 40).as_bytes()).unwrap();
            input.flush().unwrap();
            pair.replica.kill9();
            pair.replica.restart();
        }
        drop(input);
        assert!(client.wait().unwrap().success());
        // One that is left prepared.
        pair.source
            .sql("USE d; XA START 'left'; INSERT INTO t VALUES (-1, 'left'); XA END 'left'; XA PREPARE 'left'")
            .rows();
        pair.catch_up();
        assert_eq!(branches(&pair.replica), "left");
        pair.replica.kill9();
        pair.replica.restart();
        pair.source.sql("XA COMMIT 'left'").rows();
        pair.catch_up();
        pair.compare("SELECT * FROM d.t ORDER BY id");
        pair.compare("SELECT * FROM d.n");
        assert_eq!(branches(&pair.replica), "");
    }
}

#[test]
fn a_prepared_branch_is_on_its_own_server_only() {
    use super::standby::{TABLES, catch_up, create_account, follow, good, start};
    let (source, standby) = (start("1"), start("2"));
    create_account(&source);
    follow(&standby, &source);
    good(&source, TABLES);
    let prepare = "USE d; XA START 'a'; INSERT INTO t VALUES (1, 1); XA END 'a'; XA PREPARE 'a'";
    good(&source, prepare);
    catch_up(&standby, &source);
    let branches = |server: &Porpoise| good(server, "XA RECOVER").len();
    assert_eq!((branches(&source), branches(&standby)), (1, 0));
    assert_eq!(standby.sql("XA COMMIT 'a'").error_number(), Some(1397));
    // It is in the log when it is committed, as any transaction.
    good(&source, "XA COMMIT 'a'");
    catch_up(&standby, &source);
    assert_eq!(good(&standby, "SELECT * FROM d.t"), ["1|1"]);
}
