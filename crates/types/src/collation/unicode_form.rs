//! The Unicode character sets whose texts are kept as UTF-8: utf16, utf16le, utf32, ucs2.
//!
//! In rows, keys and expressions such a text is UTF-8, so that functions, comparisons and stored
//! formats are those of utf8mb4. The set's own bytes are made where a statement can see them:
//! conversion from and to `binary` (casts, LENGTH, HEX, introducers) and results.
//!
//! Rejected: the set's own bytes in rows. Every function that looks for an ASCII character, and every
//! conversion of a text to a number or a date, would need a second form.

use porpoise_base::interrupt::Pacer;

/// A form in which Unicode text has other bytes than UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnicodeForm {
    /// Two bytes a character of the basic plane, big-endian.
    Ucs2,
    /// UTF-16, big-endian.
    Utf16,
    /// UTF-16, little-endian.
    Utf16le,
    /// Four bytes a character, big-endian.
    Utf32,
}

impl UnicodeForm {
    pub(super) const ALL: [UnicodeForm; 4] = [
        UnicodeForm::Ucs2,
        UnicodeForm::Utf16,
        UnicodeForm::Utf16le,
        UnicodeForm::Utf32,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            UnicodeForm::Ucs2 => "ucs2",
            UnicodeForm::Utf16 => "utf16",
            UnicodeForm::Utf16le => "utf16le",
            UnicodeForm::Utf32 => "utf32",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            UnicodeForm::Ucs2 => "UCS-2 Unicode",
            UnicodeForm::Utf16 => "UTF-16 Unicode",
            UnicodeForm::Utf16le => "UTF-16LE Unicode",
            UnicodeForm::Utf32 => "UTF-32 Unicode",
        }
    }

    /// Maximum number of bytes of a character.
    pub(super) fn max_len(self) -> u32 {
        match self {
            UnicodeForm::Ucs2 => 2,
            _ => 4,
        }
    }

    /// Minimum number of bytes of a character; each character has a multiple of it.
    fn unit(self) -> usize {
        match self {
            UnicodeForm::Utf32 => 4,
            _ => 2,
        }
    }

    /// Whether the form has the character.
    pub(super) fn has(self, code: u32) -> bool {
        self != UnicodeForm::Ucs2 || code <= 0xFFFF
    }

    /// The first character and its length; `None` if the bytes begin with none.
    fn decode(self, bytes: &[u8]) -> Option<(char, usize)> {
        let pair = |at: usize| {
            let pair = bytes.get(at..at + 2)?.try_into().ok()?;
            Some(match self {
                UnicodeForm::Utf16le => u16::from_le_bytes(pair),
                _ => u16::from_be_bytes(pair),
            })
        };
        if self == UnicodeForm::Utf32 {
            let code = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
            return char::from_u32(code).map(|c| (c, 4));
        }
        let first = pair(0)?;
        if let Some(c) = char::from_u32(u32::from(first)) {
            return Some((c, 2));
        }
        if self == UnicodeForm::Ucs2 {
            return None;
        }
        let c = char::decode_utf16([first, pair(2)?]).next()?.ok()?;
        Some((c, 4))
    }

    /// Appends a character's bytes.
    fn encode(self, c: char, out: &mut Vec<u8>) {
        if self == UnicodeForm::Utf32 {
            out.extend_from_slice(&u32::from(c).to_be_bytes());
            return;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.extend_from_slice(&match self {
                UnicodeForm::Utf16le => unit.to_le_bytes(),
                _ => unit.to_be_bytes(),
            });
        }
    }

    /// The UTF-8 text of bytes, and the position of the first that are not a character; these become
    /// `?`. Zeros are put before bytes that are not a multiple of the unit.
    pub(super) fn text_of(self, bytes: &[u8]) -> (Vec<u8>, Option<usize>) {
        let missing = bytes.len().next_multiple_of(self.unit()) - bytes.len();
        let mut padded = vec![0; missing];
        padded.extend_from_slice(bytes);
        let mut out = String::with_capacity(padded.len());
        let mut invalid = None;
        let mut at = 0;
        let mut pacer = Pacer::new();
        while at < padded.len() && !pacer.leaves() {
            let rest = padded.get(at..).unwrap_or_default();
            let (c, len) = self.decode(rest).unwrap_or_else(|| {
                invalid.get_or_insert(at.saturating_sub(missing));
                ('?', self.unit())
            });
            out.push(c);
            at += len;
        }
        (out.into_bytes(), invalid)
    }

    /// The bytes of a UTF-8 text.
    pub(super) fn bytes_of(self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() * self.unit());
        let mut pacer = Pacer::new();
        for chunk in text.utf8_chunks() {
            for c in chunk.valid().chars().take_while(|_| !pacer.leaves()) {
                self.encode(c, &mut out);
            }
            for _ in chunk.invalid() {
                self.encode('?', &mut out);
            }
        }
        out
    }
}
