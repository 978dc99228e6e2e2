//! Accounts: rows of `mysql.user`, an ordinary, durable table.
//!
//! An account is a user name and a host pattern; what it stores is what its
//! plugin needs to check a password. What it may do stands in
//! [`crate::privileges`].
//!
//! Invariants:
//! 1. A password is hashed before anything else is done with it; it reaches
//!    no log, no error text and no process list.
//! 2. The table is written through `rows` like every other.

mod secrets;
mod table;

use crate::error::{Result, SqlError};
use crate::parse::ast::{
    Account as AstAccount, Identified, SetPassword, UserOption, UserStatement,
};
use crate::privileges::grant;
use crate::session::{Outcome, SqlSession};
use porpoise_base::password;
use porpoise_kv::Ticket;
use porpoise_rows::Db;
use porpoise_types::Collation;
use std::sync::Arc;
use table::{all, write};

pub use secrets::mentions_password;
pub use table::{create_at_first_start, names};

/// The plugin of accounts that name none.
const DEFAULT_PLUGIN: &str = "caching_sha2_password";
/// The other plugin.
const NATIVE_PLUGIN: &str = "mysql_native_password";

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's name; empty: any.
    pub user: String,
    /// The host, with `%` and `_` as in LIKE.
    pub host: String,
    /// How it proves who it is.
    pub plugin: String,
    /// What that plugin stores; empty: no password.
    pub secret: Vec<u8>,
    /// It may not log in.
    pub locked: bool,
}

impl Account {
    /// `user@host`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.user, self.host)
    }
}

/// How much of a host pattern is literal: more is more specific.
fn specificity(host: &str) -> usize {
    match host.find(['%', '_']) {
        None => usize::MAX,
        Some(at) => at,
    }
}

fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1" | "")
}

fn host_matches(pattern: &str, host: &str) -> bool {
    pattern.eq_ignore_ascii_case(host)
        || (pattern == "localhost" && is_local(host))
        || Collation::UTF8MB4_GENERAL_CI.like(host.as_bytes(), pattern.as_bytes(), Some('\\'))
}

/// The account that a client is: the most specific host first, a named user
/// before the anonymous one (manual, "Connection Verification").
///
/// # Errors
/// Reading the table failed.
pub fn find(db: &Arc<Db>, user: &str, host: &str) -> Result<Option<Account>> {
    let mut fitting: Vec<Account> = all(db)?
        .into_iter()
        .filter(|a| (a.user == user || a.user.is_empty()) && host_matches(&a.host, host))
        .collect();
    fitting.sort_by_key(|a| std::cmp::Reverse((specificity(&a.host), !a.user.is_empty())));
    Ok(fitting.into_iter().next().filter(|a| !a.locked))
}

/// The account of exactly that name.
///
/// # Errors
/// Reading the table failed.
pub fn named_so(db: &Arc<Db>, user: &str, host: &str) -> Result<Option<Account>> {
    let mut accounts = all(db)?.into_iter();
    Ok(accounts.find(|a| a.user == user && a.host.eq_ignore_ascii_case(host)))
}

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

/// What a plugin stores of a password.
fn hashed(plugin: &str, password: &[u8]) -> Result<Vec<u8>> {
    if password.len() > password::sha_crypt::MAX_PASSWORD {
        let text = "The password is too long; 256 bytes are the most";
        return Err(SqlError::new(1819, "HY000", text));
    }
    if plugin == NATIVE_PLUGIN {
        return Ok(password::native(password));
    }
    let salt = password::salt();
    let salt = salt.ok_or_else(|| SqlError::internal("the system gives no random bytes"))?;
    Ok(password::caching_sha2(password, &salt))
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
            let secret = hashed(&plugin, password)?;
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
    let db = session.server.db.clone();
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
    let present = all(&db)?;
    let mut put = Vec::new();
    let mut wrong = Vec::new();
    for spec in user.users {
        let (name, host) = named(session, &spec.account);
        let old = present.iter().find(|a| a.user == name && a.host == host);
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
        put.push(account);
    }
    if !wrong.is_empty() {
        if !user.if_clause {
            return Err(failed(what, &wrong));
        }
        for name in &wrong {
            let (code, text) = match user.alter {
                true => (3162, format!("Authorization ID {name} does not exist.")),
                false => (3163, format!("Authorization ID {name} already exists.")),
            };
            session.note(code, text);
        }
    }
    let ticket = match put.is_empty() {
        true => Ticket::NONE,
        false => write(&db, &put, &[])?,
    };
    Ok(Outcome {
        ticket: ticket.max(before),
        ..Outcome::default()
    })
}

/// DROP USER.
pub fn drop_users(
    session: &mut SqlSession,
    if_exists: bool,
    accounts: &[AstAccount<'_>],
) -> Result<Outcome> {
    let before = session.commit()?;
    let db = session.server.db.clone();
    let present = all(&db)?;
    let mut gone = Vec::new();
    let mut missing = Vec::new();
    for account in accounts {
        let (user, host) = named(session, account);
        match present.iter().find(|a| a.user == user && a.host == host) {
            Some(account) => gone.push(account.clone()),
            None => missing.push(quoted(&user, &host)),
        }
    }
    if !missing.is_empty() && !if_exists {
        return Err(failed("DROP USER", &missing));
    }
    for name in &missing {
        session.note(3162, format!("Authorization ID {name} does not exist."));
    }
    let mut ticket = Ticket::NONE;
    if !gone.is_empty() {
        let names: Vec<(&str, &str)> = gone.iter().map(|a| (&*a.user, &*a.host)).collect();
        ticket = grant::forget(session, &names)?.max(write(&db, &[], &gone)?);
        session.server.reload_grants()?;
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
    let db = session.server.db.clone();
    let target = set.account.unwrap_or(AstAccount::Current);
    let (user, host) = named(session, &target);
    let present = all(&db)?;
    let found = present
        .into_iter()
        .find(|a| a.user == user && a.host == host);
    let Some(mut account) = found else {
        let text = "Can't find any matching row in the user table";
        return Err(SqlError::new(1133, "42000", text));
    };
    account.secret = hashed(&account.plugin, password)?;
    let ticket = write(&db, &[account], &[])?;
    Ok(Outcome {
        ticket: ticket.max(before),
        ..Outcome::default()
    })
}
