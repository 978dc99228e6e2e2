//! Logging in over MySQL's protocol, and statements outside measured times.

use crate::conn::{Connection, open};
use crate::error::{Error, Result};
use crate::proto::mysql::{MAX_PACKET, Mysql};
use crate::url::Target;
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::client::login::{self, ClientLogin, Credentials, WANTED};
use porpoise_wire::mysql::client::result::{parse_error, parse_prepared};
use porpoise_wire::mysql::client::{self};
use porpoise_wire::mysql::frame::{FrameStep, PacketReader};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Capabilities that this client requests: only those that all servers have.
fn wanted() -> Capabilities {
    let not = Capabilities::QUERY_ATTRIBUTES.0 | Capabilities::SESSION_TRACK.0;
    Capabilities(WANTED.0 & !not)
}

/// A stream of whole packets, for the time before a [`Connection`].
struct Packets {
    stream: TcpStream,
    reader: PacketReader,
    buf: Vec<u8>,
}

impl Packets {
    fn next(&mut self) -> Result<Vec<u8>> {
        loop {
            let step = self
                .reader
                .next(&mut self.buf)
                .map_err(|_| Error::failed("what answers is not MySQL's protocol"))?;
            match step {
                FrameStep::Packet { payload, consumed } => {
                    let payload = self.buf.get(payload).unwrap_or_default().to_vec();
                    self.buf.drain(..consumed);
                    return Ok(payload);
                }
                FrameStep::NeedMore(_) => {
                    let mut piece = [0; 4096];
                    let came = self.stream.read(&mut piece)?;
                    if came == 0 {
                        return Err(Error::failed("the server closed the connection"));
                    }
                    self.buf
                        .extend_from_slice(piece.get(..came).unwrap_or_default());
                }
                FrameStep::Skip { .. } | FrameStep::TooLarge { .. } => {
                    return Err(Error::failed("a packet over 64 MiB"));
                }
            }
        }
    }

    fn refused(payload: &[u8]) -> Option<Error> {
        let error = parse_error(payload)?;
        Some(Error::failed(format!("{} {}", error.code, error.message)))
    }

    fn log_in(&mut self, target: &Target) -> Result<Capabilities> {
        let greeting = self.next()?;
        if let Some(error) = Packets::refused(&greeting) {
            return Err(error);
        }
        let greeting = login::parse_greeting(&greeting)
            .ok_or_else(|| Error::failed("what answers is not MySQL's protocol"))?;
        let credentials = Credentials {
            user: target.user.clone().into_bytes(),
            password: target.password.clone().into_bytes(),
            ..Credentials::default()
        };
        let mut state = ClientLogin::new(&greeting, credentials, wanted(), false);
        let (mut out, mut number) = (Vec::new(), self.reader.sequence());
        state.start(&mut out, &mut number);
        loop {
            self.stream.write_all(&out)?;
            self.reader.expect(number);
            let payload = self.next()?;
            out.clear();
            number = self.reader.sequence();
            match state.more(&payload, &mut out, &mut number) {
                login::Step::Wait => {}
                login::Step::Done => {
                    self.reader.set_limit(MAX_PACKET);
                    return Ok(state.capabilities());
                }
                login::Step::Refused(error) => {
                    return Err(Error::failed(format!("{} {}", error.code, error.message)));
                }
                login::Step::Unsupported(what) => {
                    return Err(Error::failed(format!("login: {what}")));
                }
            }
        }
    }

    fn prepare(&mut self, caps: Capabilities, statement: &str) -> Result<u32> {
        let mut out = Vec::new();
        client::prepare(&mut out, statement.as_bytes());
        self.stream.write_all(&out)?;
        self.reader.expect(1);
        let head = self.next()?;
        if let Some(error) = Packets::refused(&head) {
            return Err(error.during(format_args!("preparing {statement:?}")));
        }
        let prepared = parse_prepared(&head)
            .ok_or_else(|| Error::failed("the answer to a prepare cannot be read"))?;
        for _ in 0..prepared.packets_to_follow(caps) {
            self.next()?;
        }
        Ok(prepared.id)
    }

    /// Runs a statement without a result.
    fn run(&mut self, caps: Capabilities, statement: &str) -> Result<()> {
        let mut out = Vec::new();
        client::query(&mut out, caps, statement.as_bytes(), &[]);
        self.stream.write_all(&out)?;
        self.reader.expect(1);
        let payload = self.next()?;
        match Packets::refused(&payload) {
            Some(error) => Err(error.during(statement)),
            None => Ok(()),
        }
    }
}

/// Connects and makes statements ready, each as text or (true) prepared.
///
/// # Errors
/// One line.
pub fn connect<'s>(
    target: &Target,
    statements: impl Iterator<Item = (&'s str, bool)>,
) -> Result<Connection> {
    let stream = open(&target.host, target.port)?;
    let mut packets = Packets {
        stream,
        reader: PacketReader::before_login(),
        buf: Vec::new(),
    };
    let caps = packets.log_in(target)?;
    if !target.database.is_empty() {
        let database = format!("`{}`", target.database.replace('`', "``"));
        packets.run(caps, &format!("create database if not exists {database}"))?;
        packets.run(caps, &format!("use {database}"))?;
    }
    let mut codec = Mysql::new(caps);
    for (statement, prepare) in statements {
        let id = if prepare {
            Some(packets.prepare(caps, statement)?)
        } else {
            None
        };
        codec.add_statement(statement, id);
    }
    Ok(Connection::new(packets.stream, Box::new(codec)))
}
