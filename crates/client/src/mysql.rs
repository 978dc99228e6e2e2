//! A connection of the MySQL protocol: login, statements as text, results packet by packet, files for LOAD DATA
//! LOCAL.

use crate::error::{Error, Result};
use crate::local_file::{self, FileError, OpenFile};
use crate::stream::{Address, Input, Stream};
use crate::tls::{TlsMode, TlsOptions};
use porpoise_wire::mysql::client;
use porpoise_wire::mysql::client::login::{
    ClientLogin, Credentials, ServerGreeting, Step, WANTED, parse_greeting,
};
use porpoise_wire::mysql::client::result::{
    Event, Prepared, ResultReader, parse_error, parse_prepared,
};
use porpoise_wire::mysql::frame::{self, FrameStep, HEADER, MAX_PACKET_PAYLOAD, PacketReader};
use porpoise_wire::mysql::{Capabilities, Status};
use std::io::{self, Read, Write};
use std::time::Duration;

/// Largest packet that a server may send, in bytes: MySQL's limit.
const MAX_PACKET: usize = 1 << 30;

/// Target of a connection.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address of the server.
    pub address: Address,
    /// User, password, default database and attributes of the program.
    pub credentials: Credentials,
    /// TLS settings.
    pub tls: TlsOptions,
    /// Capabilities that are requested if the server offers them.
    pub capabilities: Capabilities,
    /// Longest wait for the connection, and for each packet of the login.
    pub connect_timeout: Duration,
    /// Longest wait for a packet afterwards; `None` waits forever.
    pub read_timeout: Option<Duration>,
}

impl Target {
    /// A target with defaults: TLS if the server offers it, no limit for statements.
    pub fn new(address: Address, credentials: Credentials) -> Target {
        Target {
            address,
            credentials,
            tls: TlsOptions::default(),
            capabilities: WANTED,
            connect_timeout: Duration::from_secs(10),
            read_timeout: None,
        }
    }
}

/// A logged-in connection.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    reader: PacketReader,
    input: Input,
    output: Vec<u8>,
    capabilities: Capabilities,
    id: u32,
    server_version: String,
    status: Status,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// The address, TLS or the login.
    pub fn connect(target: &Target) -> Result<Connection> {
        let stream = Stream::open(&target.address, target.connect_timeout)?;
        stream.set_timeout(Some(target.connect_timeout))?;
        let mut connection = Connection {
            stream,
            reader: PacketReader::before_login(),
            input: Input::default(),
            output: Vec::new(),
            capabilities: Capabilities(0),
            id: 0,
            server_version: String::new(),
            status: Status(0),
        };
        let mut payload = Vec::new();
        connection.next_packet(&mut payload)?;
        if let Some(error) = parse_error(&payload) {
            return Err(Error::Server(error));
        }
        let greeting = parse_greeting(&payload)
            .ok_or(Error::Protocol("this is not a server of MySQL's protocol"))?;
        connection.id = greeting.connection_id;
        connection.status = greeting.status;
        connection.server_version = String::from_utf8_lossy(greeting.server_version).into_owned();
        let connection = connection.log_in(target, &greeting)?;
        connection.stream.set_timeout(target.read_timeout)?;
        Ok(connection)
    }

    fn log_in(mut self, target: &Target, greeting: &ServerGreeting<'_>) -> Result<Connection> {
        let offers_tls = greeting.capabilities.has(Capabilities::SSL);
        let uses_tls = match target.tls.mode {
            TlsMode::Disabled => false,
            // A Unix socket is as secure as TLS.
            TlsMode::Preferred => offers_tls && !self.stream.is_secure(),
            _ if offers_tls => true,
            _ => return Err(Error::Tls("the server does not offer it".into())),
        };
        let mut login = ClientLogin::new(
            greeting,
            target.credentials.clone(),
            target.capabilities,
            self.stream.is_secure(),
        );
        let mut sequence = self.reader.sequence();
        if uses_tls {
            login.request_tls(&mut self.output, &mut sequence);
            self.send()?;
            self.stream = target.tls.wrap(self.stream, &target.address)?;
        }
        login.start(&mut self.output, &mut sequence);
        let mut payload = Vec::new();
        loop {
            self.send()?;
            self.reader.expect(sequence);
            self.next_packet(&mut payload)?;
            sequence = self.reader.sequence();
            match login.more(&payload, &mut self.output, &mut sequence) {
                Step::Wait => {}
                Step::Done => break,
                Step::Refused(error) => return Err(Error::Server(error)),
                Step::Unsupported(what) => return Err(Error::Protocol(what)),
            }
        }
        self.reader.set_limit(MAX_PACKET);
        self.capabilities = login.capabilities();
        Ok(self)
    }

    /// Capabilities in force.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Id of the connection, for KILL.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The server's version.
    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    /// Status bits of the last reply.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether the connection uses TLS.
    pub fn uses_tls(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// Runs a text of one or several statements, and passes each packet of the reply to `receive`. An
    /// error of the server is an event, after which the connection can be used.
    ///
    /// # Errors
    /// The connection's, and those of `receive`, after which the rest of the reply is unread: drop the
    /// connection then.
    pub fn query<E: From<Error>>(
        &mut self,
        text: &[u8],
        receive: impl FnMut(Event<'_, '_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.query_with_files(text, &mut local_file::refuse_files, receive)
    }

    /// As [`Connection::query`], with files for LOAD DATA LOCAL, which `open` opens by their name in the
    /// statement. The target must have requested [`Capabilities::LOCAL_FILES`]. A file that cannot be opened is
    /// an error after the whole reply, which lacks the event of its statement.
    ///
    /// # Errors
    /// As [`Connection::query`]; the server requests a file that the text does not name; the file cannot
    /// be read. See [`Error::is_fatal`].
    pub fn query_with_files<E: From<Error>>(
        &mut self,
        text: &[u8],
        open: &mut OpenFile<'_>,
        mut receive: impl FnMut(Event<'_, '_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut files = None;
        client::query(&mut self.output, self.capabilities, text, &[]);
        let pieces = self.output.len() / (MAX_PACKET_PAYLOAD + HEADER) + 1;
        self.send()?;
        self.reader.expect((pieces % 256) as u8);
        let mut results = ResultReader::new(self.capabilities, false);
        let mut payload = Vec::new();
        let (mut failure, mut is_refused) = (None, false);
        while !results.finished() {
            self.next_packet(&mut payload)?;
            let event = results
                .next(&payload)
                .ok_or(Error::Protocol("a packet of a result cannot be read"))?;
            match event {
                Event::FileRequest(name) => {
                    let named = files.get_or_insert_with(|| self.named_files(text));
                    if !named.iter().any(|file| file == name) {
                        let what = "the server asks for a file that the statement does not name";
                        return Err(Error::Protocol(what).into());
                    }
                    if let Err(error) = self.send_file(name, open) {
                        if error.is_fatal() {
                            return Err(error.into());
                        }
                        (failure, is_refused) = (failure.or(Some(error)), true);
                    }
                    continue;
                }
                Event::Ok(ok) | Event::End(ok) => self.status = ok.status,
                _ => {}
            }
            // The reply to an empty file in place of one that cannot be read says nothing.
            if !std::mem::take(&mut is_refused) {
                receive(event)?;
            }
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The files that a text names for LOAD DATA LOCAL; none unless files were agreed upon at login.
    fn named_files(&self, text: &[u8]) -> Vec<Vec<u8>> {
        if !self.capabilities.has(Capabilities::LOCAL_FILES) {
            return Vec::new();
        }
        local_file::named_files(text, !self.status.has(Status::NO_BACKSLASH_ESCAPES))
    }

    /// Sends a file. Of a file that cannot be opened only the end is sent.
    fn send_file(&mut self, name: &[u8], open: &mut OpenFile<'_>) -> Result<()> {
        let mut sequence = self.reader.sequence();
        let mut failure = None;
        let failed = |source, is_partial| FileError {
            name: String::from_utf8_lossy(name).into_owned(),
            source,
            is_partial,
        };
        let mut file = open(name).unwrap_or_else(|error| {
            failure = Some(failed(error, false));
            Box::new(io::empty()) as Box<dyn Read>
        });
        let mut buffer = Vec::new();
        loop {
            let next =
                local_file::next_packet(&mut *file, &mut buffer, &mut self.output, &mut sequence);
            match next {
                Ok(is_end) => {
                    self.send()?;
                    if is_end {
                        break;
                    }
                }
                // Without the end of the file the server rolls the statement back.
                Err(error) => return Err(Error::File(failed(error, true))),
            }
        }
        self.reader.expect(sequence);
        failure.map_or(Ok(()), |error| Err(Error::File(error)))
    }

    /// Runs a statement whose result, if any, is of no interest.
    ///
    /// # Errors
    /// Also the server's.
    pub fn execute(&mut self, text: &str) -> Result<()> {
        let mut failure = None;
        self.query(text.as_bytes(), |event| {
            if let Event::Error(error) = event {
                failure = Some(error);
            }
            Ok::<(), Error>(())
        })?;
        failure.map_or(Ok(()), |error| Err(Error::Server(error)))
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// Also the server's.
    pub fn prepare(&mut self, text: &str) -> Result<Prepared> {
        client::prepare(&mut self.output, text.as_bytes());
        self.send()?;
        self.reader.expect(1);
        let mut payload = Vec::new();
        self.next_packet(&mut payload)?;
        if let Some(error) = parse_error(&payload) {
            return Err(Error::Server(error));
        }
        let prepared = parse_prepared(&payload)
            .ok_or(Error::Protocol("the reply to a prepare cannot be read"))?;
        for _ in 0..prepared.packets_to_follow(self.capabilities) {
            self.next_packet(&mut payload)?;
        }
        Ok(prepared)
    }

    /// Sends a command, whose reply is read packet by packet ([`Connection::receive`]): COM_REGISTER_SLAVE,
    /// COM_BINLOG_DUMP.
    ///
    /// # Errors
    /// The connection's.
    pub fn send_command(&mut self, code: u8, payload: &[u8]) -> Result<()> {
        client::text(&mut self.output, code, payload);
        self.send()?;
        self.reader.expect(1);
        Ok(())
    }

    /// Sends an acknowledgement of semi-synchronous replication: a packet within a stream, which restarts the packet
    /// numbers at 0; the next packet that is received has the number 1.
    ///
    /// # Errors
    /// The connection's.
    pub fn send_packet(&mut self, payload: &[u8]) -> Result<()> {
        let start = frame::begin(&mut self.output);
        self.output.extend_from_slice(payload);
        let mut sequence = 0;
        frame::finish(&mut self.output, start, &mut sequence);
        self.send()
    }

    /// Sets the number that the next received packet must have.
    pub fn expect_sequence(&mut self, sequence: u8) {
        self.reader.expect(sequence);
    }

    /// Waits for a packet of a reply, and replaces `payload` by its contents. After a timeout it can be called
    /// again: nothing is lost.
    ///
    /// # Errors
    /// The connection's; [`Error::is_timeout`] if only the wait has ended.
    pub fn receive(&mut self, payload: &mut Vec<u8>) -> Result<()> {
        self.next_packet(payload)
    }

    /// Whether unread bytes have arrived; false if this cannot be determined without waiting.
    pub fn has_input(&mut self) -> bool {
        !self.input.unread().is_empty() || self.stream.is_readable()
    }

    /// Sets the longest wait for a packet; `None` waits forever.
    ///
    /// # Errors
    /// The system's.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        Ok(self.stream.set_timeout(timeout)?)
    }

    /// The stream, for a codec of the caller. Between two replies nothing is unread.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    fn send(&mut self) -> Result<()> {
        self.stream.write_all(&self.output)?;
        self.stream.flush()?;
        self.output.clear();
        Ok(())
    }

    /// Waits for a packet, and replaces `payload` by its contents.
    fn next_packet(&mut self, payload: &mut Vec<u8>) -> Result<()> {
        payload.clear();
        loop {
            let step = self.reader.next(self.input.unread()).map_err(|_| {
                Error::Protocol("packets out of order, or this is not a server of MySQL's protocol")
            })?;
            match step {
                FrameStep::Packet {
                    payload: range,
                    consumed,
                } => {
                    payload.extend_from_slice(self.input.unread().get(range).unwrap_or_default());
                    self.input.consume(consumed);
                    return Ok(());
                }
                FrameStep::NeedMore(_) => self.input.fill(&mut self.stream)?,
                FrameStep::Skip { .. } | FrameStep::TooLarge { .. } => {
                    return Err(Error::Protocol("a packet of more than 1 GiB"));
                }
            }
        }
    }
}
