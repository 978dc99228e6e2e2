//! The tables of a statement, as name resolution sees them.

use super::hints::Hints;
use crate::expr::query::FreeRef;
use crate::expr::{Expr, ExprKind};
use crate::virtual_tables::{ScopeColumn, VirtualTable};
use porpoise_rows::catalog::{Column, Table};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Source of a table's rows.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A stored table.
    Stored(Arc<Table>),
    /// A virtual table, whose rows are computed when it is read.
    Virtual(&'static VirtualTable),
    /// The rows of a query: a derived table, a common table expression, a view or a set operation.
    Derived(Arc<Derived>),
}

/// A table in a statement.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name in the statement: alias, or table name.
    pub alias: String,
    /// The database's name; empty where an alias was given.
    pub database: String,
    /// Origin of the rows.
    pub origin: Origin,
    /// The columns.
    pub columns: Vec<ScopeColumn>,
    /// PARTITION (names): positions of the partitions.
    pub partitions: Option<Arc<[usize]>>,
    /// USE, FORCE and IGNORE INDEX.
    pub hints: Hints,
    /// The merged view through which the table is read.
    pub view: Option<Arc<MergedView>>,
    /// Position among the uses of the statement, by which privileges are checked; `None` if its
    /// columns need no privileges.
    pub use_index: Option<usize>,
}

impl Source {
    /// The columns that `*` expands to, in order.
    pub fn star_columns(&self) -> Vec<usize> {
        match &self.view {
            Some(view) => view.base_columns.clone(),
            None => {
                let all = 0..self.columns.len();
                all.filter(|at| !self.is_left_out(*at)).collect()
            }
        }
    }

    /// The database in a column's qualified name in messages; empty for a derived table.
    pub fn shown_database(&self) -> &str {
        match self.table() {
            Some(table) if self.database.is_empty() => &table.database,
            _ => &self.database,
        }
    }

    /// Number of the columns that rows of the source have.
    pub fn width(&self) -> usize {
        match (&self.view, self.table()) {
            (Some(view), _) => view.first_computed,
            (None, Some(table)) => table.columns.len(),
            (None, None) => self.columns.len(),
        }
    }

    /// Whether `*` leaves a column out: it is INVISIBLE, or that of a functional key part.
    fn is_left_out(&self, column: usize) -> bool {
        let found = self.table().and_then(|table| table.columns.get(column));
        found.is_some_and(|c| c.invisible || c.is_hidden())
    }

    /// Whether a column is that of a functional key part, which cannot be named.
    pub fn is_hidden(&self, column: usize) -> bool {
        let table = self.table();
        let found = table.and_then(|table| table.columns.get(column));
        found.is_some_and(Column::is_hidden)
    }

    /// Creates the source of a stored table.
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
            use_index: None,
        }
    }

    /// The slots of the same FROM clause that a LATERAL table reads, as a bit set.
    pub fn lateral_slots(&self) -> u64 {
        let Origin::Derived(derived) = &self.origin else {
            return 0;
        };
        let here = derived.free.iter().filter(|f| f.level == 1);
        here.fold(0, |all, f| all | 1u64 << (f.slot & 63))
    }

    /// The stored table, if the source is one.
    pub fn table(&self) -> Option<&Arc<Table>> {
        match &self.origin {
            Origin::Stored(table) => Some(table),
            Origin::Virtual(_) | Origin::Derived(_) => None,
        }
    }
}

/// The plan of a derived table, opaque to the binder.
pub trait DerivedPlan: Any + Debug + Send + Sync {
    /// Whether MySQL would merge the query into the outer one (manual, "Optimizing Derived Tables
    /// ... with Merging or Materialization"), which affects names of columns.
    fn could_be_merged(&self) -> bool;
}

/// Rows that a query produces.
#[derive(Debug)]
pub struct Derived {
    /// The plan that produces them.
    pub rows: Box<dyn DerivedPlan>,
    /// The columns.
    pub columns: Vec<ScopeColumn>,
    /// Outer columns that the query reads; level 1 is the row of the query in whose FROM it stands,
    /// which only LATERAL can read.
    pub free: Vec<FreeRef>,
    /// References to it, if it is a common table expression.
    pub references: References,
}

/// Number of places in a statement that read a common table expression, counted while they are bound.
#[derive(Debug, Default)]
pub struct References(AtomicU32);

impl References {
    /// Counts one more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of places counted so far.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether several places share the rows.
    pub fn are_several(&self) -> bool {
        self.count() > 1
    }
}

impl Derived {
    /// The plan, downcast to the planner's type.
    pub fn rows_as<P: DerivedPlan>(&self) -> Option<&P> {
        let rows: &dyn Any = self.rows.as_ref();
        rows.downcast_ref()
    }
}

/// A view that is merged into the query: its base table is read instead.
#[derive(Clone, Debug)]
pub struct MergedView {
    /// The view's database.
    pub database: String,
    /// The view's name.
    pub name: String,
    /// The columns of the view, in order, as positions in the source: those of the base table, and
    /// after them the computed ones.
    pub base_columns: Vec<usize>,
    /// Position of the first computed column.
    pub first_computed: usize,
    /// The expressions of computed columns, over the slots of the view's tables, counted from that of
    /// this source. The columns of a view of several tables are all here.
    pub computed: Vec<Expr>,
    /// For a view of several tables, the use of the table that this source reads.
    pub joined: Option<Option<usize>>,
    /// The view's conditions, over the same slots as `computed`.
    pub conditions: Vec<Expr>,
    /// Conditions on rows written through the view (WITH CHECK OPTION), over the same slots.
    pub check: Vec<Expr>,
}

impl MergedView {
    /// The view's conditions, for a source in this slot.
    pub fn conditions_at(&self, slot: usize) -> Vec<Expr> {
        self.conditions.iter().map(|c| moved_to(c, slot)).collect()
    }

    /// The conditions on rows written through the view, for a source in this slot.
    pub fn check_at(&self, slot: usize) -> Vec<Expr> {
        self.check.iter().map(|c| moved_to(c, slot)).collect()
    }

    /// The expression of a computed column, for a source in this slot; `None` for a column of the base
    /// table.
    pub fn computed_at(&self, column: usize, slot: usize) -> Option<Expr> {
        let at = column.checked_sub(self.first_computed)?;
        self.computed.get(at).map(|e| moved_to(e, slot))
    }

    /// The slot and position of the table's column that a column is, for a source in this slot; `None`
    /// for an expression.
    pub fn base_column(&self, column: usize, slot: usize) -> Option<(usize, usize)> {
        match self.computed_at(column, slot) {
            None => Some((slot, column)),
            Some(e) => match e.kind {
                ExprKind::Column { slot, column, .. } => Some((slot, column)),
                _ => None,
            },
        }
    }

    /// Whether rows can be inserted: all columns are different ones of the base table.
    pub fn is_insertable(&self) -> bool {
        self.computed.is_empty()
    }
}

/// An expression over slots from 0, over those from `first`.
fn moved_to(e: &Expr, first: usize) -> Expr {
    let mut e = e.clone();
    e.rewrite(&mut |e| {
        if let ExprKind::Column { slot, .. } = &mut e.kind {
            *slot += first;
        }
    });
    e
}
