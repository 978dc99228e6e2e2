//! `porpoise salvage` on stores that are damaged in many places (chosen by seeds), compared with what was
//! intact; and `porpoise check --dump`.

use porpoise_testkit::Porpoise;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn porpoise(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_porpoise"));
    command.args(arguments).output().unwrap()
}

fn salvage(from: &Path, into: &Path) -> (i32, String) {
    let (from, into) = (from.to_str().unwrap(), into.to_str().unwrap());
    let done = porpoise(&["salvage", "--from", from, "--into", into]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let error = String::from_utf8_lossy(&done.stderr);
    (done.status.code().unwrap(), text + &error)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &place),
            false => drop(std::fs::copy(entry.path(), place).unwrap()),
        }
    }
}

/// All files below a directory with their bytes.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            all.push((path, bytes));
        }
    }
    all.sort();
    all
}

const ROWS: usize = 400;

/// A stopped server's data directory, with a checkpoint and a log after it: row `id` of `d.t` has the
/// text `row ID version N`, the last version of the first hundred being 2, of others 1.
fn prepare(scratch: &Path) -> PathBuf {
    let dir = scratch.join("data");
    let mut server = Porpoise::builder().data_dir(&dir).start();
    let run = |server: &Porpoise, text: &str| {
        let done = server.sql(text);
        assert!(done.is_ok, "{text}: {}", done.stderr);
    };
    run(
        &server,
        "CREATE DATABASE d; USE d;
         CREATE TABLE p (id INT PRIMARY KEY);
         CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, p INT, said VARCHAR(60) CHARACTER SET utf8mb4,
                         len INT GENERATED ALWAYS AS (CHAR_LENGTH(said)) STORED, at DATETIME, b BLOB,
                         UNIQUE KEY (said), KEY (p), FOREIGN KEY (p) REFERENCES p (id));
         CREATE TABLE l (id INT PRIMARY KEY, big LONGTEXT);
         CREATE VIEW v AS SELECT id FROM t;
         CREATE VIEW first_by_name AS SELECT id FROM v;
         CREATE PROCEDURE pr() SELECT 1;
         CREATE TRIGGER tr BEFORE INSERT ON l FOR EACH ROW SET NEW.id = NEW.id;
         INSERT INTO p VALUES (1), (2);
         INSERT INTO l VALUES (1, REPEAT('x', 300000));",
    );
    let insert = |from: usize, to: usize| {
        let rows = (from..to)
            .map(|id| format!("({id}, 1 + {id} % 2, 'row {id} version 1', '2026-01-02', x'00ff')"));
        let rows: Vec<String> = rows.collect();
        format!(
            "INSERT INTO d.t (id, p, said, at, b) VALUES {}",
            rows.join(",")
        )
    };
    for n in 0..10 {
        run(&server, &insert(1 + n * 20, 1 + (n + 1) * 20));
    }
    // A shutdown writes a checkpoint.
    server.terminate();
    server.restart();
    for n in 10..20 {
        run(&server, &insert(1 + n * 20, 1 + (n + 1) * 20));
        let (from, to) = ((n - 10) * 10 + 1, (n - 9) * 10);
        let update = format!(
            "UPDATE d.t SET said = CONCAT('row ', id, ' version 2') WHERE id BETWEEN {from} AND {to}"
        );
        run(&server, &update);
    }
    run(&server, "DELETE FROM d.t WHERE id = 400");
    server.kill9();
    dir
}

/// Ids and versions of the rows of `d.t` in a dump; every row must be one that was committed.
fn rows(dump: &str) -> BTreeSet<(usize, usize)> {
    let lines = dump.lines().filter(|line| line.contains("version"));
    let rows = lines.map(|line| {
        let text = line.split('\'').nth(1).unwrap();
        let words: Vec<&str> = text.split(' ').collect();
        let (id, version) = (words[1].parse().unwrap(), words[3].parse().unwrap());
        let given: usize = line[1..].split(',').next().unwrap().parse().unwrap();
        assert_eq!(given, id, "{line}");
        assert!(version == 1 || version == 2 && id <= 100, "{line}");
        assert!(line.contains("'2026-01-02 00:00:00',0x00FF)"), "{line}");
        (id, version)
    });
    rows.collect()
}

fn intact() -> BTreeSet<(usize, usize)> {
    (1..ROWS)
        .map(|id| (id, if id <= 100 { 2 } else { 1 }))
        .collect()
}

#[test]
fn an_intact_store_is_copied_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = prepare(scratch.path());
    let before = files(&dir);
    // The files of an interrupted run are replaced.
    let leftovers = [".new.salvaging", ".dump.sql.salvaging"].map(|name| scratch.path().join(name));
    std::fs::create_dir_all(leftovers[0].join("store/junk")).unwrap();
    std::fs::write(&leftovers[1], "INSERT").unwrap();
    let into = scratch.path().join("new");
    let (status, text) = salvage(&dir, &into);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("nothing is known to be lost"), "{text}");
    assert_eq!(files(&dir), before, "the source is unchanged");
    let check = porpoise(&["check", "--data-dir", into.to_str().unwrap()]);
    assert!(check.status.success(), "{check:?}");
    let server = Porpoise::builder().data_dir(&into).start();
    let shown = server.sql(
        "SELECT COUNT(*), SUM(len), MAX(id) FROM d.t; SELECT MD5(big) = MD5(REPEAT('x', 300000)) FROM d.l;
         SELECT COUNT(*) FROM d.v; CALL d.pr(); INSERT INTO d.t (p, said) VALUES (1, 'new');
         SELECT id FROM d.t WHERE said = 'new'; SHOW TRIGGERS FROM d LIKE 'l'",
    );
    let expected_len: usize = intact()
        .iter()
        .map(|(id, v)| format!("row {id} version {v}").len())
        .sum();
    let expected = format!("399\t{expected_len}\t399\n1\n399\n1\n400\ntr\t");
    assert!(
        shown.stdout.starts_with(&expected),
        "{} {}",
        shown.stdout,
        shown.stderr
    );
    drop(server);
    let dump = scratch.path().join("dump.sql");
    let (status, text) = salvage(&dir, &dump);
    assert_eq!(status, 0, "{text}");
    assert!(!leftovers.iter().any(|path| path.exists()));
    let sql = std::fs::read_to_string(&dump).unwrap();
    assert_eq!(rows(&sql), intact());
    // The dump loads.
    let other = Porpoise::builder().start();
    let shell = Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .arg("sql")
        .env("PORPOISE_SQL_PORT", other.mysql_addr.port().to_string())
        .stdin(std::fs::File::open(&dump).unwrap())
        .output()
        .unwrap();
    assert!(
        shell.status.success(),
        "{}",
        String::from_utf8_lossy(&shell.stderr)
    );
    let count =
        other.sql("SELECT COUNT(*) FROM d.t WHERE len > 0; SELECT COUNT(*) FROM d.first_by_name");
    assert_eq!(count.stdout, "399\n399\n");
    // What exists is not overwritten, and a store that is used is not read.
    assert_eq!(salvage(&dir, &dump).0, 2);
    let used = other.data_dir.clone();
    assert_eq!(salvage(&used, &scratch.path().join("x.sql")).0, 2);
}

/// Damages a file of the store. Returns what was done.
fn damage(store: &Path, rng: &mut fastrand::Rng) -> String {
    let all = files(store);
    let named = all.iter().filter(|(path, _)| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("log-")
            || name.starts_with("ckpt-")
            || name == "MANIFEST"
            || name == "HEAD"
    });
    let mut named: Vec<_> = named
        .filter(|(_, bytes)| bytes.iter().any(|b| *b != 0))
        .collect();
    rng.shuffle(&mut named);
    let (path, bytes) = named[0];
    let used = bytes.len() - bytes.iter().rev().take_while(|b| **b == 0).count();
    let at = rng.usize(0..used);
    let mut bad = bytes.clone();
    let what = match rng.u8(0..4) {
        0 => {
            bad[at] ^= 1 << rng.u8(0..8);
            "flipped"
        }
        1 => {
            let end = (at + 512).min(bad.len());
            bad[at..end].fill(0);
            "zeroed"
        }
        2 => {
            bad.truncate(at);
            "truncated"
        }
        _ => {
            std::fs::remove_file(path).unwrap();
            return format!("{} removed", path.display());
        }
    };
    std::fs::write(path, bad).unwrap();
    format!("{} {what} at {at}", path.display())
}

#[test]
fn damaged_stores_yield_what_is_intact_and_list_the_rest() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = prepare(scratch.path());
    let (mut whole, mut partial, mut most) = (0, 0, 0);
    for seed in 0..24 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let bad = scratch.path().join(format!("bad-{seed}"));
        copy(&dir, &bad);
        let mut what = damage(&bad.join("store"), &mut rng);
        if rng.bool() {
            what += &format!(", {}", damage(&bad.join("store"), &mut rng));
        }
        let before = files(&bad);
        let into = scratch.path().join(format!("{seed}.sql"));
        let (status, text) = salvage(&bad, &into);
        assert_eq!(
            files(&bad),
            before,
            "{seed}: {what}: the source has changed"
        );
        assert!(status < 2, "{seed}: {what}: {status}: {text}");
        let found = rows(&std::fs::read_to_string(&into).unwrap());
        // A deletion may be lost, too.
        let kept: BTreeSet<_> = found
            .iter()
            .filter(|(id, _)| *id != ROWS)
            .copied()
            .collect();
        if found == intact() {
            whole += 1;
        } else {
            partial += 1;
            assert_eq!(status, 1, "{seed}: {what}: losses are not reported: {text}");
            assert!(text.contains("lost: "), "{seed}: {what}: {text}");
        }
        most = most.max(kept.intersection(&intact()).count());
        std::fs::remove_dir_all(&bad).unwrap();
        std::fs::remove_file(&into).unwrap();
    }
    assert!(whole > 0 && partial > 3, "{whole} whole, {partial} partial");
    assert!(most > ROWS / 2, "{most}");
}

#[test]
fn a_dump_of_the_files_shows_groups_records_blocks_and_damage() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = prepare(scratch.path());
    let run = || porpoise(&["check", "--dump", "--data-dir", dir.to_str().unwrap()]);
    let done = run();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    for wanted in [
        "ckpt-",
        ": block of space",
        "log-",
        "  segment ",
        ": group ",
        "    commit ",
        " deleted",
        "MANIFEST: checkpoint ",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let store = files(&dir.join("store"));
    let (path, bytes) = store
        .iter()
        .find(|(path, _)| path.to_str().unwrap().contains("ckpt-"))
        .unwrap();
    let mut bad = bytes.clone();
    bad[60] ^= 1;
    std::fs::write(path, bad).unwrap();
    let done = run();
    assert_eq!(done.status.code(), Some(1));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        text.contains("DAMAGE ckpt-") && text.contains("not a readable block"),
        "{text}"
    );
}
