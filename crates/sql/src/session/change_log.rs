//! Statements for the change log, and statements on the binary log.

use super::{Outcome, SqlSession};
use crate::binary_log::{BinaryLogs, not_used};
use porpoise_access::Privileges;
use porpoise_rows::changes::{LoggedStatement, Origin};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{Purge, Statement};
use porpoise_types::{CastCx, ColumnType, Value, ValueRef, to_datetime};
use std::sync::Arc;

impl SqlSession {
    /// Whether changes of this session are logged.
    pub(super) fn logs_changes(&self) -> bool {
        self.cx.server.db.change_log().is_some() && self.cx.values.bool("sql_log_bin")
    }

    /// Keeps a definition or account statement while it is executed, so that it can be logged. `text` contains its text.
    pub(super) fn note_logged(&mut self, statement: &Statement<'_>, text: &[u8]) {
        self.logged_statement = None;
        if is_account_statement(statement) {
            self.cx.account_statement = self.logs_changes().then(|| {
                // A password must not be kept.
                let has_password =
                    matches!(statement, Statement::User(_) | Statement::SetPassword(_));
                self.logged(if has_password {
                    b""
                } else {
                    self.own_text(text)
                })
            });
            return;
        }
        if !is_definition(statement) || !self.logs_changes() {
            return;
        }
        self.logged_statement = Some(self.logged(self.own_text(text)));
    }

    /// The part of a text of several statements that is the current statement.
    fn own_text<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let own = self
            .statement_end
            .and_then(|(start, end)| text.get(start..end));
        own.unwrap_or(text)
    }

    /// A statement with the session's settings, for the log.
    pub(super) fn logged(&self, text: &[u8]) -> LoggedStatement {
        let end = text
            .iter()
            .rposition(|b| !b.is_ascii_whitespace() && *b != b';');
        let text = text.get(..end.map_or(0, |end| end + 1)).unwrap_or(text);
        LoggedStatement {
            connection: self.cx.client.connection_id as u32,
            text: text.trim_ascii().to_vec(),
            database: self.cx.env.database.clone().unwrap_or_default(),
            sql_mode: self.cx.settings.mode.bits(),
            foreign_key_checks: self.cx.settings.foreign_key_checks,
            time_zone: self.cx.values.text("time_zone").to_owned(),
            micros: self.cx.env.now_utc.to_unix_micros(),
            origin: self.origin,
        }
    }

    /// Sets the origin of the transactions and statements of this session: another server ran them first, and the
    /// change log names it and keeps their identifiers. `None` for those of this server.
    pub fn set_origin(&mut self, origin: Option<Origin>) {
        self.origin = origin;
        if let (Some(origin), Some(open)) = (origin, &mut self.open) {
            open.txn.get_mut().set_origin(origin);
        }
    }

    /// Whether the account may write in spite of `read_only`.
    pub(super) fn ignores_read_only(&self) -> bool {
        let global = self.cx.rights().global();
        global.has(Privileges::SUPER) || global.has(Privileges::CONNECTION_ADMIN)
    }

    /// Error 1290 if the server is read-only for this session.
    pub(super) fn check_server_writable(&self) -> Result<()> {
        let db = &self.cx.server.db;
        if self.origin.is_some() || !db.is_read_only() {
            return Ok(());
        }
        Ok(db.check_writes_allowed(self.ignores_read_only())?)
    }

    /// A user variable of the session, as text. Replicas announce their capabilities by setting user variables.
    pub fn user_variable(&self, name: &str) -> Option<String> {
        let variables = self.cx.env.user_variables.borrow();
        let (value, _) = variables.get(name)?;
        match value {
            Value::Int(n) => Some(n.to_string()),
            Value::UInt(n) => Some(n.to_string()),
            Value::Double(n) => Some(n.to_string()),
            Value::Decimal(n) => Some(n.to_string()),
            Value::Bytes(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    /// Id of the connection.
    pub fn connection_id(&self) -> u64 {
        self.cx.client.connection_id
    }

    /// Whether the session was cancelled: KILL, a client that has disconnected, shutdown.
    pub fn is_cancelled(&self) -> bool {
        self.cx.env.cancel.reason().is_some()
    }

    /// Error 1227 unless the account may read the binary log.
    ///
    /// # Errors
    /// See above.
    pub fn check_may_replicate(&self) -> Result<()> {
        self.cx
            .need_global(Privileges::REPLICATION_SLAVE, "REPLICATION SLAVE")
    }

    /// Checks that the account may copy all data (COM_CLONE).
    ///
    /// # Errors
    /// 1227.
    pub fn check_may_clone(&self) -> Result<()> {
        self.check_may_replicate()?;
        self.cx
            .need_global(Privileges::BACKUP_ADMIN, "BACKUP_ADMIN")
    }

    fn binary_log(&self) -> Result<Arc<dyn BinaryLogs>> {
        self.cx.server.binary_log().cloned().ok_or_else(not_used)
    }

    /// PURGE BINARY LOGS. Without a log it has no effect, as on MySQL.
    pub(super) fn purge_logs(
        &mut self,
        purge: &Purge<'_>,
        params: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<Outcome> {
        let Ok(log) = self.binary_log() else {
            return Ok(Outcome::default());
        };
        match purge {
            Purge::To(file) => log.purge_to(&String::from_utf8_lossy(file))?,
            Purge::Before(time) => {
                let (value, ty) = self.value_of(time, params, types)?;
                log.purge_before(self.micros_of(&value, &ty)?)?;
            }
        }
        Ok(Outcome::default())
    }

    /// A time in the session's zone in microseconds since 1970 UTC.
    fn micros_of(&self, value: &Value, ty: &ColumnType) -> Result<u64> {
        let env = &self.cx.env;
        let mut ignore = |_| ();
        let mut cast = CastCx {
            mode: env.mode,
            strict: false,
            warnings: &mut ignore,
            tz: &env.time_zone,
            now: env.now(),
        };
        let local = to_datetime(value.as_ref(), ty, &mut cast);
        let utc = local.map(|local| env.time_zone.local_to_utc_lenient(local));
        let micros = utc.flatten().map(|utc| utc.to_unix_micros());
        micros
            .and_then(|micros| u64::try_from(micros).ok())
            .ok_or_else(|| SqlError::new(1210, "HY000", "Incorrect arguments to PURGE LOGS BEFORE"))
    }

    /// FLUSH BINARY LOGS, FLUSH LOGS.
    pub(super) fn rotate_binary_log(&self) -> Result<()> {
        match self.binary_log() {
            Ok(log) => log.rotate(),
            Err(_) => Ok(()),
        }
    }

    /// RESET BINARY LOGS AND GTIDS, RESET MASTER.
    pub(super) fn reset_binary_log(&mut self) -> Result<Outcome> {
        self.binary_log()?.reset()?;
        Ok(Outcome::default())
    }
}

/// Whether a statement changes accounts, which are logged as statements.
fn is_account_statement(statement: &Statement<'_>) -> bool {
    matches!(
        statement,
        Statement::User(_)
            | Statement::DropUser { .. }
            | Statement::RenameUser(_)
            | Statement::SetPassword(_)
            | Statement::Grant(_)
            | Statement::Role { .. }
            | Statement::SetRole(_)
    )
}

/// Whether a statement is logged as text: it defines something.
fn is_definition(statement: &Statement<'_>) -> bool {
    matches!(
        statement,
        Statement::CreateDatabase(_)
            | Statement::AlterDatabase(_)
            | Statement::DropDatabase { .. }
            | Statement::CreateTable(_)
            | Statement::AlterTable(_)
            | Statement::RenameTable(_)
            | Statement::DropTable(_)
            | Statement::Truncate(_)
            | Statement::CreateIndex(_)
            | Statement::DropIndex(_)
            | Statement::CreateView(_)
            | Statement::DropView(_)
            | Statement::CreateRoutine(_)
            | Statement::CreateTrigger(_)
            | Statement::AlterRoutine(_)
            | Statement::Event(_)
            | Statement::DropProgram { .. }
    )
}
