//! `porpoise mc`: memcached commands by hand, over the ASCII protocol.
//!
//! A command is a line of words as in memcached's protocol, but the value stands in the line
//! (`set KEY VALUE`), and lengths are counted here. [`command`] makes requests of lines. Values are printed
//! with control characters escaped, or as they are with `--raw`.

mod command;

use crate::history::{self, History};
use crate::options::{PasswordArgs, TlsArgs};
use crate::{Failure, terminal};
use clap::{ArgAction, Args};
use command::Command;
use porpoise_client::Address;
use porpoise_client::memcached::{Connection, is_error};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Config, Editor};
use std::io::{self, BufRead, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Options of `porpoise mc`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Name or address of the server
    #[arg(
        short = 'h',
        long,
        default_value = "127.0.0.1",
        env = "PORPOISE_MC_HOST"
    )]
    host: String,
    /// Port
    #[arg(short = 'P', long, default_value_t = 11211, env = "PORPOISE_MC_PORT")]
    port: u16,
    /// Unix socket, instead of host and port
    #[arg(short = 'S', long, value_name = "PATH", env = "PORPOISE_MC_SOCKET")]
    socket: Option<PathBuf>,
    /// User, for ASCII authentication
    #[arg(short, long, env = "PORPOISE_MC_USER")]
    user: Option<String>,
    #[command(flatten)]
    password: PasswordArgs,
    #[command(flatten)]
    tls: TlsArgs,
    /// Longest wait for the server, in seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
    /// Print values as they are, and nothing else
    #[arg(long)]
    raw: bool,
    /// Neither read nor write the history
    #[arg(long)]
    no_history: bool,
    /// A command; without one, commands are read from the terminal or standard input, one a line
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<String>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the shell; exit status 1 if a command has failed.
pub fn run(options: &Options) -> ExitCode {
    crate::exit(try_run(options))
}

fn try_run(options: &Options) -> Result<bool, Failure> {
    let mut out = BufWriter::new(io::stdout());
    let mut shell = Shell {
        connection: connect(options)?,
        is_raw: options.raw,
        out: &mut out,
    };
    if !options.words.is_empty() {
        let words: Vec<Vec<u8>> = options
            .words
            .iter()
            .map(|word| word.clone().into_bytes())
            .collect();
        return shell.run(&words);
    }
    if terminal::is_interactive() {
        shell.interact(options)?;
        return Ok(true);
    }
    let mut has_succeeded = true;
    for line in io::stdin().lock().lines() {
        let line =
            line.map_err(|error| Failure::Input(format!("cannot read the input: {error}")))?;
        has_succeeded &= shell.line(&line)?;
    }
    Ok(has_succeeded)
}

fn connect(options: &Options) -> Result<Connection, Failure> {
    let address = match &options.socket {
        Some(path) => Address::Unix(path.clone()),
        None => Address::Tcp(options.host.clone(), options.port),
    };
    let timeout = Duration::from_secs(options.timeout.max(1));
    let mut connection = Connection::connect(&address, &options.tls.options(), timeout)?;
    if let Some(user) = &options.user {
        let password = match options.password.read()? {
            Some(password) => password,
            None if terminal::is_interactive() => terminal::read_password("Password: ")?,
            None => String::new(),
        };
        let reply = connection.authenticate(user, &password)?;
        if reply != b"STORED" {
            let reply = String::from_utf8_lossy(&reply).into_owned();
            return Err(Failure::Input(format!("authentication failed: {reply}")));
        }
    }
    Ok(connection)
}

struct Shell<'o> {
    connection: Connection,
    is_raw: bool,
    out: &'o mut dyn Write,
}

impl Shell<'_> {
    /// Reads a terminal until the user leaves.
    fn interact(&mut self, options: &Options) -> Result<(), Failure> {
        let failed = |error: ReadlineError| Failure::Input(format!("terminal: {error}"));
        let config = Config::builder().auto_add_history(false).build();
        let mut editor = Editor::<(), DefaultHistory>::with_config(config).map_err(failed)?;
        let path = history::path("mc_history", &|name| std::env::var(name).ok());
        let history = History::load(&mut editor, path.filter(|_| !options.no_history));
        writeln!(
            self.out,
            "Connected. Type help for the commands, quit to leave."
        )?;
        self.out.flush()?;
        loop {
            match editor.readline("porpoise mc> ") {
                Ok(line) if matches!(line.trim(), "quit" | "exit") => return Ok(()),
                Ok(line) => {
                    history.add(&mut editor, &line);
                    self.line(&line)?;
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(()),
                Err(other) => return Err(failed(other)),
            }
        }
    }

    /// Runs a line. Returns whether it succeeded.
    fn line(&mut self, line: &str) -> Result<bool, Failure> {
        match command::words(line) {
            Ok(words) => self.run(&words),
            Err(what) => {
                eprintln!("{what}");
                Ok(false)
            }
        }
    }

    fn run(&mut self, words: &[Vec<u8>]) -> Result<bool, Failure> {
        let request = match command::parse(words) {
            Ok(Command::Nothing) => return Ok(true),
            Ok(Command::Help) => {
                self.out.write_all(command::HELP.as_bytes())?;
                self.out.flush()?;
                return Ok(true);
            }
            Ok(Command::Request(bytes, ending)) => (bytes, ending),
            Err(what) => {
                eprintln!("{what}");
                return Ok(false);
            }
        };
        let mut has_succeeded = true;
        let (out, is_raw) = (&mut *self.out, self.is_raw);
        self.connection
            .request(&request.0, request.1, |line, data| {
                has_succeeded &= !is_error(line);
                print(line, data, is_raw, out)
            })?;
        self.out.flush()?;
        Ok(has_succeeded)
    }
}

fn print(
    line: &[u8],
    data: Option<&[u8]>,
    is_raw: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match data {
        Some(data) if is_raw => {
            out.write_all(data)?;
            out.write_all(b"\n")?;
        }
        None if is_raw && line == b"END" => {}
        _ => {
            writeln!(out, "{}", command::escaped(line))?;
            if let Some(data) = data {
                writeln!(out, "{}", command::escaped(data))?;
            }
        }
    }
    Ok(())
}
