//! A client of the console that can send any header and body.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: String,
    pub body: String,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self
            .headers
            .lines()
            .filter_map(|line| line.split_once(": "));
        lines
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .next()
    }

    /// Number and text of the error.
    pub fn error(&self) -> (u64, String) {
        let body = self.json();
        let error = &body["error"];
        let text = error["message"].as_str().unwrap();
        (error["code"].as_u64().unwrap(), text.to_owned())
    }

    /// The rows of a part, as objects by column.
    pub fn rows(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{self:?}");
        let body = self.json();
        let columns = body["columns"].as_array().unwrap();
        let rows = body["rows"].as_array().unwrap().iter();
        rows.map(|row| {
            let values = columns.iter().zip(row.as_array().unwrap());
            let pairs = values.map(|(c, v)| (c.as_str().unwrap().to_owned(), v.clone()));
            Value::Object(pairs.collect())
        })
        .collect()
    }
}

/// Sends bytes and reads the response until the connection closes.
pub fn send(address: SocketAddr, request: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    let limit = Duration::from_secs(60);
    stream.set_read_timeout(Some(limit)).unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (headers, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = headers.split(' ').nth(1).and_then(|word| word.parse().ok());
    Reply {
        status: status.unwrap_or(0),
        headers: headers.to_owned(),
        body: body.to_owned(),
    }
}

/// A request with these further header lines.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[String],
    body: &str,
) -> Reply {
    let mut lines = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers
        .iter()
        .any(|line| line.to_lowercase().starts_with("host:"))
    {
        lines.push_str(&format!("Host: {address}\r\n"));
    }
    for line in headers {
        lines.push_str(&format!("{line}\r\n"));
    }
    lines.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    send(address, lines.as_bytes())
}

/// A login.
#[derive(Clone, Debug)]
pub struct Login {
    pub address: SocketAddr,
    pub cookie: String,
    pub csrf: String,
}

/// The content type of requests for changes.
pub const JSON: &str = "Content-Type: application/json";

/// Tries to log in.
pub fn try_login(address: SocketAddr, user: &str, password: &str) -> Reply {
    let body = json!({"user": user, "password": password}).to_string();
    request(address, "POST", "/api/v1/login", &[JSON.into()], &body)
}

/// Logs in.
pub fn login(address: SocketAddr, user: &str, password: &str) -> Login {
    let reply = try_login(address, user, password);
    assert_eq!(reply.status, 200, "{reply:?}");
    let cookie = reply.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let csrf = reply.json()["csrf"].as_str().unwrap().to_owned();
    Login {
        address,
        cookie,
        csrf,
    }
}

impl Login {
    fn cookie(&self) -> String {
        format!("Cookie: {}", self.cookie)
    }

    /// Reads a part.
    pub fn get(&self, name: &str) -> Reply {
        let path = format!("/api/v1/{name}");
        request(self.address, "GET", &path, &[self.cookie()], "")
    }

    /// Asks for a change.
    pub fn post(&self, name: &str, body: &Value) -> Reply {
        let headers = [
            self.cookie(),
            JSON.into(),
            format!("X-CSRF-Token: {}", self.csrf),
        ];
        self.post_with(name, &headers, &body.to_string())
    }

    /// Sends a POST with these headers.
    pub fn post_with(&self, name: &str, headers: &[String], body: &str) -> Reply {
        let path = format!("/api/v1/{name}");
        request(self.address, "POST", &path, headers, body)
    }

    /// Number of the error of a part; 0 if it is shown.
    pub fn refusal(&self, name: &str) -> u64 {
        let reply = self.get(name);
        if reply.status == 200 {
            0
        } else {
            reply.error().0
        }
    }
}
