//! Restores to a point in time, and with a key.

use crate::support::{
    archiving_server, command, connect, done, good, restore, server, status, text,
};
use porpoise_testkit::wait_until;
use std::path::Path;
use std::time::Duration;

fn rows(dir: &Path, name: &str) -> Vec<String> {
    let server = server(dir, name).start();
    good(&mut connect(&server), "SELECT n FROM d.t ORDER BY n")
}

#[test]
fn a_restore_ends_at_the_commit_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let (source, mut sql) = archiving_server(dir.path(), &repository);
    good(&mut sql, "BACKUP DATABASE TO 'backups'");
    let mut points = Vec::new();
    for n in 1..=30 {
        good(&mut sql, &format!("INSERT INTO d.t VALUES ({n})"));
        let position = status(&mut sql, "Log_position");
        let time = good(&mut sql, "SELECT UTC_TIMESTAMP(6)").remove(0);
        points.push((position, time));
        std::thread::sleep(Duration::from_millis(2));
    }
    // A transaction of which nothing may be seen before its commit.
    good(&mut sql, "BEGIN");
    good(&mut sql, "UPDATE d.t SET n = n + 1000");
    let before = status(&mut sql, "Log_position");
    good(&mut sql, "COMMIT");
    let after = status(&mut sql, "Log_position");
    let archived = wait_until(Duration::from_secs(20), || {
        (status(&mut sql, "Archive_position") >= after).then_some(())
    });
    archived.expect("the log is archived");
    // The server's disk is lost.
    drop(source);
    std::fs::remove_dir_all(dir.path().join("data")).unwrap();
    let expected = |n: usize| (1..=n).map(|n| n.to_string()).collect::<Vec<_>>();
    for n in [1, 2, 17, 30] {
        let (position, time) = &points[n - 1];
        let name = format!("position-{n}");
        restore(
            &repository,
            dir.path(),
            &name,
            &["--until-position", &position.to_string()],
        );
        assert_eq!(
            rows(dir.path(), &name),
            expected(n),
            "until position {position}"
        );
        let name = format!("time-{n}");
        restore(&repository, dir.path(), &name, &["--until", time]);
        assert_eq!(rows(dir.path(), &name), expected(n), "until {time}");
    }
    restore(
        &repository,
        dir.path(),
        "before",
        &["--until-position", &before.to_string()],
    );
    assert_eq!(rows(dir.path(), "before"), expected(30));
    // One byte before the end of the commit's record, it has not happened.
    restore(
        &repository,
        dir.path(),
        "split",
        &["--until-position", &(after - 1).to_string()],
    );
    assert_eq!(rows(dir.path(), "split"), expected(30));
    restore(&repository, dir.path(), "all", &[]);
    let all = rows(dir.path(), "all");
    assert_eq!((all.len(), all[0].as_str()), (30, "1001"));
}

#[test]
fn an_encrypted_backup_needs_its_key_and_no_message_shows_it() {
    let dir = tempfile::tempdir().unwrap();
    let (key, other) = ("5a".repeat(32), "5b".repeat(32));
    let file = dir.path().join("key");
    std::fs::write(&file, format!("{key}\n")).unwrap();
    let repository = dir.path().join("backups");
    let source = server(dir.path(), "data")
        .arg("--backup-key-file", &file)
        .start();
    let mut sql = connect(&source);
    good(&mut sql, "CREATE DATABASE d");
    good(&mut sql, "CREATE TABLE d.t (n VARCHAR(40) PRIMARY KEY)");
    good(&mut sql, "INSERT INTO d.t VALUES ('a very secret value')");
    good(&mut sql, "BACKUP DATABASE TO 'backups'");
    let log = source.log();
    drop(source);
    for folder in ["backup", "log", "data"] {
        let Ok(entries) = std::fs::read_dir(repository.join(folder)) else {
            continue;
        };
        for entry in entries {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(11).any(|w| w == b"very secret"));
        }
    }
    let target = dir.path().join("restored");
    let arguments = [
        "restore",
        "--from",
        text(&repository),
        "--data-dir",
        text(&target),
    ];
    for (variables, problem) in [
        (&[][..], "a key is needed"),
        (&[("PORPOISE_BACKUP_KEY", other.as_str())], "another key"),
        (&[("PORPOISE_BACKUP_KEY", "5a5a")], "64 hexadecimal digits"),
    ] {
        let (status, said) = command(&arguments, variables);
        assert!(status != 0 && said.contains(problem), "{said}");
        assert!(!said.contains(&other) && !target.exists());
    }
    let (status, said) = command(&arguments, &[("PORPOISE_BACKUP_KEY", &key)]);
    assert_eq!(status, 0, "{said}");
    let verify = [
        "backup",
        "verify",
        text(&repository),
        "--key-file",
        text(&file),
    ];
    assert!(done(&verify).contains("backup 1: no problems"));
    assert!(!log.contains(&key) && !said.contains(&key));
    assert_eq!(rows(dir.path(), "restored"), ["a very secret value"]);
}

/// Ids that were given out before the backup are not given out again after the restore.
#[test]
fn a_restored_server_continues_its_counters() {
    let dir = tempfile::tempdir().unwrap();
    let source = server(dir.path(), "data").start();
    let mut sql = connect(&source);
    good(&mut sql, "CREATE DATABASE d");
    good(
        &mut sql,
        "CREATE TABLE d.t (n INT PRIMARY KEY AUTO_INCREMENT, v INT)",
    );
    good(&mut sql, "INSERT INTO d.t (v) VALUES (1), (2), (3)");
    good(&mut sql, "DELETE FROM d.t WHERE n = 3");
    good(&mut sql, "BACKUP DATABASE TO 'backups'");
    drop(source);
    restore(&dir.path().join("backups"), dir.path(), "restored", &[]);
    let restored = server(dir.path(), "restored").start();
    let mut sql = connect(&restored);
    good(&mut sql, "INSERT INTO d.t (v) VALUES (4)");
    let newest: u64 = good(&mut sql, "SELECT MAX(n) FROM d.t")[0].parse().unwrap();
    assert!(newest > 3, "{newest}");
}
