//! Images of prepared transactions: encoding, and the keys under which they are stored
//! (docs/formats.md, "Prepared transactions").
//!
//! An image is a sequence of items (locks, validated reads, writes) in chunks of about [`CHUNK`] bytes;
//! no item spans two chunks. The first chunk begins with the format's version and the note.

use crate::codec::{Malformed, Reader, put_bytes, put_varint};
use crate::record::InlineKey;
use crate::validate::{Extent, Tracked, Tracking};
use porpoise_kv::{Check, Key, LockMode, SpaceId};

/// Version of the format.
pub(crate) const PREPARED_FORMAT_VERSION: u64 = 1;

/// Approximate size of a chunk in bytes.
const CHUNK: usize = 1 << 20;

const LOCK: u8 = 1;
const READ: u8 = 2;
const PUT: u8 = 3;
const DELETE: u8 = 4;

/// One item of an image.
pub(crate) enum Item<'a> {
    Lock(Key<'a>, LockMode),
    Read(Tracked),
    /// A write; `None` is a deletion.
    Write(Key<'a>, Option<&'a [u8]>, Check),
}

/// Key of a chunk in [`SpaceId::PREPARED`]: name and number.
pub(crate) fn chunk_key(name: &[u8], number: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 6);
    // Names are at most `MAX_PREPARED_NAME` bytes long.
    key.extend_from_slice(&(name.len() as u16).to_be_bytes());
    key.extend_from_slice(name);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Name and number of a chunk's key.
pub(crate) fn split_chunk_key(key: &[u8]) -> Result<(&[u8], u32), Malformed> {
    let (length, rest) = key.split_first_chunk::<2>().ok_or(Malformed)?;
    let (name, number) = rest
        .split_at_checked(usize::from(u16::from_be_bytes(*length)))
        .ok_or(Malformed)?;
    let number = number.try_into().map_err(|_| Malformed)?;
    Ok((name, u32::from_be_bytes(number)))
}

/// Encoder of an image.
pub(crate) struct ImageWriter {
    chunks: Vec<Vec<u8>>,
    current: Vec<u8>,
}

impl ImageWriter {
    pub(crate) fn new(note: &[u8]) -> ImageWriter {
        let mut current = Vec::new();
        put_varint(&mut current, PREPARED_FORMAT_VERSION);
        put_bytes(&mut current, note);
        ImageWriter {
            chunks: Vec::new(),
            current,
        }
    }

    pub(crate) fn push(&mut self, item: &Item<'_>) {
        if self.current.len() >= CHUNK {
            self.chunks.push(std::mem::take(&mut self.current));
        }
        let out = &mut self.current;
        match item {
            Item::Lock(key, mode) => {
                out.extend_from_slice(&[LOCK, mode_code(*mode)]);
                put_key(out, *key);
            }
            Item::Read(read) => put_read(out, read),
            Item::Write(key, value, check) => {
                let kind = if value.is_some() { PUT } else { DELETE };
                out.extend_from_slice(&[kind, u8::from(*check == Check::Blind)]);
                put_key(out, *key);
                if let Some(value) = value {
                    put_bytes(out, value);
                }
            }
        }
    }

    /// The chunks, in order.
    pub(crate) fn finish(mut self) -> Vec<Vec<u8>> {
        self.chunks.push(self.current);
        self.chunks
    }
}

fn put_key(out: &mut Vec<u8>, key: Key<'_>) {
    put_varint(out, key.space.0);
    put_bytes(out, key.bytes);
}

fn put_read(out: &mut Vec<u8>, read: &Tracked) {
    let (code, end) = match &read.extent {
        Extent::Key => (0, None),
        Extent::Below(end) => (1, Some(end)),
        Extent::Through(end) => (2, Some(end)),
        Extent::All => (3, None),
    };
    out.extend_from_slice(&[READ, code]);
    put_key(out, Key::new(read.space, &read.start));
    if let Some(end) = end {
        put_bytes(out, end);
    }
}

fn mode_code(mode: LockMode) -> u8 {
    match mode {
        LockMode::KeyShare => 0,
        LockMode::Share => 1,
        LockMode::Update => 2,
        LockMode::Exclusive => 3,
    }
}

fn mode_of(code: u8) -> Result<LockMode, Malformed> {
    match code {
        0 => Ok(LockMode::KeyShare),
        1 => Ok(LockMode::Share),
        2 => Ok(LockMode::Update),
        3 => Ok(LockMode::Exclusive),
        _ => Err(Malformed),
    }
}

/// Reads the beginning of the first chunk: version, note, and the rest.
pub(crate) fn read_head(chunk: &[u8]) -> Result<(u64, &[u8], Reader<'_>), Malformed> {
    let mut reader = Reader(chunk);
    let version = reader.varint()?;
    if version != PREPARED_FORMAT_VERSION {
        return Ok((version, &[], reader));
    }
    let note = reader.bytes()?;
    Ok((version, note, reader))
}

/// Reads the next item; `None` at the end of the chunk.
pub(crate) fn read_item<'a>(reader: &mut Reader<'a>) -> Result<Option<Item<'a>>, Malformed> {
    if reader.is_empty() {
        return Ok(None);
    }
    let (kind, code) = (reader.u8()?, reader.u8()?);
    let key = Key::new(SpaceId(reader.varint()?), reader.bytes()?);
    let check = || match code {
        0 => Ok(Check::Locked),
        1 => Ok(Check::Blind),
        _ => Err(Malformed),
    };
    let item = match kind {
        LOCK => Item::Lock(key, mode_of(code)?),
        READ => {
            let extent = match code {
                0 => Extent::Key,
                1 => Extent::Below(InlineKey::from_slice(reader.bytes()?)),
                2 => Extent::Through(InlineKey::from_slice(reader.bytes()?)),
                3 => Extent::All,
                _ => return Err(Malformed),
            };
            Item::Read(Tracked {
                space: key.space,
                start: InlineKey::from_slice(key.bytes),
                extent,
                tracking: Tracking {
                    since: 0,
                    validate: true,
                },
            })
        }
        PUT => Item::Write(key, Some(reader.bytes()?), check()?),
        DELETE => Item::Write(key, None, check()?),
        _ => return Err(Malformed),
    };
    Ok(Some(item))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(start: &[u8], extent: Extent) -> Tracked {
        Tracked {
            space: SpaceId(300),
            start: InlineKey::from_slice(start),
            extent,
            tracking: Tracking {
                since: 0,
                validate: true,
            },
        }
    }

    fn sample() -> Vec<u8> {
        let mut writer = ImageWriter::new(b"note");
        let key = Key::new(SpaceId(64), b"k");
        for mode in [
            LockMode::KeyShare,
            LockMode::Share,
            LockMode::Update,
            LockMode::Exclusive,
        ] {
            writer.push(&Item::Lock(key, mode));
        }
        let end = || InlineKey::from_slice(b"z");
        for extent in [
            Extent::Key,
            Extent::Below(end()),
            Extent::Through(end()),
            Extent::All,
        ] {
            writer.push(&Item::Read(tracked(b"a", extent)));
        }
        writer.push(&Item::Write(key, Some(b"value"), Check::Locked));
        writer.push(&Item::Write(key, None, Check::Blind));
        let mut chunks = writer.finish();
        assert_eq!(chunks.len(), 1);
        chunks.remove(0)
    }

    /// Encodes the items of a chunk again.
    fn copy(chunk: &[u8]) -> Result<Vec<u8>, Malformed> {
        let (_, note, mut reader) = read_head(chunk)?;
        let mut writer = ImageWriter::new(note);
        while let Some(item) = read_item(&mut reader)? {
            writer.push(&item);
        }
        Ok(writer.finish().concat())
    }

    /// The bytes of docs/formats.md.
    #[test]
    fn chunk_has_the_documented_bytes() {
        let mut writer = ImageWriter::new(b"n");
        let key = Key::new(SpaceId(64), b"k");
        writer.push(&Item::Lock(key, LockMode::Exclusive));
        writer.push(&Item::Write(key, Some(b"v"), Check::Locked));
        let bytes = [1, 1, b'n', 1, 3, 64, 1, b'k', 3, 0, 64, 1, b'k', 1, b'v'];
        assert_eq!(writer.finish(), [bytes.to_vec()]);
        assert_eq!(chunk_key(b"x", 1), [0, 1, b'x', 0, 0, 0, 1]);
    }

    #[test]
    fn items_round_trip_and_damaged_bytes_are_refused() {
        let chunk = sample();
        assert_eq!(copy(&chunk).as_ref(), Ok(&chunk));
        for cut in 0..chunk.len() {
            // A cut between two items cannot be detected in the chunk.
            if let Ok(copy) = copy(&chunk[..cut]) {
                assert_eq!(copy, chunk[..cut]);
            }
        }
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let mut bytes = chunk.clone();
            let at = rng.usize(0..bytes.len());
            bytes[at] = rng.u8(..);
            let _ = copy(&bytes);
        }
        assert_eq!(
            split_chunk_key(&chunk_key(b"name", 7)),
            Ok((&b"name"[..], 7))
        );
        assert!(split_chunk_key(&chunk_key(b"name", 7)[..9]).is_err());
    }

    #[test]
    fn chunks_hold_whole_items() {
        let value = vec![1; CHUNK / 2 + 1];
        let mut writer = ImageWriter::new(b"");
        for _ in 0..5 {
            let key = Key::new(SpaceId(64), b"k");
            writer.push(&Item::Write(key, Some(&value), Check::Blind));
        }
        let chunks = writer.finish();
        assert_eq!(chunks.len(), 3);
        let mut reader = Reader(&chunks[1]);
        assert!(matches!(read_item(&mut reader), Ok(Some(Item::Write(..)))));
    }
}
