//! Who the client is: the login exchange, the fast path's memory, hosts.
//!
//! The mathematics and the order of the exchange are in the protocol's codec
//! (`porpoise_wire::mysql::login`); here are the accounts, the messages and
//! the rules about places.
//!
//! Invariants:
//! 1. The fast path is keyed by the stored secret, so that a changed password
//!    is forgotten by being another key.
//! 2. An account without a password opens to clients on this machine only.
//! 3. A name that does not exist is refused by the same exchange, in the same
//!    words, as a wrong password.

use super::Shared;
use super::answer::Answer;
use crate::metrics::{self, Counter};
use crate::net::Peer;
use parking_lot::Mutex;
use porpoise_base::blocking::blocking;
use porpoise_sql::SqlError;
use porpoise_wire::mysql::auth::{Plugin, Sha2Stage2};
use porpoise_wire::mysql::capability::Capabilities;
use porpoise_wire::mysql::handshake::{Attributes, ChangeUser, LoginRequest, Salt};
use porpoise_wire::mysql::login::{Account, Login, Next};
use std::collections::HashMap;

/// What the fast path of `caching_sha2_password` remembers, by stored secret.
#[derive(Default)]
pub(super) struct FastPath(Mutex<HashMap<Vec<u8>, Sha2Stage2>>);

/// Secrets remembered at most.
const REMEMBERED: usize = 10_000;

impl FastPath {
    fn find(&self, secret: &[u8]) -> Option<Sha2Stage2> {
        self.0.lock().get(secret).copied()
    }

    fn remember(&self, secret: Vec<u8>, proof: Sha2Stage2) {
        let mut all = self.0.lock();
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(secret, proof);
    }
}

/// Where the client comes from, as accounts name it.
pub(super) fn host_of(peer: &Peer) -> String {
    match peer.address {
        Some(address) if !peer.is_local() => address.ip().to_canonical().to_string(),
        _ => "localhost".to_owned(),
    }
}

/// What a client asks for with its login or change of user.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) user: String,
    pub(super) database: Option<String>,
    pub(super) collation: u16,
    pub(super) capabilities: Capabilities,
}

impl Request {
    pub(super) fn of_login(login: &LoginRequest<'_>) -> Request {
        tell(login.user, login.attributes);
        Request {
            user: String::from_utf8_lossy(login.user).into_owned(),
            database: named(login.database),
            collation: u16::from(login.collation),
            capabilities: login.capabilities,
        }
    }

    pub(super) fn of_change(change: &ChangeUser<'_>, before: &Request) -> Request {
        tell(change.user, change.attributes);
        Request {
            user: String::from_utf8_lossy(change.user).into_owned(),
            database: named(change.database),
            collation: change.collation.unwrap_or(before.collation),
            capabilities: before.capabilities,
        }
    }
}

/// What the client program says of itself, for who looks for it in the log.
fn tell(user: &[u8], attributes: Attributes<'_>) {
    let program = attributes
        .filter(|(name, _)| matches!(*name, b"program_name" | b"_client_name"))
        .last();
    if let Some((_, program)) = program {
        let user = String::from_utf8_lossy(user);
        let program = String::from_utf8_lossy(program);
        tracing::debug!(?user, ?program, "login");
    }
}

fn named(database: &[u8]) -> Option<String> {
    (!database.is_empty()).then(|| String::from_utf8_lossy(database).into_owned())
}

/// A login in progress.
pub(super) struct Authentication {
    login: Login,
    pub(super) request: Request,
    /// The account's name, and its secret for the fast path.
    account: Option<(String, Vec<u8>)>,
    with_password: bool,
}

/// What came of a step.
pub(super) enum Verdict {
    /// The client answers next.
    Wait,
    /// The client is the user of this account.
    Granted(String),
    /// An error was sent: the connection ends.
    Refused,
}

impl Authentication {
    /// Looks the account up.
    ///
    /// # Errors
    /// Reading the accounts failed.
    pub(super) fn begin(
        shared: &Shared,
        peer: &Peer,
        request: Request,
        salt: Salt,
        secure: bool,
    ) -> Result<Authentication, SqlError> {
        let found = shared.sql.account(&request.user, &host_of(peer))?;
        // Without a password from this machine only.
        let found = found.filter(|a| peer.is_local() || !a.secret.is_empty());
        let found = found.and_then(|a| Some((Plugin::by_name(a.plugin.as_bytes())?, a)));
        let account = found.as_ref().map(|(plugin, a)| Account {
            plugin: *plugin,
            secret: &a.secret,
            remembered: shared.fast_path.find(&a.secret),
        });
        Ok(Authentication {
            login: Login::new(account, salt, secure),
            account: found.map(|(_, a)| (a.name(), a.secret)),
            request,
            with_password: false,
        })
    }

    /// Takes the answer that came with the request.
    pub(super) fn start(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        plugin: &[u8],
        reply: &[u8],
        answer: &mut Answer<'_>,
    ) -> Verdict {
        self.with_password = !matches!(reply, [] | [0]);
        let switches = self.request.capabilities.has(Capabilities::PLUGIN_AUTH);
        let next = self
            .login
            .start(plugin, reply, answer.out.buf(), &mut answer.sequence);
        if next == Next::Wait && !switches {
            let _ = answer.take_back(answer.sequence.wrapping_sub(1));
            let text = "Client does not support authentication protocol requested by server; \
                        consider upgrading MySQL client";
            answer.raw_error(1251, *b"08004", text);
            return Verdict::Refused;
        }
        self.judge(shared, peer, next, answer)
    }

    /// Asks for an answer to a new challenge, whatever came with the request:
    /// clients differ in which challenge they answer at a change of user.
    pub(super) fn start_anew(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        answer: &mut Answer<'_>,
    ) -> Verdict {
        self.start(shared, peer, b"-", b"", answer)
    }

    /// Takes the client's next packet.
    pub(super) fn more(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        payload: &[u8],
        answer: &mut Answer<'_>,
    ) -> Verdict {
        self.with_password |= !matches!(payload, [] | [0]);
        // A password's hash takes thousands of rounds, and RSA a millisecond.
        let next = blocking(|| {
            self.login.more(
                payload,
                shared.rsa.as_ref(),
                answer.out.buf(),
                &mut answer.sequence,
            )
        });
        self.judge(shared, peer, next, answer)
    }

    fn judge(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        next: Next,
        answer: &mut Answer<'_>,
    ) -> Verdict {
        match (next, self.account.take()) {
            (Next::Wait, account) => {
                self.account = account;
                Verdict::Wait
            }
            (Next::Granted(proof), Some((name, secret))) => {
                if let Some(proof) = proof {
                    shared.fast_path.remember(secret, proof);
                }
                if peer.reserved && self.request.user != ADMINISTRATOR {
                    answer.raw_error(1040, *b"08004", "Too many connections");
                    return Verdict::Refused;
                }
                Verdict::Granted(name)
            }
            (Next::Granted(_) | Next::Denied, _) => {
                metrics::add(Counter::LoginsDenied, 1);
                let (user, host) = (&self.request.user, host_of(peer));
                tracing::info!(connection = peer.id, ?user, %host, "login denied");
                let using = if self.with_password { "YES" } else { "NO" };
                let text =
                    format!("Access denied for user '{user}'@'{host}' (using password: {using})");
                answer.raw_error(1045, *b"28000", &text);
                Verdict::Refused
            }
        }
    }
}

/// The user for whom one connection is kept when all others are taken.
const ADMINISTRATOR: &str = "root";

#[cfg(test)]
mod tests {
    use super::*;
    use porpoise_base::cancel::Cancel;

    fn peer(address: Option<&str>) -> Peer {
        Peer {
            id: 1,
            address: address.map(|a| a.parse().unwrap()),
            reserved: false,
            memory: std::sync::Arc::default(),
            cancel: Cancel::new(),
        }
    }

    #[test]
    fn sockets_and_loopback_are_localhost() {
        for local in [
            None,
            Some("127.0.0.1:1"),
            Some("[::1]:1"),
            Some("[::ffff:127.0.0.1]:1"),
        ] {
            assert_eq!(host_of(&peer(local)), "localhost", "{local:?}");
        }
        assert_eq!(host_of(&peer(Some("[::ffff:192.0.2.1]:1"))), "192.0.2.1");
    }

    #[test]
    fn the_fast_path_forgets_rather_than_grows() {
        let fast = FastPath::default();
        for n in 0..REMEMBERED as u32 {
            fast.remember(n.to_le_bytes().to_vec(), [1; 32]);
        }
        assert_eq!(fast.find(&7u32.to_le_bytes()), Some([1; 32]));
        fast.remember(b"one more".to_vec(), [2; 32]);
        assert_eq!(fast.find(&7u32.to_le_bytes()), None);
        assert_eq!(fast.find(b"one more"), Some([2; 32]));
    }
}
