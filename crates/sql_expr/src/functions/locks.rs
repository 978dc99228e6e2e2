//! GET_LOCK and related functions (manual, "Locking Functions"), over
//! [`crate::expr::named_locks`].

use super::json::truth;
use super::{Call, Function, Nullable, bigint};
use crate::error::{Result, SqlError};
use porpoise_types::ValueRef;
use std::time::Duration;

/// Maximum number of bytes of a name that are examined.
const LONGEST: usize = 1024;

/// The name in lower case. Error 3057 for NULL, an empty name, or more than 64 characters.
fn name(c: &Call<'_, '_>) -> Result<String> {
    let text = c.text(0)?;
    // A truncated text still has more than 64 characters.
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

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    entry(
        "GET_LOCK",
        (2, 2),
        Nullable::Always,
        truth,
        get_lock,
        "Takes a lock by name, waiting for at most a number of seconds; 1 if it was taken.",
        ("GET_LOCK('a', 1) + GET_LOCK('A', 0)", "2"),
    ),
    entry(
        "RELEASE_LOCK",
        (1, 1),
        Nullable::Always,
        truth,
        release_lock,
        "Releases a lock.",
        ("RELEASE_LOCK('never taken') IS NULL", "1"),
    ),
    entry(
        "RELEASE_ALL_LOCKS",
        (0, 0),
        Nullable::Never,
        bigint,
        release_all,
        "Releases all locks of the session. Returns their number.",
        ("GET_LOCK('b', 1) * 0 + RELEASE_ALL_LOCKS() > 0", "1"),
    ),
    entry(
        "IS_FREE_LOCK",
        (1, 1),
        Nullable::Never,
        truth,
        is_free,
        "Whether no session holds a lock.",
        ("IS_FREE_LOCK('c')", "1"),
    ),
    entry(
        "IS_USED_LOCK",
        (1, 1),
        Nullable::Always,
        super::unsigned,
        is_used,
        "The connection that holds a lock.",
        ("IS_USED_LOCK('c') IS NULL", "1"),
    ),
];
