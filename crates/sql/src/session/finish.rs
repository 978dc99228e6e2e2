//! Completion of a successful statement: its transaction, and the counts in its reply.

use super::transaction::OpenTxn;
use super::{CLIENT_FOUND_ROWS, Outcome, SqlSession};
use crate::status::Counter;
use crate::vars::VarValue;
use porpoise_kv::CommitPosition;
use porpoise_rows::InsertMode;
use porpoise_sql_exec::exec::Changes;
use porpoise_sql_exec::exec::statement::StatementOutcome;
use porpoise_sql_expr::error::Result;
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_sql_plan::plan::sinks::{Change, ChangeKind, Plan};

impl SqlSession {
    /// Commits an autocommit transaction; keeps the transaction open if `keep` is true.
    pub(super) fn succeed(
        &mut self,
        planned: &Planned,
        done: StatementOutcome,
        mut open: Box<OpenTxn>,
        keep: bool,
    ) -> Result<Outcome> {
        let plan = &planned.plan;
        let seen = open.txn.get_mut().seen();
        if self.cx.settings.auto_increment.first != 0 && matches!(plan, Plan::Insert(_)) {
            // `insert_id` applies to a single statement.
            self.cx.settings.auto_increment.first = 0;
            if let Some(at) = crate::vars::find("insert_id") {
                self.cx.values.set(at, VarValue::Int(0));
            }
        }
        let position = if keep {
            open.activity.sent |= matches!(done, StatementOutcome::Rows(_));
            self.open = Some(open);
            seen
        } else if plan.writes() || planned.runs_programs || seen != CommitPosition::NONE {
            self.open = Some(open);
            self.commit()?
        } else {
            self.cx.counters.add(Counter::HandlerCommit, 1);
            self.end_reads(open);
            CommitPosition::NONE
        };
        let mut outcome = match done {
            StatementOutcome::Rows(rows) => {
                self.cx.env.found_rows = self.cx.env.counted_rows.take().unwrap_or(rows);
                Outcome {
                    had_rows: true,
                    ..Outcome::default()
                }
            }
            StatementOutcome::Changes(changes) => self.change_outcome(plan, changes),
        };
        outcome.position = outcome.position.max(position);
        Ok(outcome)
    }

    /// The counts, info and generated id in the reply of a statement that changes rows.
    fn change_outcome(&mut self, plan: &Plan, changes: Changes) -> Outcome {
        let mut outcome = Outcome {
            affected_rows: changes.affected,
            position: changes.seen,
            ..Outcome::default()
        };
        let warnings = self.cx.env.warnings.get_mut().len();
        let found_rows = self.cx.client.capabilities & CLIENT_FOUND_ROWS != 0;
        match plan {
            Plan::Insert(p) => {
                if found_rows {
                    // Rows for which ON DUPLICATE KEY UPDATE changed nothing.
                    outcome.affected_rows += changes.matched;
                }
                if p.file().is_some() {
                    let replaces = p.mode == InsertMode::Replace;
                    let deleted = if replaces { changes.duplicates } else { 0 };
                    let inserted = changes.affected.saturating_sub(deleted);
                    let skipped = changes.records.saturating_sub(inserted);
                    outcome.info = format!(
                        "Records: {}  Deleted: {deleted}  Skipped: {skipped}  Warnings: {warnings}",
                        changes.records
                    );
                } else if p.values().is_none_or(|rows| rows.len() != 1) {
                    outcome.info = format!(
                        "Records: {}  Duplicates: {}  Warnings: {warnings}",
                        changes.records, changes.duplicates
                    );
                }
            }
            Plan::Change(Change {
                kind: ChangeKind::Update,
                ..
            }) => {
                outcome.info = update_info(changes.matched, changes.affected, warnings as u64);
                if found_rows {
                    outcome.affected_rows = changes.matched;
                }
            }
            Plan::Change(_) | Plan::Select(_) => {}
        }
        if let Some(id) = changes.insert_id {
            self.cx.env.last_insert_id.set(id);
            outcome.last_insert_id = id;
        } else if self.cx.env.last_insert_id.get() != self.cx.last_insert_id {
            // LAST_INSERT_ID(n) was called.
            outcome.last_insert_id = self.cx.env.last_insert_id.get();
        } else if let Some(id) = changes.row_id {
            outcome.last_insert_id = id;
        }
        outcome
    }
}

/// The info of an UPDATE. Not by `format!`, which takes 900 instructions of an UPDATE by key.
fn update_info(matched: u64, changed: u64, warnings: u64) -> String {
    let mut info = String::with_capacity(64);
    for (name, number) in [
        ("Rows matched: ", matched),
        ("  Changed: ", changed),
        ("  Warnings: ", warnings),
    ] {
        info.push_str(name);
        info.push_str(itoa::Buffer::new().format(number));
    }
    info
}
