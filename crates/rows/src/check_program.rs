//! CHECK TABLE, expressions of the definition: every row satisfies the
//! enforced checks, and its generated columns are what their expressions say.
//!
//! Invariants:
//! 1. Values that depend on a session are not judged: where an expression
//!    reads a TIMESTAMP, whose text depends on the time zone, nothing is said.
//! 2. An expression that does not compile, or fails for a row, is a problem:
//!    writes to that table are refused.

use crate::catalog::{Column, Table};
use crate::check::hex;
use crate::db::Db;
use crate::ddl::DdlCx;
use crate::error::{Error, Result};
use crate::program::{RowCx, RowProgram};
use crate::row::RowRef;
use porpoise_types::{DateTime, Kind, Value, write_text};

impl Db {
    /// Reports rows that violate a check, or hold another value than their
    /// expressions in a generated column.
    pub(crate) fn check_program(
        &self,
        cx: &DdlCx<'_>,
        table: &Table,
        report: &mut dyn FnMut(String),
    ) -> Result<()> {
        if !table.has_program() || depends_on_zone(table) {
            return Ok(());
        }
        let program = match self.program(table) {
            Ok(program) => program,
            Err(error) => {
                report(format!("an expression of the definition is bad: {error}"));
                return Ok(());
            }
        };
        let mut env = RowCx::plain(DateTime::ZERO);
        env.strict = false;
        self.each_batch(cx, table, |batch| {
            for (primary, bytes) in batch {
                let whole = match self.whole_row(table, primary, bytes) {
                    Ok(whole) => whole,
                    // What is missing of it is reported elsewhere.
                    Err(Error::Corrupt(_)) => continue,
                    Err(error) => return Err(error),
                };
                let Ok(row) = RowRef::new(table, whole.as_deref().unwrap_or(bytes)) else {
                    continue;
                };
                for problem in problems(table, program.as_ref(), &row.values(), &env) {
                    report(format!("row {} {problem}", hex(primary)));
                }
            }
            Ok(())
        })
    }
}

/// Whether an expression reads a column whose text depends on a session.
fn depends_on_zone(table: &Table) -> bool {
    let zoned = |name: &String| {
        let column = table.column(name).and_then(|at| table.columns.get(at));
        column.is_some_and(|c| c.ty.kind == Kind::Timestamp)
    };
    let generated = table.columns.iter().filter_map(|c| c.generated.as_ref());
    let generated = generated.map(|g| &g.expression);
    let checks = table.enforced_checks().map(|c| &c.expression);
    generated.chain(checks).any(|e| e.columns.iter().any(zoned))
}

fn text(value: &Value, column: &Column) -> Vec<u8> {
    let mut out = Vec::new();
    write_text(value.as_ref(), &column.ty, &mut out);
    out
}

/// What is wrong with a row, in words that follow its key.
fn problems(table: &Table, program: &dyn RowProgram, row: &[Value], env: &RowCx) -> Vec<String> {
    let mut computed = row.to_vec();
    let mut all = Vec::new();
    match program.generate(&mut computed, 1, env) {
        Ok(()) => {
            for ((column, is), should) in table.columns.iter().zip(row).zip(&computed) {
                if is != should && text(is, column) != text(should, column) {
                    let name = &column.name;
                    all.push(format!("has another value in `{name}` than computed"));
                }
            }
        }
        Err(error) => all.push(format!("cannot be computed: {error}")),
    }
    if let Err(error) = program.check(row, env) {
        all.push(format!("is refused: {error}"));
    }
    env.warnings.borrow_mut().clear();
    all
}
