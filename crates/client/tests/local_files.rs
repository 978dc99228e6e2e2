//! A server that requests a file which the statement does not name gets no file.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use porpoise_client::mysql::{Connection, Target};
use porpoise_client::{Address, Error, TlsMode};
use porpoise_wire::mysql::client::login::Credentials;
use porpoise_wire::mysql::client::result::Event;
use porpoise_wire::mysql::handshake::Greeting;
use porpoise_wire::mysql::local_file::write_request;
use porpoise_wire::mysql::reply::{Ok as OkReply, write_ok};
use porpoise_wire::mysql::{Capabilities, Status};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

fn packet(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}

/// A server that lets everybody in and answers the first statement by a request for `file`. Returns its port,
/// and the packets that it got afterwards.
fn curious(file: &'static str) -> (u16, JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let capabilities =
        Capabilities(porpoise_wire::mysql::client::login::WANTED.0 | Capabilities::LOCAL_FILES.0);
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut out = Vec::new();
        Greeting {
            server_version: "8.0.0-curious",
            connection_id: 1,
            salt: &[1; 20],
            capabilities,
            collation: 45,
            status: Status(0),
            plugin: "mysql_native_password",
        }
        .write(&mut out, &mut 0);
        stream.write_all(&out).unwrap();
        packet(&mut stream).unwrap();
        let ok = |sequence: u8| {
            let (mut out, mut sequence) = (Vec::new(), sequence);
            write_ok(&mut out, &mut sequence, capabilities, &OkReply::default());
            out
        };
        stream.write_all(&ok(2)).unwrap();
        packet(&mut stream).unwrap();
        let mut out = Vec::new();
        write_request(&mut out, &mut 1, file.as_bytes());
        stream.write_all(&out).unwrap();
        let mut got = Vec::new();
        while let Some(payload) = packet(&mut stream) {
            let is_end = payload.is_empty();
            got.push(payload);
            if is_end {
                stream.write_all(&ok(got.len() as u8 + 2)).unwrap();
            }
        }
        got
    });
    (port, thread)
}

fn connect(port: u16, with: Capabilities) -> Connection {
    let mut target = Target::new(
        Address::Tcp("127.0.0.1".into(), port),
        Credentials::default(),
    );
    target.tls.mode = TlsMode::Disabled;
    target.capabilities = target.capabilities | with;
    Connection::connect(&target).unwrap()
}

/// Runs a statement against a server that requests `asked`; the file's content is 3,000,000 bytes. Returns the
/// result, and what the server got.
fn run(
    asked: &'static str,
    statement: &str,
    with: Capabilities,
) -> (Result<usize, Error>, Vec<Vec<u8>>) {
    let (port, server) = curious(asked);
    let mut connection = connect(port, with);
    let mut open = |name: &[u8]| match name {
        b"/missing" => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(Box::new(io::repeat(b'x').take(3_000_000)) as Box<dyn Read>),
    };
    let mut replies = 0;
    let result = connection.query_with_files(statement.as_bytes(), &mut open, |event| {
        replies += usize::from(matches!(event, Event::Ok(_)));
        Ok::<(), Error>(())
    });
    drop(connection);
    (result.map(|()| replies), server.join().unwrap())
}

#[test]
fn a_file_that_the_statement_names_is_sent_in_packets() {
    let statement = "LOAD DATA LOCAL INFILE '/rows' INTO TABLE t";
    let (result, got) = run("/rows", statement, Capabilities::LOCAL_FILES);
    assert_eq!(result.unwrap(), 1);
    assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 3_000_000);
    assert!(got.len() > 2 && got.last().unwrap().is_empty());
}

#[test]
fn a_file_that_the_statement_does_not_name_is_not_sent() {
    for (statement, with) in [
        ("SELECT 1", Capabilities::LOCAL_FILES),
        ("SELECT '/etc/passwd'", Capabilities::LOCAL_FILES),
        (
            "LOAD DATA LOCAL INFILE '/rows' INTO TABLE t",
            Capabilities::LOCAL_FILES,
        ),
        // The program has not allowed files.
        (
            "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t",
            Capabilities(0),
        ),
    ] {
        let (result, got) = run("/etc/passwd", statement, with);
        let error = result.unwrap_err();
        assert!(
            error.is_fatal() && error.to_string().contains("does not name"),
            "{error}"
        );
        assert!(got.is_empty(), "{statement}");
    }
}

#[test]
fn a_file_that_cannot_be_opened_leaves_the_connection_usable() {
    let statement = "LOAD DATA LOCAL INFILE '/missing' INTO TABLE t";
    let (result, got) = run("/missing", statement, Capabilities::LOCAL_FILES);
    let error = result.unwrap_err();
    assert!(!error.is_fatal(), "{error}");
    assert!(error.to_string().contains("/missing"), "{error}");
    assert_eq!(got, [Vec::<u8>::new()]);
}

#[test]
fn a_file_that_breaks_off_closes_the_connection_without_its_end() {
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            if self.0 > 1 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            into[..3].copy_from_slice(b"abc");
            Ok(3)
        }
    }
    let (port, server) = curious("/rows");
    let mut connection = connect(port, Capabilities::LOCAL_FILES);
    let result = connection.query_with_files(
        b"LOAD DATA LOCAL INFILE '/rows' INTO TABLE t",
        &mut |_: &[u8]| Ok(Box::new(Broken(0)) as Box<dyn Read>),
        |_| Ok::<(), Error>(()),
    );
    assert!(result.unwrap_err().is_fatal());
    drop(connection);
    assert_eq!(server.join().unwrap(), [b"abc".to_vec()]);
}
