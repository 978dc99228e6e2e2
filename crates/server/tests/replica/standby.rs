//! A Porpoise server that follows another one: reads, refused writes, CAS values, identifiers, acknowledgement.

use porpoise_testkit::{Porpoise, exchange, wait_until};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

pub const WAIT: Duration = Duration::from_secs(60);

pub const TABLES: &str = "
    CREATE DATABASE d; USE d;
    CREATE TABLE marks (n INT AUTO_INCREMENT PRIMARY KEY);
    CREATE TABLE t (id INT PRIMARY KEY, n INT);
    CREATE TABLE cached (k VARCHAR(64) PRIMARY KEY, v VARCHAR(64));";

pub fn good(server: &Porpoise, statements: &str) -> Vec<String> {
    let output = server.sql(statements);
    let rows = output.rows();
    rows.iter().map(|row| row.join("|")).collect()
}

pub fn start(id: &str) -> Porpoise {
    Porpoise::builder()
        .flag("--log-bin")
        .arg("--server-id", id)
        .arg("--durability", "sync")
        .start()
}

/// Makes a server follow another one by GTIDs.
pub fn follow(replica: &Porpoise, source: &Porpoise) {
    let port = source.mysql_addr.port();
    good(
        replica,
        &format!(
            "SET GLOBAL rpl_semi_sync_replica_enabled = ON;
             CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = 'repl',
               SOURCE_PASSWORD = 'pw', SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 0, SOURCE_AUTO_POSITION = 1;
             START REPLICA"
        ),
    );
}

pub fn create_account(server: &Porpoise) {
    good(
        server,
        "SET sql_log_bin = 0; CREATE USER IF NOT EXISTS repl IDENTIFIED BY 'pw'; GRANT REPLICATION SLAVE ON *.* TO repl",
    );
}

fn executed(server: &Porpoise) -> String {
    good(server, "SELECT @@GLOBAL.gtid_executed").concat()
}

/// Waits until a replica has the transactions of its source, under their identifiers.
pub fn catch_up(replica: &Porpoise, source: &Porpoise) {
    good(source, "INSERT INTO d.marks VALUES ()");
    let mark = good(source, "SELECT MAX(n) FROM d.marks");
    let applied = wait_until(WAIT, || {
        let output = replica.sql("SELECT MAX(n) FROM d.marks");
        (output.is_ok && output.stdout.trim() == mark[0]).then_some(())
    });
    let status = || good(replica, "SHOW REPLICA STATUS");
    assert!(applied.is_some(), "{:?}", status());
    let done = wait_until(WAIT, || {
        (executed(replica) == executed(source)).then_some(())
    });
    assert!(
        done.is_some(),
        "source {}, replica {}: {:?}",
        executed(source),
        executed(replica),
        good(replica, "SHOW REPLICA STATUS")
    );
}

#[test]
fn a_standby_has_the_cas_values_and_identifiers_of_its_source_and_takes_over() {
    let source = start("1");
    let (standby, other) = (start("2"), start("3"));
    for server in [&source, &standby, &other] {
        create_account(server);
    }
    follow(&standby, &source);
    follow(&other, &source);
    good(&source, TABLES);
    catch_up(&standby, &source);
    catch_up(&other, &source);
    good(&source, "ALTER TABLE d.cached MEMCACHED PREFIX 'c:'");
    good(&standby, "SET GLOBAL super_read_only = ON");
    assert_eq!(
        good(&standby, "SELECT @@read_only, @@super_read_only"),
        ["1|1"]
    );
    // Several rows with one version, and rows that keep theirs.
    source.memcached("set c:a 0 0 1\r\n1\r\nset c:b 0 0 1\r\n5\r\nincr c:b 3\r\n");
    good(
        &source,
        "UPDATE d.cached SET v = 'x' WHERE k = 'a'; INSERT INTO d.cached (k, v) VALUES ('c', 'y'), ('e', 'z');
         INSERT INTO d.t VALUES (1, 1); BEGIN; UPDATE d.t SET n = 2; DELETE FROM d.cached WHERE k = 'e'; COMMIT",
    );
    catch_up(&standby, &source);
    let get = "gets c:a\r\ngets c:b\r\ngets c:c\r\ngets c:e\r\n";
    let seen = source.memcached(get);
    assert_eq!(seen.matches("VALUE").count(), 3, "{seen}");
    assert_eq!(standby.memcached(get), seen);
    // Writes are refused on the standby, by every interface.
    for statement in [
        "INSERT INTO d.t VALUES (2, 2)",
        "UPDATE d.t SET n = 3",
        "DELETE FROM d.t",
        "CREATE TABLE d.more (id INT PRIMARY KEY)",
        "TRUNCATE TABLE d.t",
        "CREATE USER somebody",
    ] {
        let output = standby.sql(statement);
        assert_eq!(
            output.error_number(),
            Some(1290),
            "{statement}: {}",
            output.stderr
        );
    }
    for command in ["set c:n 0 0 1\r\n1\r\n", "incr c:b 1\r\n", "delete c:a\r\n"] {
        let reply = standby.memcached(command);
        assert!(reply.starts_with("SERVER_ERROR"), "{command}: {reply}");
    }
    assert_eq!(standby.memcached(get), seen);
    // It takes over, and another replica of the source follows it.
    good(&standby, "STOP REPLICA; SET GLOBAL read_only = OFF");
    assert_eq!(good(&standby, "SELECT @@super_read_only"), ["0"]);
    good(&standby, "INSERT INTO d.t VALUES (7, 7)");
    let cas = |reply: &str| -> u64 {
        let line = reply.lines().next().unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let before = cas(&seen);
    standby.memcached("set c:a 0 0 3\r\nnew\r\n");
    assert!(cas(&standby.memcached("gets c:a\r\n")) > before);
    good(&other, "STOP REPLICA");
    follow(&other, &standby);
    catch_up(&other, &standby);
    assert_eq!(good(&other, "SELECT * FROM d.t"), ["1|2", "7|7"]);
    assert_eq!(
        good(&other, "SELECT k, v FROM d.cached ORDER BY k"),
        ["a|new", "b|8", "c|y"]
    );
}

#[test]
fn accounts_with_connection_admin_write_in_spite_of_read_only() {
    let server = start("1");
    good(
        &server,
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); SET GLOBAL read_only = ON; INSERT INTO d.t VALUES (1)",
    );
    assert_eq!(
        good(&server, "SELECT @@read_only, @@super_read_only"),
        ["1|0"]
    );
    good(
        &server,
        "CREATE USER plain; GRANT ALL ON d.* TO plain; SET GLOBAL read_only = OFF; SET GLOBAL super_read_only = ON",
    );
    assert_eq!(
        server.sql("INSERT INTO d.t VALUES (2)").error_number(),
        Some(1290)
    );
    // A transaction that began before cannot commit.
    good(&server, "SET GLOBAL super_read_only = OFF");
    let output =
        server.sql("BEGIN; INSERT INTO d.t VALUES (3); SET GLOBAL super_read_only = ON; COMMIT");
    assert_eq!(output.error_number(), Some(1290), "{}", output.stderr);
    assert_eq!(good(&server, "SELECT id FROM d.t"), ["1"]);
}

#[test]
fn what_a_standby_has_acknowledged_survives_the_loss_of_its_source() {
    let mut source = start("1");
    let standby = start("2");
    create_account(&source);
    follow(&standby, &source);
    good(&source, TABLES);
    good(
        &source,
        "ALTER TABLE d.cached MEMCACHED PREFIX 'c:'; SET GLOBAL rpl_semi_sync_source_enabled = ON",
    );
    let (acknowledged, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let address = source.memcached_addr;
    thread::scope(|scope| {
        for writer in 0..3 {
            let (acknowledged, stop) = (&acknowledged, &stop);
            scope.spawn(move || {
                for n in 0.. {
                    let request = format!("set c:{writer}-{n} 0 0 1\r\n1\r\n");
                    let reply = std::panic::catch_unwind(|| exchange(address, request.as_bytes()));
                    if reply.ok().as_deref() != Some(b"STORED\r\n") {
                        return;
                    }
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        source.wait_for("enough commits", WAIT, || {
            (acknowledged.load(Ordering::SeqCst) >= 100).then_some(())
        });
        source.kill9();
        stop.store(true, Ordering::SeqCst);
    });
    let acknowledged = acknowledged.load(Ordering::SeqCst);
    good(&standby, "STOP REPLICA");
    let found = good(&standby, "SELECT COUNT(*) FROM d.cached");
    let found: u32 = found[0].parse().unwrap();
    // At most one commit of each writer was not answered.
    assert!(
        (acknowledged..=acknowledged + 3).contains(&found),
        "{acknowledged} acknowledged, {found} on the standby"
    );
}
