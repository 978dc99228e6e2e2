//! A MariaDB server with its own data directory, on a free port and a socket; user root has no
//! password.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::client::{SqlOutput, sql};
use crate::process::{Process, directory, run, wait_until};
use crate::sys;
use crate::{fail, ports};

const REMEDY: &str = "MariaDB is needed here: run `make needs`";
/// Deadline for getting ready.
const START: Duration = Duration::from_secs(60);

/// Options of a [`Mariadb`].
#[derive(Clone)]
pub struct MariadbBuilder {
    flush_log: u8,
    arguments: Vec<String>,
}

impl MariadbBuilder {
    /// `innodb_flush_log_at_trx_commit`: 1 (MariaDB's default, and the default here) syncs at every
    /// commit, 0 once a second, 2 writes at commit and syncs once a second.
    pub fn flush_log_at_trx_commit(mut self, value: u8) -> Self {
        self.flush_log = value;
        self
    }

    /// Adds an option of `mariadbd`, like `--sql-mode=ANSI`.
    pub fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Creates a data directory and starts the server.
    pub fn start(self) -> Mariadb {
        let home = directory("mariadb");
        let data = home.path().join("data");
        install(home.path());
        for _ in 0..ports::TRIES {
            let Some(addr) = ports::free(1).first().copied() else {
                break;
            };
            if let Some((socket, process)) = self.try_start(home.path(), &data, addr) {
                return Mariadb {
                    addr,
                    socket,
                    process,
                    builder: self,
                    directory: home,
                };
            }
        }
        fail("mariadb", "found no port that stayed free")
    }

    /// Starts the server at an address, with its files in `home`; `None` if another process has
    /// taken the port. Returns its Unix socket.
    fn try_start(&self, home: &Path, data: &Path, addr: SocketAddr) -> Option<(PathBuf, Process)> {
        let socket = home.join("mariadb.sock");
        let mut command = Command::new(program("mariadbd"));
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", home.join("mariadb.pid").display()))
            .arg(format!("--tmpdir={}", home.display()))
            .arg(format!("--port={}", addr.port()))
            .args(["--bind-address=127.0.0.1", "--skip-name-resolve"])
            .args(["--character-set-server=utf8mb4", "--max-connections=1200"])
            .arg(format!(
                "--innodb-flush-log-at-trx-commit={}",
                self.flush_log
            ))
            .args(&self.arguments);
        as_this_user(&mut command);
        let mut process = Process::start("mariadb", command, home, REMEDY);
        let is_ready = wait_until(START, || match process.ended() {
            Some(_) => Some(false),
            None => process
                .own_stderr()
                .contains("ready for connections")
                .then_some(true),
        });
        match is_ready {
            Some(true) => Some((socket, process)),
            Some(false) if process.own_stderr().contains("Address already in use") => None,
            _ => fail(
                "mariadb",
                format_args!("did not get ready\n{}", process.log()),
            ),
        }
    }
}

/// A running MariaDB.
pub struct Mariadb {
    /// Address of the server.
    pub addr: SocketAddr,
    /// Unix socket of the server.
    pub socket: PathBuf,
    process: Process,
    builder: MariadbBuilder,
    directory: tempfile::TempDir,
}

impl Mariadb {
    /// Returns default options; `builder().start()` starts a server with them.
    pub fn builder() -> MariadbBuilder {
        MariadbBuilder {
            flush_log: 1,
            arguments: Vec::new(),
        }
    }

    /// Runs statements as root.
    pub fn sql(&self, statements: &str) -> SqlOutput {
        sql(self.addr, statements)
    }

    /// Kills the server without warning.
    pub fn kill9(&mut self) {
        self.process.kill();
    }

    /// Kills the server and starts it again with the same files at the same address.
    pub fn restart(&mut self) {
        self.kill9();
        let data = self.directory.path().join("data");
        match self
            .builder
            .try_start(self.directory.path(), &data, self.addr)
        {
            Some((socket, process)) => (self.socket, self.process) = (socket, process),
            None => fail("mariadb", "another process has taken its port"),
        }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

/// Creates the system tables in `data` of a directory. Temporary files go into the directory as
/// well: a server that starts deletes every temporary table of its temporary directory, also those
/// of another server that uses the same one.
fn install(home: &Path) {
    let mut command = Command::new(program("mariadb-install-db"));
    command
        .env("TMPDIR", home)
        .arg("--no-defaults")
        .arg(format!("--datadir={}", home.join("data").display()))
        .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
        .args(["--skip-name-resolve", "--force"]);
    as_this_user(&mut command);
    run("mariadb", &mut command, REMEDY);
}

/// Lets a program that refuses to run as root by default do so if this program runs as root.
fn as_this_user(command: &mut Command) {
    if sys::is_root() {
        command.arg("--user=root");
    }
}

/// Returns the path of a program. Servers are in `/usr/sbin`, which an ordinary user's search path
/// may lack.
fn program(name: &str) -> PathBuf {
    let in_sbin = Path::new("/usr/sbin").join(name);
    if in_sbin.exists() {
        in_sbin
    } else {
        name.into()
    }
}
