//! Requests of the ASCII dialect, as its parser gives them.

use super::command::{Change, Count, Delete, Mode, Store, Touch};
use super::meta::Meta;
use super::tokens::Words;

/// Conditions of a storage command on an existing item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerb {
    /// Store always.
    Set,
    /// Store only if absent.
    Add,
    /// Store only if present.
    Replace,
    /// Extend an existing value at its end; flags and expiry are ignored.
    Append,
    /// Extend an existing value at its start; flags and expiry are ignored.
    Prepend,
    /// Store only if the row's version is still this one.
    Cas(u64),
}

impl StoreVerb {
    /// The verb as a mode and the version it expects.
    fn parts(self) -> (Mode, Option<u64>) {
        match self {
            StoreVerb::Set => (Mode::Set, None),
            StoreVerb::Add => (Mode::Add, None),
            StoreVerb::Replace => (Mode::Replace, None),
            StoreVerb::Append => (Mode::Append, None),
            StoreVerb::Prepend => (Mode::Prepend, None),
            StoreVerb::Cas(version) => (Mode::Set, Some(version)),
        }
    }
}

/// The keys of a request of the get family, in order, duplicates included.
/// An iterator over slices of the buffer; each key was checked.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    pub(super) words: Words<'a>,
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
        /// The keys; `gat 0` has none and is answered `END`.
        keys: Keys<'a>,
        /// Whether the versions are wanted (`gets`, `gats`).
        cas: bool,
        /// New expiry time of each row found (`gat`, `gats`).
        touch: Option<i64>,
    },
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`.
    Store {
        /// Which of them.
        verb: StoreVerb,
        /// The key.
        key: &'a [u8],
        /// The client's own 32 bits, returned with the value.
        flags: u32,
        /// 0: never; negative: at once; up to 30 days: seconds from now;
        /// beyond: seconds since 1970.
        exptime: i64,
        /// The value.
        value: &'a [u8],
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// `incr` and `decr`.
    Arithmetic {
        /// The key.
        key: &'a [u8],
        /// By how much.
        delta: u64,
        /// `decr`, which stops at 0 (`incr` wraps at 64 bits).
        decrement: bool,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// `delete`.
    Delete {
        /// The key.
        key: &'a [u8],
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// The key.
        key: &'a [u8],
        /// Expiry time, as for a store.
        exptime: i64,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// Delay in the form of an expiry time.
        delay: i64,
        /// Whether the client wants no answer.
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
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// `cache_memlimit`.
    CacheLimit {
        /// Requested limit.
        megabytes: u64,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// A meta command.
    Meta(Meta<'a>),
    /// `quit`: the connection ends after the answers before it.
    Quit,
}

impl<'a> Request<'a> {
    /// The request in terms that all dialects share, and whether it wants no
    /// answer; `None` for one that is not about a single item.
    #[inline]
    pub fn change(&self) -> Option<(Change<'a>, bool)> {
        Some(match *self {
            Request::Store {
                verb,
                key,
                flags,
                exptime,
                value,
                noreply,
            } => {
                let (mode, compare) = verb.parts();
                let store = Store {
                    flags,
                    exptime,
                    compare,
                    ..Store::new(mode, key, value)
                };
                (Change::Store(store), noreply)
            }
            Request::Arithmetic {
                key,
                delta,
                decrement,
                noreply,
            } => (Change::Count(Count::new(key, delta, decrement)), noreply),
            Request::Delete { key, noreply } => (Change::Delete(Delete::new(key)), noreply),
            Request::Touch {
                key,
                exptime,
                noreply,
            } => (Change::Touch(Touch { key, exptime }), noreply),
            _ => return None,
        })
    }
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
