//! The transcripts of memcached 1.6.18 in `tests/memcached` of the workspace,
//! played against the real binary. `record.py` beside them describes their
//! form.

use porpoise_testkit::Porpoise;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Default)]
struct Step {
    sent: Vec<String>,
    received: Vec<String>,
    closed: bool,
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = vec![Step::default()];
    for line in text.lines() {
        let last = steps.last_mut().unwrap();
        if let Some(sent) = line.strip_prefix("> ") {
            if last.received.is_empty() && !last.closed {
                last.sent.push(sent.to_owned());
            } else {
                steps.push(Step {
                    sent: vec![sent.to_owned()],
                    ..Step::default()
                });
            }
        } else if let Some(received) = line.strip_prefix("< ") {
            last.received.push(received.to_owned());
        } else if line == "! closed" {
            last.closed = true;
        }
    }
    steps
}

/// A part of an escaped text.
enum Part {
    Bytes(Vec<u8>),
    Any,
    Cas,
    /// Eight bytes in place of digits.
    Cas8,
}

fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        parts.push(Part::Bytes(rest.as_bytes()[..at].to_vec()));
        let escaped = &rest[at + 1..];
        let (part, used) = match escaped.as_bytes()[0] {
            b'r' => (Part::Bytes(b"\r".to_vec()), 1),
            b'n' => (Part::Bytes(b"\n".to_vec()), 1),
            b't' => (Part::Bytes(b"\t".to_vec()), 1),
            b'\\' => (Part::Bytes(b"\\".to_vec()), 1),
            b'x' => {
                let byte = u8::from_str_radix(&escaped[1..3], 16).unwrap();
                (Part::Bytes(vec![byte]), 3)
            }
            b'{' => {
                let end = escaped.find('}').unwrap();
                let part = match &escaped[1..end] {
                    "any" => Part::Any,
                    "cas" => Part::Cas,
                    "cas8" => Part::Cas8,
                    repeated => {
                        let (text, count) = repeated.split_once('*').unwrap();
                        Part::Bytes(text.repeat(count.parse().unwrap()).into_bytes())
                    }
                };
                (part, end + 1)
            }
            other => panic!("escape {other}"),
        };
        parts.push(part);
        rest = &escaped[used..];
    }
    parts.push(Part::Bytes(rest.as_bytes().to_vec()));
    parts
}

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

fn transcripts() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/memcached");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 80, "{} transcripts", paths.len());
    paths
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
