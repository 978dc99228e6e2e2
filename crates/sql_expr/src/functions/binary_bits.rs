//! Bit operators over binary strings (manual, "Bit Functions and Operators"): `&`, `|`, `^`, `~`,
//! `<<` and `>>` of BINARY, VARBINARY and BLOB values work on all their bytes.
//!
//! The binder chooses these functions where the operands are binary strings that are not literals; all
//! other operands are numbers of 64 bits.

use super::{Call, Function, Nullable};
use crate::error::{Result, SqlError};
use crate::expr::{BitOp, Expr};
use porpoise_types::{Collation, ColumnType, Kind, ValueRef};

/// Length of the longest VARBINARY.
const MAX_VARBINARY: u32 = 65_535;

/// The longest argument of an aggregate of binary strings.
pub const MAX_AGGREGATED: usize = 511;

/// Result type: a binary string as long as the longest of these arguments.
fn like_longest(args: &[Expr], _: Collation) -> ColumnType {
    let bytes = args.iter().filter(|e| e.ty.is_binary());
    let bytes = bytes.map(|e| e.ty.max_bytes()).max().unwrap_or(0);
    if bytes <= MAX_VARBINARY {
        ColumnType::varbinary(bytes)
    } else {
        ColumnType::blob(Kind::LongBlob)
    }
}

/// The function that an operator is over binary strings.
#[must_use]
pub fn name_of(op: BitOp) -> &'static str {
    match op {
        BitOp::And => "BYTES AND",
        BitOp::Or => "BYTES OR",
        BitOp::Xor => "BYTES XOR",
        BitOp::Shl => "BYTES SHIFT LEFT",
        BitOp::Shr => "BYTES SHIFT RIGHT",
    }
}

/// Combines two strings byte by byte.
///
/// # Errors
/// 3513 if their lengths differ.
pub fn combine(op: BitOp, a: &[u8], b: &[u8]) -> Result<Vec<u8>> {
    if a.len() != b.len() {
        let text = "Binary operands of bitwise operators must be of equal length";
        return Err(SqlError::new(3513, "HY000", text));
    }
    let bytes = a.iter().zip(b).map(|(a, b)| match op {
        BitOp::And => a & b,
        BitOp::Or => a | b,
        _ => a ^ b,
    });
    Ok(bytes.collect())
}

fn combined<'a>(c: &Call<'_, 'a>, op: BitOp) -> Result<ValueRef<'a>> {
    match (c.text(0)?, c.text(1)?) {
        (Some(a), Some(b)) => Ok(c.keep(&combine(op, a, b)?)),
        _ => Ok(ValueRef::Null),
    }
}

fn inverted<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let bytes: Vec<u8> = text.iter().map(|b| !b).collect();
    Ok(c.keep(&bytes))
}

fn shifted<'a>(c: &Call<'_, 'a>, left: bool) -> Result<ValueRef<'a>> {
    let (Some(text), Some(by)) = (c.text(0)?, c.int(1)?) else {
        return Ok(ValueRef::Null);
    };
    // A negative number is a large one without a sign.
    let by = usize::try_from(by).unwrap_or(usize::MAX);
    let (bytes, bits) = (by / 8, by % 8);
    let byte = |at: Option<usize>| at.and_then(|at| text.get(at)).map_or(0, |b| u16::from(*b));
    let shifted: Vec<u8> = (0..text.len())
        .map(|at| {
            let pair = if left {
                let near = at.checked_add(bytes);
                byte(near) << 8 | byte(near.and_then(|n| n.checked_add(1)))
            } else {
                let near = at.checked_sub(bytes);
                byte(near.and_then(|n| n.checked_sub(1))) << 8 | byte(near)
            };
            let [high, low] = if left {
                (pair << bits).to_be_bytes()
            } else {
                (pair >> bits).to_be_bytes()
            };
            if left { high } else { low }
        })
        .collect();
    Ok(c.keep(&shifted))
}

/// The registry entries.
#[rustfmt::skip]
pub const FUNCTIONS: &[Function] = &[
    f!("BYTES AND", (2, 2), like_longest, IfArgument, |c| combined(c, BitOp::And), "Bits that are set in both.", "HEX(_binary'ab' & CAST('cc' AS BINARY))" => "6162"),
    f!("BYTES OR", (2, 2), like_longest, IfArgument, |c| combined(c, BitOp::Or), "Bits that are set in either.", "HEX(_binary'ab' | CAST('cc' AS BINARY))" => "6363"),
    f!("BYTES XOR", (2, 2), like_longest, IfArgument, |c| combined(c, BitOp::Xor), "Bits that are set in one of both.", "HEX(_binary'ab' ^ CAST('cc' AS BINARY))" => "0201"),
    f!("BYTES NOT", (1, 1), like_longest, IfArgument, inverted, "All bits inverted.", "HEX(~CAST('ab' AS BINARY))" => "9E9D"),
    f!("BYTES SHIFT LEFT", (2, 2), like_longest, IfArgument, |c| shifted(c, true), "Bits moved towards the first byte.", "HEX(CAST(x'00ff01' AS BINARY) << 4)" => "0FF010"),
    f!("BYTES SHIFT RIGHT", (2, 2), like_longest, IfArgument, |c| shifted(c, false), "Bits moved towards the last byte.", "HEX(CAST(x'00ff01' AS BINARY) >> 12)" => "00000F"),
];
