//! DECIMAL: exact decimal numbers. Columns and literals have up to 65 digits,
//! 30 of them after the point; results in between may have 76.
//!
//! A number is a sign, a 256-bit magnitude and a scale: the value is
//! `magnitude / 10^scale`. Additions, comparisons and the like take a path in
//! `u128` when both magnitudes fit there, which nearly all do.
//!
//! Rules (MySQL's, "Precision Math"):
//! 1. The scale of a sum is the greater of both scales; of a product their
//!    sum, at most 30, further digits are cut.
//! 2. A quotient has the scale of the dividend plus
//!    `div_precision_increment`. [`Decimal::div`] keeps the guard digits that
//!    MySQL keeps in its intermediate results (whole groups of nine digits);
//!    they are rounded away where the value is stored or printed.
//! 3. Rounding is half away from zero.
//! 4. A result whose integer part has more than 76 digits overflows; a fraction that
//!    does not fit in the remaining digits is cut.
//!
//! Invariants: at most 76 digits (`magnitude < 10^76`); `scale <= 30`; zero is
//! never negative.
//!
//! Rejected: MySQL's groups of nine digits in memory (three times the work
//! per addition), and the published crates, none of which has these rules.

mod arith;
mod bytes;
mod text;
mod wide;

use std::cmp::Ordering;
use std::fmt;

use wide::Wide;

/// Maximum number of digits of a DECIMAL.
pub const MAX_PRECISION: u8 = 65;
/// Maximum number of digits after the point.
pub const MAX_SCALE: u8 = 30;
/// Maximum number of digits of an intermediate result, which may exceed that of a column.
const MAX_DIGITS: u8 = 76;

/// Reasons why a decimal operation has no exact result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalError {
    /// The integer part has more digits than fit.
    Overflow,
    /// The text or number is not a decimal.
    Invalid,
}

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecimalError::Overflow => "decimal value out of range",
            DecimalError::Invalid => "not a decimal number",
        })
    }
}

impl std::error::Error for DecimalError {}

/// An exact decimal number. `==` is identity, scale included; numeric order is
/// [`Decimal::cmp_value`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal {
    magnitude: Wide,
    negative: bool,
    scale: u8,
}

impl Decimal {
    /// Zero, of scale 0.
    pub const ZERO: Decimal = Decimal {
        magnitude: Wide::ZERO,
        negative: false,
        scale: 0,
    };

    /// `magnitude` must obey the invariants, except that zero may be negative.
    fn raw(magnitude: Wide, negative: bool, scale: u8) -> Decimal {
        Decimal {
            magnitude,
            negative: negative && !magnitude.is_zero(),
            scale,
        }
    }

    /// Normalizes a magnitude of any size to the invariants: truncates the fraction (rule 4) or
    /// overflows.
    fn fit(magnitude: Wide, negative: bool, scale: u8) -> Result<Decimal, DecimalError> {
        // 2^252 is below 10^76.
        if magnitude.bits() <= 252 && scale <= MAX_SCALE {
            return Ok(Decimal::raw(magnitude, negative, scale));
        }
        let mut magnitude = magnitude;
        let mut scale = scale;
        let over = magnitude.digits().saturating_sub(u32::from(MAX_DIGITS));
        let cut = over.max(u32::from(scale.saturating_sub(MAX_SCALE)));
        if cut > 0 {
            if cut > u32::from(scale) {
                return Err(DecimalError::Overflow);
            }
            magnitude = magnitude.div_pow10(cut);
            scale -= u8::try_from(cut).unwrap_or(scale);
        }
        Ok(Decimal::raw(magnitude, negative, scale))
    }

    /// The integer as a decimal of scale 0.
    #[must_use]
    pub fn from_i64(v: i64) -> Decimal {
        Decimal::raw(Wide::from(u128::from(v.unsigned_abs())), v < 0, 0)
    }

    /// The integer as a decimal of scale 0.
    #[must_use]
    pub fn from_u64(v: u64) -> Decimal {
        Decimal::raw(Wide::from(u128::from(v)), false, 0)
    }

    /// `v / 10^scale`.
    ///
    /// # Errors
    /// Overflow when `scale` is above 30.
    pub fn from_i128(v: i128, scale: u8) -> Result<Decimal, DecimalError> {
        if scale > MAX_SCALE {
            return Err(DecimalError::Overflow);
        }
        Ok(Decimal::raw(Wide::from(v.unsigned_abs()), v < 0, scale))
    }

    /// The greatest number of this precision and scale: all nines.
    #[must_use]
    pub fn max_value(precision: u8, scale: u8) -> Decimal {
        let precision = precision.min(MAX_PRECISION);
        let nines = Wide::pow10(u32::from(precision)).minus(&Wide::from(1));
        Decimal::raw(nines, false, scale.min(MAX_SCALE))
    }

    /// Digits after the point.
    #[must_use]
    pub fn scale(self) -> u8 {
        self.scale
    }

    /// Digits in all, leading zeros not counted, at least the scale and 1.
    #[must_use]
    pub fn precision(self) -> u8 {
        let digits = u8::try_from(self.magnitude.digits()).unwrap_or(MAX_DIGITS);
        digits.max(self.scale).max(1)
    }

    /// Digits before the point, leading zeros not counted.
    #[must_use]
    pub fn integer_digits(self) -> u8 {
        u8::try_from(self.magnitude.digits())
            .unwrap_or(MAX_DIGITS)
            .saturating_sub(self.scale)
    }

    /// Whether the number is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.magnitude.is_zero()
    }

    /// Whether the number is below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.negative
    }

    /// Whether the number fits `DECIMAL(precision, scale)` without loss.
    #[must_use]
    pub fn fits(self, precision: u8, scale: u8) -> bool {
        self.scale <= scale && self.integer_digits() <= precision.saturating_sub(scale)
    }

    /// Numeric order: 1.0 equals 1.00.
    #[must_use]
    pub fn cmp_value(&self, other: &Decimal) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.cmp_magnitude(other),
            (true, true) => other.cmp_magnitude(self),
        }
    }

    fn cmp_magnitude(&self, other: &Decimal) -> Ordering {
        if self.scale == other.scale {
            return self.magnitude.cmp(&other.magnitude);
        }
        // Integer parts of different length decide.
        let (scale, a, b) = (self.scale.max(other.scale), self, other);
        let by_digits = a.integer_digits().cmp(&b.integer_digits());
        if by_digits != Ordering::Equal {
            return by_digits;
        }
        // A common scale might exceed 256 bits: compares integer and fraction separately.
        let (ai, af) = a.magnitude.div_rem_pow10(u32::from(a.scale));
        let (bi, bf) = b.magnitude.div_rem_pow10(u32::from(b.scale));
        ai.cmp(&bi).then_with(|| {
            af.times_pow10(u32::from(scale - a.scale))
                .cmp(&bf.times_pow10(u32::from(scale - b.scale)))
        })
    }

    /// A hashable form in which numerically equal decimals are equal: the
    /// number without trailing zeros after the point.
    #[must_use]
    pub fn normalized(self) -> Decimal {
        if let Some(mut word) = self.magnitude.word() {
            let mut scale = self.scale;
            while scale > 0 && word.is_multiple_of(10) {
                word /= 10;
                scale -= 1;
            }
            return Decimal::raw(Wide::from(u128::from(word)), self.negative, scale);
        }
        let mut d = self;
        while d.scale > 0 {
            let (quotient, remainder) = d.magnitude.div_rem_pow10(1);
            if !remainder.is_zero() {
                break;
            }
            d = Decimal::raw(quotient, d.negative, d.scale - 1);
        }
        d
    }

    /// Bytes that [`Decimal::encode`] writes for a precision.
    #[must_use]
    pub fn encoded_len(precision: u8) -> usize {
        // One bit for the sign above the bits of 10^precision - 1: the integer part of the precision
        // times the binary logarithm of ten, plus one unless the precision is 0.
        let precision = u64::from(precision.min(MAX_PRECISION));
        let bits = precision * 3_321_928_094_887_362 / 1_000_000_000_000_000;
        let bits = bits + u64::from(precision > 0);
        usize::try_from(bits / 8 + 1).unwrap_or(28)
    }

    /// Appends memory-comparable bytes: the number scaled to `scale` as a
    /// big-endian two's complement of [`Decimal::encoded_len`] bytes with its
    /// sign bit flipped. A number that does not fit is clamped (rounded, or the
    /// nearest end of the range), so the order stays right.
    pub fn encode(self, precision: u8, scale: u8, out: &mut Vec<u8>) {
        let clamped = self.round(scale).ok().filter(|d| d.fits(precision, scale));
        let d = clamped.unwrap_or_else(|| {
            let max = Decimal::max_value(precision, scale);
            if self.negative { max.neg() } else { max }
        });
        let magnitude = d.magnitude.times_pow10(u32::from(scale - d.scale));
        let value = if d.negative {
            magnitude.negated()
        } else {
            magnitude
        };
        let bytes = value.to_be_bytes();
        let len = Decimal::encoded_len(precision);
        let tail = bytes.get(bytes.len() - len..).unwrap_or(&bytes);
        for (i, byte) in tail.iter().enumerate() {
            out.push(if i == 0 { byte ^ 0x80 } else { *byte });
        }
    }

    /// Decodes the result of [`Decimal::encode`] from the front of `bytes`, and advances it.
    /// Returns `None` if the bytes are too few or invalid.
    #[must_use]
    pub fn decode(precision: u8, scale: u8, bytes: &mut &[u8]) -> Option<Decimal> {
        if precision > MAX_PRECISION || scale > MAX_SCALE {
            return None;
        }
        let (head, rest) = bytes.split_at_checked(Decimal::encoded_len(precision))?;
        if let ..=8 = head.len() {
            let decimal = Decimal::decode_word(precision, scale, head)?;
            *bytes = rest;
            return Some(decimal);
        }
        let first = *head.first()?;
        let negative = first & 0x80 == 0;
        let mut full = [if negative { 0xFF } else { 0 }; 32];
        for (to, from) in full.iter_mut().rev().zip(head.iter().rev()) {
            *to = *from;
        }
        if let Some(sign) = full.get_mut(32 - head.len()) {
            *sign ^= 0x80;
        }
        let value = Wide::from_be_bytes(full);
        let magnitude = if negative { value.negated() } else { value };
        if magnitude >= Wide::pow10(u32::from(precision)) {
            return None;
        }
        *bytes = rest;
        Some(Decimal::raw(magnitude, negative, scale))
    }

    /// [`Decimal::decode`] for at most eight bytes: the number plus half of their range.
    fn decode_word(precision: u8, scale: u8, bytes: &[u8]) -> Option<Decimal> {
        let raw = bytes
            .iter()
            .fold(0, |raw, byte| raw << 8 | u64::from(*byte));
        let half = 1u64 << (8 * bytes.len() - 1);
        let magnitude = raw.abs_diff(half);
        let limit = Wide::pow10(u32::from(precision)).word()?;
        (magnitude < limit)
            .then(|| Decimal::raw(Wide::from(u128::from(magnitude)), raw < half, scale))
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decimal({self})")
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::with_capacity(70);
        self.write_text(&mut out);
        f.write_str(&String::from_utf8_lossy(&out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_lengths_hold_all_numbers_and_the_sign() {
        for precision in 0..=MAX_PRECISION {
            let greatest = Wide::pow10(u32::from(precision)).minus(&Wide::from(1));
            let bytes = usize::try_from(greatest.bits() / 8 + 1).unwrap();
            assert_eq!(Decimal::encoded_len(precision), bytes, "{precision}");
        }
    }

    #[test]
    fn numbers_of_all_lengths_round_trip_and_print() {
        for precision in 1..=MAX_PRECISION {
            for scale in [0, 1, precision / 2, precision].map(|scale| scale.min(MAX_SCALE)) {
                for digits in [0, 1, precision / 2, precision] {
                    let nines = Wide::pow10(u32::from(digits)).minus(&Wide::from(1));
                    for negative in [false, true] {
                        let number = Decimal::raw(nines, negative, scale);
                        let mut bytes = Vec::new();
                        number.encode(precision, scale, &mut bytes);
                        bytes.push(7);
                        let mut rest = bytes.as_slice();
                        let decoded = Decimal::decode(precision, scale, &mut rest);
                        assert_eq!(decoded, Some(number));
                        assert_eq!(rest, [7]);
                        let mut text = String::new();
                        let padded = usize::from(digits.max(scale + 1) - digits);
                        text += &"0".repeat(padded);
                        text += &"9".repeat(usize::from(digits));
                        if scale > 0 {
                            text.insert(text.len() - usize::from(scale), '.');
                        }
                        if number.negative {
                            text.insert(0, '-');
                        }
                        assert_eq!(number.to_string(), text);
                    }
                }
            }
            let len = Decimal::encoded_len(precision);
            let greatest = vec![0xff; len];
            let beyond = Decimal::decode(precision, 0, &mut greatest.as_slice());
            assert_eq!(beyond, None, "{precision}");
        }
    }
}
