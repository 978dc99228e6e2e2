//! Account statements: CREATE USER, ALTER USER, DROP USER and SET PASSWORD. RENAME USER is in
//! [`rename`], statements on roles are in [`roles`].
//!
//! Invariant: a password is hashed before anything else is done with it; it appears in no log,
//! error message or process list.

mod logged;
mod options;
mod passwords;
mod rename;
pub(crate) mod roles;

use crate::context::StatementContext;
use crate::results::Outcome;
use passwords::PasswordChange;
use porpoise_access::{AccessData, Account, AuthId, Change, Grant, Privileges};
use porpoise_kv::CommitPosition;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{
    Account as AstAccount, FactorClause, Identified, SetPassword, UserOption, UserSpec,
    UserStatement,
};

pub use crate::secrets::mentions_password;
pub use rename::rename_users;

fn failed(statement: &str, names: &[String]) -> SqlError {
    let text = format!("Operation {statement} failed for {}", names.join(","));
    SqlError::new(1396, "HY000", text)
}

fn quoted(user: &str, host: &str) -> String {
    format!("'{user}'@'{host}'")
}

/// Executes CREATE USER and ALTER USER, for all named accounts or none.
///
/// # Errors
/// 1396 for accounts that exist or do not exist; 1235 and 1524 for further authentication factors;
/// errors of [`options`] and [`passwords`].
pub fn user_statement(
    cx: &mut StatementContext,
    user: &UserStatement<'_>,
    sink: &mut dyn ResultSink,
) -> Result<Outcome> {
    check_factors(user)?;
    let statement = if user.alter {
        "ALTER USER"
    } else {
        "CREATE USER"
    };
    let access = cx.server.access.clone();
    let mut wrong = Vec::new();
    let mut generated = Vec::new();
    let mut own_changed = false;
    let position = access.change(|data| {
        let mut change = Change::default();
        for spec in user.users {
            let id = cx.auth_id(&spec.account);
            if data.account(&id.user, &id.host).is_some() != user.alter {
                wrong.push(quoted(&id.user, &id.host));
                continue;
            }
            let secret = put_account(cx, data, user, spec, &mut change)?;
            generated.extend(secret);
            let own = format!("{}@{}", id.user, id.host) == cx.client.account;
            own_changed |= own && spec.identified != Identified::None;
        }
        if wrong.is_empty() || user.if_clause {
            change.statement = cx.logged_users(user, &change.put_accounts);
            return Ok(change);
        }
        Err(failed(statement, &wrong))
    })?;
    unlock(cx, user);
    if own_changed {
        cx.password_expired = false;
    }
    for name in &wrong {
        let (code, text) = if user.alter {
            (3162, format!("Authorization ID {name} does not exist."))
        } else {
            (3163, format!("Authorization ID {name} already exists."))
        };
        cx.note(code, text);
    }
    reply(cx, position, &generated, sink)
}

/// Error for a second or third authentication factor: its plugin is not loaded (1524), or accounts
/// with several factors are not supported (1235).
fn check_factors(user: &UserStatement<'_>) -> Result<()> {
    let Some(clause) = user.users.iter().find_map(|spec| spec.factors.first()) else {
        return Ok(());
    };
    match clause {
        FactorClause::And(identified)
        | FactorClause::InitialAuthentication(identified)
        | FactorClause::Add(_, identified)
        | FactorClause::Modify(_, identified) => passwords::check_plugin(identified)?,
        FactorClause::Drop(_)
        | FactorClause::InitiateRegistration(_)
        | FactorClause::FinishRegistration(..)
        | FactorClause::Unregister(_) => {}
    }
    Err(SqlError::not_supported(
        "multi-factor authentication (more than one factor per account)",
    ))
}

/// The reply of an account statement: the generated passwords, or OK.
fn reply(
    cx: &mut StatementContext,
    position: CommitPosition,
    generated: &[passwords::GeneratedPassword],
    sink: &mut dyn ResultSink,
) -> Result<Outcome> {
    let outcome = match generated {
        [] => Outcome::default(),
        list => passwords::generated_rows(list).send(cx, sink)?,
    };
    Ok(Outcome {
        position,
        ..outcome
    })
}

/// Ends temporary locks of accounts that are unlocked or whose lock policy changes.
fn unlock(cx: &StatementContext, user: &UserStatement<'_>) {
    let ends = |o: &UserOption<'_>| {
        matches!(
            o,
            UserOption::AccountLock(false)
                | UserOption::FailedLogins(_)
                | UserOption::PasswordLockTime(_)
        )
    };
    if user.options.iter().any(ends) {
        for spec in user.users {
            let id = cx.auth_id(&spec.account);
            cx.server.access.guard().unlock(&id);
        }
    }
}

/// Adds an account, as CREATE USER or ALTER USER defines it, to `change`.
fn put_account(
    cx: &StatementContext,
    data: &AccessData,
    user: &UserStatement<'_>,
    spec: &UserSpec<'_>,
    change: &mut Change,
) -> Result<Option<passwords::GeneratedPassword>> {
    let id = cx.auth_id(&spec.account);
    cx.need_system_user(data, &id)?;
    let old = data.account(&id.user, &id.host);
    let mut account = match old {
        Some(account) => account.clone(),
        None => Account::new(id.clone()),
    };
    options::apply(user.options, &mut account)?;
    let expires = user.options.contains(&UserOption::PasswordExpire);
    let password = PasswordChange {
        cx,
        data,
        is_existing_account: old.is_some(),
        current: spec.current,
        retain: spec.retain,
    };
    if spec.discard_old {
        account.attributes.second_secret = None;
    }
    let generated = password.apply_identified(&spec.identified, &mut account, change)?;
    account.attributes.password.expired |= expires;
    if let Some(roles) = &user.default_roles {
        roles::choose_defaults(cx, data, &id, roles, !user.alter, change)?;
    }
    change.put_accounts.push(account);
    Ok(generated)
}

/// Executes DROP USER.
///
/// # Errors
/// 1396 for accounts that do not exist, 3628 for mandatory roles.
pub fn drop_users(
    cx: &mut StatementContext,
    if_exists: bool,
    accounts: &[AstAccount<'_>],
) -> Result<Outcome> {
    drop_accounts(cx, if_exists, accounts, "DROP USER")
}

/// Drops accounts or roles with everything that references them, for DROP USER or DROP ROLE.
fn drop_accounts(
    cx: &mut StatementContext,
    if_exists: bool,
    accounts: &[AstAccount<'_>],
    statement: &str,
) -> Result<Outcome> {
    let access = cx.server.access.clone();
    let mut missing = Vec::new();
    let position = access.change(|data| {
        let mut change = Change::default();
        for account in accounts {
            let id = cx.auth_id(account);
            roles::check_not_mandatory(cx, &id)?;
            let own = |g: &&Grant| g.user == id.user && g.host == id.host;
            let Some(account) = data.account(&id.user, &id.host) else {
                missing.push(quoted(&id.user, &id.host));
                continue;
            };
            if !account.locked {
                // The privilege DROP ROLE covers only accounts that cannot log in.
                cx.need_global(Privileges::CREATE_USER, "CREATE USER")?;
            }
            cx.need_system_user(data, &id)?;
            change.remove_accounts.push(account.clone());
            let grants = data.grants.iter().filter(own);
            change.remove_grants.extend(grants.cloned());
            let columns = data.column_grants_of(account);
            change.remove_column_grants.extend(columns.cloned());
            roles::remove_references(data, &id, &mut change);
        }
        if missing.is_empty() || if_exists {
            change.statement = cx.logged_text();
            return Ok(change);
        }
        Err(failed(statement, &missing))
    })?;
    for account in accounts {
        access.forget(&cx.auth_id(account));
    }
    for name in &missing {
        cx.note(3162, format!("Authorization ID {name} does not exist."));
    }
    Ok(Outcome {
        position,
        ..Outcome::default()
    })
}

/// Executes SET PASSWORD.
///
/// # Errors
/// 1133 for an account that does not exist; errors of [`passwords`].
pub fn set_password(
    cx: &mut StatementContext,
    set: &SetPassword<'_>,
    sink: &mut dyn ResultSink,
) -> Result<Outcome> {
    let target = set.account.unwrap_or(AstAccount::Current);
    let AuthId { user, host } = cx.auth_id(&target);
    let access = cx.server.access.clone();
    let mut generated = Vec::new();
    let position = access.change(|data| {
        let Some(mut account) = data.account(&user, &host).cloned() else {
            let text = "Can't find any matching row in the user table";
            return Err(SqlError::new(1133, "42000", text));
        };
        cx.need_system_user(data, &account.id())?;
        let mut change = Change::default();
        let password = PasswordChange {
            cx,
            data,
            is_existing_account: true,
            current: set.current,
            retain: set.retain,
        };
        if let Some(new) = set.password {
            let plugin = account.plugin.clone();
            password.set(&plugin, new, &mut account, &mut change)?;
        } else {
            generated.push(password.set_random(&mut account, &mut change)?);
        }
        change.statement = cx.logged_password(set, &account);
        change.put_accounts.push(account);
        Ok(change)
    })?;
    if format!("{user}@{host}") == cx.client.account {
        cx.password_expired = false;
    }
    reply(cx, position, &generated, sink)
}
