//! Formatting of dates and times.

use std::fmt;

use super::{Date, DateTime, Time, fraction_unit};

/// Appends `v` with at least `width` digits.
fn digits(v: u32, width: usize, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(v).as_bytes();
    for _ in text.len()..width {
        out.push(b'0');
    }
    out.extend_from_slice(text);
}

fn two_digits(v: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'0' + v / 10 % 10, b'0' + v % 10]);
}

fn fraction(micros: u32, fsp: u8, out: &mut Vec<u8>) {
    if fsp > 0 {
        let fsp = fsp.min(6);
        out.push(b'.');
        digits(micros / fraction_unit(fsp), usize::from(fsp), out);
    }
}

impl Date {
    /// Appends `YYYY-MM-DD`.
    pub fn write_text(self, out: &mut Vec<u8>) {
        digits(u32::from(self.year()), 4, out);
        out.push(b'-');
        two_digits(self.month(), out);
        out.push(b'-');
        two_digits(self.day(), out);
    }
}

impl DateTime {
    /// Appends `YYYY-MM-DD HH:MM:SS` with `fsp` digits of the second, further ones cut.
    pub fn write_text(self, fsp: u8, out: &mut Vec<u8>) {
        self.date().write_text(out);
        out.push(b' ');
        two_digits(self.hour(), out);
        out.push(b':');
        two_digits(self.minute(), out);
        out.push(b':');
        two_digits(self.second(), out);
        fraction(self.micros(), fsp, out);
    }
}

impl Time {
    /// Appends `[-]HH[H]:MM:SS` with `fsp` digits of the second, further ones cut.
    pub fn write_text(self, fsp: u8, out: &mut Vec<u8>) {
        if self.is_negative() {
            out.push(b'-');
        }
        digits(self.hour(), 2, out);
        out.push(b':');
        two_digits(self.minute(), out);
        out.push(b':');
        two_digits(self.second(), out);
        fraction(self.micros(), fsp, out);
    }
}

fn display(f: &mut fmt::Formatter<'_>, write: impl Fn(&mut Vec<u8>)) -> fmt::Result {
    let mut out = Vec::with_capacity(26);
    write(&mut out);
    f.write_str(&String::from_utf8_lossy(&out))
}

/// Number of fractional digits in `Display`: none or all six.
fn display_digits(micros: u32) -> u8 {
    if micros == 0 { 0 } else { 6 }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(f, |out| self.write_text(out))
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(f, |out| self.write_text(display_digits(self.micros()), out))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(f, |out| self.write_text(display_digits(self.micros()), out))
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Date({self})")
    }
}

impl fmt::Debug for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DateTime({self})")
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({self})")
    }
}
