//! TABLE_MAP: the columns of a table, by the number that rows events refer to.
//!
//! After the types come, since MySQL 8.0.1 and MariaDB 10.5, optional fields, each with a tag and a length. With
//! `binlog_row_metadata = MINIMAL` they are signedness and character sets, with FULL also names, members of ENUM and
//! SET, the primary key and visibility. MariaDB writes none of them by default (`NO_LOG`).

use super::bytes::{put_lenenc, put_lenenc_bytes, put_short_bytes, put_uint};
use super::value::{WireColumn, code};
use super::{ColumnBitmap, Decoded, FormatDescription, Reader};
use porpoise_types::{Charset, Collation, ColumnType, Kind};

/// Tags of optional fields.
mod tag {
    pub const SIGNEDNESS: u8 = 1;
    pub const DEFAULT_CHARSET: u8 = 2;
    pub const COLUMN_CHARSET: u8 = 3;
    pub const COLUMN_NAME: u8 = 4;
    pub const SET_MEMBERS: u8 = 5;
    pub const ENUM_MEMBERS: u8 = 6;
    pub const SIMPLE_PRIMARY_KEY: u8 = 8;
    pub const PRIMARY_KEY_WITH_PREFIX: u8 = 9;
    pub const MEMBERS_DEFAULT_CHARSET: u8 = 10;
    pub const MEMBERS_CHARSET: u8 = 11;
    pub const VISIBILITY: u8 = 12;
}

/// MySQL's greatest number of columns of a table.
const MAX_COLUMNS: usize = 4096;

/// TABLE_MAP.
#[derive(Clone, Debug, PartialEq)]
pub struct TableMap {
    /// Number of the table; only the next rows events refer to it.
    pub table_id: u64,
    /// Flags; always 1 in MySQL 8.
    pub flags: u16,
    /// Database.
    pub database: Vec<u8>,
    /// Table.
    pub table: Vec<u8>,
    /// Types of the columns.
    pub columns: Vec<WireColumn>,
    /// Columns that may be NULL.
    pub nullable: ColumnBitmap,
    /// Optional fields.
    pub metadata: OptionalMetadata,
}

/// Optional fields of a TABLE_MAP. What is `None` was not logged.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct OptionalMetadata {
    /// Whether the numeric columns are UNSIGNED, in the order of the columns.
    pub unsigned: Option<Vec<bool>>,
    /// Collation numbers of the character columns (CHAR to TEXT, BINARY to BLOB), in the order of the columns.
    pub collations: Option<Vec<u16>>,
    /// Collation numbers of ENUM and SET columns, in the order of the columns.
    pub member_collations: Option<Vec<u16>>,
    /// Names of the columns.
    pub names: Option<Vec<Vec<u8>>>,
    /// Members of the ENUM columns, in the order of the columns.
    pub enum_members: Option<Vec<Vec<Vec<u8>>>>,
    /// Members of the SET columns, in the order of the columns.
    pub set_members: Option<Vec<Vec<Vec<u8>>>>,
    /// Primary key: number of the column, and the length of its prefix (0: the whole column).
    pub primary_key: Option<Vec<(u32, u32)>>,
    /// Columns that are visible.
    pub visible: Option<ColumnBitmap>,
}

/// A column of a table of this server, for [`TableMap::of_table`].
#[derive(Clone, Copy, Debug)]
pub struct MapColumn<'a> {
    /// Name.
    pub name: &'a str,
    /// Type.
    pub ty: &'a ColumnType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Whether `SELECT *` shows it.
    pub visible: bool,
}

/// The optional fields that are written: `binlog_row_metadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ColumnMetadata {
    /// Signedness and character sets.
    #[default]
    Minimal,
    /// All.
    Full,
}

impl TableMap {
    /// Describes a table of this server. `primary_key` has the number of each column, and the length of its prefix
    /// in characters (0: the whole column).
    #[must_use]
    pub fn of_table(
        table_id: u64,
        database: &str,
        table: &str,
        columns: &[MapColumn<'_>],
        primary_key: &[(u32, u32)],
        detail: ColumnMetadata,
    ) -> TableMap {
        let types = || columns.iter().map(|column| column.ty);
        let mut metadata = OptionalMetadata {
            unsigned: Some(
                types()
                    .filter(|ty| is_signed_kind(ty.kind))
                    .map(|ty| ty.unsigned)
                    .collect(),
            ),
            collations: Some(
                types()
                    .filter(|ty| ty.is_string())
                    .map(|ty| ty.collation.0)
                    .collect(),
            ),
            ..OptionalMetadata::default()
        };
        if detail == ColumnMetadata::Full {
            let members = |kind: Kind| {
                types()
                    .filter(|ty| ty.kind == kind)
                    .map(wire_members)
                    .collect()
            };
            metadata.member_collations = Some(
                types()
                    .filter(|ty| matches!(ty.kind, Kind::Enum | Kind::Set))
                    .map(|ty| ty.collation.0)
                    .collect(),
            );
            metadata.names = Some(columns.iter().map(|c| c.name.as_bytes().to_vec()).collect());
            metadata.enum_members = Some(members(Kind::Enum));
            metadata.set_members = Some(members(Kind::Set));
            metadata.primary_key = (!primary_key.is_empty()).then(|| primary_key.to_vec());
            metadata.visible = Some(columns.iter().map(|column| column.visible).collect());
        }
        TableMap {
            table_id,
            flags: 1,
            database: database.as_bytes().to_vec(),
            table: table.as_bytes().to_vec(),
            columns: types().map(WireColumn::of).collect(),
            nullable: columns.iter().map(|column| column.nullable).collect(),
            metadata,
        }
    }

    pub(super) fn decode(mut body: Reader<'_>, format: &FormatDescription) -> Decoded<TableMap> {
        let id_width = if format.table_map_post_header == 6 {
            4
        } else {
            6
        };
        let table_id = body.uint(id_width, "number of the table")?;
        let flags = body.u16("flags")?;
        let database = body.short_bytes("database")?.to_vec();
        body.u8("end of the database")?;
        let table = body.short_bytes("table")?.to_vec();
        body.u8("end of the table")?;
        let count = body.lenenc_count("number of columns")?;
        if count > MAX_COLUMNS {
            return Err(body.error(format!("{count} columns")));
        }
        let types = body.take(count, "types of columns")?;
        let mut metadata = Reader::new("TABLE_MAP", body.lenenc_bytes("metadata of types")?);
        let columns = types
            .iter()
            .map(|code| WireColumn::decode(*code, &mut metadata))
            .collect::<Decoded<Vec<_>>>()?;
        let nullable = ColumnBitmap::decode(&mut body, count, "nullable columns")?;
        let metadata = OptionalMetadata::decode(body, &columns)?;
        Ok(TableMap {
            table_id,
            flags,
            database,
            table,
            columns,
            nullable,
            metadata,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_uint(out, self.table_id, 6);
        put_uint(out, u64::from(self.flags), 2);
        put_short_bytes(out, &self.database);
        out.push(0);
        put_short_bytes(out, &self.table);
        out.push(0);
        put_lenenc(out, self.columns.len() as u64);
        out.extend(self.columns.iter().map(|column| column.wire_code()));
        let mut metadata = Vec::new();
        for column in &self.columns {
            column.encode_metadata(&mut metadata);
        }
        put_lenenc_bytes(out, &metadata);
        self.nullable.encode(out);
        self.metadata.encode(out);
    }

    /// Whether a column is UNSIGNED; `None` if that was not logged or the column is not a number.
    #[must_use]
    pub fn is_unsigned(&self, column: usize) -> Option<bool> {
        let unsigned = self.metadata.unsigned.as_ref()?;
        let place = self.place_of(column, WireColumn::has_sign)?;
        unsigned.get(place).copied()
    }

    /// Collation number of a character, ENUM or SET column; `None` if that was not logged.
    #[must_use]
    pub fn collation(&self, column: usize) -> Option<u16> {
        let of = |list: &Option<Vec<u16>>, test: fn(&WireColumn) -> bool| {
            let place = self.place_of(column, test)?;
            list.as_ref()?.get(place).copied()
        };
        of(&self.metadata.collations, WireColumn::has_collation)
            .or_else(|| of(&self.metadata.member_collations, WireColumn::has_members))
    }

    /// Place of a column among those that pass a test.
    fn place_of(&self, column: usize, test: fn(&WireColumn) -> bool) -> Option<usize> {
        let (before, rest) = self.columns.split_at_checked(column)?;
        rest.first().filter(|column| test(column))?;
        Some(before.iter().filter(|column| test(column)).count())
    }
}

/// Whether a kind has a bit in the field of signedness.
fn is_signed_kind(kind: Kind) -> bool {
    kind.int_bits() > 0 || matches!(kind, Kind::Decimal | Kind::Float | Kind::Double)
}

/// Members of ENUM or SET in the column's character set.
fn wire_members(ty: &ColumnType) -> Vec<Vec<u8>> {
    let charset = ty.collation.charset();
    ty.members
        .iter()
        .map(|member| match charset {
            Charset::Binary => member.to_vec(),
            charset => charset.encoded(member).into_owned(),
        })
        .collect()
}

impl OptionalMetadata {
    fn decode(mut body: Reader<'_>, columns: &[WireColumn]) -> Decoded<OptionalMetadata> {
        let mut metadata = OptionalMetadata::default();
        let count = |test: fn(&WireColumn) -> bool| columns.iter().filter(|c| test(c)).count();
        while !body.is_empty() {
            let tag = body.u8("tag of a field")?;
            let mut field = Reader::new("TABLE_MAP", body.lenenc_bytes("field")?);
            match tag {
                tag::SIGNEDNESS => {
                    let numbers = count(WireColumn::has_sign);
                    let bits = field.take(numbers.div_ceil(8), "signedness")?;
                    metadata.unsigned = Some((0..numbers).map(|at| bit_of(bits, at)).collect());
                }
                tag::DEFAULT_CHARSET => {
                    let count = count(WireColumn::has_collation);
                    metadata.collations = Some(default_collations(field, count)?);
                }
                tag::COLUMN_CHARSET => metadata.collations = Some(collations(field)?),
                tag::MEMBERS_DEFAULT_CHARSET => {
                    let count = count(WireColumn::has_members);
                    metadata.member_collations = Some(default_collations(field, count)?);
                }
                tag::MEMBERS_CHARSET => metadata.member_collations = Some(collations(field)?),
                tag::COLUMN_NAME => metadata.names = Some(strings(field)?),
                tag::SET_MEMBERS => metadata.set_members = Some(members(field)?),
                tag::ENUM_MEMBERS => metadata.enum_members = Some(members(field)?),
                tag::SIMPLE_PRIMARY_KEY => metadata.primary_key = Some(primary_key(field, false)?),
                tag::PRIMARY_KEY_WITH_PREFIX => {
                    metadata.primary_key = Some(primary_key(field, true)?);
                }
                tag::VISIBILITY => {
                    let bits = field.take(columns.len().div_ceil(8), "visibility")?;
                    metadata.visible =
                        Some((0..columns.len()).map(|at| bit_of(bits, at)).collect());
                }
                _ => {}
            }
        }
        Ok(metadata)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        if let Some(unsigned) = self.unsigned.as_ref().filter(|list| !list.is_empty()) {
            put_field(out, tag::SIGNEDNESS, &bits(unsigned.iter().copied()));
        }
        if let Some(list) = self.collations.as_ref().filter(|list| !list.is_empty()) {
            put_field(out, tag::COLUMN_CHARSET, &lenencs(list));
        }
        if let Some(list) = self.member_collations.as_ref().filter(|l| !l.is_empty()) {
            put_field(out, tag::MEMBERS_CHARSET, &lenencs(list));
        }
        if let Some(names) = self.names.as_ref().filter(|list| !list.is_empty()) {
            let mut field = Vec::new();
            names
                .iter()
                .for_each(|name| put_lenenc_bytes(&mut field, name));
            put_field(out, tag::COLUMN_NAME, &field);
        }
        let members = [
            (tag::SET_MEMBERS, &self.set_members),
            (tag::ENUM_MEMBERS, &self.enum_members),
        ];
        for (tag, columns) in members {
            if let Some(columns) = columns.as_ref().filter(|list| !list.is_empty()) {
                put_field(out, tag, &encoded_members(columns));
            }
        }
        if let Some(key) = &self.primary_key {
            let has_prefix = key.iter().any(|(_, prefix)| *prefix > 0);
            let mut field = Vec::new();
            for (column, prefix) in key {
                put_lenenc(&mut field, u64::from(*column));
                if has_prefix {
                    put_lenenc(&mut field, u64::from(*prefix));
                }
            }
            let tag = if has_prefix {
                tag::PRIMARY_KEY_WITH_PREFIX
            } else {
                tag::SIMPLE_PRIMARY_KEY
            };
            put_field(out, tag, &field);
        }
        if let Some(visible) = self.visible.as_ref().filter(|columns| !columns.is_empty()) {
            put_field(out, tag::VISIBILITY, &bits(visible.iter()));
        }
    }
}

fn put_field(out: &mut Vec<u8>, tag: u8, field: &[u8]) {
    out.push(tag);
    put_lenenc_bytes(out, field);
}

/// Bits from the most significant one on.
fn bits(values: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, is_set) in values.enumerate() {
        if at % 8 == 0 {
            bytes.push(0);
        }
        if let Some(last) = bytes.last_mut()
            && is_set
        {
            *last |= 0x80 >> (at % 8);
        }
    }
    bytes
}

fn bit_of(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8)
        .is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0)
}

fn lenencs(numbers: &[u16]) -> Vec<u8> {
    let mut field = Vec::new();
    for number in numbers {
        put_lenenc(&mut field, u64::from(*number));
    }
    field
}

fn encoded_members(columns: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut field = Vec::new();
    for members in columns {
        put_lenenc(&mut field, members.len() as u64);
        for member in members {
            put_lenenc_bytes(&mut field, member);
        }
    }
    field
}

fn collation(field: &mut Reader<'_>) -> Decoded<u16> {
    let number = field.lenenc("collation")?;
    u16::try_from(number).map_err(|_| field.error(format!("collation {number}")))
}

fn collations(mut field: Reader<'_>) -> Decoded<Vec<u16>> {
    let mut list = Vec::new();
    while !field.is_empty() {
        list.push(collation(&mut field)?);
    }
    Ok(list)
}

/// A default, and the columns (by their place among those with a character set) that differ from it.
fn default_collations(mut field: Reader<'_>, count: usize) -> Decoded<Vec<u16>> {
    let default = collation(&mut field)?;
    let mut list = vec![default; count];
    while !field.is_empty() {
        let at = field.lenenc("column")?;
        let other = collation(&mut field)?;
        let place = usize::try_from(at).ok().and_then(|at| list.get_mut(at));
        *place.ok_or_else(|| field.error(format!("a collation of column {at}")))? = other;
    }
    Ok(list)
}

fn strings(mut field: Reader<'_>) -> Decoded<Vec<Vec<u8>>> {
    let mut list = Vec::new();
    while !field.is_empty() {
        list.push(field.lenenc_bytes("name")?.to_vec());
    }
    Ok(list)
}

fn members(mut field: Reader<'_>) -> Decoded<Vec<Vec<Vec<u8>>>> {
    let mut columns = Vec::new();
    while !field.is_empty() {
        let count = field.lenenc_count("number of members")?;
        let mut members = Vec::new();
        for _ in 0..count {
            members.push(field.lenenc_bytes("member")?.to_vec());
        }
        columns.push(members);
    }
    Ok(columns)
}

fn primary_key(mut field: Reader<'_>, has_prefix: bool) -> Decoded<Vec<(u32, u32)>> {
    let mut key = Vec::new();
    while !field.is_empty() {
        let column = field.lenenc("column of the primary key")?;
        let prefix = if has_prefix {
            field.lenenc("prefix of the primary key")?
        } else {
            0
        };
        key.push((column as u32, prefix as u32));
    }
    Ok(key)
}

/// Character set of a collation number, if this server has it.
#[must_use]
pub fn charset_of(number: u16) -> Option<Charset> {
    Collation::from_id(number).map(Collation::charset)
}

impl WireColumn {
    /// Whether the column has a bit in the field of signedness.
    fn has_sign(&self) -> bool {
        matches!(
            self.code,
            code::TINY
                | code::SHORT
                | code::INT24
                | code::LONG
                | code::LONGLONG
                | code::NEWDECIMAL
                | code::FLOAT
                | code::DOUBLE
        )
    }

    /// Whether the column is in the fields of character sets.
    fn has_collation(&self) -> bool {
        matches!(
            self.code,
            code::STRING | code::VAR_STRING | code::VARCHAR | code::BLOB
        )
    }

    /// Whether the column is ENUM or SET.
    fn has_members(&self) -> bool {
        matches!(self.code, code::ENUM | code::SET)
    }
}
