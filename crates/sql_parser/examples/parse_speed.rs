//! Prints how long parsing and normalising take: `cargo run --release --example parse_speed`.

use std::hint::black_box;
use std::io::{Result, Write, stdout};
use std::time::Instant;

use bumpalo::Bump;
use porpoise_sql_parser::digest::Digest;
use porpoise_sql_parser::{LexMode, ParseOptions, parse_one};

const POINT: &str = "SELECT a,b FROM t WHERE id = 12345";
const UPDATE: &str = "UPDATE t SET a=a+1 WHERE id=12345";

/// Nanoseconds per call, the best of several rounds.
fn measure(mut call: impl FnMut()) -> f64 {
    let rounds = (0..7).map(|_| {
        let start = Instant::now();
        for _ in 0..50_000 {
            call();
        }
        start.elapsed().as_secs_f64() * 1e9 / 50_000.0
    });
    rounds.fold(f64::INFINITY, f64::min)
}

fn main() -> Result<()> {
    let mut insert = String::from("INSERT INTO users (id, name, email, view_cnt, created) VALUES ");
    for row in 0..16 {
        insert.push_str(if row > 0 { ", " } else { "" });
        insert.push_str(&format!(
            "({row}, 'name {row}', 'mail{row}@example.com', 0, 1700000{row:03})"
        ));
    }
    let mut arena = Bump::with_capacity(1 << 16);
    for (name, text) in [
        ("point select", POINT),
        ("update", UPDATE),
        ("16-row insert", &insert),
        ("begin", "BEGIN"),
    ] {
        let parse = measure(|| {
            let parsed = parse_one(
                &arena,
                black_box(text.as_bytes()),
                0,
                &ParseOptions::default(),
            );
            black_box(parsed.is_ok());
            arena.reset();
        });
        let mut digest = Digest::new();
        let normalise = measure(|| {
            black_box(digest.compute(black_box(text.as_bytes()), 0, LexMode::default()));
        });
        writeln!(
            stdout(),
            "{name:16} {:5} bytes  parse {parse:8.0} ns  digest {normalise:8.0} ns",
            text.len()
        )?;
    }
    Ok(())
}
