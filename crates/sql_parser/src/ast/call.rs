//! Function calls, and functions with their own syntax.

use super::{ColumnName, DataType, Expr, Ident, IntervalUnit, Literal, OrderItem, Window};

/// A call of a function.
///
/// `POSITION(a IN b)` is `LOCATE(a, b)`, `SUBSTRING(a FROM b FOR c)` is `SUBSTRING(a, b, c)`, and
/// functions called without parentheses, such as `CURRENT_DATE`, have no arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Func<'a> {
    /// Schema of a stored function, if given.
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

/// The side at which TRIM trims.
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
    /// The side to trim.
    pub side: TrimSide,
    /// The text to remove; spaces if not given.
    pub what: Option<Expr<'a>>,
    /// The text to trim.
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

/// `WEIGHT_STRING(expr [AS CHAR(n) | AS BINARY(n)])`, `WEIGHT_STRING(expr, bytes, chars, flags)`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightString<'a> {
    /// The text.
    pub expr: Expr<'a>,
    /// `AS BINARY(n)`: n bytes; otherwise `AS CHAR(n)`: n characters.
    pub binary: bool,
    /// n, if given.
    pub length: Option<u64>,
    /// Length of the result, number of characters, and flags, if given.
    pub limits: Option<[u64; 3]>,
}

/// The response of a JSON function ON EMPTY or ON ERROR.
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
    /// The response if nothing is found.
    pub on_empty: Option<JsonOnResponse<'a>>,
    /// The response if the value cannot be converted.
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
    /// The unit.
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
    /// The columns to search.
    pub columns: &'a [ColumnName<'a>],
    /// The text to search for.
    pub against: Expr<'a>,
    /// The search mode.
    pub mode: MatchMode,
}
