//! Sinks: the operators at the top of a statement's tree.
//!
//! The rows of a SELECT go to the client. Those of the other statements are changes:
//!
//! ```text
//!  UPDATE o JOIN c ON c.id = o.customer        UPDATE o SET n = 1       INSERT INTO t
//!    SET o.n = c.n                               WHERE id = 5             SELECT a, b FROM o
//!
//!  Change (update, buffered)  o                Change (update,          Insert  t
//!    Collect                                     immediate)  o            Project
//!      Join (inner, index lookup)                Collect                    Scan o
//!        Scan o  locked                            Scan o  locked
//!        Scan c
//! ```
//!
//! A [`QueryPlan`] provides the rows of a sink. That of a change has no select list: the sink works
//! on the stored rows that the plan finds and locks.

use super::{QueryPlan, ResultColumn};
use crate::bind::{MergedView, Source};
use crate::expr::Expr;
use crate::parse::ast;
use porpoise_rows::InsertMode;
use porpoise_rows::catalog::Table;
use porpoise_types::{Charset, Collation, ColumnType, ValueRef};
use std::slice;
use std::sync::{Arc, LazyLock};

/// The plan of a statement.
#[expect(
    clippy::large_enum_variant,
    reason = "a plan lies once behind an Arc; a box would be an indirection more at each run"
)]
#[derive(Clone, Debug)]
pub enum Plan {
    /// SELECT: the client is the sink.
    Select(QueryPlan),
    /// INSERT and REPLACE.
    Insert(Insert),
    /// UPDATE and DELETE.
    Change(Change),
}

/// A value of an INSERT or of an assignment.
#[derive(Clone, Debug)]
pub enum NewValue {
    /// An expression.
    Expr(Expr),
    /// DEFAULT.
    Default,
}

/// INSERT and REPLACE.
#[derive(Clone, Debug)]
pub struct Insert {
    /// The table.
    pub table: Arc<Table>,
    /// Positions of the columns that get values, in the order of the values.
    pub columns: Vec<usize>,
    /// The rows.
    pub rows: InsertRows,
    /// Treatment of duplicate keys.
    pub mode: InsertMode,
    /// ON DUPLICATE KEY UPDATE: column positions and new values. Slot 0 is the existing row. Slot 1
    /// is the new row or, for INSERT ... SELECT, the slots from 1 on are the tables of the query.
    pub on_duplicate: Vec<(usize, NewValue)>,
    /// Columns of that query's tables that `on_duplicate` reads: slots in the query, and columns.
    pub select_columns: Vec<(usize, usize)>,
    /// PARTITION (names): rows must belong to one of these partitions.
    pub partitions: Option<Arc<[usize]>>,
    /// The table as the statement names it.
    pub target_source: Source,
    /// The view's WITH CHECK OPTION, checked on new rows.
    pub check: Option<ViewCheck>,
    /// Whether columns without a value may have a DEFAULT expression.
    pub default_expressions: bool,
    /// Stored tables that queries inside read.
    pub nested_tables: Vec<Arc<Table>>,
}

/// The rows of an INSERT.
#[derive(Clone, Debug)]
pub enum InsertRows {
    /// VALUES, SET.
    Values(ValueRows),
    /// A query. Values after those of the columns given are those of [`Insert::select_columns`].
    Query(Box<QueryPlan>),
    /// The lines of a file (LOAD DATA).
    File(Box<FileRows>),
}

/// The rows of VALUES and SET. Large statements consist of literals, so that a literal is kept as 16
/// bytes without an expression of its own.
#[derive(Clone, Debug)]
pub struct ValueRows {
    rows: usize,
    /// Values of a row.
    width: usize,
    values: Vec<GivenValue>,
    /// The texts of the literals.
    texts: Vec<u8>,
    expressions: Vec<Expr>,
    /// The type of texts that are not binary.
    text_type: ColumnType,
}

/// A value of VALUES or SET.
#[derive(Clone, Copy, Debug)]
enum GivenValue {
    Default,
    Null,
    Int(i64),
    UInt(u64),
    /// Start and length of a text in the connection's collation.
    Text(u32, u32),
    /// Start and length of a binary string.
    Binary(u32, u32),
    /// Start and length of a hexadecimal or bit literal, which is a number for a column of numbers.
    Bits(u32, u32),
    /// Position of an expression.
    Expr(u32),
}

/// A value of VALUES or SET, as its column gets it.
#[derive(Clone, Copy, Debug)]
pub enum GivenRef<'a> {
    /// DEFAULT.
    Default,
    /// A literal and its type.
    Literal(ValueRef<'a>, &'a ColumnType),
    /// An expression.
    Expr(&'a Expr),
}

static INT: LazyLock<ColumnType> = LazyLock::new(ColumnType::bigint);
static UINT: LazyLock<ColumnType> = LazyLock::new(ColumnType::bigint_unsigned);
static BINARY: LazyLock<ColumnType> = LazyLock::new(|| ColumnType::varbinary(u32::MAX));
/// The type of hexadecimal and bit literals ([`crate::bind::literal`]).
static BITS: LazyLock<ColumnType> = LazyLock::new(|| ColumnType {
    unsigned: true,
    ..ColumnType::varbinary(u32::MAX)
});

impl ValueRows {
    /// Creates an empty list of rows of `width` values, with capacity for `rows`. Literals have texts in
    /// this collation.
    pub fn new(width: usize, rows: usize, collation: Collation) -> ValueRows {
        ValueRows {
            rows: 0,
            width,
            values: Vec::with_capacity(rows.saturating_mul(width)),
            texts: Vec::new(),
            expressions: Vec::new(),
            text_type: ColumnType::varchar(u32::MAX, collation),
        }
    }

    /// Adds a value to the row.
    pub fn push(&mut self, value: NewValue) {
        let given = match value {
            NewValue::Default => GivenValue::Default,
            NewValue::Expr(e) => {
                self.expressions.push(e);
                GivenValue::Expr(position(self.expressions.len() - 1))
            }
        };
        self.values.push(given);
    }

    /// Adds a literal to the row. Returns false if it needs an expression.
    pub fn push_literal(&mut self, e: &ast::Expr<'_>) -> bool {
        use ast::{ExprKind as E, Literal as L};
        let given = match e.kind {
            E::Literal(L::Null) => GivenValue::Null,
            E::Literal(L::Bool(b)) => GivenValue::Int(i64::from(b)),
            E::Literal(L::Int(n)) => i64::try_from(n).map_or(GivenValue::UInt(n), GivenValue::Int),
            E::Unary(ast::UnaryOp::Neg, arg) => {
                let E::Literal(L::Int(n)) = arg.kind else {
                    return false;
                };
                let Ok(n) = i64::try_from(-i128::from(n)) else {
                    return false;
                };
                GivenValue::Int(n)
            }
            E::Literal(L::String(text)) => match self.text_type.collation.charset() {
                Charset::Utf8mb4 => {
                    let (start, len) = self.keep_text(text);
                    GivenValue::Text(start, len)
                }
                _ => return false,
            },
            E::Literal(L::Hex(bytes) | L::Bit(bytes)) => {
                let (start, len) = self.keep_text(bytes);
                GivenValue::Bits(start, len)
            }
            E::Literal(L::Introduced(string)) if string.charset == "binary" => {
                let (start, len) = self.keep_text(string.bytes);
                GivenValue::Binary(start, len)
            }
            _ => return false,
        };
        self.values.push(given);
        true
    }

    fn keep_text(&mut self, text: &[u8]) -> (u32, u32) {
        let start = position(self.texts.len());
        self.texts.extend_from_slice(text);
        (start, position(text.len()))
    }

    /// Ends a row. Values that it lacks are DEFAULT.
    pub fn end_row(&mut self) {
        self.rows += 1;
        self.values
            .resize(self.rows * self.width, GivenValue::Default);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The expressions among the values.
    pub fn expressions(&self) -> &[Expr] {
        &self.expressions
    }

    /// The values of a row.
    pub fn row(&self, at: usize) -> impl Iterator<Item = GivenRef<'_>> {
        let start = at * self.width;
        let values = self.values.get(start..start + self.width);
        values.unwrap_or_default().iter().map(|given| match given {
            GivenValue::Default => GivenRef::Default,
            GivenValue::Null => GivenRef::Literal(ValueRef::Null, &INT),
            GivenValue::Int(n) => GivenRef::Literal(ValueRef::Int(*n), &INT),
            GivenValue::UInt(n) => GivenRef::Literal(ValueRef::UInt(*n), &UINT),
            GivenValue::Text(start, len) => {
                GivenRef::Literal(ValueRef::Bytes(self.text(*start, *len)), &self.text_type)
            }
            GivenValue::Binary(start, len) => {
                GivenRef::Literal(ValueRef::Bytes(self.text(*start, *len)), &BINARY)
            }
            GivenValue::Bits(start, len) => {
                GivenRef::Literal(ValueRef::Bytes(self.text(*start, *len)), &BITS)
            }
            GivenValue::Expr(at) => match self.expressions.get(*at as usize) {
                Some(e) => GivenRef::Expr(e),
                None => GivenRef::Default,
            },
        })
    }

    fn text(&self, start: u32, len: u32) -> &[u8] {
        let (start, len) = (start as usize, len as usize);
        self.texts.get(start..start + len).unwrap_or_default()
    }
}

/// A position in the lists of [`ValueRows`]; a statement's text has less than 4 GiB.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// LOAD DATA: the lines of a file, and the values of a row that they give.
#[derive(Clone, Debug)]
pub struct FileRows {
    /// The file, as the statement names it.
    pub path: Vec<u8>,
    /// The collation that stands for the file's character set.
    pub collation: Collation,
    /// FIELDS and LINES.
    pub format: LineFormat,
    /// IGNORE n LINES
    pub skipped_lines: u64,
    /// Destinations of a line's fields.
    pub fields: Vec<FieldTarget>,
    /// SET: positions and values, in textual order.
    pub set: Vec<(usize, NewValue)>,
}

/// Destination of a field of LOAD DATA.
#[derive(Clone, Debug)]
pub enum FieldTarget {
    /// The column at a position.
    Column(usize),
    /// A user variable.
    Variable(Arc<str>),
}

/// FIELDS and LINES of LOAD DATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFormat {
    /// FIELDS TERMINATED BY; may be empty.
    pub field_end: Vec<u8>,
    /// FIELDS ENCLOSED BY
    pub enclosure: Option<u8>,
    /// FIELDS ESCAPED BY
    pub escape: Option<u8>,
    /// LINES STARTING BY; may be empty.
    pub line_start: Vec<u8>,
    /// LINES TERMINATED BY; may be empty.
    pub line_end: Vec<u8>,
}

/// WITH CHECK OPTION.
#[derive(Clone, Debug)]
pub struct ViewCheck {
    /// The view, for messages.
    pub name: String,
    /// Conditions, all of which must be true. For INSERT, all slots but that of the new row are NULL.
    pub conditions: Vec<Expr>,
    /// The slot of the new row.
    pub slot: usize,
}

impl ViewCheck {
    /// The check of a view whose source is in this slot; `None` without WITH CHECK OPTION.
    pub(super) fn of(view: &MergedView, slot: usize) -> Option<ViewCheck> {
        if view.check.is_empty() {
            return None;
        }
        Some(ViewCheck {
            name: format!("{}.{}", view.database, view.name),
            conditions: view.check_at(slot),
            slot,
        })
    }
}

/// UPDATE and DELETE.
#[derive(Clone, Debug)]
pub struct Change {
    /// Whether it is an UPDATE or a DELETE.
    pub kind: ChangeKind,
    /// The tables whose rows change.
    pub targets: Targets,
    /// The rows, found and locked.
    pub input: QueryPlan,
    /// IGNORE.
    pub ignore: bool,
}

/// UPDATE or DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Executes an UPDATE.
    Update,
    /// Executes a DELETE.
    Delete,
}

/// The tables whose rows a statement changes.
#[derive(Clone, Debug)]
pub enum Targets {
    /// The only table of the input: rows change in the order in which they are found.
    Immediate(Target),
    /// Tables of a join: changes are gathered and done at the end, each row once.
    Buffered(Vec<Target>),
}

/// A target table.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its slot in the input.
    pub slot: usize,
    /// The table.
    pub table: Arc<Table>,
    /// Positions and values, in textual order; empty for DELETE.
    pub set: Vec<(usize, NewValue)>,
    /// The view's WITH CHECK OPTION, checked on changed rows.
    pub check: Option<ViewCheck>,
}

impl NewValue {
    /// The expression that computes it.
    pub fn expr(&self) -> Option<&Expr> {
        match self {
            NewValue::Expr(e) => Some(e),
            NewValue::Default => None,
        }
    }
}

impl Insert {
    /// The query that gives the rows.
    pub fn query(&self) -> Option<&QueryPlan> {
        match &self.rows {
            InsertRows::Query(query) => Some(query),
            InsertRows::Values(_) | InsertRows::File(_) => None,
        }
    }

    /// The rows of VALUES.
    pub fn values(&self) -> Option<&ValueRows> {
        match &self.rows {
            InsertRows::Values(rows) => Some(rows),
            InsertRows::Query(_) | InsertRows::File(_) => None,
        }
    }

    /// The file that gives the rows.
    pub fn file(&self) -> Option<&FileRows> {
        match &self.rows {
            InsertRows::File(file) => Some(file),
            InsertRows::Values(_) | InsertRows::Query(_) => None,
        }
    }
}

impl Change {
    /// PARTITION (names) of a target: its changed rows must stay there.
    pub fn named_partitions(&self, target: &Target) -> Option<&[usize]> {
        self.input.sources.get(target.slot)?.partitions.as_deref()
    }
}

impl Targets {
    /// All of them.
    pub fn all(&self) -> &[Target] {
        match self {
            Targets::Immediate(target) => slice::from_ref(target),
            Targets::Buffered(targets) => targets,
        }
    }
}

impl Plan {
    /// Whether the statement says IGNORE: errors of values are warnings.
    pub fn ignores_errors(&self) -> bool {
        match self {
            Plan::Select(_) => false,
            Plan::Insert(insert) => insert.mode == InsertMode::Ignore,
            Plan::Change(change) => change.ignore,
        }
    }

    /// The query that gives the rows; `None` where VALUES does.
    pub fn input(&self) -> Option<&QueryPlan> {
        match self {
            Plan::Select(query) => Some(query),
            Plan::Insert(insert) => insert.query(),
            Plan::Change(change) => Some(&change.input),
        }
    }

    /// Visits the expressions of the sink, not those of its input.
    pub fn sink_expressions<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        let mut all = |set: &'p [(usize, NewValue)]| {
            let values = set.iter().filter_map(|(_, value)| value.expr());
            values.for_each(&mut *visit);
        };
        match self {
            Plan::Select(_) => {}
            Plan::Change(change) => {
                let targets = change.targets.all().iter();
                targets.for_each(|target| all(&target.set));
            }
            Plan::Insert(insert) => {
                all(&insert.on_duplicate);
                all(insert.file().map_or(&[], |file| &file.set));
                let values = insert.values().map_or(&[][..], ValueRows::expressions);
                values.iter().for_each(visit);
            }
        }
    }

    /// Its stored tables, and whether it writes to them.
    pub fn tables(&self) -> Vec<(Arc<Table>, bool)> {
        let mut tables = Vec::new();
        if let Plan::Insert(insert) = self {
            tables.push((insert.table.clone(), true));
            tables.extend(insert.nested_tables.iter().map(|t| (t.clone(), false)));
        }
        tables.extend(self.input().into_iter().flat_map(QueryPlan::tables));
        if let Plan::Change(change) = self {
            let targets = change.targets.all();
            for (table, writes) in &mut tables {
                *writes = targets.iter().any(|t| t.table.id == table.id);
            }
        }
        tables
    }

    /// Whether it reads more than whole unique keys.
    pub(super) fn scans_ranges(&self) -> bool {
        match self {
            Plan::Select(query) => query.scans_ranges(),
            Plan::Insert(insert) => insert.query().is_some() || !insert.nested_tables.is_empty(),
            Plan::Change(change) => change.input.scans_ranges(),
        }
    }

    /// Whether it changes rows.
    pub fn writes(&self) -> bool {
        !matches!(self, Plan::Select(_))
    }

    /// Whether it reads stored rows without locking them.
    pub(super) fn reads_unlocked(&self) -> bool {
        let inner = matches!(self, Plan::Insert(insert) if !insert.nested_tables.is_empty());
        inner || self.input().is_some_and(QueryPlan::reads_unlocked)
    }

    /// The columns of the result.
    pub fn columns(&self) -> &[ResultColumn] {
        match self {
            Plan::Select(query) => &query.columns,
            _ => &[],
        }
    }
}
