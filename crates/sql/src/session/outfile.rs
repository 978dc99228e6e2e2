//! SELECT ... INTO OUTFILE and INTO DUMPFILE (manual, "SELECT ... INTO Statement").
//!
//! The rows of the result go to a new file in the directory of `secure_file_priv` as they are
//! produced. The file is removed if the statement fails, and emptied if the statement runs again.
//!
//! Rules of OUTFILE, as in MySQL: with an escape character, NULL is written as that character and
//! `N`, and these are escaped: the escape character, the enclosure, the first byte of the field
//! terminator outside of enclosures, the first byte of the line terminator, and NUL (as `0`).
//! Without one nothing is escaped, and NULL is the word `NULL`.

use super::load::{file_directory, outside_of_directory};
use super::{Outcome, SqlSession};
use porpoise_base::blocking::blocking;
use porpoise_base::statement_file::{NewFile, create_within};
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{FileFormat, Ident, Query, Statement};
use porpoise_sql_plan::bind::nodes::charset_named;
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_sql_plan::plan::load::line_format;
use porpoise_sql_plan::plan::sinks::LineFormat;
use porpoise_types::text::write_text;
use porpoise_types::{Charset, ColumnType, Kind, Level, SqlMode, ValueRef, Warning};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Number of bytes that are collected before they are written.
const CHUNK: usize = 256 * 1024;

/// Bytes that are digits of numbers: an unquoted number cannot be told from such a delimiter.
const NUMERIC: &[u8] = b".0123456789e+-";

/// Letters that have a meaning after an escape character.
const ESCAPE_LETTERS: &[u8] = b"ntrb0ZN";

/// The form of the file.
enum FileForm {
    /// Lines with delimited fields.
    Lines(LineWriter),
    /// The values of the only row, without delimiters.
    Dump,
}

/// Writes rows as lines.
struct LineWriter {
    format: LineFormat,
    /// Whether only strings are enclosed.
    optionally: bool,
    /// Character set of texts; `None` for that of each column.
    charset: Option<Charset>,
    /// Whether the enclosure, or without one the field terminator, begins with a letter that has
    /// a meaning after an escape character. An enclosure is doubled then instead of escaped.
    ambiguous_separator: bool,
    /// The same of the field terminator. It is not escaped then outside of enclosures.
    ambiguous_terminator: bool,
}

impl LineWriter {
    fn new(
        given: &FileFormat<'_>,
        charset: Option<Ident<'_>>,
        mode: SqlMode,
    ) -> Result<LineWriter> {
        let format = line_format(given, mode)?;
        let first = format.field_end.first().copied();
        let separator = format.enclosure.or(first);
        let is_escape_letter = |b: Option<u8>| b.is_some_and(|b| ESCAPE_LETTERS.contains(&b));
        Ok(LineWriter {
            optionally: given.optionally,
            charset: charset.map(|name| charset_named(name.name)).transpose()?,
            ambiguous_separator: is_escape_letter(separator),
            ambiguous_terminator: is_escape_letter(first),
            format,
        })
    }

    /// Whether a reader of the file may confuse the field terminator with a part of a value
    /// (warning 1475).
    fn is_ambiguous(&self, columns: &[ColumnType]) -> bool {
        let has_strings = columns.iter().any(is_string);
        let has_numbers = columns.iter().any(|ty| !is_string(ty));
        let first = self.format.field_end.first();
        let separator = self.format.enclosure.as_ref().or(first);
        let looks_numeric = |byte: Option<&u8>| byte.is_some_and(|b| NUMERIC.contains(b));
        let unenclosed = self.ambiguous_separator
            && self.format.enclosure.is_none()
            && (has_strings || looks_numeric(separator));
        let opt_enclosed = self.optionally || self.format.enclosure.is_none();
        unenclosed || opt_enclosed && has_numbers && looks_numeric(first)
    }

    fn line(&self, values: &[ValueRef<'_>], types: &[ColumnType], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.format.line_start);
        let mut text = Vec::new();
        for (n, (value, ty)) in values.iter().zip(types).enumerate() {
            if n > 0 {
                out.extend_from_slice(&self.format.field_end);
            }
            if *value == ValueRef::Null {
                match self.format.escape {
                    Some(escape) => out.extend_from_slice(&[escape, b'N']),
                    None => out.extend_from_slice(b"NULL"),
                }
                continue;
            }
            text.clear();
            write_value(*value, ty, self.charset, &mut text);
            let enclosure = self.format.enclosure;
            let enclosure = enclosure.filter(|_| !self.optionally || is_string(ty));
            out.extend(enclosure);
            self.field(&text, ty, enclosure.is_some(), out);
            out.extend(enclosure);
        }
        let line_end = match self.format.line_end.as_slice() {
            [] => &self.format.field_end,
            given => given,
        };
        out.extend_from_slice(line_end);
    }

    /// Appends the text of a field with its escapes.
    fn field(&self, text: &[u8], ty: &ColumnType, is_enclosed: bool, out: &mut Vec<u8>) {
        let format = &self.format;
        let terminator = format.field_end.first().copied();
        let separator = format.enclosure.or(terminator);
        let is_numeric = separator.is_some_and(|b| NUMERIC.contains(&b));
        let Some(escape) = format.escape.filter(|_| is_string(ty) || is_numeric) else {
            out.extend_from_slice(text);
            return;
        };
        let line_end = match format.line_end.first() {
            Some(byte) => Some(*byte),
            None => terminator,
        };
        let delimiter = if is_enclosed { separator } else { terminator };
        for &byte in text {
            let some = Some(byte);
            let stays = !is_enclosed && some == terminator && self.ambiguous_terminator;
            let is_special = byte == escape || some == delimiter || some == line_end || byte == 0;
            if is_special && !stays {
                let doubled = some == separator && self.ambiguous_separator;
                out.push(if doubled { byte } else { escape });
            }
            out.push(if byte == 0 { b'0' } else { byte });
        }
    }
}

/// Whether values of the type are strings to clients: all but numbers are.
fn is_string(ty: &ColumnType) -> bool {
    !ty.is_numeric()
}

/// Appends a value's text; texts in `charset`, or in their own character set.
fn write_value(value: ValueRef<'_>, ty: &ColumnType, charset: Option<Charset>, out: &mut Vec<u8>) {
    let start = out.len();
    write_text(value, ty, out);
    let from = ty.collation.charset();
    let textual = ty.is_string() || matches!(ty.kind, Kind::Enum | Kind::Set | Kind::Json);
    if !textual || from == Charset::Binary {
        return;
    }
    let text = out.split_off(start);
    match charset {
        Some(to) if to != Charset::Binary => {
            let (converted, _) = from.convert(to, &text);
            out.extend_from_slice(&to.encoded(&converted));
        }
        _ => out.extend_from_slice(&from.encoded(&text)),
    }
}

/// The file as the destination of a result.
struct OutFile<'p> {
    path: &'p [u8],
    form: FileForm,
    directory: String,
    file: Option<NewFile>,
    types: Vec<ColumnType>,
    buffer: Vec<u8>,
    rows: u64,
    is_ambiguous: bool,
}

impl OutFile<'_> {
    fn name(&self) -> String {
        String::from_utf8_lossy(self.path).into_owned()
    }

    fn create(&self) -> Result<NewFile> {
        let path = Path::new(OsStr::from_bytes(self.path));
        match blocking(|| create_within(Path::new(&self.directory), path)) {
            Ok(Some(file)) => Ok(file),
            Ok(None) => Err(outside_of_directory()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let text = format!("File '{}' already exists", self.name());
                Err(SqlError::new(1086, "HY000", text))
            }
            Err(error) => Err(self.failed(1, "Can't create/write to file", &error)),
        }
    }

    fn failed(&self, code: u16, what: &str, error: &io::Error) -> SqlError {
        let number = error.raw_os_error().unwrap_or(0);
        let text = format!("{what} '{}' (OS errno {number} - {error})", self.name());
        SqlError::new(code, "HY000", text)
    }

    /// Writes the collected bytes.
    fn flush(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let Some(file) = &mut self.file else {
            return Err(SqlError::internal("no file"));
        };
        let written = blocking(|| file.append(&buffer));
        written.map_err(|e| self.failed(3, "Error writing file", &e))?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }
}

impl ResultSink for OutFile<'_> {
    fn is_for_client(&self) -> bool {
        false
    }

    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.types = columns.iter().map(|c| c.ty.clone()).collect();
        self.is_ambiguous = match &self.form {
            FileForm::Lines(lines) => lines.is_ambiguous(&self.types),
            FileForm::Dump => false,
        };
        self.rows = 0;
        self.buffer.clear();
        match &mut self.file {
            None => self.file = Some(self.create()?),
            Some(file) => {
                let cleared = blocking(|| file.clear());
                cleared.map_err(|e| self.failed(3, "Error writing file", &e))?;
            }
        }
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        match &self.form {
            FileForm::Lines(lines) => lines.line(values, &self.types, &mut self.buffer),
            FileForm::Dump if self.rows > 0 => {
                let text = "Result consisted of more than one row";
                return Err(SqlError::new(1172, "42000", text));
            }
            FileForm::Dump => {
                for (value, ty) in values.iter().zip(&self.types) {
                    write_value(*value, ty, None, &mut self.buffer);
                }
            }
        }
        self.rows += 1;
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(())
    }
}

impl SqlSession {
    /// Runs a query whose rows go to the lines of a new file.
    pub(super) fn select_into_outfile(
        &mut self,
        query: &QueryText<'_>,
        path: &[u8],
        charset: Option<Ident<'_>>,
        format: &FileFormat<'_>,
    ) -> Result<Outcome> {
        let lines = LineWriter::new(format, charset, self.cx.settings.mode)?;
        self.write_result(query, path, FileForm::Lines(lines))
    }

    /// Runs a query whose only row goes to a new file.
    pub(super) fn select_into_dumpfile(
        &mut self,
        query: &QueryText<'_>,
        path: &[u8],
    ) -> Result<Outcome> {
        self.write_result(query, path, FileForm::Dump)
    }

    fn write_result(
        &mut self,
        query: &QueryText<'_>,
        path: &[u8],
        form: FileForm,
    ) -> Result<Outcome> {
        let mut out = OutFile {
            path,
            form,
            directory: file_directory(&self.cx)?,
            file: None,
            types: Vec::new(),
            buffer: Vec::new(),
            rows: 0,
            is_ambiguous: false,
        };
        let statement = Statement::Query(query.query);
        let mut outcome =
            self.run_statement(&statement, query.text, query.values, query.types, &mut out)?;
        out.flush()?;
        if out.is_ambiguous {
            self.cx.env.warn(Warning {
                level: Level::Warning,
                code: 1475,
                message: "First character of the FIELDS TERMINATED string is ambiguous; please \
                          use non-optional and non-empty FIELDS ENCLOSED BY"
                    .to_owned(),
            });
        }
        if let Some(file) = out.file.take() {
            file.keep();
        }
        outcome.had_rows = false;
        outcome.affected_rows = out.rows;
        Ok(outcome)
    }
}

/// A query without its INTO, and its parameters.
pub(super) struct QueryText<'q> {
    /// The query.
    pub(super) query: &'q Query<'q>,
    /// The statement's text.
    pub(super) text: &'q [u8],
    /// Values of parameters.
    pub(super) values: &'q [ValueRef<'q>],
    /// Types of parameters.
    pub(super) types: &'q [ColumnType],
}
