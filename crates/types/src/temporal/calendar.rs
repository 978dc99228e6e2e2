//! The calendar: day numbers, weekdays, Unix time.
//!
//! Day numbers are MySQL's TO_DAYS: proleptic Gregorian, with the year 0 not a leap year,
//! 1970-01-01 being day 719,528.

use super::{Date, DateTime, MICROS_PER_DAY, Time};
use porpoise_base::calendar::civil_from_days;

/// TO_DAYS('1970-01-01').
const UNIX_DAY: i64 = 719_528;
/// TO_DAYS('0001-01-01'), the first day that FROM_DAYS returns.
const FIRST_DAY: i64 = 366;
/// TO_DAYS('9999-12-31').
const LAST_DAY: i64 = 3_652_424;

/// Whether the year has a 29th of February; the year 0 has none.
#[must_use]
pub fn is_leap_year(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || (year.is_multiple_of(400) && year != 0))
}

/// Days of a month, 31 for a month out of range.
#[must_use]
pub fn days_in_month(year: u16, month: u8) -> u8 {
    match month {
        2 => 28 + u8::from(is_leap_year(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Date {
    /// The day's number, TO_DAYS; 0 for '0000-00-00'.
    #[must_use]
    pub fn to_days(self) -> i64 {
        let (year, month, day) = (
            i64::from(self.year()),
            i64::from(self.month()),
            i64::from(self.day()),
        );
        if year == 0 && month == 0 {
            return 0;
        }
        let days = 365 * year + 31 * (month - 1) + day;
        let (days, year) = if month <= 2 {
            (days, year - 1)
        } else {
            (days - (month * 4 + 23) / 10, year)
        };
        days + year / 4 - ((year / 100 + 1) * 3) / 4
    }

    /// The day of a number, FROM_DAYS; None before the year 1 and after 9999.
    #[must_use]
    pub fn from_days(days: i64) -> Option<Date> {
        if !(FIRST_DAY..=LAST_DAY).contains(&days) {
            return None;
        }
        let (year, month, day) = civil_from_days(days - UNIX_DAY);
        Date::new(u16::try_from(year).ok()?, month, day)
    }

    /// 0 for Monday to 6 for Sunday, WEEKDAY.
    #[must_use]
    pub fn weekday(self) -> u8 {
        u8::try_from((self.to_days() + 5).rem_euclid(7)).unwrap_or(0)
    }

    /// 1 to 366, DAYOFYEAR.
    #[must_use]
    pub fn day_of_year(self) -> u16 {
        let first = Date::new(self.year(), 1, 1).unwrap_or(Date::ZERO);
        u16::try_from(self.to_days() - first.to_days() + 1).unwrap_or(0)
    }

    /// The last day of the date's month; None for month 0.
    #[must_use]
    pub fn last_day(self) -> Option<Date> {
        if self.month() == 0 {
            return None;
        }
        Date::new(
            self.year(),
            self.month(),
            days_in_month(self.year(), self.month()),
        )
    }

    /// Year and week number, by MySQL's mode 0 to 7 (WEEK, YEARWEEK): bit 0: Monday first; bit 1:
    /// week 1 to 53, so that the year may differ; bit 2: week 1 is the first with its first weekday
    /// in the year.
    #[must_use]
    pub fn week(self, mode: u8) -> (u16, u8) {
        let mode = if mode & 1 == 0 { mode ^ 4 } else { mode };
        let (monday_first, first_weekday) = (mode & 1 != 0, mode & 4 != 0);
        let mut week_year = mode & 2 != 0;
        let mut year = i32::from(self.year());
        let day = self.to_days();
        let mut first = Date::new(self.year(), 1, 1).unwrap_or(Date::ZERO).to_days();
        let weekday_of = |d: i64| {
            // Sunday first shifts the week by a day.
            (d + if monday_first { 5 } else { 6 }).rem_euclid(7)
        };
        // The year before 0 has 365 days.
        let of_calendar = |year: i32| u16::try_from(year).unwrap_or(0);
        let days_of = |year: i32| 365 + i64::from(u16::try_from(year).is_ok_and(is_leap_year));
        let mut weekday = weekday_of(first);
        let first_not_counted = |w: i64| if first_weekday { w != 0 } else { w >= 4 };
        if self.month() == 1 && i64::from(self.day()) <= 7 - weekday {
            if !week_year && first_not_counted(weekday) {
                return (self.year(), 0);
            }
            week_year = true;
            year -= 1;
            let days = days_of(year);
            first -= days;
            weekday = (weekday + 53 * 7 - days).rem_euclid(7);
        }
        let days = if first_not_counted(weekday) {
            day - (first + 7 - weekday)
        } else {
            day - (first - weekday)
        };
        if week_year && days >= 52 * 7 {
            let weekday = (weekday + days_of(year)).rem_euclid(7);
            if !first_not_counted(weekday) {
                return (of_calendar(year + 1), 1);
            }
        }
        (of_calendar(year), u8::try_from(days / 7 + 1).unwrap_or(0))
    }
}

impl DateTime {
    /// Microseconds since 1970-01-01 00:00:00, the value taken as UTC.
    #[must_use]
    pub fn to_unix_micros(self) -> i64 {
        (self.date().to_days() - UNIX_DAY) * MICROS_PER_DAY + self.micros_of_day()
    }

    /// The UTC date and time of microseconds since 1970; None outside the
    /// years 1 to 9999.
    #[must_use]
    pub fn from_unix_micros(micros: i64) -> Option<DateTime> {
        let date = Date::from_days(micros.div_euclid(MICROS_PER_DAY) + UNIX_DAY)?;
        DateTime::from_day_micros(date, micros.rem_euclid(MICROS_PER_DAY))
    }

    /// Creates a value from a date and microseconds since midnight, less than a day.
    pub(crate) fn from_day_micros(date: Date, micros: i64) -> Option<DateTime> {
        let time = Time(micros);
        DateTime::new(
            date,
            u8::try_from(time.hour()).ok()?,
            time.minute(),
            time.second(),
            time.micros(),
        )
    }
}
