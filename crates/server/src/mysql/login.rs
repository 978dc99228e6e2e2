//! Authentication of clients: the login exchange
//! and host rules.
//!
//! The codec (`porpoise_wire::mysql::login`) has the cryptography and the order of the exchange;
//! this module has the accounts, the messages and the rules about client hosts.
//!
//! Invariants:
//! 1. An account without a password accepts clients on this machine only.
//! 2. An unknown user name is refused by the same exchange and with the same message as a wrong
//!    password.

use super::Shared;
use super::answer::Answer;
use crate::certificate;
use crate::metrics::{self, Counter};
use crate::net::{Peer, TlsSession};
use porpoise_access::{
    Account, DelayPolicy, LoginError, LoginPolicy, PasswordProof, TlsPeer, access_denied,
};
use porpoise_base::blocking::blocking;
use porpoise_sql::audit::AuditedLogin;
use porpoise_sql::{SqlError, SqlServer};
use porpoise_wire::mysql::auth::Plugin;
use porpoise_wire::mysql::capability::Capabilities;
use porpoise_wire::mysql::handshake::{Attributes, ChangeUser, LoginRequest, Salt};
use porpoise_wire::mysql::login::{Account as Proof, Login, Next, SecondPassword};
use std::time::Duration;

/// A client's request for a login or a change of user.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) user: String,
    pub(super) database: Option<String>,
    pub(super) collation: u16,
    pub(super) capabilities: Capabilities,
}

impl Request {
    pub(super) fn of_login(login: &LoginRequest<'_>) -> Request {
        log_program(login.user, login.attributes);
        Request {
            user: String::from_utf8_lossy(login.user).into_owned(),
            database: database_name(login.database),
            collation: u16::from(login.collation),
            capabilities: login.capabilities,
        }
    }

    pub(super) fn of_change(change: &ChangeUser<'_>, before: &Request) -> Request {
        log_program(change.user, change.attributes);
        Request {
            user: String::from_utf8_lossy(change.user).into_owned(),
            database: database_name(change.database),
            collation: change.collation.unwrap_or(before.collation),
            capabilities: before.capabilities,
        }
    }
}

/// Logs the program name that the client reports.
fn log_program(user: &[u8], attributes: Attributes<'_>) {
    let program = attributes
        .filter(|(name, _)| matches!(*name, b"program_name" | b"_client_name"))
        .last();
    if let Some((_, program)) = program {
        let user = String::from_utf8_lossy(user);
        let program = String::from_utf8_lossy(program);
        tracing::debug!(?user, ?program, "login");
    }
}

/// The default database that a client requests; `None` if the name is empty.
fn database_name(database: &[u8]) -> Option<String> {
    (!database.is_empty()).then(|| String::from_utf8_lossy(database).into_owned())
}

/// A login in progress.
pub(super) struct Authentication {
    login: Login,
    pub(super) request: Request,
    /// The account, if it exists and this client may log in to it.
    account: Option<Account>,
    tls: Option<TlsPeer>,
    /// Whether the client has sent a password, for the error message.
    with_password: bool,
}

/// The result of one step of a login.
pub(super) enum LoginStep {
    /// The client sends the next packet.
    Wait,
    /// The client has proved this account.
    Granted(Granted),
    /// An error was appended. It is sent after this delay, and the connection closes.
    Refused(Duration),
}

/// A login that succeeded.
pub(super) struct Granted {
    /// The account's name.
    pub(super) account: String,
    /// Whether the session may only change its password.
    pub(super) password_expired: bool,
    /// Delay before the reply is sent.
    pub(super) delay: Duration,
}

/// The properties of an encrypted connection that a REQUIRE clause can check.
pub(crate) fn tls_peer(session: TlsSession) -> TlsPeer {
    let names = session.certificate.as_deref().and_then(certificate::names);
    TlsPeer {
        cipher: session.cipher,
        certificate: names.map(|names| (names.issuer, names.subject)),
    }
}

impl Authentication {
    /// Starts a login: looks the account up.
    ///
    /// # Errors
    /// Reading the accounts failed.
    pub(super) fn begin(
        shared: &Shared,
        peer: &Peer,
        request: Request,
        salt: Salt,
        tls: Option<TlsSession>,
    ) -> Result<Authentication, SqlError> {
        let access = shared.sql.access();
        let found = access.candidate(&request.user, &peer.host());
        let found = found.map_err(SqlError::from)?;
        // Accounts without a password accept clients on this machine only.
        let found = found.filter(|a| peer.is_local() || !a.secret.is_empty());
        let found = found.and_then(|a| Some((Plugin::by_name(a.plugin.as_bytes())?, a)));
        let account = found.as_ref().map(|(plugin, a)| Proof {
            plugin: *plugin,
            secret: &a.secret,
            cached_hash: shared.verifiers.find(&a.secret),
            second: a
                .attributes
                .second_secret
                .as_ref()
                .map(|secret| SecondPassword {
                    secret: secret.as_bytes(),
                    cached_hash: shared.verifiers.find(secret.as_bytes()),
                }),
        });
        let decoy = access.decoy(&request.user).plugin;
        let decoy = Plugin::by_name(decoy.as_bytes()).unwrap_or(Plugin::CachingSha2);
        let secure = peer.address.is_none() || tls.is_some();
        let mut login = Login::new(account, decoy, salt, secure);
        if access.data().has_second_passwords() {
            login = login.with_decoy_second_password();
        }
        Ok(Authentication {
            login,
            account: found.map(|(_, a)| a),
            request,
            tls: tls.map(tls_peer),
            with_password: false,
        })
    }

    /// Processes the authentication response in the login request.
    pub(super) fn start(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        plugin: &[u8],
        reply: &[u8],
        answer: &mut Answer<'_>,
    ) -> LoginStep {
        self.with_password = !matches!(reply, [] | [0]);
        let switches = self.request.capabilities.has(Capabilities::PLUGIN_AUTH);
        // A client that lacks the plugin of the greeting sends no response and waits for a challenge, as a MariaDB
        // replica does.
        let has_response = plugin != NATIVE_PASSWORD || !reply.is_empty() || !switches;
        let plugin = if has_response { plugin } else { b"-" };
        let next = self
            .login
            .start(plugin, reply, answer.out.buf(), &mut answer.sequence);
        if next == Next::Wait && !switches {
            let _ = answer.discard_unsent(answer.sequence.wrapping_sub(1));
            let text = "Client does not support authentication protocol requested by server; \
                        consider upgrading MySQL client";
            answer.raw_error(1251, *b"08004", text);
            return LoginStep::Refused(Duration::ZERO);
        }
        self.conclude(shared, peer, next, answer)
    }

    /// Sends a new challenge and ignores the response in the request: at a change of user, clients
    /// differ in which challenge they respond to.
    pub(super) fn restart_with_new_challenge(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        answer: &mut Answer<'_>,
    ) -> LoginStep {
        self.start(shared, peer, b"-", b"", answer)
    }

    /// Processes the client's next packet.
    pub(super) fn next_packet(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        payload: &[u8],
        answer: &mut Answer<'_>,
    ) -> LoginStep {
        self.with_password |= !matches!(payload, [] | [0]);
        // Blocking: a password hash takes thousands of rounds, and RSA a millisecond.
        let next = blocking(|| {
            self.login.more(
                payload,
                shared.rsa.as_deref(),
                answer.out.buf(),
                &mut answer.sequence,
            )
        });
        self.conclude(shared, peer, next, answer)
    }

    /// Converts a step of the codec to the result: checks the account's other requirements, and
    /// records the success or failure of the login.
    fn conclude(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        next: Next,
        answer: &mut Answer<'_>,
    ) -> LoginStep {
        let (is_proved, verifier) = match next {
            Next::Wait => return LoginStep::Wait,
            Next::Granted(verifier) => (true, verifier),
            Next::Denied => (false, None),
        };
        let (access, host) = (shared.sql.access(), peer.host());
        let now = access.now();
        let proof = PasswordProof {
            is_proved,
            verifier,
            is_second: self.login.is_by_second_password(),
        };
        let granted = match access.verified(self.account.take(), &proof, &shared.verifiers) {
            Some(account) => self.admit(shared, peer, &account, answer),
            None => {
                let denied = access_denied(&self.request.user, &host, self.with_password);
                append_error(answer, &denied);
                None
            }
        };
        // A login that is refused because the audit log cannot be written does not count as a failure of the client.
        let is_admitted = granted.is_some();
        let granted = self.report(shared, peer, granted, answer);
        let user = &self.request.user;
        let policy = delays(&shared.sql);
        let delay = access.guard().record(user, &host, now, is_admitted, policy);
        match granted {
            Some(granted) => LoginStep::Granted(Granted { delay, ..granted }),
            None => {
                metrics::add(Counter::LoginsDenied, 1);
                tracing::info!(connection = peer.id, ?user, %host, "login denied");
                LoginStep::Refused(delay)
            }
        }
    }

    /// Reports the login to the audit log. Refuses it if the log is required and cannot be written.
    fn report(
        &self,
        shared: &Shared,
        peer: &Peer,
        granted: Option<Granted>,
        answer: &mut Answer<'_>,
    ) -> Option<Granted> {
        let reported = shared.sql.report_login(&AuditedLogin {
            interface: "mysql",
            connection: Some(peer.id),
            user: &self.request.user,
            host: &peer.host(),
            granted: granted.is_some(),
        });
        match (granted, reported) {
            (Some(_), Err(error)) => {
                answer.raw_error(error.code, error.sqlstate, &error.message);
                None
            }
            (granted, _) => granted,
        }
    }

    /// Checks the account's other requirements once its password is proved. Returns `None` after
    /// appending an error.
    fn admit(
        &self,
        shared: &Shared,
        peer: &Peer,
        account: &Account,
        answer: &mut Answer<'_>,
    ) -> Option<Granted> {
        let sql = &shared.sql;
        let on = |name| sql.variable(name).as_deref() == Some("ON");
        let capable = self.request.capabilities;
        let capable = capable.has(Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS);
        let policy = LoginPolicy {
            default_lifetime: u16::try_from(sql.number("default_password_lifetime"))
                .unwrap_or(u16::MAX),
            refuse_expired: !capable && on("disconnect_on_expired_password"),
        };
        let access = sql.access();
        let (user, host) = (&self.request.user, peer.host());
        match access.admit(account, self.tls.as_ref(), access.now(), policy) {
            Ok(_) if peer.reserved && *user != ADMINISTRATOR => {
                answer.raw_error(1040, *b"08004", "Too many connections");
                None
            }
            Ok(admission) => Some(Granted {
                account: account.name(),
                password_expired: admission.password_expired,
                delay: Duration::ZERO,
            }),
            Err(denial) => {
                append_error(answer, &denial.error(user, &host, self.with_password));
                None
            }
        }
    }
}

/// Appends the error of a refused login.
fn append_error(answer: &mut Answer<'_>, (code, sqlstate, text): &LoginError) {
    let mut state = *b"HY000";
    for (to, from) in state.iter_mut().zip(sqlstate.bytes()) {
        *to = from;
    }
    answer.raw_error(*code, state, text);
}

/// Returns the delays after failed logins that the system variables configure.
fn delays(sql: &SqlServer) -> DelayPolicy {
    let millis = |name| Duration::from_millis(u64::from(sql.number(name)));
    DelayPolicy {
        threshold: sql.number("connection_control_failed_connections_threshold"),
        min: millis("connection_control_min_connection_delay"),
        max: millis("connection_control_max_connection_delay"),
    }
}

/// Returns the policy of delays after failed logins, and `default_password_lifetime`, for protocols
/// without sessions of SQL.
pub(crate) fn login_policy(sql: &SqlServer) -> (DelayPolicy, u16) {
    let lifetime = sql.number("default_password_lifetime");
    (delays(sql), u16::try_from(lifetime).unwrap_or(u16::MAX))
}

/// Plugin of clients that do not know the one of the greeting.
const NATIVE_PASSWORD: &[u8] = b"mysql_native_password";

/// The user for whom one connection is reserved when all others are used.
const ADMINISTRATOR: &str = "root";
