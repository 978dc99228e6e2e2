//! Order of texts, and LIKE.

use std::cmp::Ordering;

use porpoise_types::Collation;

use crate::{assert_none, hex, rows};

fn check(data: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in rows(data, 4) {
        let collation = Collation::by_name(row[0]).unwrap();
        let (a, b) = (hex(row[1]), hex(row[2]));
        let order = match row[3] {
            "-1" => Ordering::Less,
            "0" => Ordering::Equal,
            _ => Ordering::Greater,
        };
        let (mut ka, mut kb) = (Vec::new(), Vec::new());
        collation.sort_key(&a, &mut ka);
        collation.sort_key(&b, &mut kb);
        if collation.compare(&a, &b) != order || ka.cmp(&kb) != order {
            wrong.push(format!(
                "{} {:?} {:?}: {:?} and {:?} for {order:?}",
                row[0],
                String::from_utf8_lossy(&a),
                String::from_utf8_lossy(&b),
                collation.compare(&a, &b),
                ka.cmp(&kb)
            ));
        }
    }
    wrong
}

#[test]
fn order() {
    assert_none(check(include_str!("../data/collate.tsv")));
}

#[test]
fn unicode_order() {
    assert_none(check(include_str!("../data/collate_0900.tsv")));
}

#[test]
fn unicode_order_of_languages() {
    assert_none(check(include_str!("../data/collate_0900_languages.tsv")));
}

#[test]
fn older_unicode_order() {
    assert_none(check(include_str!("../data/collate_unicode.tsv")));
}

#[test]
fn order_of_languages() {
    assert_none(check(include_str!("../data/collate_languages.tsv")));
}

#[test]
fn like() {
    assert_none(check_like(include_str!("../data/like.tsv")));
}

#[test]
fn older_unicode_like() {
    assert_none(check_like(include_str!("../data/like_unicode.tsv")));
}

fn check_like(data: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in rows(data, 4) {
        let collation = Collation::by_name(row[0]).unwrap();
        let (text, pattern) = (hex(row[1]), hex(row[2]));
        if collation.like(&text, &pattern, Some('\\')) != (row[3] == "1") {
            wrong.push(format!(
                "{} {:?} like {:?} is {}",
                row[0],
                String::from_utf8_lossy(&text),
                String::from_utf8_lossy(&pattern),
                row[3]
            ));
        }
    }
    wrong
}
