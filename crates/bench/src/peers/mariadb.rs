//! MariaDB: a buffer pool that holds all data, durability and binary log as
//! requested.

use super::process::{Server, directory};
use super::{Durability, Settings, Started, TRIES, find_program, free_port, version};
use crate::error::{Error, Result};
use crate::sys::{self, Signal};
use crate::url::Target;
use std::path::Path;
use std::process::{Command, Stdio};

const OPTIONS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    "--max-connections=12000",
    "--innodb-buffer-pool-size=1G",
    "--innodb-log-file-size=512M",
    "--max-allowed-packet=64M",
    "--max-prepared-stmt-count=100000",
];

/// Options for the binary log, synced with every commit as the data are.
fn log_options(is_on: bool) -> &'static [&'static str] {
    match is_on {
        true => &[
            "--log-bin",
            "--server-id=1",
            "--binlog-format=ROW",
            "--sync-binlog=1",
        ],
        false => &["--skip-log-bin"],
    }
}

/// `innodb_flush_log_at_trx_commit` for a durability.
fn flush_log(durability: Durability) -> u8 {
    match durability {
        Durability::Sync => 1,
        Durability::Interval => 2,
        Durability::Memory => 0,
    }
}

/// Creates the system tables. Temporary files go into the server's own directory: a server that
/// starts deletes the temporary tables of all that share its temporary directory.
fn install(program: &Path, home: &Path) -> Result<()> {
    let mut command = Command::new(program);
    command
        .env("TMPDIR", home)
        .arg("--no-defaults")
        .arg(format!("--datadir={}", home.join("data").display()))
        .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
        .args(["--skip-name-resolve", "--force"])
        .stdin(Stdio::null());
    if sys::is_root() {
        command.arg("--user=root");
    }
    let done = command.output()?;
    if done.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&done.stderr).into_owned();
    let last = output.lines().last().unwrap_or_default();
    Err(Error::failed(format!("mariadb-install-db failed: {last}")))
}

/// Starts one.
pub fn start(settings: &Settings) -> Result<Option<Started>> {
    let installer = find_program("mariadb-install-db", &["/usr/bin"]);
    let program = find_program("mariadbd", &["/usr/sbin"]);
    let (Some(installer), Some(program)) = (installer, program) else {
        return Ok(None);
    };
    let mut home = directory(settings, "mariadb")?;
    install(&installer, home.path())?;
    let flush = flush_log(settings.durability);
    for _ in 0..TRIES {
        let port = free_port()?;
        let mut command = Command::new(&program);
        let place = home.path();
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", place.join("data").display()))
            .arg(format!("--socket={}", place.join("socket").display()))
            .arg(format!("--pid-file={}", place.join("pid").display()))
            .arg(format!("--tmpdir={}", place.display()))
            .arg(format!("--port={port}"))
            .arg(format!("--innodb-flush-log-at-trx-commit={flush}"))
            .args(log_options(settings.binary_log))
            .args(OPTIONS);
        if sys::is_root() {
            command.arg("--user=root");
        }
        if let Some(library) = &settings.preload {
            command.env("LD_PRELOAD", library);
        }
        settings.pin(&mut command);
        let mut server = Server::start("mariadbd", command, home, Signal::Terminate)?;
        let ready = server.wait(|s| s.output().contains("ready for connections").then_some(()));
        if ready.is_err() && server.output().contains("Address already in use") {
            home = server.into_directory()?;
            continue;
        }
        ready?;
        let mut target = Target::parse(&format!("mysql://root@127.0.0.1:{port}?name=MariaDB"))?;
        target.pid = Some(server.id());
        let settings = format!(
            "{}; innodb_flush_log_at_trx_commit={flush}, buffer pool 1 GiB, log 512 MiB, {}",
            version(&program, "--version"),
            log_options(settings.binary_log).join(" ")
        );
        return Ok(Some(Started {
            target,
            settings,
            server,
        }));
    }
    Err(Error::failed(
        "mariadbd: every free port was taken by another process before the server used it",
    ))
}
