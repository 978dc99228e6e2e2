//! Hash and identity functions (manual, "Encryption and Compression
//! Functions", "Miscellaneous Functions").

use super::{Call, Function, Nullable, bigint, text_of};
use crate::error::Result;
use aws_lc_rs::digest;
use porpoise_base::interrupt;
use porpoise_types::{Collation, ValueRef};

/// The bytes in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes hashed between two interrupt checkpoints: fractions of a millisecond.
const PIECE: usize = 64 * 1024;

fn digest_of<'a>(c: &Call<'_, 'a>, how: &'static digest::Algorithm) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let mut context = digest::Context::new(how);
    for piece in text.chunks(PIECE) {
        interrupt::check()?;
        context.update(piece);
    }
    Ok(c.keep(hex(context.finish().as_ref()).as_bytes()))
}

fn sha2<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    match c.int(1)? {
        Some(0 | 256) => digest_of(c, &digest::SHA256),
        Some(224) => digest_of(c, &digest::SHA224),
        Some(384) => digest_of(c, &digest::SHA384),
        Some(512) => digest_of(c, &digest::SHA512),
        _ => Ok(ValueRef::Null),
    }
}

fn crc32<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let mut state = !0;
    for piece in text.chunks(PIECE) {
        interrupt::check()?;
        state = crc(state, piece);
    }
    Ok(ValueRef::UInt(u64::from(!state)))
}

/// Updates a CRC-32 (ISO 3309) with more bytes, bit by bit: not on a hot path.
fn crc(state: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            let mask = 0u32.wrapping_sub(crc & 1);
            (crc >> 1) ^ (0xedb8_8320 & mask)
        })
    };
    bytes.iter().fold(state, step)
}

/// UUID(): version 4 (random), because no driver relies on its order.
fn uuid<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let mut bytes = [0u8; 16];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        return Err(crate::error::SqlError::internal("no random bytes"));
    }
    let mut number = u128::from_be_bytes(bytes);
    number = number & !(0xf << 76) | (4 << 76);
    number = number & !(0x3 << 62) | (2 << 62);
    let digits = format!("{number:032x}");
    let parts: Vec<&str> = [0..8, 8..12, 12..16, 16..20, 20..32]
        .into_iter()
        .filter_map(|range| digits.get(range))
        .collect();
    Ok(c.keep(parts.join("-").as_bytes()))
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "SHA1",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: |_, c| text_of(40, c),
        run: |c| digest_of(c, &digest::SHA1_FOR_LEGACY_USE_ONLY),
        doc: "The SHA-1 digest, as hexadecimal digits.",
        example: ("SHA1('abc')", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    },
    Function {
        name: "SHA",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: |_, c| text_of(40, c),
        run: |c| digest_of(c, &digest::SHA1_FOR_LEGACY_USE_ONLY),
        doc: "As SHA1.",
        example: ("LEFT(SHA('abc'), 4)", "a999"),
    },
    Function {
        name: "SHA2",
        args: (2, 2),
        constant: true,
        nullable: Nullable::Always,
        ty: |_, c| text_of(128, c),
        run: sha2,
        doc: "An SHA-2 digest of 224, 256, 384 or 512 bits.",
        example: ("LEFT(SHA2('abc', 256), 8)", "ba7816bf"),
    },
    Function {
        name: "CRC32",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: |a, c| {
            let mut ty = bigint(a, c);
            ty.unsigned = true;
            ty
        },
        run: crc32,
        doc: "The cyclic redundancy check.",
        example: ("CRC32('MySQL')", "3259397556"),
    },
    Function {
        name: "UUID",
        args: (0, 0),
        constant: false,
        nullable: Nullable::Never,
        ty: |_, _: Collation| text_of(36, Collation::UTF8MB4_GENERAL_CI),
        run: uuid,
        doc: "A new universally unique identifier.",
        example: ("LENGTH(UUID())", "36"),
    },
];
