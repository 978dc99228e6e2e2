//! Checksum of a result, sent instead of its rows (`result_checksum`).
//!
//! Each row is encoded as its packet in text form would be. The checksum is the sum of the XXH3 hashes of these packets' payloads,
//! modulo 2^64, so that the order of rows does not matter. So a client can compare rows that it has read from another server
//! without a transfer: it hashes the payloads that it has received from there.

use porpoise_sql::ResultColumn;
use porpoise_types::{ColumnType, ValueRef};
use porpoise_wire::mysql::Capabilities;
use porpoise_wire::mysql::column::{self, ColumnDefinition};
use porpoise_wire::mysql::frame::{HEADER, MAX_PACKET_PAYLOAD};
use porpoise_wire::mysql::reply;
use porpoise_wire::mysql::row::RowEncoder;
use xxhash_rust::xxh3::xxh3_64;

/// Names of the columns of the row that is sent.
const COLUMNS: [&str; 2] = ["rows", "checksum"];

/// Checksum of the rows of a result.
#[derive(Debug, Default)]
pub(super) struct ResultChecksum {
    encoder: RowEncoder,
    rows: u64,
    sum: u64,
    /// The packet of a row.
    packet: Vec<u8>,
}

impl ResultChecksum {
    /// Begins a result with these columns.
    pub(super) fn begin(&mut self, columns: &[ResultColumn]) {
        self.encoder.reset(columns.iter().map(|c| &c.ty));
        (self.rows, self.sum) = (0, 0);
    }

    /// Adds a row.
    pub(super) fn add(&mut self, values: &[ValueRef<'_>]) {
        self.packet.clear();
        self.encoder.write_text(&mut self.packet, &mut 0, values);
        // Removes the header before each part of the packet but the first.
        let mut at = HEADER + MAX_PACKET_PAYLOAD;
        while at + HEADER <= self.packet.len() {
            self.packet.drain(at..at + HEADER);
            at += MAX_PACKET_PAYLOAD;
        }
        let payload = self.packet.get(HEADER..).unwrap_or_default();
        self.rows += 1;
        self.sum = self.sum.wrapping_add(xxh3_64(payload));
    }

    /// Appends the definitions of the columns of the row that is sent.
    pub(super) fn write_columns(
        out: &mut Vec<u8>,
        sequence: &mut u8,
        caps: Capabilities,
        definitions: bool,
    ) {
        reply::write_column_count(out, sequence, caps, COLUMNS.len(), definitions);
        let ty = ColumnType::bigint_unsigned();
        for name in COLUMNS.iter().filter(|_| definitions) {
            let column = ColumnDefinition {
                schema: b"",
                table: b"",
                org_table: b"",
                name: name.as_bytes(),
                org_name: b"",
                ty: &ty,
                flags: 0,
            };
            column::write_column(out, sequence, &column, None);
        }
    }

    /// Appends the row that is sent.
    pub(super) fn write_row(&self, out: &mut Vec<u8>, sequence: &mut u8) {
        let ty = ColumnType::bigint_unsigned();
        let row = [ValueRef::UInt(self.rows), ValueRef::UInt(self.sum)];
        RowEncoder::new([&ty, &ty]).write_text(out, sequence, &row);
    }
}
