//! What is behind the doors.

use crate::config::{Config, StartError};
use crate::engine;
use crate::net::Door;
use porpoise_kv::{Engine, Stat};
use std::sync::Arc;

/// The rooms behind the doors, open.
pub struct House {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// The MySQL door, if there is one.
    pub mysql: Option<Arc<dyn Door>>,
    /// The memcached door, if there is one.
    pub memcached: Option<Arc<dyn Door>>,
    /// Whether user root has a password.
    pub root_has_password: bool,
}

impl House {
    /// Opens the engine the configuration names, and what stands on it. The
    /// data directory is locked by the caller; `_tls` is what a door offers to
    /// its clients, `_root_password` what root gets at first start.
    ///
    /// # Errors
    /// What the operator has to know, in one line.
    pub fn open(
        config: &Config,
        _tls: &Arc<rustls::ServerConfig>,
        _root_password: Option<&str>,
    ) -> Result<House, StartError> {
        Ok(House {
            engine: engine::open(config)?,
            mysql: None,
            memcached: None,
            root_has_password: false,
        })
    }

    /// The engine's figures.
    pub fn stats(&self) -> Vec<Stat> {
        self.engine.stats()
    }

    /// Exact counters, a last sync (transactions.md, rule 40). All sessions
    /// are gone.
    ///
    /// # Errors
    /// What did not reach the disk, in words.
    pub fn close(&self) -> Result<(), String> {
        self.engine.shutdown().map_err(|e| e.to_string())
    }
}
