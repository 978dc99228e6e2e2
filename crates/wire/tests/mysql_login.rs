//! Logging in: both halves against each other, and logins captured from other
//! clients.

use crate::support::Random;
use porpoise_base::password;
use porpoise_wire::mysql::auth::{self, Plugin, RsaKey, Sha2Stage2};
use porpoise_wire::mysql::client::login::{ClientLogin, Credentials, Step, WANTED, parse_greeting};
use porpoise_wire::mysql::frame::{self, PacketReader};
use porpoise_wire::mysql::handshake::{ClientHello, Greeting, Salt, parse_hello, random_salt};
use porpoise_wire::mysql::login::{Account, Login, Next, SecondPassword};
use porpoise_wire::mysql::reply;
use porpoise_wire::mysql::{Capabilities, Status};

const SALT: Salt = *b"abcdefghijklmnopqrst";

/// Stored form of a password in `mysql.user`.
fn stored(plugin: Plugin, secret: &[u8]) -> Vec<u8> {
    match plugin {
        Plugin::Native => password::native(secret),
        Plugin::CachingSha2 => {
            password::caching_sha2(secret, &password::salt().expect("random numbers"))
        }
    }
}

fn greeting(plugin: Plugin) -> Vec<u8> {
    let mut out = Vec::new();
    let greeting = Greeting {
        server_version: "8.0.36-porpoise",
        connection_id: 7,
        salt: &SALT,
        capabilities: Capabilities::SERVER,
        collation: 45,
        status: Status::AUTOCOMMIT,
        plugin: plugin.name(),
    };
    greeting.write(&mut out, &mut 0);
    out
}

/// Payloads of a stream whose numbers begin at `first`.
fn payloads(stream: &[u8], first: u8) -> Vec<Vec<u8>> {
    let mut reader = PacketReader::before_login();
    reader.expect(first);
    let mut rest = stream.to_vec();
    let mut found = Vec::new();
    while let Ok(frame::FrameStep::Packet { payload, consumed }) = reader.next(&mut rest) {
        found.push(rest[payload].to_vec());
        rest.drain(..consumed);
    }
    assert!(rest.is_empty());
    found
}

struct Case {
    greeted: Plugin,
    account: Option<(Plugin, &'static str)>,
    cached_hash: bool,
    password: &'static str,
    secure: bool,
}

/// Runs both halves to their end: what the client and the server conclude,
/// and how many packets the server sent.
fn run(case: &Case, rsa: Option<&RsaKey>) -> (Step, Option<Option<Sha2Stage2>>, usize) {
    let hello = payloads(&greeting(case.greeted), 0).remove(0);
    let parsed = parse_greeting(&hello).expect("greeting");
    let credentials = Credentials {
        user: b"someone".to_vec(),
        password: case.password.as_bytes().to_vec(),
        database: b"test".to_vec(),
        attributes: vec![(b"program_name".to_vec(), b"p".to_vec())],
    };
    let mut client = ClientLogin::new(&parsed, credentials, WANTED, case.secure);
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut number = 1;
    client.start(&mut to_server, &mut number);
    let secret = case
        .account
        .map(|(plugin, password)| stored(plugin, password.as_bytes()));
    let account = case
        .account
        .zip(secret.as_deref())
        .map(|((plugin, password), secret)| Account {
            plugin,
            secret,
            cached_hash: case
                .cached_hash
                .then(|| auth::sha2_stage2(password.as_bytes())),
            second: None,
        });
    let mut server = Login::new(account, Plugin::CachingSha2, SALT, case.secure);
    let request = payloads(&to_server, 1).remove(0);
    let Ok(ClientHello::Login(login)) = parse_hello(&request, Capabilities::SERVER) else {
        panic!("no login request");
    };
    assert_eq!(
        (login.user, login.database),
        (&b"someone"[..], &b"test"[..])
    );
    assert_eq!(
        login.attributes.collect::<Vec<_>>(),
        [(&b"program_name"[..], &b"p"[..])]
    );
    let mut next = server.start(login.plugin, login.auth, &mut to_client, &mut number);
    let mut sent = 0;
    loop {
        if let Next::Granted(_) = next {
            reply::write_ok(
                &mut to_client,
                &mut number,
                client.capabilities(),
                &reply::Ok::default(),
            );
        } else if next == Next::Denied {
            reply::write_error(
                &mut to_client,
                &mut number,
                1045,
                *b"28000",
                "Access denied",
            );
        }
        to_server.clear();
        let first = to_client[3];
        let mut step = Step::Wait;
        let mut answer_at = first;
        for packet in payloads(&to_client, first) {
            sent += 1;
            answer_at += 1;
            let mut number = answer_at;
            step = client.more(&packet, &mut to_server, &mut number);
        }
        to_client.clear();
        match next {
            Next::Granted(remember) => return (step, Some(remember), sent),
            Next::Denied => return (step, None, sent),
            Next::Wait => {}
        }
        assert_eq!(step, Step::Wait);
        let packet = payloads(&to_server, answer_at).remove(0);
        number = answer_at + 1;
        next = server.more(&packet, rsa, &mut to_client, &mut number);
    }
}

fn case(account: Option<(Plugin, &'static str)>, password: &'static str) -> Case {
    Case {
        greeted: Plugin::CachingSha2,
        account,
        cached_hash: false,
        password,
        secure: true,
    }
}

#[test]
fn the_right_password_logs_in_by_every_way() {
    let rsa = RsaKey::generate().expect("key");
    for account in [Plugin::Native, Plugin::CachingSha2] {
        for greeted in [Plugin::Native, Plugin::CachingSha2] {
            for secure in [false, true] {
                for cached_hash in [false, true] {
                    for password in ["", "x", "a rather long password of many words"] {
                        let case = Case {
                            greeted,
                            account: Some((account, password)),
                            cached_hash,
                            password,
                            secure,
                        };
                        let (step, granted, _) = run(&case, Some(&rsa));
                        let way =
                            format!("{account:?} {greeted:?} {secure} {cached_hash} {password}");
                        assert_eq!(step, Step::Done, "{way}");
                        let full =
                            account == Plugin::CachingSha2 && !cached_hash && !password.is_empty();
                        let remember = full.then(|| auth::sha2_stage2(password.as_bytes()));
                        assert_eq!(granted, Some(remember), "{way}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_fast_path_takes_two_packets_and_the_full_one_too() {
    let account = Some((Plugin::CachingSha2, "x"));
    let full = run(&case(account, "x"), None);
    assert_eq!(full.2, 2);
    let fast = Case {
        cached_hash: true,
        ..case(account, "x")
    };
    assert_eq!(run(&fast, None).2, 2);
}

#[test]
fn wrong_passwords_and_unknown_users_are_denied() {
    let rsa = RsaKey::generate().expect("key");
    for account in [
        None,
        Some((Plugin::Native, "right")),
        Some((Plugin::CachingSha2, "right")),
        Some((Plugin::Native, "")),
        Some((Plugin::CachingSha2, "")),
    ] {
        for password in ["wrong", "", "righ", "right\0"] {
            for (secure, cached_hash) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                if account.is_some_and(|(_, right)| right == password) {
                    continue;
                }
                let case = Case {
                    secure,
                    cached_hash,
                    ..case(account, password)
                };
                let (step, granted, _) = run(&case, Some(&rsa));
                assert!(
                    matches!(step, Step::Refused(e) if e.code == 1045),
                    "{account:?} {password}"
                );
                assert_eq!(granted, None);
            }
        }
    }
}

#[test]
fn a_password_is_never_taken_in_clear_over_an_open_channel() {
    let secret = stored(Plugin::CachingSha2, b"x");
    let account = Account {
        plugin: Plugin::CachingSha2,
        secret: &secret,
        cached_hash: None,
        second: None,
    };
    let mut login = Login::new(Some(account), Plugin::CachingSha2, SALT, false);
    let (mut out, mut number) = (Vec::new(), 2);
    let answer = auth::sha2_answer(b"x", &SALT);
    let plugin = Plugin::CachingSha2.name().as_bytes();
    assert_eq!(
        login.start(plugin, &answer, &mut out, &mut number),
        Next::Wait
    );
    assert_eq!(
        login.more(b"x\0", None, &mut out, &mut number),
        Next::Denied
    );
    assert_eq!(
        login.more(b"x\0", None, &mut out, &mut number),
        Next::Denied
    );
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16);
    digits
        .chunks(2)
        .map(|pair| byte(pair).expect("hexadecimal"))
        .collect()
}

/// The login of the `mariadb` command line client 10.11 (user root, password
/// secret, database test), answering this greeting.
const MARIADB_CLIENT: &str = "
    e10000018da2bf0000000001210000000000000000000000000000000000000000000000726f6f740020c76e2898
    612a4cf042c77fa8c4702c4c64c0c2c557c53c4d75595aaa6abae809746573740063616368696e675f736861325f
    70617373776f7264007f035f6f73054c696e75780c5f636c69656e745f6e616d650a6c69626d617269616462045f
    7069640531393036350f5f636c69656e745f76657273696f6e06332e332e3230095f706c6174666f726d06783836
    5f36340c70726f6772616d5f6e616d65056d7973716c0c5f7365727665725f686f7374093132372e302e302e31";

#[test]
fn the_login_of_the_mariadb_client_is_understood() {
    let packet = payloads(&unhex(MARIADB_CLIENT), 1).remove(0);
    let Ok(ClientHello::Login(login)) = parse_hello(&packet, Capabilities::SERVER) else {
        panic!("no login request");
    };
    assert_eq!(login.user, b"root");
    assert_eq!(login.database, b"test");
    assert_eq!(login.plugin, b"caching_sha2_password");
    assert!(login.capabilities.has(Capabilities::SESSION_TRACK));
    assert!(!login.capabilities.has(Capabilities::DEPRECATE_EOF));
    assert!(!login.capabilities.has(Capabilities::QUERY_ATTRIBUTES));
    let names: Vec<_> = login.attributes.map(|(name, _)| name).collect();
    assert_eq!(names.len(), 7);
    assert_eq!(names[0], b"_os");
    let stage2 = auth::sha2_stage2(b"secret");
    assert!(auth::sha2_verify_fast(login.auth, &SALT, &stage2));
}

#[test]
fn a_request_for_tls_is_told_from_a_login() {
    let hello = payloads(&greeting(Plugin::Native), 0).remove(0);
    let mut parsed = parse_greeting(&hello).expect("greeting");
    parsed.capabilities = parsed.capabilities | Capabilities::SSL;
    let mut client = ClientLogin::new(&parsed, Credentials::default(), WANTED, false);
    let (mut out, mut number) = (Vec::new(), 1);
    client.request_tls(&mut out, &mut number);
    let request = payloads(&out, 1).remove(0);
    let offer = Capabilities::SERVER | Capabilities::SSL;
    assert!(matches!(
        parse_hello(&request, offer),
        Ok(ClientHello::Tls { .. })
    ));
    // Not where TLS was not offered.
    assert!(parse_hello(&request, Capabilities::SERVER).is_err());
    out.clear();
    client.start(&mut out, &mut number);
    assert!(matches!(
        parse_hello(&payloads(&out, 2)[0], offer),
        Ok(ClientHello::Login(_))
    ));
}

#[test]
fn challenges_are_random_and_free_of_special_bytes() {
    let mut seen = std::collections::HashSet::new();
    for _ in 0..200 {
        let salt = random_salt().expect("random numbers");
        assert!(
            salt.iter().all(|&b| b != 0 && b < 0x80 && b != b'$'),
            "{salt:?}"
        );
        assert!(seen.insert(salt));
    }
}

#[test]
fn mutated_logins_never_panic() {
    let valid = payloads(&unhex(MARIADB_CLIENT), 1).remove(0);
    let hello = payloads(&greeting(Plugin::Native), 0).remove(0);
    let mut random = Random(5);
    for _ in 0..100_000 {
        let bytes = random.mutate(&valid);
        if let Ok(ClientHello::Login(login)) = parse_hello(&bytes, Capabilities::SERVER) {
            let read: usize = login.attributes.map(|(n, v)| n.len() + v.len()).sum();
            assert!(read <= bytes.len());
        }
        parse_greeting(&random.mutate(&hello));
    }
}

/// Returns the packets that a server sends, and its decision after each step, for a login to this
/// account with this password.
fn course(
    account: Option<(Plugin, &[u8])>,
    decoy: Plugin,
    password: &[u8],
) -> (Vec<u8>, Vec<Next>) {
    let account = account.map(|(plugin, secret)| Account {
        plugin,
        secret,
        cached_hash: None,
        second: None,
    });
    let mut login = Login::new(account, decoy, SALT, true);
    let (mut out, mut number) = (Vec::new(), 2);
    let answer = auth::sha2_answer(password, &SALT);
    let plugin = Plugin::CachingSha2.name().as_bytes();
    let mut steps = vec![login.start(plugin, &answer, &mut out, &mut number)];
    while steps.last() == Some(&Next::Wait) && steps.len() < 5 {
        steps.push(login.more(b"wrong\0", None, &mut out, &mut number));
    }
    (out, steps)
}

#[test]
fn unknown_and_passwordless_accounts_take_the_course_of_a_wrong_password() {
    let secret = stored(Plugin::CachingSha2, b"right");
    let known = course(
        Some((Plugin::CachingSha2, &secret)),
        Plugin::CachingSha2,
        b"wrong",
    );
    assert_eq!(known.1, [Next::Wait, Next::Denied]);
    assert_eq!(course(None, Plugin::CachingSha2, b"wrong"), known);
    let open = course(
        Some((Plugin::CachingSha2, b"")),
        Plugin::CachingSha2,
        b"wrong",
    );
    assert_eq!(open, known);
    let native = stored(Plugin::Native, b"right");
    let known = course(
        Some((Plugin::Native, &native)),
        Plugin::CachingSha2,
        b"wrong",
    )
    .1;
    assert_eq!(known, [Next::Wait, Next::Denied]);
    assert_eq!(course(None, Plugin::Native, b"wrong").1, known);
}

#[test]
fn either_password_proves_an_account() {
    let rsa = RsaKey::generate().expect("key");
    for plugin in [Plugin::Native, Plugin::CachingSha2] {
        let (first, second) = (stored(plugin, b"new"), stored(plugin, b"old"));
        for (password, cached_hash) in [
            (&b"new"[..], false),
            (b"old", false),
            (b"new", true),
            (b"old", true),
            (b"wrong", true),
        ] {
            let stage2 = |of: &[u8]| cached_hash.then(|| auth::sha2_stage2(of));
            let account = Account {
                plugin,
                secret: &first,
                cached_hash: stage2(b"new"),
                second: Some(SecondPassword {
                    secret: &second,
                    cached_hash: stage2(b"old"),
                }),
            };
            let mut login = Login::new(Some(account), plugin, SALT, false);
            let (mut out, mut number) = (Vec::new(), 2);
            let answer = match plugin {
                Plugin::Native => auth::native_answer(password, &SALT).to_vec(),
                Plugin::CachingSha2 => auth::sha2_answer(password, &SALT).to_vec(),
            };
            let name = plugin.name().as_bytes();
            let mut next = login.start(name, &answer, &mut out, &mut number);
            let asked = next == Next::Wait;
            if asked {
                let key = rsa.public_pem().as_bytes();
                let wanted = login.more(&[2], Some(&rsa), &mut out, &mut number);
                assert_eq!(wanted, Next::Wait);
                let sealed = auth::encrypt_password(password, &SALT, key).expect("sealed");
                next = login.more(&sealed, Some(&rsa), &mut out, &mut number);
            }
            let proved = matches!(next, Next::Granted(_));
            assert_eq!(proved, password != b"wrong", "{plugin:?} {password:?}");
            assert_eq!(login.is_by_second_password(), password == b"old");
            let fast = plugin == Plugin::Native || cached_hash;
            assert_eq!(asked, !(fast && proved) && plugin == Plugin::CachingSha2);
        }
    }
}

#[test]
fn a_second_check_fails_without_a_second_password() {
    for plugin in [Plugin::Native, Plugin::CachingSha2] {
        let secret = stored(plugin, b"right");
        for (known, password) in [(true, "right"), (true, "wrong"), (false, "right")] {
            let account = known.then_some(Account {
                plugin,
                secret: &secret,
                cached_hash: None,
                second: None,
            });
            let mut login = Login::new(account, plugin, SALT, true).with_decoy_second_password();
            let (mut out, mut number) = (Vec::new(), 2);
            let answer = match plugin {
                Plugin::Native => auth::native_answer(password.as_bytes(), &SALT).to_vec(),
                Plugin::CachingSha2 => auth::sha2_answer(password.as_bytes(), &SALT).to_vec(),
            };
            let name = plugin.name().as_bytes();
            let mut next = login.start(name, &answer, &mut out, &mut number);
            if next == Next::Wait {
                let password = format!("{password}\0");
                next = login.more(password.as_bytes(), None, &mut out, &mut number);
            }
            let proved = matches!(next, Next::Granted(_));
            assert_eq!(
                proved,
                known && password == "right",
                "{plugin:?} {password}"
            );
            assert!(!login.is_by_second_password());
        }
    }
}
