//! What is behind the doors.

use crate::config::{Config, StartError};
use crate::engine;
use crate::memcached::Memcached;
use crate::net::Door;
use porpoise_base::clock;
use porpoise_kv::{Engine, Stat};
use porpoise_rows::{Db, DbOptions};
use porpoise_wire::memcached::Limits;
use std::sync::Arc;

/// The rooms behind the doors, open.
pub struct House {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// The rows, which all doors share.
    pub db: Arc<Db>,
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
        let engine = engine::open(config)?;
        let db = Db::open(engine.clone(), clock::system(), DbOptions::default())
            .map_err(|e| StartError::failure(format!("the catalog cannot be read: {e}")))?;
        let memcached = open_memcached(config, &db)?;
        Ok(House {
            engine,
            db,
            mysql: None,
            memcached: memcached.map(|door| -> Arc<dyn Door> { door }),
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
        self.db.return_ids();
        self.engine.shutdown().map_err(|e| e.to_string())
    }
}

/// The memcached door, if it is asked for.
fn open_memcached(config: &Config, db: &Arc<Db>) -> Result<Option<Arc<Memcached>>, StartError> {
    if config.memcached_listen.is_none() && config.memcached_socket.is_none() {
        return Ok(None);
    }
    let max_value = Limits::default().max_value;
    let door = Memcached::open(db.clone(), &config.memcached_role, max_value)?;
    Ok(Some(Arc::new(door)))
}
