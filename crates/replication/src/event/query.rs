//! QUERY: a statement as text, with the variables of the session that its result depends on.

use super::bytes::{put_short_bytes, put_uint};
use super::{Decoded, Reader, payload};

/// Numbers of the variables that this codec keeps or skips by their length.
mod code {
    pub const FLAGS2: u8 = 0;
    pub const SQL_MODE: u8 = 1;
    pub const CATALOG: u8 = 2;
    pub const AUTO_INCREMENT: u8 = 3;
    pub const CHARSET: u8 = 4;
    pub const TIME_ZONE: u8 = 5;
    pub const CATALOG_WITHOUT_END: u8 = 6;
    pub const TIME_NAMES: u8 = 7;
    pub const DATABASE_COLLATION: u8 = 8;
    pub const TABLE_MAP_FOR_UPDATE: u8 = 9;
    pub const SOURCE_DATA_WRITTEN: u8 = 10;
    pub const INVOKER: u8 = 11;
    pub const UPDATED_DATABASES: u8 = 12;
    pub const MICROSECONDS: u8 = 13;
    pub const EXPLICIT_TIMESTAMP_DEFAULTS: u8 = 16;
    pub const DDL_XID: u8 = 17;
    pub const UTF8MB4_COLLATION: u8 = 18;
    pub const REQUIRE_PRIMARY_KEY: u8 = 19;
    pub const TABLE_ENCRYPTION: u8 = 20;
    pub const MARIADB_MICROSECONDS: u8 = 128;
    pub const MARIADB_XID: u8 = 129;
}

/// Count of updated databases that stands for "more than are listed".
const TOO_MANY_DATABASES: u8 = 254;

/// Bits of [`StatusVariables::flags2`].
pub mod flags2 {
    /// `sql_auto_is_null`.
    pub const AUTO_IS_NULL: u32 = 1 << 14;
    /// `autocommit` is off.
    pub const NOT_AUTOCOMMIT: u32 = 1 << 19;
    /// `foreign_key_checks` is off.
    pub const NO_FOREIGN_KEY_CHECKS: u32 = 1 << 26;
    /// `unique_checks` is off.
    pub const RELAXED_UNIQUE_CHECKS: u32 = 1 << 27;
}

/// Variables of the session. What is `None` was not logged.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StatusVariables {
    /// Bits of [`flags2`].
    pub flags2: Option<u32>,
    /// Bits of `sql_mode`. Those of MySQL and MariaDB differ above bit 31.
    pub sql_mode: Option<u64>,
    /// `auto_increment_increment` and `auto_increment_offset`.
    pub auto_increment: Option<(u16, u16)>,
    /// Collations by number: `character_set_client`, `collation_connection`, `collation_server`.
    pub charset: Option<(u16, u16, u16)>,
    /// `time_zone`.
    pub time_zone: Option<Vec<u8>>,
    /// Collation of the default database, by number.
    pub database_collation: Option<u16>,
    /// Microseconds of the time of the statement.
    pub microseconds: Option<u32>,
    /// Databases that the statement changes; `None` if not logged or too many.
    pub updated_databases: Option<Vec<Vec<u8>>>,
    /// `explicit_defaults_for_timestamp`.
    pub explicit_timestamp_defaults: Option<bool>,
    /// Number of the transaction of a definition.
    pub ddl_xid: Option<u64>,
    /// `default_collation_for_utf8mb4`, by number.
    pub utf8mb4_collation: Option<u16>,
}

impl StatusVariables {
    /// Reads variables up to the first whose length is unknown, as MySQL does.
    fn decode(mut body: Reader<'_>) -> Decoded<StatusVariables> {
        let mut variables = StatusVariables::default();
        while !body.is_empty() && variables.decode_one(&mut body)? {}
        Ok(variables)
    }

    fn decode_one(&mut self, body: &mut Reader<'_>) -> Decoded<bool> {
        match body.u8("number of a variable")? {
            code::FLAGS2 => self.flags2 = Some(body.u32("flags2")?),
            code::SQL_MODE => self.sql_mode = Some(body.u64("sql_mode")?),
            code::CATALOG => {
                body.short_bytes("catalog")?;
                body.u8("end of the catalog")?;
            }
            code::AUTO_INCREMENT => {
                let increment = body.u16("auto_increment_increment")?;
                self.auto_increment = Some((increment, body.u16("auto_increment_offset")?));
            }
            code::CHARSET => {
                let client = body.u16("character_set_client")?;
                let connection = body.u16("collation_connection")?;
                self.charset = Some((client, connection, body.u16("collation_server")?));
            }
            code::TIME_ZONE => self.time_zone = Some(body.short_bytes("time_zone")?.to_vec()),
            code::CATALOG_WITHOUT_END => {
                body.short_bytes("catalog")?;
            }
            code::TIME_NAMES => {
                body.u16("lc_time_names")?;
            }
            code::DATABASE_COLLATION => {
                self.database_collation = Some(body.u16("collation of the database")?);
            }
            code::TABLE_MAP_FOR_UPDATE | code::MARIADB_XID => {
                body.u64("number")?;
            }
            code::SOURCE_DATA_WRITTEN => {
                body.u32("data written")?;
            }
            code::INVOKER => {
                body.short_bytes("user")?;
                body.short_bytes("host")?;
            }
            code::UPDATED_DATABASES => self.updated_databases = decode_databases(body)?,
            code::MICROSECONDS | code::MARIADB_MICROSECONDS => {
                self.microseconds = Some(body.uint(3, "microseconds")? as u32);
            }
            code::EXPLICIT_TIMESTAMP_DEFAULTS => {
                let is_on = body.u8("explicit_defaults_for_timestamp")? != 0;
                self.explicit_timestamp_defaults = Some(is_on);
            }
            code::DDL_XID => self.ddl_xid = Some(body.u64("number of the transaction")?),
            code::UTF8MB4_COLLATION => {
                self.utf8mb4_collation = Some(body.u16("default_collation_for_utf8mb4")?);
            }
            code::REQUIRE_PRIMARY_KEY | code::TABLE_ENCRYPTION => {
                body.u8("switch")?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        if let Some(flags) = self.flags2 {
            out.push(code::FLAGS2);
            out.extend_from_slice(&flags.to_le_bytes());
        }
        if let Some(mode) = self.sql_mode {
            out.push(code::SQL_MODE);
            out.extend_from_slice(&mode.to_le_bytes());
        }
        // The catalog is always "std".
        out.push(code::CATALOG_WITHOUT_END);
        put_short_bytes(out, b"std");
        if let Some((increment, offset)) = self.auto_increment {
            out.push(code::AUTO_INCREMENT);
            out.extend_from_slice(&increment.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
        }
        if let Some((client, connection, server)) = self.charset {
            out.push(code::CHARSET);
            for collation in [client, connection, server] {
                out.extend_from_slice(&collation.to_le_bytes());
            }
        }
        if let Some(zone) = &self.time_zone {
            out.push(code::TIME_ZONE);
            put_short_bytes(out, zone);
        }
        if let Some(collation) = self.database_collation {
            out.push(code::DATABASE_COLLATION);
            out.extend_from_slice(&collation.to_le_bytes());
        }
        self.encode_newer(out);
    }

    /// Variables since MySQL 5.6.
    fn encode_newer(&self, out: &mut Vec<u8>) {
        if let Some(databases) = &self.updated_databases {
            out.push(code::UPDATED_DATABASES);
            out.push(databases.len().min(253) as u8);
            for name in databases.iter().take(253) {
                out.extend_from_slice(name);
                out.push(0);
            }
        }
        if let Some(microseconds) = self.microseconds {
            out.push(code::MICROSECONDS);
            put_uint(out, u64::from(microseconds), 3);
        }
        if let Some(is_on) = self.explicit_timestamp_defaults {
            out.push(code::EXPLICIT_TIMESTAMP_DEFAULTS);
            out.push(u8::from(is_on));
        }
        if let Some(number) = self.ddl_xid {
            out.push(code::DDL_XID);
            out.extend_from_slice(&number.to_le_bytes());
        }
        if let Some(collation) = self.utf8mb4_collation {
            out.push(code::UTF8MB4_COLLATION);
            out.extend_from_slice(&collation.to_le_bytes());
        }
    }
}

fn decode_databases(body: &mut Reader<'_>) -> Decoded<Option<Vec<Vec<u8>>>> {
    let count = body.u8("number of databases")?;
    if count == TOO_MANY_DATABASES {
        return Ok(None);
    }
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(body.zero_terminated("database")?.to_vec());
    }
    Ok(Some(names))
}

/// QUERY: a statement.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QueryEvent {
    /// Connection that ran the statement.
    pub thread_id: u32,
    /// Seconds that it took.
    pub execution_time: u32,
    /// MySQL's error that the statement ended with at the source; 0: none.
    pub error: u16,
    /// Variables of the session.
    pub variables: StatusVariables,
    /// Default database; empty: none.
    pub database: Vec<u8>,
    /// Text of the statement.
    pub text: Vec<u8>,
}

impl QueryEvent {
    pub(super) fn decode(mut body: Reader<'_>, is_compressed: bool) -> Decoded<QueryEvent> {
        let thread_id = body.u32("thread")?;
        let execution_time = body.u32("execution time")?;
        let database_len = body.u8("length of the database")?;
        let error = body.u16("error")?;
        let variables_len = body.u16("length of the variables")?;
        let variables = body.take(usize::from(variables_len), "variables")?;
        let database = body.take(usize::from(database_len), "database")?.to_vec();
        body.u8("end of the database")?;
        let text = if is_compressed {
            payload::inflate_mariadb(&mut body)?
        } else {
            body.rest().to_vec()
        };
        Ok(QueryEvent {
            thread_id,
            execution_time,
            error,
            variables: StatusVariables::decode(Reader::new("QUERY", variables))?,
            database,
            text,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.thread_id.to_le_bytes());
        out.extend_from_slice(&self.execution_time.to_le_bytes());
        let database = self.database.get(..255).unwrap_or(&self.database);
        out.push(database.len() as u8);
        out.extend_from_slice(&self.error.to_le_bytes());
        let mut variables = Vec::new();
        self.variables.encode(&mut variables);
        out.extend_from_slice(&(variables.len() as u16).to_le_bytes());
        out.extend_from_slice(&variables);
        out.extend_from_slice(database);
        out.push(0);
        out.extend_from_slice(&self.text);
    }
}
