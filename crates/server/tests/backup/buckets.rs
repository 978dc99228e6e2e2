//! Backups in a bucket, with moto as an S3-compatible service.

use crate::support::{command, connect, good, status, text};
use porpoise_testkit::{Porpoise, wait_until};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

struct Moto(Child);

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts moto with a bucket; returns its URL.
fn start() -> (Moto, String) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let python = std::env::var("MOTO_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let child = Command::new(python)
        .args([
            "-m",
            "moto.server",
            "-H",
            "127.0.0.1",
            "-p",
            &port.to_string(),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("Python; run `scripts/need.sh moto`");
    let moto = Moto(child);
    let url = format!("http://127.0.0.1:{port}");
    let ready = wait_until(Duration::from_secs(60), || {
        let made = Command::new("curl")
            .args(["--silent", "--fail", "-X", "PUT", &format!("{url}/backups")])
            .output()
            .ok()?;
        made.status.success().then_some(())
    });
    ready.expect("moto answers; run `scripts/need.sh moto`, and set MOTO_PYTHON");
    (moto, url)
}

#[test]
#[ignore = "needs moto, which `make soak` installs"]
fn backups_and_the_archive_may_lie_in_a_bucket() {
    let (_moto, url) = start();
    let dir = tempfile::tempdir().unwrap();
    let variables = [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "very secret"),
    ];
    let mut builder = Porpoise::builder()
        .binary(env!("CARGO_BIN_EXE_porpoise"))
        .arg("--backup-to", "s3://backups/servers")
        .arg("--archive-to", "s3://backups/servers/one")
        .arg("--archive-interval", "50ms");
    for (name, value) in variables {
        builder = builder.env(name, value);
    }
    let source = builder.start();
    let mut sql = connect(&source);
    good(&mut sql, "CREATE DATABASE d");
    good(
        &mut sql,
        "CREATE TABLE d.t (n INT PRIMARY KEY, v VARCHAR(100))",
    );
    good(&mut sql, "INSERT INTO d.t VALUES (1, 'one')");
    good(&mut sql, "BACKUP DATABASE TO 'one'");
    assert_eq!(
        crate::support::ask(&mut sql, "BACKUP DATABASE TO 's3://other/x'"),
        Err(1290)
    );
    good(&mut sql, "INSERT INTO d.t VALUES (2, 'two')");
    good(&mut sql, "BACKUP DATABASE TO 's3://backups/servers/one'");
    good(&mut sql, "INSERT INTO d.t VALUES (3, 'three')");
    let position = status(&mut sql, "Log_position");
    let archived = wait_until(Duration::from_secs(20), || {
        (status(&mut sql, "Archive_position") >= position).then_some(())
    });
    archived.expect("the log is archived");
    assert!(!source.log().contains("very secret"));
    drop(source);
    let place = "s3://backups/servers/one";
    let (code, said) = command(&["backup", "verify", place, "--quiet"], &variables);
    assert!(
        code == 0 && said.matches("no problems").count() == 2,
        "{said}"
    );
    for (name, options, count) in [("first", &["--backup", "1"][..], "1"), ("all", &[], "3")] {
        let to = dir.path().join(name);
        let mut arguments = vec!["restore", "--from", place, "--data-dir", text(&to)];
        arguments.extend(options);
        let (code, said) = command(&arguments, &variables);
        assert_eq!(code, 0, "{said}");
        let restored = crate::support::server(dir.path(), name).start();
        let found = good(&mut connect(&restored), "SELECT COUNT(*) FROM d.t");
        assert_eq!(found, [count]);
    }
    let (code, said) = command(&["backup", "list", place], &[]);
    assert!(code == 2 && said.contains("AWS_ACCESS_KEY_ID"), "{said}");
}
