//! Commands on one key and their outcomes, independent of the dialect.
//!
//! Each dialect parses its bytes into these types and renders an [`Outcome`]
//! or an [`Item`] in its own format; the execution of a command does not
//! depend on its dialect.
//!
//! Invariants:
//! 1. A [`Change`] contains everything that affects the item. Properties that affect only the reply
//!    (opaque, quiet, fields to return) are kept by the dialect.
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
    /// Whether the command extends the existing value instead of replacing it.
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
    /// The client's flags: 32 bits without meaning to the server, returned with the value.
    pub flags: u32,
    /// Expiry time. 0: never; negative: immediately; up to 30 days: seconds from now; above that:
    /// seconds since 1970.
    pub exptime: i64,
    /// Store only if the item exists and has this version. Ignored with [`Mode::Add`], as in
    /// memcached.
    pub compare: Option<u64>,
    /// Whether to store and mark the item as stale if `compare` is below its version.
    pub invalidate: bool,
    /// For append and prepend without an item: store the value as a new item with this expiry
    /// time.
    pub create: Option<i64>,
    /// Version (CAS value) to assign to the item.
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
    /// Initial value; the delta is not applied to it.
    pub value: u64,
    /// Expiry time as for a store.
    pub exptime: i64,
}

/// Adds to or subtracts from a decimal value (`incr`, `decr`).
#[derive(Clone, Copy, Debug)]
pub struct Count<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Amount to add or subtract.
    pub delta: u64,
    /// Whether to subtract. Subtraction saturates at 0, addition wraps at 64 bits.
    pub decrement: bool,
    /// Change the item only if it has this version.
    pub compare: Option<u64>,
    /// The item to create if none exists.
    pub seed: Option<Seed>,
    /// New expiry time of the item.
    pub touch: Option<i64>,
    /// Version (CAS value) to assign to the item.
    pub version: Option<u64>,
}

impl<'a> Count<'a> {
    /// Creates a count without conditions.
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

/// Deletes an item, or marks it as stale.
#[derive(Clone, Copy, Debug)]
pub struct Delete<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Delete only if the item has this version.
    pub compare: Option<u64>,
    /// Whether to mark the item as stale, with a new version, instead of deleting it.
    pub invalidate: bool,
    /// New expiry time of the item if it is not deleted.
    pub touch: Option<i64>,
    /// Whether to set the value to empty and the flags to 0 instead of deleting the item.
    pub empty: bool,
    /// Version (CAS value) to assign to the item if it is not deleted.
    pub version: Option<u64>,
}

impl<'a> Delete<'a> {
    /// Creates a delete without conditions.
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

/// Sets the expiry time of an item.
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
    /// Sets the expiry time.
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
    /// The item's version differs from the expected one.
    Exists,
    /// The item does not exist.
    NotFound,
    /// Deleted, or marked as stale.
    Deleted,
    /// The expiry time was set.
    Touched,
    /// Counted; the number is in the outcome.
    Counted,
    /// The item's value is not a number.
    NotNumeric,
    /// The value would exceed the limit.
    TooLarge,
}

/// Outcome of a [`Change`]: its status, and the properties of the changed item that replies report.
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
    /// Whether `incr` or `decr` created the item ([`Seed`]).
    pub created: bool,
}

impl Outcome {
    /// Creates an outcome with a status only.
    pub fn with_status(status: Status) -> Outcome {
        Outcome {
            status,
            number: 0,
            version: 0,
            expires: 0,
            created: false,
        }
    }

    /// Creates an outcome with a status and the item's new version.
    pub fn with_version(status: Status, version: u64) -> Outcome {
        Outcome {
            version,
            ..Outcome::with_status(status)
        }
    }
}

/// An item that was found; borrows its bytes from the engine or a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The client's flags.
    pub flags: u32,
    /// The version.
    pub version: u64,
    /// The value.
    pub value: &'a [u8],
    /// Expiry time in seconds since 1970; 0: never.
    pub expires: i64,
}
