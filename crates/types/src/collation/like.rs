//! LIKE: matching with `%` and `_`.
//!
//! The pattern is walked once; at a mismatch the walk returns to the last `%`
//! and lets it take one more character. Later `%` make earlier ones final, so
//! the time is the product of both lengths at worst, without recursion.

use super::{Charset, Collation};

/// The next item of a pattern.
enum Item {
    Any,
    One,
    Char(u32),
}

fn next_item(charset: Charset, pattern: &[u8], escape: Option<u32>) -> Option<(Item, usize)> {
    let (code, len) = charset.step(pattern)?;
    if Some(code) == escape
        && let Some((next, more)) = pattern.get(len..).and_then(|rest| charset.step(rest))
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
    loop {
        let matched = match next_item(charset, pattern, escape) {
            Some((Item::Any, len)) => {
                pattern = pattern.get(len..).unwrap_or_default();
                if pattern.is_empty() {
                    return true;
                }
                retry = Some((text, pattern));
                continue;
            }
            None if text.is_empty() => return true,
            None => None,
            Some((item, len)) => match charset.step(text) {
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
        let Some((_, len)) = charset.step(from) else {
            return false;
        };
        text = from.get(len..).unwrap_or_default();
        pattern = after;
        retry = Some((text, after));
    }
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
    fn binary_compares_bytes() {
        assert!(!Collation::BINARY.like(b"A", b"a", None));
        assert!(!Collation::BINARY.like("é".as_bytes(), b"_", None));
        assert!(Collation::UTF8MB4_BIN.like("é".as_bytes(), b"_", None));
    }
}
