//! Parser of the ASCII dialect.
//!
//! A request is one line, ended by LF or CR LF, with words separated by
//! spaces; the storage commands are followed by a block of as many bytes as
//! the line states, and CR LF. [`Parser::parse`] parses the start of the
//! connection's buffer and returns a request that borrows from it, a refusal,
//! or the least number of bytes that are missing.
//!
//! Behaviour and reply texts are those of memcached 1.6.18, established by
//! transcripts of that version:
//! 1. A wrong number of words, an unknown command and an empty line are
//!    answered `ERROR`; other mistakes in a line have texts of their own, and
//!    are not answered at all when the line ends in `noreply`.
//! 2. After a refused line the next line is parsed as a command, even if the client sent it as the
//!    value of the refused one: the length in the refused line may be wrong.
//! 3. The value of a request that is too large is discarded by its stated length.
//! 4. If a block does not end in CR LF, exactly its stated length and two more bytes are discarded.
//!
//! Intentional differences:
//! 5. Lengths and times out of range are refused instead of truncated to 32 bits, and an expiry
//!    time keeps 64 bits. Client flags are truncated, as in memcached.
//! 6. Control characters in keys are refused, except for TAB, which separates the columns of a
//!    key. The protocol's specification forbids all of them, and memcached accepts all of them.
//! 7. memcached drops a connection after 2,048 bytes without an end of line,
//!    and parses a longer line that arrives in one read of its 16 KiB buffer.
//!    Here the reply does not depend on how the bytes arrive: a line of up to [`MAX_SHORT_LINE`]
//!    bytes is parsed; a longer one is refused and skipped to its end, and the command after it is
//!    executed. Lines of all commands of the get family (`get`, `gets`, `gat`, `gats`) may be
//!    longer, not only those of `get` and `gets`.
//!
//! The first [`MAX_SHORT_LINE`] bytes of a line over its limit are parsed as a command; if that
//! fails, the reply is its fault, otherwise [`Fault::LineTooLong`]. The bytes of the line are
//! dropped as they arrive, so the buffer stays bounded.
//!
//! Rejected: a parser that returns the keys of a long `get` one by one as they arrive. The keys of a
//! request are one batch in one snapshot, so execution cannot start before the line is complete,
//! and [`Limits::max_line`] bounds the line.

use super::command::{Change, Store};
use super::commands::Command;
use super::line::{Line, parse_line};
use super::meta::{Meta, MetaFault, MetaLine};
use super::tokens::Words;

/// Longest line of a command outside the get family, without its end: the read
/// buffer of memcached 1.6.18.
pub const MAX_SHORT_LINE: usize = 16 << 10;

/// Bytes that memcached counts for an item in addition to key and value: the
/// header with the CAS value (56), the key's NUL, and CR LF.
const ITEM_OVERHEAD: usize = 59;

/// Spaces that may precede a get command longer than [`MAX_SHORT_LINE`].
const MAX_LEADING_SPACES: usize = 100;

/// Limits of requests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest value in bytes.
    pub max_value: usize,
    /// Largest item in bytes, as memcached counts it for its `-I`: key, value
    /// and [`ITEM_OVERHEAD`].
    pub max_item: usize,
    /// Longest line of the get family in bytes.
    pub max_line: usize,
}

impl Default for Limits {
    /// Values of 1 MiB as memcached's default, lines of 16 MiB.
    fn default() -> Self {
        Limits {
            max_value: 1 << 20,
            max_item: 1 << 20,
            max_line: 16 << 20,
        }
    }
}

impl Limits {
    /// Whether an item with these lengths is within the limits.
    #[inline]
    pub fn allow(&self, key: usize, flags: u32, value: usize) -> bool {
        // memcached stores flags only if they are not 0.
        let flags = if flags == 0 { 0 } else { size_of::<u32>() };
        let item = value.saturating_add(key + flags + ITEM_OVERHEAD);
        value <= self.max_value && item <= self.max_item
    }
}

pub use super::request::{Args, Keys, Request};

/// Error in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Unknown command or wrong number of words.
    Unknown,
    /// A word that should be a number is not; a key is too long or contains control characters; or
    /// a length is negative.
    BadFormat,
    /// `delete` with a third word that is neither 0 nor `noreply`.
    DeleteUsage,
    /// An expiry time that is not a number.
    BadExptime,
    /// A delta that is not a number.
    BadDelta,
    /// The value exceeds [`Limits::max_value`]; it is discarded.
    TooLarge,
    /// The value is not followed by CR LF.
    BadChunk,
    /// `shutdown`.
    ShutdownRefused,
    /// A line over its limit; it is skipped to its end.
    LineTooLong,
    /// A request of another protocol (HTTP); the connection must end.
    ForeignProtocol,
    /// A first byte of the binary dialect; the connection must end.
    BinaryDialect,
    /// A mistake in a meta command.
    Meta(MetaFault),
}

impl Fault {
    /// Returns the reply with CR LF; empty where memcached closes without a reply.
    pub fn reply(self) -> &'static [u8] {
        match self {
            Fault::Unknown => b"ERROR\r\n",
            Fault::BadFormat => b"CLIENT_ERROR bad command line format\r\n",
            Fault::DeleteUsage => {
                b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
            }
            Fault::BadExptime => b"CLIENT_ERROR invalid exptime argument\r\n",
            Fault::BadDelta => b"CLIENT_ERROR invalid numeric delta argument\r\n",
            Fault::TooLarge => b"SERVER_ERROR object too large for cache\r\n",
            Fault::BadChunk => b"CLIENT_ERROR bad data chunk\r\n",
            Fault::ShutdownRefused => b"ERROR: shutdown not enabled\r\n",
            Fault::Meta(fault) => fault.reply(),
            Fault::LineTooLong => b"CLIENT_ERROR line too long\r\n",
            Fault::ForeignProtocol | Fault::BinaryDialect => b"",
        }
    }

    /// Whether the connection must end, because the start of the next request is unknown.
    pub fn closes_connection(self) -> bool {
        matches!(self, Fault::ForeignProtocol | Fault::BinaryDialect)
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
    /// A rejected request: the caller replies [`Fault::reply`] unless `silent`, drops `consumed`
    /// bytes, and continues unless [`Fault::closes_connection`].
    Refused {
        /// The error.
        fault: Fault,
        /// Whether the client wants no reply (`noreply`).
        silent: bool,
        /// The key, if the fault is [`Fault::TooLarge`].
        key: Option<&'a [u8]>,
        /// Bytes to drop.
        consumed: usize,
    },
    /// Bytes of a rejected line or value: the caller drops them and continues to parse.
    Swallow {
        /// Bytes to drop, never 0.
        consumed: usize,
    },
}

/// Parser of one connection.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    /// Bytes of a rejected value that have not arrived yet.
    swallow: usize,
    /// Whether the buffer begins inside a rejected line.
    skip_line: bool,
    /// Number of bytes at the start of the buffer that are known to contain no LF.
    scanned: usize,
}

impl Parser {
    /// Creates a parser for the start of a connection.
    pub fn new(limits: Limits) -> Self {
        Parser {
            limits,
            swallow: 0,
            skip_line: false,
            scanned: 0,
        }
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
        if self.skip_line {
            return self.skip_line(buf);
        }
        if self.swallow > 0 {
            return self.swallow(buf);
        }
        if buf.first() == Some(&0x80) {
            return fatal(Fault::BinaryDialect, buf.len());
        }
        let unseen = buf.get(self.scanned..).unwrap_or_default();
        let Some(at) = memchr::memchr(b'\n', unseen) else {
            return self.unfinished_line(buf);
        };
        let end = self.scanned + at;
        self.scanned = 0;
        let line = buf.get(..end).unwrap_or_default();
        if end > MAX_SHORT_LINE && !self.long_line_allowed(line) {
            return self.refuse_long_line(line);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match parse_line(line) {
            Line::Request(request) => Parsed::Request {
                request,
                consumed: end + 1,
            },
            Line::Store {
                store,
                length,
                noreply,
            } => {
                let request = |change| Request::Change { change, noreply };
                self.parse_value(store, end + 1, length, noreply, buf, request)
            }
            Line::Meta(meta) => self.meta(meta, buf, end + 1),
            Line::Refused {
                fault,
                noreply: silent,
            } => Parsed::Refused {
                fault,
                silent,
                key: None,
                consumed: end + 1,
            },
        }
    }

    fn swallow<'a>(&mut self, buf: &'a [u8]) -> Parsed<'a> {
        let consumed = self.swallow.min(buf.len());
        if consumed == 0 {
            return Parsed::NeedMore(1);
        }
        self.swallow -= consumed;
        Parsed::Swallow { consumed }
    }

    /// Handles a buffer without LF.
    fn unfinished_line<'a>(&mut self, buf: &'a [u8]) -> Parsed<'a> {
        if buf.len() > MAX_SHORT_LINE && !self.long_line_allowed(buf) {
            self.scanned = 0;
            return self.refuse_long_line(buf);
        }
        self.scanned = buf.len();
        Parsed::NeedMore(1)
    }

    /// Rejects a line over its limit. `line` is the part received so far.
    #[cold]
    fn refuse_long_line<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        let start = line.get(..MAX_SHORT_LINE).unwrap_or(line);
        let command = Words::new(start).next().unwrap_or_default();
        let fault = match parse_line(start) {
            // HTTP methods are capitals, which no command has. The last word, which identifies a
            // request line of HTTP, has not been received yet.
            Line::Refused {
                fault: Fault::Unknown,
                noreply: _,
            } if command.first().is_some_and(u8::is_ascii_uppercase) => {
                return fatal(Fault::ForeignProtocol, line.len());
            }
            // The missing words may follow.
            Line::Refused {
                fault: Fault::Unknown,
                noreply: _,
            } if Words::new(start).nth(1).is_some() => Fault::BadFormat,
            Line::Refused { fault, noreply: _ } => fault,
            Line::Meta(MetaLine::Refused(fault, value)) => {
                self.swallow = value.map_or(0, |length| length.saturating_add(2));
                Fault::Meta(fault)
            }
            _ => Fault::LineTooLong,
        };
        self.skip_line = true;
        Parsed::Refused {
            fault,
            silent: false,
            key: None,
            consumed: line.len(),
        }
    }

    /// Discards bytes up to the end of a rejected line.
    fn skip_line<'a>(&mut self, buf: &'a [u8]) -> Parsed<'a> {
        if buf.is_empty() {
            return Parsed::NeedMore(1);
        }
        let end = memchr::memchr(b'\n', buf);
        self.skip_line = end.is_none();
        Parsed::Swallow {
            consumed: end.map_or(buf.len(), |end| end + 1),
        }
    }

    /// Whether a line of more than [`MAX_SHORT_LINE`] bytes is allowed; `line` is at least its
    /// start.
    fn long_line_allowed(&self, line: &[u8]) -> bool {
        let spaces = line.iter().take_while(|&&b| b == b' ').count();
        if spaces > MAX_LEADING_SPACES || line.len() > self.limits.max_line {
            return false;
        }
        matches!(
            Words::new(line).next().and_then(Command::of_word),
            Some(Command::Get | Command::Gets | Command::Gat | Command::Gats)
        )
    }

    /// Completes a parsed meta command: parses the value that follows `ms`. `line` is the length of
    /// the line with its end.
    fn meta<'a>(&mut self, meta: MetaLine<'a>, buf: &'a [u8], line: usize) -> Parsed<'a> {
        match meta {
            MetaLine::Done(meta) => Parsed::Request {
                request: Request::Meta(meta),
                consumed: line,
            },
            MetaLine::Refused(fault, value) => {
                self.swallow = value.map_or(0, |length| length.saturating_add(2));
                Parsed::Refused {
                    fault: Fault::Meta(fault),
                    silent: false,
                    key: None,
                    consumed: line,
                }
            }
            MetaLine::Store(store, format, length) => {
                let request = |change| Request::Meta(Meta::Change(change, format));
                self.parse_value(store, line, length, false, buf, request)
            }
        }
    }

    /// Parses the value of `length` bytes that follows the line of a storage command, whose length
    /// with its end is `line`. `request` converts the command with its value to a request.
    fn parse_value<'a>(
        &mut self,
        store: Store<'a>,
        line: usize,
        length: usize,
        silent: bool,
        buf: &'a [u8],
        request: impl FnOnce(Change<'a>) -> Request<'a>,
    ) -> Parsed<'a> {
        let refused = |fault, key, consumed| Parsed::Refused {
            fault,
            silent,
            key,
            consumed,
        };
        if !self.limits.allow(store.key.len(), store.flags, length) {
            self.swallow = length.saturating_add(2);
            return refused(Fault::TooLarge, Some(store.key), line);
        }
        // No overflow: the length is below 2^31, a line below its limit.
        let consumed = line + length + 2;
        let Some(block) = buf.get(line..consumed) else {
            return Parsed::NeedMore(consumed - buf.len());
        };
        let Some(value) = block.strip_suffix(b"\r\n") else {
            return refused(Fault::BadChunk, None, consumed);
        };
        Parsed::Request {
            request: request(Change::Store(Store { value, ..store })),
            consumed,
        }
    }
}

/// The rejection of bytes after which the connection must end.
fn fatal<'a>(fault: Fault, consumed: usize) -> Parsed<'a> {
    Parsed::Refused {
        fault,
        silent: false,
        key: None,
        consumed,
    }
}
