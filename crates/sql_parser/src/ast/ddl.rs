//! Definitions: databases, tables, columns, indexes, constraints, partitions, views, types.

use super::{DataType, Expr, Ident, IntervalUnit, PartitionBy, Query, TableName};

/// CREATE DATABASE
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateDatabase<'a> {
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Its name.
    pub name: Ident<'a>,
    /// Its options.
    pub options: &'a [DatabaseOption<'a>],
}

/// ALTER DATABASE
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlterDatabase<'a> {
    /// Its name; the default database if not given.
    pub name: Option<Ident<'a>>,
    /// The options that change.
    pub options: &'a [DatabaseOption<'a>],
}

/// An option of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseOption<'a> {
    /// DEFAULT CHARACTER SET; None: DEFAULT.
    Charset(Option<Ident<'a>>),
    /// DEFAULT COLLATE
    Collate(Option<Ident<'a>>),
    /// DEFAULT ENCRYPTION, `'Y'` or `'N'`
    Encryption(&'a [u8]),
    /// READ ONLY; None: DEFAULT.
    ReadOnly(Option<bool>),
}

/// CREATE TABLE
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreateTable<'a> {
    /// TEMPORARY
    pub temporary: bool,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Its name.
    pub name: TableName<'a>,
    /// LIKE another table; then all following fields are empty.
    pub like: Option<TableName<'a>>,
    /// Columns, indexes and constraints, in textual order.
    pub elements: &'a [TableElement<'a>],
    /// Its options.
    pub options: &'a [TableOption<'a>],
    /// PARTITION BY
    pub partition_by: Option<&'a PartitionBy<'a>>,
    /// Treatment of duplicates among the query's rows.
    pub duplicates: OnDuplicateRow,
    /// The query of CREATE TABLE ... SELECT.
    pub query: Option<&'a Query<'a>>,
}

/// Treatment of a row with a duplicate unique key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDuplicateRow {
    /// Fail.
    Error,
    /// IGNORE: skip it.
    Ignore,
    /// REPLACE: replace the existing row.
    Replace,
}

/// An element between the parentheses of CREATE TABLE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TableElement<'a> {
    /// A column.
    Column(ColumnDef<'a>),
    /// An index or key.
    Index(IndexDef<'a>),
    /// A foreign key.
    ForeignKey(ForeignKeyDef<'a>),
    /// A CHECK constraint.
    Check(CheckDef<'a>),
}

/// A column's definition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnDef<'a> {
    /// Its name.
    pub name: Ident<'a>,
    /// Its type.
    pub ty: DataType<'a>,
    /// Its attributes, in textual order; of conflicting ones the last one wins.
    pub attrs: &'a [ColumnAttr<'a>],
}

/// An attribute of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColumnAttr<'a> {
    /// NULL
    Null,
    /// NOT NULL
    NotNull,
    /// DEFAULT with a literal or with NOW.
    Default(Expr<'a>),
    /// DEFAULT with a parenthesized expression.
    DefaultExpr(Expr<'a>),
    /// ON UPDATE CURRENT_TIMESTAMP, with the number of fractional digits.
    OnUpdateNow(u64),
    /// AUTO_INCREMENT
    AutoIncrement,
    /// SERIAL DEFAULT VALUE: NOT NULL AUTO_INCREMENT UNIQUE
    SerialDefault,
    /// `PRIMARY KEY`, `KEY`
    PrimaryKey,
    /// UNIQUE
    Unique,
    /// COMMENT
    Comment(&'a [u8]),
    /// COLLATE after other attributes.
    Collate(Ident<'a>),
    /// COLUMN_FORMAT
    ColumnFormat(Ident<'a>),
    /// STORAGE
    Storage(Ident<'a>),
    /// `GENERATED ALWAYS AS (expr)`
    Generated {
        /// The expression.
        expr: Expr<'a>,
        /// STORED; otherwise VIRTUAL.
        stored: bool,
    },
    /// CHECK
    Check(CheckDef<'a>),
    /// REFERENCES on a column, which MySQL parses and ignores.
    References(References<'a>),
    /// VISIBLE (true), INVISIBLE (false)
    Visible(bool),
    /// SRID
    Srid(u64),
    /// ENGINE_ATTRIBUTE
    EngineAttribute(&'a [u8]),
    /// SECONDARY_ENGINE_ATTRIBUTE
    SecondaryEngineAttribute(&'a [u8]),
}

/// Kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// PRIMARY KEY
    Primary,
    /// UNIQUE
    Unique,
    /// KEY, INDEX
    Plain,
    /// FULLTEXT
    Fulltext,
    /// SPATIAL
    Spatial,
}

/// USING
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexAlgorithm {
    /// BTREE
    Btree,
    /// HASH
    Hash,
    /// RTREE
    Rtree,
}

/// The definition of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexDef<'a> {
    /// Kind.
    pub kind: IndexKind,
    /// The name after CONSTRAINT.
    pub constraint: Option<Ident<'a>>,
    /// Its own name.
    pub name: Option<Ident<'a>>,
    /// Its parts.
    pub parts: &'a [IndexPart<'a>],
    /// Its options, including a USING before the parts.
    pub options: &'a [IndexOption<'a>],
}

/// A part of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexPart<'a> {
    /// The column or expression.
    pub key: IndexPartKey<'a>,
    /// DESC
    pub desc: bool,
    /// Whether ASC or DESC is given.
    pub has_order: bool,
}

/// The column or expression of an index part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IndexPartKey<'a> {
    /// A column, with the prefix length in characters or bytes, if given.
    Column(Ident<'a>, Option<u64>),
    /// An expression.
    Expr(Expr<'a>),
}

/// An option of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexOption<'a> {
    /// USING
    Using(IndexAlgorithm),
    /// KEY_BLOCK_SIZE
    KeyBlockSize(u64),
    /// WITH PARSER
    Parser(Ident<'a>),
    /// COMMENT
    Comment(&'a [u8]),
    /// VISIBLE (true), INVISIBLE (false)
    Visible(bool),
    /// ENGINE_ATTRIBUTE
    EngineAttribute(&'a [u8]),
    /// SECONDARY_ENGINE_ATTRIBUTE
    SecondaryEngineAttribute(&'a [u8]),
}

/// The definition of a foreign key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignKeyDef<'a> {
    /// The name after CONSTRAINT.
    pub constraint: Option<Ident<'a>>,
    /// The name after FOREIGN KEY.
    pub index_name: Option<Ident<'a>>,
    /// The referencing columns.
    pub columns: &'a [Ident<'a>],
    /// Referenced table.
    pub references: References<'a>,
}

/// REFERENCES
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct References<'a> {
    /// The parent table.
    pub table: TableName<'a>,
    /// Its columns, empty if not given.
    pub columns: &'a [Ident<'a>],
    /// MATCH
    pub matching: Option<ForeignKeyMatch>,
    /// ON DELETE
    pub on_delete: Option<ForeignKeyAction>,
    /// ON UPDATE
    pub on_update: Option<ForeignKeyAction>,
}

/// MATCH of a foreign key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKeyMatch {
    /// FULL
    Full,
    /// PARTIAL
    Partial,
    /// SIMPLE
    Simple,
}

/// Action of a foreign key on DELETE or UPDATE of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKeyAction {
    /// RESTRICT
    Restrict,
    /// CASCADE
    Cascade,
    /// SET NULL
    SetNull,
    /// NO ACTION
    NoAction,
    /// SET DEFAULT
    SetDefault,
}

/// CHECK
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckDef<'a> {
    /// The name after CONSTRAINT.
    pub constraint: Option<Ident<'a>>,
    /// Condition that must not be false.
    pub expr: Expr<'a>,
    /// Whether it is enforced; false for NOT ENFORCED.
    pub enforced: bool,
}

/// An option of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableOption<'a> {
    /// ENGINE
    Engine(Ident<'a>),
    /// AUTO_INCREMENT
    AutoIncrement(u64),
    /// DEFAULT CHARACTER SET; None: DEFAULT.
    Charset(Option<Ident<'a>>),
    /// DEFAULT COLLATE
    Collate(Option<Ident<'a>>),
    /// COMMENT
    Comment(&'a [u8]),
    /// ROW_FORMAT
    RowFormat(Ident<'a>),
    /// UNION
    Union(&'a [TableName<'a>]),
    /// COLOCATE WITH
    Colocate(TableName<'a>),
    /// TTL: the column, and the interval that is added to it.
    Ttl(Ident<'a>, u64, IntervalUnit),
    /// TTL_ENABLE
    TtlEnable(&'a [u8]),
    /// TTL_JOB_INTERVAL
    TtlJobInterval(&'a [u8]),
    /// Any other, by its name in upper case.
    Other(&'a str, OptionValue<'a>),
}

/// The value of an option without its own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionValue<'a> {
    /// A number.
    Int(u64),
    /// A string.
    String(&'a [u8]),
    /// A word, DEFAULT included.
    Word(Ident<'a>),
}

/// CREATE INDEX
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreateIndex<'a> {
    /// The table.
    pub table: TableName<'a>,
    /// The index.
    pub index: IndexDef<'a>,
    /// ALGORITHM
    pub algorithm: Option<Ident<'a>>,
    /// LOCK
    pub lock: Option<Ident<'a>>,
}

/// DROP INDEX
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropIndex<'a> {
    /// The index; PRIMARY is the primary key.
    pub name: Ident<'a>,
    /// The table.
    pub table: TableName<'a>,
    /// ALGORITHM
    pub algorithm: Option<Ident<'a>>,
    /// LOCK
    pub lock: Option<Ident<'a>>,
}

/// DROP TABLE, DROP VIEW
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropTables<'a> {
    /// TEMPORARY
    pub temporary: bool,
    /// IF EXISTS
    pub if_exists: bool,
    /// Names of the tables.
    pub names: &'a [TableName<'a>],
    /// CASCADE (true) or RESTRICT (false), both without effect.
    pub cascade: Option<bool>,
}

/// CREATE VIEW, ALTER VIEW
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreateView<'a> {
    /// ALTER VIEW; otherwise CREATE VIEW.
    pub alter: bool,
    /// OR REPLACE
    pub or_replace: bool,
    /// ALGORITHM
    pub algorithm: Option<Ident<'a>>,
    /// DEFINER
    pub definer: Option<super::Account<'a>>,
    /// SQL SECURITY INVOKER (true) or DEFINER (false)
    pub invoker: Option<bool>,
    /// Its name.
    pub name: TableName<'a>,
    /// Its columns' names, empty if not given.
    pub columns: &'a [Ident<'a>],
    /// The query.
    pub query: &'a Query<'a>,
    /// WITH CASCADED (true) or LOCAL (false) CHECK OPTION
    pub check_option: Option<bool>,
}
