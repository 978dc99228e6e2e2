//! PostgreSQL's protocol, version 3: prepared statements by Bind, Execute and
//! Sync in one write. Integers go as text, texts and bytes in binary form,
//! results come as text.

use super::{Answer, Argument, Call, Codec, Progress, Verb};
use crate::error::{Error, Result};

/// Maximum length of a message, in bytes.
pub const MAX_MESSAGE: usize = 64 << 20;

/// Bytes before a message's contents: type and length.
const HEADER: usize = 5;

/// Codec for a connection that has logged in; statement n is prepared as
/// `sN`.
#[derive(Debug, Default)]
pub struct Postgres {
    /// Number of statements prepared.
    statements: usize,
}

/// Appends a message: its type, its length, what `write` appends.
pub fn message(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    untyped(out, write);
}

/// Appends a message without a type, as the first one is.
pub fn untyped(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    if let Some(slot) = out.get_mut(start..start + 4) {
        slot.copy_from_slice(&length.to_be_bytes());
    }
}

/// Appends text and its terminating zero.
pub fn text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.push(0);
}

/// The message at the start of `input`: its type, its contents, its length.
///
/// # Errors
/// A length that cannot be.
pub fn next_message(input: &[u8]) -> Result<Option<(u8, &[u8], usize)>> {
    let Some((head, _)) = input.split_at_checked(HEADER) else {
        return Ok(None);
    };
    let &[kind, a, b, c, d] = head else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize + 1;
    if !(HEADER..=MAX_MESSAGE).contains(&length) {
        return Err(Error::failed(
            "an answer that is not PostgreSQL's protocol, or over 64 MiB",
        ));
    }
    Ok(input
        .get(HEADER..length)
        .map(|contents| (kind, contents, length)))
}

/// SQLSTATE and text of an error message.
pub fn error_text(contents: &[u8]) -> String {
    let mut state = "";
    let mut message = "";
    for field in contents.split(|b| *b == 0) {
        let Some((kind, value)) = field.split_first() else {
            continue;
        };
        let value = std::str::from_utf8(value).unwrap_or_default();
        match kind {
            b'C' => state = value,
            b'M' => message = value,
            _ => {}
        }
    }
    format!("{state} {message}")
}

/// Appends Parse of a statement under its number; `?` become `$1`, `$2`, ...
pub fn parse(out: &mut Vec<u8>, number: usize, statement: &str) {
    message(out, b'P', |out| {
        text(out, format!("s{number}").as_bytes());
        let mut pieces = statement.split('?');
        out.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
        for (i, piece) in pieces.enumerate() {
            out.extend_from_slice(format!("${}{piece}", i + 1).as_bytes());
        }
        out.extend_from_slice(&[0, 0, 0]);
    });
}

/// Appends Sync.
pub fn sync(out: &mut Vec<u8>) {
    message(out, b'S', |_| ());
}

/// Appends a plain query.
pub fn simple(out: &mut Vec<u8>, statement: &[u8]) {
    message(out, b'Q', |out| text(out, statement));
}

impl Postgres {
    /// A codec for a connection with this number of prepared statements.
    pub fn new(statements: usize) -> Postgres {
        Postgres { statements }
    }

    fn take_row(contents: &[u8], answer: &mut Answer) -> Option<()> {
        let (count, mut rest) = contents.split_first_chunk::<2>()?;
        answer.rows += 1;
        for _ in 0..u16::from_be_bytes(*count) {
            let (length, values) = rest.split_first_chunk::<4>()?;
            match usize::try_from(i32::from_be_bytes(*length)) {
                Err(_) => {
                    answer.push(None);
                    rest = values;
                }
                Ok(length) => {
                    let (value, after) = values.split_at_checked(length)?;
                    answer.push(Some(value));
                    rest = after;
                }
            }
        }
        Some(())
    }
}

impl Codec for Postgres {
    fn encode(&mut self, call: &Call, out: &mut Vec<u8>) -> Result<()> {
        let number = match call.verb() {
            Verb::Statement(number) if number < self.statements => number,
            Verb::Text => {
                if let Some(Argument::Bytes(text)) = call.args().next() {
                    simple(out, text);
                }
                return Ok(());
            }
            _ => return Err(Error::failed("an unknown prepared statement")),
        };
        message(out, b'B', |out| {
            out.push(0);
            out.push(b's');
            text(out, itoa::Buffer::new().format(number).as_bytes());
            let count = u16::try_from(call.args().len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&count.to_be_bytes());
            for arg in call.args() {
                let binary = matches!(arg, Argument::Bytes(_));
                out.extend_from_slice(&u16::from(binary).to_be_bytes());
            }
            out.extend_from_slice(&count.to_be_bytes());
            for arg in call.args() {
                untyped_value(out, arg);
            }
            out.extend_from_slice(&[0, 0]);
        });
        message(out, b'E', |out| out.extend_from_slice(&[0; 5]));
        sync(out);
        Ok(())
    }

    fn decode(&mut self, input: &mut [u8], answer: &mut Answer) -> Result<Progress> {
        let mut used = 0;
        while let Some((kind, contents, length)) =
            next_message(input.get(used..).unwrap_or_default())?
        {
            used += length;
            match kind {
                b'D' => Postgres::take_row(contents, answer)
                    .ok_or_else(|| Error::failed("a malformed row of PostgreSQL's protocol"))?,
                b'C' => answer.affected += rows_in_tag(contents),
                b'E' => answer.error = Some(error_text(contents)),
                b'Z' => return Ok(Progress::Done(used)),
                _ => {}
            }
        }
        Ok(Progress::More(used))
    }
}

/// Takes a value with its length before it; the length does not include itself.
fn untyped_value(out: &mut Vec<u8>, arg: Argument<'_>) {
    let mut digits = itoa::Buffer::new();
    let bytes = match arg {
        Argument::Int(n) => digits.format(n).as_bytes(),
        Argument::Bytes(bytes) => bytes,
    };
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// `INSERT 0 5`, `UPDATE 3`: the last number; a SELECT changes nothing.
fn rows_in_tag(tag: &[u8]) -> u64 {
    let tag = std::str::from_utf8(tag).unwrap_or_default();
    let tag = tag.trim_end_matches('\0');
    if tag.starts_with("SELECT") {
        return 0;
    }
    tag.rsplit(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_come_in_any_pieces() {
        let mut whole = Vec::new();
        message(&mut whole, b'2', |_| ());
        message(&mut whole, b'D', |out| {
            out.extend_from_slice(&[0, 2, 0, 0, 0, 1, b'x', 0xff, 0xff, 0xff, 0xff]);
        });
        message(&mut whole, b'C', |out| text(out, b"UPDATE 3"));
        message(&mut whole, b'Z', |out| out.push(b'I'));
        for cut in 0..whole.len() {
            let mut codec = Postgres::new(1);
            let mut answer = Answer::default();
            let mut first = whole[..cut].to_vec();
            let Progress::More(used) = codec.decode(&mut first, &mut answer).unwrap() else {
                panic!("complete after {cut} bytes");
            };
            let mut rest = whole[used..].to_vec();
            let done = codec.decode(&mut rest, &mut answer).unwrap();
            assert_eq!(done, Progress::Done(whole.len() - used));
            assert_eq!(answer.cell(0), Some(&b"x"[..]));
            assert_eq!(answer.cell(1), None);
            assert_eq!((answer.rows, answer.affected), (1, 3));
        }
    }

    #[test]
    fn noise_is_an_error_and_a_refusal_is_kept() {
        let mut codec = Postgres::new(1);
        let mut answer = Answer::default();
        assert!(codec.decode(&mut [b'x'; 9].to_vec(), &mut answer).is_err());
        let mut refusal = Vec::new();
        message(&mut refusal, b'E', |out| {
            out.extend_from_slice(b"SERROR\0C23505\0Mduplicate key\0\0");
        });
        assert!(codec.decode(&mut refusal, &mut answer).is_ok());
        assert_eq!(answer.error.as_deref(), Some("23505 duplicate key"));
    }

    #[test]
    fn parameters_are_numbered() {
        let mut out = Vec::new();
        parse(&mut out, 3, "update t set v = ? where id = ?");
        let sent = String::from_utf8_lossy(&out).into_owned();
        assert!(
            sent.contains("s3\0update t set v = $1 where id = $2\0"),
            "{sent:?}"
        );
    }
}
