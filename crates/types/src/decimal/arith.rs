//! Arithmetic and rounding of decimals.

use super::wide::{Product, Wide};
use super::{Decimal, DecimalError, MAX_DIGITS, MAX_SCALE};

/// Number of digits in a group of MySQL's representation, to which it rounds up the scale of
/// quotients.
const GROUP: u32 = 9;

#[expect(
    clippy::should_implement_trait,
    reason = "the operators return no error; these names are the field's"
)]
impl Decimal {
    /// The number with its sign changed.
    #[must_use]
    pub fn neg(self) -> Decimal {
        Decimal::raw(self.magnitude, !self.negative, self.scale)
    }

    /// The number without its sign.
    #[must_use]
    pub fn abs(self) -> Decimal {
        Decimal::raw(self.magnitude, false, self.scale)
    }

    /// The sum; its scale is the greater of both.
    ///
    /// # Errors
    /// Overflow past 76 digits before the point.
    pub fn add(self, other: Decimal) -> Result<Decimal, DecimalError> {
        let (a, b, scale) = align(self, other)?;
        if self.negative == other.negative {
            return Decimal::fit(a.plus(&b), self.negative, scale);
        }
        if a >= b {
            Decimal::fit(a.minus(&b), self.negative, scale)
        } else {
            Decimal::fit(b.minus(&a), other.negative, scale)
        }
    }

    /// The difference; its scale is the greater of both.
    ///
    /// # Errors
    /// Overflow past 76 digits before the point.
    pub fn sub(self, other: Decimal) -> Result<Decimal, DecimalError> {
        // Not `neg`, which is the same but for zero, whose sign does not matter.
        self.add(other.neg())
    }

    /// The product; its scale is the sum of both, at most 30, further digits cut.
    ///
    /// # Errors
    /// Overflow past 76 digits before the point.
    pub fn mul(self, other: Decimal) -> Result<Decimal, DecimalError> {
        let scale = self.scale + other.scale;
        let negative = self.negative != other.negative;
        if let (Some(a), Some(b)) = (self.magnitude.small(), other.magnitude.small())
            && let Some(product) = a.checked_mul(b)
        {
            return Decimal::fit(Wide::from(product), negative, scale);
        }
        fit_product(self.magnitude.times_wide(&other.magnitude), negative, scale)
    }

    /// The quotient with MySQL's guard digits: at least the scale of the
    /// dividend plus `increment` (`div_precision_increment`, 4 by default)
    /// digits after the point, cut, not rounded; None on division by zero.
    /// The result of the whole expression is later rounded to the dividend's scale
    /// plus the increment, at most 30.
    ///
    /// # Errors
    /// Overflow past 76 digits before the point.
    pub fn div(self, other: Decimal, increment: u8) -> Result<Option<Decimal>, DecimalError> {
        if other.is_zero() {
            return Ok(None);
        }
        // Both scales are rounded up to whole groups, and the excess is subtracted from the
        // increment.
        let groups = |scale: u8| u32::from(scale).div_ceil(GROUP) * GROUP;
        let (fa, fb) = (groups(self.scale), groups(other.scale));
        let added = fa - u32::from(self.scale) + fb - u32::from(other.scale);
        let wanted = fa + fb + u32::from(increment).saturating_sub(added);
        let scale = (wanted.div_ceil(GROUP) * GROUP).min(u32::from(MAX_SCALE));
        let negative = self.negative != other.negative;
        // a / 10^sa / (b / 10^sb) = (a * 10^(scale - sa + sb)) / b / 10^scale
        let shift = (scale + u32::from(other.scale)).saturating_sub(u32::from(self.scale));
        let unit = Wide::pow10(shift);
        let scale = u8::try_from(scale).unwrap_or(MAX_SCALE);
        if let Some(quotient) = divide_small(&self.magnitude, &unit, &other.magnitude) {
            return Decimal::fit(Wide::from(quotient), negative, scale).map(Some);
        }
        let (quotient, _) = self.magnitude.times_wide(&unit).div_rem(&other.magnitude);
        fit_product(quotient, negative, scale).map(Some)
    }

    /// The integer part of the quotient (DIV), of scale 0; None on division by zero.
    ///
    /// # Errors
    /// Overflow past 76 digits.
    pub fn div_int(self, other: Decimal) -> Result<Option<Decimal>, DecimalError> {
        if other.is_zero() {
            return Ok(None);
        }
        let (quotient, _, _) = divide(self, other);
        fit_product(quotient, self.negative != other.negative, 0).map(Some)
    }

    /// The remainder (%), with the sign of the dividend and the greater scale;
    /// None on division by zero.
    ///
    /// # Errors
    /// None in practice: a remainder is smaller than both operands.
    pub fn rem(self, other: Decimal) -> Result<Option<Decimal>, DecimalError> {
        if other.is_zero() {
            return Ok(None);
        }
        let (_, rest, scale) = divide(self, other);
        Decimal::fit(rest, self.negative, scale).map(Some)
    }

    /// Rounds half away from zero to at most `scale` digits after the point; a number with fewer
    /// digits is unchanged.
    ///
    /// # Errors
    /// Overflow where rounding up gives a 77th digit.
    pub fn round(self, scale: u8) -> Result<Decimal, DecimalError> {
        if self.scale <= scale {
            return Ok(self);
        }
        let cut = u32::from(self.scale - scale);
        let (quotient, rest) = self.magnitude.div_rem_pow10(cut);
        let up = rest.plus(&rest) >= Wide::pow10(cut);
        let magnitude = if up {
            quotient.plus(&Wide::from(1))
        } else {
            quotient
        };
        Decimal::fit(magnitude, self.negative, scale)
    }

    /// Rounds half away from zero at `places` before the point (ROUND(x, -n)).
    ///
    /// # Errors
    /// Overflow where rounding up gives a 77th digit.
    pub fn round_integer(self, places: u32) -> Result<Decimal, DecimalError> {
        let cut = places + u32::from(self.scale);
        if cut > u32::from(MAX_DIGITS) {
            return Ok(Decimal::ZERO);
        }
        let (quotient, rest) = self.magnitude.div_rem_pow10(cut);
        let up = rest.plus(&rest) >= Wide::pow10(cut);
        let magnitude = if up {
            quotient.plus(&Wide::from(1))
        } else {
            quotient
        };
        Decimal::fit(magnitude.times_pow10(places), self.negative, 0)
    }

    /// Truncates to `scale` digits after the point.
    #[must_use]
    pub fn truncate(self, scale: u8) -> Decimal {
        if self.scale <= scale {
            return self;
        }
        let magnitude = self.magnitude.div_pow10(u32::from(self.scale - scale));
        Decimal::raw(magnitude, self.negative, scale)
    }

    /// The greatest integer not above the number.
    ///
    /// # Errors
    /// Overflow where that has a 77th digit.
    pub fn floor(self) -> Result<Decimal, DecimalError> {
        let cut = self.truncate(0);
        if self.negative && cut.cmp_value(&self).is_ne() {
            return cut.sub(Decimal::from_i64(1));
        }
        Ok(cut)
    }

    /// The least integer not below the number.
    ///
    /// # Errors
    /// Overflow where that has a 77th digit.
    pub fn ceil(self) -> Result<Decimal, DecimalError> {
        self.neg().floor().map(Decimal::neg)
    }

    /// The number with exactly `scale` digits after the point: rounded, or
    /// filled with zeros.
    ///
    /// # Errors
    /// Overflow past 76 digits.
    pub fn rescale(self, scale: u8) -> Result<Decimal, DecimalError> {
        if scale > MAX_SCALE {
            return Err(DecimalError::Overflow);
        }
        if self.scale >= scale {
            return self.round(scale);
        }
        let add = u32::from(scale - self.scale);
        if !self.is_zero() && self.magnitude.digits() + add > u32::from(MAX_DIGITS) {
            return Err(DecimalError::Overflow);
        }
        Ok(Decimal::raw(
            self.magnitude.times_pow10(add),
            self.negative,
            scale,
        ))
    }
}

/// Returns both magnitudes at a common scale: the greater one, or as much of it as fits.
fn align(a: Decimal, b: Decimal) -> Result<(Wide, Wide, u8), DecimalError> {
    if a.scale == b.scale {
        return Ok((a.magnitude, b.magnitude, a.scale));
    }
    let scale = a.scale.max(b.scale);
    let narrow = |d: Decimal| {
        let unit = 10u128.checked_pow(u32::from(scale - d.scale))?;
        d.magnitude.small()?.checked_mul(unit).map(Wide::from)
    };
    if let (Some(a), Some(b)) = (narrow(a), narrow(b)) {
        return Ok((a, b, scale));
    }
    let integer = u32::from(a.integer_digits().max(b.integer_digits()));
    // One digit is reserved for the carry; 76 digits and the carry fit 256 bits.
    let scale = scale.min(u8::try_from(76u32.saturating_sub(integer)).unwrap_or(scale));
    let at = |d: Decimal| {
        if d.scale <= scale {
            d.magnitude.times_pow10(u32::from(scale - d.scale))
        } else {
            d.truncate(scale).magnitude
        }
    };
    Ok((at(a), at(b), scale))
}

/// `a * unit / b`, if the product fits 128 bits. `b` must not be zero.
fn divide_small(a: &Wide, unit: &Wide, b: &Wide) -> Option<u128> {
    let numerator = a.small()?.checked_mul(unit.small()?)?;
    let divisor = b.small()?;
    Some(match (u64::try_from(numerator), u64::try_from(divisor)) {
        (Ok(numerator), Ok(divisor)) => u128::from(numerator / divisor),
        _ => numerator / divisor,
    })
}

/// Integer quotient and remainder of the magnitudes, and the remainder's scale.
fn divide(a: Decimal, b: Decimal) -> (Product, Wide, u8) {
    let scale = a.scale.max(b.scale);
    // The divisor scaled may pass 256 bits; then it exceeds any dividend of
    // this many integer digits.
    let up = u32::from(scale - b.scale);
    if b.magnitude.digits() + up > 77 && a.abs().cmp_value(&b.abs()).is_lt() {
        let rest = a.magnitude.times_pow10(u32::from(scale - a.scale));
        return (Product::from_wide(&Wide::ZERO), rest, scale);
    }
    let divisor = b.magnitude.times_pow10(up);
    let dividend = a
        .magnitude
        .times_wide(&Wide::pow10(u32::from(scale - a.scale)));
    let (quotient, rest) = dividend.div_rem(&divisor);
    (quotient, rest, scale)
}

fn fit_product(product: Product, negative: bool, scale: u8) -> Result<Decimal, DecimalError> {
    let mut product = product;
    let mut scale = scale;
    if scale > MAX_SCALE {
        product = product.div_pow10(u32::from(scale - MAX_SCALE));
        scale = MAX_SCALE;
    }
    while !product.is_low() && scale > 0 {
        product = product.div_pow10(1);
        scale -= 1;
    }
    if !product.is_low() {
        return Err(DecimalError::Overflow);
    }
    Decimal::fit(product.low(), negative, scale)
}
