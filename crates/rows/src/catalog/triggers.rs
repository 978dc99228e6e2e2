//! The catalog's record of a table's triggers: one row for each table that has any.

use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};
use crate::triggers::{Trigger, TriggerEvent, TriggerTime};

const EVENTS: [TriggerEvent; 3] = [
    TriggerEvent::Insert,
    TriggerEvent::Update,
    TriggerEvent::Delete,
];

pub(super) fn write_triggers(w: &mut Writer, triggers: &[Trigger]) {
    w.list(triggers, |w, t| {
        for text in [
            &t.name,
            &t.body,
            &t.definer,
            &t.charset,
            &t.collation,
            &t.database_collation,
        ] {
            w.str(text);
        }
        w.bool(t.time == TriggerTime::After);
        let event = EVENTS.iter().position(|e| *e == t.event);
        w.u8(event.unwrap_or(0) as u8);
        w.u64(t.sql_mode);
        w.i64(t.created);
    });
}

pub(super) fn read_triggers(r: &mut Reader<'_>) -> Result<Vec<Trigger>> {
    r.list(|r| {
        Ok(Trigger {
            name: r.str()?,
            body: r.str()?,
            definer: r.str()?,
            charset: r.str()?,
            collation: r.str()?,
            database_collation: r.str()?,
            time: if r.bool()? {
                TriggerTime::After
            } else {
                TriggerTime::Before
            },
            event: {
                let number = r.u8()?;
                let found = EVENTS.get(usize::from(number)).copied();
                found.ok_or_else(|| Error::corrupt(&format!("event {number} of a trigger")))?
            },
            sql_mode: r.u64()?,
            created: r.i64()?,
        })
    })
}
