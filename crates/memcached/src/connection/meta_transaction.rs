//! Meta transactions: several meta commands that commit together.
//!
//! ```text
//! mn begin          MN B
//! ma stock:5 MD     (no answer yet)
//! ms order:9 3      (no answer yet)
//! mn                HD, HD, MN C
//! ```
//!
//! Between `mn begin` and `mn` the commands are buffered; `mn` executes them in one transaction and
//! replies to them in order. The last line is the outcome: `MN C` if all changes took effect, `MN
//! R` if none did. The transaction is rolled back if a command's reply is `NS`, `EX`, `NF` or an
//! error; later commands are then neither executed nor answered. `mg` in a transaction locks the
//! row and sees the changes of earlier commands; a miss (`EN`) is not a failure. `mn rollback`
//! discards the transaction.
//!
//! memcached replies `MN` to all of these, so a client can detect whether a server supports meta
//! transactions.
//!
//! Invariants:
//! 1. No lock is taken before all commands have arrived.
//! 2. Buffered commands are limited in number and bytes.
//! 3. A command is counted once, however often the transaction is attempted.
//! 4. A malformed line, or a command that is not allowed in a transaction, makes the whole
//!    transaction fail with `MN R`.
//!
//! Rejected: executing each command on arrival in an open transaction, which would let a client
//! hold row locks for an unlimited time.

use crate::command_statistics::{Effects, PrefixStatistics, Verb};
use crate::commands;
use crate::commands::store::lock;
use crate::connection::{ConnectionState, finish};
use crate::container::Container;
use crate::container::convert::Conversion;
use crate::context::requirement::Requirement;
use crate::context::{Attempt, CommandContext, Failure, Place};
use crate::item_metadata::MetadataUpdate;
use crate::mapping::Target;
use crate::mapping::mapping_cache::CurrentMapping;
use crate::reply_sink::ReplySink;
use porpoise_kv::{CommitPosition, LockMode};
use porpoise_rows::Txn;
use porpoise_rows::catalog::TableId;
use porpoise_wire::memcached::command::{Change, Status};
use porpoise_wire::memcached::meta::{Get, Meta};
use porpoise_wire::memcached::meta_reply::{self, Hit, RefreshState};
use porpoise_wire::memcached::{Limits, Parsed, Parser, Request, reply};
use std::sync::Arc;

/// Maximum number of commands in a transaction.
pub const MAX_COMMANDS: usize = 1000;
/// Maximum size of its commands in bytes.
pub const MAX_BYTES: usize = 16 << 20;

/// Commands that wait for `mn`.
#[derive(Debug, Default)]
pub(crate) struct MetaTransaction {
    /// Bytes of the commands.
    raw: Vec<u8>,
    /// Number of the commands.
    count: usize,
    /// The reason why the transaction must fail; empty if the client has already received an error.
    failure_reason: Option<&'static str>,
}

/// Result of executing a command.
struct ExecutionResult {
    /// The replies to the commands.
    answers: Vec<u8>,
    /// Whether the transaction committed; if not, it was rolled back.
    committed: bool,
    /// Changes of item metadata, to be applied after the commit.
    metadata: Vec<MetadataUpdate>,
}

impl MetaTransaction {
    pub(crate) fn new() -> MetaTransaction {
        MetaTransaction::default()
    }

    /// Makes the transaction fail, after an error that was already reported.
    pub(crate) fn mark_failed(&mut self) {
        self.fail_with("");
    }

    fn fail_with(&mut self, why: &'static str) {
        self.failure_reason.get_or_insert(why);
        self.raw = Vec::new();
    }

    /// Buffers a command.
    pub(crate) fn add(&mut self, meta: &Meta<'_>, raw: &[u8]) {
        self.count += 1;
        let is_allowed = match meta {
            Meta::Change(..) => true,
            Meta::Get(get) => get.is_plain(),
            _ => false,
        };
        if !is_allowed {
            self.fail_with("this command cannot be part of a transaction");
        } else if self.count > MAX_COMMANDS || self.raw.len() + raw.len() > MAX_BYTES {
            self.fail_with("the transaction is too large");
        } else if self.failure_reason.is_none() {
            self.raw.extend_from_slice(raw);
        }
    }

    /// Executes the commands and replies to them. Returns false if the connection must end.
    pub(crate) fn execute(self, state: &mut ConnectionState, out: &mut impl ReplySink) -> bool {
        if let Some(why) = self.failure_reason {
            if !why.is_empty() {
                reply::client_error(out.buf(), why);
            }
            out.buf().extend_from_slice(b"MN R\r\n");
            return true;
        }
        let commands = parse(&self.raw, state.shared.limits);
        let shared = state.shared.clone();
        let mut executed = Vec::new();
        let done = state
            .context
            .retry_until_final(&mut state.current, |context, current| {
                executed.clear();
                attempt(context, current, &commands, &mut executed)
            });
        executed.iter().for_each(ExecutedChange::count);
        finish(
            done,
            out,
            |result, buf| {
                if result.committed {
                    for after in &result.metadata {
                        shared.metadata.apply_update(after);
                    }
                }
                buf.extend_from_slice(&result.answers);
                let end: &[u8] = if result.committed {
                    b"MN C\r\n"
                } else {
                    b"MN R\r\n"
                };
                buf.extend_from_slice(end);
            },
            |failure, buf| {
                crate::connection::ascii::fail(failure, buf);
                buf.extend_from_slice(b"MN R\r\n");
            },
        )
    }
}

/// Parses the buffered bytes again, which were parsed successfully before.
fn parse(mut raw: &[u8], limits: Limits) -> Vec<Meta<'_>> {
    let mut parser = Parser::new(limits);
    let mut commands = Vec::new();
    while let Parsed::Request { request, consumed } = parser.parse(raw) {
        if let Request::Meta(meta) = request {
            commands.push(meta);
        }
        raw = raw.get(consumed..).unwrap_or_default();
    }
    commands
}

/// A command with its resolved key.
struct Resolved<'m, 'k> {
    meta: &'k Meta<'k>,
    container: &'m Container,
    /// The key without its prefix.
    key: Vec<u8>,
    /// The key, encoded for the container's index.
    index_key: Vec<u8>,
}

fn resolve<'m, 'k>(
    context: &mut CommandContext,
    current: &'m CurrentMapping,
    meta: &'k Meta<'k>,
    convert: &mut Conversion,
) -> Result<Option<Resolved<'m, 'k>>, Failure> {
    let (format, requirement) = match meta {
        Meta::Get(get) => (&get.format, Requirement::GET),
        Meta::Change(change, format) => (format, Requirement::of(change)),
        _ => return Ok(None),
    };
    let decoded = format.decoded();
    let key = decoded.as_ref().map_or(format.key_text(), |d| d.bytes());
    let found = context.target(&current.mapping, key, requirement)?;
    let Target::Row(_, container, rest) = found else {
        let why = "a key in the memory cache cannot be part of a transaction".to_owned();
        return Err(Failure::Refused(why));
    };
    let mut index_key = Vec::new();
    container
        .append_key(rest, convert, &mut index_key)
        .map_err(Failure::NoSuchKey)?;
    Ok(Some(Resolved {
        meta,
        container,
        key: rest.to_vec(),
        index_key,
    }))
}

/// A change that an attempt has executed; it is counted when the attempt was the last one.
struct ExecutedChange<'c> {
    change: &'c Change<'c>,
    status: Status,
    /// Statistics of its prefix. A container with several prefixes is counted under its first one.
    statistics: Option<Arc<PrefixStatistics>>,
}

impl ExecutedChange<'_> {
    fn count(&self) {
        commands::count(self.change, self.status);
        if let Some(statistics) = &self.statistics {
            statistics.count(Verb::of(self.change), Effects::of_change(self.status));
        }
    }
}

fn attempt<'c>(
    context: &mut CommandContext,
    current: &CurrentMapping,
    commands: &'c [Meta<'c>],
    executed: &mut Vec<ExecutedChange<'c>>,
) -> Attempt<ExecutionResult> {
    let shared = context.shared.clone();
    let convert = Conversion::new(shared.db.clock().as_ref());
    let mut resolved = Vec::with_capacity(commands.len());
    for meta in commands {
        match resolve(context, current, meta, &mut { convert }) {
            Ok(found) => resolved.extend(found),
            Err(failure) => return Attempt::failed(failure, CommitPosition::NONE),
        }
    }
    let sets = resolved.iter().flat_map(|r| r.container.write_set.iter());
    let mut tables: Vec<TableId> = sets.copied().collect();
    tables.sort_unstable();
    tables.dedup();
    if let Err(error) = context.share(&tables) {
        return Attempt::failed(error.into(), CommitPosition::NONE);
    }
    if shared.db.catalog_version() != current.mapping.catalog_version {
        return Attempt::Stale;
    }
    let mut txn = match context.begin() {
        Ok(txn) => txn,
        Err(error) => return Attempt::failed(error.into(), CommitPosition::NONE),
    };
    let mut result = ExecutionResult {
        answers: Vec::new(),
        committed: false,
        metadata: Vec::new(),
    };
    for command in &resolved {
        let (key, index_key) = (&command.key, &command.index_key);
        let mut place = Place::new(command.container, key, index_key, convert, &shared);
        match execute_command(&mut txn, &mut place, command.meta, &mut result, executed) {
            Ok(true) => {}
            Ok(false) => return Attempt::rolled_back(txn, result),
            Err(failure) => return Attempt::end(txn, Err(failure)),
        }
        if result.answers.len() > MAX_BYTES {
            let why = "the replies of the transaction are too large".to_owned();
            return Attempt::end(txn, Err(Failure::Refused(why)));
        }
    }
    result.committed = true;
    Attempt::end(txn, Ok(result))
}

/// Executes one command. Returns false if the transaction must fail.
fn execute_command<'c>(
    txn: &mut Txn,
    place: &mut Place<'_>,
    meta: &'c Meta<'c>,
    result: &mut ExecutionResult,
    executed: &mut Vec<ExecutedChange<'c>>,
) -> Result<bool, Failure> {
    match meta {
        Meta::Get(get) => read(txn, place, get, &mut result.answers).map(|()| true),
        Meta::Change(change, format) => {
            let commands::CommandOutcome {
                outcome,
                metadata_update: after,
            } = commands::run(txn, place, change)?;
            executed.push(ExecutedChange {
                change,
                status: outcome.status,
                statistics: place.container.statistics.first().cloned(),
            });
            let now = place.convert.unix_seconds();
            result.metadata.push(after);
            meta_reply::outcome(&mut result.answers, format, &outcome, now);
            Ok(matches!(
                outcome.status,
                Status::Stored | Status::Counted | Status::Deleted | Status::Touched
            ))
        }
        _ => Ok(true),
    }
}

fn read(
    txn: &mut Txn,
    place: &mut Place<'_>,
    get: &Get<'_>,
    answers: &mut Vec<u8>,
) -> Result<(), Failure> {
    let Some(found) = lock(txn, place, LockMode::Update)?.filter(|f| !f.expired) else {
        meta_reply::miss(answers, &get.format);
        return Ok(());
    };
    let row = found.row.row(&place.container.table)?;
    let mut scratch = Vec::new();
    let mut item = place.container.item_of(&row, &mut scratch);
    item.version = place.shown(item.version);
    let hit = Hit {
        item,
        expired_before: item.expires,
        now: place.convert.unix_seconds(),
        fetched: false,
        idle: 0,
        refresh: RefreshState::default(),
    };
    meta_reply::hit(answers, &get.format, &hit);
    Ok(())
}
