//! Texts of a recursive common table expression: its columns have the lengths that its nonrecursive part, the
//! seed, gives them (manual, "Recursive Common Table Expressions").

use super::{Call, Function, Nullable, like_first};
use crate::error::{Result, SqlError};
use porpoise_types::{Level, ValueRef, Warning};

/// A text limited to the length of the seed's column, whose name is the second argument. A longer text is error 1406
/// in strict mode; otherwise it is truncated with a warning.
fn seed_text<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let keep =
        c.ty.collation
            .charset()
            .prefix_len(text, c.ty.length as usize);
    let Some(cut) = text.get(..keep).filter(|cut| cut.len() < text.len()) else {
        return Ok(ValueRef::Bytes(text));
    };
    let column = c.text(1)?.map(String::from_utf8_lossy).unwrap_or_default();
    if c.cx.env.mode.is_strict() {
        let text = format!("Data too long for column '{column}' at row 1");
        return Err(SqlError::new(1406, "22001", text));
    }
    c.cx.env.warn(Warning {
        level: Level::Warning,
        code: 1265,
        message: format!("Data truncated for column '{column}' at row 1"),
    });
    Ok(ValueRef::Bytes(cut))
}

/// The registry entries.
#[rustfmt::skip]
pub const FUNCTIONS: &[Function] = &[
    f!("SEED TEXT", (2, 2), like_first, IfArgument, seed_text, "A text of a recursive query block, in the length of the seed's column.", "(WITH RECURSIVE r AS (SELECT CAST('x' AS CHAR(3)) AS a UNION ALL SELECT CONCAT(a, 'x') FROM r WHERE LENGTH(a) < 3) SELECT MAX(a) FROM r)" => "xxx"),
];
