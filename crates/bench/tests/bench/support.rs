//! Running `porpoise-bench` and reading what it wrote.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

/// `porpoise-bench` with these words, its files to be in `home`.
pub fn bench(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_porpoise-bench"));
    command
        .args(words)
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs it to a good end; one at a time, since each starts several servers.
pub fn run(home: &Path, words: &[&str]) -> String {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let output = bench(home, words).output().unwrap();
    assert!(output.status.success(), "{}", last_line(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The last line that it wrote to standard error.
pub fn last_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines().last().unwrap_or_default().to_owned()
}

/// The cells of all experiments: experiment, operation, system, and the cell.
pub fn cells(file: &Path) -> Vec<(String, String, String, serde_json::Value)> {
    let report = report(file);
    let mut found = Vec::new();
    for experiment in report["experiments"].as_array().unwrap() {
        for cell in experiment["cells"].as_array().unwrap() {
            let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            found.push((
                word(&experiment["name"]),
                word(&cell["operation"]),
                word(&cell["system"]),
                cell.clone(),
            ));
        }
    }
    found
}

/// A file of results.
pub fn report(file: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// A directory that PostgreSQL's user may pass through.
pub fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path(), permissions).unwrap();
    home
}

/// The number of a processor that this process may use.
pub(crate) fn processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("Cpus_allowed_list:"));
    let list = line.unwrap().split_whitespace().last().unwrap();
    list.split([',', '-']).next().unwrap().to_owned()
}
