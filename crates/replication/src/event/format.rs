//! FORMAT_DESCRIPTION: the first event of each file and stream.

use super::{CHECKSUM_LEN, Decoded, HEADER_LEN, Header, Reader, verify_checksum};

/// Bytes of the server's version, padded with zeros.
const VERSION_LEN: usize = 50;

/// Version of the format that is written and read.
const BINLOG_VERSION: u16 = 4;

/// Lengths of the fixed parts of the bodies of event types 1 to 42, as MySQL 8.4 writes them.
const POST_HEADER_LENGTHS: [u8; 42] = [
    0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 99, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10,
    10, 10, 42, 42, 0, 18, 52, 0, 10, 40, 0, 0,
];

/// Version of the format, version of the server, and whether events have checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatDescription {
    /// Version of the server that writes.
    pub server_version: String,
    /// Seconds since 1970 when the file was created by a server's start; 0 otherwise.
    pub created: u32,
    /// Whether the other events have a checksum.
    pub has_checksums: bool,
    /// Length of the fixed part of TABLE_MAP and rows events: 6 for MySQL 5.1's, else 8 or more.
    pub(super) table_map_post_header: u8,
}

impl FormatDescription {
    /// The description that Porpoise writes.
    #[must_use]
    pub fn new(server_version: &str, created: u32, has_checksums: bool) -> FormatDescription {
        FormatDescription {
            server_version: server_version.to_owned(),
            created,
            has_checksums,
            table_map_post_header: 8,
        }
    }

    /// Reads the whole event, header included, and its checksum, if it has one: the event itself says so.
    ///
    /// # Errors
    /// Another version of the format; fields that do not fit; a wrong checksum.
    pub fn decode(event: &[u8]) -> Decoded<FormatDescription> {
        const NAME: &str = "FORMAT_DESCRIPTION";
        Header::parse(event)?;
        let mut body = Reader::new(NAME, event.get(HEADER_LEN..).unwrap_or_default());
        let version = body.u16("version of the format")?;
        if version != BINLOG_VERSION {
            return Err(body.error(format!("the format has version {version}, not 4")));
        }
        let name = body.take(VERSION_LEN, "version of the server")?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let server_version = String::from_utf8_lossy(name).into_owned();
        let created = body.u32("time")?;
        let header_length = body.u8("length of headers")?;
        if usize::from(header_length) != HEADER_LEN {
            return Err(body.error(format!("headers have {header_length} bytes, not 19")));
        }
        let lengths = body.rest();
        // The algorithm and the checksum follow the lengths since MySQL 5.6.1 and MariaDB 5.3.
        let algorithm = lengths
            .len()
            .checked_sub(CHECKSUM_LEN + 1)
            .and_then(|at| lengths.get(at).copied());
        let has_checksums = match algorithm {
            Some(0) => false,
            Some(1) => true,
            other => {
                return Err(Reader::new(NAME, &[]).error(match other {
                    Some(number) => format!("checksums of the unknown algorithm {number}"),
                    None => "no algorithm of checksums".into(),
                }));
            }
        };
        if has_checksums {
            // The checksum was computed before the flag of a file in use was set.
            let mut closed = event.to_vec();
            if let Some(flag) = closed.get_mut(17) {
                *flag &= !(super::flags::BINLOG_IN_USE as u8);
            }
            verify_checksum(NAME, &closed)?;
        }
        Ok(FormatDescription {
            server_version,
            created,
            has_checksums,
            table_map_post_header: lengths.get(18).copied().unwrap_or(8),
        })
    }

    /// Whether the source is MariaDB.
    #[must_use]
    pub fn is_mariadb(&self) -> bool {
        self.server_version.contains("MariaDB")
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&BINLOG_VERSION.to_le_bytes());
        let mut version = [0; VERSION_LEN];
        for (place, byte) in version
            .iter_mut()
            .take(VERSION_LEN - 1)
            .zip(self.server_version.bytes())
        {
            *place = byte;
        }
        out.extend_from_slice(&version);
        out.extend_from_slice(&self.created.to_le_bytes());
        out.push(HEADER_LEN as u8);
        out.extend_from_slice(&POST_HEADER_LENGTHS);
        out.push(u8::from(self.has_checksums));
    }
}
