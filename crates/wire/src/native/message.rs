//! Messages about the session: greeting, login, look-up of tables, transactions, errors.

use super::value::Encoding;
use super::{Malformed, Reader, put_bytes};

/// Length of the challenge.
pub const SALT: usize = 20;

/// The server's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting<'a> {
    /// Version of the protocol that both sides speak.
    pub version: u8,
    /// Id of the connection, for KILL.
    pub connection: u64,
    /// Challenge of the login.
    pub salt: [u8; SALT],
    /// Largest body of a request.
    pub max_body: u32,
    /// Number of requests that a client may have in flight.
    pub window: u32,
    /// Version of the server.
    pub server: &'a str,
}

impl<'a> Greeting<'a> {
    /// Appends the body.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(self.version);
        out.extend_from_slice(&self.connection.to_le_bytes());
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.max_body.to_le_bytes());
        out.extend_from_slice(&self.window.to_le_bytes());
        put_bytes(out, self.server.as_bytes());
    }

    /// Parses a body.
    pub fn parse(body: &'a [u8]) -> Option<Greeting<'a>> {
        let mut reader = Reader::new(body);
        Some(Greeting {
            version: reader.u8()?,
            connection: reader.u64()?,
            salt: reader.array()?,
            max_body: reader.u32()?,
            window: reader.u32()?,
            server: reader.text()?,
        })
    }
}

/// Request to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login<'a> {
    /// User name.
    pub user: &'a str,
    /// Answer to the challenge, by `caching_sha2_password`; empty without a password.
    pub answer: &'a [u8],
    /// Name of the client's program, for logs.
    pub program: &'a str,
}

impl<'a> Login<'a> {
    /// Appends the body.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.user.as_bytes());
        put_bytes(out, self.answer);
        put_bytes(out, self.program.as_bytes());
    }

    /// Parses a body.
    ///
    /// # Errors
    /// The body is no such message.
    pub fn parse(body: &'a [u8]) -> Result<Login<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let mut parse = || {
            Some(Login {
                user: reader.text()?,
                answer: reader.bytes()?,
                program: reader.text()?,
            })
        };
        parse().ok_or(Malformed("login"))
    }
}

/// Request for a table's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTable<'a> {
    /// The database.
    pub database: &'a str,
    /// The table.
    pub table: &'a str,
}

impl<'a> OpenTable<'a> {
    /// Appends the body.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.database.as_bytes());
        put_bytes(out, self.table.as_bytes());
    }

    /// Parses a body.
    ///
    /// # Errors
    /// The body is no such message.
    pub fn parse(body: &'a [u8]) -> Result<OpenTable<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let mut parse = || {
            Some(OpenTable {
                database: reader.text()?,
                table: reader.text()?,
            })
        };
        parse().ok_or(Malformed("look-up of a table"))
    }
}

/// A table, as clients use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Id of the table; never reused.
    pub id: u64,
    /// Version of its definition, which every operation names.
    pub version: u32,
    /// The database.
    pub database: String,
    /// The name.
    pub name: String,
    /// The columns, without hidden ones.
    pub columns: Vec<Column>,
    /// The indexes that operations can use.
    pub indexes: Vec<Index>,
}

/// A column of a [`Table`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Position in the definition.
    pub position: u16,
    /// The name.
    pub name: String,
    /// Encoding of its values.
    pub encoding: Encoding,
    /// Whether it may be NULL.
    pub is_nullable: bool,
    /// Whether an INSERT may leave it out.
    pub has_default: bool,
    /// Whether its value is computed: it cannot be written.
    pub is_generated: bool,
    /// AUTO_INCREMENT.
    pub is_auto_increment: bool,
    /// The type in SQL.
    pub sql_type: String,
}

/// An index of a [`Table`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Position in the definition; 0 is the primary key.
    pub position: u16,
    /// The name.
    pub name: String,
    /// Whether one row at most has a key without NULL.
    pub is_unique: bool,
    /// Positions of the columns.
    pub columns: Vec<u16>,
}

const NULLABLE: u8 = 1;
const DEFAULT: u8 = 2;
const GENERATED: u8 = 4;
const AUTO_INCREMENT: u8 = 8;

impl Column {
    fn flags(&self) -> u8 {
        [
            (self.is_nullable, NULLABLE),
            (self.has_default, DEFAULT),
            (self.is_generated, GENERATED),
            (self.is_auto_increment, AUTO_INCREMENT),
        ]
        .into_iter()
        .fold(0, |all, (is, bit)| if is { all | bit } else { all })
    }

    fn read(reader: &mut Reader<'_>) -> Option<Column> {
        let position = reader.u16()?;
        let encoding = Encoding::of_number(reader.u8()?)?;
        let flags = reader.u8()?;
        Some(Column {
            position,
            encoding,
            is_nullable: flags & NULLABLE != 0,
            has_default: flags & DEFAULT != 0,
            is_generated: flags & GENERATED != 0,
            is_auto_increment: flags & AUTO_INCREMENT != 0,
            name: reader.text()?.to_owned(),
            sql_type: reader.text()?.to_owned(),
        })
    }
}

impl Index {
    fn read(reader: &mut Reader<'_>) -> Option<Index> {
        let position = reader.u16()?;
        let is_unique = reader.u8()? != 0;
        let name = reader.text()?.to_owned();
        let count = reader.u16()?;
        let columns = (0..count).map(|_| reader.u16()).collect::<Option<_>>()?;
        Some(Index {
            position,
            name,
            is_unique,
            columns,
        })
    }
}

fn count(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes()
}

impl Table {
    /// Appends the body.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        put_bytes(out, self.database.as_bytes());
        put_bytes(out, self.name.as_bytes());
        out.extend_from_slice(&count(self.columns.len()));
        for column in &self.columns {
            out.extend_from_slice(&column.position.to_le_bytes());
            out.extend_from_slice(&[column.encoding as u8, column.flags()]);
            put_bytes(out, column.name.as_bytes());
            put_bytes(out, column.sql_type.as_bytes());
        }
        out.extend_from_slice(&count(self.indexes.len()));
        for index in &self.indexes {
            out.extend_from_slice(&index.position.to_le_bytes());
            out.push(u8::from(index.is_unique));
            put_bytes(out, index.name.as_bytes());
            out.extend_from_slice(&count(index.columns.len()));
            for column in &index.columns {
                out.extend_from_slice(&column.to_le_bytes());
            }
        }
    }

    /// Parses a body.
    pub fn parse(body: &[u8]) -> Option<Table> {
        let mut reader = Reader::new(body);
        let (id, version) = (reader.u64()?, reader.u32()?);
        let (database, name) = (reader.text()?.to_owned(), reader.text()?.to_owned());
        let columns = reader.u16()?;
        let columns = (0..columns)
            .map(|_| Column::read(&mut reader))
            .collect::<Option<_>>()?;
        let indexes = reader.u16()?;
        let indexes = (0..indexes)
            .map(|_| Index::read(&mut reader))
            .collect::<Option<_>>()?;
        Some(Table {
            id,
            version,
            database,
            name,
            columns,
            indexes,
        })
    }

    /// The column of this name, compared without regard to case.
    pub fn column(&self, name: &str) -> Option<&Column> {
        let mut columns = self.columns.iter();
        columns.find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// The column at a position of the definition.
    pub fn column_at(&self, position: u16) -> Option<&Column> {
        // Without hidden columns, positions are indexes.
        let near = self.columns.get(usize::from(position));
        near.filter(|column| column.position == position)
            .or_else(|| {
                self.columns
                    .iter()
                    .find(|column| column.position == position)
            })
    }

    /// The index of this name, compared without regard to case.
    pub fn index(&self, name: &str) -> Option<&Index> {
        let mut indexes = self.indexes.iter();
        indexes.find(|index| index.name.eq_ignore_ascii_case(name))
    }

    /// The primary key; `None` if the table has none.
    pub fn primary_key(&self) -> Option<&Index> {
        let mut indexes = self.indexes.iter();
        indexes.find(|index| index.position == 0 && !index.columns.is_empty())
    }
}

/// Isolation of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Isolation {
    /// REPEATABLE READ: one snapshot for all reads.
    #[default]
    Snapshot = 0,
    /// SERIALIZABLE.
    Serializable = 1,
}

impl Isolation {
    /// Parses the body of [`super::frame::Kind::Begin`].
    ///
    /// # Errors
    /// The body is no such message.
    pub fn parse(body: &[u8]) -> Result<Isolation, Malformed> {
        match body {
            [0] => Ok(Isolation::Snapshot),
            [1] => Ok(Isolation::Serializable),
            _ => Err(Malformed("start of a transaction")),
        }
    }
}

/// Failure of a request or of one operation: MySQL's number, SQLSTATE and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorMessage<'a> {
    /// MySQL's number.
    pub code: u16,
    /// The SQLSTATE.
    pub sqlstate: [u8; 5],
    /// The text.
    pub message: &'a str,
}

impl<'a> ErrorMessage<'a> {
    /// Appends the message.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.code.to_le_bytes());
        out.extend_from_slice(&self.sqlstate);
        put_bytes(out, self.message.as_bytes());
    }

    /// Reads a message.
    pub fn read(reader: &mut Reader<'a>) -> Option<ErrorMessage<'a>> {
        Some(ErrorMessage {
            code: reader.u16()?,
            sqlstate: reader.array()?,
            message: reader.text()?,
        })
    }
}

/// Flag of an error frame's body: the open transaction was rolled back.
pub const TRANSACTION_ENDED: u8 = 1;

/// Flag of an error frame's body: the connection closes.
pub const CONNECTION_ENDS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_cut_ones_are_refused() {
        let table = Table {
            id: 9,
            version: 3,
            database: "shop".into(),
            name: "items".into(),
            columns: vec![Column {
                position: 0,
                name: "id".into(),
                encoding: Encoding::Int64,
                is_nullable: false,
                has_default: true,
                is_generated: false,
                is_auto_increment: true,
                sql_type: "bigint".into(),
            }],
            indexes: vec![Index {
                position: 0,
                name: "PRIMARY".into(),
                is_unique: true,
                columns: vec![0],
            }],
        };
        let mut out = Vec::new();
        table.put(&mut out);
        assert_eq!(Table::parse(&out), Some(table));
        for cut in 0..out.len() {
            assert_eq!(Table::parse(&out[..cut]), None);
        }
        let greeting = Greeting {
            version: 1,
            connection: 5,
            salt: [7; SALT],
            max_body: 16,
            window: 100,
            server: "8.0",
        };
        let mut out = Vec::new();
        greeting.put(&mut out);
        assert_eq!(Greeting::parse(&out), Some(greeting));
        let login = Login {
            user: "ann",
            answer: &[1, 2],
            program: "test",
        };
        let mut out = Vec::new();
        login.put(&mut out);
        assert_eq!(Login::parse(&out), Ok(login));
        assert!(Login::parse(&out[1..]).is_err());
    }
}
