//! Cryptographic primitives of the authentication plugins. [`super::login`] implements the
//! exchange of packets.
//!
//! * `mysql_native_password`: the server stores SHA1(SHA1(password)); the
//!   client answers SHA1(password) XOR SHA1(salt, SHA1(SHA1(password))).
//! * `caching_sha2_password`: the server stores a slow salted hash,
//!   `$A$005$<salt of 20 bytes><43 characters of sha256-crypt>`, and caches
//!   SHA256(SHA256(password)) of users who have logged in since it started (the fast path);
//!   the client answers SHA256(password) XOR SHA256(SHA256(SHA256(password)),
//!   salt). On a cache miss the client sends the password itself, over TLS or encrypted with
//!   the server's public RSA key.
//!
//! All comparisons of secrets take constant time.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    PrivateDecryptingKey, PublicEncryptingKey,
};

use porpoise_base::base64;
use porpoise_base::password::sha_crypt::{ENCODED_LEN, MAX_PASSWORD, sha256, sha256_crypt};

use super::handshake::Salt;

/// An authentication plugin of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// `mysql_native_password`.
    Native,
    /// `caching_sha2_password`.
    CachingSha2,
}

impl Plugin {
    /// Name of the plugin on the wire and in `mysql.user`.
    pub fn name(self) -> &'static str {
        match self {
            Plugin::Native => "mysql_native_password",
            Plugin::CachingSha2 => "caching_sha2_password",
        }
    }

    /// Returns the plugin with this name.
    pub fn by_name(name: &[u8]) -> Option<Plugin> {
        [Plugin::Native, Plugin::CachingSha2]
            .into_iter()
            .find(|p| p.name().as_bytes() == name)
    }
}

/// SHA1(SHA1(password)).
pub type NativeStage2 = [u8; 20];

/// SHA256(SHA256(password)): the fast path's cache entry for a user.
pub type Sha2Stage2 = [u8; 32];

fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for part in parts {
        context.update(part);
    }
    let mut digest = [0; 20];
    for (to, from) in digest.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    digest
}

fn xor<const N: usize>(mut a: [u8; N], b: &[u8; N]) -> [u8; N] {
    for (x, y) in a.iter_mut().zip(b) {
        *x ^= y;
    }
    a
}

/// Reads the stored form of `mysql_native_password` ([`porpoise_base::password::native`]).
pub fn parse_native_text(text: &[u8]) -> Option<NativeStage2> {
    let digits: &[u8; 40] = text.strip_prefix(b"*")?.try_into().ok()?;
    let value = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let mut stage2 = [0; 20];
    for (slot, pair) in stage2.iter_mut().zip(digits.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *slot = value(high)? << 4 | value(low)?;
    }
    Some(stage2)
}

/// Computes a client's answer for `mysql_native_password`; empty for an empty password.
pub fn native_answer(password: &[u8], salt: &Salt) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let stage1 = sha1(&[password]);
    xor(stage1, &sha1(&[salt, &sha1(&[&stage1])])).to_vec()
}

/// Whether `answer` proves the password of `stage2`.
pub fn native_verify(answer: &[u8], salt: &Salt, stage2: &NativeStage2) -> bool {
    let Ok(answer) = <[u8; 20]>::try_from(answer) else {
        return false;
    };
    let stage1 = xor(answer, &sha1(&[salt, stage2]));
    verify_slices_are_equal(&sha1(&[&stage1]), stage2).is_ok()
}

/// Computes the hash of a password that the fast path caches.
pub fn sha2_stage2(password: &[u8]) -> Sha2Stage2 {
    sha256(&[&sha256(&[password])])
}

/// Computes a client's first answer for `caching_sha2_password`; empty for an empty password.
pub fn sha2_answer(password: &[u8], salt: &Salt) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let stage1 = sha256(&[password]);
    xor(stage1, &sha256(&[&sha256(&[&stage1]), salt])).to_vec()
}

/// Whether `answer` proves the password of `stage2`.
pub fn sha2_verify_fast(answer: &[u8], salt: &Salt, stage2: &Sha2Stage2) -> bool {
    let Ok(answer) = <[u8; 32]>::try_from(answer) else {
        return false;
    };
    let stage1 = xor(answer, &sha256(&[stage2, salt]));
    verify_slices_are_equal(&sha256(&[&stage1]), stage2).is_ok()
}

/// Whether `password` belongs to the hash `stored`. Takes as long as about 10,000 hashes:
/// milliseconds.
pub fn sha2_verify_full(password: &[u8], stored: &[u8]) -> bool {
    if password.len() > MAX_PASSWORD {
        return false;
    }
    let Some(Stored { rounds, salt, hash }) = split_stored(stored) else {
        return false;
    };
    verify_slices_are_equal(&sha256_crypt(password, salt, rounds), hash).is_ok()
}

/// Parts of a stored hash.
struct Stored<'a> {
    rounds: u32,
    salt: &'a [u8],
    hash: &'a [u8; ENCODED_LEN],
}

/// Splits a stored hash. The number of rounds is stored in thousands, as three hexadecimal
/// digits.
fn split_stored(stored: &[u8]) -> Option<Stored<'_>> {
    let rest = stored.strip_prefix(b"$A$")?;
    let (rounds, rest) = rest.split_first_chunk::<3>()?;
    let rounds = u32::from_str_radix(std::str::from_utf8(rounds).ok()?, 16).ok()?;
    let rest = rest.strip_prefix(b"$")?;
    let (salt, hash) = rest.split_first_chunk::<20>()?;
    let hash: &[u8; ENCODED_LEN] = hash.try_into().ok()?;
    (rounds > 0).then_some(Stored {
        rounds: rounds * 1000,
        salt,
        hash,
    })
}

/// The server's RSA key pair. Clients without TLS encrypt passwords with its public key.
pub struct RsaKey {
    key: OaepPrivateDecryptingKey,
    public_pem: String,
}

impl std::fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RsaKey")
    }
}

impl RsaKey {
    /// Generates a key of 2,048 bits. Takes about a tenth of a second.
    pub fn generate() -> Option<RsaKey> {
        RsaKey::wrap(PrivateDecryptingKey::generate(KeySize::Rsa2048).ok()?)
    }

    /// Generates a key and returns it as PKCS#8 (DER), for [`RsaKey::from_pkcs8`].
    pub fn generate_pkcs8() -> Option<Vec<u8>> {
        let key = PrivateDecryptingKey::generate(KeySize::Rsa2048).ok()?;
        let der = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&key).ok()?;
        Some(der.as_ref().to_vec())
    }

    /// Parses a key in PKCS#8 (DER).
    pub fn from_pkcs8(der: &[u8]) -> Option<RsaKey> {
        RsaKey::wrap(PrivateDecryptingKey::from_pkcs8(der).ok()?)
    }

    fn wrap(key: PrivateDecryptingKey) -> Option<RsaKey> {
        let der =
            AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(&key.public_key()).ok()?;
        let public_pem = pem(der.as_ref());
        let key = OaepPrivateDecryptingKey::new(key).ok()?;
        Some(RsaKey { key, public_pem })
    }

    /// The public key in PEM, the format in which clients request it.
    pub fn public_pem(&self) -> &str {
        &self.public_pem
    }

    /// Decrypts the password in a client's message; `None` if the message is malformed.
    pub fn decrypt_password(&self, message: &[u8], salt: &Salt) -> Option<Vec<u8>> {
        let mut plain = vec![0; self.key.min_output_size()];
        let plain = self
            .key
            .decrypt(&OAEP_SHA1_MGF1SHA1, message, &mut plain, None)
            .ok()?;
        let mut password = mask(plain, salt);
        (password.pop() == Some(0)).then_some(password)
    }
}

/// XORs `text` with the salt, which is repeated to the length of `text`.
fn mask(text: &[u8], salt: &Salt) -> Vec<u8> {
    text.iter()
        .zip(salt.iter().cycle())
        .map(|(a, b)| a ^ b)
        .collect()
}

/// Encrypts a client's password with the server's public key.
pub fn encrypt_password(password: &[u8], salt: &Salt, public_pem: &[u8]) -> Option<Vec<u8>> {
    let key = PublicEncryptingKey::from_der(&unpem(public_pem)?).ok()?;
    let key = OaepPublicEncryptingKey::new(key).ok()?;
    let mut plain = password.to_vec();
    plain.push(0);
    let mut message = vec![0; key.ciphertext_size()];
    let written = key
        .encrypt(&OAEP_SHA1_MGF1SHA1, &mask(&plain, salt), &mut message, None)
        .ok()?
        .len();
    message.truncate(written);
    Some(message)
}

/// Encodes a public key in PEM: base64 in lines of 64 characters.
fn pem(der: &[u8]) -> String {
    let mut text = b"-----BEGIN PUBLIC KEY-----\n".to_vec();
    for line in der.chunks(48) {
        base64::encode(line, &mut text);
        text.push(b'\n');
    }
    text.extend_from_slice(b"-----END PUBLIC KEY-----\n");
    String::from_utf8_lossy(&text).into_owned()
}

/// Decodes a PEM text to DER.
fn unpem(text: &[u8]) -> Option<Vec<u8>> {
    let lines = text.split(|&b| b == b'\n');
    let encoded: Vec<u8> = lines
        .filter(|line| !line.starts_with(b"-----"))
        .flatten()
        .copied()
        .filter(|b| *b != b'\r')
        .collect();
    base64::decode(&encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: Salt = *b"abcdefghijklmnopqrst";

    /// Hash that a server stores for a password.
    fn stage2(password: &[u8]) -> NativeStage2 {
        parse_native_text(&porpoise_base::password::native(password)).unwrap()
    }

    #[test]
    fn an_incomplete_stored_hash_is_refused() {
        assert_eq!(stage2(b"x"), sha1(&[&sha1(&[b"x"])]));
        assert_eq!(parse_native_text(b"*12"), None);
    }

    #[test]
    fn native_answers_verify_only_with_password_and_salt() {
        let answer = native_answer(b"secret", &SALT);
        let stored = stage2(b"secret");
        assert!(native_verify(&answer, &SALT, &stored));
        assert!(!native_verify(&answer, &[7; 20], &stored));
        assert!(!native_verify(&answer, &SALT, &stage2(b"Secret")));
        assert!(!native_verify(b"", &SALT, &stored));
    }

    #[test]
    fn a_sha2_hash_stored_by_mysql_verifies_its_password() {
        // A published hash of the password "hashcat".
        let mut stored = b"$A$005$".to_vec();
        stored.extend([
            0xF9, 0xCC, 0x98, 0xCE, 0x08, 0x89, 0x29, 0x24, 0xF5, 0x0A, 0x21, 0x3B, 0x6B, 0xC5,
            0x71, 0xA2, 0xC1, 0x17, 0x78, 0xC5,
        ]);
        stored.extend(b"bTy95Y99eAME1dwEkHOA1ndHGBWz.1bxSSRkuTXFGV/");
        assert!(sha2_verify_full(b"hashcat", &stored), "{stored:?}");
        assert!(!sha2_verify_full(b"hashcats", &stored));
        assert!(!sha2_verify_full(b"hashcat", &stored[..69]));
    }

    #[test]
    fn sha2_fast_path_verifies_only_with_password_and_salt() {
        let answer = sha2_answer(b"secret", &SALT);
        let stage2 = sha2_stage2(b"secret");
        assert!(sha2_verify_fast(&answer, &SALT, &stage2));
        assert!(!sha2_verify_fast(&answer, &[7; 20], &stage2));
        assert!(!sha2_verify_fast(&answer, &SALT, &sha2_stage2(b"other")));
        assert!(!sha2_verify_fast(&answer[..31], &SALT, &stage2));
    }

    #[test]
    fn an_encrypted_password_is_decrypted_and_a_stored_key_is_parsed() {
        let key = RsaKey::generate().expect("key");
        assert!(key.public_pem().starts_with("-----BEGIN PUBLIC KEY-----\n"));
        let message = encrypt_password(b"secret", &SALT, key.public_pem().as_bytes());
        let mut message = message.expect("encrypted");
        assert_eq!(
            key.decrypt_password(&message, &SALT),
            Some(b"secret".to_vec())
        );
        message[9] ^= 1;
        assert_eq!(key.decrypt_password(&message, &SALT), None);
        let pkcs8 = RsaKey::generate_pkcs8().expect("key");
        let (first, second) = (RsaKey::from_pkcs8(&pkcs8), RsaKey::from_pkcs8(&pkcs8));
        let (first, second) = (first.expect("read"), second.expect("read"));
        assert_eq!(first.public_pem(), second.public_pem());
    }
}
