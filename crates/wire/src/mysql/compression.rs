//! The compressed protocol: after the login, both directions of a connection are sequences of
//! compressed packets ("Compressed Packet" in the reference of MySQL's client/server protocol).
//!
//! ```text
//!  length  3   of the payload that follows
//!  number  1   counts the compressed packets of a command, in both directions
//!  plain   3   length of the payload after decompression; 0: the payload is not compressed
//! ```
//!
//! Boundaries of payloads and of the ordinary packets are independent: a payload may contain several
//! packets, or a part of one.
//!
//! Invariants:
//! 1. The size of no allocation depends on a length field: bytes are decompressed as they arrive,
//!    into the buffer of the caller. The window of zstd has at most 16 MiB, the maximum length of a
//!    payload.
//! 2. A payload decompresses to the announced length exactly; anything else ends the connection.
//! 3. The number of a packet sent is the one after the last packet received or sent. Numbers
//!    received are not checked: the packets inside have their own.

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use std::cell::RefCell;
use std::io;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// Length of a header.
const HEADER: usize = 7;

/// Payloads below this length are not compressed, as in MySQL.
const MIN_COMPRESSED: usize = 50;

/// Maximum length of a payload.
const MAX_PAYLOAD: usize = 0xff_ffff;

/// Base-2 logarithm of the maximum length of a payload.
const MAX_WINDOW_LOG: u32 = 24;

/// Level of zlib, as in MySQL.
const ZLIB_LEVEL: u32 = 6;

/// MySQL's default level of zstd.
pub const ZSTD_LEVEL: u8 = 3;

/// Maximum level of zstd: higher ones take several milliseconds for a payload.
const MAX_ZSTD_LEVEL: u8 = 9;

/// A compression algorithm with its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// zlib.
    Zlib,
    /// zstd with the level that the client requested.
    Zstd(u8),
}

impl Algorithm {
    /// The name in `protocol_compression_algorithms`.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Zlib => "zlib",
            Algorithm::Zstd(_) => "zstd",
        }
    }

    /// The compression level in force.
    pub fn level(self) -> u32 {
        match self {
            Algorithm::Zlib => ZLIB_LEVEL,
            Algorithm::Zstd(level) => u32::from(level.clamp(1, MAX_ZSTD_LEVEL)),
        }
    }
}

thread_local! {
    /// The state of zlib's compressor, which is reset before each payload.
    static ZLIB: RefCell<Compress> =
        RefCell::new(Compress::new(flate2::Compression::new(ZLIB_LEVEL), true));
}

/// Decompressor of one payload.
enum Unpacker {
    Zlib(Decompress),
    Zstd(Decoder<'static>),
}

impl Unpacker {
    fn new(algorithm: Algorithm) -> io::Result<Unpacker> {
        Ok(match algorithm {
            Algorithm::Zlib => Unpacker::Zlib(Decompress::new(true)),
            Algorithm::Zstd(_) => {
                let mut decoder = Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))?;
                Unpacker::Zstd(decoder)
            }
        })
    }

    fn reset(&mut self) -> io::Result<()> {
        match self {
            Unpacker::Zlib(stream) => {
                stream.reset(true);
                Ok(())
            }
            Unpacker::Zstd(decoder) => decoder.reinit(),
        }
    }

    /// Decompresses some of `input` into `out`. Returns the numbers of bytes read and written, and
    /// whether the payload has ended.
    fn run(&mut self, input: &[u8], out: &mut [u8]) -> io::Result<(usize, usize, bool)> {
        match self {
            Unpacker::Zlib(stream) => {
                let (in_before, out_before) = (stream.total_in(), stream.total_out());
                let status = stream.decompress(input, out, FlushDecompress::None);
                let ended = status.map_err(corrupt)? == Status::StreamEnd;
                let read = (stream.total_in() - in_before) as usize;
                let written = (stream.total_out() - out_before) as usize;
                Ok((read, written, ended))
            }
            Unpacker::Zstd(decoder) => {
                let mut from = InBuffer::around(input);
                let mut to = OutBuffer::around(out);
                let hint = decoder.run(&mut from, &mut to).map_err(corrupt)?;
                Ok((from.pos, to.pos(), hint == 0))
            }
        }
    }
}

fn corrupt(why: impl std::fmt::Display) -> io::Error {
    let text = format!("a compressed packet cannot be decompressed: {why}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The payload being received.
enum Payload {
    /// Not compressed; bytes left.
    Plain(usize),
    /// Compressed; bytes left to receive, and bytes left to produce.
    Packed(usize, usize),
}

/// One connection's compressed streams.
pub struct Compression {
    algorithm: Algorithm,
    /// Number of the next packet sent.
    number: u8,
    header: [u8; HEADER],
    /// Bytes of the header that have arrived.
    header_length: usize,
    /// `None`: a header is expected.
    payload: Option<Payload>,
    /// Created for the first compressed payload.
    unpacker: Option<Unpacker>,
}

impl Compression {
    /// Creates the streams of a connection whose login is complete.
    pub fn new(algorithm: Algorithm) -> Compression {
        Compression {
            algorithm,
            number: 0,
            header: [0; HEADER],
            header_length: 0,
            payload: None,
            unpacker: None,
        }
    }

    /// Decodes received bytes into `out`. Returns the number of bytes consumed and of bytes
    /// produced; no bytes are produced only if all of `input` was consumed or `out` is empty.
    ///
    /// # Errors
    /// `InvalidData` for a payload that is not of the announced length or form.
    pub fn decode(&mut self, input: &[u8], out: &mut [u8]) -> io::Result<(usize, usize)> {
        let (mut taken, mut made) = (0, 0);
        loop {
            let from = input.get(taken..).unwrap_or_default();
            let to = out.get_mut(made..).unwrap_or_default();
            let Some(payload) = &mut self.payload else {
                if from.is_empty() {
                    return Ok((taken, made));
                }
                taken += self.read_header(from)?;
                continue;
            };
            let ended = match payload {
                Payload::Plain(left) => {
                    let n = from.len().min(to.len()).min(*left);
                    if let (Some(to), Some(from)) = (to.get_mut(..n), from.get(..n)) {
                        to.copy_from_slice(from);
                    }
                    (taken, made, *left) = (taken + n, made + n, *left - n);
                    if n == 0 && *left > 0 {
                        return Ok((taken, made));
                    }
                    *left == 0
                }
                Payload::Packed(left, plain_left) => {
                    let Some(unpacker) = &mut self.unpacker else {
                        return Err(corrupt("no decompressor"));
                    };
                    let from = from.get(..from.len().min(*left)).unwrap_or_default();
                    // The compressed form has an end mark after the last byte, so the decompressor
                    // also runs when no byte is left to produce.
                    let mut excess = [0; 1];
                    let to = match *plain_left {
                        0 => &mut excess[..],
                        plain => {
                            let n = to.len().min(plain);
                            to.get_mut(..n).unwrap_or_default()
                        }
                    };
                    if to.is_empty() {
                        return Ok((taken, made));
                    }
                    let (read, written, ended) = unpacker.run(from, to)?;
                    *left -= read;
                    *plain_left = plain_left
                        .checked_sub(written)
                        .ok_or_else(|| corrupt("it is longer than announced"))?;
                    (taken, made) = (taken + read, made + written);
                    if ended && (*left, *plain_left) != (0, 0) {
                        return Err(corrupt("its length is not the announced one"));
                    }
                    if !ended && read == 0 && written == 0 {
                        if *left == 0 {
                            return Err(corrupt("it is incomplete"));
                        }
                        return Ok((taken, made));
                    }
                    ended
                }
            };
            if ended {
                self.payload = None;
            }
        }
    }

    /// Consumes bytes of a header. When the header is complete, its payload begins. Returns the
    /// number of bytes consumed.
    fn read_header(&mut self, input: &[u8]) -> io::Result<usize> {
        let n = input.len().min(HEADER - self.header_length);
        let to = self.header.iter_mut().skip(self.header_length);
        to.zip(input).for_each(|(to, from)| *to = *from);
        self.header_length += n;
        if self.header_length < HEADER {
            return Ok(n);
        }
        self.header_length = 0;
        let [l0, l1, l2, number, p0, p1, p2] = self.header;
        let length = u32::from_le_bytes([l0, l1, l2, 0]) as usize;
        let plain = u32::from_le_bytes([p0, p1, p2, 0]) as usize;
        self.number = number.wrapping_add(1);
        self.payload = match (length, plain) {
            (0, 0) => None,
            (length, 0) => Some(Payload::Plain(length)),
            (length, plain) => {
                match &mut self.unpacker {
                    Some(unpacker) => unpacker.reset()?,
                    none => *none = Some(Unpacker::new(self.algorithm)?),
                }
                Some(Payload::Packed(length, plain))
            }
        };
        Ok(n)
    }

    /// Appends compressed packets with these bytes to `out`.
    ///
    /// # Errors
    /// The compressor failed.
    pub fn encode(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        for payload in plain.chunks(MAX_PAYLOAD) {
            let start = out.len();
            out.extend_from_slice(&[0; HEADER]);
            let is_compressed = payload.len() >= MIN_COMPRESSED && {
                self.compress(payload, out)?;
                out.len() - start - HEADER < payload.len()
            };
            if !is_compressed {
                out.truncate(start + HEADER);
                out.extend_from_slice(payload);
            }
            let length = (out.len() - start - HEADER) as u32;
            let announced = if is_compressed {
                payload.len() as u32
            } else {
                0
            };
            let [l0, l1, l2, _] = length.to_le_bytes();
            let [p0, p1, p2, _] = announced.to_le_bytes();
            let header = [l0, l1, l2, self.number, p0, p1, p2];
            if let Some(slot) = out.get_mut(start..start + HEADER) {
                slot.copy_from_slice(&header);
            }
            self.number = self.number.wrapping_add(1);
        }
        Ok(())
    }

    /// Appends a compressed payload.
    fn compress(&self, payload: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self.algorithm {
            Algorithm::Zlib => ZLIB.with_borrow_mut(|stream| {
                stream.reset();
                // More than zlib needs for bytes that it cannot compress.
                out.reserve(payload.len() + payload.len() / 512 + 64);
                loop {
                    let rest = payload
                        .get(stream.total_in() as usize..)
                        .unwrap_or_default();
                    match stream.compress_vec(rest, out, FlushCompress::Finish) {
                        Ok(Status::StreamEnd) => return Ok(()),
                        Ok(_) => out.reserve(out.capacity().max(1024)),
                        Err(error) => return Err(io::Error::other(error)),
                    }
                }
            }),
            Algorithm::Zstd(_) => {
                let level = i32::try_from(self.algorithm.level()).unwrap_or(3);
                out.extend_from_slice(&zstd::bulk::compress(payload, level)?);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALGORITHMS: [Algorithm; 3] = [Algorithm::Zlib, Algorithm::Zstd(1), Algorithm::Zstd(22)];

    /// Bytes of several packets: text that compresses, and noise that does not.
    fn samples() -> Vec<Vec<u8>> {
        let mut random = 7u64;
        let noise = (0..100_000).map(|_| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            (random >> 33) as u8
        });
        let noise: Vec<u8> = noise.collect();
        let text = b"the same again, ".repeat(20_000);
        vec![vec![1], vec![9; 49], vec![9; 50], text, noise]
    }

    /// Decodes in pieces of the given lengths.
    fn decode(from: &mut Compression, bytes: &[u8], input: usize, output: usize) -> Vec<u8> {
        let (mut all, mut out) = (Vec::new(), vec![0; output]);
        for mut piece in bytes.chunks(input) {
            loop {
                let (taken, made) = from.decode(piece, &mut out).unwrap();
                all.extend_from_slice(&out[..made]);
                piece = &piece[taken..];
                if made == 0 {
                    assert!(piece.is_empty(), "all was consumed");
                    break;
                }
            }
        }
        all
    }

    #[test]
    fn encoded_bytes_are_decoded_in_pieces_of_any_length() {
        for algorithm in ALGORITHMS {
            let (mut server, mut client) =
                (Compression::new(algorithm), Compression::new(algorithm));
            for sample in samples() {
                for (input, output) in [(1 << 20, 1 << 20), (1, 3), (7, 1), (1000, 17), (13, 4096)]
                {
                    let mut sent = Vec::new();
                    server.encode(&sample, &mut sent).unwrap();
                    let received = decode(&mut client, &sent, input, output);
                    assert!(received == sample, "{algorithm:?} {input} {output}");
                }
            }
        }
    }

    #[test]
    fn short_and_incompressible_payloads_are_sent_uncompressed() {
        let mut server = Compression::new(Algorithm::Zlib);
        let mut sent = Vec::new();
        server.encode(b"abc", &mut sent).unwrap();
        assert_eq!(sent, [3, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c']);
        let noise = samples().pop().unwrap();
        sent.clear();
        server.encode(&noise, &mut sent).unwrap();
        assert_eq!(sent[3..7], [1, 0, 0, 0]);
        assert_eq!(sent.len(), HEADER + noise.len());
    }

    #[test]
    fn numbers_continue_after_the_packet_received() {
        let mut server = Compression::new(Algorithm::Zlib);
        server
            .decode(&[1, 0, 0, 250, 0, 0, 0, 1], &mut [0; 9])
            .unwrap();
        let mut sent = Vec::new();
        server.encode(b"x", &mut sent).unwrap();
        server.encode(b"y", &mut sent).unwrap();
        assert_eq!((sent[3], sent[11]), (251, 252));
    }

    #[test]
    fn wrong_lengths_and_garbage_are_errors() {
        for algorithm in ALGORITHMS {
            let mut good = Vec::new();
            let text = b"compress me, please. ".repeat(9);
            Compression::new(algorithm)
                .encode(&text, &mut good)
                .unwrap();
            let mut longer = good.clone();
            longer[4] -= 1;
            let mut shorter = good.clone();
            shorter[4] += 1;
            let mut garbage = good.clone();
            garbage[9..].fill(0xa5);
            let mut cut = good.clone();
            cut[0] -= 1;
            for bad in [longer, shorter, garbage, cut] {
                let mut out = vec![0; 4096];
                let mut client = Compression::new(algorithm);
                assert!(
                    client.decode(&bad, &mut out).is_err(),
                    "{algorithm:?} {bad:?}"
                );
            }
        }
    }
}
