//! Results as an Arrow IPC stream (<https://arrow.apache.org/docs/format/Columnar.html>): a message with
//! the schema, messages with batches of rows, the end. The few messages are written directly ([`flat`]).
//!
//! | type | Arrow |
//! |---|---|
//! | TINYINT to BIGINT, YEAR, BIT | Int of the same width (MEDIUMINT: 32 bits, YEAR: 16, BIT: 64, unsigned) |
//! | FLOAT, DOUBLE | FloatingPoint |
//! | DECIMAL of at most 38 digits | Decimal128; with more digits Utf8 |
//! | DATE | Date32; DATETIME and TIMESTAMP: Timestamp in microseconds, TIMESTAMP with the zone UTC |
//! | TIME | Duration in microseconds: Arrow's times of day have no -838:59:59 |
//! | strings of characters, ENUM, SET, JSON | Utf8 |
//! | BINARY to LONGBLOB | Binary |
//!
//! A date with a zero part has no counterpart, and fails the statement, because NULL would be a different value.
//!
//! Rejected: the crates of arrow-rs. `arrow-ipc` brings a dozen crates of arrays, computation and
//! FlatBuffers, of which this would use three types of messages.

mod flat;

use flat::{Field, Flat, Place};
use porpoise_sql::{ResultColumn, SqlError};
use porpoise_types::temporal::DateRules;
use porpoise_types::{ColumnType, Date, DateTime, Kind, ValueRef, write_text};

/// Content type of the stream.
pub(super) const MEDIA_TYPE: &str = "application/vnd.apache.arrow.stream";

/// First word of each message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The format's version 5.
const VERSION: i16 = 4;

/// Types of messages: numbers in the union `MessageHeader`.
const SCHEMA: u8 = 1;
const RECORD_BATCH: u8 = 3;

/// Unit of timestamps and durations: microseconds.
const MICROSECOND: i16 = 2;

/// Largest precision of a Decimal128.
const MAX_DIGITS: u32 = 38;

/// Type of a column in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArrowType {
    Int { bits: i32, is_signed: bool },
    Float32,
    Float64,
    Decimal { digits: i32, scale: u8 },
    Date,
    Timestamp { is_utc: bool },
    Duration,
    Utf8,
    Binary,
}

impl ArrowType {
    fn of(ty: &ColumnType) -> ArrowType {
        let int = |bits| ArrowType::Int {
            bits,
            is_signed: !ty.unsigned,
        };
        match ty.kind {
            Kind::TinyInt => int(8),
            Kind::SmallInt => int(16),
            Kind::MediumInt | Kind::Int => int(32),
            Kind::BigInt => int(64),
            Kind::Year => ArrowType::Int {
                bits: 16,
                is_signed: false,
            },
            Kind::Bit => ArrowType::Int {
                bits: 64,
                is_signed: false,
            },
            Kind::Float => ArrowType::Float32,
            Kind::Double => ArrowType::Float64,
            Kind::Decimal if ty.length <= MAX_DIGITS => ArrowType::Decimal {
                digits: i32::try_from(ty.length.max(1)).unwrap_or(38),
                scale: ty.decimals,
            },
            Kind::Date => ArrowType::Date,
            Kind::DateTime => ArrowType::Timestamp { is_utc: false },
            Kind::Timestamp => ArrowType::Timestamp { is_utc: true },
            Kind::Time => ArrowType::Duration,
            _ if ty.is_binary() => ArrowType::Binary,
            _ => ArrowType::Utf8,
        }
    }

    /// Whether values have their lengths in a buffer of offsets.
    fn has_offsets(self) -> bool {
        matches!(self, ArrowType::Utf8 | ArrowType::Binary)
    }

    /// Size in bytes of a value of a fixed size.
    fn width(self) -> usize {
        match self {
            ArrowType::Int { bits, .. } => usize::try_from(bits / 8).unwrap_or(8),
            ArrowType::Float32 | ArrowType::Date => 4,
            ArrowType::Float64 | ArrowType::Timestamp { .. } | ArrowType::Duration => 8,
            ArrowType::Decimal { .. } => 16,
            ArrowType::Utf8 | ArrowType::Binary => 0,
        }
    }

    /// Number in the union of types.
    fn number(self) -> u8 {
        match self {
            ArrowType::Int { .. } => 2,
            ArrowType::Float32 | ArrowType::Float64 => 3,
            ArrowType::Binary => 4,
            ArrowType::Utf8 => 5,
            ArrowType::Decimal { .. } => 7,
            ArrowType::Date => 8,
            ArrowType::Timestamp { .. } => 10,
            ArrowType::Duration => 18,
        }
    }

    /// Appends the table with the type's parameters.
    fn put(self, flat: &mut Flat, place: Place) {
        match self {
            ArrowType::Int { bits, is_signed } => {
                flat.table(place, [Field::I32(bits), Field::U8(u8::from(is_signed))]);
            }
            ArrowType::Float32 => {
                flat.table(place, [Field::I16(1)]);
            }
            ArrowType::Float64 => {
                flat.table(place, [Field::I16(2)]);
            }
            ArrowType::Decimal { digits, scale } => {
                let fields = [
                    Field::I32(digits),
                    Field::I32(i32::from(scale)),
                    Field::I32(128),
                ];
                flat.table(place, fields);
            }
            ArrowType::Date => {
                flat.table(place, [Field::I16(0)]);
            }
            ArrowType::Timestamp { is_utc: false } => {
                flat.table(place, [Field::I16(MICROSECOND), Field::Default]);
            }
            ArrowType::Timestamp { is_utc: true } => {
                let [_, zone] = flat.table(place, [Field::I16(MICROSECOND), Field::Reference]);
                flat.text(zone, "UTC");
            }
            ArrowType::Duration => {
                flat.table(place, [Field::I16(MICROSECOND)]);
            }
            ArrowType::Utf8 | ArrowType::Binary => {
                flat.table(place, []);
            }
        }
    }
}

/// Values of a column of the batch in progress.
#[derive(Debug)]
struct ColumnValues {
    name: String,
    ty: ColumnType,
    arrow: ArrowType,
    /// Validity bitmap: a bit for each row, set if its value is not NULL.
    valid: Vec<u8>,
    nulls: usize,
    /// Offsets of values of variable length: 0, then the end of each value.
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl ColumnValues {
    fn new(column: &ResultColumn) -> ColumnValues {
        let arrow = ArrowType::of(&column.ty);
        ColumnValues {
            name: column.name.clone(),
            ty: column.ty.clone(),
            arrow,
            valid: Vec::new(),
            nulls: 0,
            offsets: Vec::new(),
            data: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.valid.clear();
        self.nulls = 0;
        self.offsets.clear();
        self.data.clear();
    }

    fn len(&self) -> usize {
        self.valid.len() + self.offsets.len() * 4 + self.data.len()
    }

    /// Appends the value of the row with this number in the batch.
    fn push(&mut self, row: usize, value: ValueRef<'_>) -> Result<(), SqlError> {
        if row.is_multiple_of(8) {
            self.valid.push(0);
        }
        if self.arrow.has_offsets() && self.offsets.is_empty() {
            self.offsets.push(0);
        }
        if value.is_null() {
            self.nulls += 1;
            self.data.resize(self.data.len() + self.arrow.width(), 0);
        } else {
            if let Some(byte) = self.valid.last_mut() {
                *byte |= 1 << (row % 8);
            }
            self.put(value).ok_or_else(|| self.unrepresentable(value))?;
        }
        if self.arrow.has_offsets() {
            let end = i32::try_from(self.data.len());
            self.offsets
                .push(end.map_err(|_| self.unrepresentable(value))?);
        }
        Ok(())
    }

    /// Appends a value; `None` if Arrow's type cannot represent it.
    fn put(&mut self, value: ValueRef<'_>) -> Option<()> {
        match self.arrow {
            ArrowType::Int { bits, is_signed } => {
                let number = match value {
                    ValueRef::Int(v) => i128::from(v),
                    ValueRef::UInt(v) => i128::from(v),
                    ValueRef::Bytes(bytes) if self.ty.kind == Kind::Bit => {
                        bytes.iter().fold(0, |n, byte| n << 8 | i128::from(*byte))
                    }
                    _ => return None,
                };
                let (least, most) = if is_signed {
                    (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
                } else {
                    (0, (1i128 << bits) - 1)
                };
                (least..=most).contains(&number).then_some(())?;
                let bytes = number.to_le_bytes();
                self.data
                    .extend_from_slice(bytes.get(..self.arrow.width())?);
            }
            ArrowType::Float32 | ArrowType::Float64 => {
                let number = match value {
                    ValueRef::Double(v) => v,
                    ValueRef::Int(v) => v as f64,
                    ValueRef::UInt(v) => v as f64,
                    _ => return None,
                };
                if self.arrow == ArrowType::Float32 {
                    self.data.extend_from_slice(&(number as f32).to_le_bytes());
                } else {
                    self.data.extend_from_slice(&number.to_le_bytes());
                }
            }
            ArrowType::Decimal { digits, scale } => {
                let number = scaled(value, scale, digits)?;
                self.data.extend_from_slice(&number.to_le_bytes());
            }
            ArrowType::Date => {
                let days = days(match value {
                    ValueRef::Date(date) => date,
                    ValueRef::DateTime(at) => at.date(),
                    _ => return None,
                })?;
                self.data.extend_from_slice(&days.to_le_bytes());
            }
            ArrowType::Timestamp { .. } => {
                let micros = micros(match value {
                    ValueRef::DateTime(at) => at,
                    ValueRef::Date(date) => date.at_midnight(),
                    _ => return None,
                })?;
                self.data.extend_from_slice(&micros.to_le_bytes());
            }
            ArrowType::Duration => {
                let ValueRef::Time(time) = value else {
                    return None;
                };
                self.data.extend_from_slice(&time.as_micros().to_le_bytes());
            }
            ArrowType::Binary => match value {
                ValueRef::Bytes(bytes) => self.data.extend_from_slice(bytes),
                _ => write_text(value, &self.ty, &mut self.data),
            },
            ArrowType::Utf8 => put_utf8(&mut self.data, value, &self.ty),
        }
        Some(())
    }

    fn unrepresentable(&self, value: ValueRef<'_>) -> SqlError {
        let mut text = Vec::new();
        write_text(value, &self.ty, &mut text);
        let text = String::from_utf8_lossy(&text);
        let shown: String = text.chars().take(64).collect();
        let text = format!(
            "Incorrect value: '{shown}' for column '{}': Arrow cannot represent it",
            self.name
        );
        SqlError::new(1292, "22007", text)
    }
}

/// Appends a text. Invalid UTF-8 is replaced; character columns do not contain any.
fn put_utf8(out: &mut Vec<u8>, value: ValueRef<'_>, ty: &ColumnType) {
    let start = out.len();
    write_text(value, ty, out);
    let text = out.get(start..).unwrap_or_default();
    if std::str::from_utf8(text).is_err() {
        let text = String::from_utf8_lossy(text).into_owned();
        out.truncate(start);
        out.extend_from_slice(text.as_bytes());
    }
}

/// A number times ten to the power of `scale`; `None` if it has more than `digits` digits.
fn scaled(value: ValueRef<'_>, scale: u8, digits: i32) -> Option<i128> {
    let (number, has) = match value {
        ValueRef::Decimal(decimal) => decimal.unscaled()?,
        ValueRef::Int(v) => (i128::from(v), 0),
        ValueRef::UInt(v) => (i128::from(v), 0),
        _ => return None,
    };
    let more = u32::from(scale.checked_sub(has)?);
    let number = number.checked_mul(10i128.checked_pow(more)?)?;
    let limit = 10i128.checked_pow(u32::try_from(digits).ok()?);
    let fits = limit.is_none_or(|limit| number.unsigned_abs() < limit.unsigned_abs());
    fits.then_some(number)
}

/// Days since 1970; `None` for a date that does not exist.
fn days(date: Date) -> Option<i32> {
    let micros = micros(date.at_midnight())?;
    i32::try_from(micros.div_euclid(86_400_000_000)).ok()
}

/// Microseconds since 1970; `None` for a date that does not exist.
fn micros(at: DateTime) -> Option<i64> {
    at.date()
        .check(DateRules::REAL)
        .then(|| at.to_unix_micros())
}

/// A stream in progress.
#[derive(Debug)]
pub(super) struct Stream {
    columns: Vec<ColumnValues>,
    /// Rows of the batch in progress.
    rows: usize,
}

impl Stream {
    /// Begins a stream, and appends its schema.
    pub(super) fn new(columns: &[ResultColumn], out: &mut Vec<u8>) -> Stream {
        let columns: Vec<_> = columns.iter().map(ColumnValues::new).collect();
        put_message(out, SCHEMA, 0, |flat, place| {
            put_schema(flat, place, &columns)
        });
        Stream { columns, rows: 0 }
    }

    /// Adds a row to the batch in progress.
    ///
    /// # Errors
    /// 1292: a value that Arrow cannot represent.
    pub(super) fn push(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(self.rows, *value)?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Size in bytes of the batch in progress.
    pub(super) fn len(&self) -> usize {
        self.columns.iter().map(ColumnValues::len).sum()
    }

    /// Appends the batch in progress, unless it has no rows.
    pub(super) fn put_batch(&mut self, out: &mut Vec<u8>) {
        if self.rows == 0 {
            return;
        }
        let (mut nodes, mut buffers, mut size) = (Vec::new(), Vec::new(), 0);
        let length = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut add = |bytes: usize| {
            buffers.push((length(size), length(bytes)));
            size += bytes.next_multiple_of(8);
        };
        for column in &self.columns {
            nodes.push((length(self.rows), length(column.nulls)));
            add(column.valid.len());
            if column.arrow.has_offsets() {
                add(column.offsets.len() * 4);
            }
            add(column.data.len());
        }
        let rows = length(self.rows);
        put_message(out, RECORD_BATCH, length(size), |flat, place| {
            let fields = [Field::I64(rows), Field::Reference, Field::Reference];
            let [_, node_place, buffer_place] = flat.table(place, fields);
            flat.pairs(node_place, &nodes);
            flat.pairs(buffer_place, &buffers);
        });
        for column in &mut self.columns {
            put_padded(out, column.valid.iter().copied());
            if column.arrow.has_offsets() {
                put_padded(out, column.offsets.iter().flat_map(|end| end.to_le_bytes()));
            }
            put_padded(out, column.data.iter().copied());
            column.clear();
        }
        self.rows = 0;
    }
}

/// Appends the end of a stream.
pub(super) fn put_end(out: &mut Vec<u8>) {
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&[0; 4]);
}

/// Appends a buffer of a batch, padded to a multiple of eight bytes.
fn put_padded(out: &mut Vec<u8>, bytes: impl Iterator<Item = u8>) {
    let start = out.len();
    out.extend(bytes);
    let length = out.len() - start;
    out.resize(start + length.next_multiple_of(8), 0);
}

/// Appends a message without its body, which has `body` bytes.
fn put_message(out: &mut Vec<u8>, kind: u8, body: i64, put: impl FnOnce(&mut Flat, Place)) {
    let (mut flat, root) = Flat::new();
    let fields = [
        Field::I16(VERSION),
        Field::U8(kind),
        Field::Reference,
        Field::I64(body),
    ];
    let [_, _, header, _] = flat.table(root, fields);
    put(&mut flat, header);
    let message = flat.finish();
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&message);
}

fn put_schema(flat: &mut Flat, place: Place, columns: &[ColumnValues]) {
    // Little-endian; the fields.
    let [_, fields] = flat.table(place, [Field::I16(0), Field::Reference]);
    let places = flat.references(fields, columns.len());
    for (column, place) in columns.iter().zip(places) {
        let fields = [
            Field::Reference,
            Field::U8(1),
            Field::U8(column.arrow.number()),
            Field::Reference,
            Field::Default,
            Field::Reference,
        ];
        let [name, _, _, ty, _, children] = flat.table(place, fields);
        flat.text(name, &column.name);
        column.arrow.put(flat, ty);
        flat.references(children, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, ty: ColumnType) -> ResultColumn {
        ResultColumn::without_table(name.to_owned(), ty, 0)
    }

    fn number(bytes: &[u8], at: usize) -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    }

    #[test]
    fn messages_are_aligned_and_have_their_lengths() {
        let columns = [
            column("a", ColumnType::bigint()),
            column(
                "text",
                ColumnType::varchar(20, porpoise_types::Collation::UTF8MB4_BIN),
            ),
        ];
        let mut out = Vec::new();
        let mut stream = Stream::new(&columns, &mut out);
        for n in 0..9 {
            let text = if n == 3 {
                ValueRef::Null
            } else {
                ValueRef::Bytes(b"abc")
            };
            stream.push(&[ValueRef::Int(n), text]).unwrap();
        }
        assert!(stream.len() > 9 * 8);
        stream.put_batch(&mut out);
        let end = out.len();
        stream.put_batch(&mut out);
        assert_eq!(out.len(), end, "a batch without rows");
        put_end(&mut out);
        let mut at = 0;
        // The schema, without a body.
        assert_eq!(out[at..at + 4], CONTINUATION);
        let length = number(&out, at + 4);
        assert_eq!(length % 8, 0);
        at += 8 + length;
        assert_eq!(out[at..at + 4], CONTINUATION);
        let length = number(&out, at + 4);
        at += 8 + length;
        // Two bytes of validity, nine numbers; the same, ten offsets, 24 bytes.
        let body = 8 + 72 + 8 + 40 + 24;
        assert_eq!(out[at], 0xff, "the first eight rows are valid");
        assert_eq!(out[at + 8 + 72], 0b1111_0111);
        at += body;
        assert_eq!(out[at..], [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    }

    #[test]
    fn decimals_keep_their_scale() {
        let decimal = |text: &str| {
            ValueRef::Decimal(porpoise_types::Decimal::parse(text.as_bytes()).unwrap())
        };
        assert_eq!(scaled(decimal("-1.5"), 3, 10), Some(-1500));
        assert_eq!(scaled(decimal("99.99"), 2, 4), Some(9999));
        assert_eq!(scaled(decimal("100.00"), 2, 4), None);
        assert_eq!(scaled(decimal("1.234"), 2, 10), None);
        assert_eq!(scaled(ValueRef::Int(7), 2, 10), Some(700));
        let largest = "9".repeat(38);
        assert_eq!(scaled(decimal(&largest), 0, 38), Some(10i128.pow(38) - 1));
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        assert_eq!(days(Date::new(1970, 1, 2).unwrap()), Some(1));
        assert_eq!(days(Date::new(1969, 12, 31).unwrap()), Some(-1));
        assert_eq!(days(Date::ZERO), None);
        assert_eq!(days(Date::new(2026, 2, 0).unwrap()), None);
        let mut values = ColumnValues::new(&column("day", ColumnType::date()));
        let error = values.push(0, ValueRef::Date(Date::ZERO)).unwrap_err();
        assert_eq!(error.code, 1292);
        assert!(
            error.message.contains("'0000-00-00' for column 'day'"),
            "{}",
            error.message
        );
    }
}
