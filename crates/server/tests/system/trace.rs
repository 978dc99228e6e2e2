//! By the trace of system calls: no reply to a write leaves before the sync that covers it is done.
//!
//! One connection sends a request and waits for its reply, so that between a request's arrival and the first
//! byte of its reply there must be: a write to a log file, then the beginning and the end of a sync
//! of a log file.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use porpoise_testkit::Porpoise;

use crate::support::{Cache, Sql, server};

const CALLS: &str = "recvfrom,recvmsg,read,readv,sendto,sendmsg,write,writev,\
    pwrite64,pwritev,pwritev2,fdatasync,fsync";

/// Progress of a write when its reply was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The request was read.
    Asked,
    /// And bytes went to the log.
    Written,
    /// And they are on disk.
    Synced,
}

/// A system call, or part of one, in a line of the trace.
struct Call<'a> {
    thread: &'a str,
    name: &'a str,
    /// Text of the line after the name.
    rest: &'a str,
    begins: bool,
    /// Result, if the call ends in this line.
    result: Option<i64>,
}

impl<'a> Call<'a> {
    fn parse(line: &'a str) -> Option<Call<'a>> {
        let (thread, line) = line.trim_start().split_once(char::is_whitespace)?;
        let (_time, text) = line.trim_start().split_once(' ')?;
        let result = || {
            let (_, result) = text.rsplit_once(" = ")?;
            result.split(' ').next()?.parse().ok()
        };
        if let Some(resumed) = text.strip_prefix("<... ") {
            let (name, rest) = resumed.split_once(" resumed>")?;
            return Some(Call {
                thread,
                name,
                rest,
                begins: false,
                result: result(),
            });
        }
        let (name, rest) = text.split_once('(')?;
        let unfinished = text.ends_with("<unfinished ...>");
        Some(Call {
            thread,
            name,
            rest,
            begins: true,
            result: if unfinished { None } else { result() },
        })
    }

    fn is_read(&self) -> bool {
        matches!(self.name, "recvfrom" | "recvmsg" | "read" | "readv")
    }

    fn is_sync(&self) -> bool {
        matches!(self.name, "fdatasync" | "fsync")
    }

    /// Whether its descriptor, shown in brackets after the number, is a socket.
    fn on_socket(&self) -> bool {
        let shown = self.rest.split_once('<').map_or("", |(_, shown)| shown);
        ["socket:", "TCP:", "TCPv6:", "UNIX"]
            .iter()
            .any(|kind| shown.starts_with(kind))
    }
}

/// For each answered request of the only connection: how far it had come when its reply left.
/// `store` is where the log lies.
fn stages(trace: &str, store: &str) -> Vec<Stage> {
    let mut answered = Vec::new();
    let mut now: Option<Stage> = None;
    // Reads of a socket and writes to the log that have begun, by thread.
    let mut reading = HashSet::new();
    let mut writing = HashSet::new();
    // Syncs of the log that have begun, and whether the bytes had been written by then.
    let mut syncing: HashMap<&str, bool> = HashMap::new();
    for call in trace.lines().filter_map(Call::parse) {
        let on_log = call.rest.contains(store);
        if call.begins {
            if call.is_sync() && on_log {
                syncing.insert(call.thread, now == Some(Stage::Written));
            } else if call.is_read() && call.on_socket() {
                reading.insert(call.thread);
            } else if call.on_socket() {
                // A reply leaves at the call's beginning.
                answered.extend(now.take());
            } else if on_log {
                writing.insert(call.thread);
            }
        }
        let Some(result) = call.result else { continue };
        if call.is_sync() {
            let covers = syncing.remove(call.thread) == Some(true) && result == 0;
            if covers && now == Some(Stage::Written) {
                now = Some(Stage::Synced);
            }
        } else if reading.remove(call.thread) {
            if result > 0 {
                now = Some(Stage::Asked);
            }
        } else if writing.remove(call.thread) && result > 0 && now == Some(Stage::Asked) {
            now = Some(Stage::Written);
        }
    }
    answered
}

/// Ends the server and gives the stages of the last `count` answers.
fn last_stages(server: &mut Porpoise, count: usize) -> Vec<Stage> {
    let store = server.data_dir.display().to_string();
    let leader = server.id();
    assert!(server.terminate().success(), "{}", server.log());
    let ended = |line: &str| line.starts_with(&leader.to_string()) && line.contains("+++ exited");
    let trace = server.wait_for("the end of the trace", Duration::from_secs(20), || {
        let trace = server.trace();
        trace.lines().any(ended).then_some(trace)
    });
    let stages = stages(&trace, &store);
    assert!(
        stages.len() >= count,
        "{} answers in the trace",
        stages.len()
    );
    stages[stages.len() - count..].to_vec()
}

fn traced(directory: &Path, durability: &str) -> Porpoise {
    server()
        .data_dir(directory.join("data"))
        .arg("--durability", durability)
        .arg("--http-listen", "off")
        .traced(CALLS)
        .start()
}

/// Writes of every kind through SQL, one at a time; their number. Each is answered once.
fn write_by_sql(sql: &mut Sql) -> usize {
    let mut count = 0;
    let mut run = |text: &str| {
        sql.run(text);
        count += 1;
    };
    for n in 0..10 {
        run(&format!("insert into d.t values ({n}, 'a')"));
        run(&format!("update d.t set v = 'b{n}' where id = {n}"));
        run(&format!(
            "insert into d.t values ({n} + 100, 'x'), ({n} + 200, 'y')"
        ));
        run(&format!("delete from d.t where id = {n} + 100"));
        run("insert into d.u () values ()");
    }
    run("create table d.v (id int)");
    run("drop table d.v");
    count
}

/// The tables that are written to.
fn prepare(sql: &mut Sql) {
    sql.run("create database d");
    sql.run("create table d.t (id int primary key, v varchar(20))");
    sql.run("create table d.u (id int auto_increment primary key)");
}

#[test]
fn no_reply_to_a_statement_leaves_before_its_sync() {
    let home = tempfile::tempdir().unwrap();
    let mut server = traced(home.path(), "sync");
    let mut sql = Sql::connect(server.mysql_addr);
    prepare(&mut sql);
    let count = write_by_sql(&mut sql);
    drop(sql);
    // The connection's end is a read of nothing, with no answer.
    let stages = last_stages(&mut server, count);
    for (n, stage) in stages.iter().enumerate() {
        assert_eq!(*stage, Stage::Synced, "reply {n} of {count} left too early");
    }
}

#[test]
fn no_reply_to_a_commit_leaves_before_its_sync() {
    let home = tempfile::tempdir().unwrap();
    let mut server = traced(home.path(), "sync");
    let mut sql = Sql::connect(server.mysql_addr);
    prepare(&mut sql);
    for n in 0..10 {
        sql.run("begin");
        sql.run(&format!("insert into d.t values ({n}, 'a')"));
        sql.run("insert into d.u () values ()");
        sql.run("commit");
    }
    drop(sql);
    let stages = last_stages(&mut server, 40);
    let commits = stages.iter().skip(3).step_by(4);
    assert!(commits.eq([Stage::Synced; 10].iter()), "{stages:?}");
}

#[test]
fn no_reply_to_a_set_leaves_before_its_sync() {
    let home = tempfile::tempdir().unwrap();
    let mut server = traced(home.path(), "sync");
    let mut cache = Cache::connect(server.memcached_addr);
    let mut count = 0;
    for n in 0..10 {
        assert_eq!(cache.set(&format!("k{n}"), "1"), "STORED");
        assert_eq!(cache.run(&format!("incr k{n} 41\r\n")), "42");
        assert_eq!(cache.run(&format!("append k{n} 0 0 1\r\n0\r\n")), "STORED");
        assert_eq!(cache.run(&format!("delete k{n}\r\n")), "DELETED");
        count += 4;
    }
    drop(cache);
    let stages = last_stages(&mut server, count);
    for (n, stage) in stages.iter().enumerate() {
        assert_eq!(*stage, Stage::Synced, "reply {n} of {count} left too early");
    }
}

#[test]
fn replies_without_a_sync_are_detected() {
    // The same check of a server that does not sync: it shows that the tests above can fail.
    let home = tempfile::tempdir().unwrap();
    let mut server = traced(home.path(), "memory");
    let mut sql = Sql::connect(server.mysql_addr);
    prepare(&mut sql);
    let count = write_by_sql(&mut sql);
    drop(sql);
    let stages = last_stages(&mut server, count);
    assert!(
        stages.iter().all(|stage| *stage == Stage::Asked),
        "{stages:?}"
    );
}

#[test]
fn a_reply_before_the_sync_is_detected() {
    let line = |thread: u32, text: &str| format!("{thread} 1700000000.000001 {text}\n");
    let asked = line(
        1,
        "recvfrom(9<socket:[77]>, \"...\", 4096, 0, NULL, NULL) = 20",
    );
    let wrote = line(2, "pwrite64(5</d/store/log>, \"...\", 64, 0) = 64");
    let starts = line(2, "fdatasync(5</d/store/log> <unfinished ...>");
    let ends = line(2, "<... fdatasync resumed>) = 0");
    let failed = line(2, "<... fdatasync resumed>) = -1 EIO (Input/output error)");
    let reply = line(
        1,
        "sendto(9<socket:[77]>, \"...\", 11, MSG_NOSIGNAL, NULL, 0) = 11",
    );
    let waits = line(
        1,
        "recvfrom(9<socket:[77]>, 0x1, 4096, 0, NULL, NULL) = -1 EAGAIN (Try)",
    );
    let check = |lines: &[&String]| {
        let text: String = lines.iter().map(|line| line.as_str()).collect();
        stages(&text, "/d/store")
    };
    let good = [&asked, &wrote, &starts, &waits, &ends, &reply];
    assert_eq!(check(&good), [Stage::Synced]);
    assert_eq!(
        check(&[&asked, &wrote, &starts, &reply, &ends]),
        [Stage::Written]
    );
    assert_eq!(
        check(&[&asked, &starts, &wrote, &ends, &reply]),
        [Stage::Written]
    );
    assert_eq!(
        check(&[&asked, &wrote, &starts, &failed, &reply]),
        [Stage::Written]
    );
    assert_eq!(
        check(&[&wrote, &starts, &ends, &asked, &reply]),
        [Stage::Asked]
    );
}
