//! From the parser's tree to bound expressions.
//!
//! Binding resolves names against the tables of a statement, works out every
//! expression's type, collation and way of comparison by MySQL's rules, and
//! folds what is constant. What comes out owns all it needs.
//!
//! Invariants:
//! 1. A name that fits two tables is 1052, one that fits none 1054, and the
//!    message says in which clause.
//! 2. Nothing here reads a row or takes a lock.

pub mod aggregate;
mod calls;
mod choices;
pub mod expr;
pub mod hints;
pub mod literal;
pub mod nodes;
pub mod query;
mod rows;
mod source;
mod special;
pub mod types;

pub use crate::virtual_tables::ScopeColumn;
pub use aggregate::{Aggregate, AggregateKind};
pub use source::{Derived, DerivedPlan, MergedView, Origin, Source};

use crate::error::{Result, SqlError};
use porpoise_types::{Collation, ColumnType, SqlMode};
use query::SubqueryPlanner;

/// A key to sort by.
#[derive(Clone, Debug)]
pub struct OrderKey {
    /// The value.
    pub expr: crate::expr::Expr,
    /// Whether the order is descending.
    pub desc: bool,
}

/// The tables whose columns an expression may name.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The tables; the position is the slot in a row.
    pub sources: Vec<Source>,
    /// Names reach no slot before this one: the ON of a join sees the tables
    /// that are joined, not those before a comma.
    pub first: usize,
    /// Columns that USING and NATURAL joined to their namesakes: found only
    /// with their table's name.
    pub hidden: Vec<(usize, usize)>,
}

/// Tables of one statement at most (MySQL's own limit is 61).
pub const MAX_TABLES: usize = 61;

impl Scope {
    /// One table.
    pub fn of(source: Source) -> Scope {
        Scope {
            sources: vec![source],
            ..Scope::default()
        }
    }

    /// Adds a table; 1066 when its name is taken.
    pub fn add(&mut self, source: Source) -> Result<usize> {
        let same = |s: &Source| {
            s.alias.eq_ignore_ascii_case(&source.alias) && s.database == source.database
        };
        if self.sources.iter().any(same) {
            let text = format!("Not unique table/alias: '{}'", source.alias);
            return Err(SqlError::new(1066, "42000", text));
        }
        if self.sources.len() >= MAX_TABLES {
            let text = "Too many tables; MySQL can only use 61 tables in a join";
            return Err(SqlError::new(1116, "HY000", text));
        }
        self.sources.push(source);
        Ok(self.sources.len() - 1)
    }

    /// Slot and position of a column; `place` goes into messages.
    pub fn resolve(
        &self,
        database: Option<&str>,
        table: Option<&str>,
        column: &str,
        place: &str,
    ) -> Result<(usize, usize)> {
        let mut found = None;
        for (slot, source) in self.sources.iter().enumerate().skip(self.first) {
            if table.is_some_and(|t| !t.eq_ignore_ascii_case(&source.alias))
                || database.is_some_and(|d| d != source.database)
            {
                continue;
            }
            let position = source
                .columns
                .iter()
                .position(|c| c.name.eq_ignore_ascii_case(column));
            let hidden = |p: &usize| table.is_none() && self.hidden.contains(&(slot, *p));
            if let Some(position) = position.filter(|p| !hidden(p)) {
                if found.is_some() {
                    return Err(SqlError::ambiguous(column, place));
                }
                found = Some((slot, position));
            }
        }
        found.ok_or_else(|| {
            let parts = [database, table, Some(column)];
            let name: Vec<&str> = parts.into_iter().flatten().collect();
            SqlError::unknown_column(&name.join("."), place)
        })
    }

    /// Whether the slot holds stored rows, whose values have to be loaded.
    pub fn is_stored(&self, slot: usize) -> bool {
        self.sources.get(slot).is_some_and(|s| s.table().is_some())
    }

    /// The column at a slot and position.
    pub fn column(&self, slot: usize, position: usize) -> Option<&ScopeColumn> {
        self.sources.get(slot)?.columns.get(position)
    }
}

/// Settings that binding depends on, besides names.
#[derive(Clone, Debug)]
pub struct BindEnv {
    /// The session's SQL mode.
    pub mode: SqlMode,
    /// `collation_connection`.
    pub collation: Collation,
    /// Types of the parameters, in order; fewer than there are when they are
    /// not known yet (PREPARE): the rest are text.
    pub params: Vec<ColumnType>,
    /// The default database.
    pub database: Option<String>,
    /// `div_precision_increment`.
    pub div_precision: u8,
}

/// Aggregates met while binding.
#[derive(Clone, Debug, Default)]
pub struct Aggregates {
    /// Those found, in order.
    pub list: Vec<Aggregate>,
}

impl Aggregates {
    /// Their arguments and sort keys.
    pub fn expressions(&self) -> impl Iterator<Item = &crate::expr::Expr> {
        let all = self.list.iter();
        all.flat_map(|a| a.args.iter().chain(a.order.iter().map(|k| &k.expr)))
    }
}

/// Binds expressions of one clause.
pub struct Binder<'s> {
    /// The tables.
    pub scope: &'s Scope,
    /// The rest.
    pub env: &'s BindEnv,
    /// The clause, for messages ("field list", "where clause", ...).
    pub place: &'static str,
    /// The list that aggregates are added to; `None` where they are not allowed (1111).
    pub aggregates: Option<&'s mut Aggregates>,
    /// VALUES(col) means the row to be inserted: columns of slot 0.
    pub values_allowed: bool,
    /// Values of system variables, by scope and name.
    pub system: &'s dyn SystemVariables,
    /// Select-list names that HAVING and ORDER BY may use: name and
    /// expression.
    pub aliases: &'s [(String, crate::expr::Expr)],
    /// Keys of GROUP BY, which HAVING prefers to names of the select list, and
    /// those to other columns.
    pub keys: Option<&'s [crate::expr::Expr]>,
    /// The planner of subqueries; `None` where none can stand.
    pub plan: Option<&'s dyn SubqueryPlanner>,
}

/// Stack that must be left to bind a subquery.
const STACK_RESERVE: usize = 256 * 1024;

/// 1436 when the stack does not allow for one more query inside the others.
pub fn check_stack() -> Result<()> {
    if porpoise_base::stack::remaining() < STACK_RESERVE {
        let text = "Thread stack overrun: queries are nested too deeply";
        return Err(SqlError::new(1436, "HY000", text));
    }
    Ok(())
}

/// Looks up `@@name` while binding.
pub trait SystemVariables: crate::statistics::Figures {
    /// The value and type of a variable; 1193 when there is none.
    fn get(&self, global: bool, name: &str) -> Result<crate::expr::Expr>;

    /// The type of the user variable of that name (small letters), where it has a value that is
    /// no text of the connection's collation.
    fn user_variable(&self, _name: &str) -> Option<ColumnType> {
        None
    }
}
