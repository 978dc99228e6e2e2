//! The `Com_` status variable that counts a statement.

use super::Counter;
use porpoise_rows::InsertMode;
use porpoise_sql_parser::ast::{
    DeleteTarget, EngineReport, Explain, ExplainTarget, InsertSource, MaintainKind, ProgramKind,
    ReplicaStatement, Show, ShowWhat, Statement, Xa,
};
use porpoise_sql_plan::plan::sinks::{Change, ChangeKind, InsertRows, Plan, Targets};

/// The counter of a statement; `None` for extensions of MySQL's grammar.
pub(crate) fn of_statement(statement: &Statement<'_>) -> Option<Counter> {
    use Counter as C;
    Some(match statement {
        Statement::Query(_) => C::Select,
        Statement::Insert(insert) => {
            let selects = matches!(insert.source, InsertSource::Query(_));
            inserting(insert.replace, selects)
        }
        Statement::Update(update) => {
            let is_single = matches!(update.tables, [only] if only.joins.is_empty());
            if is_single { C::Update } else { C::UpdateMulti }
        }
        Statement::Delete(delete) => match delete.target {
            DeleteTarget::One(_) => C::Delete,
            DeleteTarget::Many { .. } => C::DeleteMulti,
        },
        Statement::Show(show) => return of_show(show),
        Statement::Describe { .. } => C::ShowFields,
        Statement::Explain(explain) => return of_explain(explain),
        Statement::Begin(_) => C::Begin,
        Statement::Commit(_) => C::Commit,
        Statement::Rollback(_) => C::Rollback,
        Statement::RollbackTo(_) => C::RollbackToSavepoint,
        Statement::Savepoint(_) => C::Savepoint,
        Statement::ReleaseSavepoint(_) => C::ReleaseSavepoint,
        Statement::Set(_) | Statement::SetTransaction(_) => C::SetOption,
        Statement::Use(_) => C::ChangeDb,
        Statement::Do(_) => C::Do,
        Statement::Kill { .. } => C::Kill,
        Statement::Prepare { .. } => C::PrepareSql,
        Statement::Execute { .. } => C::ExecuteSql,
        Statement::Deallocate(_) => C::DeallocSql,
        Statement::Xa(xa) => match xa {
            Xa::Start(..) => C::XaStart,
            Xa::End(..) => C::XaEnd,
            Xa::Prepare(_) => C::XaPrepare,
            Xa::Commit(..) => C::XaCommit,
            Xa::Rollback(_) => C::XaRollback,
            Xa::Recover(_) => C::XaRecover,
        },
        Statement::LockTables(_) => C::LockTables,
        Statement::UnlockTables => C::UnlockTables,
        Statement::Flush(_) => C::Flush,
        Statement::Maintain(maintain) => match maintain.kind {
            MaintainKind::Analyze => C::Analyze,
            MaintainKind::Check => C::Check,
            MaintainKind::Optimize => C::Optimize,
            MaintainKind::Repair => C::Repair,
            MaintainKind::Checksum => C::Checksum,
        },
        other => return of_definition(other),
    })
}

/// The counter of a statement that defines objects or accounts, and of the rest.
fn of_definition(statement: &Statement<'_>) -> Option<Counter> {
    use Counter as C;
    Some(match statement {
        Statement::CreateDatabase(_) => C::CreateDb,
        Statement::AlterDatabase(_) => C::AlterDb,
        Statement::DropDatabase { .. } => C::DropDb,
        Statement::CreateTable(_) => C::CreateTable,
        Statement::AlterTable(_) => C::AlterTable,
        Statement::DropTable(_) => C::DropTable,
        Statement::RenameTable(_) => C::RenameTable,
        Statement::Truncate(_) => C::Truncate,
        Statement::CreateIndex(_) => C::CreateIndex,
        Statement::DropIndex(_) => C::DropIndex,
        Statement::CreateView(_) => C::CreateView,
        Statement::DropView(_) => C::DropView,
        Statement::CreateTrigger(_) => C::CreateTrigger,
        Statement::CreateRoutine(routine) => match routine.kind {
            ProgramKind::Function => C::CreateFunction,
            _ => C::CreateProcedure,
        },
        Statement::Event(event) if event.alter => C::AlterEvent,
        Statement::Event(_) => C::CreateEvent,
        Statement::AlterRoutine(alter) => match alter.kind {
            ProgramKind::Function => C::AlterFunction,
            _ => C::AlterProcedure,
        },
        Statement::Signal(signal) if signal.again => C::Resignal,
        Statement::Signal(_) => C::Signal,
        Statement::GetDiagnostics(_) => C::GetDiagnostics,
        Statement::DropProgram { kind, .. } => match kind {
            ProgramKind::Procedure => C::DropProcedure,
            ProgramKind::Function => C::DropFunction,
            ProgramKind::Trigger => C::DropTrigger,
            ProgramKind::Event => C::DropEvent,
        },
        Statement::User(user) if user.alter => C::AlterUser,
        Statement::User(_) => C::CreateUser,
        Statement::DropUser { .. } => C::DropUser,
        Statement::RenameUser(_) => C::RenameUser,
        Statement::SetPassword(_) => C::SetPassword,
        Statement::Grant(grant) => match (grant.revoke, grant.on.is_some()) {
            (false, true) => C::Grant,
            (false, false) => C::GrantRoles,
            (true, true) => C::Revoke,
            (true, false) => C::RevokeRoles,
        },
        Statement::Role { create: true, .. } => C::CreateRole,
        Statement::Role { .. } => C::DropRole,
        Statement::SetRole(set) if set.default_to.is_empty() => C::SetRole,
        Statement::SetRole(_) => C::AlterUserDefaultRole,
        Statement::Call(_) => C::CallProcedure,
        Statement::LoadData(_) => C::Load,
        Statement::Backup(_) => C::Backup,
        Statement::LockInstance(true) => C::LockInstance,
        Statement::LockInstance(false) => C::UnlockInstance,
        Statement::Reset(_) => C::Reset,
        Statement::Replica(replica) => of_replica(replica),
        Statement::Purge(_) => C::Purge,
        Statement::Binlog(_) => C::Binlog,
        Statement::ImportTable(_) => C::Import,
        Statement::Help(_) => C::Help,
        Statement::Shutdown => C::Shutdown,
        Statement::Restart => C::Restart,
        Statement::Plugin { soname: None, .. } => C::UninstallPlugin,
        Statement::Plugin { .. } => C::InstallPlugin,
        _ => return None,
    })
}

fn of_replica(statement: &ReplicaStatement<'_>) -> Counter {
    match statement {
        ReplicaStatement::ChangeSource(_) => Counter::ChangeReplicationSource,
        ReplicaStatement::ChangeFilter(_) => Counter::ChangeReplicationFilter,
        ReplicaStatement::Start { .. } => Counter::ReplicaStart,
        ReplicaStatement::Stop(_) => Counter::ReplicaStop,
        ReplicaStatement::Reset { .. } => Counter::Reset,
    }
}

fn of_explain(explain: &Explain<'_>) -> Option<Counter> {
    match &explain.target {
        ExplainTarget::Statement(statement) => of_statement(statement),
        ExplainTarget::Connection(_) => Some(Counter::ExplainOther),
    }
}

fn of_show(show: &Show<'_>) -> Option<Counter> {
    use Counter as C;
    Some(match &show.what {
        ShowWhat::Databases => C::ShowDatabases,
        ShowWhat::Tables { .. } => C::ShowTables,
        ShowWhat::TableStatus(_) => C::ShowTableStatus,
        ShowWhat::OpenTables(_) => C::ShowOpenTables,
        ShowWhat::Columns { .. } => C::ShowFields,
        ShowWhat::Index { .. } => C::ShowKeys,
        ShowWhat::Variables(_) => C::ShowVariables,
        ShowWhat::Status(_) => C::ShowStatus,
        ShowWhat::Warnings => C::ShowWarnings,
        ShowWhat::Errors => C::ShowErrors,
        ShowWhat::CountWarnings | ShowWhat::CountErrors => C::Select,
        ShowWhat::Processlist(_) => C::ShowProcesslist,
        ShowWhat::Engines => C::ShowStorageEngines,
        ShowWhat::Engine(_, EngineReport::Status) => C::ShowEngineStatus,
        ShowWhat::Engine(_, EngineReport::Mutex) => C::ShowEngineMutex,
        ShowWhat::Engine(_, EngineReport::Logs) => C::ShowEngineLogs,
        ShowWhat::Collation => C::ShowCollations,
        ShowWhat::Charset => C::ShowCharsets,
        ShowWhat::Grants(..) => C::ShowGrants,
        ShowWhat::Privileges => C::ShowPrivileges,
        ShowWhat::Plugins => C::ShowPlugins,
        ShowWhat::CreateDatabase { .. } => C::ShowCreateDb,
        ShowWhat::CreateTable(_) | ShowWhat::CreateView(_) => C::ShowCreateTable,
        ShowWhat::CreateProgram(kind, _) => match kind {
            ProgramKind::Procedure => C::ShowCreateProc,
            ProgramKind::Function => C::ShowCreateFunc,
            ProgramKind::Trigger => C::ShowCreateTrigger,
            ProgramKind::Event => C::ShowCreateEvent,
        },
        ShowWhat::CreateUser(_) => C::ShowCreateUser,
        ShowWhat::ProgramStatus(ProgramKind::Function) => C::ShowFunctionStatus,
        ShowWhat::ProgramStatus(_) => C::ShowProcedureStatus,
        ShowWhat::ProgramCode(ProgramKind::Function, _) => C::ShowFunctionCode,
        ShowWhat::ProgramCode(..) => C::ShowProcedureCode,
        ShowWhat::Triggers(_) => C::ShowTriggers,
        ShowWhat::Events(_) => C::ShowEvents,
        ShowWhat::BinaryLogStatus => C::ShowBinaryLogStatus,
        ShowWhat::BinaryLogs => C::ShowBinlogs,
        ShowWhat::ReplicaStatus(_) => C::ShowReplicaStatus,
        ShowWhat::Replicas => C::ShowReplicas,
        ShowWhat::BinlogEvents(..) => C::ShowBinlogEvents,
        ShowWhat::Profiles => C::ShowProfiles,
        ShowWhat::Profile => C::ShowProfile,
        ShowWhat::KeyMapping(_) | ShowWhat::HotKeys(_) => return None,
    })
}

fn inserting(replaces: bool, selects: bool) -> Counter {
    match (replaces, selects) {
        (false, false) => Counter::Insert,
        (false, true) => Counter::InsertSelect,
        (true, false) => Counter::Replace,
        (true, true) => Counter::ReplaceSelect,
    }
}

/// The counter of the statement that a plan executes.
#[inline]
pub(crate) fn of_plan(plan: &Plan) -> Counter {
    match plan {
        Plan::Select(_) => Counter::Select,
        Plan::Insert(insert) => inserting(
            insert.mode == InsertMode::Replace,
            matches!(insert.rows, InsertRows::Query(_)),
        ),
        Plan::Change(Change { kind, targets, .. }) => {
            let several = matches!(targets, Targets::Buffered(_));
            match (kind, several) {
                (ChangeKind::Update, false) => Counter::Update,
                (ChangeKind::Update, true) => Counter::UpdateMulti,
                (ChangeKind::Delete, false) => Counter::Delete,
                (ChangeKind::Delete, true) => Counter::DeleteMulti,
            }
        }
    }
}
