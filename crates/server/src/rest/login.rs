//! Accounts of requests: Basic credentials and bearer tokens.
//!
//! Basic credentials are a login like that of any client. A password that was verified before is
//! compared with its cached hash, so that a request with Basic credentials does not compute for
//! milliseconds; only the first one is reported to the audit log as a login.
//!
//! A token is 256 random bits. It belongs to the account and the host of the login for which it was
//! issued. It ends after [`TOKEN_LIFETIME`], when it is revoked, when the account's password is changed
//! or the account is dropped, and with the server. Each of its requests checks the account's locks,
//! its requirements of encryption, and the age of its password.
//!
//! Invariants:
//! 1. Credentials are accepted from this machine or through TLS only.
//! 2. The server keeps a token's text only as the key of its table, never in a log.
//!
//! Rejected: tokens that carry their claims under a signature. They need a key, its rotation, and a
//! list of revoked tokens, and would save one look-up.

use super::Rest;
use super::execution::on_thread;
use super::problem::Problem;
use crate::http::ConnectionInfo;
use crate::mysql::login::tls_peer;
use crate::net::client_host;
use crate::password_login::{self, LoginRefused, PasswordLogin, is_loopback};
use axum::http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use porpoise_access::{Account, AuthId};
use porpoise_base::base64;
use porpoise_base::clock::Clock;
use porpoise_base::password;
use porpoise_wire::mysql::auth::sha2_stage2;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lifetime of a token.
pub(super) const TOKEN_LIFETIME: Duration = Duration::from_secs(3600);

/// Maximum number of tokens; beyond it the oldest ends.
const MAX_TOKENS: usize = 10_000;

/// Maximum number of tokens of an account; beyond it the account's oldest token is removed, so that one account cannot
/// crowd out the tokens of others.
const MAX_ACCOUNT_TOKENS: usize = 1_000;

/// Longest Authorization header.
const MAX_CREDENTIALS: usize = 1024;

/// A login.
pub(super) struct Login {
    /// User name of the login.
    pub(super) user: String,
    /// The account.
    pub(super) account: AuthId,
    /// Version of access control at which the account had this name.
    pub(super) version: u64,
    /// The account's stored secret at the login.
    secret: Vec<u8>,
}

impl Login {
    fn new(user: String, account: &Account, version: u64) -> Login {
        Login {
            user,
            account: account.id(),
            version,
            secret: account.secret.clone(),
        }
    }
}

/// A token in the table.
struct Token {
    login: Arc<Login>,
    issued: Instant,
}

/// The tokens, by their text.
pub(super) struct Tokens {
    clock: Arc<dyn Clock>,
    table: Mutex<HashMap<String, Token>>,
}

impl Tokens {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Tokens {
        Tokens {
            clock,
            table: Mutex::default(),
        }
    }

    /// Issues a token; `None` if the system's random generator fails.
    pub(super) fn issue(&self, login: Arc<Login>) -> Option<String> {
        let mut text = String::with_capacity(64);
        for byte in password::random_bytes()? {
            // Writing into a String does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        let issued = self.clock.now();
        let mut table = self.table.lock();
        if table.len() >= MAX_TOKENS {
            table.retain(|_, token| !is_over(token, issued));
        }
        let is_own = |token: &Token| token.login.account == login.account;
        if table.values().filter(|token| is_own(token)).count() >= MAX_ACCOUNT_TOKENS {
            remove_oldest(&mut table, is_own);
        } else if table.len() >= MAX_TOKENS {
            remove_oldest(&mut table, |_| true);
        }
        table.insert(text.clone(), Token { login, issued });
        Some(text)
    }

    fn find(&self, text: &str) -> Option<Arc<Login>> {
        let now = self.clock.now();
        let mut table = self.table.lock();
        let token = table.get(text)?;
        if is_over(token, now) {
            table.remove(text);
            return None;
        }
        Some(token.login.clone())
    }

    /// Ends a token.
    pub(super) fn revoke(&self, text: &str) {
        self.table.lock().remove(text);
    }
}

/// Removes the oldest of the tokens that meet a condition.
fn remove_oldest(table: &mut HashMap<String, Token>, is_meant: impl Fn(&Token) -> bool) {
    let meant = table.iter().filter(|(_, token)| is_meant(token));
    let oldest = meant.min_by_key(|(_, token)| token.issued);
    if let Some(oldest) = oldest.map(|(text, _)| text.clone()) {
        table.remove(&oldest);
    }
}

fn is_over(token: &Token, now: Instant) -> bool {
    now.saturating_duration_since(token.issued) >= TOKEN_LIFETIME
}

/// The credentials of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    /// User name and password.
    Basic {
        /// The user name.
        user: String,
        /// The password.
        password: String,
    },
    /// A token.
    Bearer(String),
}

fn unauthorized(text: &'static str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, text)
}

/// The credentials of a request.
///
/// # Errors
/// 401: there are none, or they are malformed.
pub(super) fn credentials(headers: &HeaderMap) -> Result<Credentials, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let missing = "Basic or Bearer credentials are required";
    let value = values.next().ok_or_else(|| unauthorized(missing))?;
    let malformed = || unauthorized("The Authorization header is malformed");
    let text = value.to_str().map_err(|_| malformed())?;
    if values.next().is_some() || text.len() > MAX_CREDENTIALS {
        return Err(malformed());
    }
    let (scheme, rest) = text.split_once(' ').ok_or_else(malformed)?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Credentials::Bearer(rest.to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(unauthorized(missing));
    }
    let decoded = base64::decode(rest.as_bytes()).ok_or_else(malformed)?;
    let decoded = String::from_utf8(decoded).map_err(|_| malformed())?;
    let (user, password) = decoded.split_once(':').ok_or_else(malformed)?;
    Ok(Credentials::Basic {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

impl Rest {
    /// Checks that credentials may be sent over this connection.
    ///
    /// # Errors
    /// 3159: the connection needs TLS.
    fn check_transport(&self, info: &ConnectionInfo) -> Result<(), Problem> {
        let is_safe = is_loopback(info.peer.ip()) && !self.requires_tls;
        if info.tls.is_some() || is_safe {
            return Ok(());
        }
        let text = "Connections using insecure transport are prohibited: use https://";
        Err(Problem::mysql(3159, "HY000", text.to_owned()))
    }

    /// The login of a request.
    ///
    /// # Errors
    /// The credentials are missing, wrong, or refused.
    pub(super) async fn authenticate(
        self: &Arc<Rest>,
        headers: &HeaderMap,
        info: &ConnectionInfo,
    ) -> Result<Arc<Login>, Problem> {
        self.check_transport(info)?;
        match credentials(headers)? {
            Credentials::Bearer(token) => {
                let login = self.tokens.find(&token);
                let login =
                    login.ok_or_else(|| unauthorized("The token is unknown or has expired"))?;
                if let Err(problem) = self.check_login(&login, info) {
                    self.tokens.revoke(&token);
                    return Err(problem);
                }
                Ok(login)
            }
            Credentials::Basic { user, password } => {
                if let Some(login) = self.verified_before(&user, &password, info) {
                    return Ok(Arc::new(login));
                }
                self.log_in(user, password, info).await
            }
        }
    }

    async fn log_in(
        self: &Arc<Rest>,
        user: String,
        password: String,
        info: &ConnectionInfo,
    ) -> Result<Arc<Login>, Problem> {
        let (rest, info) = (self.clone(), info.clone());
        let attempt = on_thread(&self.logins, move || {
            let version = rest.sql.access().version();
            let login = PasswordLogin {
                interface: "rest",
                user: &user,
                password: &password,
                info: &info,
            };
            let attempt = login.verify(&rest.sql);
            let result = attempt.result.map(|account| {
                // With a second password it is not known which one was sent.
                if !password.is_empty() && account.attributes.second_secret.is_none() {
                    let hash = sha2_stage2(password.as_bytes());
                    rest.verifiers.keep(account.secret.clone(), hash);
                }
                Login::new(user, &account, version)
            });
            (result, attempt.delay)
        });
        let (result, delay) = attempt.await?;
        tokio::time::sleep(delay).await;
        Ok(Arc::new(result?))
    }

    /// The login by a password that was verified before.
    fn verified_before(&self, user: &str, password: &str, info: &ConnectionInfo) -> Option<Login> {
        let access = self.sql.access();
        let data = access.data();
        let account = data.candidate(user, &client_host(Some(info.peer)))?;
        let known = self.verifiers.find(&account.secret)?;
        if known != sha2_stage2(password.as_bytes()) {
            return None;
        }
        let tls = info.tls.clone().map(tls_peer);
        let policy = password_login::policy(&self.sql);
        let admitted = access.admit(account, tls.as_ref(), access.now(), policy);
        admitted.ok()?;
        Some(Login::new(user.to_owned(), account, data.version))
    }

    /// Checks that the account of an earlier login is the same, and may be used.
    ///
    /// # Errors
    /// 401; the account is locked, or its password has expired.
    pub(super) fn check_login(&self, login: &Login, info: &ConnectionInfo) -> Result<(), Problem> {
        let access = self.sql.access();
        let data = access.data();
        let host = client_host(Some(info.peer));
        let account = data.name_since(&login.account, login.version);
        let account = data
            .account(&account.user, &account.host)
            .filter(|account| account.secret == login.secret)
            .filter(|account| account.id().matches_host(&host));
        let account = account.ok_or_else(|| unauthorized("The login is no longer valid"))?;
        let tls = info.tls.clone().map(tls_peer);
        let policy = password_login::policy(&self.sql);
        let admitted = access.check_requirements(account, tls.as_ref(), access.now(), policy);
        let refused = |denial| password_login::refusal(&login.user, &host, denial);
        admitted.map_err(|denial| {
            let refused: LoginRefused = refused(denial);
            Problem::from(refused)
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn parsed(text: &str) -> Option<Credentials> {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_str(text).unwrap();
        headers.insert(header::AUTHORIZATION, value);
        credentials(&headers).ok()
    }

    #[test]
    fn an_account_ends_its_own_tokens_only() {
        let tokens = Tokens::new(porpoise_base::clock::system());
        let login = |user: &str| {
            Arc::new(Login {
                user: user.to_owned(),
                account: AuthId {
                    user: user.to_owned(),
                    host: "%".to_owned(),
                },
                version: 0,
                secret: Vec::new(),
            })
        };
        let other = tokens.issue(login("other")).unwrap();
        let busy = login("busy");
        let first = tokens.issue(busy.clone()).unwrap();
        for _ in 0..MAX_ACCOUNT_TOKENS {
            tokens.issue(busy.clone()).unwrap();
        }
        assert!(tokens.find(&other).is_some());
        assert!(tokens.find(&first).is_none());
        assert_eq!(tokens.table.lock().len(), MAX_ACCOUNT_TOKENS + 1);
    }

    #[test]
    fn credentials_are_parsed() {
        let basic = |user: &str, password: &str| {
            Some(Credentials::Basic {
                user: user.to_owned(),
                password: password.to_owned(),
            })
        };
        assert_eq!(parsed("Basic cm9vdDo="), basic("root", ""));
        assert_eq!(parsed("basic YW5uOmE6Yg=="), basic("ann", "a:b"));
        assert_eq!(
            parsed("Bearer ab"),
            Some(Credentials::Bearer("ab".to_owned()))
        );
        for text in [
            "",
            "Basic",
            "Basic !",
            "Basic cm9vdA==",
            "Basic /w==",
            "Digest x",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
        assert_eq!(parsed(&format!("Bearer {}", "a".repeat(2000))), None);
        assert!(credentials(&HeaderMap::new()).is_err());
    }
}
