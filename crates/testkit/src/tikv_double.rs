//! The TiKV double: one process that answers as a placement driver and as stores.
//!
//! The double listens on free ports and prints its addresses in a line
//! `READY pd=ADDRESS control=ADDRESS`.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::go;
use crate::process::{Process, directory};

const NAME: &str = "tikv-double";
const SOURCES: &str = "tests/tikv-double";
const START: Duration = Duration::from_secs(30);

/// A running TiKV double.
pub struct TikvDouble {
    /// Address of its placement driver, for `tikv://`.
    pub pd_addr: SocketAddr,
    /// Address at which it accepts commands over HTTP, for example to fail requests.
    pub control_addr: SocketAddr,
    process: Process,
    _directory: tempfile::TempDir,
}

impl TikvDouble {
    /// Builds the program if its sources have changed, and starts a double with this number of
    /// stores, all in memory.
    pub fn start(stores: usize) -> Self {
        let home = directory(NAME);
        let mut command = Command::new(go::build(NAME, SOURCES));
        let addresses = vec!["127.0.0.1:0"; stores.max(1)].join(",");
        command.arg(format!("-kv={addresses}"));
        let mut process = Process::start(NAME, command, home.path(), "run `make needs`");
        let (pd_addr, control_addr) =
            process.wait_ready(START, |process| addresses_in(&process.stdout()));
        Self {
            pd_addr,
            control_addr,
            process,
            _directory: home,
        }
    }

    /// Builds the program if its sources have changed, and returns its path.
    pub fn program() -> std::path::PathBuf {
        go::build(NAME, SOURCES)
    }

    /// Value of the server's option `--engine`.
    pub fn engine(&self) -> String {
        format!("tikv://{}", self.pd_addr)
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

/// Name of the environment variable with the address of a placement driver of an existing cluster.
const EXISTING: &str = "PORPOISE_TEST_TIKV";

/// A cluster whose faults are not commanded: the existing one that `PORPOISE_TEST_TIKV` names, in a tenant of the test's own, or a
/// double.
pub enum TikvCluster {
    /// Value of the server's option `--engine` for an existing cluster.
    Existing(String),
    /// A double that this test has started.
    Double(TikvDouble),
}

impl TikvCluster {
    /// A cluster, or a part of one, that nothing has been written to.
    pub fn start() -> Self {
        let Ok(endpoints) = std::env::var(EXISTING) else {
            return Self::Double(TikvDouble::start(1));
        };
        // A random number, so that data of earlier runs is not met.
        let random = RandomState::new().build_hasher().finish();
        let tenant = (random >> 33) | (1 << 31);
        Self::Existing(format!("tikv://{endpoints}?tenant={tenant}"))
    }

    /// Value of the server's option `--engine`.
    pub fn engine(&self) -> String {
        match self {
            Self::Existing(engine) => engine.clone(),
            Self::Double(double) => double.engine(),
        }
    }
}

/// Parses the addresses of the placement driver and of the control interface; `None` if the line is
/// not complete.
fn addresses_in(output: &str) -> Option<(SocketAddr, SocketAddr)> {
    let (line, _) = output.split_once("READY ")?.1.split_once('\n')?;
    let value = |name| line.split(' ').find_map(|part| part.strip_prefix(name));
    Some((
        value("pd=")?.parse().ok()?,
        value("control=")?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_once_the_line_is_complete() {
        let line = "starting\nREADY pd=127.0.0.1:41 control=127.0.0.1:42";
        assert_eq!(addresses_in(line), None);
        let (pd, control) = addresses_in(&format!("{line}\n")).unwrap();
        assert_eq!((pd.port(), control.port()), (41, 42));
    }
}
