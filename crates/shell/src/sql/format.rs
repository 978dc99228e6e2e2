//! Results as text: tables, columns below each other, and forms for programs.
//!
//! The formats for people escape control characters, so that no value can control the terminal. Bytes that are
//! no text are written in hexadecimal everywhere but in `tsv`, which keeps them as MySQL's client does.

use clap::ValueEnum;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Rows that the widths of a table are computed from; longer values after them stand out.
pub const SAMPLE_ROWS: usize = 1000;

/// Bytes of these rows at most.
const SAMPLE_BYTES: usize = 4 << 20;

/// Form of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table with borders
    Table,
    /// One line for each column
    Vertical,
    /// Values separated by tabs, special characters escaped
    Tsv,
    /// Comma-separated values (RFC 4180); NULL is empty, an empty text is ""
    Csv,
    /// An array of objects for each result
    Json,
    /// A table of Markdown
    Markdown,
}

/// Definition of a column, as far as formats depend on it.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Whether its values are numbers.
    pub is_number: bool,
    /// Whether its values are JSON.
    pub is_json: bool,
}

/// A value of a row; `None` for NULL.
type Cell<'a> = Option<&'a [u8]>;

/// Writer of one result.
#[derive(Debug)]
pub struct Printer {
    format: Format,
    has_names: bool,
    columns: Vec<Column>,
    /// Rows of a table whose widths are not known yet.
    sample: Vec<Vec<String>>,
    /// Length of the values of these rows.
    sample_bytes: usize,
    /// Widths of a table's columns, once its head is written.
    widths: Option<Vec<usize>>,
    rows: u64,
}

impl Printer {
    /// A writer of a result with these columns. `has_names`: whether the names of columns are written.
    pub fn new(format: Format, has_names: bool, columns: Vec<Column>) -> Printer {
        Printer {
            format,
            has_names,
            columns,
            sample: Vec::new(),
            sample_bytes: 0,
            widths: None,
            rows: 0,
        }
    }

    /// Number of rows written.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes a row.
    ///
    /// # Errors
    /// The output's.
    pub fn row<'a>(
        &mut self,
        cells: impl Iterator<Item = Cell<'a>>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if self.rows == 0 {
            self.head(out)?;
        }
        self.rows += 1;
        match self.format {
            Format::Table => self.table_row(cells.map(shown).collect(), out),
            Format::Vertical => self.vertical_row(cells, out),
            Format::Tsv => separated(cells, b"\t", put_tsv, out),
            Format::Csv => separated(cells, b",", put_csv, out),
            Format::Json => self.json_row(cells, out),
            Format::Markdown => markdown_row(cells, out),
        }
    }

    /// Writes what precedes the rows.
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let names = || {
            self.columns
                .iter()
                .map(|column| Some(column.name.as_bytes()))
        };
        match self.format {
            Format::Table | Format::Vertical => Ok(()),
            Format::Json => out.write_all(b"["),
            Format::Tsv if self.has_names => separated(names(), b"\t", put_tsv, out),
            Format::Csv if self.has_names => separated(names(), b",", put_csv, out),
            Format::Tsv | Format::Csv => Ok(()),
            Format::Markdown => {
                markdown_row(names(), out)?;
                out.write_all(b"|")?;
                for column in &self.columns {
                    out.write_all(if column.is_number {
                        b" ---: |"
                    } else {
                        b" --- |"
                    })?;
                }
                out.write_all(b"\n")
            }
        }
    }

    /// Writes what follows the rows.
    ///
    /// # Errors
    /// The output's.
    pub fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.format {
            Format::Table if self.rows > 0 => {
                self.flush_sample(out)?;
                self.border(out)
            }
            Format::Json if self.rows == 0 => out.write_all(b"[]\n"),
            Format::Json => out.write_all(b"\n]\n"),
            Format::Csv | Format::Markdown if self.rows == 0 => self.head(out),
            _ => Ok(()),
        }
    }

    fn table_row(&mut self, cells: Vec<String>, out: &mut dyn Write) -> io::Result<()> {
        if self.widths.is_some() {
            return self.bordered(&cells, out);
        }
        self.sample_bytes += cells.iter().map(String::len).sum::<usize>();
        self.sample.push(cells);
        if self.sample.len() >= SAMPLE_ROWS || self.sample_bytes >= SAMPLE_BYTES {
            self.flush_sample(out)?;
        }
        Ok(())
    }

    /// Computes the widths, and writes the head and the rows that are kept.
    fn flush_sample(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.widths.is_some() {
            return Ok(());
        }
        let sample = std::mem::take(&mut self.sample);
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|column| shown(Some(column.name.as_bytes())))
            .collect();
        let mut widths: Vec<usize> = names
            .iter()
            .map(|name| if self.has_names { name.width() } else { 0 })
            .collect();
        for row in &sample {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        self.widths = Some(widths);
        self.border(out)?;
        if self.has_names {
            self.aligned(&names, |_| false, out)?;
            self.border(out)?;
        }
        for row in &sample {
            self.bordered(row, out)?;
        }
        Ok(())
    }

    fn bordered(&self, cells: &[String], out: &mut dyn Write) -> io::Result<()> {
        self.aligned(cells, |column| column.is_number, out)
    }

    fn aligned(
        &self,
        cells: &[String],
        is_right: impl Fn(&Column) -> bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let widths = self.widths.as_deref().unwrap_or_default();
        out.write_all(b"|")?;
        for ((cell, column), width) in cells.iter().zip(&self.columns).zip(widths) {
            let space = " ".repeat(width.saturating_sub(cell.width()));
            if is_right(column) {
                write!(out, " {space}{cell} |")?;
            } else {
                write!(out, " {cell}{space} |")?;
            }
        }
        out.write_all(b"\n")
    }

    fn border(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"+")?;
        for width in self.widths.as_deref().unwrap_or_default() {
            write!(out, "{}+", "-".repeat(width + 2))?;
        }
        out.write_all(b"\n")
    }

    fn vertical_row<'a>(
        &self,
        cells: impl Iterator<Item = Cell<'a>>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let stars = "*".repeat(27);
        writeln!(out, "{stars} {}. row {stars}", self.rows)?;
        let names = self
            .columns
            .iter()
            .map(|column| shown(Some(column.name.as_bytes())));
        let names: Vec<String> = names.collect();
        let width = names.iter().map(|name| name.width()).max().unwrap_or(0);
        for (name, cell) in names.iter().zip(cells) {
            let space = " ".repeat(width - name.width());
            // Line ends are kept: a definition is read best as it was written.
            let text = shown_keeping(cell, |c| c == '\n' || c == '\t');
            if self.has_names {
                write!(out, "{space}{name}: ")?;
            }
            writeln!(out, "{text}")?;
        }
        Ok(())
    }

    fn json_row<'a>(
        &self,
        cells: impl Iterator<Item = Cell<'a>>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        out.write_all(if self.rows == 1 { b"\n{" } else { b",\n{" })?;
        for (n, (column, cell)) in self.columns.iter().zip(cells).enumerate() {
            if n > 0 {
                out.write_all(b", ")?;
            }
            serde_json::to_writer(&mut *out, &column.name)?;
            out.write_all(b": ")?;
            put_json(column, cell, out)?;
        }
        out.write_all(b"}")
    }
}

/// A value as text; bytes that are not text in hexadecimal.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            Cow::Owned(format!("0x{digits}"))
        }
    }
}

/// A value for people: control characters escaped.
pub fn shown(cell: Cell<'_>) -> String {
    shown_keeping(cell, |_| false)
}

fn shown_keeping(cell: Cell<'_>, keeps: impl Fn(char) -> bool) -> String {
    let Some(bytes) = cell else {
        return "NULL".to_owned();
    };
    let text = text(bytes);
    if !text.chars().any(|c| c.is_control() && !keeps(c)) {
        return text.into_owned();
    }
    let mut escaped = String::new();
    for c in text.chars() {
        if c.is_control() && !keeps(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

fn separated<'a>(
    cells: impl Iterator<Item = Cell<'a>>,
    separator: &[u8],
    put: fn(Cell<'_>, &mut dyn Write) -> io::Result<()>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (n, cell) in cells.enumerate() {
        if n > 0 {
            out.write_all(separator)?;
        }
        put(cell, out)?;
    }
    out.write_all(b"\n")
}

fn put_tsv(cell: Cell<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Some(bytes) = cell else {
        return out.write_all(b"NULL");
    };
    for &byte in bytes {
        match byte {
            b'\t' => out.write_all(b"\\t")?,
            b'\n' => out.write_all(b"\\n")?,
            b'\\' => out.write_all(b"\\\\")?,
            0 => out.write_all(b"\\0")?,
            _ => out.write_all(&[byte])?,
        }
    }
    Ok(())
}

fn put_csv(cell: Cell<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Some(bytes) = cell else {
        return Ok(());
    };
    let text = text(bytes);
    let needs_quotes = text.is_empty() || text.contains([',', '"', '\n', '\r']);
    if needs_quotes {
        write!(out, "\"{}\"", text.replace('"', "\"\""))
    } else {
        out.write_all(text.as_bytes())
    }
}

fn put_json(column: &Column, cell: Cell<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Some(bytes) = cell else {
        return out.write_all(b"null");
    };
    let text = text(bytes);
    // ZEROFILL numbers, for example, are not numbers of JSON.
    if (column.is_number || column.is_json) && serde_json::from_str::<&RawValue>(&text).is_ok() {
        return out.write_all(text.as_bytes());
    }
    serde_json::to_writer(out, &text).map_err(io::Error::from)
}

fn markdown_row<'a>(cells: impl Iterator<Item = Cell<'a>>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"|")?;
    for cell in cells {
        let text = shown_keeping(cell, |c| c == '\n')
            .replace('|', "\\|")
            .replace('\n', "<br>");
        write!(out, " {text} |")?;
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &[&[Cell<'_>]] = &[
        &[
            Some(b"1"),
            Some("Zoë \u{6c49}".as_bytes()),
            Some(b"{\"a\": [1]}"),
        ],
        &[Some(b"-20"), None, Some(b"\xff\0")],
        &[None, Some(b"a,\"b\"|\t\n\x1b[2J\\"), Some(b"")],
    ];

    fn print(format: Format, has_names: bool, rows: &[&[Cell<'_>]]) -> String {
        let column = |name: &str, is_number, is_json| Column {
            name: name.into(),
            is_number,
            is_json,
        };
        let columns = vec![
            column("id", true, false),
            column("name", false, false),
            column("doc", false, true),
        ];
        let mut printer = Printer::new(format, has_names, columns);
        let mut out = Vec::new();
        for row in rows {
            printer.row(row.iter().copied(), &mut out).unwrap();
        }
        printer.end(&mut out).unwrap();
        assert_eq!(printer.rows(), rows.len() as u64);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn tables_are_aligned_and_escape_control_characters() {
        let expected = "\
+------+----------------------+------------+
| id   | name                 | doc        |
+------+----------------------+------------+
|    1 | Zoë 汉               | {\"a\": [1]} |
|  -20 | NULL                 | 0xFF00     |
| NULL | a,\"b\"|\\t\\n\\u{1b}[2J\\ |            |
+------+----------------------+------------+
";
        assert_eq!(print(Format::Table, true, ROWS), expected);
        assert_eq!(print(Format::Table, true, &[]), "");
    }

    #[test]
    fn long_tables_are_written_as_they_come() {
        let row: &[Cell<'_>] = &[Some(b"1"), Some(b"x"), None];
        let rows = vec![row; SAMPLE_ROWS + 5];
        let text = print(Format::Table, false, &rows);
        assert_eq!(text.lines().count(), SAMPLE_ROWS + 5 + 2);
        // So are tables of large values: the head is written before the last row.
        let large = vec![b'x'; SAMPLE_BYTES];
        let columns = vec![Column::default()];
        let (mut printer, mut out) = (Printer::new(Format::Table, true, columns), Vec::new());
        printer
            .row([Some(&large[..])].into_iter(), &mut out)
            .unwrap();
        assert!(out.len() > SAMPLE_BYTES);
    }

    #[test]
    fn csv_distinguishes_null_and_quotes() {
        let text = print(Format::Csv, true, ROWS);
        assert_eq!(
            text,
            "id,name,doc\n1,Zoë 汉,\"{\"\"a\"\": [1]}\"\n-20,,0xFF00\n,\"a,\"\"b\"\"|\t\n\x1b[2J\\\",\"\"\n"
        );
        assert_eq!(print(Format::Csv, true, &[]), "id,name,doc\n");
    }

    #[test]
    fn json_can_be_read_back() {
        let text = print(Format::Json, true, ROWS);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!([
            {"id": 1, "name": "Zoë 汉", "doc": {"a": [1]}},
            {"id": -20, "name": null, "doc": "0xFF00"},
            {"id": null, "name": "a,\"b\"|\t\n\x1b[2J\\", "doc": ""},
        ]);
        assert_eq!(read, expected);
        assert_eq!(print(Format::Json, true, &[]), "[]\n");
    }

    #[test]
    fn tabs_separate_as_in_mysqls_client() {
        let text = print(Format::Tsv, false, &ROWS[2..]);
        assert_eq!(text, "NULL\ta,\"b\"|\\t\\n\x1b[2J\\\\\t\n");
    }

    #[test]
    fn markdown_escapes_bars() {
        let text = print(Format::Markdown, true, &ROWS[2..]);
        let expected = "| id | name | doc |\n| ---: | --- | --- |\n| NULL | a,\"b\"\\|\\t<br>\\u{1b}[2J\\ |  |\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn vertical_rows_keep_their_line_ends() {
        let text = print(
            Format::Vertical,
            true,
            &[&[Some(b"1"), Some(b"a\nb\x07"), None]],
        );
        let stars = "*".repeat(27);
        let expected = format!("{stars} 1. row {stars}\n  id: 1\nname: a\nb\\u{{7}}\n doc: NULL\n");
        assert_eq!(text, expected);
    }
}
