//! Decimal arithmetic and rounding.

use porpoise_types::{ColumnType, Decimal, ValueRef, write_text};

use crate::{assert_none, rows};

fn shown(d: Decimal, scale: u8) -> String {
    let mut out = Vec::new();
    write_text(
        ValueRef::Decimal(d),
        &ColumnType::decimal(65, scale),
        &mut out,
    );
    String::from_utf8(out).unwrap()
}

#[test]
fn arithmetic() {
    let mut wrong = Vec::new();
    for row in rows(include_str!("../data/decimal.tsv"), 4) {
        let a = Decimal::parse(row[1].as_bytes()).unwrap();
        let b = Decimal::parse(row[2].as_bytes()).unwrap();
        let result = match row[0] {
            "+" => Some(a.add(b).unwrap()),
            "-" => Some(a.sub(b).unwrap()),
            "*" => Some(a.mul(b).unwrap()),
            "/" => a.div(b, 4).unwrap(),
            "%" => a.rem(b).unwrap(),
            _ => a.div_int(b).unwrap(),
        };
        let text = match result {
            None => "NULL".to_owned(),
            Some(d) if row[0] == "/" => shown(d, (a.scale() + 4).min(30)),
            Some(d) => d.to_string(),
        };
        if text != row[3] {
            wrong.push(format!("{row:?}: {text}"));
        }
    }
    assert_none(wrong);
}

#[test]
fn rounding() {
    let mut wrong = Vec::new();
    for row in rows(include_str!("../data/decimal_round.tsv"), 4) {
        let a = Decimal::parse(row[1].as_bytes()).unwrap();
        let places = row[2].parse().unwrap_or(0);
        let result = match row[0] {
            "round" => a.round(places).unwrap(),
            "truncate" => a.truncate(places),
            "floor" => a.floor().unwrap(),
            _ => a.ceil().unwrap(),
        };
        // The expression's type has the scale requested; the value itself is not padded.
        let text = if row[2].is_empty() {
            result.to_string()
        } else {
            shown(result, places)
        };
        if text != row[3] {
            wrong.push(format!("{row:?}: {text}"));
        }
    }
    assert_none(wrong);
}
