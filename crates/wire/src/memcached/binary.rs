//! Parser of the binary dialect.
//!
//! A request is a header of 24 bytes (magic 0x80, opcode, length of the key,
//! length of the extras, data type, partition, length of the body, opaque,
//! version), then extras, key and value, which together are the body. Numbers
//! are big-endian. [`BinaryParser::parse`] parses the start of the
//! connection's buffer, like the parser of the ASCII dialect.
//!
//! Behaviour is that of memcached 1.6.18, established by transcripts:
//! 1. If the lengths of a request are invalid for its opcode, the reply is `Invalid arguments`; if
//!    the body is shorter than key and extras, it is `Unknown command`. In both cases the
//!    connection ends, because the start of the next request is unknown.
//! 2. An unknown opcode is answered `Unknown command`, and its body discarded.
//! 3. A value that is too large is discarded by its stated length.
//! 4. Keys may hold any bytes.
//!
//! Difference: VERBOSITY (0x1b) of the protocol's description, which memcached does not have, is
//! accepted and has no effect.

use super::MAX_KEY;
use super::ascii::Limits;
use super::command::{Change, Count, Delete, Mode, Seed, Store};
use super::commands::{Command, Opcode};

pub use super::commands::opcode;

/// Length of a header.
pub const HEADER: usize = 24;
/// First byte of a request.
pub const REQUEST_MAGIC: u8 = 0x80;

/// Status of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum StatusCode {
    /// Success.
    Ok = 0x00,
    /// No such key.
    NotFound = 0x01,
    /// The item has another version, or exists already.
    Exists = 0x02,
    /// The value is too large.
    TooLarge = 0x03,
    /// The request is invalid.
    Invalid = 0x04,
    /// A condition of the store was not met.
    NotStored = 0x05,
    /// The value is not a number.
    NotNumeric = 0x06,
    /// Not authenticated, or not privileged.
    Auth = 0x20,
    /// Unknown command.
    Unknown = 0x81,
    /// An internal error of the server.
    Internal = 0x84,
    /// A temporary failure of the server.
    Temporary = 0x86,
}

/// Fields of a request that its reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The opcode as it was sent.
    pub opcode: u8,
    /// Opaque value: 32 bits that the reply repeats.
    pub opaque: u32,
    /// Whether the usual reply is suppressed (quiet variants).
    pub quiet: bool,
}

/// A get of one key.
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Fields that the reply repeats.
    pub head: ReplyHeader,
    /// Whether the reply includes the key.
    pub with_key: bool,
}

/// A complete request.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// GET and its variants.
    Get(Get<'a>),
    /// GAT and its variants: the new expiry time.
    GetAndTouch(Get<'a>, i64),
    /// TOUCH: the new expiry time. Its reply has the flags.
    Touch(Get<'a>, i64),
    /// Storage commands, counting, deletion.
    Change(Change<'a>, ReplyHeader),
    /// FLUSH.
    Flush {
        /// Delay, in the format of an expiry time.
        delay: i64,
        /// Fields that the reply repeats.
        head: ReplyHeader,
    },
    /// STAT.
    Stat {
        /// Group of statistics; empty: the general ones.
        key: &'a [u8],
        /// Fields that the reply repeats.
        head: ReplyHeader,
    },
    /// NOOP and VERBOSITY.
    Noop(ReplyHeader),
    /// VERSION.
    Version(ReplyHeader),
    /// QUIT.
    Quit(ReplyHeader),
    /// SASL LIST MECHS.
    SaslMechanisms(ReplyHeader),
    /// SASL AUTH and SASL STEP.
    SaslAuth {
        /// The mechanism's name.
        mechanism: &'a [u8],
        /// The client's response.
        response: &'a [u8],
        /// Fields that the reply repeats.
        head: ReplyHeader,
    },
}

impl Request<'_> {
    /// Whether it is part of SASL authentication.
    #[inline]
    pub fn is_login(&self) -> bool {
        matches!(self, Request::SaslMechanisms(_) | Request::SaslAuth { .. })
    }
}

/// Result of parsing the start of the buffer.
#[derive(Clone, Copy, Debug)]
pub enum Parsed<'a> {
    /// At least this number of further bytes (never 0) is needed.
    NeedMore(usize),
    /// A request; the caller drops `consumed` bytes after executing it.
    Request {
        /// The request.
        request: Request<'a>,
        /// Length of the request in the buffer.
        consumed: usize,
    },
    /// A rejected request: the caller replies the status and drops `consumed` bytes.
    Refused {
        /// Fields that the reply repeats.
        head: ReplyHeader,
        /// The reply's status.
        status: StatusCode,
        /// Bytes to drop.
        consumed: usize,
        /// Whether the connection must end.
        closes: bool,
    },
    /// Bytes of a rejected body: the caller drops them and continues to parse.
    Swallow {
        /// Bytes to drop, never 0.
        consumed: usize,
    },
    /// No request of this dialect; the connection must end without a reply.
    Foreign,
}

/// A parsed header.
struct Header {
    opcode: u8,
    /// Length of the key in bytes.
    key: usize,
    /// Length of the extras in bytes.
    extras: usize,
    /// Length of extras, key and value together.
    body: usize,
    opaque: u32,
    /// The version that the item must have; 0: any.
    cas: u64,
}

impl Header {
    fn read(bytes: &[u8; HEADER]) -> Header {
        let [
            _,
            opcode,
            k0,
            k1,
            extras,
            _,
            _,
            _,
            b0,
            b1,
            b2,
            b3,
            o0,
            o1,
            o2,
            o3,
            cas @ ..,
        ] = *bytes;
        Header {
            opcode,
            key: usize::from(u16::from_be_bytes([k0, k1])),
            extras: usize::from(extras),
            // No overflow: `usize` has 64 bits on all supported platforms.
            body: u32::from_be_bytes([b0, b1, b2, b3]) as usize,
            opaque: u32::from_be_bytes([o0, o1, o2, o3]),
            cas: u64::from_be_bytes(cas),
        }
    }

    /// The version that the item must have, if the request states one.
    fn compare(&self) -> Option<u64> {
        (self.cas != 0).then_some(self.cas)
    }
}

/// Parser of one connection.
#[derive(Debug)]
pub struct BinaryParser {
    limits: Limits,
    /// Bytes of a rejected body that have not arrived yet.
    swallow: usize,
}

impl BinaryParser {
    /// Creates a parser for the start of a connection.
    pub fn new(limits: Limits) -> BinaryParser {
        BinaryParser { limits, swallow: 0 }
    }

    /// Replaces the limits, from the next request on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Parses the start of `buf`, the unread bytes of the connection. After anything but
    /// [`Parsed::NeedMore`], the next call must be given the buffer without
    /// the consumed bytes.
    #[inline]
    pub fn parse<'a>(&mut self, buf: &'a [u8]) -> Parsed<'a> {
        if self.swallow > 0 {
            let consumed = self.swallow.min(buf.len());
            if consumed == 0 {
                return Parsed::NeedMore(1);
            }
            self.swallow -= consumed;
            return Parsed::Swallow { consumed };
        }
        if buf.first().is_some_and(|b| *b != REQUEST_MAGIC) {
            return Parsed::Foreign;
        }
        let Some(bytes) = buf.first_chunk::<HEADER>() else {
            return Parsed::NeedMore(HEADER - buf.len());
        };
        let header = Header::read(bytes);
        let found = Opcode::of(header.opcode);
        let head = ReplyHeader {
            opcode: header.opcode,
            opaque: header.opaque,
            quiet: found.is_some_and(|opcode| opcode.is_quiet()),
        };
        let refused = |status, closes| Parsed::Refused {
            head,
            status,
            consumed: HEADER,
            closes,
        };
        if header.key + header.extras > header.body {
            return refused(StatusCode::Unknown, true);
        }
        let Some(opcode) = found else {
            self.swallow = header.body;
            return refused(StatusCode::Unknown, false);
        };
        if header.key > MAX_KEY || !opcode.allows(header.key, header.extras, header.body) {
            return refused(StatusCode::Invalid, true);
        }
        let value = header.body - header.key - header.extras;
        // The client's flags may not have arrived yet, so the size is checked as if they were 0.
        if !self.limits.allow(header.key, 0, value) {
            self.swallow = header.body;
            return refused(StatusCode::TooLarge, false);
        }
        let consumed = HEADER + header.body;
        let Some(body) = buf.get(HEADER..consumed) else {
            return Parsed::NeedMore(consumed - buf.len());
        };
        match request(opcode, &header, head, body) {
            Some(request) => Parsed::Request { request, consumed },
            None => refused(StatusCode::Invalid, true),
        }
    }
}

/// Reads the 64-bit number at the start of `bytes`.
fn read_u64(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.first_chunk()?))
}

/// Reads an expiry time: 32 unsigned bits, so that a time that is negative in other
/// dialects is in the year 2106.
fn read_expiry(bytes: &[u8]) -> Option<i64> {
    Some(i64::from(u32::from_be_bytes(*bytes.first_chunk()?)))
}

/// Parses the body of a request whose lengths are valid for its opcode; `None` if they are not.
#[inline]
fn request<'a>(
    opcode: &Opcode,
    header: &Header,
    head: ReplyHeader,
    body: &'a [u8],
) -> Option<Request<'a>> {
    let (extras, rest) = body.split_at_checked(header.extras)?;
    let (key, value) = rest.split_at_checked(header.key)?;
    let get = Get {
        key,
        head,
        with_key: opcode.shows_key(),
    };
    let store = |mode| store(mode, header, extras, key, value);
    let count = |decrement| count(decrement, header, extras, key);
    Some(match opcode.command {
        Command::Get => Request::Get(get),
        Command::Gat => Request::GetAndTouch(get, read_expiry(extras)?),
        Command::Touch => Request::Touch(get, read_expiry(extras)?),
        Command::Set => Request::Change(store(Mode::Set)?, head),
        Command::Add => Request::Change(store(Mode::Add)?, head),
        Command::Replace => Request::Change(store(Mode::Replace)?, head),
        Command::Append => Request::Change(store(Mode::Append)?, head),
        Command::Prepend => Request::Change(store(Mode::Prepend)?, head),
        Command::Increment => Request::Change(count(false)?, head),
        Command::Decrement => Request::Change(count(true)?, head),
        Command::Delete => {
            let delete = Delete {
                compare: header.compare(),
                ..Delete::new(key)
            };
            Request::Change(Change::Delete(delete), head)
        }
        Command::Flush => Request::Flush {
            delay: read_expiry(extras).unwrap_or(0),
            head,
        },
        Command::Stats => Request::Stat { key, head },
        Command::Version => Request::Version(head),
        Command::Quit => Request::Quit(head),
        Command::Noop | Command::Verbosity => Request::Noop(head),
        Command::SaslMechanisms => Request::SaslMechanisms(head),
        Command::SaslAuth => Request::SaslAuth {
            mechanism: key,
            response: value,
            head,
        },
        // These have no opcode.
        Command::Gets | Command::Gats | Command::Cas | Command::CacheLimit => return None,
        Command::MetaGet | Command::MetaSet | Command::MetaDelete => return None,
        Command::MetaArithmetic | Command::MetaDebug | Command::Shutdown => return None,
    })
}

fn store<'a>(
    mode: Mode,
    header: &Header,
    extras: &[u8],
    key: &'a [u8],
    value: &'a [u8],
) -> Option<Change<'a>> {
    // With a version, `set`, `add` and `replace` are a compare-and-swap.
    let mode = if header.cas != 0 && !mode.extends() {
        Mode::Set
    } else {
        mode
    };
    let (flags, exptime) = if mode.extends() {
        (0, 0)
    } else {
        let (flags, exptime) = extras.split_first_chunk()?;
        (u32::from_be_bytes(*flags), read_expiry(exptime)?)
    };
    Some(Change::Store(Store {
        flags,
        exptime,
        compare: header.compare(),
        ..Store::new(mode, key, value)
    }))
}

fn count<'a>(decrement: bool, header: &Header, extras: &[u8], key: &'a [u8]) -> Option<Change<'a>> {
    let (delta, rest) = extras.split_at_checked(8)?;
    let (initial, exptime) = rest.split_at_checked(8)?;
    // All bits set: a missing item is not created.
    let creates = exptime != [0xff; 4];
    let seed = Seed {
        value: read_u64(initial)?,
        exptime: read_expiry(exptime)?,
    };
    Some(Change::Count(Count {
        compare: header.compare(),
        seed: creates.then_some(seed),
        ..Count::new(key, read_u64(delta)?, decrement)
    }))
}
