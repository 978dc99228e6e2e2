//! A connection to the server that is loaded: statements, scripts, files.

use crate::config::StartError;
use porpoise_client::mysql::{Connection, Target};
use porpoise_client::{Error, Result};
use porpoise_shell::sql::splitter::{Piece, Splitter};
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::client::result::{Event, Row, TextRow};
use std::io::{self, Read};
use std::path::Path;

/// Characters of a statement that an error quotes.
const QUOTED: usize = 80;

/// Errors of a statement that creates an object which exists: database, table, trigger, routine, event.
const EXISTS: [u16; 5] = [1007, 1050, 1359, 1304, 1537];

/// Reply to one or several statements.
#[derive(Debug, Default)]
pub struct Reply {
    /// Rows of all results as texts.
    pub rows: Vec<Vec<Option<String>>>,
    /// Rows changed by the last statement.
    pub affected: u64,
    /// Warnings of the last statement.
    pub warnings: u16,
    /// Text of the last statement's reply.
    pub info: String,
}

impl Reply {
    /// The number after a word in the reply to LOAD DATA (`Records: 3  Deleted: 0  Skipped: 1  Warnings: 1`).
    pub fn count(&self, word: &str) -> u64 {
        let mut words = self.info.split_whitespace();
        words
            .find(|found| found.strip_suffix(':') == Some(word))
            .and_then(|_| words.next())
            .and_then(|number| number.parse().ok())
            .unwrap_or(0)
    }
}

/// A failure with the word that all messages of the import begin with.
pub fn failed(what: impl std::fmt::Display) -> StartError {
    StartError::failure(format!("import: {what}"))
}

/// A logged-in connection.
pub struct Server {
    connection: Connection,
}

impl Server {
    /// Connects, and sets what the scripts and files of a dump rely on.
    ///
    /// # Errors
    /// One line.
    pub fn connect(target: &Target, is_utc: bool) -> std::result::Result<Server, StartError> {
        let mut server = Server::with_settings(
            target,
            "SET NAMES utf8mb4; SET SESSION foreign_key_checks = 0, unique_checks = 0, \
             sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
        )?;
        if is_utc {
            server.run("SET SESSION time_zone = '+00:00'")?;
        }
        Ok(server)
    }

    /// Connects, and runs statements that set the session's variables.
    ///
    /// # Errors
    /// One line.
    pub fn with_settings(
        target: &Target,
        settings: &str,
    ) -> std::result::Result<Server, StartError> {
        let capabilities = target.capabilities | Capabilities::LOCAL_FILES;
        let target = Target {
            capabilities,
            ..target.clone()
        };
        let connection = Connection::connect(&target).map_err(failed)?;
        let mut server = Server { connection };
        server.run(settings)?;
        Ok(server)
    }

    /// Passes each row of a result to `receive` as it arrives.
    ///
    /// # Errors
    /// One line; the error of `receive`, after which the connection cannot be used.
    pub fn stream(
        &mut self,
        text: &str,
        mut receive: impl FnMut(TextRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut failure = None;
        self.connection
            .query(text.as_bytes(), |event| match event {
                Event::Error(error) => {
                    failure = Some(error);
                    Ok(())
                }
                Event::Row(Row::Text(row)) => receive(row),
                _ => Ok(()),
            })?;
        failure.map_or(Ok(()), |error| Err(Error::Server(error)))
    }

    /// The first row of a result; missing cells are empty.
    ///
    /// # Errors
    /// As [`Server::run`].
    pub fn first_row<const N: usize>(
        &mut self,
        text: &str,
    ) -> std::result::Result<[String; N], StartError> {
        let mut cells = self
            .run(text)?
            .rows
            .into_iter()
            .next()
            .unwrap_or_default()
            .into_iter();
        Ok(std::array::from_fn(|_| {
            cells.next().flatten().unwrap_or_default()
        }))
    }

    /// Runs statements, and sends `file` if they load a file.
    ///
    /// # Errors
    /// The connection's or the server's.
    pub fn attempt(&mut self, text: &str, file: Option<Box<dyn Read>>) -> Result<Reply> {
        let mut reply = Reply::default();
        let (mut failure, mut file) = (None, file);
        let mut open = |_: &[u8]| file.take().ok_or_else(|| io::ErrorKind::NotFound.into());
        self.connection
            .query_with_files(text.as_bytes(), &mut open, |event| {
                match event {
                    Event::Error(error) => failure = Some(error),
                    Event::Row(Row::Text(row)) => {
                        let text = |cell: Option<&[u8]>| {
                            cell.map(|cell| String::from_utf8_lossy(cell).into_owned())
                        };
                        reply.rows.push(row.map(text).collect());
                    }
                    Event::Ok(ok) => {
                        (reply.affected, reply.warnings) = (ok.affected_rows, ok.warnings);
                        reply.info = String::from_utf8_lossy(ok.info).into_owned();
                    }
                    _ => {}
                }
                Ok::<(), Error>(())
            })?;
        failure.map_or(Ok(reply), |error| Err(Error::Server(error)))
    }

    /// Runs statements.
    ///
    /// # Errors
    /// One line with the beginning of the text.
    pub fn run(&mut self, text: &str) -> std::result::Result<Reply, StartError> {
        let result = self.attempt(text, None);
        result.map_err(|error| failed(format_args!("{error}, in: {}", beginning(text))))
    }

    /// Runs the statements of a script, if there is one. `may_exist`: an object that exists already was
    /// created by the same script before an interruption.
    ///
    /// # Errors
    /// As [`Server::run`]; the file cannot be read.
    pub fn run_script(
        &mut self,
        path: Option<&Path>,
        may_exist: bool,
    ) -> std::result::Result<(), StartError> {
        let Some(path) = path else {
            return Ok(());
        };
        let unusable = |what: &dyn std::fmt::Display| {
            StartError::usage(format!("import: {}: {what}", path.display()))
        };
        let script = std::fs::read(path).map_err(|error| unusable(&error))?;
        for statement in statements(&script).map_err(|what| unusable(&what))? {
            match self.attempt(&statement, None) {
                Ok(_) => {}
                Err(Error::Server(error)) if may_exist && EXISTS.contains(&error.code) => {}
                Err(error) => {
                    return Err(failed(format_args!(
                        "{error}, in: {}",
                        beginning(&statement)
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The beginning of a text in one line, for messages.
fn beginning(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(QUOTED).collect()
}

/// The statements of a script.
///
/// # Errors
/// A command of a shell, which a dump does not contain; a text that is not UTF-8.
pub fn statements(script: &[u8]) -> std::result::Result<Vec<String>, &'static str> {
    let (mut splitter, mut pieces) = (Splitter::default(), Vec::new());
    for line in script.split_inclusive(|byte| *byte == b'\n') {
        splitter.feed(line, &mut pieces);
    }
    splitter.finish(&mut pieces);
    let statement = |piece| match piece {
        Piece::Statement { text, .. } => String::from_utf8(text).map_err(|_| "is not UTF-8"),
        Piece::Command { name, argument, .. } if name == "use" => Ok(format!("USE {argument}")),
        Piece::Command { .. } => Err("contains a command of a shell"),
    };
    pieces.into_iter().map(statement).collect()
}

/// A name in backquotes.
pub fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text literal.
pub fn literal(text: &str) -> String {
    let mut escaped = String::from("'");
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\'' => escaped.push_str("''"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\0' => escaped.push_str("\\0"),
            c => escaped.push(c),
        }
    }
    escaped.push('\'');
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_divided_into_statements() {
        let script = "CREATE DATABASE s;\nUSE `s`;\nDELIMITER ;;\nCREATE PROCEDURE p()\nBEGIN\n  SELECT \
                      1;\nEND ;;\nDELIMITER ;\n/*!50001 DROP VIEW v */;\n-- the end\n";
        assert_eq!(
            statements(script.as_bytes()).unwrap(),
            [
                "CREATE DATABASE s",
                "USE `s`",
                "CREATE PROCEDURE p()\nBEGIN\n  SELECT 1;\nEND",
                "/*!50001 DROP VIEW v */"
            ]
        );
        assert!(statements(b"source /etc/passwd\n").is_err());
        assert!(statements(b"SELECT '\xff';\n").is_err());
    }

    #[test]
    fn counts_are_those_after_their_words() {
        let reply = Reply {
            info: "Records: 3  Deleted: 0  Skipped: 1  Warnings: 2".to_owned(),
            ..Reply::default()
        };
        assert_eq!(
            ["Records", "Skipped", "Other"].map(|word| reply.count(word)),
            [3, 1, 0]
        );
    }
}
