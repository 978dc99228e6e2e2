//! Order and containment of documents (manual, "Comparison and Ordering of
//! JSON Values", "Functions That Search JSON Values").

use super::Json;
use crate::Decimal;
use porpoise_base::interrupt;
use std::borrow::Cow;
use std::cmp::Ordering;

/// Kinds in ascending order of precedence; values of different ranks compare
/// by rank alone.
fn rank(value: &Json) -> u8 {
    match value {
        Json::Null => 0,
        Json::Int(_) | Json::UInt(_) | Json::Double(_) | Json::Decimal(_) => 1,
        Json::String(_) => 2,
        Json::Object(_) => 3,
        Json::Array(_) => 4,
        Json::Bool(_) => 5,
    }
}

fn decimal(value: &Json) -> Option<Decimal> {
    match value {
        Json::Int(v) => Some(Decimal::from_i64(*v)),
        Json::UInt(v) => Some(Decimal::from_u64(*v)),
        Json::Decimal(v) => Some(*v),
        _ => None,
    }
}

fn double(value: &Json) -> f64 {
    match value {
        Json::Double(v) => *v,
        Json::Int(v) => *v as f64,
        Json::UInt(v) => *v as f64,
        Json::Decimal(v) => v.to_f64(),
        _ => 0.0,
    }
}

fn numbers(a: &Json, b: &Json) -> Ordering {
    match (decimal(a), decimal(b)) {
        (Some(x), Some(y)) => x.cmp_value(&y),
        _ => double(a).total_cmp(&(double(b) + 0.0)),
    }
}

/// The order of two documents. Of arrays and objects MySQL promises only
/// equality; objects are ordered by size, then by their members.
#[must_use]
pub fn order(a: &Json, b: &Json) -> Ordering {
    if interrupt::leaves() {
        return Ordering::Less;
    }
    match (a, b) {
        (Json::String(a), Json::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        (Json::Array(a), Json::Array(b)) => {
            let first = a
                .iter()
                .zip(b)
                .map(|(a, b)| order(a, b))
                .find(|o| o.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Json::Object(a), Json::Object(b)) => a.len().cmp(&b.len()).then_with(|| {
            a.iter()
                .zip(b.iter())
                .map(|((ka, va), (kb, vb))| super::key_order(ka, kb).then_with(|| order(va, vb)))
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal)
        }),
        _ => match rank(a).cmp(&rank(b)) {
            Ordering::Equal if rank(a) == 1 => numbers(a, b),
            other => other,
        },
    }
}

/// Whether two documents are equal.
#[must_use]
pub fn equal(a: &Json, b: &Json) -> bool {
    order(a, b).is_eq()
}

/// Bytes that are equal for the normal forms of equal documents: a double that is a whole number is
/// written as an integer.
#[must_use]
pub fn comparable_text(normal: &[u8]) -> Cow<'_, [u8]> {
    let fraction = |pair: &[u8]| matches!(pair, [b'0'..=b'9', b'.' | b'e']);
    if !normal.windows(2).any(fraction) {
        return Cow::Borrowed(normal);
    }
    let Ok(mut document) = super::parse(normal) else {
        return Cow::Borrowed(normal);
    };
    write_whole_doubles(&mut document);
    Cow::Owned(document.to_text())
}

fn write_whole_doubles(value: &mut Json) {
    if interrupt::leaves() {
        return;
    }
    match value {
        Json::Double(v) if v.fract() == 0.0 && v.abs() < 9_223_372_036_854_775_808.0 => {
            *value = Json::Int(*v as i64);
        }
        Json::Double(v) if v.fract() == 0.0 && (0.0..18_446_744_073_709_551_616.0).contains(v) => {
            *value = Json::UInt(*v as u64);
        }
        Json::Array(items) => items.iter_mut().for_each(write_whole_doubles),
        Json::Object(members) => members.values_mut().for_each(write_whole_doubles),
        _ => {}
    }
}

/// JSON_CONTAINS: whether `candidate` is contained in `target`.
#[must_use]
pub fn contains(target: &Json, candidate: &Json) -> bool {
    if interrupt::leaves() {
        return false;
    }
    match (target, candidate) {
        (Json::Object(target), Json::Object(candidate)) => candidate
            .iter()
            .all(|(key, value)| target.get(key).is_some_and(|t| contains(t, value))),
        (Json::Array(items), Json::Array(candidate)) => candidate.iter().all(|one| {
            !interrupt::should_abandon() && items.iter().any(|item| contains(item, one))
        }),
        (Json::Array(items), one) => items.iter().any(|item| contains(item, one)),
        _ => equal(target, candidate),
    }
}

/// JSON_OVERLAPS: whether two documents share an element or a member; a scalar compared with
/// an array counts as an array of one element.
#[must_use]
pub fn overlaps(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => a
            .iter()
            .any(|x| interrupt::should_abandon() || b.iter().any(|y| equal(x, y))),
        (Json::Array(items), other) | (other, Json::Array(items)) => {
            items.iter().any(|item| equal(item, other))
        }
        (Json::Object(a), Json::Object(b)) => a
            .iter()
            .any(|(key, value)| b.get(key).is_some_and(|other| equal(value, other))),
        _ => equal(a, b),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn json(text: &str) -> Json {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn numbers_compare_by_value() {
        assert!(equal(&json("1"), &json("1.0")));
        assert!(equal(&json("0"), &json("-0.0")));
        assert!(order(&json("2"), &json("10")).is_lt());
        assert!(order(&json("9223372036854775807"), &json("9223372036854775808")).is_lt());
    }

    #[test]
    fn equal_documents_have_equal_bytes() {
        let same = [
            ("1", "1.0"),
            ("0", "-0.0"),
            ("1000000000000000", "1e15"),
            ("18446744073709551615", "18446744073709551615"),
            ("[1, {\"a\": -3.0}]", "[1.0, {\"a\": -3}]"),
            ("\"1.0\"", "\"1.0\""),
        ];
        for (a, b) in same {
            assert_eq!(
                comparable_text(a.as_bytes()),
                comparable_text(b.as_bytes()),
                "{a}"
            );
        }
        for (a, b) in [
            ("1", "1.5"),
            ("1", "\"1\""),
            ("\"1\"", "\"1.0\""),
            ("1", "true"),
        ] {
            assert_ne!(comparable_text(a.as_bytes()), comparable_text(b.as_bytes()));
        }
    }

    #[test]
    fn kinds_have_an_order() {
        let ascending = ["null", "5", "\"a\"", "{}", "[]", "false"];
        for pair in ascending.windows(2) {
            assert!(order(&json(pair[0]), &json(pair[1])).is_lt(), "{pair:?}");
        }
    }

    #[test]
    fn containment() {
        let yes = [
            ("[1, 2, 3]", "[3, 1]"),
            ("[1, 2, 3]", "2"),
            (
                "{\"a\": 1, \"b\": {\"c\": [1, 2]}}",
                "{\"b\": {\"c\": [2]}}",
            ),
            ("[{\"a\": 1, \"b\": 2}]", "{\"a\": 1}"),
        ];
        for (target, candidate) in yes {
            assert!(
                contains(&json(target), &json(candidate)),
                "{target} {candidate}"
            );
        }
        assert!(!contains(&json("{\"a\": 1}"), &json("1")));
        assert!(!contains(&json("[1, 2]"), &json("[1, 3]")));
        assert!(contains(&json("[1, [2, 3]]"), &json("2")));
        assert!(contains(&json("[1, [2, 3]]"), &json("[[2]]")));
    }

    #[test]
    fn overlap() {
        assert!(overlaps(&json("[1, 3, 5]"), &json("[2, 3]")));
        assert!(!overlaps(&json("[1, [2, 3]]"), &json("[2, 4]")));
        assert!(overlaps(
            &json("{\"a\": 1, \"b\": 2}"),
            &json("{\"b\": 2, \"c\": 1}")
        ));
        assert!(!overlaps(&json("{\"a\": 1}"), &json("{\"a\": 2}")));
        assert!(overlaps(&json("[4, 5]"), &json("4")));
    }
}
