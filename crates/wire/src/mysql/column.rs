//! Metadata of results: the description of a column type for clients.
//!
//! [`describe`] returns type code, collation, length, flags and decimals of every type, as MySQL 8
//! announces them: lengths are display widths, those of texts in bytes of the character set of
//! results; BLOB and TEXT types of all sizes share a code; ENUM and SET are strings with a flag.

pub use porpoise_types::column_flag as flag;

use porpoise_types::collation::Charset;
use porpoise_types::column_type::NOT_FIXED_DECIMALS;
use porpoise_types::{Collation, ColumnType, Kind};

use super::capability::type_code;
use super::cursor::put_bytes;
use super::frame;

/// Description of a type for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// A code of [`type_code`].
    pub code: u8,
    /// Id of the collation; 63 (`binary`) for types other than text.
    pub collation: u16,
    /// Maximum length of the value's text, in bytes.
    pub length: u32,
    /// Flags implied by the type, of [`flag`].
    pub flags: u16,
    /// Decimals; 31: not fixed.
    pub decimals: u8,
}

/// A column of a result.
#[derive(Clone, Copy, Debug)]
pub struct ColumnDefinition<'a> {
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
    /// Type.
    pub ty: &'a ColumnType,
    /// Flags in addition to those of the type, of [`flag`].
    pub flags: u16,
}

/// Returns the code of a type, which also selects the encoding of its values in binary rows.
pub fn code_of(ty: &ColumnType) -> u8 {
    use type_code as t;
    match ty.kind {
        Kind::TinyInt => t::TINY,
        Kind::SmallInt => t::SHORT,
        Kind::MediumInt => t::INT24,
        Kind::Int => t::LONG,
        Kind::BigInt => t::LONGLONG,
        Kind::Float => t::FLOAT,
        Kind::Double => t::DOUBLE,
        Kind::Decimal => t::NEWDECIMAL,
        Kind::Bit => t::BIT,
        Kind::Year => t::YEAR,
        Kind::Date => t::DATE,
        Kind::DateTime => t::DATETIME,
        Kind::Timestamp => t::TIMESTAMP,
        Kind::Time => t::TIME,
        Kind::VarChar | Kind::VarBinary => t::VAR_STRING,
        Kind::Char | Kind::Binary | Kind::Enum | Kind::Set => t::STRING,
        Kind::Json => t::JSON,
        Kind::Null => t::NULL,
        Kind::TinyText
        | Kind::Text
        | Kind::MediumText
        | Kind::LongText
        | Kind::TinyBlob
        | Kind::Blob
        | Kind::MediumBlob
        | Kind::LongBlob => t::BLOB,
    }
}

/// Describes `ty` for clients that receive texts in the character set of the collation `results`
/// (`None`: without conversion).
pub fn describe(ty: &ColumnType, results: Option<Collation>) -> Description {
    let code = code_of(ty);
    let (length, decimals) = max_length_and_decimals(ty);
    let mut flags = 0;
    if ty.is_numeric() && ty.unsigned {
        flags |= flag::UNSIGNED;
    }
    if ty.is_numeric() && ty.zerofill {
        flags |= flag::ZEROFILL;
    }
    flags |= match ty.kind {
        Kind::Bit => flag::UNSIGNED,
        Kind::Year => flag::UNSIGNED | flag::ZEROFILL,
        Kind::Date | Kind::DateTime | Kind::Timestamp | Kind::Time | Kind::Null => flag::BINARY,
        Kind::Binary | Kind::VarBinary => flag::BINARY,
        Kind::Enum => flag::ENUM,
        Kind::Set => flag::SET,
        Kind::Json => flag::BLOB | flag::BINARY,
        _ if code == type_code::BLOB => flag::BLOB,
        _ => 0,
    };
    let text = is_text(ty);
    if text && is_binary_order(ty.collation) || code == type_code::BLOB && !text {
        flags |= flag::BINARY;
    }
    let (collation, length) = if text {
        let sent = results.unwrap_or(ty.collation);
        let own_charset = ty.collation.charset();
        // A TEXT may have as many characters as bytes, because a character may have one byte.
        let bytes_per_character = if ty.is_blob() {
            1
        } else {
            own_charset.max_len()
        };
        let characters = length / bytes_per_character;
        let length = match results {
            None if !ty.is_blob() => length,
            _ => characters.saturating_mul(sent.charset().max_len()),
        };
        (sent.0, length)
    } else {
        (Collation::BINARY.0, length)
    };
    Description {
        code,
        collation,
        length,
        flags,
        decimals,
    }
}

/// Whether values are texts of a character set.
fn is_text(ty: &ColumnType) -> bool {
    let has_characters = matches!(
        ty.kind,
        Kind::Char
            | Kind::VarChar
            | Kind::TinyText
            | Kind::Text
            | Kind::MediumText
            | Kind::LongText
            | Kind::Enum
            | Kind::Set
    );
    has_characters && ty.collation.charset() != Charset::Binary
}

/// Whether the collation compares code points.
fn is_binary_order(collation: Collation) -> bool {
    collation == Collation::bin_for(collation.charset()) || collation.name().ends_with("_bin")
}

/// Returns the maximum length in bytes (of texts: in their own character set) and the decimals.
fn max_length_and_decimals(ty: &ColumnType) -> (u32, u8) {
    let sign = u32::from(!ty.unsigned);
    // The length of a time, `width` without a fraction.
    let with_fraction = |width: u32| {
        let fsp = ty.decimals.min(6);
        (width + u32::from(fsp) + u32::from(fsp > 0), fsp)
    };
    // A declared display width takes precedence.
    let width = |width: u32| (if ty.length > 0 { ty.length } else { width }, 0);
    match ty.kind {
        Kind::TinyInt => width(3 + sign),
        Kind::SmallInt => width(5 + sign),
        Kind::MediumInt => width(8 + sign),
        Kind::Int => width(10 + sign),
        Kind::BigInt => width(20),
        Kind::Year => (4, 0),
        Kind::Float | Kind::Double => {
            let default = if ty.kind == Kind::Float { 12 } else { 22 };
            let is_fixed = ty.decimals < NOT_FIXED_DECIMALS && ty.length > 0;
            let length = if is_fixed { ty.length } else { default };
            (length, ty.decimals.min(NOT_FIXED_DECIMALS))
        }
        Kind::Decimal => {
            let point = u32::from(ty.decimals > 0);
            (ty.length + point + sign, ty.decimals)
        }
        Kind::Bit => (ty.length, 0),
        Kind::Date => (10, 0),
        Kind::DateTime | Kind::Timestamp => with_fraction(19),
        Kind::Time => with_fraction(10),
        Kind::Enum => (fold_member_lengths(ty, |all| all.max().unwrap_or(0)), 0),
        Kind::Set => {
            let commas = u32::try_from(ty.members.len().saturating_sub(1)).unwrap_or(0);
            (
                fold_member_lengths(ty, |all| all.sum::<u32>())
                    .saturating_add(commas * ty.collation.charset().max_len()),
                0,
            )
        }
        Kind::Null => (0, 0),
        _ => (ty.max_bytes(), 0),
    }
}

/// Folds the maximum lengths in bytes of an ENUM's or SET's members.
fn fold_member_lengths(
    ty: &ColumnType,
    fold: impl Fn(&mut dyn Iterator<Item = u32>) -> u32,
) -> u32 {
    let charset = ty.collation.charset();
    let mut lengths = ty
        .members
        .iter()
        .map(|m| charset.char_count(m) as u32 * charset.max_len());
    fold(&mut lengths)
}

/// Appends a column definition.
pub fn write_column(
    out: &mut Vec<u8>,
    sequence: &mut u8,
    column: &ColumnDefinition<'_>,
    results: Option<Collation>,
) {
    let packet = frame::begin(out);
    encode_column(out, column, results);
    frame::finish(out, packet, sequence);
}

/// Appends the payload of a column definition.
pub fn encode_column(out: &mut Vec<u8>, column: &ColumnDefinition<'_>, results: Option<Collation>) {
    put_column(out, column, &describe(column.ty, results));
}

/// Appends a column definition of a reply to COM_FIELD_LIST, which includes the default value as
/// text, or NULL.
pub fn write_listed_column(
    out: &mut Vec<u8>,
    sequence: &mut u8,
    column: &ColumnDefinition<'_>,
    results: Option<Collation>,
    default: Option<&[u8]>,
) {
    let packet = frame::begin(out);
    put_column(out, column, &describe(column.ty, results));
    match default {
        Some(text) => put_bytes(out, text),
        None => out.push(0xfb),
    }
    frame::finish(out, packet, sequence);
}

/// Appends the definition of a parameter. As in MySQL's servers, it says nothing about the type.
pub fn write_param(out: &mut Vec<u8>, sequence: &mut u8) {
    let no_type = ColumnType::null();
    let column = ColumnDefinition {
        schema: b"",
        table: b"",
        org_table: b"",
        name: b"?",
        org_name: b"",
        ty: &no_type,
        flags: 0,
    };
    let unknown = Description {
        code: type_code::VAR_STRING,
        collation: Collation::BINARY.0,
        length: 0,
        flags: flag::BINARY,
        decimals: 0,
    };
    let packet = frame::begin(out);
    put_column(out, &column, &unknown);
    frame::finish(out, packet, sequence);
}

fn put_column(out: &mut Vec<u8>, column: &ColumnDefinition<'_>, description: &Description) {
    put_bytes(out, b"def");
    put_bytes(out, column.schema);
    put_bytes(out, column.table);
    put_bytes(out, column.org_table);
    put_bytes(out, column.name);
    put_bytes(out, column.org_name);
    // Length of the fields that follow.
    out.push(0x0c);
    out.extend_from_slice(&description.collation.to_le_bytes());
    out.extend_from_slice(&description.length.to_le_bytes());
    out.push(description.code);
    out.extend_from_slice(&(column.flags | description.flags).to_le_bytes());
    // Two unused bytes.
    out.extend_from_slice(&[description.decimals, 0, 0]);
}
