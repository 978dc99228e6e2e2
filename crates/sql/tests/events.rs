//! The event scheduler: times, definers, failures, KILL, the end of events and of the server.

use crate::common::{good, open};
use porpoise_kv::model::Model;
use porpoise_sql::event_scheduler::{EventScheduler, Report};
use porpoise_sql::server::SqlServer;
use porpoise_sql::session::SqlSession;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

struct Running {
    server: Arc<SqlServer>,
    root: SqlSession,
    scheduler: EventScheduler,
    reports: Arc<Mutex<Vec<String>>>,
}

fn start() -> Running {
    let server = crate::common::server(Arc::new(Model::new()));
    let mut root = open(&server, "root", "localhost");
    good(&mut root, "CREATE DATABASE d");
    good(&mut root, "USE d");
    good(
        &mut root,
        "CREATE TABLE t (n INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(50))",
    );
    let reports = Arc::new(Mutex::new(Vec::new()));
    let kept = reports.clone();
    let report: Report = Arc::new(move |text: &str| kept.lock().unwrap().push(text.to_owned()));
    let scheduler = EventScheduler::start(server.clone(), report).unwrap();
    Running {
        server,
        root,
        scheduler,
        reports,
    }
}

/// Waits until a query has this value.
fn until(root: &mut SqlSession, query: &str, wanted: impl Fn(&[String]) -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        let found = good(root, query);
        if wanted(&found) {
            return;
        }
        assert!(Instant::now() < limit, "{query}: {found:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

const COUNT: &str = "SELECT COUNT(*) FROM t";

#[test]
fn events_run_at_their_times() {
    let mut run = start();
    let root = &mut run.root;
    good(
        root,
        "CREATE EVENT e ON SCHEDULE EVERY 1 SECOND DO INSERT INTO t (who) VALUES (CURRENT_USER())",
    );
    until(root, COUNT, |found| found[0].parse::<u32>().unwrap() >= 2);
    let rows = good(root, "SELECT DISTINCT who FROM t");
    assert_eq!(rows, ["root@localhost"]);
    let last = "SELECT COUNT(LAST_EXECUTED) FROM information_schema.EVENTS";
    assert_eq!(good(root, last), ["1"]);
    good(root, "ALTER EVENT e DISABLE");
    // A run that has begun before may still insert.
    std::thread::sleep(Duration::from_secs(3));
    let stopped = good(root, COUNT);
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(good(root, COUNT), stopped);
    run.scheduler.stop();
    assert_eq!(*run.reports.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn an_ended_event_is_dropped_or_disabled() {
    let mut run = start();
    let root = &mut run.root;
    good(
        root,
        "CREATE EVENT gone ON SCHEDULE AT NOW() DO INSERT INTO t (who) VALUES ('gone')",
    );
    good(
        root,
        "CREATE EVENT kept ON SCHEDULE AT NOW() ON COMPLETION PRESERVE DO INSERT INTO t (who) VALUES ('kept')",
    );
    until(root, COUNT, |found| found == ["2"]);
    let names = "SELECT EVENT_NAME, STATUS FROM information_schema.EVENTS";
    until(root, names, |found| found == ["kept|DISABLED"]);
    run.scheduler.stop();
}

#[test]
fn a_failure_is_reported_and_a_definer_without_the_privilege_is_refused() {
    let mut run = start();
    let root = &mut run.root;
    good(root, "CREATE USER ann IDENTIFIED BY 'x'");
    good(
        root,
        "CREATE EVENT fails ON SCHEDULE AT NOW() DO INSERT INTO nothing VALUES (1)",
    );
    good(
        root,
        "CREATE DEFINER=ann EVENT denied ON SCHEDULE AT NOW() DO INSERT INTO t (who) VALUES ('ann')",
    );
    let names = "SELECT COUNT(*) FROM information_schema.EVENTS";
    until(root, names, |found| found == ["0"]);
    run.scheduler.stop();
    let mut reports = run.reports.lock().unwrap().clone();
    reports.sort();
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert!(
        reports[0].contains("`d`.`denied` failed: ERROR 1044"),
        "{reports:?}"
    );
    assert!(
        reports[1].contains("`d`.`fails` failed: ERROR 1146"),
        "{reports:?}"
    );
    assert_eq!(good(&mut run.root, COUNT), ["0"]);
}

#[test]
fn an_event_that_fails_again_and_again_is_visible_and_seldom_reported() {
    let mut run = start();
    let root = &mut run.root;
    good(
        root,
        "CREATE EVENT fails ON SCHEDULE EVERY 1 SECOND DO INSERT INTO nothing VALUES (1)",
    );
    let failures = "SELECT EVENT_SCHEMA, EVENT_NAME, ERRNO, MESSAGE, LAST_FAILED IS NOT NULL \
                    FROM information_schema.EVENT_FAILURES WHERE FAILURES >= 3";
    until(root, failures, |found| !found.is_empty());
    assert_eq!(
        good(root, failures),
        ["d|fails|1146|Table 'd.nothing' doesn't exist|1"]
    );
    good(root, "DROP EVENT fails");
    assert_eq!(good(root, failures), Vec::<String>::new());
    run.scheduler.stop();
    assert_eq!(run.reports.lock().unwrap().len(), 1);
}

#[test]
fn running_events_can_be_killed_and_end_with_the_server() {
    let mut run = start();
    let root = &mut run.root;
    good(
        root,
        "CREATE EVENT endless ON SCHEDULE AT NOW() DO BEGIN l: LOOP DO 1; END LOOP; END",
    );
    let shown = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = 'DO 1'";
    until(root, shown, |found| found.len() == 1);
    let id = good(root, shown)[0].clone();
    good(root, &format!("KILL {id}"));
    until(root, shown, <[String]>::is_empty);
    good(
        root,
        "CREATE EVENT waits ON SCHEDULE AT NOW() DO DO SLEEP(60)",
    );
    let waits = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = 'DO SLEEP(60)'";
    until(root, waits, |found| found.len() == 1);
    let since = Instant::now();
    run.scheduler.stop();
    assert!(since.elapsed() < Duration::from_secs(5));
    assert_eq!(run.server.sessions().len(), 1);
}

#[test]
fn nothing_runs_while_the_scheduler_is_off() {
    let mut run = start();
    let root = &mut run.root;
    good(root, "SET GLOBAL event_scheduler = OFF");
    std::thread::sleep(Duration::from_millis(1_100));
    good(
        root,
        "CREATE EVENT e ON SCHEDULE EVERY 1 SECOND DO INSERT INTO t (who) VALUES ('x')",
    );
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(good(root, COUNT), ["0"]);
    good(root, "SET GLOBAL event_scheduler = ON");
    until(root, COUNT, |found| found != ["0"]);
    run.scheduler.stop();
}
