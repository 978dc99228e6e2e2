//! CREATE, ALTER and DROP EVENT.

use super::{DdlCx, DdlOutcome, check_name, errors};
use crate::catalog::{Event, EventKey};
use crate::db::Db;
use crate::error::Result;
use std::sync::Arc;

impl Db {
    /// Puts an event in the place of `old`, which is `None` for a new one.
    ///
    /// # Errors
    /// 1537 if there is one of its name, 1539 if the old one is gone, 1049 without its database.
    pub fn put_event(
        &self,
        cx: &DdlCx<'_>,
        old: Option<&EventKey>,
        event: &Event,
    ) -> Result<DdlOutcome> {
        check_name(&event.name)?;
        let key = event.key();
        let position = self.change_catalog(cx, |draft| {
            if draft.catalog.database(&event.database).is_none() {
                return Err(errors::no_database(&event.database));
            }
            let events = &mut draft.catalog.events;
            if let Some(old) = old
                && events.remove(old).is_none()
            {
                return Err(errors::no_event(&old.1));
            }
            if events.contains_key(&key) {
                return Err(errors::event_exists(&event.name));
            }
            events.insert(key.clone(), Arc::new(event.clone()));
            Ok(())
        })?;
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }

    /// DROP EVENT.
    ///
    /// # Errors
    /// 1539 if it does not exist.
    pub fn drop_event(&self, cx: &DdlCx<'_>, key: &EventKey) -> Result<DdlOutcome> {
        let position = self.change_catalog(cx, |draft| {
            let gone = draft.catalog.events.remove(key);
            gone.map(drop).ok_or_else(|| errors::no_event(&key.1))
        })?;
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }
}
