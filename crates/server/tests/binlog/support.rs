//! A server with a binary log, and programs that read it.

use porpoise_testkit::{Porpoise, PorpoiseBuilder};
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// A server with a binary log.
pub fn server() -> PorpoiseBuilder {
    Porpoise::builder()
        .flag("--log-bin")
        .arg("--server-id", "7")
}

/// Runs statements that must succeed; returns the rows, with `|` between columns.
pub fn good(server: &Porpoise, statements: &str) -> Vec<String> {
    let output = server.sql(statements);
    let rows = output.rows();
    rows.iter().map(|row| row.join("|")).collect()
}

/// Text of `mariadb-binlog` for files of a server's log. It does not read from a server whose version begins with 8,
/// MySQL or not.
pub fn read_log(server: &Porpoise, arguments: &[&str], files: &[&str]) -> String {
    let directory = server.data_dir.join("binlog");
    let output = Command::new("mariadb-binlog")
        .arg("--no-defaults")
        .args(arguments)
        .args(files.iter().map(|file| directory.join(file)))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a script in a server by the `mariadb` program.
pub fn run_script(address: SocketAddr, script: &str) {
    let mut client = Command::new("mariadb")
        .args([
            "--no-defaults",
            "--protocol=tcp",
            "--user=root",
            "--binary-mode",
        ])
        .arg(format!("--host={}", address.ip()))
        .arg(format!("--port={}", address.port()))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = client.stdin.take().unwrap();
    let script = script.to_owned();
    let writer = std::thread::spawn(move || {
        let _ = input.write_all(script.as_bytes());
    });
    let output = client.wait_with_output().unwrap();
    writer.join().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

/// Text of `mariadb-dump` for a database.
pub fn dump(server: &Porpoise, database: &str) -> String {
    let output = Command::new("mariadb-dump")
        .args([
            "--no-defaults",
            "--protocol=tcp",
            "--user=root",
            "--host=127.0.0.1",
        ])
        .arg(format!("--port={}", server.mysql_addr.port()))
        .args(["--databases", database])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
