//! Compressed events: TRANSACTION_PAYLOAD of MySQL (zstd) and the compressed events of MariaDB (zlib).
//!
//! Announced sizes are not trusted: output grows as it is decompressed, and ends at [`MAX_EVENT_SIZE`].

use super::bytes::{lenenc_len, put_lenenc};
use super::{Decoded, MAX_EVENT_SIZE, Reader};
use flate2::read::ZlibDecoder;
use std::io::Read;

/// Tags of the fields of TRANSACTION_PAYLOAD.
const END_OF_FIELDS: u64 = 0;
const PAYLOAD_SIZE: u64 = 1;
const COMPRESSION: u64 = 2;
const UNCOMPRESSED_SIZE: u64 = 3;

/// Numbers of the algorithms.
const ZSTD: u64 = 0;
const NOT_COMPRESSED: u64 = 255;

/// TRANSACTION_PAYLOAD: the events of a transaction after its GTID event, up to its XID event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionPayload {
    /// The events, without checksums, one after the other.
    pub events: Vec<u8>,
}

impl TransactionPayload {
    pub(super) fn decode(mut body: Reader<'_>) -> Decoded<TransactionPayload> {
        let mut size = None;
        let mut algorithm = ZSTD;
        loop {
            let tag = body.lenenc("tag")?;
            if tag == END_OF_FIELDS {
                break;
            }
            let mut field = Reader::new("TRANSACTION_PAYLOAD", body.lenenc_bytes("field")?);
            match tag {
                PAYLOAD_SIZE => size = Some(field.lenenc("size")?),
                COMPRESSION => algorithm = field.lenenc("algorithm")?,
                UNCOMPRESSED_SIZE => {
                    field.lenenc("uncompressed size")?;
                }
                _ => {}
            }
        }
        let size = match size {
            Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
            None => body.len(),
        };
        let payload = body.take(size, "payload")?;
        let events = match algorithm {
            NOT_COMPRESSED => payload.to_vec(),
            ZSTD => decompress_zstd(payload).map_err(|error| {
                body.error(format!("its payload cannot be decompressed: {error}"))
            })?,
            other => return Err(body.error(format!("compressed by the unknown algorithm {other}"))),
        };
        Ok(TransactionPayload { events })
    }

    /// Appends the payload, compressed by zstd if that makes it smaller.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let compressed = zstd::bulk::compress(&self.events, 3)
            .ok()
            .filter(|compressed| compressed.len() < self.events.len());
        let (algorithm, payload) = match &compressed {
            Some(compressed) => (ZSTD, compressed),
            None => (NOT_COMPRESSED, &self.events),
        };
        let fields = [
            (COMPRESSION, algorithm),
            (UNCOMPRESSED_SIZE, self.events.len() as u64),
            (PAYLOAD_SIZE, payload.len() as u64),
        ];
        for (tag, value) in fields {
            put_lenenc(out, tag);
            put_lenenc(out, lenenc_len(value) as u64);
            put_lenenc(out, value);
        }
        put_lenenc(out, END_OF_FIELDS);
        out.extend_from_slice(payload);
    }

    /// The events, each with its header.
    pub fn iter(&self) -> impl Iterator<Item = Decoded<&[u8]>> {
        let mut rest = self.events.as_slice();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let next = super::Header::parse(rest).and_then(|header| {
                Reader::new("TRANSACTION_PAYLOAD", rest).take(header.size as usize, "event")
            });
            rest = match &next {
                Ok(event) => rest.get(event.len()..).unwrap_or_default(),
                Err(_) => &[],
            };
            Some(next)
        })
    }
}

fn decompress_zstd(payload: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(payload)?;
    // MySQL's limit for the window of its compressor is well below.
    decoder.window_log_max(27)?;
    read_up_to_limit(decoder)
}

fn read_up_to_limit(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    source
        .take(MAX_EVENT_SIZE as u64 + 1)
        .read_to_end(&mut out)?;
    if out.len() > MAX_EVENT_SIZE {
        return Err(std::io::Error::other("more than 1 GiB"));
    }
    Ok(out)
}

/// Decompresses what is left of a compressed event of MariaDB: a byte with the algorithm (bits 4 to 6, 0 is zlib)
/// and the number of bytes of the big-endian size that follows (bits 0 to 2), the size, and the data.
///
/// # Errors
/// Another algorithm; data that cannot be decompressed, or of another size.
pub(super) fn inflate_mariadb(body: &mut Reader<'_>) -> Decoded<Vec<u8>> {
    let head = body.u8("head of the compressed data")?;
    let algorithm = head >> 4 & 7;
    if head & 0x80 == 0 || algorithm != 0 {
        return Err(body.error(format!("compressed by the unknown algorithm {algorithm}")));
    }
    let size = body.uint_be(usize::from(head & 7), "uncompressed size")?;
    let out = read_up_to_limit(ZlibDecoder::new(body.rest()))
        .map_err(|error| body.error(format!("it cannot be decompressed: {error}")))?;
    if out.len() as u64 != size {
        return Err(body.error(format!("{} bytes instead of {size}", out.len())));
    }
    Ok(out)
}
