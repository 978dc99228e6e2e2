//! Client half of the ASCII dialect: request writers, and a resumable reply
//! parser over a buffer. The writers do not validate keys.

use super::command::{Mode, Store};
use super::commands::Command;
use super::number::unsigned;
use super::tokens::Words;

/// Longest line of a reply in bytes; a longer one is [`Answer::Malformed`].
const MAX_LINE: usize = 64 << 10;

/// One line of a reply, with its data block if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A row of a get; further rows or [`Reply::End`] follow.
    Value {
        /// Key of the item.
        key: &'a [u8],
        /// The client's 32 bits.
        flags: u32,
        /// The value.
        data: &'a [u8],
        /// The version, for `gets` and `gats`.
        cas: Option<u64>,
    },
    /// The end of a get or of `stats`.
    End,
    /// `STORED`.
    Stored,
    /// `NOT_STORED`.
    NotStored,
    /// `EXISTS`.
    Exists,
    /// `NOT_FOUND`.
    NotFound,
    /// `DELETED`.
    Deleted,
    /// `TOUCHED`.
    Touched,
    /// `OK`.
    Ok,
    /// `RESET`.
    Reset,
    /// The new value after `incr` or `decr`.
    Number(u64),
    /// `VERSION` and its text.
    Version(&'a [u8]),
    /// A line of `stats`.
    Stat {
        /// Name of the statistic.
        name: &'a [u8],
        /// Value of the statistic.
        value: &'a [u8],
    },
    /// `ERROR`, `CLIENT_ERROR ...` or `SERVER_ERROR ...`, the whole line.
    Error(&'a [u8]),
}

/// Outcome of [`parse_reply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// At least this many more bytes are needed.
    NeedMore(usize),
    /// A reply and its length in the buffer.
    Reply(Reply<'a>, usize),
    /// The bytes are not a reply of this protocol.
    Malformed,
}

/// Parses the reply at the start of `buf`. A value longer than `max_value` bytes is
/// [`Answer::Malformed`].
pub fn parse_reply(buf: &[u8], max_value: usize) -> Answer<'_> {
    let Some(end) = memchr::memchr(b'\n', buf) else {
        if buf.len() > MAX_LINE {
            return Answer::Malformed;
        }
        return Answer::NeedMore(1);
    };
    let line = buf.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let used = end + 1;
    let mut words = Words::new(line);
    let Some(first) = words.next() else {
        return Answer::Malformed;
    };
    let reply = match first {
        b"VALUE" => return value(words, buf, used, max_value),
        b"END" => Reply::End,
        b"STORED" => Reply::Stored,
        b"NOT_STORED" => Reply::NotStored,
        b"EXISTS" => Reply::Exists,
        b"NOT_FOUND" => Reply::NotFound,
        b"DELETED" => Reply::Deleted,
        b"TOUCHED" => Reply::Touched,
        b"OK" => Reply::Ok,
        b"RESET" => Reply::Reset,
        b"VERSION" => Reply::Version(words.rest().trim_ascii_start()),
        b"STAT" => {
            let name = words.next().unwrap_or_default();
            let value = words.rest();
            let value = value.strip_prefix(b" ").unwrap_or(value);
            Reply::Stat { name, value }
        }
        b"ERROR" | b"ERROR:" | b"CLIENT_ERROR" | b"SERVER_ERROR" => Reply::Error(line),
        // memcached pads a counter with spaces when it loses digits.
        digits => match unsigned(digits) {
            Some(n) => Reply::Number(n),
            None => return Answer::Malformed,
        },
    };
    Answer::Reply(reply, used)
}

/// Parses a `VALUE` line, of which `words` are the words after the first, and its data block. `line`
/// is the length of the line with its end.
fn value<'a>(mut words: Words<'a>, buf: &'a [u8], line: usize, max_value: usize) -> Answer<'a> {
    let (Some(key), Some(flags), Some(length)) = (words.next(), words.next(), words.next()) else {
        return Answer::Malformed;
    };
    let flags = unsigned(flags).and_then(|n| u32::try_from(n).ok());
    let length = unsigned(length).and_then(|n| usize::try_from(n).ok());
    let (Some(flags), Some(length)) = (flags, length) else {
        return Answer::Malformed;
    };
    let cas = match words.next() {
        None => None,
        Some(word) => match unsigned(word) {
            None => return Answer::Malformed,
            some => some,
        },
    };
    if length > max_value {
        return Answer::Malformed;
    }
    let used = line + length + 2;
    let Some(block) = buf.get(line..used) else {
        return Answer::NeedMore(used - buf.len());
    };
    let Some(data) = block.strip_suffix(b"\r\n") else {
        return Answer::Malformed;
    };
    let reply = Reply::Value {
        key,
        flags,
        data,
        cas,
    };
    Answer::Reply(reply, used)
}

/// Appends `get` or `gets` of `keys`.
pub fn get<'k>(out: &mut Vec<u8>, keys: impl IntoIterator<Item = &'k [u8]>, cas: bool) {
    out.extend_from_slice(if cas { b"gets" } else { b"get" });
    finish_keys(out, keys);
}

/// Appends `gat` or `gats` of `keys` with a new expiry time.
pub fn gat<'k>(
    out: &mut Vec<u8>,
    exptime: i64,
    keys: impl IntoIterator<Item = &'k [u8]>,
    cas: bool,
) {
    out.extend_from_slice(if cas { b"gats " } else { b"gat " });
    out.extend_from_slice(itoa::Buffer::new().format(exptime).as_bytes());
    finish_keys(out, keys);
}

/// Appends keys and the end of the line.
fn finish_keys<'k>(out: &mut Vec<u8>, keys: impl IntoIterator<Item = &'k [u8]>) {
    for key in keys {
        out.push(b' ');
        out.extend_from_slice(key);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the name of a command and a space.
fn command_name(out: &mut Vec<u8>, command: Command) {
    out.extend_from_slice(command.word().unwrap_or_default());
    out.push(b' ');
}

/// Appends a storage command with its value. Fields of `store` that the classic commands cannot
/// express are ignored.
pub fn store(out: &mut Vec<u8>, store: &Store<'_>, noreply: bool) {
    let command = match (store.mode, store.compare) {
        (Mode::Set, Some(_)) => Command::Cas,
        (Mode::Set, None) => Command::Set,
        (Mode::Add, _) => Command::Add,
        (Mode::Replace, _) => Command::Replace,
        (Mode::Append, _) => Command::Append,
        (Mode::Prepend, _) => Command::Prepend,
    };
    let mut digits = itoa::Buffer::new();
    command_name(out, command);
    out.extend_from_slice(store.key);
    out.push(b' ');
    out.extend_from_slice(digits.format(store.flags).as_bytes());
    out.push(b' ');
    out.extend_from_slice(digits.format(store.exptime).as_bytes());
    out.push(b' ');
    out.extend_from_slice(digits.format(store.value.len()).as_bytes());
    if let (Command::Cas, Some(version)) = (command, store.compare) {
        out.push(b' ');
        out.extend_from_slice(digits.format(version).as_bytes());
    }
    finish(out, noreply);
    out.extend_from_slice(store.value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `incr`, or `decr` if `decrement` is set.
pub fn arithmetic(out: &mut Vec<u8>, key: &[u8], delta: u64, decrement: bool, noreply: bool) {
    out.extend_from_slice(if decrement { b"decr " } else { b"incr " });
    out.extend_from_slice(key);
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(delta).as_bytes());
    finish(out, noreply);
}

/// Appends `delete`.
pub fn delete(out: &mut Vec<u8>, key: &[u8], noreply: bool) {
    out.extend_from_slice(b"delete ");
    out.extend_from_slice(key);
    finish(out, noreply);
}

/// Appends `touch`.
pub fn touch(out: &mut Vec<u8>, key: &[u8], exptime: i64, noreply: bool) {
    out.extend_from_slice(b"touch ");
    out.extend_from_slice(key);
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(exptime).as_bytes());
    finish(out, noreply);
}

/// Appends `flush_all`.
pub fn flush_all(out: &mut Vec<u8>, delay: i64, noreply: bool) {
    out.extend_from_slice(b"flush_all ");
    out.extend_from_slice(itoa::Buffer::new().format(delay).as_bytes());
    finish(out, noreply);
}

/// Appends `noreply` if wanted, and the end of the line.
fn finish(out: &mut Vec<u8>, noreply: bool) {
    out.extend_from_slice(if noreply { b" noreply\r\n" } else { b"\r\n" });
}
