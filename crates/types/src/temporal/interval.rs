//! Adding intervals (DATE_ADD and friends).

use super::{Date, DateTime, MICROS_PER_DAY, days_in_month};

/// An interval in the three units that do not convert into each other. Years
/// are 12 months, quarters 3; weeks 7 days; hours and below are microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Interval {
    /// Calendar months.
    pub months: i64,
    /// Days.
    pub days: i64,
    /// Microseconds.
    pub micros: i64,
}

impl Interval {
    /// Returns the negated interval; `None` on overflow.
    #[must_use]
    pub fn checked_neg(self) -> Option<Interval> {
        Some(Interval {
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            micros: self.micros.checked_neg()?,
        })
    }
}

impl Date {
    /// Adds months; the day is clamped to the month's last. Returns `None` outside the years 0 to
    /// 9999.
    #[must_use]
    pub fn add_months(self, months: i64) -> Option<Date> {
        let total =
            (i64::from(self.year()) * 12 + i64::from(self.month()) - 1).checked_add(months)?;
        if total < 0 {
            return None;
        }
        let year = u16::try_from(total / 12).ok()?;
        let month = u8::try_from(total % 12 + 1).ok()?;
        Date::new(year, month, self.day().min(days_in_month(year, month)))
    }

    /// Adds days. Returns `None` outside the years 1 to 9999.
    #[must_use]
    pub fn add_days(self, days: i64) -> Option<Date> {
        Date::from_days(self.to_days().checked_add(days)?)
    }
}

impl DateTime {
    /// Adds microseconds. Returns `None` outside the years 1 to 9999.
    #[must_use]
    pub fn add_micros(self, micros: i64) -> Option<DateTime> {
        let total = self.micros_of_day().checked_add(micros)?;
        let date = self.date().add_days(total.div_euclid(MICROS_PER_DAY))?;
        DateTime::from_day_micros(date, total.rem_euclid(MICROS_PER_DAY))
    }

    /// Adds an interval: months first, then days, then time. Returns `None` if the result is out of
    /// range.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "the operator cannot fail; this can"
    )]
    pub fn add(self, interval: Interval) -> Option<DateTime> {
        let mut date = self.date();
        if interval.months != 0 {
            date = date.add_months(interval.months)?;
        }
        if interval.days == 0 && interval.micros == 0 {
            return DateTime::from_day_micros(date, self.micros_of_day());
        }
        let total = self.micros_of_day().checked_add(interval.micros)?;
        let days = interval
            .days
            .checked_add(total.div_euclid(MICROS_PER_DAY))?;
        DateTime::from_day_micros(date.add_days(days)?, total.rem_euclid(MICROS_PER_DAY))
    }
}
