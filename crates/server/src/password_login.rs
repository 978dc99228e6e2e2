//! Logins over HTTP by user name and password, for the console and REST, as the MySQL listener accepts
//! them: the same accounts and hosts, temporary locks, delays after failures, and requirements of
//! encryption.
//!
//! Invariants:
//! 1. A wrong password takes the same time and gives the same message as an unknown account.
//! 2. An account without a password accepts clients on this machine only.
//! 3. An expired password is refused: these interfaces have no way to change it.

use crate::http::ConnectionInfo;
use crate::metrics::{self, Counter};
use crate::mysql::login::{login_policy, tls_peer};
use crate::net::client_host;
use porpoise_access::{Account, Denial, LoginError, LoginPolicy, access_denied};
use porpoise_sql::audit::AuditedLogin;
use porpoise_sql::{SqlError, SqlServer};
use std::net::IpAddr;
use std::time::Duration;

/// Whether an address is of this machine.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Refusal of a login, with MySQL's number and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoginRefused {
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl LoginRefused {
    fn new(code: u16, message: String) -> LoginRefused {
        LoginRefused { code, message }
    }

    fn of((code, _, message): LoginError) -> LoginRefused {
        LoginRefused::new(code, message)
    }

    /// The SQLSTATE.
    pub(crate) fn sqlstate(&self) -> &'static str {
        if self.code == 1045 { "28000" } else { "HY000" }
    }
}

/// Result of an attempt, and the delay of its answer.
pub(crate) struct LoginAttempt {
    pub(crate) result: Result<Account, LoginRefused>,
    pub(crate) delay: Duration,
}

/// A user name and a password, sent over HTTP.
pub(crate) struct PasswordLogin<'a> {
    /// Name of the interface, for the audit log.
    pub(crate) interface: &'static str,
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
    pub(crate) info: &'a ConnectionInfo,
}

impl PasswordLogin<'_> {
    /// Verifies the password. Computes for milliseconds.
    pub(crate) fn verify(&self, sql: &SqlServer) -> LoginAttempt {
        let access = sql.access();
        let (host, now) = (client_host(Some(self.info.peer)), access.now());
        let admitted = self.admit(sql, &host);
        // A login that is refused because the audit log cannot be written does not count as a failure of the client.
        let is_admitted = admitted.is_ok();
        let result = self.report(sql, &host, admitted);
        let (delays, _) = login_policy(sql);
        let delay = access
            .guard()
            .record(self.user, &host, now, is_admitted, delays);
        if result.is_err() {
            metrics::add(Counter::LoginsDenied, 1);
            let interface = self.interface;
            tracing::info!(user = ?self.user, %host, "{interface} login denied");
        }
        LoginAttempt { result, delay }
    }

    /// Reports the attempt to the audit log. Refuses it if the log is required and cannot be written.
    fn report(
        &self,
        sql: &SqlServer,
        host: &str,
        admitted: Result<Account, LoginRefused>,
    ) -> Result<Account, LoginRefused> {
        let reported = sql.report_login(&AuditedLogin {
            interface: self.interface,
            connection: None,
            user: self.user,
            host,
            granted: admitted.is_ok(),
        });
        let account = admitted?;
        let refused = |error: SqlError| LoginRefused::new(error.code, error.message);
        reported.map_err(refused).map(|()| account)
    }

    /// Finds the account whose password was sent.
    fn admit(&self, sql: &SqlServer, host: &str) -> Result<Account, LoginRefused> {
        let access = sql.access();
        let (user, password) = (self.user, self.password.as_bytes());
        let found = access.candidate(user, host);
        let found = found.map_err(|e| LoginRefused::new(e.code(), e.to_string()))?;
        let local = is_loopback(self.info.peer.ip());
        let found = found.filter(|a| local || !a.secret.is_empty());
        let proved = access.is_password(user, found.as_ref(), password);
        let denied = || LoginRefused::of(access_denied(user, host, !password.is_empty()));
        let account = found.ok_or_else(denied)?;
        let now = access.now();
        if !proved {
            access.password_failed(&account, now);
            return Err(denied());
        }
        let tls = self.info.tls.clone().map(tls_peer);
        match access.admit(&account, tls.as_ref(), now, policy(sql)) {
            Ok(_) => Ok(account),
            Err(Denial::Requirement) => Err(denied()),
            Err(refused) => Err(refusal(user, host, refused)),
        }
    }
}

/// The policy of logins over HTTP.
pub(crate) fn policy(sql: &SqlServer) -> LoginPolicy {
    let (_, default_lifetime) = login_policy(sql);
    LoginPolicy {
        default_lifetime,
        refuse_expired: true,
    }
}

/// The refusal of a login with the right password.
pub(crate) fn refusal(user: &str, host: &str, refused: Denial) -> LoginRefused {
    match refused {
        Denial::PasswordExpired => {
            let text =
                "Your password has expired. Change it with ALTER USER over the MySQL protocol.";
            LoginRefused::new(1862, text.to_owned())
        }
        refused => LoginRefused::of(refused.error(user, host, true)),
    }
}
