//! User variables of a session, charged to its memory.

use super::eval::Env;
use crate::error::Result;
use porpoise_types::{ColumnType, Value};
use std::sync::Arc;

/// Memory of a map entry, without its name and value.
const ENTRY: usize = 96;

fn size_of_variable(name: &str, value: &Value) -> usize {
    let text = match value {
        Value::Bytes(text) => text.len(),
        _ => 0,
    };
    name.len() + text + ENTRY
}

impl Env {
    /// Sets a user variable.
    ///
    /// # Errors
    /// If a memory limit is exceeded; the variable is unchanged then.
    pub fn set_user_variable(&self, name: Arc<str>, value: Value, ty: ColumnType) -> Result<()> {
        let mut variables = self.user_variables.borrow_mut();
        let before = variables.get(&name);
        let before = before.map_or(0, |(old, _)| size_of_variable(&name, old));
        self.memory
            .replace(before, size_of_variable(&name, &value))?;
        variables.insert(name, (value, ty));
        Ok(())
    }

    /// Drops all user variables.
    pub fn clear_user_variables(&self) {
        let variables = std::mem::take(&mut *self.user_variables.borrow_mut());
        let sizes = variables.iter().map(|(n, (v, _))| size_of_variable(n, v));
        // Releasing memory cannot fail.
        let _ = self.memory.replace(sizes.sum(), 0);
    }
}
