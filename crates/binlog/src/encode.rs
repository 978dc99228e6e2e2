//! Encodes changes of rows and statements as events, for the annotation of their commit.
//!
//! Images follow `binlog_row_image`. Consecutive changes of one kind to one table, with the same columns, share a
//! rows event up to [`MAX_ROWS_BYTES`]; each rows event has a TABLE_MAP before it and ends its statement, so that a
//! reader needs to remember nothing. Foreign-key actions are in the log as changes of their own, so rows events are
//! flagged: a replica does not check or cascade again.
//!
//! | image | before | after |
//! |---|---|---|
//! | full | all columns | all columns |
//! | noblob | all but large columns outside of the primary key | all but large columns that did not change |
//! | minimal | the primary key | the columns that changed; of an insert all |
//!
//! A table without a primary key always has all columns before, as on MySQL.

use crate::annotation::{Annotation, Kind};
use crate::pending_keys::PendingKeys;
use parking_lot::RwLock;
use porpoise_kv::CommitPosition;
use porpoise_replication::event::rows::{ImageColumns as WrittenColumns, flags};
use porpoise_replication::event::{
    ColumnBitmap, ColumnMetadata, Event, EventOptions, EventWriter, MapColumn, QueryEvent,
    RowChangeKind, RowsEvent, RowsHead, StatusVariables, TableMap,
};
use porpoise_replication::gtid::{Gtid, Uuid};
use porpoise_rows::changes::{
    Change, ChangeKind, ChangeLog, ChangedKeys, ImageColumns, LoggedChange, LoggedStatement,
    Origin, TransactionChanges, is_system_database,
};
use porpoise_rows::definition::TableId;
use porpoise_rows::table::Table;
use porpoise_types::{ColumnType, Kind as TypeKind, ValueRef};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Bytes of images at which a rows event ends.
const MAX_ROWS_BYTES: usize = 64 << 10;

/// Number of tables whose TABLE_MAP events are kept.
const MAX_DESCRIPTIONS: usize = 4096;

/// Collation of statements in the log: utf8mb4_general_ci, which every replica has.
const UTF8MB4: u16 = 45;

/// The columns in the images: `binlog_row_image`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RowImage {
    /// All.
    #[default]
    Full,
    /// All but large columns that neither identify the row nor changed.
    NoBlob,
    /// Before, the primary key; after, what changed.
    Minimal,
}

impl RowImage {
    /// Reads a value of `binlog_row_image`.
    #[must_use]
    pub fn parse(text: &str) -> Option<RowImage> {
        [
            ("full", RowImage::Full),
            ("noblob", RowImage::NoBlob),
            ("minimal", RowImage::Minimal),
        ]
        .into_iter()
        .find(|(name, _)| text.eq_ignore_ascii_case(name))
        .map(|(_, image)| image)
    }
}

/// TABLE_MAP events of tables, by number and version.
type Descriptions = HashMap<(TableId, u32), Arc<[u8]>>;

/// The encoder of a server.
pub struct Encoder {
    server_id: AtomicU32,
    image: AtomicU8,
    metadata: ColumnMetadata,
    descriptions: RwLock<Descriptions>,
    /// Receiver of the keys of commits; `None`: they are not passed on.
    pending_keys: Option<Arc<PendingKeys>>,
}

impl Encoder {
    /// Creates the encoder of the server with this number. `metadata` is `binlog_row_metadata`.
    #[must_use]
    pub fn new(server_id: u32, image: RowImage, metadata: ColumnMetadata) -> Encoder {
        let encoder = Encoder {
            server_id: AtomicU32::new(server_id),
            image: AtomicU8::new(0),
            metadata,
            descriptions: RwLock::default(),
            pending_keys: None,
        };
        encoder.set_image(image);
        encoder
    }

    /// Sets the receiver of the keys of commits.
    #[must_use]
    pub fn with_pending_keys(mut self, keys: Arc<PendingKeys>) -> Encoder {
        self.pending_keys = Some(keys);
        self
    }

    /// Sets `binlog_row_image`.
    pub fn set_image(&self, image: RowImage) {
        let number = match image {
            RowImage::Full => 0,
            RowImage::NoBlob => 1,
            RowImage::Minimal => 2,
        };
        self.image.store(number, Ordering::Relaxed);
    }

    fn image(&self) -> RowImage {
        match self.image.load(Ordering::Relaxed) {
            0 => RowImage::Full,
            1 => RowImage::NoBlob,
            _ => RowImage::Minimal,
        }
    }

    /// The TABLE_MAP event of a table; its header has neither time nor server yet.
    fn table_map(&self, table: &Table) -> Arc<[u8]> {
        let described: Vec<MapColumn<'_>> = columns(table)
            .map(|(_, column)| MapColumn {
                name: &column.name,
                ty: &column.ty,
                nullable: column.nullable,
                visible: !column.invisible,
            })
            .collect();
        // Positions among the logged columns.
        let position = |at: usize| columns(table).position(|(n, _)| n == at);
        let parts = table.indexes.first().filter(|_| !table.hidden_key);
        let primary: Vec<(u32, u32)> = parts
            .iter()
            .flat_map(|index| &index.parts)
            .filter_map(|part| Some((position(part.column)? as u32, part.prefix.unwrap_or(0))))
            .collect();
        let map = TableMap::of_table(
            table.id.0 & 0xffff_ffff_ffff,
            &table.database,
            &table.name,
            &described,
            &primary,
            self.metadata,
        );
        // Only the body is kept: the time and the server in the header differ from event to event.
        let mut event = Vec::new();
        let map = Event::TableMap(Box::new(map));
        self.writer(None)
            .write_unsealed(&mut event, None, EventOptions::default(), &map);
        event.into()
    }

    fn writer(&self, origin: Option<&Origin>) -> EventWriter {
        let own = self.server_id.load(Ordering::Relaxed);
        EventWriter {
            server_id: origin.map_or(own, |origin| origin.server_id),
            has_checksums: true,
        }
    }
}

/// The columns of a table that are in the log: not those of functional key parts.
fn columns(
    table: &Table,
) -> impl Iterator<Item = (usize, &porpoise_rows::definition::Column)> + Clone {
    let columns = table.columns.iter().enumerate();
    columns.filter(|(_, column)| !column.is_hidden())
}

fn is_large(ty: &ColumnType) -> bool {
    matches!(
        ty.kind,
        TypeKind::TinyBlob
            | TypeKind::Blob
            | TypeKind::MediumBlob
            | TypeKind::LongBlob
            | TypeKind::TinyText
            | TypeKind::Text
            | TypeKind::MediumText
            | TypeKind::LongText
            | TypeKind::Json
    )
}

/// Whether a column belongs to the primary key.
fn identifies(table: &Table, position: usize) -> bool {
    let primary = table.indexes.first().filter(|_| !table.hidden_key);
    primary.is_some_and(|index| index.parts.iter().any(|part| part.column == position))
}

/// Options of events of this time.
fn options(micros: u64, flags: u16) -> EventOptions {
    EventOptions {
        timestamp: u32::try_from(micros / 1_000_000).unwrap_or(u32::MAX),
        flags,
    }
}

fn gtid_of(origin: Option<&Origin>) -> Option<Gtid> {
    let (source, number) = origin?.gtid?;
    Some(Gtid::new(Uuid(source), number))
}

fn event_kind(kind: ChangeKind) -> RowChangeKind {
    match kind {
        ChangeKind::Insert => RowChangeKind::Insert,
        ChangeKind::Update => RowChangeKind::Update,
        ChangeKind::Delete => RowChangeKind::Delete,
    }
}

impl ChangeLog for Encoder {
    fn describe(&self, table: &Table) -> Option<Arc<[u8]>> {
        if is_system_database(&table.database) {
            return None;
        }
        let key = (table.id, table.version);
        if let Some(known) = self.descriptions.read().get(&key) {
            return Some(known.clone());
        }
        let description = self.table_map(table);
        let mut all = self.descriptions.write();
        if all.len() >= MAX_DESCRIPTIONS {
            all.clear();
        }
        all.insert(key, description.clone());
        Some(description)
    }

    fn encode(
        &self,
        table: &Table,
        change: &Change<'_>,
        out: &mut Vec<u8>,
    ) -> Option<ImageColumns> {
        let image = self.image();
        if image == RowImage::Full {
            return encode_full(table, change, out);
        }
        let has_key = !table.hidden_key;
        let present = |is_logged: &dyn Fn(usize, &ColumnType) -> bool| -> Vec<bool> {
            let logged = columns(table).map(|(at, column)| is_logged(at, &column.ty));
            logged.collect()
        };
        let before = || -> Vec<bool> {
            match image {
                RowImage::Minimal if has_key => present(&|at, _| identifies(table, at)),
                RowImage::NoBlob if has_key => {
                    present(&|at, ty| !is_large(ty) || identifies(table, at))
                }
                _ => present(&|_, _| true),
            }
        };
        match change {
            Change::Insert(new) => {
                let bits = present(&|_, _| true);
                push_image(table, out, &bits, |at| new.get(at));
                Some(bits)
            }
            Change::Delete(old) => {
                let bits = before();
                push_image(table, out, &bits, |at| old.get(at));
                Some(bits)
            }
            Change::Update(old, new) => {
                let differs = |at: usize| old.get(at) != new.get(at);
                if !columns(table).any(|(at, _)| differs(at)) {
                    return None;
                }
                let mut bits = before();
                let after = match image {
                    RowImage::Full => present(&|_, _| true),
                    RowImage::NoBlob => present(&|at, ty| !is_large(ty) || differs(at)),
                    RowImage::Minimal => present(&|at, _| differs(at)),
                };
                push_image(table, out, &bits, |at| old.get(at));
                push_image(table, out, &after, |at| new.get(at));
                bits.extend(after);
                Some(bits)
            }
        }
    }

    fn transaction(&self, changes: &TransactionChanges, micros: i64) -> Vec<u8> {
        let origin = changes.origin.as_ref();
        let micros = origin.map_or(u64::try_from(micros).unwrap_or(0), |o| o.commit_micros);
        let writer = self.writer(origin);
        let options = options(micros, 0);
        let mut out = Vec::with_capacity(changes.bytes() + 512);
        Annotation {
            kind: Kind::Rows,
            server_id: writer.server_id,
            micros,
            gtid: gtid_of(origin),
            events: &[],
        }
        .encode(&mut out);
        let mut changes = changes.iter().peekable();
        while let Some(first) = changes.next() {
            writer.write_again(&mut out, first.description, options.timestamp);
            let bits = ImageBits::of(&first);
            let head = bits.head(&first);
            writer.write_rows_unsealed(&mut out, options, &head, |out| {
                let start = out.len();
                out.extend_from_slice(first.images);
                while out.len() - start < MAX_ROWS_BYTES
                    && let Some(next) = changes.next_if(|next| is_continued(&first, next))
                {
                    out.extend_from_slice(next.images);
                }
            });
        }
        out
    }

    fn committed(&self, position: CommitPosition, keys: ChangedKeys) {
        if let Some(pending) = &self.pending_keys {
            pending.note(position.0, keys);
        }
    }

    fn statement(&self, statement: &LoggedStatement) -> Vec<u8> {
        let origin = statement.origin.as_ref();
        let writer = self.writer(origin);
        let micros = u64::try_from(statement.micros).unwrap_or(0);
        let checks = if statement.foreign_key_checks {
            0
        } else {
            porpoise_replication::event::query::flags2::NO_FOREIGN_KEY_CHECKS
        };
        let query = QueryEvent {
            thread_id: statement.connection,
            variables: StatusVariables {
                flags2: Some(checks),
                sql_mode: Some(statement.sql_mode),
                charset: Some((UTF8MB4, UTF8MB4, UTF8MB4)),
                time_zone: (!statement.time_zone.is_empty())
                    .then(|| statement.time_zone.clone().into_bytes()),
                microseconds: Some((micros % 1_000_000) as u32),
                // The writer puts the commit's number here.
                ddl_xid: Some(0),
                ..StatusVariables::default()
            },
            database: statement.database.clone().into_bytes(),
            text: statement.text.clone(),
            ..QueryEvent::default()
        };
        let mut out = Vec::with_capacity(statement.text.len() + 256);
        Annotation {
            kind: Kind::Statement,
            server_id: writer.server_id,
            micros: origin.map_or(micros, |origin| origin.commit_micros),
            gtid: gtid_of(origin),
            events: &[],
        }
        .encode(&mut out);
        let flags = if statement.database.is_empty() {
            porpoise_replication::event::flags::SUPPRESS_USE
        } else {
            0
        };
        writer.write(&mut out, None, options(micros, flags), &Event::Query(query));
        out
    }
}

/// Appends the images of a change with all columns.
fn encode_full(table: &Table, change: &Change<'_>, out: &mut Vec<u8>) -> Option<ImageColumns> {
    let count = columns(table).count();
    match change {
        Change::Insert(new) => push_all(table, out, count, |at| new.get(at)),
        Change::Delete(old) => push_all(table, out, count, |at| old.get(at)),
        Change::Update(old, new) => {
            if !columns(table).any(|(at, _)| old.get(at) != new.get(at)) {
                return None;
            }
            push_all(table, out, count, |at| old.get(at));
            push_all(table, out, count, |at| new.get(at));
        }
    }
    Some(ImageColumns::new())
}

/// Appends the image of a row with all columns.
fn push_all<'v>(
    table: &'v Table,
    out: &mut Vec<u8>,
    count: usize,
    get: impl Fn(usize) -> ValueRef<'v>,
) {
    let row = columns(table).map(|(at, column)| (get(at), &column.ty));
    RowsEvent::push_full_image(out, count, row);
}

/// Appends the image of a row, with the columns whose bits are set.
fn push_image<'v>(
    table: &'v Table,
    out: &mut Vec<u8>,
    bits: &[bool],
    get: impl Fn(usize) -> ValueRef<'v> + Copy,
) {
    let bitmap: ColumnBitmap = bits.iter().copied().collect();
    let row = columns(table).map(|(at, column)| (get(at), &column.ty));
    RowsEvent::push_image(out, &bitmap, row);
}

/// Whether a change is written into the same event as the one before.
fn is_continued(first: &LoggedChange<'_>, next: &LoggedChange<'_>) -> bool {
    next.table == first.table
        && next.kind == first.kind
        && next.columns == first.columns
        && next.version == first.version
}

/// The columns in the images of a change.
enum ImageBits {
    All(usize),
    Some(ColumnBitmap, Option<ColumnBitmap>),
}

impl ImageBits {
    fn of(change: &LoggedChange<'_>) -> ImageBits {
        if change.columns.is_empty() {
            return ImageBits::All(column_count(change.description));
        }
        let bitmap = |bits: &[bool]| bits.iter().copied().collect();
        match change.kind {
            ChangeKind::Update => {
                let (before, after) = change.columns.split_at(change.columns.len() / 2);
                ImageBits::Some(bitmap(before), Some(bitmap(after)))
            }
            ChangeKind::Insert | ChangeKind::Delete => {
                ImageBits::Some(bitmap(change.columns), None)
            }
        }
    }

    /// The event for changes like this one.
    fn head(&self, change: &LoggedChange<'_>) -> RowsHead<'_> {
        RowsHead {
            kind: event_kind(change.kind),
            table_id: table_id(change.description),
            flags: flags::STATEMENT_END | flags::NO_FOREIGN_KEY_CHECKS,
            row_version: (change.version > 0).then_some(change.version),
            columns: match self {
                ImageBits::All(count) => WrittenColumns::All(*count),
                ImageBits::Some(before, after) => WrittenColumns::Some(before, after.as_ref()),
            },
        }
    }
}

/// The number of the table in a TABLE_MAP event: the first six bytes after the header.
fn table_id(map: &[u8]) -> u64 {
    let id = map.get(19..25).unwrap_or_default();
    id.iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The number of columns in a TABLE_MAP event. It follows the number of the table, the flags and two names; a name has
/// its length before it and a zero after it.
fn column_count(map: &[u8]) -> usize {
    let mut rest = map.get(27..).unwrap_or_default();
    for _ in 0..2 {
        let length = rest.first().map_or(0, |length| usize::from(*length));
        rest = rest.get(length + 2..).unwrap_or_default();
    }
    match rest {
        // More than 250 columns have a longer number: the byte 252, then two.
        [252, low, high, ..] => usize::from(u16::from_le_bytes([*low, *high])),
        [count, ..] => usize::from(*count),
        [] => 0,
    }
}
