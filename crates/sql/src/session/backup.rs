//! BACKUP DATABASE (TiDB's statement, with the repository's number and position in its result).
//!
//! Backups are made outside of SQL ([`crate::server::BackupProvider`]); the statement holds no
//! lock meanwhile, and ends on KILL.

use super::{Outcome, SqlSession};
use crate::results::table::{Rows, number_column, text, text_column, typed_column};
use crate::server::BackupRequest;
use porpoise_base::blocking::blocking;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::Backup;
use porpoise_types::{ColumnType, DateTime, Value};

/// Bytes of the unit of RATE_LIMIT.
const MEGABYTE: u64 = 1 << 20;

impl SqlSession {
    /// BACKUP DATABASE.
    pub(super) fn backup(
        &mut self,
        backup: &Backup<'_>,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let destination = std::str::from_utf8(backup.destination);
        let destination = destination.map_err(|_| SqlError::wrong_arguments("BACKUP"))?;
        if backup.rate == Some(0) {
            return Err(SqlError::wrong_arguments("RATE_LIMIT"));
        }
        let request = BackupRequest {
            destination: destination.to_owned(),
            rate: backup.rate.map(|mb| mb.saturating_mul(MEGABYTE)),
        };
        let (server, cancel) = (self.cx.server.clone(), self.cx.env.cancel.clone());
        let report = blocking(|| server.backup(&request, &cancel))?;
        let time = i64::try_from(report.time).ok();
        let time = time.and_then(DateTime::from_unix_micros);
        let mut rows = Rows::new(vec![
            text_column("Destination", 512),
            number_column("Backup"),
            number_column("Size"),
            number_column("Stored"),
            number_column("Position"),
            typed_column("Time", ColumnType::datetime(6)),
        ]);
        rows.push(vec![
            text(destination),
            Value::UInt(report.number),
            Value::UInt(report.bytes),
            Value::UInt(report.stored),
            Value::UInt(report.position),
            time.map_or(Value::Null, Value::DateTime),
        ]);
        rows.send(&mut self.cx, sink)
    }
}
