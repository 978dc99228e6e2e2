//! The transcripts of memcached 1.6.18 in `tests/memcached` of the workspace,
//! played against the real binary. `record.py` beside them describes their
//! form.

use crate::transcript_files::{Part, Step, parts, steps, transcripts};
use porpoise_testkit::Porpoise;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// How far what was received matches: `Some(cas)` when wholly.
fn matches(expected: &[String], received: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut rest = received;
    let mut cas = None;
    for part in expected.iter().flat_map(|line| parts(line)) {
        let used = match part {
            Part::Bytes(bytes) => rest.starts_with(&bytes).then_some(bytes.len())?,
            Part::Any => rest.iter().take_while(|b| !b"\r\n".contains(b)).count(),
            Part::Cas => {
                let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
                cas = Some(rest[..digits].to_vec());
                (digits > 0).then_some(digits)?
            }
            Part::Cas8 => {
                cas = Some(rest.get(..8)?.to_vec());
                8
            }
        };
        rest = &rest[used..];
    }
    rest.is_empty().then_some(cas)
}

/// Reads until the step's answer is there, or the connection ends, or nothing
/// more comes.
fn receive(stream: &mut TcpStream, step: &Step) -> (Vec<u8>, bool) {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if !step.closed && matches(&step.received, &received).is_some() {
            return (received, false);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return (received, true),
            Ok(n) => received.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return (received, true),
            Err(_) => return (received, false),
        }
    }
}

fn play(address: SocketAddr, path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let patience = Duration::from_secs(5);
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut cas = Vec::new();
    for step in steps(&text) {
        let mut sent = Vec::new();
        for part in step.sent.iter().flat_map(|line| parts(line)) {
            match part {
                Part::Bytes(bytes) => sent.extend(bytes),
                Part::Cas | Part::Cas8 => sent.extend(&cas),
                Part::Any => panic!("{{any}} cannot be sent"),
            }
        }
        // A connection that is being closed may not take all of it.
        let _ = stream.write_all(&sent);
        let (received, closed) = receive(&mut stream, &step);
        let Some(seen) = matches(&step.received, &received) else {
            let shown = received.escape_ascii();
            panic!("{}: {step:?}\nreceived {shown}", path.display());
        };
        cas = seen.unwrap_or(cas);
        assert_eq!(closed, step.closed, "{} {step:?}", path.display());
    }
}

#[test]
fn transcripts_of_memcached_are_answered_the_same() {
    let server = Porpoise::builder()
        .arg("--mysql-listen", "off")
        .arg("--durability", "sync")
        .start();
    for path in transcripts() {
        server.memcached("flush_all\r\n");
        play(server.memcached_addr, &path);
    }
}
