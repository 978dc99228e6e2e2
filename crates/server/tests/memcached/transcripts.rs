//! The transcripts of memcached 1.6.18 in `tests/memcached` of the workspace,
//! played against the real binary. `record.py` beside them describes their
//! form.

#[path = "../../../wire/tests/support/transcript.rs"]
mod transcript;

use porpoise_testkit::Porpoise;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use transcript::{Part, Step, matches, parts, steps};

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
    let transcripts = transcript::all();
    assert!(transcripts.len() >= 80, "{} transcripts", transcripts.len());
    for path in transcripts {
        server.memcached("flush_all\r\n");
        play(server.memcached_addr, &path);
    }
}
