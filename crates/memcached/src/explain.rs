//! Rows of `SHOW MEMCACHED KEY`: the container and the value that each listener finds for a
//! key.

use crate::container::Container;
use crate::container::convert::Conversion;
use crate::context::ListenerState;
use crate::mapping::{Access, Operation, Rule};
use porpoise_access::ndbmemcache::key_columns;
use porpoise_access::{Privileges, Rights};
use porpoise_kv::Read;
use porpoise_rows::{BeginOptions, FoundRow, Lookup, Result};
use porpoise_types::Value;

fn text(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

/// State of a key.
struct KeyState {
    state: String,
    /// Seconds since 1970; 0: never.
    expires: i64,
}

impl KeyState {
    fn without_expiry(state: impl Into<String>) -> KeyState {
        KeyState {
            state: state.into(),
            expires: 0,
        }
    }
}

/// Returns a listener's row for a key, with the columns [`key_columns`]; `None` if the key maps to a
/// table that an account with these rights may not read, so that the account cannot learn whether
/// the row exists.
pub(crate) fn resolve(shared: &ListenerState, key: &[u8], rights: &Rights) -> Option<Vec<Value>> {
    let current = shared.mapping.load();
    let mapping = &current.mapping;
    let Some(rule) = mapping.rule(key) else {
        let mut row = vec![Value::Null; key_columns().len()];
        if let Some(first) = row.first_mut() {
            *first = text(shared.mapping.role());
        }
        return Some(row);
    };
    let rest = key.get(rule.prefix.len()..).unwrap_or(&[]);
    let target = rule.target.as_ref().ok().copied();
    let container = target.and_then(|at| mapping.containers.get(at));
    if let Some(Container { table, .. }) = container
        && !rights
            .on_table(&table.database, &table.name)
            .has(Privileges::SELECT)
    {
        return None;
    }
    let found = key_state(shared, rule, container, key, rest);
    let or_null = |t: Option<String>| t.map_or(Value::Null, |t| text(&t));
    Some(vec![
        text(shared.mapping.role()),
        Value::Bytes(rule.prefix.to_vec()),
        text(&policy(rule)),
        or_null(container.map(|c| c.name.clone())),
        or_null(container.map(|c| format!("{}.{}", c.table.database, c.table.name))),
        or_null(container.and_then(|c| c.key_values(rest))),
        text(&found.state),
        match found.expires {
            0 => Value::Null,
            seconds => Value::Int(seconds),
        },
        or_null(shared.last_error(&rule.prefix)),
    ])
}

/// Formats the policy of a rule.
fn policy(rule: &Rule) -> String {
    let word = |access| match access {
        Access::Table => "table",
        Access::CacheOnly => "cache_only",
        Access::Disabled => "disabled",
    };
    let flush = if rule.policy.flush { ", flush" } else { "" };
    format!(
        "{} (get {}, set {}, delete {}{flush})",
        rule.policy_name,
        word(rule.access(Operation::Get)),
        word(rule.access(Operation::Set)),
        word(rule.access(Operation::Delete))
    )
}

/// Finds out the state of a key; `rest` is the key without its prefix.
fn key_state(
    shared: &ListenerState,
    rule: &Rule,
    container: Option<&Container>,
    key: &[u8],
    rest: &[u8],
) -> KeyState {
    let micros = shared.db.clock().unix_micros();
    match rule.access(Operation::Get) {
        Access::Disabled => return KeyState::without_expiry("disabled"),
        Access::CacheOnly => {
            let item = shared.cache.get(key, micros.div_euclid(1_000_000));
            return match item {
                None => KeyState::without_expiry("not in the cache"),
                Some(item) => KeyState {
                    state: "in the cache".to_owned(),
                    expires: item.expires,
                },
            };
        }
        Access::Table => {}
    }
    let Some(container) = container else {
        let why = rule.target.as_ref().err();
        return KeyState::without_expiry(format!("disabled: {}", why.map_or("", String::as_str)));
    };
    let mut encoded = Vec::new();
    let mut convert = Conversion::for_keys();
    if let Err(error) = container.append_key(rest, &mut convert, &mut encoded) {
        return KeyState::without_expiry(format!("no such key: {error}"));
    }
    match row_state(shared, container, &encoded, micros) {
        Ok(found) => found,
        Err(error) => KeyState::without_expiry(format!("cannot be read: {error}")),
    }
}

/// Reads the row with this encoded key; `now` is in microseconds since 1970.
fn row_state(
    shared: &ListenerState,
    container: &Container,
    key: &[u8],
    now: i64,
) -> Result<KeyState> {
    let mut found = KeyState::without_expiry("no row");
    let mut txn = shared.db.begin(BeginOptions::default())?;
    let (table, index) = (&container.table, container.index());
    let keys = [key];
    let lookup = Lookup::unique(table, index, &keys);
    txn.look_up(&lookup, Read::SNAPSHOT, &mut |_, row| {
        if let Some(FoundRow { row, .. }) = row {
            let expired = container.expired(&row, || now);
            found.state = if expired { "expired" } else { "row" }.to_owned();
            found.expires = container.expires_of(&row);
        }
    })?;
    Ok(found)
}

impl Container {
    /// Formats the key columns with their values, as `a=1, b=x`; `None` if the key has another
    /// number of parts.
    fn key_values(&self, key: &[u8]) -> Option<String> {
        let pieces = self.pieces(key).ok()?;
        let mut texts = Vec::with_capacity(pieces.len());
        for (part, piece) in &pieces {
            let name = self.table.columns.get(part.column)?;
            let value = String::from_utf8_lossy(piece.bytes());
            texts.push(format!("{}={value}", name.name));
        }
        Some(texts.join(", "))
    }
}
