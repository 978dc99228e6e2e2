//! `porpoise demo`: a server in memory with a forum of example, and the shell, in one command.
//!
//! Server and shell are processes of their own, started from this binary, and this process watches both. The
//! server listens on free ports of the loopback interface and ends with this process, however that ends. Its
//! directory, which holds a lock and a certificate, is removed after the shell has ended or a signal has come.

use crate::config::StartError;
use crate::sys::{self, Signals};
use clap::Args;
use porpoise_base::threads::{self, Role};
use porpoise_client::Address;
use porpoise_client::mysql::{Connection, Target};
use porpoise_wire::mysql::client::login::Credentials;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Definitions and rows of the forum.
const FORUM: &str = include_str!("demo.sql");

/// The forum's database.
const DATABASE: &str = "forum";

/// Statements that `--with-load` runs, and the pause after each: ten minutes at most.
const LOAD_STATEMENTS: u32 = 12_000;
const LOAD_PAUSE: Duration = Duration::from_millis(50);

/// Options of `porpoise demo`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Options {
    /// Let a client read and write, about twenty statements a second for at most ten minutes
    #[arg(long)]
    with_load: bool,
}

/// The server of the demonstration; dropping it ends the server and removes its directory.
struct Server {
    process: Child,
    directory: TempDir,
    addresses: Vec<(String, String)>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the demonstration until its shell ends.
pub fn run(options: &Options) -> Result<ExitCode, StartError> {
    let failed = |error: io::Error| StartError::failure(format!("demo: {error}"));
    // Ctrl-C is for the shell; this process ends with it.
    let signals = Signals::of(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP]).map_err(failed)?;
    let server = Server::start()?;
    let port = server.port("mysql")?;
    let target = target(port);
    let mut connection = Connection::connect(&target).map_err(unusable)?;
    connection.execute(FORUM).map_err(unusable)?;
    let introduction = introduction(port, server.port("memcached")?, options);
    io::stdout()
        .write_all(introduction.as_bytes())
        .map_err(failed)?;
    if options.with_load {
        let target = target.clone();
        threads::spawn(Role::DemoLoad, move || load(connection, &target)).map_err(failed)?;
    }
    let shell = Command::new(this_program()?)
        .args(["sql", "--no-history", "--port", &port.to_string(), DATABASE])
        .env_remove("PORPOISE_SQL_SOCKET")
        .env("PORPOISE_SQL_HOST", "127.0.0.1")
        .env("PORPOISE_SQL_USER", "root")
        .env("PORPOISE_SHELL_PASSWORD", "")
        .spawn()
        .map_err(failed)?;
    let status = wait(shell, signals).map_err(failed)?;
    let directory = server.directory.path().to_owned();
    drop(server);
    if directory.exists() {
        return Err(StartError::failure(format!(
            "demo: cannot remove {}",
            directory.display()
        )));
    }
    Ok(status.map_or(ExitCode::FAILURE, |status| {
        ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
    }))
}

fn unusable(error: porpoise_client::Error) -> StartError {
    StartError::failure(format!("demo: the server cannot be used: {error}"))
}

fn this_program() -> Result<std::path::PathBuf, StartError> {
    std::env::current_exe()
        .map_err(|error| StartError::failure(format!("demo: cannot find this program: {error}")))
}

/// Waits for the shell's end, or for SIGTERM or SIGHUP, after which the shell is ended. SIGINT is the shell's.
fn wait(mut shell: Child, signals: Signals) -> io::Result<Option<ExitStatus>> {
    let (sender, ended) = mpsc::channel();
    let on_signal = sender.clone();
    threads::spawn(Role::Signals, move || {
        while let Ok(signal) = signals.next_number() {
            if signal != libc::SIGINT && on_signal.send(None).is_err() {
                return;
            }
        }
    })?;
    let id = shell.id();
    threads::spawn(Role::Signals, move || {
        // The receiver is gone if a signal has come first.
        let _ = sender.send(shell.wait().ok());
    })?;
    let status = ended.recv().ok().flatten();
    if status.is_none() {
        sys::terminate(id);
    }
    Ok(status)
}

impl Server {
    fn start() -> Result<Server, StartError> {
        let failed =
            |what: &str, error: io::Error| StartError::failure(format!("demo: {what}: {error}"));
        let directory = tempfile::Builder::new()
            .prefix("porpoise-demo-")
            .tempdir()
            .map_err(|error| failed("cannot create a directory", error))?;
        let mut command = Command::new(this_program()?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PORPOISE_") {
                command.env_remove(name);
            }
        }
        command
            .args([
                "serve",
                "--durability",
                "memory",
                "--log",
                "error",
                "--data-dir",
            ])
            .arg(directory.path())
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for listener in ["mysql", "memcached", "http"] {
            command.args([&format!("--{listener}-listen"), "127.0.0.1:0"]);
        }
        sys::end_with_parent(&mut command);
        let mut process = command
            .spawn()
            .map_err(|error| failed("cannot start the server", error))?;
        let output = process.stdout.take();
        let mut server = Server {
            process,
            directory,
            addresses: Vec::new(),
        };
        let is_ready = output.is_some_and(|output| server.read_addresses(output));
        if is_ready {
            return Ok(server);
        }
        let mut message = String::new();
        if let Some(mut errors) = server.process.stderr.take() {
            let _ = server.process.kill();
            // What cannot be read is not reported.
            let _ = errors.read_to_string(&mut message);
        }
        Err(StartError::failure(format!(
            "demo: the server did not start: {}",
            message.trim()
        )))
    }

    /// Reads the lines up to the last. Returns whether the server is ready.
    fn read_addresses(&mut self, output: impl Read) -> bool {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if line == "porpoise ready" {
                return true;
            }
            if let Some((name, address)) = line
                .strip_prefix("ready ")
                .and_then(|line| line.split_once(' '))
            {
                self.addresses.push((name.to_owned(), address.to_owned()));
            }
        }
        false
    }

    fn port(&self, listener: &str) -> Result<u16, StartError> {
        let address = self.addresses.iter().find(|(name, _)| name == listener);
        address
            .and_then(|(_, address)| address.rsplit_once(':')?.1.parse().ok())
            .ok_or_else(|| {
                StartError::failure(format!("demo: the server does not listen for {listener}"))
            })
    }
}

fn target(port: u16) -> Target {
    let credentials = Credentials {
        user: b"root".to_vec(),
        ..Credentials::default()
    };
    let mut target = Target::new(Address::Tcp("127.0.0.1".into(), port), credentials);
    target.read_timeout = Some(Duration::from_secs(60));
    target
}

fn introduction(mysql: u16, memcached: u16, options: &Options) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "porpoise".into());
    let program = Path::new(&program).display();
    let load = if options.with_load {
        "A client reads and writes in the background.\n"
    } else {
        ""
    };
    format!(
        "\
A server with a forum runs in memory: users, topics, 600 posts. It ends with this shell and leaves nothing behind.
{load}
Try:
  SELECT * FROM user;
  SELECT title, COUNT(*) AS posts FROM post JOIN topic ON topic.id = topic GROUP BY topic.id;
  INSERT INTO post (topic, author, written, message) VALUES (1, 99, NOW(), 'Who am I?');   -- refused: no such author
  DELETE FROM user WHERE name = 'Tony';          -- deletes Tony's posts, too
  EXPLAIN ANALYZE SELECT name, COUNT(*) FROM user JOIN post ON author = user.id GROUP BY name;

The same rows over memcached, from another terminal:
  {program} mc -P {memcached} get user:1 post:7
  {program} mc -P {memcached} set user:7 $'Alan\\tManchester\\t2025-06-23'

MySQL protocol on port {mysql} (user root, no password), memcached on {memcached}.

"
    )
}

/// A client that reads and writes, slowly and for a bounded time.
fn load(mut connection: Connection, target: &Target) {
    let start = Instant::now();
    for n in 0..LOAD_STATEMENTS {
        let (topic, author) = (n % 4 + 1, n * 7 % 6 + 1);
        let statement = match n % 4 {
            0 => format!(
                "INSERT INTO forum.post (topic, author, written, message) \
                 SELECT {topic}, id, NOW(), 'Written by the demonstration' FROM forum.user WHERE id = {author}"
            ),
            1 => "DELETE FROM forum.post WHERE message = 'Written by the demonstration' ORDER BY id LIMIT 1".into(),
            2 => format!("SELECT COUNT(*) FROM forum.post WHERE author = {author}"),
            _ => format!("SELECT * FROM forum.user WHERE id = {author}"),
        };
        match connection.execute(&statement) {
            // The visitor may have dropped the tables.
            Ok(()) | Err(porpoise_client::Error::Server(_)) => {}
            Err(_) => match Connection::connect(target) {
                Ok(again) => connection = again,
                Err(_) => return,
            },
        }
        let due = LOAD_PAUSE * (n + 1);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
}
