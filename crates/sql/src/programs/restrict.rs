//! Statements that a program must not contain (manual, "Restrictions on Stored Programs").

use porpoise_sql_expr::error::SqlError;
use porpoise_sql_parser::ast::{ProgramKind, Statement};

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
pub(crate) fn commit_refused() -> SqlError {
    let text = "Explicit or implicit commit is not allowed in stored function or trigger.";
    SqlError::new(1422, "HY000", text)
}

/// Error 1336.
pub(crate) fn dynamic_sql_refused() -> SqlError {
    let text = "Dynamic SQL is not allowed in stored function or trigger";
    SqlError::new(1336, "0A000", text)
}

/// Whether programs of this kind run inside of a statement.
pub(crate) fn is_nested(kind: ProgramKind) -> bool {
    matches!(kind, ProgramKind::Function | ProgramKind::Trigger)
}

/// Whether a statement ends the transaction, explicitly or not.
pub(crate) fn commits(statement: &Statement<'_>) -> bool {
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

/// The error of a statement that a program of this kind must not contain.
pub(crate) fn refusal(statement: &Statement<'_>, kind: ProgramKind) -> Option<SqlError> {
    use Statement as S;
    match statement {
        S::Use(_) => return Some(not_allowed("USE")),
        S::LockTables(_) => return Some(not_allowed("LOCK")),
        S::UnlockTables => return Some(not_allowed("UNLOCK")),
        S::LoadData(_) => return Some(not_allowed("LOAD DATA")),
        S::CreateView(view) if view.alter => return Some(not_allowed("ALTER VIEW")),
        S::CreateRoutine(_) | S::CreateTrigger(_) => {
            let text = "Can't create a stored program from within another stored routine";
            return Some(SqlError::new(1303, "2F003", text));
        }
        S::AlterRoutine(_) | S::DropProgram { .. } => {
            let text = "Can't drop or alter a stored program from within another stored routine";
            return Some(SqlError::new(1357, "HY000", text));
        }
        _ => {}
    }
    if !is_nested(kind) {
        return None;
    }
    match statement {
        S::Prepare { .. } | S::Execute { .. } | S::Deallocate(_) => Some(dynamic_sql_refused()),
        S::Flush(_) => Some(not_allowed("FLUSH")),
        _ if commits(statement) => Some(commit_refused()),
        _ if has_result(statement) => Some(result_set_refused(kind)),
        _ => None,
    }
}
