//! The nodes of an XML fragment, in the order of the text.
//!
//! As in MySQL, the fragment may have any number of elements and texts at its top, entities are not
//! replaced, comments are left out, and texts have no white space at their ends.

use porpoise_base::interrupt::Pacer;
use std::ops::Range;

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The fragment itself: the first node.
    Root,
    Element,
    Attribute,
    Text,
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) parent: usize,
    /// The name, or the text.
    pub(super) text: Range<usize>,
    /// All of it, with its tags.
    pub(super) span: Range<usize>,
    /// The number of the node after its last descendant.
    pub(super) end: usize,
}

/// A parsed fragment.
pub(super) struct Document<'t> {
    pub(super) source: &'t [u8],
    pub(super) nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lexeme {
    End,
    Sign(u8),
    Ident,
    String,
    Comment,
    Cdata,
    Unknown,
}

impl Lexeme {
    fn name(self) -> String {
        match self {
            Lexeme::End => "END-OF-INPUT".to_owned(),
            Lexeme::Sign(sign) => format!("'{}'", char::from(sign)),
            Lexeme::Ident => "IDENT".to_owned(),
            Lexeme::String => "STRING".to_owned(),
            Lexeme::Comment => "COMMENT".to_owned(),
            Lexeme::Cdata => "CDATA".to_owned(),
            Lexeme::Unknown => "unknown token".to_owned(),
        }
    }
}

struct Parser<'t> {
    source: &'t [u8],
    at: usize,
    nodes: Vec<Node>,
    /// The elements that are open; the root first.
    open: Vec<usize>,
}

impl<'t> Document<'t> {
    /// Parses a fragment.
    ///
    /// # Errors
    /// MySQL's description of the first error.
    pub(super) fn parse(source: &'t [u8]) -> Result<Document<'t>, String> {
        let root = Node {
            kind: Kind::Root,
            parent: 0,
            text: 0..0,
            span: 0..source.len(),
            end: 0,
        };
        let mut parser = Parser {
            source,
            at: 0,
            nodes: vec![root],
            open: vec![0],
        };
        match parser.run() {
            Ok(()) => {
                let count = parser.nodes.len();
                if let Some(root) = parser.nodes.first_mut() {
                    root.end = count;
                }
                Ok(Document {
                    source,
                    nodes: parser.nodes,
                })
            }
            Err(what) => Err(parser.located(&what)),
        }
    }

    /// The name or text of a node.
    pub(super) fn text(&self, node: usize) -> &'t [u8] {
        let range = self.nodes.get(node).map(|n| n.text.clone());
        range.and_then(|r| self.source.get(r)).unwrap_or_default()
    }
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':') || byte >= 0x80
}

/// Whether a byte can be in a name, after its first.
pub(super) fn is_name(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), String> {
        let mut pacer = Pacer::new();
        while self.at < self.source.len() {
            if pacer.leaves() {
                return Ok(());
            }
            if self.source.get(self.at) == Some(&b'<') {
                self.markup()?;
            } else {
                self.text();
            }
        }
        if self.open.len() > 1 {
            return Err("unexpected END-OF-INPUT".to_owned());
        }
        Ok(())
    }

    /// "parse error at line 1 pos 23: ...".
    fn located(&self, what: &str) -> String {
        let read = self.source.get(..self.at).unwrap_or(self.source);
        let line = read.iter().filter(|b| **b == b'\n').count() + 1;
        let start = read
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        let pos = read.len() - start + 1;
        format!("parse error at line {line} pos {pos}: {what}")
    }

    fn parent(&self) -> usize {
        self.open.last().copied().unwrap_or(0)
    }

    fn add(&mut self, kind: Kind, parent: usize, text: Range<usize>, span: Range<usize>) -> usize {
        let at = self.nodes.len();
        self.nodes.push(Node {
            kind,
            parent,
            text,
            span,
            end: at + 1,
        });
        at
    }

    fn text(&mut self) {
        let start = self.at;
        let rest = self.source.get(start..).unwrap_or_default();
        let len = memchr::memchr(b'<', rest).unwrap_or(rest.len());
        self.at = start + len;
        self.value(start..start + len);
    }

    /// Adds a text without the white space at its ends.
    fn value(&mut self, range: Range<usize>) {
        let text = self.source.get(range.clone()).unwrap_or_default();
        let left = text.len() - text.trim_ascii_start().len();
        let kept = text.trim_ascii().len();
        if kept > 0 {
            let start = range.start + left;
            let parent = self.parent();
            self.add(Kind::Text, parent, start..start + kept, start..start + kept);
        }
    }

    /// A tag, a comment, a CDATA section.
    fn markup(&mut self) -> Result<(), String> {
        let start = self.at;
        match self.scan() {
            (Lexeme::Comment, _) => return Ok(()),
            (Lexeme::Cdata, range) => {
                self.value(range.start + 9..range.end.saturating_sub(3));
                return Ok(());
            }
            _ => {}
        }
        let (mut lexeme, mut range) = self.scan();
        let mut closed_by = lexeme;
        match lexeme {
            Lexeme::Sign(b'/') => {
                let (found, name) = self.scan();
                if found != Lexeme::Ident {
                    return Err(wanted(found, "ident"));
                }
                let left = self.leave(Some(name))?;
                let (found, end) = self.scan();
                self.expect_end(found)?;
                self.finish(left, end.end);
                return Ok(());
            }
            Lexeme::Sign(b'!' | b'?') => (lexeme, range) = self.scan(),
            _ => closed_by = Lexeme::End,
        }
        if lexeme != Lexeme::Ident {
            return Err(wanted(lexeme, "ident or '/'"));
        }
        let parent = self.parent();
        let element = self.add(Kind::Element, parent, range.clone(), start..range.end);
        self.open.push(element);
        let is_declaration = closed_by == Lexeme::Sign(b'!');
        lexeme = self.attributes(element, is_declaration)?;
        if lexeme == Lexeme::Sign(b'/') || closed_by != Lexeme::End {
            let left = self.leave(None)?;
            if lexeme == Lexeme::Sign(b'/') {
                lexeme = self.scan().0;
            } else if closed_by == Lexeme::Sign(b'?') {
                if lexeme != closed_by {
                    return Err(wanted(lexeme, "'?'"));
                }
                lexeme = self.scan().0;
            }
            self.expect_end(lexeme)?;
            self.finish(left, self.at);
            return Ok(());
        }
        self.expect_end(lexeme)
    }

    /// The attributes of an element; returns what follows them.
    fn attributes(&mut self, element: usize, is_declaration: bool) -> Result<Lexeme, String> {
        let (mut lexeme, mut name) = self.scan();
        while lexeme == Lexeme::Ident || (is_declaration && lexeme == Lexeme::String) {
            let (next, after) = self.scan();
            if next == Lexeme::Sign(b'=') {
                let (found, value) = self.scan();
                if !matches!(found, Lexeme::Ident | Lexeme::String) {
                    return Err(wanted(found, "ident or string"));
                }
                let end = self.at;
                let attribute = self.add(Kind::Attribute, element, name.clone(), name.start..end);
                self.add(Kind::Text, attribute, value.clone(), value);
                if let Some(node) = self.nodes.get_mut(attribute) {
                    node.end = attribute + 2;
                }
                (lexeme, name) = self.scan();
            } else {
                self.add(Kind::Attribute, element, name.clone(), name);
                (lexeme, name) = (next, after);
            }
        }
        Ok(lexeme)
    }

    fn expect_end(&self, found: Lexeme) -> Result<(), String> {
        if found == Lexeme::Sign(b'>') {
            return Ok(());
        }
        Err(wanted(found, "'>'"))
    }

    /// Closes the last element, which must have this name.
    fn leave(&mut self, name: Option<Range<usize>>) -> Result<usize, String> {
        let shown = |range: Range<usize>| {
            String::from_utf8_lossy(self.source.get(range).unwrap_or_default()).into_owned()
        };
        let element = self.parent();
        let open = self.nodes.get(element).map_or(0..0, |n| n.text.clone());
        if let Some(name) = name {
            let given = shown(name);
            if self.open.len() < 2 {
                return Err(format!("'</{given}>' unexpected (END-OF-INPUT wanted)"));
            }
            let open = shown(open);
            if open != given {
                return Err(format!("'</{given}>' unexpected ('</{open}>' wanted)"));
            }
        }
        self.open.pop();
        Ok(element)
    }

    /// Records where an element ends.
    fn finish(&mut self, element: usize, end: usize) {
        let count = self.nodes.len();
        if let Some(node) = self.nodes.get_mut(element) {
            node.span.end = end;
            node.end = count;
        }
    }

    /// The next lexeme inside a tag. A range of a string is without its quotes.
    fn scan(&mut self) -> (Lexeme, Range<usize>) {
        let rest = self.source.get(self.at..).unwrap_or_default();
        self.at += rest.len() - rest.trim_ascii_start().len();
        let rest = rest.trim_ascii_start();
        let start = self.at;
        let to_end = |end: &[u8], skip: usize| {
            let found = memchr::memmem::find(rest.get(skip..).unwrap_or_default(), end);
            found.map_or(rest.len(), |at| skip + at + end.len())
        };
        let (lexeme, len) = match rest {
            [] => (Lexeme::End, 0),
            _ if rest.starts_with(b"<!--") => (Lexeme::Comment, to_end(b"-->", 4)),
            _ if rest.starts_with(b"<![CDATA[") => (Lexeme::Cdata, to_end(b"]]>", 9)),
            [sign @ (b'<' | b'>' | b'/' | b'=' | b'!' | b'?'), ..] => (Lexeme::Sign(*sign), 1),
            [quote @ (b'"' | b'\''), inside @ ..] => {
                let len = memchr::memchr(*quote, inside);
                self.at += len.map_or(rest.len(), |len| len + 2);
                let len = len.unwrap_or(inside.len());
                return (Lexeme::String, start + 1..start + 1 + len);
            }
            [first, ..] if is_name_start(*first) => {
                let len = rest.iter().take_while(|b| is_name(**b)).count();
                (Lexeme::Ident, len)
            }
            _ => (Lexeme::Unknown, 0),
        };
        self.at += len;
        (lexeme, start..start + len)
    }
}

fn wanted(found: Lexeme, what: &str) -> String {
    format!("{} unexpected ({what} wanted)", found.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_mysqls() {
        let error = |text: &str| Document::parse(text.as_bytes()).err().unwrap_or_default();
        assert_eq!(error("<a>x</a>"), "");
        assert_eq!(error("<a b='1' c/><!-- x --><![CDATA[<]]>"), "");
        assert_eq!(
            error("<a>"),
            "parse error at line 1 pos 4: unexpected END-OF-INPUT"
        );
        assert_eq!(
            error("<a"),
            "parse error at line 1 pos 3: END-OF-INPUT unexpected ('>' wanted)"
        );
        assert!(error("<a>x</b>").ends_with("'</b>' unexpected ('</a>' wanted)"));
        assert!(error("</b>").ends_with("'</b>' unexpected (END-OF-INPUT wanted)"));
        assert!(error("<a b=>").ends_with("'>' unexpected (ident or string wanted)"));
    }
}
