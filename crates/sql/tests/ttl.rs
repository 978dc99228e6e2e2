//! Time to live under a clock that the test moves: the moment of expiry, snapshots, time zones, the
//! background deletion.

use crate::common::{connect, good};
use porpoise_base::clock::ManualClock;
use porpoise_kv::model::Model;
use porpoise_rows::{Db, DbOptions};
use porpoise_sql::server::{SqlConfig, SqlServer};
use porpoise_sql::session::SqlSession;
use porpoise_sql::ttl_reaper::{TtlReaper, pass};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Fixture {
    clock: Arc<ManualClock>,
    server: Arc<SqlServer>,
    root: SqlSession,
}

fn start() -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let db = Db::open(Arc::new(Model::new()), clock.clone(), DbOptions::default()).unwrap();
    let server = SqlServer::new(db, SqlConfig::default()).unwrap();
    let mut root = connect(&server, 1);
    good(&mut root, "CREATE DATABASE d");
    good(&mut root, "USE d");
    Fixture {
        clock,
        server,
        root,
    }
}

impl Fixture {
    fn hours(&self, n: u64) {
        self.clock.advance(Duration::from_secs(3600 * n));
    }

    fn pass(&self, name: &str) -> (u64, u64) {
        let catalog = self.server.db().catalog();
        let table = catalog.table("d", name).unwrap();
        let done = pass(self.server.db(), table, &|| true).unwrap();
        (done.deleted, done.kept)
    }
}

const CREATE: &str = "CREATE TABLE t (id INT PRIMARY KEY, made TIMESTAMP NOT NULL DEFAULT NOW()) \
                      TTL = made + INTERVAL 1 DAY TTL_JOB_INTERVAL = '2h'";
const IDS: &str = "SELECT id FROM t ORDER BY id";

#[test]
fn a_row_is_absent_from_the_moment_of_its_expiry() {
    let mut f = start();
    good(&mut f.root, CREATE);
    good(&mut f.root, "INSERT INTO t (id) VALUES (1)");
    f.clock.advance(Duration::from_secs(86_399));
    assert_eq!(good(&mut f.root, IDS), ["1"]);
    f.clock.advance(Duration::from_secs(1));
    assert!(good(&mut f.root, IDS).is_empty());
    // The clock of expiry is the server's, not that of the session.
    good(&mut f.root, "SET timestamp = 1");
    assert!(good(&mut f.root, IDS).is_empty());
    good(&mut f.root, "SET timestamp = DEFAULT");
    // A prepared plan and a procedure see the same.
    good(&mut f.root, "PREPARE s FROM 'SELECT COUNT(*) FROM t'");
    assert_eq!(good(&mut f.root, "EXECUTE s"), ["0"]);
    good(&mut f.root, "INSERT INTO t (id) VALUES (1), (2)");
    assert_eq!(good(&mut f.root, "EXECUTE s"), ["2"]);
    f.hours(24);
    assert_eq!(good(&mut f.root, "EXECUTE s"), ["0"]);
    good(
        &mut f.root,
        "CREATE FUNCTION n() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM t)",
    );
    assert_eq!(good(&mut f.root, "SELECT n()"), ["0"]);
}

#[test]
fn a_snapshot_shows_the_same_rows_for_its_whole_life() {
    let mut f = start();
    good(&mut f.root, CREATE);
    good(&mut f.root, "INSERT INTO t (id) VALUES (1)");
    good(&mut f.root, "BEGIN");
    assert_eq!(good(&mut f.root, IDS), ["1"]);
    f.hours(24);
    assert_eq!(good(&mut f.root, IDS), ["1"]);
    let mut other = connect(&f.server, 2);
    good(&mut other, "USE d");
    assert!(good(&mut other, IDS).is_empty());
    assert_eq!(f.pass("t"), (1, 0));
    assert_eq!(good(&mut f.root, IDS), ["1"]);
    good(&mut f.root, "COMMIT");
    assert!(good(&mut f.root, IDS).is_empty());
    good(&mut f.root, "INSERT INTO t (id) VALUES (2)");
    good(
        &mut f.root,
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    );
    good(&mut f.root, "BEGIN");
    assert_eq!(good(&mut f.root, IDS), ["2"]);
    f.hours(24);
    assert!(good(&mut f.root, IDS).is_empty());
}

#[test]
fn dates_without_a_zone_are_of_the_global_time_zone() {
    let mut f = start();
    good(
        &mut f.root,
        "CREATE TABLE t (id INT PRIMARY KEY, made DATETIME) TTL = made + INTERVAL 1 HOUR",
    );
    // The clock starts at 01:46:40 UTC.
    good(
        &mut f.root,
        "INSERT INTO t VALUES (1, '2001-09-09 01:00:00')",
    );
    assert_eq!(good(&mut f.root, IDS), ["1"]);
    good(&mut f.root, "SET time_zone = '+05:00'");
    assert_eq!(good(&mut f.root, IDS), ["1"]);
    good(&mut f.root, "SET GLOBAL time_zone = '+05:00'");
    assert!(good(&mut f.root, IDS).is_empty());
    good(&mut f.root, "SET GLOBAL time_zone = '-01:00'");
    assert_eq!(good(&mut f.root, IDS), ["1"]);
}

#[test]
fn the_background_deletion_cascades_fires_triggers_and_leaves_what_it_must() {
    let mut f = start();
    let _runner = f.server.run_triggers_of_commands();
    good(&mut f.root, CREATE);
    for text in [
        "CREATE TABLE c (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE)",
        "CREATE TABLE r (t INT, FOREIGN KEY (t) REFERENCES t (id))",
        "CREATE TABLE log (id INT)",
        "CREATE TRIGGER gone AFTER DELETE ON t FOR EACH ROW INSERT INTO log VALUES (OLD.id)",
        "INSERT INTO t (id) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i FROM n",
        "INSERT INTO c VALUES (1, 1), (2, 500)",
        "INSERT INTO r VALUES (7)",
    ] {
        good(&mut f.root, text);
    }
    f.hours(23);
    good(&mut f.root, "INSERT INTO t (id) VALUES (1000)");
    good(&mut f.root, "UPDATE t SET made = NOW() WHERE id = 3");
    f.hours(1);
    assert_eq!(good(&mut f.root, IDS), ["3", "1000"]);
    assert_eq!(f.pass("t"), (898, 1));
    assert_eq!(good(&mut f.root, "SELECT COUNT(*) FROM c"), ["0"]);
    assert_eq!(good(&mut f.root, "SELECT COUNT(*) FROM log"), ["898"]);
    assert_eq!(good(&mut f.root, IDS), ["3", "1000"]);
    good(&mut f.root, "ALTER TABLE t REMOVE TTL");
    assert_eq!(good(&mut f.root, IDS), ["3", "7", "1000"]);
    let status = good(&mut f.root, "SHOW GLOBAL STATUS LIKE 'Ttl%'");
    assert_eq!(
        status,
        ["Ttl_deleted_rows|898", "Ttl_kept_rows|1", "Ttl_passes|1"]
    );
}

#[test]
fn the_thread_scans_a_table_once_in_its_interval() {
    let mut f = start();
    good(&mut f.root, CREATE);
    good(&mut f.root, "INSERT INTO t (id) VALUES (1)");
    f.hours(24);
    let mut reaper = TtlReaper::start(f.server.db().clone(), Arc::new(|_: &str| ())).unwrap();
    let passes = || f.server.db().ttl_counters().passes();
    let limit = Instant::now() + Duration::from_secs(20);
    while passes() == 0 {
        assert!(Instant::now() < limit);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(f.server.db().ttl_counters().deleted(), 1);
    f.hours(1);
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(passes(), 1);
    f.hours(1);
    while passes() == 1 {
        assert!(Instant::now() < limit);
        std::thread::sleep(Duration::from_millis(20));
    }
    reaper.stop();
}

#[test]
fn a_pass_tells_why_a_trigger_keeps_rows_and_outlasts_other_definitions() {
    let mut f = start();
    good(&mut f.root, CREATE);
    good(&mut f.root, "INSERT INTO t (id) VALUES (1), (2)");
    good(
        &mut f.root,
        "CREATE TRIGGER keep BEFORE DELETE ON t FOR EACH ROW \
         SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'",
    );
    let _triggers = f.server.run_triggers_of_commands();
    f.hours(25);
    let catalog = f.server.db().catalog();
    let table = catalog.table("d", "t").unwrap();
    let other = std::cell::RefCell::new(connect(&f.server, 2));
    good(&mut other.borrow_mut(), "USE d");
    let is_made = std::cell::Cell::new(false);
    let define_another = || {
        if !is_made.replace(true) {
            good(&mut other.borrow_mut(), "CREATE TABLE another (id INT)");
        }
        true
    };
    let done = pass(f.server.db(), table, &define_another).unwrap();
    assert_eq!((done.deleted, done.kept), (0, 2));
    let refusal = done.refusal.unwrap().to_string();
    assert!(refusal.contains("not this one"), "{refusal}");
    good(&mut f.root, "DROP TRIGGER keep");
    let changed = pass(f.server.db(), table, &|| true);
    assert!(changed.is_err(), "the table's own definition has changed");
    assert_eq!(f.pass("t"), (2, 0));
}
