//! Writing of events: header, body, checksum.

use super::{CHECKSUM_LEN, Event, HEADER_LEN, Header, RowsHead, checksum};

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
        out.extend_from_slice(&[0; HEADER_LEN]);
        event.encode_body(out);
        if self.has_checksum(event) {
            out.extend_from_slice(&[0; CHECKSUM_LEN]);
        }
        let size = out.len() - start;
        // Files above 4 GiB have positions that wrap, as MySQL's have.
        let next_position = match event {
            Event::Heartbeat(heartbeat) => heartbeat.position as u32,
            _ => position.map_or(0, |position| (position + size as u64) as u32),
        };
        self.put_header(out, start, event.kind(), options, next_position);
        size
    }

    /// Appends a rows event with images that are encoded already, without a position, and with a checksum of 0: the
    /// same as [`EventWriter::write_unsealed`] of a [`super::RowsEvent`], but nothing is copied twice. `images` appends
    /// them.
    pub fn write_rows_unsealed(
        &self,
        out: &mut Vec<u8>,
        options: EventOptions,
        head: &RowsHead<'_>,
        images: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        head.encode(out);
        images(out);
        if self.has_checksums {
            out.extend_from_slice(&[0; CHECKSUM_LEN]);
        }
        self.put_header(out, start, head.kind.event_kind(), options, 0);
    }

    /// Appends a copy of an event that [`EventWriter::write_unsealed`] has written, with the server of this writer and
    /// another time.
    pub fn write_again(&self, out: &mut Vec<u8>, event: &[u8], timestamp: u32) {
        let start = out.len();
        out.extend_from_slice(event);
        for (at, bytes) in [
            (0, timestamp.to_le_bytes()),
            (5, self.server_id.to_le_bytes()),
        ] {
            if let Some(place) = out.get_mut(start + at..start + at + 4) {
                place.copy_from_slice(&bytes);
            }
        }
    }

    /// Writes the header of the event that begins at `start` and ends the buffer.
    fn put_header(
        &self,
        out: &mut [u8],
        start: usize,
        kind: u8,
        options: EventOptions,
        next_position: u32,
    ) {
        let header = Header {
            timestamp: options.timestamp,
            kind,
            server_id: self.server_id,
            size: u32::try_from(out.len() - start).unwrap_or(u32::MAX),
            next_position,
            flags: options.flags,
        };
        if let Some(place) = out.get_mut(start..start + HEADER_LEN) {
            place.copy_from_slice(&header.bytes());
        }
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
