//! The order of many keys, by their first bytes as numbers: keys themselves are read on ties only.

use porpoise_kv::{Key, SpaceId};
use smallvec::SmallVec;

/// Number of keys up to which they are compared directly.
const FEW: usize = 16;

/// Positions of keys.
pub(crate) type Positions = SmallVec<[usize; FEW]>;

/// The first bytes of a key as a number that compares as they do.
fn prefix_of(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(key) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}

/// Returns the positions of `len` keys in the order of the keys.
pub(crate) fn sorted<'k>(len: usize, key: impl Fn(usize) -> Option<Key<'k>>) -> Positions {
    if len <= FEW {
        let mut order: Positions = (0..len).collect();
        order.sort_unstable_by_key(|at| key(*at));
        return order;
    }
    let mut order: Vec<(SpaceId, u64, usize)> = (0..len)
        .filter_map(|at| key(at).map(|key| (key.space, prefix_of(key.bytes), at)))
        .collect();
    order.sort_unstable_by(|a, b| {
        let by_prefix = (a.0, a.1).cmp(&(b.0, b.1));
        by_prefix.then_with(|| key(a.2).cmp(&key(b.2)))
    });
    order.into_iter().map(|(.., at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_keys_are_in_the_order_of_their_bytes() {
        let mut rng = fastrand::Rng::with_seed(9);
        for len in [0, 1, 16, 17, 500] {
            let keys: Vec<(SpaceId, Vec<u8>)> = (0..len)
                .map(|_| {
                    let bytes = (0..rng.usize(0..12)).map(|_| rng.u8(0..3)).collect();
                    (SpaceId(rng.u64(0..3)), bytes)
                })
                .collect();
            let key = |at: usize| keys.get(at).map(|(space, bytes)| Key::new(*space, bytes));
            let order = sorted(keys.len(), key);
            let mut seen = order.to_vec();
            seen.sort_unstable();
            assert_eq!(seen, (0..len).collect::<Vec<_>>());
            assert!(order.windows(2).all(|w| key(w[0]) <= key(w[1])));
        }
    }
}
