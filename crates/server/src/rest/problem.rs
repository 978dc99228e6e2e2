//! Failures of requests as `application/problem+json` (RFC 9457), with MySQL's number and SQLSTATE where
//! a statement or an operation failed.

use super::values::put_string;
use crate::password_login::LoginRefused;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use porpoise_kv::CommitPosition;
use porpoise_sql::SqlError;
use std::borrow::Cow;

/// Content type of problems.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// A request that failed.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    /// MySQL's number and SQLSTATE.
    code: Option<(u16, String)>,
    detail: Cow<'static, str>,
    /// Commit that the answer waits for, because the text may reveal rows.
    pub(super) position: CommitPosition,
}

impl Problem {
    /// A failure of the request itself.
    pub(super) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem {
            status,
            code: None,
            detail: detail.into(),
            position: CommitPosition::NONE,
        }
    }

    /// A request that does not have the form that its operation needs.
    pub(super) fn malformed(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// A failure with MySQL's number, whose status follows from it.
    pub(super) fn mysql(code: u16, sqlstate: &str, detail: String) -> Problem {
        Problem {
            code: Some((code, sqlstate.to_owned())),
            ..Problem::new(status_of(code), detail)
        }
    }

    /// The same failure with another status.
    pub(super) fn with_status(self, status: StatusCode) -> Problem {
        Problem { status, ..self }
    }

    /// Appends the problem as JSON.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"about:blank\",\"title\":");
        put_string(out, self.status.canonical_reason().unwrap_or("Error"));
        out.extend_from_slice(format!(",\"status\":{}", self.status.as_u16()).as_bytes());
        if let Some((code, sqlstate)) = &self.code {
            out.extend_from_slice(format!(",\"code\":{code},\"sqlstate\":").as_bytes());
            put_string(out, sqlstate);
        }
        out.extend_from_slice(b",\"detail\":");
        put_string(out, &self.detail);
        out.push(b'}');
    }
}

/// Status of a failure with MySQL's number.
fn status_of(code: u16) -> StatusCode {
    match code {
        1045 => StatusCode::UNAUTHORIZED,
        1044 | 1142 | 1143 | 1227 | 1370 | 1095 | 1345 | 1862 | 3118 | 3159 | 3164 | 3955 => {
            StatusCode::FORBIDDEN
        }
        1049 | 1146 | 1305 => StatusCode::NOT_FOUND,
        1022 | 1062 | 1205 | 1213 | 1412 | 1451 | 1452 | 1586 | 1761 => StatusCode::CONFLICT,
        1064 | 1149 | 1835 => StatusCode::BAD_REQUEST,
        1153 => StatusCode::PAYLOAD_TOO_LARGE,
        1226 => StatusCode::TOO_MANY_REQUESTS,
        1021 | 1040 | 1041 | 1053 | 1114 | 1290 | 1317 | 1836 | 3024 | 4081 | 4082 => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        1105 | 1180 | 1815 => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

impl From<porpoise_rows::Error> for Problem {
    fn from(error: porpoise_rows::Error) -> Problem {
        Problem::mysql(error.code(), error.sqlstate(), error.to_string())
    }
}

impl From<SqlError> for Problem {
    fn from(error: SqlError) -> Problem {
        let sqlstate = String::from_utf8_lossy(&error.sqlstate).into_owned();
        Problem {
            position: error.position,
            ..Problem::mysql(error.code, &sqlstate, error.message)
        }
    }
}

impl From<LoginRefused> for Problem {
    fn from(refused: LoginRefused) -> Problem {
        let sqlstate = refused.sqlstate();
        Problem::mysql(refused.code, sqlstate, refused.message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = Vec::new();
        self.put(&mut body);
        let mut response = ([(header::CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        *response.status_mut() = self.status;
        if self.status == StatusCode::UNAUTHORIZED {
            let headers = response.headers_mut();
            for challenge in ["Basic realm=\"porpoise\", charset=\"UTF-8\"", "Bearer"] {
                headers.append(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static(challenge),
                );
            }
        }
        response
    }
}
