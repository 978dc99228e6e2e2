//! SQL_CALC_FOUND_ROWS: all rows of the result are computed and counted, and LIMIT only selects
//! those that are sent (manual, "Information Functions", FOUND_ROWS()). So LIMIT neither ends the
//! execution early nor shortens a sort.

use super::query::{LimitWindow, send};
use super::{Exec, ExecResult, ResultSink};
use crate::error::SqlError;
use crate::plan::physical::Limit;
use crate::plan::{QueryPlan, ResultColumn};
use porpoise_types::ValueRef;

/// A sink that forwards the rows of a LIMIT window and counts all rows.
struct CountingSink<'s> {
    sink: &'s mut dyn ResultSink,
    window: LimitWindow,
    rows: u64,
    sent: u64,
}

impl ResultSink for CountingSink<'_> {
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

    fn buffer_until_end(&mut self) {
        self.sink.buffer_until_end();
    }
}

/// Sends the rows of the LIMIT window and stores the number of all rows. Returns the number sent.
pub(super) fn run(
    plan: &QueryPlan,
    limit: &Limit,
    exec: &mut Exec<'_>,
    sink: &mut dyn ResultSink,
) -> ExecResult<u64> {
    let mut counting = CountingSink {
        window: LimitWindow::of(limit, exec)?,
        sink,
        rows: 0,
        sent: 0,
    };
    send(plan, &limit.input, LimitWindow::ALL, exec, &mut counting)?;
    let (rows, sent) = (counting.rows, counting.sent);
    exec.env.counted_rows.set(Some(rows));
    Ok(sent)
}
