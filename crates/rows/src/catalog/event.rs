//! Events, as the catalog keeps them.

use super::Catalog;
use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Status of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventState {
    /// It runs.
    Enabled,
    /// It does not run.
    Disabled,
    /// It runs on the source of replication only.
    ReplicaDisabled,
}

/// Times at which an event runs, in microseconds since 1970 UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSchedule {
    /// Once.
    At(i64),
    /// At the start, and at intervals from it.
    Every {
        /// The amount as it is shown.
        amount: String,
        /// The unit as written.
        unit: String,
        /// The interval: months, days, microseconds.
        interval: [i64; 3],
        /// The first time.
        starts: i64,
        /// The last time.
        ends: Option<i64>,
    },
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The database.
    pub database: String,
    /// The name as written.
    pub name: String,
    /// The body's text.
    pub body: String,
    /// The account with whose rights it runs.
    pub definer: String,
    /// Times at which it runs.
    pub schedule: EventSchedule,
    /// ON COMPLETION PRESERVE
    pub preserve: bool,
    /// Whether it runs.
    pub state: EventState,
    /// COMMENT
    pub comment: String,
    /// `time_zone` of its creation.
    pub time_zone: String,
    /// `sql_mode` of its creation.
    pub sql_mode: u64,
    /// `character_set_client` of its creation.
    pub charset: String,
    /// `collation_connection` of its creation.
    pub collation: String,
    /// Collation of its database at its creation.
    pub database_collation: String,
    /// Time of its creation.
    pub created: i64,
    /// Time of its last change.
    pub modified: i64,
}

/// The key of an event: its database, and its name in lower case.
pub type EventKey = (String, String);

/// All events by key.
pub type Events = BTreeMap<EventKey, Arc<Event>>;

impl Event {
    /// The event's key.
    pub fn key(&self) -> EventKey {
        (self.database.clone(), self.name.to_lowercase())
    }
}

impl Catalog {
    /// The event of that name.
    pub fn event(&self, database: &str, name: &str) -> Option<&Arc<Event>> {
        let key = (database.to_owned(), name.to_lowercase());
        self.events.get(&key)
    }
}

pub(super) fn write_event(w: &mut Writer, e: &Event) {
    for text in [
        &e.database,
        &e.name,
        &e.body,
        &e.definer,
        &e.comment,
        &e.time_zone,
        &e.charset,
        &e.collation,
        &e.database_collation,
    ] {
        w.str(text);
    }
    match &e.schedule {
        EventSchedule::At(at) => {
            w.u8(0);
            w.i64(*at);
        }
        EventSchedule::Every {
            amount,
            unit,
            interval,
            starts,
            ends,
        } => {
            w.u8(1);
            w.str(amount);
            w.str(unit);
            interval.iter().for_each(|n| w.i64(*n));
            w.i64(*starts);
            w.bool(ends.is_some());
            w.i64(ends.unwrap_or(0));
        }
    }
    w.bool(e.preserve);
    w.u8(match e.state {
        EventState::Enabled => 0,
        EventState::Disabled => 1,
        EventState::ReplicaDisabled => 2,
    });
    w.u64(e.sql_mode);
    w.i64(e.created);
    w.i64(e.modified);
}

pub(super) fn read_event(r: &mut Reader<'_>) -> Result<Event> {
    Ok(Event {
        database: r.str()?,
        name: r.str()?,
        body: r.str()?,
        definer: r.str()?,
        comment: r.str()?,
        time_zone: r.str()?,
        charset: r.str()?,
        collation: r.str()?,
        database_collation: r.str()?,
        schedule: match r.u8()? {
            0 => EventSchedule::At(r.i64()?),
            1 => EventSchedule::Every {
                amount: r.str()?,
                unit: r.str()?,
                interval: [r.i64()?, r.i64()?, r.i64()?],
                starts: r.i64()?,
                ends: {
                    let given = r.bool()?;
                    let at = r.i64()?;
                    given.then_some(at)
                },
            },
            other => return Err(Error::corrupt(&format!("schedule of kind {other}"))),
        },
        preserve: r.bool()?,
        state: match r.u8()? {
            0 => EventState::Enabled,
            1 => EventState::Disabled,
            2 => EventState::ReplicaDisabled,
            other => return Err(Error::corrupt(&format!("event state {other}"))),
        },
        sql_mode: r.u64()?,
        created: r.i64()?,
        modified: r.i64()?,
    })
}
