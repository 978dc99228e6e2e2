//! A blocking connection of the MySQL protocol, by the client half of the codec.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use porpoise_wire::mysql::client::login::{self, ClientLogin, Credentials, WANTED};
use porpoise_wire::mysql::client::result::{Event, ResultReader, Row, ServerError};
use porpoise_wire::mysql::client::{self};
use porpoise_wire::mysql::frame::{FrameStep, PacketReader};
use porpoise_wire::mysql::{Capabilities, ProtocolError};

/// Longest wait for a reply.
const SILENCE: Duration = Duration::from_secs(60);

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// The reason why a statement has no result.
#[derive(Debug)]
pub enum Failure {
    /// The server's error packet.
    Refused(ServerError),
    /// The connection broke: whether the statement happened is not known.
    Gone(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(e) => write!(f, "error {}: {}", e.code, e.message),
            Self::Gone(e) => write!(f, "connection gone: {e}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Gone(error)
    }
}

/// Reply to a statement; of several statements, to the last.
#[derive(Debug, Default)]
pub struct Answer {
    /// Rows changed.
    pub affected: u64,
    /// First id that was given.
    pub insert_id: u64,
    /// Number of warnings.
    pub warnings: u16,
    /// Rows as texts; NULL is `None`.
    pub rows: Vec<Vec<Option<String>>>,
}

/// A connection, logged in as root.
pub struct Sql {
    stream: Box<dyn Stream>,
    reader: PacketReader,
    buf: Vec<u8>,
    caps: Capabilities,
}

impl Sql {
    /// Connects over TCP.
    pub fn connect(address: SocketAddr) -> Sql {
        Self::try_connect(address).unwrap_or_else(|e| panic!("{address}: {e}"))
    }

    /// Connects over TCP to a server that may go away.
    pub fn try_connect(address: SocketAddr) -> Result<Sql, Failure> {
        let stream = TcpStream::connect_timeout(&address, SILENCE)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_nodelay(true)?;
        Self::log_in(Box::new(stream), false)
    }

    /// Connects through a Unix socket.
    pub fn connect_unix(path: &Path) -> Sql {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        Self::log_in(Box::new(stream), true).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    fn log_in(stream: Box<dyn Stream>, secure: bool) -> Result<Sql, Failure> {
        let mut sql = Sql {
            stream,
            reader: PacketReader::before_login(),
            buf: Vec::new(),
            caps: Capabilities::default(),
        };
        let greeting = sql.packet()?;
        let greeting = login::parse_greeting(&greeting).expect("a greeting");
        let credentials = Credentials {
            user: b"root".to_vec(),
            ..Credentials::default()
        };
        let mut state = ClientLogin::new(&greeting, credentials, WANTED, secure);
        sql.caps = state.capabilities();
        let (mut out, mut number) = (Vec::new(), sql.reader.sequence());
        state.start(&mut out, &mut number);
        loop {
            sql.stream.write_all(&out)?;
            sql.reader.expect(number);
            let packet = sql.packet()?;
            out.clear();
            number = sql.reader.sequence();
            match state.more(&packet, &mut out, &mut number) {
                login::Step::Wait => {}
                login::Step::Done => break,
                login::Step::Refused(error) => return Err(Failure::Refused(error)),
                login::Step::Unsupported(what) => panic!("{what}"),
            }
        }
        sql.reader.set_limit(1 << 30);
        Ok(sql)
    }

    fn packet(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let step = match self.reader.next(&mut self.buf) {
                // A farewell that answers nothing, as a server's that ends.
                Err(ProtocolError::OutOfOrder) if self.buf.get(3..5) == Some(&[0, 0xff]) => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                step => step.expect("a packet"),
            };
            match step {
                FrameStep::Packet { payload, consumed } => {
                    let payload = self.buf[payload].to_vec();
                    self.buf.drain(..consumed);
                    return Ok(payload);
                }
                FrameStep::NeedMore(_) => {
                    let mut piece = [0; 1 << 14];
                    let n = self.stream.read(&mut piece)?;
                    if n == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.buf.extend_from_slice(&piece[..n]);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sends bytes and reads no answer; the server may close the connection meanwhile.
    #[allow(dead_code, reason = "for tests of clients that do not read")]
    pub fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a statement and leaves its answer unread.
    #[allow(dead_code, reason = "for the tests of limits")]
    pub fn send(&mut self, text: &str) -> bool {
        let mut out = Vec::new();
        client::query(&mut out, self.caps, text.as_bytes(), &[]);
        self.send_bytes(&out)
    }

    /// Runs statements, which may fail.
    pub fn attempt(&mut self, text: &str) -> Result<Answer, Failure> {
        let mut out = Vec::new();
        client::query(&mut out, self.caps, text.as_bytes(), &[]);
        self.stream.write_all(&out)?;
        self.reader.expect(1);
        let mut reader = ResultReader::new(self.caps, false);
        let mut answer = Answer::default();
        while !reader.finished() {
            let packet = self.packet()?;
            match reader.next(&packet).expect("an answer") {
                Event::Ok(ok) | Event::End(ok) => {
                    answer.affected = ok.affected_rows;
                    answer.insert_id = ok.last_insert_id;
                    answer.warnings = ok.warnings;
                }
                Event::Error(error) => return Err(Failure::Refused(error)),
                Event::Row(Row::Text(row)) => answer.rows.push(
                    row.map(|v| v.map(|v| String::from_utf8_lossy(v).into_owned()))
                        .collect(),
                ),
                Event::FileRequest(name) => panic!("asked for {name:?}"),
                Event::Row(Row::Binary(_)) => panic!("a binary row to a text statement"),
                Event::Columns(_) => answer.rows.clear(),
                Event::Column(_) | Event::EndOfColumns => {}
            }
        }
        Ok(answer)
    }

    /// Runs statements that succeed.
    pub fn run(&mut self, text: &str) -> Answer {
        self.attempt(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    /// Runs a statement that is refused.
    pub fn refused(&mut self, text: &str) -> ServerError {
        match self.attempt(text) {
            Err(Failure::Refused(error)) => error,
            Err(Failure::Gone(error)) => panic!("{text}: connection gone: {error}"),
            Ok(answer) => panic!("{text}: was not refused: {answer:?}"),
        }
    }

    /// The rows of a query, NULL as `NULL`.
    pub fn rows(&mut self, text: &str) -> Vec<Vec<String>> {
        let word = |value: Option<String>| value.unwrap_or_else(|| "NULL".into());
        let rows = self.run(text).rows.into_iter();
        rows.map(|row| row.into_iter().map(word).collect())
            .collect()
    }

    /// The rows of a query whose columns are whole numbers.
    pub fn numbers(&mut self, text: &str) -> Vec<Vec<i64>> {
        let rows = self.rows(text).into_iter();
        rows.map(|row| row.iter().map(|v| v.parse().unwrap()).collect())
            .collect()
    }

    /// The only value of a query, a whole number.
    pub fn number(&mut self, text: &str) -> i64 {
        match self.numbers(text).as_slice() {
            [row] if row.len() == 1 => row[0],
            other => panic!("{text}: {other:?}"),
        }
    }
}
