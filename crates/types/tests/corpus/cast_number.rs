//! Text and numbers to numbers, in expressions.

use porpoise_types::{
    ColumnType, Decimal, SqlMode, Value, ValueRef, to_decimal, to_f64, to_i64, to_u64, write_text,
};

use crate::{assert_none, rows, with_cx};

fn number(text: &str) -> Value {
    if text.contains('e') {
        Value::Double(text.parse().unwrap())
    } else {
        Value::Decimal(Decimal::parse(text.as_bytes()).unwrap())
    }
}

#[test]
fn casts() {
    let mut wrong = Vec::new();
    let ty = ColumnType::double();
    for row in rows(include_str!("../data/cast_number.tsv"), 3) {
        let value = match row[1].strip_prefix('#') {
            Some(text) => number(text),
            None => Value::Bytes(row[1].as_bytes().to_vec()),
        };
        let v = value.as_ref();
        let (text, _) = with_cx(SqlMode::EMPTY, |cx| match row[0] {
            "signed" => to_i64(v, &ty, cx).unwrap().to_string(),
            "unsigned" => to_u64(v, &ty, cx).unwrap().to_string(),
            "double" => {
                let mut out = Vec::new();
                write_text(ValueRef::Double(to_f64(v, &ty, cx).unwrap()), &ty, &mut out);
                String::from_utf8(out).unwrap()
            }
            _ => {
                let d = to_decimal(v, &ty, cx).unwrap().rescale(10).unwrap();
                if d.fits(65, 10) {
                    d.to_string()
                } else {
                    Decimal::max_value(65, 10).to_string()
                }
            }
        });
        if text != row[2] {
            wrong.push(format!("{row:?}: {text}"));
        }
    }
    assert_none(wrong);
}

#[test]
fn warnings_of_casts() {
    let ty = ColumnType::double();
    let codes = |text: &str| {
        let v = ValueRef::Bytes(text.as_bytes());
        with_cx(SqlMode::EMPTY, |cx| to_f64(v, &ty, cx)).1
    };
    assert!(codes("12").is_empty() && codes(" 1.5e3  ").is_empty());
    let warnings = codes("12abc");
    assert_eq!(warnings[0].code, 1292);
    assert_eq!(
        warnings[0].message,
        "Truncated incorrect DOUBLE value: '12abc'"
    );
    let v = ValueRef::Bytes(b"abc");
    let (result, warnings) = with_cx(SqlMode::EMPTY, |cx| to_i64(v, &ty, cx));
    assert_eq!(result, Some(0));
    assert_eq!(
        warnings[0].message,
        "Truncated incorrect INTEGER value: 'abc'"
    );
    let (result, warnings) = with_cx(SqlMode::EMPTY, |cx| to_u64(ValueRef::Bytes(b"-1"), &ty, cx));
    assert_eq!((result, warnings[0].code), (Some(u64::MAX), 1105));
}
