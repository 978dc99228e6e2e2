//! Codec of the events of MySQL's binary log, version 4, as MySQL 8.4 writes them, and of those that only MariaDB
//! writes.
//!
//! ```text
//!   0        4      5           9            13              17      19
//!   | time   | type | server id | event size | next position | flags | body ... | CRC32 |
//! ```
//!
//! The checksum covers everything before it. Whether events have one says the FORMAT_DESCRIPTION event
//! ([`FormatDescription`]), which starts every file and every stream; that event itself always has room for it.
//! Events inside a TRANSACTION_PAYLOAD have none.
//!
//! A transaction is: GTID (or ANONYMOUS_GTID), QUERY `BEGIN`, then for each statement TABLE_MAPs and the rows events
//! that refer to them, then XID. A statement that defines something is GTID, QUERY. With MariaDB its own GTID event
//! takes the place of GTID and of `BEGIN`.
//!
//! * [`Event`] is the union of all kinds; [`Header::parse`] and [`Event::decode`] read, [`EventWriter`] writes.
//! * [`table_map`] and [`rows`] contain rows; [`value`] has the form of each column type, [`json`] that of documents.
//!
//! Invariants:
//! 1. Nothing is allocated on the word of a length field: counts are compared with the bytes left, and what is
//!    decompressed grows as it arrives, up to [`MAX_EVENT_SIZE`].
//! 2. `decode(encode(e)) == e` for every event that can be encoded.
//!
//! Rejected: borrowing all fields from the buffer. Events are few compared with rows, and rows stay encoded in one
//! buffer until they are needed.

mod bytes;
pub mod control;
pub mod format;
pub mod gtid;
pub mod json;
pub mod mariadb;
pub mod payload;
pub mod query;
pub mod rows;
pub mod table_map;
mod temporal;
pub mod value;
mod writer;

pub use bytes::{DecodeError, Decoded, Reader};
pub use control::{Heartbeat, Incident, Rotate, XaPrepare};
pub use format::FormatDescription;
pub use gtid::{GtidEvent, PreviousGtids};
pub use mariadb::{MariadbGtid, MariadbGtidEvent, XaStep};
pub use payload::TransactionPayload;
pub use query::{QueryEvent, StatusVariables};
pub use rows::{ColumnBitmap, RowChangeKind, RowImage, RowImages, RowsEvent, RowsHead};
pub use table_map::{ColumnMetadata, MapColumn, OptionalMetadata, TableMap};
pub use value::WireColumn;
pub use writer::{EventOptions, EventWriter, set_next_position};

/// Largest event that is read, in bytes: MySQL's greatest `max_allowed_packet`.
pub const MAX_EVENT_SIZE: usize = 1 << 30;

/// Bytes of an event's header.
pub const HEADER_LEN: usize = 19;

/// Bytes of a checksum.
pub const CHECKSUM_LEN: usize = 4;

/// First bytes of a binary log file, before its FORMAT_DESCRIPTION event.
pub const FILE_MAGIC: [u8; 4] = [0xFE, b'b', b'i', b'n'];

/// Flags in the header of an event.
pub mod flags {
    /// The file was not closed (FORMAT_DESCRIPTION only).
    pub const BINLOG_IN_USE: u16 = 0x1;
    /// The statement depends on the connection: temporary tables.
    pub const THREAD_SPECIFIC: u16 = 0x4;
    /// The statement needs no default database.
    pub const SUPPRESS_USE: u16 = 0x8;
    /// The event was made up by the server that sends it and is in no file.
    pub const ARTIFICIAL: u16 = 0x20;
    /// A reader that does not know the event's type may skip it.
    pub const IGNORABLE: u16 = 0x80;
    /// Filters of replicas do not apply.
    pub const NO_FILTER: u16 = 0x100;
    /// MariaDB: written with `@@skip_replication`.
    pub const MARIADB_SKIP_REPLICATION: u16 = 0x8000;
}

/// Type numbers of events.
#[allow(missing_docs, reason = "the names are those of MySQL's documents")]
pub mod kind {
    pub const QUERY: u8 = 2;
    pub const STOP: u8 = 3;
    pub const ROTATE: u8 = 4;
    pub const INTVAR: u8 = 5;
    pub const RAND: u8 = 13;
    pub const USER_VAR: u8 = 14;
    pub const FORMAT_DESCRIPTION: u8 = 15;
    pub const XID: u8 = 16;
    pub const TABLE_MAP: u8 = 19;
    pub const WRITE_ROWS_V1: u8 = 23;
    pub const UPDATE_ROWS_V1: u8 = 24;
    pub const DELETE_ROWS_V1: u8 = 25;
    pub const INCIDENT: u8 = 26;
    pub const HEARTBEAT: u8 = 27;
    pub const IGNORABLE: u8 = 28;
    pub const ROWS_QUERY: u8 = 29;
    pub const WRITE_ROWS: u8 = 30;
    pub const UPDATE_ROWS: u8 = 31;
    pub const DELETE_ROWS: u8 = 32;
    pub const GTID: u8 = 33;
    pub const ANONYMOUS_GTID: u8 = 34;
    pub const PREVIOUS_GTIDS: u8 = 35;
    pub const TRANSACTION_CONTEXT: u8 = 36;
    pub const VIEW_CHANGE: u8 = 37;
    pub const XA_PREPARE: u8 = 38;
    pub const PARTIAL_UPDATE_ROWS: u8 = 39;
    pub const TRANSACTION_PAYLOAD: u8 = 40;
    pub const HEARTBEAT_V2: u8 = 41;
    pub const GTID_TAGGED: u8 = 42;
    pub const MARIADB_ANNOTATE_ROWS: u8 = 160;
    pub const MARIADB_BINLOG_CHECKPOINT: u8 = 161;
    pub const MARIADB_GTID: u8 = 162;
    pub const MARIADB_GTID_LIST: u8 = 163;
    pub const MARIADB_START_ENCRYPTION: u8 = 164;
    pub const MARIADB_QUERY_COMPRESSED: u8 = 165;
    pub const MARIADB_WRITE_ROWS_COMPRESSED_V1: u8 = 166;
    pub const MARIADB_UPDATE_ROWS_COMPRESSED_V1: u8 = 167;
    pub const MARIADB_DELETE_ROWS_COMPRESSED_V1: u8 = 168;
    pub const MARIADB_WRITE_ROWS_COMPRESSED: u8 = 169;
    pub const MARIADB_UPDATE_ROWS_COMPRESSED: u8 = 170;
    pub const MARIADB_DELETE_ROWS_COMPRESSED: u8 = 171;
}

/// Name of an event type for messages.
#[must_use]
pub fn kind_name(number: u8) -> &'static str {
    match number {
        kind::QUERY => "QUERY",
        kind::STOP => "STOP",
        kind::ROTATE => "ROTATE",
        kind::INTVAR => "INTVAR",
        kind::RAND => "RAND",
        kind::USER_VAR => "USER_VAR",
        kind::FORMAT_DESCRIPTION => "FORMAT_DESCRIPTION",
        kind::XID => "XID",
        kind::TABLE_MAP => "TABLE_MAP",
        kind::WRITE_ROWS_V1 | kind::WRITE_ROWS => "WRITE_ROWS",
        kind::UPDATE_ROWS_V1 | kind::UPDATE_ROWS => "UPDATE_ROWS",
        kind::DELETE_ROWS_V1 | kind::DELETE_ROWS => "DELETE_ROWS",
        kind::INCIDENT => "INCIDENT",
        kind::HEARTBEAT | kind::HEARTBEAT_V2 => "HEARTBEAT",
        kind::IGNORABLE => "IGNORABLE",
        kind::ROWS_QUERY => "ROWS_QUERY",
        kind::GTID => "GTID",
        kind::ANONYMOUS_GTID => "ANONYMOUS_GTID",
        kind::PREVIOUS_GTIDS => "PREVIOUS_GTIDS",
        kind::TRANSACTION_CONTEXT => "TRANSACTION_CONTEXT",
        kind::VIEW_CHANGE => "VIEW_CHANGE",
        kind::XA_PREPARE => "XA_PREPARE",
        kind::PARTIAL_UPDATE_ROWS => "PARTIAL_UPDATE_ROWS",
        kind::TRANSACTION_PAYLOAD => "TRANSACTION_PAYLOAD",
        kind::GTID_TAGGED => "GTID_TAGGED",
        kind::MARIADB_ANNOTATE_ROWS => "ANNOTATE_ROWS",
        kind::MARIADB_BINLOG_CHECKPOINT => "BINLOG_CHECKPOINT",
        kind::MARIADB_GTID => "MariaDB's GTID",
        kind::MARIADB_GTID_LIST => "GTID_LIST",
        kind::MARIADB_START_ENCRYPTION => "START_ENCRYPTION",
        kind::MARIADB_QUERY_COMPRESSED => "QUERY_COMPRESSED",
        kind::MARIADB_WRITE_ROWS_COMPRESSED_V1 | kind::MARIADB_WRITE_ROWS_COMPRESSED => {
            "WRITE_ROWS_COMPRESSED"
        }
        kind::MARIADB_UPDATE_ROWS_COMPRESSED_V1 | kind::MARIADB_UPDATE_ROWS_COMPRESSED => {
            "UPDATE_ROWS_COMPRESSED"
        }
        kind::MARIADB_DELETE_ROWS_COMPRESSED_V1 | kind::MARIADB_DELETE_ROWS_COMPRESSED => {
            "DELETE_ROWS_COMPRESSED"
        }
        _ => "unknown",
    }
}

/// Header of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// Seconds since 1970 when the statement began.
    pub timestamp: u32,
    /// Type number, of [`kind`].
    pub kind: u8,
    /// Server that ran the statement first.
    pub server_id: u32,
    /// Bytes of the event with header and checksum.
    pub size: u32,
    /// Position in the source's file where the next event begins; 0 of events in no file.
    pub next_position: u32,
    /// Bits of [`flags`].
    pub flags: u16,
}

impl Header {
    /// Reads the header at the front of an event.
    ///
    /// # Errors
    /// Fewer than [`HEADER_LEN`] bytes; a size that is smaller than the header.
    pub fn parse(event: &[u8]) -> Decoded<Header> {
        let mut reader = Reader::new("binary log", event);
        let header = Header {
            timestamp: reader.u32("time")?,
            kind: reader.u8("type")?,
            server_id: reader.u32("server id")?,
            size: reader.u32("size")?,
            next_position: reader.u32("position")?,
            flags: reader.u16("flags")?,
        };
        let size = usize::try_from(header.size).unwrap_or(usize::MAX);
        if !(HEADER_LEN..=MAX_EVENT_SIZE).contains(&size) {
            return Err(reader.error(format!("its size is {size} bytes")));
        }
        Ok(header)
    }

    fn bytes(&self) -> [u8; HEADER_LEN] {
        let [t0, t1, t2, t3] = self.timestamp.to_le_bytes();
        let [i0, i1, i2, i3] = self.server_id.to_le_bytes();
        let [s0, s1, s2, s3] = self.size.to_le_bytes();
        let [p0, p1, p2, p3] = self.next_position.to_le_bytes();
        let [f0, f1] = self.flags.to_le_bytes();
        [
            t0, t1, t2, t3, self.kind, i0, i1, i2, i3, s0, s1, s2, s3, p0, p1, p2, p3, f0, f1,
        ]
    }
}

/// An event without its header.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// FORMAT_DESCRIPTION: version of the format and of the server.
    FormatDescription(FormatDescription),
    /// ROTATE: the file in which the stream goes on.
    Rotate(Rotate),
    /// STOP: the server was shut down.
    Stop,
    /// PREVIOUS_GTIDS: the transactions in all earlier files.
    PreviousGtids(PreviousGtids),
    /// GTID or ANONYMOUS_GTID: start of a transaction.
    Gtid(GtidEvent),
    /// QUERY: a statement.
    Query(QueryEvent),
    /// XID: commit of a transaction, with its number.
    Xid(u64),
    /// TABLE_MAP: columns of a table that the next rows events refer to by its number.
    TableMap(Box<TableMap>),
    /// WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS, version 2, 1 or compressed.
    Rows(RowsEvent),
    /// ROWS_QUERY, and MariaDB's ANNOTATE_ROWS: text of the statement that changes rows.
    RowsQuery(Vec<u8>),
    /// HEARTBEAT, version 1 or 2: the source is alive and has nothing to send.
    Heartbeat(Heartbeat),
    /// INCIDENT: the source may have lost events.
    Incident(Incident),
    /// TRANSACTION_PAYLOAD: the events of a transaction, compressed.
    TransactionPayload(TransactionPayload),
    /// XA_PREPARE: end of a branch that is prepared, or committed in one phase.
    XaPrepare(XaPrepare),
    /// MariaDB's GTID: start of a transaction or of a single statement.
    MariadbGtid(MariadbGtidEvent),
    /// MariaDB's GTID_LIST: the last transaction of each domain and server in earlier files.
    MariadbGtidList(Vec<MariadbGtid>),
    /// An event without a consequence for a replica: ignorable ones, MariaDB's BINLOG_CHECKPOINT.
    Ignored(u8),
}

impl Event {
    /// Reads an event that begins at its header and ends with its last byte, and verifies its checksum if
    /// `checksum` says that it has one.
    ///
    /// # Errors
    /// A wrong checksum or length; fields that do not fit; an event type that this codec refuses.
    pub fn decode(event: &[u8], format: &FormatDescription) -> Decoded<(Header, Event)> {
        let header = Header::parse(event)?;
        let name = kind_name(header.kind);
        if usize::try_from(header.size).ok() != Some(event.len()) {
            return Err(Reader::new(name, event).error(format!(
                "its header says {} bytes, it has {}",
                header.size,
                event.len()
            )));
        }
        let body = event.get(HEADER_LEN..).unwrap_or_default();
        if header.kind == kind::FORMAT_DESCRIPTION {
            let format = FormatDescription::decode(event)?;
            return Ok((header, Event::FormatDescription(format)));
        }
        let body = if format.has_checksums {
            verify_checksum(name, event)?;
            body.get(..body.len().saturating_sub(CHECKSUM_LEN))
                .unwrap_or_default()
        } else {
            body
        };
        let event = Event::decode_body(&header, Reader::new(name, body), format)?;
        Ok((header, event))
    }

    fn decode_body(
        header: &Header,
        mut body: Reader<'_>,
        format: &FormatDescription,
    ) -> Decoded<Event> {
        Ok(match header.kind {
            kind::ROTATE => Event::Rotate(Rotate::decode(body)?),
            kind::STOP => Event::Stop,
            kind::PREVIOUS_GTIDS => Event::PreviousGtids(PreviousGtids::decode(body)?),
            kind::GTID | kind::ANONYMOUS_GTID => Event::Gtid(GtidEvent::decode(
                body,
                header.kind == kind::ANONYMOUS_GTID,
            )?),
            kind::GTID_TAGGED => Event::Gtid(GtidEvent::decode_tagged(body)?),
            kind::QUERY => Event::Query(QueryEvent::decode(body, false)?),
            kind::MARIADB_QUERY_COMPRESSED => Event::Query(QueryEvent::decode(body, true)?),
            kind::XID => Event::Xid(body.u64("number of the transaction")?),
            kind::TABLE_MAP => Event::TableMap(Box::new(TableMap::decode(body, format)?)),
            kind::WRITE_ROWS
            | kind::UPDATE_ROWS
            | kind::DELETE_ROWS
            | kind::WRITE_ROWS_V1
            | kind::UPDATE_ROWS_V1
            | kind::DELETE_ROWS_V1
            | kind::PARTIAL_UPDATE_ROWS
            | kind::MARIADB_WRITE_ROWS_COMPRESSED_V1
            | kind::MARIADB_UPDATE_ROWS_COMPRESSED_V1
            | kind::MARIADB_DELETE_ROWS_COMPRESSED_V1
            | kind::MARIADB_WRITE_ROWS_COMPRESSED
            | kind::MARIADB_UPDATE_ROWS_COMPRESSED
            | kind::MARIADB_DELETE_ROWS_COMPRESSED => {
                Event::Rows(RowsEvent::decode(header.kind, body)?)
            }
            kind::ROWS_QUERY => {
                body.u8("length")?;
                Event::RowsQuery(body.rest().to_vec())
            }
            kind::MARIADB_ANNOTATE_ROWS => Event::RowsQuery(body.rest().to_vec()),
            kind::HEARTBEAT => Event::Heartbeat(Heartbeat::decode_v1(body, header.next_position)),
            kind::HEARTBEAT_V2 => Event::Heartbeat(Heartbeat::decode_v2(body)?),
            kind::INCIDENT => Event::Incident(Incident::decode(body)?),
            kind::TRANSACTION_PAYLOAD => {
                Event::TransactionPayload(TransactionPayload::decode(body)?)
            }
            kind::XA_PREPARE => Event::XaPrepare(XaPrepare::decode(body)?),
            kind::MARIADB_GTID => Event::MariadbGtid(MariadbGtidEvent::decode(body, header)?),
            kind::MARIADB_GTID_LIST => Event::MariadbGtidList(mariadb::decode_gtid_list(body)?),
            kind::MARIADB_BINLOG_CHECKPOINT | kind::IGNORABLE => Event::Ignored(header.kind),
            kind::TRANSACTION_CONTEXT | kind::VIEW_CHANGE => Event::Ignored(header.kind),
            _ => return refuse(header, body),
        })
    }

    /// Type number that the event is written with.
    #[must_use]
    pub fn kind(&self) -> u8 {
        match self {
            Event::FormatDescription(_) => kind::FORMAT_DESCRIPTION,
            Event::Rotate(_) => kind::ROTATE,
            Event::Stop => kind::STOP,
            Event::PreviousGtids(_) => kind::PREVIOUS_GTIDS,
            Event::Gtid(event) if event.has_tag() => kind::GTID_TAGGED,
            Event::Gtid(event) if event.gtid.is_some() => kind::GTID,
            Event::Gtid(_) => kind::ANONYMOUS_GTID,
            Event::Query(_) => kind::QUERY,
            Event::Xid(_) => kind::XID,
            Event::TableMap(_) => kind::TABLE_MAP,
            Event::Rows(rows) => rows.event_kind(),
            Event::RowsQuery(_) => kind::ROWS_QUERY,
            Event::Heartbeat(heartbeat) if heartbeat.is_version_2 => kind::HEARTBEAT_V2,
            Event::Heartbeat(_) => kind::HEARTBEAT,
            Event::Incident(_) => kind::INCIDENT,
            Event::TransactionPayload(_) => kind::TRANSACTION_PAYLOAD,
            Event::XaPrepare(_) => kind::XA_PREPARE,
            Event::MariadbGtid(_) => kind::MARIADB_GTID,
            Event::MariadbGtidList(_) => kind::MARIADB_GTID_LIST,
            Event::Ignored(number) => *number,
        }
    }

    /// Appends the body without header and checksum.
    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Event::FormatDescription(event) => event.encode(out),
            Event::Rotate(event) => event.encode(out),
            Event::Stop | Event::Ignored(_) => {}
            Event::PreviousGtids(event) => event.encode(out),
            Event::Gtid(event) => event.encode(out),
            Event::Query(event) => event.encode(out),
            Event::Xid(number) => out.extend_from_slice(&number.to_le_bytes()),
            Event::TableMap(event) => event.encode(out),
            Event::Rows(event) => event.encode(out),
            Event::RowsQuery(text) => {
                // The length is one byte and wrong for longer texts, which readers know.
                out.push(text.len() as u8);
                out.extend_from_slice(text);
            }
            Event::Heartbeat(event) => event.encode(out),
            Event::Incident(event) => event.encode(out),
            Event::TransactionPayload(event) => event.encode(out),
            Event::XaPrepare(event) => event.encode(out),
            Event::MariadbGtid(event) => event.encode(out),
            Event::MariadbGtidList(list) => mariadb::encode_gtid_list(list, out),
        }
    }
}

/// Refuses an event type, unless its header says that readers may skip it.
fn refuse(header: &Header, body: Reader<'_>) -> Decoded<Event> {
    if header.flags & flags::IGNORABLE != 0 {
        return Ok(Event::Ignored(header.kind));
    }
    Err(body.error(match header.kind {
        kind::INTVAR | kind::RAND | kind::USER_VAR => {
            "belongs to a statement that is logged as text: set binlog_format = ROW at the source"
                .into()
        }
        kind::MARIADB_START_ENCRYPTION => "the source sends an encrypted log".into(),
        other => std::borrow::Cow::Owned(format!("type {other} is not supported")),
    }))
}

/// Computes the checksum of the bytes: CRC-32 of IEEE 802.3.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Compares the last four bytes with the checksum of those before.
///
/// # Errors
/// They differ.
fn verify_checksum(name: &'static str, event: &[u8]) -> Decoded<()> {
    let Some((covered, stored)) = event.split_last_chunk::<CHECKSUM_LEN>() else {
        return Err(Reader::new(name, event).error("too short for a checksum"));
    };
    let computed = checksum(covered);
    if covered.len() < HEADER_LEN || computed != u32::from_le_bytes(*stored) {
        return Err(Reader::new(name, event).error(format!(
            "its checksum is {:08x}, its bytes have {computed:08x}",
            u32::from_le_bytes(*stored)
        )));
    }
    Ok(())
}
