//! ANALYZE TABLE ... UPDATE HISTOGRAM and DROP HISTOGRAM (manual, "ANALYZE TABLE Statement",
//! "Histogram Statistics Analysis").
//!
//! The statement returns a row for each column, in order of names. An error about one column is such
//! a row, too, and does not prevent the histograms of the other columns.

use super::{Outcome, SqlSession};
use crate::results::table::{Rows, text, text_column};
use porpoise_base::blocking::blocking;
use porpoise_rows::catalog::{ColumnId, Table};
use porpoise_rows::histogram::{
    DEFAULT_BUCKETS, DocumentError, Histogram, MAX_BUCKETS, is_supported,
};
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{HistogramAction, HistogramClause, TableName};
use std::sync::Arc;

/// A row of the result: kind and text of a message.
type Line = (&'static str, String);

fn error(text: impl Into<String>) -> Line {
    ("Error", text.into())
}

fn created(column: &str) -> Line {
    let text = format!("Histogram statistics created for column '{column}'.");
    ("status", text)
}

impl SqlSession {
    /// Executes UPDATE HISTOGRAM and DROP HISTOGRAM.
    pub(super) fn histogram(
        &mut self,
        tables: &[TableName<'_>],
        clause: &HistogramClause<'_>,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        check_clause(clause)?;
        let mut position = self.commit()?;
        let (full_name, lines) = match tables {
            [name] => {
                let (database, table) = self.cx.qualified(name)?;
                let lines = match self.change_histograms(&database, &table, clause)? {
                    Ok((lines, done)) => {
                        position = position.max(done);
                        lines
                    }
                    Err(refusal) => vec![refusal],
                };
                (format!("{database}.{table}"), lines)
            }
            _ => {
                let text = "Only one table can be specified while modifying histogram statistics.";
                (String::new(), vec![error(text)])
            }
        };
        let mut rows = Rows::new(vec![
            text_column("Table", 128),
            text_column("Op", 10),
            text_column("Msg_type", 10),
            text_column("Msg_text", 16_384),
        ]);
        for (kind, line) in lines {
            rows.push(vec![
                text(&full_name),
                text("histogram"),
                text(kind),
                text(line),
            ]);
        }
        let mut outcome = rows.send(&mut self.cx, sink)?;
        outcome.position = position;
        Ok(outcome)
    }

    /// Executes the statement for one table. Returns the result's lines and the commit's position;
    /// or the line that says why the table cannot have histograms.
    fn change_histograms(
        &self,
        database: &str,
        name: &str,
        clause: &HistogramClause<'_>,
    ) -> Result<std::result::Result<(Vec<Line>, porpoise_kv::CommitPosition), Line>> {
        if self.cx.temporary.table(database, name).is_some() {
            let text = "Cannot create histogram statistics for a temporary table.";
            return Ok(Err(error(text)));
        }
        let catalog = self.cx.server.db.catalog();
        if catalog.view(database, name).is_some() {
            let text = "Cannot create histogram statistics for a view.";
            return Ok(Err(error(text)));
        }
        let Some(table) = catalog.table(database, name) else {
            return Ok(Err(error(SqlError::no_table(database, name).message)));
        };
        // Names and positions of the columns; no position if there is no such column.
        let mut names: Vec<(&str, Option<usize>)> = clause
            .columns
            .iter()
            .map(|column| match table.column(column.name) {
                Some(at) => (table.columns.get(at).map_or("", |c| &c.name), Some(at)),
                None => (column.name, None),
            })
            .collect();
        names.sort_unstable();
        let mut change = Change {
            table,
            lines: Vec::new(),
            histograms: Vec::new(),
        };
        match clause.action {
            HistogramAction::Drop => change.drop(&names),
            HistogramAction::Load(_) if names.len() > 1 => {
                let text = "Only one column can be specified while modifying histogram statistics \
                            with JSON data.";
                return Ok(Err(error(text)));
            }
            HistogramAction::Load(document) => {
                change.load(&names, document, self.cx.env.now_utc.to_unix_micros());
            }
            HistogramAction::Build {
                buckets,
                auto_update,
            } => {
                let buckets = buckets.and_then(|n| u32::try_from(n).ok());
                let buckets = buckets.unwrap_or(DEFAULT_BUCKETS);
                self.build(&mut change, &names, buckets, auto_update == Some(true))?;
            }
        }
        let Change {
            lines, histograms, ..
        } = change;
        if histograms.is_empty() {
            return Ok(Ok((lines, Default::default())));
        }
        let db = &self.cx.server.db;
        let done = db.set_histograms(&self.ddl_cx(), table.id, histograms)?;
        Ok(Ok((lines, done.position)))
    }

    fn build(
        &self,
        change: &mut Change<'_>,
        names: &[(&str, Option<usize>)],
        buckets: u32,
        auto_update: bool,
    ) -> Result<()> {
        let mut columns = Vec::with_capacity(names.len());
        for (name, at) in names {
            match change.refusal(name, *at) {
                Some(refusal) => change.lines.push(refusal),
                None => {
                    columns.extend(*at);
                    change.lines.push(created(name));
                }
            }
        }
        if columns.is_empty() {
            return Ok(());
        }
        let db = &self.cx.server.db;
        let built = blocking(|| db.build_histograms(change.table, &columns, buckets))?;
        for (at, histogram) in columns.into_iter().zip(built) {
            change.set(at, Some(histogram.with_auto_update(auto_update)));
        }
        Ok(())
    }

    /// Builds the histograms with AUTO UPDATE of a table again, with the buckets they have.
    pub(super) fn update_histograms(&self, table: &Arc<Table>) -> Result<()> {
        let mut change = Change {
            table,
            lines: Vec::new(),
            histograms: Vec::new(),
        };
        for (at, old) in &table.histograms {
            if old.auto_update() {
                let (db, buckets) = (&self.cx.server.db, old.buckets_wanted());
                let built = blocking(|| db.build_histograms(table, &[*at], buckets))?;
                let new = built.into_iter().next();
                change.set(*at, new.map(|new| new.with_auto_update(true)));
            }
        }
        if !change.histograms.is_empty() {
            let db = &self.cx.server.db;
            db.set_histograms(&self.ddl_cx(), table.id, change.histograms)?;
        }
        Ok(())
    }
}

/// The histograms of a table to be set or dropped.
struct Change<'t> {
    table: &'t Arc<Table>,
    lines: Vec<Line>,
    histograms: Vec<(ColumnId, Option<Histogram>)>,
}

impl Change<'_> {
    fn set(&mut self, at: usize, histogram: Option<Histogram>) {
        let column = self.table.columns.get(at);
        self.histograms.extend(column.map(|c| (c.id, histogram)));
    }

    fn drop(&mut self, names: &[(&str, Option<usize>)]) {
        for (name, at) in names {
            match at.filter(|at| self.table.histogram(*at).is_some()) {
                Some(at) => {
                    self.set(at, None);
                    let text = format!("Histogram statistics removed for column '{name}'.");
                    self.lines.push(("status", text));
                }
                None => {
                    let text = format!("No histogram statistics found for column '{name}'.");
                    self.lines.push(error(text));
                }
            }
        }
    }

    fn load(&mut self, names: &[(&str, Option<usize>)], document: &[u8], now: i64) {
        for (name, at) in names {
            if let Some(refusal) = self.refusal(name, *at) {
                self.lines.push(refusal);
                continue;
            }
            let column = at.and_then(|at| Some((at, self.table.columns.get(at)?)));
            let Some((at, column)) = column else {
                continue;
            };
            let (database, table) = (&self.table.database, &self.table.name);
            let failed = format!(
                "Unable to build histogram statistics for column '{name}' in table '{database}'.'{table}'"
            );
            match Histogram::from_document(document, &column.ty, now) {
                Ok(histogram) => {
                    self.set(at, Some(histogram));
                    self.lines.push(created(name));
                }
                Err(DocumentError::Syntax(reason)) => {
                    let function = "Invalid JSON text in argument 1 to function UPDATE HISTOGRAM";
                    self.lines.push(error(format!("{function}: {reason}.")));
                    self.lines.push(error(failed));
                    self.lines.push(error("JSON format error."));
                }
                Err(DocumentError::Invalid(reason)) => {
                    self.lines.push(error(failed));
                    self.lines.push(error(reason));
                }
            }
        }
    }

    /// Reason why a column cannot have a histogram.
    fn refusal(&self, name: &str, at: Option<usize>) -> Option<Line> {
        let Some((at, column)) = at.and_then(|at| Some((at, self.table.columns.get(at)?))) else {
            return Some(error(format!("The column '{name}' does not exist.")));
        };
        if !is_supported(&column.ty) {
            let text = format!("The column '{name}' has an unsupported data type.");
            return Some(error(text));
        }
        let is_unique = self.table.indexes.iter().any(|index| {
            let parts = index.parts.as_slice();
            index.kind.is_unique()
                && !index.invisible
                && matches!(parts, [part] if part.column == at && part.prefix.is_none())
        });
        is_unique.then(|| {
            error(format!(
                "The column '{name}' is covered by a single-part unique index."
            ))
        })
    }
}

/// Refuses a number of buckets out of range (1690), and a column named twice (1060).
fn check_clause(clause: &HistogramClause<'_>) -> Result<()> {
    if let HistogramAction::Build {
        buckets: Some(buckets),
        ..
    } = clause.action
        && !(1..=u64::from(MAX_BUCKETS)).contains(&buckets)
    {
        let text = "Number of buckets value is out of range in 'ANALYZE TABLE'";
        return Err(SqlError::new(1690, "22003", text));
    }
    let mut names: Vec<String> = Vec::with_capacity(clause.columns.len());
    for column in clause.columns {
        let name = column.name.to_lowercase();
        if names.contains(&name) {
            let text = format!("Duplicate column name '{}'", column.name);
            return Err(SqlError::new(1060, "42S21", text));
        }
        names.push(name);
    }
    Ok(())
}
