//! Porpoise itself, and its network layer alone, on ports of their choice.
//!
//! Both announce their addresses on standard output, a line `ready LISTENER
//! ADDRESS` for each listener and `porpoise ready` at the end.

use super::process::{Server, directory};
use super::{NOOP_SERVER, Settings, Started, version};
use crate::error::{Error, Result};
use crate::sys::Signal;
use crate::url::Target;
use std::net::SocketAddr;
use std::process::Command;

fn launch(settings: &Settings, engine: Option<&str>) -> Result<Server> {
    let home = directory(settings, "porpoise")?;
    let mut command = Command::new(&settings.porpoise);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("PORPOISE_") {
            command.env_remove(variable);
        }
    }
    command
        .arg("serve")
        .arg("--data-dir")
        .arg(home.path().join("data"))
        .args(["--http-listen", "127.0.0.1:0"])
        .args(["--mysql-listen", "127.0.0.1:0"])
        .args(["--memcached-listen", "127.0.0.1:0"])
        .args(["--native-listen", "127.0.0.1:0"]);
    if let Some(engine) = engine {
        command.args(["--engine", engine]);
    } else {
        let backups = home.path().join("backups");
        std::fs::create_dir(&backups)?;
        command.args(["--durability", settings.durability.word()]);
        command.arg("--backup-to").arg(backups);
    }
    if settings.binary_log {
        command.arg("--log-bin");
    }
    if let Some(library) = &settings.preload {
        command.env("LD_PRELOAD", library);
    }
    settings.pin(&mut command);
    started("porpoise", command, home)
}

/// Starts a command and waits until it is ready.
fn started(name: &'static str, command: Command, home: tempfile::TempDir) -> Result<Server> {
    let mut server = Server::start(name, command, home, Signal::Terminate)?;
    server.wait(|s| {
        s.output()
            .lines()
            .any(|l| l == "porpoise ready")
            .then_some(())
    })?;
    Ok(server)
}

fn announced(output: &str, name: &str) -> Option<SocketAddr> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("ready ")?.split_once(' '))
        .find(|(listener, _)| *listener == name)
        .and_then(|(_, address)| address.trim().parse().ok())
}

/// Starts a server with all its listeners.
pub fn start(settings: &Settings) -> Result<Started> {
    start_with(settings, None)
}

/// Starts a server on a cluster, `tikv://...`.
///
/// # Errors
/// The server does not start.
pub fn start_on_cluster(settings: &Settings, engine: &str) -> Result<Started> {
    start_with(settings, Some(engine))
}

fn start_with(settings: &Settings, engine: Option<&str>) -> Result<Started> {
    let server = launch(settings, engine)?;
    let output = server.output();
    let address = |name| {
        announced(&output, name)
            .ok_or_else(|| Error::failed(format!("porpoise opened no {name} listener")))
    };
    let url = format!(
        "porpoise://root@127.0.0.1:{}?memcached={}&native={}",
        address("mysql")?.port(),
        address("memcached")?.port(),
        address("native")?.port()
    );
    let mut target = Target::parse(&url)?;
    target.pid = Some(server.id());
    Ok(Started {
        target,
        settings: format!(
            "{}; {}{}",
            version(&settings.porpoise, "--version"),
            match engine {
                Some(engine) => format!("--engine {engine}"),
                None => format!("--durability {}", settings.durability.word()),
            },
            if settings.binary_log {
                " --log-bin"
            } else {
                ""
            }
        ),
        server,
    })
}

/// Starts the network layer alone: this program with another subcommand.
pub fn start_noop(settings: &Settings) -> Result<Started> {
    let home = directory(settings, "noop")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args([NOOP_SERVER, "127.0.0.1:0"]);
    settings.pin(&mut command);
    let server = started("noop", command, home)?;
    let address = announced(&server.output(), "noop")
        .ok_or_else(|| Error::failed("the noop server announced no address"))?;
    let mut target = Target::parse(&format!("noop://127.0.0.1:{}", address.port()))?;
    target.pid = Some(server.id());
    Ok(Started {
        target,
        settings: "Porpoise's network layer, a handler that stores nothing".to_owned(),
        server,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_addresses_are_read() {
        let output = "ready mysql 127.0.0.1:41\nready memcached 127.0.0.1:42\nporpoise ready\n";
        assert_eq!(announced(output, "memcached").unwrap().port(), 42);
        assert_eq!(announced(output, "http"), None);
    }
}
