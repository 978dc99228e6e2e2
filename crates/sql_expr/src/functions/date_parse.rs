//! Parser of STR_TO_DATE: reads a text by the specifiers of a DATE_FORMAT format.
//!
//! White space in the format matches any amount of it, numbers are read to the maximum number of
//! digits of their field, and text left over at the end is ignored with a warning, as in MySQL.

use porpoise_types::{Date, DateTime, Time};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

#[derive(Default)]
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    day_of_year: Option<i64>,
    week: Option<(i64, u8)>,
    /// The year of a week, and its specifier: `%X` or `%x`.
    week_year: Option<(i64, u8)>,
    weekday: Option<i64>,
    afternoon: Option<bool>,
    twelve_hours: bool,
}

struct Reader<'t> {
    text: &'t [u8],
    /// The text from the start of a time of day on that `%T` or `%r` could not read.
    wrong_time: Option<&'t [u8]>,
}

/// A text that was read.
pub(super) struct Parsed {
    /// The date and time.
    pub moment: DateTime,
    /// The time of day plus as many days as the day of the month.
    pub time: Time,
    /// Whether text other than white space is left over.
    pub rest: bool,
}

/// A text that does not match its format.
pub(super) struct Mismatch<'t> {
    /// The type in the message: `datetime`, or `time` within `%T` and `%r`.
    pub kind: &'static str,
    /// The part that could not be read.
    pub text: &'t [u8],
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        self.text = self.text.trim_ascii_start();
    }

    /// Reads a number of at most `most` digits.
    fn number(&mut self, most: usize) -> Option<i64> {
        let digits = self
            .text
            .iter()
            .take(most)
            .take_while(|b| b.is_ascii_digit());
        let count = digits.count();
        let (digits, rest) = self.text.split_at_checked(count)?;
        let value = digits.iter().fold(0, |n, d| n * 10 + i64::from(d - b'0'));
        self.text = rest;
        (count > 0).then_some(value)
    }

    /// Reads a fraction of a second as microseconds.
    fn fraction(&mut self) -> Option<i64> {
        let before = self.text.len();
        let value = self.number(6)?;
        let digits = u32::try_from(before - self.text.len()).ok()?;
        Some(value * 10i64.pow(6 - digits))
    }

    /// Reads a name, whole or by its first three letters. Returns its index.
    fn name(&mut self, names: &[&str], whole: bool) -> Option<i64> {
        let letters = |b: &&u8| b.is_ascii_alphabetic();
        let length = self.text.iter().take_while(letters).count();
        let (word, rest) = self.text.split_at_checked(length)?;
        let names = names.iter().filter_map(|name| {
            let length = if whole { name.len() } else { 3 };
            name.get(..length).map(str::as_bytes)
        });
        // An unambiguous prefix of a name is enough.
        let is_start = |name: &[u8]| {
            let start = name.get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        let found = names.enumerate().filter(|(_, name)| is_start(name));
        let found: Vec<(usize, &[u8])> = found.collect();
        let at = match found.as_slice() {
            [(at, _)] if !word.is_empty() => *at,
            several => several.iter().find(|(_, name)| name.len() == length)?.0,
        };
        self.text = rest;
        Some(at as i64)
    }

    /// Skips the bytes at the start that pass a test.
    fn skip(&mut self, test: fn(&u8) -> bool) {
        let count = self.text.iter().take_while(|b| test(b)).count();
        self.text = self.text.get(count..).unwrap_or_default();
    }

    fn byte(&mut self, wanted: u8) -> Option<()> {
        let (first, rest) = self.text.split_first()?;
        self.text = rest;
        (*first == wanted).then_some(())
    }

    fn literal_time(&mut self, f: &mut Fields) -> Option<()> {
        f.hour = self.number(2)?;
        self.byte(b':')?;
        f.minute = self.number(2)?;
        self.byte(b':')?;
        f.second = self.number(2)?;
        Some(())
    }

    fn meridiem(&mut self, f: &mut Fields) -> Option<()> {
        let letters = self.text.get(..2)?;
        f.afternoon = Some(match letters {
            l if l.eq_ignore_ascii_case(b"AM") => false,
            l if l.eq_ignore_ascii_case(b"PM") => true,
            _ => return None,
        });
        self.text = self.text.get(2..)?;
        Some(())
    }
}

/// Parses a text by a format of STR_TO_DATE.
///
/// # Errors
/// If it does not match, or a value is out of range.
pub(super) fn parse<'t>(text: &'t [u8], format: &[u8]) -> Result<Parsed, Mismatch<'t>> {
    let mut r = Reader {
        text,
        wrong_time: None,
    };
    match read(&mut r, format) {
        Some((moment, time)) => Ok(Parsed {
            moment,
            time,
            rest: !r.text.trim_ascii().is_empty(),
        }),
        None => Err(Mismatch {
            kind: if r.wrong_time.is_some() {
                "time"
            } else {
                "datetime"
            },
            text: r.wrong_time.unwrap_or(text),
        }),
    }
}

fn read(r: &mut Reader<'_>, format: &[u8]) -> Option<(DateTime, Time)> {
    let mut f = Fields::default();
    let mut specs = format.iter().copied();
    while let Some(byte) = specs.next() {
        if byte.is_ascii_whitespace() {
            r.skip_space();
            continue;
        }
        r.skip_space();
        if r.text.is_empty() {
            break;
        }
        if byte == b'%' {
            field(r, &mut f, specs.next()?)?;
        } else {
            r.byte(byte)?;
        }
    }
    finish(f)
}

fn field(r: &mut Reader<'_>, f: &mut Fields, spec: u8) -> Option<()> {
    match spec {
        b'Y' => {
            let before = r.text.len();
            let year = r.number(4)?;
            f.year = if before - r.text.len() <= 2 {
                century(year)
            } else {
                year
            };
        }
        b'y' => f.year = century(r.number(2)?),
        b'm' | b'c' => f.month = r.number(2)?,
        b'M' => f.month = r.name(&MONTHS, true)? + 1,
        b'b' => f.month = r.name(&MONTHS, false)? + 1,
        b'd' | b'e' => f.day = r.number(2)?,
        b'D' => {
            f.day = r.number(2)?;
            r.text = r.text.get(2..)?;
        }
        b'j' => f.day_of_year = Some(r.number(3)?),
        b'H' | b'k' => f.hour = r.number(2)?,
        b'h' | b'I' | b'l' => {
            f.hour = r.number(2)?;
            f.twelve_hours = true;
        }
        b'i' => f.minute = r.number(2)?,
        b's' | b'S' => f.second = r.number(2)?,
        b'f' => f.micros = r.fraction()?,
        b'p' if f.twelve_hours => r.meridiem(f)?,
        b'T' | b'r' => time_of_day(r, f, spec == b'r')?,
        b'U' => f.week = Some((r.number(2)?, 0)),
        b'u' => f.week = Some((r.number(2)?, 1)),
        b'V' => f.week = Some((r.number(2)?, 2)),
        b'v' => f.week = Some((r.number(2)?, 3)),
        b'X' | b'x' => f.week_year = Some((r.number(4)?, spec)),
        b'W' => f.weekday = Some(r.name(&WEEKDAYS, true)?),
        b'a' => f.weekday = Some(r.name(&WEEKDAYS, false)?),
        b'w' => f.weekday = Some((r.number(1)? + 6) % 7),
        b'%' => r.byte(b'%')?,
        b'.' => r.skip(u8::is_ascii_punctuation),
        b'@' => r.skip(u8::is_ascii_alphabetic),
        b'#' => r.skip(u8::is_ascii_digit),
        _ => return None,
    }
    Some(())
}

/// Reads `%T`, or `%r` of twelve hours.
fn time_of_day(r: &mut Reader<'_>, f: &mut Fields, twelve_hours: bool) -> Option<()> {
    r.wrong_time = Some(r.text);
    r.literal_time(f)?;
    if twelve_hours {
        if !(1..=12).contains(&f.hour) {
            return None;
        }
        f.twelve_hours = true;
        r.skip_space();
        r.meridiem(f)?;
    }
    if f.hour > 23 || f.minute > 59 || f.second > 59 {
        return None;
    }
    r.wrong_time = None;
    Some(())
}

fn century(year: i64) -> i64 {
    if year < 70 { year + 2000 } else { year + 1900 }
}

fn finish(mut f: Fields) -> Option<(DateTime, Time)> {
    if f.twelve_hours {
        if !(1..=12).contains(&f.hour) {
            return None;
        }
        f.hour %= 12;
    }
    if f.afternoon == Some(true) {
        if !f.twelve_hours {
            return None;
        }
        f.hour += 12;
    }
    let narrow = |v: i64| u8::try_from(v).ok();
    let mut date = Date::new(
        u16::try_from(f.year).ok()?,
        narrow(f.month)?,
        narrow(f.day)?,
    )?;
    if let Some(days) = f.day_of_year.filter(|d| *d > 0) {
        let first = Date::new(u16::try_from(f.year).ok()?, 1, 1)?;
        date = Date::from_days(first.to_days() + days - 1)?;
    }
    if let (Some((week, mode)), Some(weekday)) = (f.week, f.weekday) {
        // `%V` needs `%X` and `%v` needs `%x`; `%U` and `%u` need `%Y`.
        let year = match (mode, f.week_year) {
            (2, Some((year, b'X'))) | (3, Some((year, b'x'))) => year,
            (0 | 1, None) => f.year,
            _ => return None,
        };
        date = of_week(year, week, mode, weekday)?;
    }
    if f.hour > 23 || f.minute > 59 || f.second > 59 {
        return None;
    }
    let moment = DateTime::new(
        date,
        narrow(f.hour)?,
        narrow(f.minute)?,
        narrow(f.second)?,
        u32::try_from(f.micros).ok()?,
    )?;
    let days = i64::from(moment.day()) * 24 * 3600 * 1_000_000;
    let (time, _) = Time::clip(days + moment.time().as_micros());
    Some((moment, time))
}

/// The date of a weekday in a week of a year.
fn of_week(year: i64, week: i64, mode: u8, weekday: i64) -> Option<Date> {
    let first = Date::new(u16::try_from(year).ok()?, 1, 1)?.to_days() + (week - 1) * 7 - 8;
    (first..first + 24)
        .filter_map(Date::from_days)
        .filter(|d| i64::from(d.weekday()) == weekday)
        .find(|d| {
            let (y, w) = d.week(mode);
            let same_year = match mode {
                0 | 1 => i64::from(d.year()) == year,
                _ => i64::from(y) == year,
            };
            i64::from(w) == week && same_year
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, format: &str) -> String {
        let parsed = match parse(text.as_bytes(), format.as_bytes()) {
            Ok(parsed) => parsed,
            Err(wrong) => return format!("no {}", wrong.kind),
        };
        let mut out = Vec::new();
        parsed.moment.write_text(6, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn formats_read() {
        let cases = [
            ("01,5,2013", "%d,%m,%Y", "2013-05-01 00:00:00.000000"),
            ("May 1st 13", "%b %D %y", "2013-05-01 00:00:00.000000"),
            ("9:30:17 pm", "%h:%i:%s %p", "0000-00-00 21:30:17.000000"),
            ("200442 Monday", "%X%V %W", "2004-10-18 00:00:00.000000"),
            ("2020-060", "%Y-%j", "2020-02-29 00:00:00.000000"),
            (
                "2020-01-02 03:04:05.12 rest",
                "%Y-%m-%d %T.%f",
                "2020-01-02 03:04:05.120000",
            ),
            ("abc", "%Y", "no datetime"),
            ("2001 13:00:00 PM", "%Y %r", "no time"),
            ("2020-13-01", "%Y-%m-%d", "no datetime"),
            ("25:00:00", "%H:%i:%s", "no datetime"),
            ("10:20:10AM", "%H:%i:%s%p", "no datetime"),
            (
                "2003-....01ABCD-02 10:11:12.0012",
                "%Y-%.%m%@-%d %H:%i:%S.%f",
                "2003-01-02 10:11:12.001200",
            ),
        ];
        for (input, format, expected) in cases {
            assert_eq!(text(input, format), expected, "{input} by {format}");
        }
    }
}
