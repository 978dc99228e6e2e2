//! CREATE, ALTER and DROP PROCEDURE and FUNCTION.
//!
//! The catalog stores a routine's text; its users compile it again when the catalog's version has
//! moved. A running call continues with the definition that it found, so no barrier is needed.

use super::{DdlCx, DdlOutcome, check_name, errors};
use crate::catalog::{Routine, RoutineKey};
use crate::db::Db;
use crate::error::Result;
use std::sync::Arc;

impl Db {
    /// CREATE PROCEDURE, CREATE FUNCTION. With `if_not_exists` an existing one is a note.
    ///
    /// # Errors
    /// 1304 if there is one of that name, 1049 without its database.
    pub fn create_routine(
        &self,
        cx: &DdlCx<'_>,
        routine: &Routine,
        if_not_exists: bool,
    ) -> Result<DdlOutcome> {
        check_name(&routine.name)?;
        if routine.name.is_empty() || routine.name.ends_with(' ') {
            return Err(errors::bad_routine_name(&routine.name));
        }
        let key = routine.key();
        if if_not_exists && self.catalog().routines.contains_key(&key) {
            return Ok(DdlOutcome {
                is_note: true,
                ..DdlOutcome::default()
            });
        }
        let position = self.change_catalog(cx, |draft| {
            if draft.catalog.database(&routine.database).is_none() {
                return Err(errors::no_database(&routine.database));
            }
            if draft.catalog.routines.contains_key(&key) {
                return Err(errors::routine_exists(routine.kind.name(), &routine.name));
            }
            let routines = &mut draft.catalog.routines;
            routines.insert(key.clone(), Arc::new(routine.clone()));
            Ok(())
        })?;
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }

    /// ALTER PROCEDURE, ALTER FUNCTION.
    ///
    /// # Errors
    /// 1305 if it does not exist.
    pub fn alter_routine(
        &self,
        cx: &DdlCx<'_>,
        key: &RoutineKey,
        change: &dyn Fn(&mut Routine),
    ) -> Result<DdlOutcome> {
        let position = self.change_catalog(cx, |draft| {
            let found = draft.catalog.routines.get_mut(key);
            let routine = found.ok_or_else(|| errors::no_routine(key))?;
            change(Arc::make_mut(routine));
            Ok(())
        })?;
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }

    /// DROP PROCEDURE, DROP FUNCTION. With `if_exists` a missing one is a note.
    ///
    /// # Errors
    /// 1305 if it does not exist.
    pub fn drop_routine(
        &self,
        cx: &DdlCx<'_>,
        key: &RoutineKey,
        if_exists: bool,
    ) -> Result<DdlOutcome> {
        if !self.catalog().routines.contains_key(key) {
            if !if_exists {
                return Err(errors::no_routine(key));
            }
            return Ok(DdlOutcome {
                is_note: true,
                ..DdlOutcome::default()
            });
        }
        let position = self.change_catalog(cx, |draft| {
            let gone = draft.catalog.routines.remove(key);
            gone.map(drop).ok_or_else(|| errors::no_routine(key))
        })?;
        Ok(DdlOutcome {
            position,
            ..DdlOutcome::default()
        })
    }
}
