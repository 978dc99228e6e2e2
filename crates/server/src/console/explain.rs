//! The plan of a recorded statement.
//!
//! The statement is found by its digest, so that a request contains no SQL. Its text is that of
//! another account, and a session with more privileges must not execute it: the text must
//! begin with the verb of a statement that can be explained, it is prepared together with the word
//! EXPLAIN as one statement, and the session is read-only.
//!
//! Samples have values only with `statement_sample_values = ON`; otherwise, and for prepared
//! statements, `?` stand for them, which are planned as NULL (or 1, where NULL is refused).

use super::json::put_string;
use super::run::{DATABASE, text_param, with_params};
use porpoise_sql::{Param, ResultColumn, ResultSink, SqlError, SqlSession};
use porpoise_types::{ColumnType, ValueRef};
use serde::Deserialize;

/// The body of a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainRequest {
    /// The digest, as the part `statements` shows it.
    digest: String,
    /// Its schema, likewise.
    schema: Option<String>,
}

const FIND: &str = "SELECT QUERY_SAMPLE_TEXT, DIGEST_TEXT \
    FROM performance_schema.events_statements_summary_by_digest \
    WHERE DIGEST = ? AND SCHEMA_NAME <=> ? LIMIT 1";

/// Verbs of statements that can be explained.
const VERBS: &[&str] = &[
    "SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "WITH", "TABLE", "VALUES",
];

/// The values of a result's columns as text, of all rows.
#[derive(Default)]
struct Texts(Vec<String>);

impl ResultSink for Texts {
    fn columns(&mut self, _columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.0.clear();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.0.extend(values.iter().map(|value| match value {
            ValueRef::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        }));
        Ok(())
    }
}

/// Whether the text begins with the verb of a statement that can be explained.
fn can_be_explained(text: &str) -> bool {
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', '(']);
    let end = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let verb = text.get(..end).unwrap_or_default();
    VERBS.iter().any(|known| known.eq_ignore_ascii_case(verb))
}

/// A digest's text as a statement: one parameter for each abbreviated list.
fn as_statement(digest_text: &str) -> String {
    digest_text
        .replace("(...) /* , ... */", "(?)")
        .replace("(...)", "(?)")
}

/// NULL of type text, which can be compared with columns of any type.
fn null<'p>() -> Param<'p> {
    Param {
        value: ValueRef::Null,
        ..text_param("")
    }
}

fn one<'p>() -> Param<'p> {
    Param {
        value: ValueRef::Int(1),
        ty: ColumnType::bigint(),
    }
}

/// Plans a statement. Returns the plan and the number of its parameters.
fn plan(sql: &mut SqlSession, statement: &str) -> Result<(String, usize), SqlError> {
    let explain = format!("EXPLAIN FORMAT=TREE {statement}");
    let mut count = 0;
    let mut last = None;
    for param in [null, one] {
        let mut texts = Texts::default();
        let params = |n| {
            count = n;
            std::iter::repeat_with(param).take(n).collect()
        };
        match with_params(sql, &explain, params, &mut texts) {
            Ok(()) => return Ok((texts.0.join("\n"), count)),
            Err(error) if count == 0 => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| SqlError::internal("no plan")))
}

/// Answers with `{"statement":...,"parameters":...,"plan":...}`.
pub(super) fn explain(sql: &mut SqlSession, request: &ExplainRequest) -> Result<Vec<u8>, SqlError> {
    let mut found = Texts::default();
    let schema = request.schema.as_deref().map_or_else(null, text_param);
    let params = |_| vec![text_param(&request.digest), schema];
    with_params(sql, FIND, params, &mut found)?;
    let mut texts = found.0.into_iter();
    let (Some(sample), Some(digest_text)) = (texts.next(), texts.next()) else {
        let text = "The statement is not recorded any more";
        return Err(SqlError::new(1643, "02000", text));
    };
    let statement = if can_be_explained(&sample) && sample != digest_text {
        sample
    } else {
        as_statement(&digest_text)
    };
    if !can_be_explained(&statement) {
        return Err(SqlError::not_supported("EXPLAIN of this statement"));
    }
    if let Some(schema) = &request.schema {
        sql.use_db(schema)?;
    }
    let planned = plan(sql, &statement);
    sql.use_db(DATABASE)?;
    let (plan, parameters) = planned?;
    let mut out = b"{\"statement\":".to_vec();
    put_string(&mut out, &statement);
    out.extend_from_slice(format!(",\"parameters\":{parameters},\"plan\":").as_bytes());
    put_string(&mut out, &plan);
    out.push(b'}');
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_would_change_the_meaning_of_explain_are_refused() {
        for text in [
            "SELECT 1",
            " select\n1",
            "(SELECT 1) UNION SELECT 2",
            "with a as (select 1) table a",
        ] {
            assert!(can_be_explained(text), "{text}");
        }
        for text in [
            "",
            "ANALYZE SELECT f()",
            "/*!50000 ANALYZE */ SELECT 1",
            "FOR CONNECTION 3",
            "SELECTED",
            "-- x\nANALYZE SELECT 1",
            "DROP TABLE t",
            "format=json select 1",
        ] {
            assert!(!can_be_explained(text), "{text}");
        }
        assert_eq!(as_statement("SELECT ? IN (...)"), "SELECT ? IN (?)");
    }
}
