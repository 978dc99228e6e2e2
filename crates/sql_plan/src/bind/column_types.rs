//! Column types as statements write them, with MySQL's limits and defaults.

use super::nodes::charset_named;
use crate::error::{Result, SqlError};
use crate::parse::ast::{DataType, TypeKind};
use porpoise_types::{Charset, Collation, ColumnType, Kind, SqlMode};
use std::borrow::Cow;

/// A resolved type, and whether its character set was explicit.
pub struct ResolvedType {
    /// The type.
    pub ty: ColumnType,
    /// Whether a character set or collation was given.
    pub explicit: bool,
    /// Code and text of a note about a conversion of the type.
    pub note: Option<(u16, String)>,
}

/// The collation of this name. Error 1273 if it is unknown.
pub fn collation_named(name: &str) -> Result<Collation> {
    Collation::by_name(name)
        .ok_or_else(|| SqlError::new(1273, "HY000", format!("Unknown collation: '{name}'")))
}

/// Error 1253: the collation does not belong to the character set.
pub fn collation_mismatch(collation: Collation, charset: Charset) -> SqlError {
    let text = format!(
        "COLLATION '{}' is not valid for CHARACTER SET '{}'",
        collation.name(),
        charset.name()
    );
    SqlError::new(1253, "42000", text)
}

fn too_precise(given: u64, column: &str, most: u64) -> SqlError {
    let text = format!("Too-big precision {given} specified for '{column}'. Maximum is {most}.");
    SqlError::new(1426, "42000", text)
}

fn too_long(column: &str, most: u64) -> SqlError {
    let text = format!(
        "Column length too big for column '{column}' (max = {most}); use BLOB or TEXT instead"
    );
    SqlError::new(1074, "42000", text)
}

fn too_wide(column: &str, most: u64) -> SqlError {
    let text = format!("Display width out of range for column '{column}' (max = {most})");
    SqlError::new(1439, "42000", text)
}

/// The collation that a type has or inherits, and whether it was explicit.
pub fn collation_of(
    ty: &DataType<'_>,
    inherited: Collation,
    for_charset: &dyn Fn(Charset) -> Collation,
) -> Result<(Collation, bool)> {
    let charset = ty
        .charset
        .map(|name| charset_named(name.name))
        .transpose()?;
    let named = ty
        .collation
        .map(|name| collation_named(name.name))
        .transpose()?;
    match (charset, named) {
        (Some(charset), Some(c)) if c.charset() != charset => Err(collation_mismatch(c, charset)),
        // The inherited collation by its name alone is not explicit, unlike in MySQL: the form that
        // SHOW CREATE TABLE prints for an inherited collation then gives the same definition.
        (charset, Some(collation)) => Ok((collation, charset.is_some() || collation != inherited)),
        (Some(charset), None) if ty.binary => Ok((Collation::bin_for(charset), true)),
        (Some(charset), None) => Ok((for_charset(charset), true)),
        (None, None) if ty.binary => Ok((Collation::bin_for(inherited.charset()), true)),
        (None, None) => Ok((inherited, false)),
    }
}

/// Resolves the type of a column.
///
/// # Errors
/// MySQL's: 1063, 1074, 1115, 1253, 1273, 1291, 1425, 1426, 1427, 1439.
pub fn column_type(
    ty: &DataType<'_>,
    column: &str,
    inherited: Collation,
    mode: SqlMode,
    for_charset: &dyn Fn(Charset) -> Collation,
) -> Result<ResolvedType> {
    let plain = |ty: ColumnType| {
        Ok(ResolvedType {
            ty,
            explicit: false,
            note: None,
        })
    };
    match ty.kind {
        TypeKind::TinyInt => plain(integer(Kind::TinyInt, 3, ty, column)?),
        TypeKind::SmallInt => plain(integer(Kind::SmallInt, 5, ty, column)?),
        TypeKind::MediumInt => plain(integer(Kind::MediumInt, 8, ty, column)?),
        TypeKind::Int => plain(integer(Kind::Int, 10, ty, column)?),
        TypeKind::BigInt => plain(integer(Kind::BigInt, 20, ty, column)?),
        TypeKind::Serial => plain(ColumnType::bigint_unsigned()),
        TypeKind::Float | TypeKind::Double | TypeKind::Real => plain(float(ty, column, mode)?),
        TypeKind::Decimal => plain(decimal(ty, column)?),
        TypeKind::Bit => match ty.length.unwrap_or(1) {
            0 => plain(ColumnType::bit(1)),
            bits @ 1..=64 => plain(ColumnType::bit(bits as u32)),
            _ => Err(too_wide(column, 64)),
        },
        TypeKind::Year => match ty.length {
            None | Some(4) => plain(ColumnType::year()),
            Some(_) => {
                let text = "Invalid display width. Use YEAR instead.";
                Err(SqlError::new(1818, "HY000", text))
            }
        },
        TypeKind::Date => plain(ColumnType::date()),
        TypeKind::DateTime => plain(ColumnType::datetime(fsp(ty, column)?)),
        TypeKind::Timestamp => plain(ColumnType::timestamp(fsp(ty, column)?)),
        TypeKind::Time => plain(ColumnType::time(fsp(ty, column)?)),
        TypeKind::Json => plain(ColumnType::json()),
        TypeKind::Geometry
        | TypeKind::Point
        | TypeKind::LineString
        | TypeKind::Polygon
        | TypeKind::MultiPoint
        | TypeKind::MultiLineString
        | TypeKind::MultiPolygon
        | TypeKind::GeometryCollection => Err(SqlError::not_supported("spatial types")),
        _ => {
            let (collation, explicit) = collation_of(ty, inherited, for_charset)?;
            let (ty, note) = string(ty, column, collation, mode)?;
            Ok(ResolvedType { ty, explicit, note })
        }
    }
}

fn fsp(ty: &DataType<'_>, column: &str) -> Result<u8> {
    match ty.length.unwrap_or(0) {
        n @ 0..=6 => Ok(n as u8),
        n => Err(too_precise(n, column, 6)),
    }
}

/// Display widths have an effect only for TINYINT(1) and ZEROFILL.
fn integer(kind: Kind, digits: u32, ty: &DataType<'_>, column: &str) -> Result<ColumnType> {
    let unsigned = ty.unsigned || ty.zerofill;
    let mut column_type = if unsigned {
        ColumnType::uint(kind)
    } else {
        ColumnType::int(kind)
    };
    let width = match ty.length {
        Some(n) if n > 255 => return Err(too_wide(column, 255)),
        Some(n) => n as u32,
        None => 0,
    };
    column_type.zerofill = ty.zerofill;
    column_type.length = match (ty.zerofill, width) {
        (true, 0) => digits,
        (true, width) => width,
        (false, 1) if kind == Kind::TinyInt && !unsigned => 1,
        _ => 0,
    };
    Ok(column_type)
}

fn float(ty: &DataType<'_>, column: &str, mode: SqlMode) -> Result<ColumnType> {
    let single = match ty.kind {
        TypeKind::Float => true,
        TypeKind::Real => mode.contains(SqlMode::REAL_AS_FLOAT),
        _ => false,
    };
    let mut column_type = match (single, ty.length, ty.decimals) {
        (true, Some(25..=53), None) => ColumnType::double(),
        (true, Some(bits), None) if bits > 53 => {
            let text = format!("Incorrect column specifier for column '{column}'");
            return Err(SqlError::new(1063, "42000", text));
        }
        (true, ..) => ColumnType::float(),
        (false, ..) => ColumnType::double(),
    };
    if let (Some(width), Some(scale)) = (ty.length, ty.decimals) {
        if width > 255 {
            return Err(too_wide(column, 255));
        }
        check_scale(width, scale, column)?;
        column_type.length = width as u32;
        column_type.decimals = scale as u8;
    }
    column_type.unsigned = ty.unsigned || ty.zerofill;
    column_type.zerofill = ty.zerofill;
    Ok(column_type)
}

/// Errors 1425 and 1427: scale out of range, or larger than the precision.
fn check_scale(precision: u64, scale: u64, column: &str) -> Result<()> {
    if scale > 30 {
        let text = format!("Too big scale {scale} specified for column '{column}'. Maximum is 30.");
        return Err(SqlError::new(1425, "42000", text));
    }
    if scale > precision {
        let text = format!(
            "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '{column}')."
        );
        return Err(SqlError::new(1427, "42000", text));
    }
    Ok(())
}

fn decimal(ty: &DataType<'_>, column: &str) -> Result<ColumnType> {
    let precision = ty.length.filter(|n| *n > 0).unwrap_or(10);
    let scale = ty.decimals.unwrap_or(0);
    if precision > 65 {
        return Err(too_precise(precision, column, 65));
    }
    check_scale(precision, scale, column)?;
    let mut column_type = ColumnType::decimal(precision as u8, scale as u8);
    column_type.unsigned = ty.unsigned || ty.zerofill;
    column_type.zerofill = ty.zerofill;
    Ok(column_type)
}

type WithNote = (ColumnType, Option<(u16, String)>);

fn string(
    ty: &DataType<'_>,
    column: &str,
    collation: Collation,
    mode: SqlMode,
) -> Result<WithNote> {
    let raw = collation == Collation::BINARY;
    let bytes = u64::from(collation.charset().max_len());
    let text = |kind, blob| {
        if raw {
            ColumnType::blob(blob)
        } else {
            ColumnType::text(kind, collation)
        }
    };
    let plain = match ty.kind {
        TypeKind::Char => match (ty.length.unwrap_or(1), raw) {
            (n @ 0..=255, false) => ColumnType::char(n as u32, collation),
            (n @ 0..=255, true) => ColumnType::binary(n as u32),
            _ => return Err(too_long(column, 255)),
        },
        TypeKind::Binary => match ty.length.unwrap_or(1) {
            n @ 0..=255 => ColumnType::binary(n as u32),
            _ => return Err(too_long(column, 255)),
        },
        TypeKind::VarChar | TypeKind::VarBinary => {
            return variable_length_type(ty, column, collation, mode);
        }
        TypeKind::TinyText => text(Kind::TinyText, Kind::TinyBlob),
        TypeKind::MediumText => text(Kind::MediumText, Kind::MediumBlob),
        TypeKind::LongText => text(Kind::LongText, Kind::LongBlob),
        TypeKind::Text => {
            let size = ty.length.map(|n| n.saturating_mul(bytes));
            let (kind, blob) = size_of_text(size);
            text(kind, blob)
        }
        TypeKind::TinyBlob => ColumnType::blob(Kind::TinyBlob),
        TypeKind::MediumBlob => ColumnType::blob(Kind::MediumBlob),
        TypeKind::LongBlob => ColumnType::blob(Kind::LongBlob),
        TypeKind::Blob => ColumnType::blob(size_of_text(ty.length).1),
        TypeKind::Enum | TypeKind::Set => enum_or_set_type(ty, column, collation)?,
        _ => return Err(SqlError::not_supported("this column type")),
    };
    Ok((plain, None))
}

fn variable_length_type(
    ty: &DataType<'_>,
    column: &str,
    collation: Collation,
    mode: SqlMode,
) -> Result<WithNote> {
    let raw = ty.kind == TypeKind::VarBinary || collation == Collation::BINARY;
    let bytes = if raw {
        1
    } else {
        u64::from(collation.charset().max_len())
    };
    let length = ty.length.unwrap_or(1);
    let most = 65_535 / bytes;
    if length <= most {
        let ty = if raw {
            ColumnType::varbinary(length as u32)
        } else {
            ColumnType::varchar(length as u32, collation)
        };
        return Ok((ty, None));
    }
    if mode.is_strict() {
        return Err(too_long(column, most));
    }
    let (kind, blob) = size_of_text(Some(length.saturating_mul(bytes)));
    let (from, to, ty) = if raw {
        ("VARBINARY", "BLOB", ColumnType::blob(blob))
    } else {
        ("VARCHAR", "TEXT", ColumnType::text(kind, collation))
    };
    let note = format!("Converting column '{column}' from {from} to {to}");
    Ok((ty, Some((1246, note))))
}

/// The smallest kinds of TEXT and BLOB for this many bytes.
fn size_of_text(bytes: Option<u64>) -> (Kind, Kind) {
    match bytes {
        None | Some(0) => (Kind::Text, Kind::Blob),
        Some(1..=255) => (Kind::TinyText, Kind::TinyBlob),
        Some(256..=65_535) => (Kind::Text, Kind::Blob),
        Some(65_536..=16_777_215) => (Kind::MediumText, Kind::MediumBlob),
        Some(_) => (Kind::LongText, Kind::LongBlob),
    }
}

/// ENUM and SET: trailing spaces of members are removed, and members must be distinct.
fn enum_or_set_type(ty: &DataType<'_>, column: &str, collation: Collation) -> Result<ColumnType> {
    let name = if ty.kind == TypeKind::Enum {
        "ENUM"
    } else {
        "SET"
    };
    let mut members: Vec<Box<[u8]>> = Vec::with_capacity(ty.members.len());
    for member in ty.members {
        let shown = || String::from_utf8_lossy(member.bytes).into_owned();
        let (text, lossy) = if member.is_binary {
            let (text, invalid) = collation.charset().decoded(member.bytes);
            (Cow::Owned(text.to_vec()), invalid.is_some())
        } else {
            Charset::Utf8mb4.convert(collation.charset(), member.bytes)
        };
        if lossy {
            let text = format!(
                "Incorrect string value: '{}' for column '{column}'",
                shown()
            );
            return Err(SqlError::new(1366, "HY000", text));
        }
        let kept = text.trim_ascii_end();
        if ty.kind == TypeKind::Set && kept.contains(&b',') {
            let text = format!("Illegal set '{}' value found during parsing", shown());
            return Err(SqlError::new(1367, "22007", text));
        }
        if members.iter().any(|m| collation.equal(m, kept)) {
            let text = format!(
                "Column '{column}' has duplicated value '{}' in {name}",
                shown()
            );
            return Err(SqlError::new(1291, "HY000", text));
        }
        members.push(kept.into());
    }
    let most = match ty.kind {
        TypeKind::Enum => porpoise_types::column_type::MAX_ENUM_MEMBERS,
        _ => porpoise_types::column_type::MAX_SET_MEMBERS,
    };
    if members.len() > most {
        let text = format!("Too many strings for column {column} and {name}");
        return Err(SqlError::new(1097, "HY000", text));
    }
    Ok(match ty.kind {
        TypeKind::Enum => ColumnType::enumeration(members, collation),
        _ => ColumnType::set(members, collation),
    })
}
