//! Commands after login in random order, with random payloads and capabilities: each is answered
//! once, or the connection is closed.

use crate::packets::{answers, capabilities, error, login, put, split};
use crate::requests::{Reply, command};
use crate::talk::{Ending, exchange, exchange_politely};
use crate::watch::Watched;
use crate::{LONG, SHORT};
use porpoise_testkit::{Porpoise, Random};
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::client;
use porpoise_wire::mysql::command::code;

/// Tables that the commands use, and may drop.
const TABLES: &[&str] = &[
    "CREATE DATABASE IF NOT EXISTS fuzz",
    "CREATE TABLE IF NOT EXISTS fuzz.t (id INT AUTO_INCREMENT PRIMARY KEY, n INT DEFAULT 1, \
     s VARCHAR(2000), b BLOB, d DATETIME(6), UNIQUE (n, id), KEY (s(20)))",
    "INSERT IGNORE INTO fuzz.t (id, n, s, d) VALUES (1, 1, 'a', NOW()), (2, 3, 'b', NULL), \
     (3, 2, NULL, NOW(6)), (4, 4, REPEAT('z', 2000), NULL)",
    "DELETE FROM fuzz.t WHERE id > 1000",
    "USE fuzz",
];

fn case(random: &mut Random, server: &Porpoise) {
    let caps = capabilities(random);
    let mut sent = Vec::new();
    put(&mut sent, 1, &login(caps, "fuzz", "fuzz"));
    let caps = Capabilities(caps.0 & Capabilities::SERVER.0);
    for statement in TABLES {
        client::query(&mut sent, caps, statement.as_bytes(), &[]);
    }
    // How many answers there must be, and how many there may be.
    let (mut least, mut most) = (TABLES.len(), TABLES.len());
    let mut over = false;
    let mut kinds = Vec::new();
    for _ in 0..1 + random.below(30) {
        let (reply, payload) = command(random, caps);
        kinds.push(payload.first().copied());
        put(&mut sent, 0, &payload);
        over |= reply == Reply::Last;
        most += 1;
        least += usize::from(reply == Reply::One && !over);
    }
    put(&mut sent, 0, &[code::PING]);
    put(&mut sent, 0, &[code::QUIT]);
    // During a change of user the server may not take the last packets as commands.
    let (got, ending) = if over {
        exchange(server.mysql_addr, random, &sent)
    } else {
        exchange_politely(server.mysql_addr, random, &sent)
    };
    assert_ne!(ending, Ending::Silent, "{kinds:?}");
    let (packets, left) = split(&got);
    if ending == Ending::Reset {
        return;
    }
    // The greeting has the number 0, the answer to the login 2.
    let after_login = packets.get(2..).unwrap_or_default();
    if let Some((sequence, payload)) = packets.get(1) {
        assert_eq!((*sequence, payload.first()), (2, Some(&0)), "login");
    }
    for (_, payload) in after_login {
        assert_ne!(error(payload), Some(1815), "{}", payload.escape_ascii());
    }
    if over {
        return;
    }
    assert_eq!(left, 0, "{kinds:?}");
    let found = answers(after_login);
    let closed = after_login
        .last()
        .is_none_or(|last| error(last.1).is_some());
    assert!(
        *found.end() > least || closed,
        "{found:?} answers to {kinds:?}, at least {least}: {}",
        sent.escape_ascii()
    );
    assert!(*found.start() <= most + 1, "{found:?} answers to {kinds:?}");
}

#[test]
fn any_order_of_commands() {
    Watched::start().run(SHORT, 300, case);
}

#[test]
#[ignore = "long: minutes of random commands"]
fn any_order_of_commands_for_long() {
    Watched::start().run(LONG, u64::MAX, case);
}
