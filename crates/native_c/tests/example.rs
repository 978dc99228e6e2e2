//! The C examples, compiled against the header, with the library of this build and a server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at what it does not expect"
)]

use porpoise_testkit::{Porpoise, PorpoiseBuilder};
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Directory of the library: beside the test's program.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let places = test.ancestors().skip(1).take(2);
    let mut places = places.filter(|place| place.join("libporpoise_c.so").exists());
    places.next().expect("the library is built").to_owned()
}

/// Compiles an example, and returns the program's path.
fn compile(example: &str, into: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = into.join(example);
    let output = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-std=c99", "-pedantic"])
        .arg("-I")
        .arg(source.join("include"))
        .arg("-o")
        .arg(&program)
        .arg(source.join("examples").join(example).with_extension("c"))
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
    let program = compile("thousand_rows", server.scratch());
    let (host, port) = address(&server);
    let output = Command::new(program)
        .args([&host, &port, "root", "", "d"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "read 1000 rows, scanned 800\n", "{output:?}");
    let changed = server.sql("select n from d.thousand where id = 1");
    assert_eq!(changed.stdout.trim_end(), "5");
}

/// Host and port of the native listener.
fn address(server: &Porpoise) -> (String, String) {
    let address = server.socket("native").unwrap().to_str().unwrap();
    let (host, port) = address.rsplit_once(':').unwrap();
    (host.to_owned(), port.to_owned())
}

/// The example that follows changes, while it runs.
struct Follower {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    /// Starts it for this number of transactions after a position.
    fn start(program: &Path, server: &Porpoise, count: &str, position: &str) -> Follower {
        let (host, port) = address(server);
        let mut process = Command::new(program)
            .args([&host, &port, "root", "", "d", "t", count, position])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut follower = Follower { process, lines };
        assert_eq!(follower.line(), "following");
        follower
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").unwrap()
    }

    /// The lines of the next transaction, and its position.
    fn transaction(&mut self) -> (Vec<String>, String) {
        let mut changes = Vec::new();
        loop {
            let line = self.line();
            match line.strip_prefix("= ") {
                Some(position) => return (changes, position.to_owned()),
                None => changes.push(line),
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_example_in_c_follows_changes_through_kill_9_and_restart() {
    let at = |listen: &str| -> PorpoiseBuilder {
        let builder = Porpoise::builder().arg("--native-listen", listen);
        builder.flag("--log-bin")
    };
    let mut server = at("127.0.0.1:0").start();
    let (host, port) = address(&server);
    server.reconfigure(|_| at(&format!("{host}:{port}")));
    let sql = |server: &Porpoise, statements: &str| {
        let done = server.sql(statements);
        assert_eq!(done.error_number(), None, "{}", done.stderr);
    };
    sql(
        &server,
        "create database d; create table d.t (id int primary key, v varchar(9), d decimal(5,2))",
    );
    let program = compile("follow", server.scratch());
    let mut follower = Follower::start(&program, &server, "4", "now");
    sql(
        &server,
        "insert into d.t values (1, 'one', 1.5), (2, null, -2); update d.t set v = 'uno' where id = 1",
    );
    let (changes, position) = follower.transaction();
    assert_eq!(changes, ["+ id=1 v=one d=1.50", "+ id=2 v=NULL d=-2.00"]);
    let updated = ["~ id=1 v=one d=1.50 > id=1 v=uno d=1.50"];
    assert_eq!(follower.transaction().0, updated);
    server.kill9();
    server.restart();
    sql(&server, "delete from d.t where id = 2; truncate table d.t");
    assert_eq!(follower.transaction().0, ["- id=2 v=NULL d=-2.00"]);
    assert_eq!(follower.transaction().0, ["! truncate"]);
    assert!(follower.process.wait().unwrap().success());
    // Another process continues after a transaction.
    let mut again = Follower::start(&program, &server, "2", &position);
    assert_eq!(again.transaction().0, updated);
    assert_eq!(again.transaction().0, ["- id=2 v=NULL d=-2.00"]);
    assert!(again.process.wait().unwrap().success());
}

/// The header as generated from the sources.
fn generated() -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(source.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in ["failure", "calls", "value", "reply", "changes"] {
        builder = builder.with_src(source.join("src").join(file).with_extension("rs"));
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_generated_from_the_sources() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/porpoise.h");
    let generated = generated();
    if std::env::var_os("PORPOISE_UPDATE_HEADER").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let header = std::fs::read_to_string(&path).unwrap();
    assert!(
        header == generated,
        "run PORPOISE_UPDATE_HEADER=1 cargo test -p porpoise-native-c"
    );
}

/// Names of functions in a text.
fn functions(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for (at, _) in text.match_indices("porpoise_") {
        let rest = text.get(at..).unwrap();
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        if after.starts_with('(') {
            found.push(name);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn the_examples_call_all_functions() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(source.join(path)).unwrap();
    let examples = read("examples/thousand_rows.c") + &read("examples/follow.c");
    let header = read("include/porpoise.h");
    assert_eq!(functions(&examples), functions(&header));
}
