//! Decimals as bytes: an exact image for use in memory, and a memory-comparable form.
//!
//! The comparable form begins with one byte for sign and exponent: 0x80 is zero; a positive number
//! `0.d1d2d3... * 10^e` with `d1` not 0 has 0x81 plus `e + 30`, followed by its digits without
//! trailing zeros, two per byte as 1 to 100, and a final 0. A negative number has the complement of
//! its magnitude's bytes. So the form does not depend on the scale, and is prefix-free.

use super::wide::Wide;
use super::{Decimal, MAX_SCALE};

/// Sign and exponent byte of zero.
const ZERO: u8 = 0x80;

/// Bits beside the scale in the first byte of the form for hash tables: the number is negative; its
/// magnitude has more than 64 bits.
const NEGATIVE: u8 = 0x80;
const LONG: u8 = 0x40;

/// Size of a buffer for the digits of a magnitude.
const DIGITS: usize = 80;

impl Decimal {
    /// Bytes of [`Decimal::to_image`].
    pub const IMAGE: usize = 34;

    /// Returns the number times ten to the power of its scale, and the scale; `None` if the number
    /// does not fit.
    #[must_use]
    #[inline]
    pub fn unscaled(self) -> Option<(i128, u8)> {
        let magnitude = i128::try_from(self.magnitude.small()?).ok()?;
        let value = if self.negative { -magnitude } else { magnitude };
        Some((value, self.scale))
    }

    /// Returns an exact image, for [`Decimal::from_image`].
    #[must_use]
    pub fn to_image(self) -> [u8; Self::IMAGE] {
        let mut image = [0; Self::IMAGE];
        let bytes = self.magnitude.to_be_bytes();
        let rest = [u8::from(self.negative), self.scale];
        for (to, from) in image.iter_mut().zip(bytes.iter().chain(&rest)) {
            *to = *from;
        }
        image
    }

    /// Decodes an image; `None` if it is invalid.
    #[must_use]
    pub fn from_image(image: &[u8]) -> Option<Decimal> {
        let (magnitude, rest) = image.split_first_chunk::<32>()?;
        let [negative, scale] = rest else {
            return None;
        };
        let magnitude = Wide::from_be_bytes(*magnitude);
        (*scale <= MAX_SCALE).then(|| Decimal::raw(magnitude, *negative != 0, *scale))
    }

    /// Appends a form for hash tables, which is equal for equal numbers and prefix-free: one byte with the
    /// sign and the scale, then the magnitude in 8 or 32 bytes, both without trailing zeros of the fraction.
    pub fn append_hashable(self, out: &mut Vec<u8>) {
        let number = self.normalized();
        let head = number.scale | if number.negative { NEGATIVE } else { 0 };
        match number.magnitude.word() {
            Some(word) => {
                out.push(head);
                out.extend_from_slice(&word.to_le_bytes());
            }
            None => {
                out.push(head | LONG);
                out.extend_from_slice(&number.magnitude.to_be_bytes());
            }
        }
    }

    /// Appends the memory-comparable form, which is equal for equal numbers.
    pub fn append_ordered(self, out: &mut Vec<u8>) {
        let mut buffer = [0; DIGITS];
        let digits = self.digits(&mut buffer);
        if digits.is_empty() {
            out.push(ZERO);
            return;
        }
        let start = out.len();
        let exponent = digits.len() as i32 - i32::from(self.scale);
        let head = i32::from(ZERO) + 1 + exponent + i32::from(MAX_SCALE);
        out.push(u8::try_from(head).unwrap_or(u8::MAX));
        let used = digits.iter().rposition(|d| *d != 0).map_or(0, |at| at + 1);
        let significant = digits.get(..used).unwrap_or(digits);
        for pair in significant.chunks(2) {
            let (high, low) = match pair {
                [high, low] => (*high, *low),
                [high] => (*high, 0),
                _ => (0, 0),
            };
            out.push(high * 10 + low + 1);
        }
        out.push(0);
        if self.negative {
            out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
    }

    /// The digits of the magnitude, from the first that is not 0 on.
    fn digits(self, buffer: &mut [u8; DIGITS]) -> &[u8] {
        const PART: u128 = 10_000_000_000_000_000_000;
        let mut at = DIGITS;
        let mut put = |mut part: u64, least: usize| {
            let end = at.saturating_sub(least);
            while part > 0 || at > end {
                at = at.saturating_sub(1);
                if let Some(place) = buffer.get_mut(at) {
                    *place = (part % 10) as u8;
                }
                part /= 10;
            }
        };
        match self.magnitude.small() {
            Some(all) if all < PART => put(all as u64, 0),
            Some(all) => {
                put((all % PART) as u64, 19);
                let rest = all / PART;
                if rest < PART {
                    put(rest as u64, 0);
                } else {
                    put((rest % PART) as u64, 19);
                    put((rest / PART) as u64, 0);
                }
            }
            None => {
                let mut rest = self.magnitude;
                while !rest.is_zero() {
                    let (quotient, part) = rest.div_rem_pow10(19);
                    let part = part.small().unwrap_or(0) as u64;
                    put(part, if quotient.is_zero() { 0 } else { 19 });
                    rest = quotient;
                }
            }
        }
        buffer.get(at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn bytes_compare_as_numbers_do() {
        let texts = [
            "-99999999999999999999999999999999999999999999999999999999999999999",
            "-18446744073709551616",
            "-100",
            "-12.5",
            "-12.345",
            "-1",
            "-0.1",
            "-0.000000000000000000000000000001",
            "0",
            "0.000",
            "0.000000000000000000000000000001",
            "0.01",
            "0.0999",
            "0.1",
            "0.10",
            "1",
            "1.0",
            "1.05",
            "9",
            "10",
            "12.345",
            "12.5",
            "99.99",
            "100",
            "100.01",
            "10000000000000000000",
            "10000000000000000000.5",
            "340282366920938463463374607431768211456",
            "99999999999999999999999999999999999999999999999999999999999999999",
        ];
        let made: Vec<(Decimal, Vec<u8>)> = texts
            .iter()
            .map(|text| {
                let d = decimal(text);
                let mut out = Vec::new();
                d.append_ordered(&mut out);
                (d, out)
            })
            .collect();
        for (a, x) in &made {
            for (b, y) in &made {
                assert_eq!(x.cmp(y), a.cmp_value(b), "{a} {b}");
                assert!(x == y || !y.starts_with(x), "{a} {b}");
            }
        }
    }

    #[test]
    fn images_are_exact() {
        for text in ["0", "-1.50", "12345678901234567890123456789012345678901.5"] {
            let d = decimal(text);
            assert_eq!(Decimal::from_image(&d.to_image()), Some(d), "{text}");
        }
        assert_eq!(decimal("-1.50").unscaled(), Some((-150, 2)));
        assert_eq!(Decimal::from_image(&[0; 3]), None);
    }
}
