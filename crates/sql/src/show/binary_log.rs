//! SHOW BINARY LOG STATUS, BINARY LOGS, BINLOG EVENTS and REPLICAS.

use super::table::{Rows, number_column, text, text_column};
use crate::binary_log::{BinaryLogs, not_used};
use crate::context::StatementContext;
use porpoise_sql_expr::error::Result;
use porpoise_types::Value;
use std::sync::Arc;

fn number(n: u64) -> Value {
    Value::UInt(n)
}

fn log(cx: &StatementContext) -> Result<&Arc<dyn BinaryLogs>> {
    cx.server.binary_log().ok_or_else(not_used)
}

/// SHOW BINARY LOG STATUS, SHOW MASTER STATUS: no row without a log.
pub(super) fn status(cx: &StatementContext) -> Rows {
    let mut rows = Rows::new(vec![
        text_column("File", 256),
        number_column("Position"),
        text_column("Binlog_Do_DB", 256),
        text_column("Binlog_Ignore_DB", 256),
        text_column("Executed_Gtid_Set", 65_535),
    ]);
    if let Some(log) = cx.server.binary_log() {
        let status = log.status();
        rows.push(vec![
            text(status.file),
            number(status.position),
            text(""),
            text(""),
            text(status.executed.replace(',', ",\n")),
        ]);
    }
    rows
}

/// SHOW BINARY LOGS.
pub(super) fn files(cx: &StatementContext) -> Result<Rows> {
    let mut rows = Rows::new(vec![
        text_column("Log_name", 256),
        number_column("File_size"),
        text_column("Encrypted", 3),
    ]);
    for (name, bytes) in log(cx)?.files() {
        rows.push(vec![text(name), number(bytes), text("No")]);
    }
    Ok(rows)
}

/// SHOW BINLOG EVENTS: at most a million events, of which LIMIT selects.
pub(super) fn events(
    cx: &StatementContext,
    file: Option<&[u8]>,
    position: Option<u64>,
) -> Result<Rows> {
    const MAX_EVENTS: u64 = 1_000_000;
    let mut rows = Rows::new(vec![
        text_column("Log_name", 256),
        number_column("Pos"),
        text_column("Event_type", 32),
        number_column("Server_id"),
        number_column("End_log_pos"),
        text_column("Info", 65_535),
    ]);
    let file = file.map(String::from_utf8_lossy);
    let events = log(cx)?.events(file.as_deref(), position, 0, MAX_EVENTS)?;
    for event in events {
        rows.push(vec![
            text(event.file),
            number(event.position),
            text(event.kind),
            number(u64::from(event.server_id)),
            number(event.end),
            text(event.info),
        ]);
    }
    Ok(rows)
}

/// SHOW REPLICAS.
pub(super) fn replicas(cx: &StatementContext) -> Rows {
    let mut rows = Rows::new(vec![
        number_column("Server_Id"),
        text_column("Host", 256),
        number_column("Port"),
        number_column("Source_Id"),
        text_column("Replica_UUID", 36),
    ]);
    for replica in cx
        .server
        .binary_log()
        .map_or_else(Vec::new, |log| log.replicas())
    {
        rows.push(vec![
            number(u64::from(replica.server_id)),
            text(replica.host),
            number(u64::from(replica.port)),
            number(u64::from(replica.source_id)),
            text(replica.uuid),
        ]);
    }
    rows
}
