//! LOAD DATA: inserts the lines of a file, batch by batch, while the file is read.
//!
//! ```text
//!  sink.read_file() --> text buffer --lines--> fields --> rows of a batch --> insert
//! ```
//!
//! Memory: a buffer of twice the longest line and the rows of one batch, whatever the size of the
//! file. The statement cannot run again, because a client sends its file once.

mod lines;

use super::assign::{ValueConverter, now_for};
use super::insert::{default_row, fill_expressions, insert_rows, set_values};
use super::query::cx_of;
use super::{Changes, Exec, ExecResult, ResultSink};
use crate::error::SqlError;
use crate::plan::sinks::{FieldTarget, FileRows, Insert, NewValue};
use bumpalo::Bump;
use lines::{FIRST_READ, Field, Line, LineReader};
use porpoise_base::memory::MemoryCharge;
use porpoise_rows::catalog::{Column, ColumnDefault};
use porpoise_rows::ddl::implicit_default;
use porpoise_rows::{AutoIncOptions, InsertMode};
use porpoise_types::{ColumnType, Kind, Level, Value, ValueRef, Warning};

/// Maximum number of rows of a batch.
const BATCH_ROWS: usize = 1000;

/// Size of a batch's text in bytes at which it is inserted.
const BATCH_BYTES: usize = 1 << 20;

/// Executes LOAD DATA.
pub(super) fn run(
    plan: &Insert,
    file: &FileRows,
    exec: &mut Exec<'_>,
    ids: AutoIncOptions,
    sink: &mut dyn ResultSink,
) -> ExecResult<Changes> {
    exec.env.has_side_effect.set(true);
    sink.open_file(&file.path)?;
    let mut loader = Loader::new(plan, file, exec);
    let mut changes = Changes::default();
    loop {
        let rows = loader.batch(exec, sink)?;
        if rows.is_empty() {
            break;
        }
        let done = insert_rows(plan, rows, Vec::new(), exec, ids)?;
        changes.affected += done.affected;
        changes.records += done.records;
        changes.duplicates += done.duplicates;
        changes.insert_id = changes.insert_id.or(done.insert_id);
        changes.row_id = done.row_id.or(changes.row_id);
        changes.seen = changes.seen.max(done.seen);
    }
    Ok(changes)
}

/// The part of a file that is being read.
struct Loader<'p> {
    plan: &'p Insert,
    file: &'p FileRows,
    lines: LineReader<'p>,
    /// The type of the fields' texts.
    text: ColumnType,
    /// Whether data errors are errors, not warnings.
    strict: bool,
    /// Number of the next row.
    number: u64,
    charge: Option<MemoryCharge>,
}

impl<'p> Loader<'p> {
    fn new(plan: &'p Insert, file: &'p FileRows, exec: &Exec<'_>) -> Loader<'p> {
        let ignore = plan.mode == InsertMode::Ignore;
        Loader {
            plan,
            file,
            lines: LineReader::new(file),
            text: ColumnType::text(Kind::LongText, file.collation),
            strict: exec.env.mode.is_strict() && !ignore,
            number: 1,
            charge: None,
        }
    }

    /// Reads the rows of the next batch; none at the end of the file.
    fn batch(&mut self, exec: &Exec<'_>, sink: &mut dyn ResultSink) -> ExecResult<Vec<Vec<Value>>> {
        let ignore = self.plan.mode == InsertMode::Ignore;
        let converter = ValueConverter::new(exec, ignore, usize::MAX);
        let _strictly = exec.env.strictly(self.strict);
        let mut arena = Bump::new();
        let mut line = Line::default();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while rows.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            if !self.next_line(&mut line, exec, sink)? {
                break;
            }
            exec.env.tick()?;
            arena.reset();
            bytes += line.size();
            rows.push(self.row(&line, &converter, exec, &arena)?);
            self.number += 1;
        }
        Ok(rows)
    }

    /// Reads the next line; reads more of the file where that is needed.
    fn next_line(
        &mut self,
        line: &mut Line,
        exec: &Exec<'_>,
        sink: &mut dyn ResultSink,
    ) -> ExecResult<bool> {
        loop {
            if let Some(found) = self.lines.next(line) {
                return Ok(found);
            }
            exec.check_cancelled()?;
            self.lines.fill(|buffer| sink.read_file(buffer))?;
            self.charge_buffer(exec)?;
        }
    }

    /// Charges the statement for the text buffer, and limits it.
    fn charge_buffer(&mut self, exec: &Exec<'_>) -> ExecResult<()> {
        let size = self.lines.size();
        let limit = exec.env.max_allowed_packet.max(4 * FIRST_READ as u64);
        if self.lines.unread() as u64 > limit {
            let text = "Got a packet bigger than 'max_allowed_packet' bytes";
            return Err(SqlError::new(1153, "08S01", text).into());
        }
        if self
            .charge
            .as_ref()
            .is_none_or(|c| c.bytes() != size as u64)
        {
            self.charge = None;
            self.charge = exec.env.memory.charge(size)?;
        }
        Ok(())
    }

    /// The row of a line.
    fn row(
        &self,
        line: &Line,
        converter: &ValueConverter<'_>,
        exec: &Exec<'_>,
        arena: &Bump,
    ) -> ExecResult<Vec<Value>> {
        let plan = self.plan;
        let mut row = default_row(plan, converter)?;
        for (n, target) in self.file.fields.iter().enumerate() {
            let field = line.field(n);
            match target {
                FieldTarget::Column(at) => {
                    let Some(column) = plan.table.columns.get(*at) else {
                        continue;
                    };
                    let value = self.column_value(field, column, converter, exec)?;
                    if let Some(place) = row.get_mut(*at) {
                        *place = value;
                    }
                }
                FieldTarget::Variable(name) => {
                    let value = match field {
                        Some(Field::Text(text)) => Value::Bytes(text.to_vec()),
                        Some(Field::Null) | None => Value::Null,
                    };
                    let ty = self.text.clone();
                    exec.env.set_user_variable(name.clone(), value, ty)?;
                }
            }
        }
        let cx = cx_of(exec, arena);
        let values = self.file.set.iter().map(|(at, value)| (at, value));
        set_values(&plan.table, values, &mut row, converter, &cx, self.number)?;
        let set_default = |at: usize| {
            let mut set = self.file.set.iter();
            set.any(|(p, value)| *p == at && matches!(value, NewValue::Default))
        };
        let is_given = |at: usize| plan.columns.contains(&at) && !set_default(at);
        fill_expressions(plan, &mut row, &is_given, exec)?;
        if line.is_cut() {
            let text = format!(
                "Row {} was truncated; it contained more data than there were input columns",
                self.number
            );
            self.complain(1262, "01000", text, exec)?;
        }
        Ok(row)
    }

    /// The value that a field gives a column. A field that the line lacks gives the column's default
    /// if that is NULL, and the zero of its type otherwise, as on MySQL.
    fn column_value(
        &self,
        field: Option<Field<'_>>,
        column: &Column,
        converter: &ValueConverter<'_>,
        exec: &Exec<'_>,
    ) -> ExecResult<Value> {
        match field {
            Some(Field::Text(text)) => {
                let value = ValueRef::Bytes(text);
                Ok(converter.store(value, &self.text, column, self.number)?)
            }
            Some(Field::Null) if column.nullable || column.auto_increment => Ok(Value::Null),
            Some(Field::Null) if column.ty.kind == Kind::Timestamp => Ok(now_for(column, exec.env)),
            Some(Field::Null) => {
                let text = format!(
                    "Column set to default value; NULL supplied to NOT NULL column '{}' at row {}",
                    column.name, self.number
                );
                self.complain(1263, "22004", text, exec)?;
                Ok(implicit_default(&column.ty))
            }
            None => {
                let text = format!("Row {} doesn't contain data for all columns", self.number);
                self.complain(1261, "01000", text, exec)?;
                let is_null = matches!(
                    column.default,
                    ColumnDefault::Null | ColumnDefault::Literal(Value::Null)
                );
                Ok(match column.ty.kind {
                    _ if column.nullable && is_null || column.auto_increment => Value::Null,
                    Kind::Timestamp if !column.nullable => now_for(column, exec.env),
                    _ => implicit_default(&column.ty),
                })
            }
        }
    }

    /// An error in strict mode, a warning otherwise.
    fn complain(&self, code: u16, state: &str, text: String, exec: &Exec<'_>) -> ExecResult<()> {
        if self.strict {
            return Err(SqlError::new(code, state, text).into());
        }
        exec.env.warn(Warning {
            level: Level::Warning,
            code,
            message: text,
        });
        Ok(())
    }
}
