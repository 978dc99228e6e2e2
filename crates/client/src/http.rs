//! HTTP/1.1 requests to services, one a connection, with TLS for `https`.
//!
//! Certificates are verified against the system's authorities, or those of the file that
//! `SSL_CERT_FILE` names.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Limits of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest wait for the connection, and for each read and write.
    pub wait: Duration,
    /// Longest response in bytes, head included.
    pub response: u64,
}

/// Files in which distributions keep the system's authorities.
const AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Address of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    uses_tls: bool,
    name: String,
    port: u16,
}

impl Endpoint {
    /// Parses `http://HOST[:PORT]` or `https://HOST[:PORT]`.
    pub fn parse(url: &str) -> Option<Endpoint> {
        let (scheme, rest) = url.split_once("://")?;
        let uses_tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let host = rest.trim_end_matches('/');
        let standard = if uses_tls { 443 } else { 80 };
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) => (name, port.parse().ok()?),
            None => (host, standard),
        };
        (!name.is_empty() && !name.contains('/')).then(|| Endpoint {
            uses_tls,
            name: name.to_owned(),
            port,
        })
    }

    /// The Host header.
    pub fn host(&self) -> String {
        let standard = if self.uses_tls { 443 } else { 80 };
        if self.port == standard {
            self.name.clone()
        } else {
            format!("{}:{}", self.name, self.port)
        }
    }

    fn connect(&self, wait: Duration) -> io::Result<TcpStream> {
        let mut last = io::Error::other("the name has no address");
        for address in (self.name.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, wait) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(wait))?;
                    stream.set_write_timeout(Some(wait))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// GET, PUT, POST or DELETE.
    pub method: &'a str,
    /// The path, encoded.
    pub path: &'a str,
    /// The query, encoded.
    pub query: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Sends a request and reads the response.
///
/// # Errors
/// The connection, TLS, or a response that is not HTTP or too long.
pub fn send(
    endpoint: &Endpoint,
    request: &Request<'_>,
    headers: &[(&'static str, String)],
    limits: Limits,
) -> io::Result<Response> {
    let stream = endpoint.connect(limits.wait)?;
    if endpoint.uses_tls {
        let name = ServerName::try_from(endpoint.name.clone()).map_err(io::Error::other)?;
        let session = ClientConnection::new(tls_config()?, name).map_err(io::Error::other)?;
        let stream = StreamOwned::new(session, stream);
        exchange(stream, request, headers, limits.response)
    } else {
        exchange(stream, request, headers, limits.response)
    }
}

fn tls_config() -> io::Result<Arc<ClientConfig>> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let standard = AUTHORITIES.iter().map(PathBuf::from);
    let file = named.or_else(|| standard.into_iter().find(|path| path.exists()));
    let file = file.ok_or_else(|| io::Error::other("no file with certificate authorities"))?;
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(&file).map_err(io::Error::other)?;
    roots.add_parsable_certificates(certificates.flatten());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn exchange(
    mut stream: impl Read + Write,
    request: &Request<'_>,
    headers: &[(&'static str, String)],
    max_response: u64,
) -> io::Result<Response> {
    let question = if request.query.is_empty() { "" } else { "?" };
    let mut head = format!(
        "{} {}{question}{} HTTP/1.1\r\ncontent-length: {}\r\nconnection: close\r\n",
        request.method,
        request.path,
        request.query,
        request.body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(request.body)?;
    stream.flush()?;
    let mut bytes = Vec::new();
    match stream.take(max_response).read_to_end(&mut bytes) {
        // A peer may close without TLS's notification; the length is checked below.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    parse(&bytes).ok_or_else(|| io::Error::other("the response is not complete"))
}

/// Parses a response up to the end of the connection.
fn parse(bytes: &[u8]) -> Option<Response> {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
    let (head, body) = bytes.split_at_checked(end)?;
    let body = body.get(4..)?;
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next()?.strip_prefix("HTTP/1.")?;
    let status = status_line.get(2..5)?.parse().ok()?;
    if status == 100 {
        return parse(body);
    }
    let (mut length, mut is_chunked) = (None, false);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse::<usize>().ok()?);
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = value.eq_ignore_ascii_case("chunked");
        }
    }
    let body = match length {
        _ if is_chunked => unchunk(body)?,
        Some(length) => body.get(..length)?.to_vec(),
        None => body.to_vec(),
    };
    Some(Response { status, body })
}

/// The content of a body in chunks; `None` if it is not complete.
fn unchunk(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let end = body.windows(2).position(|w| w == b"\r\n")?;
        let size = std::str::from_utf8(body.get(..end)?).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        body = body.get(end + 2..)?;
        if size == 0 {
            return Some(out);
        }
        out.extend_from_slice(body.get(..size)?);
        body = body.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls() {
        let host = |url| Endpoint::parse(url).map(|e| e.host());
        assert_eq!(
            host("http://127.0.0.1:9000/"),
            Some("127.0.0.1:9000".into())
        );
        assert_eq!(
            host("https://s3.eu-west-1.amazonaws.com"),
            Some("s3.eu-west-1.amazonaws.com".into())
        );
        for bad in [
            "",
            "s3.com",
            "ftp://x",
            "http://",
            "http://a/b",
            "http://a:b",
        ] {
            assert_eq!(host(bad), None, "{bad}");
        }
    }

    #[test]
    fn responses_are_read_to_their_length() {
        let body = |text: &str| parse(text.as_bytes()).map(|r| (r.status, r.body));
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(body(whole), Some((200, b"abc".to_vec())));
        assert_eq!(body(&whole[..whole.len() - 1]), None);
        let chunked =
            "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n";
        assert_eq!(body(chunked), Some((404, b"abc".to_vec())));
        assert_eq!(body(&chunked[..chunked.len() - 8]), None);
        assert_eq!(
            body("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
            Some((200, Vec::new()))
        );
        assert_eq!(body("nonsense\r\n\r\n"), None);
    }
}
