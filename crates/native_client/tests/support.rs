//! A server with a native listener, and short forms for tests.

use porpoise_native_client::{
    Address, Batch, Connection, Operation, Outcome, Reply, Target, ValueRef,
};
use porpoise_testkit::{Porpoise, PorpoiseBuilder};
use std::net::SocketAddr;

/// Options of a server with a native listener.
pub fn builder() -> PorpoiseBuilder {
    Porpoise::builder()
        .arg("--native-listen", "127.0.0.1:0")
        .arg("--rest-listen", "127.0.0.1:0")
}

/// Starts a server that writes nothing to disk.
pub fn start() -> Porpoise {
    builder().arg("--durability", "memory").start()
}

/// Address of the native listener.
pub fn address(server: &Porpoise) -> SocketAddr {
    let place = server
        .socket("native")
        .expect("the native listener is open");
    place.to_str().unwrap().parse().unwrap()
}

pub fn target(server: &Porpoise, user: &str, password: &str) -> Target {
    let address = address(server);
    Target::new(
        Address::Tcp(address.ip().to_string(), address.port()),
        user,
        password,
    )
}

/// Connects as root.
pub fn connect(server: &Porpoise) -> Connection {
    Connection::connect(&target(server, "root", "")).unwrap()
}

/// Runs statements, which must succeed.
pub fn sql(server: &Porpoise, statements: &str) -> String {
    let output = server.sql(statements);
    assert_eq!(
        output.error_number(),
        None,
        "{statements}: {}",
        output.stderr
    );
    output.stdout.trim_end().to_owned()
}

pub fn int(value: i64) -> ValueRef<'static> {
    ValueRef::Int(value)
}

pub fn text(value: &str) -> ValueRef<'_> {
    ValueRef::Bytes(value.as_bytes())
}

/// A batch of rows of one operation.
pub fn batch(operation: &Operation, rows: &[&[ValueRef<'_>]]) -> Batch {
    let mut batch = Batch::new();
    for row in rows {
        batch.push(operation, row).unwrap();
    }
    batch
}

/// An atomic batch of rows of one operation.
pub fn atomic(operation: &Operation, rows: &[&[ValueRef<'_>]]) -> Batch {
    let mut batch = Batch::atomic();
    for row in rows {
        batch.push(operation, row).unwrap();
    }
    batch
}

/// Short forms of outcomes: `row 1 a`, `written`, `not found`, `condition`, `error 1062`, `aborted`.
pub fn shown(reply: &Reply) -> Vec<String> {
    let results = reply.results().map(|outcome| match outcome.unwrap() {
        Outcome::Row { values, .. } => {
            let mut shown = "row".to_owned();
            for value in values {
                shown.push(' ');
                shown.push_str(&show_value(value));
            }
            shown
        }
        Outcome::Written { .. } => "written".to_owned(),
        Outcome::NotFound => "not found".to_owned(),
        Outcome::ConditionFailed => "condition".to_owned(),
        Outcome::Failed(error) => format!("error {}", error.code),
        Outcome::Aborted => "aborted".to_owned(),
    });
    results.collect()
}

pub fn show_value(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Int(v) => v.to_string(),
        ValueRef::UInt(v) => v.to_string(),
        ValueRef::Double(v) => v.to_string(),
        ValueRef::Bytes(v) => String::from_utf8_lossy(v).into_owned(),
        ValueRef::Date(v) => v.to_string(),
        ValueRef::DateTime(v) => v.to_string(),
        ValueRef::Time(v) => v.to_string(),
        ValueRef::Decimal(v) => v.to_string(),
    }
}

/// The version of the first row of a reply.
pub fn version(reply: &Reply) -> u64 {
    match reply.results().next().unwrap().unwrap() {
        Outcome::Row { version, .. } | Outcome::Written { version, .. } => version,
        other => panic!("{other:?} has no version"),
    }
}
