//! Reading of replies, packet by packet.
//!
//! A [`ResultReader`] classifies each payload of the reply to COM_QUERY or
//! COM_STMT_EXECUTE. It keeps the column types of the current result in a
//! buffer that is reused; rows borrow the payload.

use porpoise_types::ValueRef;

use super::super::capability::{Capabilities, Status};
use super::super::cursor::Cursor;
use super::super::local_file;
use super::super::params::read_value;

/// An error packet's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Number.
    pub code: u16,
    /// SQLSTATE; `HY000` if the packet contains none.
    pub sqlstate: [u8; 5],
    /// Message.
    pub message: String,
}

/// Reads an error packet.
pub fn parse_error(payload: &[u8]) -> Option<ServerError> {
    let mut cursor = Cursor::new(payload);
    if cursor.u8()? != 0xff {
        return None;
    }
    let code = cursor.u16()?;
    let (sqlstate, message) = match cursor.rest().strip_prefix(b"#") {
        Some(rest) => {
            let (state, message) = rest.split_first_chunk::<5>()?;
            (*state, message)
        }
        None => (*b"HY000", cursor.rest()),
    };
    Some(ServerError {
        code,
        sqlstate,
        message: String::from_utf8_lossy(message).into_owned(),
    })
}

/// Contents of an OK packet, or of the end of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OkReply<'a> {
    /// Rows changed.
    pub affected_rows: u64,
    /// First id given by AUTO_INCREMENT.
    pub last_insert_id: u64,
    /// Status bits.
    pub status: Status,
    /// Number of warnings.
    pub warnings: u16,
    /// Text for people.
    pub info: &'a [u8],
    /// Changes of session state, as they were sent.
    pub changes: &'a [u8],
}

/// Parses an OK packet, including one that ends the rows of a result.
pub fn parse_ok(payload: &[u8], caps: Capabilities) -> Option<OkReply<'_>> {
    let mut cursor = Cursor::new(payload);
    if !matches!(cursor.u8()?, 0 | 0xfe) {
        return None;
    }
    let affected_rows = cursor.lenenc()?;
    let last_insert_id = cursor.lenenc()?;
    let status = Status(cursor.u16()?);
    let warnings = cursor.u16()?;
    let mut changes: &[u8] = &[];
    let info = if cursor.is_empty() {
        &[]
    } else {
        cursor.lenenc_bytes()?
    };
    let tracks = caps.has(Capabilities::SESSION_TRACK);
    if tracks && status.has(Status::SESSION_STATE_CHANGED) && !cursor.is_empty() {
        changes = cursor.lenenc_bytes()?;
    }
    Some(OkReply {
        affected_rows,
        last_insert_id,
        status,
        warnings,
        info,
        changes,
    })
}

/// A column definition as a client reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnInfo<'a> {
    /// Database.
    pub schema: &'a [u8],
    /// Table or its alias.
    pub table: &'a [u8],
    /// Table.
    pub org_table: &'a [u8],
    /// Column or its alias.
    pub name: &'a [u8],
    /// Column.
    pub org_name: &'a [u8],
    /// Id of the collation.
    pub collation: u16,
    /// Maximum length in bytes.
    pub length: u32,
    /// Type code.
    pub code: u8,
    /// Flags, of [`super::super::column::flag`].
    pub flags: u16,
    /// Decimals.
    pub decimals: u8,
}

/// Reads a column definition.
pub fn parse_column(payload: &[u8]) -> Option<ColumnInfo<'_>> {
    let mut cursor = Cursor::new(payload);
    cursor.lenenc_bytes()?;
    let schema = cursor.lenenc_bytes()?;
    let table = cursor.lenenc_bytes()?;
    let org_table = cursor.lenenc_bytes()?;
    let name = cursor.lenenc_bytes()?;
    let org_name = cursor.lenenc_bytes()?;
    cursor.lenenc()?;
    Some(ColumnInfo {
        schema,
        table,
        org_table,
        name,
        org_name,
        collation: cursor.u16()?,
        length: cursor.u32()?,
        code: cursor.u8()?,
        flags: cursor.u16()?,
        decimals: cursor.u8()?,
    })
}

/// A row in text form: an iterator of texts, `None` for NULL. It ends early if the row is
/// malformed.
#[derive(Clone, Copy, Debug)]
pub struct TextRow<'a>(Cursor<'a>);

impl<'a> TextRow<'a> {
    /// The payload of its packet, of which `next` has taken the values before.
    pub fn payload(&self) -> &'a [u8] {
        self.0.rest()
    }
}

impl<'a> Iterator for TextRow<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((0xfb, rest)) = self.0.rest().split_first() {
            self.0 = Cursor::new(rest);
            return Some(None);
        }
        self.0.lenenc_bytes().map(Some)
    }
}

/// A row in binary form: an iterator of values. It ends early where the row
/// is malformed.
#[derive(Clone, Copy, Debug)]
pub struct BinaryRow<'a, 'r> {
    /// Type code of each column, and whether the type is unsigned.
    types: &'r [(u8, bool)],
    /// Position of the next column.
    next: usize,
    /// The NULL bitmap, which begins with two unused bits.
    nulls: &'a [u8],
    /// The values that have not been read yet.
    values: Cursor<'a>,
}

impl<'a> Iterator for BinaryRow<'a, '_> {
    type Item = ValueRef<'a>;

    fn next(&mut self) -> Option<ValueRef<'a>> {
        let &(code, unsigned) = self.types.get(self.next)?;
        let bit = self.next + 2;
        self.next += 1;
        if self.nulls.get(bit / 8)? >> (bit % 8) & 1 == 1 {
            return Some(ValueRef::Null);
        }
        read_value(&mut self.values, code, unsigned)
    }
}

/// A row of either form.
#[derive(Clone, Copy, Debug)]
pub enum Row<'a, 'r> {
    /// A row of COM_QUERY.
    Text(TextRow<'a>),
    /// A row of COM_STMT_EXECUTE.
    Binary(BinaryRow<'a, 'r>),
}

/// Classified payload.
#[derive(Clone, Debug)]
pub enum Event<'a, 'r> {
    /// A statement without a result set succeeded.
    Ok(OkReply<'a>),
    /// A statement failed.
    Error(ServerError),
    /// The server requests the file of this name, for LOAD DATA LOCAL. Its packets are sent before the next
    /// payload is read.
    FileRequest(&'a [u8]),
    /// Start of a result set with this number of columns.
    Columns(usize),
    /// Definition of a column.
    Column(ColumnInfo<'a>),
    /// End of the column definitions.
    EndOfColumns,
    /// A row.
    Row(Row<'a, 'r>),
    /// End of the rows.
    End(OkReply<'a>),
}

/// The packet that is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first packet of a result.
    Start,
    /// A column definition; the number of definitions that are left.
    Columns(usize),
    /// The EOF packet after the column definitions.
    EndOfColumns,
    /// A row, or the end of the rows.
    Rows,
    /// None: the reply is complete.
    Finished,
}

/// Reads the reply to one command.
#[derive(Debug)]
pub struct ResultReader {
    caps: Capabilities,
    /// Whether rows are in binary form.
    binary: bool,
    state: State,
    /// Type code of each column, and whether the type is unsigned.
    types: Vec<(u8, bool)>,
}

impl ResultReader {
    /// Creates a reader for a connection with these capabilities. `binary`: the command is
    /// COM_STMT_EXECUTE.
    pub fn new(caps: Capabilities, binary: bool) -> ResultReader {
        ResultReader {
            caps,
            binary,
            state: State::Start,
            types: Vec::new(),
        }
    }

    /// Resets the reader for the next command.
    pub fn restart(&mut self, binary: bool) {
        self.binary = binary;
        self.state = State::Start;
    }

    /// Whether the last packet of the reply has been read.
    pub fn finished(&self) -> bool {
        self.state == State::Finished
    }

    /// Classifies the next payload; `None` if it is malformed.
    pub fn next<'a>(&mut self, payload: &'a [u8]) -> Option<Event<'a, '_>> {
        let (&head, rest) = payload.split_first()?;
        if head == 0xff
            && self.state != State::EndOfColumns
            && !matches!(self.state, State::Columns(_))
        {
            self.state = State::Finished;
            return parse_error(payload).map(Event::Error);
        }
        match self.state {
            State::Start if head == 0 => {
                let ok = parse_ok(payload, self.caps)?;
                self.end(ok.status);
                Some(Event::Ok(ok))
            }
            State::Start if head == local_file::REQUEST => Some(Event::FileRequest(rest)),
            State::Start => {
                let mut cursor = Cursor::new(payload);
                let columns = usize::try_from(cursor.lenenc()?).ok()?;
                let optional = self.caps.has(Capabilities::OPTIONAL_RESULTSET_METADATA);
                let has_definitions = !optional || cursor.u8()? != 0;
                self.types.clear();
                self.state = if has_definitions {
                    State::Columns(columns)
                } else if self.caps.has(Capabilities::DEPRECATE_EOF) {
                    State::Rows
                } else {
                    State::EndOfColumns
                };
                Some(Event::Columns(columns))
            }
            State::Columns(left) => {
                let column = parse_column(payload)?;
                let unsigned = column.flags & super::super::column::flag::UNSIGNED != 0;
                self.types.push((column.code, unsigned));
                self.state = match left {
                    0 | 1 if self.caps.has(Capabilities::DEPRECATE_EOF) => State::Rows,
                    0 | 1 => State::EndOfColumns,
                    _ => State::Columns(left - 1),
                };
                Some(Event::Column(column))
            }
            State::EndOfColumns => {
                self.state = State::Rows;
                (head == 0xfe).then_some(Event::EndOfColumns)
            }
            State::Rows if head == 0xfe && payload.len() < 0xff_ffff && self.is_end(rest) => {
                let ok = if self.caps.has(Capabilities::DEPRECATE_EOF) {
                    parse_ok(payload, self.caps)?
                } else {
                    parse_eof(rest)?
                };
                self.end(ok.status);
                Some(Event::End(ok))
            }
            State::Rows => Some(Event::Row(self.row(payload, rest)?)),
            State::Finished => None,
        }
    }

    /// Whether a packet of 0xFE and `rest` ends the rows. 0xFE may also begin a row whose first
    /// text has 16 MiB or more; the caller has excluded packets of that size.
    fn is_end(&self, rest: &[u8]) -> bool {
        self.caps.has(Capabilities::DEPRECATE_EOF) || rest.len() < 8
    }

    /// Records the end of a result with this status.
    fn end(&mut self, status: Status) {
        self.state = if status.has(Status::MORE_RESULTS) {
            State::Start
        } else {
            State::Finished
        };
    }

    fn row<'a>(&self, payload: &'a [u8], rest: &'a [u8]) -> Option<Row<'a, '_>> {
        if !self.binary {
            return Some(Row::Text(TextRow(Cursor::new(payload))));
        }
        let mut values = Cursor::new(rest);
        let nulls = values.take((self.types.len() + 2).div_ceil(8))?;
        Some(Row::Binary(BinaryRow {
            types: &self.types,
            next: 0,
            nulls,
            values,
        }))
    }
}

fn parse_eof(rest: &[u8]) -> Option<OkReply<'_>> {
    let mut cursor = Cursor::new(rest);
    let warnings = cursor.u16()?;
    Some(OkReply {
        affected_rows: 0,
        last_insert_id: 0,
        status: Status(cursor.u16()?),
        warnings,
        info: &[],
        changes: &[],
    })
}

/// First packet of the reply to COM_STMT_PREPARE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The statement's id.
    pub id: u32,
    /// Number of columns of its result.
    pub columns: u16,
    /// Number of its parameters.
    pub params: u16,
    /// Number of warnings.
    pub warnings: u16,
}

impl Prepared {
    /// Number of packets that follow: definitions, and the EOF packets after them.
    pub fn packets_to_follow(&self, caps: Capabilities) -> usize {
        let end = usize::from(!caps.has(Capabilities::DEPRECATE_EOF));
        [self.params, self.columns]
            .iter()
            .filter(|&&n| n > 0)
            .map(|&n| usize::from(n) + end)
            .sum()
    }
}

/// Parses the first packet of the reply to COM_STMT_PREPARE.
pub fn parse_prepared(payload: &[u8]) -> Option<Prepared> {
    let mut cursor = Cursor::new(payload);
    if cursor.u8()? != 0 {
        return None;
    }
    let id = cursor.u32()?;
    let columns = cursor.u16()?;
    let params = cursor.u16()?;
    cursor.u8()?;
    Some(Prepared {
        id,
        columns,
        params,
        warnings: cursor.u16()?,
    })
}
