//! Calls of functions, and functions with a syntax of their own.

use super::{ColumnName, DataType, Expr, Ident, IntervalUnit, Literal, OrderItem, Window};

/// A call of a function.
///
/// `POSITION(a IN b)` is `LOCATE(a, b)`, `SUBSTRING(a FROM b FOR c)` is `SUBSTRING(a, b, c)`, and
/// words that call without parentheses, as `CURRENT_DATE`, have no arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Func<'a> {
    /// Schema of a stored function, where given.
    pub schema: Option<Ident<'a>>,
    /// The name as written.
    pub name: Ident<'a>,
    /// The arguments.
    pub args: &'a [Expr<'a>],
    /// `COUNT(*)`
    pub star: bool,
    /// `DISTINCT` before the arguments.
    pub distinct: bool,
    /// `ORDER BY` inside GROUP_CONCAT.
    pub order_by: &'a [OrderItem<'a>],
    /// `SEPARATOR` inside GROUP_CONCAT.
    pub separator: Option<&'a [u8]>,
    /// `FROM LAST` of NTH_VALUE.
    pub from_last: bool,
    /// `IGNORE NULLS`
    pub ignore_nulls: bool,
    /// `OVER ...`
    pub over: Option<&'a Window<'a>>,
}

/// Where TRIM trims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimSide {
    /// On both sides.
    Both,
    /// At the start.
    Leading,
    /// At the end.
    Trailing,
}

/// `TRIM`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trim<'a> {
    /// Where.
    pub side: TrimSide,
    /// Text that is trimmed off, spaces if not given.
    pub what: Option<Expr<'a>>,
    /// From which text.
    pub from: Expr<'a>,
}

/// `CHAR(args USING charset)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CharUsing<'a> {
    /// The codes.
    pub args: &'a [Expr<'a>],
    /// The character set of the result.
    pub charset: Ident<'a>,
}

/// `WEIGHT_STRING(expr [AS CHAR(n) | AS BINARY(n)])`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightString<'a> {
    /// The text.
    pub expr: Expr<'a>,
    /// `AS BINARY(n)`: n bytes; otherwise `AS CHAR(n)`: n characters.
    pub binary: bool,
    /// n, where given.
    pub length: Option<u64>,
}

/// Value of JSON functions ON EMPTY or ON ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonOnResponse<'a> {
    /// `ERROR`
    Error,
    /// `NULL`
    Null,
    /// `DEFAULT literal`
    Default(Literal<'a>),
}

/// `JSON_VALUE(doc, path [RETURNING ty] [on_empty ON EMPTY] [on_error ON ERROR])`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JsonValue<'a> {
    /// The document.
    pub doc: Expr<'a>,
    /// The path.
    pub path: &'a [u8],
    /// The result's type.
    pub returning: Option<DataType<'a>>,
    /// When nothing is found.
    pub on_empty: Option<JsonOnResponse<'a>>,
    /// When it cannot be converted.
    pub on_error: Option<JsonOnResponse<'a>>,
}

/// `column -> path`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JsonPath<'a> {
    /// The column.
    pub column: &'a ColumnName<'a>,
    /// The path.
    pub path: &'a [u8],
    /// `->>`
    pub unquote: bool,
}

/// `TIMESTAMPADD(unit, a, b)` or `TIMESTAMPDIFF(unit, a, b)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimestampArith<'a> {
    /// TIMESTAMPDIFF
    pub diff: bool,
    /// In which unit.
    pub unit: IntervalUnit,
    /// The first argument after the unit.
    pub a: Expr<'a>,
    /// The second.
    pub b: Expr<'a>,
}

/// A temporal type, as GET_FORMAT names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemporalKind {
    /// DATE
    Date,
    /// TIME
    Time,
    /// DATETIME or TIMESTAMP
    DateTime,
}

/// Search mode of MATCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchMode {
    /// IN NATURAL LANGUAGE MODE
    NaturalLanguage,
    /// IN NATURAL LANGUAGE MODE WITH QUERY EXPANSION
    QueryExpansion,
    /// IN BOOLEAN MODE
    Boolean,
}

/// `MATCH (columns) AGAINST (against mode)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match<'a> {
    /// The columns searched.
    pub columns: &'a [ColumnName<'a>],
    /// Searched text.
    pub against: Expr<'a>,
    /// How.
    pub mode: MatchMode,
}
