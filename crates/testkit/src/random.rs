//! Reproducible random input for fuzzing tests.

/// A random number generator (SplitMix64), given by its seed. Equal seeds give equal input on every
/// machine.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

/// Bytes that begin a length or a marker in one protocol or another.
const MARKERS: [u8; 8] = [0, 1, 0x7f, 0x80, 0xfb, 0xfc, 0xfe, 0xff];

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// Returns true with a probability of 1 in `n`.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `items`; fails the test if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        match items.get(self.below(items.len())) {
            Some(item) => item,
            None => crate::fail("random", "nothing to pick from"),
        }
    }

    /// Returns `n` random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.bits() as u8).collect()
    }

    /// Returns a valid input with one to four random changes: bytes changed, removed, inserted, cut
    /// off or repeated.
    pub fn mutate(&mut self, valid: &[u8]) -> Vec<u8> {
        let mut bytes = valid.to_vec();
        for _ in 0..1 + self.below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => self.change(&mut bytes, at, |_, random| random as u8),
                1 => self.change(&mut bytes, at, |byte, random| byte ^ 1 << (random % 8)),
                2 => drop(bytes.remove(at)),
                3 => bytes.insert(at, *self.pick(&MARKERS)),
                4 => bytes.truncate(at),
                _ => {
                    let piece: Vec<u8> = bytes.iter().skip(at).take(40).copied().collect();
                    bytes.extend(piece);
                }
            }
        }
        bytes
    }

    fn change(&mut self, bytes: &mut [u8], at: usize, change: impl Fn(u8, u64) -> u8) {
        let random = self.bits();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = change(*byte, random);
        }
    }

    /// Splits the bytes into pieces of random length. One in four has at most three bytes.
    pub fn pieces<'a>(&mut self, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let max = if self.once_in(4) { 3 } else { bytes.len() };
            let (piece, rest) = bytes.split_at(1 + self.below(max.min(bytes.len())));
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn equal_seeds_give_equal_input_and_pieces_join_to_the_input() {
        let (mut a, mut b) = (Random(7), Random(7));
        for _ in 0..100 {
            let input = a.bytes(50);
            assert_eq!(input, b.bytes(50));
            assert_eq!(a.mutate(&input), b.mutate(&input));
            assert_eq!(a.pieces(&input).concat(), input);
            b.pieces(&input);
        }
        assert_ne!(Random(7).bits(), Random(8).bits());
    }
}
