//! Conversion of decimals from and to text, integers and floats.

use super::wide::Wide;
use super::{Decimal, DecimalError, MAX_DIGITS, MAX_PRECISION, MAX_SCALE};

/// Result of [`Decimal::parse_prefix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The number, or the nearest end of the range on overflow.
    pub value: Decimal,
    /// Bytes read, leading space included; 0 when there is no number.
    pub read: usize,
    /// Whether the number has more integer digits than fit.
    pub overflow: bool,
}

/// Appends a magnitude with `scale` digits after the point.
fn write_word(mut magnitude: u64, scale: usize, out: &mut Vec<u8>) {
    // Twenty digits and a point, or thirty digits after the point and one before it.
    let mut text = [0u8; 32];
    let least = if scale > 0 { scale + 2 } else { 1 };
    let mut len = 0;
    for place in text.iter_mut().rev() {
        if magnitude == 0 && len >= least {
            break;
        }
        if len == scale && scale > 0 {
            *place = b'.';
        } else {
            *place = b'0' + (magnitude % 10) as u8;
            magnitude /= 10;
        }
        len += 1;
    }
    let start = text.len() - len;
    out.extend_from_slice(text.get(start..).unwrap_or_default());
}

impl Decimal {
    /// Reads a whole text: optional sign, digits, point, exponent. Digits after
    /// the 30th of the fraction are rounded away.
    ///
    /// # Errors
    /// `Invalid` for anything else in the text; `Overflow` past 65 digits before the point.
    pub fn parse(text: &[u8]) -> Result<Decimal, DecimalError> {
        let prefix = Decimal::parse_prefix(text);
        if prefix.read == 0 || prefix.read != text.len() {
            return Err(DecimalError::Invalid);
        }
        if prefix.overflow {
            return Err(DecimalError::Overflow);
        }
        Ok(prefix.value)
    }

    /// Reads a literal, which may have more digits than a column. A literal with more than 76 digits before the point
    /// (MySQL: 81) becomes the greatest number of a column.
    #[must_use]
    pub fn parse_literal(text: &[u8]) -> Decimal {
        Decimal::read_prefix(text, MAX_DIGITS).value
    }

    /// Reads the longest number at the front of a text, after spaces.
    #[must_use]
    pub fn parse_prefix(text: &[u8]) -> Prefix {
        Decimal::read_prefix(text, MAX_PRECISION)
    }

    /// As [`Decimal::parse_prefix`], with at most `max_digits` digits.
    fn read_prefix(text: &[u8], max_digits: u8) -> Prefix {
        let none = Prefix {
            value: Decimal::ZERO,
            read: 0,
            overflow: false,
        };
        let start = text.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let mut rest = text.get(start..).unwrap_or_default();
        let negative = rest.first() == Some(&b'-');
        if matches!(rest.first(), Some(b'-' | b'+')) {
            rest = rest.get(1..).unwrap_or_default();
        }
        let int_len = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (int, mut rest) = rest.split_at(int_len);
        let mut frac: &[u8] = &[];
        if let Some((b'.', after)) = rest.split_first() {
            let len = after.iter().take_while(|b| b.is_ascii_digit()).count();
            if len + int_len > 0 {
                (frac, rest) = after.split_at(len);
            }
        }
        if int_len + frac.len() == 0 {
            return none;
        }
        let (exponent, used) = parse_exponent(rest);
        let read = text.len() - rest.len() + used;
        match build((int, frac), exponent, negative, max_digits) {
            Ok(value) => Prefix {
                value,
                read,
                overflow: false,
            },
            Err(_) => {
                let max = Decimal::max_value(MAX_PRECISION, 0);
                let value = if negative { max.neg() } else { max };
                Prefix {
                    value,
                    read,
                    overflow: true,
                }
            }
        }
    }

    /// Appends the number as MySQL prints it: all digits of its scale, a zero
    /// before a bare point.
    pub fn write_text(self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        if let Some(word) = self.magnitude.small().and_then(|v| u64::try_from(v).ok()) {
            return write_word(word, usize::from(self.scale), out);
        }
        let mut digits = [0u8; 80];
        let mut left = self.magnitude;
        let mut len = 0;
        let least = usize::from(self.scale) + 1;
        while let Some(slot) = digits.get_mut(len) {
            if left.is_zero() && len >= least {
                break;
            }
            if let Some(mut small) = left.small().and_then(|v| u64::try_from(v).ok()) {
                // The rest fits into a word, so no wide division is needed.
                while let Some(slot) = digits.get_mut(len) {
                    if small == 0 && len >= least {
                        break;
                    }
                    *slot = b'0' + u8::try_from(small % 10).unwrap_or(0);
                    small /= 10;
                    len += 1;
                }
                break;
            }
            let (quotient, rest) = left.div_rem_word(10);
            *slot = b'0' + u8::try_from(rest).unwrap_or(0);
            left = quotient;
            len += 1;
        }
        let written = digits.get(..len).unwrap_or(&digits);
        for (i, digit) in written.iter().enumerate().rev() {
            out.push(*digit);
            if i == usize::from(self.scale) && i > 0 {
                out.push(b'.');
            }
        }
    }

    /// The nearest double.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        if let Some(v) = self.magnitude.small()
            && v < 1 << 53
            && self.scale <= 22
        {
            // Both are exact doubles, so the division rounds once.
            let scale = 10f64.powi(i32::from(self.scale));
            let v = v as f64 / scale;
            return if self.negative { -v } else { v };
        }
        let mut out = Vec::with_capacity(70);
        self.write_text(&mut out);
        std::str::from_utf8(&out)
            .ok()
            .and_then(|t| t.parse().ok())
            .unwrap_or(0.0)
    }

    /// Converts a double by its shortest decimal text.
    ///
    /// # Errors
    /// `Invalid` for NaN and infinities, `Overflow` past 65 digits before the point.
    pub fn from_f64(v: f64) -> Result<Decimal, DecimalError> {
        if !v.is_finite() {
            return Err(DecimalError::Invalid);
        }
        let mut buffer = zmij::Buffer::new();
        let text = buffer.format_finite(v);
        // Integers are formatted with a `.0` that is not significant.
        Decimal::parse(text.strip_suffix(".0").unwrap_or(text).as_bytes())
    }

    /// Rounded to an integer; None outside the range of `i64`.
    #[must_use]
    pub fn to_i64(self) -> Option<i64> {
        let d = self.round(0).ok()?;
        let v = d.magnitude.small()?;
        if d.negative {
            i64::try_from(v)
                .map(i64::wrapping_neg)
                .ok()
                .or((v == 1 << 63).then_some(i64::MIN))
        } else {
            i64::try_from(v).ok()
        }
    }

    /// Rounded to an integer; None outside the range of `u64`.
    #[must_use]
    pub fn to_u64(self) -> Option<u64> {
        let d = self.round(0).ok()?;
        let v = d.magnitude.small()?;
        if d.negative {
            None
        } else {
            u64::try_from(v).ok()
        }
    }
}

/// Parses the exponent at the front of `rest`. Returns it with its length, or (0, 0) if there is
/// none.
fn parse_exponent(rest: &[u8]) -> (i64, usize) {
    let Some((b'e' | b'E', after)) = rest.split_first() else {
        return (0, 0);
    };
    let (negative, digits) = match after.split_first() {
        Some((b'-', d)) => (true, d),
        Some((b'+', d)) => (false, d),
        _ => (false, after),
    };
    let len = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    if len == 0 {
        return (0, 0);
    }
    let value = digits.iter().take(len).fold(0i64, |v, b| {
        v.saturating_mul(10)
            .saturating_add(i64::from(b - b'0'))
            .min(1 << 40)
    });
    (
        if negative { -value } else { value },
        rest.len() - digits.len() + len,
    )
}

/// A number other than 0 without an exponent, whose digits fit into a word.
fn build_small(int: &[u8], frac: &[u8], exponent: i64, negative: bool) -> Option<Decimal> {
    if exponent != 0 || int.len() + frac.len() > 18 {
        return None;
    }
    let digits = int.iter().chain(frac);
    let word = digits.fold(0u64, |word, digit| word * 10 + u64::from(digit - b'0'));
    let scale = u8::try_from(frac.len()).ok()?;
    (word > 0).then(|| Decimal::raw(Wide::from(u128::from(word)), negative, scale))
}

/// Builds a number of at most `max_digits` digits from the digits before and after its point.
fn build(
    (int, frac): (&[u8], &[u8]),
    exponent: i64,
    negative: bool,
    max_digits: u8,
) -> Result<Decimal, DecimalError> {
    if let Some(small) = build_small(int, frac, exponent, negative) {
        return Ok(small);
    }
    // Positions count from the point: the first digit of `int` has the highest.
    let lead = int.iter().chain(frac).take_while(|b| **b == b'0').count();
    let digits = int.len() + frac.len() - lead;
    let point = i64::try_from(int.len())
        .unwrap_or(i64::MAX)
        .saturating_sub(i64::try_from(lead).unwrap_or(0));
    let integer_digits = point.saturating_add(exponent);
    // The scale as written, including trailing zeros.
    let written = i64::try_from(frac.len())
        .unwrap_or(i64::MAX)
        .saturating_sub(exponent);
    let scale = written.clamp(0, i64::from(MAX_SCALE));
    if digits == 0 {
        return Ok(Decimal::raw(
            Wide::ZERO,
            false,
            u8::try_from(scale).unwrap_or(0),
        ));
    }
    if integer_digits > i64::from(max_digits) {
        return Err(DecimalError::Overflow);
    }
    let scale = scale.min(i64::from(max_digits) - integer_digits.max(0));
    // Digits to take: down to the scale.
    let take = integer_digits + scale;
    let mut magnitude = Wide::ZERO;
    let mut all = int.iter().chain(frac).skip(lead);
    let mut word = 0u64;
    let mut word_len = 0;
    let mut taken = 0;
    while taken < take {
        let Some(digit) = all.next() else { break };
        word = word * 10 + u64::from(digit - b'0');
        word_len += 1;
        taken += 1;
        if word_len == 19 {
            magnitude = magnitude
                .times_pow10(word_len)
                .plus(&Wide::from(u128::from(word)));
            (word, word_len) = (0, 0);
        }
    }
    magnitude = magnitude
        .times_pow10(word_len)
        .plus(&Wide::from(u128::from(word)));
    if taken < take {
        magnitude = magnitude.times_pow10(u32::try_from(take - taken).unwrap_or(0));
    } else if take >= 0 && all.next().is_some_and(|d| *d >= b'5') {
        magnitude = magnitude.plus(&Wide::from(1));
    }
    Decimal::fit(magnitude, negative, u8::try_from(scale).unwrap_or(0))
}
