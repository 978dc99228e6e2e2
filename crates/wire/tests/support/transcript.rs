//! Transcripts of a real memcached, in `tests/memcached` of the workspace;
//! `record.py` beside them describes their form.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    dead_code,
    reason = "a test stops at what it does not expect, and uses its part"
)]

use std::path::{Path, PathBuf};

/// All of them, in the order of their names.
pub fn all() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/memcached");
    let entries = std::fs::read_dir(directory).expect("directory of transcripts");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    paths.sort();
    paths
}

/// A step of a transcript: lines sent, and lines received.
#[derive(Debug, Default)]
pub struct Step {
    pub sent: Vec<String>,
    pub received: Vec<String>,
    pub closed: bool,
}

/// The steps of a transcript.
pub fn steps(text: &str) -> Vec<Step> {
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
pub enum Part {
    Bytes(Vec<u8>),
    /// The rest of a line.
    Any,
    /// Digits, which are sent again where it stands in what is sent.
    Cas,
    /// Eight bytes in place of digits.
    Cas8,
}

/// The parts of an escaped text.
pub fn parts(text: &str) -> Vec<Part> {
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
                    "cas8" => Part::Cas8,
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

/// Whether what was received matches; then the last version that it showed.
pub fn matches(expected: &[String], received: &[u8]) -> Option<Option<Vec<u8>>> {
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
