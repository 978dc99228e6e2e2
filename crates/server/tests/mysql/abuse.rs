//! Malformed input: it is answered or the connection is closed, and other clients are not affected.

use crate::client::Client;
use porpoise_testkit::Porpoise;
use porpoise_wire::mysql::command::code;
use porpoise_wire::mysql::frame;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Sends bytes to a fresh connection, ends the sending half, and reads all.
fn throw(server: &Porpoise, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.mysql_addr).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    // The server may have closed already.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// A stream of bytes that is the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn noise_before_login() {
    let server = Porpoise::builder().start();
    let mut noise = Noise(0x2545_F491_4F6C_DD1D);
    for round in 0..200 {
        let size = (noise.next() % 300) as usize;
        let mut bytes = Vec::new();
        if round % 2 == 0 {
            // Noise inside a well-formed packet.
            frame::packet(&mut bytes, &mut 1, &noise.bytes(size));
        } else {
            bytes = noise.bytes(size);
        }
        throw(&server, &bytes);
    }
    // A length that is claimed and never comes, and one that is too much.
    throw(&server, &[0xff, 0xff, 0x00, 1, 0, 0]);
    let refused = throw(&server, &[0xff, 0xff, 0x7f, 1]);
    assert!(refused.windows(2).any(|w| w == 1153u16.to_le_bytes()));
    assert_eq!(Client::root(server.mysql_addr).good("SELECT 1").one(), "1");
    let (_, metrics) = server.http("/metrics");
    assert!(metrics.contains("porpoise_session_panics_total 0"));
}

#[test]
fn noise_after_login() {
    let server = Porpoise::builder().start();
    let mut noise = Noise(0x9E37_79B9_7F4A_7C15);
    for _ in 0..60 {
        let mut c = Client::root(server.mysql_addr);
        for command in 0..32u8 {
            // Skips commands that end the connection or the server, have no reply, or change the user.
            let skipped = [
                code::QUIT,
                code::SHUTDOWN,
                code::STMT_SEND_LONG_DATA,
                code::STMT_CLOSE,
                code::CHANGE_USER,
            ];
            if skipped.contains(&command) {
                continue;
            }
            let size = (noise.next() % 40) as usize;
            let mut body = vec![command];
            body.extend(noise.bytes(size));
            let mut out = Vec::new();
            frame::packet(&mut out, &mut 0, &body);
            c.send(&out);
            c.expect(1);
            c.packet()
                .unwrap_or_else(|| panic!("closed after {body:?}"));
            // A new connection, because further packets of the reply are not read.
            let mut fresh = Client::root(server.mysql_addr);
            std::mem::swap(&mut c, &mut fresh);
        }
    }
    let (_, metrics) = server.http("/metrics");
    assert!(metrics.contains("porpoise_session_panics_total 0"));
}

#[test]
fn a_packet_out_of_order_ends_the_connection() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    let mut out = Vec::new();
    frame::packet(&mut out, &mut 5, &[code::PING]);
    c.send(&out);
    assert_eq!(c.last_words(0), Some(1156));
}

#[test]
fn malformed_commands_are_errors_that_keep_the_connection() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    for body in [&[][..], &[code::STMT_EXECUTE, 1], &[code::STMT_FETCH]] {
        let mut out = Vec::new();
        frame::packet(&mut out, &mut 0, body);
        c.send(&out);
        assert_eq!(c.answers(false)[0].code(), 1835, "{body:?}");
    }
    let id = c.prepare("SELECT ?").unwrap().id;
    let mut body = vec![code::STMT_EXECUTE];
    body.extend(id.to_le_bytes());
    body.extend([0, 1, 0, 0, 0]);
    let mut out = Vec::new();
    frame::packet(&mut out, &mut 0, &body);
    c.send(&out);
    assert_eq!(c.answers(true)[0].code(), 1835);
    assert_eq!(c.good("SELECT 1").one(), "1");
}

#[test]
fn a_half_closed_client_gets_its_replies() {
    let server = Porpoise::builder().start();
    let mut probe = Client::root(server.mysql_addr);
    probe.good("CREATE DATABASE d");
    probe.good("CREATE TABLE d.t (a INT)");
    let mut stream = TcpStream::connect(server.mysql_addr).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut bytes = Vec::new();
    // A login without a password, then two statements.
    let mut body = 0x0008_a200u32.to_le_bytes().to_vec();
    body.extend((1u32 << 24).to_le_bytes());
    body.push(45);
    body.extend([0; 23]);
    body.extend(b"root\0\0caching_sha2_password\0");
    frame::packet(&mut bytes, &mut 1, &body);
    for text in ["INSERT INTO d.t VALUES (1)", "SELECT 'the end'"] {
        let mut body = vec![code::QUERY];
        body.extend(text.bytes());
        frame::packet(&mut bytes, &mut 0, &body);
    }
    stream.write_all(&bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.windows(7).any(|w| w == b"the end"), "{answer:?}");
    assert_eq!(probe.good("SELECT COUNT(*) FROM d.t").one(), "1");
}

#[test]
fn deep_nesting_is_an_error_not_an_end() {
    let server = Porpoise::builder().start();
    let mut c = Client::root(server.mysql_addr);
    for (open, close) in [("(", ")"), ("NOT ", ""), ("-", ""), ("ABS(", ")")] {
        let text = format!("SELECT {}1{}", open.repeat(100_000), close.repeat(100_000));
        assert_ne!(c.query(&text).code(), 0, "{open}");
    }
    assert_eq!(c.good("SELECT 1").one(), "1");
}
