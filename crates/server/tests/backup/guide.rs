//! The commands of docs/guide/backup.md succeed as they are written there.

use crate::support::{connect, good, server};
use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../../docs/guide/backup.md");

/// The blocks that are fenced as `sh`.
fn scripts() -> Vec<&'static str> {
    let blocks = PAGE.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap())
        .collect()
}

#[test]
fn the_commands_of_the_page_on_backups_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let scripts = scripts();
    assert!(scripts.len() >= 8, "{scripts:?}");
    let binary = Path::new(env!("CARGO_BIN_EXE_porpoise"));
    let path = std::env::var_os("PATH").unwrap();
    let before = binary.parent().map(Path::to_owned);
    let path = std::env::join_paths(before.into_iter().chain(std::env::split_paths(&path)));
    let path = path.unwrap();
    let mut running = None;
    for script in scripts {
        if script.starts_with("porpoise serve") {
            let backups = dir.path().join("backups");
            let expected =
                "porpoise serve --data-dir data --backup-to backups --archive-to backups/daily\n";
            assert_eq!(script, expected);
            let started = server(dir.path(), "data")
                .arg("--backup-to", &backups)
                .arg("--archive-to", backups.join("daily"))
                .start();
            running = Some(started);
            continue;
        }
        let port = running
            .as_ref()
            .map_or(0, |server| server.mysql_addr.port());
        let output = Command::new("bash")
            .args(["-ec", &script.replace("3306", &port.to_string())])
            .env("PATH", &path)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}{said}");
    }
    for name in ["restored", "earlier"] {
        let restored = server(dir.path(), name).start();
        let rows = good(&mut connect(&restored), "SELECT * FROM shop.goods");
        assert_eq!(rows, ["1|pen"], "{name}");
    }
}
