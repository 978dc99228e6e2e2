//! The authentication exchange, without sockets: the listener passes in the client's
//! packets and sends the packets that are appended.
//!
//! 1. The answer in the login request is used if it was computed for the account's
//!    plugin; otherwise the client is asked to switch to that plugin.
//! 2. `caching_sha2_password`: if the cache has the user's hash, the answer to the challenge is
//!    sufficient. Otherwise the password itself is requested: in clear text over a secure channel,
//!    encrypted with RSA over others.
//! 3. No user enumeration: the login of an unknown user takes the same steps against a decoy
//!    secret (the same plugins, packets and number of hashes) and is denied at the end. The same
//!    applies to a password sent for an account that has none.
//! 4. Of an account with two passwords either is accepted. If any account has a second password,
//!    a failed check takes the time of two for all accounts
//!    ([`Login::with_decoy_second_password`]).

use super::auth::{
    Plugin, RsaKey, Sha2Stage2, native_verify, parse_native_text, sha2_stage2, sha2_verify_fast,
    sha2_verify_full,
};
use super::handshake::{Salt, random_salt, write_auth_more, write_auth_switch};

/// Next action of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send the appended packets; pass the client's next packet to [`Login::more`].
    Wait,
    /// The user is authenticated: reply OK, and store the hash, if there is one, in the cache of
    /// the fast path.
    Granted(Option<Sha2Stage2>),
    /// Reply error 1045.
    Denied,
}

/// The login data of an account.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// Authentication plugin.
    pub plugin: Plugin,
    /// Stored secret ([`porpoise_base::password`]).
    pub secret: &'a [u8],
    /// Hash for the fast path, if it is in the cache.
    pub cached_hash: Option<Sha2Stage2>,
    /// Second password of the account, for the same plugin.
    pub second: Option<SecondPassword<'a>>,
}

/// A second password of an account.
#[derive(Clone, Copy, Debug)]
pub struct SecondPassword<'a> {
    /// Stored secret.
    pub secret: &'a [u8],
    /// Hash for the fast path, if it is in the cache.
    pub cached_hash: Option<Sha2Stage2>,
}

/// The packet that is expected from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The login request.
    Start,
    /// The answer after a switch of the plugin.
    Switched,
    /// The password in clear text, or encrypted, or a request for the public key.
    AwaitPassword,
    /// The encrypted password.
    AwaitEncrypted,
    /// None.
    Finished,
}

/// Message of `caching_sha2_password` to the client: the answer was correct.
const FAST_OK: u8 = 3;
/// Message of `caching_sha2_password` to the client: the server needs the password itself.
const FULL_AUTH: u8 = 4;
/// Message of `caching_sha2_password` from the client: request for the public key.
const REQUEST_PUBLIC_KEY: &[u8] = &[2];

/// Secret of a decoy for an unknown user; no password has this hash.
const DECOY: &[u8] = b"$A$005$aaaaaaaaaaaaaaaaaaaa...........................................";

/// One login in progress.
#[derive(Debug)]
pub struct Login {
    /// Plugin of the account.
    plugin: Plugin,
    /// Stored secret of the account, or a decoy.
    secret: Vec<u8>,
    /// The account's hash in the cache of the fast path.
    cached_hash: Option<Sha2Stage2>,
    /// The second password: stored secret, and hash in the cache of the fast path.
    second: Option<(Vec<u8>, Option<Sha2Stage2>)>,
    /// Whether the second password was the correct one.
    is_by_second: bool,
    /// Whether the login can be granted: the account exists and has a password.
    is_known: bool,
    /// The last challenge.
    salt: Salt,
    /// Whether the connection is protected from eavesdropping (TLS, or a Unix socket).
    secure: bool,
    state: State,
}

impl Login {
    /// Starts a login to `account` (`None`: no such user) over a connection whose greeting
    /// contained `salt`. `secure`: the connection cannot be eavesdropped on (TLS, a Unix socket).
    /// `decoy` is the plugin offered to an unknown user.
    pub fn new(account: Option<Account<'_>>, decoy: Plugin, salt: Salt, secure: bool) -> Login {
        let is_known = account.is_some();
        let account = account.unwrap_or(Account {
            plugin: decoy,
            secret: DECOY,
            cached_hash: None,
            second: None,
        });
        let second = account.second;
        Login {
            plugin: account.plugin,
            secret: account.secret.to_vec(),
            cached_hash: account.cached_hash,
            second: second.map(|s| (s.secret.to_vec(), s.cached_hash)),
            is_by_second: false,
            is_known,
            salt,
            secure,
            state: State::Start,
        }
    }

    /// Adds a decoy if the account has no second password, so that a login takes as long as one to
    /// an account that has a second password.
    #[must_use]
    pub fn with_decoy_second_password(mut self) -> Login {
        self.second.get_or_insert_with(|| (DECOY.to_vec(), None));
        self
    }

    /// Whether the user was authenticated by the second password.
    pub fn is_by_second_password(&self) -> bool {
        self.is_by_second
    }

    /// Whether one of the account's passwords passes `check`, which gets a stored secret and its
    /// cached hash. Checks the second password only if the first one fails.
    fn check_passwords(&mut self, check: impl Fn(&[u8], Option<Sha2Stage2>) -> bool) -> bool {
        if check(&self.secret, self.cached_hash) {
            return self.is_known;
        }
        let second = self.second.as_ref();
        self.is_by_second = second.is_some_and(|(secret, hash)| check(secret, *hash));
        self.is_by_second && self.is_known
    }

    /// Processes the plugin name and the answer of a login request or a change of user. An empty
    /// name means `mysql_native_password`, which clients without plugin support use.
    pub fn start(
        &mut self,
        plugin: &[u8],
        answer: &[u8],
        out: &mut Vec<u8>,
        sequence: &mut u8,
    ) -> Next {
        let plugin = if plugin.is_empty() {
            Some(Plugin::Native)
        } else {
            Plugin::by_name(plugin)
        };
        if plugin == Some(self.plugin) {
            return self.verify_response(answer, out, sequence);
        }
        if let Some(salt) = random_salt() {
            self.salt = salt;
        }
        write_auth_switch(out, sequence, self.plugin.name(), &self.salt);
        self.state = State::Switched;
        Next::Wait
    }

    /// Processes the client's next packet.
    pub fn more(
        &mut self,
        payload: &[u8],
        rsa: Option<&RsaKey>,
        out: &mut Vec<u8>,
        sequence: &mut u8,
    ) -> Next {
        match self.state {
            State::Switched => self.verify_response(payload, out, sequence),
            State::AwaitPassword if self.secure => match payload.split_last() {
                Some((0, password)) => self.verify_clear_password(password),
                _ => self.finish_login(Next::Denied),
            },
            State::AwaitPassword if payload == REQUEST_PUBLIC_KEY => match rsa {
                Some(rsa) => {
                    write_auth_more(out, sequence, rsa.public_pem().as_bytes());
                    self.state = State::AwaitEncrypted;
                    Next::Wait
                }
                None => self.finish_login(Next::Denied),
            },
            State::AwaitPassword | State::AwaitEncrypted => {
                match rsa.and_then(|rsa| rsa.decrypt_password(payload, &self.salt)) {
                    Some(password) => self.verify_clear_password(&password),
                    None => self.finish_login(Next::Denied),
                }
            }
            State::Start | State::Finished => self.finish_login(Next::Denied),
        }
    }

    fn finish_login(&mut self, next: Next) -> Next {
        self.state = State::Finished;
        next
    }

    /// Processes an answer to the challenge that was computed for the account's plugin.
    fn verify_response(&mut self, answer: &[u8], out: &mut Vec<u8>, sequence: &mut u8) -> Next {
        // An empty password is sent as no bytes or as one NUL.
        let empty = matches!(answer, [] | [0]);
        if empty {
            let granted = self.secret.is_empty() && self.is_known;
            return self.finish_login(if granted {
                Next::Granted(None)
            } else {
                Next::Denied
            });
        }
        if self.secret.is_empty() {
            self.is_known = false;
            self.secret = DECOY.to_vec();
        }
        match self.plugin {
            Plugin::Native => {
                let salt = self.salt;
                let proved = self.check_passwords(|secret, _| {
                    parse_native_text(secret).is_some_and(|s| native_verify(answer, &salt, &s))
                });
                self.finish_login(if proved {
                    Next::Granted(None)
                } else {
                    Next::Denied
                })
            }
            Plugin::CachingSha2 => {
                let salt = self.salt;
                let proved = self.check_passwords(|_, cached_hash| {
                    cached_hash.is_some_and(|hash| sha2_verify_fast(answer, &salt, &hash))
                });
                if proved {
                    write_auth_more(out, sequence, &[FAST_OK]);
                    return self.finish_login(Next::Granted(None));
                }
                // The password may still be correct: the cached hash may be missing or outdated.
                write_auth_more(out, sequence, &[FULL_AUTH]);
                self.state = State::AwaitPassword;
                Next::Wait
            }
        }
    }

    fn verify_clear_password(&mut self, password: &[u8]) -> Next {
        let proved = self.check_passwords(|secret, _| sha2_verify_full(password, secret));
        self.finish_login(if proved {
            Next::Granted(Some(sha2_stage2(password)))
        } else {
            Next::Denied
        })
    }
}
