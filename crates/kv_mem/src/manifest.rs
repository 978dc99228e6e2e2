//! The manifest: names the current checkpoint, and the log position from which recovery continues.
//!
//! It is written to a new file, synced, renamed over the old one, and the directory is synced; so there
//! is always one whole manifest, or none in a store without a checkpoint.

use crate::codec::{Malformed, Reader, put_varint};
use crate::log::format::{get_spec, put_spec};
use crate::log::io_error;
use porpoise_base::disk::Disk;
use porpoise_kv::{Error, Result, SpaceId, SpaceSpec};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// The version of the manifest's format that this build writes.
pub(crate) const MANIFEST_FORMAT_VERSION: u32 = 2;

/// Oldest version of the manifest's format that this build reads.
const OLDEST: u32 = 1;

const MAGIC: [u8; 8] = *b"PORPMAN\0";
pub(crate) const NAME: &str = "MANIFEST";
const NEW_NAME: &str = "MANIFEST.tmp";

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointFile {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
}

/// The rows of some spaces, as one checkpoint wrote them, in files of their own. Later checkpoints
/// reuse a unit until a newer commit has written to one of its spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Number of the checkpoint that wrote the files; part of their names.
    pub(crate) checkpoint: u64,
    /// Timestamp of the unit's snapshot.
    pub(crate) ts: u64,
    /// The unit's spaces; empty in manifests of version 1, where they are unknown.
    pub(crate) spaces: Vec<SpaceId>,
    pub(crate) files: Vec<CheckpointFile>,
}

/// The content of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Checkpoints are numbered from 1.
    pub(crate) checkpoint: u64,
    /// Timestamp of the checkpoint's snapshot. The rows of each unit are unchanged since the unit's
    /// own snapshot.
    pub(crate) ts: u64,
    /// Upper limit of commit timestamps: none at or above it was given out.
    pub(crate) ts_limit: u64,
    /// Log position from which recovery replays records.
    pub(crate) position: u64,
    /// The next space's id.
    pub(crate) next_space: u64,
    pub(crate) units: Vec<Unit>,
    pub(crate) spaces: Vec<(SpaceId, SpaceSpec)>,
    /// Counters and their limits.
    pub(crate) counters: Vec<(u64, u64)>,
}

fn put_files(out: &mut Vec<u8>, files: &[CheckpointFile]) {
    put_varint(out, files.len() as u64);
    for file in files {
        for n in [file.number, file.bytes, file.rows] {
            put_varint(out, n);
        }
    }
}

fn get_files(reader: &mut Reader<'_>) -> std::result::Result<Vec<CheckpointFile>, Malformed> {
    let mut files = Vec::new();
    for _ in 0..reader.varint()? {
        files.push(CheckpointFile {
            number: reader.varint()?,
            bytes: reader.varint()?,
            rows: reader.varint()?,
        });
    }
    Ok(files)
}

impl Manifest {
    /// Encodes the manifest.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for n in [
            self.checkpoint,
            self.ts,
            self.ts_limit,
            self.position,
            self.next_space,
        ] {
            put_varint(&mut body, n);
        }
        put_varint(&mut body, self.units.len() as u64);
        for unit in &self.units {
            put_varint(&mut body, unit.checkpoint);
            put_varint(&mut body, unit.ts);
            put_varint(&mut body, unit.spaces.len() as u64);
            for space in &unit.spaces {
                put_varint(&mut body, space.0);
            }
            put_files(&mut body, &unit.files);
        }
        put_varint(&mut body, self.spaces.len() as u64);
        for (id, spec) in &self.spaces {
            put_varint(&mut body, id.0);
            put_spec(&mut body, spec);
        }
        put_varint(&mut body, self.counters.len() as u64);
        for (id, limit) in &self.counters {
            put_varint(&mut body, *id);
            put_varint(&mut body, *limit);
        }
        let mut checked = MANIFEST_FORMAT_VERSION.to_le_bytes().to_vec();
        checked.extend_from_slice(&(body.len() as u64).to_le_bytes());
        checked.extend_from_slice(&body);
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&crc32c::crc32c(&checked).to_le_bytes());
        out.extend_from_slice(&checked);
        out
    }

    /// Decodes a manifest; the error says what is wrong.
    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Manifest, String> {
        let short = |Malformed| "the file is truncated".to_owned();
        let mut reader = Reader(bytes);
        if reader.take(8).map_err(short)? != MAGIC {
            return Err("the file is not a manifest (wrong magic number)".to_owned());
        }
        let sum = reader.u32().map_err(short)?;
        let checked = reader.0;
        let version = reader.u32().map_err(short)?;
        if sum != crc32c::crc32c(checked) {
            return Err("the checksum is wrong".to_owned());
        }
        if !(OLDEST..=MANIFEST_FORMAT_VERSION).contains(&version) {
            return Err(format!(
                "manifest format {version}; this server reads {OLDEST} to {MANIFEST_FORMAT_VERSION}"
            ));
        }
        let _len = reader.u64().map_err(short)?;
        Manifest::body(&mut reader, version).map_err(short)
    }

    fn body(reader: &mut Reader<'_>, version: u32) -> std::result::Result<Manifest, Malformed> {
        let mut manifest = Manifest {
            checkpoint: reader.varint()?,
            ts: reader.varint()?,
            ts_limit: reader.varint()?,
            position: reader.varint()?,
            next_space: reader.varint()?,
            ..Manifest::default()
        };
        if version == 1 {
            manifest.units.push(Unit {
                checkpoint: manifest.checkpoint,
                ts: manifest.ts,
                spaces: Vec::new(),
                files: get_files(reader)?,
            });
        } else {
            for _ in 0..reader.varint()? {
                let (checkpoint, ts) = (reader.varint()?, reader.varint()?);
                let mut spaces = Vec::new();
                for _ in 0..reader.varint()? {
                    spaces.push(SpaceId(reader.varint()?));
                }
                manifest.units.push(Unit {
                    checkpoint,
                    ts,
                    spaces,
                    files: get_files(reader)?,
                });
            }
        }
        for _ in 0..reader.varint()? {
            let id = SpaceId(reader.varint()?);
            manifest.spaces.push((id, get_spec(reader)?));
        }
        for _ in 0..reader.varint()? {
            let id = reader.varint()?;
            manifest.counters.push((id, reader.varint()?));
        }
        Ok(manifest)
    }

    /// Iterates over all files, each with its unit.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Unit, &CheckpointFile)> {
        let of = |unit| move |file| (unit, file);
        self.units
            .iter()
            .flat_map(move |unit| unit.files.iter().map(of(unit)))
    }

    /// Number of rows in all files.
    pub(crate) fn rows(&self) -> u64 {
        self.files().map(|(_, file)| file.rows).sum()
    }

    /// Numbers of all files: the checkpoint that wrote the file, and the number within that
    /// checkpoint.
    pub(crate) fn numbers(&self) -> BTreeSet<(u64, u64)> {
        let files = self.files();
        files
            .map(|(unit, file)| (unit.checkpoint, file.number))
            .collect()
    }

    /// Writes the new manifest beside the current one. Syncs the names of the files that it refers
    /// to before it can be in place, because after a power cut any subset of unsynced names may
    /// exist.
    pub(crate) fn prepare(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let new = dir.join(NEW_NAME);
        let failed = |e: io::Error| io_error(&new, &e);
        match disk.remove(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let file = disk.create(&new).map_err(failed)?;
        file.write_at(0, &self.encode()).map_err(failed)?;
        let synced = file.sync_data().and_then(|()| disk.sync_dir(dir));
        synced.map_err(failed)
    }

    /// Replaces the manifest by the prepared one. After an error the next start may find either.
    pub(crate) fn replace(disk: &dyn Disk, dir: &Path) -> Result<()> {
        let (new, path) = (dir.join(NEW_NAME), dir.join(NAME));
        let failed = |e: io::Error| io_error(&path, &e);
        disk.rename(&new, &path).map_err(failed)?;
        disk.sync_dir(dir).map_err(failed)
    }

    /// Reads the manifest; `None` when there is none.
    pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Manifest>> {
        let path = dir.join(NAME);
        let file = match disk.open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io_error(&path, &e)),
        };
        let bytes = file.read_all().map_err(|e| io_error(&path, &e))?;
        let manifest = Manifest::decode(&bytes);
        let manifest = manifest.map_err(|e| Error::Corrupt(format!("{}: {e}", path.display())))?;
        Ok(Some(manifest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_round_trips_and_flipped_bits_are_detected() {
        let manifest = Manifest {
            checkpoint: 7,
            ts: 1 << 40,
            ts_limit: 1 << 41,
            position: 12345,
            next_space: 99,
            units: vec![Unit {
                checkpoint: 5,
                ts: 1 << 39,
                spaces: vec![SpaceId(64), SpaceId(3)],
                files: vec![CheckpointFile {
                    number: 0,
                    bytes: 10,
                    rows: 2,
                }],
            }],
            spaces: vec![(SpaceId(64), SpaceSpec::default())],
            counters: vec![(64, 65_537)],
        };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest));
        for n in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[n / 8] ^= 1 << (n % 8);
            assert!(Manifest::decode(&bad).is_err(), "bit {n}");
        }
    }
}
