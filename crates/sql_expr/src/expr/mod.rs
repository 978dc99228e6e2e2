//! Bound expressions: names are resolved and types known.
//!
//! The binder builds them from the syntax tree; a plan owns them and keeps no reference to the
//! statement's text. Evaluation ([`eval`]) yields borrowed values: columns point into row bytes,
//! computed strings into the statement's arena, so that filtering a row makes no heap allocation.
//!
//! Invariants:
//! 1. Every node has a static type, which determines how its value is compared, converted and sent,
//!    and never depends on the data.
//! 2. A column node determines how its storage value is converted to an SQL value ([`Load`]); nodes
//!    above it see only SQL values.
//! 3. Operands are evaluated at most once for each evaluation of their parent.

pub mod arith;
pub mod array;
pub mod block_cipher;
pub mod collations;
pub mod comparable;
pub mod condition;
pub mod convert;
pub mod describe;
pub mod eval;
pub mod expiry;
pub mod function;
pub mod in_set;
pub mod interval;
pub mod json;
pub mod large;
pub mod logic;
pub mod named_locks;
pub mod number;
pub mod query;
mod rewrite;
pub mod same;
pub mod stored;
pub mod text;
pub mod text_search;
pub mod types;
mod user_variables;

use function::Function;
use porpoise_types::{Collation, ColumnType, CompareAs, Kind, Value};
use std::cmp::Ordering;
use std::sync::Arc;

/// Coercibility of an expression's collation (manual, "Collation
/// Coercibility in Expressions"); the lower wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coercibility {
    /// COLLATE clause.
    Explicit,
    /// Two implicit collations that disagree.
    None,
    /// A column.
    Implicit,
    /// USER(), VERSION() and the like, and system variables.
    System,
    /// A literal.
    Literal,
    /// A number or date turned into text.
    Numeric,
    /// NULL.
    Ignorable,
}

/// A bound expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Kind and operands.
    pub kind: ExprKind,
    /// The type of its value.
    pub ty: ColumnType,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// Coercibility of `ty.collation`.
    pub coercibility: Coercibility,
}

/// Conversion of a column's storage value to an SQL value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// No conversion.
    Plain,
    /// UTC to the session's time zone.
    Timestamp,
    /// Index to member text.
    Enum,
    /// Bits to the list of member texts.
    Set,
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmpOp {
    /// `=`
    Eq,
    /// `<>`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `<=>`
    NullSafe,
}

impl CmpOp {
    /// The operator in SQL.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            CmpOp::Eq => "=",
            CmpOp::Ne => "<>",
            CmpOp::Lt => "<",
            CmpOp::Le => "<=",
            CmpOp::Gt => ">",
            CmpOp::Ge => ">=",
            CmpOp::NullSafe => "<=>",
        }
    }

    /// Whether the operator is true for non-NULL operands that compare as `order`.
    #[inline]
    pub fn accepts(self, order: Ordering) -> bool {
        match self {
            CmpOp::Eq | CmpOp::NullSafe => order == Ordering::Equal,
            CmpOp::Ne => order != Ordering::Equal,
            CmpOp::Lt => order == Ordering::Less,
            CmpOp::Le => order != Ordering::Greater,
            CmpOp::Gt => order == Ordering::Greater,
            CmpOp::Ge => order != Ordering::Less,
        }
    }
}

/// Arithmetic operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `DIV`
    IntDiv,
    /// `%`
    Mod,
}

impl ArithOp {
    /// The operator as it is written.
    pub fn sign(self) -> &'static str {
        match self {
            ArithOp::Add => "+",
            ArithOp::Sub => "-",
            ArithOp::Mul => "*",
            ArithOp::Div => "/",
            ArithOp::IntDiv => "DIV",
            ArithOp::Mod => "%",
        }
    }
}

/// Bit operators, on unsigned 64-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOp {
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
}

/// Operand of IS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// IS NULL, IS UNKNOWN.
    Null,
    /// IS TRUE.
    True,
    /// IS FALSE.
    False,
}

/// One WHEN of a CASE.
#[derive(Clone, Debug)]
pub struct When {
    /// The condition; a comparison with the operand if CASE has one.
    pub condition: Expr,
    /// The result.
    pub result: Expr,
}

/// The kinds of expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A constant.
    Const(Value),
    /// A `?`, or a literal extracted from a normalised text: index into the parameters.
    Param(usize),
    /// A column of the table in a slot of the row.
    Column {
        /// Slot of the table in the row.
        slot: usize,
        /// Position of the column in it.
        column: usize,
        /// From storage to SQL.
        load: Load,
    },
    /// The value of an expression of the query this many levels out, over that query's current row:
    /// an alias of its select list that stands for a subquery.
    Enclosing(usize, Box<Expr>),
    /// A column of an enclosing query's current row.
    Outer {
        /// Number of levels out; 1 is the directly enclosing query.
        level: usize,
        /// Slot of the table there, or [`query::AGGREGATES`].
        slot: usize,
        /// Position of the column in it.
        column: usize,
        /// From storage to SQL.
        load: Load,
    },
    /// A test of a subquery's rows.
    Query(Box<query::QueryTest>),
    /// GROUPING() over keys of GROUP BY; replaced during planning.
    Grouping(Vec<Expr>),
    /// The result of an aggregate of this query, by number.
    Aggregate(usize),
    /// The result of a window function of this query, by number; after the aggregates once the
    /// query is planned.
    Window(usize),
    /// A call of a registered function.
    Call(&'static Function, Vec<Expr>),
    /// A call of a function that the session runs.
    SessionCall(stored::SessionFunction, Vec<Expr>),
    /// A comparison.
    Compare(CmpOp, CompareAs, Box<[Expr; 2]>),
    /// Conjunction.
    And(Vec<Expr>),
    /// Disjunction.
    Or(Vec<Expr>),
    /// Exclusive or.
    Xor(Box<[Expr; 2]>),
    /// Negation.
    Not(Box<Expr>),
    /// `IS [NOT] NULL`, TRUE, FALSE.
    Is {
        /// The tested expression.
        arg: Box<Expr>,
        /// The tested truth value, or NULL.
        truth: Truth,
        /// IS NOT.
        negated: bool,
    },
    /// `arg [NOT] IN (list)`; each item with its kind of comparison.
    In {
        /// The expression to search for.
        arg: Box<Expr>,
        /// The list to search.
        list: Vec<(CompareAs, Expr)>,
        /// NOT IN.
        negated: bool,
    },
    /// `arg [NOT] BETWEEN low AND high`.
    Between {
        /// arg, low, high.
        args: Box<[Expr; 3]>,
        /// Comparison of arg with low and with high.
        how: [CompareAs; 2],
        /// NOT BETWEEN.
        negated: bool,
    },
    /// `arg [NOT] LIKE pattern ESCAPE c`.
    Like {
        /// arg, pattern.
        args: Box<[Expr; 2]>,
        /// The escape character, if there is one.
        escape: Option<u8>,
        /// Collation that determines which characters are equal.
        collation: Collation,
        /// NOT LIKE.
        negated: bool,
    },
    /// CASE, and IF as a CASE with one branch.
    Case {
        /// The branches.
        whens: Vec<When>,
        /// ELSE; NULL when absent.
        otherwise: Option<Box<Expr>>,
    },
    /// COALESCE, IFNULL.
    Coalesce(Vec<Expr>),
    /// BENCHMARK: how often, and what is evaluated so often.
    Benchmark(Box<[Expr; 2]>),
    /// NULLIF.
    NullIf(CompareAs, Box<[Expr; 2]>),
    /// Arithmetic in the domain of the node's type.
    Arith(ArithOp, Box<[Expr; 2]>),
    /// Unary minus.
    Negate(Box<Expr>),
    /// Bit arithmetic.
    Bit(BitOp, Box<[Expr; 2]>),
    /// `~`.
    BitNot(Box<Expr>),
    /// CAST, CONVERT or BINARY, to the node's type.
    Cast(Box<Expr>),
    /// `CAST(arg AS type ARRAY)` of a multi-valued key part: the encoded array of the elements, to
    /// the node's type ([`mod@array`]).
    CastArray(Box<Expr>),
    /// The test of a JSON array, and the look-up that finds the rows for which it may be true.
    ArrayTest(Box<ArrayTest>),
    /// The encoded array of the keys to look up for a test with this operand ([`array::keys`]).
    ArrayKeys(ArrayTestKind, Box<Expr>),
    /// `MATCH (columns) AGAINST (text)`: the relevance, 0 for a row that does not match.
    TextMatch(Box<text_search::TextMatch>),
    /// `expr + INTERVAL n unit` (or minus).
    DateAdd {
        /// The date and the amount.
        args: Box<[Expr; 2]>,
        /// The unit.
        unit: Unit,
        /// Subtract.
        negative: bool,
    },
    /// EXTRACT(unit FROM arg).
    Extract(Unit, Box<Expr>),
    /// `@name`.
    UserVariable(Arc<str>),
    /// `@name := value`.
    AssignVariable(Arc<str>, Box<Expr>),
    /// VALUES(column) of ON DUPLICATE KEY UPDATE: the row to be inserted.
    NewValue {
        /// Position of the column.
        column: usize,
        /// From storage to SQL.
        load: Load,
    },
}

/// A test of a JSON array whose elements are an indexed column.
#[derive(Clone, Debug)]
pub struct ArrayTest {
    /// The test, whose value the node has.
    pub condition: Expr,
    /// The column of a multi-valued key part.
    pub column: Expr,
    /// [`ExprKind::ArrayKeys`] with the type of the column.
    pub keys: Expr,
}

/// Functions that look for elements of an array (manual, "CREATE INDEX Statement", Multi-Valued
/// Indexes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayTestKind {
    /// `value MEMBER OF(array)`.
    Member,
    /// `JSON_CONTAINS(array, document)`.
    Contains,
    /// `JSON_OVERLAPS(array, document)`.
    Overlaps,
}

/// Units of INTERVAL and EXTRACT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are MySQL's keywords")]
pub enum Unit {
    Microsecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    SecondMicrosecond,
    MinuteMicrosecond,
    MinuteSecond,
    HourMicrosecond,
    HourSecond,
    HourMinute,
    DayMicrosecond,
    DaySecond,
    DayMinute,
    DayHour,
    YearMonth,
}

impl Expr {
    /// Creates a constant of this type.
    pub fn constant(value: Value, ty: ColumnType) -> Expr {
        let coercibility = match &value {
            Value::Null => Coercibility::Ignorable,
            Value::Bytes(_) => Coercibility::Literal,
            _ => Coercibility::Numeric,
        };
        Expr {
            nullable: value.is_null(),
            kind: ExprKind::Const(value),
            ty,
            coercibility,
        }
    }

    /// NULL.
    pub fn null() -> Expr {
        Expr::constant(Value::Null, ColumnType::null())
    }

    /// Creates a node with an integer truth value.
    pub fn boolean(kind: ExprKind, nullable: bool) -> Expr {
        let mut ty = ColumnType::bigint();
        ty.length = 1;
        Expr {
            kind,
            ty,
            nullable,
            coercibility: Coercibility::Numeric,
        }
    }

    /// The constant value, if it is one.
    pub fn as_const(&self) -> Option<&Value> {
        match &self.kind {
            ExprKind::Const(value) => Some(value),
            _ => None,
        }
    }

    /// Whether it is a literal or a parameter.
    pub fn is_literal(&self) -> bool {
        matches!(self.kind, ExprKind::Const(_) | ExprKind::Param(_))
    }

    /// Whether the value is the same for every row of one execution.
    pub fn is_constant(&self) -> bool {
        let mut constant = true;
        self.walk(&mut |e| match &e.kind {
            ExprKind::Column { .. }
            | ExprKind::Outer { .. }
            | ExprKind::Enclosing(..)
            | ExprKind::Query(_)
            | ExprKind::SessionCall(..)
            | ExprKind::Aggregate(_)
            | ExprKind::Window(_)
            | ExprKind::NewValue { .. }
            | ExprKind::UserVariable(_)
            | ExprKind::Benchmark(_)
            | ExprKind::AssignVariable(..) => constant = false,
            ExprKind::Call(f, _) if !f.constant => constant = false,
            _ => {}
        });
        constant
    }

    /// The slots whose columns the expression reads, as a bit set.
    pub fn slots(&self) -> u64 {
        let mut slots = 0u64;
        self.columns(&mut |slot, _| slots |= 1 << (slot & 63));
        slots
    }

    /// Visits the columns of this query that the expression reads, by slot and position, including
    /// those that its subqueries read.
    pub fn columns(&self, visit: &mut impl FnMut(usize, usize)) {
        self.walk(&mut |e| match &e.kind {
            ExprKind::Column { slot, column, .. } => visit(*slot, *column),
            ExprKind::Query(test) => {
                let free = test.query.free.iter();
                for free in free.filter(|f| f.level == 1 && f.slot != query::AGGREGATES) {
                    visit(free.slot, free.column);
                }
            }
            _ => {}
        });
    }

    /// Whether the expression contains a subquery or calls a stored function.
    pub fn has_subquery(&self) -> bool {
        let mut found = false;
        self.walk(&mut |e| {
            found |= matches!(
                e.kind,
                ExprKind::Query(_) | ExprKind::SessionCall(..) | ExprKind::Enclosing(..)
            );
        });
        found
    }

    /// Whether the expression is deterministic: no RAND(), no user variables, and no subquery that
    /// contains one.
    pub fn is_fixed(&self) -> bool {
        let mut fixed = true;
        self.walk(&mut |e| match &e.kind {
            ExprKind::Call(f, _) if !f.constant => fixed = false,
            ExprKind::AssignVariable(..) | ExprKind::UserVariable(_) => fixed = false,
            ExprKind::SessionCall(..) => fixed = false,
            ExprKind::Query(test) => fixed &= test.query.is_deterministic,
            ExprKind::Enclosing(_, e) => fixed &= e.is_fixed(),
            _ => {}
        });
        fixed
    }

    /// Whether it contains an aggregate of this query.
    pub fn has_aggregate(&self) -> bool {
        let mut found = false;
        self.walk(&mut |e| match &e.kind {
            ExprKind::Aggregate(_) => found = true,
            ExprKind::Query(test) => {
                let mut free = test.query.free.iter();
                found |= free.any(|f| f.level == 1 && f.slot == query::AGGREGATES);
            }
            _ => {}
        });
        found
    }

    /// Whether it contains a window function of this query.
    pub fn has_window(&self) -> bool {
        let mut found = false;
        self.walk(&mut |e| found |= matches!(e.kind, ExprKind::Window(_)));
        found
    }

    /// Visits this node and all nodes below it.
    pub fn walk(&self, visit: &mut impl FnMut(&Expr)) {
        visit(self);
        self.each_child(&mut |child| child.walk(visit));
    }

    /// Visits the direct operands. An expression of an enclosing query is none of them.
    pub fn each_child(&self, f: &mut dyn FnMut(&Expr)) {
        match &self.kind {
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Column { .. }
            | ExprKind::Outer { .. }
            | ExprKind::Enclosing(..)
            | ExprKind::Aggregate(_)
            | ExprKind::Window(_)
            | ExprKind::UserVariable(_)
            | ExprKind::NewValue { .. } => {}
            ExprKind::Query(test) => test.left.iter().for_each(f),
            ExprKind::Call(_, args)
            | ExprKind::SessionCall(_, args)
            | ExprKind::Grouping(args)
            | ExprKind::And(args)
            | ExprKind::Or(args)
            | ExprKind::Coalesce(args) => args.iter().for_each(f),
            ExprKind::Compare(_, _, args)
            | ExprKind::Xor(args)
            | ExprKind::Benchmark(args)
            | ExprKind::NullIf(_, args)
            | ExprKind::Arith(_, args)
            | ExprKind::Bit(_, args)
            | ExprKind::Like { args, .. }
            | ExprKind::DateAdd { args, .. } => args.iter().for_each(f),
            ExprKind::Between { args, .. } => args.iter().for_each(f),
            ExprKind::Not(arg)
            | ExprKind::Is { arg, .. }
            | ExprKind::Negate(arg)
            | ExprKind::BitNot(arg)
            | ExprKind::Cast(arg)
            | ExprKind::CastArray(arg)
            | ExprKind::ArrayKeys(_, arg)
            | ExprKind::Extract(_, arg)
            | ExprKind::AssignVariable(_, arg) => f(arg),
            ExprKind::ArrayTest(test) => {
                let ArrayTest {
                    condition,
                    column,
                    keys,
                } = test.as_ref();
                [condition, column, keys].into_iter().for_each(f);
            }
            ExprKind::TextMatch(found) => {
                found.columns.iter().for_each(&mut *f);
                f(&found.against);
            }
            ExprKind::In { arg, list, .. } => {
                f(arg);
                list.iter().for_each(|(_, item)| f(item));
            }
            ExprKind::Case { whens, otherwise } => {
                for when in whens {
                    f(&when.condition);
                    f(&when.result);
                }
                if let Some(otherwise) = otherwise {
                    f(otherwise);
                }
            }
        }
    }
}

/// The conversion from storage to SQL for a type.
pub fn load_of(ty: &ColumnType) -> Load {
    match ty.kind {
        Kind::Timestamp => Load::Timestamp,
        Kind::Enum => Load::Enum,
        Kind::Set => Load::Set,
        _ => Load::Plain,
    }
}
