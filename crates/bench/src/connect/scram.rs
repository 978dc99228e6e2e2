//! SCRAM-SHA-256 (RFC 5802, RFC 7677) as a client, without channel binding.

use crate::error::{Error, Result};
use aws_lc_rs::{digest, hmac, pbkdf2};
use porpoise_base::base64;
use std::num::NonZeroU32;

/// Maximum number of rounds that is accepted from a server.
const MOST_ROUNDS: u32 = 1_000_000;

const LENGTH: usize = digest::SHA256_OUTPUT_LEN;

/// An exchange in progress.
#[derive(Debug)]
pub struct Scram {
    password: String,
    nonce: String,
    server_signature: Option<[u8; LENGTH]>,
}

impl Scram {
    /// An exchange with a random nonce.
    pub fn new(password: &str) -> Scram {
        let mut random = [0; 18];
        fastrand::fill(&mut random);
        Scram::with_nonce(password, encode(&random))
    }

    fn with_nonce(password: &str, nonce: String) -> Scram {
        Scram {
            password: password.to_owned(),
            nonce,
            server_signature: None,
        }
    }

    /// The client's first message.
    pub fn first(&self) -> String {
        format!("n,,n=,r={}", self.nonce)
    }

    /// The client's answer to the server's first message.
    ///
    /// # Errors
    /// A message that is not the method's.
    pub fn answer(&mut self, server_first: &[u8]) -> Result<String> {
        self.try_answer(server_first)
            .ok_or_else(|| Error::failed("the server's SCRAM message cannot be read"))
    }

    fn try_answer(&mut self, server_first: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(server_first).ok()?;
        let nonce = field(text, "r=").filter(|nonce| nonce.starts_with(&self.nonce))?;
        let salt = base64::decode(field(text, "s=")?.as_bytes())?;
        let rounds: u32 = field(text, "i=")?.parse().ok()?;
        let rounds = NonZeroU32::new(rounds).filter(|n| n.get() <= MOST_ROUNDS)?;
        let mut salted = [0; LENGTH];
        let password = self.password.as_bytes();
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            rounds,
            &salt,
            password,
            &mut salted,
        );
        let client_key = sign(&salted, b"Client Key")?;
        let server_key = sign(&salted, b"Server Key")?;
        let stored = digest::digest(&digest::SHA256, &client_key);
        let unproved = format!("c=biws,r={nonce}");
        let all = format!("n=,r={},{text},{unproved}", self.nonce);
        let signature = sign(stored.as_ref(), all.as_bytes())?;
        self.server_signature = Some(sign(&server_key, all.as_bytes())?);
        let proof: Vec<u8> = client_key
            .iter()
            .zip(signature)
            .map(|(a, b)| a ^ b)
            .collect();
        Some(format!("{unproved},p={}", encode(&proof)))
    }

    /// Checks that the server knows the password, too.
    ///
    /// # Errors
    /// It did not.
    pub fn check_server(&self, server_final: &[u8]) -> Result<()> {
        let signature = std::str::from_utf8(server_final)
            .ok()
            .and_then(|text| field(text, "v="))
            .and_then(|text| base64::decode(text.as_bytes()));
        match (&self.server_signature, signature) {
            (Some(ours), Some(theirs)) if theirs == ours => Ok(()),
            _ => Err(Error::failed("the server's SCRAM signature is wrong")),
        }
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split(',').find_map(|part| part.strip_prefix(name))
}

fn sign(key: &[u8], text: &[u8]) -> Option<[u8; LENGTH]> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text).as_ref().try_into().ok()
}

fn encode(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    base64::encode(bytes, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, whose user name is not empty: the proof differs
    /// from ours by that name alone, so the signature is checked by its key.
    #[test]
    fn the_salted_password_is_that_of_the_rfc() {
        let salt = base64::decode(b"W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let mut salted = [0; LENGTH];
        let rounds = NonZeroU32::new(4096).unwrap();
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            rounds,
            &salt,
            b"pencil",
            &mut salted,
        );
        let all = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                   r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                   s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
                   c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let server_key = sign(&salted, b"Server Key").unwrap();
        let signature = sign(&server_key, all.as_bytes()).unwrap();
        assert_eq!(
            encode(&signature),
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn a_nonce_that_is_not_ours_is_refused() {
        let mut scram = Scram::with_nonce("pencil", "abc".to_owned());
        assert!(scram.answer(b"r=xyz,s=W22Z,i=4096").is_err());
        assert!(scram.answer(b"r=abcd,s=W22Z,i=0").is_err());
        assert!(scram.answer(b"r=abcd,s=W22Z,i=4294967295").is_err());
        assert!(scram.answer(b"r=abcd,s=W22Z,i=4096").is_ok());
        assert!(scram.check_server(b"v=AAAA").is_err());
    }
}
