//! Capability bits, status bits and type codes of the protocol.

use std::ops::{BitAnd, BitOr};

/// Capabilities that one side of a connection offers. Those that both sides offer are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Capabilities(pub u32);

impl Capabilities {
    /// Formerly LONG_PASSWORD. MariaDB servers do not set it.
    pub const CLIENT_MYSQL: Self = Self(1);
    /// `affected_rows` counts rows found, not rows changed.
    pub const FOUND_ROWS: Self = Self(1 << 1);
    /// The client reads two bytes of column flags instead of one.
    pub const LONG_FLAG: Self = Self(1 << 2);
    /// The login request contains a default database.
    pub const CONNECT_WITH_DB: Self = Self(1 << 3);
    /// The compressed protocol (zlib).
    pub const COMPRESS: Self = Self(1 << 5);
    /// LOCAL INFILE may be requested.
    pub const LOCAL_FILES: Self = Self(1 << 7);
    /// Spaces before `(` are ignored.
    pub const IGNORE_SPACE: Self = Self(1 << 8);
    /// The protocol of MySQL 4.1, the only version supported.
    pub const PROTOCOL_41: Self = Self(1 << 9);
    /// `interactive_timeout` instead of `wait_timeout`.
    pub const INTERACTIVE: Self = Self(1 << 10);
    /// The connection is encrypted with TLS.
    pub const SSL: Self = Self(1 << 11);
    /// Status bits in OK and EOF.
    pub const TRANSACTIONS: Self = Self(1 << 13);
    /// Authentication data with a length byte; a 20-byte salt.
    pub const SECURE_CONNECTION: Self = Self(1 << 15);
    /// Several statements in one text.
    pub const MULTI_STATEMENTS: Self = Self(1 << 16);
    /// Several results for one text.
    pub const MULTI_RESULTS: Self = Self(1 << 17);
    /// Several results for one execution of a prepared statement.
    pub const PS_MULTI_RESULTS: Self = Self(1 << 18);
    /// Named authentication plugins.
    pub const PLUGIN_AUTH: Self = Self(1 << 19);
    /// Attributes of the client program in the login request.
    pub const CONNECT_ATTRS: Self = Self(1 << 20);
    /// Authentication data with a length-encoded length.
    pub const PLUGIN_AUTH_LENENC: Self = Self(1 << 21);
    /// A client with an expired password may log in, only to change it.
    pub const CAN_HANDLE_EXPIRED_PASSWORDS: Self = Self(1 << 22);
    /// Changes of session state in OK packets.
    pub const SESSION_TRACK: Self = Self(1 << 23);
    /// No EOF packet after column definitions; an OK packet instead of EOF after rows.
    pub const DEPRECATE_EOF: Self = Self(1 << 24);
    /// Column definitions of a result may be omitted on request.
    pub const OPTIONAL_RESULTSET_METADATA: Self = Self(1 << 25);
    /// The compressed protocol (zstd); its level is in the login request.
    pub const ZSTD_COMPRESSION: Self = Self(1 << 26);
    /// Query attributes in COM_QUERY and COM_STMT_EXECUTE.
    pub const QUERY_ATTRIBUTES: Self = Self(1 << 27);

    /// Capabilities that this server offers without TLS; the listener adds [`Self::SSL`] if it
    /// has a certificate.
    pub const SERVER: Self = Self(
        Self::CLIENT_MYSQL.0
            | Self::FOUND_ROWS.0
            | Self::LONG_FLAG.0
            | Self::CONNECT_WITH_DB.0
            | Self::LOCAL_FILES.0
            | Self::IGNORE_SPACE.0
            | Self::PROTOCOL_41.0
            | Self::INTERACTIVE.0
            | Self::TRANSACTIONS.0
            | Self::SECURE_CONNECTION.0
            | Self::MULTI_STATEMENTS.0
            | Self::MULTI_RESULTS.0
            | Self::PS_MULTI_RESULTS.0
            | Self::PLUGIN_AUTH.0
            | Self::CONNECT_ATTRS.0
            | Self::PLUGIN_AUTH_LENENC.0
            | Self::CAN_HANDLE_EXPIRED_PASSWORDS.0
            | Self::SESSION_TRACK.0
            | Self::DEPRECATE_EOF.0
            | Self::OPTIONAL_RESULTSET_METADATA.0
            | Self::QUERY_ATTRIBUTES.0,
    );

    /// Whether all bits of `other` are set.
    #[inline]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitAnd for Capabilities {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Capabilities {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Server status bits in OK and EOF packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Status(pub u16);

impl Status {
    /// A transaction is open.
    pub const IN_TRANSACTION: Self = Self(1);
    /// Autocommit is on.
    pub const AUTOCOMMIT: Self = Self(2);
    /// Another result follows.
    pub const MORE_RESULTS: Self = Self(8);
    /// The execution opened a cursor; the client fetches its rows with COM_STMT_FETCH.
    pub const CURSOR_EXISTS: Self = Self(64);
    /// The last row of the cursor was sent.
    pub const LAST_ROW_SENT: Self = Self(128);
    /// The result has the values of OUT parameters.
    pub const PS_OUT_PARAMS: Self = Self(4096);
    /// `NO_BACKSLASH_ESCAPES` is on.
    pub const NO_BACKSLASH_ESCAPES: Self = Self(512);
    /// The result columns of a prepared statement changed when the server reprepared it.
    pub const METADATA_CHANGED: Self = Self(1024);
    /// The OK packet contains changes of the session state.
    pub const SESSION_STATE_CHANGED: Self = Self(1 << 14);

    /// Whether all bits of `other` are set.
    #[inline]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the status with the bits of `other` set or cleared.
    #[must_use]
    pub fn with(self, other: Self, on: bool) -> Self {
        if on {
            Self(self.0 | other.0)
        } else {
            Self(self.0 & !other.0)
        }
    }
}

/// Type codes of columns and parameters.
pub mod type_code {
    /// DECIMAL before MySQL 5.0; a client may still send it.
    pub const DECIMAL: u8 = 0;
    /// TINYINT.
    pub const TINY: u8 = 1;
    /// SMALLINT.
    pub const SHORT: u8 = 2;
    /// INT.
    pub const LONG: u8 = 3;
    /// FLOAT.
    pub const FLOAT: u8 = 4;
    /// DOUBLE.
    pub const DOUBLE: u8 = 5;
    /// The literal NULL.
    pub const NULL: u8 = 6;
    /// TIMESTAMP.
    pub const TIMESTAMP: u8 = 7;
    /// BIGINT.
    pub const LONGLONG: u8 = 8;
    /// MEDIUMINT.
    pub const INT24: u8 = 9;
    /// DATE.
    pub const DATE: u8 = 10;
    /// TIME.
    pub const TIME: u8 = 11;
    /// DATETIME.
    pub const DATETIME: u8 = 12;
    /// YEAR.
    pub const YEAR: u8 = 13;
    /// VARCHAR as sent by some clients for parameters.
    pub const VARCHAR: u8 = 15;
    /// BIT.
    pub const BIT: u8 = 16;
    /// A boolean parameter.
    pub const BOOL: u8 = 244;
    /// JSON.
    pub const JSON: u8 = 245;
    /// DECIMAL.
    pub const NEWDECIMAL: u8 = 246;
    /// ENUM (columns are announced as STRING with a flag).
    pub const ENUM: u8 = 247;
    /// SET (columns are announced as STRING with a flag).
    pub const SET: u8 = 248;
    /// TINYBLOB and TINYTEXT in parameters.
    pub const TINY_BLOB: u8 = 249;
    /// MEDIUMBLOB and MEDIUMTEXT in parameters.
    pub const MEDIUM_BLOB: u8 = 250;
    /// LONGBLOB and LONGTEXT in parameters.
    pub const LONG_BLOB: u8 = 251;
    /// All blobs and texts in columns.
    pub const BLOB: u8 = 252;
    /// VARCHAR and VARBINARY in columns.
    pub const VAR_STRING: u8 = 253;
    /// CHAR and BINARY in columns.
    pub const STRING: u8 = 254;
    /// Geometry in parameters; taken as bytes.
    pub const GEOMETRY: u8 = 255;
}
