//! Parses command lines of the ASCII dialect, one function per group of commands. The rules and
//! their sources are in [`super::ascii`].
//!
//! Each command is validated in memcached's order (number of words, `noreply`, key, numbers),
//! since the first check that fails decides the error reply.

use super::MAX_KEY;
use super::ascii::{Args, Fault, Keys, Request};
use super::command::{Change, Count, Delete, Mode, Store, Touch};
use super::commands::Command;
use super::meta::{self, MetaLine};
use super::number::{client_flags, signed, unsigned};
use super::tokens::Words;

/// A parsed line, without the data block that follows it.
pub(super) enum Line<'a> {
    Request(Request<'a>),
    /// A storage command; its data block of `length` bytes follows the line.
    Store {
        store: Store<'a>,
        length: usize,
        noreply: bool,
    },
    Meta(MetaLine<'a>),
    Refused {
        /// The error.
        fault: Fault,
        /// Whether the client requested no reply.
        noreply: bool,
    },
}

/// Whether a key has at most [`MAX_KEY`] bytes and no control characters other than TAB.
#[inline]
pub(super) fn key_fits(key: &[u8]) -> bool {
    // TAB separates the columns of a multi-column key.
    let forbidden = |b: &u8| b.is_ascii_control() && *b != b'\t';
    key.len() <= MAX_KEY && !key.iter().any(forbidden)
}

/// Parses a command line, passed without its line terminator.
#[inline]
pub(super) fn parse_line(line: &[u8]) -> Line<'_> {
    match parse_simple_set(line) {
        Some(set) => set,
        None => parse_any_line(line),
    }
}

/// Fast path for a `set` as most clients write it: single spaces, a valid key, short numbers without signs, no other words.
/// [`parse_any_line`] parses such a line with the same result, and all others.
#[inline]
fn parse_simple_set(line: &[u8]) -> Option<Line<'_>> {
    const MAX_DIGITS: usize = 9;
    let words = line.strip_prefix(b"set ")?;
    let end = words.iter().take(MAX_KEY + 1).position(|b| *b == b' ')?;
    let (key, numbers) = words.split_at_checked(end)?;
    if key.is_empty() || !key_fits(key) {
        return None;
    }
    let mut parsed = [0u32; 3];
    let mut words = numbers.split_first()?.1;
    for (n, number) in parsed.iter_mut().enumerate() {
        let mut digits = 0;
        for byte in words.iter().take_while(|b| b.is_ascii_digit()) {
            if digits == MAX_DIGITS {
                return None;
            }
            *number = *number * 10 + u32::from(byte - b'0');
            digits += 1;
        }
        words = match words.get(digits..)?.split_first() {
            Some((b' ', rest)) if n < 2 => rest,
            None if n == 2 => &[],
            _ => return None,
        };
        if digits == 0 {
            return None;
        }
    }
    let [flags, exptime, length] = parsed;
    Some(Line::Store {
        store: Store {
            flags,
            exptime: i64::from(exptime),
            ..Store::new(Mode::Set, key, &[])
        },
        length: usize::try_from(length).ok()?,
        noreply: false,
    })
}

/// Parses a command line by its words.
fn parse_any_line(line: &[u8]) -> Line<'_> {
    let mut words = Words::new(line);
    let word = words.next().unwrap_or_default();
    let Some(command) = Command::of_word(word) else {
        return unknown(word, words);
    };
    match command {
        Command::Get => get(words, false, false),
        Command::Gets => get(words, true, false),
        Command::Gat => get(words, false, true),
        Command::Gats => get(words, true, true),
        Command::MetaGet => Line::Meta(meta::get(words)),
        Command::MetaSet => Line::Meta(meta::store(words)),
        Command::MetaDelete => Line::Meta(meta::delete(words)),
        Command::MetaArithmetic => Line::Meta(meta::count(words)),
        Command::MetaDebug => Line::Meta(meta::debug(words)),
        Command::Noop => Line::Meta(meta::noop(words)),
        Command::Stats => Line::Request(Request::Stats { args: Args(words) }),
        Command::Version => Line::Request(Request::Version),
        Command::Quit => Line::Request(Request::Quit),
        Command::Shutdown => Line::Refused {
            fault: Fault::ShutdownRefused,
            noreply: false,
        },
        Command::Set => parse_fixed(Command::Set.arguments(), words, |a, n| {
            store(Mode::Set, a, None, n)
        }),
        Command::Add => parse_fixed(Command::Add.arguments(), words, |a, n| {
            store(Mode::Add, a, None, n)
        }),
        Command::Replace => parse_fixed(Command::Replace.arguments(), words, |a, n| {
            store(Mode::Replace, a, None, n)
        }),
        Command::Append => parse_fixed(Command::Append.arguments(), words, |a, n| {
            store(Mode::Append, a, None, n)
        }),
        Command::Prepend => parse_fixed(Command::Prepend.arguments(), words, |a, n| {
            store(Mode::Prepend, a, None, n)
        }),
        Command::Cas => parse_fixed(Command::Cas.arguments(), words, |a, n| {
            store(Mode::Set, a, a.get(4).copied(), n)
        }),
        Command::Increment => parse_fixed(Command::Increment.arguments(), words, |a, n| {
            arithmetic(a, false, n)
        }),
        Command::Decrement => parse_fixed(Command::Decrement.arguments(), words, |a, n| {
            arithmetic(a, true, n)
        }),
        Command::Delete => parse_fixed(Command::Delete.arguments(), words, delete),
        Command::Touch => parse_fixed(Command::Touch.arguments(), words, touch),
        Command::Flush => parse_fixed(Command::Flush.arguments(), words, flush_all),
        Command::Verbosity => parse_fixed(Command::Verbosity.arguments(), words, verbosity),
        Command::CacheLimit => parse_fixed(Command::CacheLimit.arguments(), words, cache_memlimit),
        // Binary dialect only.
        Command::SaslMechanisms | Command::SaslAuth => unknown(word, words),
    }
}

/// Parses `get`, `gets`, `gat` and `gats`, which take any number of keys.
#[inline]
fn get(mut words: Words<'_>, cas: bool, touch: bool) -> Line<'_> {
    let mut exptime = None;
    if touch {
        let Some(word) = words.next() else {
            return Line::Refused {
                fault: Fault::Unknown,
                noreply: false,
            };
        };
        let Some(time) = signed(word) else {
            return Line::Refused {
                fault: Fault::BadExptime,
                noreply: false,
            };
        };
        exptime = Some(time);
    }
    let mut count = 0;
    for key in words {
        if !key_fits(key) {
            return Line::Refused {
                fault: Fault::BadFormat,
                noreply: false,
            };
        }
        count += 1;
    }
    if count == 0 && !touch {
        return Line::Refused {
            fault: Fault::Unknown,
            noreply: false,
        };
    }
    Line::Request(Request::Get {
        keys: Keys { words, left: count },
        cas,
        touch: exptime,
    })
}

/// Capacity for the words of a command with fixed arguments: one more than any such command
/// takes, so that surplus words are noticed.
const MAX_WORDS: usize = 7;

/// Parses a command with `least` to `most` words after its name. `parse` receives the words, and
/// whether the last one is `noreply`.
fn parse_fixed<'a>(
    (least, most): (usize, usize),
    mut words: Words<'a>,
    parse: impl FnOnce(&[&'a [u8]], bool) -> Line<'a>,
) -> Line<'a> {
    let mut slots: [&[u8]; MAX_WORDS] = [&[]; MAX_WORDS];
    let mut count = 0;
    for slot in &mut slots {
        let Some(word) = words.next() else { break };
        *slot = word;
        count += 1;
    }
    if count < least || count > most {
        return Line::Refused {
            fault: Fault::Unknown,
            noreply: false,
        };
    }
    let args = slots.get(..count).unwrap_or_default();
    parse(args, args.last() == Some(&b"noreply".as_slice()))
}

/// Parses a storage command. `version` is the word that contains the version expected by `cas`.
fn store<'a>(mode: Mode, args: &[&'a [u8]], version: Option<&[u8]>, noreply: bool) -> Line<'a> {
    let bad = Line::Refused {
        fault: Fault::BadFormat,
        noreply,
    };
    let [key, flags, exptime, length, ..] = args else {
        return bad;
    };
    if !key_fits(key) {
        return bad;
    }
    let Some(flags) = client_flags(flags) else {
        return bad;
    };
    let (Some(exptime), Some(length)) = (signed(exptime), signed(length)) else {
        return bad;
    };
    let compare = version.and_then(unsigned);
    if compare.is_none() && version.is_some() {
        return bad;
    }
    // memcached's bound: the length including CR LF fits in 31 bits.
    let Ok(length) = usize::try_from(length) else {
        return bad;
    };
    if length > i32::MAX as usize - 2 {
        return bad;
    }
    Line::Store {
        store: Store {
            flags,
            exptime,
            compare,
            ..Store::new(mode, key, &[])
        },
        length,
        noreply,
    }
}

fn change_request(change: Change<'_>, noreply: bool) -> Line<'_> {
    Line::Request(Request::Change { change, noreply })
}

fn arithmetic<'a>(args: &[&'a [u8]], decrement: bool, noreply: bool) -> Line<'a> {
    let [key, delta, ..] = args else {
        return Line::Refused {
            fault: Fault::Unknown,
            noreply,
        };
    };
    if !key_fits(key) {
        return Line::Refused {
            fault: Fault::BadFormat,
            noreply,
        };
    }
    let Some(delta) = unsigned(delta) else {
        return Line::Refused {
            fault: Fault::BadDelta,
            noreply,
        };
    };
    change_request(Change::Count(Count::new(key, delta, decrement)), noreply)
}

fn delete<'a>(args: &[&'a [u8]], noreply: bool) -> Line<'a> {
    // Old clients send a delay after the key, which must be 0.
    let [key, options @ ..] = args else {
        return Line::Refused {
            fault: Fault::Unknown,
            noreply,
        };
    };
    let zero = |word: &[u8]| word == b"0";
    let valid = match options {
        [] => true,
        [only] => zero(only) || noreply,
        [delay, ..] => zero(delay) && noreply,
    };
    if !valid {
        return Line::Refused {
            fault: Fault::DeleteUsage,
            noreply,
        };
    }
    // In `delete noreply` the word is the key.
    let noreply = noreply && !options.is_empty();
    if !key_fits(key) {
        return Line::Refused {
            fault: Fault::BadFormat,
            noreply,
        };
    }
    change_request(Change::Delete(Delete::new(key)), noreply)
}

fn touch<'a>(args: &[&'a [u8]], noreply: bool) -> Line<'a> {
    let [key, time, ..] = args else {
        return Line::Refused {
            fault: Fault::Unknown,
            noreply,
        };
    };
    if !key_fits(key) {
        return Line::Refused {
            fault: Fault::BadFormat,
            noreply,
        };
    }
    let Some(exptime) = signed(time) else {
        return Line::Refused {
            fault: Fault::BadExptime,
            noreply,
        };
    };
    change_request(Change::Touch(Touch { key, exptime }), noreply)
}

fn flush_all<'a>(args: &[&'a [u8]], noreply: bool) -> Line<'a> {
    let delay = match args {
        [] => Some(0),
        [_] if noreply => Some(0),
        [delay, ..] => signed(delay),
    };
    match delay {
        Some(delay) => Line::Request(Request::FlushAll { delay, noreply }),
        None => Line::Refused {
            fault: Fault::BadExptime,
            noreply,
        },
    }
}

fn verbosity<'a>(args: &[&'a [u8]], noreply: bool) -> Line<'a> {
    let level = args.first().and_then(|level| unsigned(level));
    match level.and_then(|n| u32::try_from(n).ok()) {
        Some(level) => Line::Request(Request::Verbosity { level, noreply }),
        // `verbosity noreply` has no level; it is an error, but gets no reply.
        None => Line::Refused {
            fault: Fault::BadFormat,
            noreply,
        },
    }
}

fn cache_memlimit<'a>(args: &[&'a [u8]], noreply: bool) -> Line<'a> {
    match args.first().and_then(|megabytes| unsigned(megabytes)) {
        Some(megabytes) => Line::Request(Request::CacheLimit { megabytes, noreply }),
        None => Line::Refused {
            fault: Fault::Unknown,
            noreply,
        },
    }
}

/// Rejects a line that is not a command. An HTTP request line closes the connection, as in memcached,
/// so that a browser cannot be tricked into sending commands.
#[cold]
fn unknown<'a>(word: &[u8], words: Words<'a>) -> Line<'a> {
    let rest = words.rest();
    let last = rest.rsplit(|&b| b == b' ').find(|w| !w.is_empty());
    // First letters of memcached's commands.
    let may_be_command = matches!(
        word.first(),
        Some(b'g' | b's' | b'a' | b'c' | b'i' | b'd' | b't')
    );
    if !may_be_command && last.unwrap_or(word).starts_with(b"HTTP/") {
        Line::Refused {
            fault: Fault::ForeignProtocol,
            noreply: false,
        }
    } else {
        Line::Refused {
            fault: Fault::Unknown,
            noreply: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_testkit::Random;

    /// A storage command as text; empty for other lines.
    fn shown(line: &Line<'_>) -> String {
        match line {
            Line::Store {
                store,
                length,
                noreply,
            } => format!("{store:?} {length} {noreply}"),
            _ => String::new(),
        }
    }

    #[test]
    fn a_simple_set_is_parsed_as_by_the_general_parser() {
        let (long, too_long) = ("k".repeat(MAX_KEY), "k".repeat(MAX_KEY + 1));
        let keys = [
            "k",
            "a:1",
            "a\tb",
            "\u{1}",
            "",
            &long,
            &too_long,
            "schlüssel",
        ];
        let numbers = [
            "0",
            "7",
            "30",
            "100",
            "999999999",
            "1000000000",
            "4294967296",
            "-1",
            "+1",
            "",
            "x",
            "1x",
            "1\r",
        ];
        let mut random = Random(16);
        let mut simple = 0;
        for _ in 0..40_000 {
            let words = [*random.pick(&keys)]
                .into_iter()
                .chain([(); 3].map(|()| *random.pick(&numbers)))
                .collect::<Vec<&str>>();
            let mut line = (*random.pick(&["set", "set", "set", "Set", " set"])).to_owned();
            for word in words {
                line += if random.once_in(12) { "  " } else { " " };
                line += word;
            }
            line += *random.pick(&["", "", "", " ", " noreply", " 1", "\r"]);
            if let Some(set) = parse_simple_set(line.as_bytes()) {
                simple += 1;
                let general = shown(&parse_any_line(line.as_bytes()));
                assert_eq!(shown(&set), general, "{line:?}");
            }
        }
        assert!(simple > 200, "{simple}");
    }
}
