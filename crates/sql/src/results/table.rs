//! Small in-memory result tables: results of SHOW and of account statements, filtered by LIKE or
//! WHERE.

use super::{Outcome, RecodingSink};
use crate::context::StatementContext;
use bumpalo::Bump;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::Result;
use porpoise_sql_expr::expr::convert;
use porpoise_sql_expr::expr::eval::{EvalCx, Slot, eval};
use porpoise_sql_parser::ast::{Limit, ShowFilter};
use porpoise_sql_plan::bind::{Binder, Origin, Scope, ScopeColumn, Source};
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_sql_plan::plan::select::type_flags;
use porpoise_sql_plan::virtual_tables::VirtualTable;
use porpoise_types::{Collation, ColumnType, Kind, Value, ValueRef};

/// The result of a SHOW as a virtual table, for name resolution in WHERE.
static SHOW_RESULT: VirtualTable = VirtualTable {
    database: "",
    name: "",
    columns: Vec::new,
    needs_process: false,
};

/// A text column.
pub fn text_column(name: &str, length: u32) -> ScopeColumn {
    ScopeColumn {
        name: name.to_owned(),
        ty: ColumnType::varchar(length, Collation::UTF8MB4_GENERAL_CI),
        nullable: true,
    }
}

/// A LONGTEXT column.
pub fn long_column(name: &str) -> ScopeColumn {
    ScopeColumn {
        name: name.to_owned(),
        ty: ColumnType::text(Kind::LongText, Collation::UTF8MB4_GENERAL_CI),
        nullable: true,
    }
}

/// A column of integers.
pub fn number_column(name: &str) -> ScopeColumn {
    ScopeColumn {
        name: name.to_owned(),
        ty: ColumnType::bigint_unsigned(),
        nullable: true,
    }
}

/// A column of another type.
pub fn typed_column(name: &str, ty: ColumnType) -> ScopeColumn {
    ScopeColumn {
        name: name.to_owned(),
        ty,
        nullable: true,
    }
}

/// A text value.
pub fn text(value: impl AsRef<[u8]>) -> Value {
    Value::Bytes(value.as_ref().to_vec())
}

/// A text value, or NULL.
pub fn text_or_null(value: Option<impl AsRef<[u8]>>) -> Value {
    value.map_or(Value::Null, text)
}

/// A result under construction.
pub struct Rows {
    columns: Vec<ScopeColumn>,
    rows: Vec<Vec<Value>>,
}

impl Rows {
    /// Creates a result without rows.
    pub fn new(columns: Vec<ScopeColumn>) -> Rows {
        Rows {
            columns,
            rows: Vec::new(),
        }
    }

    /// Returns the rows without the columns.
    pub fn into_rows(self) -> Vec<Vec<Value>> {
        self.rows
    }

    /// Adds a row, with one value for each column.
    pub fn push(&mut self, row: Vec<Value>) {
        self.rows.push(row);
    }

    /// Keeps the rows that LIKE (on column `at`) or WHERE accepts.
    pub fn filter(
        &mut self,
        context: &StatementContext,
        at: usize,
        filter: &ShowFilter<'_>,
        params: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<()> {
        match filter {
            ShowFilter::None => Ok(()),
            ShowFilter::Like(pattern) => {
                let collation = Collation::UTF8MB4_GENERAL_CI;
                self.rows.retain(|row| match row.get(at) {
                    Some(Value::Bytes(text)) => collation.like(text, pattern, Some('\\')),
                    _ => false,
                });
                Ok(())
            }
            ShowFilter::Where(condition) => {
                let env = context.bind_env(types.to_vec());
                let mut scope = Scope::default();
                scope.add(Source {
                    alias: String::new(),
                    database: String::new(),
                    columns: self.columns.clone(),
                    origin: Origin::Virtual(&SHOW_RESULT),
                    partitions: None,
                    hints: Default::default(),
                    view: None,
                    use_index: None,
                })?;
                let mut binder = Binder::new(&scope, &env, "where clause", context);
                let condition = binder.expr(condition)?;
                let mut kept = Vec::with_capacity(self.rows.len());
                for row in std::mem::take(&mut self.rows) {
                    let arena = Bump::new();
                    let cx = EvalCx {
                        arena: &arena,
                        env: &context.env,
                        params,
                        aggregates: &[],
                        new_row: &[],
                        outer: None,
                        queries: None,
                    };
                    let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                    let slots = [Slot::Values(&values)];
                    let truth = eval(&condition, &slots, &cx)?;
                    if convert::truth(truth, &condition.ty, &cx)? == Some(true) {
                        kept.push(row);
                    }
                }
                self.rows = kept;
                Ok(())
            }
        }
    }

    /// Applies the LIMIT of SHOW WARNINGS.
    pub fn limit(
        &mut self,
        context: &StatementContext,
        limit: Option<&Limit<'_>>,
        params: &[ValueRef<'_>],
        types: &[ColumnType],
    ) -> Result<()> {
        let Some(limit) = limit else {
            return Ok(());
        };
        let number = |e| -> Result<usize> {
            let (value, _) = context.evaluate(e, params, types)?;
            Ok(match value {
                Value::Int(n) => usize::try_from(n).unwrap_or(0),
                Value::UInt(n) => usize::try_from(n).unwrap_or(usize::MAX),
                _ => 0,
            })
        };
        let count = number(&limit.count)?;
        let offset = limit.offset.as_ref().map(number).transpose()?.unwrap_or(0);
        let rows = std::mem::take(&mut self.rows);
        self.rows = rows.into_iter().skip(offset).take(count).collect();
        Ok(())
    }

    /// Sends the columns and rows.
    pub fn send(
        &self,
        context: &mut StatementContext,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let columns: Vec<ResultColumn> = self.columns.iter().map(result_column).collect();
        let mut sink = RecodingSink::new(sink, &context.settings);
        sink.columns(&columns)?;
        for row in &self.rows {
            let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            sink.row(&values)?;
        }
        // SHOW WARNINGS keeps the FOUND_ROWS() of the previous statement.
        if !context.diagnostics.retains_list() {
            context.env.found_rows = self.rows.len() as u64;
        }
        Ok(Outcome {
            had_rows: true,
            ..Outcome::default()
        })
    }
}

fn result_column(column: &ScopeColumn) -> ResultColumn {
    let flags = type_flags(&column.ty);
    ResultColumn {
        org_name: column.name.clone(),
        ..ResultColumn::without_table(column.name.clone(), column.ty.clone(), flags)
    }
}
