//! Logins by user name and password, as the MySQL listener accepts them: the same accounts and
//! hosts, temporary locks, delays after failures, and requirements of encryption.
//!
//! Invariants:
//! 1. Unless `--insecure-console` is set, a password is read from loopback or through TLS only.
//! 2. A wrong password takes the same time and gives the same message as an unknown account.
//! 3. An expired password is refused: the console has no way to change it.

use super::Console;
use super::failure::Failure;
use super::run;
use super::sessions::LoginSession;
use crate::http::ConnectionInfo;
use crate::metrics::{self, Counter};
use crate::mysql::login::{delays, tls_peer};
use crate::net::client_host;
use axum::http::StatusCode;
use porpoise_access::{Account, Denial, LoginError, LoginPolicy, access_denied};
use porpoise_base::cancel::Cancel;
use porpoise_sql::audit::AuditedLogin;
use porpoise_sql::{ClientInfo, Encryption, SqlError};
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The body of a request to log in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

/// Whether the client is on this machine.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The result of an attempt, and the delay of its answer.
pub(super) struct Attempt {
    pub(super) result: Result<(String, Arc<LoginSession>), Failure>,
    pub(super) delay: Duration,
}

impl Console {
    /// Whether a password may be sent over this connection.
    pub(super) fn may_send_password(&self, info: &ConnectionInfo) -> bool {
        info.tls.is_some() || is_loopback(info.peer.ip()) || self.allows_plain_logins
    }

    /// Verifies a password, and opens a session. Computes for milliseconds.
    pub(super) fn log_in(&self, sent: &Credentials, info: &ConnectionInfo) -> Attempt {
        let access = self.sql.access();
        let host = client_host(Some(info.peer));
        let now = access.now();
        let admitted = self.report(sent, &host, self.admit(sent, info, &host));
        let policy = delays(&self.sql);
        let granted = admitted.is_ok();
        let delay = access
            .guard()
            .record(&sent.user, &host, now, granted, policy);
        if !granted {
            metrics::add(Counter::LoginsDenied, 1);
            tracing::info!(user = ?sent.user, %host, "console login denied");
        }
        let result = admitted.and_then(|account| self.open(sent, info, host, &account));
        Attempt { result, delay }
    }

    /// Reports the attempt to the audit log. Refuses it if the log is required and cannot be written.
    fn report(
        &self,
        sent: &Credentials,
        host: &str,
        admitted: Result<Account, Failure>,
    ) -> Result<Account, Failure> {
        let reported = self.sql.report_login(&AuditedLogin {
            interface: "console",
            connection: None,
            user: &sent.user,
            host,
            granted: admitted.is_ok(),
        });
        let account = admitted?;
        let refused =
            |error: SqlError| Failure::new(StatusCode::FORBIDDEN, error.code, error.message);
        reported.map_err(refused).map(|()| account)
    }

    /// Finds the account whose password was sent.
    fn admit(
        &self,
        sent: &Credentials,
        info: &ConnectionInfo,
        host: &str,
    ) -> Result<Account, Failure> {
        let access = self.sql.access();
        let (user, password) = (&sent.user, sent.password.as_bytes());
        let found = access.candidate(user, host);
        let found = found.map_err(|e| Failure::of_sql(&e.into()))?;
        // Accounts without a password accept clients on this machine only.
        let local = is_loopback(info.peer.ip());
        let found = found.filter(|a| local || !a.secret.is_empty());
        let proved = access.is_password(user, found.as_ref(), password);
        let refused = |(code, _, text): LoginError| Failure::new(StatusCode::FORBIDDEN, code, text);
        let has_password = !password.is_empty();
        let denied = || refused(access_denied(user, host, has_password));
        let Some(account) = found else {
            return Err(denied());
        };
        let now = access.now();
        if !proved {
            access.password_failed(&account, now);
            return Err(denied());
        }
        let lifetime = self.sql.number("default_password_lifetime");
        let policy = LoginPolicy {
            default_lifetime: u16::try_from(lifetime).unwrap_or(u16::MAX),
            refuse_expired: true,
        };
        let tls = info.tls.clone().map(tls_peer);
        match access.admit(&account, tls.as_ref(), now, policy) {
            Ok(_) => Ok(account),
            Err(Denial::PasswordExpired) => {
                let text =
                    "Your password has expired. Change it with ALTER USER over the MySQL protocol.";
                Err(refused((1862, "HY000", text.to_owned())))
            }
            Err(denial) => Err(refused(denial.error(user, host, has_password))),
        }
    }

    /// Opens the session of an account whose password was proved.
    fn open(
        &self,
        sent: &Credentials,
        info: &ConnectionInfo,
        host: String,
        account: &Account,
    ) -> Result<(String, Arc<LoginSession>), Failure> {
        let client = ClientInfo {
            connection_id: self.next_id(),
            user: sent.user.clone(),
            host,
            account: account.name(),
            capabilities: 0,
            collation: run::COLLATION,
            database: None,
        };
        let cancel = Cancel::new();
        let opened = self.sql.connect(client, cancel.clone());
        let mut sql = opened.map_err(|e| Failure::of_sql(&e))?;
        if let Some(tls) = &info.tls {
            sql.set_encryption(Encryption {
                cipher: tls.cipher.clone(),
                version: tls.version.to_owned(),
            });
        }
        run::set_up(&mut sql).map_err(|e| Failure::of_sql(&e))?;
        let added = self.sessions.add(account.name(), sql, cancel);
        added.ok_or_else(|| {
            let text = "The operating system returned no random bytes for a session";
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, 1105, text)
        })
    }
}
