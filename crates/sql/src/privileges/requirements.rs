//! The table of requirements: the privileges that each statement needs, and on which
//! objects (manual, "Privileges Provided by MySQL", and the section of each statement).
//!
//! [`StatementContext::requirements`] is a match over [`Statement`] without a wildcard arm, so a new
//! statement does not compile without its requirements. Text, prepared and re-executed statements
//! all pass it. [`super::kinds`] has examples of each kind for the test matrix.
//!
//! Statements with a plan (SELECT, DML, DO, SET with subqueries) have no requirements here:
//! [`super::checks`] checks the tables of the plan at every execution.

use crate::context::StatementContext;
use porpoise_access::{AuthId, Privileges};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{
    Account, AlterAction, AlterTable, CreateTable, CreateView, Flush, FlushWhat, ForeignKeyDef,
    HandlerAction, Into, Maintain, MaintainKind, PartitionMaintenance, ProgramKind, Query,
    ReplicaStatement, ShowWhat, Statement, TableElement, TableName, VarScope, Xa,
};

/// Privileges on one object.
#[derive(Clone, Debug)]
pub(crate) enum Requirement {
    /// All of these on `*.*`; the text is the privilege that error 1227 names.
    Global(Privileges, &'static str),
    /// One of these on `*.*`.
    OneOfGlobal(Privileges, &'static str),
    /// All of these on a database.
    Database(Privileges, String),
    /// All of these on a table or view.
    Table(Privileges, String, String),
    /// All of these on a table, or on some of its columns.
    AnyColumn(Privileges, String, String),
    /// All of these on each of the columns of a table.
    Columns(Privileges, String, String, Vec<String>),
    /// Any privilege on a table as a whole.
    Definition(String, String),
    /// Any privilege on a database or on something in it.
    VisibleDatabase(String),
    /// Any privilege on a table or view.
    VisibleTable(String, String),
    /// ALTER ROUTINE on a procedure or function.
    AlterRoutine(ProgramKind, String, String),
}

use Requirement::{
    AnyColumn, Columns, Database, Definition, Global, OneOfGlobal, Table, VisibleDatabase,
    VisibleTable,
};

type Requirements = Result<Vec<Requirement>>;

fn super_user() -> Requirement {
    Global(Privileges::SUPER, "SUPER")
}

fn replica_administrator() -> Requirement {
    Global(
        Privileges::REPLICATION_SLAVE_ADMIN,
        "SUPER or REPLICATION_SLAVE_ADMIN",
    )
}

fn create_user() -> Requirement {
    Global(Privileges::CREATE_USER, "CREATE USER")
}

/// The privileges for changing a password: of the session's own or another account, the first
/// or the second one.
fn password_requirements(own_account: bool, second_password: bool) -> Vec<Requirement> {
    match (own_account, second_password) {
        (true, false) => Vec::new(),
        (true, true) => vec![OneOfGlobal(
            Privileges::CREATE_USER.with(Privileges::APPLICATION_PASSWORD_ADMIN),
            "CREATE USER or APPLICATION_PASSWORD_ADMIN",
        )],
        (false, _) => vec![create_user()],
    }
}

fn program(kind: ProgramKind, database: String) -> Requirement {
    let wanted = match kind {
        ProgramKind::Trigger => Privileges::TRIGGER,
        ProgramKind::Event => Privileges::EVENT,
        ProgramKind::Procedure | ProgramKind::Function => Privileges::CREATE_ROUTINE,
    };
    Database(wanted, database)
}

impl StatementContext {
    fn table(&self, wanted: Privileges, name: &TableName<'_>) -> Result<Requirement> {
        let (database, table) = self.qualified(name)?;
        Ok(Table(wanted, database, table))
    }

    fn tables(&self, wanted: Privileges, names: &[TableName<'_>]) -> Requirements {
        names.iter().map(|name| self.table(wanted, name)).collect()
    }

    fn visible(&self, name: &TableName<'_>) -> Result<Requirement> {
        let (database, table) = self.qualified(name)?;
        Ok(VisibleTable(database, table))
    }

    fn named_database(&self, name: Option<&str>) -> Result<String> {
        let name = name.map(str::to_owned);
        let name = name.or_else(|| self.env.database.clone());
        name.ok_or_else(SqlError::no_database_selected)
    }

    /// The privileges that a statement needs before it runs.
    pub(crate) fn requirements(&self, statement: &Statement<'_>) -> Requirements {
        use Statement as S;
        Ok(match statement {
            S::Query(Query {
                into: Some(Into::Outfile { .. } | Into::Dumpfile(_)),
                ..
            }) => vec![Global(Privileges::FILE, "FILE")],
            // Checked by the tables of the plan.
            S::Query(_) | S::Insert(_) | S::Update(_) | S::Delete(_) | S::Do(_) => Vec::new(),
            // EXPLAIN is checked by its plan; KILL when the session to be killed is known.
            S::Explain(_) | S::Kill { .. } => Vec::new(),
            // Affects only the session and its transaction.
            S::Begin(_) | S::Commit(_) | S::Rollback(_) | S::RollbackTo(_) => Vec::new(),
            S::Savepoint(_) | S::ReleaseSavepoint(_) | S::UnlockTables => Vec::new(),
            S::Prepare { .. } | S::Execute { .. } | S::Deallocate(_) | S::Help(_) => Vec::new(),
            S::Signal(_) | S::GetDiagnostics(_) => Vec::new(),
            // Checked when the procedure is known.
            S::Call(_) => Vec::new(),
            // Checked during execution, because the scope of a variable and the privileges of a
            // grant are known only there.
            S::Set(_) => Vec::new(),
            S::Grant(_) => Vec::new(),
            S::SetTransaction(_) | S::Xa(_) | S::LoadData(_) | S::Handler(_) | S::LockTables(_) => {
                self.access_requirements(statement)?
            }
            S::Maintain(maintain) => self.maintenance_requirements(maintain)?,
            S::Describe { table, .. } => vec![self.visible(table)?],
            S::Show(show) => self.show_requirements(&show.what)?,
            S::CreateDatabase(_)
            | S::AlterDatabase(_)
            | S::DropDatabase { .. }
            | S::Use(_)
            | S::CreateTable(_)
            | S::AlterTable(_)
            | S::DropTable(_)
            | S::RenameTable(_)
            | S::Truncate(_)
            | S::CreateIndex(_)
            | S::DropIndex(_)
            | S::CreateView(_)
            | S::DropView(_)
            | S::CreateRoutine(_)
            | S::CreateTrigger(_)
            | S::AlterRoutine(_)
            | S::Event(_)
            | S::DropProgram { .. } => self.definition_requirements(statement)?,
            S::User(_)
            | S::DropUser { .. }
            | S::RenameUser(_)
            | S::SetPassword(_)
            | S::Role { .. }
            | S::SetRole(_) => self.account_requirements(statement),
            S::Flush(flush) => self.flush_requirements(flush)?,
            S::Reset([first, ..]) if first.name.eq_ignore_ascii_case("PERSIST") => vec![Global(
                Privileges::SYSTEM_VARIABLES_ADMIN,
                "SUPER or SYSTEM_VARIABLES_ADMIN",
            )],
            S::Reset(_) | S::Replica(ReplicaStatement::Reset { .. }) => {
                vec![Global(Privileges::RELOAD, "RELOAD")]
            }
            S::Replica(_) => vec![replica_administrator()],
            S::Shutdown | S::Restart => vec![Global(Privileges::SHUTDOWN, "SHUTDOWN")],
            S::ImportTable(_) => vec![Global(Privileges::FILE, "FILE")],
            S::LockInstance(_) | S::Backup(_) => {
                vec![Global(Privileges::BACKUP_ADMIN, "BACKUP_ADMIN")]
            }
            S::Purge(_) => vec![Global(Privileges::BINLOG_ADMIN, "SUPER or BINLOG_ADMIN")],
            S::Plugin { .. } | S::Binlog(_) => vec![super_user()],
        })
    }

    /// RELOAD, or the privilege of the one thing that is flushed. Tables that are locked need LOCK
    /// TABLES and SELECT, too.
    fn flush_requirements(&self, flush: &Flush<'_>) -> Requirements {
        let or_reload = |own: Privileges, text| OneOfGlobal(own.with(Privileges::RELOAD), text);
        let (tables, locks) = match flush.what {
            FlushWhat::Others(["STATUS"]) => {
                let text = "RELOAD or FLUSH_STATUS";
                return Ok(vec![or_reload(Privileges::FLUSH_STATUS, text)]);
            }
            FlushWhat::Others(["USER_RESOURCES"]) => {
                let text = "RELOAD or FLUSH_USER_RESOURCES";
                return Ok(vec![or_reload(Privileges::FLUSH_USER_RESOURCES, text)]);
            }
            FlushWhat::Others(_) => return Ok(vec![Global(Privileges::RELOAD, "RELOAD")]),
            FlushWhat::Tables {
                tables,
                read_lock,
                export,
            } => (tables, read_lock || export),
        };
        let mut all = vec![or_reload(
            Privileges::FLUSH_TABLES,
            "RELOAD or FLUSH_TABLES",
        )];
        if locks {
            for table in tables {
                all.extend(self.lock_requirements(table)?);
            }
        }
        Ok(all)
    }

    fn lock_requirements(&self, table: &TableName<'_>) -> Result<[Requirement; 2]> {
        let (database, table) = self.qualified(table)?;
        Ok([
            Database(Privileges::LOCK_TABLES, database.clone()),
            AnyColumn(Privileges::SELECT, database, table),
        ])
    }

    /// Statements that access rows without a plan, and statements about the server's transactions.
    fn access_requirements(&self, statement: &Statement<'_>) -> Requirements {
        use Statement as S;
        Ok(match statement {
            S::SetTransaction(set) => match set.scope {
                VarScope::Global | VarScope::Persist | VarScope::PersistOnly => {
                    vec![Global(
                        Privileges::SYSTEM_VARIABLES_ADMIN,
                        "SUPER or SYSTEM_VARIABLES_ADMIN",
                    )]
                }
                VarScope::Default | VarScope::Session => Vec::new(),
            },
            S::Xa(xa) => match xa {
                Xa::Recover(_) => vec![Global(Privileges::XA_RECOVER_ADMIN, "XA_RECOVER_ADMIN")],
                Xa::Start(..) | Xa::End(..) | Xa::Prepare(_) => Vec::new(),
                Xa::Commit(..) | Xa::Rollback(_) => Vec::new(),
            },
            S::LoadData(load) => {
                let mut all = vec![self.table(Privileges::INSERT, &load.table)?];
                if !load.local {
                    all.push(Global(Privileges::FILE, "FILE"));
                }
                all
            }
            S::Handler(handler) => match handler.action {
                HandlerAction::Open(_) => vec![self.table(Privileges::SELECT, &handler.table)?],
                HandlerAction::Close | HandlerAction::Read { .. } => Vec::new(),
            },
            S::LockTables(tables) => {
                let mut all = Vec::new();
                for lock in *tables {
                    all.extend(self.lock_requirements(&lock.table)?);
                }
                all
            }
            _ => return Err(SqlError::internal("no such statement")),
        })
    }

    fn definition_requirements(&self, statement: &Statement<'_>) -> Requirements {
        use Statement as S;
        Ok(match statement {
            S::CreateDatabase(create) => {
                vec![Database(Privileges::CREATE, create.name.name.to_owned())]
            }
            S::AlterDatabase(alter) => {
                let name = self.named_database(alter.name.map(|name| name.name))?;
                vec![Database(Privileges::ALTER, name)]
            }
            S::DropDatabase { name, .. } => vec![Database(Privileges::DROP, name.name.to_owned())],
            S::Use(name) => vec![VisibleDatabase(name.name.to_owned())],
            S::CreateTable(create) => self.create_table_requirements(create)?,
            S::AlterTable(alter) => self.alter_table_requirements(alter)?,
            S::DropTable(drop) => {
                // Temporary tables belong to the session.
                let own = |name: &&TableName<'_>| {
                    let name = self.qualified(name);
                    name.is_ok_and(|(d, t)| self.temporary.table(&d, &t).is_some())
                };
                let names = drop
                    .names
                    .iter()
                    .filter(|name| !drop.temporary && !own(name));
                let wanted = names.map(|name| self.table(Privileges::DROP, name));
                wanted.collect::<Result<_>>()?
            }
            S::RenameTable(pairs) => {
                let mut all = Vec::new();
                for (old, new) in *pairs {
                    all.push(self.table(Privileges::ALTER.with(Privileges::DROP), old)?);
                    all.push(self.table(Privileges::CREATE.with(Privileges::INSERT), new)?);
                }
                all
            }
            S::Truncate(name) => vec![self.table(Privileges::DROP, name)?],
            S::CreateIndex(create) => vec![self.table(Privileges::INDEX, &create.table)?],
            S::DropIndex(drop) => vec![self.table(Privileges::INDEX, &drop.table)?],
            S::CreateView(view) => vec![self.create_view_requirement(view)?],
            S::DropView(drop) => self.tables(Privileges::DROP, drop.names)?,
            S::CreateRoutine(create) => {
                let (database, _) = self.qualified(&create.name)?;
                vec![program(create.kind, database)]
            }
            S::Event(event) => {
                let (database, _) = self.qualified(&event.name)?;
                vec![program(ProgramKind::Event, database)]
            }
            S::CreateTrigger(create) => vec![self.table(Privileges::TRIGGER, &create.table)?],
            S::AlterRoutine(alter) => {
                let (database, name) = self.qualified(&alter.name)?;
                vec![Requirement::AlterRoutine(alter.kind, database, name)]
            }
            // The table is known by the trigger.
            S::DropProgram {
                kind: ProgramKind::Trigger,
                ..
            } => Vec::new(),
            S::DropProgram { kind, name, .. } => {
                let (database, name) = self.qualified(name)?;
                match kind {
                    ProgramKind::Procedure | ProgramKind::Function => {
                        vec![Requirement::AlterRoutine(*kind, database, name)]
                    }
                    ProgramKind::Trigger | ProgramKind::Event => vec![program(*kind, database)],
                }
            }
            _ => return Err(SqlError::internal("no definition")),
        })
    }

    fn create_view_requirement(&self, view: &CreateView<'_>) -> Result<Requirement> {
        let mut wanted = Privileges::CREATE_VIEW;
        if view.alter || view.or_replace {
            wanted = wanted.with(Privileges::DROP);
        }
        self.table(wanted, &view.name)
    }

    /// REFERENCES on the parent of a foreign key, or on its referenced columns, whether or not they
    /// exist. A table that references itself needs none.
    fn foreign_key_requirement(
        &self,
        child: &TableName<'_>,
        key: &ForeignKeyDef<'_>,
    ) -> Result<Option<Requirement>> {
        let (database, table) = self.qualified(child)?;
        let parent = &key.references.table;
        let schema = parent
            .schema
            .map_or(database.as_str(), |schema| schema.name);
        let name = parent.name.name;
        if schema == database && name == table {
            return Ok(None);
        }
        let columns = key.references.columns.iter().map(|c| c.name.to_owned());
        Ok(Some(Columns(
            Privileges::REFERENCES,
            schema.to_owned(),
            name.to_owned(),
            columns.collect(),
        )))
    }

    fn element_requirements(
        &self,
        child: &TableName<'_>,
        elements: &[TableElement<'_>],
    ) -> Requirements {
        let mut all = Vec::new();
        for element in elements {
            if let TableElement::ForeignKey(key) = element {
                all.extend(self.foreign_key_requirement(child, key)?);
            }
        }
        Ok(all)
    }

    fn create_table_requirements(&self, create: &CreateTable<'_>) -> Requirements {
        let mut all = self.element_requirements(&create.name, create.elements)?;
        if let Some(like) = &create.like {
            all.push(self.table(Privileges::SELECT, like)?);
        }
        if create.temporary {
            let (database, _) = self.qualified(&create.name)?;
            all.push(Database(Privileges::CREATE_TEMPORARY_TABLES, database));
            return Ok(all);
        }
        let mut wanted = Privileges::CREATE;
        if create.query.is_some() {
            wanted = wanted.with(Privileges::INSERT);
        }
        all.push(self.table(wanted, &create.name)?);
        Ok(all)
    }

    fn alter_table_requirements(&self, alter: &AlterTable<'_>) -> Requirements {
        let mut all = vec![self.table(Privileges::ALTER, &alter.name)?];
        for action in alter.actions {
            match action {
                AlterAction::AddForeignKey(key) => {
                    all.extend(self.foreign_key_requirement(&alter.name, key)?);
                }
                AlterAction::AddElements(elements) => {
                    all.extend(self.element_requirements(&alter.name, elements)?);
                }
                AlterAction::Rename(to) => {
                    all.push(self.table(Privileges::DROP, &alter.name)?);
                    all.push(self.table(Privileges::CREATE.with(Privileges::INSERT), to)?);
                }
                AlterAction::DropPartitions(_)
                | AlterAction::MaintainPartitions(PartitionMaintenance::Truncate, _) => {
                    all.push(self.table(Privileges::DROP, &alter.name)?);
                }
                AlterAction::ExchangePartition(_, with, _) => {
                    let wanted = Privileges::INSERT
                        .with(Privileges::CREATE)
                        .with(Privileges::DROP);
                    all.push(self.table(wanted, &alter.name)?);
                    all.push(self.table(wanted.with(Privileges::ALTER), with)?);
                }
                _ => {}
            }
        }
        Ok(all)
    }

    fn maintenance_requirements(&self, maintain: &Maintain<'_>) -> Requirements {
        let wanted = match maintain.kind {
            MaintainKind::Check | MaintainKind::Checksum => Privileges::SELECT,
            MaintainKind::Analyze | MaintainKind::Optimize | MaintainKind::Repair => {
                Privileges::SELECT.with(Privileges::INSERT)
            }
        };
        self.tables(wanted, maintain.tables)
    }

    fn account_requirements(&self, statement: &Statement<'_>) -> Vec<Requirement> {
        use Statement as S;
        let (create, drop) = (Privileges::CREATE_ROLE, Privileges::DROP_ROLE);
        match statement {
            S::User(user) => {
                let own = user.alter
                    && user.options.is_empty()
                    && user.users.iter().all(|u| self.is_own(&u.account));
                let second = user.users.iter().any(|u| u.retain || u.discard_old);
                password_requirements(own, second)
            }
            S::SetPassword(set) => {
                let own = set.account.is_none_or(|account| self.is_own(&account));
                password_requirements(own, set.retain)
            }
            S::Role { create: true, .. } => vec![OneOfGlobal(
                create.with(Privileges::CREATE_USER),
                "CREATE ROLE, CREATE USER",
            )],
            S::Role { create: false, .. } => vec![OneOfGlobal(
                drop.with(Privileges::CREATE_USER),
                "DROP ROLE, CREATE USER",
            )],
            S::SetRole(set) if set.default_to.iter().all(|a| self.is_own(a)) => Vec::new(),
            _ => vec![create_user()],
        }
    }

    fn show_requirements(&self, what: &ShowWhat<'_>) -> Requirements {
        use ShowWhat as W;
        Ok(match what {
            W::Columns { table, .. } | W::Index { table, .. } => vec![self.visible(table)?],
            W::CreateTable(table) | W::CreateView(table) => {
                let (database, name) = self.qualified(table)?;
                let view = self.server.db.catalog().view(&database, &name).is_some();
                let wanted = Privileges::SHOW_VIEW.with(Privileges::SELECT);
                if view {
                    vec![Table(wanted, database, name)]
                } else {
                    vec![Definition(database, name)]
                }
            }
            W::Tables { schema, .. } => schema
                .iter()
                .map(|name| VisibleDatabase(name.name.to_owned()))
                .collect(),
            W::TableStatus(schema) | W::OpenTables(schema) => schema
                .iter()
                .map(|name| VisibleDatabase(name.name.to_owned()))
                .collect(),
            W::Events(schema) => {
                let name = self.named_database(schema.map(|name| name.name))?;
                vec![Database(Privileges::EVENT, name)]
            }
            W::Triggers(schema) => schema
                .iter()
                .map(|name| VisibleDatabase(name.name.to_owned()))
                .collect(),
            W::CreateDatabase { name, .. } => vec![VisibleDatabase(name.name.to_owned())],
            W::Engine(..) => vec![Global(Privileges::PROCESS, "PROCESS")],
            W::Grants(Some(account), _) | W::CreateUser(account) if !self.is_own(account) => {
                vec![Database(Privileges::SELECT, "mysql".to_owned())]
            }
            W::BinaryLogStatus | W::BinaryLogs | W::ReplicaStatus(_) => vec![Global(
                Privileges::REPLICATION_CLIENT,
                "SUPER, REPLICATION CLIENT",
            )],
            W::Replicas | W::BinlogEvents(..) => {
                vec![Global(Privileges::REPLICATION_SLAVE, "REPLICATION SLAVE")]
            }
            // The session's own account; or rows are filtered by what the account may see.
            W::Grants(..) | W::CreateUser(_) | W::Databases | W::Processlist(_) => Vec::new(),
            W::KeyMapping(_) | W::HotKeys(None) => Vec::new(),
            W::HotKeys(Some(table)) => {
                let (database, name) = self.qualified(table)?;
                vec![Table(Privileges::SELECT, database, name)]
            }
            // State of the server or the session, not data of tables.
            W::Variables(_) | W::Status(_) | W::Warnings | W::Errors => Vec::new(),
            W::CountWarnings | W::CountErrors | W::Engines | W::Collation => Vec::new(),
            W::Charset | W::Privileges | W::Plugins | W::Profiles | W::Profile => Vec::new(),
            // Rows are filtered by what the account may see.
            W::CreateProgram(..) | W::ProgramStatus(_) | W::ProgramCode(..) => Vec::new(),
        })
    }

    /// Whether an account is the session's own.
    pub(crate) fn is_own(&self, account: &Account<'_>) -> bool {
        let AuthId { user, host } = self.auth_id(account);
        format!("{user}@{host}") == self.client.account
    }
}
