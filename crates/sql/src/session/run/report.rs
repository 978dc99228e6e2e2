//! What a statement that changed rows tells its client.

use super::Plan;
use crate::exec::Changes;
use crate::plan::multi::MultiPlan;
use crate::session::server::Counters;
use crate::session::{CLIENT_FOUND_ROWS, Outcome, SqlSession};

impl SqlSession {
    /// Counts a statement, and says what it did.
    pub(super) fn report(&mut self, plan: &Plan, changes: Changes) -> Outcome {
        let mut outcome = Outcome {
            affected_rows: changes.affected,
            ticket: changes.seen,
            ..Outcome::default()
        };
        let warnings = self.env.warnings.get_mut().len();
        let found_rows = self.client.capabilities & CLIENT_FOUND_ROWS != 0;
        match plan {
            Plan::Insert(p) => {
                Counters::add(&self.server.counters.inserts);
                if p.rows.len() > 1 || p.source.is_some() {
                    outcome.info = format!(
                        "Records: {}  Duplicates: {}  Warnings: {warnings}",
                        changes.records, changes.duplicates
                    );
                }
            }
            Plan::Update(_) | Plan::Multi(MultiPlan { delete: false, .. }) => {
                Counters::add(&self.server.counters.updates);
                outcome.info = format!(
                    "Rows matched: {}  Changed: {}  Warnings: {warnings}",
                    changes.matched, changes.affected
                );
                if found_rows {
                    outcome.affected_rows = changes.matched;
                }
            }
            Plan::Delete(_) | Plan::Multi(_) => Counters::add(&self.server.counters.deletes),
            Plan::Select(_) => {}
        }
        if let Some(id) = changes.insert_id {
            self.env.last_insert_id.set(id);
            outcome.last_insert_id = id;
        } else if self.env.last_insert_id.get() != self.last_insert_id {
            // LAST_INSERT_ID(n) was called.
            outcome.last_insert_id = self.env.last_insert_id.get();
        } else if let Some(id) = changes.row_id {
            outcome.last_insert_id = id;
        }
        outcome
    }
}
