//! Encoding of values for hash lookups (IN lists, IN subqueries, hash joins): values that compare
//! equal have equal bytes.

use super::convert;
use super::eval::EvalCx;
use crate::error::SqlError;
use porpoise_types::{ColumnType, CompareAs, ValueRef};

/// Appends bytes that are equal for values that compare equal in this way. Returns false if there
/// is no such encoding or the value is NULL.
pub fn append_comparable(
    value: ValueRef<'_>,
    ty: &ColumnType,
    how: CompareAs,
    cx: &EvalCx<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, SqlError> {
    match (how, value) {
        (_, ValueRef::Null) => return Ok(false),
        (CompareAs::Int, ValueRef::Int(v)) => {
            out.extend_from_slice(&i128::from(v).to_le_bytes());
        }
        (CompareAs::Int, ValueRef::UInt(v)) => {
            out.extend_from_slice(&i128::from(v).to_le_bytes());
        }
        (CompareAs::Decimal, _) => {
            let number = convert::decimal(value, ty, cx)?;
            number.append_hashable(out);
        }
        (CompareAs::Number, _) => {
            let number = convert::exact_number(value, ty, cx)?;
            number.append_hashable(out);
        }
        (CompareAs::Double, _) => {
            let number = convert::double(value, ty, cx)?;
            let number = if number == 0.0 { 0.0 } else { number };
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        (CompareAs::Bytes(collation), ValueRef::Bytes(text)) => {
            let text = convert::recode(text, ty, collation.charset());
            let start = out.len();
            collation.sort_key(&text, out);
            let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_le_bytes());
        }
        (CompareAs::DateTime | CompareAs::Date, ValueRef::DateTime(v)) => {
            out.extend_from_slice(&v.packed().to_le_bytes());
        }
        (CompareAs::DateTime | CompareAs::Date, ValueRef::Date(v)) => {
            out.extend_from_slice(&v.at_midnight().packed().to_le_bytes());
        }
        (CompareAs::Time, ValueRef::Time(v)) => {
            v.write_text(6, out);
            out.push(0);
        }
        _ => return Ok(false),
    }
    Ok(true)
}
