//! Numeric prefixes of text.

/// The numeric prefix of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberPrefix {
    /// The number; 0 if there is none, the greatest double on overflow.
    pub value: f64,
    /// Bytes read, including leading spaces; 0 if there is no number.
    pub read: usize,
    /// Whether the number is outside the range of doubles.
    pub overflow: bool,
}

fn count_digits(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}

fn spaces(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// Reads the longest floating-point number at the front of a text, after spaces.
#[must_use]
pub fn double_prefix(text: &[u8]) -> NumberPrefix {
    let none = NumberPrefix {
        value: 0.0,
        read: 0,
        overflow: false,
    };
    let start = spaces(text);
    let body = text.get(start..).unwrap_or_default();
    let sign = usize::from(matches!(body.first(), Some(b'-' | b'+')));
    let after_sign = body.get(sign..).unwrap_or_default();
    let int = count_digits(after_sign);
    let mut len = sign + int;
    let mut digits = int;
    if body.get(len) == Some(&b'.') {
        let frac = count_digits(body.get(len + 1..).unwrap_or_default());
        if int + frac > 0 {
            len += 1 + frac;
            digits += frac;
        }
    }
    if digits == 0 {
        return none;
    }
    if let Some([b'e' | b'E', exponent @ ..]) = body.get(len..) {
        let sign = usize::from(matches!(exponent.first(), Some(b'-' | b'+')));
        let exp = count_digits(exponent.get(sign..).unwrap_or_default());
        if exp > 0 {
            len += 1 + sign + exp;
        }
    }
    let number = body.get(..len).and_then(|t| std::str::from_utf8(t).ok());
    let value = number.and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    if value.is_infinite() {
        let value = if value > 0.0 { f64::MAX } else { f64::MIN };
        return NumberPrefix {
            value,
            read: start + len,
            overflow: true,
        };
    }
    NumberPrefix {
        value,
        read: start + len,
        overflow: false,
    }
}

/// The integer prefix of a text: its magnitude, sign and bytes read. The magnitude is `None` if it
/// exceeds 64 bits.
pub(crate) struct IntPrefix {
    pub(crate) magnitude: Option<u64>,
    pub(crate) negative: bool,
    pub(crate) read: usize,
}

/// Reads the integer at the front of a text, after spaces.
pub(crate) fn int_prefix(text: &[u8]) -> IntPrefix {
    let start = spaces(text);
    let body = text.get(start..).unwrap_or_default();
    let sign = usize::from(matches!(body.first(), Some(b'-' | b'+')));
    let after = body.get(sign..).unwrap_or_default();
    let len = count_digits(after);
    let magnitude = after.iter().take(len).try_fold(0u64, |v, b| {
        v.checked_mul(10)?.checked_add(u64::from(b - b'0'))
    });
    IntPrefix {
        magnitude,
        negative: body.first() == Some(&b'-'),
        read: if len == 0 { 0 } else { start + sign + len },
    }
}

/// Whether there is nothing but spaces from `at` on.
pub(crate) fn only_spaces_from(text: &[u8], at: usize) -> bool {
    text.get(at..)
        .unwrap_or_default()
        .iter()
        .all(u8::is_ascii_whitespace)
}

/// Rounds a double half to even (as the C library's `rint`, which MySQL uses for doubles but not
/// for decimals), and clamps it. Returns whether it was clamped.
#[must_use]
pub fn round_to_i64(v: f64) -> (i64, bool) {
    let rounded = v.round_ties_even();
    // The conversion saturates; the bounds are the doubles next to the range.
    let outside = !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
    (rounded as i64, outside)
}

/// As [`round_to_i64`] for unsigned integers.
pub(crate) fn round_to_u64(v: f64) -> (u64, bool) {
    let rounded = v.round_ties_even();
    (
        rounded as u64,
        !(0.0..18_446_744_073_709_551_616.0).contains(&rounded),
    )
}

/// ROUND and, with `truncate`, TRUNCATE of a double to `places` digits after the point, or before
/// it if negative; ties are rounded to even, as by the C library's `rint`.
#[must_use]
pub fn round_f64(v: f64, places: i32, truncate: bool) -> f64 {
    let unit = 10f64.powi(places.saturating_abs());
    if places < 0 && unit.is_infinite() {
        return 0.0;
    }
    let scaled = if places < 0 { v / unit } else { v * unit };
    if !scaled.is_finite() {
        return v;
    }
    let whole = if truncate {
        scaled.trunc()
    } else {
        scaled.round_ties_even()
    };
    if places < 0 {
        whole * unit
    } else {
        whole / unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_round_to_even() {
        assert_eq!(round_f64(2.5, 0, false), 2.0);
        assert_eq!(round_f64(1.005, 2, false), 1.0);
        assert_eq!(round_f64(0.35, 1, false), 0.4);
        assert_eq!(round_f64(-1.29, 1, true), -1.2);
        assert_eq!(round_f64(15.0, -1, false), 20.0);
        assert_eq!(round_f64(1e300, 300, false), 1e300);
        assert_eq!(round_f64(5.0, -400, false), 0.0);
    }

    #[test]
    fn prefixes_of_text() {
        let read = |t: &str| double_prefix(t.as_bytes());
        assert_eq!((read(" -1.5e2x").value, read(" -1.5e2x").read), (-150.0, 7));
        assert_eq!((read("1e").value, read("1e").read), (1.0, 1));
        assert_eq!((read(".").read, read("-").read, read("").read), (0, 0, 0));
        assert!(read("1e999").overflow && read("-1e999").value == f64::MIN);
    }
}
