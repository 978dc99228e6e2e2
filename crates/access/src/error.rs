//! Errors of access control: MySQL's number, SQLSTATE and text.

/// The result of an operation of access control.
pub type Result<T> = std::result::Result<T, Error>;

/// A refused operation, or a failure of the tables below.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A refusal with MySQL's number, SQLSTATE and text.
    #[error("{message}")]
    Refused {
        /// MySQL's error number.
        code: u16,
        /// The SQLSTATE.
        sqlstate: &'static str,
        /// MySQL's text.
        message: String,
    },
    /// Reading or writing the tables failed.
    #[error(transparent)]
    Rows(#[from] porpoise_rows::Error),
}

impl Error {
    /// A refusal with these parts.
    pub fn new(code: u16, sqlstate: &'static str, message: impl Into<String>) -> Error {
        Error::Refused {
            code,
            sqlstate,
            message: message.into(),
        }
    }

    /// 1815: an invariant of this server does not hold.
    pub fn internal(message: &str) -> Error {
        Error::new(1815, "HY000", format!("Internal error: {message}"))
    }

    /// MySQL's error number.
    pub fn code(&self) -> u16 {
        match self {
            Error::Refused { code, .. } => *code,
            Error::Rows(error) => error.code(),
        }
    }

    /// The SQLSTATE.
    pub fn sqlstate(&self) -> &str {
        match self {
            Error::Refused { sqlstate, .. } => sqlstate,
            Error::Rows(error) => error.sqlstate(),
        }
    }
}

impl From<porpoise_kv::Error> for Error {
    fn from(error: porpoise_kv::Error) -> Error {
        Error::Rows(error.into())
    }
}
