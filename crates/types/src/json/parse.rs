//! The parser: recursive descent over bytes, with the reasons and positions
//! that MySQL reports for invalid JSON.

use super::{Json, MAX_DEPTH, Object};
use porpoise_base::interrupt;

/// Reason and position of a syntax error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// In MySQL's words; empty when the document is too deep (3157).
    pub reason: &'static str,
    /// Offset of the byte at which the error was detected.
    pub position: usize,
}

impl ParseError {
    /// Whether the document is nested too deep, which is an error of its own.
    #[must_use]
    pub fn too_deep(&self) -> bool {
        self.reason.is_empty()
    }
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.too_deep() {
            return f.write_str("The JSON document exceeds the maximum depth.");
        }
        write!(f, "\"{}\" at position {}", self.reason, self.position)
    }
}

/// Parses a document.
///
/// # Errors
/// Text that is not JSON, or nested deeper than [`MAX_DEPTH`].
pub fn parse(text: &[u8]) -> Result<Json, ParseError> {
    let mut p = Parser {
        text,
        at: 0,
        depth: 0,
    };
    p.skip_space();
    if p.peek().is_none() {
        return p.fail("The document is empty.");
    }
    let value = p.value()?;
    p.skip_space();
    match p.peek() {
        None => Ok(value),
        Some(_) => p.fail("The document root must not be followed by other values."),
    }
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
}

type Parsed<T> = Result<T, ParseError>;

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn fail<T>(&self, reason: &'static str) -> Parsed<T> {
        self.fail_at(reason, self.at)
    }

    fn fail_at<T>(&self, reason: &'static str, position: usize) -> Parsed<T> {
        Err(ParseError { reason, position })
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Parsed<Json> {
        if interrupt::leaves() {
            return self.fail("The statement was interrupted.");
        }
        match self.peek() {
            Some(b'{') => self.nested(Parser::object),
            Some(b'[') => self.nested(Parser::array),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b't') => self.word(b"true", Json::Bool(true)),
            Some(b'f') => self.word(b"false", Json::Bool(false)),
            Some(b'n') => self.word(b"null", Json::Null),
            _ => self.number(),
        }
    }

    fn nested(&mut self, inner: fn(&mut Self) -> Parsed<Json>) -> Parsed<Json> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail("");
        }
        self.at += 1;
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn word(&mut self, word: &[u8], value: Json) -> Parsed<Json> {
        for byte in word {
            if !self.eat(*byte) {
                return self.fail("Invalid value.");
            }
        }
        Ok(value)
    }

    fn array(&mut self) -> Parsed<Json> {
        let mut items = Vec::new();
        self.skip_space();
        if self.eat(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_space();
            if self.eat(b']') {
                return Ok(Json::Array(items));
            }
            if !self.eat(b',') {
                return self.fail("Missing a comma or ']' after an array element.");
            }
            self.skip_space();
        }
    }

    fn object(&mut self) -> Parsed<Json> {
        let mut members = Vec::new();
        self.skip_space();
        if self.eat(b'}') {
            return Ok(Json::Object(Object::default()));
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.fail("Missing a name for object member.");
            }
            let key = self.string()?;
            self.skip_space();
            if !self.eat(b':') {
                return self.fail("Missing a colon after a name of object member.");
            }
            self.skip_space();
            members.push((key, self.value()?));
            self.skip_space();
            if self.eat(b'}') {
                return Ok(Json::Object(Object::from_members(members)));
            }
            if !self.eat(b',') {
                return self.fail("Missing a comma or '}' after an object member.");
            }
            self.skip_space();
        }
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - from
    }

    fn number(&mut self) -> Parsed<Json> {
        let start = self.at;
        self.eat(b'-');
        // A leading 0 must not be followed by another digit.
        if !self.eat(b'0') && self.digits() == 0 {
            return self.fail("Invalid value.");
        }
        let mut whole = true;
        if self.eat(b'.') {
            whole = false;
            if self.digits() == 0 {
                return self.fail("Miss fraction part in number.");
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            whole = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if self.digits() == 0 {
                return self.fail("Miss exponent in number.");
            }
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let text = std::str::from_utf8(text).unwrap_or_default();
        if whole {
            if let Ok(v) = text.parse() {
                return Ok(Json::Int(v));
            }
            if let Ok(v) = text.parse() {
                return Ok(Json::UInt(v));
            }
        }
        match text.parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(Json::Double(v)),
            _ => self.fail_at("Number too big to be stored in double.", start),
        }
    }

    /// Parses a string; the cursor is at the opening quotation mark.
    fn string(&mut self) -> Parsed<String> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let from = self.at;
            while self
                .peek()
                .is_some_and(|b| !matches!(b, b'"' | b'\\' | 0..0x20))
            {
                self.at += 1;
            }
            out.extend_from_slice(self.text.get(from..self.at).unwrap_or_default());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    let start = self.at;
                    return String::from_utf8(out)
                        .or_else(|_| self.fail_at("Invalid encoding in string.", start));
                }
                Some(b'\\') => self.escape(&mut out)?,
                None | Some(0) => {
                    return self.fail("Missing a closing quotation mark in string.");
                }
                Some(_) => return self.fail("Invalid encoding in string."),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Parsed<()> {
        let start = self.at;
        self.at += 1;
        let plain = match self.peek() {
            Some(b @ (b'"' | b'\\' | b'/')) => b,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let character = self.unicode(start)?;
                let mut buffer = [0; 4];
                out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                return Ok(());
            }
            _ => return self.fail_at("Invalid escape character in string.", start),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    fn hex4(&mut self, start: usize) -> Parsed<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            let Some(digit) = digit else {
                return self.fail_at("Incorrect hex digit after \\u escape in string.", start);
            };
            code = code << 4 | digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn unicode(&mut self, start: usize) -> Parsed<char> {
        const BROKEN_SURROGATE: &str = "The surrogate pair in string is invalid.";
        let mut code = self.hex4(start)?;
        if (0xd800..0xdc00).contains(&code) {
            if !(self.eat(b'\\') && self.eat(b'u')) {
                return self.fail_at(BROKEN_SURROGATE, start);
            }
            let low = self.hex4(start)?;
            if !(0xdc00..0xe000).contains(&low) {
                return self.fail_at(BROKEN_SURROGATE, start);
            }
            code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
        }
        match char::from_u32(code) {
            Some(character) => Ok(character),
            None => self.fail_at(BROKEN_SURROGATE, start),
        }
    }
}
