//! Meta commands: lines of the ASCII dialect whose first word is `mg`, `ms`,
//! `md`, `ma`, `mn` or `me`, followed by a key and flags of one letter with an
//! argument after some of them.
//!
//! Behaviour and texts are those of memcached 1.6.18, established by transcripts. Some flags of
//! later versions of 1.6 are also accepted: `E` of all commands that change an item, `N` of `ms`,
//! `x` of `md`.
//!
//! Invariants:
//! 1. Checks have memcached's order. Of several flags with wrong arguments the last one is
//!    reported; an unknown or repeated flag is reported at once.
//! 2. Errors get a reply even in quiet mode (`q`).
//! 3. A refused `ms` skips its value, if its length could be read.
//! 4. The flags of a line are read again when the reply is rendered, because the fields
//!    of a reply have the order of the flags.
//!
//! Differences: an opaque that is too long is refused before the command is executed, not after;
//! lengths and times out of range are refused instead of truncated to 32 bits.

use super::MAX_KEY;
use super::base64::Decoded;
use super::command::{Change, Count, Delete, Mode, Seed, Store};
use super::commands::Command;
use super::line::key_fits;
use super::number::{client_flags, signed, unsigned};
use super::tokens::Words;

/// Maximum number of flags in a line.
const MAX_FLAGS: usize = 17;
/// Longest opaque, its letter included.
const MAX_OPAQUE: usize = 32;

/// Format of the reply to a meta command: its key and flags.
#[derive(Clone, Copy, Debug)]
pub struct ReplyFormat<'a> {
    /// The key as it was sent.
    pub(super) key: &'a [u8],
    /// Whether the key is encoded in base64.
    pub(super) base64: bool,
    /// The flags.
    pub(super) words: Words<'a>,
    /// Whether the usual reply is suppressed (`q`).
    pub quiet: bool,
    /// Whether the reply includes the value (`v`).
    pub value: bool,
    /// The command.
    pub(super) command: Command,
}

impl<'a> ReplyFormat<'a> {
    /// The key as it was sent.
    pub fn key_text(&self) -> &'a [u8] {
        self.key
    }

    /// Whether the key was sent as base64.
    #[inline]
    pub fn is_base64(&self) -> bool {
        self.base64
    }

    /// Returns the decoded key, if it was sent in base64.
    pub fn decoded(&self) -> Option<Decoded> {
        if self.base64 {
            Decoded::of(self.key)
        } else {
            None
        }
    }
}

/// `mg`.
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// Format of the reply, and the key.
    pub format: ReplyFormat<'a>,
    /// New expiry time (`T`).
    pub touch: Option<i64>,
    /// Create a placeholder with this expiry time if there is no item (`N`).
    pub vivify: Option<i64>,
    /// Let this client recache the item if less than this time is left before it expires (`R`).
    pub recache: Option<i64>,
    /// The version that a placeholder created by `vivify` reports (`E`).
    pub version: Option<u64>,
    /// Whether the read does not count as an access (`u`).
    pub unseen: bool,
    /// Whether the reply includes earlier accesses: if there was one, and when (`h`, `l`).
    pub history: bool,
}

impl Get<'_> {
    /// Whether the command only reads: it changes neither the item nor its metadata.
    pub fn is_plain(&self) -> bool {
        self.touch.is_none() && self.vivify.is_none() && self.recache.is_none()
    }
}

/// A meta command.
#[derive(Clone, Copy, Debug)]
pub enum Meta<'a> {
    /// `mg`.
    Get(Get<'a>),
    /// `ms`, `md`, `ma`; the key in the change is as it was sent.
    Change(Change<'a>, ReplyFormat<'a>),
    /// `mn`, and the word after it, which memcached ignores.
    Noop(&'a [u8]),
    /// `me`.
    Debug(ReplyFormat<'a>),
}

/// Error in a meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaFault {
    /// No key.
    NoKey,
    /// A key that is too long or contains control characters, or a length or client flags that
    /// are not a number.
    BadFormat,
    /// Too many flags, with the message of `mg`.
    TooManyFlagsOfGet,
    /// Too many flags.
    TooManyFlags,
    /// A flag appears twice, or is not an ASCII character.
    Duplicate,
    /// A flag that the protocol does not have.
    UnknownFlag,
    /// The reply of `md` and `ma` to any wrong flag.
    FlagsOfChange,
    /// The key is not valid base64.
    Base64,
    /// An argument is not a number.
    BadToken,
    /// A mode is not one letter.
    ModeLength,
    /// `ms` has no such mode.
    ModeOfStore,
    /// `ma` has no such mode.
    ModeOfCount,
    /// An opaque is too long.
    Opaque,
    /// An initial value is not a number.
    Initial,
    /// A delta is not a number.
    Delta,
}

impl MetaFault {
    /// Returns the reply with CR LF.
    pub fn reply(self) -> &'static [u8] {
        match self {
            MetaFault::NoKey => b"ERROR\r\n",
            MetaFault::BadFormat => b"CLIENT_ERROR bad command line format\r\n",
            MetaFault::TooManyFlagsOfGet => b"CLIENT_ERROR options flags are too long\r\n",
            MetaFault::TooManyFlags => b"CLIENT_ERROR options flags too long\r\n",
            MetaFault::Duplicate => b"CLIENT_ERROR duplicate flag\r\n",
            MetaFault::UnknownFlag => b"CLIENT_ERROR invalid flag\r\n",
            MetaFault::FlagsOfChange => b"CLIENT_ERROR invalid or duplicate flag\r\n",
            MetaFault::Base64 => b"CLIENT_ERROR error decoding key\r\n",
            MetaFault::BadToken => b"CLIENT_ERROR bad token in command line format\r\n",
            MetaFault::ModeLength => b"CLIENT_ERROR incorrect length for M token\r\n",
            MetaFault::ModeOfStore => b"CLIENT_ERROR invalid mode for ms M token\r\n",
            MetaFault::ModeOfCount => b"CLIENT_ERROR invalid mode for ma M token\r\n",
            MetaFault::Opaque => b"CLIENT_ERROR opaque token too long\r\n",
            MetaFault::Initial => b"CLIENT_ERROR invalid numeric initial value\r\n",
            MetaFault::Delta => b"CLIENT_ERROR invalid numeric delta value\r\n",
        }
    }
}

/// A parsed line of a meta command.
pub(super) enum MetaLine<'a> {
    /// A command that is complete.
    Done(Meta<'a>),
    /// An `ms` whose value, of this length, follows.
    Store(Store<'a>, ReplyFormat<'a>, usize),
    /// An error, and the length of the value to discard.
    Refused(MetaFault, Option<usize>),
}

/// The flags of a line, with their arguments.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    /// The flags that the line contains: a bit for each ASCII character.
    seen: u128,
    /// `T`.
    ttl: Option<i64>,
    vivify: Option<i64>,
    recache: Option<i64>,
    client_flags: u32,
    compare: Option<u64>,
    version: Option<u64>,
    mode: Option<u8>,
    initial: u64,
    delta: Option<u64>,
}

impl Flags {
    fn has(&self, letter: u8) -> bool {
        self.seen >> (letter & 127) & 1 == 1
    }

    /// Parses the flags of a line; validates `key` if it is in base64.
    #[inline]
    fn read(words: Words<'_>, key: &[u8]) -> Result<Flags, MetaFault> {
        let mut flags = Flags::default();
        let mut fault = None;
        for word in words {
            let Some((letter, argument)) = word.split_first() else {
                continue;
            };
            if *letter >= 127 || flags.has(*letter) {
                return Err(MetaFault::Duplicate);
            }
            flags.seen |= 1 << (letter & 127);
            if let Err(why) = flags.set_flag(*letter, argument, key) {
                if why == MetaFault::UnknownFlag {
                    return Err(why);
                }
                fault = Some(why);
            }
        }
        fault.map_or(Ok(flags), Err)
    }

    #[inline]
    fn set_flag(&mut self, letter: u8, argument: &[u8], key: &[u8]) -> Result<(), MetaFault> {
        let time = || signed(argument).ok_or(MetaFault::BadToken);
        let number = |fault| unsigned(argument).ok_or(fault);
        match letter {
            b'v' | b'k' | b'q' | b'c' | b'f' | b's' | b't' | b'h' | b'l' | b'u' | b'I' | b'P'
            | b'L' | b'x' => {}
            b'O' if argument.len() >= MAX_OPAQUE => return Err(MetaFault::Opaque),
            b'O' => {}
            b'b' if Decoded::of(key).is_none() => return Err(MetaFault::Base64),
            b'b' => {}
            b'T' => self.ttl = Some(time()?),
            b'N' => self.vivify = Some(time()?),
            b'R' => self.recache = Some(time()?),
            b'F' => {
                self.client_flags = client_flags(argument).ok_or(MetaFault::BadFormat)?;
            }
            b'C' => self.compare = Some(number(MetaFault::BadToken)?),
            b'E' => self.version = Some(number(MetaFault::BadToken)?),
            b'J' => self.initial = number(MetaFault::Initial)?,
            b'D' => self.delta = Some(number(MetaFault::Delta)?),
            b'M' => match argument {
                [mode] => self.mode = Some(*mode),
                _ => return Err(MetaFault::ModeLength),
            },
            _ => return Err(MetaFault::UnknownFlag),
        }
        Ok(())
    }

    fn format<'a>(&self, command: Command, key: &'a [u8], words: Words<'a>) -> ReplyFormat<'a> {
        ReplyFormat {
            key,
            base64: self.has(b'b'),
            words,
            quiet: self.has(b'q'),
            value: self.has(b'v'),
            command,
        }
    }
}

/// The line of a command without a value.
#[inline]
fn line(parsed: Result<Meta<'_>, MetaFault>) -> MetaLine<'_> {
    match parsed {
        Ok(meta) => MetaLine::Done(meta),
        Err(fault) => MetaLine::Refused(fault, None),
    }
}

/// Returns the key, the first of `words`. If too many flags follow, the error is `too_many`.
#[inline]
fn parse_key<'a>(words: &mut Words<'a>, too_many: MetaFault) -> Result<&'a [u8], MetaFault> {
    let key = words.next().ok_or(MetaFault::NoKey)?;
    if key.len() > MAX_KEY || !key_fits(key) {
        return Err(MetaFault::BadFormat);
    }
    // A flag takes at least two bytes, so short remainders need no counting.
    if words.rest().len() > 2 * MAX_FLAGS && (*words).count() > MAX_FLAGS {
        return Err(too_many);
    }
    Ok(key)
}

/// The line of `mg`.
#[inline]
pub(super) fn get(words: Words<'_>) -> MetaLine<'_> {
    line(parse_get(words))
}

#[inline]
fn parse_get(mut words: Words<'_>) -> Result<Meta<'_>, MetaFault> {
    let key = parse_key(&mut words, MetaFault::TooManyFlagsOfGet)?;
    let flags = Flags::read(words, key)?;
    if flags.has(b'x') {
        return Err(MetaFault::UnknownFlag);
    }
    Ok(Meta::Get(Get {
        format: flags.format(Command::MetaGet, key, words),
        touch: flags.ttl,
        vivify: flags.vivify,
        recache: flags.recache,
        version: flags.version,
        unseen: flags.has(b'u'),
        history: flags.has(b'h') || flags.has(b'l'),
    }))
}

/// The line of `md`.
pub(super) fn delete(words: Words<'_>) -> MetaLine<'_> {
    line(parse_delete(words))
}

fn parse_delete(mut words: Words<'_>) -> Result<Meta<'_>, MetaFault> {
    let key = parse_key(&mut words, MetaFault::TooManyFlags)?;
    let flags = Flags::read(words, key).map_err(fault_of_change)?;
    let keeps_item = flags.has(b'I') || flags.has(b'x');
    let change = Delete {
        compare: flags.compare,
        invalidate: flags.has(b'I'),
        touch: flags.ttl.filter(|_| keeps_item),
        empty: flags.has(b'x'),
        version: flags.version,
        ..Delete::new(key)
    };
    Ok(Meta::Change(
        Change::Delete(change),
        flags.format(Command::MetaDelete, key, words),
    ))
}

/// The line of `ma`.
pub(super) fn count(words: Words<'_>) -> MetaLine<'_> {
    line(parse_count(words))
}

fn parse_count(mut words: Words<'_>) -> Result<Meta<'_>, MetaFault> {
    let key = parse_key(&mut words, MetaFault::TooManyFlags)?;
    let flags = Flags::read(words, key).map_err(fault_of_change)?;
    let decrement = match flags.mode {
        None | Some(b'I' | b'i' | b'+') => false,
        Some(b'D' | b'd' | b'-') => true,
        Some(_) => return Err(MetaFault::ModeOfCount),
    };
    let seed = flags.vivify.map(|exptime| Seed {
        value: flags.initial,
        exptime,
    });
    let change = Count {
        compare: flags.compare,
        seed,
        touch: flags.ttl,
        version: flags.version,
        ..Count::new(key, flags.delta.unwrap_or(1), decrement)
    };
    Ok(Meta::Change(
        Change::Count(change),
        flags.format(Command::MetaArithmetic, key, words),
    ))
}

/// The error that `md` and `ma` report for an error in a flag.
fn fault_of_change(fault: MetaFault) -> MetaFault {
    match fault {
        MetaFault::Opaque => fault,
        _ => MetaFault::FlagsOfChange,
    }
}

/// The line of `ms`.
pub(super) fn store(mut words: Words<'_>) -> MetaLine<'_> {
    let refused = |fault| MetaLine::Refused(fault, None);
    let Some(key) = words.next() else {
        return refused(MetaFault::NoKey);
    };
    if key.len() > MAX_KEY || !key_fits(key) {
        return refused(MetaFault::BadFormat);
    }
    let Some(length) = words.next() else {
        return refused(MetaFault::BadFormat);
    };
    // The length counts as one of the words that may follow the key.
    if words.count() >= MAX_FLAGS {
        return refused(MetaFault::TooManyFlags);
    }
    let length = signed(length).and_then(|n| usize::try_from(n).ok());
    let Some(length) = length.filter(|n| *n <= i32::MAX as usize - 2) else {
        return refused(MetaFault::BadFormat);
    };
    // The length is known, so the value can be skipped.
    let refused_with_value = |fault| MetaLine::Refused(fault, Some(length));
    let flags = match Flags::read(words, key) {
        Ok(flags) => flags,
        Err(fault) => return refused_with_value(fault),
    };
    let mode = match flags.mode {
        None | Some(b'S' | b's') => Mode::Set,
        Some(b'E' | b'e') => Mode::Add,
        Some(b'A' | b'a') => Mode::Append,
        Some(b'P' | b'p') => Mode::Prepend,
        Some(b'R' | b'r') => Mode::Replace,
        Some(_) => return refused_with_value(MetaFault::ModeOfStore),
    };
    let change = Store {
        flags: flags.client_flags,
        exptime: flags.ttl.unwrap_or(0),
        compare: flags.compare.filter(|_| mode != Mode::Add),
        invalidate: flags.has(b'I'),
        create: flags.vivify.filter(|_| mode.extends()),
        version: flags.version,
        ..Store::new(mode, key, &[])
    };
    MetaLine::Store(change, flags.format(Command::MetaSet, key, words), length)
}

/// The line of `mn`.
pub(super) fn noop(mut words: Words<'_>) -> MetaLine<'_> {
    MetaLine::Done(Meta::Noop(words.next().unwrap_or_default()))
}

/// The line of `me`.
pub(super) fn debug(words: Words<'_>) -> MetaLine<'_> {
    line(parse_debug(words))
}

fn parse_debug(mut words: Words<'_>) -> Result<Meta<'_>, MetaFault> {
    let key = words.next().ok_or(MetaFault::BadFormat)?;
    if key.len() > MAX_KEY || !key_fits(key) {
        return Err(MetaFault::BadFormat);
    }
    let rest = words;
    let base64 = words.next() == Some(b"b");
    if base64 && Decoded::of(key).is_none() {
        return Err(MetaFault::BadFormat);
    }
    Ok(Meta::Debug(ReplyFormat {
        key,
        base64,
        words: rest,
        quiet: false,
        value: false,
        command: Command::MetaDebug,
    }))
}
