//! The archive of the log: outages, restarts, and its bound.

use crate::support::{connect, good, restore, server, status, text};
use porpoise_testkit::wait_until;
use std::time::Duration;

/// The archive's place is a file for a while: commits go on, and the archive catches up.
#[test]
fn an_archive_that_fails_stops_no_commit_and_catches_up() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("archive");
    let mut source = server(dir.path(), "data")
        .arg("--archive-to", &place)
        .arg("--archive-interval", "20ms")
        .start();
    let mut sql = connect(&source);
    good(&mut sql, "CREATE DATABASE d");
    good(&mut sql, "CREATE TABLE d.t (n INT PRIMARY KEY)");
    good(&mut sql, "BACKUP DATABASE TO 'archive'");
    std::fs::rename(place.join("log"), dir.path().join("away")).unwrap();
    std::fs::write(place.join("log"), "in the way").unwrap();
    for n in 0..50 {
        good(&mut sql, &format!("INSERT INTO d.t VALUES ({n})"));
    }
    let failed = wait_until(Duration::from_secs(20), || {
        (status(&mut sql, "Archive_failures") > 0).then_some(())
    });
    failed.expect("the failure is counted");
    assert!(status(&mut sql, "Archive_lag_bytes") > 0);
    assert!(source.log().contains("the log cannot be archived"));
    // A restart with the archive out of order keeps what is not archived.
    source.terminate();
    source.restart();
    std::fs::remove_file(place.join("log")).unwrap();
    std::fs::rename(dir.path().join("away"), place.join("log")).unwrap();
    let mut sql = connect(&source);
    good(&mut sql, "INSERT INTO d.t VALUES (100)");
    let position = status(&mut sql, "Log_position");
    let archived = wait_until(Duration::from_secs(20), || {
        (status(&mut sql, "Archive_position") >= position).then_some(())
    });
    archived.expect("the archive catches up");
    assert_eq!(status(&mut sql, "Archive_gaps"), 0);
    drop(source);
    restore(&place, dir.path(), "restored", &[]);
    let restored = server(dir.path(), "restored").start();
    let count = good(&mut connect(&restored), "SELECT COUNT(*) FROM d.t");
    assert_eq!(count, ["51"]);
}

/// Backups and the archive in two places.
#[test]
fn the_archive_may_lie_apart_from_the_backups() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("archive");
    let source = server(dir.path(), "data")
        .arg("--archive-to", &place)
        .arg("--archive-interval", "20ms")
        .start();
    let mut sql = connect(&source);
    good(&mut sql, "CREATE DATABASE d");
    good(&mut sql, "CREATE TABLE d.t (n INT PRIMARY KEY)");
    good(&mut sql, "BACKUP DATABASE TO 'backups'");
    good(&mut sql, "INSERT INTO d.t VALUES (1)");
    let position = status(&mut sql, "Log_position");
    let archived = wait_until(Duration::from_secs(20), || {
        (status(&mut sql, "Archive_position") >= position).then_some(())
    });
    archived.expect("the log is archived");
    drop(source);
    let backups = dir.path().join("backups");
    restore(&backups, dir.path(), "without", &[]);
    restore(&backups, dir.path(), "with", &["--archive", text(&place)]);
    for (name, count) in [("without", "0"), ("with", "1")] {
        let restored = server(dir.path(), name).start();
        let found = good(&mut connect(&restored), "SELECT COUNT(*) FROM d.t");
        assert_eq!(found, [count], "{name}");
    }
}
