//! The order of many keys, by their first bytes as numbers: keys themselves are read on ties only.

use porpoise_kv::{Key, SpaceId, first_bytes};
use smallvec::SmallVec;

/// Number of keys up to which they are compared directly.
const FEW: usize = 16;

/// Number of spaces up to which keys are grouped by space first.
const MAX_SPACES: usize = 8;

/// Positions of keys.
pub(crate) type Positions = SmallVec<[usize; FEW]>;

/// Returns the positions below `len` for which `key` returns a key, in the order of the keys.
pub(crate) fn sorted<'k>(len: usize, key: impl Fn(usize) -> Option<Key<'k>>) -> Positions {
    if len <= FEW {
        let mut order: Positions = (0..len).filter(|at| key(*at).is_some()).collect();
        order.sort_unstable_by_key(|at| key(*at));
        return order;
    }
    by_space(len, &key).unwrap_or_else(|| by_space_and_prefix(len, &key))
}

/// A counting sort by space, then a sort of each space's keys, which are often in order. `None` if there are too many
/// spaces.
fn by_space<'k>(len: usize, key: &impl Fn(usize) -> Option<Key<'k>>) -> Option<Positions> {
    let mut spaces: SmallVec<[(SpaceId, usize); MAX_SPACES]> = SmallVec::new();
    for key in (0..len).filter_map(key) {
        if let Some((_, count)) = spaces.iter_mut().find(|(space, _)| *space == key.space) {
            *count += 1;
        } else if spaces.len() < MAX_SPACES {
            spaces.push((key.space, 1));
        } else {
            return None;
        }
    }
    spaces.sort_unstable();
    // From counts to the position of each space's next key.
    let mut total = 0;
    for (_, place) in &mut spaces {
        let count = std::mem::replace(place, total);
        total += count;
    }
    let mut entries: Vec<(u64, usize)> = vec![(0, 0); total];
    for at in 0..len {
        let Some(key) = key(at) else {
            continue;
        };
        let next = spaces.iter_mut().find(|(space, _)| *space == key.space);
        if let Some((_, next)) = next
            && let Some(entry) = entries.get_mut(*next)
        {
            *entry = (first_bytes(key.bytes), at);
            *next += 1;
        }
    }
    let mut start = 0;
    for (_, end) in &spaces {
        let group = entries.get_mut(start..*end).unwrap_or_default();
        group.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(&key(b.1))));
        start = *end;
    }
    Some(entries.into_iter().map(|(_, at)| at).collect())
}

fn by_space_and_prefix<'k>(len: usize, key: &impl Fn(usize) -> Option<Key<'k>>) -> Positions {
    let mut order: Vec<(SpaceId, u64, usize)> = (0..len)
        .filter_map(|at| key(at).map(|key| (key.space, first_bytes(key.bytes), at)))
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
        for (len, spaces) in [(0, 3), (1, 3), (16, 3), (17, 3), (500, 3), (500, 40)] {
            let keys: Vec<(SpaceId, Vec<u8>)> = (0..len)
                .map(|_| {
                    let bytes = (0..rng.usize(0..12)).map(|_| rng.u8(0..3)).collect();
                    (SpaceId(rng.u64(0..spaces)), bytes)
                })
                .collect();
            // Every seventh key is left out.
            let there = |at: &usize| at % 7 != 6;
            let key = |at: usize| {
                let key = keys.get(at).filter(|_| there(&at));
                key.map(|(space, bytes)| Key::new(*space, bytes))
            };
            let order = sorted(keys.len(), key);
            let mut seen = order.to_vec();
            seen.sort_unstable();
            assert_eq!(seen, (0..len).filter(there).collect::<Vec<_>>());
            assert!(order.windows(2).all(|w| key(w[0]) <= key(w[1])));
        }
    }
}
