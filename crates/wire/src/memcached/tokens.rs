//! Words of a command line, separated by one or more spaces. A tab is part of its word, as in
//! memcached.

/// Splits a line at spaces; yields no empty words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Words { rest: line }
    }

    /// The part that has not been split yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|&b| b != b' ')?;
        let word = self.rest.get(start..)?;
        // Keys are short: a plain loop beats a call to memchr here.
        let end = word.iter().position(|&b| b == b' ').unwrap_or(word.len());
        let (word, rest) = word.split_at_checked(end)?;
        self.rest = rest;
        Some(word)
    }
}
