//! Splits a Rust text into code and comments and finds its functions and tests, without parsing it.
//!
//! One pass over the bytes copies each byte to the code view or to the comment view and writes a
//! blank in the other, so that both have the text's length and lines. The contents of string and
//! character literals are in neither view. Functions and test modules are then found in the code
//! view by matching braces, so that braces in literals and comments do not count.
//!
//! Invariants:
//! 1. Both views have as many bytes and the same line breaks as the text.
//! 2. Incomplete text (an unclosed string, a missing brace) is not an error: the literal or function ends
//!    at the end of the text.

use std::ops::RangeInclusive;

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of `fn`, from 1.
    pub first_line: usize,
    /// Line of the closing brace.
    pub last_line: usize,
}

impl Function {
    /// Lines from `fn` to the closing brace, both counted.
    pub fn lines(&self) -> usize {
        self.last_line - self.first_line + 1
    }
}

/// A Rust text, split into code and comments.
pub struct Scan {
    /// The text with comments and the contents of literals blanked.
    pub code: String,
    /// The text with everything but comments blanked.
    pub comments: String,
    /// All functions with bodies, in the order of their `fn`.
    pub functions: Vec<Function>,
    /// Lines of items under `#[cfg(test)]`.
    pub test_spans: Vec<RangeInclusive<usize>>,
}

impl Scan {
    /// Splits `text`.
    pub fn new(text: &str) -> Self {
        let mut splitter = Splitter::new(text.as_bytes());
        splitter.run();
        let code = String::from_utf8_lossy(&splitter.code).into_owned();
        let comments = String::from_utf8_lossy(&splitter.comments).into_owned();
        let functions = find_functions(&code);
        let test_spans = find_test_spans(&code);
        Self {
            code,
            comments,
            functions,
            test_spans,
        }
    }

    /// Whether a line lies in an item under `#[cfg(test)]`.
    pub fn in_test(&self, line: usize) -> bool {
        self.test_spans.iter().any(|span| span.contains(&line))
    }
}

/// Destination of a byte of the source.
#[derive(Clone, Copy)]
enum To {
    Code,
    Comment,
    Nowhere,
}

struct Splitter<'a> {
    text: &'a [u8],
    at: usize,
    code: Vec<u8>,
    comments: Vec<u8>,
}

impl<'a> Splitter<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            code: Vec::with_capacity(text.len()),
            comments: Vec::with_capacity(text.len()),
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Consumes the current byte and copies it to `to`.
    fn take(&mut self, to: To) {
        let Some(byte) = self.peek(0) else { return };
        let blank = if byte == b'\n' { b'\n' } else { b' ' };
        let (code, comment) = match to {
            To::Code => (byte, blank),
            To::Comment => (blank, byte),
            To::Nowhere => (blank, blank),
        };
        self.code.push(code);
        self.comments.push(comment);
        self.at += 1;
    }

    fn take_many(&mut self, count: usize, to: To) {
        for _ in 0..count {
            self.take(to);
        }
    }

    fn run(&mut self) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'/' if self.peek(1) == Some(b'/') => self.line_comment(),
                b'/' if self.peek(1) == Some(b'*') => self.block_comment(),
                b'"' => self.string(),
                b'r' | b'b' | b'c' if !self.after_name() => self.raw_string_or_letter(),
                b'\'' => self.quote(),
                _ => self.take(To::Code),
            }
        }
    }

    /// Whether the byte before the current one can be part of a name.
    fn after_name(&self) -> bool {
        self.code.last().is_some_and(|byte| is_name_byte(*byte))
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|byte| byte != b'\n') {
            self.take(To::Comment);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.text.len() {
            if self.rest().starts_with(b"/*") {
                depth += 1;
                self.take_many(2, To::Comment);
            } else if self.rest().starts_with(b"*/") {
                depth -= 1;
                self.take_many(2, To::Comment);
                if depth == 0 {
                    return;
                }
            } else {
                self.take(To::Comment);
            }
        }
    }

    /// Consumes a string with escapes, from its opening quote.
    fn string(&mut self) {
        self.take(To::Code);
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => self.take_many(2, To::Nowhere),
                b'"' => return self.take(To::Code),
                _ => self.take(To::Nowhere),
            }
        }
    }

    /// Consumes a raw string, or only the current letter (`r`, `b` or `c`) if it begins none.
    fn raw_string_or_letter(&mut self) {
        let letters = self
            .rest()
            .iter()
            .take(2)
            .take_while(|byte| matches!(byte, b'r' | b'b' | b'c'))
            .count();
        let hashes = self
            .rest()
            .iter()
            .skip(letters)
            .take_while(|byte| **byte == b'#')
            .count();
        let raw = self.rest().iter().take(letters).any(|byte| *byte == b'r');
        if !raw || self.peek(letters + hashes) != Some(b'"') {
            return self.take(To::Code);
        }
        self.take_many(letters + hashes + 1, To::Code);
        let mut end = vec![b'"'];
        end.resize(hashes + 1, b'#');
        while self.at < self.text.len() {
            if self.rest().starts_with(&end) {
                return self.take_many(end.len(), To::Code);
            }
            self.take(To::Nowhere);
        }
    }

    /// Consumes a character literal, or the quote of a lifetime.
    fn quote(&mut self) {
        let escaped = self.peek(1) == Some(b'\\');
        // Length of the character in UTF-8.
        let width = match self.peek(1) {
            Some(byte) if byte >= 0xF0 => 4,
            Some(byte) if byte >= 0xE0 => 3,
            Some(byte) if byte >= 0xC0 => 2,
            _ => 1,
        };
        if !escaped && self.peek(1 + width) != Some(b'\'') {
            return self.take(To::Code);
        }
        self.take(To::Code);
        if escaped {
            self.take_many(2, To::Nowhere);
        }
        while self
            .peek(0)
            .is_some_and(|byte| byte != b'\'' && byte != b'\n')
        {
            self.take(To::Nowhere);
        }
        self.take(To::Code);
    }
}

/// Whether a byte can be part of a Rust name.
pub fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Line of a byte offset, from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    1 + text
        .bytes()
        .take(offset)
        .filter(|byte| *byte == b'\n')
        .count()
}

/// Returns the offsets at which `word` occurs as a whole word in `code`.
pub fn find_word(code: &str, word: &str) -> Vec<usize> {
    let first_is_name = word.bytes().next().is_some_and(is_name_byte);
    let last_is_name = word.bytes().next_back().is_some_and(is_name_byte);
    let bytes = code.as_bytes();
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(|at| {
            let before = at.checked_sub(1).and_then(|index| bytes.get(index));
            let after = bytes.get(at + word.len());
            let joined_before = first_is_name && before.is_some_and(|byte| is_name_byte(*byte));
            let joined_after = last_is_name && after.is_some_and(|byte| is_name_byte(*byte));
            !joined_before && !joined_after
        })
        .collect()
}

/// The name that follows an offset, after blanks.
pub fn name_after(code: &str, offset: usize) -> Option<&str> {
    let rest = code.get(offset..)?.trim_start();
    let end = rest.bytes().take_while(|byte| is_name_byte(*byte)).count();
    rest.get(..end).filter(|name| !name.is_empty())
}

/// Returns the offset of the brace that closes the first body after `offset`; `None` if a `;` outside
/// of brackets comes first.
fn end_of_body(code: &str, offset: usize) -> Option<usize> {
    // Open parentheses and square brackets, and open braces.
    let mut brackets = 0_i64;
    let mut braces = 0_i64;
    let mut last = offset;
    for (at, byte) in code.bytes().enumerate().skip(offset) {
        last = at;
        match byte {
            b'(' | b'[' if braces == 0 => brackets += 1,
            b')' | b']' if braces == 0 => brackets -= 1,
            b';' if braces == 0 && brackets <= 0 => return None,
            b'{' if braces > 0 || brackets <= 0 => braces += 1,
            b'}' if braces > 0 => {
                braces -= 1;
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    Some(last)
}

fn find_functions(code: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    for at in find_word(code, "fn") {
        let after = at + "fn".len();
        let Some(name) = name_after(code, after) else {
            continue;
        };
        let Some(end) = end_of_body(code, after) else {
            continue;
        };
        functions.push(Function {
            name: name.to_owned(),
            first_line: line_of(code, at),
            last_line: line_of(code, end),
        });
    }
    functions
}

fn find_test_spans(code: &str) -> Vec<RangeInclusive<usize>> {
    ["#[cfg(test)]", "#[cfg(all(test,"]
        .iter()
        .flat_map(|mark| code.match_indices(mark))
        .filter_map(|(at, mark)| {
            let end = end_of_body(code, at + mark.len())?;
            Some(line_of(code, at)..=line_of(code, end))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, usize)> {
        Scan::new(text)
            .functions
            .into_iter()
            .map(|function| (function.name.clone(), function.lines()))
            .collect()
    }

    #[test]
    fn views_keep_length_and_lines() {
        let text = "let a = \"x // no\"; // yes \u{e9}\n/* one /* two */ */ b('\"', '\u{e9}')\n";
        let scan = Scan::new(text);
        assert_eq!(scan.code.len(), text.len());
        assert_eq!(scan.comments.len(), text.len());
        assert_eq!(scan.code.lines().count(), text.lines().count());
        assert!(!scan.code.contains("no"));
        assert!(!scan.code.contains("yes"));
        assert!(scan.comments.contains("yes \u{e9}"));
        assert!(scan.comments.contains("two"));
        assert!(!scan.comments.contains("no"));
        assert!(scan.code.contains("b('"));
    }

    #[test]
    fn braces_in_literals_do_not_count() {
        let text = r###"
fn one<'a>(x: &'a str) -> char {
    let s = r#"} " {"#;
    let t = b"\"}";
    let r#type = '{';
    '\''
}
fn two() {}
"###;
        assert_eq!(names(text), [("one".to_owned(), 6), ("two".to_owned(), 1)]);
    }

    #[test]
    fn a_declaration_without_a_body_is_no_function() {
        let text =
            "trait T {\n fn a(&self, x: [u8; 3]) -> u8;\n fn b(&self) {\n }\n}\ntype F = fn(u8);\n";
        assert_eq!(names(text), [("b".to_owned(), 2)]);
    }

    #[test]
    fn lines_of_test_modules_are_found() {
        let scan = Scan::new("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n");
        assert!(!scan.in_test(1));
        assert!(scan.in_test(4));
        assert!(!scan.in_test(6));
        assert!(
            Scan::new("#[cfg(test)]\nmod tests;\nfn c() {}\n")
                .test_spans
                .is_empty()
        );
    }

    #[test]
    fn only_whole_words_are_found() {
        assert_eq!(find_word("eprintln!() println!()", "println!").len(), 1);
        assert_eq!(find_word("fnord fn x", "fn"), [6]);
    }

    #[test]
    fn incomplete_text_is_scanned_to_its_end() {
        for text in ["fn a() {", "\"abc", "r#\"abc", "/* x", "'", "b"] {
            assert_eq!(Scan::new(text).code.len(), text.len());
        }
    }
}
