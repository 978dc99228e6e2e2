//! Answers to requests that failed: `{"error":{"code":...,"message":...}}`, with MySQL's number and
//! text where a statement failed, else with number 0.

use super::json::put_string;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use porpoise_sql::SqlError;

/// Error numbers of missing privileges, which are answered 403.
const DENIED: &[u16] = &[1044, 1045, 1142, 1143, 1227, 1370, 1095, 1345];

/// The answer to a request that failed.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    code: u16,
    message: String,
}

impl Failure {
    /// A failure with a number and text of MySQL.
    pub(super) fn new(status: StatusCode, code: u16, message: impl Into<String>) -> Failure {
        Failure {
            status,
            code,
            message: message.into(),
        }
    }

    /// Whether a statement failed because its table does not exist.
    pub(super) fn is_missing_table(&self) -> bool {
        matches!(self.code, 1109 | 1146)
    }

    /// The failure of a statement.
    pub(super) fn of_sql(error: &SqlError) -> Failure {
        let status = match error.code {
            code if DENIED.contains(&code) => StatusCode::FORBIDDEN,
            1146 | 1094 | 1643 => StatusCode::NOT_FOUND,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Failure::new(status, error.code, error.message.clone())
    }

    /// A failure of the request itself.
    pub(super) fn request(status: StatusCode, message: &str) -> Failure {
        Failure::new(status, 0, message)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut body = format!("{{\"error\":{{\"code\":{},\"message\":", self.code).into_bytes();
        put_string(&mut body, &self.message);
        body.extend_from_slice(b"}}");
        let mut response = json(body);
        *response.status_mut() = self.status;
        response
    }
}

/// A response with a JSON body.
pub(super) fn json(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
