//! Day numbers, weeks and intervals.

use porpoise_types::Date;
use porpoise_types::temporal::{DateRules, Interval, MICROS_PER_SECOND};

use crate::{assert_none, rows};

#[test]
fn calendar() {
    let mut wrong = Vec::new();
    for row in rows(include_str!("../data/calendar.tsv"), 4) {
        let date = Date::parse(row[1].as_bytes(), DateRules::REAL).unwrap();
        let n: i64 = row[2].parse().unwrap_or(0);
        let mode = u8::try_from(n).unwrap_or(0);
        let text = match row[0] {
            "to_days" => date.to_days().to_string(),
            "weekday" => date.weekday().to_string(),
            "dayofyear" => date.day_of_year().to_string(),
            "last_day" => date.last_day().unwrap().to_string(),
            "week" => date.week(mode).1.to_string(),
            "yearweek" => {
                let (year, week) = date.week(mode | 2);
                format!("{}", u32::from(year) * 100 + u32::from(week))
            }
            function => {
                let mut interval = Interval::default();
                match function {
                    "add_month" => interval.months = n,
                    "add_day" => interval.days = n,
                    _ => interval.micros = n * MICROS_PER_SECOND,
                }
                date.at_midnight()
                    .add(interval)
                    .map_or("NULL".to_owned(), |d| d.to_string())
            }
        };
        if text != row[3] {
            wrong.push(format!("{row:?}: {text}"));
        }
    }
    assert_none(wrong);
}

#[test]
fn every_day_has_its_number() {
    for days in 366..=3_652_424 {
        let date = Date::from_days(days).unwrap();
        assert_eq!(date.to_days(), days);
    }
    assert_eq!(Date::from_days(365), None);
    assert_eq!(Date::from_days(3_652_425), None);
}
