//! A standby that is set up from a backup of its source.

use super::standby::{TABLES, catch_up, create_account, follow, good, start};
use porpoise_testkit::Porpoise;
use std::process::Command;

fn porpoise(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .args(arguments)
        .output()
        .unwrap();
    let text = [&*output.stdout, &*output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

#[test]
fn a_standby_begins_with_a_backup_and_follows_from_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let (place, data) = (dir.path().join("daily"), dir.path().join("standby"));
    let (place, data) = (place.to_str().unwrap(), data.to_str().unwrap());
    let source = Porpoise::builder()
        .flag("--log-bin")
        .arg("--server-id", "1")
        .arg("--durability", "sync")
        .arg("--backup-to", dir.path())
        .start();
    create_account(&source);
    good(&source, TABLES);
    good(
        &source,
        "ALTER TABLE d.cached MEMCACHED PREFIX 'c:'; INSERT INTO d.t VALUES (1, 1), (2, 2)",
    );
    source.memcached("set c:a 0 0 1\r\n1\r\n");
    // The log does not reach back to the first transaction.
    good(&source, "FLUSH BINARY LOGS");
    let newest = good(&source, "SHOW BINARY LOG STATUS").concat();
    let newest = newest.split('|').next().unwrap();
    good(&source, &format!("PURGE BINARY LOGS TO '{newest}'"));
    good(
        &source,
        "INSERT INTO d.t VALUES (3, 3); UPDATE d.t SET n = 10 WHERE id = 1",
    );
    let executed = good(&source, "SELECT @@gtid_executed").concat();
    let address = source.mysql_addr.to_string();
    porpoise(&["backup", "--from", &address, "--to", "daily"]);
    good(
        &source,
        "DELETE FROM d.t WHERE id = 2; INSERT INTO d.t VALUES (4, 4)",
    );
    source.memcached("set c:b 0 0 1\r\n2\r\nincr c:a 5\r\n");
    let report = porpoise(&["restore", "--from", place, "--data-dir", data, "--quiet"]);
    assert!(report.contains(&executed), "{report} has not {executed}");
    let standby = Porpoise::builder()
        .data_dir(data)
        .flag("--log-bin")
        .arg("--server-id", "2")
        .arg("--durability", "sync")
        .start();
    assert_eq!(good(&standby, "SELECT @@gtid_executed").concat(), executed);
    assert_eq!(good(&standby, "SELECT @@gtid_purged"), [executed]);
    assert_ne!(
        good(&standby, "SELECT @@server_uuid"),
        good(&source, "SELECT @@server_uuid")
    );
    follow(&standby, &source);
    catch_up(&standby, &source);
    for query in [
        "SELECT * FROM d.t ORDER BY id",
        "SELECT k, v FROM d.cached ORDER BY k",
    ] {
        assert_eq!(good(&standby, query), good(&source, query), "{query}");
    }
    let get = "gets c:a\r\ngets c:b\r\n";
    assert_eq!(standby.memcached(get), source.memcached(get));
    // A server without data cannot follow: the log is not complete.
    let empty = start("3");
    create_account(&empty);
    follow(&empty, &source);
    let refused = empty.wait_for("the refusal", super::standby::WAIT, || {
        let status = good(&empty, "SHOW REPLICA STATUS")[0].clone();
        status.contains("purged").then_some(status)
    });
    assert!(refused.contains("1236"), "{refused}");
}
