//! Changes of tables by a copy ([`crate::ddl::alter::OnlineCopy`]) that becomes the table.

use super::Change;
use crate::catalog::{Catalog, Table};
use crate::db::Db;
use crate::ddl::DdlCx;
use crate::ddl::alter::{self, CopyOptions, OnlineCopy, Plan, create_copy_spaces};
use crate::definition::TableId;
use crate::error::{Error, Result};
use crate::progress::Stage;
use porpoise_kv::{self as kv, CommitPosition, SpaceId};
use porpoise_types::CastCx;
use std::time::Instant;

/// Attempts to catch up with writers before they are blocked.
const MAX_CATCH_UPS: usize = 64;

/// Chooses the tables under the barrier while the copy becomes the table.
type Tables<'a> = &'a dyn Fn(&Catalog) -> Result<Vec<TableId>>;

impl Db {
    /// Carries out the plan of an ALTER TABLE by a copy. Returns the number of rows.
    pub(super) fn alter_by_copy(
        &self,
        cx: &DdlCx<'_>,
        change: &Change<'_>,
        before: &Table,
        plan: &mut Plan,
        tables: Tables<'_>,
        cast: &mut CastCx<'_>,
    ) -> Result<(u64, CommitPosition)> {
        alter::rewrite_rows(plan);
        let fresh = self.create_index_spaces(plan)?;
        let after = Table::new(plan.table.clone());
        let options = plan.copy_options();
        let commit = |cx: &DdlCx<'_>| self.commit_definition(cx, before, plan);
        let job = CopyJob {
            before,
            after: &after,
            options,
            tables,
            commit: &commit,
        };
        let done = change.copy(cx, &job, cast);
        match &done {
            Ok(_) => self.retire_spaces(&plan.spaces_to_drop),
            Err(error) => self.abandon_spaces(&fresh, error),
        }
        done
    }
}

impl Db {
    /// Copies a table while others use it, and commits the copy. The caller's barrier excludes other
    /// changes of definitions.
    pub(in crate::ddl) fn copy_online(
        &self,
        cx: &DdlCx<'_>,
        job: &CopyJob<'_>,
        cast: &mut CastCx<'_>,
    ) -> Result<(u64, CommitPosition)> {
        let steps = DdlCx {
            statement: None,
            ..*cx
        };
        let change = Change {
            db: self,
            cx: &steps,
            table: job.before.id,
            tables: &[job.before.id],
            patience: cx.deadline.saturating_duration_since(Instant::now()),
        };
        let done = change.copy(cx, job, cast);
        cx.metadata_locks.progress().end();
        self.retire_unused_spaces();
        done
    }
}

/// A table to be copied.
pub(in crate::ddl) struct CopyJob<'a> {
    pub(in crate::ddl) before: &'a Table,
    /// With spaces of its own.
    pub(in crate::ddl) after: &'a Table,
    pub(in crate::ddl) options: CopyOptions,
    pub(in crate::ddl) tables: Tables<'a>,
    /// Commits the definition of `after`.
    pub(in crate::ddl) commit: &'a dyn Fn(&DdlCx<'_>) -> Result<CommitPosition>,
}

impl Change<'_> {
    /// Copies a table while others use it, and commits the copy. Returns the number of rows.
    pub(in crate::ddl) fn copy(
        &self,
        cx: &DdlCx<'_>,
        job: &CopyJob<'_>,
        cast: &mut CastCx<'_>,
    ) -> Result<(u64, CommitPosition)> {
        // Transactions may use the table by a version before the present one.
        self.wait_for_older_users()?;
        let spaces = create_copy_spaces(self.db, job.before)?;
        let begun = self.publish(|table, _| {
            table.unfinished.changed_rows = Some(spaces.changed_rows);
        });
        let done = begun.and_then(|_| {
            self.wait_for_older_users()?;
            let mut copy = OnlineCopy::new(
                self.db,
                self.cx,
                (job.before, job.after),
                spaces,
                job.options,
                cast,
            )?;
            self.begin_stage(Stage::Copying, job.before, "");
            copy.scan(cast)?;
            let position = self.replace_table(cx, job, &mut copy, cast)?;
            Ok((copy.rows(), position))
        });
        let extra = [spaces.changed_rows, spaces.keys];
        match &done {
            Ok(_) => self.db.retire_spaces(&extra),
            Err(error) => self.abandon_copy(&extra, error),
        }
        done
    }

    /// Applies the last records under a brief barrier, and commits.
    fn replace_table(
        &self,
        cx: &DdlCx<'_>,
        job: &CopyJob<'_>,
        copy: &mut OnlineCopy<'_>,
        cast: &mut CastCx<'_>,
    ) -> Result<CommitPosition> {
        let waiting = self.waiting();
        // If writers are faster than the copy, each attempt may block them for longer.
        let mut transactions = 4;
        loop {
            for _ in 0..MAX_CATCH_UPS {
                if !copy.catch_up(kv::Read::SNAPSHOT, cast)? {
                    break;
                }
            }
            let Some(_everyone) = self.db.try_barrier_over(&waiting, job.tables)? else {
                self.db.pause_before_barrier(&waiting)?;
                continue;
            };
            if !copy.complete(transactions, cast)? {
                transactions *= 2;
                continue;
            }
            self.cx
                .metadata_locks
                .progress()
                .begin(Stage::Committing, "");
            let cx = DdlCx {
                deadline: self.waiting().deadline,
                ..*cx
            };
            return (job.commit)(&cx);
        }
    }

    /// Ends the recording of changed rows after a copy has failed.
    fn abandon_copy(&self, extra: &[SpaceId], error: &Error) {
        self.db.undo_change(self, &[], error);
        if !matches!(error, Error::Kv(kv::Error::UnknownOutcome(_)))
            && let Some(keys) = extra.last()
        {
            self.db.retire_spaces(&[*keys]);
        }
    }
}
