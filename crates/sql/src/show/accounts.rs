//! SHOW GRANTS and SHOW CREATE USER.

use super::table::{Rows, text, text_column};
use crate::context::StatementContext;
use porpoise_access::{Account, AuthId, PasswordPolicy, Require};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::Account as AstAccount;

/// SHOW GRANTS. Error 1141 if the account does not exist, 3530 for a USING role that is not
/// granted.
pub fn grants(
    cx: &StatementContext,
    account: Option<&AstAccount<'_>>,
    using: &[AstAccount<'_>],
) -> Result<Rows> {
    let id = cx.auth_id(account.unwrap_or(&AstAccount::Current));
    let data = cx.server.access.data();
    if account.is_some() && data.account(&id.user, &id.host).is_none() {
        let text = format!(
            "There is no such grant defined for user '{}' on host '{}'",
            id.user, id.host
        );
        return Err(SqlError::new(1141, "42000", text));
    }
    let mut roles = Vec::with_capacity(using.len());
    for role in using {
        let role = cx.auth_id(role);
        let mandatory = cx.mandatory_roles().contains(&role);
        if !mandatory && (role == id || !data.reaches(&id, &role)) {
            let text = format!("{role} is not granted to {id}");
            return Err(SqlError::new(3530, "HY000", text));
        }
        roles.push(role);
    }
    let title = format!("Grants for {}@{}", id.user, id.host);
    let mut rows = Rows::new(vec![text_column(&title, 1024)]);
    for line in crate::privileges::grant::grant_statements(cx, &id, &roles) {
        rows.push(vec![text(line)]);
    }
    Ok(rows)
}

/// SHOW CREATE USER. Error 1396 if the account does not exist.
pub fn create_user(cx: &StatementContext, account: &AstAccount<'_>) -> Result<Rows> {
    let id = cx.auth_id(account);
    let data = cx.server.access.data();
    let Some(found) = data.account(&id.user, &id.host) else {
        let text = format!(
            "Operation SHOW CREATE USER failed for '{}'@'{}'",
            id.user, id.host
        );
        return Err(SqlError::new(1396, "HY000", text));
    };
    let title = format!("CREATE USER for {}@{}", id.user, id.host);
    let mut rows = Rows::new(vec![text_column(&title, 1024)]);
    let mut defaults = data.default_roles_of(&id);
    defaults.sort();
    rows.push(vec![text(statement(found, &defaults))]);
    Ok(rows)
}

/// The CREATE USER statement for an account.
fn statement(account: &Account, defaults: &[AuthId]) -> String {
    let attributes = &account.attributes;
    let mut out = format!(
        "CREATE USER {} IDENTIFIED WITH '{}'{}",
        account.id(),
        account.plugin,
        authentication_string(&account.secret)
    );
    if !defaults.is_empty() {
        let names: Vec<String> = defaults.iter().map(AuthId::to_string).collect();
        out.push_str(&format!(" DEFAULT ROLE {}", names.join(",")));
    }
    out.push_str(&require_clause(&attributes.require));
    out.push_str(&limits(account));
    out.push_str(&password_options(&attributes.password, account.locked));
    if let Some(metadata) = &attributes.metadata {
        out.push_str(&format!(" ATTRIBUTE {}", quoted(metadata)));
    }
    out
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

/// AS with the stored authentication string, in hexadecimal if it is not printable, as CREATE USER
/// accepts it.
fn authentication_string(secret: &[u8]) -> String {
    let needs_hex = |b: &u8| !b.is_ascii_graphic() || matches!(b, b'\'' | b'\\');
    match secret {
        [] => String::new(),
        bytes if !bytes.iter().any(needs_hex) => {
            format!(" AS '{}'", String::from_utf8_lossy(bytes))
        }
        bytes => {
            let hex: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
            format!(" AS 0x{hex}")
        }
    }
}

fn require_clause(require: &Require) -> String {
    match require {
        Require::None => " REQUIRE NONE".to_owned(),
        Require::Ssl => " REQUIRE SSL".to_owned(),
        Require::X509 => " REQUIRE X509".to_owned(),
        Require::Specified {
            cipher,
            issuer,
            subject,
        } => {
            let mut out = " REQUIRE".to_owned();
            for (word, value) in [("SUBJECT", subject), ("ISSUER", issuer), ("CIPHER", cipher)] {
                if !value.is_empty() {
                    out.push_str(&format!(" {word} {}", quoted(value)));
                }
            }
            out
        }
    }
}

fn limits(account: &Account) -> String {
    let limits = &account.attributes.limits;
    let mut out = String::new();
    for (word, value) in [
        ("MAX_QUERIES_PER_HOUR", limits.queries),
        ("MAX_UPDATES_PER_HOUR", limits.updates),
        ("MAX_CONNECTIONS_PER_HOUR", limits.connections),
        ("MAX_USER_CONNECTIONS", limits.concurrent),
    ] {
        if value != 0 {
            let with = if out.is_empty() { " WITH" } else { "" };
            out.push_str(&format!("{with} {word} {value}"));
        }
    }
    out
}

/// The clauses for passwords and account locking.
fn password_options(policy: &PasswordPolicy, locked: bool) -> String {
    let expire = match (policy.expired, policy.lifetime) {
        (true, _) => String::new(),
        (false, None) => " DEFAULT".to_owned(),
        (false, Some(0)) => " NEVER".to_owned(),
        (false, Some(days)) => format!(" INTERVAL {days} DAY"),
    };
    let lock = if locked { "LOCK" } else { "UNLOCK" };
    let history = policy
        .history
        .map_or("DEFAULT".to_owned(), |n| n.to_string());
    let reuse = policy.reuse_days;
    let reuse = reuse.map_or("DEFAULT".to_owned(), |n| format!("{n} DAY"));
    let current = match policy.require_current {
        None => " DEFAULT",
        Some(true) => "",
        Some(false) => " OPTIONAL",
    };
    let mut out = format!(
        " PASSWORD EXPIRE{expire} ACCOUNT {lock} PASSWORD HISTORY {history} PASSWORD REUSE INTERVAL \
         {reuse} PASSWORD REQUIRE CURRENT{current}"
    );
    if policy.failed_logins != 0 || policy.lock_days != 0 {
        let days = match policy.lock_days {
            -1 => "UNBOUNDED".to_owned(),
            days => days.to_string(),
        };
        let failures = policy.failed_logins;
        out.push_str(&format!(
            " FAILED_LOGIN_ATTEMPTS {failures} PASSWORD_LOCK_TIME {days}"
        ));
    }
    out
}
