//! The files of `tests/memcached`: their steps, and what their escapes stand
//! for. `record.py` beside them describes their form.

use std::path::{Path, PathBuf};

/// What is sent, and what comes back for it.
#[derive(Debug, Default)]
pub struct Step {
    pub sent: Vec<String>,
    pub received: Vec<String>,
    pub closed: bool,
}

/// The steps of a file.
pub fn steps(text: &str) -> Vec<Step> {
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
pub enum Part {
    Bytes(Vec<u8>),
    Any,
    Cas,
    /// Eight bytes in place of digits.
    Cas8,
}

/// Takes an escaped text apart.
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

/// All files, in the order of their names.
pub fn transcripts() -> Vec<PathBuf> {
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
