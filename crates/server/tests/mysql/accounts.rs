//! Requirements of accounts at login: locks, expiry, encryption, certificates; failed logins.

use crate::certificates::Authority;
use crate::client::{Client, How};
use porpoise_testkit::Porpoise;
use porpoise_wire::mysql::Capabilities;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

fn how(user: &'static str, password: &'static str) -> How {
    How {
        user,
        password,
        ..How::default()
    }
}

/// The error number of a login; 0: it succeeded.
fn login(server: &Porpoise, how: &How) -> u16 {
    Client::connect(server.mysql_addr, how).map_or_else(|e| e.code, |_| 0)
}

/// A server that does not delay logins, and root's connection.
fn server() -> (Porpoise, Client) {
    let server = Porpoise::builder().start();
    let mut root = Client::root(server.mysql_addr);
    root.good("SET GLOBAL connection_control_failed_connections_threshold = 0");
    (server, root)
}

#[test]
fn account_locks_are_revealed_only_after_the_password() {
    let (server, mut root) = server();
    root.good("CREATE USER u@localhost IDENTIFIED BY 'x' ACCOUNT LOCK");
    assert_eq!(login(&server, &how("u", "x")), 3118);
    assert_eq!(login(&server, &how("u", "wrong")), 1045);
    root.good("ALTER USER u@localhost ACCOUNT UNLOCK");
    assert_eq!(login(&server, &how("u", "x")), 0);
    root.good("CREATE ROLE r@localhost");
    assert_eq!(login(&server, &how("r", "")), 3118);
}

#[test]
fn failed_logins_in_a_row_lock_an_account() {
    let (server, mut root) = server();
    root.good(
        "CREATE USER u@localhost IDENTIFIED BY 'x' FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 3",
    );
    let codes = |passwords: &[&'static str]| -> Vec<u16> {
        let one = |p: &&'static str| login(&server, &how("u", p));
        passwords.iter().map(one).collect()
    };
    let seen = codes(&["wrong", "x", "wrong", "wrong", "x", "wrong"]);
    assert_eq!(seen, [1045, 0, 1045, 1045, 3955, 1045]);
    let error = Client::connect(server.mysql_addr, &how("u", "x")).map(|_| ());
    let text = "Access denied for user 'u'@'localhost'. Account is blocked for 3 day(s) (3 day(s) \
                remaining) due to 2 consecutive failed logins.";
    assert_eq!(error.unwrap_err().message, text);
    root.good("ALTER USER u@localhost ACCOUNT UNLOCK");
    assert_eq!(codes(&["x"]), [0]);
}

#[test]
fn an_expired_password_opens_a_session_that_may_only_change_it() {
    let (server, mut root) = server();
    root.good("CREATE USER u@localhost IDENTIFIED BY 'x' PASSWORD EXPIRE");
    let without = How {
        without: Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS,
        ..how("u", "x")
    };
    assert_eq!(login(&server, &without), 1862);
    let with = How {
        with: Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS,
        ..how("u", "x")
    };
    let mut client = Client::connect(server.mysql_addr, &with).unwrap();
    assert_eq!(client.query("SELECT 1").code(), 1820);
    assert_eq!(client.prepare("SELECT 1").unwrap_err().code, 1820);
    client.good("ALTER USER USER() IDENTIFIED BY 'y'");
    client.good("SELECT 1");
    assert_eq!(login(&server, &how("u", "y")), 0);
}

#[test]
fn connections_must_meet_the_requirements_of_their_account() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("authority");
    let path = dir.path().join("ca.pem");
    std::fs::write(&path, &authority.pem).unwrap();
    let own_pair = authority.client("client");
    let forged_pair = Authority::new("authority").client("client");

    let server = Porpoise::builder().arg("--ssl-ca", &path).start();
    let mut root = Client::root(server.mysql_addr);
    root.good("SET GLOBAL connection_control_failed_connections_threshold = 0");
    for (name, require) in [
        ("s", "SSL"),
        ("x", "X509"),
        ("subject", "SUBJECT '/CN=client' AND ISSUER '/CN=authority'"),
        ("other", "SUBJECT '/CN=other'"),
        ("cipher", "CIPHER 'TLS_AES_256_GCM_SHA384'"),
    ] {
        root.good(&format!(
            "CREATE USER {name}@localhost IDENTIFIED BY 'p' REQUIRE {require}"
        ));
    }
    let codes = |name: &'static str| {
        let plain = how(name, "p");
        let tls = How {
            tls: true,
            ..plain.clone()
        };
        let certified = How {
            certificate: Some(own_pair),
            ..tls.clone()
        };
        [&plain, &tls, &certified].map(|how| login(&server, how))
    };
    assert_eq!(codes("s"), [1045, 0, 0]);
    assert_eq!(codes("x"), [1045, 1045, 0]);
    assert_eq!(codes("subject"), [1045, 1045, 0]);
    assert_eq!(codes("other"), [1045, 1045, 1045]);
    assert_eq!(codes("cipher"), [1045, 0, 0]);
    // A certificate that the authority has not signed ends the handshake.
    let forged = How {
        tls: true,
        certificate: Some(forged_pair),
        ..how("x", "p")
    };
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| login(&server, &forged)));
    assert!(ended.is_err(), "{ended:?}");
}

#[test]
fn repeated_failures_are_delayed_without_holding_a_worker() {
    let server = Porpoise::builder().start();
    let mut root = Client::root(server.mysql_addr);
    root.good("CREATE USER u@localhost IDENTIFIED BY 'x'");
    root.good("SET GLOBAL connection_control_min_connection_delay = 2000");
    for user in ["u", "unknown"] {
        for _ in 0..3 {
            assert_eq!(login(&server, &how(user, "wrong")), 1045);
        }
    }
    let address = server.mysql_addr;
    let waiting: Vec<_> = ["u", "unknown"]
        .into_iter()
        .flat_map(|user| [user; 20])
        .map(|user| {
            std::thread::spawn(move || {
                let began = Instant::now();
                let error = Client::connect(address, &how(user, "wrong")).map(|_| ());
                (error.unwrap_err().code, began.elapsed())
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    // Other logins are not delayed.
    let began = Instant::now();
    root.good("SELECT 1");
    Client::root(address).good("SELECT 1");
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    for one in waiting {
        let (code, took) = one.join().unwrap();
        assert_eq!(code, 1045);
        assert!(took >= Duration::from_secs(2), "{took:?}");
    }
    // The right password is answered late, too, and ends the delays.
    root.good("SET GLOBAL connection_control_max_connection_delay = 2000");
    let began = Instant::now();
    let mut own = Client::connect(address, &how("u", "x")).unwrap();
    assert!(began.elapsed() >= Duration::from_secs(2));
    own.good("SELECT 1");
    let began = Instant::now();
    assert_eq!(login(&server, &how("u", "wrong")), 1045);
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn show_status_names_the_cipher_of_the_own_connection() {
    let (server, mut root) = server();
    root.good("CREATE USER u@localhost IDENTIFIED BY 'p'");
    let shown = |client: &mut Client| {
        let texts = client.good("SHOW STATUS LIKE 'Ssl%'").texts();
        let of = |name: &str| texts.iter().find(|r| r[0] == name).unwrap()[1].clone();
        [of("Ssl_cipher"), of("Ssl_version")]
    };
    assert_eq!(shown(&mut root), ["", ""]);
    let how = How {
        tls: true,
        ..how("u", "p")
    };
    let mut client = Client::connect(server.mysql_addr, &how).unwrap();
    let expected = ["TLS_AES_256_GCM_SHA384", "TLSv1.3"];
    assert_eq!(shown(&mut client), expected);
    client.simple(porpoise_wire::mysql::command::code::RESET_CONNECTION);
    assert_eq!(shown(&mut client), expected);
    assert_eq!(shown(&mut root), ["", ""], "of others");
}

#[test]
fn the_mariadb_client_shows_the_cipher() {
    let (server, _root) = server();
    let status = |encryption: &str| {
        let done = std::process::Command::new("mariadb")
            .args(["--no-defaults", "--protocol=tcp", "--user=root", "--batch"])
            .args([encryption, "--skip-ssl-verify-server-cert"])
            .arg(format!("--host={}", server.mysql_addr.ip()))
            .arg(format!("--port={}", server.mysql_addr.port()))
            .arg("--execute=\\s; SHOW STATUS LIKE 'Ssl_cipher'")
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let plain = status("--skip-ssl");
    assert!(plain.contains("SSL:\t\t\tNot in use\n"), "{plain}");
    assert!(plain.contains("Ssl_cipher\t\n"), "{plain}");
    let encrypted = status("--ssl");
    let cipher = encrypted
        .lines()
        .find_map(|l| l.strip_prefix("Ssl_cipher\t"));
    let cipher = cipher.unwrap();
    assert!(cipher.starts_with("TLS_"), "{encrypted}");
    let line = format!("Cipher in use is {cipher}");
    assert!(encrypted.contains(&line), "{encrypted}");
}
