//! Commands on keys whose policy says `cache_only`: the same commands as on
//! rows, with the same outcomes, on items of the memory cache.
//!
//! Nothing here waits for a log or a lock of the engine, and nothing fails but
//! for size. A transaction over several keys cannot take these back.

use super::ask::CACHED;
use super::cache::{Item as Kept, Step};
use super::container::{moment, number};
use super::context::{CommandContext, Done};
use super::notes::After;
use super::store::hindrance;
use super::touch::Touched;
use porpoise_kv::CommitPosition;
use porpoise_wire::memcached::command::{Change, Count, Delete, Mode, Outcome, Status, Store};

/// Carries out a command on an item of the cache.
pub(super) fn apply(context: &CommandContext, command: &Change<'_>) -> Done<Outcome> {
    let now = context.shared.unix_seconds();
    let max = context.shared.limits.max_value;
    let notes = &context.shared.notes;
    let id = notes.id(CACHED, command.key());
    let mut after = After {
        id: notes.any_marks().then_some(id),
        ..After::default()
    };
    let decide = |item: Option<&Kept>| match command {
        Change::Store(command) => {
            // A placeholder counts for those who know its version.
            let held = match (item, command.compare) {
                (None, Some(_)) => notes.placeholder(id, now).map(|mark| mark.shown),
                (item, _) => item.map(|i| i.version),
            };
            let older = command.compare.zip(held).is_some_and(|(w, h)| w < h);
            if let Some(item) = item.filter(|_| command.invalidate && older) {
                after.id = Some(id);
                after.stale = true;
                after.sent = notes.mark(id, item.version).is_some_and(|mark| mark.sent);
            }
            store(command, item, (held, after.stale), now, max)
        }
        Change::Count(command) => count(command, item, now),
        Change::Delete(command) => {
            if command.invalidate && item.is_some() {
                after.id = Some(id);
                after.stale = true;
            }
            delete(command, item, now)
        }
        Change::Touch(command) => match item {
            None => (Outcome::of(Status::NotFound), Step::Keep),
            Some(_) => {
                let step = Step::Touch(moment(command.exptime, now));
                (Outcome::of(Status::Touched), step)
            }
        },
    };
    let changed = context.shared.cache.change(command.key(), now, decide);
    let outcome = match changed {
        Err(super::cache::TooLarge) => Outcome::of(Status::TooLarge),
        Ok((outcome, version)) => {
            after.version = version;
            match outcome.status {
                Status::Stored | Status::Counted | Status::Deleted => {
                    notes.settle(&after);
                    Outcome { version, ..outcome }
                }
                Status::Touched => Outcome { version, ..outcome },
                _ => outcome,
            }
        }
    };
    Done {
        outcome: Ok(outcome),
        ticket: CommitPosition::NONE,
    }
}

/// Moves the moment of expiry of an item and shows it.
pub(super) fn touch(context: &CommandContext, key: &[u8], exptime: i64) -> Option<Touched> {
    let now = context.shared.unix_seconds();
    let expires = moment(exptime, now);
    let decide = |item: Option<&Kept>| (item.cloned(), Step::Touch(expires));
    let (item, version) = context.shared.cache.change(key, now, decide).ok()?;
    item.map(|item| Touched {
        flags: item.flags,
        version,
        row_version: version,
        before: item.expires,
        expires,
        value: item.value.to_vec(),
    })
}

/// `there` is the version to compare with, and whether the value is stored as
/// a stale one.
fn store(
    command: &Store<'_>,
    item: Option<&Kept>,
    (there, stale): (Option<u64>, bool),
    now: i64,
    max: usize,
) -> (Outcome, Step) {
    if !stale && let Some(status) = hindrance(command, there) {
        return (Outcome::of(status), Step::Keep);
    }
    let (value, flags, expires) = match item.filter(|_| command.mode.extends()) {
        None => {
            let exptime = match (command.mode.extends(), command.create) {
                (true, Some(exptime)) => exptime,
                _ => command.exptime,
            };
            // A stale store keeps the moment of expiry.
            let expires = match item.filter(|_| stale) {
                Some(item) => item.expires,
                None => moment(exptime, now),
            };
            (command.value.into(), command.flags, expires)
        }
        Some(item) => {
            if item.value.len() + command.value.len() > max {
                return (Outcome::of(Status::TooLarge), Step::Keep);
            }
            let joined = match command.mode {
                Mode::Append => [&item.value, command.value].concat(),
                _ => [command.value, &item.value].concat(),
            };
            (joined.into(), item.flags, item.expires)
        }
    };
    let put = Step::Put {
        value,
        flags,
        expires,
        version: command.version,
    };
    (Outcome::of(Status::Stored), put)
}

fn count(command: &Count<'_>, item: Option<&Kept>, now: i64) -> (Outcome, Step) {
    let Some(item) = item else {
        let Some(seed) = command.seed else {
            return (Outcome::of(Status::NotFound), Step::Keep);
        };
        let expires = moment(seed.exptime, now);
        let put = Step::Put {
            value: seed.value.to_string().into_bytes().into(),
            flags: 0,
            expires,
            version: command.version,
        };
        let outcome = Outcome {
            number: seed.value,
            expires,
            created: true,
            ..Outcome::of(Status::Counted)
        };
        return (outcome, put);
    };
    if command.compare.is_some_and(|wanted| wanted != item.version) {
        return (Outcome::of(Status::Exists), Step::Keep);
    }
    let Some(old) = number(&item.value) else {
        return (Outcome::of(Status::NotNumeric), Step::Keep);
    };
    let new = if command.decrement {
        old.saturating_sub(command.delta)
    } else {
        old.wrapping_add(command.delta)
    };
    // A number that gets shorter keeps its length.
    let mut text = new.to_string().into_bytes();
    text.resize(text.len().max(item.value.len()), b' ');
    let expires = match command.touch {
        Some(exptime) => moment(exptime, now),
        None => item.expires,
    };
    let put = Step::Put {
        value: text.into(),
        flags: item.flags,
        expires,
        version: command.version,
    };
    let outcome = Outcome {
        number: new,
        expires,
        ..Outcome::of(Status::Counted)
    };
    (outcome, put)
}

fn delete(command: &Delete<'_>, item: Option<&Kept>, now: i64) -> (Outcome, Step) {
    let Some(item) = item else {
        return (Outcome::of(Status::NotFound), Step::Keep);
    };
    if command.compare.is_some_and(|wanted| wanted != item.version) {
        return (Outcome::of(Status::Exists), Step::Keep);
    }
    let step = if command.invalidate || command.empty {
        Step::Put {
            value: match command.empty {
                true => [].into(),
                false => item.value.clone(),
            },
            flags: if command.empty { 0 } else { item.flags },
            expires: match command.touch {
                Some(exptime) => moment(exptime, now),
                None => item.expires,
            },
            version: command.version,
        }
    } else {
        Step::Remove
    };
    (Outcome::of(Status::Deleted), step)
}
