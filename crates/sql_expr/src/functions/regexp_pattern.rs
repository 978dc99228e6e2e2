//! Translation of ICU's regular expressions to the syntax of the fancy-regex crate, and checks that
//! ICU makes and the crate does not.

use crate::error::{Result, SqlError};
use std::borrow::Cow;

/// POSIX classes, and the Unicode properties that ICU gives them.
const CLASSES: [(&str, &str); 6] = [
    ("[:alnum:]", r"\p{Alphabetic}\p{Nd}"),
    ("[:alpha:]", r"\p{Alphabetic}"),
    ("[:digit:]", r"\p{Nd}"),
    ("[:lower:]", r"\p{Lowercase}"),
    ("[:upper:]", r"\p{Uppercase}"),
    ("[:punct:]", r"\p{Punctuation}"),
];

fn error(code: u16, text: &str) -> SqlError {
    SqlError::new(code, "HY000", text)
}

/// The pattern in the crate's syntax.
///
/// # Errors
/// 3685 for `[[:<:]]` and `[[:>:]]`, 3693 for `{2,1}`, 3697 for `[b-a]`.
pub(super) fn translated(pattern: &str) -> Result<Cow<'_, str>> {
    check(pattern)?;
    if !pattern.contains("[:") {
        return Ok(Cow::Borrowed(pattern));
    }
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if ["[:<:]", "[:>:]"].iter().any(|word| rest.starts_with(word)) {
            return Err(error(3685, "Illegal argument to a regular expression."));
        }
        if let Some((class, property)) = CLASSES.iter().find(|(class, _)| rest.starts_with(class)) {
            out.push_str(property);
            rest = rest.get(class.len()..).unwrap_or_default();
            continue;
        }
        // An escaped character begins no class.
        let taken = if c == '\\' { 2 } else { 1 };
        let len = rest.chars().take(taken).map(char::len_utf8).sum();
        let (copied, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
        out.push_str(copied);
        rest = after;
    }
    Ok(Cow::Owned(out))
}

/// Checks the order of the ends of character ranges and intervals.
fn check(pattern: &str) -> Result<()> {
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '[' => check_set(&mut chars)?,
            '{' => check_interval(chars.clone())?,
            _ => {}
        }
    }
    Ok(())
}

type Chars<'p> = std::iter::Peekable<std::str::Chars<'p>>;

/// Checks a set from the character after its `[` on, and consumes it up to its `]`.
fn check_set(chars: &mut Chars<'_>) -> Result<()> {
    chars.next_if_eq(&'^');
    let mut before = chars.next_if_eq(&']');
    while let Some(c) = chars.next() {
        before = match c {
            ']' => return Ok(()),
            '\\' => {
                chars.next();
                None
            }
            '[' if chars.peek() == Some(&':') => {
                chars.by_ref().find(|c| *c == ']');
                None
            }
            // A set within a set.
            '[' => return Ok(()),
            '-' => match (before, chars.peek().copied()) {
                (Some(low), Some(high)) if !matches!(high, ']' | '[' | '\\' | '-') => {
                    if low > high {
                        let text = "The regular expression contains an [x-y] character range \
                                    where x comes after y.";
                        return Err(error(3697, text));
                    }
                    chars.next();
                    None
                }
                _ => Some(c),
            },
            _ => Some(c),
        };
    }
    Ok(())
}

/// Checks an interval from the character after its `{` on.
fn check_interval(mut chars: Chars<'_>) -> Result<()> {
    let mut number = || {
        let mut digits = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        (digits.parse::<u32>().ok(), chars.next())
    };
    let (low, comma) = number();
    let (high, end) = number();
    match (low, comma, high, end) {
        (Some(low), Some(','), Some(high), Some('}')) if high < low => {
            let text = "The maximum is less than the minimum in a {min,max} interval.";
            Err(error(3693, text))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_checked_and_translated() {
        let cases = [
            ("[[:lower:]x]", Ok(r"[\p{Lowercase}x]")),
            ("[b-a]", Err(3697)),
            ("[^b-a]", Err(3697)),
            ("[a-b-a]", Ok("[a-b-a]")),
            (r"[b\-a]", Ok(r"[b\-a]")),
            (r"\[b-a]", Ok(r"\[b-a]")),
            (r"\[:alpha:]", Ok(r"\[:alpha:]")),
            ("a{2,1}", Err(3693)),
            ("a{1,2}b{3}", Ok("a{1,2}b{3}")),
            ("a[[:<:]]", Err(3685)),
        ];
        for (pattern, expected) in cases {
            let found = translated(pattern).map_err(|e| e.code);
            assert_eq!(
                found.as_deref().map_err(|code| *code),
                expected,
                "{pattern}"
            );
        }
    }
}
