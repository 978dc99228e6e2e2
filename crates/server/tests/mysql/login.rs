//! Authentication: plugins, transports, refusals, change of user.

use crate::client::{Client, How};
use porpoise_testkit::Porpoise;
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::auth::{native_answer, sha2_answer};
use porpoise_wire::mysql::client::login::parse_greeting;
use porpoise_wire::mysql::command::code;
use porpoise_wire::mysql::frame;
use std::time::Duration;

const SHA2: How = How {
    user: "sha",
    password: "s3cret",
    database: "",
    tls: false,
    without: Capabilities(0),
    with: Capabilities(0),
    certificate: None,
};

const NATIVE: How = How {
    user: "nat",
    password: "n4tive",
    ..SHA2
};

/// A server with an account of each plugin beside root.
fn server() -> Porpoise {
    let server = Porpoise::builder().start();
    let mut root = Client::root(server.mysql_addr);
    root.good("CREATE USER sha@localhost IDENTIFIED WITH caching_sha2_password BY 's3cret'");
    root.good("CREATE USER nat@localhost IDENTIFIED WITH mysql_native_password BY 'n4tive'");
    root.good("CREATE USER open@localhost");
    root.good("CREATE DATABASE shop");
    for user in ["sha", "nat", "open"] {
        root.good(&format!("GRANT ALL ON shop.* TO {user}@localhost"));
    }
    server
}

fn user(client: &mut Client) -> String {
    client.good("SELECT CURRENT_USER()").one()
}

#[test]
fn every_plugin_over_every_channel() {
    let server = server();
    for how in [SHA2, NATIVE] {
        for tls in [false, true, true] {
            let how = How { tls, ..how.clone() };
            let mut client = Client::connect(server.mysql_addr, &how).unwrap();
            assert_eq!(user(&mut client), format!("{}@localhost", how.user));
        }
    }
    let open = How {
        user: "open",
        ..How::default()
    };
    let mut client = Client::connect(server.mysql_addr, &open).unwrap();
    assert_eq!(user(&mut client), "open@localhost");
}

#[test]
fn a_unix_socket_is_secure_and_local() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("porpoise.sock");
    let server = Porpoise::builder().arg("--mysql-socket", &path).start();
    Client::root(server.mysql_addr).good("CREATE USER sha@localhost IDENTIFIED BY 's3cret'");
    let mut client = Client::connect_unix(&path, &SHA2).unwrap();
    assert_eq!(user(&mut client), "sha@localhost");
}

#[test]
fn the_fast_path_forgets_an_old_password() {
    let server = server();
    Client::connect(server.mysql_addr, &SHA2).unwrap();
    Client::connect(server.mysql_addr, &SHA2).unwrap();
    let mut root = Client::root(server.mysql_addr);
    root.good("ALTER USER sha@localhost IDENTIFIED BY 'changed'");
    let error = Client::connect(server.mysql_addr, &SHA2).map(|_| ());
    assert_eq!(error.unwrap_err().code, 1045);
    let changed = How {
        password: "changed",
        ..SHA2
    };
    Client::connect(server.mysql_addr, &changed).unwrap();
}

#[test]
fn a_wrong_password_and_an_unknown_name_are_refused_alike() {
    let server = server();
    for (name, password, using) in [
        ("sha", "wrong", "YES"),
        ("sha", "", "NO"),
        ("nat", "wrong", "YES"),
        ("nobody", "wrong", "YES"),
        ("open", "extra", "YES"),
        ("nobody", "", "NO"),
    ] {
        let how = How {
            user: name,
            password,
            ..How::default()
        };
        let error = Client::connect(server.mysql_addr, &how).map(|_| ());
        let error = error.unwrap_err();
        assert_eq!((error.code, &error.sqlstate), (1045, b"28000"));
        let text = format!("Access denied for user '{name}'@'localhost' (using password: {using})");
        assert_eq!(error.message, text);
    }
    let mut root = Client::root(server.mysql_addr);
    let denied = root.good("SHOW GLOBAL STATUS LIKE 'Aborted_connects'");
    assert_eq!(denied.texts()[0][1], "6");
}

#[test]
fn a_client_without_plugins_gets_native_or_a_clear_error() {
    let server = server();
    let without = Capabilities(Capabilities::PLUGIN_AUTH.0 | Capabilities::PLUGIN_AUTH_LENENC.0);
    // Such a client answers the greeting's challenge for the native plugin.
    let mut old = OldClient::new(&server);
    assert_eq!(old.login(b"nat", b"n4tive", without), None);
    let mut old = OldClient::new(&server);
    assert_eq!(old.login(b"sha", b"s3cret", without), Some(1251));
}

/// A client of the time before plugins.
struct OldClient {
    client: Client,
    salt: [u8; 20],
}

impl OldClient {
    fn new(server: &Porpoise) -> OldClient {
        let mut client = Client::raw(server.mysql_addr);
        let greeting = client.packet().unwrap();
        let parsed = porpoise_wire::mysql::client::login::parse_greeting(&greeting);
        let salt = parsed.unwrap().salt;
        OldClient { client, salt }
    }

    fn login(&mut self, name: &[u8], password: &[u8], without: Capabilities) -> Option<u16> {
        let wanted = porpoise_wire::mysql::client::login::WANTED.0 & !without.0;
        let answer = native_answer(password, &self.salt);
        let mut body = wanted.to_le_bytes().to_vec();
        body.extend((1u32 << 24).to_le_bytes());
        body.push(45);
        body.extend([0; 23]);
        body.extend(name);
        body.push(0);
        body.push(answer.len() as u8);
        body.extend(&answer);
        let mut out = Vec::new();
        frame::packet(&mut out, &mut 1, &body);
        self.client.send(&out);
        self.client.expect(2);
        let reply = self.client.packet().unwrap();
        porpoise_wire::mysql::client::result::parse_error(&reply).map(|e| e.code)
    }
}

#[test]
fn a_default_database_is_entered_or_refused() {
    let server = server();
    let how = |database| How {
        database,
        ..How::default()
    };
    let mut client = Client::connect(server.mysql_addr, &how("shop")).unwrap();
    assert_eq!(client.good("SELECT DATABASE()").one(), "shop");
    let error = Client::connect(server.mysql_addr, &how("nowhere")).map(|_| ());
    assert_eq!(error.unwrap_err().code, 1049);
}

#[test]
fn a_change_of_user_begins_a_new_session() {
    let server = server();
    let mut client = Client::root(server.mysql_addr);
    client.good("SET @x = 1");
    client.good("BEGIN");
    for (name, password, expected) in [
        ("sha", "s3cret", "sha@localhost"),
        ("nat", "n4tive", "nat@localhost"),
        ("root", "", "root@localhost"),
    ] {
        let reply = change_user(&mut client, name, password);
        assert_eq!(reply.first(), Some(&0), "{name}: {reply:?}");
        assert_eq!(user(&mut client), expected);
        assert_eq!(client.good("SELECT @x").texts(), [["NULL"]]);
    }
    let reply = change_user(&mut client, "sha", "wrong");
    assert_eq!(reply.first(), Some(&0xff));
    assert_eq!(client.packet(), None, "the connection ends");
}

/// Changes the user; the server's last packet.
pub fn change_user(client: &mut Client, name: &str, password: &str) -> Vec<u8> {
    let mut body = vec![code::CHANGE_USER];
    body.extend(name.bytes());
    // No answer yet, no database, utf8mb4_general_ci, a plugin.
    body.extend([0, 0, 0, 45, 0]);
    body.extend(b"mysql_native_password\0");
    let mut out = Vec::new();
    frame::packet(&mut out, &mut 0, &body);
    client.send(&out);
    client.expect(1);
    let mut sequence = 2;
    let mut salt = [0; 20];
    loop {
        let packet = client.packet().unwrap();
        let answer = match packet.first() {
            Some(0xfe) => {
                let end = packet.iter().position(|b| *b == 0).unwrap();
                salt.copy_from_slice(&packet[end + 1..end + 21]);
                match &packet[1..end] {
                    b"caching_sha2_password" => sha2_answer(password.as_bytes(), &salt),
                    _ => native_answer(password.as_bytes(), &salt),
                }
            }
            Some(1) if packet[1] == 3 => {
                sequence += 1;
                continue;
            }
            Some(1) if packet[1] == 4 => vec![2],
            Some(1) => porpoise_wire::mysql::auth::encrypt_password(
                password.as_bytes(),
                &salt,
                &packet[1..],
            )
            .unwrap(),
            _ => return packet,
        };
        let mut out = Vec::new();
        frame::packet(&mut out, &mut sequence, &answer);
        client.send(&out);
        client.expect(sequence);
        sequence += 1;
    }
}

#[test]
fn root_gets_the_password_of_the_environment() {
    let server = Porpoise::builder()
        .env("PORPOISE_ROOT_PASSWORD", "first")
        .start();
    let error = Client::connect(server.mysql_addr, &How::default()).map(|_| ());
    assert_eq!(error.unwrap_err().code, 1045);
    let how = How {
        password: "first",
        ..How::default()
    };
    Client::connect(server.mysql_addr, &how).unwrap();
}

#[test]
fn the_last_place_is_root_s() {
    let mut server = Porpoise::builder().arg("--max-connections", "1").start();
    let mut first = Client::root(server.mysql_addr);
    first.good("CREATE USER open@localhost");
    let open = How {
        user: "open",
        ..How::default()
    };
    let error = Client::connect(server.mysql_addr, &open).map(|_| ());
    assert_eq!(error.unwrap_err().code, 1040);
    // The refused one keeps the place until its client has read the refusal.
    let mut second = server.wait_for("the last place", Duration::from_secs(20), || {
        Client::connect(server.mysql_addr, &How::default()).ok()
    });
    assert_eq!(second.good("SELECT 1").one(), "1");
    assert!(server.is_running());
}

#[test]
fn either_password_logs_in_until_the_second_is_discarded() {
    let server = server();
    let mut root = Client::root(server.mysql_addr);
    let logs_in = |how: &How, password: &'static str, tls: bool| {
        let how = How {
            password,
            tls,
            ..how.clone()
        };
        Client::connect(server.mysql_addr, &how).is_ok()
    };
    for how in [SHA2, NATIVE] {
        // The first password is known to the fast path, too.
        assert!(logs_in(&how, how.password, false));
        let name = how.user;
        root.good(&format!(
            "ALTER USER {name}@localhost IDENTIFIED BY 'next' RETAIN CURRENT PASSWORD"
        ));
        for tls in [false, true] {
            for password in [how.password, "next", how.password, "next"] {
                assert!(logs_in(&how, password, tls), "{name} {password} {tls}");
            }
            assert!(!logs_in(&how, "wrong", tls));
            assert!(!logs_in(&how, "", tls));
        }
        root.good(&format!("ALTER USER {name}@localhost DISCARD OLD PASSWORD"));
        assert!(logs_in(&how, "next", false));
        assert!(!logs_in(&how, how.password, false));
    }
}

#[test]
fn no_second_factor_is_offered() {
    /// CLIENT_MULTI_FACTOR_AUTHENTICATION
    const FACTORS: Capabilities = Capabilities(1 << 28);
    let server = Porpoise::builder().start();
    let mut c = Client::raw(server.mysql_addr);
    let greeting = c.packet().unwrap();
    let greeting = parse_greeting(&greeting).unwrap();
    assert!(greeting.capabilities.has(Capabilities::PLUGIN_AUTH));
    assert!(!greeting.capabilities.has(FACTORS));
    // A client that offers it nevertheless logs in as any other.
    let how = How {
        with: FACTORS,
        ..How::default()
    };
    let mut c = Client::connect(server.mysql_addr, &how).unwrap();
    assert_eq!(user(&mut c), "root@localhost");
}
