//! Binder: from the syntax tree to bound expressions.
//!
//! Binding resolves names against the tables of a statement, derives the type, collation and
//! comparison rules of every expression as MySQL does, and folds constants. The result owns its
//! data.
//!
//! Invariants:
//! 1. An ambiguous name is error 1052, an unknown one 1054; the message names the clause.
//! 2. The binder neither reads rows nor takes locks.

pub mod aggregate;
mod calls;
mod choices;
pub mod column_types;
mod constants;
pub mod expr;
pub mod hints;
pub mod json_table;
pub mod literal;
pub mod nodes;
pub mod optimizer_hints;
pub mod query;
mod rows;
mod source;
pub mod special;
pub mod table_expression;
mod text_match;
pub mod types;
pub mod window;

pub use crate::virtual_tables::ScopeColumn;
pub use aggregate::{Aggregate, AggregateKind};
pub use source::{Derived, DerivedPlan, MergedView, Origin, References, Source};

use crate::error::{Result, SqlError};
use crate::expr::Expr;
use porpoise_types::{Collation, ColumnType, SqlMode};
use query::SubqueryPlanner;
use window::Windows;

/// A sort key.
#[derive(Clone, Debug)]
pub struct OrderKey {
    /// The expression to sort by.
    pub expr: Expr,
    /// Whether the order is descending.
    pub desc: bool,
}

/// The tables whose columns an expression may name.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The tables; the position is the slot in a row.
    pub sources: Vec<Source>,
    /// First slot that names can refer to: the ON of a join sees the joined tables, not those
    /// before a comma.
    pub first_visible: usize,
    /// Columns merged by USING and NATURAL JOIN: found only if qualified with their table's name.
    pub merged_columns: Vec<(usize, usize)>,
}

/// Maximum number of tables in one statement (61, as in MySQL).
pub const MAX_TABLES: usize = 61;

impl Scope {
    /// One table.
    pub fn of(source: Source) -> Scope {
        Scope {
            sources: vec![source],
            ..Scope::default()
        }
    }

    /// Adds a table. Error 1066 if its name is taken.
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

    /// Resolves a column to its slot and position; `clause` is the clause in error messages.
    pub fn resolve(
        &self,
        database: Option<&str>,
        table: Option<&str>,
        column: &str,
        clause: &str,
    ) -> Result<(usize, usize)> {
        let mut found = None;
        for (slot, source) in self.sources.iter().enumerate().skip(self.first_visible) {
            if table.is_some_and(|t| !t.eq_ignore_ascii_case(&source.alias))
                || database.is_some_and(|d| d != source.database)
            {
                continue;
            }
            let position = source
                .columns
                .iter()
                .position(|c| c.name.eq_ignore_ascii_case(column));
            let hidden = |p: &usize| {
                let merged = table.is_none() && self.merged_columns.contains(&(slot, *p));
                merged || source.is_hidden(*p)
            };
            if let Some(position) = position.filter(|p| !hidden(p)) {
                if found.is_some() {
                    return Err(SqlError::ambiguous(column, clause));
                }
                found = Some((slot, position));
            }
        }
        found.ok_or_else(|| {
            let parts = [database, table, Some(column)];
            let name: Vec<&str> = parts.into_iter().flatten().collect();
            SqlError::unknown_column(&name.join("."), clause)
        })
    }

    /// Makes all columns of these slots nullable: the inner side of an outer join.
    pub fn set_nullable(&mut self, slots: u64) {
        for (slot, source) in self.sources.iter_mut().enumerate() {
            if slots & 1 << (slot & 63) != 0 {
                source.columns.iter_mut().for_each(|c| c.nullable = true);
            }
        }
    }

    /// Whether the slot has stored rows, whose values must be loaded.
    pub fn is_stored(&self, slot: usize) -> bool {
        self.sources.get(slot).is_some_and(|s| s.table().is_some())
    }

    /// The expression of a computed column of a merged view.
    pub fn computed_at(&self, slot: usize, position: usize) -> Option<Expr> {
        let view = self.sources.get(slot)?.view.as_ref()?;
        view.computed_at(position, slot)
    }

    /// Whether no more than one table has this name, in whichever database.
    pub fn is_unique_name(&self, table: &str) -> bool {
        let same = |source: &&Source| source.alias.eq_ignore_ascii_case(table);
        self.sources.iter().filter(same).count() < 2
    }

    /// The name of the table in a slot and that of one of its columns; `None` for the result of a set
    /// operation, which has no name.
    pub fn qualified_name(&self, slot: usize, position: usize) -> Option<(String, String)> {
        let source = self.sources.get(slot).filter(|s| !s.alias.is_empty())?;
        let column = source.columns.get(position)?;
        Some((source.alias.clone(), column.name.clone()))
    }

    /// The column at a slot and position.
    pub fn column(&self, slot: usize, position: usize) -> Option<&ScopeColumn> {
        self.sources.get(slot)?.columns.get(position)
    }
}

/// Settings that affect binding, besides names.
#[derive(Clone, Debug)]
pub struct BindEnv {
    /// The session's SQL mode.
    pub mode: SqlMode,
    /// `collation_connection`.
    pub collation: Collation,
    /// Types of the parameters, in order. The list may be shorter while types are unknown
    /// (PREPARE): the remaining parameters are text.
    pub params: Vec<ColumnType>,
    /// Whether the parameters stand for variables of a program, whose collation counts like that of
    /// a column (manual, "Collation Coercibility in Expressions").
    pub params_are_variables: bool,
    /// The default database.
    pub database: Option<String>,
    /// `div_precision_increment`.
    pub div_precision: u8,
}

/// Aggregates and window functions found while binding.
#[derive(Clone, Debug, Default)]
pub struct Aggregates {
    /// The aggregates, in the order in which they were found.
    pub list: Vec<Aggregate>,
    /// The window functions.
    pub windows: Windows,
}

impl Aggregates {
    /// The arguments and sort keys of all aggregates and window functions.
    pub fn expressions(&self) -> impl Iterator<Item = &crate::expr::Expr> {
        let all = self.list.iter();
        let own = all.flat_map(|a| a.args.iter().chain(a.order.iter().map(|k| &k.expr)));
        own.chain(self.windows.expressions())
    }
}

/// Binds expressions of one clause.
pub struct Binder<'s> {
    /// The tables in scope.
    pub scope: &'s Scope,
    /// Settings.
    pub env: &'s BindEnv,
    /// The clause, for messages ("field list", "where clause", ...).
    pub clause: &'static str,
    /// The list to which aggregates are added; `None` where they are not allowed (1111).
    pub aggregates: Option<&'s mut Aggregates>,
    /// Whether the expression is within the arguments of an aggregate of this query, where another
    /// one is an error (1111).
    pub in_aggregate: bool,
    /// Whether window functions are allowed where aggregates are (3593): in the select list and
    /// ORDER BY.
    pub windows_allowed: bool,
    /// Whether VALUES(col) is allowed; it reads column `col` of slot 0, the row to be inserted.
    pub values_allowed: bool,
    /// Values of system variables.
    pub system: &'s dyn SystemVariables,
    /// Select-list aliases that HAVING and ORDER BY may use, with their expressions.
    pub aliases: &'s [(String, crate::expr::Expr)],
    /// Aliases of the select list before the item being bound, which only its subqueries may use.
    pub preceding_aliases: Option<&'s [(String, crate::expr::Expr)]>,
    /// Aliases of the item being bound and of those after it, which its subqueries cannot use (1247).
    pub later_aliases: &'s [&'s str],
    /// Keys of GROUP BY. HAVING prefers them to select-list aliases, and those to other columns.
    pub group_keys: Option<&'s [crate::expr::Expr]>,
    /// Plans subqueries; `None` where none are allowed.
    pub plan: Option<&'s dyn SubqueryPlanner>,
}

impl<'s> Binder<'s> {
    /// Creates the binder of a clause without aggregates, aliases and subqueries.
    pub fn new(
        scope: &'s Scope,
        env: &'s BindEnv,
        clause: &'static str,
        system: &'s dyn SystemVariables,
    ) -> Binder<'s> {
        Binder {
            scope,
            env,
            clause,
            aggregates: None,
            in_aggregate: false,
            windows_allowed: false,
            values_allowed: false,
            system,
            aliases: &[],
            preceding_aliases: None,
            later_aliases: &[],
            group_keys: None,
            plan: None,
        }
    }
}

/// Stack space that must be free to bind a subquery.
const STACK_RESERVE: usize = 256 * 1024;

/// Error 1436 if the stack has no room for another nested query.
pub fn check_stack() -> Result<()> {
    if porpoise_base::stack::remaining() < STACK_RESERVE {
        let text = "Thread stack overrun: queries are nested too deeply";
        return Err(SqlError::new(1436, "HY000", text));
    }
    Ok(())
}

/// Looks up `@@name` during binding.
pub trait SystemVariables: crate::statistics::StatisticsSource {
    /// The value and type of a variable. Error 1193 if it is unknown.
    fn get(&self, global: bool, name: &str) -> Result<crate::expr::Expr>;

    /// The stored function of this name.
    ///
    /// # Errors
    /// The errors of its definition.
    fn stored_function(
        &self,
        _name: &crate::expr::stored::FunctionName<'_>,
    ) -> Result<Option<std::sync::Arc<crate::expr::stored::StoredFunction>>> {
        Ok(None)
    }

    /// Whether a session runs [`BuiltIn`](crate::expr::stored::BuiltIn) functions for the expression, which
    /// calls one.
    fn runs_functions(&self) -> bool {
        false
    }

    /// The catalog without the session's temporary tables, which queries of views do not see; `None` if there are none.
    fn shared_catalog(&self) -> Option<std::sync::Arc<porpoise_rows::catalog::Catalog>> {
        None
    }

    /// Adds a warning about an optimizer hint to those of the statement.
    fn warn(&self, _code: u16, _message: String) {}

    /// The type of a user variable (name in lower case), if its value is not a text in the
    /// connection's collation.
    fn user_variable(&self, _name: &str) -> Option<ColumnType> {
        None
    }
}
