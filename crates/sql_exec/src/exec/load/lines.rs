//! Lines and fields of a delimited file (manual, "LOAD DATA Statement", "Field and Line Handling").
//!
//! A line is read from a buffer that holds a part of the file. If the line's end is not in the
//! buffer, nothing is consumed, and the line is read again when the buffer has grown to twice the
//! unread text: a line of n bytes is scanned at most about 2n bytes.
//!
//! The rules are MySQL's, among them: an escaped or doubled enclosure belongs to the field; a field
//! that begins with the enclosure ends only at one that a delimiter follows; `\N` and, where an
//! enclosure is defined, the bare word `NULL` are NULL.

use crate::error::SqlError;
use crate::plan::sinks::{FileRows, LineFormat};
use porpoise_base::escapes::unescape;
use porpoise_types::Charset;
use std::ops::Range;

/// Number of bytes that are read before the first line.
pub(super) const FIRST_READ: usize = 64 * 1024;

/// A field of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'l> {
    /// NULL.
    Null,
    /// A text, without enclosure and escapes.
    Text(&'l [u8]),
}

/// The fields of one line.
#[derive(Debug, Default)]
pub(super) struct Line {
    text: Vec<u8>,
    /// Positions in `text`; `None` for NULL.
    fields: Vec<Option<Range<usize>>>,
    is_cut: bool,
}

impl Line {
    /// The field at a position; `None` after the last one.
    pub(super) fn field(&self, at: usize) -> Option<Field<'_>> {
        Some(match self.fields.get(at)? {
            None => Field::Null,
            Some(range) => Field::Text(self.text.get(range.clone()).unwrap_or_default()),
        })
    }

    /// Bytes of the fields.
    pub(super) fn size(&self) -> usize {
        self.text.len()
    }

    /// Whether the line has more fields than there are destinations.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Reads the lines of a file.
pub(super) struct LineReader<'f> {
    format: &'f LineFormat,
    specials: Specials,
    charset: Charset,
    fields: usize,
    /// Lines that are still to be skipped.
    skip: u64,
    /// Bytes of the file that are not decoded, for character sets that are kept as UTF-8.
    raw: Vec<u8>,
    buffer: Vec<u8>,
    /// Start of the unread text in `buffer`.
    start: usize,
    /// Unread bytes that are wanted before a line is tried.
    wanted: usize,
    /// Whether the rest of the file is in `buffer`.
    is_whole: bool,
}

/// The buffer ends within a line.
#[derive(Debug)]
struct Incomplete;

type Scanned<T> = Result<T, Incomplete>;

impl<'f> LineReader<'f> {
    pub(super) fn new(file: &'f FileRows) -> LineReader<'f> {
        LineReader {
            format: &file.format,
            specials: Specials::of(&file.format),
            charset: file.collation.charset(),
            fields: file.fields.len(),
            skip: file.skipped_lines,
            raw: Vec::new(),
            buffer: Vec::new(),
            start: 0,
            wanted: FIRST_READ,
            is_whole: false,
        }
    }

    /// Memory of the buffers.
    pub(super) fn size(&self) -> usize {
        self.buffer.capacity() + self.raw.capacity()
    }

    /// Bytes that were read from the file and belong to no line yet.
    pub(super) fn unread(&self) -> usize {
        self.buffer.len() - self.start + self.raw.len()
    }

    /// Reads a part of the file by `read`, which appends it and returns false at the end.
    pub(super) fn fill(
        &mut self,
        read: impl FnOnce(&mut Vec<u8>) -> Result<bool, SqlError>,
    ) -> Result<(), SqlError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        if !self.charset.is_kept_as_utf8() {
            self.is_whole = !read(&mut self.buffer)?;
            return Ok(());
        }
        self.is_whole = !read(&mut self.raw)?;
        // A character is not cut after a line feed, which is part of no other character.
        let end = if self.is_whole {
            self.raw.len()
        } else {
            self.raw
                .iter()
                .rposition(|b| *b == b'\n')
                .map_or(0, |at| at + 1)
        };
        let bytes = self.raw.get(..end).unwrap_or_default();
        let (text, _) = self.charset.decoded(bytes);
        self.buffer.extend_from_slice(&text);
        self.raw.drain(..end);
        Ok(())
    }

    /// Reads the next line into `line`. Returns false at the end of the file, `None` if more of the
    /// file must be read first.
    pub(super) fn next(&mut self, line: &mut Line) -> Option<bool> {
        if !self.is_whole && self.buffer.len() - self.start < self.wanted {
            return None;
        }
        loop {
            let mut scan = Scan {
                bytes: self.buffer.get(self.start..).unwrap_or_default(),
                at: 0,
                is_whole: self.is_whole,
                format: self.format,
                specials: self.specials,
            };
            let skips = self.skip > 0;
            let read = if skips && !self.format.line_end.is_empty() {
                scan.next_line().map(|_| !scan.is_at_end())
            } else {
                scan.line(self.fields, line)
            };
            let Ok(found) = read else {
                let unread = self.buffer.len() - self.start;
                self.wanted = unread.saturating_mul(2).max(FIRST_READ);
                return None;
            };
            self.start += scan.at;
            self.wanted = 1;
            if !skips || !found {
                return Some(found);
            }
            self.skip -= 1;
        }
    }
}

/// The bytes within a field that do not simply belong to its text; one stands for those that there are
/// not.
#[derive(Clone, Copy, Debug)]
struct Specials {
    enclosed: [u8; 3],
    plain: [u8; 3],
}

impl Specials {
    fn of(format: &LineFormat) -> Specials {
        let first = |delimiter: &[u8]| delimiter.first().copied();
        let (field, line) = (first(&format.field_end), first(&format.line_end));
        let filled = |all: [Option<u8>; 3]| {
            let any = all.iter().flatten().next().copied().unwrap_or_default();
            all.map(|byte| byte.unwrap_or(any))
        };
        Specials {
            enclosed: filled([format.enclosure, format.escape, None]),
            plain: filled([field, line, format.escape]),
        }
    }
}

/// A position in the unread part of the buffer.
struct Scan<'b> {
    bytes: &'b [u8],
    at: usize,
    is_whole: bool,
    format: &'b LineFormat,
    specials: Specials,
}

/// The end of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldEnd {
    /// Another field follows.
    Field,
    /// The line ends.
    Line,
    /// The file ends.
    File,
}

impl Scan<'_> {
    /// The next byte; `None` at the end of the file.
    fn get(&mut self) -> Scanned<Option<u8>> {
        match self.bytes.get(self.at) {
            Some(byte) => {
                self.at += 1;
                Ok(Some(*byte))
            }
            None if self.is_whole => Ok(None),
            None => Err(Incomplete),
        }
    }

    fn is_at_end(&self) -> bool {
        self.is_whole && self.at >= self.bytes.len()
    }

    /// Whether `first`, the byte before, begins this delimiter; consumes the rest of it then.
    fn completes(&mut self, first: u8, delimiter: &[u8]) -> Scanned<bool> {
        let Some((head, rest)) = delimiter.split_first() else {
            return Ok(false);
        };
        if *head != first {
            return Ok(false);
        }
        let follows = self.bytes.get(self.at..).unwrap_or_default();
        if follows.starts_with(rest) {
            self.at += rest.len();
            return Ok(true);
        }
        if !self.is_whole && rest.starts_with(follows) {
            return Err(Incomplete);
        }
        Ok(false)
    }

    /// Reads the fields of a line, at most `fields`, and goes to the start of the next line. Returns
    /// false at the end of the file.
    fn line(&mut self, fields: usize, line: &mut Line) -> Scanned<bool> {
        line.text.clear();
        line.fields.clear();
        line.is_cut = false;
        if !self.skip_line_start()? || self.is_at_end() {
            return Ok(false);
        }
        let mut end = FieldEnd::Field;
        while line.fields.len() < fields && end == FieldEnd::Field {
            if self.get()?.is_none() {
                break;
            }
            self.at -= 1;
            end = self.field(line)?;
        }
        if end == FieldEnd::Field {
            line.is_cut = self.next_line()?;
        }
        Ok(true)
    }

    /// Advances to the position after LINES STARTING BY, skipping the text before it. Returns false at the end of the file.
    fn skip_line_start(&mut self) -> Scanned<bool> {
        if self.format.line_start.is_empty() {
            // Finds out whether the file ends here.
            if self.get()?.is_some() {
                self.at -= 1;
            }
            return Ok(true);
        }
        while let Some(byte) = self.get()? {
            if self.completes(byte, &self.format.line_start)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes to the start of the next line. Returns whether text was skipped before it; as on MySQL, not
    /// at the end of a file that ends without a line's end.
    fn next_line(&mut self) -> Scanned<bool> {
        let mut skipped = false;
        if self.format.line_end.is_empty() {
            return Ok(false);
        }
        while let Some(byte) = self.get()? {
            if Some(byte) == self.format.escape {
                skipped = true;
                self.get()?;
            } else if self.completes(byte, &self.format.line_end)? {
                return Ok(skipped);
            } else {
                skipped = true;
            }
        }
        Ok(false)
    }

    /// Reads a field and its end.
    fn field(&mut self, line: &mut Line) -> Scanned<FieldEnd> {
        let start = line.text.len();
        let mut null_letter = false;
        let is_enclosed = self.format.enclosure.is_some()
            && self.bytes.get(self.at).copied() == self.format.enclosure;
        if is_enclosed {
            self.at += 1;
        }
        let specials = if is_enclosed {
            self.specials.enclosed
        } else {
            self.specials.plain
        };
        let (end, closed) = loop {
            self.copy_plain_bytes(specials, &mut line.text);
            let Some(byte) = self.get()? else {
                break (FieldEnd::File, false);
            };
            if Some(byte) == self.format.escape {
                match self.get()? {
                    None => {
                        line.text.push(byte);
                        break (FieldEnd::File, false);
                    }
                    // Where the escape is also the enclosure, only its doubling is an escape.
                    Some(next) if self.format.enclosure != Some(byte) || next == byte => {
                        null_letter |= next == b'N';
                        line.text.push(unescape(next));
                        continue;
                    }
                    Some(_) => self.at -= 1,
                }
            }
            if is_enclosed && Some(byte) == self.format.enclosure {
                match self.closing(byte)? {
                    None => line.text.push(byte),
                    Some(end) => break (end, true),
                }
                continue;
            }
            if !is_enclosed {
                if self.completes(byte, &self.format.line_end)? {
                    break (FieldEnd::Line, false);
                }
                if self.completes(byte, &self.format.field_end)? {
                    break (FieldEnd::Field, false);
                }
            }
            line.text.push(byte);
        };
        if is_enclosed && !closed {
            // The enclosure was never closed: it belongs to the text.
            line.text
                .insert(start, self.format.enclosure.unwrap_or_default());
        }
        let text = line.text.get(start..).unwrap_or_default();
        let bare_word = self.format.enclosure.is_some() && !closed && text == b"NULL";
        let is_null = bare_word || null_letter && text.len() == 1;
        line.fields
            .push((!is_null).then_some(start..line.text.len()));
        Ok(end)
    }

    /// Copies the bytes before the next one that means something.
    fn copy_plain_bytes(&mut self, [a, b, c]: [u8; 3], text: &mut Vec<u8>) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = memchr::memchr3(a, b, c, rest).unwrap_or(rest.len());
        text.extend_from_slice(rest.get(..end).unwrap_or_default());
        self.at += end;
    }

    /// The end of an enclosed field at an enclosure; `None` if the enclosure belongs to the text,
    /// because it is doubled or no delimiter follows.
    fn closing(&mut self, enclosure: u8) -> Scanned<Option<FieldEnd>> {
        let Some(next) = self.get()? else {
            return Ok(Some(FieldEnd::File));
        };
        if next == enclosure {
            return Ok(None);
        }
        if self.completes(next, &self.format.line_end)? {
            return Ok(Some(FieldEnd::Line));
        }
        if self.completes(next, &self.format.field_end)? {
            return Ok(Some(FieldEnd::Field));
        }
        self.at -= 1;
        Ok(None)
    }
}
