//! A blocking connection of the memcached protocol.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use porpoise_wire::memcached::client::{Answer, Reply, parse_reply};

/// Longest wait for a reply.
const SILENCE: Duration = Duration::from_secs(60);
const MAX_VALUE: usize = 1 << 24;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A value that a get answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its key.
    pub key: String,
    /// The client's number.
    pub flags: u32,
    /// The bytes.
    pub data: Vec<u8>,
    /// The version, of `gets`.
    pub cas: Option<u64>,
}

/// A connection.
pub struct Cache {
    stream: Box<dyn Stream>,
    buf: Vec<u8>,
}

impl Cache {
    /// Connects over TCP.
    pub fn connect(address: SocketAddr) -> Cache {
        Self::try_connect(address).unwrap()
    }

    /// Connects over TCP to a server that may go away.
    pub fn try_connect(address: SocketAddr) -> io::Result<Cache> {
        let stream = TcpStream::connect_timeout(&address, SILENCE)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(Box::new(stream)))
    }

    /// Connects through a Unix socket.
    pub fn connect_unix(path: &Path) -> Cache {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        Self::over(Box::new(stream))
    }

    fn over(stream: Box<dyn Stream>) -> Cache {
        Cache {
            stream,
            buf: Vec::new(),
        }
    }

    /// Sends a request as it is and reads one reply with `take`.
    fn ask<T>(&mut self, request: &[u8], take: impl FnOnce(Reply<'_>) -> T) -> io::Result<T> {
        self.stream.write_all(request)?;
        self.reply(take)
    }

    fn reply<T>(&mut self, take: impl FnOnce(Reply<'_>) -> T) -> io::Result<T> {
        loop {
            match parse_reply(&self.buf, MAX_VALUE) {
                Answer::Reply(reply, used) => {
                    let taken = take(reply);
                    self.buf.drain(..used);
                    return Ok(taken);
                }
                Answer::NeedMore(_) => {
                    let mut piece = [0; 1 << 14];
                    let n = self.stream.read(&mut piece)?;
                    if n == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.buf.extend_from_slice(&piece[..n]);
                }
                Answer::Malformed => panic!("no reply: {:?}", String::from_utf8_lossy(&self.buf)),
            }
        }
    }

    /// Sends a request of one line of reply; the reply in words like `STORED`, `7`, or the whole
    /// error line.
    pub fn attempt(&mut self, request: &[u8]) -> io::Result<String> {
        self.ask(request, |reply| match reply {
            Reply::Number(n) => n.to_string(),
            Reply::Error(line) => String::from_utf8_lossy(line).into_owned(),
            Reply::Stored => "STORED".into(),
            Reply::NotStored => "NOT_STORED".into(),
            Reply::Exists => "EXISTS".into(),
            Reply::NotFound => "NOT_FOUND".into(),
            Reply::Deleted => "DELETED".into(),
            Reply::Touched => "TOUCHED".into(),
            Reply::Ok => "OK".into(),
            other => panic!("{other:?} to {:?}", String::from_utf8_lossy(request)),
        })
    }

    /// As [`Cache::attempt`], of a server that stays.
    pub fn run(&mut self, request: &str) -> String {
        self.attempt(request.as_bytes())
            .unwrap_or_else(|e| panic!("{request:?}: {e}"))
    }

    /// Stores a value; the reply.
    pub fn set(&mut self, key: &str, data: &str) -> String {
        self.run(&format!("set {key} 0 0 {}\r\n{data}\r\n", data.len()))
    }

    /// Sends a line of a retrieval command; the values up to the end, or the error line.
    pub fn items(&mut self, line: &str) -> io::Result<Result<Vec<Item>, String>> {
        self.stream.write_all(line.as_bytes())?;
        let mut items = Vec::new();
        loop {
            let next = self.reply(|reply| match reply {
                Reply::Value {
                    key,
                    flags,
                    data,
                    cas,
                } => Ok(Some(Item {
                    key: String::from_utf8_lossy(key).into_owned(),
                    flags,
                    data: data.to_vec(),
                    cas,
                })),
                Reply::End => Ok(None),
                Reply::Error(line) => Err(String::from_utf8_lossy(line).into_owned()),
                other => panic!("{other:?} to {line:?}"),
            })?;
            match next {
                Ok(Some(item)) => items.push(item),
                Ok(None) => return Ok(Ok(items)),
                Err(line) => return Ok(Err(line)),
            }
        }
    }

    /// Values of keys, in the order of the answer, with their versions.
    pub fn gets(&mut self, keys: &[impl AsRef<str>]) -> Vec<Item> {
        let mut line = String::from("gets");
        for key in keys {
            line.push(' ');
            line.push_str(key.as_ref());
        }
        line.push_str("\r\n");
        self.items(&line)
            .unwrap_or_else(|e| panic!("{line:?}: {e}"))
            .unwrap_or_else(|e| panic!("{line:?}: {e}"))
    }

    /// The value of a key.
    pub fn get(&mut self, key: &str) -> Option<String> {
        let mut items = self.gets(&[key]);
        let item = items.pop()?;
        Some(String::from_utf8_lossy(&item.data).into_owned())
    }

    /// The version of a key's value.
    pub fn version(&mut self, key: &str) -> u64 {
        self.gets(&[key])[0].cas.unwrap()
    }
}
