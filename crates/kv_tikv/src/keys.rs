//! The encoding of keys in the cluster, and of the frame around values.
//!
//! `docs/formats.md`, "TiKV keys", documents it; the tests below print keys, so that every change
//! shows.
//!
//! ```text
//! key   = 'p' num(tenant) area rest
//! area  = 0x01 meta | 0x02 guards | 0x10 rows
//! meta  = 0x00                 layout version          -> u32
//!       | 0x01 num(space)      what the space is for   -> group u64, partition u32, flags u8
//!       | 0x02 num(counter)    next id                 -> u64
//!       | 0x03                 next space id           -> u64
//!       | 0x04 num(space)      dropped, rows remain    -> as 0x01
//!       | 0x05 num(server)     record of a server      -> bytes of `rows`
//!       | 0x06                 garbage collector       -> its number u64, end of its turn u64 (ms)
//!       | 0x07                 name of installation    -> UTF-8
//! guards = num(space) 0x00 slot     of a space: never a value, only locks (`guards`)
//!        | num(space) 0x01 key slot of a key
//! rows  = num(group) num(partition) num(space) key
//! value = 0x01 bytes
//! ```
//!
//! `num(n)` is a length byte (0 to 8) and that many big-endian bytes without
//! leading zeros; integers in values are big-endian.
//!
//! Invariants:
//! 1. Byte order of `num` is numeric order and no `num` is a prefix of
//!    another, so keys sort by (tenant, area, group, partition, space, key)
//!    and every group, partition and space is one contiguous range.
//! 2. The engine's key comes last and needs no escaping. (TiKV itself escapes the complete key.)
//! 3. No value is empty: TiKV cannot tell an empty value from none.
//! 4. The first byte is neither TiDB's ('m', 't') nor one of API V2's modes
//!    ('r', 'x'), so that a cluster may be shared.

use porpoise_kv::{CounterId, Error, Result, SpaceDurability, SpaceId, SpaceSpec, prefix_end};

/// Version of the key layout that this program writes, and the newest that it can read.
pub const KEY_FORMAT_VERSION: u32 = 3;
/// The version before guards: its programs lock the parent itself, which does not exclude the guards of later programs.
pub(crate) const UNGUARDED_VERSION: u32 = 2;
/// Version without records of servers. Its programs share a cluster without coordination, so they
/// must not connect once one of this version has.
pub(crate) const UNCOORDINATED_VERSION: u32 = 1;

const FIRST: u8 = b'p';
const META: u8 = 0x01;
const GUARDS: u8 = 0x02;
const ROWS: u8 = 0x10;

const META_VERSION: u8 = 0x00;
const META_SPEC: u8 = 0x01;
const META_COUNTER: u8 = 0x02;
const META_NEXT_SPACE: u8 = 0x03;
const META_DROPPED: u8 = 0x04;
const META_SERVER: u8 = 0x05;
const META_COLLECTOR: u8 = 0x06;
const META_NAME: u8 = 0x07;

const GUARD_OF_SPACE: u8 = 0x00;
const GUARD_OF_KEY: u8 = 0x01;

const PLAIN: u8 = 0x01;

const FLAG_MEMORY: u8 = 1;
const FLAG_POINT_LOOKUPS: u8 = 2;

/// Maximum number of bytes before the engine's key: 'p', tenant, area, group, partition, space.
pub(crate) const LONGEST_PREFIX: usize = 1 + 5 + 1 + 9 + 5 + 9;

/// Appends `num(n)`.
fn put_num(out: &mut Vec<u8>, n: u64) {
    let skip = (n.leading_zeros() / 8) as usize;
    out.push((8 - skip) as u8);
    out.extend(n.to_be_bytes().iter().skip(skip));
}

/// Removes a `num` from the front; `None` if it is malformed.
fn take_num(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    let (digits, rest) = rest.split_at_checked(usize::from(len))?;
    if digits.len() > 8 || digits.first() == Some(&0) {
        return None;
    }
    let n = digits.iter().fold(0u64, |n, &d| (n << 8) | u64::from(d));
    Some((n, rest))
}

/// The keys of one tenant.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    tenant: Vec<u8>,
}

impl Layout {
    pub(crate) fn new(tenant: u32) -> Layout {
        let mut bytes = vec![FIRST];
        put_num(&mut bytes, u64::from(tenant));
        Layout { tenant: bytes }
    }

    fn meta(&self, item: u8) -> Vec<u8> {
        let mut key = self.tenant.clone();
        key.extend([META, item]);
        key
    }

    fn meta_num(&self, item: u8, n: u64) -> Vec<u8> {
        let mut key = self.meta(item);
        put_num(&mut key, n);
        key
    }

    /// Key of the layout version.
    pub(crate) fn version(&self) -> Vec<u8> {
        self.meta(META_VERSION)
    }

    /// Key of the next space id.
    pub(crate) fn next_space(&self) -> Vec<u8> {
        self.meta(META_NEXT_SPACE)
    }

    /// Key of a space's specification.
    pub(crate) fn spec(&self, space: SpaceId) -> Vec<u8> {
        self.meta_num(META_SPEC, space.0)
    }

    /// Key of the record that a space was dropped and its rows may remain.
    pub(crate) fn dropped(&self, space: SpaceId) -> Vec<u8> {
        self.meta_num(META_DROPPED, space.0)
    }

    /// Key of a counter's next id.
    pub(crate) fn counter(&self, counter: CounterId) -> Vec<u8> {
        self.meta_num(META_COUNTER, counter.0)
    }

    /// The range of all specifications.
    pub(crate) fn specs(&self) -> (Vec<u8>, Vec<u8>) {
        (self.meta(META_SPEC), self.meta(META_SPEC + 1))
    }

    /// The range of all dropped spaces.
    pub(crate) fn all_dropped(&self) -> (Vec<u8>, Vec<u8>) {
        (self.meta(META_DROPPED), self.meta(META_DROPPED + 1))
    }

    /// Bytes of the tenant's number, in hex.
    pub(crate) fn tenant(&self) -> String {
        self.tenant.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The range of the keys of all tenants.
    pub(crate) fn all_tenants() -> (Vec<u8>, Vec<u8>) {
        (vec![FIRST], vec![FIRST + 1])
    }

    /// Key of the entry of the server that collects garbage.
    pub(crate) fn collector(&self) -> Vec<u8> {
        self.meta(META_COLLECTOR)
    }

    /// Key of the name of the installation.
    pub(crate) fn name(&self) -> Vec<u8> {
        self.meta(META_NAME)
    }

    /// Key of the record of a server.
    pub(crate) fn server(&self, server: u64) -> Vec<u8> {
        self.meta_num(META_SERVER, server)
    }

    /// The range of all records of servers.
    pub(crate) fn servers(&self) -> (Vec<u8>, Vec<u8>) {
        (self.meta(META_SERVER), self.meta(META_SERVER + 1))
    }

    /// Returns the server of a key in [`Layout::servers`].
    pub(crate) fn server_of_meta(&self, key: &[u8]) -> Option<u64> {
        self.space_of_meta(key).map(|number| number.0)
    }

    /// Returns the space of a key in [`Layout::specs`] or [`Layout::all_dropped`].
    pub(crate) fn space_of_meta(&self, key: &[u8]) -> Option<SpaceId> {
        let item = key.strip_prefix(self.tenant.as_slice())?;
        let (space, rest) = take_num(item.get(2..)?)?;
        rest.is_empty().then_some(SpaceId(space))
    }

    fn guards(&self, space: SpaceId, of: u8) -> Vec<u8> {
        let mut key = self.tenant.clone();
        key.push(GUARDS);
        put_num(&mut key, space.0);
        key.push(of);
        key
    }

    /// A guard of a space.
    pub(crate) fn guard_of_space(&self, space: SpaceId, slot: u8) -> Vec<u8> {
        let mut guard = self.guards(space, GUARD_OF_SPACE);
        guard.push(slot);
        guard
    }

    /// A guard of a key of a space.
    pub(crate) fn guard_of_key(&self, space: SpaceId, key: &[u8], slot: u8) -> Vec<u8> {
        let mut guard = self.guards(space, GUARD_OF_KEY);
        guard.extend_from_slice(key);
        guard.push(slot);
        guard
    }

    /// Prefix of all keys of a space.
    pub(crate) fn rows(&self, space: SpaceId, spec: &SpaceSpec) -> Vec<u8> {
        let mut key = self.tenant.clone();
        key.push(ROWS);
        put_num(&mut key, spec.group);
        put_num(&mut key, u64::from(spec.partition));
        put_num(&mut key, space.0);
        key
    }
}

/// Returns the least key above all that start with `prefix`, which exists because prefixes here
/// start with 'p'.
pub(crate) fn end_of(prefix: &[u8]) -> Vec<u8> {
    prefix_end(prefix).unwrap_or_else(|| vec![FIRST + 1])
}

/// Frames a value.
pub(crate) fn frame(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 1);
    out.push(PLAIN);
    out.extend_from_slice(value);
    out
}

/// Removes the frame of a value.
pub(crate) fn unframe(value: &[u8]) -> Result<&[u8]> {
    match value.split_first() {
        Some((&PLAIN, bytes)) => Ok(bytes),
        Some((other, _)) => Err(Error::Corrupt(format!(
            "a value in the cluster begins with {other:#04x}, which no version up to \
             {KEY_FORMAT_VERSION} of the layout writes"
        ))),
        None => Err(Error::Corrupt(
            "an empty value, which Porpoise never writes".into(),
        )),
    }
}

/// The framed value of an integer.
pub(crate) fn frame_u64(n: u64) -> Vec<u8> {
    frame(&n.to_be_bytes())
}

/// Decodes the result of [`frame_u64`].
pub(crate) fn unframe_u64(value: &[u8]) -> Result<u64> {
    let bytes = unframe(value)?;
    let bytes = bytes
        .try_into()
        .map_err(|_| Error::Corrupt(format!("a counter has {} bytes, not 8", bytes.len())))?;
    Ok(u64::from_be_bytes(bytes))
}

/// The framed layout version.
pub(crate) fn frame_version(version: u32) -> Vec<u8> {
    frame(&version.to_be_bytes())
}

/// Decodes the result of [`frame_version`].
pub(crate) fn unframe_version(value: &[u8]) -> Result<u32> {
    let bytes = unframe(value)?
        .try_into()
        .map_err(|_| Error::Corrupt("the layout version does not have four bytes".into()))?;
    Ok(u32::from_be_bytes(bytes))
}

/// The framed value of a specification.
pub(crate) fn frame_spec(spec: &SpaceSpec) -> Vec<u8> {
    let mut flags = 0;
    if spec.durability == SpaceDurability::Memory {
        flags |= FLAG_MEMORY;
    }
    if spec.point_lookups {
        flags |= FLAG_POINT_LOOKUPS;
    }
    let mut bytes = spec.group.to_be_bytes().to_vec();
    bytes.extend(spec.partition.to_be_bytes());
    bytes.push(flags);
    frame(&bytes)
}

/// Decodes the result of [`frame_spec`].
pub(crate) fn unframe_spec(value: &[u8]) -> Result<SpaceSpec> {
    let bytes = unframe(value)?;
    let parts = bytes.split_first_chunk::<8>().and_then(|(group, rest)| {
        let (partition, rest) = rest.split_first_chunk::<4>()?;
        match rest {
            [flags] if flags & !(FLAG_MEMORY | FLAG_POINT_LOOKUPS) == 0 => {
                Some((*group, *partition, *flags))
            }
            _ => None,
        }
    });
    let Some((group, partition, flags)) = parts else {
        return Err(Error::Corrupt("a malformed space specification".into()));
    };
    Ok(SpaceSpec {
        group: u64::from_be_bytes(group),
        partition: u32::from_be_bytes(partition),
        durability: if flags & FLAG_MEMORY != 0 {
            SpaceDurability::Memory
        } else {
            SpaceDurability::Server
        },
        point_lookups: flags & FLAG_POINT_LOOKUPS != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn keys_are_written_as_the_formats_page_says() {
        let l = Layout::new(0);
        let spec = SpaceSpec {
            group: 64,
            partition: 3,
            ..SpaceSpec::default()
        };
        assert_eq!(hex(&l.version()), "70000100");
        assert_eq!(hex(&l.spec(SpaceId(300))), "7000010102012c");
        assert_eq!(hex(&l.counter(CounterId(1))), "700001020101");
        assert_eq!(hex(&l.next_space()), "70000103");
        assert_eq!(hex(&l.dropped(SpaceId(65))), "700001040141");
        assert_eq!(hex(&l.server(9)), "700001050109");
        assert_eq!(hex(&l.collector()), "70000106");
        assert_eq!(hex(&l.name()), "70000107");
        assert_eq!(hex(&l.rows(SpaceId(65), &spec)), "700010014001030141");
        assert_eq!(hex(&l.guard_of_space(SpaceId(65), 7)), "70000201410007");
        assert_eq!(
            hex(&l.guard_of_key(SpaceId(65), b"k", 63)),
            "7000020141016b3f"
        );
        assert_eq!(hex(&Layout::new(7).version()), "7001070100");
        assert_eq!(hex(&frame(b"")), "01");
        assert_eq!(hex(&frame_spec(&spec)), "0100000000000000400000000300");
    }

    #[test]
    fn numbers_sort_and_round_trip() {
        let ns = [0, 1, 255, 256, 65_535, 65_536, 1 << 40, u64::MAX];
        let keys: Vec<Vec<u8>> = ns
            .iter()
            .map(|&n| {
                let mut k = Vec::new();
                put_num(&mut k, n);
                k
            })
            .collect();
        assert!(keys.is_sorted());
        for (n, key) in ns.iter().zip(&keys) {
            assert_eq!(take_num(key), Some((*n, &[][..])));
        }
        assert_eq!(take_num(&[9, 1, 1, 1, 1, 1, 1, 1, 1, 1]), None);
        assert_eq!(take_num(&[2, 1]), None);
        assert_eq!(take_num(&[1, 0]), None);
    }

    #[test]
    fn the_longest_prefix_is_as_long_as_stated() {
        let spec = SpaceSpec {
            group: u64::MAX,
            partition: u32::MAX,
            ..SpaceSpec::default()
        };
        let prefix = Layout::new(u32::MAX).rows(SpaceId(u64::MAX), &spec);
        assert_eq!(prefix.len(), LONGEST_PREFIX);
    }

    #[test]
    fn a_groups_partition_is_one_range() {
        let l = Layout::new(1);
        let at = |group, partition, space| {
            let spec = SpaceSpec {
                group,
                partition,
                ..SpaceSpec::default()
            };
            l.rows(SpaceId(space), &spec)
        };
        let order = [
            at(1, 0, 900),
            at(1, 1, 65),
            at(1, 1, 70_000),
            at(1, 2, 64),
            at(300, 0, 64),
        ];
        assert!(order.is_sorted());
    }

    #[test]
    fn specifications_round_trip_and_malformed_ones_are_refused() {
        let spec = SpaceSpec {
            group: 9,
            partition: 1,
            durability: SpaceDurability::Memory,
            point_lookups: true,
        };
        assert_eq!(unframe_spec(&frame_spec(&spec)).unwrap(), spec);
        let l = Layout::new(5);
        assert_eq!(l.space_of_meta(&l.spec(SpaceId(77))), Some(SpaceId(77)));
        for bad in [&b""[..], b"\x02abc", b"\x01short"] {
            assert!(matches!(unframe_spec(bad), Err(Error::Corrupt(_))));
        }
        assert!(matches!(unframe(b"\x07x"), Err(Error::Corrupt(_))));
    }
}
