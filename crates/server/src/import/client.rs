//! A blocking client of the MySQL protocol, for `porpoise import`.

use crate::config::StartError;
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::client;
use porpoise_wire::mysql::client::login::{self, ClientLogin, Credentials, Step, WANTED};
use porpoise_wire::mysql::client::result::{Event, ResultReader, Row, parse_error};
use porpoise_wire::mysql::frame::{self, FrameStep, PacketReader};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Maximum size of a packet that the server may send.
const MAX_REPLY: usize = 64 << 20;

/// Size of a piece of a file in a packet.
const FILE_PIECE: usize = 1 << 20;

/// The first byte of a reply that asks for a file.
const FILE_REQUEST: u8 = 0xfb;

/// The server to load into, and the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `host:port`.
    pub address: String,
    /// User name.
    pub user: String,
    /// Password; empty: none.
    pub password: String,
}

impl Target {
    /// Reads `HOST:PORT` or `mysql://USER[:PASSWORD]@HOST[:PORT]`. The user is `root` if none is
    /// named, the port 3306. Errors name the option.
    ///
    /// # Errors
    /// One line.
    pub fn parse(option: &str, text: &str, password: Option<String>) -> Result<Target, StartError> {
        let is_url = text.starts_with("mysql://");
        let rest = text.strip_prefix("mysql://").unwrap_or(text);
        let rest = rest.trim_end_matches('/');
        let (account, host) = rest.rsplit_once('@').unwrap_or(("root", rest));
        let (user, given) = account.split_once(':').unwrap_or((account, ""));
        let wrong = !is_url && rest.contains("://") || host.contains('/') || host.is_empty();
        if wrong || user.is_empty() {
            let message =
                format!("{option}: {text:?} is neither HOST:PORT nor mysql://USER@HOST:PORT");
            return Err(StartError::usage(message));
        }
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let given = (!given.is_empty()).then(|| given.to_owned());
        Ok(Target {
            address: if has_port {
                host.to_owned()
            } else {
                format!("{host}:3306")
            },
            user: user.to_owned(),
            password: given.or(password).unwrap_or_default(),
        })
    }
}

/// A connection, logged in.
pub struct Client {
    stream: TcpStream,
    reader: PacketReader,
    input: Vec<u8>,
    caps: Capabilities,
}

fn failed(what: impl std::fmt::Display) -> StartError {
    StartError::failure(format!("import: {what}"))
}

fn not_mysql() -> StartError {
    failed("what answers does not speak MySQL's protocol")
}

impl Client {
    /// Connects and logs in.
    ///
    /// # Errors
    /// One line.
    pub fn connect(target: &Target) -> Result<Client, StartError> {
        let address = &target.address;
        let stream = TcpStream::connect(address);
        let stream =
            stream.map_err(|e| failed(format_args!("cannot connect to {address}: {e}")))?;
        let _ = stream.set_nodelay(true);
        let mut client = Client {
            stream,
            reader: PacketReader::before_login(),
            input: Vec::new(),
            caps: Capabilities(0),
        };
        client.log_in(target)?;
        Ok(client)
    }

    fn log_in(&mut self, target: &Target) -> Result<(), StartError> {
        let greeting = self.packet()?;
        if let Some(error) = parse_error(&greeting) {
            return Err(failed(format_args!("{} {}", error.code, error.message)));
        }
        let greeting = login::parse_greeting(&greeting).ok_or_else(not_mysql)?;
        let credentials = Credentials {
            user: target.user.clone().into_bytes(),
            password: target.password.clone().into_bytes(),
            attributes: vec![(b"program_name".to_vec(), b"porpoise import".to_vec())],
            ..Credentials::default()
        };
        let without = Capabilities::QUERY_ATTRIBUTES.0 | Capabilities::SESSION_TRACK.0;
        let wanted = Capabilities(WANTED.0 & !without) | Capabilities::LOCAL_FILES;
        let mut state = ClientLogin::new(&greeting, credentials, wanted, false);
        let (mut out, mut number) = (Vec::new(), self.reader.sequence());
        state.start(&mut out, &mut number);
        loop {
            self.send(&out)?;
            self.reader.expect(number);
            let payload = self.packet()?;
            out.clear();
            number = self.reader.sequence();
            match state.more(&payload, &mut out, &mut number) {
                Step::Wait => {}
                Step::Done => break,
                Step::Refused(error) => {
                    return Err(failed(format_args!("{} {}", error.code, error.message)));
                }
                Step::Unsupported(what) => return Err(failed(format_args!("login: {what}"))),
            }
        }
        self.reader.set_limit(MAX_REPLY);
        self.caps = state.capabilities();
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), StartError> {
        let sent = self.stream.write_all(bytes);
        sent.map_err(|e| failed(format_args!("the server cannot be written to: {e}")))
    }

    /// The next packet's payload.
    fn packet(&mut self) -> Result<Vec<u8>, StartError> {
        loop {
            match self.reader.next(&mut self.input).map_err(|_| not_mysql())? {
                FrameStep::Packet { payload, consumed } => {
                    let payload = self.input.get(payload).unwrap_or_default().to_vec();
                    self.input.drain(..consumed);
                    return Ok(payload);
                }
                FrameStep::NeedMore(_) => {
                    let mut piece = [0; 16 << 10];
                    let read = self.stream.read(&mut piece);
                    let read = read
                        .map_err(|e| failed(format_args!("the server cannot be read from: {e}")))?;
                    if read == 0 {
                        return Err(failed("the server has closed the connection"));
                    }
                    self.input
                        .extend_from_slice(piece.get(..read).unwrap_or_default());
                }
                FrameStep::Skip { .. } | FrameStep::TooLarge { .. } => {
                    return Err(failed("the server has sent a packet over 64 MiB"));
                }
            }
        }
    }

    /// Runs one or several statements, and returns the text rows of all results.
    ///
    /// # Errors
    /// The server's, with the beginning of the text.
    pub fn run(&mut self, text: &[u8]) -> Result<Vec<Vec<Option<String>>>, StartError> {
        self.run_with_file(text, &mut std::io::empty())
    }

    /// As [`Client::run`]; sends the content of `file` if the server asks for a file.
    ///
    /// # Errors
    /// As [`Client::run`]; the file cannot be read.
    pub fn run_with_file(
        &mut self,
        text: &[u8],
        file: &mut dyn Read,
    ) -> Result<Vec<Vec<Option<String>>>, StartError> {
        let mut out = Vec::new();
        client::query(&mut out, self.caps, text, &[]);
        self.send(&out)?;
        self.reader.expect(1);
        let mut reply = ResultReader::new(self.caps, false);
        let mut rows = Vec::new();
        let mut payload = self.packet()?;
        if payload.first() == Some(&FILE_REQUEST) {
            self.send_file(file)?;
            payload = self.packet()?;
        }
        loop {
            match reply.next(&payload).ok_or_else(not_mysql)? {
                Event::Error(error) => {
                    let begin = String::from_utf8_lossy(text);
                    let begin: String = begin.trim().chars().take(80).collect();
                    let (code, message) = (error.code, error.message);
                    return Err(failed(format_args!("{code} {message}, in: {begin}")));
                }
                Event::Row(Row::Text(row)) => {
                    let text = |cell: Option<&[u8]>| {
                        cell.map(|cell| String::from_utf8_lossy(cell).into_owned())
                    };
                    rows.push(row.map(text).collect());
                }
                _ => {}
            }
            if reply.finished() {
                return Ok(rows);
            }
            payload = self.packet()?;
        }
    }

    /// Sends a file in packets; an empty one ends it, also if the file cannot be read to its end.
    fn send_file(&mut self, file: &mut dyn Read) -> Result<(), StartError> {
        let mut number = self.reader.sequence();
        let mut piece = vec![0; FILE_PIECE];
        let mut out = Vec::with_capacity(FILE_PIECE + 8);
        let broken = loop {
            match file.read(&mut piece) {
                Ok(0) => break None,
                Ok(read) => {
                    out.clear();
                    let content = piece.get(..read).unwrap_or_default();
                    frame::packet(&mut out, &mut number, content);
                    self.send(&out)?;
                }
                Err(error) => break Some(error),
            }
        };
        if let Some(error) = broken {
            // Without the end of the file the server rolls the statement back.
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
            return Err(failed(format_args!(
                "a file of the dump cannot be read: {error}"
            )));
        }
        out.clear();
        frame::packet(&mut out, &mut number, &[]);
        self.send(&out)?;
        self.reader.expect(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_addresses_or_urls() {
        let target = |text| Target::parse("--into", text, Some("env".to_owned()));
        let plain = target("db.example:3307").unwrap();
        assert_eq!((&*plain.address, &*plain.user), ("db.example:3307", "root"));
        assert_eq!(plain.password, "env");
        let url = target("mysql://me:p@ss@[::1]:3307/").unwrap();
        assert_eq!((&*url.address, &*url.user), ("[::1]:3307", "me"));
        assert_eq!(url.password, "p@ss");
        assert_eq!(target("mysql://me@host").unwrap().address, "host:3306");
        for wrong in ["", "http://host:1", "mysql://me@host/db"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }
}
