//! Definitions of triggers, as the catalog stores them: their bodies are text. [`crate::FiringTxn`]
//! fires them.

use std::sync::Arc;

/// Time at which a trigger fires, relative to the change of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TriggerTime {
    /// BEFORE
    Before,
    /// AFTER
    After,
}

/// The change of a row for which a trigger fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TriggerEvent {
    /// INSERT
    Insert,
    /// UPDATE
    Update,
    /// DELETE
    Delete,
}

impl TriggerTime {
    /// The keyword.
    pub fn name(self) -> &'static str {
        match self {
            TriggerTime::Before => "BEFORE",
            TriggerTime::After => "AFTER",
        }
    }
}

impl TriggerEvent {
    /// The keyword.
    pub fn name(self) -> &'static str {
        match self {
            TriggerEvent::Insert => "INSERT",
            TriggerEvent::Update => "UPDATE",
            TriggerEvent::Delete => "DELETE",
        }
    }
}

/// The definition of a trigger. Its name is compared without case, and unique in its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The name as written.
    pub name: String,
    /// BEFORE or AFTER.
    pub time: TriggerTime,
    /// INSERT, UPDATE or DELETE.
    pub event: TriggerEvent,
    /// The body's text.
    pub body: String,
    /// The account with whose rights it runs, as `user@host`.
    pub definer: String,
    /// `sql_mode` of its creation, under which it is parsed and runs.
    pub sql_mode: u64,
    /// `character_set_client` of its creation.
    pub charset: String,
    /// `collation_connection` of its creation.
    pub collation: String,
    /// Collation of its database at its creation.
    pub database_collation: String,
    /// Time of its creation, microseconds since 1970 UTC.
    pub created: i64,
}

/// The triggers of a table, in the order in which those of the same event and time fire.
pub type Triggers = Arc<[Trigger]>;
