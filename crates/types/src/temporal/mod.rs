//! Dates and times, packed into integers whose order is the order in time.
//!
//! Layouts (persisted; big-endian they are memory-comparable):
//! * [`Date`]: `year << 9 | month << 5 | day` in 32 bits.
//! * [`DateTime`]: date, hour (5 bits), minute (6), second (6), microsecond (20) in 64 bits.
//! * [`Time`]: signed microseconds, up to 838:59:59.000000 either way.
//!
//! Invariants:
//! 1. Years run from 0 to 9999, months to 12, days to 31, and each part may be
//!    zero (MySQL's "zero in date"); hours to 23, minutes and seconds to 59.
//! 2. [`Date::check`] decides whether a date exists in the calendar, by the rules of an
//!    SQL mode.

mod calendar;
pub mod delimiter;
mod interval;
mod parse;
mod text;

pub use calendar::{days_in_month, is_leap_year};
pub use interval::Interval;
pub use parse::{ParsedDateTime, ParsedTime};

use crate::sql_mode::SqlMode;

/// Microseconds in a second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;
/// Microseconds in a day.
pub const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
/// The greatest TIME, 838:59:59, in microseconds.
pub const MAX_TIME_MICROS: i64 = (838 * 3600 + 59 * 60 + 59) * MICROS_PER_SECOND;

/// A date; each part may be zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Date(u32);

/// A date and a time of day with microseconds, in no time zone of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DateTime(u64);

/// A duration or time of day, signed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(i64);

/// Rules for accepted dates, from the SQL mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DateRules {
    /// Whether '0000-00-00' is refused.
    pub no_zero_date: bool,
    /// Whether a zero month or day with a non-zero year is refused.
    pub no_zero_in_date: bool,
    /// Whether days are checked only against 31, not against the month.
    pub allow_invalid: bool,
}

impl DateRules {
    /// Accepts zero parts; days are checked against their month.
    pub const LENIENT: DateRules = DateRules {
        no_zero_date: false,
        no_zero_in_date: false,
        allow_invalid: false,
    };

    /// Accepts only complete existing dates, as date functions require.
    pub const REAL: DateRules = DateRules {
        no_zero_date: true,
        no_zero_in_date: true,
        allow_invalid: false,
    };

    /// The rules of an SQL mode.
    #[must_use]
    pub fn of(mode: SqlMode) -> DateRules {
        DateRules {
            no_zero_date: mode.contains(SqlMode::NO_ZERO_DATE),
            no_zero_in_date: mode.contains(SqlMode::NO_ZERO_IN_DATE),
            allow_invalid: mode.contains(SqlMode::ALLOW_INVALID_DATES),
        }
    }
}

impl Date {
    /// '0000-00-00'.
    pub const ZERO: Date = Date(0);

    /// Creates a date; `None` if a part is out of range. Zero parts and days that the month does
    /// not have are accepted: see [`Date::check`].
    #[must_use]
    pub fn new(year: u16, month: u8, day: u8) -> Option<Date> {
        (year <= 9999 && month <= 12 && day <= 31)
            .then(|| Date(u32::from(year) << 9 | u32::from(month) << 5 | u32::from(day)))
    }

    /// The packed form.
    #[must_use]
    pub fn packed(self) -> u32 {
        self.0
    }

    /// Decodes a packed date; `None` if a part is out of range.
    #[must_use]
    pub fn from_packed(packed: u32) -> Option<Date> {
        let year = u16::try_from(packed >> 9).ok()?;
        Date::new(year, (packed >> 5 & 15) as u8, (packed & 31) as u8)
    }

    /// 0 to 9999.
    #[must_use]
    pub fn year(self) -> u16 {
        (self.0 >> 9) as u16
    }

    /// 0 to 12.
    #[must_use]
    pub fn month(self) -> u8 {
        (self.0 >> 5 & 15) as u8
    }

    /// 0 to 31.
    #[must_use]
    pub fn day(self) -> u8 {
        (self.0 & 31) as u8
    }

    /// Whether this is '0000-00-00'.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether the date passes these rules.
    #[must_use]
    pub fn check(self, rules: DateRules) -> bool {
        if self.is_zero() {
            return !rules.no_zero_date;
        }
        let (month, day) = (self.month(), self.day());
        if rules.no_zero_in_date && (month == 0 || day == 0) {
            return false;
        }
        rules.allow_invalid || month == 0 || day <= days_in_month(self.year(), month)
    }

    /// Midnight of the date.
    #[must_use]
    pub fn at_midnight(self) -> DateTime {
        DateTime(u64::from(self.0) << 37)
    }

    /// The number `YYYYMMDD`, the value of a date in a numeric context.
    #[must_use]
    pub fn to_number(self) -> i64 {
        i64::from(self.year()) * 10_000 + i64::from(self.month()) * 100 + i64::from(self.day())
    }
}

impl DateTime {
    /// '0000-00-00 00:00:00'.
    pub const ZERO: DateTime = DateTime(0);
    /// '9999-12-31 23:59:59.999999'.
    pub const MAX: DateTime =
        DateTime((9999 << 9 | 12 << 5 | 31) << 37 | 23 << 32 | 59 << 26 | 59 << 20 | 999_999);

    /// A date with a time of day; None where a part is out of range.
    #[must_use]
    pub fn new(date: Date, hour: u8, minute: u8, second: u8, micros: u32) -> Option<DateTime> {
        (hour <= 23 && minute <= 59 && second <= 59 && micros <= 999_999).then(|| {
            DateTime(
                u64::from(date.0) << 37
                    | u64::from(hour) << 32
                    | u64::from(minute) << 26
                    | u64::from(second) << 20
                    | u64::from(micros),
            )
        })
    }

    /// Creates a date and time from its parts; `None` if one is out of range.
    #[must_use]
    pub fn from_parts(
        year: u16,
        month: u8,
        day: u8,
        hour: u8,
        minute: u8,
        second: u8,
        micros: u32,
    ) -> Option<DateTime> {
        DateTime::new(Date::new(year, month, day)?, hour, minute, second, micros)
    }

    /// The packed form.
    #[must_use]
    pub fn packed(self) -> u64 {
        self.0
    }

    /// Decodes a packed date and time; `None` if a part is out of range.
    #[must_use]
    pub fn from_packed(packed: u64) -> Option<DateTime> {
        let date = Date::from_packed(u32::try_from(packed >> 37).ok()?)?;
        DateTime::new(
            date,
            (packed >> 32 & 31) as u8,
            (packed >> 26 & 63) as u8,
            (packed >> 20 & 63) as u8,
            (packed & 0xF_FFFF) as u32,
        )
    }

    /// The date.
    #[must_use]
    pub fn date(self) -> Date {
        Date((self.0 >> 37) as u32)
    }

    /// 0 to 9999.
    #[must_use]
    pub fn year(self) -> u16 {
        self.date().year()
    }

    /// 0 to 12.
    #[must_use]
    pub fn month(self) -> u8 {
        self.date().month()
    }

    /// 0 to 31.
    #[must_use]
    pub fn day(self) -> u8 {
        self.date().day()
    }

    /// 0 to 23.
    #[must_use]
    pub fn hour(self) -> u8 {
        (self.0 >> 32 & 31) as u8
    }

    /// 0 to 59.
    #[must_use]
    pub fn minute(self) -> u8 {
        (self.0 >> 26 & 63) as u8
    }

    /// 0 to 59.
    #[must_use]
    pub fn second(self) -> u8 {
        (self.0 >> 20 & 63) as u8
    }

    /// 0 to 999,999.
    #[must_use]
    pub fn micros(self) -> u32 {
        (self.0 & 0xF_FFFF) as u32
    }

    /// The time of day.
    #[must_use]
    pub fn time(self) -> Time {
        Time(self.micros_of_day())
    }

    pub(crate) fn micros_of_day(self) -> i64 {
        let seconds = i64::from(self.hour()) * 3600
            + i64::from(self.minute()) * 60
            + i64::from(self.second());
        seconds * MICROS_PER_SECOND + i64::from(self.micros())
    }

    /// Whether the date is '0000-00-00'.
    #[must_use]
    pub fn is_zero_date(self) -> bool {
        self.date().is_zero()
    }

    /// Rounds (or, with `truncate`, cuts) to `fsp` digits of the second; None if the result is
    /// beyond the year 9999. A zero date that would carry is unchanged.
    #[must_use]
    pub fn round(self, fsp: u8, truncate: bool) -> Option<DateTime> {
        let unit = fraction_unit(fsp);
        let rest = self.micros() % unit;
        if rest == 0 {
            return Some(self);
        }
        let cut = DateTime(self.0 - u64::from(rest));
        if truncate || rest * 2 < unit {
            return Some(cut);
        }
        if cut.micros() + unit < 1_000_000 {
            return Some(DateTime(cut.0 + u64::from(unit)));
        }
        if cut.second() < 59 {
            return Some(DateTime((cut.0 >> 20 << 20) + (1 << 20)));
        }
        cut.add_micros(i64::from(unit))
    }

    /// The number `YYYYMMDDHHMMSS`, fraction not counted.
    #[must_use]
    pub fn to_number(self) -> i64 {
        self.date().to_number() * 1_000_000
            + i64::from(self.hour()) * 10_000
            + i64::from(self.minute()) * 100
            + i64::from(self.second())
    }
}

impl Time {
    /// '00:00:00'.
    pub const ZERO: Time = Time(0);
    /// '838:59:59'.
    pub const MAX: Time = Time(MAX_TIME_MICROS);
    /// '-838:59:59'.
    pub const MIN: Time = Time(-MAX_TIME_MICROS);

    /// Creates a time from signed microseconds; `None` beyond 838:59:59 in either direction.
    #[must_use]
    pub fn from_micros(micros: i64) -> Option<Time> {
        (-MAX_TIME_MICROS..=MAX_TIME_MICROS)
            .contains(&micros)
            .then_some(Time(micros))
    }

    /// Creates a time from signed microseconds, clipped to the range. Returns whether it was
    /// clipped.
    #[must_use]
    pub fn clip(micros: i64) -> (Time, bool) {
        let clipped = micros.clamp(-MAX_TIME_MICROS, MAX_TIME_MICROS);
        (Time(clipped), clipped != micros)
    }

    /// Creates a time from its parts; `None` beyond the range.
    #[must_use]
    pub fn from_parts(
        negative: bool,
        hour: u32,
        minute: u8,
        second: u8,
        micros: u32,
    ) -> Option<Time> {
        if hour > 838 || minute > 59 || second > 59 || micros > 999_999 {
            return None;
        }
        let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        let total = seconds * MICROS_PER_SECOND + i64::from(micros);
        Time::from_micros(if negative { -total } else { total })
    }

    /// Signed microseconds.
    #[must_use]
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// Whether the time is below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// 0 to 838, without the sign.
    #[must_use]
    pub fn hour(self) -> u32 {
        (self.seconds() / 3600) as u32
    }

    /// 0 to 59, without the sign.
    #[must_use]
    pub fn minute(self) -> u8 {
        (self.seconds() / 60 % 60) as u8
    }

    /// 0 to 59, without the sign.
    #[must_use]
    pub fn second(self) -> u8 {
        (self.seconds() % 60) as u8
    }

    /// 0 to 999,999, without the sign.
    #[must_use]
    pub fn micros(self) -> u32 {
        (self.0.unsigned_abs() % 1_000_000) as u32
    }

    fn seconds(self) -> u64 {
        self.0.unsigned_abs() / 1_000_000
    }

    /// Rounds half away from zero (or, with `truncate`, cuts) to `fsp` digits
    /// of the second, clipped to the range.
    #[must_use]
    pub fn round(self, fsp: u8, truncate: bool) -> Time {
        let unit = i64::from(fraction_unit(fsp));
        let rest = self.0 % unit;
        let cut = self.0 - rest;
        let up = !truncate && rest.abs() * 2 >= unit;
        Time::clip(if up { cut + unit * rest.signum() } else { cut }).0
    }

    /// The number `HHMMSS`, signed, fraction not counted.
    #[must_use]
    pub fn to_number(self) -> i64 {
        let v = i64::from(self.hour()) * 10_000
            + i64::from(self.minute()) * 100
            + i64::from(self.second());
        if self.0 < 0 { -v } else { v }
    }

    /// Returns the time counted from midnight of `day`: the conversion of TIME to DATETIME.
    #[must_use]
    pub fn on(self, day: Date) -> Option<DateTime> {
        day.at_midnight().add_micros(self.0)
    }
}

/// Microseconds in one unit of the last digit of `fsp` fractional digits.
pub(crate) fn fraction_unit(fsp: u8) -> u32 {
    match fsp {
        0 => 1_000_000,
        1 => 100_000,
        2 => 10_000,
        3 => 1_000,
        4 => 100,
        5 => 10,
        _ => 1,
    }
}
