//! Reply writers of the ASCII dialect. All append to the connection's output.

use super::command::{Outcome, Status};

/// `END` after the values of a get, or the lines of `stats`.
pub const END: &[u8] = b"END\r\n";
/// The value was stored.
pub const STORED: &[u8] = b"STORED\r\n";
/// A condition of `add`, `replace`, `append` or `prepend` did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// `cas` found another version.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// The key does not exist.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// The item was deleted.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// The expiry time was set.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// `flush_all` or `verbosity` succeeded.
pub const OK: &[u8] = b"OK\r\n";
/// `stats reset` succeeded.
pub const RESET: &[u8] = b"RESET\r\n";
/// Reply to an unknown command, or to one with a wrong number of words.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// Reply to `incr` or `decr` of a value that is not a number.
pub const NON_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

/// Appends `VALUE key flags length [cas]`, the value and CR LF.
#[inline]
pub fn value(out: &mut Vec<u8>, key: &[u8], flags: u32, data: &[u8], cas: Option<u64>) {
    let mut digits = itoa::Buffer::new();
    out.reserve(key.len() + data.len() + 56);
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    if flags == 0 {
        out.push(b'0');
    } else {
        out.extend_from_slice(digits.format(flags).as_bytes());
    }
    out.push(b' ');
    out.extend_from_slice(digits.format(data.len()).as_bytes());
    if let Some(cas) = cas {
        out.push(b' ');
        out.extend_from_slice(digits.format(cas).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends the new value after `incr` or `decr`.
#[inline]
pub fn number(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Reply to a store of a value over the size limit.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";

/// Reply to `cache_memlimit` below memcached's minimum of 8 MiB.
pub const CACHE_TOO_SMALL: &[u8] = b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";

/// Appends the outcome of a command on one item.
#[inline]
pub fn outcome(out: &mut Vec<u8>, outcome: &Outcome) {
    let text = match outcome.status {
        Status::Counted => return number(out, outcome.number),
        Status::Stored => STORED,
        Status::NotStored => NOT_STORED,
        Status::Exists => EXISTS,
        Status::NotFound => NOT_FOUND,
        Status::Deleted => DELETED,
        Status::Touched => TOUCHED,
        Status::NotNumeric => NON_NUMERIC,
        Status::TooLarge => TOO_LARGE,
    };
    out.extend_from_slice(text);
}

/// Appends `VERSION text`.
pub fn version(out: &mut Vec<u8>, text: &str) {
    line(out, b"VERSION ", text.as_bytes());
}

/// Appends `STAT name value`.
pub fn stat(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(b"STAT ");
    printable(out, name.as_bytes());
    line(out, b" ", value);
}

/// Appends `SERVER_ERROR text`: the server failed to execute the command.
pub fn server_error(out: &mut Vec<u8>, text: &str) {
    line(out, b"SERVER_ERROR ", text.as_bytes());
}

/// Appends `CLIENT_ERROR text`: the request was invalid.
pub fn client_error(out: &mut Vec<u8>, text: &str) {
    line(out, b"CLIENT_ERROR ", text.as_bytes());
}

fn line(out: &mut Vec<u8>, head: &[u8], text: &[u8]) {
    out.extend_from_slice(head);
    printable(out, text);
    out.extend_from_slice(b"\r\n");
}

/// Appends `text` with control characters replaced by spaces, so that quoted input cannot end the
/// line early.
fn printable(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(
        text.iter()
            .map(|&b| if b.is_ascii_control() { b' ' } else { b }),
    );
}
