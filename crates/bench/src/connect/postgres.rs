//! PostgreSQL authentication: trust, cleartext password, or SCRAM-SHA-256.

use super::scram::Scram;
use crate::conn::{Connection, open};
use crate::error::{Error, Result};
use crate::proto::postgres::{self as wire, Postgres, error_text, next_message};
use crate::url::Target;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Reader of whole protocol messages during login, before there is a [`Connection`].
struct Messages {
    stream: TcpStream,
    buf: Vec<u8>,
}

impl Messages {
    /// Returns the next message; an ErrorResponse becomes an `Err`.
    fn next(&mut self) -> Result<(u8, Vec<u8>)> {
        loop {
            if let Some((kind, contents, length)) = next_message(&self.buf)? {
                let contents = contents.to_vec();
                self.buf.drain(..length);
                if kind == b'E' {
                    return Err(Error::failed(error_text(&contents)));
                }
                return Ok((kind, contents));
            }
            let mut piece = [0; 4096];
            let count = self.stream.read(&mut piece)?;
            if count == 0 {
                return Err(Error::failed("the server closed the connection"));
            }
            self.buf
                .extend_from_slice(piece.get(..count).unwrap_or_default());
        }
    }

    fn until_ready(&mut self) -> Result<()> {
        while self.next()?.0 != b'Z' {}
        Ok(())
    }

    fn log_in(&mut self, target: &Target) -> Result<()> {
        let mut out = Vec::new();
        wire::untyped(&mut out, |out| {
            out.extend_from_slice(&0x0003_0000u32.to_be_bytes());
            for (name, value) in [
                ("user", target.user.as_str()),
                ("database", target.database.as_str()),
                ("application_name", "porpoise bench"),
            ] {
                wire::text(out, name.as_bytes());
                wire::text(out, value.as_bytes());
            }
            out.push(0);
        });
        self.stream.write_all(&out)?;
        let mut scram = Scram::new(&target.password);
        loop {
            let (kind, contents) = self.next()?;
            if kind != b'R' {
                return Err(Error::failed("an unknown message during login"));
            }
            let Some((code, rest)) = contents.split_first_chunk::<4>() else {
                return Err(Error::failed("a login message that is cut short"));
            };
            let mut out = Vec::new();
            match u32::from_be_bytes(*code) {
                0 => return self.until_ready(),
                3 => wire::message(&mut out, b'p', |out| {
                    wire::text(out, target.password.as_bytes());
                }),
                10 => {
                    let first = scram.first();
                    wire::message(&mut out, b'p', |out| {
                        wire::text(out, b"SCRAM-SHA-256");
                        let length = u32::try_from(first.len()).unwrap_or(0);
                        out.extend_from_slice(&length.to_be_bytes());
                        out.extend_from_slice(first.as_bytes());
                    });
                }
                11 => {
                    let answer = scram.answer(rest)?;
                    wire::message(&mut out, b'p', |out| {
                        out.extend_from_slice(answer.as_bytes());
                    });
                }
                12 => scram.check_server(rest)?,
                other => {
                    return Err(Error::failed(format!(
                        "login method {other} is not known here; trust, password and scram-sha-256 are"
                    )));
                }
            }
            self.stream.write_all(&out)?;
        }
    }

    fn prepare(&mut self, statements: &[String]) -> Result<()> {
        for (number, statement) in statements.iter().enumerate() {
            let mut out = Vec::new();
            wire::parse(&mut out, number, statement);
            wire::sync(&mut out);
            self.stream.write_all(&out)?;
            self.until_ready()
                .map_err(|error| error.during(format_args!("preparing {statement:?}")))?;
        }
        Ok(())
    }
}

/// Connects and prepares statements.
///
/// # Errors
/// Connecting, logging in or preparing a statement failed.
pub fn connect(target: &Target, statements: &[String]) -> Result<Connection> {
    let mut messages = Messages {
        stream: open(&target.host, target.port)?,
        buf: Vec::new(),
    };
    messages.log_in(target)?;
    messages.prepare(statements)?;
    let codec = Postgres::new(statements.len());
    Ok(Connection::new(messages.stream, Box::new(codec)))
}
