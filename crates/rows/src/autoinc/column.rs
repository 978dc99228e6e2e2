//! Ids as values of their column.

use crate::Error;
use crate::definition::Column;
use crate::table::Table;
use porpoise_types::{Kind, Value};

/// The greatest id an auto-increment column can hold.
pub(crate) fn column_max(column: &Column) -> u64 {
    let bits = match column.ty.kind {
        Kind::TinyInt => 8,
        Kind::SmallInt => 16,
        Kind::MediumInt => 24,
        Kind::Int => 32,
        Kind::Float => return 1 << 24,
        Kind::Double => return 1 << 53,
        _ => 64,
    };
    let bits = if column.ty.unsigned { bits } else { bits - 1 };
    if bits == 64 {
        u64::MAX - 1
    } else {
        (1 << bits) - 1
    }
}

/// The error for a column whose ids are used up. MySQL generates the last id again, so that clients
/// see a duplicate of the greatest value (1062); only the widest type has its own error (1467). No
/// id is given out twice here, but the error numbers are the same.
pub(super) fn exhausted(table: &Table, position: usize, max: u64) -> Error {
    let unique = table.indexes.iter().find(|i| {
        let only = i.parts.len() == 1 && i.kind.is_unique();
        only && i.parts.iter().all(|p| p.column == position)
    });
    match unique {
        Some(index) if max != u64::MAX - 1 => Error::Duplicate {
            entry: max.to_string(),
            key: format!("{}.{}", table.name, index.name),
        },
        _ => Error::AutoIncrementExhausted,
    }
}

/// An id as the column's storage value.
pub(crate) fn column_value(column: &Column, id: u64) -> Value {
    match column.ty.kind {
        #[expect(clippy::cast_precision_loss, reason = "bounded by column_max: exact")]
        Kind::Float | Kind::Double => Value::Double(id as f64),
        _ if column.ty.unsigned => Value::UInt(id),
        _ => Value::Int(id.cast_signed()),
    }
}

/// Returns an explicit value as a number; `None` if an id is to be generated. Negative values do
/// not raise the counter.
pub(super) fn explicit_value(value: &Value, zero_is_a_value: bool) -> Option<u64> {
    let number = match value {
        Value::UInt(v) => *v,
        Value::Int(v) if *v < 0 => return Some(0),
        Value::Int(v) => v.unsigned_abs(),
        Value::Double(v) if *v < 0.0 => return Some(0),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; a cast from float saturates"
        )]
        Value::Double(v) => v.round() as u64,
        _ => return None,
    };
    (number != 0 || zero_is_a_value).then_some(number)
}
