//! Requests of other sites, requests without a login, and malformed ones.

use crate::client::{JSON, login, request, send, try_login};
use porpoise_testkit::{Porpoise, wait_until};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn server() -> Porpoise {
    let server = Porpoise::builder()
        .arg("--console-hosts", "db.example.org")
        .start();
    server.sql("CREATE USER op@localhost IDENTIFIED BY 'x'; GRANT ALL ON *.* TO op@localhost");
    server
}

#[test]
fn every_response_has_the_headers_that_confine_the_page() {
    let server = server();
    for (path, status) in [
        ("/", 200),
        ("/console/console.js", 200),
        ("/api/v1/session", 200),
        ("/api/v1/status", 401),
        ("/nothing", 404),
    ] {
        let reply = request(server.http_addr, "GET", path, &[], "");
        assert_eq!(reply.status, status, "{path}");
        let policy = reply.header("content-security-policy").unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'self';",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(
            reply.header("x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(reply.header("x-frame-options"), Some("DENY"), "{path}");
        assert_eq!(
            reply.header("referrer-policy"),
            Some("no-referrer"),
            "{path}"
        );
        assert_eq!(reply.header("access-control-allow-origin"), None, "{path}");
    }
    let page = request(server.http_addr, "GET", "/", &[], "").body;
    for inline in [
        "<style",
        " style=",
        "onclick=",
        "onload=",
        "javascript:",
        "http://",
        "https://",
    ] {
        assert!(!page.contains(inline), "{inline}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    // Health and metrics are as they were.
    let health = request(
        server.http_addr,
        "GET",
        "/health",
        &["Host: evil.example".into()],
        "",
    );
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    assert_eq!(health.header("content-security-policy"), None);
}

#[test]
fn the_console_is_served_under_its_own_names_only() {
    let server = server();
    let port = server.http_addr.port();
    let status = |host: &str| {
        let headers = [format!("Host: {host}")];
        request(server.http_addr, "GET", "/api/v1/session", &headers, "").status
    };
    for host in [
        "localhost",
        &format!("localhost:{port}"),
        "127.0.0.1",
        "DB.example.org:443",
    ] {
        assert_eq!(status(host), 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "192.168.1.7", ""] {
        assert_eq!(status(host), 421, "{host}");
    }
    let body = json!({"user": "op", "password": "x"}).to_string();
    let headers = ["Host: evil.example".to_owned(), JSON.into()];
    let rebound = request(server.http_addr, "POST", "/api/v1/login", &headers, &body);
    assert_eq!(rebound.status, 421);
}

#[test]
fn changes_need_the_token_and_the_own_origin() {
    let server = server();
    let op = login(server.http_addr, "op", "x");
    let cookie = format!("Cookie: {}", op.cookie);
    let token = format!("X-CSRF-Token: {}", op.csrf);
    let origin = format!("Origin: http://{}", server.http_addr);
    let kill = json!({"id": 99999999, "query": false}).to_string();
    let status = |headers: &[&str]| {
        let headers: Vec<_> = headers.iter().map(|&line| line.to_owned()).collect();
        op.post_with("kill", &headers, &kill).status
    };
    assert_eq!(status(&[&cookie, JSON, &token]), 404, "no such connection");
    assert_eq!(status(&[&cookie, JSON, &token, &origin]), 404);
    assert_eq!(status(&[&cookie, JSON]), 403, "no token");
    assert_eq!(status(&[&cookie, JSON, "X-CSRF-Token: "]), 403);
    let other = login(server.http_addr, "op", "x");
    let others = format!("X-CSRF-Token: {}", other.csrf);
    assert_eq!(
        status(&[&cookie, JSON, &others]),
        403,
        "the token of another login"
    );
    assert_eq!(status(&[JSON, &token]), 401, "no cookie");
    assert_eq!(status(&[&cookie, &token]), 415, "a form of another site");
    assert_eq!(status(&[&cookie, "Content-Type: text/plain", &token]), 415);
    assert_eq!(
        status(&[&cookie, JSON, &token, "Origin: http://evil.example"]),
        403
    );
    assert_eq!(status(&[&cookie, JSON, &token, "Origin: null"]), 403);
    assert_eq!(
        status(&[&cookie, JSON, &token, "Sec-Fetch-Site: cross-site"]),
        403
    );
    for name in ["explain", "logout"] {
        assert_eq!(
            op.post_with(name, &[cookie.clone(), JSON.into()], "{}")
                .status,
            403,
            "{name}"
        );
    }
    let get = request(
        server.http_addr,
        "GET",
        "/api/v1/kill",
        std::slice::from_ref(&cookie),
        "",
    );
    assert_eq!(get.status, 404);
    let foreign = [JSON.to_owned(), "Origin: http://evil.example".into()];
    let body = json!({"user": "op", "password": "x"}).to_string();
    assert_eq!(
        request(server.http_addr, "POST", "/api/v1/login", &foreign, &body).status,
        403
    );
    assert_eq!(op.get("status").status, 200, "still logged in");
}

#[test]
fn no_parameter_becomes_sql() {
    let server = server();
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (a INT); INSERT INTO d.t VALUES (1)");
    let op = login(server.http_addr, "op", "x");
    let texts = [
        "' OR 1=1 -- ",
        "1; DROP TABLE d.t",
        "x'; DROP TABLE d.t; -- ",
        "\\'; DROP TABLE d.t",
        "`d`.`t`",
        "\0",
        "%",
        "d` ; DROP TABLE d.t -- ",
        "' UNION SELECT authentication_string, 1 FROM mysql.user -- ",
    ];
    for text in texts {
        let found = op.post("explain", &json!({"digest": text, "schema": text}));
        assert_eq!(found.error().0, 1643, "{text}: {found:?}");
        for body in [
            json!({"id": text, "query": false}),
            json!({"id": 1, "query": text}),
            json!({"id": 1, "query": false, "more": text}),
            json!({"id": -1, "query": false}),
            json!({"id": 1.5, "query": false}),
            json!([text]),
        ] {
            assert_eq!(op.post("kill", &body).status, 400, "{body}");
        }
        let path = format!(
            "tables?where={}",
            text.replace([' ', '\0', '\\', '`', '%'], "+")
        );
        assert_eq!(
            op.get(&path).status,
            200,
            "parameters of the address are not read"
        );
        assert_ne!(try_login(server.http_addr, text, text).status, 200);
    }
    for path in [
        "../../etc/passwd",
        "status/..",
        "status%20",
        "STATUS",
        "status;DROP",
        "",
        "login",
    ] {
        assert_eq!(op.get(path).status, 404, "{path}");
    }
    assert_eq!(server.sql("SELECT COUNT(*) FROM d.t").rows(), [["1"]]);
}

#[test]
fn malformed_large_and_slow_requests_do_no_harm() {
    let server = server();
    let at = server.http_addr;
    let op = login(at, "op", "x");
    for body in [
        "",
        "{",
        "null",
        "[]",
        "{\"user\":1}",
        "\u{1}",
        "{\"user\":\"op\"}",
    ] {
        let reply = request(at, "POST", "/api/v1/login", &[JSON.into()], body);
        assert_eq!(reply.status, 400, "{body}");
    }
    let large = format!("{{\"user\":\"{}\"", "x".repeat(9000));
    assert_eq!(
        request(at, "POST", "/api/v1/login", &[JSON.into()], &large).status,
        413
    );
    let deep = "[".repeat(8000);
    assert_eq!(
        request(at, "POST", "/api/v1/login", &[JSON.into()], &deep).status,
        400
    );
    for method in ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"] {
        assert!(
            [405, 501].contains(&request(at, method, "/api/v1/status", &[], "").status),
            "{method}"
        );
        assert_eq!(request(at, method, "/", &[], "").status, 405, "{method}");
    }
    for cookie in [
        "x",
        "a=b; =; porpoise_console_1=x",
        "porpoise_console_0=\u{7f}",
    ] {
        let headers = [format!("Cookie: {cookie}")];
        assert!([400, 401].contains(&request(at, "GET", "/api/v1/status", &headers, "").status));
    }
    // A body that never arrives ends its connection at the limit of requests.
    let began = Instant::now();
    let slow: Vec<_> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(at).unwrap();
            let head = format!(
                "POST /api/v1/login HTTP/1.1\r\nHost: {at}\r\n{JSON}\r\nContent-Length: 500\r\n\r\n{{"
            );
            let _ = stream.write_all(head.as_bytes());
            stream
        })
        .collect();
    assert_eq!(server.http("/health"), (200, "ok\n".to_owned()));
    assert!(began.elapsed() < Duration::from_secs(4));
    assert_eq!(op.get("status").status, 200);
    drop(slow);
    let reply = send(at, b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!([400, 421].contains(&reply.status), "{reply:?}");
}

#[test]
fn statements_of_logins_leave_health_and_metrics_their_threads() {
    let server = server();
    let logins: Vec<_> = (0..8).map(|_| login(server.http_addr, "op", "x")).collect();
    std::thread::scope(|scope| {
        for one in &logins {
            scope.spawn(move || {
                for _ in 0..10 {
                    assert!([200, 503].contains(&one.get("variables").status));
                }
            });
        }
        for _ in 0..5 {
            let began = Instant::now();
            assert_eq!(server.http("/health"), (200, "ok\n".to_owned()));
            assert!(began.elapsed() < Duration::from_secs(1));
            assert_eq!(server.http("/metrics").0, 200);
        }
    });
    let ended = wait_until(Duration::from_secs(10), || {
        (logins[0].get("status").status == 200).then_some(())
    });
    assert!(ended.is_some());
}
