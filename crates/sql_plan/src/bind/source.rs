//! Tables of a statement, as names see them.

use super::hints::Hints;
use crate::expr::query::FreeRef;
use crate::expr::{Expr, ExprKind};
use crate::virtual_tables::{ScopeColumn, VirtualTable};
use porpoise_rows::catalog::Table;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// The origin of the rows of a table of the statement.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A stored table.
    Stored(Arc<Table>),
    /// Rows made when they are asked for.
    Virtual(&'static VirtualTable),
    /// The rows of a query: a derived table, a common table expression, a
    /// view, a set operation.
    Derived(Arc<Derived>),
}

/// A table of the statement.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name in the statement: alias, or table name.
    pub alias: String,
    /// The database's name; empty where an alias was given.
    pub database: String,
    /// Its rows.
    pub origin: Origin,
    /// Its columns.
    pub columns: Vec<ScopeColumn>,
    /// PARTITION (names): the positions.
    pub partitions: Option<Arc<[usize]>>,
    /// USE, FORCE and IGNORE INDEX.
    pub hints: Hints,
    /// It is a view of this table.
    pub view: Option<Arc<MergedView>>,
    /// Its position among the uses of the statement, by which privileges are checked; `None`
    /// where its columns need none.
    pub named: Option<usize>,
}

impl Source {
    /// The columns that `*` shows, in order.
    pub fn places(&self) -> Vec<usize> {
        match &self.view {
            Some(view) => view.shown.clone(),
            None => (0..self.columns.len()).collect(),
        }
    }

    /// A stored table under a name.
    pub fn stored(table: Arc<Table>, alias: Option<&str>) -> Source {
        let columns = table.columns.iter().map(|c| ScopeColumn {
            name: c.name.clone(),
            ty: c.ty.clone(),
            nullable: c.nullable,
        });
        Source {
            alias: alias.unwrap_or(&table.name).to_owned(),
            database: table.database.clone(),
            columns: columns.collect(),
            origin: Origin::Stored(table),
            partitions: None,
            hints: Default::default(),
            view: None,
            named: None,
        }
    }

    /// The stored table, if it is one.
    pub fn table(&self) -> Option<&Arc<Table>> {
        match &self.origin {
            Origin::Stored(table) => Some(table),
            Origin::Virtual(_) | Origin::Derived(_) => None,
        }
    }
}

/// The plan of a derived table, as far as binding knows it.
pub trait DerivedPlan: Any + Debug + Send + Sync {
    /// Whether MySQL would make the query a part of the one that reads it (manual, "Optimizing
    /// Derived Tables ... with Merging or Materialization"), which shows in names of columns.
    fn could_be_merged(&self) -> bool;
}

/// Rows made by a query.
#[derive(Debug)]
pub struct Derived {
    /// The plan that makes them.
    pub rows: Box<dyn DerivedPlan>,
    /// Their columns.
    pub columns: Vec<ScopeColumn>,
    /// Columns that they depend on outside of themselves; level 1 is the row of the
    /// query in whose FROM they stand, which only LATERAL can see.
    pub free: Vec<FreeRef>,
}

impl Derived {
    /// The plan as the type that the planner made it of.
    pub fn rows_as<P: DerivedPlan>(&self) -> Option<&P> {
        let rows: &dyn Any = self.rows.as_ref();
        rows.downcast_ref()
    }
}

/// A view that is merged into the query: the table that it shows is read in its place.
#[derive(Clone, Debug)]
pub struct MergedView {
    /// The view's database.
    pub database: String,
    /// The view's name.
    pub name: String,
    /// The columns it shows, in order, as positions in the table.
    pub shown: Vec<usize>,
    /// Conditions that its rows fulfil, over slot 0.
    pub conditions: Vec<Expr>,
    /// Conditions on a row written through it (WITH CHECK OPTION).
    pub check: Vec<Expr>,
}

impl MergedView {
    /// The conditions for a slot.
    pub fn conditions_at(&self, slot: usize) -> Vec<Expr> {
        let mut all = self.conditions.clone();
        for condition in &mut all {
            condition.rewrite(&mut |e| {
                if let ExprKind::Column { slot: at, .. } = &mut e.kind {
                    *at = slot;
                }
            });
        }
        all
    }
}
