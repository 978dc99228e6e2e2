//! Tags of global transaction identifiers.

use std::fmt;

/// Longest tag in characters.
const MAX_LEN: usize = 32;

/// A tag: a letter or underscore, then letters, digits and underscores. [`Tag::NONE`] is before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag {
    /// The characters, in lower case, then zeros.
    text: [u8; MAX_LEN],
}

impl Tag {
    /// No tag.
    pub const NONE: Tag = Tag { text: [0; MAX_LEN] };

    /// Whether there is no tag.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Tag::NONE
    }

    /// Reads a tag in any case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Tag> {
        Tag::from_text(text.as_bytes()).filter(|tag| !tag.is_none())
    }

    /// The tag of these characters; none if there are none.
    fn from_text(text: &[u8]) -> Option<Tag> {
        let is_valid = |(at, byte): (usize, &u8)| {
            byte.is_ascii_alphabetic() || *byte == b'_' || at > 0 && byte.is_ascii_digit()
        };
        let mut tag = Tag::NONE;
        let place = tag.text.get_mut(..text.len())?;
        place.copy_from_slice(text);
        place.make_ascii_lowercase();
        text.iter().enumerate().all(is_valid).then_some(tag)
    }

    /// The characters.
    fn as_bytes(&self) -> &[u8] {
        let len = self.text.iter().take_while(|byte| **byte != 0).count();
        self.text.get(..len).unwrap_or_default()
    }

    /// Appends the binary form: twice the length in a byte, then the characters.
    pub(crate) fn append_bytes(&self, out: &mut Vec<u8>) {
        let text = self.as_bytes();
        out.push((text.len() as u8) << 1);
        out.extend_from_slice(text);
    }

    /// Reads the binary form at the front of `rest`.
    pub(crate) fn take(rest: &mut &[u8]) -> Option<Tag> {
        let (length, after) = rest.split_first()?;
        let (text, after) = after.split_at_checked(usize::from(length >> 1))?;
        *rest = after;
        Tag::from_text(text).filter(|_| length & 1 == 0)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}
