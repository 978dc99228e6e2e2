//! Packets of the MySQL protocol as a fuzzer makes and reads them.

use porpoise_testkit::Random;
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::frame::{self, HEADER};
use std::ops::RangeInclusive;

/// Bits of capabilities that make the server read what follows in another way, without compression.
pub fn capabilities(random: &mut Random) -> Capabilities {
    let flips = [
        Capabilities::FOUND_ROWS,
        Capabilities::MULTI_STATEMENTS,
        Capabilities::MULTI_RESULTS,
        Capabilities::PS_MULTI_RESULTS,
        Capabilities::SESSION_TRACK,
        Capabilities::DEPRECATE_EOF,
        Capabilities::QUERY_ATTRIBUTES,
        Capabilities::OPTIONAL_RESULTSET_METADATA,
        Capabilities::IGNORE_SPACE,
        Capabilities::LOCAL_FILES,
        Capabilities::CONNECT_ATTRS,
    ];
    let mut caps = Capabilities::SERVER | Capabilities::CONNECT_WITH_DB;
    for bit in flips {
        if random.once_in(2) {
            caps.0 ^= bit.0;
        }
    }
    caps
}

/// A login of the user `fuzz`, who has no password, in the form that the bits ask for.
pub fn login(caps: Capabilities, user: &str, database: &str) -> Vec<u8> {
    let mut body = caps.0.to_le_bytes().to_vec();
    body.extend((1u32 << 24).to_le_bytes());
    body.push(45);
    body.extend([0; 23]);
    body.extend(user.as_bytes());
    // The user's end, and an answer of no bytes: a length of 0, or an end.
    body.extend([0, 0]);
    if caps.has(Capabilities::CONNECT_WITH_DB) {
        body.extend(database.as_bytes());
        body.push(0);
    }
    if caps.has(Capabilities::PLUGIN_AUTH) {
        body.extend(b"caching_sha2_password\0");
    }
    if caps.has(Capabilities::CONNECT_ATTRS) {
        body.extend(b"\x0d\x05_name\x06fuzzer");
    }
    body
}

/// Appends a payload as packets that begin with a sequence number.
pub fn put(out: &mut Vec<u8>, sequence: u8, payload: &[u8]) {
    frame::packet(out, &mut { sequence }, payload);
}

/// One packet of the server: sequence number and payload.
pub type Packet<'a> = (u8, &'a [u8]);

/// Splits the server's output into packets. Also returns the number of bytes of an incomplete
/// packet at the end.
pub fn split(mut bytes: &[u8]) -> (Vec<Packet<'_>>, usize) {
    let mut all = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(HEADER) {
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]);
        let Some((payload, rest)) = rest.split_at_checked(length as usize) else {
            break;
        };
        all.push((head[3], payload));
        bytes = rest;
    }
    (all, bytes.len())
}

/// Number of replies in the packets: a reply begins with the number 1. After the number 0 it may as
/// well be one of very many packets going on, so there is a least and a greatest number.
pub fn answers(packets: &[Packet<'_>]) -> RangeInclusive<usize> {
    let (mut least, mut most) = (0, 0);
    let mut before = None;
    for (sequence, _) in packets {
        match (before, *sequence) {
            (Some(0), 1) => most += 1,
            (_, 1) => {
                least += 1;
                most += 1;
            }
            (Some(b), s) if s == u8::wrapping_add(b, 1) => {}
            // An error packet that the server sends on its own initiative, before it closes the
            // connection, has number 0.
            (_, 0) => {}
            (b, s) => panic!("packet {s} after {b:?}"),
        }
        before = Some(*sequence);
    }
    least..=most
}

/// The number of an ERR packet.
pub fn error(payload: &[u8]) -> Option<u16> {
    match payload {
        [0xff, low, high, ..] => Some(u16::from_le_bytes([*low, *high])),
        _ => None,
    }
}
