//! Which privileges a statement needs (manual, "Privileges Provided by
//! MySQL", and the section of each statement).
//!
//! Statements that run a plan are checked at each execution, by the tables of
//! the plan; all others when they are dispatched, by their names.

use crate::error::{Result, SqlError};
use crate::parse::ast::{
    Account, AlterAction, CreateTable, GrantOn, ShowWhat, Statement, TableName,
};
use crate::plan::Access;
use crate::plan::dml::Target;
use crate::session::SqlSession;
use crate::session::dispatch::qualified;
use crate::session::run::{Plan, Planned, Through};
use porpoise_access::Privileges;
use porpoise_rows::InsertMode;

/// Whether finding the rows of an UPDATE or DELETE looks at their columns.
fn reads_columns(target: &Target) -> bool {
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
                (wanted, false)
            }
            Plan::Update(plan) => (Privileges::UPDATE, reads_columns(&plan.target)),
            Plan::Multi(plan) if plan.delete => (Privileges::DELETE, true),
            Plan::Multi(_) => (Privileges::UPDATE, true),
            Plan::Delete(plan) => (Privileges::DELETE, reads_columns(&plan.target)),
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
        Ok(())
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

    fn need_named(&self, wanted: Privileges, name: &TableName<'_>) -> Result<()> {
        let (database, table) = qualified(self, name)?;
        self.need_table(wanted, &database, &table)
    }

    fn need_each(&self, wanted: Privileges, names: &[TableName<'_>]) -> Result<()> {
        names.iter().try_for_each(|n| self.need_named(wanted, n))
    }

    /// 1142 unless something may be done with the table.
    fn need_any(&self, name: &TableName<'_>) -> Result<()> {
        let (database, table) = qualified(self, name)?;
        let known = crate::virtual_tables::find(&database, &table).is_some();
        match known || self.rights().sees_table(&database, &table) {
            true => Ok(()),
            false => self.need_table(Privileges::SELECT, &database, &table),
        }
    }

    /// Checks a statement that runs no plan.
    pub(crate) fn check_statement(&self, statement: &Statement<'_>) -> Result<()> {
        if self.may_everything() {
            return Ok(());
        }
        match statement {
            Statement::CreateDatabase(create) => {
                self.need_database(Privileges::CREATE, create.name.name)
            }
            Statement::AlterDatabase(alter) => match alter.name {
                Some(name) => self.need_database(Privileges::ALTER, name.name),
                None => match &self.env.database {
                    Some(name) => self.need_database(Privileges::ALTER, name),
                    None => Err(SqlError::no_database_selected()),
                },
            },
            Statement::DropDatabase { name, .. } => self.need_database(Privileges::DROP, name.name),
            Statement::Use(name) => match self.rights().sees_database(name.name) {
                true => Ok(()),
                false => Err(self.database_denied(name.name)),
            },
            Statement::CreateTable(create) => self.need_create(create),
            Statement::AlterTable(alter) => {
                self.need_named(Privileges::ALTER, &alter.name)?;
                let renamed = alter.actions.iter().find_map(|action| match action {
                    AlterAction::Rename(to) => Some(to),
                    _ => None,
                });
                match renamed {
                    Some(to) => {
                        self.need_named(Privileges::DROP, &alter.name)?;
                        self.need_named(Privileges::CREATE.with(Privileges::INSERT), to)
                    }
                    None => Ok(()),
                }
            }
            Statement::DropTable(drop) => match drop.temporary {
                true => Ok(()),
                false => self.need_drop(drop.names),
            },
            Statement::DropView(drop) => self.need_each(Privileges::DROP, drop.names),
            Statement::CreateView(view) => self.need_named(Privileges::CREATE_VIEW, &view.name),
            Statement::RenameTable(pairs) => pairs.iter().try_for_each(|(old, new)| {
                self.need_named(Privileges::ALTER.with(Privileges::DROP), old)?;
                self.need_named(Privileges::CREATE.with(Privileges::INSERT), new)
            }),
            Statement::Truncate(name) => self.need_named(Privileges::DROP, name),
            Statement::CreateIndex(create) => self.need_named(Privileges::INDEX, &create.table),
            Statement::DropIndex(drop) => self.need_named(Privileges::INDEX, &drop.table),
            Statement::LockTables(tables) => tables.iter().try_for_each(|lock| {
                let (database, _) = qualified(self, &lock.table)?;
                self.need_database(Privileges::LOCK_TABLES, &database)?;
                self.need_named(Privileges::SELECT, &lock.table)
            }),
            Statement::Maintain(maintain) => {
                let wanted = Privileges::SELECT.with(Privileges::INSERT);
                self.need_each(wanted, maintain.tables)
            }
            Statement::Describe { table, .. } => self.need_any(table),
            Statement::Show(show) => self.check_show(&show.what),
            _ => self.check_administration(statement),
        }
    }

    fn need_create(&self, create: &CreateTable<'_>) -> Result<()> {
        if let Some(like) = &create.like {
            self.need_named(Privileges::SELECT, like)?;
        }
        if create.temporary {
            let (database, _) = qualified(self, &create.name)?;
            return self.need_database(Privileges::CREATE_TEMPORARY_TABLES, &database);
        }
        self.need_named(Privileges::CREATE, &create.name)
    }

    /// Temporary tables are dropped by whoever has them.
    fn need_drop(&self, names: &[TableName<'_>]) -> Result<()> {
        for name in names {
            let (database, table) = qualified(self, name)?;
            if self.temporary.table(&database, &table).is_none() {
                self.need_table(Privileges::DROP, &database, &table)?;
            }
        }
        Ok(())
    }

    fn check_show(&self, what: &ShowWhat<'_>) -> Result<()> {
        match what {
            ShowWhat::Columns { table, .. }
            | ShowWhat::Index { table, .. }
            | ShowWhat::CreateTable(table)
            | ShowWhat::CreateView(table) => self.need_any(table),
            ShowWhat::Tables {
                schema: Some(name), ..
            }
            | ShowWhat::TableStatus(Some(name)) => match self.rights().sees_database(name.name) {
                true => Ok(()),
                false => Err(self.database_denied(name.name)),
            },
            ShowWhat::CreateDatabase { name, .. } => match self.rights().sees_database(name.name) {
                true => Ok(()),
                false => Err(self.database_denied(name.name)),
            },
            ShowWhat::Engine(..) => self.need_global(Privileges::PROCESS, "PROCESS"),
            ShowWhat::Grants(Some(account), _) | ShowWhat::CreateUser(account) => {
                match self.is_own(account) {
                    true => Ok(()),
                    false => self.need_database(Privileges::SELECT, "mysql"),
                }
            }
            _ => Ok(()),
        }
    }

    fn is_own(&self, account: &Account<'_>) -> bool {
        let (user, host) = crate::users::named(self, account);
        format!("{user}@{host}") == self.client.account
    }

    fn check_administration(&self, statement: &Statement<'_>) -> Result<()> {
        let users = || self.need_global(Privileges::CREATE_USER, "CREATE USER");
        match statement {
            Statement::User(user) => {
                let own = user.alter
                    && user.options.is_empty()
                    && user.users.iter().all(|u| self.is_own(&u.account));
                if own { Ok(()) } else { users() }
            }
            Statement::SetPassword(set) => match &set.account {
                Some(account) if !self.is_own(account) => users(),
                _ => Ok(()),
            },
            Statement::DropUser { .. } | Statement::RenameUser(_) => users(),
            Statement::Role { create, .. } => {
                let (wanted, shown) = if *create {
                    (Privileges::CREATE_ROLE, "CREATE ROLE or CREATE USER")
                } else {
                    (Privileges::DROP_ROLE, "DROP ROLE or CREATE USER")
                };
                users().or_else(|_| self.need_global(wanted, shown))
            }
            Statement::SetRole(set) if set.default_to.iter().any(|a| !self.is_own(a)) => users(),
            // GRANT checks the privileges and roles that are granted itself.
            Statement::Grant(grant) => match &grant.on {
                Some(GrantOn::Program(..)) => users(),
                Some(_) | None => Ok(()),
            },
            Statement::Flush(_) | Statement::Reset(_) => {
                self.need_global(Privileges::RELOAD, "RELOAD")
            }
            Statement::Shutdown | Statement::Restart => {
                self.need_global(Privileges::SHUTDOWN, "SHUTDOWN")
            }
            Statement::LockInstance(_) | Statement::Plugin { .. } | Statement::Binlog(_) => {
                self.need_global(Privileges::SUPER, "SUPER")
            }
            _ => Ok(()),
        }
    }

    /// Whether this session may do all that can be granted.
    pub(crate) fn may_everything(&self) -> bool {
        self.rights().global().has(Privileges::ALL)
    }
}
