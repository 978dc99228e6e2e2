//! Requests that no client should send.

use super::client::*;
use porpoise_testkit::http_exchange;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
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
        ("HEAD", "/v1/tables", 405),
        ("GET", "/v1/tables/%ff/b", 400),
        ("GET", "/v1/tables/a/b?x=1", 400),
        ("GET", "/v1/tables/a/b/rows/1?key=a&key=b", 400),
        ("GET", "/v1/tables/a/b/rows/1?time_limit_ms=0", 400),
    ] {
        let reply = client.send(method, path, &[], "");
        assert_eq!(reply.status, wanted, "{method} {path}: {reply:?}");
    }
    let allowed = client.send("PUT", "/v1/tables", &[], "");
    assert_eq!(allowed.header("allow"), Some("GET"));
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

#[test]
fn random_bytes_and_bodies_do_not_end_the_server() {
    let server = builder().start();
    let client = Client::root(&server);
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v json)",
    );
    let mut random = fastrand::Rng::with_seed(21);
    let pieces = [
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
    for round in 0..400 {
        let body: String = (0..random.usize(0..20))
            .map(|_| pieces[random.usize(0..pieces.len())])
            .collect();
        let (method, path) = match round % 4 {
            0 => ("POST", "/v1/batch"),
            1 => ("POST", "/v1/tables/d/t/rows"),
            2 => ("PUT", "/v1/tables/d/t/rows/1"),
            _ => ("POST", "/v1/sql"),
        };
        let reply = client.send(method, path, &[JSON], &body);
        assert!((200..500).contains(&reply.status), "{body}: {reply:?}");
        let bytes: Vec<u8> = (0..random.usize(1..200)).map(|_| random.u8(..)).collect();
        http_exchange(client.address, &bytes);
    }
    assert_eq!(client.get("/v1/tables").status, 200);
}
