//! Delimiters in date and time strings that MySQL accepts but deprecates (warnings 4095 and 4096).
//!
//! The standard format is `YYYY-MM-DD hh:mm:ss.f`. Another character in place of a delimiter, and an
//! additional one beside it, are deprecated; the first of them in a string is reported.

/// A deprecated delimiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeprecatedDelimiter {
    /// Position in bytes.
    pub position: usize,
    /// The delimiter.
    pub found: u8,
    /// The standard one; `None` if there should be none.
    pub standard: Option<u8>,
}

fn digits(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().take_while(|b| b.is_ascii_digit()).count()
}

fn is_space(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(u8::is_ascii_whitespace)
}

fn superfluous(text: &[u8], position: usize) -> Option<DeprecatedDelimiter> {
    Some(DeprecatedDelimiter {
        position,
        found: *text.get(position)?,
        standard: None,
    })
}

/// A space after the value.
fn trailing(text: &[u8], at: usize) -> Option<DeprecatedDelimiter> {
    superfluous(text, at).filter(|_| is_space(text, at))
}

/// The position after a fraction at this position, if there is one.
fn after_fraction(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(b'.') => at + 1 + digits(text, at + 1),
        _ => at,
    }
}

/// The first deprecated delimiter of a text that is a date, with or without a time.
#[must_use]
pub fn of_date(text: &[u8]) -> Option<DeprecatedDelimiter> {
    if is_space(text, 0) {
        return superfluous(text, 0);
    }
    let mut at = digits(text, 0);
    if at == 0 {
        return None;
    }
    // A point after a date of digits only (20211018.121000) is not reported.
    if at == 8 && text.get(at) == Some(&b'.') {
        return None;
    }
    // A date and a time of digits only.
    if at >= 12 {
        return trailing(text, after_fraction(text, at));
    }
    for standard in *b"-- ::" {
        // `date T time` is standard, too.
        let is_day_end = standard == b' ';
        if is_day_end && text.get(at) == Some(&b'T') {
            at += 1 + digits(text, at + 1);
            continue;
        }
        let delimits =
            |b: &&u8| b.is_ascii_punctuation() || (is_day_end && b.is_ascii_whitespace());
        let rest = text.get(at..).unwrap_or_default();
        let run = rest.iter().take_while(delimits).count();
        if run == 0 || digits(text, at + run) == 0 {
            return trailing(text, at);
        }
        let found = *rest.first()?;
        if found != standard {
            return Some(DeprecatedDelimiter {
                position: at,
                found,
                standard: Some(standard),
            });
        }
        if run > 1 {
            return superfluous(text, at + 1);
        }
        at += run + digits(text, at + run);
    }
    trailing(text, after_fraction(text, at))
}

/// The first deprecated delimiter of a text that is a time, `[-][D ]hh:mm:ss.f`, or a date with a time.
#[must_use]
pub fn of_time(text: &[u8]) -> Option<DeprecatedDelimiter> {
    if is_space(text, 0) {
        return superfluous(text, 0);
    }
    if super::parse::leading_datetime(text).is_some() {
        return of_date(text);
    }
    let mut at = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    at += digits(text, at);
    let rest = text.get(at..).unwrap_or_default();
    let spaces = rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
    if spaces > 0 && digits(text, at + spaces) > 0 {
        if spaces > 1 {
            return superfluous(text, at);
        }
        at += spaces + digits(text, at + spaces);
    }
    while text.get(at) == Some(&b':') && digits(text, at + 1) > 0 {
        at += 1 + digits(text, at + 1);
    }
    trailing(text, after_fraction(text, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(found: Option<DeprecatedDelimiter>) -> Option<(usize, char, Option<char>)> {
        let found = found?;
        let standard = found.standard.map(char::from);
        Some((found.position, char::from(found.found), standard))
    }

    #[test]
    fn dates_have_the_positions_of_mysql() {
        for (text, expected) in [
            ("2021-07-15 23:01:02", None),
            ("2021-07-15T23:01:02.5", None),
            ("20210715", None),
            ("20210715230102.5", None),
            ("2021-07-15", None),
            ("2000-01-01 00:00:00+02:00", None),
            (" 20030303", Some((0, ' ', None))),
            ("2009/09/23", Some((4, '/', Some('-')))),
            ("22.11.17", Some((2, '.', Some('-')))),
            ("2001-01/01", Some((7, '/', Some('-')))),
            ("2005-05-05\n01:02", Some((10, '\n', Some(' ')))),
            ("2004-01-01 11:59.59", Some((16, '.', Some(':')))),
            ("2015-01-15 23-24:25", Some((13, '-', Some(':')))),
            ("2021--07-15 23:01:02", Some((5, '-', None))),
            ("2021-07-15   23:01:02", Some((11, ' ', None))),
            ("2021-07-15 23::01:02", Some((14, ':', None))),
            ("2021-07-15 23:01:02  ", Some((19, ' ', None))),
            ("2007-10-1 00:00:00 GMT-6", Some((18, ' ', None))),
            ("1999-01-01 00:00:00.123456 xxx", Some((26, ' ', None))),
            ("2021-09-20 ", Some((10, ' ', None))),
        ] {
            assert_eq!(shown(of_date(text.as_bytes())), expected, "{text:?}");
        }
    }

    #[test]
    fn times_have_the_positions_of_mysql() {
        for (text, expected) in [
            ("10:11:12.5", None),
            ("-10 1:22:33.45", None),
            ("101112", None),
            (" 10:11:12", Some((0, ' ', None))),
            ("10:11:12.098700    ", Some((15, ' ', None))),
            ("-10  1:22:33.45", Some((3, ' ', None))),
            ("1  01", Some((1, ' ', None))),
            ("1 ", Some((1, ' ', None))),
            ("916:00:00 a", Some((9, ' ', None))),
            ("2007-12-30  00:00:00", Some((11, ' ', None))),
        ] {
            assert_eq!(shown(of_time(text.as_bytes())), expected, "{text:?}");
        }
    }
}
