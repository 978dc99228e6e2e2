//! Password changes: required privileges, and the policy for new passwords (manual, "Password
//! Management").

use super::quoted;
use crate::context::StatementContext;
use crate::results::table::{Rows, text, text_column};
use porpoise_access::{
    AccessData, Account, AuthId, Change, DEFAULT_PLUGIN, NATIVE_PLUGIN, OldPassword, Privileges,
    ReusePolicy, hash_password, verify_password,
};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::Identified;
use porpoise_types::{DateTime, Value};

/// A generated password, for the statement's result.
pub(super) struct GeneratedPassword {
    pub(super) account: AuthId,
    pub(super) password: String,
}

/// The result of statements that generated passwords.
pub(super) fn generated_rows(list: &[GeneratedPassword]) -> Rows {
    let mut rows = Rows::new(vec![
        text_column("user", 32),
        text_column("host", 255),
        text_column("generated password", 255),
        text_column("auth_factor", 1),
    ]);
    for generated in list {
        rows.push(vec![
            text(&generated.account.user),
            text(&generated.account.host),
            text(&generated.password),
            Value::UInt(1),
        ]);
    }
    rows
}

/// A random password of `generated_random_password_length` printable characters.
fn random_password(cx: &StatementContext) -> Result<String> {
    let length = global_number(cx, "generated_random_password_length").clamp(5, 255);
    let alphabet =
        "1234567890abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,.-;:_+*!%&/(){}[]<>@";
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut password = String::new();
    while password.chars().count() < usize::from(length) {
        let bytes = porpoise_base::password::random_bytes();
        let bytes = bytes
            .ok_or_else(|| SqlError::internal("the operating system returned no random bytes"))?;
        for byte in bytes {
            // Rejection sampling: larger bytes would favour the start of the alphabet.
            let at = usize::from(byte);
            let fair = at < 256 / alphabet.len() * alphabet.len();
            let letter = alphabet.get(at % alphabet.len()).filter(|_| fair);
            if password.len() < usize::from(length) {
                password.extend(letter);
            }
        }
    }
    Ok(password)
}

/// A numeric global variable, clipped to the result type.
fn global_number(cx: &StatementContext, name: &str) -> u16 {
    let value = cx.server.variable(name);
    let value = value.and_then(|v| v.parse::<u64>().ok()).unwrap_or(0);
    u16::try_from(value).unwrap_or(u16::MAX)
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

/// Error 1524 if a plugin is named that does not exist here.
pub(super) fn check_plugin(identified: &Identified<'_>) -> Result<()> {
    match identified {
        Identified::None => Ok(()),
        Identified::Password { plugin, .. } | Identified::RandomPassword { plugin } => {
            plugin_name(*plugin).map(|_| ())
        }
        Identified::Plugin { plugin, .. } => plugin_name(Some(plugin)).map(|_| ()),
    }
}

/// A change of one account's password by a statement.
pub(super) struct PasswordChange<'c> {
    pub(super) cx: &'c StatementContext,
    pub(super) data: &'c AccessData,
    /// Whether the account existed before the statement.
    pub(super) is_existing_account: bool,
    /// `REPLACE 'current password'`
    pub(super) current: Option<&'c [u8]>,
    /// RETAIN CURRENT PASSWORD
    pub(super) retain: bool,
}

impl PasswordChange<'_> {
    /// Applies IDENTIFIED to an account, and adds its effect on the password history to `change`.
    ///
    /// # Errors
    /// 3891, 3892 and 3893 for the current password, 3638 for a reused password, 1524 and 1827 for
    /// plugins and hashes that do not match.
    pub(super) fn apply_identified(
        &self,
        given: &Identified<'_>,
        account: &mut Account,
        change: &mut Change,
    ) -> Result<Option<GeneratedPassword>> {
        let old_plugin = self.is_existing_account.then(|| account.plugin.clone());
        let plugin = |given: Option<&[u8]>| match (given, &old_plugin) {
            (None, Some(old)) => Ok(old.clone()),
            (given, _) => plugin_name(given).map(str::to_owned),
        };
        match given {
            Identified::None => Ok(None),
            Identified::Password {
                plugin: given,
                password,
            } => {
                let plugin = plugin(*given)?;
                self.set(&plugin, password, account, change)?;
                Ok(None)
            }
            Identified::RandomPassword { plugin: given } => {
                let plugin = plugin(*given)?;
                let password = random_password(self.cx)?;
                self.set(&plugin, password.as_bytes(), account, change)?;
                let account = account.id();
                Ok(Some(GeneratedPassword { account, password }))
            }
            Identified::Plugin { plugin, hash } => {
                self.check_current(account)?;
                let plugin = plugin_name(Some(plugin))?;
                let hash = checked_hash(plugin, hash.unwrap_or_default())?;
                self.store(plugin, hash, account, change)?;
                Ok(None)
            }
        }
    }

    /// Sets a generated password.
    ///
    /// # Errors
    /// As [`PasswordChange::set`].
    pub(super) fn set_random(
        &self,
        account: &mut Account,
        change: &mut Change,
    ) -> Result<GeneratedPassword> {
        let password = random_password(self.cx)?;
        let plugin = account.plugin.clone();
        self.set(&plugin, password.as_bytes(), account, change)?;
        let account = account.id();
        Ok(GeneratedPassword { account, password })
    }

    /// Sets a password.
    ///
    /// # Errors
    /// 3891, 3892, 3893, 3638.
    pub(super) fn set(
        &self,
        plugin: &str,
        password: &[u8],
        account: &mut Account,
        change: &mut Change,
    ) -> Result<()> {
        self.check_current(account)?;
        let (covered, _) = self.split_history(account);
        if !password.is_empty() {
            let same = |old: &OldPassword| verify_password(plugin, &old.secret, password);
            if covered.iter().any(same) {
                let text = format!(
                    "Cannot use these credentials for '{}@{}' because they contradict the password \
                     history policy",
                    account.user, account.host
                );
                return Err(SqlError::new(3638, "HY000", text));
            }
        }
        let secret = hash_password(plugin, password)?;
        self.store(plugin, secret, account, change)
    }

    /// Whether the account is the session's own.
    fn is_own(&self, account: &Account) -> bool {
        account.name() == self.cx.client.account
    }

    fn check_current(&self, account: &Account) -> Result<()> {
        if !self.is_existing_account {
            return Ok(());
        }
        if let Some(current) = self.current {
            if !self.is_own(account) {
                let text = "Do not specify the current password while changing it for other users.";
                return Err(SqlError::new(3893, "HY000", text));
            }
            if !verify_password(&account.plugin, &account.secret, current) {
                let text = "Incorrect current password. Specify the correct password which has to \
                            be replaced.";
                return Err(SqlError::new(3891, "HY000", text));
            }
            return Ok(());
        }
        let required = account.attributes.password.require_current;
        let required = required.unwrap_or_else(|| {
            self.cx.server.variable("password_require_current") == Some("ON".to_owned())
        });
        let rights = self.cx.rights();
        let privileged = rights.global().has(Privileges::CREATE_USER)
            || rights.on_database("mysql").has(Privileges::UPDATE);
        if required && !privileged && self.is_own(account) && !account.secret.is_empty() {
            let text = "Current password needs to be specified in the REPLACE clause in order to \
                        change it.";
            return Err(SqlError::new(3892, "HY000", text));
        }
        Ok(())
    }

    fn policy(&self, account: &Account) -> ReusePolicy {
        let own = &account.attributes.password;
        let or_global =
            |own: Option<u16>, name| own.unwrap_or_else(|| global_number(self.cx, name));
        ReusePolicy {
            history: or_global(own.history, "password_history"),
            days: or_global(own.reuse_days, "password_reuse_interval"),
        }
    }

    /// The account's earlier passwords, split into those that the reuse policy covers and the rest.
    fn split_history(&self, account: &Account) -> (Vec<OldPassword>, Vec<OldPassword>) {
        let id = account.id();
        let own = self.data.history.iter().filter(|old| old.account == id);
        let now = self.cx.server.access.now();
        self.policy(account)
            .split_by_coverage(own.cloned().collect(), now)
    }

    /// The second password of an account that gets a new one.
    ///
    /// # Errors
    /// 3894, 3878 and 3895 for a password that cannot be retained.
    fn second_password(
        &self,
        plugin: &str,
        secret: &[u8],
        account: &Account,
    ) -> Result<Option<String>> {
        let same_plugin = plugin == account.plugin;
        if !self.retain || !self.is_existing_account {
            let second = account.attributes.second_secret.as_ref();
            let kept = second.filter(|_| same_plugin && !secret.is_empty());
            return Ok(kept.cloned());
        }
        let name = quoted(&account.user, &account.host);
        let refused = |code, text: String| Err(SqlError::new(code, "HY000", text));
        if !same_plugin {
            let text = format!(
                "Current password can not be retained for user {name} because authentication \
                 plugin is being changed."
            );
            return refused(3894, text);
        }
        if account.secret.is_empty() {
            let text =
                format!("Empty password can not be retained as second password for user {name}.");
            return refused(3878, text);
        }
        if secret.is_empty() {
            let text = format!(
                "Current password can not be retained for user {name} because new password is \
                 empty."
            );
            return refused(3895, text);
        }
        // It is stored in JSON, which needs valid text.
        let old = String::from_utf8(account.secret.clone());
        old.map(Some).map_err(|_| wrong_hash())
    }

    /// Stores a new authentication string.
    ///
    /// # Errors
    /// As [`PasswordChange::second_password`].
    fn store(
        &self,
        plugin: &str,
        secret: Vec<u8>,
        account: &mut Account,
        change: &mut Change,
    ) -> Result<()> {
        account.attributes.second_secret = self.second_password(plugin, &secret, account)?;
        let policy = self.policy(account);
        let now = self.cx.server.access.now();
        let (covered, rest) = self.split_history(account);
        change.remove_history.extend(rest);
        if policy.covers_former_passwords() && !secret.is_empty() {
            // Entries of one account need distinct times.
            let last = covered.iter().map(|old| old.set_at + 1).max();
            change.put_history.push(OldPassword {
                account: account.id(),
                set_at: now.max(last.unwrap_or(now)),
                secret: secret.clone(),
            });
        }
        plugin.clone_into(&mut account.plugin);
        account.secret = secret;
        let changed = DateTime::from_unix_micros(now);
        let password = &mut account.attributes.password;
        password.changed = changed.and_then(|at| at.round(0, true));
        password.expired = false;
        Ok(())
    }
}

/// The hash, if it has the plugin's form: `*` and 40 hexadecimal digits of SHA-1, or `$A$`, three
/// characters of rounds, `$`, a salt of 20 bytes and a digest of 43. An empty hash stands for no
/// password.
fn checked_hash(plugin: &str, hash: &[u8]) -> Result<Vec<u8>> {
    let fits = match plugin {
        NATIVE_PLUGIN => hash.is_empty() || (hash.len() == 41 && hash.starts_with(b"*")),
        _ => hash.is_empty() || (hash.len() == 70 && hash.starts_with(b"$A$")),
    };
    if fits {
        return Ok(hash.to_vec());
    }
    Err(wrong_hash())
}

fn wrong_hash() -> SqlError {
    let text = "The password hash doesn't have the expected format.";
    SqlError::new(1827, "HY000", text)
}
