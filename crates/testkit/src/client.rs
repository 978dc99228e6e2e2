//! Minimal clients: the `mariadb` program for SQL, and raw bytes over a socket.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::fail;

/// Read timeout of an exchange.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Output of the `mariadb` program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlOutput {
    /// Rows, tab-separated, without column names.
    pub stdout: String,
    /// Error and warning lines.
    pub stderr: String,
    /// Whether every statement succeeded.
    pub is_ok: bool,
}

impl SqlOutput {
    /// Returns the rows; fails the test if a statement failed.
    pub fn rows(&self) -> Vec<Vec<&str>> {
        if !self.is_ok {
            fail("sql", &self.stderr);
        }
        self.stdout
            .lines()
            .map(|line| line.split('\t').collect())
            .collect()
    }

    /// Returns the error number of the failed statement, like 1452; `None` if all succeeded.
    pub fn error_number(&self) -> Option<u32> {
        let rest = self.stderr.split("ERROR ").nth(1)?;
        let digits = rest.split(|byte: char| !byte.is_ascii_digit()).next()?;
        digits.parse().ok()
    }
}

/// Runs statements as root through the `mariadb` program, which stops at the first that fails.
pub fn sql(address: SocketAddr, statements: &str) -> SqlOutput {
    let mut command = Command::new("mariadb");
    command
        .arg("--no-defaults")
        .arg("--protocol=tcp")
        .arg(format!("--host={}", address.ip()))
        .arg(format!("--port={}", address.port()))
        .args(["--user=root", "--batch", "--skip-column-names"])
        .args(["--default-character-set=utf8mb4", "--connect-timeout=30"])
        .arg(format!("--execute={statements}"))
        .stdin(Stdio::null());
    match command.output() {
        Ok(done) => SqlOutput {
            stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
            is_ok: done.status.success(),
        },
        Err(error) => fail(
            "sql",
            format_args!("cannot run `mariadb`: {error}; run `make needs`"),
        ),
    }
}

/// Sends bytes, closes the sending half, and returns everything that the server sends until it closes
/// the connection, like `nc -N`.
pub fn exchange(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let run = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&address, READ_TIMEOUT)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(READ_TIMEOUT))?;
        let mut reader = stream.try_clone()?;
        // Reads while writing, so that a long reply cannot block a long request.
        let answer = std::thread::spawn(move || {
            let mut answer = Vec::new();
            reader.read_to_end(&mut answer).map(|_| answer)
        });
        stream.write_all(request)?;
        stream.shutdown(Shutdown::Write)?;
        answer
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("the reading thread panicked")))
    };
    match run() {
        Ok(answer) => answer,
        Err(error) => fail("exchange", format_args!("{address}: {error}")),
    }
}

/// Requests a path over HTTP; returns the status and the body.
pub fn http_get(address: SocketAddr, path: &str) -> (u16, String) {
    let run = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, READ_TIMEOUT)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        // Keeps the sending half open, because a server may treat its end as a disconnect.
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = match run() {
        Ok(answer) => answer,
        Err(error) => fail("http", format_args!("{address}{path}: {error}")),
    };
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    match (status, answer.split_once("\r\n\r\n")) {
        (Some(status), Some((_, body))) => (status, body.to_owned()),
        _ => fail("http", format_args!("{address}{path} answered: {answer}")),
    }
}

/// An answer over HTTP.
#[derive(Clone, Debug)]
pub struct HttpReply {
    /// Its status; 0 if the connection was closed without an answer.
    pub status: u16,
    /// The status line and the headers.
    pub headers: String,
    /// The body.
    pub body: String,
}

impl HttpReply {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|l| l.split_once(": "));
        let found = lines.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }
}

/// Sends bytes, and reads an answer over HTTP until the connection closes.
pub fn http_exchange(address: SocketAddr, request: &[u8]) -> HttpReply {
    let mut answer = Vec::new();
    let mut run = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, READ_TIMEOUT)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(request);
        let _ = stream.read_to_end(&mut answer);
        Ok(())
    };
    if let Err(error) = run() {
        fail("http", format_args!("{address}: {error}"));
    }
    let answer = String::from_utf8_lossy(&answer);
    let (headers, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = headers.split(' ').nth(1).and_then(|word| word.parse().ok());
    HttpReply {
        status: status.unwrap_or(0),
        headers: headers.to_owned(),
        body: body.to_owned(),
    }
}

/// Requests a path over HTTP/1.0, so that the body is not in chunks. `headers` are whole lines.
pub fn http_request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> HttpReply {
    let mut request = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n");
    for line in headers {
        request.push_str(line);
        request.push_str("\r\n");
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    http_exchange(address, request.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(stderr: &str) -> SqlOutput {
        SqlOutput {
            stdout: String::new(),
            stderr: stderr.to_owned(),
            is_ok: false,
        }
    }

    #[test]
    fn status_and_body_of_an_http_reply_are_returned() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let length = stream.read(&mut request).unwrap();
            stream
                .write_all(b"HTTP/1.1 503 Busy\r\nA: b\r\n\r\nlater\n")
                .unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        assert_eq!(http_get(address, "/health"), (503, "later\n".to_owned()));
        assert!(
            server
                .join()
                .unwrap()
                .starts_with("GET /health HTTP/1.1\r\n")
        );
    }

    #[test]
    fn error_numbers_are_found() {
        let output = failed("--------------\nERROR 1452 (23000) at line 1: Cannot add\n");
        assert_eq!(output.error_number(), Some(1452));
        assert_eq!(failed("").error_number(), None);
    }
}
