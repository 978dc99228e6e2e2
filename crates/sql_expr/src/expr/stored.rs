//! Calls of stored functions in expressions.
//!
//! Expressions know a function by its name and types. Its body is run by the session, which
//! [`super::query::RunQueries`] reaches: so a call is possible wherever a subquery is, and planning
//! treats it as one that is not deterministic ([`super::Expr::has_subquery`]).

use porpoise_types::ColumnType;

/// A stored function, as an expression calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFunction {
    /// The database.
    pub database: String,
    /// The name.
    pub name: String,
    /// Number of its parameters.
    pub parameters: usize,
    /// The type of its result.
    pub returns: ColumnType,
}
