//! Tables, as looked up.

use porpoise_wire::native::message;
use std::ops::Deref;
use std::sync::Arc;

/// A table, as of one version of its definition. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Table(Arc<message::Table>);

impl Deref for Table {
    type Target = message::Table;

    fn deref(&self) -> &message::Table {
        &self.0
    }
}

impl Table {
    pub(crate) fn new(table: message::Table) -> Table {
        Table(Arc::new(table))
    }
}
