//! ALTER TABLE.

use super::{
    CheckDef, ColumnDef, Expr, ForeignKeyDef, Ident, IndexDef, KeyPrefix, PartitionBy,
    PartitionDef, TableElement, TableName, TableOption,
};

/// ALTER TABLE
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlterTable<'a> {
    /// The table.
    pub name: TableName<'a>,
    /// Actions, in textual order.
    pub actions: &'a [AlterAction<'a>],
}

/// The position of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnPosition<'a> {
    /// The end of the table, or the current position.
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
    /// `REMOVE TTL`
    RemoveTtl,
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
    /// `MEMCACHED PREFIX 'u:' ...`
    AddKeyPrefix(&'a KeyPrefix<'a>),
    /// `DROP MEMCACHED PREFIX 'u:'`; only prefix and role are given.
    DropKeyPrefix(&'a KeyPrefix<'a>),
}

/// Maintenance of partitions.
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
