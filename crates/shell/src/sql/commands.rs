//! Commands of the shell itself, which begin with a backslash or are words at the beginning of a line.

use super::format::Format;
use super::{MOST_FILES, Shell};
use crate::Failure;
use clap::ValueEnum;
use std::fs::File;
use std::io::BufReader;

/// Continuation after a command or statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More input.
    Continue,
    /// The end of the shell.
    Stop,
}

const HELP: &str = "\
Statements end with ; (see DELIMITER), \\g, or \\G for one line per column.
  \\?  help               this text
  \\q  quit, exit         leave (Ctrl-D, too)
  \\c                     clear what has been typed (Ctrl-C, too; during a statement Ctrl-C ends it)
  \\u  use DATABASE       select a default database
  \\s  status             server, account, connection
  \\.  source FILE        run the statements of a file
  \\d  delimiter TEXT     end statements with TEXT, for definitions of programs
  \\f FORMAT              table, vertical, tsv, csv, json or markdown
  \\t                     print rows and time after statements, or not
  \\w                     show warnings after statements, or not
  \\r                     connect again
  \\#                     read the names for completion again (Tab completes)
";

impl Shell<'_> {
    /// Runs a command. Returns whether it succeeded, and what follows.
    pub(super) fn command(
        &mut self,
        name: &str,
        argument: &str,
        line: u64,
    ) -> Result<(bool, Next), Failure> {
        let has_succeeded = match name {
            "q" | "quit" | "exit" => return Ok((true, Next::Stop)),
            "?" | "h" | "help" => self.print(HELP)?,
            "u" | "use" => {
                self.are_names_stale = true;
                self.session.select_database(argument, line)?
            }
            "s" | "status" => self.status()?,
            "." | "source" => return self.source(argument, line),
            "f" => self.set_format(argument, line),
            "t" => self.toggle_summaries()?,
            "w" => self.toggle_warnings()?,
            "r" => match self.session.reconnect() {
                Ok(()) => true,
                Err(error) => {
                    eprintln!("{error}");
                    false
                }
            },
            "#" => {
                self.are_names_stale = true;
                true
            }
            "clear" => true,
            _ => {
                eprintln!("ERROR at line {line}: unknown command \\{name}; \\? lists the commands");
                false
            }
        };
        Ok((has_succeeded, Next::Continue))
    }

    fn print(&mut self, text: &str) -> Result<bool, Failure> {
        let out = self.session.out();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(true)
    }

    fn status(&mut self) -> Result<bool, Failure> {
        let target = self.session.target().clone();
        let rows = self.session.values(
            "SELECT CURRENT_USER(), COALESCE(DATABASE(), ''), @@version, @@version_comment, CONNECTION_ID()",
        )?;
        let uses_tls = self.session.connection().is_some_and(|c| c.uses_tls());
        let Some([account, database, version, comment, id]) = rows.first().map(Vec::as_slice)
        else {
            eprintln!("not connected");
            return Ok(false);
        };
        let tls = if uses_tls { "in use" } else { "not in use" };
        self.print(&format!(
            "Server:     {} ({version}, {comment})\nAccount:    {account}\nDatabase:   {database}\n\
             Connection: {id}\nTLS:        {tls}\n",
            target.address
        ))
    }

    fn source(&mut self, path: &str, line: u64) -> Result<(bool, Next), Failure> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) => {
                eprintln!("ERROR at line {line}: {path}: {error}");
                return Ok((false, Next::Continue));
            }
        };
        if self.files >= MOST_FILES {
            eprintln!("ERROR at line {line}: {path}: files name each other too deeply");
            return Ok((false, Next::Continue));
        }
        // The file that names this one goes on after it, with its own lines and delimiter.
        let before = self.splitter.borrow().clone();
        let had_failed = std::mem::take(&mut self.has_failed);
        self.files += 1;
        let next = self.read(&mut BufReader::new(file));
        self.files -= 1;
        *self.splitter.borrow_mut() = before;
        let has_succeeded = !self.has_failed;
        self.has_failed |= had_failed;
        Ok((has_succeeded, next?))
    }

    fn set_format(&mut self, word: &str, line: u64) -> bool {
        match Format::from_str(word, true) {
            Ok(format) => {
                self.session.settings.format = format;
                true
            }
            Err(_) => {
                eprintln!(
                    "ERROR at line {line}: \\f table, vertical, tsv, csv, json or markdown, not {word:?}"
                );
                false
            }
        }
    }

    fn toggle_summaries(&mut self) -> Result<bool, Failure> {
        let on = !self.session.settings.has_summaries;
        self.session.settings.has_summaries = on;
        self.print(if on {
            "Rows and times are printed.\n"
        } else {
            ""
        })
    }

    fn toggle_warnings(&mut self) -> Result<bool, Failure> {
        let on = !self.session.settings.shows_warnings;
        self.session.settings.shows_warnings = on;
        self.print(if on { "Warnings are shown.\n" } else { "" })
    }
}
