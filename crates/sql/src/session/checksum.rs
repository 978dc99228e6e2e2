//! CHECKSUM TABLE (manual, "CHECKSUM TABLE Statement").
//!
//! The checksum is MySQL's: for each row a CRC-32 over the row in the record format of the server's
//! table buffer, and the sum of these modulo 2^32, which does not depend on the order of the rows.
//!
//! ```text
//! flags of NULL columns | column | column | ...
//! ```
//!
//! A table without columns of variable length, and without ROW_FORMAT = DYNAMIC, has a flag of its
//! own before those of the columns; it and the unused bits of the last byte are 1. VARCHAR, TEXT,
//! BLOB, JSON and BIT columns count with the bytes of their value, others with those of their field.
//! A column that is NULL counts with the bytes of its default, or of an empty field (MariaDB leaves
//! it out).
//!
//! The rows come from a SELECT of the table, so that snapshots, locks and KILL apply to it.

use super::{Outcome, SqlSession};
use crate::results::table::{Rows, number_column, text_column};
use bumpalo::Bump;
use flate2::Crc;
use porpoise_rows::catalog::{Column, ColumnDefault, GeneratedKind, Table};
use porpoise_rows::show::quote;
use porpoise_sql_exec::exec::ResultSink;
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::Maintain;
use porpoise_sql_parser::{ParseOptions, parse_one};
use porpoise_sql_plan::plan::ResultColumn;
use porpoise_types::{ColumnType, Date, DateTime, Decimal, Kind, Time, TimeZone, Value, ValueRef};
use std::sync::Arc;

impl SqlSession {
    /// CHECKSUM TABLE. With QUICK there is no result, as of InnoDB, which keeps no checksums.
    pub(super) fn checksum(
        &mut self,
        maintain: &Maintain<'_>,
        sink: &mut dyn ResultSink,
    ) -> Result<Outcome> {
        let quick = maintain.options.contains(&"QUICK");
        let mut rows = Rows::new(vec![text_column("Table", 128), number_column("Checksum")]);
        let mut position = porpoise_kv::CommitPosition::NONE;
        for name in maintain.tables {
            let (database, name) = self.cx.qualified(name)?;
            let full = format!("{database}.{name}");
            let catalog = self.cx.catalog();
            let value = if catalog.view(&database, &name).is_some() {
                self.cx.warn(1347, format!("'{full}' is not BASE TABLE"));
                Value::Null
            } else if let Some(table) = catalog.table(&database, &name).cloned() {
                if quick {
                    Value::Null
                } else {
                    let (checksum, seen) = self.checksum_of(&database, &table)?;
                    position = position.max(seen);
                    Value::UInt(u64::from(checksum))
                }
            } else {
                let missing = SqlError::no_table(&database, &name);
                self.cx.warn(missing.code, missing.message);
                Value::Null
            };
            rows.push(vec![Value::Bytes(full.into_bytes()), value]);
        }
        let mut outcome = rows.send(&mut self.cx, sink)?;
        outcome.position = position;
        Ok(outcome)
    }

    /// The checksum of a table, and the newest commit that it reveals.
    fn checksum_of(
        &mut self,
        database: &str,
        table: &Arc<Table>,
    ) -> Result<(u32, porpoise_kv::CommitPosition)> {
        let format = RecordFormat::of(table);
        let text = format.query(database, &table.name);
        let arena = Bump::new();
        let parsed = parse_one(&arena, text.as_bytes(), 0, &ParseOptions::default());
        let parsed = parsed.map_err(|error| SqlError::syntax(&error, text.as_bytes()))?;
        let mut sink = ChecksumSink {
            format: &format,
            record: Vec::new(),
            sum: 0,
        };
        // The fields of TIMESTAMP columns are in UTC.
        let zone = std::mem::replace(&mut self.cx.env.time_zone, TimeZone::UTC);
        let done = self.run_statement(&parsed.statement, text.as_bytes(), &[], &[], &mut sink);
        self.cx.env.time_zone = zone;
        Ok((sink.sum, done?.position))
    }
}

/// A column of a record.
struct RecordField<'t> {
    name: &'t str,
    ty: &'t ColumnType,
    nullable: bool,
    /// The bytes that count if it is NULL.
    absent: Vec<u8>,
}

/// The record format of a table.
struct RecordFormat<'t> {
    fields: Vec<RecordField<'t>>,
    /// Whether there is a flag before those of the columns.
    has_row_flag: bool,
    flag_bytes: usize,
    /// Bits of the last flag byte that are always 1.
    unused: u8,
}

impl<'t> RecordFormat<'t> {
    fn of(table: &'t Table) -> RecordFormat<'t> {
        let stored = |c: &&Column| {
            let kind = c.generated.as_ref().map(|g| g.kind);
            !matches!(
                kind,
                Some(GeneratedKind::KeyPart | GeneratedKind::ArrayPart)
            )
        };
        let fields = table.columns.iter().filter(stored).map(|c| RecordField {
            name: &c.name,
            ty: &c.ty,
            nullable: c.nullable,
            absent: absent_field(c),
        });
        let fields: Vec<RecordField<'_>> = fields.collect();
        let dynamic = |(name, value): &(String, String)| {
            name == "ROW_FORMAT" && value.eq_ignore_ascii_case("DYNAMIC")
        };
        let is_dynamic = table.options.other.iter().any(dynamic);
        let has_row_flag = !is_dynamic && !fields.iter().any(|f| is_variable(f.ty.kind));
        let flags = usize::from(has_row_flag) + fields.iter().filter(|f| f.nullable).count();
        RecordFormat {
            has_row_flag,
            flag_bytes: flags.div_ceil(8),
            // Flags that fill their bytes leave no bits unused.
            unused: match flags % 8 {
                0 => 0,
                used => u8::MAX << used,
            },
            fields,
        }
    }

    /// The SELECT whose rows are those of the table, in the forms that [`append_field`] takes.
    fn query(&self, database: &str, table: &str) -> String {
        let items = self.fields.iter().map(|f| {
            let name = quote(f.name);
            match f.ty.kind {
                Kind::Enum | Kind::Set | Kind::Bit | Kind::Year => format!("{name}+0"),
                _ => name,
            }
        });
        let items: Vec<String> = items.collect();
        format!(
            "SELECT {} FROM {}.{}",
            items.join(","),
            quote(database),
            quote(table)
        )
    }
}

/// Takes the rows of a table.
struct ChecksumSink<'f> {
    format: &'f RecordFormat<'f>,
    record: Vec<u8>,
    sum: u32,
}

impl ResultSink for ChecksumSink<'_> {
    fn is_for_client(&self) -> bool {
        false
    }

    fn columns(&mut self, _columns: &[ResultColumn]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        let format = self.format;
        self.record.clear();
        self.record.resize(format.flag_bytes, 0);
        let mut flag = usize::from(format.has_row_flag);
        if let Some(first) = self.record.first_mut() {
            *first |= u8::from(format.has_row_flag);
        }
        for (field, value) in format.fields.iter().zip(values) {
            if field.nullable {
                if let (ValueRef::Null, Some(byte)) = (value, self.record.get_mut(flag / 8)) {
                    *byte |= 1 << (flag % 8);
                }
                flag += 1;
            }
        }
        if let Some(last) = self.record.last_mut() {
            *last |= format.unused;
        }
        for (field, value) in format.fields.iter().zip(values) {
            match value {
                ValueRef::Null => self.record.extend_from_slice(&field.absent),
                value => append_field(field.ty, *value, &mut self.record),
            }
        }
        let mut crc = Crc::new();
        crc.update(&self.record);
        self.sum = self.sum.wrapping_add(crc.sum());
        Ok(())
    }
}

/// Whether fields of this kind make a record one of variable length.
fn is_variable(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::VarChar
            | Kind::VarBinary
            | Kind::TinyText
            | Kind::Text
            | Kind::MediumText
            | Kind::LongText
            | Kind::TinyBlob
            | Kind::Blob
            | Kind::MediumBlob
            | Kind::LongBlob
            | Kind::Json
    )
}

/// The field of a column that is NULL: its default, or an empty field.
fn absent_field(column: &Column) -> Vec<u8> {
    let mut field = Vec::new();
    let empty = match column.ty.kind {
        kind if is_variable(kind) => return literal_field(column),
        Kind::Float | Kind::Double => Value::Double(0.0),
        Kind::Decimal => Value::Decimal(Decimal::from_u64(0)),
        Kind::Date => Value::Date(Date::ZERO),
        Kind::DateTime | Kind::Timestamp => Value::DateTime(DateTime::ZERO),
        Kind::Time => Value::Time(Time::ZERO),
        Kind::Char | Kind::Binary => Value::Bytes(Vec::new()),
        _ => Value::UInt(0),
    };
    let value = match &column.default {
        ColumnDefault::Literal(value) => value,
        _ => &empty,
    };
    append_field(&column.ty, value.as_ref(), &mut field);
    field
}

fn literal_field(column: &Column) -> Vec<u8> {
    match &column.default {
        ColumnDefault::Literal(Value::Bytes(bytes)) => bytes.clone(),
        _ => Vec::new(),
    }
}

/// Appends the bytes that a value counts with.
fn append_field(ty: &ColumnType, value: ValueRef<'_>, out: &mut Vec<u8>) {
    match (ty.kind, value) {
        (Kind::Float, ValueRef::Double(v)) => out.extend((v as f32).to_le_bytes()),
        (Kind::Double, ValueRef::Double(v)) => out.extend(v.to_le_bytes()),
        (Kind::Decimal, ValueRef::Decimal(v)) => append_decimal(ty, v, out),
        (Kind::Date, ValueRef::Date(v)) => {
            let packed = u32::from(v.day()) | u32::from(v.month()) << 5 | u32::from(v.year()) << 9;
            append_low(u64::from(packed), 3, out);
        }
        (Kind::DateTime, ValueRef::DateTime(v)) => {
            let month = u64::from(v.year()) * 13 + u64::from(v.month());
            let day = month << 5 | u64::from(v.day());
            let time = u64::from(v.hour()) << 12 | u64::from(v.minute()) << 6;
            let whole = (1 << 39) | day << 17 | time | u64::from(v.second());
            append_high(whole, 5, out);
            append_fraction(u64::from(v.micros()), ty.decimals, out);
        }
        (Kind::Timestamp, ValueRef::DateTime(v)) => {
            let micros = if v.is_zero_date() {
                0
            } else {
                v.to_unix_micros()
            };
            let seconds = u64::try_from(micros.div_euclid(1_000_000)).unwrap_or_default();
            append_high(seconds, 4, out);
            append_fraction(u64::from(v.micros()), ty.decimals, out);
        }
        (Kind::Time, ValueRef::Time(v)) => append_time(v, ty.decimals, out),
        (Kind::Year, ValueRef::UInt(_) | ValueRef::Int(_)) => {
            let year = integer_bits(value);
            append_low(year.saturating_sub(1900), 1, out);
        }
        (Kind::Bit, ValueRef::UInt(_) | ValueRef::Int(_)) => {
            append_high(integer_bits(value), ty.length.div_ceil(8) as usize, out);
        }
        (kind, ValueRef::UInt(_) | ValueRef::Int(_)) => {
            append_low(
                integer_bits(value),
                integer_bytes(kind, ty.members.len()),
                out,
            );
        }
        (Kind::Enum | Kind::Set, ValueRef::Double(v)) => {
            append_low(v as u64, integer_bytes(ty.kind, ty.members.len()), out);
        }
        (Kind::Char | Kind::Binary, ValueRef::Bytes(v)) => append_padded(ty, v, out),
        (_, ValueRef::Bytes(v)) => out.extend_from_slice(&ty.collation.charset().encoded(v)),
        _ => {}
    }
}

fn integer_bits(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Int(v) => v.cast_unsigned(),
        ValueRef::UInt(v) => v,
        _ => 0,
    }
}

/// Bytes of a field of integers, or of ENUM and SET with this number of members.
fn integer_bytes(kind: Kind, members: usize) -> usize {
    match kind {
        Kind::TinyInt => 1,
        Kind::SmallInt => 2,
        Kind::MediumInt => 3,
        Kind::Int => 4,
        Kind::Enum => 1 + usize::from(members > 255),
        Kind::Set => match members.div_ceil(8) {
            bytes @ 0..=4 => bytes,
            _ => 8,
        },
        _ => 8,
    }
}

/// Appends the low bytes of a number, the lowest first.
fn append_low(value: u64, bytes: usize, out: &mut Vec<u8>) {
    out.extend(value.to_le_bytes().into_iter().take(bytes));
}

/// Appends the low bytes of a number, the highest of them first.
fn append_high(value: u64, bytes: usize, out: &mut Vec<u8>) {
    out.extend(
        value
            .to_be_bytes()
            .into_iter()
            .skip(8_usize.saturating_sub(bytes)),
    );
}

/// Appends the fraction of a second: two digits a byte.
fn append_fraction(micros: u64, decimals: u8, out: &mut Vec<u8>) {
    let bytes = usize::from(decimals.div_ceil(2));
    let unit = 10_u64.pow(6 - 2 * bytes.min(3) as u32);
    append_high(micros / unit, bytes, out);
}

/// Appends a TIME: hours, minutes, seconds and the fraction as one number, plus an offset that keeps
/// negative times in order.
fn append_time(time: Time, decimals: u8, out: &mut Vec<u8>) {
    let bytes = usize::from(decimals.div_ceil(2));
    let whole =
        u64::from(time.hour()) << 12 | u64::from(time.minute()) << 6 | u64::from(time.second());
    let unit = 10_u64.pow(6 - 2 * bytes.min(3) as u32);
    let packed = (whole << (8 * bytes)) | (u64::from(time.micros()) / unit);
    let offset = 0x80_0000_u64 << (8 * bytes);
    let packed = if time.is_negative() {
        offset.wrapping_sub(packed)
    } else {
        offset + packed
    };
    append_high(packed, 3 + bytes, out);
}

/// Appends a string, padded to the size of the field: with spaces, or zero bytes for BINARY.
fn append_padded(ty: &ColumnType, value: &[u8], out: &mut Vec<u8>) {
    let charset = ty.collation.charset();
    let start = out.len();
    out.extend_from_slice(&charset.encoded(value));
    if ty.kind == Kind::Binary || ty.is_binary() {
        out.resize(start + ty.length as usize, 0);
        return;
    }
    let size = ty.length as usize * charset.max_len() as usize;
    let space = charset.encoded(b" ");
    while out.len() - start + space.len() <= size {
        out.extend_from_slice(&space);
    }
}

/// Appends a DECIMAL in MySQL's binary form: groups of nine digits in four bytes, the first group of
/// the whole part and the last of the fraction in fewer. The sign bit is inverted, and all bits of a
/// negative number are.
fn append_decimal(ty: &ColumnType, value: Decimal, out: &mut Vec<u8>) {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let text = value.to_string();
    let text = text.trim_start_matches('-');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let scale = usize::from(ty.decimals);
    let whole_digits = (ty.length as usize).saturating_sub(scale);
    let whole = format!("{:0>whole_digits$}", whole.trim_start_matches('0'));
    let fraction = format!("{fraction:0<scale$}");
    let start = out.len();
    let mut append = |digits: &str| {
        let bytes = BYTES.get(digits.len()).copied().unwrap_or(4);
        append_high(digits.parse().unwrap_or_default(), bytes, out);
    };
    let (first, rest) = whole.split_at(whole_digits % 9);
    append(first);
    chunks_of_nine(rest).for_each(&mut append);
    chunks_of_nine(&fraction).for_each(&mut append);
    let negative = value.is_negative() && !value.is_zero();
    let record = out.get_mut(start..).unwrap_or_default();
    if negative {
        record.iter_mut().for_each(|byte| *byte = !*byte);
    }
    if let Some(first) = record.first_mut() {
        *first ^= 0x80;
    }
}

/// Digits in groups of nine, the last of which may be shorter.
fn chunks_of_nine(digits: &str) -> impl Iterator<Item = &str> {
    let starts = (0..digits.len()).step_by(9);
    starts.filter_map(|at| digits.get(at..(at + 9).min(digits.len())))
}
