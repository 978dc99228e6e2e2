//! Statements that occupy a server: each ends soon after KILL QUERY, in every stage of its execution.
//!
//! The short form runs every statement of the corpus once. It is killed a moment after it has
//! begun; from then on it may take [`BOUND`] of time and [`CPU`] of the server's CPU time. The server
//! stays up, another session is answered, and the server's memory is bounded.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod corpus;
mod soak;
#[allow(dead_code, reason = "shared with other tests, which use more of it")]
#[path = "../system/support/mod.rs"]
mod support;

use corpus::{Attack, attacks, setup};
use porpoise_testkit::{Porpoise, wait_until};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use support::{Failure, Sql, server};

/// Time from KILL to the end of a statement, on a machine with other work.
const BOUND: Duration = Duration::from_secs(5);
/// CPU time of the server in that time.
const CPU: Duration = Duration::from_millis(1_000);
/// Time from the start of a statement to KILL.
const MOMENT: Duration = Duration::from_millis(60);
/// Memory of the server at its peak.
const MEMORY: u64 = 6 << 30;

/// Result of a statement.
struct Ended {
    name: String,
    /// The error, 0 for a result, `None` for a connection that broke.
    code: Option<u16>,
    wall: Duration,
    cpu: Duration,
}

/// A field of the server's `/proc/PID/status`, in bytes.
fn memory(server: &Porpoise, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let number: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    number * 1024
}

/// CPU time that the server's process has taken, in clock ticks of 10 ms.
fn cpu(server: &Porpoise) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// Whether a session runs a statement.
fn is_busy(sql: &mut Sql, id: i64) -> bool {
    let text = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND COMMAND <> 'Sleep'"
    );
    sql.number(&text) > 0
}

/// Creates the tables of the corpus. All rows of `g` are deleted; the returned connection has a
/// snapshot that keeps their versions.
fn prepare(server: &Porpoise, sql: &mut Sql) -> Sql {
    for statement in setup() {
        sql.run(statement);
    }
    let mut snapshot = Sql::connect(server.mysql_addr);
    snapshot.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    assert!(snapshot.number("SELECT COUNT(*) FROM a.g") > 100_000);
    sql.run("DELETE FROM g");
    snapshot
}

fn session(server: &Porpoise) -> Sql {
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("USE a; SET cte_max_recursion_depth = 4294967295, group_concat_max_len = 100000000");
    sql
}

/// Runs a statement in a session of its own and kills it.
fn attacked(server: &Porpoise, killer: &mut Sql, attack: &Attack) -> Ended {
    let mut sql = session(server);
    let id = sql.number("SELECT CONNECTION_ID()");
    std::thread::scope(|scope| {
        let running = scope.spawn(move || match sql.attempt(&attack.sql) {
            Ok(_) => Some(0),
            Err(Failure::Refused(error)) => Some(error.code),
            Err(Failure::Gone(_)) => None,
        });
        let begun = wait_until(Duration::from_secs(30), || {
            (running.is_finished() || is_busy(killer, id)).then_some(())
        });
        assert!(begun.is_some(), "{}: does not begin", attack.name);
        std::thread::sleep(MOMENT);
        let (since, before) = (Instant::now(), cpu(server));
        // Refused with 1094 when the statement, and its session with it, has ended meanwhile.
        match killer.attempt(&format!("KILL QUERY {id}")) {
            Ok(_) => {}
            Err(Failure::Refused(error)) if error.code == 1094 => {}
            Err(error) => panic!("{}: KILL QUERY {id}: {error}", attack.name),
        }
        // A statement of several is followed by others, which are killed as well.
        let ended = wait_until(Duration::from_secs(120), || {
            if since.elapsed() > Duration::from_secs(1) && !running.is_finished() {
                let _ = killer.attempt(&format!("KILL QUERY {id}"));
            }
            running.is_finished().then_some(())
        });
        let (wall, cpu) = (since.elapsed(), cpu(server).saturating_sub(before));
        assert!(ended.is_some(), "{}: does not end", attack.name);
        Ended {
            name: attack.name.clone(),
            code: running.join().unwrap(),
            wall,
            cpu,
        }
    })
}

/// Errors that a killed statement may give: that it was killed, or what is wrong with it.
fn expected(code: Option<u16>) -> bool {
    let own = [
        1038, 1041, 1059, 1061, 1064, 1065, 1066, 1104, 1116, 1117, 1118, 1137, 1153, 1235, 1241,
        1246, 1248, 1292, 1406, 1436, 1580, 1690, 3020, 3141, 3143, 3157, 3636, 3684, 3688, 3699,
        3700,
    ];
    code.is_some_and(|code| code == 0 || code == 1317 || own.contains(&code))
}

#[test]
fn every_statement_of_the_corpus_ends_soon_after_kill() {
    let server = server().start();
    let mut killer = Sql::connect(server.mysql_addr);
    let _snapshot = prepare(&server, &mut killer);
    let attacks = attacks();
    let names: HashSet<&str> = attacks.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names.len(), attacks.len(), "names are unique");
    assert!(attacks.len() >= 100, "{} statements", attacks.len());
    let only = std::env::var("ATTACK").ok();
    let mut all = Vec::new();
    for attack in &attacks {
        if only
            .as_ref()
            .is_some_and(|only| !attack.name.contains(only))
        {
            continue;
        }
        let ended = attacked(&server, &mut killer, attack);
        println!(
            "{:?} {:?} {:?} {}",
            ended.code, ended.wall, ended.cpu, ended.name
        );
        // Another session is answered.
        assert_eq!(
            killer.number("SELECT COUNT(*) FROM e"),
            10,
            "{}",
            ended.name
        );
        all.push(ended);
    }
    let killed = all.iter().filter(|e| e.code == Some(1317)).count();
    println!(
        "{} statements, {killed} killed, peak {} MiB",
        all.len(),
        memory(&server, "VmHWM") >> 20
    );
    let wrong: Vec<String> = all
        .iter()
        .filter(|e| !expected(e.code) || e.wall > BOUND || e.cpu > CPU)
        .map(|e| {
            format!(
                "{}: {:?} after {:?}, {:?} of CPU",
                e.name, e.code, e.wall, e.cpu
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(memory(&server, "VmHWM") < MEMORY, "memory at its peak");
}
