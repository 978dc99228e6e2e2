//! SIGHUP: reopens log files, reads configuration and certificates again, and applies the settings
//! that need no restart.
//!
//! Invariants:
//! 1. Configuration and certificates are read and checked before anything changes: an invalid file
//!    changes nothing.
//! 2. Each change is logged, and so is, at each reload, each setting that needs a restart to put its
//!    present value in force.

use crate::config::report::RELOADABLE;
use crate::config::{Config, StartError};
use crate::net::NetMonitor;
use crate::services::MIN_STATEMENT_MEMORY;
use crate::tls::Certificates;
use parking_lot::Mutex;
use porpoise_base::memory::MemoryBudget;
use porpoise_sql::SqlServer;
use std::sync::Arc;

/// Replaces the log filter; with `false` it only checks the filter. The error is the reason.
pub type SetLogFilter = Box<dyn Fn(&str, bool) -> Result<(), String> + Send + Sync>;

/// The parts of a server that a reload changes.
pub struct Reloader {
    /// The configuration in force.
    pub config: Mutex<Config>,
    /// The certificates of the listeners.
    pub certificates: Arc<Certificates>,
    /// Returns the number of connections that the limit of open files permits for a configuration.
    pub fit_open_files: fn(&Config) -> Result<usize, StartError>,
    /// The limits of connections.
    pub net: NetMonitor,
    /// The memory of statements.
    pub memory: Arc<MemoryBudget>,
    /// Replaces the log filter.
    pub log: Option<SetLogFilter>,
    /// The server whose slow query log and audit log are reopened, for tools that rotate them.
    pub sql: Arc<SqlServer>,
}

impl Reloader {
    /// Reopens log files, and applies the present configuration and certificates. An error is
    /// logged, and leaves settings and certificates unchanged.
    pub fn reload(&self) {
        self.sql.reopen_logs();
        match self.try_reload() {
            Ok(0) => tracing::info!("reload: certificates read again; no setting has changed"),
            Ok(_) => {}
            Err(error) => tracing::error!("reload: nothing was changed: {error}"),
        }
    }

    fn try_reload(&self) -> Result<usize, StartError> {
        let mut config = self.config.lock();
        let new = config.read_again()?;
        let certificates = self.certificates.read_again(&new)?;
        if let Some(set) = &self.log {
            set(&new.log, false)
                .map_err(|e| StartError::usage(format!("log = {:?}: {e}", new.log)))?;
        }
        let max_connections = (self.fit_open_files)(&new)?;
        // Nothing fails from here on.
        self.certificates.replace(certificates);
        let changed = changes(&config, &new);
        for (name, before, now) in &changed {
            if RELOADABLE.contains(name) {
                tracing::info!("reload: {name} is {now:?}, was {before:?}");
            } else {
                tracing::warn!(
                    "reload: {name} is {now:?} in the configuration; a restart puts it in force"
                );
            }
        }
        let is_changed = |name| changed.iter().any(|(changed, ..)| *changed == name);
        if let Some(set) = self.log.as_ref().filter(|_| is_changed("log")) {
            let _ = set(&new.log, true);
        }
        if is_changed("max-connections") || is_changed("max-before-login") {
            self.net.set_limits(max_connections, new.max_before_login);
            self.show("max_connections", max_connections as u64);
        }
        if is_changed("statement-memory") {
            let bytes = new.statement_memory.unwrap_or(u64::MAX);
            let bytes = bytes.max(MIN_STATEMENT_MEMORY);
            self.memory.set_limit(bytes);
            self.show("global_connection_memory_limit", bytes);
        }
        *config = in_force(&config, new);
        Ok(changed.len())
    }

    /// Sets the displayed value of a system variable to the value in force.
    fn show(&self, variable: &str, value: u64) {
        if let Err(error) = self.sql.show_setting(variable, &value.to_string()) {
            tracing::warn!("reload: {variable} shows its former value: {error}");
        }
    }
}

/// The new configuration with the values of settings in force: those of the one before where a change
/// needs a restart, so that the next reload reports them again.
fn in_force(before: &Config, mut new: Config) -> Config {
    for (value, before) in new.effective.iter_mut().zip(&before.effective) {
        if !RELOADABLE.contains(&value.name) {
            *value = before.clone();
        }
    }
    new
}

/// The settings that differ: name, value before, value now.
fn changes(before: &Config, now: &Config) -> Vec<(&'static str, String, String)> {
    let pairs = before.effective.iter().zip(&now.effective);
    let differ = pairs.filter(|(before, now)| before.text != now.text);
    differ
        .map(|(before, now)| (now.name, before.text.clone(), now.text.clone()))
        .collect()
}
