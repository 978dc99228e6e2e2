//! SQL statements: one for each request, in a session of its own, whose rows are streamed.
//!
//! Rows are sent in chunks as the statement produces them. A failure before the first chunk is a
//! problem; after it, the result ends with a member (NDJSON: a line) `error` in place of the summary, and
//! an Arrow stream without its end. A statement without rows is answered by an object where Arrow was asked
//! for.
//! A result whose rows may not be durable yet, or whose statement may restart, is kept until its end.
//!
//! Invariants:
//! 1. Nothing is sent before the commits that it reveals are durable.
//! 2. A client that does not read for [`WRITE_TIME`] ends its statement.
//! 3. A result that is kept is charged to the request's memory.
//!
//! Rejected: sessions that outlive a request. They need limits, timeouts and a way to end them, and
//! what they are for, transactions of several statements, is the work of a stored procedure or of
//! `/v1/batch` here.

use super::arrow;
use super::execution::{Execution, Order};
use super::problem::Problem;
use super::stream::{self, ChunkSender};
use super::values::{Json, number_of, put_string, put_value};
use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use porpoise_base::base64;
use porpoise_base::memory::{MemoryClass, MemoryTracker};
use porpoise_kv::CommitPosition;
use porpoise_sql::{Outcome, Param, ResultColumn, ResultEnd, ResultSink, SqlError, SqlSession};
use porpoise_types::{Collation, ColumnType, Kind, Value, ValueRef};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Size of a chunk in bytes.
const CHUNK: usize = 64 * 1024;

/// Longest wait for a client that does not read.
const WRITE_TIME: Duration = Duration::from_secs(60);

/// Content type of results as lines.
const NDJSON: &str = "application/x-ndjson";

/// Length in characters of a string parameter's type.
const PARAMETER_LENGTH: u32 = 16_383;

/// Collation of string parameters.
const COLLATION: Collation = Collation::UTF8MB4_0900_AI_CI;

/// The body of a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatementBody {
    statement: String,
    #[serde(default)]
    parameters: Vec<Box<RawValue>>,
    database: Option<String>,
    pub(super) time_limit_ms: Option<NonZeroU32>,
}

/// A parameter of bytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BytesParameter {
    base64: String,
}

/// Form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One object.
    Object,
    /// A line for the columns, for each row, and for the summary.
    Lines,
    /// An Arrow stream.
    Arrow,
}

impl Form {
    /// The form that a client accepts: the first of its media types that is known, otherwise a JSON object.
    fn accepted(header: &str) -> Form {
        let kinds = header.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let is_refused =
                parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
            (!is_refused).then_some(kind)
        });
        let known = [Form::Object, Form::Lines, Form::Arrow];
        let mut forms = kinds.filter_map(|kind| {
            let mut known = known.into_iter();
            known.find(|form| form.media_type().eq_ignore_ascii_case(kind))
        });
        forms.next().unwrap_or(Form::Object)
    }

    fn media_type(self) -> &'static str {
        match self {
            Form::Object => "application/json",
            Form::Lines => NDJSON,
            Form::Arrow => arrow::MEDIA_TYPE,
        }
    }
}

/// Executes a statement. The answer begins with its first chunk.
pub(super) async fn run(
    order: Order,
    body: StatementBody,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let accepted = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    let form = Form::accepted(accepted.unwrap_or_default());
    let sent = Arc::new(OnceLock::new());
    let (send, receive) = stream::channel(WRITE_TIME);
    let sent_form = sent.clone();
    let (cancellation, task) = order.start(move |execution| {
        let sink = AnswerSink::new(&execution, form, sent_form, send);
        execute(&execution, &body, sink)
    })?;
    let body = receive.body(task, cancellation, None).await?;
    let kind = sent.get().unwrap_or(&form).media_type();
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// Executes a statement on a thread that may block.
fn execute(
    execution: &Execution,
    body: &StatementBody,
    mut sink: AnswerSink<'_>,
) -> Result<(), Problem> {
    let parameters = body.parameters.iter().map(|raw| parameter(raw));
    let parameters = parameters.collect::<Result<Vec<_>, _>>()?;
    let mut session = execution.sql(body.database.as_deref())?;
    let done = execute_in(&mut session, body, &parameters, &mut sink);
    let done = done.map_err(Problem::from).and_then(|outcome| {
        execution.wait_durable(outcome.position.max(sink.position))?;
        Ok(outcome)
    });
    match done {
        Ok(outcome) => sink.finish(&outcome).map_err(Problem::from),
        Err(problem) => {
            execution.wait_durable(problem.position.max(sink.position))?;
            if !sink.is_sent {
                return Err(problem);
            }
            sink.finish_with(&problem).map_err(Problem::from)
        }
    }
}

fn execute_in(
    session: &mut SqlSession,
    body: &StatementBody,
    parameters: &[(Value, ColumnType)],
    sink: &mut AnswerSink<'_>,
) -> Result<Outcome, SqlError> {
    let statement = body.statement.as_bytes();
    if parameters.is_empty() {
        return session.query(statement, false, sink);
    }
    let prepared = session.prepare(statement)?;
    if prepared.params != parameters.len() {
        return Err(SqlError::new(
            1210,
            "HY000",
            "Incorrect arguments to EXECUTE",
        ));
    }
    let parameters = parameters.iter().map(|(value, ty)| Param {
        value: value.as_ref(),
        ty: ty.clone(),
    });
    session.execute(prepared.id, &parameters.collect::<Vec<_>>(), sink)
}

/// A parameter of a statement.
///
/// # Errors
/// An array, an object other than `{"base64": ...}`, a number that is too large.
fn parameter(raw: &RawValue) -> Result<(Value, ColumnType), Problem> {
    let wrong = || {
        Problem::malformed(
            "A parameter must be null, true, false, a number, a string, or {\"base64\": ...}",
        )
    };
    Ok(match Json::of(raw)? {
        Json::Null => (Value::Null, ColumnType::null()),
        Json::Bool(truth) => (Value::Int(i64::from(truth)), ColumnType::bigint()),
        Json::Number(text) => {
            let number = number_of(text).ok_or_else(wrong)?.to_owned();
            let ty = match number {
                Value::Int(_) => ColumnType::bigint(),
                Value::UInt(_) => ColumnType::bigint_unsigned(),
                _ => ColumnType::double(),
            };
            (number, ty)
        }
        Json::Text(text) => {
            let ty = if text.len() > PARAMETER_LENGTH as usize {
                ColumnType::text(Kind::LongText, COLLATION)
            } else {
                ColumnType::varchar(PARAMETER_LENGTH, COLLATION)
            };
            (Value::Bytes(text.into_bytes()), ty)
        }
        Json::Structure(text) => {
            let bytes: BytesParameter = serde_json::from_str(text).map_err(|_| wrong())?;
            let bytes = base64::decode(bytes.base64.as_bytes()).ok_or_else(wrong)?;
            (Value::Bytes(bytes), ColumnType::blob(Kind::LongBlob))
        }
    })
}

/// The sink of a statement's result.
struct AnswerSink<'e> {
    execution: &'e Execution,
    form: Form,
    /// The form of the first chunk, from then on.
    sent_form: Arc<OnceLock<Form>>,
    send: ChunkSender,
    out: Vec<u8>,
    memory: MemoryTracker,
    columns: Vec<ColumnType>,
    /// Rows of an Arrow stream that are not in `out` yet.
    arrow: Option<arrow::Stream>,
    has_rows: bool,
    /// Whether the columns have been appended.
    has_columns: bool,
    /// Whether the result of a statement in a procedure has ended.
    has_result: bool,
    buffers_until_end: bool,
    /// Whether a chunk was sent.
    is_sent: bool,
    /// The commit that what is not sent yet waits for.
    position: CommitPosition,
}

impl<'e> AnswerSink<'e> {
    fn new(
        execution: &'e Execution,
        form: Form,
        sent_form: Arc<OnceLock<Form>>,
        send: ChunkSender,
    ) -> AnswerSink<'e> {
        AnswerSink {
            sent_form,
            memory: MemoryTracker::new(execution.memory.clone(), MemoryClass::Statement),
            execution,
            form,
            send,
            out: Vec::new(),
            columns: Vec::new(),
            arrow: None,
            has_rows: false,
            has_columns: false,
            has_result: false,
            buffers_until_end: false,
            is_sent: false,
            position: CommitPosition::NONE,
        }
    }

    fn put_columns(&mut self, columns: &[ResultColumn]) {
        self.has_columns = true;
        let out = &mut self.out;
        if self.form == Form::Arrow {
            self.arrow = Some(arrow::Stream::new(columns, out));
            return;
        }
        out.extend_from_slice(b"{\"columns\":[");
        for (n, column) in columns.iter().enumerate() {
            out.extend_from_slice(if n > 0 { b",{" } else { b"{" });
            out.extend_from_slice(b"\"name\":");
            put_string(out, &column.name);
            out.extend_from_slice(b",\"type\":");
            put_string(out, &column.ty.sql());
            out.push(b'}');
        }
        out.extend_from_slice(match self.form {
            Form::Object => b"],\"rows\":[",
            _ => b"]}\n",
        });
    }

    /// Appends the end of the rows, and the start of the summary.
    fn begin_summary(&mut self) {
        if !self.has_columns {
            self.put_columns(&[]);
        }
        self.out.extend_from_slice(match self.form {
            Form::Object => b"],",
            _ => b"{",
        });
    }

    fn finish(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        if let Some(stream) = &mut self.arrow {
            stream.put_batch(&mut self.out);
            arrow::put_end(&mut self.out);
            self.flush()?;
            return self.send.end();
        }
        if self.form == Form::Arrow {
            self.form = Form::Object;
        }
        self.begin_summary();
        let summary = format!(
            "\"affected_rows\":{},\"last_insert_id\":\"{}\",\"warnings\":{}}}\n",
            outcome.affected_rows, outcome.last_insert_id, outcome.warnings
        );
        self.out.extend_from_slice(summary.as_bytes());
        self.flush()?;
        self.send.end()
    }

    /// Ends an answer of which a part was sent. An Arrow stream cannot contain an error: the connection is
    /// closed.
    fn finish_with(&mut self, problem: &Problem) -> Result<(), SqlError> {
        if self.form == Form::Arrow {
            return Ok(());
        }
        self.begin_summary();
        self.out.extend_from_slice(b"\"error\":");
        problem.put(&mut self.out);
        self.out.extend_from_slice(b"}\n");
        self.flush()?;
        self.send.end()
    }

    /// Sends what was appended.
    fn flush(&mut self) -> Result<(), SqlError> {
        let bytes = Bytes::from(std::mem::take(&mut self.out));
        self.is_sent = true;
        self.sent_form.get_or_init(|| self.form);
        self.send.send(bytes, None)?;
        self.memory.resize_always(0);
        Ok(())
    }

    /// Sends the appended bytes if they fill a chunk and need not be kept.
    fn flush_full(&mut self) -> Result<(), SqlError> {
        if self.out.len() < CHUNK {
            return Ok(());
        }
        let held = self.memory.resize(self.out.capacity() as u64);
        held.map_err(porpoise_sql::memory::refused)?;
        if self.buffers_until_end {
            Ok(())
        } else {
            self.flush()
        }
    }
}

impl ResultSink for AnswerSink<'_> {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        if self.has_result {
            let text = "PROCEDURE can't return a result set in the given context";
            return Err(SqlError::new(1312, "0A000", text));
        }
        if self.is_sent {
            let what = "a statement restarted after part of its result had been sent";
            return Err(SqlError::internal(what));
        }
        self.out.clear();
        self.has_rows = false;
        self.put_columns(columns);
        self.columns = columns.iter().map(|column| column.ty.clone()).collect();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        if let Some(stream) = &mut self.arrow {
            stream.push(values)?;
            if stream.len() >= CHUNK {
                stream.put_batch(&mut self.out);
            }
            return self.flush_full();
        }
        if self.has_rows && self.form == Form::Object {
            self.out.push(b',');
        }
        self.has_rows = true;
        self.out.push(b'[');
        for (n, (value, ty)) in values.iter().zip(&self.columns).enumerate() {
            if n > 0 {
                self.out.push(b',');
            }
            put_value(&mut self.out, *value, ty);
        }
        self.out.push(b']');
        if self.form == Form::Lines {
            self.out.push(b'\n');
        }
        self.flush_full()
    }

    fn end_result(&mut self, end: &ResultEnd) -> Result<(), SqlError> {
        self.has_result = true;
        self.buffers_until_end = false;
        self.position = self.position.max(end.position);
        let durable = self.execution.wait_durable(end.position);
        durable.map_err(|_| SqlError::internal("the log has failed"))
    }

    fn discard_result(&mut self) -> bool {
        if !self.is_sent {
            self.out.clear();
            self.arrow = None;
            self.has_columns = false;
        }
        !self.is_sent
    }

    fn buffer_until_end(&mut self) {
        self.buffers_until_end = true;
    }
}
