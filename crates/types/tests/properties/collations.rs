//! Comparison, sort keys and LIKE of one collation agree.

use std::cmp::Ordering;

use porpoise_types::Collation;
use proptest::prelude::*;

use crate::{bytes, collation, text};

fn sort_key(c: Collation, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    c.sort_key(text, &mut out);
    out
}

/// LIKE by its definition, on text whose characters are equal only if the same.
fn naive_like(text: &[char], pattern: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('%', rest)) => (0..=text.len()).any(|i| naive_like(&text[i..], rest)),
        Some(('_', rest)) => !text.is_empty() && naive_like(&text[1..], rest),
        Some(('\\', rest)) if !rest.is_empty() => {
            text.first() == rest.first() && naive_like(&text[1..], &rest[1..])
        }
        Some((c, rest)) => text.first() == Some(c) && naive_like(&text[1..], rest),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn sort_keys_agree(c in collation(), a in bytes(), b in bytes()) {
        let order = c.compare(&a, &b);
        prop_assert_eq!(order, c.compare(&b, &a).reverse());
        prop_assert_eq!(sort_key(c, &a).cmp(&sort_key(c, &b)), order);
        prop_assert_eq!(c.equal(&a, &b), order == Ordering::Equal);
    }

    #[test]
    fn trailing_spaces(c in collation(), a in text(), n in 0usize..4) {
        let mut padded = a.clone();
        padded.resize(a.len() + n, b' ');
        let wanted = if c.pad_space() || n == 0 { Ordering::Equal } else { Ordering::Less };
        prop_assert_eq!(c.compare(&a, &padded), wanted);
    }

    #[test]
    fn like_by_definition(t in "[ab%_é]{0,6}", p in "[ab%_é\\\\]{0,6}") {
        let chars = |s: &str| s.chars().collect::<Vec<_>>();
        prop_assert_eq!(
            Collation::UTF8MB4_BIN.like(t.as_bytes(), p.as_bytes(), Some('\\')),
            naive_like(&chars(&t), &chars(&p))
        );
    }

    #[test]
    fn like_of_the_text_itself(c in collation(), t in text()) {
        prop_assert!(c.like(&t, &t, None) || t.contains(&b'%') || t.contains(&b'_'));
        prop_assert!(c.like(&t, b"%", None));
    }
}

#[test]
fn equalities_of_0900() {
    let c = Collation::UTF8MB4_0900_AI_CI;
    for (a, b) in [
        ("a", "Á"),
        ("ß", "SS"),
        ("æ", "ae"),
        ("e\u{301}", "é"),
        ("ﬁ", "FI"),
        ("Ω", "ω"),
        ("", "\0"),
    ] {
        assert_eq!(
            c.compare(a.as_bytes(), b.as_bytes()),
            Ordering::Equal,
            "{a} {b}"
        );
    }
    // Hangul before Han, Han by code point, unassigned last.
    for (a, b) in [
        ("a", "a "),
        (" ", "a"),
        ("가", "각"),
        ("각", "日"),
        ("日", "本"),
        ("本", "\u{378}"),
        ("z", "я"),
    ] {
        assert_eq!(
            c.compare(a.as_bytes(), b.as_bytes()),
            Ordering::Less,
            "{a} {b}"
        );
    }
    assert!(c.like("Ünïcode".as_bytes(), "u_i%".as_bytes(), None));
}

#[test]
fn equalities_of_the_older_unicode_collations() {
    for c in [
        Collation::UTF8MB4_UNICODE_CI,
        Collation::UTF8MB4_UNICODE_520_CI,
    ] {
        for (a, b) in [
            ("a", "Á"),
            ("ß", "SS"),
            ("a\u{a0}", "a  \0"),
            ("ﬁ", "FI"),
            ("a \0", "a"),
        ] {
            assert!(c.equal(a.as_bytes(), b.as_bytes()), "{a} {b}");
        }
        for (a, b) in [("a\t", "a"), ("a", "a!"), ("日", "가"), ("z", "я")] {
            let order = c.compare(a.as_bytes(), b.as_bytes());
            assert_eq!(order, Ordering::Less, "{a} {b}");
        }
        assert!(!c.has_one_weight_per_char());
    }
    // All characters beyond the basic plane are equal, but not for LIKE.
    let (a, b) = ("😀".as_bytes(), "😁".as_bytes());
    assert!(Collation::UTF8MB4_UNICODE_CI.equal(a, b));
    assert!(!Collation::UTF8MB4_UNICODE_CI.like(a, b, None));
    assert!(!Collation::UTF8MB4_UNICODE_520_CI.equal(a, b));
}

#[test]
fn names_and_numbers() {
    for c in Collation::all() {
        assert_eq!(Collation::by_name(c.name()), Some(c));
        assert_eq!(Collation::from_id(c.0), Some(c));
        assert_eq!(c.is_ci(), c.equal(b"a", b"A"));
        assert_eq!(c.pad_space(), c.equal(b"a", b"a "));
    }
    let old = Collation::by_name("UTF8_unicode_ci");
    assert_eq!(old, Some(Collation::UTF8MB3_UNICODE_CI));
    assert_eq!(Collation::by_name("utf8mb4_unicode_nopad_ci"), None);
}
