//! Files for LOAD DATA LOCAL: which ones a statement names, and their packets.
//!
//! A server may answer any statement with a request for any file of the client. The name in the request is
//! therefore compared with the statement's own text, and everything else is refused
//! ([`named_files`]).

use porpoise_base::escapes::unescape;
use porpoise_wire::mysql::frame;
use std::fmt;
use std::io::{self, Read};

/// Bytes of a file in one packet.
const PACKET: usize = 1 << 20;

/// Opens the file of this name for reading.
pub type OpenFile<'f> = dyn FnMut(&[u8]) -> io::Result<Box<dyn Read>> + 'f;

/// Opens nothing: for statements that load no files.
pub(crate) fn refuse_files(_: &[u8]) -> io::Result<Box<dyn Read>> {
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "files of this client are not allowed",
    ))
}

/// A failed transfer of a file.
#[derive(Debug)]
pub struct FileError {
    /// Name in the statement.
    pub name: String,
    /// Error of the system.
    pub source: io::Error,
    /// Whether a part has been sent, so that the connection was closed: the end of the file would have made
    /// the server commit that part.
    pub is_partial: bool,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {:?} cannot be read: {}", self.name, self.source)
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Reads the next part of a file and appends its packet to `out`. Returns whether it was the end, which is an
/// empty packet.
pub(crate) fn next_packet(
    file: &mut dyn Read,
    buffer: &mut Vec<u8>,
    out: &mut Vec<u8>,
    sequence: &mut u8,
) -> io::Result<bool> {
    buffer.resize(PACKET, 0);
    let count = loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    frame::packet(out, sequence, buffer.get(..count).unwrap_or_default());
    Ok(count == 0)
}

/// Names of the files that follow LOCAL INFILE in a text of one or several statements.
pub(crate) fn named_files(text: &[u8], has_backslash_escapes: bool) -> Vec<Vec<u8>> {
    let mut lexer = Lexer {
        rest: text,
        has_backslash_escapes,
    };
    let mut names = Vec::new();
    let (mut before, mut last) = (Token::Other, Token::Other);
    while let Some(token) = lexer.next() {
        if let (Token::Word(local), Token::Word(infile), Token::Text(name)) =
            (&before, &last, &token)
            && local.eq_ignore_ascii_case(b"LOCAL")
            && infile.eq_ignore_ascii_case(b"INFILE")
        {
            names.push(name.clone());
        }
        before = std::mem::replace(&mut last, token);
    }
    names
}

/// A token of SQL, as far as names of files need it.
#[derive(Debug, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t [u8]),
    /// A literal in quotes, its content.
    Text(Vec<u8>),
    Other,
}

struct Lexer<'t> {
    rest: &'t [u8],
    has_backslash_escapes: bool,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl<'t> Lexer<'t> {
    fn advance(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    /// Skips to after the next occurrence of `end`, or to the end of the text.
    fn skip_past(&mut self, end: &[u8]) {
        let found = self.rest.windows(end.len()).position(|w| w == end);
        self.advance(found.map_or(self.rest.len(), |at| at + end.len()));
    }

    fn next(&mut self) -> Option<Token<'t>> {
        loop {
            match self.rest {
                [] => return None,
                [b'#', ..] => self.skip_past(b"\n"),
                [b'-', b'-', after, ..] if after.is_ascii_whitespace() => self.skip_past(b"\n"),
                // The content of /*! */ and /*M! */ is part of the statement.
                [b'/', b'*', b'!', ..] => self.skip_version(3),
                [b'/', b'*', b'M', b'!', ..] => self.skip_version(4),
                [b'/', b'*', ..] => self.skip_past(b"*/"),
                [b'*', b'/', ..] => self.advance(2),
                [byte, ..] if byte.is_ascii_whitespace() => self.advance(1),
                [quote @ (b'\'' | b'"' | b'`'), ..] => return Some(self.quoted(*quote)),
                [byte, ..] if is_word(*byte) => {
                    let end = self.rest.iter().position(|b| !is_word(*b));
                    let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                    self.rest = rest;
                    return Some(Token::Word(word));
                }
                _ => {
                    self.advance(1);
                    return Some(Token::Other);
                }
            }
        }
    }

    fn skip_version(&mut self, head: usize) {
        self.advance(head);
        let digits = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        self.advance(digits);
    }

    fn quoted(&mut self, quote: u8) -> Token<'t> {
        self.advance(1);
        let mut content = Vec::new();
        loop {
            match self.rest {
                [] => break,
                [a, b, ..] if *a == quote && *b == quote => {
                    content.push(quote);
                    self.advance(2);
                }
                [a, ..] if *a == quote => {
                    self.advance(1);
                    break;
                }
                [b'\\', escaped, ..] if self.has_backslash_escapes && quote != b'`' => {
                    content.push(unescape(*escaped));
                    self.advance(2);
                }
                [byte, ..] => {
                    content.push(*byte);
                    self.advance(1);
                }
            }
        }
        if quote == b'`' {
            Token::Other
        } else {
            Token::Text(content)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let found = named_files(text.as_bytes(), true);
        let text = |name| String::from_utf8(name).unwrap();
        found.into_iter().map(text).collect()
    }

    #[test]
    fn files_are_those_after_local_infile() {
        assert_eq!(
            names(
                "LOAD DATA LOCAL INFILE '/a' INTO TABLE t; load data local infile \"b\"\"c\" ..."
            ),
            ["/a", "b\"c"]
        );
        assert_eq!(
            names("LOAD DATA /* x */ LOCAL -- y\n INFILE # 'z'\n 'it\\'s' INTO TABLE t"),
            ["it's"]
        );
        assert_eq!(names("/*!50000 LOAD DATA LOCAL INFILE 'v' */"), ["v"]);
        for other in [
            "SELECT 'LOCAL INFILE ''/etc/passwd'''",
            "SELECT \"LOCAL INFILE '/etc/passwd'\"",
            "SELECT `LOCAL INFILE '/etc/passwd'`",
            "SELECT 1 /* LOCAL INFILE '/etc/passwd' */",
            "SELECT 1 -- LOCAL INFILE '/etc/passwd'",
            "LOAD DATA INFILE '/server/file' INTO TABLE t",
            "LOAD DATA LOCAL INFILE",
            "",
        ] {
            assert!(names(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn backslashes_are_escapes_only_if_the_session_says_so() {
        let text = br"LOAD DATA LOCAL INFILE 'C:\\t' INTO TABLE t";
        assert_eq!(named_files(text, true), [br"C:\t"]);
        assert_eq!(named_files(text, false), [br"C:\\t"]);
    }
}
