//! Keys and values that can be verified when read, without keeping the written
//! values: a value contains its key, a version and a checksum over both, so that any
//! mixture of two writes, or the value of another key, is detected.
//!
//! Form: ten digits of the key, ten of the version, eight hexadecimal digits
//! of the check, then filler that depends on the check, to the length wanted.

/// Shortest value in bytes.
pub const SHORTEST: usize = 28;

/// Default length of values, in bytes.
pub const USUAL: usize = 100;

/// A number whose bits look random: the finaliser of splitmix64.
pub fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Ids of rows that an experiment inserts: the n-th is at 2^30 or above,
/// below 2^31, all differ for n below 2^30, and their order looks random.
pub fn inserted_key(n: u64) -> u64 {
    const BITS: u32 = 30;
    const MASK: u64 = (1 << BITS) - 1;
    // Odd multipliers and shifts within the width are both one to one.
    let n = n & MASK;
    let n = n.wrapping_mul(0x2c1b_3c6d) & MASK;
    let n = n ^ (n >> 15);
    let n = n.wrapping_mul(0x297a_2d39) & MASK;
    let n = n ^ (n >> 15);
    (1 << BITS) | n
}

/// Replaces `out` by the value of `key` at `version`, `length` bytes long
/// (at least [`SHORTEST`]).
pub fn write(out: &mut Vec<u8>, key: u64, version: u64, length: usize) {
    out.clear();
    append(out, key, version, length);
}

/// Appends the value of `key` at `version`.
pub fn append(out: &mut Vec<u8>, key: u64, version: u64, length: usize) {
    put_digits(out, key);
    put_digits(out, version);
    let check = check(key, version);
    for shift in (0..8).rev() {
        let digit = (check >> (shift * 4)) & 15;
        out.push(if digit < 10 { b'0' } else { b'a' - 10 } + digit as u8);
    }
    let filler = filler(check);
    out.resize(out.len() + length.saturating_sub(SHORTEST), filler);
}

/// The version in `value`, if it is a complete value of `key` of this
/// length.
pub fn read(value: &[u8], key: u64, length: usize) -> Option<u64> {
    if value.len() != length.max(SHORTEST) {
        return None;
    }
    let (named, rest) = value.split_at_checked(10)?;
    let (version, rest) = rest.split_at_checked(10)?;
    let (stored_check, padding) = rest.split_at_checked(8)?;
    let version = digits(version)?;
    let stored_check = std::str::from_utf8(stored_check).ok()?;
    let stored_check = u32::from_str_radix(stored_check, 16).ok()?;
    let filler = filler(stored_check);
    let whole = digits(named)? == key % 10_000_000_000
        && stored_check == check(key, version)
        && padding.iter().all(|b| *b == filler);
    whole.then_some(version)
}

fn check(key: u64, version: u64) -> u32 {
    (mix(key ^ mix(version)) >> 32) as u32
}

fn filler(check: u32) -> u8 {
    b'a' + (check % 26) as u8
}

fn put_digits(out: &mut Vec<u8>, n: u64) {
    let mut divisor = 1_000_000_000;
    while divisor > 0 {
        out.push(b'0' + (n / divisor % 10) as u8);
        divisor /= 10;
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0u64, |n, byte| {
        byte.is_ascii_digit()
            .then(|| n * 10 + u64::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_its_version() {
        let mut value = Vec::new();
        for (key, version, length) in [(0, 0, 28), (159_999, 7, 100), (1 << 30, 1 << 33, 1024)] {
            write(&mut value, key, version, length);
            assert_eq!(value.len(), length);
            assert_eq!(read(&value, key, length), Some(version));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        write(&mut one, 5, 1, 100);
        write(&mut two, 5, 2, 100);
        assert_eq!(read(&one, 6, 100), None, "another key");
        assert_eq!(read(&one, 5, 99), None, "another length");
        assert_eq!(read(&one[..50], 5, 100), None, "cut short");
        for cut in 1..100 {
            let torn = [&one[..cut], &two[cut..]].concat();
            if torn != one && torn != two {
                assert_eq!(read(&torn, 5, 100), None, "torn at {cut}");
            }
        }
    }

    #[test]
    fn inserted_keys_all_differ() {
        let keys: std::collections::HashSet<u64> = (0..200_000).map(inserted_key).collect();
        assert_eq!(keys.len(), 200_000);
        assert!(keys.iter().all(|k| (1 << 30..1 << 31).contains(k)));
    }
}
