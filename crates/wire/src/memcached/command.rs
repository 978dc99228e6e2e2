//! Commands on one key and their outcomes, independent of the dialect.
//!
//! Each dialect parses its bytes into these types and renders an [`Outcome`]
//! or an [`Item`] in its own format; the execution of a command does not
//! depend on its dialect.
//!
//! Invariants:
//! 1. A [`Change`] contains everything that affects the item. What affects only the
//!    form of the reply (opaque, quiet, fields to show) stays with the dialect.
//! 2. Times are as the client sent them; only the executor of the command knows the
//!    current time.
//!
//! Rejected: one type of request for reads and writes. Reads come in batches
//! of many keys and are rendered directly from the engine's rows; a write has one
//! key and an outcome of fixed size.

/// Conditions of a storage command on an existing item.
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
    /// Condition on an existing item.
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
    /// Whether to store and mark the item as stale if `compare` is below its version.
    pub invalidate: bool,
    /// For append and prepend without an item: store the value as a new item with this expiry
    /// time.
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

/// The item that `incr` and `decr` create if there is none.
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
    /// The item to create if there is none.
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
    /// New expiry time of an item that is not deleted.
    pub touch: Option<i64>,
    /// Keep the item, but with an empty value and flags of 0.
    pub empty: bool,
    /// CAS value that an item that is not deleted shows from now on.
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
    /// Expiry time, as for a store.
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

/// Status of an executed [`Change`].
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

/// Outcome of a [`Change`]: its status, and the item afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Status of the change.
    pub status: Status,
    /// The number, after [`Status::Counted`].
    pub number: u64,
    /// New version of the item if it was changed, otherwise 0.
    pub version: u64,
    /// Expiry time of an item changed by `incr` or `decr`, in seconds since 1970; 0: never.
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

/// An item that was found; borrows its bytes from the engine or a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The client's own 32 bits.
    pub flags: u32,
    /// The version.
    pub version: u64,
    /// The value.
    pub value: &'a [u8],
    /// Expiry time in seconds since 1970; 0: never.
    pub expires: i64,
}
