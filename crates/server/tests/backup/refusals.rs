//! Refused operations, with their errors.

use crate::support::{ask, command, connect, good, porpoise, server, text};
use porpoise_client::Address;
use porpoise_client::mysql::{Connection, Target};
use porpoise_testkit::{Porpoise, TikvDouble};
use porpoise_wire::mysql::client::login::Credentials;

#[test]
fn backups_need_a_place_and_a_privilege() {
    let dir = tempfile::tempdir().unwrap();
    let source = server(dir.path(), "data").start();
    let mut sql = connect(&source);
    for place in ["/tmp/elsewhere", "../x", "", "data/x", "data", "s3://b/x"] {
        assert_eq!(
            ask(&mut sql, &format!("BACKUP DATABASE TO '{place}'")),
            Err(1290),
            "{place}"
        );
    }
    assert_eq!(
        ask(&mut sql, "BACKUP DATABASE TO 'x' RATE_LIMIT = 0"),
        Err(1210)
    );
    good(&mut sql, "CREATE USER ann IDENTIFIED BY 'x'");
    let credentials = Credentials {
        user: b"ann".to_vec(),
        password: b"x".to_vec(),
        ..Credentials::default()
    };
    let at = source.mysql_addr;
    let address = Address::Tcp(at.ip().to_string(), at.port());
    let mut ann = Connection::connect(&Target::new(address, credentials)).unwrap();
    assert_eq!(ask(&mut ann, "BACKUP DATABASE TO 'x'"), Err(1227));
    let from = format!("mysql://ann@{at}");
    let arguments = ["backup", "--from", &from, "--to", "x", "--quiet"];
    let (status, said) = command(&arguments, &[("PORPOISE_PASSWORD", "x")]);
    assert!(status == 1 && said.contains("1227"), "{said}");
    good(&mut sql, "GRANT BACKUP_ADMIN ON *.* TO ann");
    let (status, said) = command(&arguments, &[("PORPOISE_PASSWORD", "x")]);
    assert!(
        status == 0 && said.starts_with("backup 1 at position"),
        "{said}"
    );
    let arguments = ["backup", "--from", &from, "--to", "/tmp/elsewhere"];
    let (status, said) = command(&arguments, &[("PORPOISE_PASSWORD", "x")]);
    assert!(status == 1 && said.contains("below "), "{said}");
    drop(source);
    let closed = Porpoise::builder()
        .binary(env!("CARGO_BIN_EXE_porpoise"))
        .start();
    assert_eq!(
        ask(&mut connect(&closed), "BACKUP DATABASE TO 'x'"),
        Err(1290)
    );
    let from = closed.mysql_addr.to_string();
    let (status, said) = command(&["backup", "--from", &from, "--to", "x"], &[]);
    assert!(
        status == 1 && said.contains("without --backup-to"),
        "{said}"
    );
}

#[test]
fn a_server_in_memory_and_a_cluster_refuse_backups() {
    let dir = tempfile::tempdir().unwrap();
    let memory = server(dir.path(), "data")
        .arg("--durability", "memory")
        .start();
    assert_eq!(
        ask(&mut connect(&memory), "BACKUP DATABASE TO 'x'"),
        Err(1235)
    );
    let double = TikvDouble::start(1);
    let cluster = Porpoise::builder()
        .binary(env!("CARGO_BIN_EXE_porpoise"))
        .arg("--engine", double.engine())
        .start();
    assert_eq!(
        ask(&mut connect(&cluster), "BACKUP DATABASE TO 'x'"),
        Err(1235)
    );
    drop(cluster);
    for option in ["--backup-to", "--archive-to"] {
        let engine = double.engine();
        let place = dir.path().join("b");
        let (status, said) = porpoise(&[
            "serve",
            "--engine",
            &engine,
            "--data-dir",
            text(&dir.path().join("c")),
            "--mysql-listen",
            "127.0.0.1:0",
            "--memcached-listen",
            "off",
            "--http-listen",
            "off",
            option,
            text(&place),
        ]);
        assert!(status == 2 && said.contains("its own tool, BR"), "{said}");
    }
}

#[test]
fn a_restore_overwrites_nothing_and_names_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let source = server(dir.path(), "data").start();
    let mut sql = connect(&source);
    good(&mut sql, "BACKUP DATABASE TO 'backups'");
    drop(source);
    let place = dir.path().join("backups");
    let run = |more: &[&str], to: &str| {
        let to = dir.path().join(to);
        let mut arguments = vec!["restore", "--from", text(&place), "--data-dir", text(&to)];
        arguments.extend(more);
        let (status, said) = porpoise(&arguments);
        assert_eq!(status, 2, "{said}");
        said
    };
    assert!(run(&[], "data").contains("is not empty"));
    assert!(run(&["--backup", "7"], "new").contains("has no backup 7"));
    assert!(run(&["--until-position", "1"], "new").contains("newer than the requested point"));
    assert!(
        run(&["--until", "2001-01-01 00:00:00"], "new").contains("newer than the requested point")
    );
    assert!(run(&["--until-position", "999999999"], "new").contains("the archived log ends at"));
    assert!(run(&["--until", "soon"], "new").contains("not a time"));
    assert!(!dir.path().join("new").exists());
    let empty = dir.path().join("nothing");
    let (status, said) = porpoise(&["backup", "list", text(&empty)]);
    assert!(
        status == 2 && said.contains("contains no backups"),
        "{said}"
    );
}

#[test]
fn a_restored_store_needs_a_repository_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let source = server(dir.path(), "data").start();
    good(&mut connect(&source), "BACKUP DATABASE TO 'backups'");
    drop(source);
    crate::support::restore(&dir.path().join("backups"), dir.path(), "restored", &[]);
    let restored = server(dir.path(), "restored").start();
    let mut sql = connect(&restored);
    assert_eq!(ask(&mut sql, "BACKUP DATABASE TO 'backups'"), Err(1105));
    good(&mut sql, "BACKUP DATABASE TO 'new'");
}
