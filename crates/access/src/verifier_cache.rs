//! Cache of the hashes of verified passwords, for the fast path of `caching_sha2_password`.
//!
//! The key is the stored secret, so that a changed password misses the cache. The listeners share
//! the cache.

use parking_lot::Mutex;
use std::collections::HashMap;

/// SHA-256 of the SHA-256 of a password.
pub type Verifier = [u8; 32];

/// Maximum number of cached secrets.
const MAX_CACHED_SECRETS: usize = 10_000;

/// Hashes of verified passwords, by stored secret.
#[derive(Default)]
pub struct VerifierCache(Mutex<HashMap<Vec<u8>, Verifier>>);

impl VerifierCache {
    /// Returns the hash of the password of a stored secret.
    pub fn find(&self, secret: &[u8]) -> Option<Verifier> {
        self.0.lock().get(secret).copied()
    }

    /// Caches the hash of a verified password. A full cache is cleared first.
    pub fn keep(&self, secret: Vec<u8>, verifier: Verifier) {
        let mut all = self.0.lock();
        if all.len() >= MAX_CACHED_SECRETS {
            all.clear();
        }
        all.insert(secret, verifier);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_cleared_when_it_is_full() {
        let cache = VerifierCache::default();
        for n in 0..MAX_CACHED_SECRETS as u32 {
            cache.keep(n.to_le_bytes().to_vec(), [1; 32]);
        }
        assert_eq!(cache.find(&7u32.to_le_bytes()), Some([1; 32]));
        cache.keep(b"one more".to_vec(), [2; 32]);
        assert_eq!(cache.find(&7u32.to_le_bytes()), None);
        assert_eq!(cache.find(b"one more"), Some([2; 32]));
    }
}
