//! EXPLAIN and EXPLAIN ANALYZE: plans a statement, runs it for EXPLAIN ANALYZE, and shows the
//! plan ([`crate::show::explain`]).

use super::{Outcome, SqlSession};
use crate::results::NullSink;
use crate::show::explain;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_exec::exec::profile::Profile;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{Explain, ExplainTarget};
use porpoise_sql_plan::plan::planned::Planned;
use porpoise_sql_plan::plan::sinks::{Change, Plan, Targets};
use porpoise_types::{ColumnType, ValueRef};
use std::sync::Arc;

impl SqlSession {
    /// EXPLAIN of a statement.
    pub(super) fn explain(
        &mut self,
        explain: &Explain<'_>,
        source: &[u8],
        types: &[ColumnType],
        params: &[ValueRef<'_>],
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let format = explain::format_of(explain)?;
        let ExplainTarget::Statement(statement) = &explain.target else {
            return Err(SqlError::not_supported("EXPLAIN FOR CONNECTION"));
        };
        let plan = self.plan_and_lock(|session, catalog| {
            session.cx.planning.explaining.set(true);
            let plan = session.plan(statement, source, types, catalog);
            session.cx.planning.explaining.set(false);
            let plan = plan?.ok_or_else(|| SqlError::not_supported("EXPLAIN of this statement"))?;
            Ok(Arc::new(plan))
        })?;
        self.cx.check_explain(&plan)?;
        let immediate = matches!(
            &plan.plan,
            Plan::Change(Change {
                targets: Targets::Immediate(_),
                ..
            })
        );
        if explain.analyze && immediate {
            return explain::not_executable().send(&mut self.cx, sink);
        }
        let profile = if explain.analyze {
            Some(self.run_profiled(&plan, params)?)
        } else {
            None
        };
        let shown = explain::format_plan(&self.cx, format, &plan.plan, params, profile.as_ref());
        shown.send(&mut self.cx, sink)
    }

    /// Runs a SELECT, or the join of an UPDATE or DELETE of several tables, and profiles it. No
    /// row changes.
    fn run_profiled(&mut self, plan: &Planned, params: &[ValueRef<'_>]) -> Result<Profile> {
        if matches!(&plan.plan, Plan::Insert(_)) {
            let text = "EXPLAIN ANALYZE of INSERT and REPLACE";
            return Err(SqlError::not_supported(text));
        }
        self.current_statement.profile = Some(Profile::default());
        let result = self.run_plan(plan, params, &mut NullSink);
        let profile = self.current_statement.profile.take().unwrap_or_default();
        result.map(|_| profile)
    }
}
