//! Resource usage of accounts with limits (manual, "Setting Account Resource Limits").
//!
//! Counters are per account in memory. A session holds its account's counter from login,
//! and only if the account has a limit; then a statement costs one atomic addition, two
//! if it may write. Limits apply to fixed windows of an hour: a window starts at the first
//! use after the previous one ended, or after FLUSH USER_RESOURCES or FLUSH PRIVILEGES.

use crate::attributes::Limits;
use crate::auth_id::AuthId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

const HOUR: i64 = 3_600_000_000;

/// Counters of one account.
#[derive(Debug, Default)]
pub struct Usage {
    /// Start of the current window, in microseconds; 0: none has begun.
    window_start: AtomicI64,
    queries: AtomicU32,
    updates: AtomicU32,
    connections: AtomicU32,
    concurrent: AtomicU32,
}

/// A limit that was reached: its name in MySQL, and its value.
pub type Exceeded = (&'static str, u32);

impl Usage {
    /// Begins a new window if the last one is over.
    fn roll_window(&self, now: i64) {
        let began = self.window_start.load(Ordering::Relaxed);
        let over = now.saturating_sub(began) >= HOUR || began == 0;
        let begin = || {
            let order = Ordering::Relaxed;
            self.window_start
                .compare_exchange(began, now.max(1), order, order)
        };
        if over && begin().is_ok() {
            for counter in [&self.queries, &self.updates, &self.connections] {
                counter.store(0, Ordering::Relaxed);
            }
        }
    }

    fn reset(&self) {
        self.window_start.store(0, Ordering::Relaxed);
    }

    fn add(counter: &AtomicU32, limit: u32, name: &'static str) -> Result<(), Exceeded> {
        if limit == 0 {
            return Ok(());
        }
        // The counter stops at the limit, so it cannot overflow.
        let increment = |n: u32| (n < limit).then(|| n + 1);
        match counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment) {
            Ok(_) => Ok(()),
            Err(_) => Err((name, limit)),
        }
    }

    /// Counts a statement.
    ///
    /// # Errors
    /// The limit that it exceeds.
    pub fn query(&self, limits: Limits, now: i64) -> Result<(), Exceeded> {
        self.roll_window(now);
        Usage::add(&self.queries, limits.queries, "max_questions")
    }

    /// Counts a statement that changes data or definitions, besides [`Usage::query`].
    ///
    /// # Errors
    /// The limit that it exceeds.
    pub fn update(&self, limits: Limits, now: i64) -> Result<(), Exceeded> {
        self.roll_window(now);
        Usage::add(&self.updates, limits.updates, "max_updates")
    }

    /// Counts a connection; call [`Usage::disconnect`] when it ends.
    ///
    /// # Errors
    /// The limit that it exceeds; then it is not counted.
    pub fn connect(&self, limits: Limits, now: i64) -> Result<(), Exceeded> {
        self.roll_window(now);
        let order = Ordering::Relaxed;
        let limit = limits.concurrent;
        let increment = |n: u32| (limit == 0 || n < limit).then(|| n.saturating_add(1));
        if self
            .concurrent
            .fetch_update(order, order, increment)
            .is_err()
        {
            return Err(("max_user_connections", limit));
        }
        let counted = Usage::add(
            &self.connections,
            limits.connections,
            "max_connections_per_hour",
        );
        if counted.is_err() {
            self.disconnect();
        }
        counted
    }

    /// A connection has ended.
    pub fn disconnect(&self) {
        let decrement = |n: u32| Some(n.saturating_sub(1));
        let order = Ordering::Relaxed;
        let _ = self.concurrent.fetch_update(order, order, decrement);
    }
}

/// Counters of all accounts that have had limits.
#[derive(Debug, Default)]
pub struct UsageTable(Mutex<HashMap<AuthId, Arc<Usage>>>);

impl UsageTable {
    /// An account's counters.
    pub fn of(&self, account: &AuthId) -> Arc<Usage> {
        self.0.lock().entry(account.clone()).or_default().clone()
    }

    /// Begins a new window for every account.
    pub fn reset(&self) {
        self.0.lock().values().for_each(|usage| usage.reset());
    }

    /// Moves the counters of a renamed account to its new name.
    pub(crate) fn rename(&self, from: &AuthId, to: &AuthId) {
        let mut all = self.0.lock();
        if let Some(usage) = all.remove(from) {
            all.insert(to.clone(), usage);
        }
    }

    /// Removes the counters of a dropped account.
    pub fn forget(&self, account: &AuthId) {
        self.0.lock().remove(account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_for_an_hour() {
        let usage = Usage::default();
        let limits = Limits {
            queries: 3,
            updates: 1,
            ..Limits::default()
        };
        assert_eq!(usage.query(limits, 5), Ok(()));
        assert_eq!(usage.update(limits, 5), Ok(()));
        assert_eq!(usage.update(limits, 6), Err(("max_updates", 1)));
        assert_eq!(usage.query(limits, 7), Ok(()));
        assert_eq!(usage.query(limits, 8), Ok(()));
        assert_eq!(usage.query(limits, 8), Err(("max_questions", 3)));
        assert_eq!(usage.query(limits, 5 + HOUR), Ok(()));
        assert_eq!(usage.update(limits, 5 + HOUR), Ok(()));
        assert_eq!(usage.query(Limits::default(), 9 + HOUR), Ok(()));
    }

    #[test]
    fn a_refused_connection_is_not_counted() {
        let usage = Usage::default();
        let limits = Limits {
            connections: 2,
            concurrent: 1,
            ..Limits::default()
        };
        assert_eq!(usage.connect(limits, 1), Ok(()));
        assert_eq!(usage.connect(limits, 1), Err(("max_user_connections", 1)));
        usage.disconnect();
        assert_eq!(usage.connect(limits, 1), Ok(()));
        usage.disconnect();
        let error = usage.connect(limits, 1);
        assert_eq!(error, Err(("max_connections_per_hour", 2)));
        assert_eq!(usage.concurrent.load(Ordering::Relaxed), 0);
        usage.reset();
        assert_eq!(usage.connect(limits, 1), Ok(()));
    }
}
