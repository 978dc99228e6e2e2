//! The memcached listener: the classic ASCII commands over rows of tables.
//!
//! * [`schema`]: the database `ndbmemcache`, where keys are mapped to tables.
//! * [`mapping`], [`resolve`], [`live`]: which container and policy a key has,
//!   and how that follows the configuration.
//! * [`container`], [`convert`]: rows as memcached sees them.
//! * [`session`]: a connection; [`ascii`], [`meta`], [`binary`]: its dialects;
//!   [`ask`]: reads as clients ask for them; [`bundle`]: several meta commands
//!   as one transaction; [`notes`]: what meta commands keep beside the rows.
//!   [`get`] reads, [`apply`] changes one item
//!   ([`store`], [`change`], [`touch`]), [`flush`]: its commands; [`stats`]:
//!   what it counts. [`item`]: a row as an item.
//!
//! Every command is an autocommit transaction on `porpoise_rows`; SQL is not
//! involved. Foreign keys are always checked (transactions.md, rule 16).

pub mod apply;
mod ascii;
mod ask;
mod binary;
mod bundle;
pub mod cache;
mod cached;
pub mod change;
pub mod container;
mod context;
pub mod convert;
mod delay;
pub mod explain;
mod fill;
mod first_rows;
pub mod flush;
pub mod form;
pub mod get;
pub mod identity;
pub mod item;
pub mod json;
pub mod large;
pub mod live;
mod login;
pub mod mapping;
mod meta;
pub mod notes;
mod portion;
mod reading;
pub mod reaper;
mod requirement;
pub mod resolve;
pub mod schema;
pub mod session;
pub mod stats;
pub mod store;
mod switch;
pub mod touch;

use crate::config::StartError;
use crate::net::{Output, Peer, Protocol, Refusal, Session};
use cache::Cache;
use identity::Authentication;
use live::Live;
use parking_lot::Mutex;
use porpoise_rows::Db;
use porpoise_types::Value;
use porpoise_wire::memcached::Limits;
use reaper::Reaper;
use stats::Figures;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What `version` tells: the memcached whose behaviour this is, for clients
/// that choose by it what they may send, and then who it really is.
pub(crate) const VERSION: &str = concat!("1.6.18-porpoise-", env!("CARGO_PKG_VERSION"));

/// The memcached listener.
pub struct Memcached {
    shared: Arc<Shared>,
}

/// State shared by all sessions of a listener.
pub(crate) struct Shared {
    pub(crate) db: Arc<Db>,
    pub(crate) live: Live,
    pub(crate) figures: Figures,
    pub(crate) limits: Limits,
    pub(crate) notes: notes::Notes,
    pub(crate) authentication: Arc<Authentication>,
    delayed: delay::Delayed,
    pub(crate) cache: Arc<Cache>,
    /// The last refusal of each prefix; as many as there are prefixes.
    errors: Mutex<HashMap<Box<[u8]>, String>>,
}

impl Shared {
    /// Remembers why a command on a key of a prefix was refused.
    #[cold]
    pub(crate) fn note_error(&self, prefix: &[u8], text: String) {
        self.errors.lock().insert(prefix.into(), text);
    }

    /// Whole seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> i64 {
        self.db.clock().unix_micros().div_euclid(1_000_000)
    }

    /// The last refusal of a prefix.
    pub(crate) fn last_error(&self, prefix: &[u8]) -> Option<String> {
        self.errors.lock().get(prefix).cloned()
    }
}

impl Memcached {
    /// Opens the listener: makes `ndbmemcache` where it is missing and reads the
    /// configuration of the role. `max_value` is the largest item taken, in
    /// bytes, as memcached counts it; `cache` is where keys of `cache_only` prefixes live;
    /// `authentication` decides which account a connection acts as.
    ///
    /// # Errors
    /// An unknown role is a mistake in the command line; others are failures.
    pub fn open(
        db: Arc<Db>,
        role: &str,
        max_value: usize,
        cache: Arc<Cache>,
        authentication: Arc<Authentication>,
    ) -> Result<Memcached, StartError> {
        let failed = |what: &str, e: porpoise_rows::Error| {
            StartError::failure(format!("the memcached listener: {what}: {e}"))
        };
        let made =
            schema::ensure(&db).map_err(|e| failed("cannot create the schema ndbmemcache", e))?;
        db.engine()
            .wait_durable(made)
            .map_err(|e| failed("cannot create the schema ndbmemcache", e.into()))?;
        let live = Live::open(db.clone(), role)
            .map_err(|e| failed("cannot read the tables of ndbmemcache", e))?;
        let known = live.load();
        if !known.mapping.roles.contains_key(role) {
            let mut names: Vec<&str> = known.mapping.roles.keys().map(String::as_str).collect();
            names.sort_unstable();
            return Err(StartError::usage(format!(
                "--memcached-role: '{role}' is not in ndbmemcache.memcache_server_roles, which \
                 has {}",
                names.join(", ")
            )));
        }
        if let Err(error) = schema::sign_on(&db, role) {
            tracing::warn!("cannot record the start in ndbmemcache.last_memcached_signon: {error}");
        }
        let limits = Limits {
            max_value,
            max_item: max_value,
            ..Limits::default()
        };
        let figures = Figures::new(db.clock().as_ref());
        Ok(Memcached {
            shared: Arc::new(Shared {
                db,
                live,
                figures,
                limits,
                notes: notes::Notes::new(),
                authentication,
                delayed: delay::Delayed::default(),
                cache,
                errors: Mutex::default(),
            }),
        })
    }

    /// The row of SHOW MEMCACHED KEY for this listener; its columns are
    /// [`explain::COLUMNS`].
    pub fn resolve_row(&self, key: &[u8]) -> Vec<Value> {
        explain::resolve(&self.shared, key)
    }

    /// Starts the thread that deletes expired rows of the containers of some
    /// listeners, every `pause`. With `poll` it also looks whether another server
    /// of the same engine has changed the configuration.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start_reaper(
        listeners: &[Arc<Memcached>],
        pause: Duration,
        poll: bool,
    ) -> std::io::Result<Reaper> {
        let listeners = listeners.iter().map(|d| d.shared.clone()).collect();
        Reaper::start(listeners, pause, poll)
    }

    /// The rows of the virtual table `ndbmemcache.status`: server_role_id,
    /// key_prefix, container, policy, state (`active` or `disabled`), reason; behind these
    /// database and table, for the privileges of the reader.
    pub fn status_rows(&self) -> Vec<Vec<Value>> {
        let mut current = self.shared.live.load();
        self.shared.live.renew(&mut current);
        current.mapping.status_rows()
    }
}

impl Protocol for Memcached {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn open(&self, peer: Peer, _out: &mut Output) -> Box<dyn Session> {
        Box::new(session::Connection::new(self.shared.clone(), peer))
    }

    fn refusal(&self, why: Refusal) -> Vec<u8> {
        match why {
            Refusal::TooManyConnections => b"ERROR Too many open connections\r\n".to_vec(),
            Refusal::OutOfResources => b"SERVER_ERROR out of resources\r\n".to_vec(),
        }
    }
}
