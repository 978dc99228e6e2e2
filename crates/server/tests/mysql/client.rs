//! A client of the MySQL protocol for these tests: plain and blocking, over
//! the codec's client half, with every packet at hand.

use crate::certificates::client_config;
use porpoise_types::{ColumnType, ValueRef};
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::Status;
use porpoise_wire::mysql::client::login::{
    ClientLogin, Credentials, Step as Login, WANTED, parse_greeting,
};
use porpoise_wire::mysql::client::result::{Event, ResultReader, Row, ServerError, parse_error};
use porpoise_wire::mysql::client::{self, result};
use porpoise_wire::mysql::compression::Compression;
use porpoise_wire::mysql::frame::{FrameStep, HEADER, MAX_PACKET_PAYLOAD, PacketReader};
use porpoise_wire::mysql::params::Param;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A byte stream of either kind.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Options of a connection.
#[derive(Clone)]
pub struct How {
    pub user: &'static str,
    pub password: &'static str,
    pub database: &'static str,
    pub tls: bool,
    pub without: Capabilities,
    /// Beside those that the codec's client half always requests.
    pub with: Capabilities,
    /// The client's certificate and its key (DER), for TLS.
    pub certificate: Option<&'static [Vec<u8>; 2]>,
}

impl Default for How {
    fn default() -> How {
        How {
            user: "root",
            password: "",
            database: "",
            tls: false,
            without: Capabilities(0),
            with: Capabilities(0),
            certificate: None,
        }
    }
}

/// One result of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub columns: Vec<String>,
    /// Flags of the columns.
    pub flags: Vec<u16>,
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    pub affected: u64,
    pub id: u64,
    pub warnings: u16,
    pub status: Status,
    pub info: String,
    pub changed: bool,
    /// Changes of the session's state: kind, and what it was.
    pub changes: Vec<(u8, Vec<String>)>,
    pub error: Option<(u16, String)>,
}

impl Answer {
    /// The rows as text, NULL as `NULL`; ends the test at an error.
    pub fn texts(&self) -> Vec<Vec<String>> {
        assert_eq!(self.error, None);
        let text = |v: &Option<Vec<u8>>| match v {
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            None => "NULL".to_owned(),
        };
        self.rows
            .iter()
            .map(|row| row.iter().map(text).collect())
            .collect()
    }

    /// The only value.
    pub fn one(&self) -> String {
        let rows = self.texts();
        assert_eq!((rows.len(), rows[0].len()), (1, 1), "{rows:?}");
        rows[0][0].clone()
    }

    /// The error's number, 0 without one.
    pub fn code(&self) -> u16 {
        self.error.as_ref().map_or(0, |e| e.0)
    }
}

/// A connection.
pub struct Client {
    pub stream: Box<dyn Stream>,
    pub caps: Capabilities,
    pub id: u32,
    reader: PacketReader,
    input: Vec<u8>,
}

fn tls_over(stream: Box<dyn Stream>, how: &How) -> Box<dyn Stream> {
    let config = client_config(how.certificate);
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let connection = rustls::ClientConnection::new(config, name).unwrap();
    Box::new(rustls::StreamOwned::new(connection, stream))
}

/// The client's side of a compressed connection.
struct CompressedStream {
    stream: Box<dyn Stream>,
    codec: Compression,
    /// Bytes received and not decoded.
    input: Vec<u8>,
}

impl Read for CompressedStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let (taken, made) = self.codec.decode(&self.input, out)?;
            self.input.drain(..taken);
            if made > 0 {
                return Ok(made);
            }
            let mut more = [0; 4096];
            let got = self.stream.read(&mut more)?;
            if got == 0 {
                return Ok(0);
            }
            self.input.extend_from_slice(&more[..got]);
        }
    }
}

impl Write for CompressedStream {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        let mut encoded = Vec::new();
        self.codec.encode(plain, &mut encoded)?;
        self.stream.write_all(&encoded)?;
        Ok(plain.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Client {
    /// A connection that was not greeted yet.
    pub fn raw(address: SocketAddr) -> Client {
        Client::raw_over(TcpStream::connect(address).unwrap())
    }

    /// As [`Client::raw`], over this stream.
    fn raw_over(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client::over(Box::new(stream))
    }

    fn over(stream: Box<dyn Stream>) -> Client {
        let mut reader = PacketReader::before_login();
        reader.set_limit(usize::MAX);
        Client {
            stream,
            caps: Capabilities(0),
            id: 0,
            reader,
            input: Vec::new(),
        }
    }

    /// Logs in over TCP.
    pub fn connect(address: SocketAddr, how: &How) -> Result<Client, ServerError> {
        Client::raw(address).login(how, false)
    }

    /// Logs in over this stream.
    pub fn connect_over(stream: TcpStream, how: &How) -> Result<Client, ServerError> {
        Client::raw_over(stream).login(how, false)
    }

    /// Logs in over a Unix socket.
    pub fn connect_unix(path: &Path, how: &How) -> Result<Client, ServerError> {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client::over(Box::new(stream)).login(how, true)
    }

    /// Root without a password.
    pub fn root(address: SocketAddr) -> Client {
        Client::connect(address, &How::default()).unwrap()
    }

    fn login(mut self, how: &How, secure: bool) -> Result<Client, ServerError> {
        let greeting = self.packet().unwrap();
        if let Some(error) = parse_error(&greeting) {
            return Err(error);
        }
        let greeting = parse_greeting(&greeting).unwrap();
        self.id = greeting.connection_id;
        let credentials = Credentials {
            user: how.user.into(),
            password: how.password.into(),
            database: how.database.into(),
            attributes: vec![(b"program_name".to_vec(), b"test".to_vec())],
        };
        let wanted = Capabilities(WANTED.0 & !how.without.0) | how.with;
        let mut login = ClientLogin::new(&greeting, credentials, wanted, secure);
        let mut sequence = 1;
        let mut out = Vec::new();
        if how.tls {
            login.request_tls(&mut out, &mut sequence);
            self.stream.write_all(&out).unwrap();
            out.clear();
            self.stream = tls_over(self.stream, how);
        }
        login.start(&mut out, &mut sequence);
        self.caps = login.capabilities();
        let compression = login.compression();
        self.finish_login(login, out, sequence)?;
        if let Some(algorithm) = compression {
            self.stream = Box::new(CompressedStream {
                stream: self.stream,
                codec: Compression::new(algorithm),
                input: Vec::new(),
            });
        }
        Ok(self)
    }

    fn finish_login(
        &mut self,
        mut login: ClientLogin,
        mut out: Vec<u8>,
        sequence: u8,
    ) -> Result<(), ServerError> {
        self.reader.expect(sequence);
        loop {
            self.stream.write_all(&out).unwrap();
            out.clear();
            let packet = self.packet().unwrap();
            let mut sequence = self.reader.sequence();
            match login.more(&packet, &mut out, &mut sequence) {
                Login::Wait => {}
                Login::Done => return Ok(()),
                Login::Refused(error) => return Err(error),
                Login::Unsupported(what) => panic!("{what}"),
            }
            self.reader.expect(sequence);
        }
    }

    /// The next packet's payload; `None` when the connection is closed.
    pub fn packet(&mut self) -> Option<Vec<u8>> {
        loop {
            match self.reader.next(&mut self.input).unwrap() {
                FrameStep::NeedMore(_) => {}
                FrameStep::Packet { payload, consumed } => {
                    let packet = self.input[payload].to_vec();
                    self.input.drain(..consumed);
                    return Some(packet);
                }
                other => panic!("{other:?}"),
            }
            let old = self.input.len();
            self.input.resize(old + 64 * 1024, 0);
            let got = match self.stream.read(&mut self.input[old..]) {
                Ok(n) => n,
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => 0,
                Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => 0,
                Err(e) => panic!("{e}"),
            };
            self.input.truncate(old + got);
            if got == 0 {
                return None;
            }
        }
    }

    /// Says which sequence number the next packet has.
    pub fn expect(&mut self, sequence: u8) {
        self.reader.expect(sequence);
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The packets of a text command, not sent.
    pub fn query_bytes(&self, text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        client::query(&mut out, self.caps, text.as_bytes(), &[]);
        out
    }

    /// Runs statements and gives all results.
    pub fn all(&mut self, text: &str) -> Vec<Answer> {
        let bytes = self.query_bytes(text);
        self.send(&bytes);
        let pieces = (bytes.len() - HEADER) / (HEADER + MAX_PACKET_PAYLOAD) + 1;
        self.answers_from(pieces as u8, false)
    }

    /// Runs one statement.
    pub fn query(&mut self, text: &str) -> Answer {
        let mut all = self.all(text);
        assert_eq!(all.len(), 1, "{text:.200}");
        all.remove(0)
    }

    /// Runs a statement that succeeds.
    pub fn good(&mut self, text: &str) -> Answer {
        let answer = self.query(text);
        assert_eq!(answer.error, None, "{text:.200}");
        answer
    }

    /// Sends a command without a body and gives its OK or error.
    pub fn simple(&mut self, code: u8) -> Answer {
        let mut out = Vec::new();
        client::simple(&mut out, code);
        self.send(&out);
        self.answers(false).remove(0)
    }

    /// Reads the results of one command of one packet.
    pub fn answers(&mut self, binary: bool) -> Vec<Answer> {
        self.answers_from(1, binary)
    }

    /// Reads the results of one command, the first packet of which has this
    /// sequence number.
    pub fn answers_from(&mut self, sequence: u8, binary: bool) -> Vec<Answer> {
        let mut reader = ResultReader::new(self.caps, binary);
        let mut all = Vec::new();
        let mut now = Answer::default();
        self.reader.expect(sequence);
        while !reader.finished() {
            let packet = self.packet().expect("closed within an answer");
            match reader.next(&packet).expect("malformed") {
                Event::Columns(_) | Event::EndOfColumns => {}
                Event::Column(c) => {
                    now.columns.push(String::from_utf8_lossy(c.name).into());
                    now.flags.push(c.flags);
                }
                Event::Row(row) => now.rows.push(values(row)),
                Event::Ok(ok) | Event::End(ok) => {
                    now.affected = ok.affected_rows;
                    now.id = ok.last_insert_id;
                    now.warnings = ok.warnings;
                    now.status = ok.status;
                    now.info = String::from_utf8_lossy(ok.info).into();
                    now.changed = !ok.changes.is_empty();
                    now.changes = changes(ok.changes);
                    all.push(std::mem::take(&mut now));
                }
                Event::FileRequest(name) => panic!("asked for {name:?}"),
                Event::Error(error) => {
                    now.error = Some((error.code, error.message));
                    all.push(std::mem::take(&mut now));
                }
            }
        }
        all
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, text: &str) -> Result<result::Prepared, ServerError> {
        let mut out = Vec::new();
        client::prepare(&mut out, text.as_bytes());
        self.send(&out);
        self.reader.expect(1);
        let head = self.packet().unwrap();
        if let Some(error) = parse_error(&head) {
            return Err(error);
        }
        let prepared = result::parse_prepared(&head).unwrap();
        for _ in 0..prepared.packets_to_follow(self.caps) {
            self.packet().unwrap();
        }
        Ok(prepared)
    }

    /// Executes a prepared statement.
    pub fn execute(&mut self, id: u32, params: &[Param<'_>], long: &[usize]) -> Answer {
        let mut out = Vec::new();
        let is_long = |i: usize| long.contains(&i);
        client::execute(&mut out, self.caps, id, params, true, is_long);
        self.send(&out);
        let mut all = self.answers(true);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Whether the server closes now, perhaps after a last error, whose
    /// number this is.
    pub fn last_words(&mut self, sequence: u8) -> Option<u16> {
        self.reader.expect(sequence);
        let mut last = None;
        while let Some(packet) = self.packet() {
            last = parse_error(&packet).map(|e| e.code);
        }
        last
    }
}

/// Takes the changes of an OK packet apart; all of their lengths fit a byte.
fn changes(mut bytes: &[u8]) -> Vec<(u8, Vec<String>)> {
    let mut all = Vec::new();
    while let [kind, length, rest @ ..] = bytes {
        let (mut change, rest) = rest.split_at(usize::from(*length));
        let mut texts = Vec::new();
        while let [length, rest @ ..] = change {
            let (text, rest) = rest.split_at(usize::from(*length));
            texts.push(String::from_utf8_lossy(text).into_owned());
            change = rest;
        }
        all.push((*kind, texts));
        bytes = rest;
    }
    all
}

fn values(row: Row<'_, '_>) -> Vec<Option<Vec<u8>>> {
    match row {
        Row::Text(row) => row.map(|v| v.map(<[u8]>::to_vec)).collect(),
        Row::Binary(row) => row
            .map(|v| {
                let mut text = Vec::new();
                let ty = match v {
                    ValueRef::DateTime(_) => ColumnType::datetime(6),
                    ValueRef::Time(_) => ColumnType::time(6),
                    _ => ColumnType::null(),
                };
                (!v.is_null()).then(|| {
                    porpoise_types::write_text(v, &ty, &mut text);
                    text
                })
            })
            .collect(),
    }
}
