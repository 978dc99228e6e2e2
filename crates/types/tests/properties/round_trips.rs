//! Printed or encoded values are read back unchanged.

use porpoise_types::temporal::DateRules;
use porpoise_types::{ColumnType, DateTime, Time, ValueRef, write_text};
use proptest::prelude::*;

use crate::{column, date, datetime, double, time};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn dates_and_times(d in datetime(), t in time()) {
        let rules = DateRules { allow_invalid: true, ..DateRules::LENIENT };
        let mut out = Vec::new();
        d.write_text(6, &mut out);
        let parsed = DateTime::parse(&out, rules).unwrap();
        prop_assert_eq!((parsed.value, parsed.truncated, parsed.date_only), (d, false, false));
        prop_assert_eq!(DateTime::from_packed(d.packed()), Some(d));
        out.clear();
        t.write_text(6, &mut out);
        let parsed = Time::parse(&out).unwrap();
        prop_assert_eq!((parsed.value, parsed.clipped), (t, false));
    }

    #[test]
    fn unix_time(d in datetime()) {
        if d.date().check(DateRules::REAL) && d.year() > 0 {
            prop_assert_eq!(DateTime::from_unix_micros(d.to_unix_micros()), Some(d));
        }
    }

    #[test]
    fn packed_order_is_order_in_time(a in datetime(), b in datetime()) {
        let real = |d: DateTime| d.date().check(DateRules::REAL);
        if real(a) && real(b) {
            prop_assert_eq!(a.cmp(&b), a.to_unix_micros().cmp(&b.to_unix_micros()));
        }
    }

    #[test]
    fn date_numbers(d in date()) {
        if d.check(DateRules::REAL) && d.to_number() >= 10_000_101 {
            let back = DateTime::from_number(d.to_number(), 0, DateRules::REAL);
            prop_assert_eq!(back, Some(d.at_midnight()));
        }
    }

    #[test]
    fn doubles(v in double()) {
        let mut out = Vec::new();
        write_text(ValueRef::Double(v), &ColumnType::double(), &mut out);
        let back: f64 = std::str::from_utf8(&out).unwrap().parse().unwrap();
        prop_assert_eq!(back, v);
    }

    #[test]
    fn column_types(ty in column()) {
        let mut out = Vec::new();
        ty.encode(&mut out);
        out.push(77);
        let mut rest = out.as_slice();
        prop_assert_eq!(ColumnType::decode(&mut rest), Some(ty));
        prop_assert_eq!(rest, [77]);
        for len in 0..out.len() - 1 {
            prop_assert_eq!(ColumnType::decode(&mut &out[..len]), None);
        }
    }
}
