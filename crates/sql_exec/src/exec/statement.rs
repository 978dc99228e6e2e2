//! Executes a statement: dispatches on the sink at the root of its plan.

use super::{Changes, Exec, ExecResult, ResultSink, dml, insert, load, multi, query};
use crate::plan::sinks::{InsertRows, Plan, Targets};
use porpoise_rows::AutoIncOptions;

/// Result of a statement.
pub enum StatementOutcome {
    /// Number of rows sent.
    Rows(u64),
    /// Numbers of changed rows.
    Changes(Changes),
}

/// Runs a statement. With a profile (EXPLAIN ANALYZE) the rows of an UPDATE or DELETE are
/// found, and locked, but not changed.
pub fn run(
    plan: &Plan,
    exec: &mut Exec<'_>,
    ids: AutoIncOptions,
    sink: &mut dyn ResultSink,
) -> ExecResult<StatementOutcome> {
    let states = exec.shared.states;
    states.ignores_errors.set(plan.ignores_errors());
    let changes = match plan {
        Plan::Select(query) => return query::run(query, exec, sink).map(StatementOutcome::Rows),
        Plan::Change(change) if exec.shared.profile.is_some() => {
            return query::run(&change.input, exec, sink).map(StatementOutcome::Rows);
        }
        Plan::Insert(plan) => match &plan.rows {
            InsertRows::File(file) => load::run(plan, file, exec, ids, sink)?,
            InsertRows::Values(_) | InsertRows::Query(_) => insert::run(plan, exec, ids)?,
        },
        Plan::Change(change) => match &change.targets {
            Targets::Immediate(target) => dml::run(change, target, exec)?,
            Targets::Buffered(targets) => multi::run(change, targets, exec)?,
        },
    };
    Ok(StatementOutcome::Changes(changes))
}
