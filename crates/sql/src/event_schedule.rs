//! When events run.
//!
//! A recurring event runs at its start and at whole multiples of its interval from it. Multiples are
//! added in the event's time zone, so that a daily event keeps its hour.

use porpoise_rows::catalog::{Event, EventSchedule, EventState};
use porpoise_sql_parser::ast::IntervalUnit;
use porpoise_types::temporal::Interval;
use porpoise_types::{DateTime, TimeZone};

const MICROS_PER_SECOND: i64 = 1_000_000;

const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// More than clocks are changed by.
const CLOCK_CHANGE: i64 = 7_200_000_000;

/// The time zone of an event.
pub(crate) fn zone_of(event: &Event) -> TimeZone {
    TimeZone::parse(&event.time_zone).unwrap_or(TimeZone::UTC)
}

/// The first time after `after` at which an event runs; `None` if there is none.
pub(crate) fn next_run(event: &Event, after: i64) -> Option<i64> {
    if event.state != EventState::Enabled {
        return None;
    }
    match &event.schedule {
        EventSchedule::At(at) => (*at > after).then_some(*at),
        EventSchedule::Every {
            interval,
            starts,
            ends,
            ..
        } => {
            let next = next_multiple(&zone_of(event), *starts, interval, after)?;
            ends.is_none_or(|ends| next <= ends).then_some(next)
        }
    }
}

/// The first of `starts`, `starts + interval`, ... after a time.
fn next_multiple(
    zone: &TimeZone,
    starts: i64,
    [months, days, micros]: &[i64; 3],
    after: i64,
) -> Option<i64> {
    if starts > after {
        return Some(starts);
    }
    let local = zone.utc_to_local(DateTime::from_unix_micros(starts)?);
    // The length of the longest such interval, with a change to summer time or back.
    let longest = months
        .saturating_mul(31)
        .saturating_add(*days)
        .saturating_mul(MICROS_PER_DAY)
        .saturating_add(*micros)
        .saturating_add(if *months > 0 || *days > 0 {
            CLOCK_CHANGE
        } else {
            0
        });
    // At least this number of intervals has passed.
    let mut times = ((after - starts) / longest.max(1)).max(0);
    loop {
        let moved = local.add(Interval {
            months: months.checked_mul(times)?,
            days: days.checked_mul(times)?,
            micros: micros.checked_mul(times)?,
        })?;
        let at = zone.local_to_utc_lenient(moved)?.to_unix_micros();
        if at > after {
            return Some(at);
        }
        times = times.checked_add(((after - at) / longest.max(1)).max(1))?;
    }
}

/// Maximum number of the smallest unit of an interval (`EVEX_MAX_INTERVAL_VALUE` of MySQL).
const MAX_UNITS: i64 = 1_000_000_000;

/// The amount of an interval as MySQL shows it: its number of the unit or, of a compound unit, the fields
/// without their quotes. `EVERY '90' MINUTE_SECOND` is shown as 1:30. `None` if there is no such interval, or
/// it is too large.
pub(crate) fn amount_of(unit: IntervalUnit, [months, days, micros]: [i64; 3]) -> Option<String> {
    use IntervalUnit as U;
    let seconds = micros / MICROS_PER_SECOND;
    let hours = days.checked_mul(24)?.checked_add(seconds / 3600)?;
    let minutes = days
        .checked_mul(24 * 60)?
        .checked_add(seconds.checked_div(60)?)?;
    let all_seconds = days.checked_mul(24 * 3600)?.checked_add(seconds)?;
    let (units, text) = match unit {
        U::Year => (months / 12, (months / 12).to_string()),
        U::Quarter => (months, (months / 3).to_string()),
        U::Month => (months, months.to_string()),
        U::Week => (days, (days / 7).to_string()),
        U::Day => (days, days.to_string()),
        U::Hour => (hours, hours.to_string()),
        U::Minute => (minutes, minutes.to_string()),
        U::Second => (all_seconds, all_seconds.to_string()),
        U::YearMonth => (months, format!("{}-{}", months / 12, months % 12)),
        U::DayHour => (hours, format!("{} {}", hours / 24, hours % 24)),
        U::HourMinute => (minutes, format!("{}:{}", minutes / 60, minutes % 60)),
        U::MinuteSecond => (
            all_seconds,
            format!("{}:{}", all_seconds / 60, all_seconds % 60),
        ),
        U::DayMinute => (
            minutes,
            format!(
                "{} {}:{}",
                minutes / 1440,
                minutes % 1440 / 60,
                minutes % 60
            ),
        ),
        U::HourSecond => (
            all_seconds,
            format!(
                "{}:{}:{}",
                all_seconds / 3600,
                all_seconds % 3600 / 60,
                all_seconds % 60
            ),
        ),
        U::DaySecond => (
            all_seconds,
            format!(
                "{} {}:{}:{}",
                all_seconds / 86_400,
                all_seconds % 86_400 / 3600,
                all_seconds % 3600 / 60,
                all_seconds % 60
            ),
        ),
        U::Microsecond
        | U::SecondMicrosecond
        | U::MinuteMicrosecond
        | U::HourMicrosecond
        | U::DayMicrosecond => return None,
    };
    (1..=MAX_UNITS).contains(&units).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> i64 {
        use porpoise_types::temporal::DateRules;
        let parsed = DateTime::parse(text.as_bytes(), DateRules::LENIENT);
        parsed.unwrap().value.to_unix_micros()
    }

    #[test]
    fn multiples_of_the_interval_follow_the_start() {
        let next = |starts: &str, interval: [i64; 3], after: &str| {
            next_multiple(&TimeZone::UTC, micros(starts), &interval, micros(after)).unwrap()
        };
        let start = "2024-01-31 10:00:00";
        assert_eq!(next(start, [1, 0, 0], "2024-01-01 00:00:00"), micros(start));
        assert_eq!(next(start, [1, 0, 0], start), micros("2024-02-29 10:00:00"));
        assert_eq!(
            next(start, [1, 0, 0], "2034-03-30 00:00:00"),
            micros("2034-03-31 10:00:00")
        );
        assert_eq!(
            next(start, [0, 1, 0], "2124-03-30 10:00:00"),
            micros("2124-03-31 10:00:00")
        );
        assert_eq!(
            next(start, [0, 0, 1_500_000], "2024-01-31 10:00:02"),
            micros("2024-01-31 10:00:03")
        );
        assert_eq!(
            next(start, [0, 0, 1_000_000], "2054-01-31 10:00:02"),
            micros("2054-01-31 10:00:03")
        );
    }
}
