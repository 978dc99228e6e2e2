//! Assignment to columns, strict and not.

use porpoise_types::temporal::DateRules;
use porpoise_types::{
    Collation, ColumnType, DateTime, Decimal, Kind, SqlMode, Time, Value, store, write_text,
};

use crate::{assert_none, rows, with_cx};

fn members(names: &[&str]) -> Vec<Box<[u8]>> {
    names.iter().map(|n| n.as_bytes().into()).collect()
}

fn column(sql: &str) -> ColumnType {
    let ci = Collation::UTF8MB4_GENERAL_CI;
    match sql {
        "tinyint" => ColumnType::int(Kind::TinyInt),
        "tinyint unsigned" => ColumnType::uint(Kind::TinyInt),
        "smallint" => ColumnType::int(Kind::SmallInt),
        "mediumint" => ColumnType::int(Kind::MediumInt),
        "int" => ColumnType::int(Kind::Int),
        "int unsigned" => ColumnType::uint(Kind::Int),
        "bigint" => ColumnType::bigint(),
        "bigint unsigned" => ColumnType::bigint_unsigned(),
        "decimal(5,2)" => ColumnType::decimal(5, 2),
        "decimal(10,0) unsigned" => ColumnType {
            unsigned: true,
            ..ColumnType::decimal(10, 0)
        },
        "float" => ColumnType::float(),
        "double" => ColumnType::double(),
        "year" => ColumnType::year(),
        "char(3)" => ColumnType::char(3, ci),
        "varchar(3)" => ColumnType::varchar(3, ci),
        "text" => ColumnType::text(Kind::Text, ci),
        "binary(4)" => ColumnType::binary(4),
        "varbinary(3)" => ColumnType::varbinary(3),
        "date" => ColumnType::date(),
        "datetime" => ColumnType::datetime(0),
        "datetime(3)" => ColumnType::datetime(3),
        "time" => ColumnType::time(0),
        "time(2)" => ColumnType::time(2),
        "enum('a','b','10')" => ColumnType::enumeration(members(&["a", "b", "10"]), ci),
        "set('x','y','z')" => ColumnType::set(members(&["x", "y", "z"]), ci),
        "bit(4)" => ColumnType::bit(4),
        _ => panic!("{sql}"),
    }
}

/// A literal of the corpus and its type.
fn literal(sql: &str) -> (Value, ColumnType) {
    let quoted = |prefix: &str| {
        sql.strip_prefix(prefix)?
            .strip_prefix('\'')?
            .strip_suffix('\'')
    };
    if let Some(text) = quoted("") {
        let ty = ColumnType::varchar(100, Collation::UTF8MB4_GENERAL_CI);
        return (Value::Bytes(text.into()), ty);
    }
    let fsp = u8::from(sql.contains('.')) * 2;
    if let Some(text) = quoted("timestamp") {
        let v = DateTime::parse(text.as_bytes(), DateRules::REAL)
            .unwrap()
            .value;
        return (Value::DateTime(v), ColumnType::datetime(fsp / 2));
    }
    if let Some(text) = quoted("date") {
        let v = DateTime::parse(text.as_bytes(), DateRules::REAL)
            .unwrap()
            .value
            .date();
        return (Value::Date(v), ColumnType::date());
    }
    if let Some(text) = quoted("time") {
        return (
            Value::Time(Time::parse(text.as_bytes()).unwrap().value),
            ColumnType::time(fsp),
        );
    }
    if sql.contains('e') {
        return (Value::Double(sql.parse().unwrap()), ColumnType::double());
    }
    match sql.parse() {
        Ok(v) => (Value::Int(v), ColumnType::bigint()),
        Err(_) => {
            let d = Decimal::parse(sql.as_bytes()).unwrap();
            (Value::Decimal(d), ColumnType::decimal(65, d.scale()))
        }
    }
}

#[test]
fn assignments() {
    let dates = SqlMode::NO_ZERO_DATE | SqlMode::NO_ZERO_IN_DATE;
    let strict = dates | SqlMode::STRICT_ALL_TABLES;
    let mut wrong = Vec::new();
    for row in rows(include_str!("../data/store.tsv"), 4) {
        let ty = column(row[0]);
        let (value, source) = literal(row[1]);
        let run = |mode| {
            with_cx(mode, |cx| {
                store(value.as_ref(), Some(&source), &ty, "c", 1, cx)
            })
            .0
        };
        let code = run(strict).map_or_else(|e| e.code.to_string(), |_| "0".to_owned());
        let stored = run(dates).unwrap();
        let mut out = Vec::new();
        write_text(stored.as_ref(), &ty, &mut out);
        let hex: String = out.iter().map(|b| format!("{b:02X}")).collect();
        if code != row[2] || hex != row[3] {
            wrong.push(format!(
                "{} <- {}: {code} {} expected {} {}",
                row[0],
                row[1],
                String::from_utf8_lossy(&out),
                row[2],
                String::from_utf8_lossy(&crate::hex(row[3]))
            ));
        }
    }
    assert_none(wrong);
}
