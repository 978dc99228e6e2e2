//! Definitions: databases, tables, columns, indexes, constraints, partitions, views, types.

use super::super::token::Span;
use super::{Expr, Ident, Query, TableName};

/// A type as written, before defaults are filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType<'a> {
    /// Which type; aliases are resolved (INTEGER is Int, BOOL is TinyInt with length 1, NUMERIC is Decimal).
    pub kind: TypeKind,
    /// Length, precision, display width or, for temporal types, fractional digits.
    pub length: Option<u64>,
    /// Digits after the period.
    pub decimals: Option<u64>,
    /// UNSIGNED
    pub unsigned: bool,
    /// ZEROFILL, which implies unsigned.
    pub zerofill: bool,
    /// CHARACTER SET; NATIONAL gives utf8mb3, ASCII latin1, UNICODE ucs2, BYTE binary.
    pub charset: Option<Ident<'a>>,
    /// BINARY as an attribute: the `_bin` collation of the character set.
    pub binary: bool,
    /// COLLATE
    pub collation: Option<Ident<'a>>,
    /// Members of ENUM and SET.
    pub members: &'a [&'a [u8]],
    /// Where it stands.
    pub span: Span,
}

/// The name of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// TINYINT
    TinyInt,
    /// SMALLINT
    SmallInt,
    /// MEDIUMINT
    MediumInt,
    /// INT
    Int,
    /// BIGINT; in CAST also SIGNED and UNSIGNED
    BigInt,
    /// FLOAT
    Float,
    /// DOUBLE
    Double,
    /// REAL, which REAL_AS_FLOAT makes a FLOAT.
    Real,
    /// DECIMAL
    Decimal,
    /// BIT
    Bit,
    /// YEAR
    Year,
    /// DATE
    Date,
    /// DATETIME
    DateTime,
    /// TIMESTAMP
    Timestamp,
    /// TIME
    Time,
    /// CHAR
    Char,
    /// VARCHAR
    VarChar,
    /// TINYTEXT
    TinyText,
    /// TEXT
    Text,
    /// MEDIUMTEXT
    MediumText,
    /// LONGTEXT
    LongText,
    /// BINARY
    Binary,
    /// VARBINARY
    VarBinary,
    /// TINYBLOB
    TinyBlob,
    /// BLOB
    Blob,
    /// MEDIUMBLOB
    MediumBlob,
    /// LONGBLOB
    LongBlob,
    /// ENUM
    Enum,
    /// SET
    Set,
    /// JSON
    Json,
    /// SERIAL: BIGINT UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE
    Serial,
    /// GEOMETRY
    Geometry,
    /// POINT
    Point,
    /// LINESTRING
    LineString,
    /// POLYGON
    Polygon,
    /// MULTIPOINT
    MultiPoint,
    /// MULTILINESTRING
    MultiLineString,
    /// MULTIPOLYGON
    MultiPolygon,
    /// GEOMETRYCOLLECTION
    GeometryCollection,
}

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
    /// LIKE another table; then all that follows is empty.
    pub like: Option<TableName<'a>>,
    /// Columns, indexes and constraints in the order of the text.
    pub elements: &'a [TableElement<'a>],
    /// Its options.
    pub options: &'a [TableOption<'a>],
    /// PARTITION BY
    pub partition_by: Option<&'a PartitionBy<'a>>,
    /// What to do with duplicates of the query's rows.
    pub duplicates: OnDuplicateRow,
    /// The query that fills it.
    pub query: Option<&'a Query<'a>>,
}

/// What to do with a row whose unique key is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDuplicateRow {
    /// Fail.
    Error,
    /// IGNORE: leave it out.
    Ignore,
    /// REPLACE: put it in place of the old one.
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
    /// A check.
    Check(CheckDef<'a>),
}

/// A column's definition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnDef<'a> {
    /// Its name.
    pub name: Ident<'a>,
    /// Its type.
    pub ty: DataType<'a>,
    /// Its attributes in the order of the text; where two conflict the later one holds.
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
    /// DEFAULT with an expression in parentheses.
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
    /// REFERENCES, which MySQL parses and ignores here.
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

/// What an index is.
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
    /// What it is.
    pub kind: IndexKind,
    /// The name after CONSTRAINT.
    pub constraint: Option<Ident<'a>>,
    /// Its own name.
    pub name: Option<Ident<'a>>,
    /// Its parts.
    pub parts: &'a [IndexPart<'a>],
    /// Its options, USING ahead of the parts included.
    pub options: &'a [IndexOption<'a>],
}

/// A part of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexPart<'a> {
    /// What it indexes.
    pub key: IndexPartKey<'a>,
    /// DESC
    pub desc: bool,
}

/// What a part of an index indexes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IndexPartKey<'a> {
    /// A column, with the length of the prefix in characters or bytes, where given.
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
    /// What they refer to.
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

/// What a foreign key does when the parent goes or changes.
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
    /// What must not be false.
    pub expr: Expr<'a>,
    /// False: NOT ENFORCED.
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
    /// Any other, by its name in upper case.
    Other(&'a str, OptionValue<'a>),
}

/// The value of an option that has no node of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionValue<'a> {
    /// A number.
    Int(u64),
    /// A string.
    String(&'a [u8]),
    /// A word, DEFAULT included.
    Word(Ident<'a>),
}

/// PARTITION BY
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartitionBy<'a> {
    /// How rows are dealt out.
    pub scheme: PartitionScheme<'a>,
    /// PARTITIONS
    pub count: Option<u64>,
    /// SUBPARTITION BY, HASH or KEY
    pub sub_scheme: Option<PartitionScheme<'a>>,
    /// SUBPARTITIONS
    pub sub_count: Option<u64>,
    /// The partitions, empty if not given.
    pub partitions: &'a [PartitionDef<'a>],
}

/// How rows are dealt out to partitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PartitionScheme<'a> {
    /// `[LINEAR] HASH (expr)`
    Hash {
        /// LINEAR
        linear: bool,
        /// The expression.
        expr: Expr<'a>,
    },
    /// `[LINEAR] KEY [ALGORITHM = n] (columns)`
    Key {
        /// LINEAR
        linear: bool,
        /// ALGORITHM
        algorithm: Option<u64>,
        /// The columns, empty: the primary key's.
        columns: &'a [Ident<'a>],
    },
    /// `RANGE (expr)`
    Range(Expr<'a>),
    /// `RANGE COLUMNS (columns)`
    RangeColumns(&'a [Ident<'a>]),
    /// `LIST (expr)`
    List(Expr<'a>),
    /// `LIST COLUMNS (columns)`
    ListColumns(&'a [Ident<'a>]),
}

/// The definition of a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartitionDef<'a> {
    /// Its name.
    pub name: Ident<'a>,
    /// What belongs into it.
    pub values: PartitionValues<'a>,
    /// ENGINE, COMMENT and the like.
    pub options: &'a [TableOption<'a>],
    /// Its subpartitions: names with options.
    pub subpartitions: &'a [(Ident<'a>, &'a [TableOption<'a>])],
}

/// What belongs into a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PartitionValues<'a> {
    /// Not stated (HASH, KEY).
    None,
    /// `LESS THAN (bounds)`; a bound of None is MAXVALUE.
    LessThan(&'a [Option<Expr<'a>>]),
    /// `IN (values)`
    In(&'a [Expr<'a>]),
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
    /// Which ones.
    pub names: &'a [TableName<'a>],
    /// CASCADE (true) or RESTRICT (false), both without effect.
    pub cascade: Option<bool>,
}

/// ALTER TABLE
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlterTable<'a> {
    /// The table.
    pub name: TableName<'a>,
    /// What is done to it, in the order of the text.
    pub actions: &'a [AlterAction<'a>],
}

/// Where a column goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnPosition<'a> {
    /// To the end, or where it was.
    Default,
    /// FIRST
    First,
    /// AFTER
    After(Ident<'a>),
}

/// One action of ALTER TABLE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AlterAction<'a> {
    /// `ADD COLUMN`
    AddColumn(ColumnDef<'a>, ColumnPosition<'a>),
    /// `ADD (elements)`
    AddElements(&'a [TableElement<'a>]),
    /// `ADD INDEX` and the like
    AddIndex(IndexDef<'a>),
    /// `ADD FOREIGN KEY`
    AddForeignKey(ForeignKeyDef<'a>),
    /// `ADD CHECK`
    AddCheck(CheckDef<'a>),
    /// `DROP COLUMN`
    DropColumn(Ident<'a>),
    /// `DROP INDEX`, `DROP KEY`
    DropIndex(Ident<'a>),
    /// `DROP PRIMARY KEY`
    DropPrimaryKey,
    /// `DROP FOREIGN KEY`
    DropForeignKey(Ident<'a>),
    /// `DROP CHECK`
    DropCheck(Ident<'a>),
    /// `DROP CONSTRAINT`
    DropConstraint(Ident<'a>),
    /// `MODIFY COLUMN`
    ModifyColumn(ColumnDef<'a>, ColumnPosition<'a>),
    /// `CHANGE COLUMN`, with the old name
    ChangeColumn(Ident<'a>, ColumnDef<'a>, ColumnPosition<'a>),
    /// `ALTER COLUMN c SET DEFAULT`: a literal, or an expression in parentheses
    SetDefault(Ident<'a>, Expr<'a>),
    /// `ALTER COLUMN c DROP DEFAULT`
    DropDefault(Ident<'a>),
    /// `ALTER COLUMN c SET VISIBLE`, INVISIBLE
    SetColumnVisible(Ident<'a>, bool),
    /// `ALTER INDEX i VISIBLE`, INVISIBLE
    SetIndexVisible(Ident<'a>, bool),
    /// `ALTER CHECK c ENFORCED`, NOT ENFORCED
    SetCheckEnforced(Ident<'a>, bool),
    /// `RENAME TO`
    Rename(TableName<'a>),
    /// `RENAME COLUMN`
    RenameColumn(Ident<'a>, Ident<'a>),
    /// `RENAME INDEX`
    RenameIndex(Ident<'a>, Ident<'a>),
    /// `CONVERT TO CHARACTER SET`; None: DEFAULT
    ConvertCharset(Option<Ident<'a>>, Option<Ident<'a>>),
    /// `ORDER BY`
    OrderBy(&'a [super::OrderItem<'a>]),
    /// `ENABLE KEYS`, `DISABLE KEYS`
    EnableKeys(bool),
    /// `FORCE`
    Force,
    /// `ALGORITHM =`
    Algorithm(Ident<'a>),
    /// `LOCK =`
    Lock(Ident<'a>),
    /// `WITH VALIDATION`, `WITHOUT VALIDATION`
    Validation(bool),
    /// `DISCARD TABLESPACE` (true), `IMPORT TABLESPACE` (false)
    DiscardTablespace(bool),
    /// A table option.
    Option(TableOption<'a>),
    /// `PARTITION BY`
    PartitionBy(&'a PartitionBy<'a>),
    /// `REMOVE PARTITIONING`
    RemovePartitioning,
    /// `ADD PARTITION (definitions)`
    AddPartitions(&'a [PartitionDef<'a>]),
    /// `ADD PARTITION PARTITIONS n`
    AddPartitionCount(u64),
    /// `DROP PARTITION`
    DropPartitions(&'a [Ident<'a>]),
    /// `COALESCE PARTITION n`
    CoalescePartition(u64),
    /// `REORGANIZE PARTITION names INTO (definitions)`
    ReorganizePartition(&'a [Ident<'a>], &'a [PartitionDef<'a>]),
    /// `EXCHANGE PARTITION p WITH TABLE t`, with or without validation
    ExchangePartition(Ident<'a>, TableName<'a>, bool),
    /// TRUNCATE, ANALYZE, CHECK, OPTIMIZE, REBUILD, REPAIR PARTITION; no names: ALL
    MaintainPartitions(PartitionMaintenance, &'a [Ident<'a>]),
}

/// What is done to partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionMaintenance {
    /// TRUNCATE
    Truncate,
    /// ANALYZE
    Analyze,
    /// CHECK
    Check,
    /// OPTIMIZE
    Optimize,
    /// REBUILD
    Rebuild,
    /// REPAIR
    Repair,
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
    /// SQL SECURITY INVOKER
    pub invoker: bool,
    /// Its name.
    pub name: TableName<'a>,
    /// Its columns' names, empty if not given.
    pub columns: &'a [Ident<'a>],
    /// The query.
    pub query: &'a Query<'a>,
    /// WITH CASCADED (true) or LOCAL (false) CHECK OPTION
    pub check_option: Option<bool>,
}
