//! A data directory with missing or truncated files: `porpoise serve` and
//! `porpoise check` refuse it and name the file, or no row is lost.

use crate::process::refusal;
use porpoise_testkit::{Porpoise, PorpoiseBuilder};
use std::path::{Path, PathBuf};
use std::process::Command;

fn server(dir: &Path) -> PorpoiseBuilder {
    Porpoise::builder().data_dir(dir)
}

fn keys(from: usize, to: usize) -> impl Iterator<Item = String> {
    (from..to).map(|n| format!("key-{n:04}"))
}

/// Commits in `sync` mode, each acknowledged before the next.
fn store(server: &Porpoise, from: usize, to: usize) {
    let sets: String = keys(from, to)
        .map(|key| format!("set {key} 0 0 5\r\nvalue\r\n"))
        .collect();
    let stored = server.memcached(&sets).matches("STORED").count();
    assert_eq!(stored, to - from);
}

fn found(server: &Porpoise, to: usize) -> usize {
    let gets: String = keys(0, to).map(|key| format!("get {key}\r\n")).collect();
    server.memcached(&gets).matches("VALUE ").count()
}

/// 450 commits in three runs, each ended by kill -9: three or more segments
/// with rows. With a clean end of the first run there is a checkpoint, too.
fn make(dir: &Path, with_checkpoint: bool) {
    let mut server = server(dir).start();
    store(&server, 0, 150);
    if with_checkpoint {
        assert!(server.terminate().success());
    }
    for from in [150, 300] {
        server.restart();
        store(&server, from, from + 150);
    }
    wait_for_head(&dir.join("store/HEAD"));
    server.kill9();
}

/// The head file is written after the replies: waits until it no longer changes.
fn wait_for_head(path: &Path) {
    let mut before = Vec::new();
    loop {
        let now = std::fs::read(path).unwrap();
        if now == before {
            return;
        }
        before = now;
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("store")).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn is_data(name: &str) -> bool {
    name.ends_with(".seg") || name.starts_with("ckpt-") || ["MANIFEST", "HEAD"].contains(&name)
}

fn check(dir: &Path) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .args(["check", "--data-dir"])
        .arg(dir)
        .output()
        .unwrap();
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap(), said)
}

fn serve(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_porpoise"));
    command.arg("serve").arg("--data-dir").arg(dir);
    for option in ["--mysql-listen", "--memcached-listen", "--http-listen"] {
        command.args([option, "off"]);
    }
    command.args(["--log", "off"]);
    command
}

/// The directory is refused by `check` and by `serve` with this in the message.
fn assert_refused(dir: &Path, what: &str, case: &str) {
    let (status, said) = check(dir);
    assert_eq!(status, 1, "check, {case}: {said}");
    assert!(said.contains(what), "check, {case}: {said}");
    let before = names(dir);
    let (status, said) = refusal(serve(dir));
    assert_eq!(status, 1, "serve, {case}: {said}");
    assert!(said.contains(what), "serve, {case}: {said}");
    assert_eq!(names(dir), before, "{case}");
}

/// Returns the end of the written part of a file, after which preallocated zeroes follow.
fn written(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |n| n + 1);
    end as u64
}

fn truncate(path: &Path, len: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}

/// Removes files while `run` runs.
fn without(dir: &Path, gone: &[&String], run: impl FnOnce()) {
    let aside = dir.join("aside");
    std::fs::create_dir_all(&aside).unwrap();
    for name in gone {
        std::fs::rename(dir.join("store").join(name), aside.join(name)).unwrap();
    }
    run();
    for name in gone {
        std::fs::rename(aside.join(name), dir.join("store").join(name)).unwrap();
    }
}

/// Every file deleted alone, and every combination of them.
fn delete_combinations(dir: &Path) {
    let names = names(dir);
    let data: Vec<&String> = names.iter().filter(|name| is_data(name)).collect();
    assert!((4..=8).contains(&data.len()), "{names:?}");
    for chosen in 1_u32..1 << data.len() {
        let gone: Vec<&String> = (0..data.len())
            .filter(|n| chosen & 1 << n != 0)
            .map(|n| data[n])
            .collect();
        without(dir, &gone, || match gone.as_slice() {
            [one] => assert_refused(dir, one, "deleted"),
            all if all.len() == data.len() => {
                let (status, said) = check(dir);
                let left = self::names(dir).contains(&"reserve.dat".to_owned());
                assert_eq!(status, if left { 1 } else { 2 }, "{said}");
            }
            several => {
                let (status, said) = check(dir);
                assert_eq!(status, 1, "{several:?}: {said}");
            }
        });
    }
}

/// Every file truncated, to nothing, to a header, to a half, by a byte: refused,
/// or every row is there. The newest segment holds rows that are nowhere else.
fn truncations(dir: &Path) {
    let (status, intact) = check(dir);
    assert_eq!(status, 0, "{intact}");
    let names = names(dir);
    let newest = names.iter().rfind(|name| name.ends_with(".seg")).unwrap();
    for name in names.iter().filter(|name| is_data(name)) {
        let path = dir.join("store").join(name);
        let bytes = std::fs::read(&path).unwrap();
        let end = written(&path);
        for len in [0, 64, end / 2, end - 1, end] {
            truncate(&path, len);
            let case = format!("{name} truncated to {len} of {end}");
            let (status, said) = check(dir);
            if status == 0 {
                assert_eq!(said, intact, "{case}");
                assert!(len != 0 && (name != newest || len > end / 2), "{case}");
            } else {
                assert_eq!(status, 1, "{case}: {said}");
                let (status, said) = refusal(serve(dir));
                assert_eq!(status, 1, "{case}: {said}");
            }
            std::fs::write(&path, &bytes).unwrap();
        }
    }
}

#[test]
fn a_store_with_missing_or_truncated_files_is_refused_or_has_every_row() {
    for with_checkpoint in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), with_checkpoint);
        let (status, said) = check(dir.path());
        assert_eq!(status, 0, "{said}");
        delete_combinations(dir.path());
        truncations(dir.path());
        for harmless in ["LOCK", "reserve.dat"] {
            let _ = std::fs::remove_file(dir.path().join("store").join(harmless));
        }
        for name in names(dir.path()).iter().filter(|n| n.ends_with(".tmp")) {
            std::fs::remove_file(dir.path().join("store").join(name)).unwrap();
        }
        let server = server(dir.path()).start();
        assert_eq!(found(&server, 450), 450);
    }
}

#[test]
fn check_exits_with_the_statuses_of_its_help() {
    let help = Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .args(["check", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8_lossy(&help.stdout).replace('\n', " ");
    for promise in [
        "Exit status 0: no problems",
        "1: problems",
        "2: the directory",
    ] {
        assert!(help.contains(promise), "{help}");
    }
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { scratch.path().join(name) };

    let (status, said) = check(&at("absent"));
    assert_eq!(status, 2, "{said}");
    assert!(!at("absent").exists());
    std::fs::create_dir_all(at("foreign/store")).unwrap();
    std::fs::write(at("foreign/store/photo.jpg"), b"x").unwrap();
    let (status, said) = check(&at("foreign"));
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("contains no store"), "{said}");
    std::fs::write(at("file"), b"x").unwrap();
    let (status, said) = check(&at("file"));
    assert_eq!(status, 2, "{said}");

    let mut running = server(&at("data")).start();
    store(&running, 0, 10);
    for _ in 0..2 {
        let (status, said) = check(&at("data"));
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("in use by another server"), "{said}");
        let _ = std::fs::remove_file(at("data/porpoise.lock"));
    }
    running.kill9();
    let (status, said) = check(&at("data"));
    assert_eq!(status, 0, "{said}");
    assert!(said.ends_with(": no problems\n"), "{said}");
    assert!(!at("data/porpoise.lock").exists(), "a check writes nothing");

    let manifest = at("data/store/MANIFEST");
    std::fs::write(&manifest, b"nonsense").unwrap();
    let (status, said) = check(&at("data"));
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("MANIFEST"), "{said}");

    let wrong = Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .args(["check", "--no-such-option"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_second_server_is_refused_after_the_lock_files_were_removed() {
    let dir = tempfile::tempdir().unwrap();
    let first = server(dir.path()).start();
    store(&first, 0, 5);
    for lock in ["porpoise.lock", "store/LOCK"] {
        std::fs::remove_file(dir.path().join(lock)).unwrap();
    }
    for _ in 0..2 {
        let (status, said) = refusal(serve(dir.path()));
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("is in use by another server"), "{said}");
    }
    // The files as another program would have made them again.
    std::fs::write(dir.path().join("porpoise.lock"), b"").unwrap();
    std::fs::write(dir.path().join("store/LOCK"), b"").unwrap();
    let (status, said) = refusal(serve(dir.path()));
    assert_eq!(status, 2, "{said}");
    assert_eq!(found(&first, 5), 5);
}

#[test]
fn required_data_is_never_initialised() {
    let scratch = tempfile::tempdir().unwrap();
    let (absent, empty) = (scratch.path().join("absent"), scratch.path().join("empty"));
    std::fs::create_dir(&empty).unwrap();
    for dir in [&absent, &empty] {
        let mut command = serve(dir);
        command.arg("--require-data");
        let (status, said) = refusal(command);
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("contains no store"), "{said}");
        assert!(said.contains(&dir.display().to_string()), "{said}");
    }
    assert!(!absent.exists());
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
    let mut command = serve(&empty);
    command.env("PORPOISE_REQUIRE_DATA", "true");
    assert_eq!(refusal(command).0, 2);
    let mut command = serve(&empty);
    command.args(["--require-data", "--durability", "memory"]);
    let (status, said) = refusal(command);
    assert_eq!(status, 2, "{said}");

    let mut first = server(&empty).start();
    store(&first, 0, 3);
    assert!(first.terminate().success());
    let second = server(&empty).flag("--require-data").start();
    assert_eq!(found(&second, 3), 3);
}
