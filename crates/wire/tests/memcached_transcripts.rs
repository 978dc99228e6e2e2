//! The transcripts of memcached 1.6.18 in `tests/memcached` of the workspace,
//! played against the parser and the reply writers, in one piece and byte by
//! byte. `record.py` beside them plays them against a real memcached and
//! describes their form.

use std::path::{Path, PathBuf};

use crate::support::cache::Connection;
use crate::support::transcript::{self, Part, matches, parts, steps};

fn play(path: &Path, piece: usize) {
    let text = std::fs::read_to_string(path).expect("transcript");
    let mut connection = Connection::new();
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
/// these tests has; the server's tests play all dialects at the real listener.
fn classic(path: &Path) -> bool {
    let name = path.file_stem().and_then(|n| n.to_str());
    let others = ["binary_", "meta_", "stats_"];
    let dialect = name.is_none_or(|n| others.iter().any(|o| n.starts_with(o)));
    let text = std::fs::read_to_string(path).expect("a transcript");
    !dialect && !text.lines().any(|line| line.starts_with("> mn"))
}

fn transcripts() -> Vec<PathBuf> {
    let mut paths = transcript::all();
    paths.retain(|path| classic(path));
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
        let large = path.file_stem().is_some_and(|n| {
            let name = n.to_str().unwrap_or_default();
            name.starts_with("too_large")
        });
        play(&path, if large { 4999 } else { 1 });
    }
}
