//! Checks of statements against the rights of the session's account.
//!
//! Statements that run a plan are checked at each execution, by the uses of tables and columns
//! recorded when the plan was made ([`porpoise_sql_plan::plan::uses`]); all others when they are
//! dispatched, by the table of [`super::requirements`].
//!
//! A use is allowed in one of two ways (manual, "Privileges Provided by MySQL", and the sections of
//! the statements):
//!
//! 1. the account has the wanted privileges on the table; or
//! 2. it has each wanted privilege on the table or on at least one of its columns, else 1142; and
//!    it has the privilege to read or write on each column that is read or written, else 1143. If
//!    the columns were not listed (`*`, INSERT without a list), the error is 1142, too.
//!
//! Tables and columns named in a view are checked with the rights of the view's definer; for SQL
//! SECURITY INVOKER, with those of the view or statement that names the view.

use super::requirements::Requirement;
use crate::context::StatementContext;
use crate::context::rights::denied_globally;
use porpoise_access::{Administration, Privileges, Rights, administration, routine_place};
use porpoise_kv::LockMode;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{ProgramKind, Statement};
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_sql_plan::plan::scan::Scan;
use porpoise_sql_plan::plan::sinks::Plan;
use porpoise_sql_plan::plan::uses::{Object, TableUse};
use std::sync::Arc;

/// A missing privilege.
enum Missing<'u> {
    /// The privilege to change the server's configuration.
    Administration(Administration),
    /// A privilege on a table.
    Table(&'static str),
    /// A privilege on a column.
    Column(&'static str, &'u str),
}

/// The first privilege for a use that these rights do not include.
fn first_missing<'u>(rights: &Rights, used: &'u TableUse) -> Option<Missing<'u>> {
    let own = rights.on_table(&used.database, &used.name);
    let all = used.privileges.with(used.on_columns());
    if let Some(needed) = administration(all, &used.database, &used.name)
        && !rights.global().has(needed.privilege)
    {
        return Some(Missing::Administration(needed));
    }
    if own.has(all) {
        return None;
    }
    let granted = rights.on_columns(&used.database, &used.name);
    let any = granted.map_or(Privileges::NONE, |columns| columns.on_any_column());
    let lacking = used.privileges.without(own).without(any);
    if let Some(name) = lacking.names().next() {
        return Some(Missing::Table(name));
    }
    for (column, wanted) in used.columns() {
        let held = granted.map_or(Privileges::NONE, |columns| columns.on(column));
        let lacking = wanted.without(own).without(held);
        if let Some(name) = lacking.names().next() {
            let listed = granted.is_none() || !used.privileges_on_all.intersects(lacking);
            return Some(if listed {
                Missing::Column(name, column)
            } else {
                Missing::Table(name)
            });
        }
    }
    None
}

/// The definer with whose rights a use is checked; `None` if these are the session's.
fn definer_of<'u>(uses: &'u [TableUse], used: &TableUse) -> Option<&'u str> {
    let mut enclosing = used.via_view.and_then(|at| uses.get(at));
    while let Some(view) = enclosing {
        if let Object::View {
            definer: Some(definer),
            ..
        } = &view.object
        {
            return Some(definer);
        }
        enclosing = view.via_view.and_then(|at| uses.get(at));
    }
    None
}

/// Cache of the rights of definers.
#[derive(Default)]
struct Definers<'u> {
    known: Vec<(&'u str, Arc<Rights>)>,
}

impl<'u> Definers<'u> {
    fn rights(&mut self, cx: &StatementContext, definer: &'u str) -> Arc<Rights> {
        if let Some((_, rights)) = self.known.iter().find(|(name, _)| *name == definer) {
            return rights.clone();
        }
        let rights = cx.server.access.rights(definer);
        self.known.push((definer, rights.clone()));
        rights
    }
}

impl StatementContext {
    /// Checks an execution of a plan.
    pub(crate) fn check_plan(&self, planned: &Planned) -> Result<()> {
        if self.has_all_privileges() {
            return Ok(());
        }
        self.check_uses(&planned.uses)?;
        self.check_locking(planned)
    }

    /// Checks all uses of a statement. A missing privilege on a column is reported only if none is
    /// missing on a table as a whole.
    fn check_uses(&self, uses: &[TableUse]) -> Result<()> {
        let own = self.rights();
        let mut definers = Definers::default();
        let mut first = None;
        for used in uses.iter().filter(|used| !self.needs_no_privilege(used)) {
            let definer = definer_of(uses, used);
            let of_definer = definer.map(|definer| definers.rights(self, definer));
            let rights = of_definer.as_ref().unwrap_or(&own);
            let Some(missing) = first_missing(rights, used) else {
                continue;
            };
            let on_column = matches!(missing, Missing::Column(..));
            let view = used.via_view.and_then(|at| uses.get(at));
            let error = match view.filter(|_| definer.is_some()) {
                Some(view) => invalid_view(view),
                None => self.refusal(used, &missing),
            };
            if !on_column {
                return Err(error);
            }
            first.get_or_insert(error);
        }
        first.map_or(Ok(()), Err)
    }

    /// Checks the uses that the statement itself names, with the rights of the session; uses inside
    /// its views are not checked.
    pub(crate) fn check_named(&self, uses: &[TableUse]) -> Result<()> {
        if self.has_all_privileges() {
            return Ok(());
        }
        let own = uses.iter().filter(|used| used.via_view.is_none());
        let own: Vec<TableUse> = own.cloned().collect();
        self.check_uses(&own)
    }

    /// Whether a use needs no privilege: that of a virtual table, or of the session's temporary
    /// table.
    fn needs_no_privilege(&self, used: &TableUse) -> bool {
        match &used.object {
            Object::Virtual => true,
            Object::Table(table) => self.temporary.contains_id(table.id),
            Object::Unknown | Object::View { .. } => false,
        }
    }

    fn refusal(&self, used: &TableUse, missing: &Missing<'_>) -> SqlError {
        match missing {
            Missing::Administration(needed) => denied_globally(needed.shown),
            Missing::Table(name) => self.table_denied(name, &used.name),
            Missing::Column(name, column) => self.column_denied(name, column, &used.name),
        }
    }

    /// Checks a statement that runs no plan, before it runs.
    pub(crate) fn check_statement(&self, statement: &Statement<'_>) -> Result<()> {
        if self.has_all_privileges() {
            return Ok(());
        }
        let wanted = self.requirements(statement)?;
        wanted
            .iter()
            .try_for_each(|wanted| self.check_requirement(wanted))
    }

    fn check_requirement(&self, wanted: &Requirement) -> Result<()> {
        match wanted {
            Requirement::Global(wanted, shown) => self.need_global(*wanted, shown),
            Requirement::OneOfGlobal(some, shown) => {
                if self.rights().global().intersects(*some) {
                    return Ok(());
                }
                self.need_global(*some, shown)
            }
            Requirement::Database(wanted, database) => self.need_database(*wanted, database),
            Requirement::Table(wanted, database, table) => {
                self.need_table(*wanted, database, table)
            }
            Requirement::AnyColumn(wanted, database, table) => {
                let held = self.rights().on_any_column(database, table);
                if held.has(*wanted) {
                    Ok(())
                } else {
                    self.need_table(*wanted, database, table)
                }
            }
            Requirement::Columns(wanted, database, table, columns) => {
                self.need_columns(*wanted, database, table, columns)
            }
            Requirement::Definition(database, table) => self.need_definition(database, table),
            Requirement::VisibleDatabase(name) if self.rights().sees_database(name) => Ok(()),
            Requirement::VisibleDatabase(name) => Err(self.database_denied(name)),
            Requirement::VisibleTable(database, table) => self.need_visible(database, table),
            Requirement::AlterRoutine(kind, database, name) => {
                let is_function = *kind == ProgramKind::Function;
                self.need_routine(
                    Privileges::ALTER_ROUTINE,
                    "alter routine",
                    (is_function, database, name),
                )
            }
        }
    }

    /// Error 1370 unless the account has the privilege on a procedure or function.
    pub(crate) fn need_routine(
        &self,
        wanted: Privileges,
        command: &str,
        (is_function, database, name): (bool, &str, &str),
    ) -> Result<()> {
        let place = routine_place(is_function, name);
        if self.rights().on_table(database, &place).has(wanted) {
            return Ok(());
        }
        let text = format!(
            "{command} command denied to user {} for routine '{database}.{name}'",
            self.client_name()
        );
        Err(SqlError::new(1370, "42000", text))
    }

    /// Error 1142 unless the account has the privileges on the table or some column; 1143 unless it
    /// has them on each of `columns`. If `columns` is empty, it must have them on the table.
    fn need_columns(
        &self,
        wanted: Privileges,
        database: &str,
        table: &str,
        columns: &[String],
    ) -> Result<()> {
        let rights = self.rights();
        let held = rights
            .on_columns(database, table)
            .map(|c| c.on_any_column());
        if columns.is_empty() || !held.is_some_and(|held| held.has(wanted)) {
            return self.need_table(wanted, database, table);
        }
        for column in columns {
            let lacking = wanted.without(rights.on_column(database, table, column));
            if let Some(name) = lacking.names().next() {
                return Err(self.column_denied(name, column, table));
            }
        }
        Ok(())
    }

    /// Error 1142 unless the account has any privilege on the table as a whole.
    fn need_definition(&self, database: &str, table: &str) -> Result<()> {
        let rights = self.rights();
        let hidden = rights.on_columns(database, table).is_some()
            && !rights
                .on_table(database, table)
                .intersects(Privileges::TABLE);
        if hidden {
            Err(self.table_denied("SHOW", table))
        } else {
            self.need_visible(database, table)
        }
    }

    /// Error 1142 unless the account has any privilege on the table or one of its columns.
    fn need_visible(&self, database: &str, table: &str) -> Result<()> {
        if self.rights().sees_table(database, table) {
            return Ok(());
        }
        self.need_table(Privileges::SELECT, database, table)
    }

    /// Replaces a planning error that would reveal tables that the account may not see. An unknown
    /// column is reported only if the account may see the tables.
    pub(crate) fn hide_unauthorized(
        &self,
        error: SqlError,
        names: &[(String, String)],
    ) -> SqlError {
        if self.has_all_privileges() {
            return error;
        }
        let stored = |(d, t): &&(String, String)| {
            self.temporary.table(d, t).is_none()
                && !porpoise_sql_plan::virtual_tables::is_database(d)
        };
        let names = names.iter().filter(stored);
        let mut denied = names.map(|(d, t)| self.need_visible(d, t));
        denied.find_map(Result::err).unwrap_or(error)
    }

    /// Checks EXPLAIN of a plan: SHOW VIEW on its views, and SELECT on their tables, whose names
    /// the output shows.
    pub(crate) fn check_explain(&self, planned: &Planned) -> Result<()> {
        self.check_plan(planned)?;
        let uses = &planned.uses;
        let views = uses
            .iter()
            .filter(|u| matches!(u.object, Object::View { .. }));
        let mut views = views.map(|view| {
            let wanted = Privileges::SHOW_VIEW;
            self.need_table(wanted, &view.database, &view.name)
        });
        let rights = self.rights();
        let inner = |used: &&TableUse| used.via_view.is_some() && !self.needs_no_privilege(used);
        let mut inner = uses.iter().filter(inner);
        if views.any(|view| view.is_err())
            || inner.any(|used| first_missing(&rights, used).is_some())
        {
            let text = "EXPLAIN/SHOW can not be issued; lacking privileges for underlying table";
            return Err(SqlError::new(1345, "HY000", text));
        }
        Ok(())
    }

    /// Error 1142 for FOR UPDATE on tables that the account may only read: it needs UPDATE, DELETE
    /// or LOCK TABLES.
    fn check_locking(&self, planned: &Planned) -> Result<()> {
        let Plan::Select(plan) = &planned.plan else {
            return Ok(());
        };
        let exclusive = |scan: &Scan| {
            let lock = scan.lock();
            lock.is_some_and(|lock| lock.mode == LockMode::Exclusive)
        };
        if !plan.has_nested_locks && !plan.any_scan(exclusive) {
            return Ok(());
        }
        let some = Privileges::UPDATE
            .with(Privileges::DELETE)
            .with(Privileges::LOCK_TABLES);
        let named = planned.uses.iter().filter(|used| used.via_view.is_none());
        for used in named.filter(|used| !self.needs_no_privilege(used)) {
            let (database, table) = (&used.database, &used.name);
            if !self
                .rights()
                .on_any_column(database, table)
                .intersects(some)
            {
                return Err(self.table_denied("SELECT with locking clause", table));
            }
        }
        Ok(())
    }
}

/// Error 1356: invalid view.
fn invalid_view(view: &TableUse) -> SqlError {
    let text = format!(
        "View '{}.{}' references invalid table(s) or column(s) or function(s) or definer/invoker \
         of view lack rights to use them",
        view.database, view.name
    );
    SqlError::new(1356, "HY000", text)
}
