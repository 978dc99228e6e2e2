//! Reply writers of meta commands. All append to the connection's output.
//!
//! The fields of a reply have the order of the flags that requested them. For `mg` the
//! flags `Z`, `X` and `W` follow in this order, as in memcached 1.6.18, whose
//! documentation tells clients not to rely on it.

use super::command::{Item, Outcome, Status};
use super::commands::Command;
use super::meta::ReplyFormat;

/// State of an item's refresh, for `mg`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefreshState {
    /// Whether this client is to recache the item (`W`).
    pub is_winner: bool,
    /// Whether the item is stale (`X`).
    pub stale: bool,
    /// Whether another client has been chosen to refresh the item (`Z`).
    pub is_sent: bool,
}

/// An item that `mg` found, with its metadata.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    /// The item, as it is after the command.
    pub item: Item<'a>,
    /// Expiry time before the command, which `t` reports if it precedes `T`.
    pub expired_before: i64,
    /// Current time in seconds since 1970.
    pub now: i64,
    /// Whether the item was read before (`h`).
    pub fetched: bool,
    /// Seconds since the last access (`l`).
    pub idle: u64,
    /// State of its refresh.
    pub refresh: RefreshState,
}

fn number(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

fn field(out: &mut Vec<u8>, letter: u8, n: u64) {
    out.extend_from_slice(&[b' ', letter]);
    number(out, n);
}

/// Appends the seconds that remain until `expires`; -1 for an item that does not expire.
fn remaining(out: &mut Vec<u8>, expires: i64, now: i64) {
    if expires == 0 {
        out.extend_from_slice(b" t-1");
    } else {
        let left = expires.saturating_sub(now).max(0);
        field(out, b't', left.cast_unsigned());
    }
}

fn key(out: &mut Vec<u8>, format: &ReplyFormat<'_>) {
    out.extend_from_slice(b" k");
    out.extend_from_slice(format.key);
    if format.base64 {
        out.extend_from_slice(b" b");
    }
}

/// Appends key and opaque, if requested.
fn echo(out: &mut Vec<u8>, format: &ReplyFormat<'_>, word: &[u8]) {
    match word.first() {
        Some(b'k') => key(out, format),
        Some(b'O') => {
            out.push(b' ');
            out.extend_from_slice(word);
        }
        _ => {}
    }
}

/// Appends the reply of `mg` for an existing item.
#[inline]
pub fn hit(out: &mut Vec<u8>, format: &ReplyFormat<'_>, hit: &Hit<'_>) {
    let item = &hit.item;
    out.reserve(format.words.rest().len() + format.key.len() + item.value.len() + 128);
    if format.value {
        out.extend_from_slice(b"VA ");
        number(out, item.value.len() as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    let mut expires = hit.expired_before;
    for word in format.words {
        match word.first() {
            Some(b'T') => expires = item.expires,
            Some(b's') => field(out, b's', item.value.len() as u64),
            Some(b't') => remaining(out, expires, hit.now),
            Some(b'c') => field(out, b'c', item.version),
            Some(b'f') => field(out, b'f', u64::from(item.flags)),
            Some(b'h') => field(out, b'h', u64::from(hit.fetched)),
            Some(b'l') => field(out, b'l', hit.idle),
            _ => echo(out, format, word),
        }
    }
    for (set, mark) in [
        (hit.refresh.is_sent, b" Z"),
        (hit.refresh.stale, b" X"),
        (hit.refresh.is_winner, b" W"),
    ] {
        if set {
            out.extend_from_slice(mark);
        }
    }
    out.extend_from_slice(b"\r\n");
    if format.value {
        out.extend_from_slice(item.value);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the reply of `mg` for a missing item: nothing if it is quiet.
#[inline]
pub fn miss(out: &mut Vec<u8>, format: &ReplyFormat<'_>) {
    if !format.quiet {
        status(out, b"EN", format);
    }
}

/// Appends a code, and key and opaque if requested.
fn status(out: &mut Vec<u8>, code: &[u8], format: &ReplyFormat<'_>) {
    out.extend_from_slice(code);
    for word in format.words {
        echo(out, format, word);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the outcome of `ms`, `md` or `ma`. `now` is the time in seconds since 1970.
pub fn outcome(out: &mut Vec<u8>, format: &ReplyFormat<'_>, outcome: &Outcome, now: i64) {
    let code: &[u8] = match outcome.status {
        Status::Counted => return counted(out, format, outcome, now),
        Status::Stored => {
            if !format.quiet {
                stored(out, b"HD", format, outcome.version);
            }
            return;
        }
        Status::Deleted | Status::Touched => {
            if !format.quiet {
                status(out, b"HD", format);
            }
            return;
        }
        Status::NotStored => b"NS",
        Status::Exists => b"EX",
        Status::NotFound => b"NF",
        Status::NotNumeric | Status::TooLarge => return super::reply::outcome(out, outcome),
    };
    stored(out, code, format, outcome.version);
}

/// Appends a code with the version, if requested.
fn stored(out: &mut Vec<u8>, code: &[u8], format: &ReplyFormat<'_>, version: u64) {
    out.extend_from_slice(code);
    for word in format.words {
        match word.first() {
            Some(b'c') if format.command == Command::MetaSet => field(out, b'c', version),
            _ => echo(out, format, word),
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn counted(out: &mut Vec<u8>, format: &ReplyFormat<'_>, outcome: &Outcome, now: i64) {
    if format.quiet && !outcome.created {
        return;
    }
    let mut digits = itoa::Buffer::new();
    let text = digits.format(outcome.number).as_bytes();
    if format.value {
        out.extend_from_slice(b"VA ");
        number(out, text.len() as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    for word in format.words {
        match word.first() {
            Some(b'c') => field(out, b'c', outcome.version),
            Some(b't') => remaining(out, outcome.expires, now),
            _ => echo(out, format, word),
        }
    }
    out.extend_from_slice(b"\r\n");
    if format.value {
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the reply of `me` for an existing item.
pub fn debug(out: &mut Vec<u8>, format: &ReplyFormat<'_>, hit: &Hit<'_>) {
    out.extend_from_slice(b"ME ");
    out.extend_from_slice(format.key);
    out.extend_from_slice(b" exp=");
    if hit.item.expires == 0 {
        out.extend_from_slice(b"-1");
    } else {
        let past = hit.now.saturating_sub(hit.item.expires);
        out.extend_from_slice(itoa::Buffer::new().format(past).as_bytes());
    }
    out.extend_from_slice(b" la=");
    number(out, hit.idle);
    out.extend_from_slice(b" cas=");
    number(out, hit.item.version);
    let fetched: &[u8] = if hit.fetched { b"yes" } else { b"no" };
    out.extend_from_slice(b" fetch=");
    out.extend_from_slice(fetched);
    // Rows have no slab class.
    out.extend_from_slice(b" cls=0 size=");
    let length = match format.decoded() {
        Some(decoded) => decoded.bytes().len(),
        None => format.key.len(),
    };
    number(out, (length + hit.item.value.len()) as u64);
    out.extend_from_slice(b"\r\n");
}

/// Appends `EN`, the reply of `me` for a missing item.
pub fn missing(out: &mut Vec<u8>) {
    out.extend_from_slice(b"EN\r\n");
}

/// The reply of `mn`.
pub const NOOP: &[u8] = b"MN\r\n";
