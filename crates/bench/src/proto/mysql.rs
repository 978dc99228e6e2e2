//! MySQL's protocol, through the client half of `porpoise-wire`: statements as
//! text with their parameters written in, or prepared.

use super::{Answer, Argument, Call, Codec, Progress, Verb};
use crate::error::{Error, Result};
use porpoise_types::ValueRef;
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::capability::type_code;
use porpoise_wire::mysql::client::result::{Event, ResultReader, Row};
use porpoise_wire::mysql::client::{self};
use porpoise_wire::mysql::frame::{FrameStep, PacketReader};
use porpoise_wire::mysql::params::Param;

/// Maximum length of a packet, in bytes.
pub const MAX_PACKET: usize = 64 << 20;

/// A statement of the connection: its text cut at the parameters, and its id
/// once prepared.
#[derive(Debug)]
struct Statement {
    pieces: Vec<Vec<u8>>,
    id: Option<u32>,
    types_sent: bool,
}

/// Codec for a connection that has logged in.
pub struct Mysql {
    caps: Capabilities,
    packets: PacketReader,
    results: ResultReader,
    statements: Vec<Statement>,
}

impl Mysql {
    /// A codec without statements, for a login with these capabilities.
    pub fn new(caps: Capabilities) -> Mysql {
        let mut packets = PacketReader::before_login();
        packets.set_limit(MAX_PACKET);
        Mysql {
            caps,
            packets,
            results: ResultReader::new(caps, false),
            statements: Vec::new(),
        }
    }

    /// Adds a statement; `id` if the server has prepared it.
    pub fn add_statement(&mut self, text: &str, id: Option<u32>) {
        self.statements.push(Statement {
            pieces: text.split('?').map(|p| p.as_bytes().to_vec()).collect(),
            id,
            types_sent: false,
        });
    }

    fn encode_prepared(
        caps: Capabilities,
        statement: &mut Statement,
        id: u32,
        call: &Call,
        out: &mut Vec<u8>,
    ) {
        // Up to this number of parameters without an allocation.
        const FEW: usize = 8;
        let param = |arg: Argument<'_>| match arg {
            Argument::Int(n) => Param {
                value: ValueRef::Int(n),
                type_code: type_code::LONGLONG,
                unsigned: false,
            },
            Argument::Bytes(_) => Param {
                value: ValueRef::Null,
                type_code: type_code::VAR_STRING,
                unsigned: false,
            },
        };
        let with_bytes = |arg| match arg {
            Argument::Bytes(bytes) => Param {
                value: ValueRef::Bytes(bytes),
                type_code: type_code::VAR_STRING,
                unsigned: false,
            },
            int => param(int),
        };
        let first = !std::mem::replace(&mut statement.types_sent, true);
        let count = call.args().len();
        if count <= FEW {
            let mut params = [param(Argument::Int(0)); FEW];
            for (slot, arg) in params.iter_mut().zip(call.args()) {
                *slot = with_bytes(arg);
            }
            let params = params.get(..count).unwrap_or_default();
            client::execute(out, caps, id, params, first, |_| false);
        } else {
            let params: Vec<Param<'_>> = call.args().map(with_bytes).collect();
            client::execute(out, caps, id, &params, first, |_| false);
        }
    }

    fn encode_text(statement: &Statement, call: &Call, out: &mut Vec<u8>) {
        let begun = porpoise_wire::mysql::frame::begin(out);
        out.push(porpoise_wire::mysql::command::code::QUERY);
        let mut args = call.args();
        let mut pieces = statement.pieces.iter();
        if let Some(first) = pieces.next() {
            out.extend_from_slice(first);
        }
        for piece in pieces {
            match args.next() {
                Some(Argument::Int(n)) => {
                    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
                }
                Some(Argument::Bytes(bytes)) => quote(bytes, out),
                None => out.extend_from_slice(b"NULL"),
            }
            out.extend_from_slice(piece);
        }
        porpoise_wire::mysql::frame::finish(out, begun, &mut 0);
    }
}

/// Appends a string literal.
pub fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for byte in bytes {
        match byte {
            b'\'' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0 => out.extend_from_slice(b"\\0"),
            _ => out.push(*byte),
        }
    }
    out.push(b'\'');
}

impl Codec for Mysql {
    fn encode(&mut self, call: &Call, out: &mut Vec<u8>) -> Result<()> {
        let number = match call.verb() {
            Verb::Statement(number) => number,
            Verb::Text => {
                self.packets.expect(1);
                self.results.restart(false);
                if let Some(Argument::Bytes(text)) = call.args().next() {
                    client::query(out, self.caps, text, &[]);
                }
                return Ok(());
            }
            _ => return Err(Error::failed("MySQL's protocol has statements only")),
        };
        let Some(statement) = self.statements.get_mut(number) else {
            return Err(Error::failed("an unknown prepared statement"));
        };
        self.packets.expect(1);
        self.results.restart(statement.id.is_some());
        match statement.id {
            Some(id) => Mysql::encode_prepared(self.caps, statement, id, call, out),
            None => Mysql::encode_text(statement, call, out),
        }
        Ok(())
    }

    fn decode(&mut self, input: &mut [u8], answer: &mut Answer) -> Result<Progress> {
        let mut used = 0;
        loop {
            let rest = input.get_mut(used..).unwrap_or_default();
            let step = self
                .packets
                .next(rest)
                .map_err(|_| Error::failed("packets out of order"))?;
            let (payload, consumed) = match step {
                FrameStep::Packet { payload, consumed } => (payload, consumed),
                FrameStep::NeedMore(_) => return Ok(Progress::More(used)),
                FrameStep::Skip { .. } | FrameStep::TooLarge { .. } => {
                    return Err(Error::failed("an answer over 64 MiB"));
                }
            };
            used += consumed;
            let payload = rest.get(payload).unwrap_or_default();
            let event = self
                .results
                .next(payload)
                .ok_or_else(|| Error::failed("an answer that is not MySQL's protocol"))?;
            match event {
                Event::Ok(ok) => {
                    answer.affected += ok.affected_rows;
                    answer.last_insert_id = ok.last_insert_id;
                }
                Event::Error(error) => {
                    answer.error = Some(format!("{} {}", error.code, error.message));
                }
                Event::FileRequest(_) => {
                    return Err(Error::failed("the server requests a file"));
                }
                Event::Row(row) => take_row(row, answer),
                Event::Columns(_) | Event::Column(_) | Event::EndOfColumns | Event::End(_) => {}
            }
            if self.results.finished() {
                return Ok(Progress::Done(used));
            }
        }
    }
}

fn take_row(row: Row<'_, '_>, answer: &mut Answer) {
    answer.rows += 1;
    match row {
        Row::Text(values) => values.for_each(|value| answer.push(value)),
        Row::Binary(values) => {
            for value in values {
                match value {
                    ValueRef::Null => answer.push(None),
                    ValueRef::Int(n) => answer.push_int(n),
                    ValueRef::UInt(n) => {
                        answer.push(Some(itoa::Buffer::new().format(n).as_bytes()));
                    }
                    ValueRef::Bytes(bytes) => answer.push(Some(bytes)),
                    ValueRef::Decimal(d) => {
                        let mut text = Vec::new();
                        d.write_text(&mut text);
                        answer.push(Some(&text));
                    }
                    other => answer.push(Some(format!("{other:?}").as_bytes())),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_written_into_the_text() {
        let mut codec = Mysql::new(Capabilities::default());
        codec.add_statement("update t set v = ? where id = ?", None);
        let mut call = Call::default();
        call.begin(Verb::Statement(0)).bytes(b"it's").int(-3);
        let mut out = Vec::new();
        codec.encode(&call, &mut out).unwrap();
        let text = b"\x03update t set v = 'it\\'s' where id = -3";
        assert_eq!(out.get(4..), Some(&text[..]));
        assert_eq!(usize::from(out[0]), text.len());
    }

    #[test]
    fn operations_that_mysql_lacks_are_errors() {
        let mut codec = Mysql::new(Capabilities::default());
        let mut call = Call::default();
        call.begin(Verb::Get);
        assert!(codec.encode(&call, &mut Vec::new()).is_err());
        call.begin(Verb::Statement(0));
        assert!(codec.encode(&call, &mut Vec::new()).is_err());
    }
}
