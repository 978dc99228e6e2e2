//! A failure is reported in one line, and results measured before it are kept.

use crate::support::{bench, home, last_line, report};
use porpoise_testkit::Porpoise;
use std::process::Command;
use std::time::{Duration, Instant};

/// Exit status and the last line.
fn refusal(words: &[&str]) -> (i32, String) {
    let home = home();
    let output = bench(home.path(), words).output().unwrap();
    (output.status.code().unwrap(), last_line(&output))
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn invalid_arguments_are_refused_at_once() {
    for (words, part) in [
        (&["kv", "oracle://127.0.0.1"][..], "oracle"),
        (&["kv", "mysql://127.0.0.1:port"][..], "port"),
        (&["kv"][..], "--start-peers"),
        (&["kv", "--start-peers=sybase"][..], "sybase"),
        (
            &["kv", "--start-peers=noop", "--durability", "maybe"][..],
            "maybe",
        ),
        (&["report", "no-such-file.json"][..], "no-such-file.json"),
        (
            &["kv", "mysql://127.0.0.1:1", "--fsync-delay", "1ms"][..],
            "--fsync-delay",
        ),
    ] {
        let (status, line) = refusal(words);
        assert_eq!(status, 2, "{words:?}: {line}");
        assert!(
            line.starts_with("porpoise: ") && line.contains(part),
            "{line}"
        );
    }
}

#[test]
fn a_refused_connection_names_the_address() {
    let address = format!("127.0.0.1:{}", free_port());
    for scheme in ["mysql", "postgres", "memcached", "porpoise"] {
        let url = format!("{scheme}://{address}");
        let (status, line) = refusal(&["kv", &url, "--rows", "100"]);
        assert_eq!(status, 1, "{line}");
        assert!(
            line.contains(&address) && line.contains("refused"),
            "{line}"
        );
    }
}

/// A server that keeps nothing, started by the test and not by the benchmark.
fn server() -> Porpoise {
    Porpoise::builder().arg("--durability", "memory").start()
}

#[test]
fn a_wrong_password_is_the_servers_own_line() {
    let server = server();
    let url = format!("mysql://root:wrong@{}", server.mysql_addr);
    let (status, line) = refusal(&["kv", &url, "--rows", "100"]);
    assert_eq!(status, 1);
    assert!(line.contains("1045 Access denied"), "{line}");
}

#[test]
fn a_server_that_dies_leaves_the_others_and_the_results() {
    let home = home();
    let mut dying = server();
    let url = format!(
        "porpoise://root@{}?memcached={}&name=dying",
        dying.mysql_addr,
        dying.memcached_addr.port()
    );
    let words = [
        "kv",
        &url,
        "--start-peers=noop",
        "--rows",
        "300",
        "--ops",
        "select",
        "--clients",
        "2",
        "--runs",
        "3",
        "--time",
        "600ms",
        "--warm-up",
        "10ms",
        "--json",
        "a.json",
    ];
    let child = bench(home.path(), &words).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    dying.kill9();
    let output = child.wait_with_output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stdout).is_empty());
    let cells = crate::support::cells(&home.path().join("a.json"));
    let runs = |name: &str| {
        let cell = cells.iter().find(|(_, _, s, _)| s == name).unwrap();
        cell.3["runs"].as_array().unwrap().clone()
    };
    let failed = |name: &str| {
        let runs = runs(name);
        runs.iter().filter(|r| !r["failure"].is_null()).count()
    };
    assert_eq!(failed("no-op"), 0);
    assert_eq!(runs("no-op").len(), 3);
    assert!(failed("dying text") > 0, "it was killed");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("! SELECT 2 dying"), "{text}");
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let home = home();
    let words = [
        "kv",
        "--start-peers=noop",
        "--ops",
        "select",
        "--clients",
        "1",
        "--runs",
        "500",
        "--time",
        "50ms",
        "--warm-up",
        "1ms",
        "--json",
        "a.json",
        "--html",
        "a.html",
    ];
    let child = bench(home.path(), &words).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    let begun = Instant::now();
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(last_line(&output), "porpoise: interrupted");
    let whole = report(&home.path().join("a.json"));
    assert_eq!(whole["failure"], "interrupted");
    let runs = whole["experiments"][0]["cells"][0]["runs"]
        .as_array()
        .unwrap();
    assert!(!runs.is_empty() && runs.len() < 500, "{}", runs.len());
    let page = std::fs::read_to_string(home.path().join("a.html")).unwrap();
    assert!(page.contains("Not complete: interrupted"));
}
