//! Logins: passwords, locks, delays, cookies, limits.

use crate::client::{JSON, login, request, send, try_login};
use porpoise_testkit::{Porpoise, wait_until};
use serde_json::json;
use std::process::Command;
use std::time::{Duration, Instant};

fn server() -> Porpoise {
    let server = Porpoise::builder().start();
    server.sql("CREATE USER op@localhost IDENTIFIED BY 'right'; GRANT ALL ON *.* TO op@localhost");
    server
}

#[test]
fn a_login_is_accepted_as_by_the_mysql_listener() {
    let server = server();
    server.sql(
        "CREATE USER closed@localhost IDENTIFIED BY 'x' ACCOUNT LOCK; \
         CREATE USER old@localhost IDENTIFIED BY 'x' PASSWORD EXPIRE; \
         CREATE USER tls@localhost IDENTIFIED BY 'x' REQUIRE SSL; \
         CREATE USER far@'10.0.0.1' IDENTIFIED BY 'x'; \
         CREATE USER locks@localhost IDENTIFIED BY 'x' FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 1; \
         CREATE USER native@localhost IDENTIFIED WITH mysql_native_password BY 'n4tive'",
    );
    let at = server.http_addr;
    let code = |user: &str, password: &str| {
        let reply = try_login(at, user, password);
        if reply.status == 200 {
            0
        } else {
            reply.error().0
        }
    };
    assert_eq!((code("op", "right"), code("native", "n4tive")), (0, 0));
    assert_eq!((code("op", "Right"), code("nobody", "x")), (1045, 1045));
    let known = try_login(at, "op", "wrong").error().1;
    let unknown = try_login(at, "xx", "wrong").error().1;
    assert_eq!(known.replace("op", "xx"), unknown);
    assert_eq!(code("far", "x"), 1045);
    assert_eq!(code("tls", "x"), 1045);
    assert_eq!((code("closed", "x"), code("closed", "y")), (3118, 1045));
    assert_eq!(code("old", "x"), 1862);
    assert_eq!(
        (code("locks", "a"), code("locks", "b"), code("locks", "x")),
        (1045, 1045, 3955)
    );
}

#[test]
fn failures_delay_further_answers() {
    let server = server();
    server.sql("SET GLOBAL connection_control_failed_connections_threshold = 2");
    let began = Instant::now();
    for _ in 0..3 {
        assert_eq!(try_login(server.http_addr, "op", "wrong").status, 403);
    }
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(server.http("/health"), (200, "ok\n".to_owned()));
}

#[test]
fn the_cookie_is_for_the_browser_only_and_ends_with_the_logout() {
    let server = server();
    let reply = try_login(server.http_addr, "op", "right");
    let cookie = reply.header("set-cookie").unwrap();
    for part in [
        "; HttpOnly",
        "; SameSite=Strict",
        "; Path=/",
        "; Max-Age=43200",
    ] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "{cookie}");
    let token = cookie.split(['=', ';']).nth(1).unwrap();
    assert_eq!(token.len(), 64);
    assert!(!reply.body.contains(token), "scripts do not see the token");
    let (one, two) = (
        login(server.http_addr, "op", "right"),
        login(server.http_addr, "op", "right"),
    );
    assert_ne!((&one.cookie, &one.csrf), (&two.cookie, &two.csrf));
    assert_eq!(one.get("session").json()["account"], "op@localhost");
    assert_eq!(one.post("logout", &json!({})).status, 200);
    assert_eq!(one.get("status").status, 401);
    assert_eq!(one.get("session").json()["account"], json!(null));
    assert_eq!(two.get("status").status, 200);
}

#[test]
fn sessions_are_limited_in_number_and_end_by_kill() {
    let server = server();
    let all: Vec<_> = (0..33)
        .map(|_| login(server.http_addr, "op", "right"))
        .collect();
    assert_eq!(
        all[0].get("status").status,
        401,
        "the one unused for longest is ended"
    );
    assert_eq!(all[1].get("status").status, 200);
    let processes = all[1].get("processes").rows();
    let sleeping = processes
        .iter()
        .find(|p| p["user"] == "op" && p["command"] == "Sleep")
        .unwrap();
    let count = |user: &str| {
        let rows = all[1].get("processes").rows();
        rows.iter().filter(|p| p["user"] == user).count()
    };
    let before = count("op");
    server.sql(&format!("KILL {}", sleeping["id"]));
    let ended = wait_until(Duration::from_secs(20), || {
        (count("op") < before).then_some(())
    });
    assert!(ended.is_some(), "a killed login leaves the process list");
    server.sql("CREATE USER few@localhost IDENTIFIED BY 'x' WITH MAX_USER_CONNECTIONS 1");
    login(server.http_addr, "few", "x");
    assert_eq!(try_login(server.http_addr, "few", "x").error().0, 1226);
}

#[test]
fn a_password_crosses_the_network_in_tls_only() {
    let command = |program: &str| Command::new(program).arg("-I").output();
    // An address of this machine that is not loopback.
    let addresses = String::from_utf8(command("hostname").unwrap().stdout).unwrap();
    let Some(own) = addresses.split_whitespace().find(|a| a.contains('.')) else {
        return;
    };
    for insecure in [false, true] {
        let mut builder = Porpoise::builder()
            .env("PORPOISE_ROOT_PASSWORD", "secret")
            .arg("--http-listen", "0.0.0.0:0");
        if insecure {
            builder = builder.flag("--insecure-console");
        }
        let server = builder.start();
        let port = server.http_addr.port();
        let at = format!("{own}:{port}").parse().unwrap();
        let local = format!("127.0.0.1:{port}").parse().unwrap();
        let reply = try_login(at, "nobody", "x");
        let expected = if insecure {
            "Access denied"
        } else {
            "over HTTPS only"
        };
        assert!(reply.error().1.contains(expected), "{reply:?}");
        assert!(
            try_login(local, "nobody", "x")
                .error()
                .1
                .contains("Access denied")
        );
        let url = format!("https://{own}:{port}/api/v1/login");
        let body = r#"{"user":"nobody","password":"x"}"#;
        let output = Command::new("curl")
            .args(["-sk", "-H", JSON, "-d", body, &url])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("Access denied for user 'nobody'@"), "{said}");
    }
}

#[test]
fn tls_is_served_at_the_same_address_and_makes_cookies_secure() {
    let server = server();
    server.sql("ALTER USER op@localhost REQUIRE SSL");
    let curl = |path: &str, more: &[&str]| {
        let url = format!("https://{}{path}", server.http_addr);
        let output = Command::new("curl")
            .args(["-ski"])
            .args(more)
            .arg(&url)
            .output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    };
    assert!(curl("/health", &[]).ends_with("ok\n"));
    assert!(curl("/metrics", &[]).contains("porpoise_build_info"));
    let body = r#"{"user":"op","password":"right"}"#;
    let answer = curl("/api/v1/login", &["-H", JSON, "-d", body]);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("; Secure"), "{answer}");
    assert_eq!(server.http("/health"), (200, "ok\n".to_owned()));
}

#[test]
fn the_console_can_be_switched_off() {
    let server = Porpoise::builder().arg("--console", "off").start();
    for path in ["/", "/api/v1/session", "/console/console.js"] {
        let reply = request(server.http_addr, "GET", path, &[], "");
        assert_eq!(reply.status, 404, "{path}");
    }
    assert_eq!(server.http("/health"), (200, "ok\n".to_owned()));
}

#[test]
fn a_shutdown_does_not_wait_for_logins() {
    let mut server = server();
    let address = server.http_addr;
    let mut one = login(address, "op", "right");
    assert_eq!(one.get("history").status, 200);
    let began = Instant::now();
    assert!(server.terminate().success());
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    server.restart();
    one.address = server.http_addr;
    assert_eq!(one.get("status").status, 401, "a restart ends logins");
    let reply = send(server.http_addr, b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(reply.status, 421, "without a Host header");
}
