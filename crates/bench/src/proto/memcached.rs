//! memcached's text protocol, through the client half of `porpoise-wire`.

use super::{Answer, Argument, Call, Codec, Progress, Verb};
use crate::error::{Error, Result};
use porpoise_wire::memcached::client::{self, Reply, parse_reply};
use porpoise_wire::memcached::command::{Mode, Store};

/// Maximum length of a value, in bytes.
const MAX_VALUE: usize = 64 << 20;

/// Codec of the text protocol; see the module.
#[derive(Debug, Default)]
pub struct Memcached;

impl Codec for Memcached {
    fn encode(&mut self, call: &Call, out: &mut Vec<u8>) -> Result<()> {
        let mut keys = call.args().map(|arg| match arg {
            Argument::Bytes(bytes) => bytes,
            Argument::Int(_) => b"",
        });
        let mode = match call.verb() {
            Verb::Get => {
                client::get(out, keys, false);
                return Ok(());
            }
            Verb::Delete => {
                client::delete(out, keys.next().unwrap_or_default(), false);
                return Ok(());
            }
            Verb::Incr => {
                client::arithmetic(out, keys.next().unwrap_or_default(), 1, false, false);
                return Ok(());
            }
            Verb::Set => Mode::Set,
            Verb::Add => Mode::Add,
            Verb::Replace => Mode::Replace,
            Verb::Statement(_) | Verb::Text => {
                return Err(Error::failed("the memcached protocol has no statements"));
            }
        };
        let key = keys.next().unwrap_or_default();
        let value = keys.next().unwrap_or_default();
        client::store(out, &Store::new(mode, key, value), false);
        Ok(())
    }

    fn decode(&mut self, input: &mut [u8], answer: &mut Answer) -> Result<Progress> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            let (reply, length) = match parse_reply(rest, MAX_VALUE) {
                client::Answer::NeedMore(_) => return Ok(Progress::More(used)),
                client::Answer::Malformed => {
                    return Err(Error::failed("a reply that is not memcached's protocol"));
                }
                client::Answer::Reply(reply, length) => (reply, length),
            };
            used += length;
            match reply {
                Reply::Value { key, data, .. } => {
                    answer.rows += 1;
                    answer.push(Some(key));
                    answer.push(Some(data));
                    continue;
                }
                Reply::Stat { name, value } => {
                    answer.rows += 1;
                    answer.push(Some(name));
                    answer.push(Some(value));
                    continue;
                }
                Reply::Stored | Reply::Deleted | Reply::Touched | Reply::Number(_) => {
                    answer.affected = 1;
                }
                Reply::Version(text) => answer.push(Some(text)),
                Reply::Error(line) => {
                    answer.error = Some(String::from_utf8_lossy(line).into_owned());
                }
                _ => {}
            }
            return Ok(Progress::Done(used));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_come_in_any_pieces() {
        let whole = b"VALUE a 0 3\r\nxyz\r\nVALUE b 0 0\r\n\r\nEND\r\n";
        for cut in 0..whole.len() {
            let mut codec = Memcached;
            let mut answer = Answer::default();
            let mut first = whole[..cut].to_vec();
            let Progress::More(used) = codec.decode(&mut first, &mut answer).unwrap() else {
                panic!("complete after {cut} bytes");
            };
            let mut rest = whole[used..].to_vec();
            let done = codec.decode(&mut rest, &mut answer).unwrap();
            assert_eq!(done, Progress::Done(whole.len() - used));
            assert_eq!((answer.rows, answer.cells()), (2, 4));
            assert_eq!(answer.cell(1), Some(&b"xyz"[..]));
        }
    }

    #[test]
    fn a_refusal_is_kept_and_noise_is_an_error() {
        let mut answer = Answer::default();
        let mut line = b"SERVER_ERROR out of memory\r\n".to_vec();
        let done = Memcached.decode(&mut line, &mut answer).unwrap();
        assert_eq!(done, Progress::Done(28));
        assert_eq!(answer.error.as_deref(), Some("SERVER_ERROR out of memory"));
        let mut noise = b"\x4a\0\0\0\x0a5.5\r\n".to_vec();
        assert!(Memcached.decode(&mut noise, &mut answer).is_err());
    }
}
