//! Parses numbers as memcached does, by the rules of C's `strtol` family; white space or the end of
//! the word must follow. A length or time out of range is refused. memcached 1.6.18 truncates it to
//! 32 bits, so that a value length of 4294967297 means one byte. Client flags have no meaning to the
//! server and are truncated.

/// Splits off the sign. Returns whether it is a minus sign, and the rest.
fn sign(word: &[u8]) -> (bool, &[u8]) {
    match word.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, word),
    }
}

/// Parses an unsigned number of up to 64 bits without a minus sign.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let (negative, digits) = sign(word);
    if negative {
        return None;
    }
    magnitude(digits)
}

/// Parses client flags: the low 32 bits of an unsigned number of up to 64 bits.
pub(super) fn client_flags(word: &[u8]) -> Option<u32> {
    u32::try_from(unsigned(word)? & u64::from(u32::MAX)).ok()
}

/// Parses a signed number of 64 bits.
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    let (negative, digits) = sign(word);
    let n = magnitude(digits)?;
    if negative {
        0i64.checked_sub_unsigned(n)
    } else {
        i64::try_from(n).ok()
    }
}

/// Parses digits, which white space other than a space may follow.
fn magnitude(digits: &[u8]) -> Option<u64> {
    let mut n: u64 = 0;
    let mut has_digits = false;
    for &b in digits {
        if b.is_ascii_digit() {
            n = n.checked_mul(10)?.checked_add(u64::from(b - b'0'))?;
            has_digits = true;
        } else if has_digits && matches!(b, b'\t' | b'\r' | 0x0b | 0x0c) {
            return Some(n);
        } else {
            return None;
        }
    }
    has_digits.then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_like_strtol() {
        assert_eq!(unsigned(b"0"), Some(0));
        assert_eq!(unsigned(b"+7"), Some(7));
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(unsigned(b"-1"), None);
        assert_eq!(unsigned(b""), None);
        assert_eq!(unsigned(b"+"), None);
        assert_eq!(unsigned(b"1\r"), Some(1));
        assert_eq!(unsigned(b"1x"), None);
        assert_eq!(client_flags(b"4294967295"), Some(u32::MAX));
        assert_eq!(client_flags(b"4294967296"), Some(0));
        assert_eq!(client_flags(b"18446744073709551615"), Some(u32::MAX));
        assert_eq!(client_flags(b"18446744073709551616"), None);
        assert_eq!(client_flags(b"-1"), None);
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"-9223372036854775809"), None);
        assert_eq!(signed(b"9223372036854775808"), None);
    }
}
