//! GTID sets (manual, "Functions Used with Global Transaction Identifiers (GTIDs)").
//!
//! A set is a list of UUIDs, each with tags and intervals: `uuid:1-5:8:tag:3`. There is no binary
//! log, so that no transaction has a GTID: functions that wait for transactions answer as MySQL does
//! with `gtid_mode = OFF`, or on a server that is not a replica.

use super::{Call, Function, Nullable, bigint};
use crate::error::{Result, SqlError};
use porpoise_base::interrupt;
use porpoise_types::{Collation, ColumnType, Kind, ValueRef};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Transactions of a source: intervals, both ends inclusive, ascending and apart.
type Intervals = Vec<(i64, i64)>;

/// A GTID set: intervals by UUID and tag, both in lower case.
type GtidSet = BTreeMap<(String, String), Intervals>;

/// Longest tag.
const MAX_TAG: usize = 32;

/// Parses a set; `None` if the text is none.
fn parse(text: &[u8]) -> Option<GtidSet> {
    let text = std::str::from_utf8(text).ok()?;
    let mut set = GtidSet::new();
    for source in text.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        interrupt::check().ok()?;
        let mut parts = source.split(':').map(str::trim);
        let uuid = parse_uuid(parts.next()?)?;
        let mut tag = String::new();
        for part in parts {
            if is_tag(part) {
                tag = part.to_ascii_lowercase();
                continue;
            }
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to) = (parse_number(from)?, parse_number(to)?);
            // An interval that ends before its start is empty.
            if from <= to {
                set.entry((uuid.clone(), tag.clone()))
                    .or_default()
                    .push((from, to));
            }
        }
    }
    set.values_mut().for_each(merge);
    Some(set)
}

fn parse_uuid(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    let is_grouped = matches!(lengths.as_slice(), [8, 4, 4, 4, 12] | [32]);
    if !is_grouped || digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let digits = digits.to_ascii_lowercase();
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    Some(format!(
        "{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    ))
}

fn is_tag(part: &str) -> bool {
    let mut bytes = part.bytes();
    part.len() <= MAX_TAG
        && bytes
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn parse_number(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse::<i64>().ok().filter(|_| digits)?;
    (number > 0 && number < i64::MAX).then_some(number)
}

/// Sorts intervals, and joins those that touch.
fn merge(intervals: &mut Intervals) {
    intervals.sort_unstable();
    let mut merged: Intervals = Vec::with_capacity(intervals.len());
    for (from, to) in intervals.drain(..) {
        match merged.last_mut() {
            Some((_, end)) if from <= end.saturating_add(1) => *end = to.max(*end),
            _ => merged.push((from, to)),
        }
    }
    *intervals = merged;
}

/// The intervals of `a` without those of `b`.
fn difference(a: &Intervals, b: &Intervals) -> Intervals {
    let mut left = Vec::new();
    let mut gone = b.iter().peekable();
    for (from, to) in a {
        let mut from = *from;
        while let Some((start, end)) = gone.peek() {
            if *end < from {
                gone.next();
                continue;
            }
            if start > to {
                break;
            }
            if *start > from {
                left.push((from, start - 1));
            }
            from = end + 1;
            if from > *to {
                break;
            }
        }
        if from <= *to {
            left.push((from, *to));
        }
    }
    left
}

fn without(a: &GtidSet, b: &GtidSet) -> GtidSet {
    let none = Vec::new();
    let rest = a.iter().map(|(source, intervals)| {
        let gone = b.get(source).unwrap_or(&none);
        (source.clone(), difference(intervals, gone))
    });
    rest.filter(|(_, intervals)| !intervals.is_empty())
        .collect()
}

/// The set as MySQL prints it: each UUID once, its tags in order after it.
fn print(set: &GtidSet) -> String {
    let mut text = String::new();
    let mut last: Option<&str> = None;
    for ((uuid, tag), intervals) in set {
        if last != Some(uuid.as_str()) {
            if last.is_some() {
                text.push_str(",\n");
            }
            text.push_str(uuid);
            last = Some(uuid);
        }
        if !tag.is_empty() {
            text.push(':');
            text.push_str(tag);
        }
        for (from, to) in intervals {
            let done = if from == to {
                write!(text, ":{from}")
            } else {
                write!(text, ":{from}-{to}")
            };
            debug_assert!(done.is_ok(), "writing to a string");
        }
    }
    text
}

/// The set of an argument; `None` for NULL.
fn argument(c: &Call<'_, '_>, at: usize) -> Result<Option<GtidSet>> {
    let Some(text) = c.text(at)? else {
        return Ok(None);
    };
    match parse(text) {
        Some(set) => Ok(Some(set)),
        None => {
            let shown = String::from_utf8_lossy(text);
            let shown: String = shown.chars().take(200).collect();
            let text = format!("Malformed GTID set specification '{shown}'.");
            Err(SqlError::new(1772, "HY000", text))
        }
    }
}

fn subset<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(match (argument(c, 0)?, argument(c, 1)?) {
        (Some(a), Some(b)) => ValueRef::Int(i64::from(without(&a, &b).is_empty())),
        _ => ValueRef::Null,
    })
}

fn subtract<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(match (argument(c, 0)?, argument(c, 1)?) {
        (Some(a), Some(b)) => c.keep(print(&without(&a, &b)).as_bytes()),
        _ => ValueRef::Null,
    })
}

/// WAIT_FOR_EXECUTED_GTID_SET(): an error, because GTIDs are off.
fn wait_for_set<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    if c.text(0)?.is_none() {
        return Err(SqlError::wrong_arguments("wait_for_executed_gtid_set."));
    }
    let text = "Cannot use WAIT_FOR_EXECUTED_GTID_SET when GTID_MODE = OFF.";
    Err(SqlError::new(3111, "HY000", text))
}

/// The registry entries.
#[rustfmt::skip]
pub const FUNCTIONS: &[Function] = &[
    f!("GTID_SUBSET", (2, 2), bigint, IfArgument, subset, "Whether all GTIDs of the first set are in the second.", "GTID_SUBSET('3E11FA47-71CA-11E1-9E33-C80AA9429562:23', '3E11FA47-71CA-11E1-9E33-C80AA9429562:21-57')" => "1"),
    f!("GTID_SUBTRACT", (2, 2), |_, _| ColumnType::text(Kind::LongText, Collation::UTF8MB4_0900_AI_CI), IfArgument, subtract, "The GTIDs of the first set that are not in the second.", "GTID_SUBTRACT('3E11FA47-71CA-11E1-9E33-C80AA9429562:21-57', '3E11FA47-71CA-11E1-9E33-C80AA9429562:20-25')" => "3e11fa47-71ca-11e1-9e33-c80aa9429562:26-57"),
    f!("WAIT_FOR_EXECUTED_GTID_SET", (1, 2), bigint, Always, false, wait_for_set, "Error 3111: there are no GTIDs.", "" => ""),
    f!("SOURCE_POS_WAIT", (2, 4), bigint, Always, false, |_| Ok(ValueRef::Null), "NULL: the server is not a replica.", "SOURCE_POS_WAIT('binlog.000001', 4) IS NULL" => "1"),
    f!("MASTER_POS_WAIT", (2, 4), bigint, Always, false, |_| Ok(ValueRef::Null), "The old name of SOURCE_POS_WAIT().", "MASTER_POS_WAIT('binlog.000001', 4) IS NULL" => "1"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> GtidSet {
        parse(text.as_bytes()).unwrap()
    }

    const U: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const V: &str = "00000000-71ca-11e1-9e33-c80aa9429562";

    #[test]
    fn sets_are_normalized() {
        let text = format!("{}:7:1-3:4, {V}:2,,{U}:a:5:9-8", U.to_uppercase());
        assert_eq!(print(&set(&text)), format!("{V}:2,\n{U}:1-4:7:a:5"));
        assert_eq!(print(&set("")), "");
    }

    #[test]
    fn differences_are_of_numbers() {
        let minus = |a: &str, b: &str| {
            let (a, b) = (format!("{U}:{a}"), format!("{U}:{b}"));
            print(&without(&set(&a), &set(&b))).replace(U, "")
        };
        assert_eq!(minus("1-10", "3-4:7"), ":1-2:5-6:8-10");
        assert_eq!(minus("1-10:20-30", "5-25"), ":1-4:26-30");
        assert_eq!(minus("1-3", "1-3"), "");
        assert_eq!(minus("2:4:6", "1-5"), ":6");
    }

    #[test]
    fn malformed_sets_are_none() {
        for text in [
            "x",
            ":1",
            "3e11fa47:1",
            &format!("{U}:0"),
            &format!("{U}:1-x"),
            &format!("{U}:1-2-3"),
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
