//! Unsigned 256-bit integers with the operations that DECIMAL needs.
//!
//! Invariant: callers keep results below 2^256; products have 512 bits ([`Wide::times_wide`]) and
//! are reduced before they are converted back.

#![expect(
    clippy::needless_range_loop,
    reason = "words of several numbers are walked side by side, with a carry"
)]
#![expect(
    clippy::indexing_slicing,
    reason = "all indices are loop counters over the bounds of fixed-size arrays"
)]

use std::cmp::Ordering;

/// A 256-bit unsigned integer, least significant word first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Wide([u64; 4]);

const POW10: [Wide; 78] = {
    let mut table = [Wide([1, 0, 0, 0]); 78];
    let mut i = 1;
    while i < 78 {
        let mut w = 0;
        let mut carry = 0u128;
        while w < 4 {
            let v = table[i - 1].0[w] as u128 * 10 + carry;
            table[i].0[w] = v as u64;
            carry = v >> 64;
            w += 1;
        }
        i += 1;
    }
    table
};

/// Quotient and remainder of words, least significant first, by a nonzero word.
fn div_rem_word<const N: usize>(words: &[u64; N], divisor: u64) -> ([u64; N], u64) {
    let mut out = [0; N];
    let mut rest = 0u64;
    for i in (0..N).rev() {
        // For leading words, and for numbers of one word: a division of 128 bits takes several times as long.
        if rest == 0 {
            out[i] = words[i] / divisor;
            rest = words[i] % divisor;
            continue;
        }
        let v = u128::from(rest) << 64 | u128::from(words[i]);
        out[i] = (v / u128::from(divisor)) as u64;
        rest = (v % u128::from(divisor)) as u64;
    }
    (out, rest)
}

/// The quotient of words by 10^n, 19 digits at a time.
fn div_pow10<const N: usize>(mut words: [u64; N], n: u32) -> [u64; N] {
    let mut left = n;
    while left > 0 {
        let step = left.min(19);
        words = div_rem_word(&words, POW10[step as usize].0[0]).0;
        left -= step;
    }
    words
}

impl From<u128> for Wide {
    fn from(v: u128) -> Wide {
        Wide([v as u64, (v >> 64) as u64, 0, 0])
    }
}

impl Wide {
    pub(super) const ZERO: Wide = Wide([0; 4]);

    /// 10^n, for n up to 77.
    pub(super) fn pow10(n: u32) -> Wide {
        POW10[(n as usize).min(77)]
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The value if it fits 128 bits.
    #[inline]
    pub(super) fn small(&self) -> Option<u128> {
        (self.0[2] == 0 && self.0[3] == 0)
            .then(|| u128::from(self.0[0]) | u128::from(self.0[1]) << 64)
    }

    /// The value if it fits 64 bits.
    #[inline]
    pub(super) fn word(&self) -> Option<u64> {
        (self.0[1] == 0 && self.0[2] == 0 && self.0[3] == 0).then_some(self.0[0])
    }

    pub(super) fn bits(&self) -> u32 {
        for i in (0..4).rev() {
            if self.0[i] != 0 {
                return 64 * (i as u32) + 64 - self.0[i].leading_zeros();
            }
        }
        0
    }

    /// Decimal digits; 0 for zero.
    pub(super) fn digits(&self) -> u32 {
        if let Some(v) = self.small() {
            return if v == 0 { 0 } else { v.ilog10() + 1 };
        }
        // 0.30103 is log10(2): the estimate is right or one too small.
        let guess = (self.bits() - 1) * 30103 / 100_000;
        if *self >= POW10[(guess as usize + 1).min(77)] {
            guess + 2
        } else {
            guess + 1
        }
    }

    pub(super) fn plus(&self, other: &Wide) -> Wide {
        let mut out = [0; 4];
        let mut carry = false;
        for i in 0..4 {
            let (v, c1) = self.0[i].overflowing_add(other.0[i]);
            let (v, c2) = v.overflowing_add(u64::from(carry));
            out[i] = v;
            carry = c1 | c2;
        }
        Wide(out)
    }

    /// `self - other`, modulo 2^256.
    pub(super) fn minus(&self, other: &Wide) -> Wide {
        let mut out = [0; 4];
        let mut borrow = false;
        for i in 0..4 {
            let (v, b1) = self.0[i].overflowing_sub(other.0[i]);
            let (v, b2) = v.overflowing_sub(u64::from(borrow));
            out[i] = v;
            borrow = b1 | b2;
        }
        Wide(out)
    }

    /// Two's complement.
    pub(super) fn negated(&self) -> Wide {
        Wide::ZERO.minus(self)
    }

    /// `self * 10^n`, modulo 2^256.
    pub(super) fn times_pow10(&self, n: u32) -> Wide {
        if n == 0 {
            return *self;
        }
        self.times_wide(&Wide::pow10(n)).low()
    }

    /// The full product.
    pub(super) fn times_wide(&self, other: &Wide) -> Product {
        let mut out = [0u64; 8];
        for i in 0..4 {
            let mut carry = 0u128;
            if self.0[i] == 0 {
                continue;
            }
            for j in 0..4 {
                let v =
                    u128::from(self.0[i]) * u128::from(other.0[j]) + u128::from(out[i + j]) + carry;
                out[i + j] = v as u64;
                carry = v >> 64;
            }
            out[i + 4] = carry as u64;
        }
        Product(out)
    }

    /// Quotient and remainder by a word, which must not be 0.
    pub(super) fn div_rem_word(&self, divisor: u64) -> (Wide, u64) {
        let (quotient, rest) = div_rem_word(&self.0, divisor);
        (Wide(quotient), rest)
    }

    pub(super) fn div_pow10(&self, n: u32) -> Wide {
        Wide(div_pow10(self.0, n))
    }

    pub(super) fn div_rem_pow10(&self, n: u32) -> (Wide, Wide) {
        if n <= 19 {
            let (quotient, rest) = self.div_rem_word(Wide::pow10(n).0[0]);
            return (quotient, Wide([rest, 0, 0, 0]));
        }
        let quotient = self.div_pow10(n);
        (quotient, self.minus(&quotient.times_pow10(n)))
    }

    pub(super) fn to_be_bytes(self) -> [u8; 32] {
        let mut out = [0; 32];
        for i in 0..4 {
            out[8 * i..8 * i + 8].copy_from_slice(&self.0[3 - i].to_be_bytes());
        }
        out
    }

    pub(super) fn from_be_bytes(bytes: [u8; 32]) -> Wide {
        let mut words = [0; 4];
        for (i, chunk) in bytes.chunks_exact(8).enumerate() {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            words[3 - i] = u64::from_be_bytes(word);
        }
        Wide(words)
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Wide) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wide {
    fn cmp(&self, other: &Wide) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

/// A 512-bit product, least significant word first.
#[derive(Clone, Copy)]
pub(super) struct Product([u64; 8]);

impl Product {
    pub(super) fn from_wide(v: &Wide) -> Product {
        let mut out = [0; 8];
        out[..4].copy_from_slice(&v.0);
        Product(out)
    }

    /// The low 256 bits.
    pub(super) fn low(&self) -> Wide {
        Wide([self.0[0], self.0[1], self.0[2], self.0[3]])
    }

    /// Whether the product fits 256 bits.
    pub(super) fn is_low(&self) -> bool {
        self.0[4..] == [0; 4]
    }

    pub(super) fn div_pow10(&self, n: u32) -> Product {
        Product(div_pow10(self.0, n))
    }

    /// Quotient and remainder by long division, bit by bit where the divisor
    /// has more than one word. `divisor` must not be zero.
    pub(super) fn div_rem(&self, divisor: &Wide) -> (Product, Wide) {
        if divisor.0[1..] == [0; 3] {
            let (quotient, rest) = div_rem_word(&self.0, divisor.0[0]);
            return (Product(quotient), Wide([rest, 0, 0, 0]));
        }
        let mut quotient = [0u64; 8];
        let mut rest = Wide::ZERO;
        for i in (0..8).rev() {
            for bit in (0..64).rev() {
                // rest < divisor < 2^255, so the shift loses nothing.
                rest = rest.plus(&rest);
                rest.0[0] |= self.0[i] >> bit & 1;
                if rest >= *divisor {
                    rest = rest.minus(divisor);
                    quotient[i] |= 1 << bit;
                }
            }
        }
        (Product(quotient), rest)
    }
}
