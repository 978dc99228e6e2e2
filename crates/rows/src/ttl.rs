//! Time to live: rows of a table expire at the value of a column plus an interval.
//!
//! From that time on SQL and memcached readers treat the row as absent, and a new child cannot
//! reference it. The row is deleted later: by an INSERT or UPDATE that needs one of its unique keys
//! ([`crate::Txn`]), or in the background ([`crate::reap`]), under the ordinary rules of DELETE, so
//! that cascades, RESTRICT and triggers apply (transactions.md, rule 46).
//!
//! Invariants:
//! 1. All decisions of one statement use one [`ExpiryTime`]: that of the transaction's snapshot if
//!    one is pinned, so that a snapshot shows the same rows for its whole life, otherwise the start of
//!    the statement. `SET timestamp` does not change it.
//! 2. A TIMESTAMP is compared in UTC. A DATETIME or DATE is compared in the global `time_zone`, never
//!    in that of a session, so that all sessions and memcached agree. An integer is a number of
//!    seconds since 1970, and 0 means never. A row whose column is NULL never expires.
//!
//! Rejected: an index on the column, which every write would have to maintain.

use crate::error::{Error, Result};
use arc_swap::ArcSwap;
use porpoise_types::temporal::Interval;
use porpoise_types::{DateTime, Kind, TimeZone, ValueRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Units of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are MySQL's keywords")]
pub enum TtlUnit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl TtlUnit {
    /// All units; the position is the code in the catalog.
    pub const ALL: [TtlUnit; 8] = [
        TtlUnit::Second,
        TtlUnit::Minute,
        TtlUnit::Hour,
        TtlUnit::Day,
        TtlUnit::Week,
        TtlUnit::Month,
        TtlUnit::Quarter,
        TtlUnit::Year,
    ];

    /// MySQL's keyword.
    pub fn keyword(self) -> &'static str {
        match self {
            TtlUnit::Second => "SECOND",
            TtlUnit::Minute => "MINUTE",
            TtlUnit::Hour => "HOUR",
            TtlUnit::Day => "DAY",
            TtlUnit::Week => "WEEK",
            TtlUnit::Month => "MONTH",
            TtlUnit::Quarter => "QUARTER",
            TtlUnit::Year => "YEAR",
        }
    }

    /// The unit of a keyword.
    pub fn of_keyword(word: &str) -> Option<TtlUnit> {
        let mut all = TtlUnit::ALL.into_iter();
        all.find(|unit| unit.keyword().eq_ignore_ascii_case(word))
    }

    fn times(self, amount: u32) -> Interval {
        const SECOND: i64 = 1_000_000;
        let n = i64::from(amount);
        let mut interval = Interval::default();
        match self {
            TtlUnit::Second => interval.micros = n * SECOND,
            TtlUnit::Minute => interval.micros = n * 60 * SECOND,
            // The sum is beyond the range of dates, so that rows never expire.
            TtlUnit::Hour => interval.micros = (n * 3600).saturating_mul(SECOND),
            TtlUnit::Day => interval.days = n,
            TtlUnit::Week => interval.days = n * 7,
            TtlUnit::Month => interval.months = n,
            TtlUnit::Quarter => interval.months = n * 3,
            TtlUnit::Year => interval.months = n * 12,
        }
        interval
    }
}

/// Lifetime of a row: an amount of a unit, added to the value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The amount.
    pub amount: u32,
    /// The unit.
    pub unit: TtlUnit,
}

impl Lifetime {
    /// Whether a row with this value of the column, of this kind, has expired.
    #[inline]
    pub fn is_over(self, value: ValueRef<'_>, kind: Kind, now: &ExpiryTime) -> bool {
        let (from, now) = match value {
            ValueRef::DateTime(at) if kind == Kind::Timestamp => (at, now.utc),
            ValueRef::DateTime(at) => (at, now.local),
            ValueRef::Date(date) => (date.at_midnight(), now.local),
            ValueRef::Int(seconds) => match of_seconds(seconds) {
                Some(at) => (at, now.utc),
                None => return false,
            },
            ValueRef::UInt(seconds) => match i64::try_from(seconds).ok().and_then(of_seconds) {
                Some(at) => (at, now.utc),
                None => return false,
            },
            _ => return false,
        };
        let end = from.add(self.unit.times(self.amount));
        end.is_some_and(|end| end <= now)
    }
}

/// The time that is a number of seconds after 1970; `None` for 0, which means never, and for
/// numbers out of range.
fn of_seconds(seconds: i64) -> Option<DateTime> {
    let seconds = Some(seconds).filter(|s| *s != 0)?;
    DateTime::from_unix_micros(seconds.checked_mul(1_000_000)?)
}

/// TTL, TTL_ENABLE and TTL_JOB_INTERVAL of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// The column to which the interval is added.
    pub column: String,
    /// The interval.
    pub lifetime: Lifetime,
    /// Whether rows expire.
    pub enabled: bool,
    /// Shortest time between two passes of the background deletion, as given (`1h`).
    pub job_interval: String,
}

/// TTL_JOB_INTERVAL of a table that gives none, as in TiDB.
pub const DEFAULT_JOB_INTERVAL: &str = "1h";

/// Seconds of a TTL_JOB_INTERVAL: numbers with the units `d`, `h`, `m` and `s`, as `1h30m`; `None` if
/// it is not valid.
pub fn job_interval_seconds(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut number: Option<u64> = None;
    for c in text.chars() {
        if let Some(digit) = c.to_digit(10) {
            let before = number.unwrap_or(0);
            number = Some(before.checked_mul(10)?.checked_add(u64::from(digit))?);
            continue;
        }
        let seconds = match c {
            'd' => 86_400,
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(seconds)?)?;
    }
    Some(total).filter(|total| number.is_none() && *total > 0)
}

impl Ttl {
    /// The clauses, in comments that other servers skip, as TiDB prints them. A column's name that
    /// would end the comment is printed without one; other servers have no such clause, and refuse it.
    pub fn clauses(&self) -> String {
        let column = self.column.replace('`', "``");
        let (open, close) = match column.contains("*/") {
            true => ("", ""),
            false => ("/*T![ttl] ", " */"),
        };
        format!(
            " {open}TTL=`{column}` + INTERVAL {} {}{close} /*T![ttl] TTL_ENABLE='{}' */ /*T![ttl] TTL_JOB_INTERVAL='{}' */",
            self.lifetime.amount,
            self.lifetime.unit.keyword(),
            if self.enabled { "ON" } else { "OFF" },
            self.job_interval,
        )
    }
}

/// Change of a table's time to live by ALTER TABLE. Absent parts stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TtlChange {
    /// TTL: column and interval.
    pub rule: Option<(String, Lifetime)>,
    /// TTL_ENABLE.
    pub enabled: Option<bool>,
    /// TTL_JOB_INTERVAL.
    pub job_interval: Option<String>,
}

impl TtlChange {
    /// The time to live after the change.
    ///
    /// # Errors
    /// 8150 if there is none.
    pub fn apply(&self, before: Option<Ttl>) -> Result<Ttl> {
        let mut ttl = match (&self.rule, before) {
            (Some((column, lifetime)), Some(before)) => Ttl {
                column: column.clone(),
                lifetime: *lifetime,
                ..before
            },
            (Some((column, lifetime)), None) => Ttl {
                column: column.clone(),
                lifetime: *lifetime,
                enabled: true,
                job_interval: DEFAULT_JOB_INTERVAL.to_owned(),
            },
            (None, Some(before)) => before,
            (None, None) => {
                let option = if self.enabled.is_some() {
                    "TTL_ENABLE"
                } else {
                    "TTL_JOB_INTERVAL"
                };
                let text = format!("Cannot set {option} on a table without TTL config");
                return Err(Error::refused(8150, "HY000", text));
            }
        };
        if let Some(enabled) = self.enabled {
            ttl.enabled = enabled;
        }
        if let Some(interval) = &self.job_interval {
            ttl.job_interval.clone_from(interval);
        }
        Ok(ttl)
    }
}

/// The time at which expiry is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryTime {
    /// In UTC.
    pub utc: DateTime,
    /// In the global time zone.
    pub local: DateTime,
}

impl ExpiryTime {
    /// A time in microseconds since 1970 UTC.
    pub fn new(unix_micros: i64, zone: &TimeZone) -> ExpiryTime {
        let utc = DateTime::from_unix_micros(unix_micros).unwrap_or(DateTime::ZERO);
        ExpiryTime {
            utc,
            local: zone.utc_to_local(utc),
        }
    }
}

/// The time zone in which DATETIME and DATE columns of TTL are compared. Clones share the zone.
#[derive(Clone, Debug)]
pub struct ExpiryZone(pub(crate) Arc<ArcSwap<TimeZone>>);

impl Default for ExpiryZone {
    fn default() -> ExpiryZone {
        ExpiryZone(Arc::new(ArcSwap::from_pointee(TimeZone::UTC)))
    }
}

impl ExpiryZone {
    /// The time at a number of microseconds after 1970 UTC, in this zone.
    pub fn at(&self, unix_micros: i64) -> ExpiryTime {
        ExpiryTime::new(unix_micros, &self.0.load())
    }
}

/// The column and the interval by which rows of a table expire, derived from its definition.
#[derive(Clone, Copy, Debug)]
pub struct ExpiryRule {
    /// Position of the column.
    pub column: usize,
    /// Its kind.
    pub kind: Kind,
    /// The interval.
    pub lifetime: Lifetime,
}

/// Counters of expired rows over all tables with TTL.
#[derive(Debug, Default)]
pub struct TtlCounters {
    deleted: AtomicU64,
    kept: AtomicU64,
    passes: AtomicU64,
}

impl TtlCounters {
    /// Expired rows deleted, in the background and by writers of the same keys.
    pub fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Expired rows that a pass could not delete: mostly because they are referenced or locked.
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Passes over tables.
    pub fn passes(&self) -> u64 {
        self.passes.load(Ordering::Relaxed)
    }

    pub(crate) fn add_deleted(&self, rows: u64) {
        self.deleted.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts a finished pass over a table.
    pub fn note_pass(&self, deleted: u64, kept: u64) {
        self.passes.fetch_add(1, Ordering::Relaxed);
        self.add_deleted(deleted);
        self.kept.fetch_add(kept, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_intervals_are_sums_of_units() {
        assert_eq!(job_interval_seconds("1h"), Some(3600));
        assert_eq!(job_interval_seconds("1d2h30m5s"), Some(95_405));
        for wrong in [
            "",
            "1",
            "h",
            "0s",
            "1x",
            "1h2",
            "-1h",
            "99999999999999999999h",
        ] {
            assert_eq!(job_interval_seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rows_with_the_longest_lifetimes_never_expire() {
        let now = ExpiryTime::new(1_700_000_000_000_000, &TimeZone::parse("+00:00").unwrap());
        let first = ValueRef::DateTime(DateTime::from_unix_micros(0).unwrap());
        for unit in TtlUnit::ALL {
            let lifetime = Lifetime {
                amount: u32::MAX,
                unit,
            };
            assert!(!lifetime.is_over(first, Kind::DateTime, &now), "{unit:?}");
        }
    }

    #[test]
    fn a_lifetime_ends_at_the_sum_and_zones_apply_to_dates_without_zone() {
        let zone = TimeZone::parse("+02:00").unwrap();
        let now = ExpiryTime::new(1_700_000_000_000_000, &zone);
        let hour = Lifetime {
            amount: 1,
            unit: TtlUnit::Hour,
        };
        let at = |micros| ValueRef::DateTime(DateTime::from_unix_micros(micros).unwrap());
        let an_hour_ago = 1_700_000_000_000_000 - 3_600_000_000;
        assert!(hour.is_over(at(an_hour_ago), Kind::Timestamp, &now));
        assert!(!hour.is_over(at(an_hour_ago + 1), Kind::Timestamp, &now));
        let local = an_hour_ago + 2 * 3_600_000_000;
        assert!(hour.is_over(at(local), Kind::DateTime, &now));
        assert!(!hour.is_over(at(local + 1), Kind::DateTime, &now));
        assert!(hour.is_over(ValueRef::Int(1_699_996_400), Kind::BigInt, &now));
        assert!(!hour.is_over(ValueRef::Int(1_699_996_401), Kind::BigInt, &now));
        assert!(!hour.is_over(ValueRef::UInt(0), Kind::BigInt, &now));
        assert!(!hour.is_over(ValueRef::Null, Kind::DateTime, &now));
    }
}
