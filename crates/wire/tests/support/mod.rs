//! What several tests need: a generator of random bytes, a small executor of
//! memcached requests, and transcripts for it.
#![allow(dead_code, reason = "each test uses its part")]

pub mod cache;
pub mod transcript;

/// SplitMix64, so that failures can be repeated from their seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }

    /// A valid input with a few bytes changed, removed, doubled or added.
    pub fn mutate(&mut self, valid: &[u8]) -> Vec<u8> {
        let mut bytes = valid.to_vec();
        for _ in 0..1 + self.below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes[at] = self.next() as u8,
                1 => bytes[at] ^= 1 << self.below(8),
                2 => drop(bytes.remove(at)),
                3 => bytes.insert(at, [0, 0xfb, 0xfc, 0xfe, 0xff][self.below(5)]),
                4 => bytes.truncate(at),
                _ => {
                    let piece = bytes[at..].to_vec();
                    bytes.extend(piece.iter().take(40));
                }
            }
        }
        bytes
    }
}
