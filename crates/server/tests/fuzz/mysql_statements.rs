//! Statements of the other tests, mutated, run in their order on the sessions' own threads.

use crate::corpus;
use crate::packets::{error, login, put, split};
use crate::talk::{Ending, exchange};
use crate::watch::Watched;
use crate::{LONG, SHORT};
use porpoise_testkit::{Porpoise, Random};
use porpoise_wire::mysql::{Capabilities, client};

fn case(random: &mut Random, server: &Porpoise) {
    let caps = Capabilities::SERVER | Capabilities::CONNECT_WITH_DB;
    let mut sent = Vec::new();
    put(&mut sent, 1, &login(caps, "fuzz", ""));
    for statement in ["CREATE DATABASE IF NOT EXISTS fuzz", "USE fuzz"] {
        client::query(&mut sent, caps, statement.as_bytes(), &[]);
    }
    let file = random.pick(corpus::files());
    let first = random.below(file.len()).saturating_sub(20);
    let mut texts = Vec::new();
    for statement in file.iter().skip(first).take(40) {
        let text = match random.below(3) {
            0 => corpus::mutated(random, statement),
            _ => statement.clone().into_bytes(),
        };
        client::query(&mut sent, caps, &text, &[]);
        texts.push(text);
    }
    let (got, ending) = exchange(server.mysql_addr, random, &sent);
    assert_ne!(ending, Ending::Silent, "{}", shown(&texts));
    let (packets, _) = split(&got);
    if ending == Ending::Closed {
        // The greeting, the login, and an answer to each statement.
        assert!(packets.len() >= 2 + 2, "{packets:?} to {}", shown(&texts));
    }
    for (_, payload) in packets {
        let internal = error(payload) == Some(1815);
        assert!(!internal, "{}\n{}", payload.escape_ascii(), shown(&texts));
    }
}

fn shown(texts: &[Vec<u8>]) -> String {
    let lines = texts.iter().map(|text| text.escape_ascii().to_string());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn mutated_statements() {
    Watched::start().run(SHORT, 200, case);
}

#[test]
#[ignore = "long: minutes of mutated statements"]
fn mutated_statements_for_long() {
    Watched::start().run(LONG, u64::MAX, case);
}
