//! Parts of a document in normal form, found in its text without building the tree.
//!
//! A path of members and elements is followed by skipping the values before the one selected: a string
//! to its closing quotation mark, an object or array to the bracket that closes it. The part is the
//! text between, which is in normal form itself.
//!
//! Invariant: a text that does not look as expected is left to the parser ([`Part::Unknown`]).

use super::path::{Path, Step};
use porpoise_base::interrupt;

/// Result of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'t> {
    /// The text of a value.
    Found(&'t [u8]),
    /// Nothing.
    Missing,
    /// The document must be parsed.
    Unknown,
}

/// The part of a document in normal form that a path selects.
#[must_use]
pub fn part<'t>(text: &'t [u8], path: &Path) -> Part<'t> {
    let mut value = text;
    for step in &path.steps {
        let found = match step {
            Step::Member(name) => member(value, name.as_bytes()),
            Step::Element(index) => match index.fixed_position() {
                Some(number) => element(value, number),
                None => Part::Unknown,
            },
            _ => Part::Unknown,
        };
        match found {
            Part::Found(part) => value = part,
            other => return other,
        }
    }
    Part::Found(value)
}

/// The content of a string, if it contains no escapes.
#[must_use]
pub fn plain_string(text: &[u8]) -> Option<&[u8]> {
    let content = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let plain = |byte: &u8| !matches!(byte, 0..0x20 | b'"' | b'\\');
    (content.iter().all(plain) && std::str::from_utf8(content).is_ok()).then_some(content)
}

/// The value of a member of an object.
fn member<'t>(object: &'t [u8], name: &[u8]) -> Part<'t> {
    let mut scanner = Scanner::of(object);
    if !scanner.eat(b'{') {
        return Part::Missing;
    }
    if scanner.eat(b'}') {
        return Part::Missing;
    }
    loop {
        let Some(key) = scanner.string() else {
            return Part::Unknown;
        };
        if key.contains(&b'\\') || !scanner.eat(b':') {
            return Part::Unknown;
        }
        scanner.skip_space();
        let Some(value) = scanner.value() else {
            return Part::Unknown;
        };
        if key == name {
            return Part::Found(value);
        }
        if scanner.eat(b'}') {
            return Part::Missing;
        }
        if !scanner.eat(b',') {
            return Part::Unknown;
        }
        scanner.skip_space();
    }
}

/// An element of an array; any other value is the first element of an array of itself.
fn element(array: &[u8], number: usize) -> Part<'_> {
    let mut scanner = Scanner::of(array);
    if !scanner.eat(b'[') {
        return if number == 0 {
            Part::Found(array)
        } else {
            Part::Missing
        };
    }
    if scanner.eat(b']') {
        return Part::Missing;
    }
    let mut at = 0;
    loop {
        let Some(value) = scanner.value() else {
            return Part::Unknown;
        };
        if at == number {
            return Part::Found(value);
        }
        at += 1;
        if scanner.eat(b']') {
            return Part::Missing;
        }
        if !scanner.eat(b',') {
            return Part::Unknown;
        }
        scanner.skip_space();
    }
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Scanner<'t> {
    fn of(text: &'t [u8]) -> Scanner<'t> {
        Scanner { text, at: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        while self.eat(b' ') {}
    }

    /// Passes a string. Returns what is between its quotation marks.
    fn string(&mut self) -> Option<&'t [u8]> {
        if !self.eat(b'"') {
            return None;
        }
        let start = self.at;
        loop {
            self.at += memchr::memchr2(b'"', b'\\', self.text.get(self.at..)?)?;
            if self.eat(b'"') {
                return self.text.get(start..self.at - 1);
            }
            // A backslash and the character after it.
            self.at += 2;
        }
    }

    /// Passes a value. Returns its text; `None` if the document ends before it, or the statement.
    fn value(&mut self) -> Option<&'t [u8]> {
        let start = self.at;
        let mut depth = 0usize;
        loop {
            if interrupt::leaves() {
                return None;
            }
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    self.at += 1;
                    depth += 1;
                }
                b'}' | b']' => {
                    self.at += 1;
                    depth = depth.checked_sub(1)?;
                }
                b',' | b':' | b' ' => self.at += 1,
                _ => self.scalar(),
            }
            if depth == 0 {
                return self.text.get(start..self.at);
            }
        }
    }

    /// Passes a number or a word.
    fn scalar(&mut self) {
        while !matches!(self.peek(), None | Some(b',' | b'}' | b']' | b' ')) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn parts_are_those_of_the_parsed_document() {
        let documents = [
            r#"{"a": 1, "b": [1, 2.5, {"c": "x, }"}], "cc": {"a": null}, "d\"": "q\\\"", "ä": true}"#,
            r#"[{"a": {"b": [[]]}}, "text", -1.5e10, {}]"#,
            r#""only text""#,
            "17",
            "{}",
            "[]",
            r#"{"a": "", "b": {"b": {"b": [0, [1, "]"]]}}}"#,
        ];
        let paths = [
            "$",
            "$.a",
            "$.b",
            "$.cc",
            "$.cc.a",
            "$.b[0]",
            "$.b[1]",
            "$.b[2].c",
            "$.b[3]",
            "$[0]",
            "$[1]",
            "$[2]",
            "$[3]",
            "$[0].a.b[0]",
            "$.ä",
            "$.none",
            "$[0][0]",
            "$.a[0].b",
            "$.b.b.b[1][1]",
            "$[last]",
            "$.*",
            "$.\"d\\\"\"",
            "$.b[last]",
        ];
        let mut found = 0;
        for document in documents {
            let text = parse(document.as_bytes()).unwrap().to_text();
            for path in paths {
                let path = Path::parse(path.as_bytes()).unwrap();
                let parsed = parse(&text).unwrap();
                let expected = path.select(&parsed);
                match part(&text, &path) {
                    Part::Found(part) => {
                        found += 1;
                        assert_eq!(part, expected[0].to_text(), "{path:?} of {document}");
                        assert_eq!(expected.len(), 1);
                    }
                    Part::Missing => assert!(expected.is_empty(), "{path:?} of {document}"),
                    Part::Unknown => {}
                }
            }
        }
        assert!(found > 30, "{found}");
    }

    #[test]
    fn damaged_texts_are_left_to_the_parser() {
        let path = Path::parse(b"$.b[1]").unwrap();
        for text in [
            "{",
            "{\"a",
            "{\"b\": [1",
            "{\"b\": [1 2]}",
            "{\"a\" 1}",
            "{\"a\": 1",
            "{,",
            "{\"b\\",
        ] {
            assert_eq!(part(text.as_bytes(), &path), Part::Unknown, "{text}");
        }
    }

    #[test]
    fn strings_without_escapes_are_plain() {
        assert_eq!(plain_string(b"\"a b\""), Some(&b"a b"[..]));
        assert_eq!(plain_string(b"\"\""), Some(&b""[..]));
        for text in [
            &b"\"a\\n\""[..],
            b"\"",
            b"a",
            b"\"a\"b\"",
            b"\"\xff\"",
            b"\"\n\"",
        ] {
            assert_eq!(plain_string(text), None, "{text:?}");
        }
    }
}
