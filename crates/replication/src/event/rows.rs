//! WRITE_ROWS, UPDATE_ROWS and DELETE_ROWS.
//!
//! ```text
//!   table id, flags, extra data | columns | before columns | after columns | row image ... |
//!   row image = bits of the NULLs among the present columns, then the values of the others
//! ```
//!
//! An update has a pair of images for each row. Which columns an image has says `binlog_row_image`: all (`full`), the
//! key before and the changed ones after (`minimal`), all but unchanged BLOBs (`noblob`). The rows stay encoded until
//! [`RowsEvent::images`] reads them with the table's [`TableMap`].
//!
//! In PARTIAL_UPDATE_ROWS (`binlog_row_value_options = PARTIAL_JSON`) after-images contain changes of JSON documents:
//!
//! ```text
//!   image after = options | bits of the JSON columns of the table that are partial, if the options say so | row image
//!   partial value = length, then changes: operation, path, new value ([`json::apply_changes`])
//! ```
//!
//! The documents are rebuilt from the before-image, so that decoding results in an ordinary update.

use super::bytes::{put_lenenc, put_uint};
use super::value::code;
use super::{Decoded, Reader, TableMap, WireColumn, json, kind, payload};
use porpoise_types::{ColumnType, Value, ValueRef};

/// Flags of a rows event.
pub mod flags {
    /// The last event of a statement; the numbers of tables end here.
    pub const STATEMENT_END: u16 = 1;
    /// `foreign_key_checks` was off, or the cascades are logged, so that a replica must not repeat them.
    pub const NO_FOREIGN_KEY_CHECKS: u16 = 2;
    /// `unique_checks` was off.
    pub const RELAXED_UNIQUE_CHECKS: u16 = 4;
    /// Images have all columns.
    pub const COMPLETE_ROWS: u16 = 8;
}

/// Kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChangeKind {
    /// Rows were inserted: images after.
    Insert,
    /// Rows were changed: images before and after.
    Update,
    /// Rows were deleted: images before.
    Delete,
}

impl RowChangeKind {
    pub(super) fn event_kind(self) -> u8 {
        match self {
            RowChangeKind::Insert => kind::WRITE_ROWS,
            RowChangeKind::Update => kind::UPDATE_ROWS,
            RowChangeKind::Delete => kind::DELETE_ROWS,
        }
    }
}

/// A set of columns: bit `n % 8` of byte `n / 8`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ColumnBitmap {
    bytes: Vec<u8>,
    columns: usize,
}

impl ColumnBitmap {
    /// All of `columns` columns.
    #[must_use]
    pub fn all(columns: usize) -> ColumnBitmap {
        std::iter::repeat_n(true, columns).collect()
    }

    /// Number of columns, in the set or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns
    }

    /// Whether there are no columns at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns == 0
    }

    /// Number of columns in the set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.iter().filter(|is_set| *is_set).count()
    }

    /// Whether a column is in the set.
    #[must_use]
    pub fn contains(&self, column: usize) -> bool {
        column < self.columns
            && self
                .bytes
                .get(column / 8)
                .is_some_and(|byte| byte & 1 << (column % 8) != 0)
    }

    /// For each column, whether it is in the set.
    pub fn iter(&self) -> impl Iterator<Item = bool> {
        (0..self.columns).map(|column| self.contains(column))
    }

    pub(super) fn decode(
        body: &mut Reader<'_>,
        columns: usize,
        field: &'static str,
    ) -> Decoded<ColumnBitmap> {
        let bytes = body.take(columns.div_ceil(8), field)?;
        // Bits beyond the last column mean nothing and differ between servers.
        Ok((0..columns)
            .map(|at| {
                bytes
                    .get(at / 8)
                    .is_some_and(|byte| byte & 1 << (at % 8) != 0)
            })
            .collect())
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
}

impl FromIterator<bool> for ColumnBitmap {
    fn from_iter<I: IntoIterator<Item = bool>>(values: I) -> ColumnBitmap {
        let mut bitmap = ColumnBitmap::default();
        for is_set in values {
            if bitmap.columns % 8 == 0 {
                bitmap.bytes.push(0);
            }
            if let Some(last) = bitmap.bytes.last_mut()
                && is_set
            {
                *last |= 1 << (bitmap.columns % 8);
            }
            bitmap.columns += 1;
        }
        bitmap
    }
}

/// WRITE_ROWS, UPDATE_ROWS or DELETE_ROWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsEvent {
    /// Kind of change.
    pub kind: RowChangeKind,
    /// Number of the table in the TABLE_MAP before.
    pub table_id: u64,
    /// Bits of [`flags`].
    pub flags: u16,
    /// Version of the rows after the change, which memcached shows as CAS; only in Porpoise's events, in the extra data.
    pub row_version: Option<u64>,
    /// Columns of the first image: before, or after of an insert.
    pub columns: ColumnBitmap,
    /// Columns of the image after of an update.
    pub columns_after: Option<ColumnBitmap>,
    /// Whether after-images can contain changes of JSON documents (PARTIAL_UPDATE_ROWS).
    pub is_partial: bool,
    /// The images, encoded.
    pub data: Vec<u8>,
}

/// The option of an after-image that says that JSON columns may be partial.
const PARTIAL_JSON: u64 = 1;

/// Version of the format of row versions in the extra data (docs/formats.md, "Row versions in the binary log").
pub const ROW_VERSION_FORMAT_VERSION: u8 = 1;

/// Type of extra data with information for the storage engine: type, length without the type, format, contents.
const EXTRA_INFO: u8 = 0;

/// Format number of such information that MySQL reserves for other programs (ERIF_OPEN1).
const OPEN_FORMAT: u8 = 64;

/// Bytes of the extra data with a row version.
const ROW_VERSION_LEN: usize = 4 + 8;

/// The row version in extra data; `None` in that of other servers.
fn parse_row_version(extra: &[u8]) -> Option<u64> {
    let expected = [
        EXTRA_INFO,
        ROW_VERSION_LEN as u8 - 1,
        OPEN_FORMAT,
        ROW_VERSION_FORMAT_VERSION,
    ];
    let version = extra.strip_prefix(&expected)?;
    Some(u64::from_le_bytes(*version.first_chunk()?))
}

/// A rows event without its images.
#[derive(Clone, Copy, Debug)]
pub struct RowsHead<'a> {
    /// Kind of change.
    pub kind: RowChangeKind,
    /// Number of the table in the TABLE_MAP before.
    pub table_id: u64,
    /// Bits of [`flags`].
    pub flags: u16,
    /// See [`RowsEvent::row_version`].
    pub row_version: Option<u64>,
    /// The columns in the images.
    pub columns: ImageColumns<'a>,
}

/// The columns in the images of a rows event.
#[derive(Clone, Copy, Debug)]
pub enum ImageColumns<'a> {
    /// All of this number of columns, in all images.
    All(usize),
    /// Those of the first image, and of an update those of the image after.
    Some(&'a ColumnBitmap, Option<&'a ColumnBitmap>),
}

impl RowsHead<'_> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_uint(out, self.table_id, 6);
        put_uint(out, u64::from(self.flags), 2);
        match self.row_version {
            None => put_uint(out, 2, 2),
            Some(version) => {
                put_uint(out, 2 + ROW_VERSION_LEN as u64, 2);
                let head = [EXTRA_INFO, ROW_VERSION_LEN as u8 - 1, OPEN_FORMAT];
                out.extend_from_slice(&head);
                out.push(ROW_VERSION_FORMAT_VERSION);
                put_uint(out, version, 8);
            }
        }
        match self.columns {
            ImageColumns::All(count) => {
                put_lenenc(out, count as u64);
                let images = if self.kind == RowChangeKind::Update {
                    2
                } else {
                    1
                };
                for _ in 0..images {
                    put_all_bits(out, count);
                }
            }
            ImageColumns::Some(first, after) => {
                put_lenenc(out, first.len() as u64);
                first.encode(out);
                if let Some(after) = after {
                    after.encode(out);
                }
            }
        }
    }
}

/// Appends the bitmap of all of `count` columns.
fn put_all_bits(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count / 8, 0xFF);
    if !count.is_multiple_of(8) {
        out.push((1 << (count % 8)) - 1);
    }
}

/// Values of a row image. `None`: the image lacks the column.
pub type RowImage = Vec<Option<Value>>;

impl RowsEvent {
    /// An event without rows, whose images have these columns.
    #[must_use]
    pub fn new(kind: RowChangeKind, table_id: u64, columns: ColumnBitmap) -> RowsEvent {
        let columns_after = (kind == RowChangeKind::Update).then(|| columns.clone());
        RowsEvent {
            kind,
            table_id,
            flags: 0,
            row_version: None,
            columns,
            columns_after,
            is_partial: false,
            data: Vec::new(),
        }
    }

    /// Number of the event's type.
    pub(super) fn event_kind(&self) -> u8 {
        if self.is_partial {
            kind::PARTIAL_UPDATE_ROWS
        } else {
            self.kind.event_kind()
        }
    }

    /// Appends the image of a row: storage values of all columns of the table, of which those in `present` are
    /// written. An update appends two, before and after.
    pub fn push_image<'a>(
        data: &mut Vec<u8>,
        present: &ColumnBitmap,
        row: impl Iterator<Item = (ValueRef<'a>, &'a ColumnType)>,
    ) {
        let nulls = data.len();
        data.resize(nulls + present.count().div_ceil(8), 0);
        let columns = row
            .zip(present.iter())
            .filter(|(_, is_present)| *is_present);
        for (n, ((value, ty), _)) in columns.enumerate() {
            if !value.is_null() {
                WireColumn::of(ty).encode_value(value, ty, data);
            } else if let Some(byte) = data.get_mut(nulls + n / 8) {
                *byte |= 1 << (n % 8);
            }
        }
    }

    /// Appends the image of a row with all of its `count` columns.
    pub fn push_full_image<'a>(
        data: &mut Vec<u8>,
        count: usize,
        row: impl Iterator<Item = (ValueRef<'a>, &'a ColumnType)>,
    ) {
        let nulls = data.len();
        data.resize(nulls + count.div_ceil(8), 0);
        for (n, (value, ty)) in row.enumerate() {
            if !value.is_null() {
                WireColumn::of(ty).encode_value(value, ty, data);
            } else if let Some(byte) = data.get_mut(nulls + n / 8) {
                *byte |= 1 << (n % 8);
            }
        }
    }

    pub(super) fn decode(number: u8, mut body: Reader<'_>) -> Decoded<RowsEvent> {
        let change = match number {
            kind::WRITE_ROWS
            | kind::WRITE_ROWS_V1
            | kind::MARIADB_WRITE_ROWS_COMPRESSED
            | kind::MARIADB_WRITE_ROWS_COMPRESSED_V1 => RowChangeKind::Insert,
            kind::UPDATE_ROWS
            | kind::UPDATE_ROWS_V1
            | kind::PARTIAL_UPDATE_ROWS
            | kind::MARIADB_UPDATE_ROWS_COMPRESSED
            | kind::MARIADB_UPDATE_ROWS_COMPRESSED_V1 => RowChangeKind::Update,
            _ => RowChangeKind::Delete,
        };
        let has_extra = matches!(
            number,
            kind::WRITE_ROWS..=kind::DELETE_ROWS
                | kind::PARTIAL_UPDATE_ROWS
                | kind::MARIADB_WRITE_ROWS_COMPRESSED..=kind::MARIADB_DELETE_ROWS_COMPRESSED
        );
        let is_compressed = number >= kind::MARIADB_WRITE_ROWS_COMPRESSED_V1;
        let table_id = body.uint(6, "number of the table")?;
        let flags = body.u16("flags")?;
        let mut row_version = None;
        if has_extra {
            let length = body.u16("length of the extra data")?;
            let extra = body.take(usize::from(length.saturating_sub(2)), "extra data")?;
            row_version = parse_row_version(extra);
        }
        let count = body.lenenc("number of columns")?;
        // A bit for each column must follow.
        let count = usize::try_from(count)
            .ok()
            .filter(|count| count.div_ceil(8) <= body.len())
            .ok_or_else(|| body.error(format!("{count} columns")))?;
        let columns = ColumnBitmap::decode(&mut body, count, "columns")?;
        let columns_after = match change {
            RowChangeKind::Update => Some(ColumnBitmap::decode(&mut body, count, "columns after")?),
            _ => None,
        };
        let data = if is_compressed {
            payload::inflate_mariadb(&mut body)?
        } else {
            body.rest().to_vec()
        };
        Ok(RowsEvent {
            kind: change,
            table_id,
            flags,
            row_version,
            columns,
            columns_after,
            is_partial: number == kind::PARTIAL_UPDATE_ROWS,
            data,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let head = RowsHead {
            kind: self.kind,
            table_id: self.table_id,
            flags: self.flags,
            row_version: self.row_version,
            columns: ImageColumns::Some(&self.columns, self.columns_after.as_ref()),
        };
        head.encode(out);
        out.extend_from_slice(&self.data);
    }

    /// Reads the images: one for each inserted or deleted row, two for each updated one. `is_unsigned` says of a
    /// column whether its integers are unsigned, where the table map does not.
    ///
    /// # Errors
    /// Another number of columns than the table map has. The iterator's: values that do not fit their type, after
    /// which it ends.
    pub fn images<'e>(
        &'e self,
        map: &'e TableMap,
        is_unsigned: impl Fn(usize) -> bool,
    ) -> Decoded<RowImages<'e>> {
        let body = Reader::new(super::kind_name(self.event_kind()), &self.data);
        if map.columns.len() != self.columns.len() {
            return Err(body.error(format!(
                "{} columns, its table map has {}",
                self.columns.len(),
                map.columns.len()
            )));
        }
        let unsigned = (0..map.columns.len())
            .map(|column| {
                map.is_unsigned(column)
                    .unwrap_or_else(|| is_unsigned(column))
            })
            .collect();
        Ok(RowImages {
            event: self,
            map,
            unsigned,
            body,
        })
    }
}

/// The images of a rows event, one row at a time: a row may need much more memory than its bytes.
#[derive(Debug)]
pub struct RowImages<'e> {
    event: &'e RowsEvent,
    map: &'e TableMap,
    unsigned: Vec<bool>,
    body: Reader<'e>,
}

impl RowImages<'_> {
    fn row(&mut self) -> Decoded<(RowImage, Option<RowImage>)> {
        let (map, unsigned) = (self.map, &self.unsigned);
        let before = self.body.len();
        let first = decode_image(&mut self.body, map, &self.event.columns, unsigned)?;
        let second = match &self.event.columns_after {
            Some(columns) if self.event.is_partial => Some(decode_partial_image(
                &mut self.body,
                map,
                columns,
                unsigned,
                &first,
            )?),
            Some(columns) => Some(decode_image(&mut self.body, map, columns, unsigned)?),
            None => None,
        };
        if self.body.len() == before {
            return Err(self.body.error("images without columns"));
        }
        Ok((first, second))
    }
}

impl Iterator for RowImages<'_> {
    type Item = Decoded<(RowImage, Option<RowImage>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.body.is_empty() {
            return None;
        }
        let row = self.row();
        if row.is_err() {
            self.body.rest();
        }
        Some(row)
    }
}

fn decode_image(
    body: &mut Reader<'_>,
    map: &TableMap,
    present: &ColumnBitmap,
    unsigned: &[bool],
) -> Decoded<RowImage> {
    let nulls = ColumnBitmap::decode(body, present.count(), "NULLs")?;
    let mut written = 0;
    let mut image = Vec::with_capacity(map.columns.len());
    for ((column, is_present), unsigned) in map.columns.iter().zip(present.iter()).zip(unsigned) {
        if !is_present {
            image.push(None);
            continue;
        }
        let value = if nulls.contains(written) {
            Value::Null
        } else {
            column.decode_value(*unsigned, body)?
        };
        written += 1;
        image.push(Some(value));
    }
    Ok(image)
}

/// Decodes an after-image that may have changes of JSON documents instead of their values.
fn decode_partial_image(
    body: &mut Reader<'_>,
    map: &TableMap,
    present: &ColumnBitmap,
    unsigned: &[bool],
    before: &RowImage,
) -> Decoded<RowImage> {
    let options = body.lenenc("options of the values")?;
    if options & !PARTIAL_JSON != 0 {
        return Err(body.error(format!("the options {options} of its values are not known")));
    }
    if options == 0 {
        return decode_image(body, map, present, unsigned);
    }
    let is_json = |column: &&WireColumn| column.code == code::JSON;
    let documents = map.columns.iter().filter(is_json).count();
    let partial = ColumnBitmap::decode(body, documents, "partial columns")?;
    let nulls = ColumnBitmap::decode(body, present.count(), "NULLs")?;
    let (mut written, mut document) = (0, 0);
    let mut image = Vec::with_capacity(map.columns.len());
    for (at, column) in map.columns.iter().enumerate() {
        let is_partial = is_json(&column) && partial.contains(document);
        document += usize::from(is_json(&column));
        if !present.contains(at) {
            image.push(None);
            continue;
        }
        let value = if nulls.contains(written) {
            Value::Null
        } else if is_partial {
            let changes = body.uint(usize::from(column.metadata), "length of changes")?;
            let changes = usize::try_from(changes).unwrap_or(usize::MAX);
            let changes = body.take(changes, "changes of a JSON document")?;
            match before.get(at) {
                Some(Some(Value::Bytes(text))) => Value::Bytes(json::apply_changes(text, changes)?),
                _ => {
                    let what = "changes of a JSON document that the image before lacks: set binlog_row_image = FULL, or \
                                binlog_row_value_options = '' at the source";
                    return Err(body.error(what));
                }
            }
        } else {
            let is_unsigned = unsigned.get(at).copied().unwrap_or(false);
            column.decode_value(is_unsigned, body)?
        };
        written += 1;
        image.push(Some(value));
    }
    Ok(image)
}
