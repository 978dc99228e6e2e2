//! Options of CREATE USER and ALTER USER, applied to an account (manual, "CREATE USER
//! Statement").

use porpoise_access::{Account, Require};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::UserOption;
use porpoise_types::json::{self, Json};

/// Maximum value of FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME.
const MAX_LOCK_OPTION: u64 = 32_767;

fn wrong_value(option: &str, value: u64) -> SqlError {
    let text = format!("Incorrect {option} value: '{value}'");
    SqlError::new(1525, "HY000", text)
}

fn check_range(option: &str, value: u64, max: u64) -> Result<u16> {
    let in_range = u16::try_from(value).ok().filter(|_| value <= max);
    in_range.ok_or_else(|| wrong_value(option, value))
}

/// A number of days or of passwords, at most 65,535.
fn check_u16(option: &str, value: u64) -> Result<u16> {
    check_range(option, value, u64::from(u16::MAX))
}

/// Applies options in textual order; REQUIRE options replace the account's previous requirement.
///
/// # Errors
/// 1525 for numbers out of range, 3140 for an ATTRIBUTE that is not a JSON object.
pub(super) fn apply(options: &[UserOption<'_>], account: &mut Account) -> Result<()> {
    if options.iter().any(requires) {
        account.attributes.require = Require::None;
    }
    options
        .iter()
        .try_for_each(|option| apply_one(option, account))
}

fn requires(option: &UserOption<'_>) -> bool {
    matches!(
        option,
        UserOption::RequireNone
            | UserOption::RequireSsl
            | UserOption::RequireX509
            | UserOption::Require(..)
    )
}

fn apply_one(option: &UserOption<'_>, account: &mut Account) -> Result<()> {
    let attributes = &mut account.attributes;
    let password = &mut attributes.password;
    match *option {
        UserOption::RequireNone => attributes.require = Require::None,
        UserOption::RequireSsl => attributes.require = Require::Ssl,
        UserOption::RequireX509 => attributes.require = Require::X509,
        UserOption::Require(word, value) => specify(&mut attributes.require, word, value),
        UserOption::Limit(word, value) => {
            let value = u32::try_from(value).map_err(|_| wrong_value(word, value))?;
            let limits = &mut attributes.limits;
            match word {
                "MAX_QUERIES_PER_HOUR" => limits.queries = value,
                "MAX_UPDATES_PER_HOUR" => limits.updates = value,
                "MAX_CONNECTIONS_PER_HOUR" => limits.connections = value,
                _ => limits.concurrent = value,
            }
        }
        UserOption::AccountLock(locked) => account.locked = locked,
        UserOption::PasswordExpire => password.expired = true,
        UserOption::PasswordExpireDefault => password.lifetime = None,
        UserOption::PasswordExpireNever => password.lifetime = Some(0),
        UserOption::PasswordExpireDays(0) => return Err(wrong_value("DAY", 0)),
        UserOption::PasswordExpireDays(n) => password.lifetime = Some(check_u16("DAY", n)?),
        UserOption::PasswordHistory(count) => {
            let count = count.map(|n| check_u16("PASSWORD HISTORY", n));
            password.history = count.transpose()?;
        }
        UserOption::PasswordReuse(n) => {
            password.reuse_days = n.map(|n| check_u16("DAY", n)).transpose()?;
        }
        UserOption::PasswordRequireCurrent(required) => password.require_current = required,
        UserOption::FailedLogins(n) => {
            password.failed_logins = check_range("FAILED_LOGIN_ATTEMPTS", n, MAX_LOCK_OPTION)?;
        }
        UserOption::PasswordLockTime(None) => password.lock_days = -1,
        UserOption::PasswordLockTime(Some(n)) => {
            let n = check_range("PASSWORD_LOCK_TIME", n, MAX_LOCK_OPTION)?;
            password.lock_days = i16::try_from(n).unwrap_or(i16::MAX);
        }
        UserOption::Comment(text) => {
            let text = String::from_utf8_lossy(text).into_owned();
            let member = ("comment".to_owned(), Json::String(text));
            let patch = Json::Object(json::Object::from_members(vec![member]));
            merge(&mut attributes.metadata, patch);
        }
        UserOption::Attribute(text) => {
            let patch = json::parse(text).ok();
            let patch = patch.filter(|json| matches!(json, Json::Object(_)));
            let invalid = || {
                let text = "Invalid JSON text: \"ATTRIBUTE must be a valid JSON object.\"";
                SqlError::new(3140, "22032", text)
            };
            merge(&mut attributes.metadata, patch.ok_or_else(invalid)?);
        }
    }
    Ok(())
}

/// Adds CIPHER, ISSUER or SUBJECT to a requirement.
fn specify(require: &mut Require, word: &str, value: &[u8]) {
    let (mut cipher, mut issuer, mut subject) = match std::mem::take(require) {
        Require::Specified {
            cipher,
            issuer,
            subject,
        } => (cipher, issuer, subject),
        _ => (String::new(), String::new(), String::new()),
    };
    let value = String::from_utf8_lossy(value).into_owned();
    match word {
        "CIPHER" => cipher = value,
        "ISSUER" => issuer = value,
        _ => subject = value,
    }
    *require = Require::Specified {
        cipher,
        issuer,
        subject,
    };
}

/// Merges a patch (RFC 7396) into an account's metadata; an empty object is stored as none.
fn merge(metadata: &mut Option<String>, patch: Json) {
    let old = metadata
        .as_deref()
        .and_then(|m| json::parse(m.as_bytes()).ok());
    let old = old.unwrap_or_else(|| Json::Object(json::Object::from_members(Vec::new())));
    let merged = json::merge_patch(old, patch);
    let empty = matches!(&merged, Json::Object(members) if members.is_empty());
    let text = String::from_utf8_lossy(&merged.to_text()).into_owned();
    *metadata = Some(text).filter(|_| !empty);
}
