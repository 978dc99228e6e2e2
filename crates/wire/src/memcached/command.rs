//! What the three dialects have in common: commands on one key, and what
//! became of them.
//!
//! Each dialect parses its bytes into these types and renders an [`Outcome`]
//! or an [`Item`] in its own way; whoever carries a command out knows nothing
//! of the dialect it came in.
//!
//! Invariants:
//! 1. A [`Change`] says everything that decides what happens to the item.
//!    What decides only how the answer looks (opaque, quiet, which fields are
//!    shown) stays with the dialect.
//! 2. Times are as the client sent them; only whoever carries the command out
//!    knows the time.
//!
//! Rejected: one type of request for reads and writes. Reads come in batches
//! of many keys and are rendered where the rows lie; a write has one key and
//! an outcome of fixed size.

/// How a storage command treats what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
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
}

impl Mode {
    /// Whether the value is added to what is there.
    pub fn extends(self) -> bool {
        matches!(self, Mode::Append | Mode::Prepend)
    }
}

/// A storage command.
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    /// The key.
    pub key: &'a [u8],
    /// How it treats what is there.
    pub mode: Mode,
    /// The value.
    pub value: &'a [u8],
    /// The client's own 32 bits, returned with the value.
    pub flags: u32,
    /// 0: never; negative: at once; up to 30 days: seconds from now; beyond:
    /// seconds since 1970.
    pub exptime: i64,
    /// Store only if the item is there and has this version. With
    /// [`Mode::Add`] it is ignored, as memcached does.
    pub compare: Option<u64>,
    /// Where `compare` is below the item's version: store, but mark the item
    /// as stale.
    pub invalidate: bool,
    /// Where an extension finds no item: store the value as a new one, with
    /// this expiry time.
    pub create: Option<i64>,
    /// The version that the item is to show from now on.
    pub version: Option<u64>,
}

impl<'a> Store<'a> {
    /// A plain store without conditions.
    pub fn new(mode: Mode, key: &'a [u8], value: &'a [u8]) -> Store<'a> {
        Store {
            key,
            mode,
            value,
            flags: 0,
            exptime: 0,
            compare: None,
            invalidate: false,
            create: None,
            version: None,
        }
    }
}

/// What counting makes where there is no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// The first value; nothing is added to it.
    pub value: u64,
    /// Expiry time as for a store.
    pub exptime: i64,
}

/// Counting up or down.
#[derive(Clone, Copy, Debug)]
pub struct Count<'a> {
    /// The key.
    pub key: &'a [u8],
    /// By how much.
    pub delta: u64,
    /// Down, which stops at 0 (up wraps at 64 bits).
    pub decrement: bool,
    /// Only if the item has this version.
    pub compare: Option<u64>,
    /// What to make where there is no item.
    pub seed: Option<Seed>,
    /// New expiry time of the item.
    pub touch: Option<i64>,
    /// The version that the item is to show from now on.
    pub version: Option<u64>,
}

impl<'a> Count<'a> {
    /// Counting without conditions.
    pub fn new(key: &'a [u8], delta: u64, decrement: bool) -> Count<'a> {
        Count {
            key,
            delta,
            decrement,
            compare: None,
            seed: None,
            touch: None,
            version: None,
        }
    }
}

/// Deleting, or marking as stale.
#[derive(Clone, Copy, Debug)]
pub struct Delete<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Only if the item has this version.
    pub compare: Option<u64>,
    /// Keep the item, give it a new version and mark it as stale.
    pub invalidate: bool,
    /// New expiry time of an item that is kept.
    pub touch: Option<i64>,
    /// Keep the item, but with an empty value and flags of 0.
    pub empty: bool,
    /// The version that an item that is kept is to show from now on.
    pub version: Option<u64>,
}

impl<'a> Delete<'a> {
    /// Deleting without conditions.
    pub fn new(key: &'a [u8]) -> Delete<'a> {
        Delete {
            key,
            compare: None,
            invalidate: false,
            touch: None,
            empty: false,
            version: None,
        }
    }
}

/// A new expiry time.
#[derive(Clone, Copy, Debug)]
pub struct Touch<'a> {
    /// The key.
    pub key: &'a [u8],
    /// As for a store.
    pub exptime: i64,
}

/// A command that may change one item.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Stores.
    Store(Store<'a>),
    /// Counts.
    Count(Count<'a>),
    /// Deletes, or marks as stale.
    Delete(Delete<'a>),
    /// Moves the moment of expiry.
    Touch(Touch<'a>),
}

impl<'a> Change<'a> {
    /// The key.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Change::Store(c) => c.key,
            Change::Count(c) => c.key,
            Change::Delete(c) => c.key,
            Change::Touch(c) => c.key,
        }
    }
}

impl Change<'_> {
    /// The same command on another key.
    pub fn with_key<'b>(&'b self, key: &'b [u8]) -> Change<'b> {
        match *self {
            Change::Store(c) => Change::Store(Store { key, ..c }),
            Change::Count(c) => Change::Count(Count { key, ..c }),
            Change::Delete(c) => Change::Delete(Delete { key, ..c }),
            Change::Touch(c) => Change::Touch(Touch { key, ..c }),
        }
    }
}

/// What became of a [`Change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Stored.
    Stored,
    /// A condition on the item's presence did not hold.
    NotStored,
    /// The item has another version than was expected.
    Exists,
    /// There is no item.
    NotFound,
    /// Deleted, or marked as stale.
    Deleted,
    /// The moment of expiry was moved.
    Touched,
    /// Counted; the number is in the outcome.
    Counted,
    /// The item's value is no number.
    NotNumeric,
    /// The value would exceed the limit.
    TooLarge,
}

/// What became of a [`Change`], and what the item is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What became of it.
    pub status: Status,
    /// The number, after [`Status::Counted`].
    pub number: u64,
    /// The item's version where the status says that it was changed, else 0.
    pub version: u64,
    /// When a counted item expires, in seconds since 1970; 0: never.
    pub expires: i64,
    /// Counting made the item.
    pub created: bool,
}

impl Outcome {
    /// A status and nothing more.
    pub fn of(status: Status) -> Outcome {
        Outcome {
            status,
            number: 0,
            version: 0,
            expires: 0,
            created: false,
        }
    }

    /// A status and the item's version.
    pub fn at(status: Status, version: u64) -> Outcome {
        Outcome {
            version,
            ..Outcome::of(status)
        }
    }
}

/// An item that was found, where its bytes lie.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The client's own 32 bits.
    pub flags: u32,
    /// The version.
    pub version: u64,
    /// The value.
    pub value: &'a [u8],
    /// When it expires, in seconds since 1970; 0: never.
    pub expires: i64,
}
