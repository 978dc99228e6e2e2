//! DML statements and transaction control.

use super::{
    Assignment, ColumnName, Expr, FileFormat, Ident, IntoVar, Limit, OnDuplicateRow, OrderItem,
    Query, TableName, TableRef, TableSource, With,
};

/// LOW_PRIORITY, HIGH_PRIORITY, DELAYED: accepted, but without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Not stated.
    Default,
    /// LOW_PRIORITY
    Low,
    /// HIGH_PRIORITY
    High,
    /// DELAYED
    Delayed,
}

/// INSERT and REPLACE
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Insert<'a> {
    /// REPLACE
    pub replace: bool,
    /// Its priority.
    pub priority: Priority,
    /// IGNORE
    pub ignore: bool,
    /// The table.
    pub table: TableName<'a>,
    /// PARTITION, empty if not given.
    pub partitions: &'a [Ident<'a>],
    /// The columns; if empty and `columns_given` is false, all columns.
    pub columns: &'a [ColumnName<'a>],
    /// Whether a column list was given, which may be empty.
    pub columns_given: bool,
    /// The rows.
    pub source: InsertSource<'a>,
    /// The alias of the new row: `AS new`.
    pub row_alias: Option<Ident<'a>>,
    /// The aliases of its columns: `AS new(a, b)`.
    pub column_aliases: &'a [Ident<'a>],
    /// ON DUPLICATE KEY UPDATE, empty if not given.
    pub on_duplicate: &'a [Assignment<'a>],
}

/// The source of inserted rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InsertSource<'a> {
    /// `VALUES (...), (...)`; a row may be empty, and may hold [`super::ExprKind::Default`].
    Values(&'a [&'a [Expr<'a>]]),
    /// `SET a = 1, b = 2`
    Set(&'a [Assignment<'a>]),
    /// A query.
    Query(&'a Query<'a>),
}

/// UPDATE
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update<'a> {
    /// WITH
    pub with: Option<&'a With<'a>>,
    /// LOW_PRIORITY
    pub low_priority: bool,
    /// IGNORE
    pub ignore: bool,
    /// The tables; one without joins, or several.
    pub tables: &'a [TableRef<'a>],
    /// SET
    pub set: &'a [Assignment<'a>],
    /// WHERE
    pub filter: Option<Expr<'a>>,
    /// ORDER BY
    pub order_by: &'a [OrderItem<'a>],
    /// LIMIT
    pub limit: Option<&'a Limit<'a>>,
}

/// DELETE
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delete<'a> {
    /// WITH
    pub with: Option<&'a With<'a>>,
    /// LOW_PRIORITY
    pub low_priority: bool,
    /// QUICK
    pub quick: bool,
    /// IGNORE
    pub ignore: bool,
    /// The tables to delete from.
    pub target: DeleteTarget<'a>,
    /// WHERE
    pub filter: Option<Expr<'a>>,
    /// ORDER BY
    pub order_by: &'a [OrderItem<'a>],
    /// LIMIT
    pub limit: Option<&'a Limit<'a>>,
}

/// Target of DELETE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeleteTarget<'a> {
    /// `DELETE FROM t`
    One(&'a TableSource<'a>),
    /// `DELETE a, b FROM ...`, `DELETE FROM a, b USING ...`
    Many {
        /// The tables to delete from: names or aliases in `tables`.
        targets: &'a [TableName<'a>],
        /// The tables to join.
        tables: &'a [TableRef<'a>],
    },
}

/// LOAD DATA, LOAD XML
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadData<'a> {
    /// LOAD XML
    pub xml: bool,
    /// Its priority.
    pub priority: Priority,
    /// CONCURRENT
    pub concurrent: bool,
    /// LOCAL
    pub local: bool,
    /// The file.
    pub path: &'a [u8],
    /// REPLACE, IGNORE
    pub duplicates: OnDuplicateRow,
    /// The table.
    pub table: TableName<'a>,
    /// PARTITION, empty if not given.
    pub partitions: &'a [Ident<'a>],
    /// CHARACTER SET
    pub charset: Option<Ident<'a>>,
    /// ROWS IDENTIFIED BY
    pub rows_identified: Option<&'a [u8]>,
    /// FIELDS, LINES
    pub format: FileFormat<'a>,
    /// IGNORE n LINES
    pub ignore_lines: u64,
    /// Columns and variables that take the fields, empty: all columns.
    pub fields: &'a [IntoVar<'a>],
    /// SET
    pub set: &'a [Assignment<'a>],
}

/// HANDLER
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Handler<'a> {
    /// The table, or the alias of an open handler.
    pub table: TableName<'a>,
    /// Action.
    pub action: HandlerAction<'a>,
}

/// Action of HANDLER.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HandlerAction<'a> {
    /// `OPEN [AS alias]`
    Open(Option<Ident<'a>>),
    /// CLOSE
    Close,
    /// `READ [index] FIRST|NEXT|PREV|LAST`, `READ index = (values)`
    Read {
        /// The index, if not in natural order.
        index: Option<Ident<'a>>,
        /// The row to move to.
        step: HandlerStep<'a>,
        /// WHERE
        filter: Option<Expr<'a>>,
        /// LIMIT
        limit: Option<&'a Limit<'a>>,
    },
}

/// The row that HANDLER reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HandlerStep<'a> {
    /// FIRST
    First,
    /// NEXT
    Next,
    /// PREV
    Prev,
    /// LAST
    Last,
    /// A comparison with key values.
    Key(super::BinaryOp, &'a [Expr<'a>]),
}

/// START TRANSACTION, BEGIN
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartTransaction {
    /// WITH CONSISTENT SNAPSHOT
    pub snapshot: bool,
    /// READ ONLY (true), READ WRITE (false)
    pub read_only: Option<bool>,
}

/// The end of COMMIT and ROLLBACK: `[AND [NO] CHAIN] [[NO] RELEASE]`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// CHAIN
    pub chain: Option<bool>,
    /// RELEASE
    pub release: Option<bool>,
}

/// An isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// READ UNCOMMITTED
    ReadUncommitted,
    /// READ COMMITTED
    ReadCommitted,
    /// REPEATABLE READ
    RepeatableRead,
    /// SERIALIZABLE
    Serializable,
}

/// The id of an XA transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xid<'a> {
    /// gtrid
    pub global: &'a [u8],
    /// bqual
    pub branch: &'a [u8],
    /// formatID, 1 if not given.
    pub format: u64,
}

/// XA
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xa<'a> {
    /// START, BEGIN; JOIN or RESUME
    Start(Xid<'a>, XaStart),
    /// END; SUSPEND, FOR MIGRATE
    End(Xid<'a>, XaEnd),
    /// PREPARE
    Prepare(Xid<'a>),
    /// COMMIT; ONE PHASE
    Commit(Xid<'a>, bool),
    /// ROLLBACK
    Rollback(Xid<'a>),
    /// RECOVER; CONVERT XID
    Recover(bool),
}

/// The word after XA START.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XaStart {
    /// None.
    New,
    /// JOIN
    Join,
    /// RESUME
    Resume,
}

/// The words after XA END.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XaEnd {
    /// None.
    Plain,
    /// SUSPEND
    Suspend,
    /// SUSPEND FOR MIGRATE
    SuspendForMigrate,
}
