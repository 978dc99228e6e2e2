//! Queries: SELECT, TABLE, VALUES, set operations, FROM clauses, windows.
//!
//! Invariants
//! 1. Set operations of one precedence level are flat ([`SetChain`]), as are the joins of a FROM
//!    item ([`TableRef`]): 50,000 of them do not make a deep tree.
//! 2. A query in parentheses with its own ORDER BY, LIMIT or WITH is [`QueryBody::Nested`];
//!    redundant parentheses have no node.

use super::super::token::Span;
use super::{ColumnName, DataType, Expr, Ident, JsonOnResponse, TableName};

/// A query with its WITH, ORDER BY, LIMIT, locking and INTO clauses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Query<'a> {
    /// WITH
    pub with: Option<&'a With<'a>>,
    /// The rows.
    pub body: QueryBody<'a>,
    /// ORDER BY, empty if none.
    pub order_by: &'a [OrderItem<'a>],
    /// LIMIT
    pub limit: Option<&'a Limit<'a>>,
    /// FOR UPDATE and FOR SHARE, empty if none.
    pub locks: &'a [LockClause<'a>],
    /// INTO
    pub into: Option<&'a Into<'a>>,
    /// Position in the text, without surrounding parentheses.
    pub span: Span,
}

/// The source of a query's rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueryBody<'a> {
    /// SELECT
    Select(&'a Select<'a>),
    /// `TABLE t`
    Table(TableName<'a>),
    /// `VALUES ROW(...), ROW(...)`
    Values(&'a [&'a [Expr<'a>]]),
    /// A query in parentheses.
    Nested(&'a Query<'a>),
    /// A set operation.
    Set(&'a SetChain<'a>),
}

/// `first UNION second EXCEPT third ...`, from left to right. INTERSECT has higher precedence and
/// forms its own chains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetChain<'a> {
    /// The leftmost.
    pub first: QueryBody<'a>,
    /// The other operands, at least one.
    pub rest: &'a [SetTerm<'a>],
}

/// A set operation with its right operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetTerm<'a> {
    /// Operation.
    pub op: SetOp,
    /// ALL: duplicates are kept.
    pub all: bool,
    /// The right operand.
    pub body: QueryBody<'a>,
}

/// A set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp {
    /// UNION
    Union,
    /// EXCEPT
    Except,
    /// INTERSECT
    Intersect,
}

/// `WITH [RECURSIVE] ...`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct With<'a> {
    /// RECURSIVE
    pub recursive: bool,
    /// The named queries.
    pub ctes: &'a [Cte<'a>],
}

/// `name (columns) AS (query)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cte<'a> {
    /// Its name.
    pub name: Ident<'a>,
    /// Its columns' names, empty if not given.
    pub columns: &'a [Ident<'a>],
    /// The query.
    pub query: &'a Query<'a>,
}

/// `SELECT ...`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Select<'a> {
    /// DISTINCT, SQL_NO_CACHE and so on.
    pub options: SelectOptions,
    /// The select list.
    pub items: &'a [SelectItem<'a>],
    /// FROM, empty if not given (also for `FROM DUAL`); items are separated by commas.
    pub from: &'a [TableRef<'a>],
    /// WHERE
    pub filter: Option<Expr<'a>>,
    /// GROUP BY, empty if none.
    pub group_by: &'a [OrderItem<'a>],
    /// WITH ROLLUP
    pub rollup: bool,
    /// HAVING
    pub having: Option<Expr<'a>>,
    /// WINDOW, empty if none.
    pub windows: &'a [NamedWindow<'a>],
    /// Position in the text.
    pub span: Span,
}

/// Words between SELECT and the select list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectOptions {
    /// DISTINCT, DISTINCTROW
    pub distinct: bool,
    /// HIGH_PRIORITY
    pub high_priority: bool,
    /// STRAIGHT_JOIN
    pub straight_join: bool,
    /// SQL_SMALL_RESULT
    pub small_result: bool,
    /// SQL_BIG_RESULT
    pub big_result: bool,
    /// SQL_BUFFER_RESULT
    pub buffer_result: bool,
    /// SQL_NO_CACHE
    pub no_cache: bool,
    /// SQL_CALC_FOUND_ROWS
    pub calc_found_rows: bool,
}

/// An item of a select list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SelectItem<'a> {
    /// `*`
    Wildcard,
    /// `t.*`, `db.t.*`
    TableWildcard(TableName<'a>),
    /// An expression.
    Expr {
        /// The expression.
        expr: Expr<'a>,
        /// Its alias, without quotes.
        alias: Option<Ident<'a>>,
        /// The expression's source text, with parentheses but without trailing space and alias: the
        /// name of the result column if there is no alias.
        span: Span,
    },
}

/// `expr [ASC|DESC]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrderItem<'a> {
    /// Sort expression; an integer literal is the position of a select-list item.
    pub expr: Expr<'a>,
    /// DESC
    pub desc: bool,
}

/// `LIMIT [offset,] count`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit<'a> {
    /// Number of rows: an integer, a parameter, or a variable of a stored program.
    pub count: Expr<'a>,
    /// Number of rows to skip.
    pub offset: Option<Expr<'a>>,
}

/// `FOR UPDATE`, `FOR SHARE`, `LOCK IN SHARE MODE`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LockClause<'a> {
    /// FOR UPDATE; otherwise a share lock.
    pub exclusive: bool,
    /// OF, empty: all tables.
    pub tables: &'a [TableName<'a>],
    /// Handling of rows that other transactions have locked.
    pub wait: LockWait,
}

/// Handling of rows that other transactions have locked, in a locking read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Wait for them.
    Wait,
    /// NOWAIT: fail.
    NoWait,
    /// SKIP LOCKED: skip them.
    SkipLocked,
}

/// The target of a result that is not sent to the client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Into<'a> {
    /// `INTO @a, @b`
    Vars(&'a [IntoVar<'a>]),
    /// `INTO OUTFILE`
    Outfile {
        /// The file.
        path: &'a [u8],
        /// CHARACTER SET
        charset: Option<Ident<'a>>,
        /// FIELDS and LINES
        format: FileFormat<'a>,
    },
    /// `INTO DUMPFILE`
    Dumpfile(&'a [u8]),
}

/// A variable that takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntoVar<'a> {
    /// `@name`
    User(&'a [u8]),
    /// A variable of a stored program.
    Local {
        /// Its name.
        name: Ident<'a>,
        /// Its slot, if the statement is in a body that declares it.
        slot: Option<u32>,
    },
}

/// `FIELDS ... LINES ...` of LOAD DATA and INTO OUTFILE; clauses not given are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFormat<'a> {
    /// FIELDS TERMINATED BY
    pub field_terminator: Option<&'a [u8]>,
    /// FIELDS ENCLOSED BY
    pub enclosed: Option<&'a [u8]>,
    /// OPTIONALLY
    pub optionally: bool,
    /// FIELDS ESCAPED BY
    pub escaped: Option<&'a [u8]>,
    /// LINES STARTING BY
    pub line_start: Option<&'a [u8]>,
    /// LINES TERMINATED BY
    pub line_terminator: Option<&'a [u8]>,
}

/// A table with its joins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableRef<'a> {
    /// The leftmost.
    pub first: TableFactor<'a>,
    /// Joined tables, from left to right.
    pub joins: &'a [Join<'a>],
}

/// An item of FROM: the operand of a join.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TableFactor<'a> {
    /// A table or view by name.
    Table(&'a TableSource<'a>),
    /// A query in parentheses.
    Derived(&'a Derived<'a>),
    /// JSON_TABLE
    JsonTable(&'a JsonTable<'a>),
    /// `(a, b JOIN c)`, and the right side of a join whose ON follows that of a later join.
    Nested(&'a [TableRef<'a>]),
}

/// A table by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableSource<'a> {
    /// Its name.
    pub name: TableName<'a>,
    /// Its alias.
    pub alias: Option<Ident<'a>>,
    /// PARTITION, empty if not given.
    pub partitions: &'a [Ident<'a>],
    /// USE, IGNORE and FORCE INDEX.
    pub hints: &'a [IndexHint<'a>],
    /// TABLESAMPLE
    pub sample: Option<Sample<'a>>,
}

/// `TABLESAMPLE SYSTEM (percent)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// BERNOULLI; otherwise SYSTEM.
    pub bernoulli: bool,
    /// Percentage.
    pub percent: Expr<'a>,
}

/// `USE INDEX FOR JOIN (i)`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexHint<'a> {
    /// Kind.
    pub kind: IndexHintKind,
    /// The purpose that the hint applies to.
    pub purpose: IndexHintFor,
    /// The indexes; PRIMARY is the primary key.
    pub indexes: &'a [Ident<'a>],
}

/// Kind of an index hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexHintKind {
    /// USE
    Use,
    /// IGNORE
    Ignore,
    /// FORCE
    Force,
}

/// The purpose that an index hint applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexHintFor {
    /// For all.
    All,
    /// FOR JOIN
    Join,
    /// FOR ORDER BY
    OrderBy,
    /// FOR GROUP BY
    GroupBy,
}

/// `[LATERAL] (query) AS alias (columns)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Derived<'a> {
    /// The query.
    pub query: &'a Query<'a>,
    /// LATERAL
    pub lateral: bool,
    /// The alias, which MySQL requires.
    pub alias: Ident<'a>,
    /// Its columns' names, empty if not given.
    pub columns: &'a [Ident<'a>],
}

/// `JSON_TABLE(doc, path COLUMNS (...)) AS alias`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JsonTable<'a> {
    /// The document.
    pub doc: Expr<'a>,
    /// The path of the rows.
    pub path: &'a [u8],
    /// The columns.
    pub columns: &'a [JsonTableColumn<'a>],
    /// Its name.
    pub alias: Ident<'a>,
}

/// A column of JSON_TABLE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JsonTableColumn<'a> {
    /// `name FOR ORDINALITY`
    Ordinality(Ident<'a>),
    /// `name type PATH path`, `name type EXISTS PATH path`
    Path {
        /// Its name.
        name: Ident<'a>,
        /// Its type.
        ty: DataType<'a>,
        /// EXISTS
        exists: bool,
        /// The path of the value.
        path: &'a [u8],
        /// ON EMPTY
        on_empty: Option<JsonOnResponse<'a>>,
        /// ON ERROR
        on_error: Option<JsonOnResponse<'a>>,
    },
    /// `NESTED PATH path COLUMNS (...)`
    Nested {
        /// The path of the inner rows.
        path: &'a [u8],
        /// The columns of the inner rows.
        columns: &'a [JsonTableColumn<'a>],
    },
}

/// A join with its right side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Join<'a> {
    /// Kind.
    pub kind: JoinKind,
    /// NATURAL
    pub natural: bool,
    /// The right side.
    pub right: TableFactor<'a>,
    /// ON or USING.
    pub condition: JoinCondition<'a>,
}

/// The kind of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// JOIN, INNER JOIN, CROSS JOIN
    Inner,
    /// STRAIGHT_JOIN: the left side is read first.
    Straight,
    /// LEFT JOIN
    Left,
    /// RIGHT JOIN
    Right,
}

/// Condition of a join.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JoinCondition<'a> {
    /// No condition.
    None,
    /// `ON expr`
    On(Expr<'a>),
    /// `USING (columns)`
    Using(&'a [Ident<'a>]),
}

/// A window: `OVER w`, `OVER (...)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Window<'a> {
    /// A named window.
    Named(Ident<'a>),
    /// An inline window.
    Spec(WindowSpec<'a>),
}

/// `name AS (spec)` in the WINDOW clause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedWindow<'a> {
    /// Its name.
    pub name: Ident<'a>,
    /// Kind.
    pub spec: WindowSpec<'a>,
}

/// `([base] [PARTITION BY ...] [ORDER BY ...] [frame])`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowSpec<'a> {
    /// The window that it extends.
    pub base: Option<Ident<'a>>,
    /// PARTITION BY
    pub partition_by: &'a [Expr<'a>],
    /// ORDER BY
    pub order_by: &'a [OrderItem<'a>],
    /// The frame.
    pub frame: Option<Frame<'a>>,
}

/// Unit of a frame's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    /// ROWS: numbers of rows.
    Rows,
    /// RANGE: differences of the sort key.
    Range,
    /// GROUPS: numbers of groups of peers.
    Groups,
}

/// Rows that a frame leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameExclusion {
    /// EXCLUDE CURRENT ROW
    CurrentRow,
    /// EXCLUDE GROUP
    Group,
    /// EXCLUDE TIES
    Ties,
    /// EXCLUDE NO OTHERS
    NoOthers,
}

/// `ROWS BETWEEN start AND end`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame<'a> {
    /// The unit.
    pub unit: FrameUnit,
    /// The start of the frame.
    pub start: FrameBound<'a>,
    /// The end of the frame; CURRENT ROW if not given.
    pub end: Option<FrameBound<'a>>,
    /// EXCLUDE
    pub exclude: Option<FrameExclusion>,
}

/// A bound of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FrameBound<'a> {
    /// CURRENT ROW
    CurrentRow,
    /// UNBOUNDED PRECEDING
    UnboundedPreceding,
    /// UNBOUNDED FOLLOWING
    UnboundedFollowing,
    /// `n PRECEDING`, `INTERVAL n unit PRECEDING`
    Preceding(Expr<'a>, Option<super::IntervalUnit>),
    /// `n FOLLOWING`, `INTERVAL n unit FOLLOWING`
    Following(Expr<'a>, Option<super::IntervalUnit>),
}

/// `column = value`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assignment<'a> {
    /// The column.
    pub column: ColumnName<'a>,
    /// Its new value; may be [`super::ExprKind::Default`].
    pub value: Expr<'a>,
}
