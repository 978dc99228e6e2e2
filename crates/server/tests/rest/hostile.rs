//! Requests that no client should send.

use super::client::*;
use porpoise_testkit::{Random, http_exchange};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn malformed_requests_are_refused() {
    let server = builder().start();
    let client = Client::root(&server);
    for (method, path, wanted) in [
        ("GET", "/", 404),
        ("GET", "/v1/tables/a/b/c", 404),
        ("PATCH", "/v1/tables", 405),
        ("GET", "/v1/sql", 405),
        ("HEAD", "/v1/sql", 405),
        ("GET", "/v1/tables/%ff/b", 400),
        ("GET", "/v1/tables/a/b?x=1", 400),
        ("GET", "/v1/tables/a/b/rows/1?key=a&key=b", 400),
        ("GET", "/v1/tables/a/b/rows/1?time_limit_ms=0", 400),
    ] {
        let reply = client.send(method, path, &[], "");
        assert_eq!(reply.status, wanted, "{method} {path}: {reply:?}");
    }
    let allowed = client.send("PUT", "/v1/tables", &[], "");
    assert_eq!(allowed.header("allow"), Some("GET, HEAD, OPTIONS"));
    for (kind, body, wanted) in [
        ("Content-Type: text/plain", "{}", 415),
        ("X: y", "{}", 415),
        (JSON, "", 400),
        (JSON, "[]", 400),
        (JSON, "{\"statement\": 1}", 400),
        (JSON, "{\"statement\": \"select 1\", \"more\": 1}", 400),
        (JSON, "{\"statement\": \"\\ud800\"}", 400),
        (JSON, "{\"statement\": \"select 1\"} x", 400),
    ] {
        let reply = client.send("POST", "/v1/sql", &[kind], body);
        assert_eq!(reply.status, wanted, "{kind} {body}: {reply:?}");
    }
    let deep = format!("{{\"a\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let reply = client.send("POST", "/v1/tables/a/b/rows", &[JSON], &deep);
    assert!((400..500).contains(&reply.status), "{reply:?}");
    let site = "Sec-Fetch-Site: cross-site";
    assert_eq!(
        problem(&client.send("GET", "/v1/tables", &[site], "")),
        (403, 0)
    );
    assert_eq!(client.get("/v1/tables").status, 200);
}

#[test]
fn head_and_options_are_answered_without_a_body() {
    let server = builder().start();
    let client = Client::root(&server);
    sql(
        &server,
        "create database d; create table d.t (id int primary key); insert into d.t values (1)",
    );
    let path = "/v1/tables/d/t/rows/1";
    let read = client.get(path);
    let head = client.send("HEAD", path, &[], "");
    assert_eq!((head.status, head.body.as_str()), (200, ""), "{head:?}");
    for name in ["etag", "content-type", "content-length"] {
        assert_eq!(head.header(name), read.header(name), "{name}");
    }
    assert_eq!(
        client.send("HEAD", "/v1/tables/d/t/rows/2", &[], "").status,
        404
    );
    let options = client.send("OPTIONS", path, &["Origin: http://other.example"], "");
    assert_eq!(
        (options.status, options.body.as_str()),
        (204, ""),
        "{options:?}"
    );
    let methods = "GET, HEAD, PUT, PATCH, DELETE, OPTIONS";
    assert_eq!(options.header("allow"), Some(methods));
    // Requests from other origins are not allowed.
    assert_eq!(options.header("access-control-allow-origin"), None);
    assert_eq!(client.send("OPTIONS", "/v1/none", &[], "").status, 404);
}

#[test]
fn large_bodies_are_refused_before_they_are_read() {
    let server = builder().start();
    let address = address(&server);
    let head = |credentials: &str, length: usize| {
        format!(
            "POST /v1/sql HTTP/1.1\r\nHost: x\r\n{credentials}\r\n{JSON}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    };
    let reply = http_exchange(address, head(ROOT, 1 << 40).as_bytes());
    assert_eq!(reply.status, 413, "{reply:?}");
    // Without credentials nothing is read.
    let reply = http_exchange(address, head("A: b", 1 << 20).as_bytes());
    assert_eq!(reply.status, 401, "{reply:?}");
    let mut chunked = format!(
        "POST /v1/sql HTTP/1.1\r\nHost: x\r\n{ROOT}\r\n{JSON}\r\nConnection: close\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for _ in 0..130 {
        chunked.extend_from_slice(b"10000\r\n");
        chunked.extend_from_slice(&[b' '; 0x10000]);
        chunked.extend_from_slice(b"\r\n");
    }
    let reply = http_exchange(address, &chunked);
    assert!(matches!(reply.status, 0 | 413), "{reply:?}");
    assert_eq!(Client::root(&server).get("/v1/tables").status, 200);
}

#[test]
fn a_client_that_leaves_ends_its_statement() {
    let server = builder().start();
    let client = Client::root(&server);
    let slow = "with recursive n as (select 1 as i union all select i + 1 from n where i < 900)
        select count(*) from n a, n b, n c, n d";
    let body = json!({"statement": slow}).to_string();
    let request = format!(
        "POST /v1/sql HTTP/1.1\r\nHost: x\r\n{ROOT}\r\n{JSON}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(client.address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let running =
        "select count(*) from information_schema.processlist where info like 'with recursive%'";
    let began = Instant::now();
    let wait_for = |wanted: &str| {
        while sql(&server, running) != wanted {
            assert!(began.elapsed() < Duration::from_secs(60), "{wanted}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("1");
    drop(stream);
    wait_for("0");
}

#[test]
fn a_client_that_does_not_read_holds_little_memory() {
    let server = builder().start();
    let client = Client::root(&server);
    let long = "with recursive n as (select 1 as i union all select i + 1 from n where i < 900)
        select repeat('x', 1000) from n a, n b";
    let body = json!({"statement": long}).to_string();
    let request = format!(
        "POST /v1/sql HTTP/1.1\r\nHost: x\r\n{ROOT}\r\n{JSON}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(client.address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut first = [0; 1024];
    stream.read_exact(&mut first).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    // Others are served meanwhile.
    assert_eq!(client.get("/v1/tables").status, 200);
    drop(stream);
}

/// Pieces of bodies.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "null",
    "true",
    "1e999",
    "-0",
    "\"id\"",
    "\"v\"",
    "\"operations\"",
    "\"op\":\"read\"",
    "\"key\"",
    "\u{0}",
    "\u{1f42c}",
    " ",
    "\"database\":\"d\"",
    "\"table\":\"t\"",
    "99999999999999999999",
];

/// Requests of a well-behaved client, without the lines of every request.
const REQUESTS: &[(&str, &str, &str)] = &[
    (
        "GET /v1/tables/d/t/rows/1?columns=id,v",
        "If-None-Match: \"1\", *",
        "",
    ),
    (
        "PUT /v1/tables/d/t/rows/1",
        "If-Match: \"18446744073709551615\"",
        r#"{"v": {"a": [1, "x"]}}"#,
    ),
    (
        "PATCH /v1/tables/d/t/rows/%31",
        "If-Match: *",
        r#"{"v": null}"#,
    ),
    (
        "DELETE /v1/tables/d/t/rows/2?key=PRIMARY&time_limit_ms=5000",
        "A: b",
        "",
    ),
    (
        "POST /v1/tables/d/t/rows",
        "A: b",
        r#"{"id": 7, "v": "\"\u00e4\""}"#,
    ),
    (
        "POST /v1/batch",
        "A: b",
        r#"{"atomic": true, "operations": [{"op": "read", "database": "d", "table": "t", "key": [1]},
            {"op": "upsert", "database": "d", "table": "t", "values": {"id": 3, "v": 1}},
            {"op": "update", "database": "d", "table": "t", "key": ["3"], "values": {"v": "[]"}, "if_version": "9"}]}"#,
    ),
    (
        "POST /v1/sql",
        "Accept: application/vnd.apache.arrow.stream",
        r#"{"statement": "select ?, id, v from d.t", "parameters": [1.5]}"#,
    ),
    (
        "POST /v1/sql",
        "Accept: application/x-ndjson",
        r#"{"statement": "select 1", "database": "d"}"#,
    ),
    ("HEAD /v1/tables", "Sec-Fetch-Site: same-origin", ""),
    ("OPTIONS /v1/tables/d/t", "Origin: null", ""),
    ("POST /v1/token", "A: b", ""),
];

/// A request as bytes; its length is that of the body unless the mutation changes it.
fn encode((line, header, body): &(&str, &str, &str)) -> Vec<u8> {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nHost: x\r\n{ROOT}\r\n{JSON}\r\nConnection: close\r\n{header}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Sends a request that may be incomplete, and returns the server's answer. If none comes for a
/// moment, the server waits for more, and the client closes its side of the connection.
fn talk(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(request);
    let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&chunk[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let _ = stream.shutdown(Shutdown::Write);
            }
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends random bodies, mutated requests and random bytes. None may end the server, or fail inside it.
fn fuzz(rounds: u32, seed: u64) {
    let mut server = builder().start();
    let client = Client::root(&server);
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v json); insert into d.t values (1, '1'), (2, '2')",
    );
    let mut random = Random(seed);
    for round in 0..rounds {
        let pieces = (0..random.below(20)).map(|_| *random.pick(PIECES));
        let body: String = pieces.collect();
        let (method, path) = match round % 4 {
            0 => ("POST", "/v1/batch"),
            1 => ("POST", "/v1/tables/d/t/rows"),
            2 => ("PUT", "/v1/tables/d/t/rows/1"),
            _ => ("POST", "/v1/sql"),
        };
        let reply = client.send(method, path, &[JSON], &body);
        assert!((200..500).contains(&reply.status), "{body}: {reply:?}");
        let request = encode(random.pick(REQUESTS));
        let mutated = random.mutate(&request);
        let answer = talk(client.address, &mutated);
        let shown = String::from_utf8_lossy(&mutated);
        assert!(
            !answer.contains(" 500 Internal"),
            "seed {seed}: {shown}: {answer}"
        );
        let length = 1 + random.below(200);
        talk(client.address, &random.bytes(length));
    }
    assert!(server.is_running(), "seed {seed}");
    assert!(!server.log().contains("panicked"), "{}", server.log());
    assert_eq!(client.get("/v1/tables").status, 200);
}

#[test]
fn random_requests_do_not_end_the_server() {
    fuzz(250, 21);
}

#[test]
#[ignore = "takes minutes: many more rounds, with a seed from the clock"]
fn random_requests_do_not_end_the_server_for_long() {
    let now = std::time::SystemTime::now();
    let seed = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    println!("seed {seed}");
    fuzz(20_000, seed);
}
