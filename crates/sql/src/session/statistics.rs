//! Statistics of a session's statements ([`crate::statements`]).

use super::{Outcome, SqlSession, lex_mode};
use crate::context::StatementContext;
use crate::show::tree::Tree;
use crate::statements::Completed;
use crate::statements::digests::{DigestId, DigestKey, normalized_text};
use crate::statements::slow_log::{MAX_STATEMENT, SessionState};
use porpoise_base::blocking;
use porpoise_rows::AccessCounts;
use porpoise_sql_expr::error::Result;
use porpoise_sql_plan::plan::sinks::Plan;
use porpoise_types::{SqlMode, ValueRef};
use std::collections::HashMap;
use std::time::Instant;

/// Longer texts are not kept in [`KnownDigests`].
const MAX_KNOWN_TEXT: usize = 256;

/// Maximum number of texts in [`KnownDigests`].
const MAX_KNOWN: usize = 64;

/// What the current statement has done so far.
#[derive(Debug, Default)]
pub(super) struct StatementWork {
    /// Its digest; `None` for commands of the protocol.
    pub(super) digest: Option<DigestId>,
    /// Rows sent to the client.
    pub(super) rows_sent: u64,
    rows_examined: u64,
    scanned_table: bool,
    /// [`blocking::lock_wait`] at its start.
    lock_wait_before: u64,
    /// Its plan, if it is slow and the log has plans; else empty.
    plan: String,
}

impl StatementWork {
    /// The state at the start of a statement.
    pub(super) fn begin() -> StatementWork {
        StatementWork {
            lock_wait_before: blocking::lock_wait(),
            ..StatementWork::default()
        }
    }

    /// Adds the row accesses of a plan.
    pub(super) fn add_accesses(&mut self, accesses: &AccessCounts) {
        self.rows_examined += accesses.examined;
        self.scanned_table |= accesses.scanned > 0;
    }
}

/// Digests of short texts that are executed without a cached plan, such as COMMIT.
#[derive(Default)]
pub(super) struct KnownDigests {
    database: Option<String>,
    mode: SqlMode,
    numbers: HashMap<Box<[u8]>, DigestId, foldhash::fast::FixedState>,
}

impl KnownDigests {
    /// The number of a statement's digest.
    fn number(&mut self, text: &[u8], cx: &StatementContext) -> DigestId {
        if text.len() > MAX_KNOWN_TEXT {
            return number(text, cx);
        }
        if self.database != cx.env.database || self.mode != cx.settings.mode {
            self.database.clone_from(&cx.env.database);
            self.mode = cx.settings.mode;
            self.numbers.clear();
        }
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let number = number(text, cx);
        if self.numbers.len() >= MAX_KNOWN {
            self.numbers.clear();
        }
        self.numbers.insert(text.into(), number);
        number
    }
}

/// The number of a statement's digest.
pub(super) fn number(text: &[u8], cx: &StatementContext) -> DigestId {
    if !cx.server.keeps_statistics {
        return DigestId::default();
    }
    let Some(digest) = normalized_text(text, lex_mode(cx.settings.mode)) else {
        return DigestId::default();
    };
    cx.server.digests.number(DigestKey {
        database: cx.env.database.clone(),
        text: digest,
    })
}

impl SqlSession {
    /// Sets the digest of a text that was executed without a cached plan.
    pub(super) fn find_digest(&mut self, text: &[u8], rest: Option<usize>) {
        if self.work.digest.is_none() {
            let own = rest.and_then(|at| text.get(..at)).unwrap_or(text);
            self.work.digest = Some(self.known_digests.number(own, &self.cx));
        }
    }

    /// Records the statement that ends now, `nanos` nanoseconds after its start, and its end in the
    /// process list.
    pub(super) fn record_statement(&self, result: &Result<Outcome>, ended: Instant, nanos: u64) {
        let server = &self.cx.server;
        // Between two statements of a text the session is not idle: KILL QUERY applies to the rest.
        let idle = !self.has_more_statements;
        let Some(digest) = self.work.digest else {
            if idle {
                self.process.end(ended);
            }
            return;
        };
        let (error, warnings, rows_affected) = match result {
            Ok(outcome) => (0, outcome.warnings, outcome.affected_rows),
            Err(error) => (error.code, 0, 0),
        };
        let completed = Completed {
            digest,
            error,
            warnings,
            scanned_table: self.work.scanned_table,
            ended,
            nanos,
            lock_nanos: blocking::lock_wait().saturating_sub(self.work.lock_wait_before),
            rows_affected,
            rows_sent: self.work.rows_sent,
            rows_examined: self.work.rows_examined,
        };
        let is_slow = nanos > self.cx.settings.long_query_nanos
            || completed.scanned_table && server.slow_log.logs_unindexed();
        if is_slow {
            self.log_slow(&completed);
        }
        if server.keeps_statistics {
            self.process.complete(&server.digests, completed, idle);
        } else if idle {
            self.process.end(ended);
        }
    }

    /// Writes a statement to the slow query log, if that is on and the statement read enough rows.
    #[cold]
    fn log_slow(&self, completed: &Completed) {
        let server = &self.cx.server;
        let few_rows = completed.rows_examined < self.cx.settings.min_examined_rows;
        if few_rows || !server.slow_log.is_on() {
            return;
        }
        let session = SessionState {
            now: server.db.clock().unix_micros(),
            text: self.process.statement(MAX_STATEMENT),
            connection: self.process.id,
            user: &self.process.user,
            host: &self.process.host,
            transaction: self.process.txn(),
            database: self.cx.env.database.as_deref().unwrap_or_default(),
            insert_id: self.cx.last_insert_id,
            plan: &self.work.plan,
        };
        server.slow_log.record(completed, session);
    }

    /// Keeps the plan of a slow statement for the slow query log.
    pub(super) fn keep_plan_if_slow(&mut self, plan: &Plan, params: &[ValueRef<'_>]) {
        let server = &self.cx.server;
        if server.slow_log.has_plans() && self.work.plan.is_empty() {
            let elapsed = server.db.clock().now() - self.statement_start;
            let limit = std::time::Duration::from_nanos(self.cx.settings.long_query_nanos);
            let scanned = self.work.scanned_table && server.slow_log.logs_unindexed();
            if elapsed > limit || scanned {
                self.work.plan = Tree::new(params, None).text(plan);
            }
        }
    }
}
