//! Tables, as looked up.

use crate::operation::OperationBuilder;
use crate::scan::ScanRequest;
use porpoise_wire::native::batch::Operation as Kind;
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

    /// An operation that reads rows by the primary key.
    pub fn read(&self) -> OperationBuilder {
        OperationBuilder::new(self, Kind::Read)
    }

    /// An operation that inserts rows.
    pub fn insert(&self) -> OperationBuilder {
        OperationBuilder::new(self, Kind::Insert)
    }

    /// An operation that changes rows, found by the primary key.
    pub fn update(&self) -> OperationBuilder {
        OperationBuilder::new(self, Kind::Update)
    }

    /// An operation that inserts rows, or changes those with the same primary key.
    pub fn upsert(&self) -> OperationBuilder {
        OperationBuilder::new(self, Kind::Upsert)
    }

    /// An operation that deletes rows, found by the primary key.
    pub fn delete(&self) -> OperationBuilder {
        OperationBuilder::new(self, Kind::Delete)
    }

    /// A scan of the primary key.
    pub fn scan(&self) -> ScanRequest {
        ScanRequest::new(self)
    }
}
