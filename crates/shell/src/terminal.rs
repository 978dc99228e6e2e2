//! The terminal: whether there is one, and passwords without echo.

use crate::Failure;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Write};

/// Whether a person reads the prompts and types the input.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Switches echo off until it is dropped.
struct Silence {
    terminal: File,
    before: Termios,
}

impl Drop for Silence {
    fn drop(&mut self) {
        // What has been typed after the password stays. There is nothing to do about a failure.
        let _ = tcsetattr(&self.terminal, SetArg::TCSADRAIN, &self.before);
    }
}

/// Asks for a password at the terminal of the process.
///
/// # Errors
/// There is no terminal.
pub fn read_password(prompt: &str) -> Result<String, Failure> {
    let failed = |what: String| Failure::Input(format!("cannot ask for the password: {what}"));
    let mut terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .map_err(|error| failed(error.to_string()))?;
    let before = tcgetattr(&terminal).map_err(|error| failed(error.to_string()))?;
    let mut silent = before.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    let keep = terminal
        .try_clone()
        .map_err(|error| failed(error.to_string()))?;
    let silence = Silence {
        terminal: keep,
        before,
    };
    tcsetattr(&terminal, SetArg::TCSAFLUSH, &silent).map_err(|error| failed(error.to_string()))?;
    let mut ask = || -> io::Result<String> {
        terminal.write_all(prompt.as_bytes())?;
        let mut line = String::new();
        BufReader::new(&terminal).read_line(&mut line)?;
        (&terminal).write_all(b"\n")?;
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    };
    let password = ask().map_err(|error| failed(error.to_string()));
    drop(silence);
    password
}
