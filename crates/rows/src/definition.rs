//! Definitions of tables, as the catalog stores them, without derived data.
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
use crate::triggers::Triggers;
use crate::ttl::Ttl;
use porpoise_kv::{CounterId, SpaceId};
use porpoise_types::full_text::TextParser;
use porpoise_types::{Collation, ColumnType, Value};
use std::sync::Arc;

/// A table's id; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// A column's id within its table; never reused in it.
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
    /// Whether no primary key was declared, so that the key is a hidden row id.
    pub hidden_key: bool,
    /// Counter of auto-increment ids. Hidden row ids come from the counter with the same number and
    /// the top bit set, so that the two are independent.
    pub counter: CounterId,
    /// Layouts of rows by table version, oldest first: which column ids a row
    /// of that version holds, and their storage kinds. The last is current.
    pub layouts: Vec<LayoutDef>,
    /// Table options.
    pub options: TableOptions,
    /// PARTITION BY.
    pub partitioning: Option<Partitioning>,
    /// The spaces of overflow values ([`crate::row::overflow`]), one per partition; empty for a
    /// table without columns that may have them.
    pub overflow_spaces: Vec<SpaceId>,
    /// COLOCATE WITH: the table with whose partitions this table's are stored.
    pub colocate: Option<Colocate>,
    /// The triggers, in the order in which those of the same event and time fire.
    pub triggers: Triggers,
    /// Indexes that an online schema change adds or drops. Only writers see them, at the positions
    /// that follow those of [`TableDef::indexes`] ([`TableDef::maintained_index`]).
    pub changing: Vec<Index>,
    /// The space in which writers record duplicates in unique indexes that are being built: index
    /// id and primary key of the row.
    pub duplicates: Option<SpaceId>,
    /// Parts of an online schema change that are not finished.
    pub unfinished: UnfinishedChange,
}

/// Parts of an online schema change that are undone if it does not finish. SHOW and information_schema omit these
/// objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedChange {
    /// Ids of complete indexes that constraints need while existing rows are validated.
    pub indexes: Vec<u32>,
    /// Names of foreign keys that writers enforce and existing rows may violate.
    pub foreign_keys: Vec<String>,
    /// Names of CHECK constraints that writers enforce and existing rows may violate.
    pub checks: Vec<String>,
    /// As `checks`, for constraints that become NOT ENFORCED again if the change is undone.
    pub enforced_checks: Vec<String>,
    /// The space in which writers record the primary keys of changed rows, while the table is
    /// copied: row version and primary key.
    pub changed_rows: Option<SpaceId>,
}

impl UnfinishedChange {
    /// Whether no change of the table is unfinished.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == UnfinishedChange::default()
    }
}

/// COLOCATE WITH of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colocate {
    /// The table named, as given (`db`.`name` without quotes).
    pub with: String,
    /// The co-location group of both.
    pub group: u64,
}

/// Layout of the rows of one table version.
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
    /// Whether rows are never logged.
    pub memory: bool,
    /// Options that are stored and shown but have no effect (ROW_FORMAT, KEY_BLOCK_SIZE, ...), as
    /// name and text.
    pub other: Vec<(String, String)>,
    /// Creation time, microseconds since 1970 UTC.
    pub created: i64,
    /// Time to live of the rows; `None` without a TTL clause.
    pub ttl: Option<Ttl>,
}

impl TableOptions {
    /// Creates default options with a given collation.
    #[must_use]
    pub fn new(collation: Collation) -> TableOptions {
        TableOptions {
            engine: "InnoDB".to_owned(),
            collation,
            comment: String::new(),
            memory: false,
            other: Vec::new(),
            created: 0,
            ttl: None,
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
    /// Value of the column in rows older than it (ADD COLUMN).
    pub backfill: Value,
    /// Whether the definition gives a character set or collation (SHOW CREATE TABLE).
    pub explicit_collation: bool,
    /// GENERATED ALWAYS AS.
    pub generated: Option<Generated>,
    /// INVISIBLE: `*` and INSERT without a list of columns leave it out.
    pub invisible: bool,
}

/// An expression of a definition, as text. The columns that it reads cannot be renamed or dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expression {
    /// The text, in a form that does not depend on the SQL mode.
    pub text: String,
    /// The names of the columns that it reads, each once.
    pub columns: Vec<String>,
}

/// The expression of a generated column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The expression that computes the value.
    pub expression: Expression,
    /// The kind.
    pub kind: GeneratedKind,
}

/// Kind of a generated column. Rows store the values of all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratedKind {
    /// VIRTUAL.
    Virtual,
    /// STORED.
    Stored,
    /// The hidden column of a functional key part, which statements neither show nor name.
    KeyPart,
    /// The hidden column of the multi-valued part of an index ([`porpoise_types::array`]): its type is that
    /// of the elements, and rows store all of them.
    ArrayPart,
}

impl Column {
    /// A nullable column with no other properties.
    pub fn new(id: ColumnId, name: impl Into<String>, ty: ColumnType) -> Column {
        Column {
            id,
            name: name.into(),
            ty,
            nullable: true,
            default: ColumnDefault::Null,
            on_update_now: false,
            auto_increment: false,
            comment: String::new(),
            backfill: Value::Null,
            explicit_collation: false,
            generated: None,
            invisible: false,
        }
    }

    /// Whether it is the hidden column of a functional key part.
    pub fn is_hidden(&self) -> bool {
        self.key_part().is_some()
    }

    /// The expression of a functional key part.
    pub fn key_part(&self) -> Option<&Expression> {
        let generated = self.generated.as_ref();
        let hidden = |kind| matches!(kind, GeneratedKind::KeyPart | GeneratedKind::ArrayPart);
        let hidden = generated.filter(|g| hidden(g.kind));
        hidden.map(|g| &g.expression)
    }

    /// Whether it is the hidden column of a multi-valued key part.
    pub fn is_array(&self) -> bool {
        let generated = self.generated.as_ref();
        generated.is_some_and(|g| g.kind == GeneratedKind::ArrayPart)
    }

    /// The type that rows store values in.
    pub(crate) fn stored_type(&self) -> ColumnType {
        if self.is_array() {
            ColumnType::varbinary(porpoise_types::array::MAX_BYTES)
        } else {
            self.ty.clone()
        }
    }

    /// The name for EXPLAIN: the expression of a functional key part.
    pub fn shown_name(&self) -> &str {
        self.key_part().map_or(&self.name, |e| &e.text)
    }
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConstraint {
    /// The name, unique in the table's database.
    pub name: String,
    /// The condition, which must not be false for any row.
    pub expression: Expression,
    /// Whether it is enforced (not NOT ENFORCED).
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
    /// DEFAULT (expression): evaluated for each new row without a value for the column.
    Expr(Expression),
}

/// Column, prefix and direction of one part of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexPart {
    /// Position in [`TableDef::columns`].
    pub column: usize,
    /// Prefix length in characters (bytes for binary types).
    pub prefix: Option<u32>,
    /// Descending.
    pub desc: bool,
}

/// Kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// The primary key: the index contains the rows.
    Primary,
    /// No two rows have equal values, unless one of the values is NULL.
    Unique,
    /// A non-unique index.
    Plain,
    /// A FULLTEXT index, an inverted one ([`crate::text_index`]).
    FullText,
}

impl IndexKind {
    /// Whether no two rows have equal keys without NULL.
    #[must_use]
    pub fn is_unique(self) -> bool {
        matches!(self, IndexKind::Primary | IndexKind::Unique)
    }
}

/// Rules by which a FULLTEXT index splits texts, and selects the words that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullText {
    /// The parser (WITH PARSER).
    pub parser: TextParser,
    /// Shortest indexed word in characters.
    pub min_chars: u32,
    /// Longest indexed word in characters.
    pub max_chars: u32,
    /// Words that are not indexed; `None` for InnoDB's default list.
    pub stopwords: Option<Vec<String>>,
    /// Format version of the entries ([`TEXT_ENTRY_FORMAT_VERSION`]).
    pub entry_version: u8,
}

/// Version of the format of FULLTEXT indexes' entries that is written. Version 1 had an entry for each
/// word of a row; such indexes are rebuilt when the database is opened.
pub const TEXT_ENTRY_FORMAT_VERSION: u8 = 2;

impl Default for FullText {
    fn default() -> FullText {
        FullText {
            parser: TextParser::Words,
            min_chars: 3,
            max_chars: 84,
            stopwords: None,
            entry_version: TEXT_ENTRY_FORMAT_VERSION,
        }
    }
}

/// State of an index during an online schema change (`crate::ddl`, "online").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// Writers remove the entries of rows that they delete or change, and add none.
    DeleteOnly,
    /// Writers maintain all entries. Older rows may have none yet. Duplicates in a unique index are
    /// recorded ([`TableDef::duplicates`]), not refused.
    Building,
    /// Complete, and enforced if it is unique, but not read.
    Enforced,
    /// Usable by snapshots taken at this catalog version or later.
    Public,
}

impl IndexState {
    /// Whether writers add the entries of new rows.
    #[must_use]
    pub fn adds_entries(self) -> bool {
        self != IndexState::DeleteOnly
    }

    /// Whether a duplicate in a unique index is refused.
    #[must_use]
    pub fn refuses_duplicates(self) -> bool {
        matches!(self, IndexState::Enforced | IndexState::Public)
    }
}

/// An index, with one space per partition for its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Id within the table; never reused in it.
    pub id: u32,
    /// The name ("PRIMARY" for the primary one).
    pub name: String,
    /// The kind.
    pub kind: IndexKind,
    /// Its parts. Empty for a hidden primary key.
    pub parts: Vec<IndexPart>,
    /// One space per partition.
    pub spaces: Vec<SpaceId>,
    /// The build state.
    pub state: IndexState,
    /// Whether USING HASH was given. Such an index serves neither ranges nor ordering.
    pub using_hash: bool,
    /// Whether the index was created implicitly for a foreign key. It is dropped when an explicit
    /// index can serve.
    pub implicit: bool,
    /// COMMENT.
    pub comment: String,
    /// INVISIBLE.
    pub invisible: bool,
    /// Settings of a FULLTEXT index; `None` for other kinds.
    pub full_text: Option<Arc<FullText>>,
}

impl Index {
    /// Whether it is a FULLTEXT index, whose entries neither rows nor columns are read by.
    #[must_use]
    pub fn is_full_text(&self) -> bool {
        self.kind == IndexKind::FullText
    }
}

/// Referential action on the children of a changed or deleted parent row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FkAction {
    /// The change is refused (the default, equivalent to RESTRICT).
    #[default]
    NoAction,
    /// The change is refused.
    Restrict,
    /// Children are deleted, or get the new key.
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

#[cfg(test)]
impl TableDef {
    /// A table without columns, keys and spaces.
    pub(crate) fn without_columns(id: u64, database: &str, name: &str) -> TableDef {
        TableDef {
            changing: Vec::new(),
            duplicates: None,
            unfinished: UnfinishedChange::default(),
            id: TableId(id),
            database: database.to_owned(),
            name: name.to_owned(),
            version: 1,
            incompatible_since: 0,
            columns: Vec::new(),
            next_column: 0,
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            checks: Vec::new(),
            hidden_key: false,
            counter: CounterId(0),
            layouts: Vec::new(),
            options: TableOptions::new(Collation::UTF8MB4_0900_AI_CI),
            partitioning: None,
            overflow_spaces: Vec::new(),
            colocate: None,
            triggers: Triggers::default(),
        }
    }
}

impl TableDef {
    /// The position of the column of that name, without regard to case. Hidden columns cannot be
    /// named.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|c| c.name.eq_ignore_ascii_case(name) && !c.is_hidden())
    }

    /// The columns that statements can name, in order, with their positions.
    pub fn named_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        let all = self.columns.iter().enumerate();
        all.filter(|(_, c)| !c.is_hidden())
    }

    /// The columns that `*` stands for, in order, with their positions.
    pub fn visible_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.named_columns().filter(|(_, c)| !c.invisible)
    }

    /// The name of the index that has a functional key part in this column.
    pub fn index_of_key_part(&self, column: usize) -> Option<&str> {
        let part = |p: &IndexPart| p.column == column;
        let mut indexes = self.indexes.iter();
        let index = indexes.find(|i| i.parts.iter().any(part));
        index.map(|i| i.name.as_str())
    }

    /// The position of the column of an index's multi-valued part: the index has an entry for each
    /// element of the array.
    pub fn array_column(&self, index: &Index) -> Option<usize> {
        let array = |column: &usize| self.columns.get(*column).is_some_and(Column::is_array);
        index.parts.iter().map(|p| p.column).find(array)
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

    /// `` `database`.`name` ``, as in error messages.
    pub fn quoted_name(&self) -> String {
        format!("`{}`.`{}`", self.database, self.name)
    }

    /// Whether writes of rows evaluate expressions: a column is generated or a CHECK constraint
    /// enforced.
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

    /// The implicit primary key of a table that declares none: its first unique key of NOT NULL columns without
    /// prefixes.
    pub fn implicit_primary_key(&self) -> Option<&Index> {
        let is_whole = |part: &IndexPart| {
            let column = self.columns.get(part.column);
            part.prefix.is_none() && column.is_some_and(|c| !c.nullable && !c.is_hidden())
        };
        let declared = self.indexes.iter().skip(1).filter(|_| self.hidden_key);
        let mut unique = declared.filter(|index| index.kind == IndexKind::Unique);
        unique.find(|index| index.parts.iter().all(is_whole))
    }

    /// Iterates over the enforced CHECK constraints, in order.
    pub(crate) fn enforced_checks(&self) -> impl Iterator<Item = &CheckConstraint> {
        self.checks.iter().filter(|c| c.enforced)
    }

    /// Number of leaves, partitions or subpartitions; 1 for a table that is not partitioned.
    pub fn leaf_count(&self) -> usize {
        self.partitioning.as_ref().map_or(1, |p| p.leaf_count())
    }

    /// All spaces of the table: of indexes and of overflow values.
    pub fn all_spaces(&self) -> impl Iterator<Item = SpaceId> + '_ {
        self.indexes
            .iter()
            .chain(&self.changing)
            .flat_map(|i| i.spaces.iter())
            .chain(&self.overflow_spaces)
            .chain(&self.duplicates)
            .chain(&self.unfinished.changed_rows)
            .copied()
    }

    /// Whether an online schema change has left parts of the definition that are not public.
    pub(crate) fn has_unfinished_change(&self) -> bool {
        !self.changing.is_empty() || self.duplicates.is_some() || !self.unfinished.is_empty()
    }

    /// Removes the objects that an unfinished change has added. Returns the indexes among them.
    pub fn remove_unfinished(&mut self) -> Vec<Index> {
        let unfinished = std::mem::take(&mut self.unfinished);
        let is_new = |index: &Index| unfinished.indexes.contains(&index.id);
        let (new, kept) = std::mem::take(&mut self.indexes)
            .into_iter()
            .partition(is_new);
        self.indexes = kept;
        self.foreign_keys
            .retain(|key| !unfinished.foreign_keys.contains(&key.name));
        self.checks
            .retain(|check| !unfinished.checks.contains(&check.name));
        let reset = |check: &&mut CheckConstraint| unfinished.enforced_checks.contains(&check.name);
        for check in self.checks.iter_mut().filter(reset) {
            check.enforced = false;
        }
        new
    }

    /// The indexes that statements show.
    pub fn shown_indexes(&self) -> impl Iterator<Item = &Index> {
        let hidden = &self.unfinished.indexes;
        self.indexes
            .iter()
            .filter(|index| !hidden.contains(&index.id))
    }

    /// The foreign keys that statements show.
    pub fn shown_foreign_keys(&self) -> impl Iterator<Item = &ForeignKey> {
        let hidden = &self.unfinished.foreign_keys;
        self.foreign_keys
            .iter()
            .filter(|key| !hidden.contains(&key.name))
    }

    /// The CHECK constraints that statements show.
    pub fn shown_checks(&self) -> impl Iterator<Item = &CheckConstraint> {
        let hidden = &self.unfinished.checks;
        self.checks
            .iter()
            .filter(|check| !hidden.contains(&check.name))
    }

    /// The indexes that writers maintain, with their positions: the usable ones, then those that an
    /// online schema change adds or drops.
    pub(crate) fn maintained_indexes(&self) -> impl Iterator<Item = (usize, &Index)> {
        self.indexes.iter().chain(&self.changing).enumerate()
    }

    /// The maintained index at a position.
    #[inline]
    pub(crate) fn maintained_index(&self, position: usize) -> Option<&Index> {
        let changing = || self.changing.get(position - self.indexes.len());
        self.indexes.get(position).or_else(changing)
    }

    /// The spaces of an index, in order of partitions.
    pub fn index_spaces(&self, index: usize) -> &[SpaceId] {
        self.maintained_index(index).map_or(&[], |i| &i.spaces)
    }
}
