//! Calls of functions that the session runs: stored functions, and some built-in ones.
//!
//! Expressions know such a function by its name and types. The session, which
//! [`super::query::RunQueries`] reaches, runs it: so a call is possible wherever a subquery is, and planning
//! treats it as one that is not deterministic ([`super::Expr::has_subquery`]).

use porpoise_types::{Collation, ColumnType, Kind};
use std::any::Any;
use std::sync::Arc;

/// The name in a call of a stored function, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct FunctionName<'n> {
    /// The database, as written.
    pub schema: Option<&'n str>,
    /// The database of names without one.
    pub default_database: Option<&'n str>,
    /// The name.
    pub name: &'n str,
    /// See [`StoredFunction::invoker`].
    pub invoker: Option<&'n str>,
}

impl<'n> FunctionName<'n> {
    /// The database of the function.
    pub fn database(&self) -> Option<&'n str> {
        self.schema.or(self.default_database)
    }
}

/// A function that the session runs, as an expression calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFunction {
    /// A stored function.
    Stored(Arc<StoredFunction>),
    /// A built-in function that reads the session's accounts and directories.
    BuiltIn(BuiltIn),
}

/// A built-in function that the session evaluates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// LOAD_FILE()
    LoadFile,
    /// ROLES_GRAPHML()
    RolesGraphml,
}

impl BuiltIn {
    /// The name in calls.
    pub fn name(self) -> &'static str {
        match self {
            BuiltIn::LoadFile => "LOAD_FILE",
            BuiltIn::RolesGraphml => "ROLES_GRAPHML",
        }
    }

    /// The type of the result.
    pub fn returns(self) -> ColumnType {
        match self {
            BuiltIn::LoadFile => ColumnType::blob(Kind::LongBlob),
            BuiltIn::RolesGraphml => {
                ColumnType::text(Kind::LongText, Collation::UTF8MB4_0900_AI_CI)
            }
        }
    }
}

/// A stored function, as an expression calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFunction {
    /// The database.
    pub database: String,
    /// The name.
    pub name: String,
    /// The account that calls it, `user@host`: the definer of a view with SQL SECURITY DEFINER;
    /// `None` for that of the session.
    pub invoker: Option<String>,
    /// Number of its parameters.
    pub parameters: usize,
    /// The type of its result.
    pub returns: ColumnType,
    /// Its definition, for those who run it.
    pub definition: Definition,
}

/// The definition of a stored function, of a type that expressions do not know.
#[derive(Clone)]
pub struct Definition(pub Arc<dyn Any + Send + Sync>);

impl std::fmt::Debug for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Definition")
    }
}

impl PartialEq for Definition {
    fn eq(&self, other: &Definition) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Definition {}
