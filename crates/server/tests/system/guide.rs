//! The commands of the README and of the guide are run as they are written there, and their
//! output is compared with the text below them.
//!
//! A block fenced as `sh` is a script; a `text` block after it is what it prints, and a script
//! without one prints nothing. `porpoise serve` stands for starting the server, which the test does.
//! Ports are replaced by those of the test's own server; the shells get theirs as variables.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use porpoise_testkit::{Porpoise, wait_until};

use crate::support::server;

#[derive(Debug, Default)]
struct Block {
    line: usize,
    script: String,
    printed: String,
}

/// The scripts of a page with what they print.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut fence: Option<&str> = None;
    for (n, line) in page.lines().enumerate() {
        match (fence, line.strip_prefix("```")) {
            (None, Some(kind)) => {
                fence = Some(kind);
                if kind == "sh" {
                    blocks.push(Block {
                        line: n + 1,
                        ..Block::default()
                    });
                }
            }
            (Some(_), Some(_)) => fence = None,
            (Some(kind), None) => {
                let block = blocks.last_mut().expect("a script before what it prints");
                let text = match kind {
                    "sh" => &mut block.script,
                    "text" => &mut block.printed,
                    other => panic!("line {}: a block of {other:?}", n + 1),
                };
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Whether a script does nothing but define functions, which the ones after it use.
fn defines(script: &str) -> bool {
    script.lines().all(|line| line.contains("() {"))
}

/// Whether a script starts the server.
fn serves(script: &str) -> bool {
    script.starts_with("porpoise serve") && script.lines().count() == 1
}

fn run(server: &Porpoise, functions: &str, script: &str) -> String {
    let ports = [
        ("3306", server.mysql_addr.port()),
        ("11211", server.memcached_addr.port()),
        ("8380", server.http_addr.port()),
    ];
    let mut text = format!("{functions}{script}");
    for (written, port) in ports {
        text = text.replace(written, &port.to_string());
    }
    let output = Command::new("bash")
        .args(["-c", &text])
        .env("PATH", search_path())
        .env("PORPOISE_SQL_PORT", server.mysql_addr.port().to_string())
        .env("PORPOISE_MC_PORT", server.memcached_addr.port().to_string())
        .current_dir(server.data_dir.parent().unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    said + &String::from_utf8_lossy(&output.stderr)
}

/// The search path, with the binary of this build before everything.
fn search_path() -> std::ffi::OsString {
    let binary = Path::new(env!("CARGO_BIN_EXE_porpoise"));
    let path = std::env::var_os("PATH").unwrap();
    let before = binary.parent().map(Path::to_owned);
    std::env::join_paths(before.into_iter().chain(std::env::split_paths(&path))).unwrap()
}

fn walk(page: &str) {
    let path = format!("{}/../../{page}", env!("CARGO_MANIFEST_DIR"));
    let blocks = blocks(&std::fs::read_to_string(path).unwrap());
    assert!(blocks.len() >= 4, "{page} has few commands");
    assert!(serves(&blocks[0].script), "{page} begins with it");
    let mut server = server().start();
    let mut functions = String::new();
    for block in &blocks[1..] {
        if serves(&block.script) {
            let gone = wait_until(Duration::from_secs(10), || {
                (!server.is_running()).then_some(())
            });
            assert!(gone.is_some(), "{page}:{}: it still runs", block.line);
            server.restart();
            continue;
        }
        if defines(&block.script) {
            functions.push_str(&block.script);
            continue;
        }
        let printed = run(&server, &functions, &block.script);
        assert_eq!(
            printed, block.printed,
            "{page}:{}: {}",
            block.line, block.script
        );
    }
}

#[test]
fn the_five_minutes_of_the_readme_are_as_written() {
    walk("README.md");
}

#[test]
fn the_commands_of_the_console_are_as_written() {
    walk("docs/guide/console.md");
}

#[test]
fn the_first_steps_of_the_guide_are_as_written() {
    walk("docs/guide/first-steps.md");
}

#[test]
fn rows_expire_as_in_the_guide() {
    walk("docs/guide/expiry.md");
}

#[test]
fn a_server_is_secured_as_in_the_guide() {
    walk("docs/guide/secure.md");
}

#[test]
fn a_server_is_upgraded_as_in_the_guide() {
    walk("docs/guide/upgrade.md");
}

#[test]
fn a_server_is_monitored_as_in_the_guide() {
    walk("docs/guide/monitor.md");
}

#[test]
fn a_server_is_tuned_as_in_the_guide() {
    walk("docs/guide/tune.md");
}

#[test]
fn applications_migrate_as_in_the_guide() {
    walk("docs/guide/migrate.md");
}
