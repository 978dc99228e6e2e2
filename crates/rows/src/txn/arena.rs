//! An arena of byte strings in one buffer, addressed by index.

/// Copied byte strings: keys, values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Arena {
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, n: usize) -> &[u8] {
        let start = match n.checked_sub(1) {
            None => 0,
            Some(before) => self.ends.get(before).copied().unwrap_or(0),
        };
        let end = self.ends.get(n).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or(&[])
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|n| self.get(n))
    }
}
