//! Containers by name, as in InnoDB's memcached plugin: `@@name` selects a container for the
//! connection, `@@name.key` is a key of that container, and `get` of keys like `@>key` returns a
//! range of its rows.
//!
//! * `get @@name` returns the name of the table, `schema/table`. From then on keys of this
//!   connection are keys of that container, without any prefix. `@@name.key`, in any command, also
//!   selects the container. After `get @@`, keys have prefixes again.
//! * Ranges, one for each `get`: `@>a`, `@>=a`, `@<b`, `@<=b`, and two bounds
//!   together, `@>a@<b`. Rows are returned in key order. A `get` with a range and other keys
//!   is refused.
//!
//! Invariants:
//! 1. Only containers of the role's prefixes can be selected; the policy of the prefix applies.
//! 2. If a name is not a container, the key is an ordinary key. Without a selected container there
//!    are no ranges. So clients that do not use this feature can use any keys.

use crate::container::Container;
use crate::container::chunked_values;
use crate::container::convert::Conversion;
use crate::context::requirement::Requirement;
use crate::context::{CommandContext, Failure};
use crate::mapping::mapping_cache::CurrentMapping;
use crate::mapping::{Mapping, Operation, Target};
use crate::read::request::{ReadRequest, Style};
use crate::reply_sink::ReplySink;
use porpoise_kv::Read;
use porpoise_rows::{KeyRange, RowBuf, ScanPosition, ScanSpec};
use porpoise_wire::memcached::reply;
use std::sync::Arc;

/// Number of rows in the first step of a range. The number in a later step depends on the size of
/// the rows before it.
const FIRST_STEP_ROWS: usize = 8;
/// Maximum number of rows in a step.
const MAX_STEP_ROWS: usize = 256;
/// Target size of a step's replies, in bytes.
const STEP_BYTES: usize = 1 << 20;

/// Error for a range beside other keys: two bounds as two keys could also mean two ranges.
const RANGE_WITH_OTHER_KEYS: &str =
    "a range must be the only key of a get; write both ends as one key, as in @>1@<5";

/// Splits `@@name.key` or `@@name` into name and key; `None` for other texts.
fn split_container_name(key: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let rest = key.strip_prefix(b"@@")?;
    match rest.iter().position(|b| *b == b'.') {
        Some(at) => Some((rest.get(..at)?, rest.get(at + 1..))),
        None => Some((rest, None)),
    }
}

impl CommandContext {
    /// Resolves a key for a command of this connection, and checks that the account has the
    /// privileges that the command requires.
    ///
    /// # Errors
    /// The command is refused.
    #[inline(always)]
    pub(crate) fn target<'m, 'k>(
        &mut self,
        mapping: &'m Mapping,
        key: &'k [u8],
        requirement: Requirement,
    ) -> Result<Target<'m, 'k>, Failure> {
        let operation = requirement.operation;
        let found = if self.selected.is_none() && !key.starts_with(b"@@") {
            mapping.target(key, operation)
        } else {
            self.target_by_name(mapping, key, operation)
        };
        let target = found.map_err(Failure::Refused)?;
        if let Target::Row(at, ..) = &target {
            self.identity.check(mapping, *at, requirement.privileges)?;
        }
        Ok(target)
    }

    #[cold]
    fn target_by_name<'m, 'k>(
        &mut self,
        mapping: &'m Mapping,
        key: &'k [u8],
        operation: Operation,
    ) -> Result<Target<'m, 'k>, String> {
        if let Some((name, Some(rest))) = split_container_name(key)
            && let Some(found) = mapping.container_by_name(name, operation)
        {
            self.selected = Some(name.into());
            return found.map(|(at, container)| Target::Row(at, container, rest));
        }
        let selected = self.selected.as_deref();
        match selected.and_then(|name| mapping.container_by_name(name, operation)) {
            Some(found) => found.map(|(at, container)| Target::Row(at, container, key)),
            None => mapping.target(key, operation),
        }
    }

    /// Whether an operation on a key takes place in the memory cache, on this
    /// connection.
    #[inline]
    pub(crate) fn is_cached(&self, mapping: &Mapping, key: &[u8], operation: Operation) -> bool {
        mapping.uses_cache()
            && self.selected.is_none()
            && mapping.is_cached(key, operation)
            && !split_container_name(key).is_some_and(|(name, rest)| {
                rest.is_some() && mapping.container_by_name(name, operation).is_some()
            })
    }
}

/// Answers a `get` that selects a container or reads a range. Returns false if the request is
/// neither.
///
/// # Errors
/// The errors of reading a batch.
#[cold]
pub(crate) fn answer(
    context: &mut CommandContext,
    current: &Arc<CurrentMapping>,
    request: &ReadRequest<'_>,
    out: &mut impl ReplySink,
) -> Result<bool, Failure> {
    let Style::Ascii { cas } = request.style else {
        return Ok(false);
    };
    let mut keys = request.keys;
    let (Some(key), None) = (keys.next(), keys.next()) else {
        // Of several keys none may be a range.
        let mut selected = context.selected.is_some();
        for mut key in request.keys {
            if let Some((name, Some(rest))) = split_container_name(key)
                && current
                    .mapping
                    .container_by_name(name, Operation::Get)
                    .is_some()
            {
                (selected, key) = (true, rest);
            }
            if selected && bounds(key).is_some() {
                return Err(Failure::Refused(RANGE_WITH_OTHER_KEYS.to_owned()));
            }
        }
        return Ok(false);
    };
    let answered = answer_single_key(context, current, key, cas, out)?;
    if answered {
        out.buf().extend_from_slice(reply::END);
    }
    Ok(answered)
}

/// Answers a `get` of one key, if the key selects a container or is a range; otherwise returns
/// false. `cas`: whether replies include versions.
fn answer_single_key(
    context: &mut CommandContext,
    current: &CurrentMapping,
    mut key: &[u8],
    cas: bool,
    out: &mut impl ReplySink,
) -> Result<bool, Failure> {
    let mapping = &current.mapping;
    if key == b"@@" {
        return Ok(context.selected.take().is_some());
    }
    if let Some((name, rest)) = split_container_name(key)
        && let Some(found) = mapping.container_by_name(name, Operation::Get)
    {
        let (at, container) = found.map_err(Failure::Refused)?;
        let privileges = Requirement::GET.privileges;
        context.identity.check(mapping, at, privileges)?;
        context.selected = Some(name.into());
        let Some(rest) = rest else {
            let table = &container.table;
            let text = format!("{}/{}", table.database, table.name);
            reply::value(out.buf(), key, 0, text.as_bytes(), None);
            return Ok(true);
        };
        key = rest;
    }
    let Some(name) = context.selected.clone() else {
        return Ok(false);
    };
    let (Some(bounds), Some(found)) = (
        bounds(key),
        mapping.container_by_name(&name, Operation::Get),
    ) else {
        return Ok(false);
    };
    let (at, container) = found.map_err(Failure::Refused)?;
    let privileges = Requirement::GET.privileges;
    context.identity.check(mapping, at, privileges)?;
    answer_range(context, container, &bounds, cas, out)?;
    Ok(true)
}

/// A bound of a range.
struct Bound<'k> {
    /// Whether it is the lower bound, not the upper one.
    lower: bool,
    /// Whether the range includes the key.
    inclusive: bool,
    key: &'k [u8],
}

/// Parses the bounds of a text like `@>a@<b`; `None` for other texts.
fn bounds(text: &[u8]) -> Option<Vec<Bound<'_>>> {
    let is_bound = |at: usize| {
        let rest = text.get(at..).unwrap_or_default();
        rest.starts_with(b"@<") || rest.starts_with(b"@>")
    };
    if !is_bound(0) {
        return None;
    }
    let second = (2..text.len())
        .find(|at| is_bound(*at))
        .unwrap_or(text.len());
    let mut bounds = Vec::new();
    for (from, to) in [(0, second), (second, text.len())] {
        let part = text.get(from..to).filter(|p| !p.is_empty());
        let Some(part) = part else { continue };
        let inclusive = part.get(2) == Some(&b'=');
        bounds.push(Bound {
            lower: part.get(1) == Some(&b'>'),
            inclusive,
            key: part.get(2 + usize::from(inclusive)..)?,
        });
    }
    match bounds.as_slice() {
        [a, b] if a.lower == b.lower => None,
        _ => Some(bounds),
    }
}

fn key_range(container: &Container, bounds: &[Bound<'_>]) -> Result<KeyRange, Failure> {
    if container.key.iter().any(|part| part.desc) {
        let why = "ranges are not defined on a descending key".to_owned();
        return Err(Failure::Refused(why));
    }
    let mut range = KeyRange::ALL;
    for bound in bounds {
        let mut key = Vec::new();
        let mut convert = Conversion::for_keys();
        container.append_key(bound.key, &mut convert, &mut key)?;
        // `key` followed by a zero byte is the smallest key above `key`.
        if bound.lower != bound.inclusive {
            key.push(0);
        }
        if bound.lower {
            range.start = key
        } else {
            range.end = Some(key)
        }
    }
    Ok(range)
}

/// Returns the scan of the container's index for a range.
fn range_scan(container: &Container, bounds: &[Bound<'_>]) -> Result<ScanSpec, Failure> {
    Ok(ScanSpec {
        index: container.index(),
        ranges: vec![key_range(container, bounds)?],
        reverse: false,
        entries_only: false,
    })
}

/// Appends the replies for the rows of a range.
fn answer_range(
    context: &mut CommandContext,
    container: &Container,
    bounds: &[Bound<'_>],
    cas: bool,
    out: &mut impl ReplySink,
) -> Result<(), Failure> {
    let spec = range_scan(container, bounds)?;
    // A count above 1 makes `reader` wait until own writes are durable, so that the snapshot has
    // them.
    let (mut txn, _) = context.reader(2)?;
    let now = context.shared.db.clock().unix_micros();
    let mut position = ScanPosition::default();
    let mut scratch = Vec::new();
    let (mut more, mut sent) = (true, false);
    let mut count = FIRST_STEP_ROWS;
    let table = &container.table;
    while more {
        let mut rows: Vec<RowBuf> = Vec::new();
        let mut ids = Vec::new();
        let metadata = &context.shared.metadata;
        let read = Read::SNAPSHOT;
        let start = out.position();
        let step = txn.scan(
            table,
            &spec,
            read,
            &mut position,
            count,
            &mut |primary, row| {
                if !container.expired(&row, || now) {
                    ids.push(metadata.id(table.id, primary));
                    rows.push(row.to_buf());
                }
            },
        );
        let values = step.and_then(|has_more| {
            more = has_more;
            chunked_values::values(container, &mut txn, &rows, read)
        });
        let values = match values {
            Ok(values) => values,
            Err(_) if sent => return Err(Failure::Gone),
            Err(error) => return Err(error.into()),
        };
        let mut key = Vec::new();
        for (n, (row, id)) in rows.iter().zip(ids).enumerate() {
            let row = row.row(table)?;
            key.clear();
            container.append_key_text(&row, &mut key);
            let version = cas.then(|| metadata.shown(|| id, row.version()));
            let flags = container.flags_of(&row);
            let value = match values.get(n).and_then(Option::as_deref) {
                Some(value) => value,
                None => container.value_of(&row, &mut scratch),
            };
            reply::value(out.buf(), &key, flags, value, version);
        }
        let row_bytes = (out.position() - start) / rows.len().max(1);
        count = (STEP_BYTES / row_bytes.max(1)).clamp(1, MAX_STEP_ROWS);
        if more && out.is_full() {
            sent = true;
            out.drain().map_err(|_| Failure::Gone)?;
        }
    }
    context.return_reader(txn);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds of a text: lower, inclusive and key of each.
    fn parsed(text: &str) -> Option<Vec<(bool, bool, String)>> {
        let bounds = bounds(text.as_bytes())?;
        let parts = |b: &Bound<'_>| {
            let key = String::from_utf8_lossy(b.key).into_owned();
            (b.lower, b.inclusive, key)
        };
        Some(bounds.iter().map(parts).collect())
    }

    #[test]
    fn ranges_have_one_bound_or_two() {
        let a = || "a".to_owned();
        assert_eq!(parsed("@>a"), Some(vec![(true, false, a())]));
        assert_eq!(parsed("@<=a"), Some(vec![(false, true, a())]));
        let both = vec![(true, true, a()), (false, false, "m@".to_owned())];
        assert_eq!(parsed("@>=a@<m@"), Some(both));
        for other in ["", "a", "@a", "@", "@>a@>b", "x@>a", "@<a@<b"] {
            assert_eq!(parsed(other), None, "{other}");
        }
    }

    #[test]
    fn names_end_at_the_first_dot() {
        assert_eq!(
            split_container_name(b"@@t.k.x"),
            Some((&b"t"[..], Some(&b"k.x"[..])))
        );
        assert_eq!(split_container_name(b"@@t"), Some((&b"t"[..], None)));
        assert_eq!(split_container_name(b"@t"), None);
    }
}
