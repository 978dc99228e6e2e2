//! `porpoise cluster demo`: servers over one TiKV cluster on this machine, one of which is killed.
//!
//! The cluster is a real one from given programs (`pd-server`, `tikv-server`), or the test double
//! (tests/tikv-double in the source tree). All processes listen on free ports of the loopback interface, end with this one, and
//! keep their files in a directory that is removed at the end.
//!
//! ```text
//! start cluster, server 1, 2, 3    write on 1, read on 2     kill -9 server 1 in a transaction
//! write the same row on 2 (waits for the dead transaction's lock)     start server 1 again, read all on it
//! ```

use super::output::say;
use crate::config::StartError;
use crate::sys;
use clap::Args;
use porpoise_client::Address;
use porpoise_client::mysql::{Connection, Target};
use porpoise_wire::mysql::client::login::Credentials;
use porpoise_wire::mysql::client::result::{Event, Row};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit for the start of each process.
const START: Duration = Duration::from_secs(120);
/// Time to live of locks: after the loss of a server, writers of rows that it had locked wait for up to this long.
const LOCK_TTL: &str = "5s";
/// Rows that the first server writes.
const ROWS: u64 = 500;

/// Options of `porpoise cluster demo`.
#[derive(Args, Clone, Debug)]
pub struct DemoOptions {
    /// Test double of a whole cluster: `go build` in tests/tikv-double builds it
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["pd_server", "tikv_server"])]
    double: Option<PathBuf>,
    /// Program of the placement driver
    #[arg(long, value_name = "PROGRAM", requires = "tikv_server")]
    pd_server: Option<PathBuf>,
    /// Program of the store
    #[arg(long, value_name = "PROGRAM", requires = "pd_server")]
    tikv_server: Option<PathBuf>,
    /// Number of Porpoise servers
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u8).range(2..=9))]
    servers: u8,
}

fn failed(what: &str, why: impl std::fmt::Display) -> StartError {
    StartError::failure(format!("cluster demo: {what}: {why}"))
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts a program. Its output goes to a file in `home`, or is read here.
    fn start(
        mut command: Command,
        home: &Path,
        name: &str,
        piped: bool,
    ) -> Result<Running, StartError> {
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("PORPOISE_") {
                command.env_remove(variable);
            }
        }
        let log = std::fs::File::create(home.join(format!("{name}.log")));
        let log = log.map_err(|e| failed(name, e))?;
        let output = if piped { Stdio::piped() } else { Stdio::null() };
        command
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(log);
        sys::end_with_parent(&mut command);
        let started = command.spawn().map_err(|e| failed(name, e))?;
        Ok(Running(started))
    }

    /// Reads lines until `take` returns a value.
    fn read_until<T>(&mut self, mut take: impl FnMut(&str) -> Option<T>) -> Option<T> {
        let output = self.0.stdout.take()?;
        let mut lines = BufReader::new(output);
        let mut line = String::new();
        let found = loop {
            line.clear();
            match lines.read_line(&mut line) {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
            if let Some(found) = take(line.trim_end()) {
                break found;
            }
        };
        self.0.stdout = Some(lines.into_inner());
        Some(found)
    }
}

/// A port that is free now.
fn free_port() -> Result<u16, StartError> {
    let found = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    Ok(found.map_err(|e| failed("no free port", e))?.port())
}

/// The cluster's processes, and the address of its placement driver.
struct Store {
    _processes: Vec<Running>,
    driver: String,
}

impl Store {
    fn start(options: &DemoOptions, home: &Path) -> Result<Store, StartError> {
        match (&options.double, &options.pd_server, &options.tikv_server) {
            (Some(double), ..) => Store::double(double, home),
            (None, Some(pd), Some(tikv)) => Store::real(pd, tikv, home),
            _ => Err(StartError::usage(
                "cluster demo: name the programs of a cluster, --pd-server and --tikv-server, or --double",
            )),
        }
    }

    fn double(program: &Path, home: &Path) -> Result<Store, StartError> {
        let mut process = Running::start(Command::new(program), home, "double", true)?;
        let driver = process.read_until(|line| {
            let mut words = line.strip_prefix("READY ")?.split(' ');
            words.find_map(|word| word.strip_prefix("pd=").map(str::to_owned))
        });
        let driver =
            driver.ok_or_else(|| failed("the double did not start", output_end(home, "double")))?;
        Ok(Store {
            _processes: vec![process],
            driver,
        })
    }

    fn real(pd: &Path, tikv: &Path, home: &Path) -> Result<Store, StartError> {
        let [client, peer, store, status] =
            [free_port()?, free_port()?, free_port()?, free_port()?];
        let driver = format!("127.0.0.1:{client}");
        let mut command = Command::new(pd);
        command
            .arg(format!("--data-dir={}", home.join("pd").display()))
            .arg(format!("--client-urls=http://{driver}"))
            .arg(format!("--peer-urls=http://127.0.0.1:{peer}"));
        let first = Running::start(command, home, "pd", false)?;
        let settings = home.join("tikv.toml");
        let text = "[storage]\nreserve-space = \"0MB\"\n[raftdb]\nmax-open-files = 64\n[rocksdb]\nmax-open-files = 64\n";
        std::fs::write(&settings, text).map_err(|e| failed("tikv.toml", e))?;
        let mut command = Command::new(tikv);
        command
            .arg(format!("--config={}", settings.display()))
            .arg(format!("--pd-endpoints={driver}"))
            .arg(format!("--addr=127.0.0.1:{store}"))
            .arg(format!("--status-addr=127.0.0.1:{status}"))
            .arg(format!("--data-dir={}", home.join("tikv").display()));
        let second = Running::start(command, home, "tikv", false)?;
        Ok(Store {
            _processes: vec![first, second],
            driver,
        })
    }
}

/// The end of a process's output.
fn output_end(home: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(home.join(format!("{name}.log"))).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}

/// A Porpoise server.
struct Server {
    name: String,
    _process: Running,
    port: u16,
}

impl Server {
    fn start(name: &str, store: &Store, home: &Path) -> Result<Server, StartError> {
        let program = std::env::current_exe().map_err(|e| failed("cannot find this program", e))?;
        let mut command = Command::new(program);
        let engine = format!(
            "tikv://{}?name=demo&lock-ttl={LOCK_TTL}&connect-timeout={}s",
            store.driver,
            START.as_secs()
        );
        command
            .args([
                "serve",
                "--log",
                "error",
                "--cluster-lease",
                "3s",
                "--engine",
                &engine,
                "--data-dir",
            ])
            .arg(home.join(name.replace(' ', "-")))
            .args([
                "--memcached-listen",
                "off",
                "--http-listen",
                "off",
                "--mysql-listen",
                "127.0.0.1:0",
            ]);
        let mut process = Running::start(command, home, name, true)?;
        let mut port = None;
        let ready = process.read_until(|line| {
            if let Some(address) = line.strip_prefix("ready mysql ") {
                port = address
                    .rsplit_once(':')
                    .and_then(|(_, port)| port.parse().ok());
            }
            (line == "porpoise ready").then_some(())
        });
        match (ready, port) {
            (Some(()), Some(port)) => Ok(Server {
                name: name.to_owned(),
                _process: process,
                port,
            }),
            _ => Err(failed(
                &format!("{name} did not start"),
                output_end(home, name),
            )),
        }
    }

    fn connect(&self) -> Result<Connection, StartError> {
        let credentials = Credentials {
            user: b"root".to_vec(),
            ..Credentials::default()
        };
        let mut target = Target::new(Address::Tcp("127.0.0.1".into(), self.port), credentials);
        target.read_timeout = Some(START);
        Connection::connect(&target).map_err(|e| failed(&self.name, e))
    }

    fn execute(&self, statements: &str) -> Result<(), StartError> {
        self.connect()?
            .execute(statements)
            .map_err(|e| failed(&self.name, e))
    }

    /// The first value of a statement's result.
    fn value(&self, statement: &str) -> Result<String, StartError> {
        let mut value = String::new();
        let mut refused = None;
        let answer = self.connect()?.query(statement.as_bytes(), |event| {
            match event {
                Event::Row(Row::Text(row)) => {
                    let mut row = row;
                    if let Some(Some(first)) = row.next() {
                        value = String::from_utf8_lossy(first).into_owned();
                    }
                }
                Event::Error(error) => {
                    refused = Some(porpoise_client::Error::Server(error).to_string())
                }
                _ => {}
            }
            Ok::<(), porpoise_client::Error>(())
        });
        answer.map_err(|e| failed(&self.name, e))?;
        refused.map_or(Ok(value), |why| Err(failed(&self.name, why)))
    }
}

/// Prints each step, with the time since the beginning.
struct Progress(Instant);

impl Progress {
    fn report(&self, step: &str) {
        say(format_args!(
            "{:6.1} s  {step}",
            self.0.elapsed().as_secs_f64()
        ));
    }
}

/// Runs the demonstration.
///
/// # Errors
/// One line: a process does not start, or an answer is wrong.
pub(super) fn run(options: &DemoOptions) -> Result<(), StartError> {
    let home = tempfile::Builder::new()
        .prefix("porpoise-cluster-")
        .tempdir();
    let home = home.map_err(|e| failed("no directory", e))?;
    let shown = show(options, home.path());
    remove(home)?;
    shown
}

/// Removes the directory: all processes have ended.
fn remove(home: TempDir) -> Result<(), StartError> {
    let path = home.path().display().to_string();
    home.close().map_err(|e| failed(&path, e))
}

fn show(options: &DemoOptions, home: &Path) -> Result<(), StartError> {
    let progress = Progress(Instant::now());
    let store = Store::start(options, home)?;
    progress.report(&format!(
        "a TiKV cluster runs; its placement driver is {}",
        store.driver
    ));
    let mut servers = Vec::new();
    for n in 1..=options.servers {
        let server = Server::start(&format!("server {n}"), &store, home)?;
        progress.report(&format!("{} listens on port {}", server.name, server.port));
        servers.push(server);
    }
    let [first, second, ..] = servers.as_slice() else {
        return Err(failed("servers", "two are needed"));
    };
    first.execute(&format!(
        "CREATE DATABASE d; CREATE TABLE d.account (id INT PRIMARY KEY, balance INT NOT NULL); \
         INSERT INTO d.account WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) SELECT i, 100 FROM n"
    ))?;
    progress.report(&format!("server 1 has created a table of {ROWS} rows"));
    let sum = "SELECT SUM(balance) FROM d.account";
    expect(second, sum, ROWS * 100)?;
    progress.report("server 2 reads the same rows");
    let mut open = first.connect()?;
    let begun = open.execute("BEGIN; UPDATE d.account SET balance = 0 WHERE id = 1");
    begun.map_err(|e| failed("server 1", e))?;
    progress.report("server 1 has changed a row in an open transaction, and is killed now");
    let killed = Instant::now();
    drop(servers.remove(0));
    let Some(second) = servers.first() else {
        return Err(failed("servers", "two are needed"));
    };
    expect(second, sum, ROWS * 100)?;
    progress.report(&format!(
        "server 2 still answers, {:.1} s after the kill",
        killed.elapsed().as_secs_f64()
    ));
    second.execute("UPDATE d.account SET balance = balance + 1 WHERE id = 1")?;
    progress.report(&format!(
        "server 2 has written the same row, {:.1} s after the kill: the dead transaction was rolled back when its locks expired ({LOCK_TTL})",
        killed.elapsed().as_secs_f64()
    ));
    let again = Server::start("server 1 again", &store, home)?;
    expect(&again, sum, ROWS * 100 + 1)?;
    progress.report("server 1 is started again, and reads what server 2 wrote; nothing is lost");
    Ok(())
}

fn expect(server: &Server, statement: &str, expected: u64) -> Result<(), StartError> {
    let found = server.value(statement)?;
    if found == expected.to_string() {
        Ok(())
    } else {
        Err(failed(
            &server.name,
            format!("{statement}: {found}, not {expected}"),
        ))
    }
}
