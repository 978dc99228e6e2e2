//! Servers for an experiment: the installed ones are started on free loopback
//! ports, with files in their own directories and comparable, reported settings, and
//! stopped afterwards.
//!
//! 1. All are children of this process and share its session, so that the
//!    kernel divides the processors equally among servers and generator.
//! 2. A server is stopped by its process id, never by name; if this process is killed,
//!    its servers are, too.
//! 3. A system that is not installed is left out with a line that says so; one
//!    that is installed and does not start is an error.

mod mariadb;
mod memcached;
mod porpoise;
mod postgres;
mod process;
pub mod shim;

pub use self::porpoise::start_on_cluster;
pub use process::Server;

use crate::error::{Error, Result};
use crate::sys::{Processors, cores};
use crate::url::Target;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The point at which a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// After it is on disk.
    Sync,
    /// Before; a sync follows within a second.
    Interval,
    /// At once, and as little is written as the system allows.
    Memory,
}

impl Durability {
    /// Parses the option's value.
    ///
    /// # Errors
    /// A usage error.
    pub fn parse(text: &str) -> Result<Durability> {
        match text {
            "sync" => Ok(Durability::Sync),
            "interval" => Ok(Durability::Interval),
            "memory" => Ok(Durability::Memory),
            _ => Err(Error::usage(format!(
                "durability {text:?} is unknown: use sync, interval or memory"
            ))),
        }
    }

    /// Name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Interval => "interval",
            Durability::Memory => "memory",
        }
    }
}

/// The subcommand of this program that serves Porpoise's network layer alone.
pub const NOOP_SERVER: &str = "noop-server";

/// Options for starting servers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Durability of all servers, as closely as each supports it.
    pub durability: Durability,
    /// Directory for their files; each has one of its own in it.
    pub directory: PathBuf,
    /// The program to start as Porpoise.
    pub porpoise: PathBuf,
    /// A library to load into each, which delays its syncs.
    pub preload: Option<PathBuf>,
    /// Whether Porpoise and MariaDB keep a binary log.
    pub binary_log: bool,
    /// Processors that the servers run on; `None`: all.
    pub processors: Option<Processors>,
}

impl Settings {
    /// Number of processors that a server may use.
    fn cores(&self) -> usize {
        self.processors
            .as_ref()
            .map_or_else(cores, Processors::count)
    }

    /// Lets a server's process, with all its threads, run on the chosen processors.
    fn pin(&self, command: &mut Command) {
        if let Some(processors) = &self.processors {
            processors.pin_command(command);
        }
    }
}

/// Servers that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The program `porpoise`, as a server.
    Porpoise,
    /// MariaDB.
    Mariadb,
    /// PostgreSQL.
    Postgres,
    /// memcached.
    Memcached,
    /// The same, with a binary log.
    PorpoiseLogBin,
    /// Porpoise's network layer without a database.
    Noop,
}

/// Name of a Porpoise server with a binary log in reports.
pub const BINARY_LOG: &str = "Porpoise, binary log";

impl Peer {
    /// Parses a name.
    ///
    /// # Errors
    /// A usage error.
    pub fn parse(name: &str) -> Result<Peer> {
        match name {
            "porpoise" => Ok(Peer::Porpoise),
            "porpoise-log-bin" => Ok(Peer::PorpoiseLogBin),
            "mariadb" => Ok(Peer::Mariadb),
            "postgres" => Ok(Peer::Postgres),
            "memcached" => Ok(Peer::Memcached),
            "noop" => Ok(Peer::Noop),
            _ => Err(Error::usage(format!(
                "peer {name:?} is unknown: use porpoise, porpoise-log-bin, mariadb, postgres, memcached or noop"
            ))),
        }
    }

    /// Name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Peer::Porpoise => "porpoise",
            Peer::PorpoiseLogBin => "porpoise-log-bin",
            Peer::Mariadb => "mariadb",
            Peer::Postgres => "postgres",
            Peer::Memcached => "memcached",
            Peer::Noop => "noop",
        }
    }

    /// Starts it; `None` where it is not installed.
    ///
    /// # Errors
    /// It is installed and did not start.
    pub fn start(self, settings: &Settings) -> Result<Option<Started>> {
        match self {
            Peer::Porpoise => porpoise::start(settings).map(Some),
            Peer::PorpoiseLogBin => {
                let mut started = porpoise::start(&Settings {
                    binary_log: true,
                    ..settings.clone()
                })?;
                BINARY_LOG.clone_into(&mut started.target.name);
                Ok(Some(started))
            }
            Peer::Noop => porpoise::start_noop(settings).map(Some),
            Peer::Mariadb => mariadb::start(settings),
            Peer::Postgres => postgres::start(settings),
            Peer::Memcached => memcached::start(settings),
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Started {
    /// Target of the server.
    pub target: Target,
    /// Version and settings, for reports.
    pub settings: String,
    /// The process; it ends when this is dropped.
    pub server: Server,
}

/// Path of a program: in the search path, or in Debian's directories for servers.
pub fn find_program(name: &str, beside: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(beside.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

/// First line of a program's version output.
fn version(program: &Path, option: &str) -> String {
    let output = std::process::Command::new(program).arg(option).output();
    let text = output.map(|o| o.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// A loopback port that was free a moment ago.
fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}

/// Number of attempts to start when another process takes the port first.
const TRIES: usize = 5;
