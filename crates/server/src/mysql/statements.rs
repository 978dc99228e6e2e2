//! Prepared statements of a connection: the protocol's state in addition to that
//! of the SQL session (types of parameters, long data, cursors).
//!
//! Invariants:
//! 1. A long parameter has at most `max_allowed_packet` bytes, all of a connection's together at
//!    most [`LONG_DATA_LIMIT`]. Data beyond a limit is discarded and the next execution fails,
//!    because COM_STMT_SEND_LONG_DATA has no reply.
//! 2. Long data and cursor belong to one execution: the next one, or a reset,
//!    drops them.
//! 3. Long data and cursors are charged to the connection's memory.
//! 4. A cursor's rows are read by its execution and buffered in their wire format; the cursors of a
//!    connection use at most [`CURSOR_LIMIT`] bytes together.

use super::answer::{Answer, client_gone, status_of};
use super::query::flow_after;
use super::session::{Flow, LoggedIn};
use super::sink::{BufferedRows, Form, WireSink, definition};
use porpoise_base::memory::{ConnectionMemory, MemoryClass, MemoryRefused, MemoryTracker};
use porpoise_sql::{Outcome, Param, SqlError};
use porpoise_types::{Collation, ColumnType, Kind, ValueRef};
use porpoise_wire::mysql::capability::type_code as t;
use porpoise_wire::mysql::command::StmtExecute;
use porpoise_wire::mysql::params::{self, ParamTypes};
use porpoise_wire::mysql::reply::PrepareOk;
use porpoise_wire::mysql::{Capabilities, Status, column, frame, reply};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum size of a connection's pending long data in bytes.
const LONG_DATA_LIMIT: usize = 1 << 30;

/// Maximum size of the rows buffered by a connection's cursors in bytes.
const CURSOR_LIMIT: usize = 1 << 30;

/// Maximum number of parameters, and of columns, of a prepared statement.
const MAX_PARAMETERS: usize = u16::MAX as usize;

/// The prepared statements of a connection.
pub(super) struct Statements {
    all: HashMap<u32, Statement>,
    long_data_bytes: usize,
    /// Tracks long data and the rows of cursors.
    memory: Arc<MemoryTracker>,
}

#[derive(Default)]
struct Statement {
    /// Number of parameters.
    params: usize,
    /// Number of columns announced to the client.
    columns: usize,
    types: ParamTypes,
    /// Long data by number of parameter.
    long_data: HashMap<u16, Vec<u8>>,
    long_data_error: Option<LongDataError>,
    cursor: Option<Cursor>,
}

/// Reason for which long data was dropped; the next execution reports it.
#[derive(Clone, Copy, Debug)]
enum LongDataError {
    /// The statement has no parameter with that number.
    NoParameter,
    /// The value would be too long.
    TooLong,
    /// The memory limit refused it.
    Refused(MemoryRefused),
}

impl From<LongDataError> for SqlError {
    fn from(error: LongDataError) -> SqlError {
        match error {
            LongDataError::NoParameter => {
                let text = "Incorrect arguments to mysqld_stmt_send_long_data";
                SqlError::new(1210, "HY000", text)
            }
            LongDataError::TooLong => {
                let text = "Parameter of prepared statement which is set through \
                            mysql_send_long_data() is longer than 'max_allowed_packet' bytes";
                SqlError::new(1105, "HY000", text)
            }
            LongDataError::Refused(refused) => porpoise_sql::memory::refused(refused),
        }
    }
}

/// Rows and columns of an execution.
struct ExecutionState {
    /// The rows of a cursor.
    rows: BufferedRows,
    /// Number of columns of the result.
    columns: usize,
    /// Whether it differs from the number that was announced to the client.
    changed: bool,
}

/// Rows of a cursor that have not been fetched yet.
struct Cursor {
    rows: BufferedRows,
    /// Index of the next row.
    next: usize,
    /// Number of warnings of the execution.
    warnings: u16,
}

impl Statements {
    /// Creates the empty set of statements of a connection.
    pub(super) fn new(connection: &Arc<ConnectionMemory>) -> Statements {
        let memory = MemoryTracker::new(connection.clone(), MemoryClass::Session);
        Statements {
            all: HashMap::new(),
            long_data_bytes: 0,
            memory: Arc::new(memory),
        }
    }

    /// Drops all statements.
    pub(super) fn clear(&mut self) {
        self.all = HashMap::new();
        self.memory.release(self.long_data_bytes as u64);
        self.long_data_bytes = 0;
    }

    /// Drops one statement.
    pub(super) fn close(&mut self, id: u32) {
        self.drop_long_data(id);
        self.all.remove(&id);
    }

    /// Appends to a long parameter. The command has no reply: an unknown statement is ignored, and
    /// other errors are reported by the next execution.
    pub(super) fn add_long_data(&mut self, id: u32, param: u16, data: &[u8], limit: usize) {
        let Some(statement) = self.all.get_mut(&id) else {
            return;
        };
        if usize::from(param) >= statement.params {
            statement.long_data_error = Some(LongDataError::NoParameter);
            return;
        }
        let value = statement.long_data.entry(param).or_default();
        let length = value.len().saturating_add(data.len());
        let total = self.long_data_bytes.saturating_add(data.len());
        if length > limit || total > LONG_DATA_LIMIT {
            statement.long_data_error = Some(LongDataError::TooLong);
            return;
        }
        if let Err(refused) = self.memory.hold(data.len() as u64) {
            statement.long_data_error = Some(LongDataError::Refused(refused));
            return;
        }
        value.extend_from_slice(data);
        self.long_data_bytes = total;
    }

    /// Returns the number of bytes that one more cursor may buffer.
    fn cursor_bytes_left(&self) -> usize {
        let cursors = self.all.values().filter_map(|s| s.cursor.as_ref());
        let taken: usize = cursors.map(|c| c.rows.size()).sum();
        CURSOR_LIMIT.saturating_sub(taken)
    }

    fn drop_long_data(&mut self, id: u32) {
        if let Some(statement) = self.all.get_mut(&id)
            && (statement.long_data_error.is_some() || !statement.long_data.is_empty())
        {
            let bytes: usize = statement.long_data.values().map(Vec::len).sum();
            self.long_data_bytes = self.long_data_bytes.saturating_sub(bytes);
            self.memory.release(bytes as u64);
            statement.long_data = HashMap::new();
            statement.long_data_error = None;
        }
    }
}

impl LoggedIn {
    pub(super) fn prepare(&mut self, text: &[u8], answer: &mut Answer<'_>) -> Flow {
        let info = match self.sql.prepare(text) {
            Ok(info) => info,
            Err(error) => return self.reply_error(error, answer),
        };
        let (Ok(params), Ok(columns)) = (
            u16::try_from(info.params),
            u16::try_from(info.columns.len()),
        ) else {
            self.sql.close_statement(info.id);
            let text = "Prepared statement contains too many placeholders";
            return self.reply_error(SqlError::new(1390, "HY000", text), answer);
        };
        let statement = Statement {
            params: info.params.min(MAX_PARAMETERS),
            columns: info.columns.len(),
            ..Statement::default()
        };
        self.statements.all.insert(info.id, statement);
        let status = status_of(&self.sql);
        let (caps, sequence) = (answer.caps, &mut answer.sequence);
        let out = answer.out.buf();
        let optional = Capabilities::OPTIONAL_RESULTSET_METADATA;
        let definitions = self.sql.sends_metadata() || !caps.has(optional);
        let ok = PrepareOk {
            id: info.id,
            columns,
            params,
            warnings: info.warnings,
            definitions,
        };
        reply::write_prepare_ok(out, sequence, caps, ok);
        if !definitions {
            return Flow::Continue;
        }
        if params > 0 {
            for _ in 0..params {
                column::write_param(out, sequence);
            }
            reply::write_end_of_columns(out, sequence, caps, 0, status);
        }
        if columns > 0 {
            for c in &info.columns {
                column::write_column(out, sequence, &definition(c), None);
            }
            reply::write_end_of_columns(out, sequence, caps, 0, status);
        }
        Flow::Continue
    }

    pub(super) fn execute(&mut self, execute: &StmtExecute<'_>, answer: &mut Answer<'_>) -> Flow {
        let id = execute.id;
        let Some(statement) = self.statements.all.get_mut(&id) else {
            return self.reply_error(unknown(id, "mysqld_stmt_execute"), answer);
        };
        statement.cursor = None;
        let cursor_limit = if execute.wants_cursor() {
            self.statements.cursor_bytes_left()
        } else {
            0
        };
        let Some(statement) = self.statements.all.get_mut(&id) else {
            return self.reply_error(unknown(id, "mysqld_stmt_execute"), answer);
        };
        if let Some(error) = statement.long_data_error {
            self.statements.drop_long_data(id);
            return self.reply_error(error.into(), answer);
        }
        let mut sent = Vec::new();
        let long = &statement.long_data;
        let long_data = |i: usize| -> Option<&[u8]> {
            let key = u16::try_from(i).ok()?;
            Some(long.get(&key)?.as_slice())
        };
        let types = &mut statement.types;
        let parsed = params::parse_execute(
            execute,
            self.caps,
            statement.params,
            types,
            long_data,
            &mut sent,
        );
        let attributes = match parsed {
            Ok(attributes) => attributes,
            Err(error) => {
                answer.protocol_error(error);
                self.statements.drop_long_data(id);
                return Flow::Continue;
            }
        };
        let text_as = self.sql.collation();
        let values: Vec<_> = sent.iter().map(|p| typed(p, text_as)).collect();
        let has_attributes = !attributes.is_empty();
        if has_attributes {
            let attributes = attributes.map(|(name, p)| (name, typed(&p, text_as)));
            self.sql.set_query_attributes(attributes);
        }
        let form = Form::of_execution(execute);
        let before = status_of(&self.sql);
        let announced = statement.columns;
        let memory = self.statements.memory.clone();
        let sink = WireSink::new(answer, form, before).announced_columns(announced);
        let sink = sink.limit_buffered(cursor_limit, &memory);
        let mut sink = sink.definitions(self.sql.sends_metadata());
        let result = self.sql.execute(id, &values, &mut sink);
        let execution = ExecutionState {
            rows: std::mem::take(&mut sink.buffered),
            changed: sink.is_column_count_changed,
            columns: sink.columns,
        };
        if has_attributes {
            self.sql.clear_query_attributes();
        }
        self.statements.drop_long_data(id);
        match result {
            Ok(outcome) => self.finish_execution(id, &outcome, form, execution, answer),
            Err(error) => self.reply_error(error, answer),
        }
    }

    fn finish_execution(
        &mut self,
        id: u32,
        outcome: &Outcome,
        form: Form,
        execution: ExecutionState,
        answer: &mut Answer<'_>,
    ) -> Flow {
        let opens_cursor = form == Form::Cursor && outcome.had_rows;
        if let Some(statement) = self.statements.all.get_mut(&id) {
            if outcome.had_rows {
                statement.columns = execution.columns;
            }
            statement.cursor = opens_cursor.then_some(Cursor {
                rows: execution.rows,
                next: 0,
                warnings: outcome.warnings,
            });
        }
        let status = status_of(&self.sql)
            .with(Status::CURSOR_EXISTS, opens_cursor)
            .with(Status::METADATA_CHANGED, execution.changed);
        self.finish(outcome, status, answer);
        flow_after(outcome)
    }

    pub(super) fn fetch(&mut self, id: u32, wanted: u32, answer: &mut Answer<'_>) -> Flow {
        let Some(statement) = self.statements.all.get_mut(&id) else {
            return self.reply_error(unknown(id, "mysqld_stmt_fetch"), answer);
        };
        let Some(mut cursor) = statement.cursor.take() else {
            let text = format!("The statement ({id}) has no open cursor.");
            return self.reply_error(SqlError::new(1421, "HY000", text), answer);
        };
        let mut sent = 0;
        while sent < wanted
            && let Some(row) = cursor.next_row()
        {
            frame::packet(answer.out.buf(), &mut answer.sequence, row);
            sent += 1;
            if answer.out.is_full() && answer.drain().is_err() {
                return self.reply_error(client_gone(), answer);
            }
        }
        let is_exhausted = sent < wanted;
        let warnings = cursor.warnings;
        if !is_exhausted {
            statement.cursor = Some(cursor);
        }
        let status = status_of(&self.sql)
            .with(Status::CURSOR_EXISTS, !is_exhausted)
            .with(Status::LAST_ROW_SENT, is_exhausted);
        answer.eof(status, warnings);
        Flow::Continue
    }

    pub(super) fn reset_statement(&mut self, id: u32, answer: &mut Answer<'_>) -> Flow {
        self.statements.drop_long_data(id);
        if let Some(statement) = self.statements.all.get_mut(&id) {
            statement.cursor = None;
        }
        match self.sql.reset_statement(id) {
            Ok(()) => {
                let changes = self.sql.take_changes();
                answer.plain_ok(status_of(&self.sql), &changes);
                Flow::Continue
            }
            Err(error) => self.reply_error(error, answer),
        }
    }
}

impl Cursor {
    /// Returns the next row's payload.
    fn next_row(&mut self) -> Option<&[u8]> {
        let end = *self.rows.ends.get(self.next)?;
        let before = self.next.checked_sub(1);
        let start = before.and_then(|at| self.rows.ends.get(at)).copied();
        self.next += 1;
        self.rows.bytes.get(start.unwrap_or(0)..end)
    }
}

fn unknown(id: u32, command: &str) -> SqlError {
    let text = format!("Unknown prepared statement handler ({id}) given to {command}");
    SqlError::new(1243, "HY000", text)
}

/// Converts a parameter of the protocol for SQL; texts have the collation `text_as`.
pub(super) fn typed<'a>(param: &params::Param<'a>, text_as: Collation) -> Param<'a> {
    Param {
        value: param.value,
        ty: type_of(param, text_as),
    }
}

/// Returns the SQL type of a parameter, by the type of its value or the type that the client
/// declares. Texts have the collation `text_as`.
fn type_of(param: &params::Param<'_>, text_as: Collation) -> ColumnType {
    let length = match param.value {
        ValueRef::Bytes(bytes) => u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        _ => 0,
    };
    match (param.type_code, param.value) {
        (t::NULL, _) => ColumnType::null(),
        (_, ValueRef::Int(_)) => ColumnType::bigint(),
        (_, ValueRef::UInt(_)) => ColumnType::bigint_unsigned(),
        (_, ValueRef::Double(_)) => ColumnType::double(),
        (_, ValueRef::Decimal(d)) => ColumnType::decimal(65, d.scale()),
        (_, ValueRef::Date(_)) => ColumnType::date(),
        (_, ValueRef::DateTime(_)) => ColumnType::datetime(6),
        (_, ValueRef::Time(_)) => ColumnType::time(6),
        (t::TINY_BLOB | t::MEDIUM_BLOB | t::LONG_BLOB | t::BLOB | t::GEOMETRY, _) => {
            ColumnType::blob(Kind::LongBlob)
        }
        (t::TINY | t::SHORT | t::LONG | t::LONGLONG | t::INT24 | t::BOOL, _) if param.unsigned => {
            ColumnType::bigint_unsigned()
        }
        (t::TINY | t::SHORT | t::LONG | t::LONGLONG | t::INT24 | t::BOOL, _) => {
            ColumnType::bigint()
        }
        (t::FLOAT | t::DOUBLE, _) => ColumnType::double(),
        _ if length > LONGEST_VARCHAR => ColumnType::text(Kind::LongText, text_as),
        // One length for all strings, so that the next execution can reuse the plan.
        _ => ColumnType::varchar(LONGEST_VARCHAR, text_as),
    }
}

/// Maximum length in characters of a string parameter's VARCHAR type.
const LONGEST_VARCHAR: u32 = 16_383;
