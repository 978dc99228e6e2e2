//! The end of a transaction: its commit, and the next transaction in its place.

use super::access_counts::AccessCounts;
use super::scratch::Scratch;
use super::{BeginOptions, Txn, TxnSettings};
use crate::Result;
use crate::catalog::persist::cluster::write_token;
use crate::changes::ChangedKeys;
use crate::db::Db;
use crate::definition::TableId;
use crate::text_index::maintenance::TextChange;
use porpoise_kv::{self as kv, CommitPosition};

/// The parts of a transaction that the end of its commit uses.
struct EndedTxn<'t> {
    db: &'t Db,
    subscribed: &'t [TableId],
    text_changes: &'t [TextChange],
    /// See [`BeginOptions::replicates`].
    replicates: bool,
}

impl EndedTxn<'_> {
    /// Notifies the subscribers of the changes of a commit, then pauses if flow control requires it.
    fn finish(self, keys: Option<ChangedKeys>, done: kv::Result<kv::Commit>) -> Result<kv::Commit> {
        if !self.subscribed.is_empty() {
            let notifier = &self.db.change_notifier;
            match &done {
                Ok(commit) => notifier.notify(self.subscribed, commit.position),
                Err(kv::Error::UnknownOutcome(_)) => {
                    notifier.notify(self.subscribed, CommitPosition::NONE);
                }
                Err(_) => {}
            }
        }
        let commit = done?;
        for change in self.text_changes {
            let engine = self.db.engine().as_ref();
            self.db.text_maintenance.note(engine, change);
        }
        if let (Some(keys), Some(log)) = (keys, self.db.change_log()) {
            log.committed(commit.position, keys);
            if !self.replicates {
                self.db.commit_pacing.pause();
            }
        }
        Ok(commit)
    }
}

impl Txn {
    /// Commits. A reply that reveals the commit must not be sent before the commit position is
    /// durable.
    ///
    /// # Errors
    /// The engine's. Nothing has changed then, except after [`kv::Error::UnknownOutcome`], when the
    /// outcome is unknown.
    pub fn commit(mut self) -> Result<kv::Commit> {
        let keys = self.prepare_commit()?;
        let done = self.kv.commit();
        let ended = EndedTxn {
            db: &self.db,
            subscribed: &self.subscribed,
            text_changes: &self.text_changes,
            replicates: self.settings.replicates,
        };
        ended.finish(keys, done)
    }

    /// Whether the engine supports [`Txn::restart`] and [`Txn::commit_and_restart`].
    pub fn restarts(&self) -> bool {
        self.kv.restarts()
    }

    /// Commits as [`Txn::commit`] does, and makes this the beginning of another transaction, as [`Txn::restart`] does. Requires
    /// [`Txn::restarts`]. After an error the caller must drop the transaction.
    ///
    /// # Errors
    /// As [`Txn::commit`].
    pub fn commit_and_restart(&mut self) -> Result<kv::Commit> {
        let keys = self.prepare_commit()?;
        let done = self.kv.commit_and_restart();
        let ended = EndedTxn {
            db: &self.db,
            subscribed: &self.subscribed,
            text_changes: &self.text_changes,
            replicates: self.settings.replicates,
        };
        let commit = ended.finish(keys, done)?;
        self.begin_again();
        Ok(commit)
    }

    /// Prepares the commit of the engine's transaction. Returns the keys of its changes, if they are logged.
    fn prepare_commit(&mut self) -> Result<Option<ChangedKeys>> {
        if self.wrote_rows && !self.db.read_only.is_off() {
            self.db.read_only.check(self.settings.is_privileged)?;
        }
        let keys = self.annotate()?;
        if !self.subscribed.is_empty() && self.db.membership().is_some() {
            // Other servers notice the commit by the token.
            let token = self.row_version()?;
            for table in &self.subscribed {
                write_token(self.kv.as_mut(), *table, token)?;
            }
        }
        Ok(keys)
    }

    /// Ends a transaction that holds no locks and has no writes, and makes it the beginning of another one of the same
    /// session and isolation ([`Txn::set_options`]), which costs less than a new one. Returns false if it cannot: then the
    /// transaction goes on, and the caller ends it.
    pub fn restart(&mut self) -> bool {
        let restarted = self.kv.restart();
        if restarted {
            self.begin_again();
        }
        restarted
    }

    /// Resets the state of the transaction, except its options.
    fn begin_again(&mut self) {
        self.row_version = 0;
        self.scratch = Scratch::default();
        self.last_written = None;
        self.subscribed.clear();
        self.row_context = None;
        self.busy.clear();
        self.lease = None;
        self.accesses = AccessCounts::default();
        self.text_changes = Vec::new();
        self.expiry_time = None;
        self.changes = self.db.changes_of(self.settings.logged);
        self.wrote_rows = false;
    }

    /// Sets the options of a transaction that has just begun in place of another one; those of the engine stay.
    pub fn set_options(&mut self, options: &BeginOptions) {
        let was_logged = self.settings.logged;
        self.settings = TxnSettings::of(options);
        if self.settings.logged != was_logged {
            self.changes = self.db.changes_of(self.settings.logged);
        }
    }
}
