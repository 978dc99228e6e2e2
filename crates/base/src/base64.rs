//! Base64 (RFC 4648, standard alphabet, padded), for all protocols that use it: keys
//! and values of memcached, PEM, SCRAM, SQL's functions.
//!
//! Invariants:
//! 1. [`decode`] accepts whole groups of four only, with padding at the very end;
//!    unused bits before the padding are ignored. Callers remove white space.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn digit(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

/// Decodes four characters into up to three bytes and their number. Padding is accepted
/// only if they are the last four. `None` if they are not valid base64.
#[must_use]
pub fn decode_quad(quad: &[u8], last: bool) -> Option<([u8; 3], usize)> {
    let padding = quad.iter().rev().take_while(|b| **b == b'=').count();
    if padding > 2 || (padding > 0 && !last) {
        return None;
    }
    let mut bits = 0u32;
    for byte in quad.iter().take(4 - padding) {
        bits = bits << 6 | digit(*byte)?;
    }
    bits <<= 6 * padding;
    let [_, bytes @ ..] = bits.to_be_bytes();
    Some((bytes, 3 - padding))
}

/// Decodes a base64 text; `None` if it is invalid.
#[must_use]
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let quads = text.len() / 4;
    let mut out = Vec::with_capacity(quads * 3);
    for (n, quad) in text.chunks_exact(4).enumerate() {
        let (bytes, count) = decode_quad(quad, n + 1 == quads)?;
        out.extend(bytes.iter().take(count));
    }
    Some(out)
}

/// Appends the base64 text of some bytes.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        for (to, from) in group.iter_mut().skip(1).zip(chunk) {
            *to = *from;
        }
        let bits = u32::from_be_bytes(group);
        for n in 0..4 {
            let six = (bits >> (18 - 6 * n)) & 63;
            let character = ALPHABET.get(six as usize).copied().unwrap_or(b'A');
            out.push(if n > chunk.len() { b'=' } else { character });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard() {
        let pairs: [(&[u8], &[u8]); 7] = [
            (b"", b""),
            (b"f", b"Zg=="),
            (b"fo", b"Zm8="),
            (b"foo", b"Zm9v"),
            (b"foob", b"Zm9vYg=="),
            (b"fooba", b"Zm9vYmE="),
            (b"foobar", b"Zm9vYmFy"),
        ];
        for (plain, coded) in pairs {
            assert_eq!(decode(coded).as_deref(), Some(plain));
            let mut out = Vec::new();
            encode(plain, &mut out);
            assert_eq!(out, coded);
        }
    }

    #[test]
    fn invalid_base64_is_refused() {
        let bad: [&[u8]; 7] = [
            b"Zg",
            b"Zg=",
            b"Z===",
            b"====",
            b"Zg==Zg==",
            b"Z*9v",
            b"Zm9v\n",
        ];
        for text in bad {
            assert!(decode(text).is_none(), "{}", text.escape_ascii());
        }
    }
}
