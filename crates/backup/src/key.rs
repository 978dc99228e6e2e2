//! The key of an encrypted repository: 256 bits, as 64 hexadecimal digits in a file or in an
//! environment variable. Never on a command line, where other users see it, and never in a message.

use crate::{Error, Result};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::path::Path;

/// The environment variable with the key.
pub const VARIABLE: &str = "PORPOISE_BACKUP_KEY";

/// Bytes that encryption adds after the nonce.
const TAG: usize = 16;

/// A key for AES-256-GCM.
pub struct Key(LessSafeKey);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(secret)")
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|n| u8::try_from(n).ok())
}

impl Key {
    /// Reads a key from its 64 digits; `source` names it in the error.
    ///
    /// # Errors
    /// [`Error::Refused`] for another text, which the message does not contain.
    pub fn parse(text: &str, source: &str) -> Result<Key> {
        let wrong = || {
            let message = format!(
                "{source}: not a key: 64 hexadecimal digits are needed, as `openssl rand -hex 32` prints them"
            );
            Error::Refused(message)
        };
        let text = text.trim().as_bytes();
        let (pairs, rest) = text.as_chunks::<2>();
        let mut bytes = Vec::with_capacity(32);
        for [high, low] in pairs {
            let (high, low) = (digit(*high), digit(*low));
            bytes.push(high.zip(low).map(|(h, l)| h << 4 | l).ok_or_else(wrong)?);
        }
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| wrong())?;
        if rest.is_empty() {
            Ok(Key(LessSafeKey::new(key)))
        } else {
            Err(wrong())
        }
    }

    /// Reads the key of a file if one is given, else that of the environment variable [`VARIABLE`],
    /// if it is set.
    ///
    /// # Errors
    /// [`Error::Refused`] for a file that cannot be read, or one without a key.
    pub fn find(
        file: Option<&Path>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Key>> {
        if let Some(path) = file {
            let source = path.display().to_string();
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|e| Error::Refused(format!("{source}: {e}")))?;
            return Key::parse(&text, &source).map(Some);
        }
        match variable(VARIABLE) {
            Some(text) => Key::parse(&text, VARIABLE).map(Some),
            None => Ok(None),
        }
    }

    /// Encrypts bytes in place, and puts the nonce before them. `context` is authenticated too.
    pub(crate) fn seal(&self, context: &[u8], mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        let failed = |_| Error::Io("encryption failed".to_owned());
        let mut nonce = [0; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce).map_err(failed)?;
        let once = Nonce::assume_unique_for_key(nonce);
        let sealed = self
            .0
            .seal_in_place_append_tag(once, Aad::from(context), &mut bytes);
        sealed.map_err(failed)?;
        bytes.splice(0..0, nonce);
        Ok(bytes)
    }

    /// Decrypts what [`Self::seal`] returned; `None` if the key, the context or a byte is another one.
    pub(crate) fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = rest.to_vec();
        let once = Nonce::assume_unique_for_key(*nonce);
        self.0
            .open_in_place(once, Aad::from(context), &mut bytes)
            .ok()?;
        bytes.truncate(bytes.len().checked_sub(TAG)?);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_digits_and_its_error_does_not_show_it() {
        let text = "0123456789abcdefABCDEF00112233445566778899aabbccddeeff0123456789";
        assert!(Key::parse(&format!("{text}\n"), "f").is_ok());
        for bad in [
            "",
            "12",
            &text[1..],
            &format!("{text}00"),
            &text.replace('0', "g"),
        ] {
            let error = Key::parse(bad, "the file").unwrap_err().to_string();
            assert!(error.starts_with("the file: not a key"), "{error}");
            assert!(bad.len() < 3 || !error.contains(bad));
        }
        let key = Key::parse(text, "f").unwrap();
        assert_eq!(format!("{key:?}"), "Key(secret)");
    }

    #[test]
    fn what_was_sealed_opens_only_with_its_key_and_context() {
        let key = Key::parse(&"ab".repeat(32), "f").unwrap();
        let other = Key::parse(&"ac".repeat(32), "f").unwrap();
        let sealed = key.seal(b"name", b"bytes".to_vec()).unwrap();
        assert_eq!(key.open(b"name", &sealed).unwrap(), b"bytes");
        assert_eq!(key.open(b"other", &sealed), None);
        assert_eq!(other.open(b"name", &sealed), None);
        for n in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[n] ^= 1;
            assert_eq!(key.open(b"name", &bad), None);
        }
        assert_ne!(key.seal(b"name", b"bytes".to_vec()).unwrap(), sealed);
    }
}
