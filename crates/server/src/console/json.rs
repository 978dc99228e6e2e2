//! Results of statements as JSON: `{"columns":[...],"rows":[[...],...],"truncated":false}`.
//!
//! Integers are numbers if JavaScript represents them exactly, otherwise text. Other types are
//! text, as the MySQL protocol's text format has it.

use porpoise_sql::{ResultColumn, ResultSink, SqlError};
use porpoise_types::{ColumnType, Kind, ValueRef, write_text};

/// Size of a result's rows at which further rows are left out.
const MAX_BYTES: usize = 2 << 20;

/// Largest integer up to which JavaScript's numbers have no gaps.
const MAX_EXACT: u64 = 1 << 53;

/// Appends a text, quoted.
pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    // Writing a text into a vector does not fail.
    let _ = serde_json::to_writer(out, text);
}

/// A result as JSON.
#[derive(Default)]
pub(super) struct JsonRows {
    columns: Vec<(String, ColumnType)>,
    rows: Vec<u8>,
    truncated: bool,
    scratch: Vec<u8>,
}

impl JsonRows {
    /// The whole result.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.rows.len() + 256);
        out.extend_from_slice(b"{\"columns\":[");
        for (at, (name, _)) in self.columns.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            put_string(&mut out, name);
        }
        out.extend_from_slice(b"],\"rows\":[");
        out.extend_from_slice(&self.rows);
        let end = format!("],\"truncated\":{}}}", self.truncated);
        out.extend_from_slice(end.as_bytes());
        out
    }

    fn put(&mut self, at: usize, value: ValueRef<'_>) {
        let Some((_, ty)) = self.columns.get(at) else {
            return;
        };
        let is_named = matches!(ty.kind, Kind::Bit | Kind::Year | Kind::Set | Kind::Enum);
        let number = match value {
            ValueRef::Null => Some("null".to_owned()),
            ValueRef::Int(n) if n.unsigned_abs() <= MAX_EXACT => Some(n.to_string()),
            ValueRef::UInt(n) if n <= MAX_EXACT && !is_named => Some(n.to_string()),
            ValueRef::Double(n) if n.is_finite() => Some(n.to_string()),
            _ => None,
        };
        if let Some(number) = number {
            self.rows.extend_from_slice(number.as_bytes());
            return;
        }
        self.scratch.clear();
        write_text(value, ty, &mut self.scratch);
        let text = String::from_utf8_lossy(&self.scratch);
        put_string(&mut self.rows, &text);
    }
}

impl ResultSink for JsonRows {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        let columns = columns.iter().map(|c| (c.name.to_string(), c.ty.clone()));
        *self = JsonRows {
            columns: columns.collect(),
            ..JsonRows::default()
        };
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        if self.rows.len() >= MAX_BYTES {
            self.truncated = true;
            return Ok(());
        }
        if !self.rows.is_empty() {
            self.rows.push(b',');
        }
        self.rows.push(b'[');
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.rows.push(b',');
            }
            self.put(at, *value);
        }
        self.rows.push(b']');
        Ok(())
    }
}
