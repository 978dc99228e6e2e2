//! Dates and times from text and numbers.

use porpoise_types::temporal::{DateRules, Interval};
use porpoise_types::{
    ColumnType, Date, DateTime, Decimal, SqlMode, Time, Value, to_datetime, to_time,
};

use crate::{assert_none, rows, with_cx};

fn value(text: &str) -> Value {
    match text.strip_prefix('#') {
        Some(number) => Value::Decimal(Decimal::parse(number.as_bytes()).unwrap()),
        None => Value::Bytes(text.as_bytes().to_vec()),
    }
}

#[test]
fn parsing() {
    let mut wrong = Vec::new();
    let ty = ColumnType::double();
    for row in rows(include_str!("../data/temporal.tsv"), 3) {
        let value = value(row[1]);
        let (text, _) = with_cx(SqlMode::EMPTY, |cx| {
            let mut out = Vec::new();
            let found = match row[0] {
                "time" => to_time(value.as_ref(), &ty, cx).map(|t| t.write_text(6, &mut out)),
                kind => to_datetime(value.as_ref(), &ty, cx).map(|d| {
                    if kind == "date" {
                        d.date().write_text(&mut out);
                    } else {
                        d.write_text(6, &mut out);
                    }
                }),
            };
            found.map_or_else(|| "NULL".to_owned(), |()| String::from_utf8(out).unwrap())
        });
        if text != row[2] {
            wrong.push(format!("{row:?}: {text}"));
        }
    }
    assert_none(wrong);
}

#[test]
fn zero_dates_by_mode() {
    let strict = DateRules::of(SqlMode::default());
    for text in ["0000-00-00", "2020-00-01", "2020-01-00"] {
        assert!(Date::parse(text.as_bytes(), DateRules::LENIENT).is_some());
        assert_eq!(Date::parse(text.as_bytes(), strict), None, "{text}");
    }
    let rules = DateRules::of(SqlMode::ALLOW_INVALID_DATES);
    assert!(Date::parse(b"2020-02-31", rules).is_some());
    assert_eq!(Date::parse(b"2020-02-31", DateRules::LENIENT), None);
}

#[test]
fn offsets_are_read() {
    let parsed = DateTime::parse(b"2020-01-02 03:04:05+02:00", DateRules::REAL).unwrap();
    assert_eq!((parsed.offset, parsed.truncated), (Some(7200), false));
    let parsed = DateTime::parse(b"2020-01-02 03:04:05+15:00", DateRules::REAL).unwrap();
    assert_eq!((parsed.offset, parsed.truncated), (None, true));
}

#[test]
fn packed_forms_round_trip() {
    let d = DateTime::from_parts(9999, 12, 31, 23, 59, 59, 999_999).unwrap();
    assert_eq!(d, DateTime::MAX);
    assert_eq!(DateTime::from_packed(d.packed()), Some(d));
    assert_eq!(Date::from_packed(d.date().packed()), Some(d.date()));
    assert_eq!(DateTime::from_packed(u64::MAX), None);
    assert_eq!(
        d.add(Interval {
            days: 1,
            ..Interval::default()
        }),
        None
    );
    assert_eq!(d.round(0, false), None);
    assert_eq!(d.round(0, true).unwrap().micros(), 0);
    assert_eq!(Time::MAX.round(0, false), Time::MAX);
}

#[test]
fn zero_parts_in_expressions() {
    let ty = ColumnType::double();
    let read = |text: &[u8], mode| {
        let v = Value::Bytes(text.to_vec());
        with_cx(mode, |cx| to_datetime(v.as_ref(), &ty, cx))
    };
    let (value, warnings) = read(b"2020-00-01", SqlMode::default());
    assert_eq!((value.unwrap().month(), warnings.len()), (0, 0));
    let (value, warnings) = read(b"0000-00-00", SqlMode::default());
    assert_eq!((value, warnings[0].code), (None, 1292));
    assert_eq!(read(b"0000-00-00", SqlMode::EMPTY).0, Some(DateTime::ZERO));
}
