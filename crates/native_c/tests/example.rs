//! The C example, compiled against the header, with the library of this build and a server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at what it does not expect"
)]

use porpoise_testkit::Porpoise;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directory of the library: beside the test's program.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let places = test.ancestors().skip(1).take(2);
    let mut places = places.filter(|place| place.join("libporpoise_c.so").exists());
    places.next().expect("the library is built").to_owned()
}

/// Compiles the example as C or C++, and returns its path.
fn compile(compiler: &str, options: &[&str], into: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = into.join(compiler);
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror"])
        .args(options)
        .arg("-I")
        .arg(source.join("include"))
        .arg("-o")
        .arg(&program)
        .arg(source.join("examples/thousand_rows.c"))
        .arg("-L")
        .arg(library())
        .args(["-lporpoise_c", "-Wl,-rpath"])
        .arg(library())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    program
}

#[test]
fn the_example_in_c_reads_a_thousand_rows() {
    let server = Porpoise::builder()
        .arg("--native-listen", "127.0.0.1:0")
        .arg("--durability", "memory")
        .start();
    let made = server.sql(
        "create database d; create table d.thousand
         (id bigint primary key, name varchar(40), n int not null default 0, day date)",
    );
    assert_eq!(made.error_number(), None, "{}", made.stderr);
    let program = compile("cc", &["-std=c99", "-pedantic"], server.scratch());
    let address = server
        .socket("native")
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let (host, port) = address.rsplit_once(':').unwrap();
    let output = Command::new(program)
        .args([host, port, "root", "", "d"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "read 1000 rows, scanned 800\n", "{output:?}");
    let changed = server.sql("select n from d.thousand where id = 1");
    assert_eq!(changed.stdout.trim_end(), "5");
}

/// Names of functions in a text, by the word before each parenthesis.
fn functions(text: &str, before: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in text.match_indices(before) {
        let rest = text.get(at..).unwrap();
        let name: String = rest
            .chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '_')
            .collect();
        if rest.get(name.len()..).unwrap().starts_with('(') {
            found.push(name);
        }
    }
    found.sort();
    found.dedup();
    found
}

#[test]
fn header_library_and_example_have_the_same_functions() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(source.join(path)).unwrap();
    let exported = functions(&read("src/calls.rs"), "porpoise_");
    assert_eq!(
        functions(&read("include/porpoise.h"), "porpoise_"),
        exported
    );
    let called = functions(&read("examples/thousand_rows.c"), "porpoise_");
    assert_eq!(called, exported, "the example does not call all functions");
}
