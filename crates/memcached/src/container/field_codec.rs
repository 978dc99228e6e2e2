//! Codec that joins several columns in one key or value.
//!
//! Parts are joined with a separator, a TAB unless `ndbmemcache.container_options` sets another.
//! Two more options make the encoding lossless:
//!
//! * `escape`, one byte: it precedes every separator and every escape byte inside a part; the byte
//!   after it is taken literally.
//! * `null_token`: a part equal to this text is NULL. A part whose text happens to be equal is
//!   written with an escape before it. With a token, '' and NULL are different in every column.
//!
//! Invariants:
//! 1. With both options, splitting is the inverse of joining.
//! 2. Without options the format is that of NDB's memcached: TABs, and NULL is an empty part.

use std::borrow::Cow;

/// Joins and splits parts; see the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldCodec {
    /// Separator of two parts; never empty.
    separator: Box<[u8]>,
    escape: Option<u8>,
    null_token: Option<Box<[u8]>>,
}

impl Default for FieldCodec {
    fn default() -> FieldCodec {
        FieldCodec {
            separator: Box::new([b'\t']),
            escape: None,
            null_token: None,
        }
    }
}

/// A part of a key or a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// NULL.
    Null,
    /// A text.
    Text(Cow<'a, [u8]>),
}

impl Piece<'_> {
    /// Returns the text; empty for NULL.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Piece::Null => &[],
            Piece::Text(text) => text,
        }
    }
}

impl FieldCodec {
    /// Creates a codec with these options.
    ///
    /// # Errors
    /// The options contradict each other; the error is a message.
    pub fn new(
        separator: Option<&[u8]>,
        escape: Option<&[u8]>,
        null_token: Option<&[u8]>,
    ) -> Result<FieldCodec, String> {
        let separator = separator.unwrap_or(b"\t");
        if separator.is_empty() {
            return Err("the separator is empty".to_owned());
        }
        let escape = match escape {
            None => None,
            Some([byte]) if !separator.contains(byte) => Some(*byte),
            Some([_]) => return Err("the separator contains the escape byte".to_owned()),
            Some(_) => return Err("escape must be one byte".to_owned()),
        };
        let clashes = |token: &[u8]| token.windows(separator.len()).any(|w| w == separator);
        if null_token.is_some_and(clashes) {
            return Err("null_token contains the separator".to_owned());
        }
        Ok(FieldCodec {
            separator: separator.into(),
            escape,
            null_token: null_token.map(Box::from),
        })
    }

    /// Whether NULL is distinguishable from text.
    pub(crate) fn distinguishes_null(&self) -> bool {
        self.null_token.is_some()
    }

    /// Whether a single part is encoded unchanged: no escape and no token.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.null_token.is_none() && self.escape.is_none()
    }

    /// Returns the separator.
    pub fn separator(&self) -> &[u8] {
        &self.separator
    }

    /// Splits a text into parts.
    pub fn split<'a>(&'a self, text: &'a [u8]) -> Pieces<'a> {
        Pieces {
            codec: self,
            rest: Some(text),
        }
    }

    /// Decodes a text that is one part.
    pub fn single<'a>(&self, text: &'a [u8]) -> Piece<'a> {
        self.decode_part(text, self.escape.is_some_and(|e| text.contains(&e)))
    }

    /// Decodes one part. `escaped`: whether it contains escape bytes.
    fn decode_part<'a>(&self, raw: &'a [u8], escaped: bool) -> Piece<'a> {
        if self.null_token.as_deref() == Some(raw) {
            return Piece::Null;
        }
        let (true, Some(escape)) = (escaped, self.escape) else {
            return Piece::Text(Cow::Borrowed(raw));
        };
        let mut text = Vec::with_capacity(raw.len());
        let mut bytes = raw.iter();
        while let Some(byte) = bytes.next() {
            if *byte == escape {
                // An escape byte at the end is taken literally.
                text.push(bytes.next().copied().unwrap_or(escape));
            } else {
                text.push(*byte);
            }
        }
        Piece::Text(Cow::Owned(text))
    }

    /// Appends the separator.
    pub(crate) fn append_separator(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.separator);
    }

    /// Encodes the bytes of `out` from `start` on as a part: escapes them, or replaces them by the
    /// token for NULL.
    pub(crate) fn finish_part(&self, start: usize, is_null: bool, out: &mut Vec<u8>) {
        if is_null {
            out.truncate(start);
            if let Some(token) = &self.null_token {
                out.extend_from_slice(token);
            }
            return;
        }
        let Some(escape) = self.escape else {
            return;
        };
        let separator_start = self.separator.first().copied().unwrap_or(b'\t');
        let raw = out.get(start..).unwrap_or_default();
        let is_null_token = self.null_token.as_deref() == Some(raw);
        let special = |b: &u8| *b == escape || *b == separator_start;
        if !is_null_token && !raw.iter().any(special) {
            return;
        }
        let raw = raw.to_vec();
        out.truncate(start);
        for byte in &raw {
            if special(byte) {
                out.push(escape);
            }
            out.push(*byte);
        }
        if self.null_token.as_deref() == out.get(start..) {
            out.insert(start, escape);
        }
    }
}

/// Iterator over the parts of a text.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    codec: &'a FieldCodec,
    /// The text that has not been split yet; `None` at the end.
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let rest = self.rest.take()?;
        let separator = &self.codec.separator;
        let (mut at, mut escaped) = (0, false);
        while let Some(byte) = rest.get(at) {
            if Some(*byte) == self.codec.escape {
                escaped = true;
                at += 2;
            } else if rest.get(at..).is_some_and(|r| r.starts_with(separator)) {
                self.rest = rest.get(at + separator.len()..);
                break;
            } else {
                at += 1;
            }
        }
        let raw = rest.get(..at).unwrap_or(rest);
        Some(self.codec.decode_part(raw, escaped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &[u8]) -> Piece<'_> {
        Piece::Text(Cow::Borrowed(text))
    }

    fn join(codec: &FieldCodec, parts: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        for (n, part) in parts.iter().enumerate() {
            if n > 0 {
                codec.append_separator(&mut out);
            }
            let start = out.len();
            out.extend_from_slice(part.unwrap_or(b"ignored"));
            codec.finish_part(start, part.is_none(), &mut out);
        }
        out
    }

    #[test]
    fn by_default_tabs_separate_parts_and_null_is_an_empty_part() {
        let codec = FieldCodec::default();
        assert_eq!(join(&codec, &[Some(b"a"), None, Some(b"")]), b"a\t\t");
        let parts: Vec<_> = codec.split(b"a\t\tb").collect();
        assert_eq!(parts, [text(b"a"), text(b""), text(b"b")]);
        assert_eq!(codec.split(b"").count(), 1);
    }

    #[test]
    fn splitting_joined_parts_yields_the_same_parts() {
        let words: [&[u8]; 9] = [
            b"",
            b"a",
            b"|",
            b"||",
            b"\\",
            b"\\N",
            b"N",
            b"a|\\|b\\",
            b"\\\\N",
        ];
        for token in [&b"\\N"[..], b"NULL", b"N"] {
            for separator in [&b"|"[..], b"||", b"|,"] {
                let codec = FieldCodec::new(Some(separator), Some(b"\\"), Some(token)).unwrap();
                for a in words {
                    for b in words {
                        let parts = [Some(a), None, Some(b)];
                        let joined = join(&codec, &parts);
                        let split: Vec<_> = codec.split(&joined).collect();
                        assert_eq!(split, [text(a), Piece::Null, text(b)], "{joined:?}");
                    }
                    let single = join(&codec, &[Some(a)]);
                    assert_eq!(codec.single(&single), text(a));
                }
            }
        }
    }

    #[test]
    fn contradictory_options_are_refused() {
        assert!(FieldCodec::new(Some(b""), None, None).is_err());
        assert!(FieldCodec::new(Some(b"|"), Some(b"|"), None).is_err());
        assert!(FieldCodec::new(Some(b"|"), Some(b"ab"), None).is_err());
        assert!(FieldCodec::new(Some(b"|"), None, Some(b"a|b")).is_err());
    }
}
