//! Writers of single-packet replies: OK, ERR, EOF, session state, and the first packet of the
//! reply to COM_STMT_PREPARE. All append complete packets to the connection's output.

use super::capability::{Capabilities, Status};
use super::cursor::{put_bytes, put_lenenc};
use super::frame;

/// Longest message of an error packet, in bytes.
pub const MAX_MESSAGE: usize = 511;

/// A change of session state to report to clients that track it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange<'a> {
    /// A system variable has a new value: name and value.
    Variable(&'a [u8], &'a [u8]),
    /// The default database has changed to this one.
    Schema(&'a [u8]),
    /// Something changed that `session_track_state_change` covers.
    State,
    /// State of the transaction, eight letters, for
    /// `session_track_transaction_info = STATE`.
    TransactionState(&'a [u8]),
    /// Statements that would start a transaction with the same characteristics, for
    /// `session_track_transaction_info = CHARACTERISTICS`.
    TransactionCharacteristics(&'a [u8]),
}

/// Contents of an OK packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ok<'a> {
    /// Rows changed (or found, under `FOUND_ROWS`).
    pub affected_rows: u64,
    /// First id given by AUTO_INCREMENT.
    pub last_insert_id: u64,
    /// Status bits; the bit for session changes is set here if there are any.
    pub status: Status,
    /// Number of warnings.
    pub warnings: u16,
    /// Text for people, e.g. `Rows matched: 1  Changed: 1  Warnings: 0`.
    pub info: &'a [u8],
    /// Changes of session state; omitted for clients that do not track it.
    pub changes: &'a [SessionChange<'a>],
}

/// Appends an OK packet.
#[inline]
pub fn write_ok(out: &mut Vec<u8>, sequence: &mut u8, caps: Capabilities, ok: &Ok<'_>) {
    ok_packet(out, sequence, caps, 0x00, ok);
}

/// Appends the packet that ends a result's rows: EOF, or OK if the client deprecates EOF.
#[inline]
pub fn write_end_of_rows(out: &mut Vec<u8>, sequence: &mut u8, caps: Capabilities, ok: &Ok<'_>) {
    if caps.has(Capabilities::DEPRECATE_EOF) {
        ok_packet(out, sequence, caps, 0xfe, ok);
    } else {
        write_eof(out, sequence, ok.warnings, ok.status);
    }
}

/// Appends the EOF between column definitions and rows, unless the client
/// deprecates it.
pub fn write_end_of_columns(
    out: &mut Vec<u8>,
    sequence: &mut u8,
    caps: Capabilities,
    warnings: u16,
    status: Status,
) {
    if !caps.has(Capabilities::DEPRECATE_EOF) {
        write_eof(out, sequence, warnings, status);
    }
}

/// Appends an EOF packet.
pub fn write_eof(out: &mut Vec<u8>, sequence: &mut u8, warnings: u16, status: Status) {
    let packet = frame::begin(out);
    out.push(0xfe);
    out.extend_from_slice(&warnings.to_le_bytes());
    out.extend_from_slice(&status.0.to_le_bytes());
    frame::finish(out, packet, sequence);
}

fn ok_packet(out: &mut Vec<u8>, sequence: &mut u8, caps: Capabilities, head: u8, ok: &Ok<'_>) {
    let packet = frame::begin(out);
    out.push(head);
    put_lenenc(out, ok.affected_rows);
    put_lenenc(out, ok.last_insert_id);
    let tracks = caps.has(Capabilities::SESSION_TRACK);
    let has_changes = tracks && !ok.changes.is_empty();
    let status = ok.status.with(Status::SESSION_STATE_CHANGED, has_changes);
    out.extend_from_slice(&status.0.to_le_bytes());
    out.extend_from_slice(&ok.warnings.to_le_bytes());
    if tracks {
        if has_changes || !ok.info.is_empty() {
            put_bytes(out, ok.info);
        }
        if has_changes {
            put_changes(out, ok.changes);
        }
    } else if !ok.info.is_empty() {
        // MySQL's manual specifies a string up to the end of the packet here, but its server sends a
        // length-encoded one, and Connector/J relies on that.
        put_bytes(out, ok.info);
    }
    frame::finish(out, packet, sequence);
}

/// Appends changes of session state. Each begins with its type, a code of the protocol
/// (`SESSION_TRACK_...`).
fn put_changes(out: &mut Vec<u8>, changes: &[SessionChange<'_>]) {
    let mut encoded = Vec::new();
    let mut data = Vec::new();
    for change in changes {
        data.clear();
        let kind = match change {
            SessionChange::Variable(name, value) => {
                put_bytes(&mut data, name);
                put_bytes(&mut data, value);
                0
            }
            SessionChange::Schema(name) => {
                put_bytes(&mut data, name);
                1
            }
            SessionChange::State => {
                put_bytes(&mut data, b"1");
                2
            }
            SessionChange::TransactionCharacteristics(text) => {
                put_bytes(&mut data, text);
                4
            }
            SessionChange::TransactionState(letters) => {
                put_bytes(&mut data, letters);
                5
            }
        };
        encoded.push(kind);
        put_bytes(&mut encoded, &data);
    }
    put_bytes(out, &encoded);
}

/// Appends an error packet. The message is truncated to [`MAX_MESSAGE`] bytes, at a character
/// boundary.
pub fn write_error(
    out: &mut Vec<u8>,
    sequence: &mut u8,
    code: u16,
    sqlstate: [u8; 5],
    message: &str,
) {
    let packet = frame::begin(out);
    out.push(0xff);
    out.extend_from_slice(&code.to_le_bytes());
    out.push(b'#');
    out.extend_from_slice(&sqlstate);
    let end = message.floor_char_boundary(MAX_MESSAGE);
    out.extend_from_slice(message.get(..end).unwrap_or_default().as_bytes());
    frame::finish(out, packet, sequence);
}

/// Appends an error packet sent instead of the greeting, e.g. for too many connections. Clients
/// expect it without SQLSTATE.
pub fn write_early_error(out: &mut Vec<u8>, sequence: &mut u8, code: u16, message: &str) {
    let packet = frame::begin(out);
    out.push(0xff);
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(message.as_bytes());
    frame::finish(out, packet, sequence);
}

/// Appends the first packet of a result: its number of columns and, for a client with
/// `OPTIONAL_RESULTSET_METADATA`, whether column definitions follow.
pub fn write_column_count(
    out: &mut Vec<u8>,
    sequence: &mut u8,
    caps: Capabilities,
    columns: usize,
    definitions: bool,
) {
    let packet = frame::begin(out);
    put_lenenc(out, columns as u64);
    put_has_definitions(out, caps, definitions);
    frame::finish(out, packet, sequence);
}

/// Appends whether definitions follow, for a client with `OPTIONAL_RESULTSET_METADATA`.
fn put_has_definitions(out: &mut Vec<u8>, caps: Capabilities, definitions: bool) {
    if caps.has(Capabilities::OPTIONAL_RESULTSET_METADATA) {
        out.push(u8::from(definitions));
    }
}

/// Contents of the first packet of the reply to COM_STMT_PREPARE.
#[derive(Clone, Copy, Debug)]
pub struct PrepareOk {
    /// Id of the statement.
    pub id: u32,
    /// Number of columns of its result.
    pub columns: u16,
    /// Number of parameters.
    pub params: u16,
    /// Number of warnings.
    pub warnings: u16,
    /// Whether definitions of parameters and columns follow, each group ended by EOF unless
    /// deprecated. They are omitted only for a client that supports and has requested it.
    pub definitions: bool,
}

/// Appends the first packet of the reply to COM_STMT_PREPARE.
pub fn write_prepare_ok(out: &mut Vec<u8>, sequence: &mut u8, caps: Capabilities, ok: PrepareOk) {
    let packet = frame::begin(out);
    out.push(0x00);
    out.extend_from_slice(&ok.id.to_le_bytes());
    out.extend_from_slice(&ok.columns.to_le_bytes());
    out.extend_from_slice(&ok.params.to_le_bytes());
    out.push(0);
    out.extend_from_slice(&ok.warnings.to_le_bytes());
    put_has_definitions(out, caps, ok.definitions);
    frame::finish(out, packet, sequence);
}

/// Appends the reply to COM_STATISTICS, a text.
pub fn write_statistics(out: &mut Vec<u8>, sequence: &mut u8, text: &str) {
    frame::packet(out, sequence, text.as_bytes());
}
