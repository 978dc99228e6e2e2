//! Configurations with which the server refuses to start: one clear line, exit status 2.

use crate::process::{Running, porpoise, refusal};
use std::net::TcpListener;

fn one_line(said: &str) {
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("porpoise: "), "{said}");
}

#[test]
fn a_taken_port_is_named_with_the_option_and_a_free_one() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for option in ["--http-listen", "--mysql-listen", "--memcached-listen"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_porpoise"));
        command.arg("serve").arg("--data-dir").arg(dir.path());
        for other in ["--http-listen", "--mysql-listen", "--memcached-listen"] {
            let place = if other == option { &address } else { "off" };
            command.args([other, place]);
        }
        let (status, said) = refusal(command);
        assert_eq!(status, 2);
        one_line(&said);
        assert!(
            said.contains(&format!("{option}: the port of {address} is in use")),
            "{said}"
        );
        let free = said.trim().rsplit(' ').next().unwrap();
        TcpListener::bind(free).unwrap();
        assert!(said.contains(&format!("{option} {free}")), "{said}");
    }
}

#[test]
fn a_second_server_on_one_data_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = porpoise(dir.path());
    first.args(["--http-listen", "127.0.0.1:0"]);
    let first = Running::start(first);
    let mut second = porpoise(dir.path());
    second.args(["--http-listen", "127.0.0.1:0"]);
    let (status, said) = refusal(second);
    assert_eq!(status, 2);
    one_line(&said);
    assert!(
        said.contains("is in use by another server (process "),
        "{said}"
    );
    drop(first);
    let mut third = porpoise(dir.path());
    third.args(["--http-listen", "127.0.0.1:0"]);
    Running::start(third);
}

#[test]
fn bad_options_values_and_places_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["--colour", "blue"], "--colour"),
        (
            &["--durability", "often"],
            "--durability: \"often\" is not sync, interval or memory",
        ),
        (&["--config", "/no/such/file"], "/no/such/file: "),
        (&["--http-listen", "0.0.0.0:0"], "root has no password"),
        (
            &["--mysql-socket", "/no/such/dir/sock"],
            "--mysql-socket: cannot listen at",
        ),
        (&["--max-connections", "900000000"], "--max-connections"),
    ];
    for (options, expected) in cases {
        let mut command = porpoise(dir.path());
        command.args(options);
        let (status, said) = refusal(command);
        assert_eq!(status, 2, "{said}");
        one_line(&said);
        assert!(said.contains(expected), "{said}");
    }
    let (status, said) = refusal(porpoise(&file.join("data")));
    assert_eq!(status, 2);
    one_line(&said);
    assert!(said.contains("is not writable: "), "{said}");
}

#[test]
fn the_memcached_listener_binds_loopback_by_default() {
    let dir = tempfile::tempdir().unwrap();
    for tls in ["off", "allowed"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_porpoise"));
        command
            .args(["serve", "--http-listen", "off", "--mysql-listen", "off"])
            .args(["--memcached-listen", "0.0.0.0:0", "--memcached-tls", tls])
            .arg("--data-dir")
            .arg(dir.path())
            .env("PORPOISE_ROOT_PASSWORD", "secret");
        let (status, said) = refusal(command);
        assert_eq!(status, 2);
        one_line(&said);
        assert_eq!(
            said.trim(),
            "porpoise: --memcached-listen 0.0.0.0:0 is reachable from other machines, and \
             memcached clients may send passwords in the clear: listen at 127.0.0.1, use \
             --memcached-tls required, or say --insecure-memcached"
        );
    }
}

/// The server's binary in a folder of its own, where nothing lies beside it.
fn alone(folder: &std::path::Path) -> std::process::Command {
    let (built, here) = (env!("CARGO_BIN_EXE_porpoise"), folder.join("porpoise"));
    // A second name takes no time; another file system takes a copy.
    if std::fs::hard_link(built, &here).is_err() {
        std::fs::copy(built, &here).unwrap();
    }
    std::process::Command::new(here)
}

#[test]
fn bench_is_a_program_beside_this_one() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let mut command = alone(dir.path());
    command.args(["bench", "kv", "--help"]);
    let missing = command.output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
    let said = String::from_utf8(missing.stderr).unwrap();
    one_line(&said);
    let program = dir.path().join("porpoise-bench");
    assert!(said.contains(&program.display().to_string()), "{said}");

    let script = "#!/bin/sh\necho \"$@\"\nexit 7\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let executed = command.output().unwrap();
    assert_eq!(executed.status.code(), Some(7));
    assert_eq!(executed.stdout, b"kv --help\n");
}
