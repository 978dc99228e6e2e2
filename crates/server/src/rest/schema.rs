//! Tables and their definitions.

use super::execution::Execution;
use super::problem::Problem;
use super::values::put_string;
use axum::http::StatusCode;
use axum::response::Response;

/// The tables that the account sees.
pub(super) fn list(execution: &Execution) -> Response {
    let mut out = b"{\"tables\":[".to_vec();
    for (n, (database, table)) in execution.rows().tables().into_iter().enumerate() {
        out.extend_from_slice(if n > 0 { b",{" } else { b"{" });
        out.extend_from_slice(b"\"database\":");
        put_string(&mut out, &database);
        out.extend_from_slice(b",\"table\":");
        put_string(&mut out, &table);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    super::json(StatusCode::OK, out)
}

/// The definition of a table.
pub(super) fn describe(
    execution: &Execution,
    database: &str,
    table: &str,
) -> Result<Response, Problem> {
    let table = execution.rows().table(database, table)?.visible;
    let mut out = b"{\"database\":".to_vec();
    put_string(&mut out, &table.database);
    out.extend_from_slice(b",\"table\":");
    put_string(&mut out, &table.name);
    out.extend_from_slice(b",\"columns\":[");
    for (n, column) in table.columns.iter().enumerate() {
        out.extend_from_slice(if n > 0 { b",{" } else { b"{" });
        out.extend_from_slice(b"\"name\":");
        put_string(&mut out, &column.name);
        out.extend_from_slice(b",\"type\":");
        put_string(&mut out, &column.sql_type);
        let flags = format!(
            ",\"nullable\":{},\"has_default\":{},\"generated\":{},\"auto_increment\":{}}}",
            column.is_nullable, column.has_default, column.is_generated, column.is_auto_increment
        );
        out.extend_from_slice(flags.as_bytes());
    }
    out.extend_from_slice(b"],\"keys\":[");
    let unique = table.indexes.iter().filter(|index| index.is_unique);
    for (n, index) in unique.enumerate() {
        out.extend_from_slice(if n > 0 { b",{" } else { b"{" });
        out.extend_from_slice(b"\"name\":");
        put_string(&mut out, &index.name);
        out.extend_from_slice(b",\"columns\":[");
        for (n, position) in index.columns.iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            let column = table.column_at(*position);
            put_string(&mut out, column.map_or("", |column| &column.name));
        }
        out.extend_from_slice(b"]}");
    }
    out.extend_from_slice(b"]}");
    Ok(super::json(StatusCode::OK, out))
}
