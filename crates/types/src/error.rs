//! Errors and warnings of values, with MySQL's numbers, SQLSTATEs and texts.

use std::fmt;

/// Severity of a [`Warning`], as SHOW WARNINGS prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something harmless was adjusted.
    Note,
    /// Data was changed or replaced.
    Warning,
    /// A failed statement also lists its error.
    Error,
}

/// A condition that does not end the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Note, Warning or Error.
    pub level: Level,
    /// MySQL's error number.
    pub code: u16,
    /// MySQL's text.
    pub message: String,
}

/// A condition that ends the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// MySQL's error number.
    pub code: u16,
    /// The SQLSTATE that MySQL pairs with the number.
    pub sqlstate: [u8; 5],
    /// MySQL's text.
    pub message: String,
}

impl TypeError {
    /// An error with the SQLSTATE that belongs to `code`.
    #[must_use]
    pub fn new(code: u16, message: String) -> TypeError {
        TypeError {
            code,
            sqlstate: sqlstate(code),
            message,
        }
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}): {}",
            self.code,
            String::from_utf8_lossy(&self.sqlstate),
            self.message
        )
    }
}

impl std::error::Error for TypeError {}

impl From<TypeError> for Warning {
    fn from(e: TypeError) -> Warning {
        Warning {
            level: Level::Warning,
            code: e.code,
            message: e.message,
        }
    }
}

/// Out of range for a column.
pub const ER_WARN_DATA_OUT_OF_RANGE: u16 = 1264;
/// Data truncated for a column.
pub const WARN_DATA_TRUNCATED: u16 = 1265;
/// NULL supplied to a NOT NULL column.
pub const ER_BAD_NULL_ERROR: u16 = 1048;
/// Truncated incorrect value, in an expression.
pub const ER_TRUNCATED_WRONG_VALUE: u16 = 1292;
/// Incorrect value for a column.
pub const ER_TRUNCATED_WRONG_VALUE_FOR_FIELD: u16 = 1366;
/// Data too long for a column.
pub const ER_DATA_TOO_LONG: u16 = 1406;
/// A value out of range in an expression.
pub const ER_DATA_OUT_OF_RANGE: u16 = 1690;
/// A date function left the range of the type.
pub const ER_DATETIME_FUNCTION_OVERFLOW: u16 = 1441;
/// A negative number was shown as its complement.
pub const ER_UNKNOWN_ERROR: u16 = 1105;
/// JSON text that does not parse.
pub const ER_INVALID_JSON_TEXT: u16 = 3140;

/// The SQLSTATE that MySQL pairs with an error number of this crate.
#[must_use]
pub fn sqlstate(code: u16) -> [u8; 5] {
    *match code {
        ER_WARN_DATA_OUT_OF_RANGE | ER_DATA_OUT_OF_RANGE => b"22003",
        WARN_DATA_TRUNCATED => b"01000",
        ER_BAD_NULL_ERROR => b"23000",
        ER_TRUNCATED_WRONG_VALUE => b"22007",
        ER_DATA_TOO_LONG => b"22001",
        ER_DATETIME_FUNCTION_OVERFLOW => b"22008",
        ER_INVALID_JSON_TEXT => b"22032",
        _ => b"HY000",
    }
}
