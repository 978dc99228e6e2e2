//! Session state at login, between statements and after COM_RESET_CONNECTION: default database,
//! settings, environment of expressions.

use super::global_locks::ServerLocks;
use super::track::Tracker;
use super::transaction::TxnCharacteristics;
use super::{ClientInfo, SqlSession};
use crate::context::Diagnostics;
use crate::status::Counter;
use crate::vars::Settings;
use porpoise_base::cancel::Cancel;
use porpoise_rows::metadata_lock::Activity;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::eval::Env;
use porpoise_sql_expr::expr::named_locks::NamedLocks;
use porpoise_sql_expr::memory::SessionMemory;
use porpoise_types::{Collation, DateTime};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

impl SqlSession {
    /// Applies collation and default database of the handshake.
    pub(super) fn apply_handshake(&mut self) -> Result<()> {
        let collation = Collation::from_id(self.cx.client.collation);
        let collation = collation.filter(|c| c.charset().is_for_clients());
        if let Some(collation) = collation {
            self.set_names(collation)?;
        }
        match self.cx.client.database.clone() {
            Some(name) => self.use_db(&name),
            None => Ok(()),
        }
    }

    /// Sets the default database.
    ///
    /// # Errors
    /// 1049 if it does not exist.
    pub fn use_db(&mut self, name: &str) -> Result<()> {
        let catalog = self.cx.server.db.catalog();
        let collation = match catalog.database(name) {
            Some(database) => database.collation,
            None if porpoise_sql_plan::virtual_tables::is_database(name) => {
                Collation::UTF8MB3_GENERAL_CI
            }
            None => return Err(SqlError::unknown_database(name)),
        };
        if !self.cx.rights().sees_database(name) {
            return Err(self.cx.database_denied(name));
        }
        self.cx.env.database = Some(name.to_owned());
        self.tracker.schema();
        self.process.set_database(Some(name));
        self.set_unchecked("character_set_database", collation.charset().name());
        self.set_unchecked("collation_database", collation.name());
        Ok(())
    }

    /// COM_RESET_CONNECTION: resets everything but the account to the state after connecting.
    ///
    /// # Errors
    /// As `SqlServer::connect`.
    pub fn reset(&mut self) -> Result<()> {
        self.roll_back();
        self.leave_branch();
        self.drop_all_temporary();
        self.cx
            .server
            .locks
            .release_all(self.cx.client.connection_id);
        self.table_locks = None;
        self.metadata_locks.finish(Activity::HeldWrites);
        self.server_locks = ServerLocks::default();
        self.handlers.clear();
        self.statements.clear();
        self.named.clear();
        self.next = TxnCharacteristics::default();
        self.cx.diagnostics = Diagnostics::default();
        self.cx.last_insert_id = 0;
        self.cx.values = self.cx.server.globals.read().clone();
        self.cx.settings = Settings::new(&self.cx.values)?;
        let database = self.cx.env.database.take();
        let cancel = self.cx.env.cancel.clone();
        self.cx.env.clear_user_variables();
        let memory = std::mem::take(&mut self.cx.env.memory);
        self.cx.env = fresh_env(
            &self.cx.client,
            &self.cx.settings,
            &self.cx.server.locks,
            cancel,
        );
        self.cx.env.memory = memory;
        self.limit_memory();
        self.cx.activate_login_roles();
        let collation = Collation::from_id(self.cx.client.collation);
        let collation = collation.filter(|c| c.charset().is_for_clients());
        if let Some(collation) = collation {
            self.set_names(collation)?;
        }
        // The database may have been dropped; then there is no default database.
        let _ = database.map(|name| self.use_db(&name));
        self.tracker = Tracker::new(self.cx.client.capabilities);
        self.cx.server.processes.flush_counters(&self.process);
        self.cx.counters.add(Counter::AdminCommands, 1);
        Ok(())
    }

    /// Applies the memory limits of the settings.
    pub(super) fn limit_memory(&self) {
        let (statement, connection) = (
            self.cx.settings.statement_memory,
            self.cx.settings.connection_memory,
        );
        self.cx.env.memory.set_limits(statement, connection);
    }

    /// Computes the settings from the variables, and applies them to the environment and the open
    /// transaction.
    pub(crate) fn apply_settings(&mut self) -> Result<()> {
        self.cx.settings = Settings::new(&self.cx.values)?;
        self.install_settings();
        Ok(())
    }

    /// Applies the settings to the environment and the open transaction.
    pub(super) fn install_settings(&mut self) {
        let s = &self.cx.settings;
        self.cx.env.mode = s.mode;
        self.cx.env.time_zone = s.time_zone.clone();
        self.cx.env.max_allowed_packet = s.max_allowed_packet;
        self.cx.env.div_precision = s.div_precision;
        self.cx.env.block_cipher = s.block_cipher;
        self.cx.env.locale = s.locale;
        self.cx.env.week_format = s.week_format;
        self.cx.env.group_concat_max_len = s.group_concat_max_len;
        self.cx.env.collation = s.collation;
        self.cx
            .env
            .memory
            .set_limits(s.statement_memory, s.connection_memory);
        if let Some(open) = &mut self.open {
            open.txn
                .get_mut()
                .set_foreign_key_checks(s.foreign_key_checks);
            open.txn.get_mut().set_cascades_fire(s.cascades_fire);
            open.txn.get_mut().set_lock_wait(s.lock_wait);
        }
    }
}

/// The environment of expressions at the start of a session.
pub(super) fn fresh_env(
    client: &ClientInfo,
    settings: &Settings,
    locks: &Arc<NamedLocks>,
    cancel: Cancel,
) -> Env {
    Env {
        mode: settings.mode,
        strict: Cell::new(false),
        time_zone: settings.time_zone.clone(),
        now_utc: DateTime::from_unix_micros(0).unwrap_or_default(),
        expiry_time: Cell::new(None),
        connection_id: client.connection_id,
        user: format!("{}@{}", client.user, client.host),
        account: client.account.clone(),
        roles: String::new(),
        database: None,
        last_insert_id: Cell::new(0),
        row_count: -1,
        found_rows: 0,
        counted_rows: Cell::new(None),
        query_attributes: Vec::new(),
        user_variables: RefCell::new(HashMap::new()),
        warnings: RefCell::new(Vec::new()),
        warnings_dropped: Cell::new(0),
        seeded: RefCell::new(HashMap::new()),
        joined_rows: RefCell::new(HashMap::new()),
        warned_literals: RefCell::new(Vec::new()),
        has_side_effect: Cell::new(false),
        // Fibonacci hashing: adjacent connections get distant seeds.
        random: Cell::new(client.connection_id.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        max_allowed_packet: settings.max_allowed_packet,
        div_precision: settings.div_precision,
        block_cipher: settings.block_cipher,
        locale: settings.locale,
        week_format: settings.week_format,
        group_concat_max_len: settings.group_concat_max_len,
        collation: settings.collation,
        locks: locks.clone(),
        cancel,
        in_sets: Default::default(),
        work: Cell::new(0),
        memory: SessionMemory::default(),
    }
}
