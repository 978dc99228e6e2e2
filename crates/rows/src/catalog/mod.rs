//! The catalog: what databases, tables, columns, indexes and constraints exist.
//!
//! A [`Catalog`] is an immutable value; a change creates a new one. A statement uses the
//! `Arc<Catalog>` that it started with. Metadata locks ensure that nothing it uses is dropped
//! meanwhile. On disk the catalog is rows of the catalog space (docs/formats.md, "Catalog"): one
//! per database, and one per table with all its columns, indexes and foreign keys. A DDL statement
//! writes them in one transaction, which makes DDL atomic.
//!
//! Invariants:
//! 1. [`Table::referenced_by`] and [`ForeignKey::parent`] are derived when a catalog is built,
//!    never stored: they cannot disagree with the definitions.
//! 2. A histogram belongs to a column that exists and has the type for which it was made; others
//!    are dropped with the change that makes them outdated.

pub mod derive;
mod event;
pub mod persist;
mod routine;
mod triggers;

pub use crate::definition::{
    CheckConstraint, Colocate, Column, ColumnDefault, ColumnId, Expression, FkAction, FkParent,
    ForeignKey, FullText, Generated, GeneratedKind, Index, IndexKind, IndexPart, IndexState,
    LayoutDef, TableDef, TableId, TableOptions, UnfinishedChange,
};
use crate::histogram::Histogram;
use crate::shared_map::SharedMap;
pub use crate::table::Table;
pub use event::{Event, EventKey, EventSchedule, EventState, Events};
pub use routine::{Routine, RoutineAccess, RoutineKey, RoutineKind, Routines};

use porpoise_types::Collation;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All definitions, as of one catalog version.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Grows with every change.
    pub version: u64,
    /// Databases by name (names of databases and tables are case-sensitive, as on MySQL under
    /// Linux).
    pub databases: SharedMap<String, Arc<Database>>,
    /// Tables by id.
    pub tables: SharedMap<TableId, Arc<Table>>,
    /// The tables that have a foreign key without a parent, by the name of the parent. Derived.
    pub waiting: BTreeMap<TableName, BTreeSet<TableId>>,
    /// Views by database and name.
    pub views: BTreeMap<(String, String), Arc<View>>,
    /// Stored procedures and functions.
    pub routines: Routines,
    /// Events.
    pub events: Events,
    /// Histograms of columns.
    pub histograms: BTreeMap<(TableId, ColumnId), Arc<Histogram>>,
    /// Changes of definitions that are under way on the servers of a cluster. Empty on an engine
    /// that one server uses.
    pub changes: BTreeMap<ChangeKey, DefinitionChange>,
}

/// Database and name of a table.
pub type TableName = (String, String);

/// Server, and number of its statement.
pub type ChangeKey = (u64, u64);

/// A statement that changes definitions, on some server of a cluster. No other such statement touches
/// its tables until it is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionChange {
    /// The first catalog version that contains it.
    pub version: u64,
    /// Whether sessions use the tables meanwhile. Otherwise all servers keep them away.
    pub is_online: bool,
    /// The tables.
    pub tables: Vec<TableId>,
}

/// WITH CHECK OPTION of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOption {
    /// None.
    None,
    /// LOCAL: the view's own condition.
    Local,
    /// CASCADED: also the conditions of the underlying views.
    Cascaded,
}

/// A view: a name for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The database.
    pub database: String,
    /// The name.
    pub name: String,
    /// The query, in a form that does not depend on the SQL mode. Tables without a database belong
    /// to the view's.
    pub query: String,
    /// Names of its columns, if they differ from the query's.
    pub columns: Vec<String>,
    /// ALGORITHM, as shown: UNDEFINED, MERGE or TEMPTABLE.
    pub algorithm: String,
    /// WITH CHECK OPTION.
    pub check: CheckOption,
    /// The account with whose rights the query runs.
    pub definer: String,
    /// SQL SECURITY INVOKER: the query runs with the rights of the invoker.
    pub invoker: bool,
    /// The character set of the session that defined it.
    pub charset: String,
    /// The collation of that session's connection.
    pub collation: String,
}

/// A database (schema).
#[derive(Clone, Debug)]
pub struct Database {
    /// The name.
    pub name: String,
    /// Default collation of its tables (and with it the character set).
    pub collation: Collation,
    /// Its tables by name.
    pub tables: SharedMap<String, TableId>,
}

impl Catalog {
    /// The database of that name.
    pub fn database(&self, name: &str) -> Option<&Arc<Database>> {
        self.databases.get(name)
    }

    /// The table of that name.
    pub fn table(&self, database: &str, name: &str) -> Option<&Arc<Table>> {
        let id = self.databases.get(database)?.tables.get(name)?;
        self.tables.get(id)
    }

    /// The view of that name.
    pub fn view(&self, database: &str, name: &str) -> Option<&Arc<View>> {
        if self.views.is_empty() {
            return None;
        }
        self.views.get(&(database.to_owned(), name.to_owned()))
    }

    /// The tables with a foreign key to a table of this name that does not exist, or lacks the index.
    pub(crate) fn children_waiting_for(
        &self,
        database: &str,
        name: &str,
    ) -> impl Iterator<Item = &Arc<Table>> {
        let waiting = if self.waiting.is_empty() {
            None
        } else {
            self.waiting.get(&(database.to_owned(), name.to_owned()))
        };
        let ids = waiting.into_iter().flatten();
        ids.filter_map(|id| self.tables.get(id))
    }

    /// Whether rows of some table expire.
    pub fn has_ttl(&self) -> bool {
        self.tables
            .values()
            .any(|table| table.expiry_rule().is_some())
    }

    /// The table with that id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables.get(&id)
    }
}
