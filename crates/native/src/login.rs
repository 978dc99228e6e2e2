//! Login: the exchange of MySQL's plugins in frames of this protocol.
//!
//! Accounts, stored secrets and the exchange are those of MySQL's protocol
//! ([`porpoise_wire::mysql::login`]): the answer to the challenge suffices where the hash of the
//! password is cached; otherwise the password itself is sent, in clear text over TLS or a Unix
//! socket, encrypted with the server's RSA key over others. The messages of the plugin are the
//! payloads of [`Kind::Authentication`](porpoise_wire::native::frame::Kind) frames.
//!
//! Invariants:
//! 1. An unknown user is refused by the same exchange and with the same message as a wrong password.
//! 2. An account without a password accepts clients on this machine only.

use crate::settings::{Client, ListenerState};
use porpoise_access::{Account, AuthId, LoginError, LoginPolicy, PasswordProof, access_denied};
use porpoise_base::blocking::blocking;
use porpoise_wire::mysql::auth::Plugin;
use porpoise_wire::mysql::handshake::Salt;
use porpoise_wire::mysql::login::{Account as Proof, Login, Next, SecondPassword};
use porpoise_wire::native::{LOGIN_PLUGIN, message};
use std::time::Duration;

/// The user for whom one connection is reserved when all others are used.
const ADMINISTRATOR: &str = "root";

/// Length of the header of MySQL's packets, which is removed from the plugin's messages.
const PACKET_HEADER: usize = 4;

/// A login in progress.
pub(crate) struct Authentication {
    login: Login,
    user: String,
    account: Option<Account>,
    /// Version of access control at which the account was looked up.
    version: u64,
    /// Whether the client has sent a password, for the error message.
    with_password: bool,
}

/// Refusal of a login.
pub(crate) struct Refused {
    pub(crate) code: u16,
    pub(crate) sqlstate: &'static str,
    pub(crate) text: String,
    /// Delay before the message is sent.
    pub(crate) delay: Duration,
}

/// Login that succeeded.
pub(crate) struct Granted {
    pub(crate) user: String,
    pub(crate) account: AuthId,
    pub(crate) version: u64,
    /// Delay before the reply is sent.
    pub(crate) delay: Duration,
}

/// Result of one step of a login.
pub(crate) enum Step {
    /// This message of the plugin is sent; the client sends the next one.
    Wait(Vec<u8>),
    /// The client has proved the account; a last message of the plugin may precede.
    Granted(Vec<u8>, Granted),
    /// The login is refused; the connection closes.
    Refused(Refused),
}

impl Authentication {
    /// Begins a login with the client's first message, and processes it.
    pub(crate) fn begin(
        shared: &ListenerState,
        client: &Client,
        salt: Salt,
        request: &message::Login<'_>,
    ) -> (Authentication, Step) {
        let settings = &shared.settings;
        let data = settings.control.current().unwrap_or_default();
        let user = request.user.to_owned();
        let found = data.candidate(&user, &client.host).cloned();
        let found = found.filter(|a| client.is_local || !a.secret.is_empty());
        let found = found.and_then(|a| Some((Plugin::by_name(a.plugin.as_bytes())?, a)));
        let cached = |secret: &[u8]| settings.verifiers.find(secret);
        let proof = found.as_ref().map(|(plugin, a)| Proof {
            plugin: *plugin,
            secret: &a.secret,
            cached_hash: cached(&a.secret),
            second: a
                .attributes
                .second_secret
                .as_ref()
                .map(|secret| SecondPassword {
                    secret: secret.as_bytes(),
                    cached_hash: cached(secret.as_bytes()),
                }),
        });
        let decoy = settings.control.decoy(&user).plugin;
        let decoy = Plugin::by_name(decoy.as_bytes()).unwrap_or(Plugin::CachingSha2);
        let is_secure = client.is_unix || client.tls.is_some();
        let mut login = Login::new(proof, decoy, salt, is_secure);
        if data.has_second_passwords() {
            login = login.with_decoy_second_password();
        }
        tracing::debug!(?user, program = request.program, "native login");
        let mut authentication = Authentication {
            login,
            user,
            account: found.map(|(_, a)| a),
            version: data.version,
            with_password: !matches!(request.answer, [] | [0]),
        };
        let (mut out, mut sequence) = (Vec::new(), 0);
        let plugin = LOGIN_PLUGIN.as_bytes();
        let next = authentication
            .login
            .start(plugin, request.answer, &mut out, &mut sequence);
        let step = authentication.conclude(shared, client, next, out);
        (authentication, step)
    }

    /// Processes the client's next message.
    pub(crate) fn more(&mut self, shared: &ListenerState, client: &Client, payload: &[u8]) -> Step {
        self.with_password |= !matches!(payload, [] | [0]);
        let (mut out, mut sequence) = (Vec::new(), 0);
        let rsa = shared.settings.rsa.as_deref();
        // Blocking: a password hash takes thousands of rounds, and RSA a millisecond.
        let next = blocking(|| self.login.more(payload, rsa, &mut out, &mut sequence));
        self.conclude(shared, client, next, out)
    }

    fn conclude(
        &mut self,
        shared: &ListenerState,
        client: &Client,
        next: Next,
        packet: Vec<u8>,
    ) -> Step {
        let message = packet.get(PACKET_HEADER..).unwrap_or_default().to_vec();
        let (is_proved, verifier) = match next {
            Next::Wait => return Step::Wait(message),
            Next::Granted(verifier) => (true, verifier),
            Next::Denied => (false, None),
        };
        let settings = &shared.settings;
        let control = &settings.control;
        let (delays, lifetime) = (settings.policy)();
        let now = control.now();
        let proof = PasswordProof {
            is_proved,
            verifier,
            is_second: self.login.is_by_second_password(),
        };
        let account = control.verified(self.account.take(), &proof, &settings.verifiers);
        let admitted = match account {
            Some(account) => self.admit(shared, client, &account, lifetime),
            None => Err(self.denied(client)),
        };
        // A login that is refused because the audit log cannot be written does not count as a failure of the client.
        let is_admitted = admitted.is_ok();
        let reported = (settings.audit)(client.id, &self.user, &client.host, is_admitted);
        let admitted = admitted.and_then(|account| reported.map(|()| account));
        let delay = control
            .guard()
            .record(&self.user, &client.host, now, is_admitted, delays);
        match admitted {
            Ok(account) => {
                let granted = Granted {
                    user: self.user.clone(),
                    account,
                    version: self.version,
                    delay,
                };
                Step::Granted(message, granted)
            }
            Err((code, sqlstate, text)) => {
                tracing::info!(connection = client.id, user = ?self.user, host = %client.host, "native login denied");
                Step::Refused(Refused {
                    code,
                    sqlstate,
                    text,
                    delay,
                })
            }
        }
    }

    fn denied(&self, client: &Client) -> LoginError {
        access_denied(&self.user, &client.host, self.with_password)
    }

    /// Checks the account's other requirements once its password is proved.
    fn admit(
        &self,
        shared: &ListenerState,
        client: &Client,
        account: &Account,
        default_lifetime: u16,
    ) -> Result<AuthId, LoginError> {
        let control = &shared.settings.control;
        let policy = LoginPolicy {
            default_lifetime,
            // The native protocol has no request that changes a password.
            refuse_expired: true,
        };
        match control.admit(account, client.tls.as_ref(), control.now(), policy) {
            Ok(_) if client.is_reserved && self.user != ADMINISTRATOR => {
                Err((1040, "08004", "Too many connections".to_owned()))
            }
            Ok(_) => Ok(account.id()),
            Err(denial) => Err(denial.error(&self.user, &client.host, self.with_password)),
        }
    }
}
