//! Locks by name: GET_LOCK and its kin (manual, "Locking Functions").
//!
//! The server keeps one table of names; a name is held by one session, any
//! number of times, until it is released as often or the session ends. Names
//! do not tell capitals from small letters. Transactions do not touch them.
//!
//! Invariants:
//! 1. A session waits for at most one name, so the waits form chains; one that
//!    would close a circle is refused with 3058 before it waits.
//! 2. Whoever waits notices a KILL and its time limit.

use super::json::truth;
use super::{Call, Function, Nullable, bigint};
use crate::error::{Result, SqlError};
use crate::expr::eval::Env;
use parking_lot::{Condvar, Mutex};
use porpoise_types::ValueRef;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
struct State {
    /// Who holds a name, and how many times.
    held: HashMap<String, (u64, u64)>,
    /// The name that a session waits for.
    waits: HashMap<u64, String>,
}

impl State {
    /// Whether waiting for `name` would close a circle back to `session`.
    fn circle(&self, session: u64, name: &str) -> bool {
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

/// All names held on a server.
#[derive(Debug, Default)]
pub struct NamedLocks {
    state: Mutex<State>,
    changed: Arc<Condvar>,
}

impl NamedLocks {
    /// Takes a name for a session; false when the time is over, None when
    /// the wait was ended from outside. No limit: waits for ever.
    fn take(&self, env: &Env, name: &str, limit: Option<Duration>) -> Result<Option<bool>> {
        env.lasting.set(true);
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
        if state.circle(session, name) {
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
                // A KILL between the test above and the wait is noticed at the next turn.
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

    /// Gives a name back once: None where nobody holds it, false where another session does.
    fn release(&self, session: u64, name: &str) -> Option<bool> {
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

    /// Gives back all that a session holds: how many times it held something.
    pub(crate) fn release_all(&self, session: u64) -> u64 {
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

    fn owner(&self, name: &str) -> Option<u64> {
        self.state.lock().held.get(name).map(|(owner, _)| *owner)
    }
}

/// Bytes of a name that are looked at.
const LONGEST: usize = 1024;

/// The name in small letters; 3057 for NULL, nothing, or more than 64 characters.
fn name(c: &Call<'_, '_>) -> Result<String> {
    let text = c.text(0)?;
    // More than 64 characters, whatever follows.
    let text = text.map(|t| t.get(..LONGEST).unwrap_or(t));
    let name = text.map(|t| String::from_utf8_lossy(t).to_lowercase());
    match name {
        Some(name) if !name.is_empty() && name.chars().count() <= 64 => Ok(name),
        other => {
            let shown = other.map_or("NULL".to_owned(), |name| name.chars().take(192).collect());
            let text = format!("Incorrect user-level lock name '{shown}'.");
            Err(SqlError::new(3057, "42000", text))
        }
    }
}

fn yes_or_null<'a>(found: Option<bool>) -> ValueRef<'a> {
    found.map_or(ValueRef::Null, |yes| ValueRef::Int(i64::from(yes)))
}

fn get_lock<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let name = name(c)?;
    let seconds = c.double(1)?.unwrap_or(0.0);
    let limit = (seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(31_536_000.0)));
    Ok(yes_or_null(c.cx.env.locks.take(c.cx.env, &name, limit)?))
}

fn release_lock<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let released = c.cx.env.locks.release(c.cx.env.connection_id, &name(c)?);
    Ok(yes_or_null(released))
}

fn release_all<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let count = c.cx.env.locks.release_all(c.cx.env.connection_id);
    Ok(ValueRef::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn is_free<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let owner = c.cx.env.locks.owner(&name(c)?);
    Ok(ValueRef::Int(i64::from(owner.is_none())))
}

fn is_used<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let owner = c.cx.env.locks.owner(&name(c)?);
    Ok(owner.map_or(ValueRef::Null, ValueRef::UInt))
}

const fn entry(
    name: &'static str,
    args: (usize, usize),
    nullable: Nullable,
    ty: super::TypeOf,
    run: for<'c, 'a> fn(&Call<'c, 'a>) -> Result<ValueRef<'a>>,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> Function {
    Function {
        name,
        args,
        constant: false,
        nullable,
        ty,
        run,
        doc,
        example,
    }
}

/// The entries.
pub const FUNCTIONS: &[Function] = &[
    entry(
        "GET_LOCK",
        (2, 2),
        Nullable::Always,
        truth,
        get_lock,
        "Takes a name, waiting so many seconds for it; 1 when it is taken.",
        ("GET_LOCK('a', 1) + GET_LOCK('A', 0)", "2"),
    ),
    entry(
        "RELEASE_LOCK",
        (1, 1),
        Nullable::Always,
        truth,
        release_lock,
        "Gives a name back.",
        ("RELEASE_LOCK('never taken') IS NULL", "1"),
    ),
    entry(
        "RELEASE_ALL_LOCKS",
        (0, 0),
        Nullable::Never,
        bigint,
        release_all,
        "Gives back all names; how many times they were held.",
        ("GET_LOCK('b', 1) * 0 + RELEASE_ALL_LOCKS() > 0", "1"),
    ),
    entry(
        "IS_FREE_LOCK",
        (1, 1),
        Nullable::Never,
        truth,
        is_free,
        "Whether nobody holds a name.",
        ("IS_FREE_LOCK('c')", "1"),
    ),
    entry(
        "IS_USED_LOCK",
        (1, 1),
        Nullable::Always,
        super::unsigned,
        is_used,
        "The connection that holds a name.",
        ("IS_USED_LOCK('c') IS NULL", "1"),
    ),
];
