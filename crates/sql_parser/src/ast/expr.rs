//! Expressions.
//!
//! Invariants
//! 1. Parentheses have no node: grouping is in the shape of the tree.
//! 2. Consecutive operators of one precedence level form one flat [`ExprKind::Chain`] or
//!    [`ExprKind::Logical`]. So the height of a tree is bounded by the parser's depth limit,
//!    however long the text is, and visitors may recurse.
//! 3. `span` covers the expression's text without surrounding parentheses.
//!
//! Rejected: a deep left-leaning tree for `1 + 1 + ...`; with 50,000 terms every recursive walk
//! would overflow the stack.

use super::super::token::Span;
use super::{
    CharUsing, ColumnName, DataType, Func, Ident, JsonPath, JsonValue, Match, Query, TemporalKind,
    TimestampArith, Trim, WeightString,
};

/// An expression with its position in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expr<'a> {
    /// Kind and operands.
    pub kind: ExprKind<'a>,
    /// Position in the text.
    pub span: Span,
}

impl Expr<'_> {
    /// Whether the expression contains a subquery, in the places where one is found in practice;
    /// the binder rejects subqueries elsewhere.
    #[must_use]
    pub fn has_subquery(&self) -> bool {
        self.any(&|e| {
            matches!(
                e.kind,
                ExprKind::Subquery(_)
                    | ExprKind::Exists(_)
                    | ExprKind::InQuery(_)
                    | ExprKind::Quantified(_)
            )
        })
    }

    /// Whether the expression or a part of it, outside of subqueries, passes a test.
    pub fn any(&self, test: &dyn Fn(&Expr<'_>) -> bool) -> bool {
        use ExprKind as E;
        let any = |list: &[Expr<'_>]| list.iter().any(|e| e.any(test));
        if test(self) {
            return true;
        }
        match &self.kind {
            E::Unary(_, arg) => arg.any(test),
            E::Binary(b) => b.left.any(test) || b.right.any(test),
            E::Chain(c) => c.first.any(test) || c.rest.iter().any(|(_, e)| e.any(test)),
            E::Logical(_, args) | E::Row(args) => any(args),
            E::Is(is) => is.expr.any(test),
            E::Func(f) => any(f.args),
            E::Cast(c) => c.expr.any(test),
            E::InList(l) => l.expr.any(test) || any(l.list),
            E::Between(b) => [&b.expr, &b.low, &b.high].iter().any(|e| e.any(test)),
            E::Like(l) => l.expr.any(test) || l.pattern.any(test),
            E::AssignUserVar(a) => a.value.any(test),
            E::Case(c) => {
                c.operand.as_ref().is_some_and(|e| e.any(test))
                    || c.arms.iter().any(|(w, t)| w.any(test) || t.any(test))
                    || c.otherwise.as_ref().is_some_and(|e| e.any(test))
            }
            _ => false,
        }
    }
}

/// A literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal<'a> {
    /// `NULL` or `\N`.
    Null,
    /// `TRUE` or `FALSE`: the integer 1 or 0.
    Bool(bool),
    /// A whole number up to 18446744073709551615.
    Int(u64),
    /// A number with a period, or a whole number too large for 64 bits: its text.
    Decimal(&'a str),
    /// A number with an exponent: its text.
    Float(&'a str),
    /// A string, unescaped; adjacent strings are joined.
    String(&'a [u8]),
    /// A string with its own character set: `_latin1'x'`, `N'x'` (utf8mb3), `_binary X'00'`.
    Introduced(&'a IntroducedString<'a>),
    /// `x'4D'` or `0x4D`, decoded.
    Hex(&'a [u8]),
    /// `b'101'` or `0b101`, decoded, padded with zero bits on the left to whole bytes.
    Bit(&'a [u8]),
    /// `DATE '...'`.
    Date(&'a [u8]),
    /// `TIME '...'`.
    Time(&'a [u8]),
    /// `TIMESTAMP '...'`.
    Timestamp(&'a [u8]),
    /// `{d '...'}`, `{t '...'}` or `{ts '...'}`: a string if its text is no valid value of the type.
    Odbc(TemporalKind, &'a [u8]),
}

/// A string literal after an introducer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntroducedString<'a> {
    /// Name of the character set in lower case, without the underscore.
    pub charset: &'a str,
    /// The bytes, unescaped or decoded.
    pub bytes: &'a [u8],
}

/// Kinds of expressions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExprKind<'a> {
    /// A constant.
    Literal(Literal<'a>),
    /// A parameter, numbered from 0 in textual order: `?`, or a literal if literals are parsed as
    /// parameters.
    Param(u32),
    /// An optionally qualified column.
    Column(&'a ColumnName<'a>),
    /// `@name`, without the sign.
    UserVar(&'a [u8]),
    /// `@name := value`
    AssignUserVar(&'a AssignUserVar<'a>),
    /// `@@name`, `@@global.name`
    SystemVar(&'a SystemVar<'a>),
    /// A prefix operator.
    Unary(UnaryOp, &'a Expr<'a>),
    /// One infix operator.
    Binary(&'a Binary<'a>),
    /// Two or more infix operators of one precedence level, applied from left to right.
    Chain(&'a Chain<'a>),
    /// Two or more terms joined by AND, OR or XOR, from left to right.
    Logical(LogicalOp, &'a [Expr<'a>]),
    /// `IS [NOT] NULL`, TRUE, FALSE, UNKNOWN.
    Is(&'a Is<'a>),
    /// `[NOT] LIKE`
    Like(&'a Like<'a>),
    /// `[NOT] REGEXP`, `[NOT] RLIKE`
    Regexp(&'a Regexp<'a>),
    /// `[NOT] BETWEEN`
    Between(&'a Between<'a>),
    /// `[NOT] IN (a, b)`
    InList(&'a InList<'a>),
    /// `[NOT] IN (SELECT ...)`
    InQuery(&'a InQuery<'a>),
    /// `a MEMBER OF (b)`
    MemberOf(&'a MemberOf<'a>),
    /// `EXISTS (SELECT ...)`
    Exists(&'a Query<'a>),
    /// A query in parentheses, used as a value or as a row.
    Subquery(&'a Query<'a>),
    /// `a > ALL (SELECT ...)`, `a = ANY (SELECT ...)`
    Quantified(&'a Quantified<'a>),
    /// `(a, b)` or `ROW(a, b)`, two or more values.
    Row(&'a [Expr<'a>]),
    /// `CASE`
    Case(&'a Case<'a>),
    /// `d + INTERVAL 1 DAY` and equivalent functions.
    IntervalArith(&'a IntervalArith<'a>),
    /// `CAST(a AS type)`, `CONVERT(a, type)`
    Cast(&'a Cast<'a>),
    /// `CONVERT(a USING charset)`
    ConvertUsing(&'a ConvertUsing<'a>),
    /// `a COLLATE name`
    Collate(&'a Collate<'a>),
    /// A call in ordinary syntax, including aggregates and window functions.
    Func(&'a Func<'a>),
    /// `EXTRACT(unit FROM a)`
    Extract(IntervalUnit, &'a Expr<'a>),
    /// `TRIM([BOTH|LEADING|TRAILING] [x] FROM a)`, `TRIM(a)`
    Trim(&'a Trim<'a>),
    /// `CHAR(a, b USING charset)`
    CharUsing(&'a CharUsing<'a>),
    /// `WEIGHT_STRING(a AS CHAR(n))`
    WeightString(&'a WeightString<'a>),
    /// `JSON_VALUE(...)`
    JsonValue(&'a JsonValue<'a>),
    /// `column -> 'path'`, `column ->> 'path'`
    JsonPath(&'a JsonPath<'a>),
    /// `TIMESTAMPADD(unit, n, d)`, `TIMESTAMPDIFF(unit, a, b)`
    TimestampArith(&'a TimestampArith<'a>),
    /// `GET_FORMAT(DATE, 'USA')`
    GetFormat(TemporalKind, &'a Expr<'a>),
    /// `MATCH (a, b) AGAINST ('x')`
    Match(&'a Match<'a>),
    /// `DEFAULT(column)`
    DefaultOf(&'a ColumnName<'a>),
    /// The keyword DEFAULT as the value of an assignment.
    Default,
    /// `VALUES(column)` in ON DUPLICATE KEY UPDATE.
    ValuesOf(&'a ColumnName<'a>),
}

/// A prefix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-a`
    Neg,
    /// `+a`, which equals `a`; kept for the names of result columns.
    Plus,
    /// `~a`
    BitNot,
    /// `NOT a`, `!a`
    Not,
    /// `BINARY a`
    Binary,
}

/// An infix operator with two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
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
    /// `%`, `MOD`
    Mod,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
    /// `=`
    Eq,
    /// `<=>`
    NullSafeEq,
    /// `<>`, `!=`
    NotEq,
    /// `<`
    Less,
    /// `<=`
    LessEq,
    /// `>`
    Greater,
    /// `>=`
    GreaterEq,
    /// `||` under PIPES_AS_CONCAT.
    Concat,
    /// `SOUNDS LIKE`
    SoundsLike,
}

/// Operator between the terms of [`ExprKind::Logical`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogicalOp {
    /// `AND`, `&&`
    And,
    /// `OR`, `||`
    Or,
    /// `XOR`
    Xor,
}

/// One infix operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binary<'a> {
    /// The operator.
    pub op: BinaryOp,
    /// Its left operand.
    pub left: Expr<'a>,
    /// Its right operand.
    pub right: Expr<'a>,
}

/// `first op1 e1 op2 e2 ...`, meaning `((first op1 e1) op2 e2) ...`; always two or more operators.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chain<'a> {
    /// The leftmost operand.
    pub first: Expr<'a>,
    /// The operators with their right operands.
    pub rest: &'a [(BinaryOp, Expr<'a>)],
}

/// `@name := value`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AssignUserVar<'a> {
    /// The variable without the sign.
    pub name: &'a [u8],
    /// New value.
    pub value: Expr<'a>,
}

/// Scope of a system variable in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarScope {
    /// Not stated: the session's value, or the global one if there is none.
    Default,
    /// `GLOBAL`
    Global,
    /// `SESSION`, `LOCAL`
    Session,
    /// `PERSIST`, in SET only.
    Persist,
    /// `PERSIST_ONLY`, in SET only.
    PersistOnly,
}

/// `@@scope.component.name`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemVar<'a> {
    /// Scope.
    pub scope: VarScope,
    /// The part before the last period, such as `default` in `@@default.key_buffer_size`.
    pub component: Option<Ident<'a>>,
    /// The variable.
    pub name: Ident<'a>,
}

/// Operand of IS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsTest {
    /// `IS NULL`
    Null,
    /// `IS TRUE`
    True,
    /// `IS FALSE`
    False,
    /// `IS UNKNOWN`
    Unknown,
}

/// `expr IS [NOT] test`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Is<'a> {
    /// Tested expression.
    pub expr: Expr<'a>,
    /// The tested truth value, or NULL.
    pub test: IsTest,
    /// IS NOT
    pub not: bool,
}

/// `expr [NOT] LIKE pattern [ESCAPE escape]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Like<'a> {
    /// The text.
    pub expr: Expr<'a>,
    /// The pattern.
    pub pattern: Expr<'a>,
    /// The escape character, if given.
    pub escape: Option<Expr<'a>>,
    /// NOT LIKE
    pub not: bool,
}

/// `expr [NOT] REGEXP pattern`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regexp<'a> {
    /// The text.
    pub expr: Expr<'a>,
    /// The pattern.
    pub pattern: Expr<'a>,
    /// NOT REGEXP
    pub not: bool,
}

/// `expr [NOT] BETWEEN low AND high`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between<'a> {
    /// Tested expression.
    pub expr: Expr<'a>,
    /// Lower bound, included.
    pub low: Expr<'a>,
    /// Upper bound, included.
    pub high: Expr<'a>,
    /// NOT BETWEEN
    pub not: bool,
}

/// `expr [NOT] IN (list)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InList<'a> {
    /// Expression that is searched for.
    pub expr: Expr<'a>,
    /// The list to search; at least one item.
    pub list: &'a [Expr<'a>],
    /// NOT IN
    pub not: bool,
}

/// `expr [NOT] IN (query)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InQuery<'a> {
    /// Expression that is searched for.
    pub expr: Expr<'a>,
    /// The query whose rows are searched.
    pub query: &'a Query<'a>,
    /// NOT IN
    pub not: bool,
}

/// `expr MEMBER OF (array)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberOf<'a> {
    /// Expression that is searched for.
    pub expr: Expr<'a>,
    /// The JSON array.
    pub array: Expr<'a>,
}

/// `left op ALL (query)` or `left op ANY (query)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantified<'a> {
    /// A comparison.
    pub op: BinaryOp,
    /// The left operand.
    pub left: Expr<'a>,
    /// ALL; otherwise ANY or SOME.
    pub all: bool,
    /// The rows compared with.
    pub query: &'a Query<'a>,
}

/// `CASE [operand] WHEN a THEN b ... [ELSE c] END`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case<'a> {
    /// The value that the arms are compared with, if given.
    pub operand: Option<Expr<'a>>,
    /// Pairs of WHEN and THEN.
    pub arms: &'a [(Expr<'a>, Expr<'a>)],
    /// ELSE
    pub otherwise: Option<Expr<'a>>,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalUnit {
    /// MICROSECOND
    Microsecond,
    /// SECOND
    Second,
    /// MINUTE
    Minute,
    /// HOUR
    Hour,
    /// DAY
    Day,
    /// WEEK
    Week,
    /// MONTH
    Month,
    /// QUARTER
    Quarter,
    /// YEAR
    Year,
    /// SECOND_MICROSECOND
    SecondMicrosecond,
    /// MINUTE_MICROSECOND
    MinuteMicrosecond,
    /// MINUTE_SECOND
    MinuteSecond,
    /// HOUR_MICROSECOND
    HourMicrosecond,
    /// HOUR_SECOND
    HourSecond,
    /// HOUR_MINUTE
    HourMinute,
    /// DAY_MICROSECOND
    DayMicrosecond,
    /// DAY_SECOND
    DaySecond,
    /// DAY_MINUTE
    DayMinute,
    /// DAY_HOUR
    DayHour,
    /// YEAR_MONTH
    YearMonth,
}

/// `date + INTERVAL amount unit`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntervalArith<'a> {
    /// The date.
    pub date: Expr<'a>,
    /// Whether the amount is subtracted.
    pub subtract: bool,
    /// Amount.
    pub amount: Expr<'a>,
    /// The unit of the amount.
    pub unit: IntervalUnit,
}

/// `CAST(expr [AT TIME ZONE zone] AS ty [ARRAY])`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cast<'a> {
    /// Converted expression.
    pub expr: Expr<'a>,
    /// The type, one that CAST accepts; SIGNED is `BigInt`, UNSIGNED the same with `unsigned`.
    pub ty: DataType<'a>,
    /// `ARRAY`, for multi-valued indexes.
    pub array: bool,
    /// `AT TIME ZONE`
    pub time_zone: Option<&'a [u8]>,
}

/// `CONVERT(expr USING charset)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvertUsing<'a> {
    /// Converted expression.
    pub expr: Expr<'a>,
    /// The target character set.
    pub charset: Ident<'a>,
}

/// `expr COLLATE collation`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Collate<'a> {
    /// The text.
    pub expr: Expr<'a>,
    /// The collation's name.
    pub collation: Ident<'a>,
}
