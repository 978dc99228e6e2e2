//! The Porpoise server: starts the real binary on free ports.
//!
//! The server prints its addresses on standard output: a line `ready LISTENER ADDRESS` per listener,
//! then `porpoise ready`. A handle reads the addresses from these lines.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::client::{SqlOutput, exchange, http_get, sql};
use crate::fail;
use crate::process::{Process, directory, wait_until};
use crate::sys::Signal;

const NAME: &str = "porpoise";
/// Name of a witness in messages.
const WITNESS: &str = "witness";
/// The server binary whose disk injects faults.
const FAULTS: &str = "porpoise-faults";
const REMEDY: &str = "build it with `cargo build -p porpoise`, or run `make needs`";
/// Name of the file of traced system calls.
const TRACE: &str = "trace";
/// The line that the server prints once every listener is open.
const LAST_LINE: &str = "porpoise ready";
/// Default deadline for getting ready.
const START: Duration = Duration::from_secs(60);
/// Deadline for a shutdown.
const STOP: Duration = Duration::from_secs(60);
/// Address of a listener that is off.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Options of a [`Porpoise`].
pub struct PorpoiseBuilder {
    binary: Option<PathBuf>,
    data_dir: Option<PathBuf>,
    arguments: Vec<OsString>,
    environment: Vec<(String, String)>,
    start_time: Duration,
    traced_calls: Option<String>,
    faults: Option<String>,
}

impl PorpoiseBuilder {
    /// Sets the binary; by default the one that Cargo built for this test, or in its directory.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Sets a data directory that is kept; by default a temporary one is removed with the handle.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// Adds an option with its value. An option for a listener or the data directory replaces the
    /// default.
    pub fn arg(mut self, option: &str, value: impl AsRef<OsStr>) -> Self {
        self.arguments.push(option.into());
        self.arguments.push(value.as_ref().into());
        self
    }

    /// Adds an option without a value.
    pub fn flag(mut self, option: &str) -> Self {
        self.arguments.push(option.into());
        self
    }

    /// Adds an environment variable. The test's own `PORPOISE_...` variables are never passed on.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the deadline for getting ready, if recovery is expected to take long.
    pub fn start_time(mut self, time: Duration) -> Self {
        self.start_time = time;
        self
    }

    /// Records these system calls of all threads, like `fdatasync,sendto`; see [`Porpoise::trace`].
    pub fn traced(mut self, calls: &str) -> Self {
        self.traced_calls = Some(calls.to_owned());
        self
    }

    /// Injects faults into the disk under the embedded engine: pairs like `cut_at=100,seed=7`
    /// (`crates/base/src/disk/faulty.rs`). The binary for it is built with the server's.
    pub fn disk_faults(mut self, faults: impl Into<String>) -> Self {
        self.faults = Some(faults.into());
        self
    }

    /// Starts the server and waits until every listener is open.
    pub fn start(self) -> Porpoise {
        let home = directory(NAME);
        let data_dir = self
            .data_dir
            .clone()
            .unwrap_or_else(|| home.path().join("data"));
        let (process, addresses) = self.launch(home.path(), &data_dir);
        Porpoise {
            mysql_addr: addresses.mysql,
            memcached_addr: addresses.memcached,
            http_addr: addresses.http,
            data_dir,
            sockets: addresses.sockets,
            process: Some(process),
            builder: self,
            home,
        }
    }

    /// Runs a server that is expected to exit by itself, and waits for its exit.
    pub fn run_to_end(self, time: Duration) -> Finished {
        let home = directory(NAME);
        let data_dir = self
            .data_dir
            .clone()
            .unwrap_or_else(|| home.path().join("data"));
        let command = self.command(home.path(), &data_dir);
        let mut process = Process::start(NAME, command, home.path(), REMEDY);
        let status = process.wait_end(time);
        Finished {
            status,
            stdout: process.stdout(),
            stderr: process.stderr(),
        }
    }

    /// Starts the process and waits until it is ready.
    fn launch(&self, home: &Path, data_dir: &Path) -> (Process, Addresses) {
        // The file of standard output may have output of an earlier process.
        let skip = stdout_len(home);
        let mut process = Process::start(NAME, self.command(home, data_dir), home, REMEDY);
        let addresses = process.wait_ready(self.start_time, |process| {
            let output = process.stdout();
            let new_output = output.get(skip..).unwrap_or_default();
            new_output
                .lines()
                .any(|line| line == LAST_LINE)
                .then(|| Addresses::read(new_output))
        });
        (process, addresses)
    }

    /// The command that runs the server.
    fn command(&self, home: &Path, data_dir: &Path) -> Command {
        let binary = match &self.faults {
            Some(_) => find_binary(FAULTS),
            None => self.binary.clone().unwrap_or_else(|| find_binary(NAME)),
        };
        let mut command = match &self.traced_calls {
            None => Command::new(binary),
            Some(calls) => {
                // With -DD the tracer is a grandchild in its own process group, so that process id,
                // signals and exit status are those of the server.
                let mut command = Command::new("strace");
                command.args(["-DD", "-f", "-ttt", "-y", "-A", "-e"]);
                command.arg(format!("trace={calls}"));
                command.arg("-o").arg(home.join(TRACE)).arg(binary);
                command
            }
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PORPOISE_") {
                command.env_remove(name);
            }
        }
        command.args(&self.faults).arg("serve");
        for (option, value) in [
            ("--mysql-listen", OsStr::new("127.0.0.1:0")),
            ("--memcached-listen", OsStr::new("127.0.0.1:0")),
            ("--http-listen", OsStr::new("127.0.0.1:0")),
            ("--data-dir", data_dir.as_os_str()),
        ] {
            if !self.arguments.iter().any(|argument| argument == option) {
                command.arg(option).arg(value);
            }
        }
        command.args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Result of a run of a server that exited by itself.
#[derive(Debug)]
pub struct Finished {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A running server.
pub struct Porpoise {
    /// The MySQL protocol's address; port 0 if the listener is off.
    pub mysql_addr: SocketAddr,
    /// The memcached protocol's address; port 0 if the listener is off.
    pub memcached_addr: SocketAddr,
    /// The HTTP address; port 0 if the listener is off.
    pub http_addr: SocketAddr,
    /// Data directory.
    pub data_dir: PathBuf,
    sockets: Vec<(String, PathBuf)>,
    process: Option<Process>,
    builder: PorpoiseBuilder,
    // Last field, so that the process has ended before its files are removed.
    home: tempfile::TempDir,
}

impl Porpoise {
    /// Returns default options; `builder().start()` starts a server with them, on free ports.
    pub fn builder() -> PorpoiseBuilder {
        PorpoiseBuilder {
            binary: None,
            data_dir: None,
            arguments: Vec::new(),
            environment: Vec::new(),
            start_time: START,
            traced_calls: None,
            faults: None,
        }
    }

    /// Runs statements as root through the `mariadb` program.
    pub fn sql(&self, statements: &str) -> SqlOutput {
        sql(self.mysql_addr, statements)
    }

    /// Sends bytes to the memcached listener and reads all answers, like `nc -N`.
    pub fn memcached(&self, request: &str) -> String {
        String::from_utf8_lossy(&exchange(self.memcached_addr, request.as_bytes())).into_owned()
    }

    /// The Unix socket of a listener that was announced as ready, like `mysql-socket`.
    pub fn socket(&self, listener: &str) -> Option<&Path> {
        let found = self.sockets.iter().find(|(name, _)| name == listener)?;
        Some(&found.1)
    }

    /// Process id of the running server.
    pub fn id(&self) -> u32 {
        match &self.process {
            Some(process) => process.id(),
            None => fail(NAME, "is stopped"),
        }
    }

    /// A directory for files of the test, removed with the handle.
    pub fn scratch(&self) -> &Path {
        self.home.path()
    }

    /// Everything that the server has written since its first start: standard output, then standard
    /// error.
    pub fn log(&self) -> String {
        let read = |suffix: &str| {
            let path = self.home.path().join(format!("{NAME}.{suffix}"));
            std::fs::read(path).unwrap_or_default()
        };
        let bytes = [read("stdout"), read("stderr")].concat();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The system calls traced so far. A line has thread, time, and call, with the files of its
    /// descriptors; it may be written a moment after the call.
    pub fn trace(&self) -> String {
        let bytes = std::fs::read(self.home.path().join(TRACE)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Requests a path over HTTP; returns the status and the body.
    pub fn http(&self, path: &str) -> (u16, String) {
        http_get(self.http_addr, path)
    }

    /// Kills the server with SIGKILL, like a crash, and waits for its end.
    pub fn kill9(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Stops the server with SIGSTOP: it does nothing until [`Porpoise::resume`].
    pub fn pause(&mut self) {
        if let Some(process) = &mut self.process {
            process.signal(Signal::Stop);
        }
    }

    /// Lets a server continue that was paused.
    pub fn resume(&mut self) {
        if let Some(process) = &mut self.process {
            process.signal(Signal::Continue);
        }
    }

    /// Shuts the server down with SIGTERM and waits for its end.
    pub fn terminate(&mut self) -> ExitStatus {
        let Some(mut process) = self.process.take() else {
            fail(NAME, "is stopped already")
        };
        process.signal(Signal::Terminate);
        process.wait_end(STOP)
    }

    /// Waits until the server has ended by itself, for example after a simulated power failure; fails
    /// the test after `time`.
    pub fn wait_end(&mut self, time: Duration) -> ExitStatus {
        let Some(mut process) = self.process.take() else {
            fail(NAME, "is stopped already")
        };
        process.wait_end(time)
    }

    /// Whether the server is running.
    pub fn is_running(&mut self) -> bool {
        self.process
            .as_mut()
            .is_some_and(|process| process.ended().is_none())
    }

    /// Starts the server again on the same data, after killing it if it still runs. Its ports change.
    pub fn restart(&mut self) {
        self.kill9();
        let (process, addresses) = self.builder.launch(self.home.path(), &self.data_dir);
        self.process = Some(process);
        self.mysql_addr = addresses.mysql;
        self.memcached_addr = addresses.memcached;
        self.http_addr = addresses.http;
        self.sockets = addresses.sockets;
    }

    /// Changes the options for the next [`Porpoise::restart`].
    pub fn reconfigure(&mut self, change: impl FnOnce(PorpoiseBuilder) -> PorpoiseBuilder) {
        let old = std::mem::replace(&mut self.builder, Self::builder());
        self.builder = change(old);
    }

    /// Waits until `ready` returns `Some`; fails the test after `time`. `event` describes the awaited
    /// event, for the message.
    pub fn wait_for<T>(&self, event: &str, time: Duration, ready: impl FnMut() -> Option<T>) -> T {
        match wait_until(time, ready) {
            Some(value) => value,
            None => fail(NAME, format_args!("{event} did not happen within {time:?}")),
        }
    }
}

/// A running `porpoise witness`.
pub struct Witness {
    process: Option<Process>,
    arguments: Vec<OsString>,
    // Last field, so that the process has ended before its files are removed.
    home: tempfile::TempDir,
}

impl Witness {
    /// Starts a witness with these options; its data directory is a temporary one.
    pub fn start(arguments: &[&str]) -> Witness {
        let mut witness = Witness {
            process: None,
            arguments: arguments.iter().map(OsString::from).collect(),
            home: directory(WITNESS),
        };
        witness.restart();
        witness
    }

    /// Kills the witness with SIGKILL, and waits for its end.
    pub fn kill9(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Starts the witness again on the same data, after killing it if it still runs.
    pub fn restart(&mut self) {
        self.kill9();
        let home = self.home.path();
        let mut command = Command::new(find_binary(NAME));
        command.arg("witness").args(&self.arguments);
        command.arg("--data-dir").arg(home.join("data"));
        let mut process = Process::start(WITNESS, command, home, REMEDY);
        process.wait_ready(START, |process| {
            let output = process.stdout();
            output.lines().any(|line| line == LAST_LINE).then_some(())
        });
        self.process = Some(process);
    }
}

/// Addresses that a server has printed.
#[derive(Debug, PartialEq, Eq)]
struct Addresses {
    mysql: SocketAddr,
    memcached: SocketAddr,
    http: SocketAddr,
    sockets: Vec<(String, PathBuf)>,
}

impl Addresses {
    /// Reads the lines `ready LISTENER ADDRESS`.
    fn read(output: &str) -> Self {
        let mut addresses = Self {
            mysql: NO_ADDRESS,
            memcached: NO_ADDRESS,
            http: NO_ADDRESS,
            sockets: Vec::new(),
        };
        for line in output.lines() {
            let Some((listener, address)) = line
                .strip_prefix("ready ")
                .and_then(|rest| rest.split_once(' '))
            else {
                continue;
            };
            let parsed = || match address.parse() {
                Ok(address) => address,
                Err(_) => fail(NAME, format_args!("printed no valid address in `{line}`")),
            };
            match listener {
                "mysql" => addresses.mysql = parsed(),
                "memcached" => addresses.memcached = parsed(),
                "http" => addresses.http = parsed(),
                other => addresses.sockets.push((other.to_owned(), address.into())),
            }
        }
        addresses
    }
}

/// Length in bytes of the file with the server's standard output; 0 if it does not exist.
fn stdout_len(home: &Path) -> usize {
    std::fs::metadata(home.join(format!("{NAME}.stdout")))
        .ok()
        .and_then(|file| usize::try_from(file.len()).ok())
        .unwrap_or(0)
}

/// Finds a binary of the same build: the one named by Cargo, or one in the test program's directory
/// or its parent.
fn find_binary(name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(format!("CARGO_BIN_EXE_{name}")) {
        return path.into();
    }
    let test = std::env::current_exe().unwrap_or_default();
    let found = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    match found {
        Some(path) => path,
        None => fail(
            name,
            "its binary is not built; run `cargo build -p porpoise` first",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_lines_are_read() {
        let addresses = Addresses::read(
            "starting\nready mysql 127.0.0.1:4001\nready http 127.0.0.1:4002\n\
             ready mysql-socket /tmp/a b.sock\nporpoise ready\n",
        );
        assert_eq!(addresses.mysql.port(), 4001);
        assert_eq!(addresses.http.port(), 4002);
        assert_eq!(addresses.memcached, NO_ADDRESS);
        let socket = ("mysql-socket".to_owned(), PathBuf::from("/tmp/a b.sock"));
        assert_eq!(addresses.sockets, [socket]);
    }
}
