//! Commands of the command phase: the first byte of a packet's payload is the command, the
//! rest its arguments.

use super::capability::Capabilities;
use super::cursor::Cursor;
use super::error::ProtocolError;
use super::handshake::{ChangeUser, parse_change_user};
use super::params::{self, QueryAttributes};

/// Command codes.
pub mod code {
    /// End of the connection.
    pub const QUIT: u8 = 1;
    /// Change of the default database.
    pub const INIT_DB: u8 = 2;
    /// A statement as text.
    pub const QUERY: u8 = 3;
    /// Columns of a table.
    pub const FIELD_LIST: u8 = 4;
    /// FLUSH of everything that a set of flags names.
    pub const REFRESH: u8 = 7;
    /// Shutdown of the server.
    pub const SHUTDOWN: u8 = 8;
    /// Server statistics in one line of text.
    pub const STATISTICS: u8 = 9;
    /// The list of sessions (old form of SHOW PROCESSLIST).
    pub const PROCESS_INFO: u8 = 10;
    /// End of another connection.
    pub const PROCESS_KILL: u8 = 12;
    /// Dump of debugging information.
    pub const DEBUG: u8 = 13;
    /// Requests an OK packet only.
    pub const PING: u8 = 14;
    /// Stream of the binary log from a position.
    pub const BINLOG_DUMP: u8 = 18;
    /// Registration of a replica.
    pub const REGISTER_REPLICA: u8 = 21;
    /// Stream of the binary log after a set of GTIDs.
    pub const BINLOG_DUMP_GTID: u8 = 30;
    /// A copy of all data.
    pub const CLONE: u8 = 32;
    /// Change of user on the open connection.
    pub const CHANGE_USER: u8 = 17;
    /// Preparation of a statement.
    pub const STMT_PREPARE: u8 = 22;
    /// Execution of a prepared statement.
    pub const STMT_EXECUTE: u8 = 23;
    /// A chunk of a long parameter.
    pub const STMT_SEND_LONG_DATA: u8 = 24;
    /// End of a prepared statement.
    pub const STMT_CLOSE: u8 = 25;
    /// Reset of a prepared statement: its long data and its cursor.
    pub const STMT_RESET: u8 = 26;
    /// Sets a session option: multi-statements on or off.
    pub const SET_OPTION: u8 = 27;
    /// Rows of a cursor.
    pub const STMT_FETCH: u8 = 28;
    /// Reset of the session without a new login.
    pub const RESET_CONNECTION: u8 = 31;
}

/// A command, borrowed from its packet.
#[derive(Clone, Debug)]
pub enum Command<'a> {
    /// End of the connection; no reply.
    Quit,
    /// Change of the default database.
    InitDb(&'a [u8]),
    /// One or several statements.
    Query {
        /// Text of the statements.
        text: &'a [u8],
        /// Query attributes sent with the text.
        attributes: QueryAttributes<'a>,
    },
    /// Columns of a table.
    FieldList {
        /// Name of the table.
        table: &'a [u8],
        /// Pattern for column names; empty: all columns.
        wildcard: &'a [u8],
    },
    /// FLUSH of everything that a set of flags names: privileges (1), logs (2), tables (4), hosts
    /// (8), status (16).
    Refresh(u8),
    /// Shutdown of the server, as the statement SHUTDOWN.
    Shutdown,
    /// Server statistics in one line of text.
    Statistics,
    /// The list of sessions.
    ProcessInfo,
    /// End of the connection with this id.
    ProcessKill(u32),
    /// Dump of debugging information.
    Debug,
    /// Requests an OK packet only.
    Ping,
    /// Change of user.
    ChangeUser(ChangeUser<'a>),
    /// Preparation of a statement.
    StmtPrepare(&'a [u8]),
    /// Execution of a prepared statement.
    StmtExecute(StmtExecute<'a>),
    /// A chunk of a long parameter; no reply.
    StmtSendLongData {
        /// Id of the statement.
        id: u32,
        /// Index of the parameter, from 0.
        param: u16,
        /// Bytes of the chunk.
        data: &'a [u8],
    },
    /// End of a prepared statement; no reply.
    StmtClose(u32),
    /// Reset of a prepared statement.
    StmtReset(u32),
    /// Rows of a cursor.
    StmtFetch {
        /// The statement.
        id: u32,
        /// Number of rows to fetch.
        rows: u32,
    },
    /// Multi-statements on (`true`) or off.
    SetMultiStatements(bool),
    /// Reset of the session.
    ResetConnection,
    /// Stream of the binary log.
    BinlogDump(BinlogDump<'a>),
    /// Registration of a replica.
    RegisterReplica(RegisterReplica<'a>),
    /// A copy of all data, in this version of the format.
    Clone(u8),
}

/// A request for a stream of the binary log: COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID.
#[derive(Clone, Copy, Debug)]
pub struct BinlogDump<'a> {
    /// Bit 0: the stream ends at the end of the log. Bit 2: a set of GTIDs follows.
    pub flags: u16,
    /// `server_id` of the reader.
    pub server_id: u32,
    /// Name of the first file; empty: the oldest.
    pub file: &'a [u8],
    /// Position in it.
    pub position: u64,
    /// Encoded set of GTIDs that the reader has; `None`: the stream begins at the position.
    pub gtids: Option<&'a [u8]>,
}

impl BinlogDump<'_> {
    /// Whether the stream ends at the end of the log.
    pub fn ends(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// COM_REGISTER_SLAVE.
#[derive(Clone, Copy, Debug)]
pub struct RegisterReplica<'a> {
    /// `server_id` of the replica.
    pub server_id: u32,
    /// Its host, as it reports it.
    pub host: &'a [u8],
    /// Its port, as it reports it.
    pub port: u16,
}

fn binlog_dump<'a>(cursor: &mut Cursor<'a>) -> Option<BinlogDump<'a>> {
    let position = u64::from(cursor.u32()?);
    Some(BinlogDump {
        position,
        flags: cursor.u16()?,
        server_id: cursor.u32()?,
        file: cursor.rest(),
        gtids: None,
    })
}

fn binlog_dump_gtid<'a>(cursor: &mut Cursor<'a>) -> Option<BinlogDump<'a>> {
    let (flags, server_id) = (cursor.u16()?, cursor.u32()?);
    let length = usize::try_from(cursor.u32()?).ok()?;
    let file = cursor.take(length)?;
    let position = cursor.u64()?;
    let length = usize::try_from(cursor.u32()?).ok()?;
    Some(BinlogDump {
        flags,
        server_id,
        file,
        position,
        gtids: Some(cursor.take(length)?),
    })
}

fn register_replica<'a>(cursor: &mut Cursor<'a>) -> Option<RegisterReplica<'a>> {
    let server_id = cursor.u32()?;
    let mut text = || {
        let length = usize::from(cursor.u8()?);
        cursor.take(length)
    };
    let host = text()?;
    // User and password, which are reported for display only.
    text()?;
    text()?;
    Some(RegisterReplica {
        server_id,
        host,
        port: cursor.u16()?,
    })
}

/// Header of COM_STMT_EXECUTE. [`params::parse_execute`] parses the body, for which it needs the
/// statement's number of parameters.
#[derive(Clone, Copy, Debug)]
pub struct StmtExecute<'a> {
    /// The statement.
    pub id: u32,
    /// Flags: 1: read-only cursor; 8: the body begins with the number of parameters.
    pub flags: u8,
    /// Bytes after the header.
    pub body: &'a [u8],
}

impl StmtExecute<'_> {
    /// Whether the client requests a cursor (read-only, the only kind supported).
    pub fn wants_cursor(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// Parses a command under the connection's capabilities.
///
/// # Errors
/// [`ProtocolError::UnknownCommand`] and [`ProtocolError::Malformed`]; the
/// connection continues after either.
#[inline]
pub fn parse(payload: &[u8], caps: Capabilities) -> Result<Command<'_>, ProtocolError> {
    let Some((&code, body)) = payload.split_first() else {
        return Err(ProtocolError::Malformed("empty packet"));
    };
    match code {
        code::QUERY => {
            let (text, attributes) = params::parse_query(body, caps)
                .ok_or(ProtocolError::Malformed("query attributes"))?;
            Ok(Command::Query { text, attributes })
        }
        code::STMT_EXECUTE => execute(body).ok_or(ProtocolError::Malformed("statement execution")),
        _ => parse_rare(code, body, caps),
    }
}

fn execute(body: &[u8]) -> Option<Command<'_>> {
    let mut cursor = Cursor::new(body);
    let id = cursor.u32()?;
    let flags = cursor.u8()?;
    // The iteration count, which is always 1 and unused.
    cursor.u32()?;
    Some(Command::StmtExecute(StmtExecute {
        id,
        flags,
        body: cursor.rest(),
    }))
}

/// Parses the other commands, which are less frequent.
fn parse_rare(code: u8, body: &[u8], caps: Capabilities) -> Result<Command<'_>, ProtocolError> {
    let mut cursor = Cursor::new(body);
    let number = |part| {
        Cursor::new(body)
            .u32()
            .ok_or(ProtocolError::Malformed(part))
    };
    Ok(match code {
        code::QUIT => Command::Quit,
        code::INIT_DB => Command::InitDb(body),
        code::FIELD_LIST => Command::FieldList {
            table: cursor.nul_or_end(),
            wildcard: cursor.rest(),
        },
        code::REFRESH => {
            let flags = cursor.u8();
            Command::Refresh(flags.ok_or(ProtocolError::Malformed("flags of COM_REFRESH"))?)
        }
        code::SHUTDOWN => Command::Shutdown,
        code::STATISTICS => Command::Statistics,
        code::PROCESS_INFO => Command::ProcessInfo,
        code::PROCESS_KILL => Command::ProcessKill(number("connection id")?),
        code::DEBUG => Command::Debug,
        code::PING => Command::Ping,
        code::CHANGE_USER => Command::ChangeUser(
            parse_change_user(body, caps).ok_or(ProtocolError::Malformed("change of user"))?,
        ),
        code::STMT_PREPARE => Command::StmtPrepare(body),
        code::STMT_SEND_LONG_DATA => {
            let (Some(id), Some(param)) = (cursor.u32(), cursor.u16()) else {
                return Err(ProtocolError::Malformed("long data"));
            };
            Command::StmtSendLongData {
                id,
                param,
                data: cursor.rest(),
            }
        }
        code::STMT_CLOSE => Command::StmtClose(number("statement id")?),
        code::STMT_RESET => Command::StmtReset(number("statement id")?),
        code::STMT_FETCH => {
            let (Some(id), Some(rows)) = (cursor.u32(), cursor.u32()) else {
                return Err(ProtocolError::Malformed("fetch"));
            };
            Command::StmtFetch { id, rows }
        }
        code::SET_OPTION => match cursor.u16() {
            Some(0) => Command::SetMultiStatements(true),
            Some(1) => Command::SetMultiStatements(false),
            Some(_) => return Err(ProtocolError::UnknownCommand),
            None => return Err(ProtocolError::Malformed("option")),
        },
        code::RESET_CONNECTION => Command::ResetConnection,
        code::BINLOG_DUMP => Command::BinlogDump(
            binlog_dump(&mut cursor).ok_or(ProtocolError::Malformed("dump of the binary log"))?,
        ),
        code::BINLOG_DUMP_GTID => Command::BinlogDump(
            binlog_dump_gtid(&mut cursor)
                .ok_or(ProtocolError::Malformed("dump of the binary log"))?,
        ),
        code::CLONE => Command::Clone(cursor.u8().ok_or(ProtocolError::Malformed("clone"))?),
        code::REGISTER_REPLICA => Command::RegisterReplica(
            register_replica(&mut cursor).ok_or(ProtocolError::Malformed("replica"))?,
        ),
        _ => return Err(ProtocolError::UnknownCommand),
    })
}
