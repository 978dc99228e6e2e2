//! The cache of regions: which peer serves a key.
//!
//! A region is a range of keys with a version (epoch). The placement driver returns regions, and stores correct the
//! cache: a request carries the epoch by which it was addressed, and a store refuses it if the epoch or
//! the leader is out of date.
//!
//! Invariants:
//! 1. Regions in the cache do not overlap: a new one displaces those that it overlaps.
//! 2. An older version never displaces a newer one of the same region.
//! 3. Keys here are raw keys; the borders that placement driver and stores tell are encoded
//!    ([`decode_border`]).

use crate::proto::{MetaRegion, Peer, RegionEpoch};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of a group of the encoding of keys.
const GROUP: usize = 8;

/// Encodes a key in the order-preserving form of region borders: groups of 8 bytes, padded with zeros,
/// each followed by 0xff minus the number of padding bytes.
pub(crate) fn encode_key(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity((key.len() / GROUP + 1) * (GROUP + 1));
    let mut rest = key;
    loop {
        let (group, later) = rest.split_at_checked(GROUP).unwrap_or((rest, &[]));
        out.extend_from_slice(group);
        let padding = GROUP - group.len();
        out.extend(std::iter::repeat_n(0, padding));
        out.push(0xff - padding as u8);
        if padding > 0 {
            return out;
        }
        rest = later;
    }
}

/// Decodes a region's border. The empty border is the end of the key space. `None` if malformed.
pub(crate) fn decode_border(border: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(border.len());
    if border.is_empty() {
        return Some(out);
    }
    for group in border.chunks(GROUP + 1) {
        let (marker, bytes) = group.split_last()?;
        let padding = usize::from(0xff - marker);
        let used = GROUP.checked_sub(padding)?;
        if bytes.len() != GROUP {
            return None;
        }
        out.extend_from_slice(bytes.get(..used)?);
        if padding > 0 {
            return Some(out);
        }
    }
    None
}

/// A region, and the peer to ask.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) id: u64,
    pub(crate) start: Vec<u8>,
    /// Exclusive; empty for the end of the key space.
    pub(crate) end: Vec<u8>,
    pub(crate) epoch: RegionEpoch,
    pub(crate) peers: Vec<Peer>,
    pub(crate) leader: Peer,
}

impl Region {
    /// A region as the placement driver or a store describes it. Without a leader the first peer is
    /// asked, which names the leader. `None` if the description is incomplete.
    pub(crate) fn new(meta: &MetaRegion, leader: Option<&Peer>) -> Option<Region> {
        let known = leader.filter(|l| l.store_id != 0);
        let leader = known.or_else(|| meta.peers.iter().find(|p| p.role == 0 && !p.is_witness))?;
        Some(Region {
            id: meta.id,
            start: decode_border(&meta.start_key)?,
            end: decode_border(&meta.end_key)?,
            epoch: meta.region_epoch.unwrap_or_default(),
            peers: meta.peers.clone(),
            leader: leader.clone(),
        })
    }

    /// Whether it has `key`.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && (self.end.is_empty() || key < self.end.as_slice())
    }

    /// Whether it has the keys immediately below `end`, which is exclusive.
    pub(crate) fn ends_at_or_contains(&self, end: &[u8]) -> bool {
        self.start.as_slice() < end && (self.end.is_empty() || end <= self.end.as_slice())
    }

    fn is_older_than(&self, other: &Region) -> bool {
        self.epoch.version < other.epoch.version || self.epoch.conf_ver < other.epoch.conf_ver
    }
}

/// The regions known to the client.
#[derive(Default)]
pub(crate) struct RegionCache {
    by_start: RwLock<BTreeMap<Vec<u8>, Arc<Region>>>,
}

impl RegionCache {
    /// The region of `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Arc<Region>> {
        let map = self.by_start.read();
        let range = (Bound::Unbounded, Bound::Included(key));
        let (_, region) = map.range::<[u8], _>(range).next_back()?;
        region.contains(key).then(|| region.clone())
    }

    /// The region of the keys immediately below `end`.
    pub(crate) fn find_before(&self, end: &[u8]) -> Option<Arc<Region>> {
        let map = self.by_start.read();
        let range = (Bound::Unbounded, Bound::Excluded(end));
        let (_, region) = map.range::<[u8], _>(range).next_back()?;
        region.ends_at_or_contains(end).then(|| region.clone())
    }

    /// Adds a region, unless a newer version of it is known.
    pub(crate) fn insert(&self, region: Region) -> Arc<Region> {
        let region = Arc::new(region);
        let mut map = self.by_start.write();
        let overlaps = |r: &Region| {
            (r.end.is_empty() || region.start < r.end)
                && (region.end.is_empty() || r.start < region.end)
        };
        let upper = match region.end.as_slice() {
            [] => Bound::Unbounded,
            end => Bound::Excluded(end),
        };
        let mut displaced = Vec::new();
        for (start, other) in map.range::<[u8], _>((Bound::Unbounded, upper)).rev() {
            if !overlaps(other) {
                break;
            }
            if other.id == region.id && region.is_older_than(other) {
                return region.clone();
            }
            displaced.push(start.clone());
        }
        for start in displaced {
            map.remove(&start);
        }
        map.insert(region.start.clone(), region.clone());
        region
    }

    /// Removes a region if the cache still has this description of it.
    pub(crate) fn remove(&self, region: &Arc<Region>) {
        let mut map = self.by_start.write();
        if map
            .get(&region.start)
            .is_some_and(|r| Arc::ptr_eq(r, region))
        {
            map.remove(&region.start);
        }
    }

    /// Makes `leader` the peer to ask, if the cache still has this description of the region.
    pub(crate) fn set_leader(&self, region: &Arc<Region>, leader: Peer) {
        let mut map = self.by_start.write();
        if let Some(there) = map.get_mut(&region.start)
            && Arc::ptr_eq(there, region)
        {
            *there = Arc::new(Region {
                leader,
                ..Region::clone(region)
            });
        }
    }

    /// Asks another peer from now on: the leader's store does not answer.
    pub(crate) fn try_next_peer(&self, region: &Arc<Region>) {
        let able: Vec<&Peer> = (region.peers.iter())
            .filter(|p| p.role == 0 && !p.is_witness)
            .collect();
        let at = able.iter().position(|p| p.id == region.leader.id);
        let next = at.map_or(0, |i| (i + 1) % able.len().max(1));
        match able.get(next) {
            Some(peer) if peer.id != region.leader.id => {
                self.set_leader(region, Peer::clone(peer));
            }
            _ => self.remove(region),
        }
    }

    /// Number of regions known.
    pub(crate) fn len(&self) -> usize {
        self.by_start.read().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(id: u64, start: &str, end: &str, version: u64) -> Region {
        let peer = |id| Peer {
            id,
            store_id: id,
            ..Peer::default()
        };
        Region {
            id,
            start: start.into(),
            end: end.into(),
            epoch: RegionEpoch {
                conf_ver: 1,
                version,
            },
            peers: vec![peer(1), peer(2)],
            leader: peer(1),
        }
    }

    #[test]
    fn borders_are_encoded_as_tikv_does_and_keep_the_order() {
        assert_eq!(encode_key(b""), [0, 0, 0, 0, 0, 0, 0, 0, 0xf7]);
        assert_eq!(encode_key(b"abc"), b"abc\0\0\0\0\0\xfa");
        assert_eq!(encode_key(b"12345678"), b"12345678\xff\0\0\0\0\0\0\0\0\xf7");
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"a\0", b"aaaaaaaa", b"aaaaaaaab"];
        assert!(keys.map(encode_key).is_sorted());
        for key in keys {
            assert_eq!(decode_border(&encode_key(key)).as_deref(), Some(key));
        }
        assert_eq!(decode_border(b""), Some(Vec::new()));
        for bad in [&b"short"[..], b"12345678\xff", b"12345678\x01"] {
            assert_eq!(decode_border(bad), None);
        }
    }

    #[test]
    fn keys_are_found_from_either_side() {
        let cache = RegionCache::default();
        cache.insert(region(1, "", "m", 1));
        cache.insert(region(2, "m", "", 1));
        let id = |r: Option<Arc<Region>>| r.map(|r| r.id);
        assert_eq!(id(cache.find(b"a")), Some(1));
        assert_eq!(id(cache.find(b"m")), Some(2));
        assert_eq!(id(cache.find_before(b"m")), Some(1));
        assert_eq!(id(cache.find_before(b"m\0")), Some(2));
    }

    #[test]
    fn a_split_displaces_the_old_region_and_an_old_version_displaces_nothing() {
        let cache = RegionCache::default();
        let old = cache.insert(region(1, "", "", 1));
        cache.insert(region(1, "", "m", 2));
        cache.insert(region(3, "m", "", 2));
        assert_eq!(cache.len(), 2);
        cache.insert(region(1, "", "", 1));
        assert_eq!(cache.find(b"z").map(|r| r.id), Some(3));
        cache.remove(&old);
        assert_eq!(cache.len(), 2);
        // A merge.
        cache.insert(region(1, "", "", 4));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn the_next_peer_is_asked_when_a_store_is_silent() {
        let cache = RegionCache::default();
        let first = cache.insert(region(1, "", "", 1));
        cache.try_next_peer(&first);
        let second = cache.find(b"a").unwrap();
        assert_eq!(second.leader.id, 2);
        // The report of a failure that is out of date changes nothing.
        cache.try_next_peer(&first);
        assert_eq!(cache.find(b"a").unwrap().leader.id, 2);
    }
}
