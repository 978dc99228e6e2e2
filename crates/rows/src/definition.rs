//! Definitions of tables: what the catalog stores, and nothing that follows
//! from it.
//!
//! A [`TableDef`] is plain data. What readers and writers of rows need beside
//! it (layouts, routing to partitions, compiled expressions) is derived from
//! it by [`crate::table::Table`]; DDL changes definitions only.
//!
//! Invariants:
//! 1. Every table has a primary [`Index`] at position 0; a table declared
//!    without a primary key has one over a hidden row id
//!    ([`TableDef::hidden_key`]).
//! 2. Column positions are stable within one table version; [`ColumnId`]s are
//!    stable for ever, and rows name columns by id, through the layouts.

use crate::partition::Partitioning;
use porpoise_kv::{CounterId, SpaceId};
use porpoise_types::{Collation, ColumnType, Value};

/// A table's number; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// A column's number within its table; never used again in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

/// A table's definition, as of one version.
#[derive(Clone, Debug)]
pub struct TableDef {
    /// The number.
    pub id: TableId,
    /// The database's name.
    pub database: String,
    /// The name.
    pub name: String,
    /// Grows with every change of this table's definition; rows carry the
    /// version they were written under.
    pub version: u32,
    /// Catalog version of the last change after which older snapshots cannot
    /// read this table any more (error 1412).
    pub incompatible_since: u64,
    /// The columns in order.
    pub columns: Vec<Column>,
    /// The next column id.
    pub next_column: u32,
    /// The indexes; the primary one first.
    pub indexes: Vec<Index>,
    /// Constraints whose child this table is.
    pub foreign_keys: Vec<ForeignKey>,
    /// CHECK constraints, in the order of their definition.
    pub checks: Vec<CheckConstraint>,
    /// No primary key was declared: the key is a hidden row id.
    pub hidden_key: bool,
    /// Where auto-increment ids come from; hidden row ids come from the same
    /// number with the top bit set, so that neither disturbs the other.
    pub counter: CounterId,
    /// Layouts of rows by table version, oldest first: which column ids a row
    /// of that version holds, and their storage kinds. The last is current.
    pub layouts: Vec<LayoutDef>,
    /// Table options.
    pub options: TableOptions,
    /// PARTITION BY.
    pub partitioning: Option<Partitioning>,
    /// The spaces of overflow values ([`crate::row::overflow`]), one a partition;
    /// none for a table without columns that may have them.
    pub overflow_spaces: Vec<SpaceId>,
    /// COLOCATE WITH: whose partitions this table's lie beside.
    pub colocate: Option<Colocate>,
}

/// COLOCATE WITH of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colocate {
    /// The table named, as given (`db`.`name` without quotes).
    pub with: String,
    /// The co-location group of both.
    pub group: u64,
}

/// Which columns rows of one table version hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutDef {
    /// The first table version with this layout.
    pub version: u32,
    /// Column ids in storage order, with the type they are stored as.
    pub columns: Vec<(ColumnId, ColumnType)>,
}

/// Options of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// The engine name given, for SHOW CREATE TABLE ("InnoDB" otherwise).
    pub engine: String,
    /// Default collation of its columns.
    pub collation: Collation,
    /// COMMENT.
    pub comment: String,
    /// Rows are never logged.
    pub memory: bool,
    /// Options that are kept and shown, and mean nothing here
    /// (ROW_FORMAT, KEY_BLOCK_SIZE, ...), as name and text.
    pub other: Vec<(String, String)>,
    /// Creation time, microseconds since 1970 UTC.
    pub created: i64,
}

impl TableOptions {
    /// The options of a table of which nothing but the collation is said.
    #[must_use]
    pub fn new(collation: Collation) -> TableOptions {
        TableOptions {
            engine: "InnoDB".to_owned(),
            collation,
            comment: String::new(),
            memory: false,
            other: Vec::new(),
            created: 0,
        }
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The number.
    pub id: ColumnId,
    /// The name as given; compared without regard to case.
    pub name: String,
    /// The type.
    pub ty: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The default.
    pub default: ColumnDefault,
    /// ON UPDATE CURRENT_TIMESTAMP.
    pub on_update_now: bool,
    /// AUTO_INCREMENT.
    pub auto_increment: bool,
    /// COMMENT.
    pub comment: String,
    /// What older rows, which lack the column, hold in it (ADD COLUMN).
    pub backfill: Value,
    /// The character set was named in the definition (SHOW CREATE TABLE).
    pub explicit_collation: bool,
    /// GENERATED ALWAYS AS.
    pub generated: Option<Generated>,
}

/// An expression of a definition, as text. Names of columns cannot change or
/// go while it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expression {
    /// The text, in the spelling that does not depend on an SQL mode.
    pub text: String,
    /// The names of the columns that it reads, each once.
    pub columns: Vec<String>,
}

/// The expression of a generated column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// What its value is.
    pub expression: Expression,
    /// STORED; otherwise VIRTUAL. Rows hold the value of both.
    pub stored: bool,
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConstraint {
    /// The name, unique in the table's database.
    pub name: String,
    /// What must not be false.
    pub expression: Expression,
    /// Without NOT ENFORCED.
    pub enforced: bool,
}

impl Expression {
    /// Whether it reads the column of that name.
    pub fn reads(&self, column: &str) -> bool {
        self.columns.iter().any(|c| c.eq_ignore_ascii_case(column))
    }
}

/// A column's DEFAULT.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnDefault {
    /// No default: 1364 in strict mode when no value is given.
    None,
    /// NULL.
    Null,
    /// A constant, already in the column's type.
    Literal(Value),
    /// CURRENT_TIMESTAMP with the column's fractional digits.
    Now,
    /// DEFAULT (expression): computed for each new row that does not give the
    /// column.
    Expr(Expression),
}

/// Column, prefix and direction of one part of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexPart {
    /// Position in [`TableDef::columns`].
    pub column: usize,
    /// Only so many characters (bytes of binary types).
    pub prefix: Option<u32>,
    /// Descending.
    pub desc: bool,
}

/// What an index promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// The rows themselves.
    Primary,
    /// No two rows with equal, wholly non-NULL values.
    Unique,
    /// Just order.
    Plain,
}

/// How far an index is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// Maintained by writers, not used by readers yet.
    Building,
    /// Usable by snapshots taken at this catalog version or later.
    Public,
}

/// An index. Its entries lie in one space a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Number within the table; never used again in it.
    pub id: u32,
    /// The name ("PRIMARY" for the primary one).
    pub name: String,
    /// What it promises.
    pub kind: IndexKind,
    /// Its parts. Empty for a hidden primary key.
    pub parts: Vec<IndexPart>,
    /// One space a partition.
    pub spaces: Vec<SpaceId>,
    /// How far it is built.
    pub state: IndexState,
    /// USING HASH was given: shown, and not used for ranges or order.
    pub using_hash: bool,
    /// Made for a foreign key that had none; goes when a better one comes.
    pub implicit: bool,
    /// COMMENT.
    pub comment: String,
    /// INVISIBLE.
    pub invisible: bool,
}

/// What happens to children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FkAction {
    /// Refused (NO ACTION is the default and means the same).
    #[default]
    NoAction,
    /// Refused.
    Restrict,
    /// Children follow.
    Cascade,
    /// Children's columns become NULL.
    SetNull,
}

/// A foreign key, seen from the child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// The constraint's name, unique in the child's database.
    pub name: String,
    /// Positions of the child's columns.
    pub columns: Vec<usize>,
    /// The parent's database.
    pub parent_database: String,
    /// The parent's name.
    pub parent_table: String,
    /// The parent's columns by name.
    pub parent_columns: Vec<String>,
    /// ON DELETE.
    pub on_delete: FkAction,
    /// ON UPDATE.
    pub on_update: FkAction,
    /// Child index (position) whose first parts are `columns`. Derived.
    pub child_index: usize,
    /// The parent, when it exists (it may not, under
    /// `foreign_key_checks = 0`). Derived.
    pub parent: Option<FkParent>,
}

/// The parent's side of a foreign key, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FkParent {
    /// The table.
    pub table: TableId,
    /// Its primary or unique index that is referenced (position), whose parts
    /// are exactly the referenced columns.
    pub index: usize,
    /// For each part of that index: position in [`ForeignKey::columns`].
    pub order: Vec<usize>,
}

impl TableDef {
    /// The position of the column of that name, without regard to case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// The position of the index of that name, without regard to case.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.indexes
            .iter()
            .position(|i| i.name.eq_ignore_ascii_case(name))
    }

    /// The co-location group of the table's spaces.
    pub fn group(&self) -> u64 {
        self.colocate.as_ref().map_or(self.id.0, |c| c.group)
    }

    /// The position of the auto-increment column.
    pub fn auto_increment(&self) -> Option<usize> {
        self.columns.iter().position(|c| c.auto_increment)
    }

    /// `` `database`.`name` ``, as messages have it.
    pub fn quoted_name(&self) -> String {
        format!("`{}`.`{}`", self.database, self.name)
    }

    /// Whether writing a row evaluates expressions: a column is generated or a
    /// check enforced.
    pub(crate) fn evaluates_expressions(&self) -> bool {
        self.columns.iter().any(|c| c.generated.is_some()) || self.checks.iter().any(|c| c.enforced)
    }

    /// Whether a column's default is an expression.
    pub fn has_default_expressions(&self) -> bool {
        let expression = |c: &Column| matches!(c.default, ColumnDefault::Expr(_));
        self.columns.iter().any(expression)
    }

    /// Whether the definition holds any expression.
    pub fn has_expressions(&self) -> bool {
        let generated = |c: &Column| c.generated.is_some();
        !self.checks.is_empty()
            || self.columns.iter().any(generated)
            || self.has_default_expressions()
    }

    /// The enforced checks, in order.
    pub fn enforced_checks(&self) -> impl Iterator<Item = &CheckConstraint> {
        self.checks.iter().filter(|c| c.enforced)
    }

    /// Number of partitions; 1 for a table that is not partitioned.
    pub fn partition_count(&self) -> usize {
        self.partitioning.as_ref().map_or(1, |p| p.partitions.len())
    }

    /// All spaces of the table: of indexes and of overflow values.
    pub fn all_spaces(&self) -> impl Iterator<Item = SpaceId> + '_ {
        self.indexes
            .iter()
            .flat_map(|i| i.spaces.iter())
            .chain(&self.overflow_spaces)
            .copied()
    }

    /// The spaces that ranges of an index may lie in, in order.
    pub fn index_spaces(&self, index: usize) -> &[SpaceId] {
        self.indexes.get(index).map_or(&[], |i| &i.spaces)
    }
}
