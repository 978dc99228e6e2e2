//! Accounts: a user name, a host pattern, and what proves an identity.
//!
//! Invariant: a password is hashed before anything else is done with it; it reaches
//! no log, no error text and no process list.

use crate::attributes::Attributes;
use crate::auth_id::AuthId;
use crate::system_table::internal;
use crate::{Error, Result};
use porpoise_base::password;

/// Plugin of accounts created without a plugin name.
pub const DEFAULT_PLUGIN: &str = "caching_sha2_password";
/// The second supported plugin.
pub const NATIVE_PLUGIN: &str = "mysql_native_password";

/// A stored secret of `caching_sha2_password` that matches no password, for accounts that cannot
/// log in with one (MySQL's system accounts have the same).
pub const UNUSABLE_SECRET: &[u8] =
    b"$A$005$THISISACOMBINATIONOFINVALIDSALTANDPASSWORDTHATMUSTNEVERBRBEUSED";

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's name; empty: any.
    pub user: String,
    /// The host, with `%` and `_` as in LIKE.
    pub host: String,
    /// Authentication plugin.
    pub plugin: String,
    /// The plugin's stored form of the password; empty: no password.
    pub secret: Vec<u8>,
    /// Whether the account may not log in.
    pub locked: bool,
    /// Requirements, limits, password policy, comment.
    pub attributes: Attributes,
}

impl Account {
    /// An account without password.
    pub fn new(id: AuthId) -> Account {
        Account {
            user: id.user,
            host: id.host,
            plugin: DEFAULT_PLUGIN.to_owned(),
            secret: Vec::new(),
            locked: false,
            attributes: Attributes::default(),
        }
    }

    /// User and host.
    pub fn id(&self) -> AuthId {
        AuthId::new(&self.user, &self.host)
    }

    /// Returns `user@host`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.user, self.host)
    }
}

/// Hashes a password into the form that a plugin stores.
///
/// # Errors
/// 1819 for a password longer than 256 bytes.
pub fn hash_password(plugin: &str, password: &[u8]) -> Result<Vec<u8>> {
    if password.len() > password::sha_crypt::MAX_PASSWORD {
        let text = "The password is too long; the limit is 256 bytes";
        return Err(Error::refused(1819, "HY000", text));
    }
    if plugin == NATIVE_PLUGIN {
        return Ok(password::native(password));
    }
    let salt = password::salt();
    let salt = salt.ok_or_else(|| internal("the operating system returned no random bytes"))?;
    Ok(password::caching_sha2(password, &salt))
}

/// Whether `password` belongs to the stored `secret`. For `caching_sha2_password` this
/// takes milliseconds.
pub fn verify_password(plugin: &str, secret: &[u8], password: &[u8]) -> bool {
    if secret.is_empty() || password.is_empty() {
        return secret.is_empty() && password.is_empty();
    }
    if plugin == NATIVE_PLUGIN {
        return password::native(password) == secret;
    }
    let parts = || {
        let (rounds, rest) = secret.strip_prefix(b"$A$")?.split_first_chunk::<3>()?;
        let rounds = u32::from_str_radix(std::str::from_utf8(rounds).ok()?, 16).ok()?;
        let (salt, hash) = rest.strip_prefix(b"$")?.split_first_chunk::<20>()?;
        Some((rounds.saturating_mul(1000), salt, hash))
    };
    let short = password.len() <= password::sha_crypt::MAX_PASSWORD;
    parts()
        .filter(|_| short)
        .is_some_and(|(rounds, salt, hash)| {
            password::sha_crypt::sha256_crypt(password, salt, rounds) == hash
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_secrets_verify_only_their_password() {
        for plugin in [DEFAULT_PLUGIN, NATIVE_PLUGIN] {
            let secret = hash_password(plugin, b"right").unwrap();
            assert!(verify_password(plugin, &secret, b"right"));
            assert!(!verify_password(plugin, &secret, b"wrong"));
            assert!(!verify_password(plugin, &secret, b""));
            assert!(!verify_password(plugin, b"", b"right"));
            assert!(verify_password(plugin, b"", b""));
        }
    }
}
