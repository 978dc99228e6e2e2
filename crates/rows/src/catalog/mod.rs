//! The catalog: what databases, tables, columns, indexes and constraints exist.
//!
//! A [`Catalog`] is an immutable value; a change makes a new one. Statements
//! work on the `Arc<Catalog>` they started with, protected by metadata locks,
//! so that nothing they use is dropped under them. On disk the catalog is rows
//! of the catalog spaces (docs/formats.md, "Catalog"): one row a database, one
//! row a table with all its columns, indexes and foreign keys, written in one
//! transaction by DDL, so that DDL is atomic because commits are.
//!
//! Invariant: [`Table::referenced_by`] and [`ForeignKey::parent`] are derived
//! when a catalog is built, never stored: they cannot disagree with the
//! definitions.

pub mod derive;
pub mod persist;

pub use crate::definition::{
    CheckConstraint, Colocate, Column, ColumnDefault, ColumnId, Expression, FkAction, FkParent,
    ForeignKey, Generated, Index, IndexKind, IndexPart, IndexState, LayoutDef, TableDef, TableId,
    TableOptions,
};
pub use crate::table::Table;

use porpoise_types::Collation;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything that is defined, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Grows with every change.
    pub version: u64,
    /// By name, as given (names of databases and tables are case-sensitive,
    /// as on MySQL under Linux).
    pub databases: BTreeMap<String, Arc<Database>>,
    /// By number.
    pub tables: BTreeMap<TableId, Arc<Table>>,
    /// By database and name.
    pub views: BTreeMap<(String, String), Arc<View>>,
}

/// WITH CHECK OPTION of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOption {
    /// None.
    None,
    /// LOCAL: the view's own condition.
    Local,
    /// CASCADED: those of the views beneath, too.
    Cascaded,
}

/// A view: a name for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The database.
    pub database: String,
    /// The name.
    pub name: String,
    /// The query, in the spelling that does not depend on an SQL mode; tables
    /// without a database lie in the view's.
    pub query: String,
    /// The names of its columns, where they are not the query's.
    pub columns: Vec<String>,
    /// ALGORITHM, as shown: UNDEFINED, MERGE or TEMPTABLE.
    pub algorithm: String,
    /// WITH CHECK OPTION.
    pub check: CheckOption,
    /// The account whose rights the query has.
    pub definer: String,
    /// SQL SECURITY INVOKER: the query has the rights of who asks.
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
    pub tables: BTreeMap<String, TableId>,
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

    /// The table of that number.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables.get(&id)
    }
}
