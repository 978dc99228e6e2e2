//! TLS on the memcached listener, through the real binary.

use crate::accounts::{binary, sasl, statuses};
use crate::certificates::{Authority, Pair, client_config};
use crate::with_sql::sql;
use porpoise_testkit::Porpoise;
use rcgen::DnType;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

fn socket(server: &Porpoise) -> TcpStream {
    let stream = TcpStream::connect(server.memcached_addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends requests over TLS and reads all answers. An error is that of the handshake, or of a
/// connection that the server has broken off.
fn try_encrypted(
    server: &Porpoise,
    certificate: Option<Pair>,
    request: &[u8],
) -> std::io::Result<Vec<u8>> {
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(client_config(certificate), name).unwrap();
    let mut stream = StreamOwned::new(tls, socket(server));
    stream.write_all(request)?;
    stream.conn.send_close_notify();
    stream.flush()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn encrypted(server: &Porpoise, certificate: Option<Pair>, request: &str) -> String {
    let answer = try_encrypted(server, certificate, request.as_bytes()).unwrap();
    String::from_utf8(answer).unwrap()
}

/// A server with row `t:1` of table `app.t`, which account `u@localhost` of password `pw` may
/// read. Failed logins are not delayed.
fn server(options: &[(&str, &str)]) -> Porpoise {
    let mut builder = Porpoise::builder();
    for (option, value) in options {
        builder = builder.arg(option, value);
    }
    let server = builder.start();
    sql(
        &server,
        "SET GLOBAL connection_control_failed_connections_threshold = 0;
         CREATE DATABASE app;
         CREATE TABLE app.t (id VARCHAR(20) PRIMARY KEY, v VARCHAR(40));
         INSERT INTO app.t VALUES ('1', '10');
         ALTER TABLE app.t MEMCACHED PREFIX 't:';
         CREATE USER u@localhost IDENTIFIED BY 'pw';
         GRANT SELECT ON app.t TO u@localhost;",
    );
    server
}

const GET: &str = "get t:1\r\n";
const FOUND: &str = "VALUE t:1 0 2\r\n10\r\nEND\r\n";
const LOGIN: &str = "set login 0 0 4\r\nu pw\r\n";
const REFUSED: &str = "CLIENT_ERROR unauthenticated\r\n";

#[test]
fn one_listener_speaks_with_and_without_tls_in_every_dialect() {
    let server = server(&[]);
    assert_eq!(server.memcached(GET), FOUND);
    assert_eq!(encrypted(&server, None, GET), FOUND);
    assert_eq!(encrypted(&server, None, "mg t:1 v\r\n"), "VA 2\r\n10\r\n");
    let get = binary(0x00, b"", b"t:1", b"");
    let answer = try_encrypted(&server, None, &get).unwrap();
    assert_eq!(statuses(&answer), [0]);
    assert!(answer.ends_with(b"10"));
    // Larger than what TLS takes at a time, in both directions.
    let value = "x".repeat(300_000);
    let request = format!("set big 0 0 300000\r\n{value}\r\nget big\r\n");
    let expected = format!("STORED\r\nVALUE big 0 300000\r\n{value}\r\nEND\r\n");
    assert!(encrypted(&server, None, &request) == expected);
}

#[test]
fn plain_clients_are_refused_where_tls_is_required() {
    let server = server(&[("--memcached-tls", "required")]);
    let refused = "CLIENT_ERROR this listener requires TLS\r\n";
    assert_eq!(server.memcached(GET), refused);
    assert_eq!(server.memcached(LOGIN), refused);
    assert_eq!(server.memcached("version\r\n"), refused);
    let answer = porpoise_testkit::exchange(server.memcached_addr, &sasl("pw"));
    assert_eq!(statuses(&answer), [0x20]);
    assert!(answer.ends_with(b"this listener requires TLS"));
    assert_eq!(encrypted(&server, None, GET), FOUND);
}

#[test]
fn handshakes_fail_without_tls() {
    let server = server(&[("--memcached-tls", "off")]);
    assert!(try_encrypted(&server, None, GET.as_bytes()).is_err());
    assert_eq!(server.memcached(GET), FOUND);
}

#[test]
fn clients_authenticate_inside_tls() {
    let server = server(&[("--memcached-account", "off")]);
    let ask = |request: &str| encrypted(&server, None, request);
    assert_eq!(ask(GET), REFUSED);
    assert_eq!(ask(&format!("{LOGIN}{GET}")), format!("STORED\r\n{FOUND}"));
    let meta = "mg t:1 v\r\n";
    let found = "STORED\r\nVA 2\r\n10\r\n";
    assert_eq!(ask(&format!("{LOGIN}{meta}")), found);
    let wrong = "set login 0 0 5\r\nu no!\r\n";
    let failed = "CLIENT_ERROR authentication failure\r\n";
    assert_eq!(ask(&format!("{wrong}{GET}")), format!("{failed}{REFUSED}"));
    assert_eq!(
        ask(&wrong.repeat(4)),
        failed.repeat(3),
        "the connection closes"
    );
    let get = binary(0x00, b"", b"t:1", b"");
    let talk =
        |parts: &[Vec<u8>]| statuses(&try_encrypted(&server, None, &parts.concat()).unwrap());
    assert_eq!(talk(&[get.clone(), sasl("pw"), get.clone()]), [0x20, 0, 0]);
    assert_eq!(talk(&[sasl("wrong"), get.clone()]), [0x20, 0x20]);
}

/// Answers to a get of clients without TLS, with TLS, with a certificate of account `u`, and
/// with one of a name that has no account.
fn answers(server: &Porpoise, authority: &Authority, login: &str) -> [String; 4] {
    let request = format!("{login}{GET}");
    let (own, unknown) = (authority.client("u"), authority.client("stranger"));
    [
        server.memcached(&request),
        encrypted(server, None, &request),
        encrypted(server, Some(own), &request),
        encrypted(server, Some(unknown), &request),
    ]
}

/// A server that trusts an authority; clients that do not authenticate have no account.
fn trusting(authority: &Authority) -> (Porpoise, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.pem");
    std::fs::write(&path, &authority.pem).unwrap();
    let options = [
        ("--ssl-ca", path.to_str().unwrap()),
        ("--memcached-account", "off"),
    ];
    (server(&options), dir)
}

#[test]
fn a_certificate_names_the_account_that_demands_one() {
    let authority = Authority::new("authority");
    let (server, _dir) = trusting(&authority);
    let own = authority.client("u");
    // A certificate does not authenticate an account that requires none.
    for require in ["NONE", "SSL", "CIPHER 'TLS_AES_256_GCM_SHA384'"] {
        sql(
            &server,
            &format!("ALTER USER u@localhost REQUIRE {require}"),
        );
        assert_eq!(encrypted(&server, Some(own), GET), REFUSED, "{require}");
    }
    for require in [
        "X509",
        "SUBJECT '/CN=u'",
        "ISSUER '/CN=authority'",
        "SUBJECT '/CN=u' AND ISSUER '/CN=authority' AND CIPHER 'TLS_AES_256_GCM_SHA384'",
    ] {
        sql(
            &server,
            &format!("ALTER USER u@localhost REQUIRE {require}"),
        );
        let seen = answers(&server, &authority, "");
        assert_eq!(seen, [REFUSED, REFUSED, FOUND, REFUSED], "{require}");
    }
    for require in [
        "SUBJECT '/CN=other'",
        "ISSUER '/CN=other'",
        "X509 ACCOUNT LOCK",
    ] {
        sql(
            &server,
            &format!("ALTER USER u@localhost REQUIRE {require}"),
        );
        assert_eq!(encrypted(&server, Some(own), GET), REFUSED, "{require}");
    }
    sql(
        &server,
        "ALTER USER u@localhost REQUIRE X509 ACCOUNT UNLOCK",
    );
    assert_eq!(encrypted(&server, Some(own), GET), FOUND);
    // The privileges are those of the account.
    let denied = "SERVER_ERROR INSERT command denied to user 'u'@'localhost' for table 't'\r\n";
    let set = "set t:1 0 0 1\r\n5\r\n";
    assert_eq!(encrypted(&server, Some(own), set), denied);
    // An attribute that contains a common name is none.
    let forged = authority.certify(&[
        (DnType::OrganizationName, "x/CN=u"),
        (DnType::CommonName, "stranger"),
    ]);
    assert_eq!(encrypted(&server, Some(forged), GET), REFUSED);
}

#[test]
fn a_certificate_of_another_authority_ends_the_handshake() {
    let authority = Authority::new("authority");
    let (server, _dir) = trusting(&authority);
    sql(&server, "ALTER USER u@localhost REQUIRE X509");
    let forged = Authority::new("authority").client("u");
    let request = format!("{LOGIN}{GET}");
    let ended = try_encrypted(&server, Some(forged), request.as_bytes());
    assert!(ended.is_err(), "{ended:?}");
    assert_eq!(encrypted(&server, Some(authority.client("u")), GET), FOUND);
}

#[test]
fn passwords_need_what_the_account_requires() {
    let authority = Authority::new("authority");
    let (server, _dir) = trusting(&authority);
    let good = format!("STORED\r\n{FOUND}");
    let bad = format!("CLIENT_ERROR authentication failure\r\n{REFUSED}");
    let (good, bad) = (good.as_str(), bad.as_str());
    // The certificate of another name is one, and the password names the account.
    for (require, expected) in [
        ("NONE", [good, good, good, good]),
        ("SSL", [bad, good, good, good]),
        ("X509", [bad, bad, FOUND, good]),
        ("SUBJECT '/CN=u'", [bad, bad, FOUND, bad]),
        ("SUBJECT '/CN=stranger'", [bad, bad, bad, good]),
        ("ISSUER '/CN=authority'", [bad, bad, FOUND, good]),
        ("ISSUER '/CN=other'", [bad, bad, bad, bad]),
        ("CIPHER 'TLS_AES_256_GCM_SHA384'", [bad, good, good, good]),
        ("CIPHER 'AES128-SHA'", [bad, bad, bad, bad]),
    ] {
        sql(
            &server,
            &format!("ALTER USER u@localhost REQUIRE {require}"),
        );
        let seen = answers(&server, &authority, LOGIN);
        // The client that its certificate has authenticated sends an ordinary `set` then.
        let seen = seen.map(|text| match text.strip_prefix(DENIED) {
            Some(rest) => rest.to_owned(),
            None => text,
        });
        assert_eq!(seen, expected, "{require}");
        let get = binary(0x00, b"", b"t:1", b"");
        let talk = [sasl("pw"), get].concat();
        let plain = statuses(&porpoise_testkit::exchange(server.memcached_addr, &talk));
        let over_tls = statuses(&try_encrypted(&server, None, &talk).unwrap());
        let code = |text: &str| if text == good { [0, 0] } else { [0x20, 0x20] };
        assert_eq!(
            [plain, over_tls],
            [code(expected[0]), code(expected[1])],
            "{require}"
        );
    }
}

/// The answer to `LOGIN` as an ordinary `set` of account `u`.
const DENIED: &str =
    "SERVER_ERROR INSERT command denied to user 'u'@'localhost' for table 'kv'\r\n";

#[test]
fn the_requirements_of_the_default_account_are_enforced() {
    let authority = Authority::new("authority");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.pem");
    std::fs::write(&path, &authority.pem).unwrap();
    let server = server(&[("--ssl-ca", path.to_str().unwrap())]);
    for (require, expected) in [
        ("NONE", [FOUND, FOUND, FOUND, FOUND]),
        ("SSL", [REFUSED, FOUND, FOUND, FOUND]),
        ("X509", [REFUSED, REFUSED, FOUND, FOUND]),
        ("SUBJECT '/CN=u'", [REFUSED, REFUSED, FOUND, REFUSED]),
    ] {
        sql(
            &server,
            &format!("ALTER USER memcached@localhost REQUIRE {require}"),
        );
        assert_eq!(answers(&server, &authority, ""), expected, "{require}");
    }
    // A client that the default account does not match may authenticate.
    assert_eq!(
        server.memcached(&format!("{LOGIN}{GET}")),
        format!("STORED\r\n{FOUND}")
    );
}

/// Reads until the server closes; the time that it took.
fn time_to_close(mut stream: TcpStream, began: Instant) -> Duration {
    let mut rest = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut rest);
    began.elapsed()
}

/// The first message of a handshake.
fn client_hello() -> Vec<u8> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(client_config(None), name).unwrap();
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).unwrap();
    hello
}

#[test]
fn malformed_handshakes_end_the_connection() {
    let server = server(&[("--memcached-tls", "required")]);
    let hello = client_hello();
    let mut broken = hello.clone();
    broken.truncate(20);
    broken.extend([0xff; 600]);
    let record = [&[0x16, 3, 3, 0x40, 0][..], &[b'x'; 0x4000]].concat();
    for bytes in [&b"\x16 this is no handshake\r\n"[..], &broken, &record] {
        let mut stream = socket(&server);
        stream.write_all(bytes).unwrap();
        let took = time_to_close(stream, Instant::now());
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    // Requests in the clear after the first message of a handshake.
    let mut stream = socket(&server);
    stream
        .write_all(&[&hello[..], GET.as_bytes()].concat())
        .unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.windows(5).any(|w| w == b"VALUE"));
    assert_eq!(encrypted(&server, None, GET), FOUND);
}

#[test]
fn half_a_handshake_ends_after_the_connect_timeout() {
    for account in ["memcached@localhost", "off"] {
        let server = server(&[
            ("--connect-timeout", "2s"),
            ("--memcached-account", account),
        ]);
        let hello = client_hello();
        let began = Instant::now();
        let mut streams = Vec::new();
        for bytes in [&hello[..1], &hello[..hello.len() / 2], &hello[..]] {
            let mut stream = socket(&server);
            stream.write_all(bytes).unwrap();
            streams.push(stream);
        }
        for stream in streams {
            let took = time_to_close(stream, began);
            assert!(took > Duration::from_millis(1500), "{account}: {took:?}");
            assert!(took < Duration::from_secs(8), "{account}: {took:?}");
        }
        // Sending byte by byte does not evade the limit.
        let mut stream = socket(&server);
        let began = Instant::now();
        for byte in &hello[..30] {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let took = time_to_close(stream, began);
        assert!(took < Duration::from_secs(8), "{account}: {took:?}");
    }
    // An encrypted connection that has an account may rest.
    let server = server(&[("--connect-timeout", "1s")]);
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(client_config(None), name).unwrap();
    let mut stream = StreamOwned::new(tls, socket(&server));
    for _ in 0..2 {
        stream.write_all(GET.as_bytes()).unwrap();
        let mut answer = [0; FOUND.len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, FOUND.as_bytes());
        std::thread::sleep(Duration::from_millis(1500));
    }
}
