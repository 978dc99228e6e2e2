//! Parsing of dates and times from text and numbers, in all forms that MySQL accepts.
//!
//! Text of a date begins with a digit (after spaces). Digits only, up to a `.`
//! or the end, is the *internal* form: fixed two-digit fields after a year of
//! four digits (4, 8 or 14 and more digits) or two. Otherwise the fields are
//! separated by any punctuation; a space or `T` may separate day and hour.
//! Fractions of the second are rounded to microseconds. Text after the last
//! field is reported as truncated, not refused. A time zone offset
//! `+HH:MM` may follow the time.
//!
//! Text of a time is `[-][D ]HH:MM[:SS[.f]]` or `[-][D ]HHMMSS[.f]`, or a whole
//! date and time, whose date is dropped.

use super::{Date, DateRules, DateTime, MAX_TIME_MICROS, MICROS_PER_SECOND, Time};

/// A date and time read from text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedDateTime {
    /// The value, rounded to microseconds.
    pub value: DateTime,
    /// Whether text follows the value.
    pub truncated: bool,
    /// Whether there was no time of day.
    pub date_only: bool,
    /// The time zone offset in seconds east of UTC, if given.
    pub offset: Option<i32>,
    /// Number of digits given for the fraction of the second.
    pub fraction_digits: usize,
}

/// A time read from text or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedTime {
    /// The value, rounded to microseconds and clipped to the range.
    pub value: Time,
    /// Whether text follows the value.
    pub truncated: bool,
    /// Whether the value was clipped.
    pub clipped: bool,
}

/// Bytes not yet read.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn skip(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    fn skip_spaces(&mut self) -> bool {
        let before = self.rest.len();
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.skip();
        }
        before != self.rest.len()
    }

    fn digits(&self) -> usize {
        self.rest.iter().take_while(|b| b.is_ascii_digit()).count()
    }

    /// Reads a number of up to `most` digits. Returns it with the number of digits.
    fn number(&mut self, most: usize) -> (u64, usize) {
        let mut value = 0u64;
        let mut len = 0;
        while len < most
            && let Some(b @ b'0'..=b'9') = self.peek()
        {
            value = value.saturating_mul(10).saturating_add(u64::from(b - b'0'));
            len += 1;
            self.skip();
        }
        (value, len)
    }

    /// Digits after a point, rounded to microseconds: up to 1,000,000.
    fn fraction(&mut self) -> u32 {
        let mut micros = 0;
        let mut len = 0;
        while let Some(b @ b'0'..=b'9') = self.peek() {
            let digit = u32::from(b - b'0');
            match len {
                0..6 => micros = micros * 10 + digit,
                6 if digit >= 5 => micros += 1,
                _ => {}
            }
            len += 1;
            self.skip();
        }
        while len < 6 {
            micros *= 10;
            len += 1;
        }
        micros
    }

    fn only_spaces_left(&mut self) -> bool {
        self.skip_spaces();
        self.rest.is_empty()
    }
}

/// Fields of a date and time: year, month, day, hour, minute, second.
type Fields = [u64; 6];

impl DateTime {
    /// Parses a date, or a date and time; `None` if the text is not one, or `rules` refuse the
    /// date.
    #[must_use]
    pub fn parse(text: &[u8], rules: DateRules) -> Option<ParsedDateTime> {
        let mut cursor = Cursor { rest: text };
        cursor.skip_spaces();
        let run = cursor
            .rest
            .iter()
            .take_while(|b| b.is_ascii_digit() || **b == b'T')
            .count();
        if cursor.digits() == 0 {
            return None;
        }
        let internal = matches!(cursor.rest.get(run), None | Some(b'.'));
        let fixed = internal.then_some(if run == 4 || run == 8 || run >= 14 {
            4
        } else {
            2
        });
        let parsed = fields(&mut cursor, fixed)?;
        let ParsedFields {
            fields,
            count,
            year_len,
            micros,
            fraction_digits,
        } = parsed;
        if count < 3 {
            return None;
        }
        let offset = (count == 6).then(|| parse_offset(&mut cursor)).flatten();
        let mut fields = fields;
        let nonzero = micros > 0 || fields.iter().any(|f| *f != 0);
        if year_len == 2
            && nonzero
            && let Some(year) = fields.first_mut()
        {
            *year += if *year < 70 { 2000 } else { 1900 };
        }
        let value = assemble(&fields, micros)?;
        if !value.date().check(rules) {
            return None;
        }
        let truncated = !cursor.only_spaces_left();
        Some(ParsedDateTime {
            value,
            truncated,
            date_only: count <= 3,
            offset,
            fraction_digits,
        })
    }

    /// Reads the numbers `YYYYMMDD`, `YYMMDD`, `YYYYMMDDHHMMSS` and
    /// `YYMMDDHHMMSS`, with a fraction in microseconds.
    #[must_use]
    pub fn from_number(number: i64, micros: u32, rules: DateRules) -> Option<DateTime> {
        let full = match number {
            0 => 0,
            101..=691_231 => (number + 20_000_000) * 1_000_000,
            700_101..=991_231 => (number + 19_000_000) * 1_000_000,
            991_232..=99_991_231 => number * 1_000_000,
            101_000_000..=691_231_235_959 => number + 20_000_000_000_000,
            700_101_000_000..=991_231_235_959 => number + 19_000_000_000_000,
            991_231_235_960..=99_991_231_235_959 => number,
            _ => return None,
        };
        let part =
            |unit: i64, modulus: i64| u64::try_from(full / unit % modulus).unwrap_or(u64::MAX);
        let fields: Fields = [
            part(10_000_000_000, 100_000),
            part(100_000_000, 100),
            part(1_000_000, 100),
            part(10_000, 100),
            part(100, 100),
            part(1, 100),
        ];
        // A date without a time has no fractional seconds.
        let date_only = (101..=99_991_231).contains(&number);
        let value = assemble(&fields, if date_only { 0 } else { micros })?;
        value.date().check(rules).then_some(value)
    }
}

fn assemble(fields: &Fields, micros: u32) -> Option<DateTime> {
    let [year, month, day, hour, minute, second] = *fields;
    let carry = micros >= 1_000_000;
    let value = DateTime::from_parts(
        u16::try_from(year).ok()?,
        u8::try_from(month).ok()?,
        u8::try_from(day).ok()?,
        u8::try_from(hour).ok()?,
        u8::try_from(minute).ok()?,
        u8::try_from(second).ok()?,
        if carry { 0 } else { micros },
    )?;
    if !carry {
        return Some(value);
    }
    // A date with a zero part has no next second.
    let is_whole = month != 0 && day != 0;
    is_whole.then(|| value.add_micros(MICROS_PER_SECOND))?
}

/// The fields of a text.
struct ParsedFields {
    fields: Fields,
    /// Number of fields.
    count: usize,
    /// Number of digits of the year.
    year_len: usize,
    micros: u32,
    /// Number of digits of the fraction.
    fraction_digits: usize,
}

/// Parses the fields of both forms. In the internal form `fixed` is the width of the year, and
/// every other field has two digits; in the other form, a field is as long as its digits.
/// Punctuation between fields is skipped in both.
fn fields(cursor: &mut Cursor<'_>, fixed: Option<usize>) -> Option<ParsedFields> {
    let mut fields = [0; 6];
    let mut count = 0;
    let mut year_len = 0;
    let mut micros = 0;
    let mut fraction_digits = 0;
    for (i, field) in fields.iter_mut().enumerate() {
        let most = match fixed {
            Some(year) if i == 0 => year,
            Some(_) => 2,
            None => usize::MAX,
        };
        let (value, len) = cursor.number(most);
        if len == 0 {
            break;
        }
        if value > 999_999 {
            return None;
        }
        if i == 0 {
            year_len = fixed.unwrap_or(len);
        }
        *field = value;
        count += 1;
        if i == 5 {
            if cursor.peek() == Some(b'.') {
                cursor.skip();
                fraction_digits = cursor.digits();
                micros = cursor.fraction();
            }
            break;
        }
        let before = cursor.rest;
        if i == 2 && cursor.peek() == Some(b'T') {
            cursor.skip();
        } else {
            while cursor
                .peek()
                .is_some_and(|b| b.is_ascii_punctuation() || (i == 2 && b.is_ascii_whitespace()))
            {
                cursor.skip();
            }
        }
        if cursor.digits() == 0 {
            // The text after the last field is not a separator.
            cursor.rest = before;
            break;
        }
    }
    Some(ParsedFields {
        fields,
        count,
        year_len,
        micros,
        fraction_digits,
    })
}

/// Parses `+HH:MM` or `-HH:MM`, between -13:59 and +14:00.
fn parse_offset(cursor: &mut Cursor<'_>) -> Option<i32> {
    let [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2, rest @ ..] = cursor.rest else {
        return None;
    };
    let digit = |b: &u8| b.is_ascii_digit().then(|| i32::from(b - b'0'));
    let hours = digit(h1)? * 10 + digit(h2)?;
    let minutes = digit(m1)? * 10 + digit(m2)?;
    if minutes > 59 || hours > 14 || (hours == 14 && (minutes > 0 || *sign == b'-')) {
        return None;
    }
    cursor.rest = rest;
    let seconds = hours * 3600 + minutes * 60;
    Some(if *sign == b'-' { -seconds } else { seconds })
}

impl Time {
    /// Parses a time; `None` if the text is not one. A time beyond the range is clipped.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<ParsedTime> {
        let mut cursor = Cursor { rest: text };
        cursor.skip_spaces();
        if let Some(full) = leading_datetime(cursor.rest) {
            let value = full.value.time();
            return Some(ParsedTime {
                value,
                truncated: full.truncated,
                clipped: false,
            });
        }
        let negative = cursor.peek() == Some(b'-');
        if matches!(cursor.peek(), Some(b'-' | b'+')) {
            cursor.skip();
        }
        if cursor.digits() == 0 && cursor.peek() != Some(b'.') {
            return None;
        }
        let (first, _) = cursor.number(usize::MAX);
        let (seconds, minute, second) = time_fields(&mut cursor, first)?;
        if minute > 59 || second > 59 {
            return None;
        }
        let mut micros = 0;
        if cursor.peek() == Some(b'.') {
            cursor.skip();
            micros = cursor.fraction();
        }
        let seconds = i64::try_from(seconds.min(100_000_000)).unwrap_or(0);
        let total = seconds * MICROS_PER_SECOND + i64::from(micros);
        let (value, clipped) = Time::clip(if negative { -total } else { total });
        Some(ParsedTime {
            value,
            truncated: !cursor.only_spaces_left(),
            clipped,
        })
    }

    /// Converts the signed number `HHMMSS` with a fraction in microseconds, or `YYYYMMDDHHMMSS`, of
    /// which the date is dropped. Returns `None` if minutes or seconds are out of range.
    #[must_use]
    pub fn from_number(number: i64, micros: u32) -> Option<ParsedTime> {
        let size = number.unsigned_abs();
        if number >= 10_000_000_000 {
            let value = DateTime::from_number(number, micros, DateRules::LENIENT)?.time();
            return Some(ParsedTime {
                value,
                truncated: false,
                clipped: false,
            });
        }
        let (hour, minute, second) = (size / 10_000, size / 100 % 100, size % 100);
        if size > 8_385_959 {
            let value = if number < 0 { Time::MIN } else { Time::MAX };
            return Some(ParsedTime {
                value,
                truncated: false,
                clipped: true,
            });
        }
        if minute > 59 || second > 59 {
            return None;
        }
        let seconds = i64::try_from(hour * 3600 + minute * 60 + second).ok()?;
        let total = seconds * MICROS_PER_SECOND + i64::from(micros);
        let (value, clipped) = Time::clip(if number < 0 { -total } else { total });
        Some(ParsedTime {
            value,
            truncated: false,
            clipped,
        })
    }
}

/// The date and time at the front of a text that is read as a time, if there is one.
pub(super) fn leading_datetime(text: &[u8]) -> Option<ParsedDateTime> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    // '10:05:03.000007' would read as a date of seven fields.
    let apart = text.iter().any(|b| matches!(b, b' ' | b'T'));
    if text.len() < 12 || !(apart || digits >= 12) {
        return None;
    }
    DateTime::parse(text, DateRules::LENIENT).filter(|parsed| !parsed.date_only)
}

/// Parses the fields after the first number. Returns seconds in total, and the minute and second
/// for validation.
fn time_fields(cursor: &mut Cursor<'_>, first: u64) -> Option<(u64, u64, u64)> {
    let before = cursor.rest;
    let spaces = cursor.skip_spaces();
    if spaces && cursor.digits() > 0 && cursor.rest.len() > 1 {
        // `D HH[:MM[:SS]]`
        let (hour, _) = cursor.number(usize::MAX);
        let (minute, second) = minutes_and_seconds(cursor);
        let hours = first.saturating_mul(24).saturating_add(hour);
        return Some((total(hours, minute, second), minute, second));
    }
    if spaces {
        cursor.rest = before;
    }
    if cursor.peek() == Some(b':') && cursor.rest.get(1).is_some_and(u8::is_ascii_digit) {
        let (minute, second) = minutes_and_seconds(cursor);
        return Some((total(first, minute, second), minute, second));
    }
    let (hour, minute, second) = (first / 10_000, first / 100 % 100, first % 100);
    Some((total(hour, minute, second), minute, second))
}

fn total(hours: u64, minute: u64, second: u64) -> u64 {
    let most = u64::try_from(MAX_TIME_MICROS).unwrap_or(u64::MAX);
    hours
        .min(most)
        .saturating_mul(3600)
        .saturating_add(minute.min(60) * 60 + second.min(60))
}

/// Parses `:MM[:SS]`; absent fields are zero.
fn minutes_and_seconds(cursor: &mut Cursor<'_>) -> (u64, u64) {
    let mut found = [0; 2];
    for field in &mut found {
        if cursor.peek() != Some(b':') || !cursor.rest.get(1).is_some_and(u8::is_ascii_digit) {
            break;
        }
        cursor.skip();
        *field = cursor.number(usize::MAX).0;
    }
    (found[0], found[1])
}

impl Date {
    /// Parses a date, and drops a time of day.
    #[must_use]
    pub fn parse(text: &[u8], rules: DateRules) -> Option<Date> {
        DateTime::parse(text, rules).map(|p| p.value.date())
    }

    /// The value of the literal `DATE 'text'`; `None` if the text is not exactly a date.
    #[must_use]
    pub fn of_literal(text: &[u8], rules: DateRules) -> Option<Date> {
        let parsed = DateTime::parse(text, rules).filter(|p| p.date_only && !p.truncated);
        parsed.map(|p| p.value.date())
    }
}

impl DateTime {
    /// The value of the literal `TIMESTAMP 'text'`; `None` if the text is not exactly a date and a time.
    #[must_use]
    pub fn of_literal(text: &[u8], rules: DateRules) -> Option<ParsedDateTime> {
        DateTime::parse(text, rules).filter(|p| !p.date_only && !p.truncated)
    }
}

impl Time {
    /// Whether a text begins with a date and a time, so that it is not a time alone.
    #[must_use]
    pub fn begins_with_datetime(text: &[u8]) -> bool {
        leading_datetime(text.trim_ascii_start()).is_some()
    }

    /// The value of the literal `TIME 'text'`, and the number of digits of its fraction; `None` if the text is not
    /// exactly a time, or is out of range.
    #[must_use]
    pub fn of_literal(text: &[u8]) -> Option<(Time, usize)> {
        if Time::begins_with_datetime(text) {
            return None;
        }
        let parsed = Time::parse(text).filter(|p| !p.truncated && !p.clipped)?;
        let fraction = text.rsplit(|b| *b == b'.').next().unwrap_or_default();
        let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        Some((parsed.value, if text.contains(&b'.') { digits } else { 0 }))
    }
}
