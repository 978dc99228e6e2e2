//! The handle of the server, tested with scripts in place of the server.

#![expect(clippy::unwrap_used, reason = "a test ends where its own set-up fails")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use porpoise_testkit::Porpoise;

/// Writes a script that takes the server's place.
fn script(directory: &tempfile::TempDir, body: &str) -> PathBuf {
    let path = directory.path().join("server");
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

const SERVES: &str = r#"
echo "started with $*"
echo "ready mysql 127.0.0.1:4001"
echo "ready memcached-socket /tmp/m.sock"
echo "porpoise ready"
trap 'echo "going down"; exit 0' TERM
while :; do sleep 0.01; done
"#;

#[test]
fn addresses_are_read_and_a_restart_appends_to_the_same_log() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Porpoise::builder()
        .binary(script(&directory, SERVES))
        .arg("--http-listen", "off")
        .start();
    assert_eq!(server.mysql_addr.port(), 4001);
    assert_eq!(server.http_addr.port(), 0);
    assert_eq!(
        server.socket("memcached-socket").unwrap().to_str(),
        Some("/tmp/m.sock")
    );
    let first = server.id();
    assert!(server.is_running());
    server.restart();
    assert_ne!(server.id(), first);
    assert!(server.terminate().success());
    let log = server.log();
    assert_eq!(log.matches("porpoise ready").count(), 2);
    assert_eq!(log.matches("--http-listen off").count(), 2);
    assert!(!log.contains("--http-listen 127.0.0.1:0"));
    assert!(log.contains("--mysql-listen 127.0.0.1:0"));
    assert!(log.contains("going down"));
}

#[test]
fn killing_a_server_ends_its_whole_process_group() {
    let directory = tempfile::tempdir().unwrap();
    let pid_file = directory.path().join("child");
    let body = format!(
        "sleep 1000 & echo $! > {}\necho porpoise ready\nwait",
        pid_file.display()
    );
    let mut server = Porpoise::builder()
        .binary(script(&directory, &body))
        .start();
    let child = std::fs::read_to_string(&pid_file).unwrap();
    server.kill9();
    let stat = format!("/proc/{}/stat", child.trim());
    server.wait_for("the end of the child", Duration::from_secs(10), || {
        // Ended, or a zombie that the init process has not waited for yet.
        let state = std::fs::read_to_string(&stat).unwrap_or_default();
        (state.is_empty() || state.contains(") Z ")).then_some(())
    });
}

#[test]
fn a_run_to_the_end_returns_status_and_output() {
    let directory = tempfile::tempdir().unwrap();
    let binary = script(&directory, "echo out; echo port taken >&2; exit 2");
    let finished = Porpoise::builder()
        .binary(binary)
        .run_to_end(Duration::from_secs(10));
    assert_eq!(finished.status.code(), Some(2));
    assert_eq!(finished.stdout, "out\n");
    assert_eq!(finished.stderr, "port taken\n");
}

#[test]
fn a_server_that_ends_before_it_is_ready_fails_the_test_with_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let binary = script(&directory, "echo no space left >&2; exit 2");
    let panicked = std::thread::spawn(move || Porpoise::builder().binary(binary).start())
        .join()
        .map(drop)
        .unwrap_err();
    let message = panicked.downcast_ref::<String>().unwrap();
    assert!(message.contains("ended before it was ready"), "{message}");
    assert!(message.contains("no space left"), "{message}");
}

#[test]
fn a_missing_binary_fails_with_its_name() {
    let started = std::thread::spawn(|| Porpoise::builder().binary("./no-such-server").start());
    let panicked = started.join().map(drop).unwrap_err();
    let message = panicked.downcast_ref::<String>().unwrap();
    assert!(
        message.contains("cannot run `./no-such-server`"),
        "{message}"
    );
}

#[test]
fn variables_of_the_test_run_do_not_reach_the_server_but_given_ones_do() {
    let directory = tempfile::tempdir().unwrap();
    let binary = script(&directory, "echo \"role=$PORPOISE_MEMCACHED_ROLE\"; exit 0");
    let finished = Porpoise::builder()
        .binary(binary)
        .env("PORPOISE_MEMCACHED_ROLE", "ndb-caching")
        .run_to_end(Duration::from_secs(10));
    assert_eq!(finished.stdout, "role=ndb-caching\n");
}

#[test]
fn system_calls_are_traced_and_the_exit_status_is_the_servers_own() {
    let directory = tempfile::tempdir().unwrap();
    let body = "trap 'exit 7' TERM; echo porpoise ready; while :; do sleep 0.01; done";
    let mut server = Porpoise::builder()
        .binary(script(&directory, body))
        .traced("write")
        .start();
    let trace = server.wait_for("the trace", Duration::from_secs(10), || {
        let trace = server.trace();
        trace.contains("porpoise ready").then_some(trace)
    });
    assert!(trace.contains(" write(1<"), "{trace}");
    assert!(trace.starts_with(&server.id().to_string()), "{trace}");
    assert_eq!(server.terminate().code(), Some(7));
}
