//! The commands of docs/guide/rest.md and changes.md succeed as they are written there, and print the output shown there.

use super::client::builder;
use porpoise_testkit::Porpoise;
use std::process::{Command, Stdio};

const REST: &str = include_str!("../../../../docs/guide/rest.md");
const CHANGES: &str = include_str!("../../../../docs/guide/changes.md");

/// The blocks fenced as `sh`, each with the block fenced as `output` that follows it.
fn examples(page: &'static str) -> Vec<(&'static str, Option<&'static str>)> {
    let blocks = page.split("```sh\n").skip(1);
    blocks
        .map(|rest| {
            let (script, after) = rest.split_once("```\n").unwrap();
            let output = after.strip_prefix("\n```output\n");
            (
                script,
                output.map(|output| output.split_once("```").unwrap().0),
            )
        })
        .collect()
}

#[test]
fn the_commands_of_the_page_print_what_stands_there() {
    let serve = "porpoise serve --rest-listen 127.0.0.1:8381\n";
    assert!(run_page(&builder().start(), REST, serve) >= 8);
}

#[test]
fn the_commands_of_the_page_on_changes_print_what_stands_there() {
    let server = Porpoise::builder()
        .arg("--rest-listen", "127.0.0.1:0")
        .flag("--log-bin")
        .start();
    let serve = "porpoise serve --log-bin --server-id 7 --rest-listen 127.0.0.1:8381\n";
    assert_eq!(run_page(&server, CHANGES, serve), 2);
}

/// Runs the commands of a page; returns their number.
fn run_page(server: &Porpoise, page: &'static str, serve: &str) -> usize {
    let (sql, rest) = (
        server.mysql_addr.port(),
        super::client::address(server).port(),
    );
    let examples = examples(page);
    let count = examples.len();
    let dir = tempfile::tempdir().unwrap();
    for (script, wanted) in examples {
        if script.starts_with("porpoise serve") {
            assert_eq!(script, serve);
            continue;
        }
        let here = script.replace("8381", &rest.to_string()).replace(
            "porpoise sql",
            &format!("{} sql -P {sql}", env!("CARGO_BIN_EXE_porpoise")),
        );
        let output = Command::new("bash")
            .args(["-ec", &here])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}{said}");
        if let Some(wanted) = wanted {
            let printed = String::from_utf8_lossy(&output.stdout);
            assert_eq!(printed.trim_end(), wanted.trim_end(), "{script}");
        }
    }
    count
}
