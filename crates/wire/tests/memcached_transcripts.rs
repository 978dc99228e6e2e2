//! The transcripts of memcached 1.6.18 in `tests/memcached` of the workspace,
//! played against the parser and the reply writers, in one piece and byte by
//! byte. `record.py` beside them plays them against a real memcached and
//! describes their form.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it does not expect"
)]

mod support;

use std::path::{Path, PathBuf};

use support::cache::Connection;

#[derive(Debug, Default)]
struct Step {
    sent: Vec<String>,
    received: Vec<String>,
    closed: bool,
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = vec![Step::default()];
    for line in text.lines() {
        let last = steps.last_mut().expect("there is one");
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
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "{line}");
        }
    }
    steps
}

/// A part of an escaped text.
enum Part {
    Bytes(Vec<u8>),
    Any,
    Cas,
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
                let byte = u8::from_str_radix(&escaped[1..3], 16).expect("hexadecimal");
                (Part::Bytes(vec![byte]), 3)
            }
            b'{' => {
                let end = escaped.find('}').expect("closed");
                let part = match &escaped[1..end] {
                    "any" => Part::Any,
                    "cas" => Part::Cas,
                    repeated => {
                        let (text, count) = repeated.split_once('*').expect("TEXT*N");
                        Part::Bytes(text.repeat(count.parse().expect("N")).into_bytes())
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

/// Matches what was received; answers the last number that `{cas}` met.
fn matches(expected: &[String], received: &[u8]) -> Option<Option<String>> {
    let mut rest = received;
    let mut cas = None;
    for part in expected.iter().flat_map(|line| parts(line)) {
        let used = match part {
            Part::Bytes(bytes) => rest.starts_with(&bytes).then_some(bytes.len())?,
            Part::Any => rest.iter().take_while(|b| !b"\r\n".contains(b)).count(),
            Part::Cas => {
                let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
                cas = Some(String::from_utf8_lossy(&rest[..digits]).into_owned());
                (digits > 0).then_some(digits)?
            }
        };
        rest = &rest[used..];
    }
    rest.is_empty().then_some(cas)
}

fn play(path: &Path, piece: usize) {
    let text = std::fs::read_to_string(path).expect("transcript");
    let mut connection = Connection::new();
    let mut cas = String::new();
    for step in steps(&text) {
        let mut sent = Vec::new();
        for part in step.sent.iter().flat_map(|line| parts(line)) {
            match part {
                Part::Bytes(bytes) => sent.extend(bytes),
                Part::Cas => sent.extend(cas.as_bytes()),
                Part::Any => panic!("{{any}} cannot be sent"),
            }
        }
        connection.output.clear();
        sent.chunks(piece).for_each(|part| connection.feed(part));
        let received = &connection.output;
        let Some(seen) = matches(&step.received, received) else {
            let shown = received.escape_ascii();
            panic!("{}: {step:?}\nreceived {shown}", path.display());
        };
        cas = seen.unwrap_or(cas);
        assert_eq!(
            connection.closed,
            step.closed,
            "{} {step:?}",
            path.display()
        );
    }
}

/// Statistics, meta commands and the binary dialect need more of a cache than the one of
/// these tests has; the server's tests play all dialects at the real door.
fn classic(path: &Path) -> bool {
    let name = path.file_stem().and_then(|n| n.to_str());
    let others = ["binary_", "meta_", "stats_"];
    let dialect = name.is_none_or(|n| others.iter().any(|o| n.starts_with(o)));
    let text = std::fs::read_to_string(path).expect("a transcript");
    !dialect && !text.lines().any(|line| line.starts_with("> mn"))
}

fn transcripts() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/memcached");
    let entries = std::fs::read_dir(directory).expect("directory of transcripts");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .filter(|path| classic(path))
        .collect();
    paths.sort();
    assert!(paths.len() >= 44, "{} transcripts", paths.len());
    paths
}

#[test]
fn transcripts_of_memcached_at_once() {
    for path in transcripts() {
        play(&path, usize::MAX);
    }
}

#[test]
fn transcripts_of_memcached_in_pieces() {
    for path in transcripts() {
        // Byte by byte, but for the transcripts with megabytes.
        let large = path.file_stem().is_some_and(|n| n == "too_large");
        play(&path, if large { 4999 } else { 1 });
    }
}
