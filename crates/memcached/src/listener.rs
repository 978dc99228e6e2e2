//! A memcached listener: its settings, its connections, and its rows in SQL's virtual tables.

use crate::cache::Cache;
use crate::connection::{Client, Connection};
use crate::context::ListenerState;
use crate::context::delay::Delayed;
use crate::context::identity::Authentication;
use crate::context::stats::{ListenerStatistics, Traffic};
use crate::explain;
use crate::item_metadata::ItemMetadata;
use crate::mapping::mapping_cache::MappingCache;
use crate::reaper::Reaper;
use parking_lot::Mutex;
use porpoise_access::Rights;
use porpoise_access::ndbmemcache::schema;
use porpoise_rows::{Db, Error};
use porpoise_types::Value;
use porpoise_wire::memcached::Limits;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a listener.
pub struct ListenerSettings {
    /// Server role of the listener.
    pub role: String,
    /// Maximum item size in bytes, as memcached computes it.
    pub max_value: usize,
    /// Whether changes of rows by commands fire the tables' triggers.
    pub fires_triggers: bool,
    /// Memory cache for keys of `cache_only` prefixes.
    pub cache: Arc<Cache>,
    /// Accounts of connections.
    pub authentication: Arc<Authentication>,
    /// Bytes received and sent by the server, for `stats`.
    pub traffic: Traffic,
}

/// The reason for which a listener cannot be opened.
#[derive(Clone, Debug)]
pub enum OpenError {
    /// The role is not configured; the text lists the configured ones.
    UnknownRole(String),
    /// Reading or writing the configuration failed: the step that failed, and its error.
    Failed(&'static str, Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::UnknownRole(text) => f.write_str(text),
            OpenError::Failed(step, error) => write!(f, "the memcached listener: {step}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// A memcached listener.
pub struct Memcached {
    state: Arc<ListenerState>,
}

impl Memcached {
    /// Opens a listener: creates `ndbmemcache` if it does not exist, and reads the configuration of
    /// the role.
    ///
    /// # Errors
    /// An unknown role is an error of the command line; others are failures.
    pub fn open(db: Arc<Db>, settings: ListenerSettings) -> Result<Memcached, OpenError> {
        const SCHEMA_STEP: &str = "cannot create the schema ndbmemcache";
        let role = settings.role.as_str();
        let position = schema::ensure(&db).map_err(|e| OpenError::Failed(SCHEMA_STEP, e))?;
        let durable = db.engine().wait_durable(position);
        durable.map_err(|e| OpenError::Failed(SCHEMA_STEP, e.into()))?;
        let mapping = MappingCache::open(db.clone(), role)
            .map_err(|e| OpenError::Failed("cannot read the tables of ndbmemcache", e))?;
        let roles = &mapping.load().mapping.roles;
        if !roles.contains_key(role) {
            let mut names: Vec<&str> = roles.keys().map(String::as_str).collect();
            names.sort_unstable();
            return Err(OpenError::UnknownRole(format!(
                "--memcached-role: '{role}' is not in ndbmemcache.memcache_server_roles, which \
                 has {}",
                names.join(", ")
            )));
        }
        if let Err(error) = schema::sign_on(&db, role) {
            tracing::warn!("cannot record the start in ndbmemcache.last_memcached_signon: {error}");
        }
        let limits = Limits {
            max_value: settings.max_value,
            max_item: settings.max_value,
            ..Limits::default()
        };
        let figures = ListenerStatistics::new(db.clock().as_ref(), settings.traffic);
        Ok(Memcached {
            state: Arc::new(ListenerState {
                db,
                mapping,
                statistics: figures,
                limits,
                fires_triggers: settings.fires_triggers,
                metadata: ItemMetadata::new(),
                authentication: settings.authentication,
                delayed: Delayed::default(),
                cache: settings.cache,
                errors: Mutex::default(),
            }),
        })
    }

    /// Opens a connection of a client.
    pub fn connect(&self, client: Client) -> Connection {
        Connection::new(self.state.clone(), client)
    }

    /// Returns the row of SHOW MEMCACHED KEY for this listener; `None` if it concerns a table that
    /// an account with these rights may not read.
    pub fn resolve_row(&self, key: &[u8], rights: &Rights) -> Option<Vec<Value>> {
        explain::resolve(&self.state, key, rights)
    }

    /// Starts the reaper for the containers of some listeners; it pauses for `pause` between two
    /// scans. With `poll` it also checks whether another server of the same engine has changed the
    /// configuration.
    ///
    /// # Errors
    /// No thread can be created.
    pub fn start_reaper(
        listeners: &[Arc<Memcached>],
        pause: Duration,
        poll: bool,
    ) -> std::io::Result<Reaper> {
        let listeners = listeners.iter().map(|l| l.state.clone()).collect();
        Reaper::start(listeners, pause, poll)
    }

    /// Returns the rows of the virtual table `ndbmemcache.status` that an account with these rights
    /// may see.
    pub fn status_rows(&self, rights: &Rights) -> Vec<Vec<Value>> {
        let mut current = self.state.mapping.load();
        self.state.mapping.renew(&mut current);
        current.mapping.status_rows(rights)
    }
}
