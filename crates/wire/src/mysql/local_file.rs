//! LOCAL INFILE: the request for a file of the client, and the packets in which the client sends it.
//!
//! ```text
//!  server                          client
//!    | -- FB 'name' ---------------> |
//!    | <------- packet of bytes ---- |   any number of them, none empty
//!    | <------- empty packet ------- |   end of the file
//!    | -- OK or ERR ---------------> |
//! ```
//!
//! Invariants:
//! 1. A packet of maximum length is followed by its continuation, which may be empty. So an empty
//!    packet is the end of the file only if it continues no other packet.
//! 2. Bytes after the end are never consumed: they belong to the next command.

use super::error::ProtocolError;
use super::frame::{self, HEADER, MAX_PACKET_PAYLOAD};

/// First byte of the request.
pub const REQUEST: u8 = 0xFB;

/// Appends the request for a file.
pub fn write_request(out: &mut Vec<u8>, sequence: &mut u8, name: &[u8]) {
    let packet = frame::begin(out);
    out.push(REQUEST);
    out.extend_from_slice(name);
    frame::finish(out, packet, sequence);
}

/// Reads the packets of a file.
#[derive(Clone, Debug)]
pub struct FilePackets {
    /// Sequence number of the next packet.
    sequence: u8,
    /// Bytes of the next packet's header that have arrived.
    header: [u8; HEADER],
    /// Number of those bytes.
    header_length: usize,
    /// Bytes of the current packet that are still to come.
    left: usize,
    /// Whether the next packet continues the last one.
    continues: bool,
    /// Whether the end of the file has been received.
    ended: bool,
}

impl FilePackets {
    /// Creates the reader; the first packet has this sequence number.
    pub fn new(sequence: u8) -> FilePackets {
        FilePackets {
            sequence,
            header: [0; HEADER],
            header_length: 0,
            left: 0,
            continues: false,
            ended: false,
        }
    }

    /// Sequence number of the packet that follows.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Number of bytes that the next call of [`Self::push`] may take; 0 after the end.
    pub fn wanted(&self) -> usize {
        if self.ended {
            0
        } else if self.left > 0 {
            self.left
        } else {
            HEADER - self.header_length
        }
    }

    /// Takes at most [`Self::wanted`] received bytes, and appends those of the file to `out`.
    ///
    /// # Errors
    /// [`ProtocolError::OutOfOrder`]: packet boundaries are lost.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        let bytes = bytes.get(..self.wanted()).unwrap_or(bytes);
        if self.left > 0 {
            out.extend_from_slice(bytes);
            self.left -= bytes.len();
            return Ok(());
        }
        for byte in bytes {
            if let Some(slot) = self.header.get_mut(self.header_length) {
                *slot = *byte;
                self.header_length += 1;
            }
        }
        if self.header_length < HEADER {
            return Ok(());
        }
        self.header_length = 0;
        let [a, b, c, sequence] = self.header;
        if sequence != self.sequence {
            return Err(ProtocolError::OutOfOrder);
        }
        self.sequence = sequence.wrapping_add(1);
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        self.ended = length == 0 && !self.continues;
        self.continues = length == MAX_PACKET_PAYLOAD;
        self.left = length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes all bytes in pieces of at most `piece` bytes. Returns the file, and the number of bytes
    /// that were not consumed.
    fn read(packets: &mut FilePackets, mut bytes: &[u8], piece: usize) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        while packets.wanted() > 0 && !bytes.is_empty() {
            let n = packets.wanted().min(piece).min(bytes.len());
            packets.push(&bytes[..n], &mut out).expect("in order");
            bytes = &bytes[n..];
        }
        (out, bytes.len())
    }

    #[test]
    fn packets_up_to_the_empty_one_are_joined() {
        for piece in [1, 3, 1000] {
            let (mut sent, mut sequence) = (Vec::new(), 2);
            frame::packet(&mut sent, &mut sequence, b"1,a\n2");
            frame::packet(&mut sent, &mut sequence, b",b\n");
            frame::packet(&mut sent, &mut sequence, b"");
            sent.extend(b"next");
            let mut packets = FilePackets::new(2);
            assert_eq!(
                read(&mut packets, &sent, piece),
                (b"1,a\n2,b\n".to_vec(), 4)
            );
            assert_eq!((packets.wanted(), packets.sequence()), (0, 5));
        }
    }

    #[test]
    fn the_empty_continuation_of_a_full_packet_is_not_the_end() {
        let (mut sent, mut sequence) = (Vec::new(), 255);
        frame::packet(&mut sent, &mut sequence, &vec![b'x'; MAX_PACKET_PAYLOAD]);
        frame::packet(&mut sent, &mut sequence, b"y");
        frame::packet(&mut sent, &mut sequence, b"");
        let mut packets = FilePackets::new(255);
        let (file, left) = read(&mut packets, &sent, usize::MAX);
        assert_eq!((file.len(), left), (MAX_PACKET_PAYLOAD + 1, 0));
        assert_eq!((packets.wanted(), packets.sequence()), (0, 3));
    }

    #[test]
    fn a_packet_out_of_order_is_an_error() {
        let mut packets = FilePackets::new(2);
        let pushed = packets.push(&[1, 0, 0, 3], &mut Vec::new());
        assert!(matches!(pushed, Err(ProtocolError::OutOfOrder)));
    }
}
