//! Helpers: servers that may be backed up, connections, the commands.

use porpoise_client::mysql::{Connection, Target};
use porpoise_client::{Address, Error};
use porpoise_testkit::{Porpoise, PorpoiseBuilder};
use porpoise_wire::mysql::client::login::Credentials;
use porpoise_wire::mysql::client::result::{Event, Row};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// A server with its data in `dir/NAME` that may write backups below `dir`.
pub fn server(dir: &Path, name: &str) -> PorpoiseBuilder {
    Porpoise::builder()
        .binary(env!("CARGO_BIN_EXE_porpoise"))
        .data_dir(dir.join(name))
        .arg("--backup-to", dir)
}

/// A server with its data in `dir/data` that archives its log to `place`, and a connection to it. An empty table `d.t` with
/// a column `n` exists.
pub fn archiving_server(dir: &Path, place: &Path) -> (Porpoise, Connection) {
    let server = server(dir, "data")
        .arg("--archive-to", place)
        .arg("--archive-interval", "20ms")
        .start();
    let mut sql = connect(&server);
    good(&mut sql, "CREATE DATABASE d");
    good(&mut sql, "CREATE TABLE d.t (n INT PRIMARY KEY)");
    (server, sql)
}

/// Connects as root; `None` if the server is gone.
pub fn try_connect(address: SocketAddr) -> Option<Connection> {
    let credentials = Credentials {
        user: b"root".to_vec(),
        ..Credentials::default()
    };
    let address = Address::Tcp(address.ip().to_string(), address.port());
    Connection::connect(&Target::new(address, credentials)).ok()
}

/// Connects as root.
pub fn connect(server: &Porpoise) -> Connection {
    try_connect(server.mysql_addr).expect("a connection")
}

/// The rows of a statement, cells joined by `|`; the number of the server's error.
pub fn ask(connection: &mut Connection, text: &str) -> Result<Vec<String>, u16> {
    attempt(connection, text).map_err(|(code, _)| code)
}

/// The rows of a statement, cells joined by `|`; number and text of the server's error.
fn attempt(connection: &mut Connection, text: &str) -> Result<Vec<String>, (u16, String)> {
    let (mut rows, mut failure) = (Vec::new(), None);
    let run = connection.query(text.as_bytes(), |event| {
        match event {
            Event::Error(error) => failure = Some((error.code, error.message.to_string())),
            Event::Row(Row::Text(row)) => {
                let cells: Vec<String> = row
                    .map(|cell| String::from_utf8_lossy(cell.unwrap_or(b"NULL")).into_owned())
                    .collect();
                rows.push(cells.join("|"));
            }
            _ => {}
        }
        Ok::<(), Error>(())
    });
    match (run, failure) {
        (Ok(()), None) => Ok(rows),
        (Ok(()), Some(failure)) => Err(failure),
        // The connection is gone.
        (Err(error), _) => Err((0, error.to_string())),
    }
}

/// Runs a statement that must succeed.
pub fn good(connection: &mut Connection, text: &str) -> Vec<String> {
    attempt(connection, text)
        .unwrap_or_else(|(code, message)| panic!("{text}: error {code}: {message}"))
}

/// A status variable.
pub fn status(connection: &mut Connection, name: &str) -> u64 {
    let rows = good(connection, &format!("SHOW GLOBAL STATUS LIKE '{name}'"));
    let row = rows.first().unwrap_or_else(|| panic!("no status {name}"));
    row.split('|').nth(1).unwrap().parse().unwrap()
}

/// Runs `porpoise` with arguments. Returns the exit status and the output.
pub fn porpoise(arguments: &[&str]) -> (i32, String) {
    command(arguments, &[])
}

/// As [`porpoise`], with environment variables.
pub fn command(arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .args(arguments)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = text + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text)
}

/// Runs `porpoise` with arguments that must succeed.
pub fn done(arguments: &[&str]) -> String {
    let (status, text) = porpoise(arguments);
    assert_eq!(status, 0, "{arguments:?}: {text}");
    text
}

/// The text of a path.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Restores to `dir/NAME`, and checks the result.
pub fn restore(from: &Path, dir: &Path, name: &str, options: &[&str]) -> String {
    let to = dir.join(name);
    let mut arguments = vec!["restore", "--from", text(from), "--data-dir", text(&to)];
    arguments.extend(options);
    let said = done(&arguments);
    assert!(done(&["check", "--data-dir", text(&to)]).contains("no problems"));
    said
}
