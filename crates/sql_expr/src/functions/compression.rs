//! COMPRESS, UNCOMPRESS, UNCOMPRESSED_LENGTH (manual, "Encryption and Compression Functions").
//!
//! A compressed value is the length of the text (4 bytes, little endian, of which 30 bits count)
//! and a zlib stream; the empty text is the empty value. A stream that ends with a space gets a
//! full stop after it, so that a CHAR column does not strip the space.

use super::{Call, Function, Nullable, long_blob, unsigned, width};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use porpoise_base::interrupt;
use porpoise_types::{Collation, ColumnType, Kind, Level, ValueRef, Warning};

/// Bytes of a stream worked on between two interrupt checkpoints.
const PIECE: usize = 64 * 1024;

/// Bytes of the length in front of a stream.
const HEADER: usize = 4;

/// Mask of the length; the two high bits are reserved.
const LENGTH_BITS: u32 = 0x3fff_ffff;

/// Reason for which a value cannot be decompressed.
enum Corrupt {
    /// The stream is not a zlib stream, or ends early.
    Data,
    /// The stream holds more than the announced length.
    Length,
}

fn warn_corrupt(c: &Call<'_, '_>, corrupt: &Corrupt) {
    let (code, message) = match corrupt {
        Corrupt::Data => (1259, "ZLIB: Input data corrupted"),
        Corrupt::Length => (
            1258,
            "ZLIB: Not enough room in the output buffer (probably, length of uncompressed data \
             was corrupted)",
        ),
    };
    c.cx.env.warn(Warning {
        level: Level::Warning,
        code,
        message: message.to_owned(),
    });
}

/// The announced length and the stream of a compressed value.
fn split(value: &[u8]) -> Option<(u32, &[u8])> {
    let (length, stream) = value.split_first_chunk::<HEADER>()?;
    let length = u32::from_le_bytes(*length) & LENGTH_BITS;
    (!stream.is_empty()).then_some((length, stream))
}

fn compress<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(text) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    if text.is_empty() {
        return Ok(ValueRef::Bytes(b""));
    }
    let length = text.len() as u32 & LENGTH_BITS;
    let mut out = length.to_le_bytes().to_vec();
    let mut stream = Compress::new(Compression::new(6), true);
    loop {
        interrupt::check()?;
        let input = text.get(stream.total_in() as usize..).unwrap_or_default();
        let piece = input.get(..PIECE).unwrap_or(input);
        let flush = if piece.len() == input.len() {
            FlushCompress::Finish
        } else {
            FlushCompress::None
        };
        out.reserve(PIECE);
        let status = stream.compress_vec(piece, &mut out, flush);
        if status.map_err(|_| SqlError::internal("zlib"))? == Status::StreamEnd {
            break;
        }
    }
    if out.last() == Some(&b' ') {
        out.push(b'.');
    }
    Ok(c.keep(&out))
}

/// Decompresses to at most `length` bytes. Memory follows what the stream holds, not `length`.
fn decompress(stream: &[u8], length: usize) -> Result<std::result::Result<Vec<u8>, Corrupt>> {
    let mut out = Vec::new();
    let mut zlib = Decompress::new(true);
    loop {
        interrupt::check()?;
        let input = stream.get(zlib.total_in() as usize..).unwrap_or_default();
        out.reserve(PIECE);
        let (read, written) = (zlib.total_in(), zlib.total_out());
        let status = zlib.decompress_vec(input, &mut out, FlushDecompress::None);
        let is_stuck = zlib.total_in() == read && zlib.total_out() == written;
        match status {
            _ if out.len() > length => return Ok(Err(Corrupt::Length)),
            Ok(Status::StreamEnd) => return Ok(Ok(out)),
            Ok(_) if !is_stuck => {}
            _ => return Ok(Err(Corrupt::Data)),
        }
    }
}

fn uncompress<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(value) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    if value.is_empty() {
        return Ok(ValueRef::Bytes(b""));
    }
    let Some((length, stream)) = split(value) else {
        warn_corrupt(c, &Corrupt::Data);
        return Ok(ValueRef::Null);
    };
    let limit = c.cx.env.max_allowed_packet;
    if u64::from(length) > limit {
        c.cx.env.warn(Warning {
            level: Level::Warning,
            code: 1256,
            message: format!(
                "Uncompressed data size too large; the maximum size is {limit} (probably, length \
                 of uncompressed data was corrupted)"
            ),
        });
        return Ok(ValueRef::Null);
    }
    match decompress(stream, length as usize)? {
        Ok(text) => Ok(c.keep(&text)),
        Err(corrupt) => {
            warn_corrupt(c, &corrupt);
            Ok(ValueRef::Null)
        }
    }
}

fn uncompressed_length<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(value) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    if value.is_empty() {
        return Ok(ValueRef::UInt(0));
    }
    let Some((length, _)) = split(value) else {
        warn_corrupt(c, &Corrupt::Data);
        return Ok(ValueRef::Null);
    };
    Ok(ValueRef::UInt(u64::from(length)))
}

/// Type of COMPRESS: a fifth longer than the text at most, as in MySQL.
fn compressed_type(args: &[Expr], _: Collation) -> ColumnType {
    let bytes = args.first().map_or(0, |e| width(e).saturating_mul(4));
    let bytes = bytes.saturating_add(bytes / 5).saturating_add(12);
    if bytes > 65_535 {
        ColumnType::blob(Kind::LongBlob)
    } else {
        ColumnType::varbinary(bytes)
    }
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    f!("COMPRESS", (1, 1), compressed_type, IfArgument, compress, "The text compressed by zlib, behind its length.", "HEX(LEFT(COMPRESS('abc'), 4))" => "03000000"),
    f!("UNCOMPRESS", (1, 1), long_blob, Always, uncompress, "The text that COMPRESS compressed.", "UNCOMPRESS(COMPRESS('abc'))" => "abc"),
    f!("UNCOMPRESSED_LENGTH", (1, 1), unsigned, Always, uncompressed_length, "The length of the result of UNCOMPRESS.", "UNCOMPRESSED_LENGTH(COMPRESS(REPEAT('a', 30)))" => "30"),
];
