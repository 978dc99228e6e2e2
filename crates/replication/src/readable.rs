//! Rows of events for readers that have no table of their own: names, types and text in UTF-8, as the TABLE_MAP
//! describes them (`binlog_row_metadata = FULL`).

use crate::event::table_map::charset_of;
use crate::event::value::code;
use crate::event::{RowImage, TableMap, WireColumn};
use porpoise_types::{Charset, Collation, ColumnType, Kind, Value};

/// Collation of all text given to readers.
const COLLATION: Collation = Collation::UTF8MB4_BIN;

/// A column of a logged table.
#[derive(Clone, Debug)]
pub struct ReadableColumn {
    /// Name.
    pub name: String,
    /// Type, with UTF-8 as the character set of text and of members of ENUM and SET.
    pub ty: ColumnType,
    /// Character set of its text in the log.
    charset: Charset,
}

/// A logged table.
#[derive(Clone, Debug)]
pub struct ReadableTable {
    /// Database.
    pub database: String,
    /// Name.
    pub table: String,
    /// The columns.
    pub columns: Vec<ReadableColumn>,
    /// Columns of the primary key; empty if the table has none.
    pub key: Vec<usize>,
}

impl ReadableTable {
    /// The table that a TABLE_MAP describes; `None` if it lacks the names of the columns, or members of an ENUM or SET.
    #[must_use]
    pub fn of(map: &TableMap) -> Option<ReadableTable> {
        let names = map.metadata.names.as_ref()?;
        let mut enums = map.metadata.enum_members.iter().flatten();
        let mut sets = map.metadata.set_members.iter().flatten();
        let mut columns = Vec::with_capacity(map.columns.len());
        for (at, wire) in map.columns.iter().enumerate() {
            let charset = map.collation(at).and_then(charset_of);
            let charset = charset.unwrap_or(Charset::Binary);
            let members = match wire.code {
                code::ENUM => enums.next()?.as_slice(),
                code::SET => sets.next()?.as_slice(),
                _ => &[],
            };
            let unsigned = map.is_unsigned(at).unwrap_or(false);
            columns.push(ReadableColumn {
                name: text(names.get(at)?),
                ty: type_of(wire, unsigned, charset, members)?,
                charset,
            });
        }
        let key = map.metadata.primary_key.iter().flatten();
        Some(ReadableTable {
            database: text(&map.database),
            table: text(&map.table),
            columns,
            key: key.map(|(column, _)| *column as usize).collect(),
        })
    }

    /// The values of an image, with text in UTF-8 and BINARY padded to its length.
    #[must_use]
    pub fn values(&self, image: RowImage) -> RowImage {
        let columns = self.columns.iter().zip(image);
        columns
            .map(|(column, value)| value.map(|value| column.value(value)))
            .collect()
    }
}

impl ReadableColumn {
    fn value(&self, value: Value) -> Value {
        match value {
            Value::Bytes(mut bytes) if self.ty.kind == Kind::Binary => {
                bytes.resize(bytes.len().max(self.ty.length as usize), 0);
                Value::Bytes(bytes)
            }
            Value::Bytes(bytes) if self.ty.is_string() && !self.ty.is_binary() => {
                Value::Bytes(utf8(&bytes, self.charset))
            }
            other => other,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bytes of a character set as UTF-8.
fn utf8(bytes: &[u8], charset: Charset) -> Vec<u8> {
    let (decoded, _) = charset.decoded(bytes);
    let (converted, _) = charset.convert(COLLATION.charset(), &decoded);
    converted.into_owned()
}

/// The type of a column; `None` if this server has no such type.
fn type_of(
    wire: &WireColumn,
    unsigned: bool,
    charset: Charset,
    members: &[Vec<u8>],
) -> Option<ColumnType> {
    let fsp = wire.metadata.min(6) as u8;
    let length = u32::from(wire.metadata);
    let is_binary = charset == Charset::Binary;
    let members = || -> Vec<Box<[u8]>> {
        let members = members.iter();
        members
            .map(|m| utf8(m, charset).into_boxed_slice())
            .collect()
    };
    let mut ty = match wire.code {
        code::TINY => ColumnType::int(Kind::TinyInt),
        code::SHORT => ColumnType::int(Kind::SmallInt),
        code::INT24 => ColumnType::int(Kind::MediumInt),
        code::LONG => ColumnType::int(Kind::Int),
        code::LONGLONG => ColumnType::bigint(),
        code::FLOAT => ColumnType::float(),
        code::DOUBLE => ColumnType::double(),
        code::NEWDECIMAL => ColumnType::decimal((wire.metadata >> 8) as u8, wire.metadata as u8),
        code::BIT => ColumnType::bit(length),
        code::YEAR => ColumnType::year(),
        code::DATE => ColumnType::date(),
        code::DATETIME | code::DATETIME2 => ColumnType::datetime(fsp),
        code::TIMESTAMP | code::TIMESTAMP2 => ColumnType::timestamp(fsp),
        code::TIME | code::TIME2 => ColumnType::time(fsp),
        code::ENUM => ColumnType::enumeration(members(), COLLATION),
        code::SET => ColumnType::set(members(), COLLATION),
        code::JSON => ColumnType::json(),
        code::STRING if is_binary => ColumnType::binary(length),
        code::VARCHAR | code::VAR_STRING if is_binary => ColumnType::varbinary(length),
        code::BLOB if is_binary => ColumnType::blob(Kind::LongBlob),
        code::STRING => ColumnType::char(length, COLLATION),
        code::VARCHAR | code::VAR_STRING => ColumnType::varchar(length, COLLATION),
        code::BLOB => ColumnType::text(Kind::LongText, COLLATION),
        _ => return None,
    };
    ty.unsigned = ty.unsigned || unsigned;
    Some(ty)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::event::{ColumnMetadata, MapColumn};

    #[test]
    fn a_table_map_with_all_metadata_describes_its_table() {
        let latin1 = Collation::by_name("latin1_swedish_ci").unwrap();
        let members = |list: &[&str]| -> Vec<Box<[u8]>> {
            list.iter().map(|m| m.as_bytes().into()).collect()
        };
        let types = [
            ("id", ColumnType::bigint_unsigned()),
            ("name", ColumnType::varchar(9, latin1)),
            (
                "kind",
                ColumnType::enumeration(members(&["a", "b"]), COLLATION),
            ),
            ("flags", ColumnType::set(members(&["x", "y"]), COLLATION)),
            ("raw", ColumnType::binary(4)),
        ];
        let columns = types.iter().map(|(name, ty)| MapColumn {
            name,
            ty,
            nullable: false,
            visible: true,
        });
        let columns: Vec<_> = columns.collect();
        let map = |detail| TableMap::of_table(7, "shop", "items", &columns, &[(0, 0)], detail);
        assert!(ReadableTable::of(&map(ColumnMetadata::Minimal)).is_none());
        let table = ReadableTable::of(&map(ColumnMetadata::Full)).unwrap();
        assert_eq!(
            (table.database.as_str(), table.table.as_str()),
            ("shop", "items")
        );
        assert_eq!(table.key, [0]);
        let names: Vec<_> = table.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["id", "name", "kind", "flags", "raw"]);
        assert!(table.columns[0].ty.unsigned);
        assert_eq!(&*table.columns[2].ty.members[1], b"b");
        let values = table.values(vec![
            Some(Value::UInt(u64::MAX)),
            Some(Value::Bytes(b"caf\xe9".to_vec())),
            None,
            Some(Value::Null),
            Some(Value::Bytes(b"\x01".to_vec())),
        ]);
        let text = "café".as_bytes().to_vec();
        assert_eq!(values[1], Some(Value::Bytes(text)));
        assert_eq!(values[2], None);
        assert_eq!(values[4], Some(Value::Bytes(b"\x01\0\0\0".to_vec())));
    }
}
