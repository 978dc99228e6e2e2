//! Named locks, of GET_LOCK.
//!
//! The server has one table of names. A session may hold a name several times; it is released after
//! as many releases, or when the session ends. Names are case-insensitive. Locks are independent of
//! transactions.
//!
//! Invariants:
//! 1. A session waits for at most one name, so waits form chains; a wait that would close a cycle
//!    fails with error 3058 at once.
//! 2. A wait observes KILL and its timeout.

use super::eval::Env;
use crate::error::{Result, SqlError};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
struct State {
    /// The session that holds a name, and how many times.
    held: HashMap<String, (u64, u64)>,
    /// The name that a session waits for.
    waits: HashMap<u64, String>,
}

impl State {
    /// Whether waiting for `name` would close a cycle back to `session`.
    fn closes_cycle(&self, session: u64, name: &str) -> bool {
        let mut next = self.held.get(name);
        for _ in 0..=self.waits.len() {
            match next {
                Some((owner, _)) if *owner == session => return true,
                Some((owner, _)) => {
                    next = self.waits.get(owner).and_then(|n| self.held.get(n));
                }
                None => return false,
            }
        }
        false
    }
}

/// All named locks of a server.
#[derive(Debug, Default)]
pub struct NamedLocks {
    state: Mutex<State>,
    changed: Arc<Condvar>,
}

impl NamedLocks {
    /// Takes a name for a session. Returns false on timeout, and `None` if the wait was cancelled.
    /// Without a limit it waits for ever.
    ///
    /// # Errors
    /// 3058 if the wait would close a cycle.
    pub fn take(&self, env: &Env, name: &str, limit: Option<Duration>) -> Result<Option<bool>> {
        env.has_side_effect.set(true);
        let session = env.connection_id;
        let mut state = self.state.lock();
        match state.held.get_mut(name) {
            None => {
                state.held.insert(name.to_owned(), (session, 1));
                return Ok(Some(true));
            }
            Some((owner, times)) if *owner == session => {
                *times += 1;
                return Ok(Some(true));
            }
            Some(_) if limit.is_some_and(|l| l.is_zero()) => return Ok(Some(false)),
            Some(_) => {}
        }
        if state.closes_cycle(session, name) {
            let text = "Deadlock found when trying to get user-level lock; try rolling back \
                        transaction/releasing locks and restarting lock acquisition.";
            return Err(SqlError::new(3058, "HY000", text));
        }
        state.waits.insert(session, name.to_owned());
        drop(state);
        let taken = self.wait(env, name, limit);
        self.state.lock().waits.remove(&session);
        Ok(taken)
    }

    fn wait(&self, env: &Env, name: &str, limit: Option<Duration>) -> Option<bool> {
        let changed = self.changed.clone();
        let _registration = env.cancel.register(Arc::new(move || {
            changed.notify_all();
        }));
        let deadline = limit.and_then(|l| Instant::now().checked_add(l));
        porpoise_base::blocking::blocking(|| {
            let mut state = self.state.lock();
            while env.cancel.reason().is_none() {
                if !state.held.contains_key(name) {
                    state.held.insert(name.to_owned(), (env.connection_id, 1));
                    return Some(true);
                }
                // A KILL between the test above and the wait is observed in the next round.
                let turn = Instant::now() + Duration::from_millis(500);
                let until = deadline.map_or(turn, |d| d.min(turn));
                self.changed.wait_until(&mut state, until);
                if deadline.is_some_and(|d| Instant::now() >= d) && state.held.contains_key(name) {
                    return Some(false);
                }
            }
            None
        })
    }

    /// Releases a name once. Returns `None` if it is free, false if another session holds it.
    pub fn release(&self, session: u64, name: &str) -> Option<bool> {
        let mut state = self.state.lock();
        let (owner, times) = state.held.get_mut(name)?;
        if *owner != session {
            return Some(false);
        }
        *times -= 1;
        if *times == 0 {
            state.held.remove(name);
            self.changed.notify_all();
        }
        Some(true)
    }

    /// Releases all names of a session. Returns the total number of times that they were held.
    pub fn release_all(&self, session: u64) -> u64 {
        let mut state = self.state.lock();
        let mut count = 0;
        state.held.retain(|_, (owner, times)| {
            let own = *owner == session;
            count += if own { *times } else { 0 };
            !own
        });
        if count > 0 {
            self.changed.notify_all();
        }
        count
    }

    /// The session that holds a name.
    pub fn owner(&self, name: &str) -> Option<u64> {
        self.state.lock().held.get(name).map(|(owner, _)| *owner)
    }
}
