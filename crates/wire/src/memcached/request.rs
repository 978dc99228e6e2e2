//! Requests of the ASCII dialect, as returned by its parser.

use super::command::Change;
use super::meta::Meta;
use super::tokens::Words;

/// Keys of `get`, `gets`, `gat` or `gats`, in order and with duplicates: an iterator over slices of
/// the buffer. The parser has validated each key.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    pub(super) words: Words<'a>,
    /// Number of keys that the iterator has not returned yet.
    pub(super) left: usize,
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let key = self.words.next()?;
        self.left = self.left.saturating_sub(1);
        Some(key)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Keys<'_> {}

/// One complete request, borrowed from the connection's buffer.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`.
    Get {
        /// The keys. `gat 0` has none; its reply is `END`.
        keys: Keys<'a>,
        /// Whether the reply includes versions (`gets`, `gats`).
        cas: bool,
        /// New expiry time of each row found (`gat`, `gats`).
        touch: Option<i64>,
    },
    /// A command that may change one item.
    Change {
        /// The change.
        change: Change<'a>,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// Delay, in the format of an expiry time.
        delay: i64,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `stats` and its arguments.
    Stats {
        /// Words after the command.
        args: Args<'a>,
    },
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity {
        /// Requested level.
        level: u32,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `cache_memlimit`.
    CacheLimit {
        /// Requested limit.
        megabytes: u64,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// A meta command.
    Meta(Meta<'a>),
    /// `quit`: the connection closes after the replies to earlier requests are sent.
    Quit,
}

/// Arguments of `stats`.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a>(pub(super) Words<'a>);

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.next()
    }
}
