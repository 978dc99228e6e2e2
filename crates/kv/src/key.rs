//! Keys: a space and bytes within it.

/// Identifies a space. Ids below [`SpaceId::FIRST_FREE`] always exist and are
/// the catalog's; others come from [`crate::Engine::create_spaces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u64);

impl SpaceId {
    /// The first id that [`crate::Engine::create_spaces`] may give out.
    pub const FIRST_FREE: SpaceId = SpaceId(64);

    /// The space in which an engine stores prepared transactions; nothing else writes to it.
    pub const PREPARED: SpaceId = SpaceId(62);
}

/// A borrowed key, cheap to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a> {
    /// The space.
    pub space: SpaceId,
    /// The bytes within the space; ordered bytewise.
    pub bytes: &'a [u8],
}

impl<'a> Key<'a> {
    /// A key of `space`.
    pub fn new(space: SpaceId, bytes: &'a [u8]) -> Key<'a> {
        Key { space, bytes }
    }
}

/// The first eight bytes of a key as a number; a shorter key is padded with zeroes. Different numbers are ordered as their keys.
#[inline]
pub fn first_bytes(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(key) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}

/// Returns the smallest key above every key that starts with `prefix`; `None` if there is none (an
/// empty prefix, or one of only 0xff bytes).
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < 0xff {
            *last += 1;
            return Some(end);
        }
        end.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_is_the_least_key_above() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(&[1, 0xff]), Some(vec![2]));
        assert_eq!(prefix_end(&[0xff, 0xff]), None);
        assert_eq!(prefix_end(b""), None);
    }
}
