//! GET_FORMAT and TIME_FORMAT (manual, "Date and Time Functions").

use super::Call;
use crate::error::Result;
use porpoise_base::interrupt::Pacer;
use porpoise_types::ValueRef;

/// GET_FORMAT().
pub(super) fn get_format<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(kind), Some(region)) = (c.text(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    let region = String::from_utf8_lossy(region).to_ascii_uppercase();
    let format = match (kind, region.as_str()) {
        (b"DATE", "USA") => "%m.%d.%Y",
        (b"DATE", "JIS" | "ISO") => "%Y-%m-%d",
        (b"DATE", "EUR") => "%d.%m.%Y",
        (b"DATE", "INTERNAL") => "%Y%m%d",
        (b"DATETIME", "USA" | "EUR") => "%Y-%m-%d %H.%i.%s",
        (b"DATETIME", "JIS" | "ISO") => "%Y-%m-%d %H:%i:%s",
        (b"DATETIME", "INTERNAL") => "%Y%m%d%H%i%s",
        (b"TIME", "USA") => "%h:%i:%s %p",
        (b"TIME", "JIS" | "ISO") => "%H:%i:%s",
        (b"TIME", "EUR") => "%H.%i.%s",
        (b"TIME", "INTERNAL") => "%H%i%s",
        _ => return Ok(ValueRef::Null),
    };
    Ok(ValueRef::Bytes(format.as_bytes()))
}

/// TIME_FORMAT(): hours may exceed 23; date specifiers give zeros or a NULL result.
pub(super) fn time_format<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let (Some(time), Some(format)) = (c.time(0)?, c.text(1)?) else {
        return Ok(ValueRef::Null);
    };
    let hour = time.hour();
    let twelve = match hour % 12 {
        0 => 12,
        h => h,
    };
    let meridiem = if hour % 24 < 12 { "AM" } else { "PM" };
    let (minute, second) = (time.minute(), time.second());
    let mut out = String::new();
    let format = String::from_utf8_lossy(format);
    let mut characters = format.chars();
    if time.is_negative() {
        out.push('-');
    }
    let mut pacer = Pacer::new();
    while let Some(plain) = characters.next() {
        pacer.tick()?;
        if let Some(null) = c.too_long(out.len()) {
            return Ok(null);
        }
        if plain != '%' {
            out.push(plain);
            continue;
        }
        match characters.next() {
            Some('H') => out.push_str(&format!("{hour:02}")),
            Some('k') => out.push_str(&hour.to_string()),
            Some('h' | 'I') => out.push_str(&format!("{twelve:02}")),
            Some('l') => out.push_str(&twelve.to_string()),
            Some('i') => out.push_str(&format!("{minute:02}")),
            Some('s' | 'S') => out.push_str(&format!("{second:02}")),
            Some('f') => out.push_str(&format!("{:06}", time.micros())),
            Some('p') => out.push_str(meridiem),
            Some('r') => out.push_str(&format!("{twelve:02}:{minute:02}:{second:02} {meridiem}")),
            Some('T') => out.push_str(&format!("{hour:02}:{minute:02}:{second:02}")),
            Some('c' | 'e') => out.push('0'),
            Some('d' | 'm' | 'y') => out.push_str("00"),
            Some('Y') => out.push_str("0000"),
            Some('a' | 'b' | 'D' | 'j' | 'M' | 'U' | 'u' | 'V' | 'v' | 'W' | 'w' | 'X' | 'x') => {
                return Ok(ValueRef::Null);
            }
            Some(other) => out.push(other),
            None => break,
        }
    }
    Ok(c.keep(out.as_bytes()))
}
