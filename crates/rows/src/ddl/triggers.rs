//! CREATE TRIGGER and DROP TRIGGER.
//!
//! Triggers are a part of their table's definition: they are dropped with it, and a change waits
//! for the statements that use the table.

use super::{DdlCx, DdlOutcome, check_name, errors};
use crate::catalog::Catalog;
use crate::db::Db;
use crate::definition::TableId;
use crate::error::{Error, Result};
use crate::table::Table;
use crate::triggers::Trigger;
use std::sync::Arc;

/// The place of a new trigger among those of the same event and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerOrder {
    /// After all others.
    Last,
    /// FOLLOWS this one.
    Follows(String),
    /// PRECEDES this one.
    Precedes(String),
}

impl Catalog {
    /// The trigger of that name in a database, and its table. Names are compared without case.
    pub fn trigger(&self, database: &str, name: &str) -> Option<(&Arc<Table>, &Trigger)> {
        let mut tables = self.tables.values().filter(|t| t.database == database);
        tables.find_map(|table| {
            let mut all = table.triggers.iter();
            let found = all.find(|t| t.name.to_lowercase() == name.to_lowercase())?;
            Some((table, found))
        })
    }
}

impl Db {
    /// CREATE TRIGGER. With `if_not_exists` an existing one of the same table is a note.
    ///
    /// # Errors
    /// 1359 if there is one of that name, 4100 if it belongs to another table and `if_not_exists` is set, 1146 without
    /// its table, 1361 for a temporary table's name or a view, 3011 if there is no trigger to follow or precede.
    pub fn create_trigger(
        &self,
        cx: &DdlCx<'_>,
        database: &str,
        table: &str,
        trigger: &Trigger,
        order: &TriggerOrder,
        if_not_exists: bool,
    ) -> Result<DdlOutcome> {
        check_name(&trigger.name)?;
        let find = |catalog: &Catalog| -> Result<TableId> {
            if catalog.view(database, table).is_some() {
                return Err(errors::not_a_base_table(database, table));
            }
            let found = catalog.table(database, table);
            Ok(found.ok_or_else(|| errors::no_table(database, table))?.id)
        };
        let id = find(&self.catalog())?;
        let exists = |catalog: &Catalog| -> Result<bool> {
            match catalog.trigger(database, &trigger.name) {
                None => Ok(false),
                Some((other, _)) if if_not_exists && other.id == id => Ok(true),
                Some((_, existing)) if if_not_exists => {
                    Err(errors::trigger_of_other_table(database, &existing.name))
                }
                Some(_) => Err(errors::trigger_exists()),
            }
        };
        if exists(&self.catalog())? {
            return Ok(DdlOutcome {
                is_note: true,
                ..DdlOutcome::default()
            });
        }
        let _barrier = self.barrier(cx, |catalog| Ok(vec![find(catalog)?]))?;
        let position = self.change_catalog(cx, |draft| {
            let id = find(&draft.catalog)?;
            if exists(&draft.catalog)? {
                return Ok(());
            }
            let edited = draft.edit(id, |def| {
                let mut all = def.triggers.to_vec();
                let at = position_of(&all, trigger, order)?;
                all.insert(at, trigger.clone());
                def.triggers = all.into();
                Ok(())
            });
            edited.unwrap_or_else(|| Err(errors::no_table(database, table)))
        })?;
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }

    /// DROP TRIGGER. With `if_exists` a missing one is a note.
    ///
    /// # Errors
    /// 1360 if it does not exist.
    pub fn drop_trigger(
        &self,
        cx: &DdlCx<'_>,
        database: &str,
        name: &str,
        if_exists: bool,
    ) -> Result<DdlOutcome> {
        let table = |catalog: &Catalog| catalog.trigger(database, name).map(|(table, _)| table.id);
        if table(&self.catalog()).is_none() {
            if !if_exists {
                return Err(errors::no_trigger());
            }
            return Ok(DdlOutcome {
                is_note: true,
                ..DdlOutcome::default()
            });
        }
        let _barrier = self.barrier(cx, |catalog| Ok(table(catalog).into_iter().collect()))?;
        let position = self.change_catalog(cx, |draft| {
            let id = table(&draft.catalog).ok_or_else(errors::no_trigger)?;
            draft.edit(id, |def| {
                let mut all = def.triggers.to_vec();
                all.retain(|t| t.name.to_lowercase() != name.to_lowercase());
                def.triggers = all.into();
            });
            Ok(())
        })?;
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }
}

/// The position at which a trigger is added.
fn position_of(all: &[Trigger], trigger: &Trigger, order: &TriggerOrder) -> Result<usize> {
    let (other, offset) = match order {
        TriggerOrder::Last => return Ok(all.len()),
        TriggerOrder::Follows(other) => (other, 1),
        TriggerOrder::Precedes(other) => (other, 0),
    };
    let mut all = all.iter();
    let found = all.position(|t| {
        let is_same = t.time == trigger.time && t.event == trigger.event;
        is_same && t.name.to_lowercase() == other.to_lowercase()
    });
    match found {
        Some(at) => Ok(at + offset),
        None => {
            let text = format!(
                "Referenced trigger '{other}' for the given action time and event type does not \
                 exist."
            );
            Err(Error::refused(3011, "HY000", text))
        }
    }
}
