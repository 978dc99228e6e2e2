//! The archive of the log: outages, restarts, and its bound.

use crate::support::{archiving_server, connect, good, restore, server, status, text};
use porpoise_testkit::wait_until;
use std::path::PathBuf;
use std::time::Duration;

/// The archive's place is a file for a while: commits go on, and the archive catches up.
#[test]
fn an_archive_that_fails_stops_no_commit_and_catches_up() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("archive");
    let (mut source, mut sql) = archiving_server(dir.path(), &place);
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
    let logged = wait_until(Duration::from_secs(20), || {
        let log = source.log();
        log.contains("the log cannot be archived").then_some(())
    });
    logged.expect("the failure is logged");
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
    let (source, mut sql) = archiving_server(dir.path(), &place);
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

/// A restore to a time reports that log before that time is missing, and restores the state before the gap.
#[test]
fn a_gap_of_the_archive_is_told_by_a_restore_to_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("archive");
    let (source, mut sql) = archiving_server(dir.path(), &place);
    good(&mut sql, "BACKUP DATABASE TO 'backups'");
    let pieces = || {
        let files = std::fs::read_dir(place.join("log")).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let mut pieces: Vec<_> = paths
            .filter(|p| p.extension() != Some("tmp".as_ref()))
            .collect();
        pieces.sort();
        pieces
    };
    let mut last_pieces = Vec::new();
    for n in 0..3 {
        good(&mut sql, &format!("INSERT INTO d.t VALUES ({n})"));
        let position = status(&mut sql, "Log_position");
        let archived = wait_until(Duration::from_secs(20), || {
            (status(&mut sql, "Archive_position") >= position).then_some(())
        });
        archived.expect("the log is archived");
        last_pieces.push(pieces().last().unwrap().clone());
    }
    drop(source);
    let backups = dir.path().join("backups");
    let future = ["--archive", text(&place), "--until", "2200-01-01 00:00:00"];
    let whole = restore(&backups, dir.path(), "whole", &future);
    assert!(!whole.contains("gap"), "{whole}");
    let of_second = |piece: &&PathBuf| **piece > last_pieces[0] && **piece <= last_pieces[1];
    for piece in pieces().iter().filter(of_second) {
        std::fs::remove_file(piece).unwrap();
    }
    let cut = restore(&backups, dir.path(), "cut", &future);
    assert!(cut.contains("the archived log has a gap"), "{cut}");
    for (name, count) in [("whole", "3"), ("cut", "1")] {
        let restored = server(dir.path(), name).start();
        let found = good(&mut connect(&restored), "SELECT COUNT(*) FROM d.t");
        assert_eq!(found, [count], "{name}");
    }
}

/// Old backups go, the log that only they need with them; small pieces are merged; every kept point can be
/// restored.
#[test]
fn old_backups_are_pruned_and_pieces_merged() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("archive");
    let (source, mut sql) = archiving_server(dir.path(), &place);
    for backup in 0..4 {
        for n in 0..5 {
            good(
                &mut sql,
                &format!("INSERT INTO d.t VALUES ({})", backup * 10 + n),
            );
            std::thread::sleep(Duration::from_millis(60));
        }
        good(&mut sql, "BACKUP DATABASE TO 'archive'");
    }
    good(&mut sql, "INSERT INTO d.t VALUES (100)");
    let position = status(&mut sql, "Log_position");
    let archived = wait_until(Duration::from_secs(20), || {
        (status(&mut sql, "Archive_position") >= position).then_some(())
    });
    archived.expect("the log is archived");
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_porpoise"));
        let done = command
            .arg("backup")
            .args(arguments)
            .arg(&place)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(
            done.status.success(),
            "{said} {}",
            String::from_utf8_lossy(&done.stderr)
        );
        said
    };
    let pieces = || std::fs::read_dir(place.join("log")).unwrap().count();
    let planned = run(&["prune", "--keep", "2", "--dry-run"]);
    assert!(planned.contains("backup 1: would be removed"), "{planned}");
    let said = run(&["prune", "--keep", "2"]);
    assert!(said.contains("2 backups kept; 2 backups, "), "{said}");
    run(&["verify", "--quiet"]);
    let before = pieces();
    let said = run(&["merge"]);
    assert!(said.contains(" pieces of the log are "), "{said}");
    assert!(pieces() < before, "{} of {before}", pieces());
    run(&["verify", "--quiet"]);
    // The archive goes on after the merged pieces.
    good(&mut sql, "INSERT INTO d.t VALUES (101)");
    let position = status(&mut sql, "Log_position");
    let archived = wait_until(Duration::from_secs(20), || {
        (status(&mut sql, "Archive_position") >= position).then_some(())
    });
    archived.expect("the archive goes on");
    drop(source);
    for (name, options, rows) in [("third", &["--backup", "3"][..], "15"), ("end", &[], "22")] {
        restore(&place, dir.path(), name, options);
        let restored = server(dir.path(), name).start();
        let count = good(&mut connect(&restored), "SELECT COUNT(*) FROM d.t");
        assert_eq!(count, [rows], "{name}");
    }
}
