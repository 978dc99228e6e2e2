//! Checks of statements against the rights of the session's account.
//!
//! Statements that run a plan are checked at each execution, by the tables of the plan;
//! all others when they are dispatched, by the table of [`super::requirements`].

use super::requirements::Requirement;
use crate::error::{Result, SqlError};
use crate::parse::ast::Statement;
use crate::plan::dml::{NewValue, Target};
use crate::plan::{Access, Step};
use crate::session::SqlSession;
use crate::session::run::{Plan, Planned, Through};
use porpoise_access::Privileges;
use porpoise_kv::LockMode;
use porpoise_rows::InsertMode;

/// Whether new values are computed from columns of the row in slot 0.
fn reads_values(set: &[(usize, NewValue)]) -> bool {
    let mut values = set.iter();
    values.any(|(_, value)| match value {
        NewValue::Expr(e) => e.slots() & 1 != 0,
        NewValue::Default => false,
    })
}

/// Whether an UPDATE or DELETE reads columns of its table: to find rows, or for new values.
fn reads_columns(target: &Target, set: &[(usize, NewValue)]) -> bool {
    if reads_values(set) {
        return true;
    }
    let all = matches!(target.step.access, Access::Full { .. });
    !all || !target.step.filter.is_empty() || !target.order_by.is_empty()
}

impl SqlSession {
    /// Checks an execution of a plan.
    pub(crate) fn check_plan(&self, planned: &Planned) -> Result<()> {
        if self.may_everything() {
            return Ok(());
        }
        let (first, read_too) = match &planned.plan {
            Plan::Select(_) => (Privileges::SELECT, false),
            Plan::Insert(plan) => {
                let mut wanted = Privileges::INSERT;
                if matches!(plan.mode, InsertMode::Replace) {
                    wanted = wanted.with(Privileges::DELETE);
                }
                if !plan.on_duplicate.is_empty() {
                    wanted = wanted.with(Privileges::UPDATE);
                }
                (wanted, reads_values(&plan.on_duplicate))
            }
            Plan::Update(plan) => (Privileges::UPDATE, reads_columns(&plan.target, &plan.set)),
            Plan::Multi(plan) if plan.delete => (Privileges::DELETE, true),
            Plan::Multi(_) => (Privileges::UPDATE, true),
            Plan::Delete(plan) => (Privileges::DELETE, reads_columns(&plan.target, &[])),
        };
        if let Some(through) = &planned.through {
            self.check_through(planned, through, first)?;
        }
        for (table, writes) in &planned.tables {
            let own = |t: &Through| {
                let mut names = t.names.iter();
                names.any(|(d, n)| *d == table.database && *n == table.name)
            };
            if planned.through.as_ref().is_some_and(|t| !own(t)) {
                // Only a view names it.
                continue;
            }
            if self.temporary.holds(table.id) {
                continue;
            }
            let wanted = match (writes, read_too) {
                (false, _) => Privileges::SELECT,
                (true, false) => first,
                (true, true) => first.with(Privileges::SELECT),
            };
            self.need_table(wanted, &table.database, &table.name)?;
        }
        self.check_locking(planned)
    }

    /// Privileges on views, and those of their definers on what they name.
    fn check_through(&self, planned: &Planned, through: &Through, first: Privileges) -> Result<()> {
        let written = planned.plan.written_views();
        for view in &through.views {
            let target = written.contains(&(view.database.as_str(), view.name.as_str()));
            let wanted = if target { first } else { Privileges::SELECT };
            if !view.inner {
                self.need_table(wanted, &view.database, &view.name)?;
            }
            for (database, name) in &view.names {
                let Some(definer) = &view.definer else {
                    self.need_table(wanted, database, name)?;
                    continue;
                };
                let known = crate::virtual_tables::find(database, name).is_some();
                let rights = self.server.access.rights(definer);
                if !known && !rights.on_table(database, name).has(wanted) {
                    return Err(SqlError::new(
                        1356,
                        "HY000",
                        format!(
                            "View '{}.{}' references invalid table(s) or column(s) or function(s) \
                             or definer/invoker of view lack rights to use them",
                            view.database, view.name
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks a statement that runs no plan, before anything of it runs.
    pub(crate) fn check_statement(&self, statement: &Statement<'_>) -> Result<()> {
        if self.may_everything() {
            return Ok(());
        }
        let wanted = self.requirements(statement)?;
        wanted.iter().try_for_each(|wanted| self.need(wanted))
    }

    fn need(&self, wanted: &Requirement) -> Result<()> {
        match wanted {
            Requirement::Global(wanted, shown) => self.need_global(*wanted, shown),
            Requirement::OneOfGlobal(some, shown) => {
                if self.rights().global().meets(*some) {
                    return Ok(());
                }
                self.need_global(*some, shown)
            }
            Requirement::Database(wanted, database) => self.need_database(*wanted, database),
            Requirement::Table(wanted, database, table) => {
                self.need_table(*wanted, database, table)
            }
            Requirement::VisibleDatabase(name) if self.rights().sees_database(name) => Ok(()),
            Requirement::VisibleDatabase(name) => Err(self.database_denied(name)),
            Requirement::VisibleTable(database, table) => self.need_visible(database, table),
        }
    }

    /// 1142 unless the account holds any privilege on the table.
    fn need_visible(&self, database: &str, table: &str) -> Result<()> {
        if self.rights().sees_table(database, table) {
            return Ok(());
        }
        self.need_table(Privileges::SELECT, database, table)
    }

    /// Takes the place of an error found while a statement was planned, if it would tell of
    /// tables that the account may not see: an unknown column is reported only of those.
    pub(crate) fn hide(&self, error: SqlError, names: &[(String, String)]) -> SqlError {
        if self.may_everything() {
            return error;
        }
        let stored = |(d, t): &&(String, String)| {
            self.temporary.table(d, t).is_none() && !crate::virtual_tables::is_database(d)
        };
        let names = names.iter().filter(stored);
        let mut denied = names.map(|(d, t)| self.need_visible(d, t));
        denied.find_map(Result::err).unwrap_or(error)
    }

    /// Checks EXPLAIN of a plan: SHOW VIEW on its views, and SELECT on their tables, which
    /// the output names.
    pub(crate) fn check_explain(&self, planned: &Planned) -> Result<()> {
        self.check_plan(planned)?;
        let views = planned.through.iter().flat_map(|through| &through.views);
        for view in views {
            let wanted = Privileges::SHOW_VIEW.with(Privileges::SELECT);
            let mut needs = vec![(wanted, &view.database, &view.name)];
            let names = view.names.iter();
            needs.extend(names.map(|(d, t)| (Privileges::SELECT, d, t)));
            for (wanted, database, table) in needs {
                if self.need_table(wanted, database, table).is_err() {
                    let text = "EXPLAIN/SHOW can not be issued; lacking privileges for \
                                underlying table";
                    return Err(SqlError::new(1345, "HY000", text));
                }
            }
        }
        Ok(())
    }

    /// 1142 for FOR UPDATE on tables that the account may only read: it needs UPDATE, DELETE
    /// or LOCK TABLES.
    fn check_locking(&self, planned: &Planned) -> Result<()> {
        let Plan::Select(plan) = &planned.plan else {
            return Ok(());
        };
        let exclusive = |s: &Step| {
            s.lock
                .as_ref()
                .is_some_and(|l| l.mode == LockMode::Exclusive)
        };
        if !plan.inner_locks && !plan.all_steps().any(exclusive) {
            return Ok(());
        }
        let named: Vec<(&str, &str)> = match &planned.through {
            Some(through) => {
                let names = through.names.iter();
                names.map(|(d, t)| (d.as_str(), t.as_str())).collect()
            }
            None => {
                let tables = planned.tables.iter().map(|(table, _)| table);
                let tables = tables.filter(|table| !self.temporary.holds(table.id));
                tables
                    .map(|t| (t.database.as_str(), t.name.as_str()))
                    .collect()
            }
        };
        let some = Privileges::UPDATE
            .with(Privileges::DELETE)
            .with(Privileges::LOCK_TABLES);
        for (database, table) in named {
            let known = crate::virtual_tables::find(database, table).is_some()
                || self.temporary.table(database, table).is_some();
            if !known && !self.rights().on_table(database, table).meets(some) {
                let text = format!(
                    "SELECT with locking clause command denied to user {} for table '{table}'",
                    self.client_name()
                );
                return Err(SqlError::new(1142, "42000", text));
            }
        }
        Ok(())
    }

    /// Whether this session may do all that can be granted.
    pub(crate) fn may_everything(&self) -> bool {
        self.rights().everywhere().has(Privileges::ALL)
    }
}
