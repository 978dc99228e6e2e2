//! A table for readers and writers of rows: its definition and data
//! derived from it.
//!
//! Invariants:
//! 1. A `Table` is immutable, so derived data agree with the definition. A change of the definition
//!    creates a new `Table`.
//! 2. Expressions are compiled at first use, because their compiler is
//!    registered after the catalog was read.

mod accesses;
pub(crate) mod layout;
pub(crate) mod router;

pub use accesses::{AccessKind, TableAccesses};

use crate::definition::{Index, IndexKind, LayoutDef, TableDef, TableId};
use crate::expressions::Compiled;
use crate::histogram::Histogram;
use crate::text_index::TextIndex;
use crate::ttl::ExpiryRule;
use layout::Layout;
use router::Router;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A table: its definition, to which it dereferences, and derived data.
#[derive(Clone, Debug)]
pub struct Table {
    def: TableDef,
    /// Foreign keys that reference this table (self-references included): child table, and position
    /// in its `foreign_keys`.
    pub referenced_by: Vec<(TableId, usize)>,
    /// The tables that a write to this one may read or change (parents, children, and further along
    /// cascades), itself first. A writing statement publishes them as used.
    pub write_set: Arc<[TableId]>,
    /// Histograms of columns, by position.
    pub histograms: Vec<(usize, Arc<Histogram>)>,
    derived: Derived,
}

/// Layouts, routing and lists derived from a definition.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    /// The layout rows are written in.
    current: Layout,
    /// Older layouts, in order of version.
    older: Vec<Layout>,
    /// Positions of the maintained unique indexes, the primary one excluded.
    pub(crate) unique_indexes: Vec<usize>,
    /// For each index, the column of its multi-valued part.
    array_columns: Vec<Option<usize>>,
    /// For each index, how it splits texts.
    text_indexes: Vec<Option<Arc<TextIndex>>>,
    /// Positions of NOT NULL columns.
    pub(crate) not_null: Vec<usize>,
    /// Router of a partitioned table's rows.
    pub(crate) router: Option<Router>,
    /// Whether writes of rows evaluate expressions.
    pub(crate) expressions: bool,
    /// The rule by which rows expire.
    pub(crate) expiry_rule: Option<ExpiryRule>,
    /// The compiled expressions, set at first use.
    pub(crate) compiled: OnceLock<Compiled>,
    /// Whether each index has been read by a statement since the definition was loaded.
    used_indexes: Arc<[AtomicBool]>,
    /// Numbers of row accesses since the definition was loaded.
    accesses: Arc<TableAccesses>,
}

impl Derived {
    fn new(table: &TableDef) -> Derived {
        let mut layouts: Vec<Layout> = table
            .layouts
            .iter()
            .map(|def| Layout::resolve(table, def))
            .collect();
        let current = layouts.pop().unwrap_or_else(|| {
            let columns = table.columns.iter().map(|c| (c.id, c.stored_type()));
            let def = LayoutDef {
                version: 0,
                columns: columns.collect(),
            };
            Layout::resolve(table, &def)
        });
        Derived {
            current,
            older: layouts,
            expressions: table.evaluates_expressions(),
            compiled: OnceLock::new(),
            expiry_rule: expiry_rule(table),
            used_indexes: table
                .indexes
                .iter()
                .map(|_| AtomicBool::new(false))
                .collect(),
            accesses: Arc::default(),
            router: table.partitioning.as_ref().map(|by| Router::new(table, by)),
            unique_indexes: {
                let unique = |(_, index): &(usize, &Index)| index.kind == IndexKind::Unique;
                let unique = table.maintained_indexes().filter(unique);
                unique.map(|(position, _)| position).collect()
            },
            array_columns: {
                let indexes = table.maintained_indexes();
                let array = |(_, index)| table.array_column(index);
                indexes.map(array).collect()
            },
            text_indexes: {
                let prepare = |index| TextIndex::new(table, index).map(Arc::new);
                table.indexes.iter().map(prepare).collect()
            },
            not_null: (0..table.columns.len())
                .filter(|i| table.columns.get(*i).is_some_and(|c| !c.nullable))
                .collect(),
        }
    }

    /// The layout rows are written in.
    #[inline]
    pub(crate) fn current(&self) -> &Layout {
        &self.current
    }

    /// The layout of rows of a table version.
    #[inline]
    pub(crate) fn of_version(&self, version: u32) -> Option<&Layout> {
        if self.current.version <= version {
            return Some(&self.current);
        }
        self.older.iter().rev().find(|l| l.version <= version)
    }
}

/// The rule of a definition; `None` if its rows do not expire.
fn expiry_rule(table: &TableDef) -> Option<ExpiryRule> {
    let ttl = table.options.ttl.as_ref().filter(|ttl| ttl.enabled)?;
    let column = table.column(&ttl.column)?;
    Some(ExpiryRule {
        column,
        kind: table.columns.get(column)?.ty.kind,
        lifetime: ttl.lifetime,
    })
}

impl Deref for Table {
    type Target = TableDef;

    #[inline]
    fn deref(&self) -> &TableDef {
        &self.def
    }
}

impl Table {
    /// The table of a definition, without relations to other tables.
    pub fn new(def: TableDef) -> Table {
        Table {
            referenced_by: Vec::new(),
            write_set: Arc::from([def.id]),
            histograms: Vec::new(),
            derived: Derived::new(&def),
            def,
        }
    }

    /// The table with another definition, and the same relations and numbers of accesses.
    pub(crate) fn with_definition(&self, def: TableDef) -> Table {
        let mut table = Table {
            referenced_by: self.referenced_by.clone(),
            write_set: self.write_set.clone(),
            ..Table::new(def)
        };
        table.keep_statistics_of(self);
        table
    }

    /// Continues the statistics of an older definition of the table: numbers of accesses, and the
    /// used indexes if it has the same ones.
    pub(crate) fn keep_statistics_of(&mut self, older: &Table) {
        self.derived.accesses = older.derived.accesses.clone();
        let names = |table: &Table| -> Vec<String> {
            table
                .indexes
                .iter()
                .map(|index| index.name.clone())
                .collect()
        };
        if names(self) == names(older) {
            self.derived.used_indexes = older.derived.used_indexes.clone();
        }
    }

    /// Numbers of row accesses by all front ends, since the server started or the table's rows were
    /// copied by ALTER TABLE.
    #[inline]
    pub fn accesses(&self) -> &TableAccesses {
        &self.derived.accesses
    }

    /// The histogram of a column.
    pub fn histogram(&self, column: usize) -> Option<&Histogram> {
        let (_, histogram) = self.histograms.iter().find(|(at, _)| *at == column)?;
        Some(histogram)
    }

    /// The rule by which rows expire (TTL); `None` if they do not.
    #[inline]
    pub fn expiry_rule(&self) -> Option<&ExpiryRule> {
        self.derived.expiry_rule.as_ref()
    }

    /// The definition.
    pub fn definition(&self) -> &TableDef {
        &self.def
    }

    /// Records that a statement reads by an index.
    #[inline]
    pub(crate) fn note_index_use(&self, index: usize) {
        // Written once, so that threads share the cache line for reading.
        if let Some(used) = self.derived.used_indexes.get(index)
            && !used.load(Ordering::Relaxed)
        {
            used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a statement has read by an index since the server started or the table was altered.
    pub fn is_index_used(&self, index: usize) -> bool {
        let used = self.derived.used_indexes.get(index);
        used.is_some_and(|used| used.load(Ordering::Relaxed))
    }

    /// Layouts and lists derived from the definition.
    #[inline]
    pub(crate) fn derived(&self) -> &Derived {
        &self.derived
    }

    /// The position of the column of the multi-valued part of the index at a position.
    #[inline]
    pub(crate) fn array_column_of(&self, index: usize) -> Option<usize> {
        self.derived.array_columns.get(index).copied().flatten()
    }

    /// The FULLTEXT index at a position; `None` if it is of another kind.
    #[inline]
    pub fn text_index(&self, index: usize) -> Option<&Arc<TextIndex>> {
        self.derived.text_indexes.get(index)?.as_ref()
    }

    /// Whether the table has a FULLTEXT index.
    #[inline]
    pub(crate) fn has_text_index(&self) -> bool {
        self.derived.text_indexes.iter().any(Option::is_some)
    }

    /// Whether writing a row evaluates expressions: a column is generated or a check
    /// enforced.
    #[inline]
    pub(crate) fn evaluates_expressions(&self) -> bool {
        self.derived.expressions
    }
}
