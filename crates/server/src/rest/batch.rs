//! Batches: operations on rows of several tables in one request, in one transaction.

use super::execution::Execution;
use super::operation::{Builder, problem_of, put_row, put_written};
use super::problem::Problem;
use super::values::{Json, Members};
use axum::http::StatusCode;
use axum::response::Response;
use porpoise_native::{BatchOperation, BatchRequest, LocalSession, LocalTable, OperationOutcome};
use porpoise_wire::native::batch::Operation;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::num::NonZeroU32;

/// Maximum number of operations of a batch.
pub(super) const MAX_OPERATIONS: usize = 4096;

/// The body of a batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchBody {
    #[serde(default)]
    atomic: bool,
    pub(super) time_limit_ms: Option<NonZeroU32>,
    operations: Vec<OperationBody>,
}

/// The kind of an operation.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Read,
    Insert,
    Update,
    Upsert,
    Delete,
}

/// An operation on one row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationBody {
    op: Kind,
    database: String,
    table: String,
    /// Name of the unique key; default: the primary key.
    by: Option<String>,
    /// Values of the key's columns.
    key: Option<Vec<Box<RawValue>>>,
    /// Columns to read; default: all.
    columns: Option<Vec<String>>,
    /// Values of columns to write.
    values: Option<Members>,
    /// Numbers to add to columns.
    add: Option<Members>,
    /// The version that the row must have, as a string of digits.
    if_version: Option<String>,
    /// Values that the row must have.
    if_equals: Option<Members>,
}

impl OperationBody {
    fn operation(&self) -> Operation {
        match self.op {
            Kind::Read => Operation::Read,
            Kind::Insert => Operation::Insert,
            Kind::Update => Operation::Update,
            Kind::Upsert => Operation::Upsert,
            Kind::Delete => Operation::Delete,
        }
    }

    /// Checks that the operation has only members that its kind uses.
    fn check(&self) -> Result<(), Problem> {
        let (is_read, is_delete) = (
            matches!(self.op, Kind::Read),
            matches!(self.op, Kind::Delete),
        );
        let is_insert = matches!(self.op, Kind::Insert);
        let has_key = self.operation().has_key();
        let wrong = [
            ("key", self.key.is_some() && !has_key),
            ("by", self.by.is_some() && is_insert),
            ("columns", self.columns.is_some() && !is_read),
            ("values", self.values.is_some() && (is_read || is_delete)),
            (
                "add",
                self.add.is_some() && !matches!(self.op, Kind::Update),
            ),
            (
                "if_version",
                self.if_version.is_some() && (is_read || is_insert),
            ),
            (
                "if_equals",
                self.if_equals.is_some() && (is_read || is_insert),
            ),
        ];
        if let Some((name, _)) = wrong.into_iter().find(|(_, is_wrong)| *is_wrong) {
            let text = format!("This kind of operation has no member '{name}'");
            return Err(Problem::malformed(text));
        }
        if has_key && self.key.is_none() {
            return Err(Problem::malformed("The operation has no key"));
        }
        Ok(())
    }

    fn build(&self, table: &LocalTable) -> Result<BatchOperation, Problem> {
        self.check()?;
        let mut builder = Builder::new(table, self.operation(), self.by.as_deref())?;
        if let Some(key) = &self.key {
            let values = key.iter().map(|value| Json::of(value));
            builder.key(&values.collect::<Result<Vec<_>, _>>()?)?;
        }
        match (self.op, &self.columns) {
            (Kind::Read, Some(names)) => builder.read(names.iter().map(String::as_str))?,
            (Kind::Read, None) => builder.read_all()?,
            _ => {}
        }
        if let Some(values) = &self.values {
            builder.set(values)?;
        }
        if let Some(values) = &self.add {
            builder.add(values)?;
        }
        if let Some(version) = &self.if_version {
            let parsed = version.parse();
            let wrong = |_| Problem::malformed("if_version must be a string of digits");
            builder.if_version(parsed.map_err(wrong)?);
        }
        if let Some(values) = &self.if_equals {
            builder.if_equals(values)?;
        }
        Ok(builder.build())
    }
}

/// The tables of a batch, each looked up once.
#[derive(Default)]
struct Tables(Vec<LocalTable>);

impl Tables {
    fn find(
        &mut self,
        session: &mut LocalSession,
        database: &str,
        name: &str,
    ) -> Result<usize, Problem> {
        let mut known = self.0.iter().map(|table| &table.visible);
        let is_same = |table: &porpoise_wire::native::message::Table| {
            table.database == database && table.name == name
        };
        if let Some(at) = known.position(is_same) {
            return Ok(at);
        }
        self.0.push(session.table(database, name)?);
        Ok(self.0.len() - 1)
    }
}

/// Executes a batch.
pub(super) fn run(execution: &Execution, body: &BatchBody) -> Result<Response, Problem> {
    if body.operations.len() > MAX_OPERATIONS {
        let text = format!("A batch has at most {MAX_OPERATIONS} operations");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    let mut session = execution.rows();
    let mut tables = Tables::default();
    let (mut operations, mut places) = (Vec::new(), Vec::new());
    for operation in &body.operations {
        let place = tables.find(&mut session, &operation.database, &operation.table)?;
        if let Some(table) = tables.0.get(place) {
            operations.push(operation.build(table)?);
            places.push(place);
        }
    }
    let request = BatchRequest {
        is_atomic: body.atomic,
        time_limit: execution.time_limit,
        operations,
    };
    let (outcomes, position) = session.run(&request)?;
    execution.wait_durable(position)?;
    let mut out = b"{\"results\":[".to_vec();
    let done = request.operations.iter().zip(&places).zip(&outcomes);
    for (n, ((operation, place), outcome)) in done.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        if let Some(table) = tables.0.get(*place) {
            put_outcome(&mut out, table, operation, outcome)?;
        }
    }
    out.extend_from_slice(b"]}");
    Ok(super::json(StatusCode::OK, out))
}

fn put_outcome(
    out: &mut Vec<u8>,
    table: &LocalTable,
    operation: &BatchOperation,
    outcome: &OperationOutcome,
) -> Result<(), Problem> {
    let status = match outcome {
        OperationOutcome::Row { .. } | OperationOutcome::Written { .. } => "ok",
        OperationOutcome::NotFound => "not_found",
        OperationOutcome::ConditionFailed => "condition_failed",
        OperationOutcome::Failed { .. } => "failed",
        OperationOutcome::Aborted => "aborted",
    };
    out.extend_from_slice(format!("{{\"status\":\"{status}\"").as_bytes());
    match outcome {
        OperationOutcome::Row { version, values } => {
            out.extend_from_slice(format!(",\"version\":\"{version}\",\"row\":").as_bytes());
            put_row(out, table, &operation.shape, values)?;
        }
        OperationOutcome::Written {
            version,
            generated_id,
            is_new,
        } => {
            out.push(b',');
            put_written(out, *version, *generated_id);
            if *is_new {
                out.extend_from_slice(b",\"created\":true");
            }
        }
        OperationOutcome::Failed { .. } => {
            if let Some(problem) = problem_of(outcome) {
                out.extend_from_slice(b",\"error\":");
                problem.put(out);
            }
        }
        _ => {}
    }
    out.push(b'}');
    Ok(())
}
