//! The domain in which operands are compared, and the comparison.

use std::cmp::Ordering;

use porpoise_types::{
    Collation, ColumnType, CompareAs, Date, Decimal, Kind, SqlMode, Time, ValueRef, compare,
    comparison_type,
};

use crate::with_cx;

#[test]
fn operand_types_decide_how_values_are_compared() {
    let ci = ColumnType::varchar(9, Collation::UTF8MB4_GENERAL_CI);
    let bin = ColumnType::varchar(9, Collation::UTF8MB4_BIN);
    let latin1 = ColumnType::varchar(9, Collation::LATIN1_SWEDISH_CI);
    let (int, decimal) = (ColumnType::bigint(), ColumnType::decimal(5, 2));
    let cases = [
        (&int, &ColumnType::uint(Kind::TinyInt), CompareAs::Int),
        (&int, &decimal, CompareAs::Decimal),
        (&int, &ci, CompareAs::Double),
        (&decimal, &ColumnType::float(), CompareAs::Double),
        (&ci, &ci, CompareAs::Bytes(Collation::UTF8MB4_GENERAL_CI)),
        (&ci, &bin, CompareAs::Bytes(Collation::UTF8MB4_BIN)),
        (
            &latin1,
            &ci,
            CompareAs::Bytes(Collation::UTF8MB4_GENERAL_CI),
        ),
        (
            &ColumnType::varbinary(9),
            &ci,
            CompareAs::Bytes(Collation::BINARY),
        ),
        (&ColumnType::date(), &ColumnType::date(), CompareAs::Date),
        (&ColumnType::date(), &ci, CompareAs::DateTime),
        (
            &ColumnType::date(),
            &ColumnType::datetime(0),
            CompareAs::DateTime,
        ),
        (&ColumnType::datetime(0), &int, CompareAs::DateTime),
        (&ColumnType::time(0), &ci, CompareAs::Time),
        (&ColumnType::null(), &decimal, CompareAs::Decimal),
    ];
    for (a, b, wanted) in cases {
        assert_eq!(comparison_type(a, b), wanted, "{a:?} {b:?}");
        assert_eq!(comparison_type(b, a), wanted, "{b:?} {a:?}");
    }
}

fn order(a: ValueRef<'_>, b: ValueRef<'_>, how: CompareAs) -> Option<Ordering> {
    with_cx(SqlMode::EMPTY, |cx| compare(a, b, how, cx)).0
}

#[test]
fn values_are_converted() {
    use Ordering::{Equal, Greater, Less};
    use ValueRef::{Bytes, Double, Int, Null, UInt};
    let half = ValueRef::Decimal(Decimal::parse(b"1.50").unwrap());
    let date = ValueRef::Date(Date::new(2020, 1, 2).unwrap());
    assert_eq!(order(Int(-1), UInt(u64::MAX), CompareAs::Int), Some(Less));
    assert_eq!(order(half, Int(1), CompareAs::Decimal), Some(Greater));
    assert_eq!(order(half, Double(1.5), CompareAs::Double), Some(Equal));
    assert_eq!(order(Bytes(b"1.5x"), half, CompareAs::Double), Some(Equal));
    assert_eq!(order(Null, Int(1), CompareAs::Int), None);
    assert_eq!(
        order(date, Bytes(b"2020-1-2"), CompareAs::DateTime),
        Some(Equal)
    );
    assert_eq!(order(date, Int(20200103), CompareAs::DateTime), Some(Less));
    let time = ValueRef::Time(Time::from_parts(false, 12, 0, 0, 0).unwrap());
    assert_eq!(order(time, Bytes(b"11:59"), CompareAs::Time), Some(Greater));
    // A TIME counts from midnight of the current day.
    let noon = crate::now();
    assert_eq!(
        order(time, ValueRef::DateTime(noon), CompareAs::DateTime),
        Some(Equal)
    );
}

#[test]
fn a_bad_date_is_the_zero_date_with_a_warning() {
    let date = ValueRef::Date(Date::new(2020, 1, 2).unwrap());
    let (result, warnings) = with_cx(SqlMode::EMPTY, |cx| {
        compare(date, ValueRef::Bytes(b"abc"), CompareAs::DateTime, cx)
    });
    assert_eq!((result, warnings[0].code), (Some(Ordering::Greater), 1292));
    assert_eq!(warnings[0].message, "Incorrect datetime value: 'abc'");
}
