//! SQL_CALC_FOUND_ROWS: a query whose LIMIT only says which rows are sent (manual, "Information
//! Functions", FOUND_ROWS()). The others are made, too, and counted; what LIMIT saves
//! elsewhere, an early end or a short sort, is not saved here.

use super::select::{Window, run_some, window};
use super::{Exec, ResultSink, Run};
use crate::error::SqlError;
use crate::plan::{ResultColumn, SelectPlan};
use bumpalo::Bump;
use porpoise_types::ValueRef;

/// Passes the rows of a window on, and counts all.
struct Counting<'s> {
    sink: &'s mut dyn ResultSink,
    window: Window,
    rows: u64,
    sent: u64,
}

impl ResultSink for Counting<'_> {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.sink.columns(columns)
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.rows += 1;
        if self.rows > self.window.offset && self.sent < self.window.count {
            self.sink.row(values)?;
            self.sent += 1;
        }
        Ok(())
    }

    fn whole(&mut self) {
        self.sink.whole();
    }
}

/// Runs the query; returns the number of rows sent, and leaves that of all rows behind.
pub(super) fn run(plan: &SelectPlan, exec: &mut Exec<'_>, sink: &mut dyn ResultSink) -> Run<u64> {
    let arena = Bump::new();
    let mut counting = Counting {
        window: window(plan, exec, &arena)?,
        sink,
        rows: 0,
        sent: 0,
    };
    run_some(plan, exec, u64::MAX, &mut counting)?;
    let (rows, sent) = (counting.rows, counting.sent);
    exec.env.counted_rows.set(Some(rows));
    Ok(sent)
}
