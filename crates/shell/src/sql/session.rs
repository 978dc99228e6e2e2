//! A session of the shell: its connection, and statements with their results.

use super::format::{Column, Format, Printer};
use crate::Failure;
use crate::interrupt::Interrupt;
use porpoise_client::mysql::{Connection, Target};
use porpoise_wire::mysql::Status;
use porpoise_wire::mysql::capability::type_code as t;
use porpoise_wire::mysql::client::result::{ColumnInfo, Event, OkReply, Row};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// Settings of the user, which may change during the session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Form of results.
    pub format: Format,
    /// Whether results have the names of their columns.
    pub has_names: bool,
    /// Whether a line after each result shows rows and time.
    pub has_summaries: bool,
    /// Whether warnings are shown after each statement.
    pub shows_warnings: bool,
}

/// A session.
pub struct Session<'o> {
    target: Target,
    connection: Option<Connection>,
    interrupt: Interrupt,
    out: &'o mut dyn Write,
    /// Settings.
    pub settings: Settings,
}

/// A result while its packets arrive.
struct Progress<'p> {
    settings: &'p Settings,
    format: Format,
    out: &'p mut dyn Write,
    start: Instant,
    columns: Vec<Column>,
    left: usize,
    printer: Option<Printer>,
    warnings: u16,
    /// The default database, if the server has reported a change.
    database: Option<Vec<u8>>,
    error: Option<porpoise_client::Error>,
}

impl<'o> Session<'o> {
    /// A session over an open connection.
    pub fn new(
        target: Target,
        connection: Connection,
        interrupt: Interrupt,
        settings: Settings,
        out: &'o mut dyn Write,
    ) -> Session<'o> {
        Session {
            target,
            connection: Some(connection),
            interrupt,
            out,
            settings,
        }
    }

    /// The connection, unless it is lost.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    /// The output.
    pub fn out(&mut self) -> &mut dyn Write {
        self.out
    }

    /// The target, with the database in use.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the server reads backslashes in texts as escapes.
    pub fn has_backslash_escapes(&self) -> bool {
        let status = self.connection.as_ref().map(Connection::status);
        !status.is_some_and(|status| status.has(Status::NO_BACKSLASH_ESCAPES))
    }

    /// Connects again, with the database in use.
    ///
    /// # Errors
    /// The connection's.
    pub fn reconnect(&mut self) -> Result<(), Failure> {
        self.connection = None;
        self.connection = Some(Connection::connect(&self.target)?);
        Ok(())
    }

    /// Selects a default database. Returns whether that succeeded.
    ///
    /// # Errors
    /// As of [`Session::run`].
    pub fn select_database(&mut self, name: &str, line: u64) -> Result<bool, Failure> {
        let name = name.trim_matches('`');
        let statement = format!("USE `{}`", name.replace('`', "``"));
        let before = self.settings.has_summaries;
        self.settings.has_summaries = false;
        let result = self.run(statement.as_bytes(), line, false);
        self.settings.has_summaries = before;
        let has_succeeded = result?;
        if has_succeeded {
            self.target.credentials.database = name.as_bytes().to_vec();
            if before {
                writeln!(self.out, "Database changed")?;
            }
        }
        Ok(has_succeeded)
    }

    /// Runs a statement, prints its results, and its error, if any, to standard error. Returns whether it
    /// succeeded.
    ///
    /// # Errors
    /// The output's. A lost connection is reported like an error of the server.
    pub fn run(&mut self, text: &[u8], line: u64, is_vertical: bool) -> Result<bool, Failure> {
        if self.connection.is_none() {
            eprintln!("connecting again; the former session's state is lost");
            if let Err(error) = self.reconnect() {
                eprintln!("{error}");
                return Ok(false);
            }
        }
        let Some(connection) = self.connection.as_mut() else {
            return Ok(false);
        };
        let mut progress = Progress {
            settings: &self.settings,
            format: if is_vertical {
                Format::Vertical
            } else {
                self.settings.format
            },
            out: self.out,
            start: Instant::now(),
            columns: Vec::new(),
            left: 0,
            printer: None,
            warnings: 0,
            database: None,
            error: None,
        };
        self.interrupt.begin(&self.target, connection.id());
        let mut open = |name: &[u8]| {
            let file = File::open(OsStr::from_bytes(name))?;
            Ok(Box::new(file) as Box<dyn Read>)
        };
        let result = connection.query_with_files(text, &mut open, |event| progress.take(event));
        self.interrupt.end();
        let (warnings, error) = (progress.warnings, progress.error.take());
        if let Some(database) = progress.database.take() {
            self.target.credentials.database = database;
        }
        self.out.flush()?;
        match result {
            Ok(()) => {}
            Err(Failure::Client(error)) => {
                if error.is_fatal() {
                    self.connection = None;
                }
                report(&error, line);
                return Ok(false);
            }
            Err(other) => return Err(other),
        }
        if let Some(error) = error {
            report(&error, line);
            return Ok(false);
        }
        if warnings > 0 && self.settings.shows_warnings {
            self.show_warnings()?;
        }
        Ok(true)
    }

    fn show_warnings(&mut self) -> Result<(), Failure> {
        for row in self.values("SHOW WARNINGS")? {
            if let [level, code, text] = row.as_slice() {
                writeln!(self.out, "{level} (Code {code}): {text}")?;
            }
        }
        self.out.flush()?;
        Ok(())
    }

    /// The rows of a statement of the shell itself; none if it fails.
    ///
    /// # Errors
    /// None but the connection's.
    pub fn values(&mut self, statement: &str) -> Result<Vec<Vec<String>>, Failure> {
        let mut rows = Vec::new();
        let Some(connection) = self.connection.as_mut() else {
            return Ok(rows);
        };
        let result = connection.query(statement.as_bytes(), |event| {
            if let Event::Row(Row::Text(row)) = event {
                rows.push(row.map(super::format::shown).collect());
            }
            Ok::<(), Failure>(())
        });
        if result.is_err() {
            self.connection = None;
        }
        result.map(|()| rows)
    }
}

/// Prints an error with the line of its statement, as MySQL's client does.
fn report(error: &porpoise_client::Error, line: u64) {
    match error {
        porpoise_client::Error::Server(error) => eprintln!(
            "ERROR {} ({}) at line {line}: {}",
            error.code,
            String::from_utf8_lossy(&error.sqlstate),
            super::format::shown(Some(error.message.as_bytes())),
        ),
        other => eprintln!("ERROR at line {line}: {other}"),
    }
}

impl Progress<'_> {
    fn take(&mut self, event: Event<'_, '_>) -> Result<(), Failure> {
        match event {
            Event::Columns(count) => {
                self.left = count;
                self.columns.clear();
            }
            Event::Column(info) => {
                self.columns.push(column(&info));
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    let columns = std::mem::take(&mut self.columns);
                    let names = self.settings.has_names;
                    self.printer = Some(Printer::new(self.format, names, columns));
                }
            }
            // Files are sent by the client.
            Event::EndOfColumns | Event::Row(Row::Binary(_)) | Event::FileRequest(_) => {}
            Event::Row(Row::Text(row)) => {
                if let Some(printer) = &mut self.printer {
                    printer.row(row, self.out)?;
                }
            }
            Event::End(reply) => {
                self.warnings = reply.warnings;
                if let Some(mut printer) = self.printer.take() {
                    printer.end(self.out)?;
                    self.summarize_rows(printer.rows(), &reply)?;
                }
                self.start = Instant::now();
            }
            Event::Ok(reply) => {
                self.warnings = reply.warnings;
                if let Some(database) = changed_schema(reply.changes) {
                    self.database = Some(database.to_vec());
                }
                self.summarize_change(&reply)?;
                self.start = Instant::now();
            }
            Event::Error(error) => {
                if let Some(mut printer) = self.printer.take() {
                    printer.end(self.out)?;
                }
                self.error = Some(porpoise_client::Error::Server(error));
            }
        }
        Ok(())
    }

    fn summarize_rows(&mut self, rows: u64, reply: &OkReply<'_>) -> Result<(), Failure> {
        if !self.settings.has_summaries {
            return Ok(());
        }
        let result = match rows {
            0 => "Empty set".to_owned(),
            1 => "1 row in set".to_owned(),
            _ => format!("{rows} rows in set"),
        };
        self.summarize(&result, reply)
    }

    fn summarize_change(&mut self, reply: &OkReply<'_>) -> Result<(), Failure> {
        if !self.settings.has_summaries {
            return Ok(());
        }
        let rows = if reply.affected_rows == 1 {
            "row"
        } else {
            "rows"
        };
        let result = format!("Query OK, {} {rows} affected", reply.affected_rows);
        self.summarize(&result, reply)?;
        if !reply.info.is_empty() {
            let info = super::format::shown(Some(reply.info));
            writeln!(self.out, "{info}")?;
        }
        Ok(())
    }

    fn summarize(&mut self, result: &str, reply: &OkReply<'_>) -> Result<(), Failure> {
        let warnings = match reply.warnings {
            0 => String::new(),
            1 => ", 1 warning".to_owned(),
            n => format!(", {n} warnings"),
        };
        let time = seconds(self.start.elapsed());
        writeln!(self.out, "{result}{warnings} ({time})")?;
        Ok(())
    }
}

/// The default database in the changes of session state that an OK packet reports: a type, a length and, for
/// a schema (1), a text with its length. Names are shorter than 251 bytes, so that a length is one byte.
fn changed_schema(mut changes: &[u8]) -> Option<&[u8]> {
    while let [kind, length, rest @ ..] = changes {
        let (data, after) = rest.split_at_checked(usize::from(*length))?;
        if *kind == 1 {
            return data.get(1..);
        }
        changes = after;
    }
    None
}

/// A duration as MySQL's client writes it, with milliseconds.
fn seconds(time: Duration) -> String {
    format!("{:.3} sec", time.as_secs_f64())
}

fn column(info: &ColumnInfo<'_>) -> Column {
    let is_number = matches!(
        info.code,
        t::DECIMAL
            | t::TINY
            | t::SHORT
            | t::LONG
            | t::FLOAT
            | t::DOUBLE
            | t::LONGLONG
            | t::INT24
            | t::YEAR
            | t::NEWDECIMAL
    );
    Column {
        name: String::from_utf8_lossy(info.name).into_owned(),
        is_number,
        is_json: info.code == t::JSON,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_schema_is_found_among_others() {
        assert_eq!(
            changed_schema(b"\0\x02\x01a\x01\x05\x04shop"),
            Some(&b"shop"[..])
        );
        assert_eq!(changed_schema(b"\x02\x02\x011"), None);
        assert_eq!(changed_schema(b"\x01\xff"), None);
        assert_eq!(changed_schema(b""), None);
    }
}
