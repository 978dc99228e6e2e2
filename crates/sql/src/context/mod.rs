//! The context of a statement: server, client, account, variables, diagnostics and temporary tables
//! of its session.
//!
//! Definitions, account statements, privilege checks, SHOW and information_schema take a
//! [`StatementContext`] and nothing else of a session: they have no access to its transaction,
//! prepared statements and plans.

mod account;
mod diagnostics;
pub(crate) mod rights;
mod routines;
mod temporary;
mod variables;

use crate::client::{ClientInfo, Compression, Encryption};
use crate::server::SqlServer;
use crate::status::SessionCounters;
use crate::vars::{Settings, Values};
use porpoise_access::{AuthId, Rights};
use porpoise_rows::changes::LoggedStatement;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_expr::expr::eval::Env;
use porpoise_sql_parser::Deprecation;
use porpoise_sql_parser::ast::TableName;
use porpoise_types::{Level, Value, Warning};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

pub(crate) use diagnostics::Diagnostics;
pub(crate) use porpoise_sql_expr::lex_mode::lex_mode;
pub(crate) use temporary::Temporary;

/// State of a session that its statements read.
pub struct StatementContext {
    pub(crate) server: Arc<SqlServer>,
    pub(crate) client: ClientInfo,
    pub(crate) encryption: Encryption,
    pub(crate) compression: Compression,
    /// Version of access control in which the account has the name in `client`; RENAME USER changes both.
    pub(crate) named_at: u64,
    pub(crate) env: Env,
    pub(crate) values: Values,
    pub(crate) settings: Settings,
    /// Rights of the account, cached for a version of access control.
    pub(crate) rights: RefCell<Arc<Rights>>,
    /// Whether the session is the server's own and has all privileges.
    pub(crate) is_system: bool,
    /// Whether the password has expired: only statements that change it are allowed.
    pub(crate) password_expired: bool,
    /// Active roles, set by the login or by SET ROLE.
    pub(crate) roles: Vec<AuthId>,
    pub(crate) diagnostics: Diagnostics,
    /// Inputs and outputs of the planner besides the plan.
    pub(crate) planning: Planning,
    /// The session's temporary tables.
    pub(crate) temporary: Temporary,
    pub(crate) last_insert_id: u64,
    /// The session's status variables.
    pub(crate) counters: Arc<SessionCounters>,
    /// The current statement on accounts for the change log, if it is logged. Its text is empty if it may contain a
    /// password.
    pub(crate) account_statement: Option<LoggedStatement>,
}

/// Inputs and outputs of the planner, besides the plan, for the statement being planned.
#[derive(Default)]
pub(crate) struct Planning {
    /// Whether a plan made since this was cleared is valid for one execution only: the planner read
    /// a variable or the value of a literal, or warned about a hint.
    pub(crate) volatile: Cell<bool>,
    /// Whether a plan made since this was cleared depends on values of parameters.
    pub(crate) uses_parameters: Cell<bool>,
    /// Whether the parameters being bound are variables of a program.
    pub(crate) binds_variables: Cell<bool>,
    /// Values of the parameters of the statement that is planned, if a histogram may use them.
    pub(crate) parameters: RefCell<Vec<Value>>,
    /// Whether a plan made since this was cleared calls a stored function.
    pub(crate) calls_functions: Cell<bool>,
    /// The stored functions that the text being planned names itself, by database and name, while they
    /// are recorded.
    pub(crate) named_functions: RefCell<Option<Vec<(String, String)>>>,
    /// Number of partial join orders that were examined for the last planned query.
    pub(crate) partial_plans: Cell<u64>,
    /// Whether the plan is for EXPLAIN.
    pub(crate) explaining: Cell<bool>,
}

impl StatementContext {
    /// Clears the state that [`Self::may_keep_plan`] evaluates; called before planning.
    pub(crate) fn begin_plan(&self) {
        self.planning.volatile.set(false);
        self.planning.uses_parameters.set(false);
    }

    /// Whether the plan made since [`Self::begin_plan`] is valid for other executions, with other
    /// values of parameters.
    pub(crate) fn may_keep_plan(&self) -> bool {
        !self.planning.volatile.get() && !self.planning.uses_parameters.get()
    }

    /// Resolves a table name to database and name.
    ///
    /// # Errors
    /// 1046 without a default database.
    pub(crate) fn qualified(&self, name: &TableName<'_>) -> Result<(String, String)> {
        let database = match (&name.schema, &self.env.database) {
            (Some(schema), _) => schema.name.to_owned(),
            (None, Some(database)) => database.clone(),
            (None, None) => return Err(SqlError::no_database_selected()),
        };
        Ok((database, name.name.name.to_owned()))
    }

    /// Adds a warning.
    pub(crate) fn warn(&self, code: u16, message: String) {
        self.env.warn(Warning {
            level: Level::Warning,
            code,
            message,
        });
    }

    /// Adds the warnings about deprecated syntax.
    pub(crate) fn warn_deprecated(&self, deprecated: &[Deprecation<'_>]) {
        for (code, message) in deprecated.iter().filter_map(Deprecation::warning) {
            self.warn(code, message);
        }
    }

    /// Adds a note.
    pub(crate) fn note(&self, code: u16, message: String) {
        self.env.warn(Warning {
            level: Level::Note,
            code,
            message,
        });
    }
}
