//! Statement errors: MySQL's number, SQLSTATE and text.
//!
//! Every layer below has its own error type, which is converted here to the error that the client
//! sees. There is a constructor for each condition that this crate itself detects.

use porpoise_kv::CommitPosition;
use porpoise_sql_parser::ParseError;
use porpoise_types::TypeError;

/// The result of a statement or a part of one.
pub type Result<T> = std::result::Result<T, SqlError>;

/// An error as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// MySQL's error number.
    pub code: u16,
    /// The SQLSTATE.
    pub sqlstate: [u8; 5],
    /// MySQL's text.
    pub message: String,
    /// Whether the connection ends after the error (KILL, shutdown, a broken invariant).
    pub fatal: bool,
    /// Whether the transaction was rolled back (deadlock, conflict).
    pub rolled_back: bool,
    /// Commit position that the reply waits for, because the message may reveal rows.
    pub position: CommitPosition,
}

impl std::fmt::Display for SqlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = String::from_utf8_lossy(&self.sqlstate);
        write!(f, "ERROR {} ({state}): {}", self.code, self.message)
    }
}

impl std::error::Error for SqlError {}

impl SqlError {
    /// Creates an error.
    pub fn new(code: u16, sqlstate: &str, message: impl Into<String>) -> SqlError {
        let mut state = *b"HY000";
        for (to, from) in state.iter_mut().zip(sqlstate.bytes()) {
            *to = from;
        }
        SqlError {
            code,
            sqlstate: state,
            message: message.into(),
            fatal: false,
            rolled_back: false,
            position: CommitPosition::NONE,
        }
    }

    /// The parser's error for `text`.
    pub fn syntax(error: &ParseError, text: &[u8]) -> SqlError {
        SqlError::new(error.code(), error.sqlstate(), error.message(text))
    }

    /// 1064: syntax error at an offset of the text.
    pub fn syntax_at(text: &[u8], offset: usize) -> SqlError {
        let rest = text.get(offset..).unwrap_or_default();
        let rest = rest.trim_ascii_start();
        let line = 1 + text.iter().take(offset).filter(|b| **b == b'\n').count();
        let shown = String::from_utf8_lossy(rest.get(..80).unwrap_or(rest));
        let message = format!(
            "You have an error in your SQL syntax; check the manual that corresponds to your MySQL \
             server version for the right syntax to use near '{shown}' at line {line}"
        );
        SqlError::new(1064, "42000", message)
    }

    /// 1054: unknown column `name` in `place` ("field list", "where clause", ...).
    pub fn unknown_column(name: &str, place: &str) -> SqlError {
        let text = format!("Unknown column '{name}' in '{place}'");
        SqlError::new(1054, "42S22", text)
    }

    /// 1052: ambiguous column `name`.
    pub fn ambiguous(name: &str, place: &str) -> SqlError {
        let text = format!("Column '{name}' in {place} is ambiguous");
        SqlError::new(1052, "23000", text)
    }

    /// 1146: no such table.
    pub fn no_table(database: &str, name: &str) -> SqlError {
        let text = format!("Table '{database}.{name}' doesn't exist");
        SqlError::new(1146, "42S02", text)
    }

    /// 1792: a change in a read-only transaction.
    pub fn read_only_transaction() -> SqlError {
        let text = "Cannot execute statement in a READ ONLY transaction.";
        SqlError::new(1792, "25006", text)
    }

    /// 1046: no default database.
    pub fn no_database_selected() -> SqlError {
        SqlError::new(1046, "3D000", "No database selected")
    }

    /// 1049: unknown database.
    pub fn unknown_database(name: &str) -> SqlError {
        SqlError::new(1049, "42000", format!("Unknown database '{name}'"))
    }

    /// 1305: no such function.
    pub fn unknown_function(name: &str) -> SqlError {
        SqlError::new(1305, "42000", format!("FUNCTION {name} does not exist"))
    }

    /// 1582: wrong number of arguments.
    pub fn argument_count(name: &str) -> SqlError {
        let text = format!("Incorrect parameter count in the call to native function '{name}'");
        SqlError::new(1582, "42000", text)
    }

    /// 1210: a wrong argument.
    pub fn wrong_arguments(name: &str) -> SqlError {
        SqlError::new(1210, "HY000", format!("Incorrect arguments to {name}"))
    }

    /// 1690: a value left its type's range in an expression.
    pub fn out_of_range(ty: &str, expression: &str) -> SqlError {
        let text = format!("{ty} value is out of range in '{expression}'");
        SqlError::new(1690, "22003", text)
    }

    /// 3948: the client, or the server's settings, do not allow LOAD DATA LOCAL.
    pub fn local_files_disabled() -> SqlError {
        let text = "Loading local data is disabled; this must be enabled on both the client and \
                    server sides";
        SqlError::new(3948, "42000", text)
    }

    /// 1235: a MySQL feature that this server does not support.
    pub fn not_supported(what: &str) -> SqlError {
        let text = format!("This version of Porpoise doesn't yet support '{what}'");
        SqlError::new(1235, "42000", text)
    }

    /// 1241: a row instead of a single value, or the reverse.
    pub fn operand_columns(n: usize) -> SqlError {
        let text = format!("Operand should contain {n} column(s)");
        SqlError::new(1241, "21000", text)
    }

    /// 1193: no such system variable.
    pub fn unknown_variable(name: &str) -> SqlError {
        SqlError::new(1193, "HY000", format!("Unknown system variable '{name}'"))
    }

    /// 1238: a variable used in a scope that it does not have.
    pub fn wrong_variable_scope(name: &str, kind: &str) -> SqlError {
        SqlError::new(
            1238,
            "HY000",
            format!("Variable '{name}' is a {kind} variable"),
        )
    }

    /// 1231: invalid value for a variable.
    pub fn wrong_variable_value(name: &str, value: &str) -> SqlError {
        let text = format!("Variable '{name}' can't be set to the value of '{value}'");
        SqlError::new(1231, "42000", text)
    }

    /// 1232: a value of the wrong type for the variable.
    pub fn wrong_variable_type(name: &str) -> SqlError {
        let text = format!("Incorrect argument type to variable '{name}'");
        SqlError::new(1232, "42000", text)
    }

    /// The error of an interruption, with this error's effect on the transaction.
    pub fn because(self, ended: porpoise_base::interrupt::Interrupted) -> SqlError {
        let error = SqlError::from(ended);
        SqlError {
            fatal: self.fatal || error.fatal,
            rolled_back: self.rolled_back,
            position: self.position,
            ..error
        }
    }

    /// Error 1815 (internal error): an invariant of this server does not hold.
    pub fn internal(what: &str) -> SqlError {
        SqlError::new(1815, "HY000", format!("Internal error: {what}"))
    }
}

impl From<TypeError> for SqlError {
    fn from(e: TypeError) -> SqlError {
        SqlError {
            code: e.code,
            sqlstate: e.sqlstate,
            message: e.message,
            fatal: false,
            rolled_back: false,
            position: CommitPosition::NONE,
        }
    }
}

impl From<porpoise_rows::Error> for SqlError {
    fn from(e: porpoise_rows::Error) -> SqlError {
        let mut error = SqlError::new(e.code(), e.sqlstate(), e.to_string());
        error.rolled_back = e.ends_transaction();
        error.fatal = e.ends_session();
        error
    }
}

impl From<porpoise_kv::Error> for SqlError {
    fn from(e: porpoise_kv::Error) -> SqlError {
        SqlError::from(porpoise_rows::Error::from(e))
    }
}

impl From<porpoise_base::interrupt::Interrupted> for SqlError {
    fn from(e: porpoise_base::interrupt::Interrupted) -> SqlError {
        cancelled(e.0)
    }
}

/// The error of a cancelled statement.
pub fn cancelled(reason: porpoise_base::cancel::Reason) -> SqlError {
    SqlError::from(porpoise_kv::Error::Cancelled(reason))
}
