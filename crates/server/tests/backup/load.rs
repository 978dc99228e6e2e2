//! Backups while connections write, and kill -9 of the server, the backup and the restore.

use crate::ledger::{self, Ledger};
use crate::support::{connect, done, restore, server, text, try_connect};
use porpoise_testkit::{Porpoise, Random};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn backup(server: &Porpoise, to: &str) -> String {
    let from = server.mysql_addr.to_string();
    done(&["backup", "--from", &from, "--to", to, "--quiet"])
}

/// Restores, and checks that the result has at least the numbers `least`. Returns its numbers.
fn restored(from: &Path, dir: &Path, options: &[&str], least: &[u64]) -> Vec<u64> {
    let name = "restored";
    restore(from, dir, name, options);
    let server = server(dir, name).start();
    let found = ledger::check(&mut connect(&server), least);
    drop(server);
    std::fs::remove_dir_all(dir.join(name)).unwrap();
    found
}

#[test]
fn backups_under_load_are_restored_with_all_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let source = server(dir.path(), "data").start();
    ledger::create(&mut connect(&source));
    let ledger = Ledger::default();
    let repository = dir.path().join("backups");
    let mut known = Vec::new();
    ledger.write(source.mysql_addr, || {
        for round in 1..=3 {
            std::thread::sleep(Duration::from_millis(300));
            let before = ledger.acknowledged();
            let said = backup(&source, "backups");
            assert!(
                said.starts_with(&format!("backup {round} at position ")),
                "{said}"
            );
            known.push((before, ledger.acknowledged()));
        }
    });
    let (_, last) = known.last().unwrap();
    assert!(last.iter().sum::<u64>() > 100, "{last:?}");
    let listed = done(&["backup", "list", text(&repository)]);
    assert_eq!(listed.lines().count(), 5, "{listed}");
    let verified = done(&["backup", "verify", text(&repository), "--quiet"]);
    assert_eq!(verified.matches("no problems").count(), 3, "{verified}");
    for (n, (before, after)) in known.iter().enumerate() {
        let number = (n + 1).to_string();
        let found = restored(&repository, dir.path(), &["--backup", &number], before);
        // Four transactions may have been on their way.
        let most: Vec<u64> = after.iter().map(|n| n + 1).collect();
        assert!(
            found.iter().zip(&most).all(|(n, most)| n <= most),
            "{found:?} {most:?}"
        );
    }
}

/// A checkpoint between two backups: the second one has files of both, or only the log.
#[test]
fn a_later_backup_stores_only_what_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = server(dir.path(), "data").start();
    let mut sql = connect(&source);
    crate::support::good(&mut sql, "CREATE DATABASE big");
    for table in ["stays", "grows"] {
        let create = format!("CREATE TABLE big.{table} (id INT PRIMARY KEY, v VARBINARY(1000))");
        crate::support::good(&mut sql, &create);
        for n in 0..40 {
            let rows: Vec<String> = (0..500)
                .map(|k| format!("({}, RANDOM_BYTES(500))", n * 500 + k))
                .collect();
            let insert = format!("INSERT INTO big.{table} VALUES {}", rows.join(","));
            crate::support::good(&mut sql, &insert);
        }
    }
    // A checkpoint is written at a shutdown.
    source.terminate();
    source.restart();
    let stored = |said: &str| -> f64 {
        let before = said.split(" MB stored").next().unwrap();
        before.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let first = stored(&backup(&source, "backups"));
    assert!(first > 15.0, "{first} MB");
    let mut sql = connect(&source);
    crate::support::good(&mut sql, "UPDATE big.grows SET v = 'x' WHERE id < 10");
    let second = stored(&backup(&source, "backups"));
    assert!(second < 0.2, "{second} MB");
    source.terminate();
    source.restart();
    let mut sql = connect(&source);
    crate::support::good(&mut sql, "DELETE FROM big.grows WHERE id >= 10");
    let third = stored(&backup(&source, "backups"));
    assert!(third < 1.0, "{third} MB");
    let sums = "CHECKSUM TABLE big.stays, big.grows";
    let expected = crate::support::good(&mut sql, sums);
    drop(source);
    restore(&dir.path().join("backups"), dir.path(), "restored", &[]);
    let restored = server(dir.path(), "restored").start();
    assert_eq!(
        crate::support::good(&mut connect(&restored), sums),
        expected
    );
}

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills a process after a while; it may have ended.
fn kill(mut child: Child, after: Duration) {
    std::thread::sleep(after);
    let _ = child.kill();
    let _ = child.wait();
}

/// One cycle: load; a backup, during which the client or the server is killed; a backup that
/// succeeds; a restore that is killed; one that succeeds and has what was acknowledged.
fn cycle(source: &mut Porpoise, dir: &Path, ledger: &Ledger, rng: &mut Random) {
    let repository = dir.join("backups");
    let mut millis = |most: usize| Duration::from_millis(rng.below(most) as u64);
    let (pause, second, third) = (millis(150), millis(80), millis(60));
    let kills_server = rng.once_in(2);
    let address = source.mysql_addr;
    ledger.write(address, || {
        std::thread::sleep(pause);
        let from = address.to_string();
        let child = start(&["backup", "--from", &from, "--to", "backups", "--rate", "1"]);
        if kills_server {
            std::thread::sleep(second);
            source.kill9();
            kill(child, Duration::ZERO);
        } else {
            kill(child, second);
        }
    });
    if kills_server {
        source.restart();
    }
    let acknowledged = ledger.acknowledged();
    let found = ledger::check(&mut connect(source), &acknowledged);
    // The statement of a client that was killed ends when the server notices.
    porpoise_testkit::wait_until(Duration::from_secs(20), || {
        let from = source.mysql_addr.to_string();
        let arguments = ["backup", "--from", &from, "--to", "backups", "--quiet"];
        (crate::support::porpoise(&arguments).0 == 0).then_some(())
    })
    .expect("a backup succeeds");
    let target = dir.join("killed");
    let restoring = [
        "restore",
        "--from",
        text(&repository),
        "--data-dir",
        text(&target),
        "--quiet",
    ];
    kill(start(&restoring), third);
    if target.exists() {
        let checked = done(&["check", "--data-dir", text(&target)]);
        assert!(checked.contains("no problems"), "{checked}");
        std::fs::remove_dir_all(&target).unwrap();
    }
    assert_eq!(restored(&repository, dir, &[], &found), found);
}

fn cycles(count: usize, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut source = server(dir.path(), "data")
        .arg("--archive-to", dir.path().join("backups"))
        .arg("--archive-interval", "50ms")
        .start();
    ledger::create(&mut connect(&source));
    let mut rng = Random(seed);
    for round in 0..count {
        println!("cycle {round}");
        let ledger = Ledger::of(&mut connect(&source));
        cycle(&mut source, dir.path(), &ledger, &mut rng);
        if round % 10 == 9 {
            // Another checkpoint.
            source.terminate();
            source.restart();
        }
    }
    let verified = done(&[
        "backup",
        "verify",
        text(&dir.path().join("backups")),
        "--quiet",
    ]);
    assert!(
        verified.lines().all(|line| line.ends_with("no problems")),
        "{verified}"
    );
    assert!(try_connect(source.mysql_addr).is_some());
}

#[test]
fn killed_servers_backups_and_restores_lose_nothing() {
    cycles(4, 1);
}

#[test]
#[ignore = "takes minutes: 200 cycles of kill -9"]
fn killed_servers_backups_and_restores_lose_nothing_in_many_cycles() {
    cycles(200, 2);
}
