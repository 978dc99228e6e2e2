//! Values of events as storage values of this server's columns.
//!
//! A replica's column may differ from the source's: a wider integer, another character set. A value of the same kind
//! is taken as it is, after a check of its range; any other is assigned as by INSERT in strict mode, so that a value
//! that would change is an error, not a silent difference.

use crate::event::WireColumn;
use crate::event::table_map::charset_of;
use crate::event::value::code;
use porpoise_types::{
    CastCx, Charset, Collation, ColumnType, DateTime, Kind, SqlMode, TimeZone, TypeError, Value,
    json, store,
};

/// Converts a value of the source's column to the storage value of this server's column `name`. `collation` is the
/// source's, where it was logged; otherwise text is taken to be in the target's character set.
///
/// # Errors
/// The value does not fit: MySQL's number and text of an assignment.
pub fn to_storage(
    value: Value,
    wire: &WireColumn,
    collation: Option<u16>,
    target: &ColumnType,
    name: &str,
) -> Result<Value, TypeError> {
    let value = match direct(value, wire, collation, target) {
        Ok(stored) => return Ok(stored),
        Err(value) => value,
    };
    let source = source_type(wire, collation, target);
    let mut cx = CastCx {
        mode: SqlMode::EMPTY,
        strict: true,
        warnings: &mut |_| {},
        tz: &TimeZone::UTC,
        now: DateTime::ZERO,
    };
    store(value.as_ref(), source.as_ref(), target, name, 1, &mut cx)
}

/// The storage value, if the column has the same kind and the value is in its range; else the value itself.
fn direct(
    value: Value,
    wire: &WireColumn,
    collation: Option<u16>,
    target: &ColumnType,
) -> Result<Value, Value> {
    let same_fraction = || u16::from(target.decimals) >= wire.metadata;
    match value {
        Value::Null => Ok(Value::Null),
        Value::Int(_) | Value::UInt(_) => integer(value, wire, target),
        Value::Double(_) if target.kind == Kind::Double => Ok(value),
        Value::Double(_) if target.kind == Kind::Float && wire.code == code::FLOAT => Ok(value),
        Value::Decimal(number) if target.kind == Kind::Decimal => {
            let precision = u8::try_from(target.length).unwrap_or(u8::MAX);
            match number.rescale(target.decimals) {
                Ok(scaled)
                    if number.scale() <= target.decimals
                        && scaled.fits(precision, target.decimals) =>
                {
                    Ok(Value::Decimal(scaled))
                }
                _ => Err(value),
            }
        }
        Value::Date(_) if target.kind == Kind::Date => Ok(value),
        Value::DateTime(_) if is_same_moment(wire, target.kind) && same_fraction() => Ok(value),
        Value::Time(_) if target.kind == Kind::Time && same_fraction() => Ok(value),
        Value::Bytes(bytes) => text(bytes, wire, collation, target).map_err(Value::Bytes),
        other => Err(other),
    }
}

/// Whether a date and time means the same in both types: TIMESTAMPs are in UTC.
fn is_same_moment(wire: &WireColumn, target: Kind) -> bool {
    match target {
        Kind::Timestamp => matches!(wire.code, code::TIMESTAMP | code::TIMESTAMP2),
        Kind::DateTime => matches!(wire.code, code::DATETIME | code::DATETIME2),
        _ => false,
    }
}

fn integer(value: Value, wire: &WireColumn, target: &ColumnType) -> Result<Value, Value> {
    let number = match value {
        Value::Int(number) => i128::from(number),
        Value::UInt(number) => i128::from(number),
        other => return Err(other),
    };
    let is_same_kind = match target.kind {
        Kind::Enum => wire.code == code::ENUM,
        Kind::Set => wire.code == code::SET,
        Kind::Bit => wire.code == code::BIT,
        Kind::Year => wire.code == code::YEAR,
        kind if kind.int_bits() > 0 => {
            !matches!(wire.code, code::ENUM | code::SET | code::BIT | code::YEAR)
        }
        _ => false,
    };
    let (low, high) = match target.kind {
        Kind::Enum => (0, target.members.len() as i128),
        Kind::Set => (0, (1i128 << target.members.len().min(64)) - 1),
        _ => target.int_range(),
    };
    if !is_same_kind || number < low || number > high {
        return Err(value);
    }
    Ok(if target.unsigned {
        Value::UInt(number as u64)
    } else {
        Value::Int(number as i64)
    })
}

/// Text or bytes in the form in which `rows` keeps them; the bytes themselves if they need an assignment.
fn text(
    bytes: Vec<u8>,
    wire: &WireColumn,
    collation: Option<u16>,
    target: &ColumnType,
) -> Result<Value, Vec<u8>> {
    if target.kind == Kind::Json {
        return match wire.code {
            code::JSON => Ok(Value::Bytes(bytes)),
            // MariaDB's JSON is text.
            _ => json::normalize(&bytes).map(Value::Bytes).map_err(|_| bytes),
        };
    }
    let is_text = matches!(
        wire.code,
        code::STRING | code::VARCHAR | code::VAR_STRING | code::BLOB
    );
    if !target.is_string() || !is_text {
        return Err(bytes);
    }
    let own = target.collation.charset();
    if collation
        .and_then(charset_of)
        .is_some_and(|charset| charset != own)
    {
        return Err(bytes);
    }
    let mut kept = if own.is_kept_as_utf8() {
        own.decoded(&bytes).0.into_owned()
    } else {
        bytes
    };
    if target.kind == Kind::Char {
        let used = kept
            .iter()
            .rposition(|byte| *byte != b' ')
            .map_or(0, |at| at + 1);
        kept.truncate(used);
    }
    let length = usize::try_from(target.length).unwrap_or(usize::MAX);
    let fits = match target.kind {
        Kind::Char | Kind::VarChar => kept.len() <= length || own.char_count(&kept) <= length,
        Kind::Binary | Kind::VarBinary => kept.len() <= length,
        _ => kept.len() <= usize::try_from(target.max_bytes()).unwrap_or(usize::MAX),
    };
    if !fits {
        return Err(kept);
    }
    if target.kind == Kind::Binary {
        kept.resize(length, 0);
    }
    Ok(Value::Bytes(kept))
}

/// The type of the source's column, for an assignment.
fn source_type(
    wire: &WireColumn,
    collation: Option<u16>,
    target: &ColumnType,
) -> Option<ColumnType> {
    let fsp = wire.metadata.min(6) as u8;
    Some(match wire.code {
        code::STRING | code::VARCHAR | code::VAR_STRING | code::BLOB => {
            let own = || {
                if target.is_string() {
                    target.collation
                } else {
                    Collation::UTF8MB4_BIN
                }
            };
            let collation = collation.and_then(Collation::from_id).unwrap_or_else(own);
            if collation.charset() == Charset::Binary {
                ColumnType::varbinary(u32::from(wire.metadata))
            } else {
                ColumnType::varchar(u32::from(wire.metadata), collation)
            }
        }
        code::JSON => ColumnType::json(),
        code::FLOAT => ColumnType::float(),
        code::DOUBLE => ColumnType::double(),
        code::NEWDECIMAL => ColumnType::decimal((wire.metadata >> 8) as u8, wire.metadata as u8),
        code::DATE => ColumnType::date(),
        code::DATETIME | code::DATETIME2 => ColumnType::datetime(fsp),
        code::TIMESTAMP | code::TIMESTAMP2 => ColumnType::timestamp(fsp),
        code::TIME | code::TIME2 => ColumnType::time(fsp),
        code::YEAR => ColumnType::year(),
        code::BIT => ColumnType::bit(u32::from(wire.metadata)),
        _ => return None,
    })
}
