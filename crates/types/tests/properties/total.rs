//! No input panics, and stored values obey their column.

use porpoise_types::{
    CastCx, Charset, ColumnType, Date, Decimal, Kind, SqlMode, TimeZone, Value, json, store,
    to_bool, to_date, to_datetime, to_decimal, to_f64, to_i64, to_time, to_u64, write_text,
};
use proptest::prelude::*;

use crate::{bytes, column, date, datetime, double, time};

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(Value::UInt),
        double().prop_map(Value::Double),
        crate::decimal(65, 30).prop_map(Value::Decimal),
        bytes().prop_map(Value::Bytes),
        "[-+0-9:. eT/]{0,20}".prop_map(|t| Value::Bytes(t.into_bytes())),
        date().prop_map(Value::Date),
        datetime().prop_map(Value::DateTime),
        time().prop_map(Value::Time),
        Just(Value::Null),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn stored_values_fit_their_columns(v in any_value(), ty in column(), strict: bool) {
        let mut warnings = 0;
        let mut count = |_| warnings += 1;
        let mode = if strict { SqlMode::default() } else { SqlMode::EMPTY };
        let now = Date::new(2024, 2, 29).unwrap().at_midnight();
        let mut cx = CastCx { mode, strict, warnings: &mut count, tz: &TimeZone::UTC, now };
        let stored = store(v.as_ref(), None, &ty, "c", 1, &mut cx);
        prop_assert!(strict || stored.is_ok());
        let Ok(stored) = stored else { return Ok(()) };
        prop_assert_eq!(stored.is_null(), v.is_null());
        if let (Value::Bytes(text), true) = (&stored, ty.is_string()) {
            prop_assert!(ty.collation.charset().validate(text).is_ok());
            prop_assert!(text.len() <= ty.max_bytes() as usize);
            if ty.kind == Kind::VarChar {
                prop_assert!(ty.collation.charset().char_count(text) <= ty.length as usize);
            }
        }
        if let Value::Decimal(d) = stored {
            prop_assert!(d.fits(ty.length as u8, ty.decimals) && d.scale() == ty.decimals);
        }
        // Storing again changes nothing, and asks for no warning; a timestamp passes its time zone.
        let mut again = 0;
        let mut count = |_| again += 1;
        let mut cx = CastCx { mode: SqlMode::default(), strict: true, warnings: &mut count, tz: &TimeZone::UTC, now };
        let zero = matches!(stored, Value::Date(d) if !d.check(porpoise_types::temporal::DateRules::REAL))
            || matches!(stored, Value::DateTime(d) if !d.date().check(porpoise_types::temporal::DateRules::REAL))
            || (matches!(ty.kind, Kind::Enum) && stored == Value::UInt(0));
        if !zero {
            let second = store(stored.as_ref(), Some(&ty), &ty, "c", 1, &mut cx);
            prop_assert_eq!(second, Ok(stored));
            prop_assert_eq!(again, 0);
        }
    }

    #[test]
    fn casting_anything(v in any_value(), ty in column()) {
        let mut ignore = |_| {};
        let now = Date::new(2024, 2, 29).unwrap().at_midnight();
        let mut cx = CastCx { mode: SqlMode::EMPTY, strict: false, warnings: &mut ignore, tz: &TimeZone::UTC, now };
        let (r, null) = (v.as_ref(), v.is_null());
        prop_assert_eq!(to_i64(r, &ty, &mut cx).is_none(), null);
        prop_assert_eq!(to_u64(r, &ty, &mut cx).is_none(), null);
        prop_assert_eq!(to_f64(r, &ty, &mut cx).is_none(), null);
        prop_assert_eq!(to_decimal(r, &ty, &mut cx).is_none(), null);
        prop_assert_eq!(to_bool(r, &ty, &mut cx).is_none(), null);
        if null {
            prop_assert_eq!(to_time(r, &ty, &mut cx), None);
        }
        if let Some(d) = to_datetime(r, &ty, &mut cx) {
            prop_assert_eq!(to_date(r, &ty, &mut cx), Some(d.date()));
        }
        let mut out = Vec::new();
        write_text(r, &ty, &mut out);
        prop_assert!(!null || out.is_empty());
    }

    #[test]
    fn reading_any_bytes(data in prop::collection::vec(any::<u8>(), 0..60)) {
        let rest = &mut data.as_slice();
        if ColumnType::decode(rest).is_some() {
            prop_assert!(rest.len() < data.len());
        }
        let d = Decimal::parse_prefix(&data);
        prop_assert!(d.read <= data.len());
        if let Ok(text) = json::normalize(&data) {
            prop_assert_eq!(json::normalize(&text), Ok(text.clone()));
        }
    }

    #[test]
    fn conversion_gives_valid_text(data in bytes(), from in 0usize..5, to in 0usize..5) {
        let all = [Charset::Utf8mb4, Charset::Utf8mb3, Charset::LATIN1, Charset::Ascii, Charset::Binary];
        let (from, to) = (all[from], all[to]);
        let (out, _) = from.convert(to, &data);
        if from != to && from != Charset::Binary && from.validate(&data).is_ok() {
            prop_assert!(to.validate(&out).is_ok());
        }
    }
}
