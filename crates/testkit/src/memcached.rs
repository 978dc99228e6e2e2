//! A memcached server on a free port.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::process::{Process, directory, wait_until};
use crate::sys;
use crate::{fail, ports};

const REMEDY: &str = "memcached is needed here: run `make needs`";
/// Deadline for getting ready.
const START: Duration = Duration::from_secs(20);

/// A running memcached.
pub struct Memcached {
    /// Address of the server.
    pub addr: SocketAddr,
    process: Process,
    _directory: tempfile::TempDir,
}

impl Memcached {
    /// Starts a server with this number of worker threads.
    pub fn start(threads: usize) -> Self {
        for _ in 0..ports::TRIES {
            if let Some(started) = Self::try_start(threads) {
                return started;
            }
        }
        fail("memcached", "found no port that stayed free")
    }

    /// Starts a server on a free port; `None` if another process has taken the port.
    fn try_start(threads: usize) -> Option<Self> {
        let home = directory("memcached");
        let addr = *ports::free(1).first()?;
        let mut command = Command::new("memcached");
        command
            .args(["-l", "127.0.0.1", "-U", "0", "-m", "256"])
            .args(["-c", "4096"])
            .args(["-p", &addr.port().to_string()])
            .args(["-t", &threads.to_string()]);
        if sys::is_root() {
            command.args(["-u", "root"]);
        }
        let mut process = Process::start("memcached", command, home.path(), REMEDY);
        // If the port is taken, the server exits with a message, and another port is tried. Any
        // other exit is a failure.
        let is_ready = wait_until(START, || match process.ended() {
            Some(_) => Some(false),
            None => TcpStream::connect(addr).ok().map(|_| true),
        });
        match is_ready {
            Some(true) if process.ended().is_none() => Some(Self {
                addr,
                process,
                _directory: home,
            }),
            Some(_) if process.log().contains("in use") => None,
            _ => fail(
                "memcached",
                format_args!("did not get ready\n{}", process.log()),
            ),
        }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}
