//! Command lines of the ASCII dialect: words and their checks, command by
//! command. The rules and their sources are in [`super::ascii`].
//!
//! The checks of each command come in memcached's order (number of words,
//! `noreply`, key, numbers), since the first that fails is what is answered.

use super::MAX_KEY;
use super::ascii::{Args, Fault, Keys, Request, StoreVerb};
use super::meta::{MetaLine, parse_meta};
use super::number::{client_flags, signed, unsigned};
use super::tokens::Words;

/// A parsed line, without the data block that follows it.
pub(super) enum Line<'a> {
    Request(Request<'a>),
    Store(StoreLine<'a>),
    Meta(MetaLine<'a>),
    Refused(Fault, bool),
}

/// The line of a storage command.
pub(super) struct StoreLine<'a> {
    pub(super) verb: StoreVerb,
    pub(super) key: &'a [u8],
    pub(super) flags: u32,
    pub(super) exptime: i64,
    pub(super) length: usize,
    pub(super) noreply: bool,
}

/// Whether a key is not too long and holds nothing that a key may not hold.
#[inline]
pub(super) fn key_fits(key: &[u8]) -> bool {
    // A TAB separates the columns of a key.
    let forbidden = |b: &u8| b.is_ascii_control() && *b != b'\t';
    key.len() <= MAX_KEY && !key.iter().any(forbidden)
}

/// Parses a command line without its end.
#[inline]
pub(super) fn parse_line(line: &[u8]) -> Line<'_> {
    let mut words = Words::new(line);
    let Some(command) = words.next() else {
        return Line::Refused(Fault::Unknown, false);
    };
    if let [b'm', letter] = command
        && let Some(meta) = parse_meta(*letter, words)
    {
        return Line::Meta(meta);
    }
    match command {
        b"get" => get(words, false, false),
        b"gets" => get(words, true, false),
        b"gat" => get(words, false, true),
        b"gats" => get(words, true, true),
        b"stats" => Line::Request(Request::Stats { args: Args(words) }),
        b"version" => Line::Request(Request::Version),
        b"quit" => Line::Request(Request::Quit),
        b"shutdown" => Line::Refused(Fault::ShutdownRefused, false),
        _ => fixed(command, words),
    }
}

/// The get family: any number of keys.
#[inline]
fn get(mut words: Words<'_>, cas: bool, touch: bool) -> Line<'_> {
    let mut exptime = None;
    if touch {
        let Some(word) = words.next() else {
            return Line::Refused(Fault::Unknown, false);
        };
        let Some(time) = signed(word) else {
            return Line::Refused(Fault::BadExptime, false);
        };
        exptime = Some(time);
    }
    let mut left = 0;
    for key in words {
        if !key_fits(key) {
            return Line::Refused(Fault::BadFormat, false);
        }
        left += 1;
    }
    if left == 0 && !touch {
        return Line::Refused(Fault::Unknown, false);
    }
    Line::Request(Request::Get {
        keys: Keys { words, left },
        cas,
        touch: exptime,
    })
}

/// More words than any command with a fixed form has.
const MOST_WORDS: usize = 7;

/// Commands with a bounded number of words after their name.
fn fixed<'a>(command: &'a [u8], mut words: Words<'a>) -> Line<'a> {
    let after_command = words;
    let mut args: [&[u8]; MOST_WORDS] = [&[]; MOST_WORDS];
    let mut count = 0;
    for slot in &mut args {
        let Some(word) = words.next() else { break };
        *slot = word;
        count += 1;
    }
    let args = args.get(..count).unwrap_or_default();
    let noreply = args.last() == Some(&b"noreply".as_slice());
    let verb = match command {
        b"set" => Some(StoreVerb::Set),
        b"add" => Some(StoreVerb::Add),
        b"replace" => Some(StoreVerb::Replace),
        b"append" => Some(StoreVerb::Append),
        b"prepend" => Some(StoreVerb::Prepend),
        b"cas" => Some(StoreVerb::Cas(0)),
        _ => None,
    };
    if let Some(verb) = verb {
        return store(verb, args, noreply);
    }
    match (command, args) {
        (b"incr", [key, delta] | [key, delta, _]) => arithmetic(key, delta, false, noreply),
        (b"decr", [key, delta] | [key, delta, _]) => arithmetic(key, delta, true, noreply),
        (b"delete", [key, holds @ ..]) if holds.len() <= 2 => delete(key, holds, noreply),
        (b"touch", [key, time] | [key, time, _]) => touch(key, time, noreply),
        (b"flush_all", words) if words.len() <= 2 => flush_all(words, noreply),
        (b"verbosity", [level] | [level, _]) => verbosity(level, noreply),
        (b"cache_memlimit", [limit] | [limit, _]) => cache_memlimit(limit, noreply),
        _ if foreign(command, after_command) => Line::Refused(Fault::ForeignProtocol, false),
        _ => Line::Refused(Fault::Unknown, false),
    }
}

fn store<'a>(mut verb: StoreVerb, args: &[&'a [u8]], noreply: bool) -> Line<'a> {
    let (fields, version) = match (verb, args) {
        (StoreVerb::Cas(_), [k, f, e, l, version] | [k, f, e, l, version, _]) => {
            ([*k, *f, *e, *l], Some(*version))
        }
        (StoreVerb::Cas(_), _) => return Line::Refused(Fault::Unknown, false),
        (_, [k, f, e, l] | [k, f, e, l, _]) => ([*k, *f, *e, *l], None),
        _ => return Line::Refused(Fault::Unknown, false),
    };
    let [key, flags, exptime, length] = fields;
    let bad = Line::Refused(Fault::BadFormat, noreply);
    if !key_fits(key) {
        return bad;
    }
    let Some(flags) = client_flags(flags) else {
        return bad;
    };
    let (Some(exptime), Some(length)) = (signed(exptime), signed(length)) else {
        return bad;
    };
    if let Some(word) = version {
        let Some(version) = unsigned(word) else {
            return bad;
        };
        verb = StoreVerb::Cas(version);
    }
    // memcached's own bound: the length and CR LF fit 31 bits.
    let Ok(length) = usize::try_from(length) else {
        return bad;
    };
    if length > i32::MAX as usize - 2 {
        return bad;
    }
    Line::Store(StoreLine {
        verb,
        key,
        flags,
        exptime,
        length,
        noreply,
    })
}

fn arithmetic<'a>(key: &'a [u8], delta: &[u8], decrement: bool, noreply: bool) -> Line<'a> {
    if !key_fits(key) {
        return Line::Refused(Fault::BadFormat, noreply);
    }
    let Some(delta) = unsigned(delta) else {
        return Line::Refused(Fault::BadDelta, noreply);
    };
    Line::Request(Request::Arithmetic {
        key,
        delta,
        decrement,
        noreply,
    })
}

fn delete<'a>(key: &'a [u8], holds: &[&[u8]], noreply: bool) -> Line<'a> {
    let zero = |word: &[u8]| word == b"0";
    let valid = match holds {
        [] => true,
        [only] => zero(only) || noreply,
        [hold, ..] => zero(hold) && noreply,
    };
    if !valid {
        return Line::Refused(Fault::DeleteUsage, noreply);
    }
    // `delete noreply` names a key.
    let noreply = noreply && !holds.is_empty();
    if !key_fits(key) {
        return Line::Refused(Fault::BadFormat, noreply);
    }
    Line::Request(Request::Delete { key, noreply })
}

fn touch<'a>(key: &'a [u8], time: &[u8], noreply: bool) -> Line<'a> {
    if !key_fits(key) {
        return Line::Refused(Fault::BadFormat, noreply);
    }
    let Some(exptime) = signed(time) else {
        return Line::Refused(Fault::BadExptime, noreply);
    };
    Line::Request(Request::Touch {
        key,
        exptime,
        noreply,
    })
}

fn flush_all<'a>(words: &[&[u8]], noreply: bool) -> Line<'a> {
    let delay = match words {
        [] => Some(0),
        [_] if noreply => Some(0),
        [delay, ..] => signed(delay),
    };
    match delay {
        Some(delay) => Line::Request(Request::FlushAll { delay, noreply }),
        None => Line::Refused(Fault::BadExptime, noreply),
    }
}

fn verbosity<'a>(level: &[u8], noreply: bool) -> Line<'a> {
    match unsigned(level).and_then(|n| u32::try_from(n).ok()) {
        Some(level) => Line::Request(Request::Verbosity { level, noreply }),
        // `verbosity noreply` names no level, and is not answered either.
        None => Line::Refused(Fault::BadFormat, noreply),
    }
}

fn cache_memlimit<'a>(megabytes: &[u8], noreply: bool) -> Line<'a> {
    match unsigned(megabytes) {
        Some(megabytes) => Line::Request(Request::CacheLimit { megabytes, noreply }),
        None => Line::Refused(Fault::Unknown, noreply),
    }
}

/// Whether a line that is no command is the request line of HTTP; memcached
/// then closes, so that a browser cannot be made to send commands.
fn foreign(command: &[u8], words: Words<'_>) -> bool {
    let rest = words.rest();
    let last = rest.rsplit(|&b| b == b' ').find(|w| !w.is_empty());
    let known_letter = matches!(
        command.first(),
        Some(b'g' | b's' | b'a' | b'c' | b'i' | b'd' | b't')
    );
    !known_letter && last.unwrap_or(command).starts_with(b"HTTP/")
}
