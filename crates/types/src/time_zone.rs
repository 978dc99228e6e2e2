//! Time zones: fixed offsets, named zones, and the system's.
//!
//! Zone rules come from jiff's database: the system's if there is one, otherwise the built-in one.
//! TIMESTAMP is stored in UTC and converted to the session's zone.

use jiff::tz;

use crate::temporal::{DateTime, MICROS_PER_SECOND};

/// A time zone.
#[derive(Clone, Debug, PartialEq)]
pub enum TimeZone {
    /// Seconds east of UTC.
    Fixed(i32),
    /// A named zone, or SYSTEM; the name is as given.
    Named(Box<str>, tz::TimeZone),
}

impl TimeZone {
    /// UTC, printed as '+00:00'.
    pub const UTC: TimeZone = TimeZone::Fixed(0);

    /// Parses a value of `time_zone`: 'SYSTEM', an offset from '-13:59' to '+14:00', or a name such
    /// as 'UTC' and 'Europe/Berlin'.
    #[must_use]
    pub fn parse(text: &str) -> Option<TimeZone> {
        if text.eq_ignore_ascii_case("SYSTEM") {
            return Some(TimeZone::Named("SYSTEM".into(), tz::TimeZone::system()));
        }
        if let Some(b'+' | b'-') = text.as_bytes().first() {
            return parse_offset(text).map(TimeZone::Fixed);
        }
        let zone = tz::TimeZone::get(text).ok()?;
        Some(TimeZone::Named(text.into(), zone))
    }

    /// The zone as `@@time_zone` shows it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            TimeZone::Fixed(seconds) => {
                let sign = if *seconds < 0 { '-' } else { '+' };
                let minutes = seconds.abs() / 60;
                format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
            TimeZone::Named(name, _) => name.to_string(),
        }
    }

    /// Offset in seconds east of UTC at a UTC time.
    #[must_use]
    pub fn offset_at(&self, utc: DateTime) -> i32 {
        match self {
            TimeZone::Fixed(seconds) => *seconds,
            TimeZone::Named(_, zone) => jiff::Timestamp::from_microsecond(utc.to_unix_micros())
                .map_or(0, |moment| zone.to_offset(moment).seconds()),
        }
    }

    /// Converts a UTC time to local time. Zero dates are unchanged; a time that would leave the
    /// range of years stays in UTC.
    #[must_use]
    pub fn utc_to_local(&self, utc: DateTime) -> DateTime {
        if utc.is_zero_date() {
            return utc;
        }
        let shift = i64::from(self.offset_at(utc)) * MICROS_PER_SECOND;
        if shift == 0 {
            return utc;
        }
        DateTime::from_unix_micros(utc.to_unix_micros() + shift).unwrap_or(utc)
    }

    /// Converts a local time to UTC. Returns `None` if the local time does not exist (the hour that
    /// daylight saving skips), if the date is incomplete, or if the result is out of range. An
    /// ambiguous time is the earlier of the two.
    #[must_use]
    pub fn local_to_utc(&self, local: DateTime) -> Option<DateTime> {
        if local.is_zero_date() {
            return Some(local);
        }
        if local.month() == 0 || local.day() == 0 {
            return None;
        }
        let offset = match self {
            TimeZone::Fixed(seconds) => *seconds,
            TimeZone::Named(_, zone) => match zone.to_ambiguous_timestamp(civil(local)?).offset() {
                tz::AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
                tz::AmbiguousOffset::Fold { before, .. } => before.seconds(),
                tz::AmbiguousOffset::Gap { .. } => return None,
            },
        };
        let shift = i64::from(offset) * MICROS_PER_SECOND;
        DateTime::from_unix_micros(local.to_unix_micros() - shift)
    }

    /// As [`TimeZone::local_to_utc`], but a skipped local time is moved to the end
    /// of the gap, as MySQL does outside strict mode and in UNIX_TIMESTAMP.
    #[must_use]
    pub fn local_to_utc_lenient(&self, local: DateTime) -> Option<DateTime> {
        if let Some(utc) = self.local_to_utc(local) {
            return Some(utc);
        }
        let TimeZone::Named(_, zone) = self else {
            return None;
        };
        let tz::AmbiguousOffset::Gap { before, .. } =
            zone.to_ambiguous_timestamp(civil(local)?).offset()
        else {
            return None;
        };
        // The gap begins at the last transition before the moment that the old offset gives.
        let shift = i64::from(before.seconds()) * MICROS_PER_SECOND;
        let moment = jiff::Timestamp::from_microsecond(local.to_unix_micros() - shift + 1).ok()?;
        let start = zone.preceding(moment).next()?.timestamp();
        DateTime::from_unix_micros(start.as_microsecond())
    }
}

fn civil(local: DateTime) -> Option<jiff::civil::DateTime> {
    jiff::civil::DateTime::new(
        i16::try_from(local.year()).ok()?,
        i8::try_from(local.month()).ok()?,
        i8::try_from(local.day()).ok()?,
        i8::try_from(local.hour()).ok()?,
        i8::try_from(local.minute()).ok()?,
        i8::try_from(local.second()).ok()?,
        i32::try_from(local.micros()).ok()?.checked_mul(1000)?,
    )
    .ok()
}

/// Parses `[+-]H[H]:MM` between -13:59 and +14:00.
fn parse_offset(text: &str) -> Option<i32> {
    let (sign, rest) = text.split_at_checked(1)?;
    let (hours, minutes) = rest.split_once(':')?;
    let digits = |t: &str, most: usize| {
        (!t.is_empty() && t.len() <= most && t.bytes().all(|b| b.is_ascii_digit()))
            .then(|| t.parse::<i32>().ok())
            .flatten()
    };
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    if minutes > 59 {
        return None;
    }
    let seconds = hours * 3600 + minutes * 60;
    let seconds = if sign == "-" { -seconds } else { seconds };
    (-(13 * 3600 + 59 * 60)..=14 * 3600)
        .contains(&seconds)
        .then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporal::DateRules;

    fn at(text: &str) -> DateTime {
        DateTime::parse(text.as_bytes(), DateRules::REAL)
            .unwrap()
            .value
    }

    #[test]
    fn offsets_have_mysqls_range() {
        assert_eq!(TimeZone::parse("+02:00"), Some(TimeZone::Fixed(7200)));
        assert_eq!(TimeZone::parse("-13:59").unwrap().name(), "-13:59");
        assert_eq!(TimeZone::parse("+14:00").unwrap().name(), "+14:00");
        for bad in [
            "-14:00",
            "+14:01",
            "+2",
            "+02:60",
            "",
            "Nowhere/City",
            "+a:00",
        ] {
            assert_eq!(TimeZone::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn daylight_saving_gap_and_fold() {
        let berlin = TimeZone::parse("Europe/Berlin").unwrap();
        assert_eq!(
            berlin.utc_to_local(at("2024-07-01 10:00:00")),
            at("2024-07-01 12:00:00")
        );
        assert_eq!(
            berlin.local_to_utc(at("2024-01-01 12:00:00")),
            Some(at("2024-01-01 11:00:00"))
        );
        assert_eq!(berlin.local_to_utc(at("2024-03-31 02:30:00")), None);
        assert_eq!(
            berlin.local_to_utc_lenient(at("2024-03-31 02:30:00")),
            Some(at("2024-03-31 01:00:00"))
        );
        assert_eq!(
            berlin.local_to_utc(at("2024-10-27 02:30:00")),
            Some(at("2024-10-27 00:30:00"))
        );
    }
}
