//! Writing of events: header, body, checksum.

use super::{CHECKSUM_LEN, Event, HEADER_LEN, Header, checksum};

/// Fields of an event's header besides type and size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventOptions {
    /// Seconds since 1970.
    pub timestamp: u32,
    /// Bits of [`super::flags`].
    pub flags: u16,
}

/// Writer of events of one server into a file or a stream.
///
/// Positions: an event that is written at `position` of a file says where the next one begins. A writer without a
/// position (`None`) makes up events that are in no file; they say 0.
#[derive(Clone, Copy, Debug)]
pub struct EventWriter {
    /// Id of the server in the headers.
    pub server_id: u32,
    /// Whether checksums are written. FORMAT_DESCRIPTION always has one.
    pub has_checksums: bool,
}

impl EventWriter {
    /// Appends an event, and returns its size in bytes. `position` is where it begins in its file.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        position: Option<u64>,
        options: EventOptions,
        event: &Event,
    ) -> usize {
        let start = out.len();
        let size = self.write_unsealed(out, position, options, event);
        if let Some((covered, place)) = out
            .get_mut(start..)
            .and_then(|event| event.split_last_chunk_mut::<CHECKSUM_LEN>())
            && self.has_checksum(event)
        {
            *place = checksum(covered).to_le_bytes();
        }
        size
    }

    fn has_checksum(&self, event: &Event) -> bool {
        self.has_checksums || matches!(event, Event::FormatDescription(_))
    }

    /// Appends an event as [`EventWriter::write`] does, but with checksum 0: for events whose position and checksum are
    /// set later, by [`set_next_position`].
    pub fn write_unsealed(
        &self,
        out: &mut Vec<u8>,
        position: Option<u64>,
        options: EventOptions,
        event: &Event,
    ) -> usize {
        let start = out.len();
        out.resize(start + HEADER_LEN, 0);
        event.encode_body(out);
        if self.has_checksum(event) {
            out.resize(out.len() + CHECKSUM_LEN, 0);
        }
        let size = out.len() - start;
        let header = Header {
            timestamp: options.timestamp,
            kind: event.kind(),
            server_id: self.server_id,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            // Files above 4 GiB have positions that wrap, as MySQL's have.
            next_position: match event {
                Event::Heartbeat(heartbeat) => heartbeat.position as u32,
                _ => position.map_or(0, |position| (position + size as u64) as u32),
            },
            flags: options.flags,
        };
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        header.write(&mut bytes);
        if let Some(place) = out.get_mut(start..start + HEADER_LEN) {
            place.copy_from_slice(&bytes);
        }
        size
    }
}

/// Replaces the position of a finished event, and its checksum: a file's position is known only when the group
/// commit assigns it.
pub fn set_next_position(event: &mut [u8], next_position: u32, has_checksum: bool) {
    if let Some(place) = event.get_mut(13..17) {
        place.copy_from_slice(&next_position.to_le_bytes());
    }
    if has_checksum && let Some((covered, place)) = event.split_last_chunk_mut::<CHECKSUM_LEN>() {
        *place = checksum(covered).to_le_bytes();
    }
}
