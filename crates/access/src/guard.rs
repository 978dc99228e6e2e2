//! Login guard: delays and temporary locks after failed logins.
//!
//! * *Delay*: consecutive failures of the same user name and host delay every further
//!   answer to them, whether the account exists or not, by `min * (failures - threshold + 1)`
//!   up to a maximum (MySQL's connection_control plugin). Callers must not hold a
//!   worker meanwhile.
//! * *Temporary lock*: an account with FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME is
//!   locked for a number of days after a number of consecutive failures (manual, "Password Management").
//!   Like MySQL's, this state ends with the server, with ALTER USER ... ACCOUNT UNLOCK and
//!   with FLUSH PRIVILEGES.
//!
//! Invariants:
//! 1. Memory is bounded: at most [`CAPACITY`] delays. The one with the fewest failures is
//!    evicted, of equals the oldest. Locks exist only for accounts whose policy has them.
//! 2. The delay depends only on the given name and the host, so it does not reveal
//!    whether an account exists.
//! 3. An account's lock is revealed only to a client that has proved the password.
//!
//! Rejected: a count per client address alone (one user behind a proxy would delay all
//! others); a count per name alone (any client could delay an account's logins from elsewhere).

use crate::attributes::{DAY, PasswordPolicy};
use crate::auth_id::AuthId;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Maximum number of pairs of user name and host with a recorded delay.
const CAPACITY: usize = 8192;

/// Microseconds after which failures without a further one are forgotten.
const FORGET_AFTER_MICROS: i64 = 30 * 60 * 1_000_000;

/// The policy of delays after failed logins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayPolicy {
    /// Failures without delay; 0: no delays at all.
    pub threshold: u32,
    /// The first delay, and its increment.
    pub min: Duration,
    /// Maximum delay.
    pub max: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lock {
    failures: u16,
    /// Time of the lock, in microseconds since 1970; `None`: not locked.
    since: Option<i64>,
}

/// The error of a temporary lock. Days are `None` if the lock does not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemporaryLock {
    /// The days that the lock lasts.
    pub days: Option<u16>,
    /// The days that are left.
    pub remaining: Option<u16>,
    /// The failures that caused it.
    pub failures: u16,
}

impl TemporaryLock {
    /// The message of error 3955.
    pub fn message(&self, user: &str, host: &str) -> String {
        let days = |n: Option<u16>| n.map_or("unlimited".to_owned(), |n| n.to_string());
        format!(
            "Access denied for user '{user}'@'{host}'. Account is blocked for {} day(s) ({} day(s) \
             remaining) due to {} consecutive failed logins.",
            days(self.days),
            days(self.remaining),
            self.failures
        )
    }
}

/// Failures by hash of name and host, also in the order of eviction and by age, so
/// that an attacker who tries many names makes each login cost `O(log n)` only.
#[derive(Debug, Default)]
struct FailureTable {
    failures: HashMap<u64, Failures>,
    by_weight: BTreeSet<(u32, i64, u64)>,
    by_age: BTreeSet<(i64, u64)>,
}

impl FailureTable {
    /// The failures of a key that are not forgotten.
    fn count(&self, key: u64, now: i64) -> u32 {
        let failures = self.failures.get(&key);
        failures
            .filter(|f| now - f.last < FORGET_AFTER_MICROS)
            .map_or(0, |f| f.count)
    }

    fn remove(&mut self, key: u64) {
        if let Some(Failures { count, last }) = self.failures.remove(&key) {
            self.by_weight.remove(&(count, last, key));
            self.by_age.remove(&(last, key));
        }
    }

    fn set(&mut self, key: u64, count: u32, now: i64) {
        self.remove(key);
        while let Some((last, old)) = self.by_age.first().copied()
            && now - last >= FORGET_AFTER_MICROS
        {
            self.remove(old);
        }
        if self.failures.len() >= CAPACITY
            && let Some((_, _, least)) = self.by_weight.first().copied()
        {
            self.remove(least);
        }
        self.failures.insert(key, Failures { count, last: now });
        self.by_weight.insert((count, now, key));
        self.by_age.insert((now, key));
    }
}

/// Delays and temporary locks; see the module.
#[derive(Debug, Default)]
pub struct LoginGuard {
    hasher: RandomState,
    delays: Mutex<FailureTable>,
    locks: Mutex<HashMap<AuthId, Lock>>,
}

impl LoginGuard {
    fn key(&self, user: &str, host: &str) -> u64 {
        self.hasher.hash_one((user, host))
    }

    /// A bit that depends on the user name only and that clients cannot predict. It chooses the plugin
    /// that the server offers to an account that does not exist.
    pub fn decoy_bit(&self, user: &str) -> bool {
        self.hasher.hash_one((user, "plugin")) & 1 == 1
    }

    /// Counts the result of a login of this name and host, and returns the delay of its
    /// answer, which depends on the results before it. Parallel attempts count in the order
    /// of their results.
    pub fn record(
        &self,
        user: &str,
        host: &str,
        now: i64,
        granted: bool,
        policy: DelayPolicy,
    ) -> Duration {
        let key = self.key(user, host);
        let mut delays = self.delays.lock();
        let failures = delays.count(key, now);
        if granted {
            delays.remove(key);
        } else {
            delays.set(key, failures.saturating_add(1), now);
        }
        if policy.threshold == 0 || failures < policy.threshold {
            return Duration::ZERO;
        }
        let steps = (failures - policy.threshold).saturating_add(1);
        policy.min.saturating_mul(steps).min(policy.max)
    }

    /// Counts the result of proving an account's password, and returns the account's
    /// lock, including one that this failure caused.
    pub fn record_password_result(
        &self,
        account: &AuthId,
        policy: &PasswordPolicy,
        now: i64,
        granted: bool,
    ) -> Option<TemporaryLock> {
        if !policy.locks_after_failures() {
            return None;
        }
        let mut locks = self.locks.lock();
        let lock = locks.entry(account.clone()).or_default();
        let days = u16::try_from(policy.lock_days).ok();
        if let (Some(since), Some(days)) = (lock.since, days)
            && now - since >= i64::from(days) * DAY
        {
            *lock = Lock::default();
        }
        if lock.since.is_none() {
            if granted {
                locks.remove(account);
                return None;
            }
            lock.failures = lock.failures.saturating_add(1);
            if lock.failures < policy.failed_logins {
                return None;
            }
            lock.since = Some(now);
        }
        let since = lock.since.unwrap_or(now);
        let remaining = days.map(|days| {
            let left = i64::from(days) * DAY - (now - since);
            u16::try_from(left.div_euclid(DAY) + i64::from(left.rem_euclid(DAY) > 0))
                .unwrap_or(days)
        });
        Some(TemporaryLock {
            days,
            remaining,
            failures: policy.failed_logins,
        })
    }

    /// Removes the temporary lock of an account.
    pub fn unlock(&self, account: &AuthId) {
        self.locks.lock().remove(account);
    }

    /// Moves failures and lock of an account that was renamed to its new name.
    pub(crate) fn rename(&self, from: &AuthId, to: &AuthId) {
        let mut locks = self.locks.lock();
        if let Some(lock) = locks.remove(from) {
            locks.insert(to.clone(), lock);
        }
    }

    /// Removes all temporary locks (FLUSH PRIVILEGES).
    pub fn unlock_all(&self) {
        self.locks.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: DelayPolicy = DelayPolicy {
        threshold: 3,
        min: Duration::from_secs(1),
        max: Duration::from_secs(4),
    };

    #[test]
    fn delays_grow_to_a_maximum_and_end_with_a_login() {
        let guard = LoginGuard::default();
        let mut seen = Vec::new();
        for now in 0..8 {
            seen.push(guard.record("u", "h", now, false, POLICY).as_secs());
        }
        assert_eq!(seen, [0, 0, 0, 1, 2, 3, 4, 4]);
        let delay = |user, host, now, granted| guard.record(user, host, now, granted, POLICY);
        assert_eq!(delay("u", "other", 9, false), Duration::ZERO);
        assert_eq!(delay("u", "h", 9, true), Duration::from_secs(4));
        assert_eq!(delay("u", "h", 9, false), Duration::ZERO);
    }

    #[test]
    fn failures_are_forgotten() {
        let guard = LoginGuard::default();
        for now in 0..8 {
            guard.record("u", "h", now, false, POLICY);
        }
        let late = 7 + FORGET_AFTER_MICROS;
        assert_eq!(guard.record("u", "h", late, false, POLICY), Duration::ZERO);
        assert_eq!(guard.delays.lock().failures.len(), 1);
        guard.record("v", "h", late + FORGET_AFTER_MICROS, false, POLICY);
        assert_eq!(guard.delays.lock().failures.len(), 1, "u is forgotten");
    }

    #[test]
    fn memory_is_bounded_and_the_most_frequent_stays() {
        let guard = LoginGuard::default();
        for _ in 0..5 {
            guard.record("busy", "h", 0, false, POLICY);
        }
        for n in 0..CAPACITY + 10 {
            guard.record(&format!("u{n}"), "h", 1, false, POLICY);
        }
        let kept = guard.delays.lock();
        let sizes = [kept.failures.len(), kept.by_weight.len(), kept.by_age.len()];
        assert_eq!(sizes, [CAPACITY; 3]);
        drop(kept);
        let delay = guard.record("busy", "h", 2, false, POLICY);
        assert_eq!(delay, Duration::from_secs(3));
    }

    #[test]
    fn accounts_lock_for_days_after_failures_in_a_row() {
        let guard = LoginGuard::default();
        let id = AuthId::new("u", "%");
        let policy = PasswordPolicy {
            failed_logins: 2,
            lock_days: 3,
            ..PasswordPolicy::default()
        };
        assert_eq!(guard.record_password_result(&id, &policy, 0, false), None);
        assert_eq!(guard.record_password_result(&id, &policy, 0, true), None);
        assert_eq!(guard.record_password_result(&id, &policy, 0, false), None);
        let lock = guard
            .record_password_result(&id, &policy, 1, false)
            .unwrap();
        assert_eq!(
            (lock.days, lock.remaining, lock.failures),
            (Some(3), Some(3), 2)
        );
        let lock = guard
            .record_password_result(&id, &policy, 2 * DAY, true)
            .unwrap();
        assert_eq!(lock.remaining, Some(2));
        assert!(
            lock.message("u", "h")
                .contains("for 3 day(s) (2 day(s) remaining) due to 2")
        );
        assert_eq!(
            guard.record_password_result(&id, &policy, 1 + 3 * DAY, true),
            None
        );
        let unbounded = PasswordPolicy {
            lock_days: -1,
            ..policy
        };
        guard.record_password_result(&id, &unbounded, 0, false);
        let lock = guard
            .record_password_result(&id, &unbounded, 0, false)
            .unwrap();
        assert_eq!(lock.remaining, None);
        assert!(
            guard
                .record_password_result(&id, &unbounded, 1000 * DAY, true)
                .is_some()
        );
        guard.unlock(&id);
        assert_eq!(guard.record_password_result(&id, &unbounded, 0, true), None);
    }
}
