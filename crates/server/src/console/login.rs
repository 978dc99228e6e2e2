//! Logins by user name and password ([`crate::password_login`]).
//!
//! Invariant: unless `--insecure-console` is set, a password is read from loopback or through TLS
//! only.

use super::Console;
use super::failure::Failure;
use super::run;
use super::sessions::LoginSession;
use crate::http::ConnectionInfo;
use crate::net::client_host;
use crate::password_login::{LoginRefused, PasswordLogin, is_loopback};
use axum::http::StatusCode;
use porpoise_access::Account;
use porpoise_base::cancel::Cancel;
use porpoise_sql::{ClientInfo, Encryption};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// The body of a request to log in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
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
        let login = PasswordLogin {
            interface: "console",
            user: &sent.user,
            password: &sent.password,
            info,
        };
        let attempt = login.verify(&self.sql);
        let refused = |e: LoginRefused| Failure::new(StatusCode::FORBIDDEN, e.code, e.message);
        let admitted = attempt.result.map_err(refused);
        let host = client_host(Some(info.peer));
        Attempt {
            result: admitted.and_then(|account| self.open(sent, info, host, &account)),
            delay: attempt.delay,
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
