//! memcached's three dialects, with any number of requests in one write.
//!
//! A call's arguments are keys, or keys and values in turn. `get` of several
//! keys is one request for all of them, or, on a connection that speaks
//! [`Dialect`] `apart`, a request for each; all other verbs are requests of
//! their own. All requests of a call leave in one write, and the call is
//! answered when the last of them is.
//!
//! 1. Answers are counted, not matched: memcached answers in order.
//! 2. One request for several keys is `get` in the text protocol, quiet `mg`
//!    with an `mn` after them in meta commands, GETKQ with a NOOP in the
//!    binary protocol, which is how clients ask.

use super::{Answer, Argument, Call, Codec, Progress, Verb};
use crate::error::{Error, Result};
use porpoise_wire::memcached::binary::{HEADER, REQUEST_MAGIC, opcode};
use porpoise_wire::memcached::client::{self, Reply, parse_reply};
use porpoise_wire::memcached::command::{Mode, Store};

/// Maximum length of a value, in bytes.
const MAX_VALUE: usize = 64 << 20;
/// First byte of an answer of the binary protocol.
const RESPONSE_MAGIC: u8 = 0x81;
/// An exptime with which INCREMENT creates no item.
const NO_ITEM: u32 = u32::MAX;

/// Dialect of the memcached protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// The classic commands.
    Ascii,
    /// Meta commands.
    Meta,
    /// The binary protocol.
    Binary,
}

impl Dialect {
    /// All of them.
    pub const ALL: &'static [Dialect] = &[Dialect::Ascii, Dialect::Meta, Dialect::Binary];

    /// Name in reports and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Dialect::Ascii => "ascii",
            Dialect::Meta => "meta",
            Dialect::Binary => "binary",
        }
    }

    /// Parses a list like `ascii,binary`.
    ///
    /// # Errors
    /// A usage error.
    pub fn parse_list(text: &str) -> Result<Vec<Dialect>> {
        let one = |word: &str| {
            let found = Dialect::ALL.iter().find(|d| d.word() == word.trim());
            found.copied().ok_or_else(|| {
                Error::usage(format!(
                    "--protocol {word:?} is unknown: use ascii, meta or binary"
                ))
            })
        };
        text.split(',').map(one).collect()
    }
}

/// Codec of the three dialects; see the module.
#[derive(Debug)]
pub struct Speaker {
    dialect: Dialect,
    /// Whether several keys are several requests.
    apart: bool,
    /// Number of answers that have not arrived yet.
    left: usize,
}

impl Speaker {
    /// A codec for a new connection.
    pub fn new(dialect: Dialect, apart: bool) -> Speaker {
        Speaker {
            dialect,
            apart,
            left: 0,
        }
    }

    /// One request for all keys; the number of answers is unknown.
    fn get_together<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::Ascii => client::get(out, keys, false),
            Dialect::Meta => {
                for key in keys {
                    put(out, &[b"mg ", key, b" k v q\r\n"]);
                }
                out.extend_from_slice(b"mn\r\n");
            }
            Dialect::Binary => {
                for key in keys {
                    request(out, opcode::GETKQ, &[], key, b"");
                }
                request(out, opcode::NOOP, &[], b"", b"");
            }
        }
    }

    fn one(&self, verb: Verb, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match (self.dialect, verb) {
            (Dialect::Ascii, Verb::Get) => client::get(out, [key], false),
            (Dialect::Ascii, Verb::Set) => {
                client::store(out, &Store::new(Mode::Set, key, value), false);
            }
            (Dialect::Ascii, Verb::Delete) => client::delete(out, key, false),
            (Dialect::Ascii, Verb::Incr) => client::arithmetic(out, key, 1, false, false),
            (Dialect::Meta, Verb::Get) => put(out, &[b"mg ", key, b" k v\r\n"]),
            (Dialect::Meta, Verb::Set) => {
                let mut digits = itoa::Buffer::new();
                let length = digits.format(value.len()).as_bytes();
                put(out, &[b"ms ", key, b" ", length, b"\r\n", value, b"\r\n"]);
            }
            (Dialect::Meta, Verb::Delete) => put(out, &[b"md ", key, b"\r\n"]),
            (Dialect::Meta, Verb::Incr) => put(out, &[b"ma ", key, b"\r\n"]),
            (Dialect::Binary, Verb::Get) => request(out, opcode::GETK, &[], key, b""),
            (Dialect::Binary, Verb::Set) => request(out, opcode::SET, &[0; 8], key, value),
            (Dialect::Binary, Verb::Delete) => request(out, opcode::DELETE, &[], key, b""),
            (Dialect::Binary, Verb::Incr) => {
                let mut extras = [0; 20];
                let (delta, rest) = extras.split_at_mut(8);
                delta.copy_from_slice(&1u64.to_be_bytes());
                if let Some(exptime) = rest.last_chunk_mut() {
                    *exptime = NO_ITEM.to_be_bytes();
                }
                request(out, opcode::INCREMENT, &extras, key, b"");
            }
            _ => return Err(Error::failed("this dialect does not have the command")),
        }
        Ok(())
    }

    /// Parses an answer, or a complete part of one.
    fn take(&mut self, input: &[u8], answer: &mut Answer) -> Result<Option<usize>> {
        match self.dialect {
            Dialect::Ascii => self.take_ascii(input, answer),
            Dialect::Meta => self.take_meta(input, answer),
            Dialect::Binary => self.take_binary(input, answer),
        }
    }

    fn take_ascii(&mut self, input: &[u8], answer: &mut Answer) -> Result<Option<usize>> {
        let (reply, length) = match parse_reply(input, MAX_VALUE) {
            client::Answer::NeedMore(_) => return Ok(None),
            client::Answer::Malformed => return Err(not_memcached()),
            client::Answer::Reply(reply, length) => (reply, length),
        };
        match reply {
            Reply::Value { key, data, .. } => {
                found(answer, key, data);
                return Ok(Some(length));
            }
            Reply::Stored | Reply::Deleted | Reply::Number(_) => answer.affected += 1,
            Reply::Error(line) => refused(answer, line),
            _ => {}
        }
        self.left = self.left.saturating_sub(1);
        Ok(Some(length))
    }

    fn take_meta(&mut self, input: &[u8], answer: &mut Answer) -> Result<Option<usize>> {
        let Some(end) = input.iter().position(|b| *b == b'\n') else {
            return Ok(None);
        };
        let line = input.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut words = line.split(|b| *b == b' ');
        let mut used = end + 1;
        match words.next().unwrap_or_default() {
            b"VA" => {
                let length = words.next().and_then(|w| std::str::from_utf8(w).ok());
                let length = length.and_then(|w| w.parse::<usize>().ok());
                let length = length
                    .filter(|n| *n <= MAX_VALUE)
                    .ok_or_else(not_memcached)?;
                let Some(data) = input.get(used..used + length + 2) else {
                    return Ok(None);
                };
                let key = words.find_map(|word| word.strip_prefix(b"k"));
                let data = data.strip_suffix(b"\r\n").ok_or_else(not_memcached)?;
                found(answer, key.unwrap_or_default(), data);
                used += length + 2;
                // Of several keys only existing ones are answered, then MN.
                if !self.apart {
                    return Ok(Some(used));
                }
            }
            b"HD" => answer.affected += 1,
            b"MN" | b"EN" | b"NF" | b"NS" | b"EX" => {}
            b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => refused(answer, line),
            _ => return Err(not_memcached()),
        }
        self.left = self.left.saturating_sub(1);
        Ok(Some(used))
    }

    fn take_binary(&mut self, input: &[u8], answer: &mut Answer) -> Result<Option<usize>> {
        let Some(head) = input.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [
            magic,
            code,
            key_high,
            key_low,
            extras,
            _,
            high,
            low,
            a,
            b,
            c,
            d,
            ..,
        ] = *head;
        let body = u32::from_be_bytes([a, b, c, d]) as usize;
        if magic != RESPONSE_MAGIC || body > MAX_VALUE {
            return Err(not_memcached());
        }
        let Some(body) = input.get(HEADER..HEADER + body) else {
            return Ok(None);
        };
        let used = HEADER + body.len();
        let key_length = usize::from(u16::from_be_bytes([key_high, key_low]));
        let start = usize::from(extras);
        let key = body.get(start..start + key_length).unwrap_or_default();
        let data = body.get(start + key_length..).unwrap_or_default();
        match (u16::from_be_bytes([high, low]), code) {
            (0, opcode::GETKQ) => {
                found(answer, key, data);
                return Ok(Some(used));
            }
            (0, opcode::GETK) => found(answer, key, data),
            (0, opcode::NOOP) => {}
            (0, _) => answer.affected += 1,
            // Not found, exists, not stored.
            (1 | 2 | 5, _) => {}
            (_, _) => refused(answer, data),
        }
        self.left = self.left.saturating_sub(1);
        Ok(Some(used))
    }
}

impl Codec for Speaker {
    fn encode(&mut self, call: &Call, out: &mut Vec<u8>) -> Result<()> {
        let mut words = call.args().map(|arg| match arg {
            Argument::Bytes(bytes) => bytes,
            Argument::Int(_) => b"",
        });
        if call.verb() == Verb::Get && !self.apart {
            self.left = 1;
            self.get_together(words, out);
            return Ok(());
        }
        self.left = 0;
        while let Some(key) = words.next() {
            let value = match call.verb() {
                Verb::Set => words.next().unwrap_or_default(),
                _ => b"",
            };
            self.one(call.verb(), key, value, out)?;
            self.left += 1;
        }
        Ok(())
    }

    fn decode(&mut self, input: &mut [u8], answer: &mut Answer) -> Result<Progress> {
        let mut used = 0;
        while self.left > 0 {
            let rest = input.get(used..).unwrap_or_default();
            match self.take(rest, answer)? {
                Some(length) => used += length,
                None => return Ok(Progress::More(used)),
            }
        }
        Ok(Progress::Done(used))
    }
}

fn not_memcached() -> Error {
    Error::failed("a reply that is not memcached's protocol")
}

fn found(answer: &mut Answer, key: &[u8], data: &[u8]) {
    answer.rows += 1;
    answer.push(Some(key));
    answer.push(Some(data));
}

fn refused(answer: &mut Answer, text: &[u8]) {
    answer.error = Some(String::from_utf8_lossy(text).into_owned());
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Appends a request of the binary protocol.
fn request(out: &mut Vec<u8>, code: u8, extras: &[u8], key: &[u8], value: &[u8]) {
    let key_length = u16::try_from(key.len()).unwrap_or(u16::MAX);
    let body = u32::try_from(extras.len() + key.len() + value.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&[REQUEST_MAGIC, code]);
    out.extend_from_slice(&key_length.to_be_bytes());
    out.extend_from_slice(&[u8::try_from(extras.len()).unwrap_or(0), 0, 0, 0]);
    out.extend_from_slice(&body.to_be_bytes());
    // Opaque and CAS.
    out.extend_from_slice(&[0; 12]);
    put(out, &[extras, key, value]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes an answer that comes in two pieces, for every cut.
    fn in_pieces(dialect: Dialect, apart: bool, call: &Call, whole: &[u8]) -> Answer {
        let mut last = None;
        for cut in 0..=whole.len() {
            let mut speaker = Speaker::new(dialect, apart);
            speaker.encode(call, &mut Vec::new()).unwrap();
            let mut answer = Answer::default();
            let mut first = whole[..cut].to_vec();
            match speaker.decode(&mut first, &mut answer).unwrap() {
                Progress::Done(used) => assert_eq!((used, cut), (whole.len(), whole.len())),
                Progress::More(used) => {
                    let mut rest = whole[used..].to_vec();
                    let done = speaker.decode(&mut rest, &mut answer).unwrap();
                    assert_eq!(done, Progress::Done(whole.len() - used));
                }
            }
            last = Some(answer);
        }
        last.unwrap()
    }

    fn response(code: u8, status: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        request(&mut out, code, extras, key, value);
        out[0] = RESPONSE_MAGIC;
        out[7] = status;
        out
    }

    #[test]
    fn values_are_read_in_every_dialect() {
        let mut call = Call::default();
        call.begin(Verb::Get).bytes(b"a").bytes(b"b").bytes(b"c");
        let binary = |code, end: &[u8]| {
            let mut all = response(code, 0, &[0; 4], b"a", b"xyz");
            all.extend(response(code, 0, &[0; 4], b"c", b""));
            all.extend_from_slice(end);
            all
        };
        let missing = response(opcode::GETK, 1, b"", b"", b"Not found");
        let noop = response(opcode::NOOP, 0, b"", b"", b"");
        for (dialect, apart, text) in [
            (
                Dialect::Ascii,
                false,
                b"VALUE a 0 3\r\nxyz\r\nVALUE c 0 0\r\n\r\nEND\r\n".to_vec(),
            ),
            (
                Dialect::Ascii,
                true,
                b"VALUE a 0 3\r\nxyz\r\nEND\r\nEND\r\nVALUE c 0 0\r\n\r\nEND\r\n".to_vec(),
            ),
            (
                Dialect::Meta,
                false,
                b"VA 3 ka\r\nxyz\r\nVA 0 kc\r\n\r\nMN\r\n".to_vec(),
            ),
            (
                Dialect::Meta,
                true,
                b"VA 3 ka\r\nxyz\r\nEN\r\nVA 0 kc\r\n\r\n".to_vec(),
            ),
            (Dialect::Binary, false, binary(opcode::GETKQ, &noop)),
            (Dialect::Binary, true, binary(opcode::GETK, &missing)),
        ] {
            let answer = in_pieces(dialect, apart, &call, &text);
            assert_eq!(answer.rows, 2, "{dialect:?} {apart}");
            let cells: Vec<_> = (0..4).map(|n| answer.cell(n).unwrap()).collect();
            assert_eq!(cells, [&b"a"[..], b"xyz", b"c", b""]);
        }
    }

    #[test]
    fn changes_are_counted_and_refusals_kept() {
        let mut call = Call::default();
        call.begin(Verb::Set)
            .bytes(b"a")
            .bytes(b"1")
            .bytes(b"b")
            .bytes(b"2");
        let stored = response(opcode::SET, 0, b"", b"", b"");
        let full = response(opcode::SET, 0x82, b"", b"", b"Out of memory");
        for (dialect, text) in [
            (
                Dialect::Ascii,
                b"STORED\r\nSERVER_ERROR Out of memory\r\n".to_vec(),
            ),
            (
                Dialect::Meta,
                b"HD\r\nSERVER_ERROR Out of memory\r\n".to_vec(),
            ),
            (Dialect::Binary, [stored, full].concat()),
        ] {
            let answer = in_pieces(dialect, true, &call, &text);
            assert_eq!(answer.affected, 1, "{dialect:?}");
            assert!(answer.error.unwrap().contains("Out of memory"));
        }
    }
}
