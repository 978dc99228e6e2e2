//! Reply writers of the binary dialect. All append to the connection's output.

use super::binary::{Get, HEADER, ReplyHeader, StatusCode, opcode};
use super::command::{Item, Outcome, Status};

/// Magic byte: the first byte of a reply.
pub const REPLY_MAGIC: u8 = 0x81;

/// Appends a header, and reserves space for the body. `lengths` are those of extras, key and value.
fn header(
    out: &mut Vec<u8>,
    head: &ReplyHeader,
    status: StatusCode,
    lengths: (usize, usize, usize),
    cas: u64,
) {
    let (extras, key, value) = lengths;
    let body = extras + key + value;
    out.reserve(HEADER + body);
    out.extend_from_slice(&[REPLY_MAGIC, head.opcode]);
    // A key has at most 250 bytes, extras at most 8; a value is far below 4 GiB.
    out.extend_from_slice(&u16::try_from(key).unwrap_or(u16::MAX).to_be_bytes());
    out.push(u8::try_from(extras).unwrap_or(u8::MAX));
    out.push(0);
    out.extend_from_slice(&(status as u16).to_be_bytes());
    out.extend_from_slice(&u32::try_from(body).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(&head.opaque.to_be_bytes());
    out.extend_from_slice(&cas.to_be_bytes());
}

/// Appends an item that was found.
#[inline]
pub fn hit(out: &mut Vec<u8>, get: &Get<'_>, item: &Item<'_>) {
    let key = if get.with_key { get.key } else { &[] };
    let lengths = (4, key.len(), item.value.len());
    header(out, &get.head, StatusCode::Ok, lengths, item.version);
    out.extend_from_slice(&item.flags.to_be_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(item.value);
}

/// Appends the reply to a touch of an existing item: the item's flags.
pub fn touched(out: &mut Vec<u8>, get: &Get<'_>, item: &Item<'_>) {
    header(out, &get.head, StatusCode::Ok, (4, 0, 0), item.version);
    out.extend_from_slice(&item.flags.to_be_bytes());
}

/// Appends the reply to a read of an item that does not exist; nothing if the command is quiet.
#[inline]
pub fn miss(out: &mut Vec<u8>, get: &Get<'_>) {
    if get.head.quiet {
        return;
    }
    if get.with_key {
        header(
            out,
            &get.head,
            StatusCode::NotFound,
            (0, get.key.len(), 0),
            0,
        );
        out.extend_from_slice(get.key);
    } else {
        status(out, &get.head, StatusCode::NotFound);
    }
}

/// Appends a reply that is only a status, with memcached's text for it.
pub fn status(out: &mut Vec<u8>, head: &ReplyHeader, status: StatusCode) {
    let text = match status {
        StatusCode::Ok => "",
        StatusCode::NotFound => "Not found",
        StatusCode::Exists => "Data exists for key.",
        StatusCode::TooLarge => "Too large.",
        StatusCode::Invalid => "Invalid arguments",
        StatusCode::NotStored => "Not stored.",
        StatusCode::NotNumeric => "Non-numeric server-side value for incr or decr",
        StatusCode::Auth => "Auth failure.",
        StatusCode::Unknown => "Unknown command",
        StatusCode::Internal => "Internal error",
        StatusCode::Temporary => "Temporary failure",
    };
    status_with_text(out, head, status, text);
}

/// Appends an error status with the given text.
pub fn status_with_text(out: &mut Vec<u8>, head: &ReplyHeader, status: StatusCode, text: &str) {
    header(out, head, status, (0, 0, text.len()), 0);
    out.extend_from_slice(text.as_bytes());
}

/// Appends an empty success reply, unless the command is quiet.
pub fn done(out: &mut Vec<u8>, head: &ReplyHeader, cas: u64) {
    if !head.quiet {
        header(out, head, StatusCode::Ok, (0, 0, 0), cas);
    }
}

/// Appends the outcome of a command on one item.
pub fn outcome(out: &mut Vec<u8>, head: &ReplyHeader, outcome: &Outcome) {
    let code = match outcome.status {
        Status::Stored => return done(out, head, outcome.version),
        // A reply to a delete has CAS 0.
        Status::Deleted => return done(out, head, 0),
        Status::Touched => return done(out, head, outcome.version),
        Status::Counted => {
            if !head.quiet {
                header(out, head, StatusCode::Ok, (0, 0, 8), outcome.version);
                out.extend_from_slice(&outcome.number.to_be_bytes());
            }
            return;
        }
        Status::NotStored => match head.opcode {
            opcode::ADD | opcode::ADDQ => StatusCode::Exists,
            opcode::REPLACE | opcode::REPLACEQ => StatusCode::NotFound,
            _ => StatusCode::NotStored,
        },
        Status::Exists => StatusCode::Exists,
        Status::NotFound => StatusCode::NotFound,
        Status::NotNumeric => StatusCode::NotNumeric,
        Status::TooLarge => StatusCode::TooLarge,
    };
    status(out, head, code);
}

/// Appends the server's version.
pub fn version(out: &mut Vec<u8>, head: &ReplyHeader, text: &str) {
    header(out, head, StatusCode::Ok, (0, 0, text.len()), 0);
    out.extend_from_slice(text.as_bytes());
}

/// Appends one statistic. A reply with an empty name and value ends the replies to STAT.
pub fn stat(out: &mut Vec<u8>, head: &ReplyHeader, name: &[u8], value: &[u8]) {
    let lengths = (0, name.len(), value.len());
    header(out, head, StatusCode::Ok, lengths, 0);
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}
