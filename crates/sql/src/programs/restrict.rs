//! Statements that a program must not contain (manual, "Restrictions on Stored Programs").

use porpoise_sql_expr::error::SqlError;
use porpoise_sql_parser::ast::{MaintainKind, ProgramKind, ReplicaStatement, SetItem, Statement};

/// Error 1314.
fn not_allowed(what: &str) -> SqlError {
    let text = format!("{what} is not allowed in stored procedures");
    SqlError::new(1314, "0A000", text)
}

/// Error 1415: a result set of a function or a trigger.
pub(crate) fn result_set_refused(kind: ProgramKind) -> SqlError {
    let what = match kind {
        ProgramKind::Trigger => "trigger",
        _ => "function",
    };
    let text = format!("Not allowed to return a result set from a {what}");
    SqlError::new(1415, "0A000", text)
}

/// Error 1422.
fn commit_refused() -> SqlError {
    let text = "Explicit or implicit commit is not allowed in stored function or trigger.";
    SqlError::new(1422, "HY000", text)
}

/// Error 1336.
fn dynamic_sql_refused() -> SqlError {
    let text = "Dynamic SQL is not allowed in stored function or trigger";
    SqlError::new(1336, "0A000", text)
}

/// Error 1336 for a statement that procedures may contain.
fn not_allowed_within_statement(what: &str) -> SqlError {
    let text = format!("{what} is not allowed in stored function or trigger");
    SqlError::new(1336, "0A000", text)
}

/// Error 1445.
fn autocommit_refused() -> SqlError {
    let text = "Not allowed to set autocommit from a stored function or trigger";
    SqlError::new(1445, "HY000", text)
}

/// Whether programs of this kind run inside of a statement.
fn is_nested(kind: ProgramKind) -> bool {
    matches!(kind, ProgramKind::Function | ProgramKind::Trigger)
}

/// Whether a statement ends the transaction, explicitly or not.
fn commits(statement: &Statement<'_>) -> bool {
    use Statement as S;
    match statement {
        S::CreateTable(create) => !create.temporary,
        S::DropTable(drop) => !drop.temporary,
        S::Begin(_) | S::Commit(_) | S::Rollback(_) | S::Xa(_) => true,
        S::CreateDatabase(_) | S::AlterDatabase(_) | S::DropDatabase { .. } => true,
        S::AlterTable(_) | S::RenameTable(_) | S::Truncate(_) => true,
        S::CreateIndex(_) | S::DropIndex(_) | S::CreateView(_) | S::DropView(_) => true,
        S::CreateRoutine(_) | S::AlterRoutine(_) => true,
        S::CreateTrigger(_) | S::Event(_) => true,
        S::DropProgram { .. } => true,
        S::User(_) | S::DropUser { .. } | S::RenameUser(_) | S::SetPassword(_) => true,
        S::Grant(_) | S::Role { .. } => true,
        S::LockTables(_) | S::UnlockTables => true,
        S::Replica(_) | S::Backup(_) | S::ImportTable(_) => true,
        _ => false,
    }
}

/// Whether a statement has a result set.
fn has_result(statement: &Statement<'_>) -> bool {
    use Statement as S;
    match statement {
        S::Query(query) => query.into.is_none(),
        S::Show(_) | S::Describe { .. } | S::Explain(_) | S::Help(_) => true,
        S::Maintain(_) => true,
        _ => false,
    }
}

/// Whether an assignment sets `autocommit`.
fn is_of_autocommit(item: &SetItem<'_>) -> bool {
    match item {
        SetItem::System { name, .. } => name.name.eq_ignore_ascii_case("autocommit"),
        _ => false,
    }
}

/// The error of an assignment that a program of this kind must not contain.
pub(crate) fn assignment_refusal(item: &SetItem<'_>, kind: ProgramKind) -> Option<SqlError> {
    (is_nested(kind) && is_of_autocommit(item)).then(autocommit_refused)
}

/// The error of a statement that functions and triggers must not run, even by calling a procedure.
/// `kind`: that of the program, for the message.
pub(crate) fn refusal_within_statement(
    statement: &Statement<'_>,
    kind: ProgramKind,
) -> Option<SqlError> {
    use Statement as S;
    match statement {
        S::Prepare { .. } | S::Execute { .. } | S::Deallocate(_) => Some(dynamic_sql_refused()),
        S::Flush(_) => Some(not_allowed_within_statement("FLUSH")),
        S::Reset(_) | S::Replica(ReplicaStatement::Reset { .. }) => {
            Some(not_allowed_within_statement("RESET"))
        }
        S::SetPassword(_) => Some(autocommit_refused()),
        S::Set(items) if items.iter().any(is_of_autocommit) => Some(autocommit_refused()),
        _ if commits(statement) => Some(commit_refused()),
        S::Maintain(_) => Some(result_set_refused(kind)),
        _ => None,
    }
}

/// The error of a statement that no program must contain.
fn refusal_in_any(statement: &Statement<'_>) -> Option<SqlError> {
    use Statement as S;
    let what = match statement {
        S::Use(_) => "USE",
        S::LockTables(_) => "LOCK",
        S::UnlockTables => "UNLOCK",
        S::LoadData(_) => "LOAD DATA",
        S::CreateView(view) if view.alter => "ALTER VIEW",
        S::Handler(_) => "HANDLER",
        S::Help(_) => "HELP",
        S::Maintain(maintain) if maintain.kind == MaintainKind::Check => "CHECK",
        S::AlterRoutine(alter) => return Some(drop_refused(alter.kind)),
        S::DropProgram {
            kind: kind @ (ProgramKind::Procedure | ProgramKind::Function),
            ..
        } => return Some(drop_refused(*kind)),
        _ => return None,
    };
    Some(not_allowed(what))
}

/// Error 1357.
fn drop_refused(kind: ProgramKind) -> SqlError {
    let what = kind.name();
    let text = format!("Can't drop or alter a {what} from within another stored routine");
    SqlError::new(1357, "HY000", text)
}

/// The error of a statement that a program of this kind must not contain.
pub(crate) fn refusal(statement: &Statement<'_>, kind: ProgramKind) -> Option<SqlError> {
    let refused = refusal_in_any(statement);
    if refused.is_some() || !is_nested(kind) {
        return refused;
    }
    refusal_within_statement(statement, kind)
        .or_else(|| has_result(statement).then(|| result_set_refused(kind)))
}
