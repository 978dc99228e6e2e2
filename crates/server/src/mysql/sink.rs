//! Sink of results: each row is encoded once, directly into the connection's output.
//!
//! Invariants:
//! 1. A long result is sent in parts of [`crate::net::FLUSH_AT`] bytes, so that it uses no more
//!    memory than that. A result of newest rows is buffered whole, because its commit position is
//!    known only at its end.
//! 2. A restarted statement starts its result again: the rows of the first run are discarded.
//! 3. A row that exceeds the limit of the protocol or `max_allowed_packet` is an error of the
//!    statement.

use super::answer::{Answer, client_gone};
use super::checksum::ResultChecksum;
use porpoise_base::memory::{MemoryCharge, MemoryTracker};
use porpoise_sql::{ResultColumn, ResultEnd, ResultSink, SqlError};
use porpoise_types::ValueRef;
use porpoise_wire::mysql::column::{self, ColumnDefinition};
use porpoise_wire::mysql::command::StmtExecute;
use porpoise_wire::mysql::frame::{HEADER, MAX_PACKET_PAYLOAD};
use porpoise_wire::mysql::row::RowEncoder;
use porpoise_wire::mysql::{Capabilities, Status};
use porpoise_wire::mysql::{frame, reply};
use std::sync::Arc;

/// Encoding and destination of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Text, to the client.
    Text,
    /// Text, of which a checksum is sent to the client.
    Checksum,
    /// Binary, to the client.
    Binary,
    /// Binary, buffered for COM_STMT_FETCH.
    Cursor,
}

impl Form {
    /// The form of an execution's rows.
    pub(super) fn of_execution(execute: &StmtExecute<'_>) -> Form {
        if execute.wants_cursor() {
            Form::Cursor
        } else {
            Form::Binary
        }
    }
}

/// Rows of a cursor: packets in binary form, without sequence numbers.
#[derive(Debug, Default)]
pub(super) struct BufferedRows {
    /// Payloads, one after the other.
    pub(super) bytes: Vec<u8>,
    /// End offset of each row in `bytes`.
    pub(super) ends: Vec<usize>,
    /// Memory charged to the connection for the rows.
    charge: Option<MemoryCharge>,
}

impl BufferedRows {
    /// Charges the connection for the growth since the last call.
    fn charge_growth(&mut self, memory: &Arc<MemoryTracker>) -> Result<(), SqlError> {
        let size = (self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()) as u64;
        let charged = match &mut self.charge {
            Some(charge) if charge.bytes() >= size => Ok(()),
            Some(charge) => charge.grow(size - charge.bytes()),
            None => memory.charge(size).map(|charge| self.charge = Some(charge)),
        };
        charged.map_err(porpoise_sql::memory::refused)
    }

    /// Returns the memory that the rows use, in bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<usize>()
    }
}

/// The sink of one statement's result.
pub(super) struct WireSink<'a, 'o> {
    answer: &'a mut Answer<'o>,
    form: Form,
    status: Status,
    /// Sequence number of the result's first packet.
    first_sequence: u8,
    encoder: RowEncoder,
    /// Whether the result is buffered to its end.
    buffers_until_end: bool,
    /// Whether the columns have been appended, so that a second call means a restart.
    has_columns: bool,
    /// The checksum of the rows, if it is sent in their place.
    checksum: ResultChecksum,
    /// The rows of a cursor.
    pub(super) buffered: BufferedRows,
    /// Maximum size of buffered rows in bytes.
    limit: usize,
    /// Tracker to which buffered rows are charged.
    memory: Option<&'a Arc<MemoryTracker>>,
    /// Whether column definitions are sent.
    definitions: bool,
    /// Number of columns announced when the statement was prepared or last executed; 0 if preparing
    /// announces none.
    announced_columns: Option<usize>,
    /// Whether the number of columns differs from `announced_columns`.
    pub(super) is_column_count_changed: bool,
    /// Number of columns of the result.
    pub(super) columns: usize,
}

impl<'a, 'o> WireSink<'a, 'o> {
    /// Creates the sink of the statement that `answer` replies to, with the session's status before
    /// the statement.
    pub(super) fn new(answer: &'a mut Answer<'o>, form: Form, status: Status) -> Self {
        WireSink {
            first_sequence: answer.sequence,
            answer,
            form,
            status,
            encoder: RowEncoder::default(),
            buffers_until_end: false,
            has_columns: false,
            checksum: ResultChecksum::default(),
            buffered: BufferedRows::default(),
            limit: 0,
            memory: None,
            definitions: true,
            announced_columns: None,
            is_column_count_changed: false,
            columns: 0,
        }
    }

    /// Omits the definitions of columns unless `wanted`.
    pub(super) fn definitions(mut self, wanted: bool) -> Self {
        let optional = Capabilities::OPTIONAL_RESULTSET_METADATA;
        self.definitions = wanted || !self.answer.caps.has(optional);
        self
    }

    /// Limits buffered rows to `bytes`, charged to `memory`.
    pub(super) fn limit_buffered(mut self, bytes: usize, memory: &'a Arc<MemoryTracker>) -> Self {
        self.limit = bytes;
        self.memory = Some(memory);
        self
    }

    /// Sets the number of columns that were announced to the client.
    pub(super) fn announced_columns(mut self, columns: usize) -> Self {
        self.announced_columns = Some(columns);
        self
    }

    /// Sends the buffered rows of a result that is not the last one, because only the last one has a cursor.
    fn send_buffered_rows(&mut self) -> Result<(), SqlError> {
        let caps = self.answer.caps;
        let sequence = &mut self.answer.sequence;
        reply::write_end_of_columns(self.answer.out.buf(), sequence, caps, 0, self.status);
        let rows = std::mem::take(&mut self.buffered);
        let mut start = 0;
        for end in &rows.ends {
            let row = rows.bytes.get(start..*end).unwrap_or_default();
            frame::packet(self.answer.out.buf(), &mut self.answer.sequence, row);
            start = *end;
            if self.answer.out.is_full() {
                self.answer.drain().map_err(|_| client_gone())?;
            }
        }
        Ok(())
    }

    /// Appends the checksum of the rows, if it is sent in their place.
    pub(super) fn end_checksum(&mut self) {
        if self.form == Form::Checksum && self.has_columns {
            let (out, sequence) = (self.answer.out.buf(), &mut self.answer.sequence);
            self.checksum.write_row(out, sequence);
        }
    }

    /// Buffers a row as the payload of its packet, without packet headers.
    fn buffer_row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let start = self.buffered.bytes.len();
        self.encoder
            .write_binary(&mut self.buffered.bytes, &mut 0, values);
        if self.buffered.size() > self.limit {
            let text = "Out of memory; the rows of this cursor are too large";
            return Err(SqlError::new(1041, "HY000", text));
        }
        // Removes the header before each part of the packet.
        let mut at = start;
        while at < self.buffered.bytes.len() {
            self.buffered.bytes.drain(at..at + HEADER);
            at += MAX_PACKET_PAYLOAD;
        }
        self.buffered.ends.push(self.buffered.bytes.len());
        match self.memory {
            Some(memory) => self.buffered.charge_growth(memory),
            None => Ok(()),
        }
    }
}

/// Appends the definition of a result column, which is encoded once for all executions of a plan.
pub(super) fn write_definition(out: &mut Vec<u8>, sequence: &mut u8, column: &ResultColumn) {
    let encoded = column
        .encoding
        .get_or_encode(|out| column::encode_column(out, &definition(column), None));
    frame::packet(out, sequence, encoded);
}

/// Returns the definition of a result column.
pub(super) fn definition(column: &ResultColumn) -> ColumnDefinition<'_> {
    ColumnDefinition {
        schema: column.schema.as_bytes(),
        table: column.table.as_bytes(),
        org_table: column.org_table.as_bytes(),
        name: column.name.as_bytes(),
        org_name: column.org_name.as_bytes(),
        ty: &column.ty,
        flags: column.flags,
    }
}

impl ResultSink for WireSink<'_, '_> {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        if self.has_columns {
            if !self.answer.discard_unsent(self.first_sequence) {
                let what = "a statement restarted after part of its result had been sent";
                return Err(SqlError::internal(what));
            }
            self.buffered = BufferedRows::default();
        }
        self.has_columns = true;
        self.columns = columns.len();
        self.is_column_count_changed = self
            .announced_columns
            .is_some_and(|n| n != 0 && n != columns.len());
        self.status = self
            .status
            .with(Status::METADATA_CHANGED, self.is_column_count_changed);
        let caps = self.answer.caps;
        let sequence = &mut self.answer.sequence;
        let out = self.answer.out.buf();
        if self.form == Form::Checksum {
            ResultChecksum::write_columns(out, sequence, caps, self.definitions);
            self.checksum.begin(columns);
        } else {
            reply::write_column_count(out, sequence, caps, columns.len(), self.definitions);
            for c in columns.iter().filter(|_| self.definitions) {
                write_definition(out, sequence, c);
            }
            self.encoder.reset(columns.iter().map(|c| &c.ty));
        }
        if self.form != Form::Cursor {
            reply::write_end_of_columns(out, sequence, caps, 0, self.status);
        }
        Ok(())
    }

    #[inline]
    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        match self.form {
            Form::Text => {
                let sequence = &mut self.answer.sequence;
                self.encoder
                    .write_text(self.answer.out.buf(), sequence, values);
            }
            Form::Binary => {
                let sequence = &mut self.answer.sequence;
                self.encoder
                    .write_binary(self.answer.out.buf(), sequence, values);
            }
            Form::Checksum => {
                self.checksum.add(values);
                return Ok(());
            }
            Form::Cursor => return self.buffer_row(values),
        }
        if !self.answer.out.is_full() {
            return Ok(());
        }
        self.answer.charge()?;
        if self.buffers_until_end {
            Ok(())
        } else {
            self.answer.drain().map_err(|_| client_gone())
        }
    }

    fn end_result(&mut self, end: &ResultEnd) -> Result<(), SqlError> {
        let caps = self.answer.caps;
        let is_supported = match self.form {
            Form::Text | Form::Checksum => caps.has(Capabilities::MULTI_RESULTS),
            _ => caps.has(Capabilities::PS_MULTI_RESULTS) || caps.has(Capabilities::MULTI_RESULTS),
        };
        if !is_supported {
            let text = "PROCEDURE can't return a result set in the given context";
            return Err(SqlError::new(1312, "0A000", text));
        }
        let status = Status(end.status)
            .with(Status::MORE_RESULTS, true)
            .with(Status::PS_OUT_PARAMS, end.is_out_parameters);
        if self.form == Form::Cursor {
            self.send_buffered_rows()?;
        }
        self.end_checksum();
        self.answer.eof(status, end.warnings);
        self.answer.defer_until_durable(end.position);
        if self.answer.out.is_full() {
            self.answer.drain().map_err(|_| client_gone())?;
        }
        self.answer.next_part();
        self.first_sequence = self.answer.sequence;
        self.has_columns = false;
        self.buffers_until_end = false;
        self.columns = 0;
        Ok(())
    }

    fn discard_result(&mut self) -> bool {
        if !std::mem::take(&mut self.has_columns) {
            return true;
        }
        self.buffered = BufferedRows::default();
        self.columns = 0;
        self.answer.discard_unsent(self.first_sequence)
    }

    fn buffer_until_end(&mut self) {
        self.buffers_until_end = true;
    }

    fn open_file(&mut self, name: &[u8]) -> Result<(), SqlError> {
        self.answer.request_file(name)
    }

    fn read_file(&mut self, out: &mut Vec<u8>) -> Result<bool, SqlError> {
        self.answer.read_file(out)
    }
}
