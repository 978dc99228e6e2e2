//! Command context, shared by the commands of a connection: scratch space, the transaction of
//! a write, the snapshot of reads.
//!
//! Invariants:
//! 1. A write is one autocommit transaction. After a conflict or deadlock it is run again from its
//!    start, at most [`MAX_ATTEMPTS`] times in all (transactions.md, rule 2), because no part of it has
//!    been answered.
//! 2. A write holds the metadata locks of its table and of tables connected by foreign keys from
//!    before it reads the definition to its end (rule 41). Reads hold none: they detect a changed
//!    definition and restart.
//! 3. Consecutive reads of one batch of requests share a snapshot; it ends
//!    with the batch, and with every write of the connection.
//! 4. Every reply is deferred until the newest commit seen for it is durable.
//! 5. A connection sees its own writes although they are not durable yet: a single key is then a
//!    current read, several keys are read after those writes have become durable.

pub(crate) mod delay;
pub(crate) mod identity;
mod listener_state;
pub(crate) mod requirement;
pub(crate) mod stats;

pub(crate) use listener_state::ListenerState;

use crate::container::Container;
use crate::container::convert::Conversion;
use crate::context::identity::Identity;
use crate::context::requirement::Requirement;
use crate::item_metadata::{ItemId, ItemMark, ItemMetadata, MetadataUpdate};
use crate::mapping::Target;
use crate::mapping::mapping_cache::CurrentMapping;
use porpoise_base::blocking::blocking;
use porpoise_base::cancel::Cancel;
use porpoise_kv::{self as kv, CommitPosition, Read};
use porpoise_rows::ddl::metadata_lock_error;
use porpoise_rows::metadata_lock::MetadataLockSession;
use porpoise_rows::{BeginOptions, Error, Txn};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time of a wait for a lock: the default of `innodb_lock_wait_timeout`.
const LOCK_WAIT: Duration = Duration::from_secs(50);

/// Attempts at a write before its conflict is reported.
const MAX_ATTEMPTS: usize = 16;

/// Failure of a command.
#[derive(Clone, Debug)]
pub enum Failure {
    /// Refused by the configuration, or by the command's own rules.
    Refused(String),
    /// The account lacks a privilege.
    Denied(String),
    /// The key is not valid for the key columns: no such row can exist.
    NoSuchKey(Error),
    /// Error of the row layer.
    Rows(Error),
    /// The client has disconnected, or a part of the reply was sent and cannot be discarded.
    Gone,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Rows(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Refused(why) | Failure::Denied(why) => f.write_str(why),
            Failure::NoSuchKey(error) | Failure::Rows(error) => write!(f, "{error}"),
            Failure::Gone => f.write_str("the client has disconnected"),
        }
    }
}

impl Failure {
    /// Whether the connection must end.
    pub fn ends_session(&self) -> bool {
        match self {
            Failure::Gone => true,
            Failure::Rows(error) => error.ends_session(),
            _ => false,
        }
    }
}

/// Outcome of a write, and the commit that its reply waits for.
pub struct Done<T> {
    /// The outcome.
    pub outcome: Result<T, Failure>,
    /// The commit that the reply waits for.
    pub position: CommitPosition,
}

/// One attempt at a write.
pub enum Attempt<T> {
    /// The outcome is final.
    Done(Done<T>),
    /// The mapping is older than the definitions.
    Stale,
}

impl<T> Attempt<T> {
    /// A failure.
    pub(crate) fn failed(failure: Failure, position: CommitPosition) -> Attempt<T> {
        Attempt::Done(Done {
            outcome: Err(failure),
            position,
        })
    }

    /// Rolls back and returns an outcome.
    pub(crate) fn rolled_back(txn: Txn, outcome: T) -> Attempt<T> {
        let position = txn.seen();
        txn.rollback();
        Attempt::Done(Done {
            outcome: Ok(outcome),
            position,
        })
    }

    /// Commits, or rolls back if the outcome is a failure.
    pub(crate) fn end(txn: Txn, outcome: Result<T, Failure>) -> Attempt<T> {
        match outcome {
            Ok(outcome) => Attempt::ended(txn.commit(), Ok(outcome)),
            Err(failure) => Attempt::failed(failure, txn.seen()),
        }
    }

    /// The attempt with this outcome whose transaction has been committed.
    fn ended(done: Result<kv::Commit, Error>, outcome: Result<T, Failure>) -> Attempt<T> {
        match done {
            Err(error) => Attempt::failed(error.into(), CommitPosition::NONE),
            Ok(commit) => Attempt::Done(Done {
                outcome,
                position: commit.position,
            }),
        }
    }
}

/// The row of a write, passed to its closure.
pub struct Place<'a> {
    /// The container.
    pub container: &'a Container,
    /// The key without its prefix.
    pub key: &'a [u8],
    /// The key, encoded for the container's index.
    pub index_key: &'a [u8],
    /// The encoded primary key; if the container uses another index, empty until the row is found.
    pub primary: Cow<'a, [u8]>,
    /// Conversions at the command's time.
    pub convert: Conversion,
    /// Maximum length of a value in bytes.
    pub max_value: usize,
    /// Item metadata.
    pub metadata: &'a ItemMetadata,
}

impl<'a> Place<'a> {
    /// The row of a key, which is encoded for the container's index.
    pub(crate) fn new(
        container: &'a Container,
        key: &'a [u8],
        index_key: &'a [u8],
        convert: Conversion,
        shared: &'a ListenerState,
    ) -> Place<'a> {
        Place {
            container,
            key,
            index_key,
            primary: match container.index() {
                0 => Cow::Borrowed(index_key),
                _ => Cow::Borrowed(&[]),
            },
            convert,
            max_value: shared.limits.max_value,
            metadata: &shared.metadata,
        }
    }
}

impl Place<'_> {
    /// Returns the metadata id of the item.
    pub(crate) fn id(&self) -> ItemId {
        self.metadata.id(self.container.table.id, self.index_key)
    }

    /// Returns the version that replies report for a row of this version.
    pub(crate) fn shown(&self, version: u64) -> u64 {
        self.metadata.shown(|| self.id(), version)
    }

    /// Returns the placeholder of an absent row.
    pub(crate) fn placeholder(&self) -> Option<ItemMark> {
        if !self.metadata.any_marks() {
            return None;
        }
        let now = self.convert.unix_seconds();
        self.metadata.placeholder(self.id(), now)
    }

    /// Returns the change of the item's metadata after a command that gives its row `version`.
    /// `stale`: whether the item becomes stale; `shown`: the version that replies report in place
    /// of `version`.
    ///
    /// # Errors
    /// There is no room for a mark with the version to report.
    pub(crate) fn metadata_update(
        &self,
        version: u64,
        stale: bool,
        shown: Option<u64>,
    ) -> Result<MetadataUpdate, Failure> {
        let shown = shown.unwrap_or(0);
        if !stale && shown == 0 && !self.metadata.any_marks() {
            return Ok(MetadataUpdate::default());
        }
        let id = self.id();
        if shown != 0 && !self.metadata.has_room(id) {
            return Err(Failure::Refused("out of memory storing object".to_owned()));
        }
        Ok(MetadataUpdate {
            id: Some(id),
            version,
            stale,
            sent: false,
            shown,
        })
    }
}

/// The command context; see the module.
pub struct CommandContext {
    pub(crate) shared: Arc<ListenerState>,
    /// The account of the connection.
    pub(crate) identity: Identity,
    cancel: Cancel,
    metadata_locks: MetadataLockSession,
    /// Buffer for encoded keys.
    pub(crate) keys: Vec<u8>,
    /// Buffer for values that are built from several columns.
    pub(crate) text: Vec<u8>,
    /// The transaction of this batch's reads, with their snapshot.
    reader: Option<Box<Txn>>,
    /// The next transaction, in place of one that has ended.
    restarted: Option<Box<Txn>>,
    /// Name of the container that the client selected, so that its keys have no prefix (see
    /// `read/innodb_containers.rs`).
    pub(crate) selected: Option<Box<[u8]>>,
    /// The newest commit of this connection.
    newest_commit: CommitPosition,
}

impl CommandContext {
    pub(crate) fn new(
        shared: Arc<ListenerState>,
        identity: Identity,
        cancel: Cancel,
    ) -> CommandContext {
        CommandContext {
            identity,
            metadata_locks: shared.db.metadata_locks().session(),
            shared,
            cancel,
            keys: Vec::new(),
            text: Vec::new(),
            reader: None,
            restarted: None,
            selected: None,
            newest_commit: CommitPosition::NONE,
        }
    }

    fn options(&self) -> BeginOptions {
        BeginOptions {
            cancel: self.cancel.clone(),
            lock_wait: LOCK_WAIT,
            fires_triggers: self.shared.fires_triggers,
            ..BeginOptions::default()
        }
    }

    /// Begins a transaction outside [`CommandContext::write`].
    pub(crate) fn begin(&self) -> Result<Txn, Error> {
        self.shared.db.begin(self.options())
    }

    /// Begins a transaction, if possible in place of one that has ended.
    pub(crate) fn begin_next(&mut self) -> Result<Box<Txn>, Error> {
        match self.restarted.take() {
            Some(mut txn) => {
                txn.set_lock_wait(LOCK_WAIT);
                Ok(txn)
            }
            None => Ok(Box::new(self.begin()?)),
        }
    }

    /// As [`Attempt::end`], for a transaction of [`CommandContext::begin_next`], which is kept for the next one.
    pub(crate) fn end_attempt<T>(
        &mut self,
        mut txn: Box<Txn>,
        outcome: Result<T, Failure>,
    ) -> Attempt<T> {
        if outcome.is_err() || !txn.restarts() {
            return Attempt::end(*txn, outcome);
        }
        let done = txn.commit_and_restart();
        if done.is_ok() {
            self.restarted = Some(txn);
        }
        Attempt::ended(done, outcome)
    }

    /// Ends a batch of requests, and its snapshot.
    pub(crate) fn end_batch(&mut self) {
        /// Maximum capacity in bytes that a buffer keeps.
        const KEPT_CAPACITY: usize = 64 * 1024;
        self.end_reads();
        for buffer in [&mut self.keys, &mut self.text] {
            buffer.clear();
            buffer.shrink_to(KEPT_CAPACITY);
        }
    }

    /// Ends the snapshot of this batch's reads.
    fn end_reads(&mut self) {
        if let Some(mut reader) = self.reader.take()
            && reader.restart()
        {
            self.restarted = Some(reader);
        }
    }

    /// Returns the transaction of this batch's reads, and the read mode for `count` keys. The caller
    /// returns the transaction with [`CommandContext::return_reader`].
    pub(crate) fn reader(&mut self, count: usize) -> Result<(Box<Txn>, Read), Failure> {
        let engine = self.shared.db.engine();
        let mut read = Read::SNAPSHOT;
        if self.newest_commit != CommitPosition::NONE {
            if engine.durable_position() >= self.newest_commit {
                self.newest_commit = CommitPosition::NONE;
            } else if count == 1 {
                read = Read::CURRENT;
            } else {
                let position = self.newest_commit;
                blocking(|| engine.wait_durable(position)).map_err(Error::from)?;
                self.newest_commit = CommitPosition::NONE;
            }
        }
        let txn = match self.reader.take() {
            Some(txn) => txn,
            None => {
                let mut txn = self.begin_next()?;
                if let Some(staleness) = self.shared.db.read_staleness() {
                    txn.refresh_within(staleness)?;
                }
                txn
            }
        };
        Ok((txn, read))
    }

    /// Keeps the snapshot for the next read of the batch.
    pub(crate) fn return_reader(&mut self, reader: Box<Txn>) {
        self.reader = Some(reader);
    }

    /// Whether a commit of this connection may not be durable yet.
    pub(crate) fn has_pending_commit(&self) -> bool {
        self.newest_commit != CommitPosition::NONE
            && self.shared.db.engine().durable_position() < self.newest_commit
    }

    /// Records a commit of this connection.
    pub(crate) fn note_commit(&mut self, position: CommitPosition) {
        self.newest_commit = self.newest_commit.max(position);
    }

    /// Runs a write on the row of a client's key.
    pub(crate) fn write<T>(
        &mut self,
        current: &mut Arc<CurrentMapping>,
        requirement: Requirement,
        key: &[u8],
        mut run: impl FnMut(&mut Txn, &mut Place<'_>) -> Result<T, Failure>,
    ) -> Done<T> {
        self.retry_until_final(current, |context, current| {
            context.attempt(current, requirement, key, &mut run)
        })
    }

    /// Runs attempts at a write until one is final.
    pub(crate) fn retry_until_final<T>(
        &mut self,
        current: &mut Arc<CurrentMapping>,
        mut attempt: impl FnMut(&mut CommandContext, &CurrentMapping) -> Attempt<T>,
    ) -> Done<T> {
        self.end_reads();
        let mut tries = 0;
        loop {
            tries += 1;
            let ended = attempt(self, current);
            self.metadata_locks.end();
            match ended {
                Attempt::Done(done) => {
                    let retryable =
                        matches!(&done.outcome, Err(Failure::Rows(e)) if is_retryable(e));
                    if !retryable || tries >= MAX_ATTEMPTS {
                        self.note_commit(done.position);
                        return done;
                    }
                }
                Attempt::Stale if tries >= MAX_ATTEMPTS => {
                    let outcome = Err(Failure::Rows(Error::DefinitionChanged));
                    let position = CommitPosition::NONE;
                    return Done { outcome, position };
                }
                Attempt::Stale => {}
            }
            self.shared.mapping.renew(current);
        }
    }

    /// Makes one attempt at a write.
    fn attempt<T>(
        &mut self,
        current: &CurrentMapping,
        requirement: Requirement,
        key: &[u8],
        run: &mut impl FnMut(&mut Txn, &mut Place<'_>) -> Result<T, Failure>,
    ) -> Attempt<T> {
        let failed = Attempt::failed;
        let found = self.target(&current.mapping, key, requirement);
        let (container, rest) = match found {
            Ok(Target::Row(_, container, rest)) => (container, rest),
            Ok(Target::Cache) => {
                // The policy has changed since the caller tested it: the next attempt sees that.
                return Attempt::Stale;
            }
            Err(failure) => return failed(failure, CommitPosition::NONE),
        };
        let db = &self.shared.db;
        if let Err(error) = self.share(&container.write_set) {
            return failed(error.into(), CommitPosition::NONE);
        }
        if db.catalog_version() != current.mapping.catalog_version {
            return Attempt::Stale;
        }
        let mut convert = Conversion::new(db.clock().as_ref());
        self.keys.clear();
        if let Err(error) = container.append_key(rest, &mut convert, &mut self.keys) {
            return failed(Failure::NoSuchKey(error), CommitPosition::NONE);
        }
        let mut txn = match self.begin_next() {
            Ok(txn) => txn,
            Err(error) => return failed(error.into(), CommitPosition::NONE),
        };
        let mut place = Place::new(container, rest, &self.keys, convert, &self.shared);
        let outcome = run(&mut txn, &mut place);
        self.end_attempt(txn, outcome)
    }

    /// Takes shared metadata locks on tables that a command writes to, until
    /// [`CommandContext::unshare`]. Waits while FLUSH TABLES WITH READ LOCK holds writes off.
    pub(crate) fn share(&self, tables: &[porpoise_rows::catalog::TableId]) -> Result<(), Error> {
        let deadline = || self.shared.db.clock().now() + LOCK_WAIT;
        self.metadata_locks
            .share_for_writing(tables, deadline, &self.cancel)
            .map_err(metadata_lock_error)
    }

    /// Releases the metadata locks.
    pub(crate) fn unshare(&self) {
        self.metadata_locks.end();
    }
}

/// Whether an autocommit command that failed with this error may be run again. Nothing of it has
/// been committed or answered.
pub(crate) fn is_retryable(error: &Error) -> bool {
    matches!(
        error,
        Error::SnapshotConflict
            | Error::DefinitionChanged
            | Error::Kv(kv::Error::Conflict | kv::Error::Deadlock | kv::Error::NoSuchSpace(_))
    )
}
