//! A server with a REST listener, and requests to it.

use porpoise_testkit::{HttpReply, Porpoise, PorpoiseBuilder, http_request};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Credentials of root without a password.
pub const ROOT: &str = "Authorization: Basic cm9vdDo=";

/// The content type of bodies.
pub const JSON: &str = "Content-Type: application/json";

/// Options of a server with a REST listener.
pub fn builder() -> PorpoiseBuilder {
    Porpoise::builder()
        .arg("--rest-listen", "127.0.0.1:0")
        .arg("--durability", "memory")
}

/// Address of the REST listener.
pub fn address(server: &Porpoise) -> SocketAddr {
    let place = server.socket("rest").unwrap();
    place.to_str().unwrap().parse().unwrap()
}

/// Runs statements by SQL, which must succeed. Returns what they print.
pub fn sql(server: &Porpoise, statements: &str) -> String {
    let output = server.sql(statements);
    assert_eq!(
        output.error_number(),
        None,
        "{statements}: {}",
        output.stderr
    );
    output.stdout.trim_end().to_owned()
}

/// A client.
#[derive(Clone)]
pub struct Client {
    pub address: SocketAddr,
    /// The Authorization line.
    pub credentials: String,
}

impl Client {
    /// A client as root.
    pub fn root(server: &Porpoise) -> Client {
        Client {
            address: address(server),
            credentials: ROOT.to_owned(),
        }
    }

    /// A client with a token.
    pub fn with_token(&self, token: &str) -> Client {
        Client {
            address: self.address,
            credentials: format!("Authorization: Bearer {token}"),
        }
    }

    /// Sends a request with further header lines.
    pub fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> HttpReply {
        let mut lines = vec![self.credentials.as_str()];
        lines.extend(headers);
        http_request(self.address, method, path, &lines, body)
    }

    pub fn get(&self, path: &str) -> HttpReply {
        self.send("GET", path, &[], "")
    }

    pub fn delete(&self, path: &str) -> HttpReply {
        self.send("DELETE", path, &[], "")
    }

    /// Sends JSON.
    pub fn json(&self, method: &str, path: &str, body: &Value) -> HttpReply {
        self.send(method, path, &[JSON], &body.to_string())
    }

    /// Executes a statement.
    pub fn statement(&self, statement: &str, parameters: &Value) -> HttpReply {
        let body = json!({"statement": statement, "parameters": parameters});
        self.json("POST", "/v1/sql", &body)
    }
}

/// The body as JSON.
pub fn body(reply: &HttpReply) -> Value {
    serde_json::from_str(&reply.body).unwrap_or_else(|e| panic!("{e}: {reply:?}"))
}

/// Status and MySQL's number of a problem; number 0 without one.
pub fn problem(reply: &HttpReply) -> (u16, u64) {
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json"),
        "{reply:?}"
    );
    let body = body(reply);
    assert_eq!(body["status"], reply.status, "{reply:?}");
    assert!(body["detail"].is_string(), "{reply:?}");
    (reply.status, body["code"].as_u64().unwrap_or(0))
}

/// The version in the ETag.
pub fn tag(reply: &HttpReply) -> String {
    reply
        .header("etag")
        .unwrap_or_else(|| panic!("{reply:?}"))
        .to_owned()
}
