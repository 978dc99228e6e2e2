//! Logins of the console, each with its SQL session.
//!
//! A login is found by a random token of 256 bits, which the browser keeps in a cookie. It ends by
//! logout, KILL, after [`IDLE`] without a request, or [`LIFETIME`] after the login. At
//! [`MAX_SESSIONS`] a new login ends the one that was not used for the longest time.

use parking_lot::Mutex;
use porpoise_base::cancel::{Cancel, Reason};
use porpoise_base::clock::Clock;
use porpoise_base::password;
use porpoise_sql::SqlSession;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Maximum number of logins.
pub(super) const MAX_SESSIONS: usize = 32;

/// Time after the last request at which a login ends.
pub(super) const IDLE: Duration = Duration::from_secs(30 * 60);

/// Time after which a login ends in any case.
pub(super) const LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// A random text of 256 bits, in hexadecimal; `None` if the system's random generator fails.
pub(super) fn random_token() -> Option<String> {
    let mut text = String::with_capacity(64);
    for byte in password::random_bytes()? {
        // Writing into a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}

/// A login.
pub(super) struct LoginSession {
    /// The account, `user@host`.
    pub(super) account: String,
    /// CSRF token that requests for changes must have.
    pub(super) csrf: String,
    /// One permit: requests of a login run one after the other.
    pub(super) turn: Arc<Semaphore>,
    pub(super) sql: Mutex<SqlSession>,
    pub(super) cancel: Cancel,
    /// Number of the request that runs a statement.
    pub(super) current: Mutex<Option<u64>>,
    opened: Instant,
    used: Mutex<Instant>,
}

impl LoginSession {
    fn is_over(&self, now: Instant) -> bool {
        let since = |at: Instant| now.saturating_duration_since(at);
        since(self.opened) >= LIFETIME
            || since(*self.used.lock()) >= IDLE
            || self.cancel.reason().is_some_and(Reason::ends_session)
    }
}

/// The logins, by token.
pub(super) struct Sessions {
    clock: Arc<dyn Clock>,
    open: Mutex<HashMap<String, Arc<LoginSession>>>,
}

impl Sessions {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Sessions {
        Sessions {
            clock,
            open: Mutex::default(),
        }
    }

    /// Adds a login. Returns its token and session; `None` if the system's random generator fails.
    pub(super) fn add(
        &self,
        account: String,
        sql: SqlSession,
        cancel: Cancel,
    ) -> Option<(String, Arc<LoginSession>)> {
        let (token, csrf) = (random_token()?, random_token()?);
        let now = self.clock.now();
        let session = Arc::new(LoginSession {
            account,
            csrf,
            turn: Arc::new(Semaphore::new(1)),
            sql: Mutex::new(sql),
            cancel,
            current: Mutex::new(None),
            opened: now,
            used: Mutex::new(now),
        });
        self.remove_ended();
        let mut open = self.open.lock();
        let oldest = open.iter().min_by_key(|(_, s)| *s.used.lock());
        let oldest = oldest.map(|(token, _)| token.clone());
        let replaced = oldest.filter(|_| open.len() >= MAX_SESSIONS);
        let replaced = replaced.and_then(|token| open.remove(&token));
        open.insert(token.clone(), session.clone());
        drop(open);
        end(replaced);
        Some((token, session))
    }

    /// The login of a token, unless it has ended. Counts as use.
    pub(super) fn find(&self, token: &str) -> Option<Arc<LoginSession>> {
        let now = self.clock.now();
        let session = self.open.lock().get(token).cloned()?;
        if session.is_over(now) {
            self.remove(token);
            return None;
        }
        *session.used.lock() = now;
        Some(session)
    }

    /// Ends a login.
    pub(super) fn remove(&self, token: &str) {
        let removed = self.open.lock().remove(token);
        end(removed);
    }

    /// Removes logins that are over.
    pub(super) fn remove_ended(&self) {
        let now = self.clock.now();
        let over: Vec<_> = {
            let mut open = self.open.lock();
            open.extract_if(|_, session| session.is_over(now)).collect()
        };
        end(over.into_iter().map(|(_, session)| session));
    }

    /// Cancels the statements of all logins: the server is shutting down.
    pub(super) fn cancel_all(&self) {
        for session in self.open.lock().values() {
            session.cancel.cancel(Reason::Shutdown);
        }
    }

    /// Removes all logins.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.open.lock());
        end(all.into_values());
    }
}

/// Ends sessions. Their SQL sessions are dropped with their last reference, outside of the lock of
/// [`Sessions::open`].
fn end(sessions: impl IntoIterator<Item = Arc<LoginSession>>) {
    for session in sessions {
        session.cancel.cancel(Reason::Connection);
    }
}
