//! The shells: `porpoise sql` for statements ([`sql`]), and `porpoise mc` for memcached commands ([`mc`]).
//!
//! Both read a terminal, standard input or their arguments, and print results for people or for programs.
//! They use the protocols only, so they work with MySQL, MariaDB and memcached, too.
//!
//! Invariants:
//! 1. A password is neither echoed, nor recorded in the history, nor taken from the command line, where other
//!    users of the machine could read it.
//! 2. What a server sends cannot control the terminal: control characters are escaped in the formats for people.
//! 3. Memory does not grow with a result, except for the rows of a table that its widths are computed from
//!    (at most 1,000, and few megabytes).

#![deny(unsafe_code)]

mod history;
mod interrupt;
pub mod mc;
mod options;
pub mod sql;
mod terminal;

pub use options::TlsArgs;

use std::io;
use std::process::ExitCode;

/// Ends a shell: exit status by the result.
fn exit(result: Result<bool, Failure>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("porpoise: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reason why a shell cannot continue.
#[derive(Debug)]
enum Failure {
    /// The connection, or the login.
    Client(porpoise_client::Error),
    /// Standard output.
    Output(io::Error),
    /// A file or a terminal, with what was to be done.
    Input(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Client(error) => error.fmt(f),
            Failure::Output(error) => write!(f, "cannot write the output: {error}"),
            Failure::Input(what) => f.write_str(what),
        }
    }
}

impl From<porpoise_client::Error> for Failure {
    fn from(error: porpoise_client::Error) -> Failure {
        Failure::Client(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}
