//! Random bytes before login, in pieces of random lengths.

use crate::packets::{capabilities, error, login, put, split};
use crate::talk::{Ending, exchange};
use crate::watch::Watched;
use crate::{LONG, SHORT};
use porpoise_testkit::{Porpoise, Random};
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::command::code;

/// Bytes of a client that may never have seen the protocol.
fn bytes(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sequence = 1;
    for _ in 0..1 + random.below(5) {
        let mut caps = capabilities(random);
        match random.below(6) {
            0 => caps.0 ^= 1 << random.below(32),
            1 => caps.0 = random.bits() as u32,
            2 => caps.0 |= Capabilities::SSL.0,
            _ => {}
        }
        let user = *random.pick(&["fuzz", "root", "", "nobody", "f\u{fc}zz"]);
        let database = *random.pick(&["fuzz", "", "none", "mysql"]);
        let payload = login(caps, user, database);
        let payload = match random.below(8) {
            0 => payload[..payload.len().min(32)].to_vec(),
            1 => {
                let size = random.below(300);
                random.bytes(size)
            }
            2 => vec![0; random.below(100_000)],
            3 => vec![code::QUERY, b'X'],
            4 | 5 => random.mutate(&payload),
            _ => payload,
        };
        match random.below(10) {
            // Lengths of data that never comes, and lengths beyond the maximum.
            0 => out.extend([0xff, 0xff, random.bits() as u8 % 3, sequence]),
            1 => out.extend([0xff, 0xff, 0xff, sequence]),
            2 => {
                let size = random.below(64);
                out.extend(random.bytes(size));
            }
            3 => put(&mut out, random.bits() as u8, &payload),
            _ => {
                put(&mut out, sequence, &payload);
                sequence = sequence.wrapping_add(*random.pick(&[0, 1, 2]));
            }
        }
    }
    out
}

fn case(random: &mut Random, server: &Porpoise) {
    let sent = bytes(random);
    let (got, ending) = exchange(server.mysql_addr, random, &sent);
    assert_ne!(ending, Ending::Silent, "{}", sent.escape_ascii());
    if ending == Ending::Closed {
        let (packets, left) = split(&got);
        // A client that requested TLS but sent no handshake gets a TLS alert.
        let alert = got.windows(2).any(|w| w == [0x15, 3]);
        // One that happened to log in with compression gets compressed packets.
        let logged_in = packets
            .iter()
            .skip(1)
            .any(|(_, payload)| payload.first() == Some(&0));
        assert!(left == 0 || alert || logged_in, "{}", got.escape_ascii());
        for (_, payload) in packets {
            // No error number of an internal error.
            assert_ne!(error(payload), Some(1815), "{}", sent.escape_ascii());
        }
    }
}

#[test]
fn any_bytes_before_login() {
    Watched::start().run(SHORT, 600, case);
}

#[test]
#[ignore = "long: minutes of random bytes"]
fn any_bytes_before_login_for_long() {
    Watched::start().run(LONG, u64::MAX, case);
}
