//! LIKE patterns that are prepared once for many texts.
//!
//! A pattern splits at its `%` into runs of characters and `_`. The first run must begin the text, the
//! last one must end it; those between are searched for one after the other, each as far to the left
//! as possible. In ASCII texts this is a search for bytes: each run is found by its rarest byte, in both
//! cases, with [`memchr`].
//!
//! Other texts, and patterns with other characters, are matched character by character
//! ([`super::like`]).

use super::Collation;
use super::ascii::{AsciiClasses, classes};
use super::charset::Charset;
use super::like::{self, Item};
use porpoise_base::interrupt::Pacer;

/// A prepared LIKE pattern.
#[derive(Clone, Debug)]
pub struct LikePattern {
    collation: Collation,
    pattern: Box<[u8]>,
    escape: Option<char>,
    ascii: Option<AsciiPattern>,
}

/// A pattern of ASCII characters.
#[derive(Clone, Debug)]
struct AsciiPattern {
    /// The run before the first `%`; the whole pattern if there is none.
    first: Run,
    /// The runs between two `%`, without empty ones.
    middle: Vec<Run>,
    /// The run after the last `%`; `None` if there is no `%`.
    last: Option<Run>,
    /// Whether the pattern is matched by bytes in texts of any characters.
    is_for_all_texts: bool,
}

/// A sequence of characters and `_`.
#[derive(Clone, Debug, Default)]
struct Run {
    items: Vec<RunItem>,
    /// Finds the run in a text; `None` if none of its characters can be searched for.
    search: Option<Search>,
}

/// One position of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunItem {
    /// `_`.
    Any,
    /// Characters of a class.
    Class(u8),
}

/// The byte by which a run is found.
#[derive(Clone, Debug)]
struct Search {
    /// Its position in the run.
    at: usize,
    /// The bytes of its class, at most two.
    bytes: [u8; 2],
}

/// Letters from the most to the least frequent in English texts.
const BY_FREQUENCY: &[u8] = b" etaoinshrdlcumwfgypbvkjxqz";

/// Rank of a byte by how seldom it occurs in texts.
fn rarity(byte: u8) -> usize {
    let letter = byte.to_ascii_lowercase();
    let rank = BY_FREQUENCY.iter().position(|other| *other == letter);
    // Digits and punctuation are about as frequent as the letters in the middle.
    rank.unwrap_or(BY_FREQUENCY.len() / 2)
}

impl Run {
    fn of(items: Vec<RunItem>, classes: &AsciiClasses) -> Run {
        let mut best: Option<(usize, Search)> = None;
        for (at, item) in items.iter().enumerate() {
            let RunItem::Class(class) = item else {
                continue;
            };
            let members: Vec<u8> = classes.members(*class).take(3).collect();
            let bytes = match members.as_slice() {
                [one] => [*one, *one],
                [one, two] => [*one, *two],
                _ => continue,
            };
            let rank = rarity(*class);
            if best.as_ref().is_none_or(|(known, _)| *known < rank) {
                best = Some((rank, Search { at, bytes }));
            }
        }
        Run {
            items,
            search: best.map(|(_, search)| search),
        }
    }

    /// Whether the run matches these bytes, which are as many as it has positions.
    #[inline]
    fn matches(&self, bytes: &[u8], classes: &AsciiClasses) -> bool {
        let one = |(byte, item): (&u8, &RunItem)| match item {
            RunItem::Any => true,
            RunItem::Class(class) => classes.class(*byte) == *class,
        };
        bytes.iter().zip(&self.items).all(one)
    }

    /// The rest of a text that begins with the run.
    fn strip_from_start<'t>(&self, text: &'t [u8], classes: &AsciiClasses) -> Option<&'t [u8]> {
        let (start, rest) = text.split_at_checked(self.items.len())?;
        self.matches(start, classes).then_some(rest)
    }

    /// The rest of a text that ends with the run.
    fn strip_from_end<'t>(&self, text: &'t [u8], classes: &AsciiClasses) -> Option<&'t [u8]> {
        let at = text.len().checked_sub(self.items.len())?;
        let (rest, end) = text.split_at_checked(at)?;
        self.matches(end, classes).then_some(rest)
    }

    /// The rest of a text after the first occurrence of the run.
    fn strip_through<'t>(
        &self,
        text: &'t [u8],
        classes: &AsciiClasses,
        pacer: &mut Pacer,
    ) -> Option<&'t [u8]> {
        let last_start = text.len().checked_sub(self.items.len())?;
        let mut start = 0;
        while start <= last_start && !pacer.leaves_by(1 + self.items.len()) {
            if let Some(Search { at, bytes: [a, b] }) = &self.search {
                let candidates = text.get(start + at..=last_start + at)?;
                let found = if a == b {
                    memchr::memchr(*a, candidates)
                } else {
                    memchr::memchr2(*a, *b, candidates)
                };
                start += found?;
            }
            let end = start + self.items.len();
            if self.matches(text.get(start..end)?, classes) {
                return text.get(end..);
            }
            start += 1;
        }
        None
    }
}

impl AsciiPattern {
    /// Splits a pattern; `None` if it has a character beyond ASCII.
    fn of(
        (collation, classes): (Collation, &AsciiClasses),
        pattern: &[u8],
        escape: Option<char>,
    ) -> Option<AsciiPattern> {
        let charset = collation.charset();
        if charset != Charset::Binary && !pattern.is_ascii() {
            return None;
        }
        let mut runs = vec![Vec::new()];
        let mut rest = pattern;
        let mut has_any = false;
        while let Some((item, len)) = like::next_item(charset, rest, escape.map(u32::from)) {
            let item = match item {
                Item::Any => {
                    runs.push(Vec::new());
                    None
                }
                Item::One => Some(RunItem::Any),
                Item::Char(code) => {
                    let byte = u8::try_from(code).ok()?;
                    Some(RunItem::Class(classes.class(byte)))
                }
            };
            has_any |= item == Some(RunItem::Any);
            if let (Some(item), Some(run)) = (item, runs.last_mut()) {
                run.push(item);
            }
            rest = rest.get(len..)?;
        }
        // A byte of ASCII is never a part of another character.
        let is_utf8 = matches!(charset, Charset::Utf8mb4 | Charset::Utf8mb3);
        let is_for_all_texts = classes.are_single()
            && collation.equals_by_code()
            && (charset == Charset::Binary || is_utf8 && !has_any);
        let last = (runs.len() > 1).then(|| runs.pop().unwrap_or_default());
        let mut runs = runs.into_iter().map(|items| Run::of(items, classes));
        Some(AsciiPattern {
            first: runs.next().unwrap_or_default(),
            middle: runs.filter(|run| !run.items.is_empty()).collect(),
            last: last.map(|items| Run::of(items, classes)),
            is_for_all_texts,
        })
    }

    fn matches(&self, text: &[u8], classes: &AsciiClasses) -> bool {
        let Some(mut rest) = self.first.strip_from_start(text, classes) else {
            return false;
        };
        let Some(last) = &self.last else {
            return rest.is_empty();
        };
        match last.strip_from_end(rest, classes) {
            Some(between) => rest = between,
            None => return false,
        }
        let mut pacer = Pacer::new();
        for run in &self.middle {
            match run.strip_through(rest, classes, &mut pacer) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        true
    }
}

impl LikePattern {
    pub(super) fn new(collation: Collation, pattern: &[u8], escape: Option<char>) -> LikePattern {
        let ascii = classes(collation)
            .and_then(|classes| AsciiPattern::of((collation, classes), pattern, escape));
        LikePattern {
            collation,
            pattern: pattern.into(),
            escape,
            ascii,
        }
    }

    /// Whether a text matches, as [`Collation::like`].
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        if let Some(ascii) = &self.ascii
            && let Some(classes) = classes(self.collation)
            && (ascii.is_for_all_texts || text.is_ascii())
        {
            return ascii.matches(text, classes);
        }
        like::like(self.collation, text, &self.pattern, self.escape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_patterns_match_as_others() {
        let texts: [&[u8]; 20] = [
            b"",
            b"a",
            b"A",
            b"ab",
            b"abc",
            b"aXbXc",
            b"special packages requests",
            b"10%",
            b"a_b",
            b"mississippi",
            b"MISSISSIPPI",
            "é".as_bytes(),
            "aéb".as_bytes(),
            b"a\xFFb",
            b"\xC3a",
            b"a ",
            b" a",
            b"ab\0b",
            b"jiiJ",
            b"aab",
        ];
        let patterns: [&[u8]; 26] = [
            b"",
            b"%",
            b"%%",
            b"_",
            b"a",
            b"A",
            b"a%",
            b"%a",
            b"%b%",
            b"a%b",
            b"%a%b%",
            b"a_b",
            b"%_b",
            b"_%",
            b"%iss%ip%i",
            b"%iss%iss%iss%",
            b"10\\%",
            b"a\\_b",
            b"%special%requests%",
            "%é%".as_bytes(),
            b"\\",
            b"a%%b",
            b"%__%",
            b"j%",
            b"%a\xFF%",
            b"%a%a%",
        ];
        for collation in Collation::all() {
            for pattern in patterns {
                let prepared = collation.like_pattern(pattern, Some('\\'));
                for text in texts {
                    let expected = collation.like(text, pattern, Some('\\'));
                    assert_eq!(
                        prepared.matches(text),
                        expected,
                        "{} {text:?} {pattern:?}",
                        collation.name()
                    );
                }
            }
        }
    }

    #[test]
    fn runs_are_searched_by_their_rarest_letter() {
        let classes = classes(Collation::UTF8MB4_0900_AI_CI).unwrap();
        let run = |text: &[u8]| {
            let items = text.iter().map(|byte| RunItem::Class(classes.class(*byte)));
            let search = Run::of(items.collect(), classes).search.unwrap();
            (search.at, search.bytes)
        };
        assert_eq!(run(b"requests"), (2, *b"Qq"));
        assert_eq!(run(b"special"), (1, *b"Pp"));
    }
}
