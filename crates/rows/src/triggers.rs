//! Triggers: their definitions, and how writers of rows fire them.
//!
//! This crate stores a trigger's text and knows when it fires; it does not know SQL. A SQL session
//! passes its own [`FireTriggers`] to [`crate::Txn::firing`], so that bodies share its user
//! variables; for all other writers, memcached among them, the server has one
//! ([`crate::Db::set_trigger_runner`]). The writing functions fire the triggers of the tables
//! written, including those of rows that foreign key actions change.
//!
//! Invariants:
//! 1. A BEFORE trigger runs before the row's keys are locked and its constraints are judged, an
//!    AFTER trigger after the row and its entries are written. Rows of a table with triggers are
//!    written one by one, so that the trigger of a row sees all earlier rows of the statement.
//! 2. What triggers write belongs to the statement that fired them: if it fails, their writes are
//!    rolled back, too.
//! 3. A trigger cannot write to a table that a statement around it is writing (error 1442), so
//!    that nothing changes between the judgement and the write of a row.
//!
//! Rejected: queueing AFTER triggers until the end of the statement (a trigger's error would be
//! reported for the wrong row, and its effects would come in another order than in MySQL).

use crate::error::Result;
use crate::table::Table;
use crate::txn::Txn;
use porpoise_types::Value;
use std::sync::Arc;

/// When a trigger fires, relative to the change of the row.
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

/// One change of a row, for which all triggers of the event and time fire.
#[derive(Debug)]
pub struct Firing<'f> {
    /// The table of the row.
    pub table: &'f Arc<Table>,
    /// When.
    pub time: TriggerTime,
    /// Why.
    pub event: TriggerEvent,
    /// The storage values of the row before the change, in column order; empty for an insertion.
    pub old: &'f [Value],
    /// The storage values of the row after the change; empty for a deletion. Triggers change them
    /// only BEFORE.
    pub new: &'f mut Vec<Value>,
}

impl Firing<'_> {
    /// The triggers that fire, in their order.
    pub fn triggers(&self) -> impl Iterator<Item = &Trigger> {
        let (time, event) = (self.time, self.event);
        let all = self.table.triggers.iter();
        all.filter(move |t| t.time == time && t.event == event)
    }
}

/// Runs the bodies of triggers.
pub trait FireTriggers {
    /// Runs all triggers of a firing within the transaction.
    ///
    /// # Errors
    /// The first error of a body; the statement that fired it fails.
    fn fire(&self, txn: &mut Txn, firing: &mut Firing<'_>) -> Result<()>;
}

/// Whether a table has triggers of this time and event.
pub(crate) fn has_triggers(table: &Table, time: TriggerTime, event: TriggerEvent) -> bool {
    let mut all = table.triggers.iter();
    all.any(|t| t.time == time && t.event == event)
}
