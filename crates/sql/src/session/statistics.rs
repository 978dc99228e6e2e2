//! Statistics of a session's statements ([`crate::statements`]).

use super::{Outcome, SqlSession, lex_mode};
use crate::context::StatementContext;
use crate::show::tree::Tree;
use crate::statements::Completed;
use crate::statements::digests::{DigestId, DigestKey, normalized_text};
use crate::statements::phases::{Phase, PhaseTimes};
use crate::statements::slow_log::{MAX_STATEMENT, SessionState};
use crate::trace::{StatementSpan, TraceParent, TraceSink, Traced};
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

/// Counters of the current statement so far.
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
    /// The times of its phases, if it is sampled.
    phases: Option<PhaseTimes>,
    /// Its trace, if it is traced; boxed, because few statements are, and this state is reset for each.
    traced: Option<Box<Traced>>,
    /// Its plan, if it is slow and the log has plans; else empty.
    plan: String,
}

impl StatementWork {
    /// The state at the start of a statement; the times of its phases are measured if it is sampled.
    pub(super) fn begin(is_sampled: bool) -> StatementWork {
        StatementWork {
            lock_wait_before: blocking::lock_wait(),
            phases: is_sampled.then(PhaseTimes::default),
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
    /// Start of a phase, if the statement is sampled or traced.
    #[inline]
    pub(super) fn begin_phase(&self) -> Option<Instant> {
        let is_measured = self.work.phases.is_some() || self.work.traced.is_some();
        is_measured.then(|| self.cx.server.db.clock().now())
    }

    /// Ends a phase that [`Self::begin_phase`] began.
    #[inline]
    pub(super) fn end_phase(&self, phase: Phase, begun: Option<Instant>) {
        let Some(begun) = begun else {
            return;
        };
        let ended = self.cx.server.db.clock().now();
        let traced = self.work.traced.as_ref().map(|traced| &traced.phases);
        for times in self.work.phases.iter().chain(traced) {
            times.add(phase, begun, ended);
        }
    }

    /// Decides whether the statement is traced. `text` is empty for one that was prepared before: the
    /// comment of its text belongs to the trace in which it was prepared.
    #[inline]
    pub(super) fn begin_trace(&mut self, text: &[u8]) {
        if let Some(sink) = self.cx.server.traces() {
            self.work.traced = self.traced(sink.as_ref(), text).map(Box::new);
        }
    }

    #[cold]
    fn traced(&self, sink: &dyn TraceSink, text: &[u8]) -> Option<Traced> {
        let mut attributes = self.cx.env.query_attributes.iter();
        let attribute = attributes.find(|attribute| attribute.name == b"traceparent");
        let parent = match attribute {
            Some(attribute) => attribute.value.as_deref().and_then(TraceParent::parse),
            None => TraceParent::of_statement(text),
        };
        let is_traced = match parent {
            Some(parent) => parent.is_sampled,
            None => sink.begins_trace(),
        };
        is_traced.then(|| Traced {
            parent,
            phases: PhaseTimes::default(),
        })
    }

    /// Passes the span of a traced statement on.
    #[cold]
    fn record_span(&self, traced: &Traced, completed: &Completed) {
        let server = &self.cx.server;
        let Some(sink) = server.traces() else {
            return;
        };
        let known = server.digests.key(completed.digest);
        let text = known.map(|key| key.text.clone()).or_else(|| {
            let text = self.process.statement(MAX_STATEMENT);
            normalized_text(text.as_bytes(), lex_mode(self.cx.settings.mode))
        });
        let (parse_nanos, plan_nanos) = traced.phases.parse_and_plan();
        let micros = u64::try_from(server.db.clock().unix_micros()).unwrap_or_default();
        sink.record(StatementSpan {
            parent: traced.parent,
            ended: micros.saturating_mul(1000),
            nanos: completed.nanos,
            parse_nanos,
            plan_nanos,
            lock_nanos: completed.lock_nanos,
            text: text.unwrap_or_default(),
            database: self.cx.env.database.clone(),
            connection: self.process.id,
            error: completed.error,
            rows_examined: completed.rows_examined,
            rows_sent: completed.rows_sent,
            rows_affected: completed.rows_affected,
        });
    }

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
        if let Some(traced) = &self.work.traced {
            self.record_span(traced, &completed);
        }
        if let Some(times) = &self.work.phases {
            server
                .phases
                .record_statement(times, nanos, completed.lock_nanos);
        }
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
