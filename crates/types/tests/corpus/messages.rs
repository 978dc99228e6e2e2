//! Numbers, SQLSTATEs and texts of refused assignments, as MySQL 8 gives them.

use porpoise_types::{
    Collation, ColumnType, DateTime, Kind, Level, SqlMode, TimeZone, Value, ValueRef, store,
};

use crate::with_cx;

fn refusal(v: ValueRef<'_>, ty: &ColumnType) -> (u16, String, String) {
    let (result, _) = with_cx(SqlMode::default(), |cx| store(v, None, ty, "c", 3, cx));
    let e = result.unwrap_err();
    (
        e.code,
        String::from_utf8(e.sqlstate.to_vec()).unwrap(),
        e.message,
    )
}

fn check(v: ValueRef<'_>, ty: &ColumnType, code: u16, state: &str, message: &str) {
    assert_eq!(refusal(v, ty), (code, state.to_owned(), message.to_owned()));
}

#[test]
fn numbers() {
    let tiny = ColumnType::int(Kind::TinyInt);
    check(
        ValueRef::Int(128),
        &tiny,
        1264,
        "22003",
        "Out of range value for column 'c' at row 3",
    );
    let text = ValueRef::Bytes(b"abc");
    let message = "Incorrect integer value: 'abc' for column 'c' at row 3";
    check(text, &tiny, 1366, "HY000", message);
    let message = "Incorrect decimal value: 'abc' for column 'c' at row 3";
    check(text, &ColumnType::decimal(5, 2), 1366, "HY000", message);
    let message = "Data truncated for column 'c' at row 3";
    check(ValueRef::Bytes(b"1a"), &tiny, 1265, "01000", message);
    check(text, &ColumnType::double(), 1265, "01000", message);
    let message = "Data too long for column 'c' at row 3";
    check(
        ValueRef::Int(16),
        &ColumnType::bit(4),
        1406,
        "22001",
        message,
    );
}

#[test]
fn strings() {
    let ty = ColumnType::varchar(2, Collation::UTF8MB4_0900_AI_CI);
    let message = "Data too long for column 'c' at row 3";
    check(
        ValueRef::Bytes("éàü".as_bytes()),
        &ty,
        1406,
        "22001",
        message,
    );
    let message = "Incorrect string value: '\\xFF' for column 'c' at row 3";
    check(ValueRef::Bytes(b"a\xFF"), &ty, 1366, "HY000", message);
    let source = ColumnType::varchar(9, Collation::UTF8MB4_0900_AI_CI);
    let latin1 = ColumnType::varchar(9, Collation::LATIN1_SWEDISH_CI);
    let run = |text: &str, mode| {
        let v = ValueRef::Bytes(text.as_bytes());
        with_cx(mode, |cx| store(v, Some(&source), &latin1, "c", 3, cx))
    };
    let e = run("é日", SqlMode::default()).0.unwrap_err();
    assert_eq!(
        e.message,
        "Incorrect string value: '\\xE6\\x97\\xA5' for column 'c' at row 3"
    );
    assert_eq!(
        run("é€", SqlMode::default()).0,
        Ok(Value::Bytes(b"\xE9\x80".to_vec()))
    );
    assert_eq!(
        run("é日", SqlMode::EMPTY).0,
        Ok(Value::Bytes(b"\xE9?".to_vec()))
    );
}

#[test]
fn dates() {
    let message = "Incorrect date value: '2020-02-30' for column 'c' at row 3";
    check(
        ValueRef::Bytes(b"2020-02-30"),
        &ColumnType::date(),
        1292,
        "22007",
        message,
    );
    let message = "Incorrect datetime value: '0000-00-00' for column 'c' at row 3";
    check(
        ValueRef::Bytes(b"0000-00-00"),
        &ColumnType::datetime(0),
        1292,
        "22007",
        message,
    );
    let message = "Incorrect time value: '900:00:00' for column 'c' at row 3";
    check(
        ValueRef::Bytes(b"900:00:00"),
        &ColumnType::time(0),
        1292,
        "22007",
        message,
    );
    let message = "Incorrect datetime value: '2039-01-01' for column 'c' at row 3";
    check(
        ValueRef::Bytes(b"2039-01-01"),
        &ColumnType::timestamp(0),
        1292,
        "22007",
        message,
    );
}

#[test]
fn timestamps_are_stored_in_utc() {
    let berlin = TimeZone::parse("Europe/Berlin").unwrap();
    let at = |text: &str| {
        DateTime::parse(text.as_bytes(), Default::default())
            .unwrap()
            .value
    };
    let run = |text: &[u8], mode: SqlMode| {
        let mut ignore = |_| {};
        let mut cx = porpoise_types::CastCx {
            mode,
            strict: mode.is_strict(),
            warnings: &mut ignore,
            tz: &berlin,
            now: crate::now(),
        };
        store(
            ValueRef::Bytes(text),
            None,
            &ColumnType::timestamp(0),
            "c",
            1,
            &mut cx,
        )
    };
    let strict = SqlMode::default();
    let stored = run(b"2024-07-01 12:00:00", strict).unwrap();
    assert_eq!(stored, Value::DateTime(at("2024-07-01 10:00:00")));
    // An hour that the clocks skip.
    assert_eq!(run(b"2024-03-31 02:30:00", strict).unwrap_err().code, 1292);
    let stored = run(b"2024-03-31 02:30:00", SqlMode::EMPTY).unwrap();
    assert_eq!(stored, Value::DateTime(at("2024-03-31 01:00:00")));
    // An offset of its own.
    let stored = run(b"2024-07-01 12:00:00+00:00", strict).unwrap();
    assert_eq!(stored, Value::DateTime(at("2024-07-01 12:00:00")));
}

#[test]
fn json() {
    let ty = ColumnType::json();
    let (code, state, message) = refusal(ValueRef::Bytes(b"{\"a\" 1}"), &ty);
    assert_eq!((code, state.as_str()), (3140, "22032"));
    assert!(
        message.starts_with("Invalid JSON text: ") && message.ends_with("'c'."),
        "{message}"
    );
    let (stored, _) = with_cx(SqlMode::default(), |cx| {
        store(
            ValueRef::Bytes(b"{\"bb\":1,\"a\":[true]}"),
            None,
            &ty,
            "c",
            1,
            cx,
        )
    });
    assert_eq!(
        stored,
        Ok(Value::Bytes(b"{\"a\": [true], \"bb\": 1}".to_vec()))
    );
}

#[test]
fn harmless_losses_are_notes() {
    let note = |v: ValueRef<'_>, ty: &ColumnType| {
        let (result, warnings) = with_cx(SqlMode::default(), |cx| store(v, None, ty, "c", 1, cx));
        assert!(result.is_ok());
        warnings
            .iter()
            .map(|w| (w.level, w.code))
            .collect::<Vec<_>>()
    };
    let varchar = ColumnType::varchar(2, Collation::LATIN1_SWEDISH_CI);
    let char = ColumnType::char(2, Collation::LATIN1_SWEDISH_CI);
    assert_eq!(
        note(ValueRef::Bytes(b"ab  "), &varchar),
        [(Level::Note, 1265)]
    );
    assert_eq!(note(ValueRef::Bytes(b"ab  "), &char), []);
    let v = ValueRef::Bytes(b"1.005");
    assert_eq!(note(v, &ColumnType::decimal(5, 2)), [(Level::Note, 1265)]);
    let v = ValueRef::Bytes(b"2020-01-02 03:04:05");
    assert_eq!(note(v, &ColumnType::date()), [(Level::Note, 1292)]);
}
