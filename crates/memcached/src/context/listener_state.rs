//! State shared by all connections of a listener.

use super::delay::Delayed;
use super::identity::Authentication;
use super::stats::ListenerStatistics;
use crate::cache::Cache;
use crate::item_metadata::ItemMetadata;
use crate::mapping::mapping_cache::MappingCache;
use parking_lot::Mutex;
use porpoise_rows::Db;
use porpoise_wire::memcached::Limits;
use std::collections::HashMap;
use std::sync::Arc;

/// State shared by all connections of a listener.
pub(crate) struct ListenerState {
    pub(crate) db: Arc<Db>,
    pub(crate) mapping: MappingCache,
    pub(crate) statistics: ListenerStatistics,
    pub(crate) limits: Limits,
    /// Whether changes of rows by commands fire triggers.
    pub(crate) fires_triggers: bool,
    pub(crate) metadata: ItemMetadata,
    pub(crate) authentication: Arc<Authentication>,
    pub(crate) delayed: Delayed,
    pub(crate) cache: Arc<Cache>,
    /// The last error of a command on each prefix.
    pub(crate) errors: Mutex<HashMap<Box<[u8]>, String>>,
}

impl ListenerState {
    /// Records the error of a command on a key with a prefix.
    #[cold]
    pub(crate) fn note_error(&self, prefix: &[u8], text: String) {
        self.errors.lock().insert(prefix.into(), text);
    }

    /// Whole seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> i64 {
        self.db.clock().unix_micros().div_euclid(1_000_000)
    }

    /// The last error of a command on a key with this prefix.
    pub(crate) fn last_error(&self, prefix: &[u8]) -> Option<String> {
        self.errors.lock().get(prefix).cloned()
    }
}
