//! The encoding of an object: a header, and the content compressed by zstd and, with a key, encrypted
//! by AES-256-GCM. docs/formats.md has the table.
//!
//! Invariants:
//! 1. An object has its own name, so that one that lies in another's place is noticed.
//! 2. Memory is allocated for at most [`MAX_CONTENT`] bytes, whatever a header says.

use crate::key::Key;
use crate::{Error, Result};
use std::io::Read;

/// The version of the objects' format that this build writes and reads.
pub const OBJECT_FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"PORPBAK\0";
const ENCRYPTED: u32 = 1;

/// Longest content of an object in bytes: a part, or one group of the log with a large record.
const MAX_CONTENT: u64 = 1 << 30;

/// Fast: the server that is backed up has other work.
const COMPRESSION_LEVEL: i32 = 1;

/// Encodes an object.
///
/// # Errors
/// [`Error::Io`] if compression or encryption fails.
pub fn encode(name: &str, content: &[u8], key: Option<&Key>) -> Result<Vec<u8>> {
    let packed = zstd::bulk::compress(content, COMPRESSION_LEVEL)
        .map_err(|e| Error::Io(format!("{name}: compression failed: {e}")))?;
    let mut head = OBJECT_FORMAT_VERSION.to_le_bytes().to_vec();
    let flags = if key.is_some() { ENCRYPTED } else { 0 };
    head.extend_from_slice(&flags.to_le_bytes());
    head.extend_from_slice(&(content.len() as u64).to_le_bytes());
    // A checksum of secret content would reveal something about it; the cipher has one of its own.
    let sum = if key.is_some() {
        0
    } else {
        crc32c::crc32c(content)
    };
    head.extend_from_slice(&sum.to_le_bytes());
    head.extend_from_slice(&(name.len() as u16).to_le_bytes());
    head.extend_from_slice(name.as_bytes());
    let payload = match key {
        Some(key) => key.seal(&head, packed)?,
        None => packed,
    };
    let sum = crc32c::crc32c_append(crc32c::crc32c(&head), &payload);
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(&payload);
    Ok(out)
}

/// Fields of a header, and what follows it.
struct Parsed<'a> {
    flags: u32,
    length: u64,
    sum: u32,
    name: &'a [u8],
    /// The header from the version on.
    head: &'a [u8],
    payload: &'a [u8],
}

fn parse(bytes: &[u8]) -> std::result::Result<Parsed<'_>, String> {
    let short = || "the object is truncated".to_owned();
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
    if *magic != MAGIC {
        return Err("it is not an object of a backup (wrong magic number)".to_owned());
    }
    let (sum, checked) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    if crc32c::crc32c(checked) != u32::from_le_bytes(*sum) {
        return Err("the checksum is wrong".to_owned());
    }
    let (version, rest) = checked.split_first_chunk::<4>().ok_or_else(short)?;
    let version = u32::from_le_bytes(*version);
    if version != OBJECT_FORMAT_VERSION {
        return Err(format!(
            "object format {version}; this program reads {OBJECT_FORMAT_VERSION}"
        ));
    }
    let (flags, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let (sum, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let (name, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    let name = usize::from(u16::from_le_bytes(*name));
    let (name, payload) = rest.split_at_checked(name).ok_or_else(short)?;
    let (head, _) = checked
        .split_at_checked(checked.len() - payload.len())
        .ok_or_else(short)?;
    Ok(Parsed {
        flags: u32::from_le_bytes(*flags),
        length: u64::from_le_bytes(*length),
        sum: u32::from_le_bytes(*sum),
        name,
        head,
        payload,
    })
}

/// Decodes the object with a name. The error says what is wrong.
///
/// # Errors
/// The bytes are damaged, encrypted with another key, or those of another object.
pub fn decode(name: &str, bytes: &[u8], key: Option<&Key>) -> std::result::Result<Vec<u8>, String> {
    let parsed = parse(bytes)?;
    if parsed.name != name.as_bytes() {
        return Err(format!(
            "it is the object {}",
            String::from_utf8_lossy(parsed.name)
        ));
    }
    if parsed.length > MAX_CONTENT {
        return Err(format!("a content of {} bytes is too long", parsed.length));
    }
    let is_encrypted = parsed.flags & ENCRYPTED != 0;
    let opened;
    let packed = match key {
        Some(key) if is_encrypted => {
            let plain = key.open(parsed.head, parsed.payload);
            opened = plain.ok_or("it is encrypted with another key, or damaged")?;
            &opened
        }
        None if is_encrypted => return Err("it is encrypted: a key is needed".to_owned()),
        _ => parsed.payload,
    };
    let mut content = Vec::new();
    let read = zstd::stream::read::Decoder::with_buffer(packed)
        .and_then(|decoder| decoder.take(parsed.length + 1).read_to_end(&mut content));
    let sum_matches = is_encrypted || crc32c::crc32c(&content) == parsed.sum;
    if read.is_err() || content.len() as u64 != parsed.length || !sum_matches {
        return Err("the content cannot be decompressed".to_owned());
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_back_and_every_flipped_bit_is_detected() {
        let key = Key::parse(&"01".repeat(32), "f").unwrap();
        for key in [None, Some(&key)] {
            for content in [&b""[..], b"some content", &[7; 100_000]] {
                let bytes = encode("data/x", content, key).unwrap();
                assert_eq!(decode("data/x", &bytes, key).unwrap(), content);
                assert!(
                    decode("data/y", &bytes, key)
                        .unwrap_err()
                        .contains("data/x")
                );
                for n in 0..bytes.len() * 8 {
                    let mut bad = bytes.clone();
                    bad[n / 8] ^= 1 << (n % 8);
                    assert!(decode("data/x", &bad, key).is_err(), "bit {n}");
                }
                for n in 0..bytes.len() {
                    assert!(decode("data/x", &bytes[..n], key).is_err(), "{n} bytes");
                }
            }
        }
    }

    #[test]
    fn an_encrypted_object_needs_its_key_and_shows_nothing() {
        let key = Key::parse(&"01".repeat(32), "f").unwrap();
        let other = Key::parse(&"02".repeat(32), "f").unwrap();
        let bytes = encode("log/x", b"secret secret", Some(&key)).unwrap();
        assert!(!bytes.windows(6).any(|w| w == b"secret"));
        assert!(
            decode("log/x", &bytes, None)
                .unwrap_err()
                .contains("a key is needed")
        );
        assert!(
            decode("log/x", &bytes, Some(&other))
                .unwrap_err()
                .contains("another key")
        );
    }
}
