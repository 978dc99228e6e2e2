//! Errors of the row layer, with MySQL 8's numbers, SQLSTATEs and texts.
//!
//! This module alone maps the engine's errors to MySQL's; the protocols use [`Error::code`],
//! [`Error::sqlstate`] and `Display`.
//!
//! Invariants:
//! 1. [`Error::ends_transaction`] is true exactly if the engine's transaction is over, or the
//!    session must roll it back because its snapshot is no longer valid.
//! 2. A message contains at most 64 characters of a user's value, in a duplicate key.

use porpoise_base::cancel::Reason;
use porpoise_kv as kv;
use porpoise_types::TypeError;

/// The result of a call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error. `Display` is MySQL's message text.
#[derive(Clone, Debug)]
pub enum Error {
    /// An error of the engine.
    Kv(kv::Error),
    /// A row to be written is newer than the transaction's pinned snapshot.
    SnapshotConflict,
    /// The engine has no room for rows of this table.
    Full {
        /// The table's name.
        table: String,
    },
    /// A unique key has this value already.
    Duplicate {
        /// The values, joined by `-`.
        entry: String,
        /// `table.index`.
        key: String,
    },
    /// A cascade would create duplicate entries of a unique key.
    CascadeDuplicate {
        /// The table whose change started the cascade.
        parent: String,
        /// The referenced value, joined by `-`.
        entry: String,
        /// The table changed by the cascade.
        child: String,
        /// The name of its unique key.
        key: String,
    },
    /// A foreign key names a parent that does not exist.
    NoReferencedRow {
        /// Table and constraint, as MySQL prints them between parentheses.
        constraint: String,
    },
    /// A row cannot be deleted or its key changed, because children reference it.
    RowIsReferenced {
        /// Table and constraint, as MySQL prints them between parentheses.
        constraint: String,
    },
    /// NULL for a NOT NULL column.
    NotNull {
        /// The column's name.
        column: String,
    },
    /// A CHECK constraint is false for a row.
    CheckViolated {
        /// The constraint's name.
        check: String,
    },
    /// A value does not have its column's storage kind: a bug in the caller.
    BadValue {
        /// The column's name.
        column: String,
    },
    /// The auto-increment counter has passed its column's range.
    AutoIncrementExhausted,
    /// A row beyond the engine's value limit.
    RowTooBig {
        /// Bytes of the encoded row.
        size: usize,
        /// Maximum size in bytes.
        limit: usize,
    },
    /// A key beyond 3,072 bytes.
    KeyTooLong,
    /// A row that belongs to no partition.
    NoPartition {
        /// The value of the partitioning expression, as MySQL prints it.
        value: String,
    },
    /// A row outside of the partitions that the statement selects.
    OtherPartition,
    /// The table does not exist.
    NoSuchTable {
        /// The database.
        database: String,
        /// The table.
        table: String,
    },
    /// The table exists already.
    TableExists {
        /// The table.
        table: String,
    },
    /// DROP TABLE of tables that do not exist.
    UnknownTables {
        /// `database.table`, joined by commas.
        tables: String,
    },
    /// The database does not exist.
    NoSuchDatabase {
        /// The database.
        database: String,
    },
    /// CREATE DATABASE of one that exists.
    DatabaseExists {
        /// The database.
        database: String,
    },
    /// DROP DATABASE of one that does not exist.
    CannotDropDatabase {
        /// The database.
        database: String,
    },
    /// The definition changed after the transaction's snapshot was taken.
    DefinitionChanged,
    /// An error with a given number, SQLSTATE and text (DDL).
    Refused {
        /// MySQL's error number.
        code: u16,
        /// The SQLSTATE.
        sqlstate: &'static str,
        /// The text.
        message: String,
    },
    /// A trigger tried to change a table that a statement around it is changing.
    TableInUse {
        /// The table's name.
        table: String,
    },
    /// The body of a trigger failed.
    Trigger {
        /// MySQL's error number, or that of SIGNAL.
        code: u16,
        /// The SQLSTATE, five characters.
        sqlstate: String,
        /// The text.
        message: String,
    },
    /// A value error of the type system.
    Type(TypeError),
    /// Stored bytes that are not a valid row, entry or catalog record.
    Corrupt(String),
}

impl From<kv::Error> for Error {
    fn from(e: kv::Error) -> Error {
        Error::Kv(e)
    }
}

impl From<TypeError> for Error {
    fn from(e: TypeError) -> Error {
        Error::Type(e)
    }
}

impl Error {
    /// Creates an error for inconsistent or invalid stored data.
    pub(crate) fn corrupt(what: &str) -> Error {
        Error::Corrupt(what.to_owned())
    }

    /// Creates an error from number, SQLSTATE and text.
    pub fn refused(code: u16, sqlstate: &'static str, message: impl Into<String>) -> Error {
        Error::Refused {
            code,
            sqlstate,
            message: message.into(),
        }
    }

    /// MySQL's error number.
    pub fn code(&self) -> u16 {
        match self {
            Error::Kv(e) => kv_code(e).0,
            Error::SnapshotConflict => 1213,
            Error::Full { .. } => 1114,
            Error::Duplicate { .. } => 1062,
            Error::CascadeDuplicate { .. } => 1761,
            Error::NoReferencedRow { .. } => 1452,
            Error::RowIsReferenced { .. } => 1451,
            Error::NotNull { .. } => 1048,
            Error::CheckViolated { .. } => 3819,
            Error::BadValue { .. } => 1366,
            Error::AutoIncrementExhausted => 1467,
            Error::RowTooBig { .. } => 1118,
            Error::KeyTooLong => 1071,
            Error::NoPartition { .. } => 1526,
            Error::OtherPartition => 1748,
            Error::NoSuchTable { .. } => 1146,
            Error::TableExists { .. } => 1050,
            Error::UnknownTables { .. } => 1051,
            Error::NoSuchDatabase { .. } => 1049,
            Error::DatabaseExists { .. } => 1007,
            Error::CannotDropDatabase { .. } => 1008,
            Error::DefinitionChanged => 1412,
            Error::Refused { code, .. } | Error::Trigger { code, .. } => *code,
            Error::TableInUse { .. } => 1442,
            Error::Type(e) => e.code,
            Error::Corrupt(_) => 1030,
        }
    }

    /// The SQLSTATE, five characters.
    pub fn sqlstate(&self) -> &str {
        match self {
            Error::Kv(e) => kv_code(e).1,
            Error::SnapshotConflict => "40001",
            Error::Duplicate { .. }
            | Error::CascadeDuplicate { .. }
            | Error::NoReferencedRow { .. }
            | Error::RowIsReferenced { .. }
            | Error::NotNull { .. } => "23000",
            Error::RowTooBig { .. } | Error::KeyTooLong | Error::NoSuchDatabase { .. } => "42000",
            Error::NoSuchTable { .. } | Error::UnknownTables { .. } => "42S02",
            Error::TableExists { .. } => "42S01",
            Error::Refused { sqlstate, .. } => sqlstate,
            Error::Trigger { sqlstate, .. } => sqlstate,
            Error::Type(e) => std::str::from_utf8(&e.sqlstate).unwrap_or("HY000"),
            Error::Full { .. }
            | Error::TableInUse { .. }
            | Error::BadValue { .. }
            | Error::CheckViolated { .. }
            | Error::AutoIncrementExhausted
            | Error::DatabaseExists { .. }
            | Error::CannotDropDatabase { .. }
            | Error::DefinitionChanged
            | Error::NoPartition { .. }
            | Error::OtherPartition
            | Error::Corrupt(_) => "HY000",
        }
    }

    /// Whether the transaction is over, not only the statement.
    pub fn ends_transaction(&self) -> bool {
        match self {
            Error::Kv(e) => e.ends_transaction(),
            Error::SnapshotConflict | Error::Corrupt(_) => true,
            _ => false,
        }
    }

    /// Whether the session must end: it was killed, or the server stops.
    pub fn ends_session(&self) -> bool {
        matches!(self, Error::Kv(kv::Error::Cancelled(r)) if r.ends_session())
    }

    /// Whether IGNORE turns this into a warning and continues with the next row.
    pub fn ignorable(&self) -> bool {
        matches!(
            self,
            Error::Duplicate { .. }
                | Error::CascadeDuplicate { .. }
                | Error::NoReferencedRow { .. }
                | Error::RowIsReferenced { .. }
                | Error::NotNull { .. }
                | Error::CheckViolated { .. }
                | Error::NoPartition { .. }
                | Error::OtherPartition
        )
    }
}

/// Number and SQLSTATE of an engine's error.
fn kv_code(e: &kv::Error) -> (u16, &'static str) {
    match e {
        kv::Error::Conflict | kv::Error::Deadlock | kv::Error::SnapshotGone => (1213, "40001"),
        kv::Error::LockTimeout => (1205, "HY000"),
        kv::Error::LockBusy => (3572, "HY000"),
        kv::Error::Cancelled(Reason::Query | Reason::Connection) => (1317, "70100"),
        kv::Error::Cancelled(Reason::Timeout) => (3024, "HY000"),
        kv::Error::Cancelled(Reason::Shutdown) => (1053, "08S01"),
        kv::Error::UnknownOutcome(_) => (1180, "HY000"),
        kv::Error::Full(kv::Resource::Ids) => (1467, "HY000"),
        kv::Error::Full(kv::Resource::Transaction) => (1197, "HY000"),
        kv::Error::Full(_) => (1114, "HY000"),
        kv::Error::ReadOnly(_) => (1836, "HY000"),
        kv::Error::Unsupported(_) => (1235, "42000"),
        kv::Error::TooLarge { what: "key", .. } => (1071, "42000"),
        kv::Error::TooLarge { .. } => (1118, "42000"),
        kv::Error::NoSuchSpace(_) => (1412, "HY000"),
        kv::Error::Ended | kv::Error::Corrupt(_) | kv::Error::Io(_) | kv::Error::Unavailable(_) => {
            (1030, "HY000")
        }
    }
}

const NO_ID: &str = "Failed to read auto-increment value from storage engine";
const DEFINITION_CHANGED: &str = "Table definition has changed, please retry transaction";

/// MySQL's text of error 1442.
fn table_in_use(table: &str) -> String {
    format!(
        "Can't update table '{table}' in stored function/trigger because it is already used by \
         statement which invoked this stored function/trigger."
    )
}

/// MySQL's text of an engine's error.
fn kv_text(e: &kv::Error, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    const DEADLOCK: &str = "Deadlock found when trying to get lock; try restarting transaction";
    match e {
        kv::Error::Conflict => write!(f, "{DEADLOCK} (snapshot conflict)"),
        kv::Error::SnapshotGone => write!(f, "{DEADLOCK} (snapshot no longer available)"),
        kv::Error::Deadlock => f.write_str(DEADLOCK),
        kv::Error::LockTimeout => {
            f.write_str("Lock wait timeout exceeded; try restarting transaction")
        }
        kv::Error::LockBusy => f.write_str(
            "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set.",
        ),
        kv::Error::Cancelled(Reason::Query | Reason::Connection) => {
            f.write_str("Query execution was interrupted")
        }
        kv::Error::Cancelled(Reason::Timeout) => f.write_str(
            "Query execution was interrupted, maximum statement execution time exceeded",
        ),
        kv::Error::Cancelled(Reason::Shutdown) => f.write_str("Server shutdown in progress"),
        kv::Error::UnknownOutcome(why) => write!(f, "Got error 1 - '{why}' during COMMIT"),
        kv::Error::Full(kv::Resource::Ids) => f.write_str(NO_ID),
        kv::Error::Full(kv::Resource::Transaction) => f.write_str(
            "The transaction's changes exceed the memory that one transaction may use; \
             split it into smaller ones",
        ),
        kv::Error::Full(kv::Resource::Memory) => f.write_str(
            "The memory limit for rows is reached (--memory-limit): delete rows or raise the limit",
        ),
        kv::Error::Full(kv::Resource::Disk) => f.write_str(
            "The disk of the data directory is full: free space; reads are still served",
        ),
        kv::Error::ReadOnly(why) => write!(f, "Running in read-only mode: {why}"),
        kv::Error::Unsupported(what) => {
            write!(f, "This version of Porpoise doesn't yet support '{what}' on this engine")
        }
        kv::Error::TooLarge {
            what: "key", limit, ..
        } => write!(f, "Specified key was too long; max key length is {limit} bytes"),
        kv::Error::TooLarge { what, size, limit } => {
            write!(f, "Row size too large: {what} of {size} bytes, the limit is {limit}")
        }
        kv::Error::NoSuchSpace(_) => f.write_str(DEFINITION_CHANGED),
        kv::Error::Ended
        | kv::Error::Corrupt(_)
        | kv::Error::Io(_)
        | kv::Error::Unavailable(_) => write!(f, "Got error 1 '{e}' from storage engine"),
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Kv(e) => kv_text(e, f),
            Error::SnapshotConflict => kv_text(&kv::Error::Conflict, f),
            Error::Full { table } => write!(f, "The table '{table}' is full"),
            Error::Duplicate { entry, key } => {
                write!(f, "Duplicate entry '{entry}' for key '{key}'")
            }
            Error::CascadeDuplicate {
                parent,
                entry,
                child,
                key,
            } => write!(
                f,
                "Foreign key constraint for table '{parent}', record '{entry}' would lead to a \
                 duplicate entry in table '{child}', key '{key}'"
            ),
            Error::NoReferencedRow { constraint } => write!(
                f,
                "Cannot add or update a child row: a foreign key constraint fails ({constraint})"
            ),
            Error::RowIsReferenced { constraint } => write!(
                f,
                "Cannot delete or update a parent row: a foreign key constraint fails ({constraint})"
            ),
            Error::NotNull { column } => write!(f, "Column '{column}' cannot be null"),
            Error::CheckViolated { check } => {
                write!(f, "Check constraint '{check}' is violated.")
            }
            Error::BadValue { column } => write!(f, "Incorrect value for column '{column}'"),
            Error::AutoIncrementExhausted => f.write_str(NO_ID),
            Error::RowTooBig { size, limit } => write!(
                f,
                "Row size too large. The maximum row size for the used table type is {limit} \
                 bytes, this one has {size}"
            ),
            Error::KeyTooLong => {
                f.write_str("Specified key was too long; max key length is 3072 bytes")
            }
            Error::NoPartition { value } => {
                write!(f, "Table has no partition for value {value}")
            }
            Error::OtherPartition => {
                f.write_str("Found a row not matching the given partition set")
            }
            Error::NoSuchTable { database, table } => {
                write!(f, "Table '{database}.{table}' doesn't exist")
            }
            Error::TableExists { table } => write!(f, "Table '{table}' already exists"),
            Error::UnknownTables { tables } => write!(f, "Unknown table '{tables}'"),
            Error::NoSuchDatabase { database } => write!(f, "Unknown database '{database}'"),
            Error::DatabaseExists { database } => {
                write!(f, "Can't create database '{database}'; database exists")
            }
            Error::CannotDropDatabase { database } => {
                write!(
                    f,
                    "Can't drop database '{database}'; database doesn't exist"
                )
            }
            Error::DefinitionChanged => f.write_str(DEFINITION_CHANGED),
            Error::Refused { message, .. } | Error::Trigger { message, .. } => f.write_str(message),
            Error::TableInUse { table } => f.write_str(&table_in_use(table)),
            Error::Type(e) => f.write_str(&e.message),
            Error::Corrupt(what) => {
                write!(f, "Got error 1 'corrupt data: {what}' from storage engine")
            }
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_mysqls() {
        let e = Error::Duplicate {
            entry: "1-a".into(),
            key: "t.PRIMARY".into(),
        };
        assert_eq!(e.to_string(), "Duplicate entry '1-a' for key 't.PRIMARY'");
        assert_eq!((e.code(), e.sqlstate()), (1062, "23000"));
        let e = Error::from(kv::Error::LockTimeout);
        assert_eq!(
            e.to_string(),
            "Lock wait timeout exceeded; try restarting transaction"
        );
        assert_eq!(
            (e.code(), e.sqlstate(), e.ends_transaction()),
            (1205, "HY000", false)
        );
        let e = Error::SnapshotConflict;
        assert_eq!(
            (e.code(), e.sqlstate(), e.ends_transaction()),
            (1213, "40001", true)
        );
        assert!(e.to_string().ends_with("(snapshot conflict)"));
    }
}
