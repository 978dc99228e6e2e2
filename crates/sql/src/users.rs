//! Statements on accounts: CREATE USER, ALTER USER, DROP USER and SET PASSWORD.
//!
//! Invariant: a password is hashed before anything else is done with it; it reaches
//! no log, no error text and no process list.

mod secrets;

use crate::error::{Result, SqlError};
use crate::parse::ast::{
    Account as AstAccount, Identified, SetPassword, UserOption, UserStatement,
};
use crate::session::{Outcome, SqlSession};
use porpoise_access::{
    AccessData, Account, Change, DEFAULT_PLUGIN, Grant, NATIVE_PLUGIN, hash_password,
};

pub use secrets::mentions_password;

fn plugin_name(given: Option<&[u8]>) -> Result<&'static str> {
    let name = given.map(|n| String::from_utf8_lossy(n).to_lowercase());
    match name.as_deref() {
        None | Some(DEFAULT_PLUGIN) => Ok(DEFAULT_PLUGIN),
        Some(NATIVE_PLUGIN) => Ok(NATIVE_PLUGIN),
        Some(other) => {
            let text = format!("Plugin '{other}' is not loaded");
            Err(SqlError::new(1524, "HY000", text))
        }
    }
}

/// User and host that a statement names.
pub(crate) fn named(session: &SqlSession, account: &AstAccount<'_>) -> (String, String) {
    match account {
        AstAccount::Named { user, host } => (
            String::from_utf8_lossy(user).into_owned(),
            host.map_or_else(
                || "%".to_owned(),
                |h| String::from_utf8_lossy(h).to_lowercase(),
            ),
        ),
        AstAccount::Current => {
            let own = &session.client.account;
            let (user, host) = own.rsplit_once('@').unwrap_or((own, "%"));
            (user.to_owned(), host.to_owned())
        }
    }
}

/// Plugin and secret of IDENTIFIED; `None` where it says nothing.
fn identified(given: &Identified<'_>, old: Option<&Account>) -> Result<Option<(String, Vec<u8>)>> {
    let known = |plugin: Option<&[u8]>| match (plugin, old) {
        (None, Some(old)) => Ok(old.plugin.clone()),
        (plugin, _) => plugin_name(plugin).map(str::to_owned),
    };
    match given {
        Identified::None => Ok(None),
        Identified::Password { plugin, password } => {
            let plugin = known(*plugin)?;
            let secret = hash_password(&plugin, password)?;
            Ok(Some((plugin, secret)))
        }
        Identified::RandomPassword { .. } => Err(SqlError::not_supported("RANDOM PASSWORD")),
        Identified::Plugin { plugin, hash } => {
            let plugin = plugin_name(Some(plugin))?;
            let hash = hash.unwrap_or_default();
            let fits = match plugin {
                NATIVE_PLUGIN => hash.is_empty() || (hash.len() == 41 && hash.starts_with(b"*")),
                _ => hash.is_empty() || (hash.len() == 70 && hash.starts_with(b"$A$")),
            };
            match fits {
                true => Ok(Some((plugin.to_owned(), hash.to_vec()))),
                false => {
                    let text = "The password hash doesn't have the expected format.";
                    Err(SqlError::new(1827, "HY000", text))
                }
            }
        }
    }
}

fn failed(what: &str, names: &[String]) -> SqlError {
    let text = format!("Operation {what} failed for {}", names.join(","));
    SqlError::new(1396, "HY000", text)
}

fn quoted(user: &str, host: &str) -> String {
    format!("'{user}'@'{host}'")
}

/// CREATE USER, ALTER USER: all accounts named, or none.
pub fn user_statement(session: &mut SqlSession, user: &UserStatement<'_>) -> Result<Outcome> {
    let what = if user.alter {
        "ALTER USER"
    } else {
        "CREATE USER"
    };
    let before = session.commit()?;
    let lock = lock_option(user)?;
    let access = session.server.access.clone();
    let mut wrong = Vec::new();
    let ticket = access.change(|data| {
        let change = put_accounts(session, data, user, lock, &mut wrong)?;
        if wrong.is_empty() || user.if_clause {
            return Ok(change);
        }
        Err(failed(what, &wrong))
    })?;
    for name in &wrong {
        let (code, text) = if user.alter {
            (3162, format!("Authorization ID {name} does not exist."))
        } else {
            (3163, format!("Authorization ID {name} already exists."))
        };
        session.note(code, text);
    }
    Ok(Outcome {
        ticket: ticket.max(before),
        ..Outcome::default()
    })
}

/// The value of ACCOUNT LOCK or UNLOCK; 1235 for options that are not supported.
fn lock_option(user: &UserStatement<'_>) -> Result<Option<bool>> {
    let mut lock = None;
    for option in user.options {
        match option {
            UserOption::AccountLock(locked) => lock = Some(*locked),
            UserOption::RequireNone | UserOption::Comment(_) | UserOption::Attribute(_) => {}
            UserOption::PasswordExpireDefault | UserOption::PasswordExpireNever => {}
            UserOption::PasswordHistory(None) | UserOption::PasswordReuse(None) => {}
            UserOption::PasswordRequireCurrent(None | Some(false)) => {}
            UserOption::Limit(_, 0) => {}
            _ => return Err(SqlError::not_supported("this option of an account")),
        }
    }
    Ok(lock)
}

/// The accounts as CREATE USER or ALTER USER writes them. Names that exist already, or do
/// not exist, are added to `wrong`.
fn put_accounts(
    session: &SqlSession,
    data: &AccessData,
    user: &UserStatement<'_>,
    lock: Option<bool>,
    wrong: &mut Vec<String>,
) -> Result<Change> {
    let mut change = Change::default();
    for spec in user.users {
        let (name, host) = named(session, &spec.account);
        let mut present = data.accounts.iter();
        let old = present.find(|a| a.user == name && a.host == host);
        if old.is_some() != user.alter {
            wrong.push(quoted(&name, &host));
            continue;
        }
        let secret = identified(&spec.identified, old)?;
        let mut account = old.cloned().unwrap_or_else(|| Account {
            user: name,
            host,
            plugin: DEFAULT_PLUGIN.to_owned(),
            secret: Vec::new(),
            locked: false,
        });
        if let Some((plugin, secret)) = secret {
            account.plugin = plugin;
            account.secret = secret;
        }
        account.locked = lock.unwrap_or(account.locked);
        change.put_accounts.push(account);
    }
    Ok(change)
}

/// DROP USER.
pub fn drop_users(
    session: &mut SqlSession,
    if_exists: bool,
    accounts: &[AstAccount<'_>],
) -> Result<Outcome> {
    let before = session.commit()?;
    let access = session.server.access.clone();
    let mut missing = Vec::new();
    let ticket = access.change(|data| {
        let mut change = Change::default();
        for account in accounts {
            let (user, host) = named(session, account);
            let own = |g: &&Grant| g.user == user && g.host == host;
            let mut present = data.accounts.iter();
            let Some(account) = present.find(|a| a.user == user && a.host == host) else {
                missing.push(quoted(&user, &host));
                continue;
            };
            change.remove_accounts.push(account.clone());
            let grants = data.grants.iter().filter(own);
            change.remove_grants.extend(grants.cloned());
        }
        if missing.is_empty() || if_exists {
            return Ok(change);
        }
        Err(failed("DROP USER", &missing))
    })?;
    for name in &missing {
        session.note(3162, format!("Authorization ID {name} does not exist."));
    }
    Ok(Outcome {
        ticket: ticket.max(before),
        ..Outcome::default()
    })
}

/// SET PASSWORD.
pub fn set_password(session: &mut SqlSession, set: &SetPassword<'_>) -> Result<Outcome> {
    let Some(password) = set.password else {
        return Err(SqlError::not_supported("SET PASSWORD TO RANDOM"));
    };
    let before = session.commit()?;
    let target = set.account.unwrap_or(AstAccount::Current);
    let (user, host) = named(session, &target);
    let access = session.server.access.clone();
    let ticket = access.change(|data| {
        let mut present = data.accounts.iter();
        let found = present.find(|a| a.user == user && a.host == host);
        let Some(mut account) = found.cloned() else {
            let text = "Can't find any matching row in the user table";
            return Err(SqlError::new(1133, "42000", text));
        };
        account.secret = hash_password(&account.plugin, password)?;
        Ok(Change {
            put_accounts: vec![account],
            ..Change::default()
        })
    })?;
    Ok(Outcome {
        ticket: ticket.max(before),
        ..Outcome::default()
    })
}
