//! A connection of memcached's ASCII protocol: requests as bytes, replies line by line with their data.
//!
//! Unlike the reply parser of `porpoise-wire`, which knows the classic commands, this one reads the replies
//! to all commands of the dialect, those of `stats` and of meta commands too.

use crate::error::{Error, Result};
use crate::stream::{Address, Input, Stream};
use crate::tls::{TlsMode, TlsOptions};
use std::io::Write;
use std::time::Duration;

/// Longest line of a reply, in bytes.
const MAX_LINE: usize = 64 << 10;

/// Longest value, in bytes.
const MAX_VALUE: usize = 1 << 30;

/// End of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With its first line, and the data that the line announces.
    Line,
    /// With `END` or `RESET`.
    End,
    /// There is no reply.
    None,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    input: Input,
}

impl Connection {
    /// Connects. memcached's port has no way to offer TLS, so `Preferred` means none.
    ///
    /// # Errors
    /// The address, or TLS.
    pub fn connect(address: &Address, tls: &TlsOptions, timeout: Duration) -> Result<Connection> {
        let mut stream = Stream::open(address, timeout)?;
        stream.set_timeout(Some(timeout))?;
        if !matches!(tls.mode, TlsMode::Disabled | TlsMode::Preferred) {
            stream = tls.wrap(stream, address)?;
        }
        Ok(Connection {
            stream,
            input: Input::default(),
        })
    }

    /// Sends user and password as a `set`, which memcached calls ASCII authentication. Returns the reply.
    ///
    /// # Errors
    /// The connection's.
    pub fn authenticate(&mut self, user: &str, password: &str) -> Result<Vec<u8>> {
        let mut request =
            format!("set auth 0 0 {}\r\n", user.len() + 1 + password.len()).into_bytes();
        for part in [user, " ", password, "\r\n"] {
            request.extend_from_slice(part.as_bytes());
        }
        let mut reply = Vec::new();
        self.request(&request, Ending::Line, |line, _| {
            reply.extend_from_slice(line);
            Ok::<(), Error>(())
        })?;
        Ok(reply)
    }

    /// Sends a request, and passes each line of the reply to `receive`, with its data if it has any.
    ///
    /// # Errors
    /// The connection's, and those of `receive`.
    pub fn request<E: From<Error>>(
        &mut self,
        request: &[u8],
        ending: Ending,
        mut receive: impl FnMut(&[u8], Option<&[u8]>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.stream.write_all(request).map_err(Error::Lost)?;
        self.stream.flush().map_err(Error::Lost)?;
        let mut is_complete = ending == Ending::None;
        while !is_complete {
            let line = self.line()?;
            let data = match announced(&line)? {
                Some(length) => Some(self.data(length)?),
                None => None,
            };
            let ends = matches!(line.as_slice(), b"END" | b"RESET") || is_error(&line);
            is_complete = ending == Ending::Line || ends;
            receive(&line, data.as_deref())?;
        }
        Ok(())
    }

    fn line(&mut self) -> Result<Vec<u8>> {
        loop {
            let unread = self.input.unread();
            if let Some(end) = unread.windows(2).position(|two| two == b"\r\n") {
                let line = unread.get(..end).unwrap_or_default().to_vec();
                self.input.consume(end + 2);
                return Ok(line);
            }
            if unread.len() > MAX_LINE {
                return Err(Error::Protocol("a line of a reply is too long"));
            }
            self.input.fill(&mut self.stream)?;
        }
    }

    fn data(&mut self, length: usize) -> Result<Vec<u8>> {
        while self.input.unread().len() < length + 2 {
            self.input.fill(&mut self.stream)?;
        }
        let unread = self.input.unread();
        if unread.get(length..length + 2) != Some(b"\r\n") {
            return Err(Error::Protocol("a value does not end where its line says"));
        }
        let data = unread.get(..length).unwrap_or_default().to_vec();
        self.input.consume(length + 2);
        Ok(data)
    }
}

/// Length of the data that follows a line.
fn announced(line: &[u8]) -> Result<Option<usize>> {
    let mut words = line.split(|&byte| byte == b' ');
    let word = match words.next() {
        Some(b"VALUE") => words.nth(2),
        Some(b"VA") => words.next(),
        _ => return Ok(None),
    };
    let length = word
        .and_then(|word| std::str::from_utf8(word).ok())
        .and_then(|word| word.parse().ok())
        .filter(|&length| length <= MAX_VALUE)
        .ok_or(Error::Protocol("the length of a value cannot be read"))?;
    Ok(Some(length))
}

/// Whether a line says that the request failed.
pub fn is_error(line: &[u8]) -> bool {
    [&b"ERROR"[..], b"CLIENT_ERROR", b"SERVER_ERROR"]
        .iter()
        .any(|word| line.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    /// Sends `reply` in two pieces to a client that has sent a line; returns what the client has read.
    fn read(reply: &'static [u8], ending: Ending) -> Result<Vec<(String, Option<Vec<u8>>)>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 64];
            assert!(stream.read(&mut request).unwrap() > 0);
            let (first, second) = reply.split_at(reply.len() / 2);
            stream.write_all(first).unwrap();
            stream.flush().unwrap();
            std::thread::sleep(Duration::from_millis(20));
            stream.write_all(second).unwrap();
        });
        let address = Address::Tcp("127.0.0.1".into(), port);
        let timeout = Duration::from_secs(10);
        let mut connection = Connection::connect(&address, &TlsOptions::default(), timeout)?;
        let mut found = Vec::new();
        let result = connection.request(b"get a\r\n", ending, |line, data| {
            let line = String::from_utf8_lossy(line).into_owned();
            found.push((line, data.map(<[u8]>::to_vec)));
            Ok::<(), Error>(())
        });
        server.join().unwrap();
        result.map(|()| found)
    }

    #[test]
    fn values_come_with_their_data() {
        let found = read(
            b"VALUE a 0 4\r\n\r\nEN\r\nVALUE b 1 0 7\r\n\r\nEND\r\n",
            Ending::End,
        )
        .unwrap();
        assert_eq!(found[0], ("VALUE a 0 4".into(), Some(b"\r\nEN".to_vec())));
        assert_eq!(found[1], ("VALUE b 1 0 7".into(), Some(Vec::new())));
        assert_eq!(found[2], ("END".into(), None));
        let found = read(b"VA 2 s2\r\nhi\r\n", Ending::Line).unwrap();
        assert_eq!(found, [("VA 2 s2".into(), Some(b"hi".to_vec()))]);
    }

    #[test]
    fn errors_end_any_reply() {
        let found = read(b"SERVER_ERROR no\r\n", Ending::End).unwrap();
        assert_eq!(found, [("SERVER_ERROR no".into(), None)]);
    }

    #[test]
    fn replies_that_lie_about_lengths_are_refused() {
        for bad in [
            &b"VALUE a 0 99999999999\r\n"[..],
            b"VALUE a 0 2\r\nxyz\r\n",
            b"VALUE a 0 5\r\nab",
        ] {
            assert!(read(bad, Ending::End).is_err());
        }
    }
}
