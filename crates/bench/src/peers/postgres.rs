//! PostgreSQL: shared buffers of 1 GiB, durability as requested. It refuses to
//! run as root, so root starts it as the user `postgres`.

use super::process::{Server, directory};
use super::{Durability, Settings, Started, TRIES, find_program, free_port, version};
use crate::error::{Error, Result};
use crate::sys::{self, Signal};
use crate::url::Target;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian's directories of the programs, newest version first.
fn find(name: &str) -> Option<PathBuf> {
    let mut places: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|e| e.path().join("bin")).collect())
        .unwrap_or_default();
    places.sort();
    places.reverse();
    let beside: Vec<&str> = places.iter().filter_map(|p| p.to_str()).collect();
    find_program(name, &beside)
}

/// Options for a durability, and their description.
fn durable(durability: Durability) -> (&'static [&'static str], &'static str) {
    match durability {
        Durability::Sync => (
            &["synchronous_commit=on", "fsync=on"],
            "synchronous_commit=on",
        ),
        Durability::Interval => (
            &[
                "synchronous_commit=off",
                "fsync=on",
                "wal_writer_delay=200ms",
            ],
            "synchronous_commit=off",
        ),
        Durability::Memory => (
            &["synchronous_commit=off", "fsync=off"],
            "synchronous_commit=off, fsync=off",
        ),
    }
}

/// Runs a command as the user that the server runs as.
fn as_server(command: &mut Command, account: Option<(u32, u32)>) {
    if let Some((user, group)) = account {
        command.uid(user).gid(group);
    }
}

fn install(home: &Path, account: Option<(u32, u32)>) -> Result<()> {
    let program = find("initdb").ok_or_else(|| Error::failed("initdb is not installed"))?;
    if let Some((user, group)) = account {
        std::os::unix::fs::chown(home, Some(user), Some(group))?;
    }
    let mut command = Command::new(program);
    command
        .arg("-D")
        .arg(home.join("data"))
        .args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "-N",
        ])
        .current_dir(home)
        .stdin(Stdio::null());
    as_server(&mut command, account);
    let done = command.output()?;
    if done.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&done.stderr).into_owned();
    let last = output.lines().last().unwrap_or_default();
    Err(Error::failed(format!("initdb failed: {last}")))
}

/// Starts one.
pub fn start(settings: &Settings) -> Result<Option<Started>> {
    let Some(program) = find("postgres") else {
        return Ok(None);
    };
    let account = if sys::is_root() {
        let found = sys::user("postgres");
        Some(found.ok_or_else(|| Error::failed("PostgreSQL needs a user `postgres`"))?)
    } else {
        None
    };
    let mut home = directory(settings, "postgres")?;
    install(home.path(), account)?;
    let (options, words) = durable(settings.durability);
    for _ in 0..TRIES {
        let port = free_port()?;
        let mut command = Command::new(&program);
        command
            .arg("-D")
            .arg(home.path().join("data"))
            .args(["-p", &port.to_string(), "-h", "127.0.0.1"])
            .arg("-k")
            .arg(home.path())
            .current_dir(home.path());
        for option in [
            "max_connections=1200",
            "shared_buffers=1GB",
            "max_wal_size=4GB",
            "listen_addresses=127.0.0.1",
        ]
        .iter()
        .chain(options)
        {
            command.args(["-c", option]);
        }
        as_server(&mut command, account);
        if let Some(library) = &settings.preload {
            command.env("LD_PRELOAD", library);
        }
        settings.pin(&mut command);
        let mut server = Server::start("postgres", command, home, Signal::Interrupt)?;
        let ready = server.wait(|s| s.output().contains("ready to accept").then_some(()));
        if ready.is_err() && server.output().contains("Address already in use") {
            home = server.into_directory()?;
            continue;
        }
        ready?;
        let mut target = Target::parse(&format!("postgres://postgres@127.0.0.1:{port}/postgres"))?;
        target.pid = Some(server.id());
        let settings = format!(
            "{}; {words}, shared_buffers=1GB, max_wal_size=4GB",
            version(&program, "-V")
        );
        return Ok(Some(Started {
            target,
            settings,
            server,
        }));
    }
    Err(Error::failed(
        "postgres: every free port was taken by another process before the server used it",
    ))
}
