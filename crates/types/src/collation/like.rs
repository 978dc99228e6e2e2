//! LIKE: matching with `%` and `_`.
//!
//! Backtracking without recursion: at a mismatch, matching resumes after the last `%`, which then
//! matches one more character. Earlier `%` are final, so the worst-case time is the product of both
//! lengths. Where an ASCII letter or digit follows `%`, a search for its bytes finds the next
//! character that may match.

use super::{Charset, Collation};
use porpoise_base::interrupt::Pacer;

/// An item of a pattern.
#[derive(Clone, Copy)]
pub(super) enum Item {
    Any,
    One,
    Char(u32),
}

/// The first item of a pattern, and its length.
pub(super) fn next_item(
    charset: Charset,
    pattern: &[u8],
    escape: Option<u32>,
) -> Option<(Item, usize)> {
    let (code, len) = charset.decode_char(pattern)?;
    if Some(code) == escape
        && let Some((next, more)) = pattern
            .get(len..)
            .and_then(|rest| charset.decode_char(rest))
    {
        return Some((Item::Char(next), len + more));
    }
    let item = match code {
        0x25 => Item::Any,
        0x5F => Item::One,
        _ => Item::Char(code),
    };
    Some((item, len))
}

/// The ASCII letter or digit that a pattern begins with, in both cases, under collations in which no
/// other ASCII character equals it. (In some languages I equals J or Y.)
fn first_letter(collation: Collation, pattern: &[u8], escape: Option<u32>) -> Option<[u8; 2]> {
    let first = *pattern.first()?;
    let by_letter = matches!(
        collation,
        Collation::BINARY
            | Collation::UTF8MB4_BIN
            | Collation::UTF8MB4_0900_BIN
            | Collation::UTF8MB4_0900_AI_CI
            | Collation::UTF8MB4_GENERAL_CI
            | Collation::UTF8MB4_UNICODE_CI
            | Collation::UTF8MB4_UNICODE_520_CI
    );
    let literal = by_letter && first.is_ascii_alphanumeric();
    let letter = literal && escape != Some(u32::from(first));
    letter.then(|| [first.to_ascii_lowercase(), first.to_ascii_uppercase()])
}

/// The rest of a text from the next character on that may equal the letter.
fn skip_to(letter: Option<[u8; 2]>, text: &[u8]) -> &[u8] {
    let Some([lower, upper]) = letter else {
        return text;
    };
    let may_match = |byte: &u8| *byte == lower || *byte == upper || !byte.is_ascii();
    let at = text.iter().position(may_match);
    text.get(at.unwrap_or(text.len())..).unwrap_or_default()
}

pub(super) fn like(
    collation: Collation,
    text: &[u8],
    pattern: &[u8],
    escape: Option<char>,
) -> bool {
    let charset = collation.charset();
    let escape = escape.map(u32::from);
    let (mut text, mut pattern) = (text, pattern);
    // Text and pattern just after the last `%`.
    let mut retry: Option<(&[u8], &[u8])> = None;
    let mut letter = None;
    let mut pacer = Pacer::new();
    loop {
        if pacer.leaves() {
            return false;
        }
        let matched = match next_item(charset, pattern, escape) {
            Some((Item::Any, len)) => {
                pattern = pattern.get(len..).unwrap_or_default();
                if pattern.is_empty() {
                    return true;
                }
                letter = first_letter(collation, pattern, escape);
                text = skip_to(letter, text);
                retry = Some((text, pattern));
                continue;
            }
            None if text.is_empty() => return true,
            None => None,
            Some((item, len)) => match charset.decode_char(text) {
                None => return false,
                Some((code, text_len)) => match item {
                    Item::Char(c) if !collation.same_char(c, code) => None,
                    _ => Some((len, text_len)),
                },
            },
        };
        if let Some((len, text_len)) = matched {
            pattern = pattern.get(len..).unwrap_or_default();
            text = text.get(text_len..).unwrap_or_default();
            continue;
        }
        let Some((from, after)) = retry else {
            return false;
        };
        let Some((_, len)) = charset.decode_char(from) else {
            return false;
        };
        text = skip_to(letter, from.get(len..).unwrap_or_default());
        pattern = after;
        retry = Some((text, after));
    }
}

/// Returns the literal prefix of a pattern, without trailing spaces, which say nothing of a text's
/// key. It ends before a character with which a contraction begins: LIKE compares characters one by
/// one, keys have the weights of the contraction.
pub(super) fn start(collation: Collation, pattern: &[u8], escape: Option<char>) -> Vec<u8> {
    let charset = collation.charset();
    let escape = escape.map(u32::from);
    let mut out = Vec::new();
    let mut rest = pattern;
    while let Some((Item::Char(code), len)) = next_item(charset, rest, escape) {
        if collation.begins_contraction(code) {
            break;
        }
        let (item, behind) = rest.split_at_checked(len).unwrap_or((rest, &[]));
        // The escape byte is not a part of an escaped character.
        let first = charset.decode_char(item).map_or(0, |(_, first)| first);
        out.extend_from_slice(if first < len {
            item.get(first..).unwrap_or_default()
        } else {
            item
        });
        rest = behind;
    }
    while out.last() == Some(&b' ') {
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_and_escapes() {
        let ci = Collation::UTF8MB4_GENERAL_CI;
        let like = |t: &str, p: &str| ci.like(t.as_bytes(), p.as_bytes(), Some('\\'));
        assert!(like("", "") && like("", "%") && !like("", "_"));
        assert!(like("David", "david") && like("David", "D%v%") && like("David!", "David_"));
        assert!(!like("a", "a ") && !like("a ", "a"));
        assert!(like("10%", "10\\%") && !like("100", "10\\%"));
        assert!(like("aXbXc", "%b%c") && !like("aXbXcd", "%b%c"));
        assert!(like("né", "n_") && like("NE", "né"));
        assert!(like("\\", "\\") && like("mississippi", "%iss%ip%i"));
    }

    #[test]
    fn a_search_for_letters_skips_no_match() {
        let texts = [
            "",
            "abc",
            "xxABCabd",
            "ａbc",
            "xªbc",
            "éabcé",
            "ab",
            "1a2b",
            "aab\u{301}c",
        ];
        let patterns = [
            "%abc%", "%ABC", "%a%b%c", "%_b%", "%2%", "%a\\_%", "%é%b%", "%ab%c%",
        ];
        for collation in [
            Collation::UTF8MB4_BIN,
            Collation::UTF8MB4_GENERAL_CI,
            Collation::UTF8MB4_0900_AI_CI,
            Collation::UTF8MB4_UNICODE_CI,
            Collation::BINARY,
        ] {
            for ascii in 0..128 {
                // The precondition: a letter equals no other ASCII character than its other case.
                for letter in (b'0'..=b'z').filter(u8::is_ascii_alphanumeric) {
                    let same = collation.same_char(u32::from(letter), ascii);
                    let case = u32::from(letter.to_ascii_lowercase()) == (ascii | 0x20)
                        || u32::from(letter) == ascii;
                    assert!(!same || case, "{collation:?} {letter} {ascii}");
                }
            }
            for (text, pattern) in texts.iter().flat_map(|t| patterns.map(|p| (t, p))) {
                // A pattern that begins with `_` or an escape is not searched for.
                let slow = pattern.replacen("%a", "%\\a", 1).replacen("%A", "%\\A", 1);
                let like = |p: &str| collation.like(text.as_bytes(), p.as_bytes(), Some('\\'));
                assert_eq!(like(pattern), like(&slow), "{collation:?} {text} {pattern}");
            }
        }
    }

    #[test]
    fn patterns_have_a_literal_prefix() {
        let of = |p: &str| {
            let start = start(Collation::UTF8MB4_GENERAL_CI, p.as_bytes(), Some('\\'));
            String::from_utf8(start).unwrap()
        };
        assert_eq!((of("ab%c").as_str(), of("%").as_str()), ("ab", ""));
        assert_eq!((of("né_x").as_str(), of("whole").as_str()), ("né", "whole"));
        assert_eq!(
            (of("10\\%x%").as_str(), of("a\\").as_str()),
            ("10%x", "a\\")
        );
        assert_eq!(of("a b  %"), "a b");
    }

    #[test]
    fn keys_of_matching_texts_share_the_prefix_key() {
        let texts = [
            "ab",
            "AB",
            "abc",
            "ab c",
            "ab\t",
            "ab\u{1}",
            "äb é",
            "abß",
            "ab ",
            "a b",
            "ab\u{a0}c",
            "ab\u{a0}\0",
        ];
        for collation in [
            Collation::BINARY,
            Collation::UTF8MB4_BIN,
            Collation::UTF8MB4_GENERAL_CI,
            Collation::UTF8MB4_0900_AI_CI,
            Collation::UTF8MB4_0900_BIN,
            Collation::UTF8MB4_UNICODE_CI,
            Collation::UTF8MB4_UNICODE_520_CI,
        ] {
            for pattern in [
                "ab%",
                "AB%",
                "ab %",
                "a%",
                "äb%",
                "abs%",
                "abß%",
                "a_%",
                "ab\u{a0}%",
            ] {
                let ty = crate::ColumnType::varchar(20, collation);
                let mut head = Vec::new();
                let start = start(collation, pattern.as_bytes(), Some('\\'));
                crate::encode_text_start(&start, &ty, true, false, &mut head);
                for text in texts {
                    let mut key = Vec::new();
                    let value = crate::ValueRef::Bytes(text.as_bytes());
                    crate::encode_key(value, &ty, true, false, &mut key);
                    if collation.like(text.as_bytes(), pattern.as_bytes(), Some('\\')) {
                        assert!(key.starts_with(&head), "{collation:?} {text:?} {pattern:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn binary_compares_bytes() {
        assert!(!Collation::BINARY.like(b"A", b"a", None));
        assert!(!Collation::BINARY.like("é".as_bytes(), b"_", None));
        assert!(Collation::UTF8MB4_BIN.like("é".as_bytes(), b"_", None));
    }
}
