//! Damaged backups are found, and what is damaged is named.

use crate::support::{connect, done, good, porpoise, server, text};

use std::fs;
use std::path::{Path, PathBuf};

fn objects(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["backup", "data", "log"] {
        for entry in fs::read_dir(place.join(folder)).unwrap() {
            found.push(entry.unwrap().path());
        }
    }
    found
}

#[test]
fn every_damaged_or_missing_object_is_found_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = server(dir.path(), "data").start();
    let mut sql = connect(&source);
    good(&mut sql, "CREATE DATABASE d");
    good(
        &mut sql,
        "CREATE TABLE d.t (n INT PRIMARY KEY, v VARCHAR(100))",
    );
    good(&mut sql, "INSERT INTO d.t VALUES (1, 'one'), (2, 'two')");
    source.terminate();
    source.restart();
    let mut sql = connect(&source);
    good(&mut sql, "INSERT INTO d.t VALUES (3, 'three')");
    good(&mut sql, "BACKUP DATABASE TO 'backups'");
    drop(source);
    let place = dir.path().join("backups");
    let target = dir.path().join("restored");
    let all = objects(&place);
    assert!(all.len() >= 3, "{all:?}");
    let check = |object: &Path, what: &str| {
        let name = object.file_name().unwrap().to_str().unwrap();
        let (status, said) = porpoise(&["backup", "verify", text(&place), "--quiet"]);
        assert_eq!(status, 1, "{what} {name}: {said}");
        // A missing description is a backup that does not exist; missing log is described by positions.
        let is_named = said.contains(name)
            || said.contains("the log is missing from position")
            || said.contains("no complete backup");
        assert!(is_named, "{what} {name}: {said}");
        let restore = [
            "restore",
            "--from",
            text(&place),
            "--data-dir",
            text(&target),
            "--quiet",
        ];
        let (status, said) = porpoise(&restore);
        assert!(status != 0, "{what} {name}: {said}");
        assert!(!target.exists(), "{what} {name}");
    };
    for object in &all {
        let bytes = fs::read(object).unwrap();
        let mut bad = bytes.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        fs::write(object, &bad).unwrap();
        check(object, "changed");
        fs::write(object, &bytes[..bytes.len() - 1]).unwrap();
        check(object, "truncated");
        fs::remove_file(object).unwrap();
        check(object, "missing");
        fs::write(object, &bytes).unwrap();
    }
    assert!(done(&["backup", "verify", text(&place)]).contains("backup 1: no problems"));
    done(&[
        "restore",
        "--from",
        text(&place),
        "--data-dir",
        text(&target),
    ]);
}
