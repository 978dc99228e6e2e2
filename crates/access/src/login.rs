//! Last stage of a login: the account's requirements after its password was verified, in MySQL's
//! order (manual, "Account Categories", "Account Locking", "Server Handling of Expired Passwords").
//!
//! 1. Failed logins in a row lock the account for a time (3955).
//! 2. REQUIRE is compared with the connection (1045).
//! 3. A locked account is refused (3118).
//! 4. An expired password leaves a session that may only change it, or is refused (1862).
//!
//! Resource limits (1226) are checked when the session opens.

use crate::account::{Account, NATIVE_PLUGIN, UNUSABLE_SECRET, verify_password};
use crate::attributes::TlsPeer;
use crate::auth_id::AuthId;
use crate::control::AccessControl;
use crate::guard::{LoginGuard, TemporaryLock};
use crate::usage::Usage;
use crate::verifier_cache::{Verifier, VerifierCache};
use std::sync::Arc;

/// Policy on expired passwords, from system variables and the client's capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginPolicy {
    /// `default_password_lifetime` in days; 0: passwords do not expire.
    pub default_lifetime: u16,
    /// `disconnect_on_expired_password`, for clients that cannot handle it.
    pub refuse_expired: bool,
}

/// A login that succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Whether the session may only change its password.
    pub password_expired: bool,
}

/// Reasons for refusing a login with the right password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The account is locked for a time: 3955.
    TemporarilyLocked(TemporaryLock),
    /// The connection does not meet REQUIRE: 1045, as if the password were wrong.
    Requirement,
    /// ACCOUNT LOCK: 3118.
    Locked,
    /// The password has expired: 1862.
    PasswordExpired,
}

/// Error of a refused login: number, SQLSTATE and text.
pub type LoginError = (u16, &'static str, String);

/// Error 1045, for a wrong name or password. `has_password` tells whether the client sent one.
pub fn access_denied(user: &str, host: &str, has_password: bool) -> LoginError {
    let using = if has_password { "YES" } else { "NO" };
    let text = format!("Access denied for user '{user}'@'{host}' (using password: {using})");
    (1045, "28000", text)
}

impl Denial {
    /// The error that the client gets.
    pub fn error(&self, user: &str, host: &str, has_password: bool) -> LoginError {
        match self {
            Denial::Requirement => access_denied(user, host, has_password),
            Denial::TemporarilyLocked(lock) => (3955, "HY000", lock.message(user, host)),
            Denial::Locked => {
                let text = format!("Access denied for user '{user}'@'{host}'. Account is locked.");
                (3118, "HY000", text)
            }
            Denial::PasswordExpired => {
                let text = "Your password has expired. To log in you must change it using a client \
                            that supports expired passwords.";
                (1862, "HY000", text.to_owned())
            }
        }
    }
}

/// The end of an exchange by `caching_sha2_password` or an older plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordProof {
    /// Whether the client has proved a password of the account.
    pub is_proved: bool,
    /// Hash of the password, if the client sent the password itself.
    pub verifier: Option<Verifier>,
    /// Whether it is the account's second password.
    pub is_second: bool,
}

impl AccessControl {
    /// Ends the verification of a password: returns the account if its password was proved, and keeps
    /// the hash of the password for the next login; counts a wrong password otherwise. `account` is
    /// `None` for a name without one.
    pub fn verified(
        &self,
        account: Option<Account>,
        proof: &PasswordProof,
        verifiers: &VerifierCache,
    ) -> Option<Account> {
        let account = account?;
        if !proof.is_proved {
            self.password_failed(&account, self.now());
            return None;
        }
        if let Some(verifier) = proof.verifier {
            let second = account.attributes.second_secret.as_ref();
            let second = second.filter(|_| proof.is_second);
            let secret = second.map_or(&account.secret[..], |secret| secret.as_bytes());
            verifiers.keep(secret.to_vec(), verifier);
        }
        Some(account)
    }

    /// Returns the login guard.
    pub fn guard(&self) -> &LoginGuard {
        &self.guard
    }

    /// The usage counters of an account.
    pub fn usage(&self, account: &AuthId) -> Arc<Usage> {
        self.usage.of(account)
    }

    /// Starts a new hour of all resource limits (FLUSH USER_RESOURCES).
    pub fn reset_usage(&self) {
        self.usage.reset();
    }

    /// Removes failed logins and usage of an account that was dropped.
    pub fn forget(&self, account: &AuthId) {
        self.guard.unlock(account);
        self.usage.forget(account);
    }

    /// A decoy for a name without an account: no password proves it. If some accounts have the
    /// older plugin, some decoys have it, too, so that neither the exchange nor its duration
    /// reveals whether a name exists.
    pub fn decoy(&self, user: &str) -> Account {
        let mut decoy = Account::new(AuthId::new(user, "%"));
        decoy.secret = UNUSABLE_SECRET.to_vec();
        let native = |a: &Account| a.plugin == NATIVE_PLUGIN;
        if self.data().accounts.iter().any(native) && self.guard.decoy_bit(user) {
            decoy.plugin = NATIVE_PLUGIN.to_owned();
        }
        decoy
    }

    /// Whether `password` is that of `account`, or its second one; `account` is the account of the
    /// name `user`. An account that does not exist, or has no password, takes the time of the
    /// decoy. A wrong password takes a second hash where any account has a second password.
    pub fn is_password(&self, user: &str, account: Option<&Account>, password: &[u8]) -> bool {
        let Some(account) = account.filter(|a| !a.secret.is_empty()) else {
            let proved = self.verify_both(&self.decoy(user), password);
            return !proved && account.is_some() && password.is_empty();
        };
        self.verify_both(account, password)
    }

    fn verify_both(&self, account: &Account, password: &[u8]) -> bool {
        if verify_password(&account.plugin, &account.secret, password) {
            return true;
        }
        if !self.data().has_second_passwords() {
            return false;
        }
        let second = account.attributes.second_secret.as_ref();
        let secret = second.map_or(UNUSABLE_SECRET, String::as_bytes);
        verify_password(&account.plugin, secret, password)
    }

    /// Counts a wrong password for an account.
    pub fn password_failed(&self, account: &Account, now: i64) {
        let policy = &account.attributes.password;
        self.guard
            .record_password_result(&account.id(), policy, now, false);
    }

    /// Decides a login to `account` whose password was proved.
    ///
    /// # Errors
    /// The reason for refusing the login.
    pub fn admit(
        &self,
        account: &Account,
        tls: Option<&TlsPeer>,
        now: i64,
        policy: LoginPolicy,
    ) -> Result<Admission, Denial> {
        let password = &account.attributes.password;
        if let Some(lock) = self
            .guard
            .record_password_result(&account.id(), password, now, true)
        {
            return Err(Denial::TemporarilyLocked(lock));
        }
        self.check_requirements(account, tls, now, policy)
    }

    /// Decides a request with a token that was issued to a login: as [`AccessControl::admit`], without
    /// counting a right password.
    ///
    /// # Errors
    /// The reason for refusing the request.
    pub fn check_requirements(
        &self,
        account: &Account,
        tls: Option<&TlsPeer>,
        now: i64,
        policy: LoginPolicy,
    ) -> Result<Admission, Denial> {
        let password = &account.attributes.password;
        if !account.attributes.require.permits(tls) {
            return Err(Denial::Requirement);
        }
        if account.locked {
            return Err(Denial::Locked);
        }
        let password_expired = password.is_expired(now, policy.default_lifetime);
        if password_expired && policy.refuse_expired {
            return Err(Denial::PasswordExpired);
        }
        Ok(Admission { password_expired })
    }
}
