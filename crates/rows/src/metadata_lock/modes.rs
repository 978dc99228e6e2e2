//! The modes of metadata locks: uses of tables, what barriers exclude, and activities.

use crate::progress::Stage;
use porpoise_base::cancel::Reason;

/// Reason why a metadata lock was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataLockError {
    /// The deadline passed (1205).
    Timeout,
    /// The session waited in a cycle with others (1213).
    Deadlock,
    /// The wait was cancelled.
    Cancelled(Reason),
}

/// Use of a table by a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only reads rows.
    Read,
    /// It changes rows, or reads them for a constraint of rows that it changes.
    Write,
}

/// The sessions that a barrier blocks from a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// Those that write to it.
    Writers,
    /// All others.
    Everyone,
    /// Only those that raise a barrier of any kind: an online schema change.
    Definitions,
}

impl Exclusion {
    pub(super) fn covers(self, access: Access) -> bool {
        match self {
            Exclusion::Writers => access == Access::Write,
            Exclusion::Everyone => true,
            Exclusion::Definitions => false,
        }
    }

    /// Whether barriers of both kinds over one table exclude each other.
    pub(super) fn conflicts(self, other: Exclusion) -> bool {
        self != Exclusion::Writers || other != Exclusion::Writers
    }
}

/// A change that a lock of the whole server can hold off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// A statement or command that changes rows or definitions.
    Write = 1,
    /// The commit of a transaction that has changed rows.
    Commit = 2,
    /// A statement that changes definitions or accounts.
    Define = 4,
    /// Writes that a session may do until further notice: it has tables locked for writing, or
    /// acts for another session that writes.
    HeldWrites = 8,
}

/// The flags of [`Activity::Write`] in both its forms.
pub(super) const WRITES: u8 = Activity::Write as u8 | Activity::HeldWrites as u8;

/// The flags of activities that end with their statement.
pub(super) const STATEMENT: u8 = Activity::Write as u8 | Activity::Define as u8;

impl Activity {
    /// The flags that a block of this activity waits for.
    pub(super) fn flags(self) -> u8 {
        match self {
            Activity::Write | Activity::HeldWrites => WRITES,
            Activity::Commit | Activity::Define => self as u8,
        }
    }

    pub(super) fn stage(self) -> Stage {
        match self {
            Activity::Write | Activity::HeldWrites => Stage::WaitingForReadLock,
            Activity::Commit => Stage::WaitingForCommitLock,
            Activity::Define => Stage::WaitingForBackupLock,
        }
    }
}
