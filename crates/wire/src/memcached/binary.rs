//! Parser of the binary dialect.
//!
//! A request is a header of 24 bytes (magic 0x80, opcode, length of the key,
//! length of the extras, data type, partition, length of the body, opaque,
//! version), then extras, key and value, which together are the body. Numbers
//! are big-endian. [`BinaryParser::parse`] parses the start of the
//! connection's buffer, like the parser of the ASCII dialect.
//!
//! Behaviour is that of memcached 1.6.18, established by transcripts:
//! 1. A request whose lengths do not fit its opcode is answered `Invalid
//!    arguments`, one whose lengths do not fit each other `Unknown command`,
//!    and the connection ends: the stream cannot be followed further.
//! 2. An unknown opcode is answered `Unknown command`, and its body swallowed.
//! 3. A value that is too large is swallowed by its stated length.
//! 4. Keys may hold any bytes.
//!
//! Difference: VERBOSITY (0x1b) of the protocol's description, which memcached
//! does not have, is taken and changes nothing.

use super::MAX_KEY;
use super::ascii::Limits;
use super::command::{Change, Count, Delete, Mode, Seed, Store};

/// Length of a header.
pub const HEADER: usize = 24;
/// First byte of a request.
pub const REQUEST_MAGIC: u8 = 0x80;

/// Opcodes, as the protocol's description names them. Quiet variants are
/// turned into the loud ones and a flag.
pub mod opcode {
    #![expect(missing_docs, reason = "the names are those of the protocol")]
    pub const GET: u8 = 0x00;
    pub const SET: u8 = 0x01;
    pub const ADD: u8 = 0x02;
    pub const REPLACE: u8 = 0x03;
    pub const DELETE: u8 = 0x04;
    pub const INCREMENT: u8 = 0x05;
    pub const DECREMENT: u8 = 0x06;
    pub const QUIT: u8 = 0x07;
    pub const FLUSH: u8 = 0x08;
    pub const GETQ: u8 = 0x09;
    pub const NOOP: u8 = 0x0a;
    pub const VERSION: u8 = 0x0b;
    pub const GETK: u8 = 0x0c;
    pub const GETKQ: u8 = 0x0d;
    pub const APPEND: u8 = 0x0e;
    pub const PREPEND: u8 = 0x0f;
    pub const STAT: u8 = 0x10;
    pub const SETQ: u8 = 0x11;
    pub const ADDQ: u8 = 0x12;
    pub const REPLACEQ: u8 = 0x13;
    pub const DELETEQ: u8 = 0x14;
    pub const INCREMENTQ: u8 = 0x15;
    pub const DECREMENTQ: u8 = 0x16;
    pub const QUITQ: u8 = 0x17;
    pub const FLUSHQ: u8 = 0x18;
    pub const APPENDQ: u8 = 0x19;
    pub const PREPENDQ: u8 = 0x1a;
    pub const VERBOSITY: u8 = 0x1b;
    pub const TOUCH: u8 = 0x1c;
    pub const GAT: u8 = 0x1d;
    pub const GATQ: u8 = 0x1e;
    pub const GATK: u8 = 0x23;
    pub const GATKQ: u8 = 0x24;
    pub const SASL_LIST_MECHS: u8 = 0x20;
    pub const SASL_AUTH: u8 = 0x21;
    pub const SASL_STEP: u8 = 0x22;
}

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum StatusCode {
    /// Done.
    Ok = 0x00,
    /// No such key.
    NotFound = 0x01,
    /// The item has another version, or is there already.
    Exists = 0x02,
    /// The value is too large.
    TooLarge = 0x03,
    /// The request makes no sense.
    Invalid = 0x04,
    /// A condition did not hold.
    NotStored = 0x05,
    /// The value is no number.
    NotNumeric = 0x06,
    /// Not authenticated, or not privileged.
    Auth = 0x20,
    /// Unknown command.
    Unknown = 0x81,
    /// The server could not do it.
    Internal = 0x84,
    /// The server could not do it now.
    Temporary = 0x86,
}

/// Fields of a request that its reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The opcode as it was sent.
    pub opcode: u8,
    /// The client's own 32 bits.
    pub opaque: u32,
    /// The answer that is usual is not wanted.
    pub quiet: bool,
}

/// A get of one key.
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Fields that the reply repeats.
    pub head: Head,
    /// The key is wanted in the answer.
    pub with_key: bool,
}

/// A complete request.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// GET and its variants.
    Get(Get<'a>),
    /// GAT and its variants: the new expiry time.
    GetAndTouch(Get<'a>, i64),
    /// TOUCH: the new expiry time. Its answer shows the flags.
    Touch(Get<'a>, i64),
    /// Stores, counting, deleting.
    Change(Change<'a>, Head),
    /// FLUSH.
    Flush {
        /// Delay in the form of an expiry time.
        delay: i64,
        /// Fields that the reply repeats.
        head: Head,
    },
    /// STAT.
    Stat {
        /// Which figures; empty: the general ones.
        key: &'a [u8],
        /// Fields that the reply repeats.
        head: Head,
    },
    /// NOOP and VERBOSITY.
    Noop(Head),
    /// VERSION.
    Version(Head),
    /// QUIT.
    Quit(Head),
    /// SASL LIST MECHS.
    SaslMechanisms(Head),
    /// SASL AUTH and SASL STEP.
    SaslAuth {
        /// The mechanism's name.
        mechanism: &'a [u8],
        /// The client's response.
        response: &'a [u8],
        /// Fields that the reply repeats.
        head: Head,
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
    /// At least so many more bytes (never 0) are needed.
    NeedMore(usize),
    /// A request; drop `consumed` bytes after it was carried out.
    Request {
        /// The request.
        request: Request<'a>,
        /// Length of the request in the buffer.
        consumed: usize,
    },
    /// A refusal: answer the status, drop `consumed` bytes.
    Refused {
        /// Fields that the reply repeats.
        head: Head,
        /// Why.
        status: StatusCode,
        /// Bytes to drop.
        consumed: usize,
        /// The connection must end.
        closes: bool,
    },
    /// Bytes of a refused body: drop them and parse on.
    Swallow {
        /// Bytes to drop, never 0.
        consumed: usize,
    },
    /// No request of this dialect; the connection must end without an answer.
    Foreign,
}

/// A header, taken apart.
struct Header {
    opcode: u8,
    key: usize,
    extras: usize,
    body: usize,
    opaque: u32,
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
            // 32 bits fit the 64 of the machines that this runs on.
            body: u32::from_be_bytes([b0, b1, b2, b3]) as usize,
            opaque: u32::from_be_bytes([o0, o1, o2, o3]),
            cas: u64::from_be_bytes(cas),
        }
    }

    fn compare(&self) -> Option<u64> {
        (self.cas != 0).then_some(self.cas)
    }
}

/// The loud opcode of a quiet one, and whether it was quiet.
fn loud(code: u8) -> (u8, bool) {
    match code {
        opcode::GETQ => (opcode::GET, true),
        opcode::GETKQ => (opcode::GETK, true),
        opcode::SETQ..=opcode::FLUSHQ => (code - opcode::SETQ + opcode::SET, true),
        opcode::APPENDQ | opcode::PREPENDQ => (code - opcode::APPENDQ + opcode::APPEND, true),
        opcode::GATQ => (opcode::GAT, true),
        opcode::GATKQ => (opcode::GATK, true),
        other => (other, false),
    }
}

/// Whether the lengths fit the opcode; `None` for an unknown one.
fn fits(code: u8, key: usize, extras: usize, body: usize) -> Option<bool> {
    let bare = key == 0 && extras == 0 && body == 0;
    Some(match code {
        opcode::GET | opcode::GETK | opcode::DELETE => key > 0 && extras == 0 && body == key,
        opcode::SET | opcode::ADD | opcode::REPLACE => key > 0 && extras == 8,
        opcode::APPEND | opcode::PREPEND => key > 0 && extras == 0,
        opcode::INCREMENT | opcode::DECREMENT => key > 0 && extras == 20 && body == key + extras,
        opcode::TOUCH | opcode::GAT | opcode::GATK => {
            key > 0 && extras == 4 && body == key + extras
        }
        opcode::QUIT | opcode::NOOP | opcode::VERSION | opcode::SASL_LIST_MECHS => bare,
        opcode::SASL_AUTH | opcode::SASL_STEP => key > 0 && extras == 0,
        opcode::FLUSH => key == 0 && body == extras && (extras == 0 || extras == 4),
        opcode::VERBOSITY => key == 0 && body == extras && extras == 4,
        opcode::STAT => extras == 0 && body == key,
        _ => return None,
    })
}

/// Parser of one connection.
#[derive(Debug)]
pub struct BinaryParser {
    limits: Limits,
    /// Bytes of a refused body still to come.
    swallow: usize,
}

impl BinaryParser {
    /// A parser at the start of a connection.
    pub fn new(limits: Limits) -> BinaryParser {
        BinaryParser { limits, swallow: 0 }
    }

    /// Changes what the connection may send from its next request on.
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
        let (code, quiet) = loud(header.opcode);
        let head = Head {
            opcode: header.opcode,
            opaque: header.opaque,
            quiet,
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
        match fits(code, header.key, header.extras, header.body) {
            None => {
                self.swallow = header.body;
                return refused(StatusCode::Unknown, false);
            }
            Some(false) => return refused(StatusCode::Invalid, true),
            Some(true) if header.key > MAX_KEY => return refused(StatusCode::Invalid, true),
            Some(true) => {}
        }
        let value = header.body - header.key - header.extras;
        // The flags may not have arrived yet; the header alone decides.
        if !self.limits.allow(header.key, 0, value) {
            self.swallow = header.body;
            return refused(StatusCode::TooLarge, false);
        }
        let consumed = HEADER + header.body;
        let Some(body) = buf.get(HEADER..consumed) else {
            return Parsed::NeedMore(consumed - buf.len());
        };
        match request(code, &header, head, body) {
            Some(request) => Parsed::Request { request, consumed },
            None => refused(StatusCode::Invalid, true),
        }
    }
}

/// A number of 64 bits at the start of some bytes.
fn long(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.first_chunk()?))
}

/// Reads an expiry time: 32 unsigned bits, so that a time that is negative in other
/// dialects is in the year 2106.
fn time(bytes: &[u8]) -> Option<i64> {
    Some(i64::from(u32::from_be_bytes(*bytes.first_chunk()?)))
}

/// The request of a body whose lengths fit; `None` never happens then.
#[inline]
fn request<'a>(code: u8, header: &Header, head: Head, body: &'a [u8]) -> Option<Request<'a>> {
    let (extras, rest) = body.split_at_checked(header.extras)?;
    let (key, value) = rest.split_at_checked(header.key)?;
    let get = |with_key| Get {
        key,
        head,
        with_key,
    };
    Some(match code {
        opcode::GET => Request::Get(get(false)),
        opcode::GETK => Request::Get(get(true)),
        opcode::GAT => Request::GetAndTouch(get(false), time(extras)?),
        opcode::GATK => Request::GetAndTouch(get(true), time(extras)?),
        opcode::TOUCH => Request::Touch(get(false), time(extras)?),
        opcode::SET | opcode::ADD | opcode::REPLACE | opcode::APPEND | opcode::PREPEND => {
            Request::Change(store(code, header, extras, key, value)?, head)
        }
        opcode::INCREMENT | opcode::DECREMENT => {
            Request::Change(count(code, header, extras, key)?, head)
        }
        opcode::DELETE => {
            let delete = Delete {
                compare: header.compare(),
                ..Delete::new(key)
            };
            Request::Change(Change::Delete(delete), head)
        }
        opcode::FLUSH => Request::Flush {
            delay: time(extras).unwrap_or(0),
            head,
        },
        opcode::STAT => Request::Stat { key, head },
        opcode::VERSION => Request::Version(head),
        opcode::QUIT => Request::Quit(head),
        opcode::SASL_LIST_MECHS => Request::SaslMechanisms(head),
        opcode::SASL_AUTH | opcode::SASL_STEP => Request::SaslAuth {
            mechanism: key,
            response: value,
            head,
        },
        _ => Request::Noop(head),
    })
}

fn store<'a>(
    code: u8,
    header: &Header,
    extras: &[u8],
    key: &'a [u8],
    value: &'a [u8],
) -> Option<Change<'a>> {
    let mode = match code {
        opcode::APPEND => Mode::Append,
        opcode::PREPEND => Mode::Prepend,
        // A version makes a compare and swap of any of the three.
        _ if header.cas != 0 => Mode::Set,
        opcode::ADD => Mode::Add,
        opcode::REPLACE => Mode::Replace,
        _ => Mode::Set,
    };
    let (flags, exptime) = if mode.extends() {
        (0, 0)
    } else {
        let (flags, exptime) = extras.split_first_chunk()?;
        (u32::from_be_bytes(*flags), time(exptime)?)
    };
    Some(Change::Store(Store {
        flags,
        exptime,
        compare: header.compare(),
        ..Store::new(mode, key, value)
    }))
}

fn count<'a>(code: u8, header: &Header, extras: &[u8], key: &'a [u8]) -> Option<Change<'a>> {
    let (delta, rest) = extras.split_at_checked(8)?;
    let (initial, exptime) = rest.split_at_checked(8)?;
    // All bits set: nothing is made where there is no item.
    let makes = exptime != [0xff; 4];
    let seed = Seed {
        value: long(initial)?,
        exptime: time(exptime)?,
    };
    Some(Change::Count(Count {
        compare: header.compare(),
        seed: makes.then_some(seed),
        ..Count::new(key, long(delta)?, code == opcode::DECREMENT)
    }))
}
