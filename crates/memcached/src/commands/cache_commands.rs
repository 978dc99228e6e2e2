//! Commands on keys whose policy is `cache_only`: the same commands as on rows, with the same
//! outcomes, on items of the memory cache.
//!
//! These commands wait neither for the log nor for row locks, and fail only if a value is too large.
//! They cannot be part of a meta transaction.

use super::store::failure_status;
use super::table;
use super::touch::TouchedRow;
use crate::cache::{CacheAction, Item as StoredItem};
use crate::container::{expiry_time, number};
use crate::context::{CommandContext, Done};
use crate::item_metadata::{ItemId, ItemMetadata, MetadataUpdate};
use crate::read::request::CACHE_TABLE;
use porpoise_kv::CommitPosition;
use porpoise_wire::memcached::command::{
    Change, Count, Delete, Mode, Outcome, Status, Store, Touch,
};

/// An item of the cache, or its absence, as seen by a command.
pub(super) struct CachedItem<'a> {
    item: Option<&'a StoredItem>,
    id: ItemId,
    metadata: &'a ItemMetadata,
    /// Seconds since 1970.
    now: i64,
    /// Maximum length of a value in bytes.
    max_value: usize,
    /// Change of the item's metadata.
    metadata_update: MetadataUpdate,
}

/// Executes a command on an item of the cache.
pub(crate) fn apply(context: &CommandContext, command: &Change<'_>) -> Done<Outcome> {
    let now = context.shared.unix_seconds();
    let max_value = context.shared.limits.max_value;
    let metadata = &context.shared.metadata;
    let id = metadata.id(CACHE_TABLE, command.key());
    let mut after = MetadataUpdate {
        id: metadata.any_marks().then_some(id),
        ..MetadataUpdate::default()
    };
    let decide = |item: Option<&StoredItem>| {
        let mut cached = CachedItem {
            item,
            id,
            metadata,
            now,
            max_value,
            metadata_update: after,
        };
        let decided = table::run_cached(&mut cached, command);
        after = cached.metadata_update;
        decided
    };
    let changed = context.shared.cache.change(command.key(), now, decide);
    let outcome = match changed {
        Err(crate::cache::TooLarge) => Outcome::with_status(Status::TooLarge),
        Ok((outcome, version)) => {
            after.version = version;
            match outcome.status {
                Status::Stored | Status::Counted | Status::Deleted => {
                    metadata.apply_update(&after);
                    Outcome { version, ..outcome }
                }
                Status::Touched => Outcome { version, ..outcome },
                _ => outcome,
            }
        }
    };
    Done {
        outcome: Ok(outcome),
        position: CommitPosition::NONE,
    }
}

/// Sets the expiry time of an item, and returns the item.
pub(crate) fn touch(context: &CommandContext, key: &[u8], exptime: i64) -> Option<TouchedRow> {
    let now = context.shared.unix_seconds();
    let expires = expiry_time(exptime, now);
    let decide = |item: Option<&StoredItem>| (item.cloned(), CacheAction::Touch(expires));
    let (item, version) = context.shared.cache.change(key, now, decide).ok()?;
    item.map(|item| TouchedRow {
        flags: item.flags,
        version,
        row_version: version,
        previous_expiry: item.expires,
        expires,
        value: item.value.to_vec(),
    })
}

pub(super) fn store(cached: &mut CachedItem<'_>, command: &Store<'_>) -> (Outcome, CacheAction) {
    let (item, now, id) = (cached.item, cached.now, cached.id);
    // `cas` also matches a placeholder, for clients that know its version.
    let current_version = match (item, command.compare) {
        (None, Some(_)) => cached.metadata.placeholder(id, now).map(|mark| mark.shown),
        (item, _) => item.map(|i| i.version),
    };
    let versions = command.compare.zip(current_version);
    let is_older = versions.is_some_and(|(compared, current)| compared < current);
    let mut stale = cached.metadata_update.stale;
    if let Some(item) = item.filter(|_| command.invalidate && is_older) {
        stale = true;
        cached.metadata_update.id = Some(id);
        cached.metadata_update.stale = true;
        let mark = cached.metadata.mark(id, item.version);
        cached.metadata_update.sent = mark.is_some_and(|mark| mark.sent);
    }
    if !stale && let Some(status) = failure_status(command, current_version) {
        return (Outcome::with_status(status), CacheAction::Keep);
    }
    let (value, flags, expires) = match item.filter(|_| command.mode.extends()) {
        None => {
            let exptime = match (command.mode.extends(), command.create) {
                (true, Some(exptime)) => exptime,
                _ => command.exptime,
            };
            // Storing a stale value keeps the expiry time.
            let expires = match item.filter(|_| stale) {
                Some(item) => item.expires,
                None => expiry_time(exptime, now),
            };
            (command.value.into(), command.flags, expires)
        }
        Some(item) => {
            if item.value.len() + command.value.len() > cached.max_value {
                return (Outcome::with_status(Status::TooLarge), CacheAction::Keep);
            }
            let joined = match command.mode {
                Mode::Append => [&item.value, command.value].concat(),
                _ => [command.value, &item.value].concat(),
            };
            (joined.into(), item.flags, item.expires)
        }
    };
    let put = CacheAction::Put {
        value,
        flags,
        expires,
        version: command.version,
    };
    (Outcome::with_status(Status::Stored), put)
}

pub(super) fn count(cached: &mut CachedItem<'_>, command: &Count<'_>) -> (Outcome, CacheAction) {
    let (item, now) = (cached.item, cached.now);
    let Some(item) = item else {
        let Some(seed) = command.seed else {
            return (Outcome::with_status(Status::NotFound), CacheAction::Keep);
        };
        let expires = expiry_time(seed.exptime, now);
        let put = CacheAction::Put {
            value: seed.value.to_string().into_bytes().into(),
            flags: 0,
            expires,
            version: command.version,
        };
        let outcome = Outcome {
            number: seed.value,
            expires,
            created: true,
            ..Outcome::with_status(Status::Counted)
        };
        return (outcome, put);
    };
    if command.compare.is_some_and(|wanted| wanted != item.version) {
        return (Outcome::with_status(Status::Exists), CacheAction::Keep);
    }
    let Some(old) = number(&item.value) else {
        return (Outcome::with_status(Status::NotNumeric), CacheAction::Keep);
    };
    let new = if command.decrement {
        old.saturating_sub(command.delta)
    } else {
        old.wrapping_add(command.delta)
    };
    // A number with fewer digits is padded to its old length.
    let mut text = new.to_string().into_bytes();
    text.resize(text.len().max(item.value.len()), b' ');
    let expires = match command.touch {
        Some(exptime) => expiry_time(exptime, now),
        None => item.expires,
    };
    let put = CacheAction::Put {
        value: text.into(),
        flags: item.flags,
        expires,
        version: command.version,
    };
    let outcome = Outcome {
        number: new,
        expires,
        ..Outcome::with_status(Status::Counted)
    };
    (outcome, put)
}

pub(super) fn delete(cached: &mut CachedItem<'_>, command: &Delete<'_>) -> (Outcome, CacheAction) {
    let now = cached.now;
    let Some(item) = cached.item else {
        return (Outcome::with_status(Status::NotFound), CacheAction::Keep);
    };
    if command.invalidate {
        cached.metadata_update.id = Some(cached.id);
        cached.metadata_update.stale = true;
    }
    if command.compare.is_some_and(|wanted| wanted != item.version) {
        return (Outcome::with_status(Status::Exists), CacheAction::Keep);
    }
    let action = if command.invalidate || command.empty {
        CacheAction::Put {
            value: if command.empty {
                [].into()
            } else {
                item.value.clone()
            },
            flags: if command.empty { 0 } else { item.flags },
            expires: match command.touch {
                Some(exptime) => expiry_time(exptime, now),
                None => item.expires,
            },
            version: command.version,
        }
    } else {
        CacheAction::Remove
    };
    (Outcome::with_status(Status::Deleted), action)
}

pub(super) fn touch_item(
    cached: &mut CachedItem<'_>,
    command: &Touch<'_>,
) -> (Outcome, CacheAction) {
    if cached.item.is_none() {
        return (Outcome::with_status(Status::NotFound), CacheAction::Keep);
    }
    let action = CacheAction::Touch(expiry_time(command.exptime, cached.now));
    (Outcome::with_status(Status::Touched), action)
}
