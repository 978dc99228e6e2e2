//! Stored forms of passwords, as in MySQL.
//!
//! The functions convert a password into its stored form; nothing is kept or logged.
//! Verifying a client's proof belongs to the protocol.

pub mod sha_crypt;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::rand;

/// Length of a salt in bytes.
pub const SALT_LEN: usize = 20;

/// Rounds of sha256-crypt that `$A$005$` denotes.
const ROUNDS: u32 = 5000;

/// Returns random bytes below 128 without NUL and `$`, as required in a stored form and in a login
/// challenge; `None` if the system's random generator fails.
#[must_use]
pub fn salt() -> Option<[u8; SALT_LEN]> {
    let mut salt = [0; SALT_LEN];
    rand::fill(&mut salt).ok()?;
    for byte in &mut salt {
        *byte &= 127;
        if *byte == 0 || *byte == b'$' {
            *byte += 1;
        }
    }
    Some(salt)
}

/// Returns random bytes for a generated password; `None` if the system's random generator fails.
#[must_use]
pub fn random_bytes() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// The stored form of `caching_sha2_password`: `$A$005$`, the salt, 43
/// characters. Empty for an empty password.
#[must_use]
pub fn caching_sha2(password: &[u8], salt: &[u8; SALT_LEN]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let mut stored = b"$A$005$".to_vec();
    stored.extend_from_slice(salt);
    stored.extend_from_slice(&sha_crypt::sha256_crypt(password, salt, ROUNDS));
    stored
}

/// The stored form of `mysql_native_password`: `*` and 40 hexadecimal digits.
/// Empty for an empty password.
#[must_use]
pub fn native(password: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = digest(&SHA1_FOR_LEGACY_USE_ONLY, password);
    let twice = digest(&SHA1_FOR_LEGACY_USE_ONLY, once.as_ref());
    let mut text = vec![b'*'];
    for byte in twice.as_ref() {
        text.extend_from_slice(format!("{byte:02X}").as_bytes());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_native_form_is_mysqls() {
        // SELECT PASSWORD('password')
        let expected = b"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19".to_vec();
        assert_eq!(native(b"password"), expected);
        // SELECT PASSWORD('mypass') of MySQL's manual.
        let expected = b"*6C8989366EAF75BB670AD8EA7A7FC1176A95CEF4".to_vec();
        assert_eq!(native(b"mypass"), expected);
        assert!(native(b"").is_empty());
    }

    #[test]
    fn the_sha2_form_has_its_parts() {
        let salt = salt().unwrap();
        assert!(salt.iter().all(|b| *b != 0 && *b != b'$' && *b < 128));
        let stored = caching_sha2(b"secret", &salt);
        assert_eq!(stored.len(), 70);
        assert_eq!(&stored[..7], b"$A$005$");
        assert_ne!(stored, caching_sha2(b"Secret", &salt));
    }
}
