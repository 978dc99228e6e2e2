//! Porpoise itself: this same program as a server, on ports of its choice.
//!
//! It tells its addresses on standard output, a line `ready DOOR ADDRESS` for
//! each listener and `porpoise ready` at the end.

use super::process::{Server, directory};
use super::{Settings, Started, version};
use crate::error::{Error, Result};
use crate::sys::Signal;
use crate::url::Target;
use std::net::SocketAddr;
use std::process::Command;

fn launch(settings: &Settings, name: &'static str, extra: &[&str]) -> Result<Server> {
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
        .args(["--durability", settings.durability.word()])
        .args(["--http-listen", "127.0.0.1:0"])
        .args(["--mysql-listen", "127.0.0.1:0"])
        .args(["--memcached-listen", "127.0.0.1:0"])
        .args(extra);
    if let Some(library) = &settings.preload {
        command.env("LD_PRELOAD", library);
    }
    let mut server = Server::start(name, command, home, Signal::Terminate)?;
    server.wait(|s| {
        s.output()
            .lines()
            .any(|l| l == "porpoise ready")
            .then_some(())
    })?;
    Ok(server)
}

fn door(output: &str, name: &str) -> Option<SocketAddr> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("ready ")?.split_once(' '))
        .find(|(door, _)| *door == name)
        .and_then(|(_, address)| address.trim().parse().ok())
}

/// Starts one with all its doors.
pub fn start(settings: &Settings) -> Result<Started> {
    let server = launch(settings, "porpoise", &[])?;
    let output = server.output();
    let address = |name| {
        door(&output, name).ok_or_else(|| Error::failed(format!("porpoise opened no {name} door")))
    };
    let url = format!(
        "porpoise://root@127.0.0.1:{}?memcached={}",
        address("mysql")?.port(),
        address("memcached")?.port()
    );
    let mut target = Target::parse(&url)?;
    target.pid = Some(server.id());
    Ok(Started {
        target,
        settings: format!(
            "{}; --durability {}",
            version(&settings.porpoise, "--version"),
            settings.durability.word()
        ),
        server,
    })
}

/// Starts one whose door answers without storing anything.
pub fn start_noop(settings: &Settings) -> Result<Started> {
    let server = launch(settings, "porpoise", &["--noop-listen", "127.0.0.1:0"])?;
    let address = door(&server.output(), "noop")
        .ok_or_else(|| Error::failed("porpoise opened no noop door"))?;
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
    fn doors_are_read() {
        let output = "ready mysql 127.0.0.1:41\nready memcached 127.0.0.1:42\nporpoise ready\n";
        assert_eq!(door(output, "memcached").unwrap().port(), 42);
        assert_eq!(door(output, "http"), None);
    }
}
