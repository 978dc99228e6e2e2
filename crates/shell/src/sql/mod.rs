//! `porpoise sql`: a shell for SQL over MySQL's protocol.
//!
//! * [`splitter`]: input to statements and commands.
//! * [`session`]: the connection, statements and their results.
//! * [`mod@format`]: results as text.
//! * [`completion`]: names for the editor.
//! * [`commands`]: commands of the shell itself.

mod commands;
mod completion;
pub mod format;
mod session;
pub mod splitter;

use crate::history::{self, History};
use crate::interrupt::Interrupt;
use crate::options::{PasswordArgs, TlsArgs};
use crate::{Failure, terminal};
use clap::{ArgAction, Args};
use commands::Next;
use completion::{Editing, Names};
use format::Format;
use porpoise_client::mysql::{Connection, Target};
use porpoise_client::{Address, Error};
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::client::login::Credentials;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use session::{Session, Settings};
use splitter::{Piece, Splitter};
use std::cell::RefCell;
use std::io::{self, BufRead, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// Error number of a refused login.
const ACCESS_DENIED: u16 = 1045;

/// Deepest nesting of `source`.
const MOST_FILES: usize = 32;

/// Options of `porpoise sql`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Name or address of the server
    #[arg(
        short = 'h',
        long,
        default_value = "127.0.0.1",
        env = "PORPOISE_SQL_HOST"
    )]
    host: String,
    /// Port
    #[arg(short = 'P', long, default_value_t = 3306, env = "PORPOISE_SQL_PORT")]
    port: u16,
    /// Unix socket, instead of host and port
    #[arg(short = 'S', long, value_name = "PATH", env = "PORPOISE_SQL_SOCKET")]
    socket: Option<PathBuf>,
    /// User
    #[arg(short, long, default_value = "root", env = "PORPOISE_SQL_USER")]
    user: String,
    #[command(flatten)]
    password: PasswordArgs,
    #[command(flatten)]
    tls: TlsArgs,
    /// Longest wait for the connection, in seconds
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    connect_timeout: u64,
    /// Default database
    #[arg(value_name = "DATABASE", env = "PORPOISE_SQL_DATABASE")]
    database: Option<String>,
    /// Run this text and exit; may be repeated
    #[arg(short, long, value_name = "SQL", allow_hyphen_values = true)]
    execute: Vec<String>,
    /// Go on after an error; the exit status is still 1
    #[arg(short, long)]
    force: bool,
    /// Form of results [default: table at a terminal, otherwise tsv]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// As --format table
    #[arg(short, long, conflicts_with = "format")]
    table: bool,
    /// As --format vertical
    #[arg(short = 'E', long, conflicts_with_all = ["format", "table"])]
    vertical: bool,
    /// Leave out the names of columns
    #[arg(short = 'N', long)]
    skip_column_names: bool,
    /// Print the number of rows and the time after each statement, as at a terminal
    #[arg(long)]
    timing: bool,
    /// Show warnings after each statement
    #[arg(long)]
    show_warnings: bool,
    /// Send the files that LOAD DATA LOCAL names
    #[arg(long)]
    local_infile: bool,
    /// Neither read nor write the history
    #[arg(long)]
    no_history: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the shell; exit status 1 if a statement has failed.
pub fn run(options: &Options) -> ExitCode {
    crate::exit(try_run(options))
}

/// Runs an interactive shell for a demonstration at this port, without a history.
pub fn demonstrate(port: u16, database: &str) -> ExitCode {
    use clap::FromArgMatches;
    let command = Options::augment_args(clap::Command::new("sql").disable_help_flag(true));
    let port = port.to_string();
    let arguments = ["sql", "--port", &port, "--no-history", database];
    match command
        .try_get_matches_from(arguments)
        .and_then(|found| Options::from_arg_matches(&found))
    {
        Ok(options) => run(&options),
        Err(error) => {
            eprintln!("porpoise: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(options: &Options) -> Result<bool, Failure> {
    let is_interactive = options.execute.is_empty() && terminal::is_interactive();
    let interrupt = Interrupt::watch();
    let (target, connection) = connect(options)?;
    let settings = Settings {
        format: match options.format {
            Some(format) => format,
            None if options.table => Format::Table,
            None if options.vertical => Format::Vertical,
            None if is_interactive => Format::Table,
            None => Format::Tsv,
        },
        has_names: !options.skip_column_names,
        has_summaries: is_interactive || options.timing,
        shows_warnings: options.show_warnings,
    };
    let mut out = BufWriter::new(io::stdout());
    let session = Session::new(target, connection, interrupt, settings, &mut out);
    let mut shell = Shell {
        session,
        splitter: Rc::new(RefCell::new(Splitter::default())),
        stops_at_errors: !options.force && !is_interactive,
        has_failed: false,
        are_names_stale: true,
        files: 0,
    };
    if is_interactive {
        return shell.interact(options);
    }
    if options.execute.is_empty() {
        shell.read(&mut io::stdin().lock())?;
    }
    for text in &options.execute {
        if shell.read(&mut text.as_bytes())? == Next::Stop {
            break;
        }
    }
    shell.session.out().flush()?;
    Ok(!shell.has_failed)
}

/// Connects, and asks for the password if the server wants one and there is a terminal.
fn connect(options: &Options) -> Result<(Target, Connection), Failure> {
    let address = match &options.socket {
        Some(path) => Address::Unix(path.clone()),
        None => Address::Tcp(options.host.clone(), options.port),
    };
    let given = options.password.read()?;
    let attributes = [
        ("program_name", "porpoise sql"),
        ("_client_version", env!("CARGO_PKG_VERSION")),
    ];
    let credentials = Credentials {
        user: options.user.clone().into_bytes(),
        password: given.clone().unwrap_or_default().into_bytes(),
        database: options.database.clone().unwrap_or_default().into_bytes(),
        attributes: attributes
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect(),
    };
    let mut target = Target::new(address, credentials);
    target.tls = options.tls.options();
    if options.local_infile {
        target.capabilities = target.capabilities | Capabilities::LOCAL_FILES;
    }
    target.connect_timeout = Duration::from_secs(options.connect_timeout.max(1));
    match Connection::connect(&target) {
        Err(Error::Server(error))
            if error.code == ACCESS_DENIED && given.is_none() && terminal::is_interactive() =>
        {
            let password = terminal::read_password("Password: ")?;
            target.credentials.password = password.into_bytes();
            let connection = Connection::connect(&target)?;
            Ok((target, connection))
        }
        other => Ok((target, other?)),
    }
}

/// The shell: input, and what becomes of it.
struct Shell<'o> {
    session: Session<'o>,
    splitter: Rc<RefCell<Splitter>>,
    stops_at_errors: bool,
    has_failed: bool,
    /// Whether the names for completion may have changed.
    are_names_stale: bool,
    /// Number of files that are being read.
    files: usize,
}

impl Shell<'_> {
    /// Reads statements to the end of a file or text.
    fn read(&mut self, input: &mut dyn BufRead) -> Result<Next, Failure> {
        self.splitter.borrow_mut().restart();
        let mut line = Vec::new();
        let mut pieces = Vec::new();
        loop {
            line.clear();
            let count = input
                .read_until(b'\n', &mut line)
                .map_err(|error| Failure::Input(format!("cannot read the input: {error}")))?;
            if count == 0 {
                self.splitter.borrow_mut().finish(&mut pieces);
            } else {
                self.splitter.borrow_mut().feed(&line, &mut pieces);
            }
            for piece in pieces.drain(..) {
                if self.take(piece)? == Next::Stop {
                    return Ok(Next::Stop);
                }
            }
            if count == 0 {
                return Ok(Next::Continue);
            }
        }
    }

    /// Runs a piece of input.
    fn take(&mut self, piece: Piece) -> Result<Next, Failure> {
        let (has_succeeded, next) = match piece {
            Piece::Statement {
                text,
                line,
                is_vertical,
            } => {
                let has_succeeded = self.session.run(&text, line, is_vertical)?;
                self.are_names_stale |= changes_names(&text);
                let escapes = self.session.has_backslash_escapes();
                self.splitter.borrow_mut().set_backslash_escapes(escapes);
                (has_succeeded, Next::Continue)
            }
            Piece::Command {
                name,
                argument,
                line,
            } => self.command(&name, &argument, line)?,
        };
        self.has_failed |= !has_succeeded;
        if !has_succeeded && self.stops_at_errors {
            return Ok(Next::Stop);
        }
        Ok(next)
    }

    /// Reads a terminal until the user leaves.
    fn interact(&mut self, options: &Options) -> Result<bool, Failure> {
        let failed = |error: ReadlineError| Failure::Input(format!("terminal: {error}"));
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(10_000)
            .map_err(failed)?
            .auto_add_history(false)
            .build();
        let mut editor = Editor::<Editing, DefaultHistory>::with_config(config).map_err(failed)?;
        let names = Rc::new(RefCell::new(Names::default()));
        editor.set_helper(Some(Editing {
            names: names.clone(),
            splitter: self.splitter.clone(),
        }));
        let path = history::path("sql_history", &|name| std::env::var(name).ok());
        let history = History::load(&mut editor, path.filter(|_| !options.no_history));
        self.greet()?;
        loop {
            if std::mem::take(&mut self.are_names_stale)
                && let Ok(read) = Names::read(&mut self.session)
            {
                *names.borrow_mut() = read;
            }
            let line = match editor.readline(&self.prompt()) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => {
                    self.splitter.borrow_mut().restart();
                    continue;
                }
                Err(ReadlineError::Eof) => {
                    writeln!(self.session.out(), "Bye")?;
                    self.session.out().flush()?;
                    return Ok(true);
                }
                Err(other) => return Err(failed(other)),
            };
            history.add(&mut editor, &line);
            if self.read(&mut line.as_bytes())? == Next::Stop {
                return Ok(true);
            }
        }
    }

    fn prompt(&self) -> String {
        let database = String::from_utf8_lossy(&self.session.target().credentials.database);
        let separator = if database.is_empty() { "" } else { " " };
        format!("porpoise{separator}{database}> ")
    }

    fn greet(&mut self) -> Result<(), Failure> {
        let address = self.session.target().address.clone();
        let Some(connection) = self.session.connection() else {
            return Ok(());
        };
        let tls = if connection.uses_tls() { ", TLS" } else { "" };
        let text = format!(
            "Connected to {address} (server {}, connection {}{tls}).\n\
             Statements end with ; or \\G. Type \\? for help, \\q to leave.\n",
            connection.server_version(),
            connection.id(),
        );
        let out = self.session.out();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }
}

/// Whether a statement may change the names that are completed.
fn changes_names(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text.get(..16).unwrap_or(text)).to_ascii_lowercase();
    ["create", "alter", "drop", "rename", "use"]
        .iter()
        .any(|word| text.starts_with(word))
}
