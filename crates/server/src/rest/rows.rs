//! Requests for one row by its key, and insertions.
//!
//! The ETag of a row is its version: the number that native clients compare and that memcached's
//! `gets` returns. If-Match makes a change conditional on it, under the row's lock.

use super::execution::Execution;
use super::operation::{Builder, problem_of, put_row, put_written};
use super::problem::Problem;
use super::routes::{self, Matched, Query};
use super::values::{Json, Members};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use porpoise_native::{BatchRequest, LocalTable, OperationOutcome};
use porpoise_rows::catalog::Column;
use porpoise_wire::native::batch::Operation;

/// The row that a request names, and its conditions.
#[derive(Debug)]
pub(super) struct RowAddress {
    database: String,
    table: String,
    /// Values of the key's columns, as text.
    key: Vec<String>,
    /// Name of the unique key.
    by: Option<String>,
    /// Names of the columns to read.
    columns: Option<String>,
    if_match: Option<Tag>,
    if_none_match: Option<String>,
}

/// The value of If-Match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    /// `*`: any version.
    Any,
    /// This version.
    Version(u64),
    /// A tag that no row has.
    None,
}

impl Tag {
    /// Parses the value of If-Match.
    ///
    /// # Errors
    /// It has several tags.
    fn parse(text: &str) -> Result<Tag, Problem> {
        let text = text.trim();
        if text == "*" {
            return Ok(Tag::Any);
        }
        if text.contains(',') {
            return Err(Problem::malformed("If-Match must have one entity tag"));
        }
        Ok(version_of(text).map_or(Tag::None, Tag::Version))
    }
}

/// The version in an entity tag; `None` for tags that are not of a row.
fn version_of(tag: &str) -> Option<u64> {
    let digits = tag.trim().strip_prefix('"')?.strip_suffix('"')?;
    let version = digits.parse().ok()?;
    // One version has one tag.
    (tag_of(version) == tag.trim()).then_some(version)
}

/// Whether a value of If-None-Match contains the tag of a version. Tags are compared weakly, because a proxy may
/// have weakened them.
fn is_listed(tags: &str, version: u64) -> bool {
    tags.split(',').map(str::trim).any(|tag| {
        let strong = tag.strip_prefix("W/").unwrap_or(tag);
        tag == "*" || version_of(strong) == Some(version)
    })
}

fn tag_of(version: u64) -> String {
    format!("\"{version}\"")
}

/// The value of a header, if it is sent once.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(&name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    match value.to_str() {
        Ok(text) if values.next().is_none() => Ok(Some(text.to_owned())),
        _ => Err(Problem::malformed(format!(
            "The header {name} is malformed"
        ))),
    }
}

impl RowAddress {
    /// The row of a request.
    ///
    /// # Errors
    /// The URL or a header is malformed.
    pub(super) fn parse(
        matched: &Matched<'_>,
        query: &Query,
        headers: &HeaderMap,
    ) -> Result<RowAddress, Problem> {
        let key = matched.raw("key");
        let if_match = single(headers, header::IF_MATCH)?;
        Ok(RowAddress {
            database: matched.parameter("database")?,
            table: matched.parameter("table")?,
            key: key
                .split(',')
                .map(routes::decode)
                .collect::<Result<_, _>>()?,
            by: query.get("key").map(str::to_owned),
            columns: query.get("columns").map(str::to_owned),
            if_match: if_match.map(|text| Tag::parse(&text)).transpose()?,
            if_none_match: single(headers, header::IF_NONE_MATCH)?,
        })
    }

    /// Builds an operation on the row.
    fn builder<'t>(
        &self,
        table: &'t LocalTable,
        operation: Operation,
    ) -> Result<Builder<'t>, Problem> {
        let mut builder = Builder::new(table, operation, self.by.as_deref())?;
        let texts = self.key.iter().map(|text| Json::Text(text.clone()));
        builder.key(&texts.collect::<Vec<_>>())?;
        Ok(builder)
    }

    /// Applies If-Match to an operation.
    fn apply_condition(&self, builder: &mut Builder<'_>) -> Result<(), Problem> {
        match self.if_match {
            Some(Tag::Version(version)) => builder.if_version(version),
            Some(Tag::None) => return Err(precondition_failed()),
            Some(Tag::Any) | None => {}
        }
        Ok(())
    }

    /// The problem of an outcome: a missing row under If-Match is a failed condition.
    fn problem(&self, outcome: &OperationOutcome) -> Problem {
        match problem_of(outcome) {
            Some(_) if *outcome == OperationOutcome::NotFound && self.if_match.is_some() => {
                precondition_failed()
            }
            Some(problem) => problem,
            None => unexpected(),
        }
    }
}

fn precondition_failed() -> Problem {
    let text = "The row does not have the required version, or does not exist";
    Problem::new(StatusCode::PRECONDITION_FAILED, text)
}

fn unexpected() -> Problem {
    Problem::mysql(
        1105,
        "HY000",
        "internal error: unexpected result of a batch".to_owned(),
    )
}

/// Runs one operation. Returns its outcome once it is durable.
fn run_one(
    execution: &Execution,
    session: &mut porpoise_native::LocalSession,
    operation: porpoise_native::BatchOperation,
) -> Result<OperationOutcome, Problem> {
    let request = BatchRequest {
        is_atomic: false,
        time_limit: execution.time_limit,
        operations: vec![operation],
    };
    let (mut outcomes, position) = session.run(&request)?;
    execution.wait_durable(position)?;
    outcomes.pop().ok_or_else(unexpected)
}

fn tagged(mut response: Response, version: u64) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&tag_of(version)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// The answer to a write.
fn written(status: StatusCode, version: u64, generated_id: u64) -> Response {
    let mut body = b"{".to_vec();
    put_written(&mut body, version, generated_id);
    body.push(b'}');
    tagged(super::json(status, body), version)
}

/// GET.
pub(super) fn read(execution: &Execution, address: &RowAddress) -> Result<Response, Problem> {
    let mut session = execution.rows();
    let table = session.table(&address.database, &address.table)?;
    let mut builder = address.builder(&table, Operation::Read)?;
    match &address.columns {
        Some(names) => builder.read(names.split(',').map(str::trim))?,
        None => builder.read_all()?,
    }
    let operation = builder.build();
    let shape = operation.shape.clone();
    let outcome = run_one(execution, &mut session, operation)?;
    let OperationOutcome::Row { version, values } = outcome else {
        return Err(problem_of(&outcome).unwrap_or_else(unexpected));
    };
    let known = address.if_none_match.as_deref();
    if known.is_some_and(|known| is_listed(known, version)) {
        return Ok(tagged(StatusCode::NOT_MODIFIED.into_response(), version));
    }
    let mut body = Vec::new();
    put_row(&mut body, &table, &shape, &values)?;
    Ok(tagged(super::json(StatusCode::OK, body), version))
}

/// POST: inserts a row.
pub(super) fn insert(
    execution: &Execution,
    database: &str,
    table: &str,
    row: &Members,
) -> Result<Response, Problem> {
    let mut session = execution.rows();
    let table = session.table(database, table)?;
    let mut builder = Builder::new(&table, Operation::Insert, None)?;
    builder.set(row)?;
    match run_one(execution, &mut session, builder.build())? {
        OperationOutcome::Written {
            version,
            generated_id,
            ..
        } => Ok(written(StatusCode::CREATED, version, generated_id)),
        outcome => Err(problem_of(&outcome).unwrap_or_else(unexpected)),
    }
}

/// PATCH.
pub(super) fn patch(
    execution: &Execution,
    address: &RowAddress,
    changes: &Members,
) -> Result<Response, Problem> {
    if changes.0.is_empty() {
        return Err(Problem::malformed("The body names no column"));
    }
    let mut session = execution.rows();
    let table = session.table(&address.database, &address.table)?;
    let mut builder = address.builder(&table, Operation::Update)?;
    builder.set(changes)?;
    address.apply_condition(&mut builder)?;
    match run_one(execution, &mut session, builder.build())? {
        OperationOutcome::Written { version, .. } => Ok(written(StatusCode::OK, version, 0)),
        outcome => Err(address.problem(&outcome)),
    }
}

/// DELETE.
pub(super) fn delete(execution: &Execution, address: &RowAddress) -> Result<Response, Problem> {
    let mut session = execution.rows();
    let table = session.table(&address.database, &address.table)?;
    let mut builder = address.builder(&table, Operation::Delete)?;
    address.apply_condition(&mut builder)?;
    match run_one(execution, &mut session, builder.build())? {
        OperationOutcome::Written { .. } => Ok(StatusCode::NO_CONTENT.into_response()),
        outcome => Err(address.problem(&outcome)),
    }
}

/// PUT: an UPSERT; with If-Match an UPDATE of all columns, with If-None-Match: * an INSERT.
pub(super) fn put(
    execution: &Execution,
    address: &RowAddress,
    row: &Members,
) -> Result<Response, Problem> {
    let operation = match (&address.if_match, address.if_none_match.as_deref()) {
        (None, None) => Operation::Upsert,
        (Some(_), None) => Operation::Update,
        (None, Some(tag)) if tag.trim() == "*" => Operation::Insert,
        _ => {
            let text = "PUT accepts If-Match or If-None-Match: *, not both";
            return Err(Problem::malformed(text));
        }
    };
    let mut session = execution.rows();
    let table = session.table(&address.database, &address.table)?;
    let mut builder = address.builder(&table, operation)?;
    builder.set(row)?;
    complete(execution, &table, &mut builder)?;
    address.apply_condition(&mut builder)?;
    let outcome = run_one(execution, &mut session, builder.build())?;
    match outcome {
        OperationOutcome::Written {
            version,
            generated_id,
            is_new,
        } => {
            let is_created = is_new || operation == Operation::Insert;
            let status = if is_created {
                StatusCode::CREATED
            } else {
                StatusCode::OK
            };
            Ok(written(status, version, generated_id))
        }
        OperationOutcome::Failed { code: 1062, .. } if operation == Operation::Insert => {
            let problem = address.problem(&outcome);
            Err(problem.with_status(StatusCode::PRECONDITION_FAILED))
        }
        outcome => Err(address.problem(&outcome)),
    }
}

/// Completes the row of a PUT: the key's columns from the URL, others by their defaults.
fn complete(
    execution: &Execution,
    table: &LocalTable,
    builder: &mut Builder<'_>,
) -> Result<(), Problem> {
    let key: Vec<(u16, _)> = builder
        .key_columns()
        .iter()
        .copied()
        .zip(builder.key_values().iter().map(|(_, value)| value.clone()))
        .collect();
    for (position, value) in key {
        match builder.value_of(position) {
            None => builder.set_value(position, value)?,
            Some(given) if *given == value => {}
            Some(_) => {
                let name = &table.column(position)?.name;
                let text = format!("Column '{name}' has another value in the body than in the URL");
                return Err(Problem::malformed(text));
            }
        }
    }
    let now = execution.rest.sql.db().clock().unix_micros();
    for visible in &table.visible.columns {
        if visible.is_generated || builder.writes(visible.position) {
            continue;
        }
        let column = table.column(visible.position)?;
        let value = porpoise_native::default_value(column, now)?;
        let value = value.ok_or_else(|| no_default(column))?;
        builder.set_value(visible.position, value)?;
    }
    Ok(())
}

fn no_default(column: &Column) -> Problem {
    let text = format!(
        "Field '{}' doesn't have a default value that a replaced row can get",
        column.name
    );
    Problem::mysql(1364, "HY000", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_tags_are_versions_in_quotes() {
        assert_eq!(Tag::parse("*").unwrap(), Tag::Any);
        assert_eq!(Tag::parse(" \"17\" ").unwrap(), Tag::Version(17));
        for tag in [
            "17",
            "W/\"17\"",
            "\"017\"",
            "\"+17\"",
            "\"x\"",
            "\"\"",
            "\"18446744073709551616\"",
        ] {
            assert_eq!(Tag::parse(tag).unwrap(), Tag::None, "{tag}");
        }
        for (tags, wanted) in [
            ("*", true),
            ("\"17\"", true),
            ("W/\"17\"", true),
            ("\"1\" , W/\"17\"", true),
            ("17, \"1\"", false),
            ("", false),
        ] {
            assert_eq!(is_listed(tags, 17), wanted, "{tags}");
        }
        assert!(Tag::parse("\"1\", \"2\"").is_err());
        assert_eq!(version_of(&tag_of(u64::MAX)), Some(u64::MAX));
    }
}
