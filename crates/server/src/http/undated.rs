//! HTTP while the clock is before 1970.
//!
//! The HTTP library formats the time for its Date header at every step of a connection, wanted
//! or not, and panics before 1970. `/health` has to be answered then as well: one request a
//! connection, without its body, and an answer without a date.

use super::budget::Connection;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What ends a request's head.
const END: &[u8] = b"\r\n\r\n";

/// Answers one request.
pub(super) async fn converse(mut connection: Connection, pages: Router) -> io::Result<()> {
    let mut received = Vec::new();
    while !received.windows(END.len()).any(|bytes| bytes == END) {
        if connection.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
    }
    let request = parse(&received);
    let whole = request.as_ref().is_none_or(|r| r.method() != Method::HEAD);
    let response = match request {
        Some(request) => match TowerToHyperService::new(pages).call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        None => StatusCode::BAD_REQUEST.into_response(),
    };
    let answer = print(response, whole).await?;
    connection.write_all(&answer).await?;
    connection.flush().await?;
    connection.shutdown().await
}

/// The request of a head: method and path of its first line. `None` if that is none of HTTP/1.
fn parse(head: &[u8]) -> Option<Request<Body>> {
    let line = head.split(|b| *b == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
        return None;
    }
    let request = Request::builder().method(method).uri(path);
    request.body(Body::empty()).ok()
}

/// The bytes of a response that ends its connection.
async fn print(response: Response, whole: bool) -> io::Result<Vec<u8>> {
    let (head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.map_err(io::Error::other)?;
    let mut out = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    // The answer to HEAD has the length of a body that is not there.
    if !head.headers.contains_key(CONTENT_LENGTH) {
        let length = format!("content-length: {}\r\n", body.len());
        out.extend_from_slice(length.as_bytes());
    }
    out.extend_from_slice(b"connection: close\r\n\r\n");
    if whole {
        out.extend_from_slice(&body);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_of_http_1_are_requests() {
        let request = parse(b"GET /health?x HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(request.method(), Method::GET);
        assert_eq!(request.uri().path(), "/health");
        for bad in [
            &b"GET /health\r\n\r\n"[..],
            b"GET /health HTTP/2\r\n\r\n",
            b"GET / x HTTP/1.1\r\n\r\n",
            b"G\xffT / HTTP/1.1\r\n\r\n",
            b"GET \x01 HTTP/1.1\r\n\r\n",
            b"\r\n\r\n",
        ] {
            assert!(parse(bad).is_none(), "{bad:?}");
        }
    }
}
