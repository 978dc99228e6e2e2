//! Read requests of any dialect, and the format of their replies.
//!
//! Consecutive reads in a connection's buffer are collected in
//! a [`ReadBatch`] and answered together ([`crate::read`]).

use crate::cache::Cache;
use crate::container::Container;
use crate::context::ListenerState;
use crate::item_metadata::{ItemId, ItemMark, ItemMetadata};
use porpoise_base::clock::Clock;
use porpoise_rows::RowRef;
use porpoise_rows::catalog::TableId;
use porpoise_wire::memcached::command::Item;
use porpoise_wire::memcached::meta::{self, ReplyFormat};
use porpoise_wire::memcached::meta_reply::{self, Hit, RefreshState};
use porpoise_wire::memcached::{Keys, binary, binary_reply, reply};
use smallvec::SmallVec;

/// Pseudo table id of items in the memory cache.
pub(crate) const CACHE_TABLE: TableId = TableId(u64::MAX);

/// Maximum number of reads of a batch.
pub const MAX_BATCHED_READS: usize = 64;

/// Reads that are answered together.
pub type ReadBatch<'a> = SmallVec<[ReadRequest<'a>; 4]>;

/// The keys of a read.
#[derive(Clone, Copy, Debug)]
pub enum RequestKeys<'a> {
    /// Any number of keys.
    Several(Keys<'a>),
    /// One key; `None` after the iterator has returned it.
    One(Option<&'a [u8]>),
}

impl<'a> Iterator for RequestKeys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        match self {
            RequestKeys::Several(keys) => keys.next(),
            RequestKeys::One(key) => key.take(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            RequestKeys::Several(keys) => keys.size_hint(),
            RequestKeys::One(key) => (usize::from(key.is_some()), Some(usize::from(key.is_some()))),
        }
    }
}

impl ExactSizeIterator for RequestKeys<'_> {}

/// Format of the items of a read.
#[derive(Clone, Copy, Debug)]
pub enum Style<'a> {
    /// `get` or `gets`.
    Ascii {
        /// Whether replies include versions (`gets`).
        cas: bool,
    },
    /// `mg`.
    Meta(meta::Get<'a>),
    /// `me`.
    Debug(ReplyFormat<'a>),
    /// GET and its variants.
    Binary(binary::Get<'a>),
}

/// One read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest<'a> {
    /// Its keys.
    pub keys: RequestKeys<'a>,
    /// Format of its items.
    pub style: Style<'a>,
}

impl<'a> ReadRequest<'a> {
    /// Creates a read of one key.
    pub fn one(key: &'a [u8], style: Style<'a>) -> ReadRequest<'a> {
        ReadRequest {
            keys: RequestKeys::One(Some(key)),
            style,
        }
    }

    /// Whether replying with an item may change its metadata, and so later replies: one client is
    /// chosen to recache it.
    pub(crate) fn changes_metadata(&self, metadata: &ItemMetadata) -> bool {
        match &self.style {
            Style::Meta(get) => {
                get.vivify.is_some() || get.recache.is_some() || metadata.any_marks()
            }
            _ => false,
        }
    }

    /// Whether the request creates a placeholder for a missing item.
    pub(crate) fn vivifies(&self) -> bool {
        matches!(&self.style, Style::Meta(get) if get.vivify.is_some())
    }
}

/// State for formatting items: the time, read at most once and only if needed, and a buffer for
/// values encoded from several columns.
pub(crate) struct ItemFormatter<'d> {
    clock: &'d dyn Clock,
    metadata: &'d ItemMetadata,
    cache: &'d Cache,
    /// Microseconds since 1970, once it was needed.
    now: Option<i64>,
    /// Version of placeholders created by this batch; 0 if no request creates one.
    placeholder_version: u64,
    pub(crate) scratch: &'d mut Vec<u8>,
}

impl<'d> ItemFormatter<'d> {
    pub(crate) fn new(
        shared: &'d ListenerState,
        scratch: &'d mut Vec<u8>,
        placeholder_version: u64,
    ) -> Self {
        ItemFormatter {
            clock: shared.db.clock().as_ref(),
            metadata: &shared.metadata,
            cache: &shared.cache,
            now: None,
            placeholder_version,
            scratch,
        }
    }

    /// Microseconds since 1970.
    pub(crate) fn now(&mut self) -> i64 {
        *self.now.get_or_insert_with(|| self.clock.unix_micros())
    }

    fn seconds(&mut self) -> i64 {
        self.now().div_euclid(1_000_000)
    }

    /// Appends the reply for an existing row of `container`, whose encoded key is `index_key`. The
    /// row's value is given if it is chunked.
    #[inline]
    pub(crate) fn append_found(
        &mut self,
        key: &[u8],
        style: &Style<'_>,
        container: &Container,
        index_key: &[u8],
        (row, value): (&RowRef<'_>, Option<&[u8]>),
        out: &mut Vec<u8>,
    ) {
        let metadata = self.metadata;
        if let Some(value) = value {
            let item = Item {
                value,
                flags: container.flags_of(row),
                version: row.version(),
                expires: container.expires_of(row),
            };
            let id = metadata.id(container.table.id, index_key);
            return self.append_item(key, style, id, item, out);
        }
        let id = || metadata.id(container.table.id, index_key);
        match style {
            Style::Ascii { cas } => {
                let version = cas.then(|| metadata.shown(id, row.version()));
                let flags = container.flags_of(row);
                let value = container.value_of(row, self.scratch);
                reply::value(out, key, flags, value, version);
            }
            Style::Binary(get) => {
                let mut item = container.item_of(row, self.scratch);
                item.version = metadata.shown(id, item.version);
                binary_reply::hit(out, get, &item);
            }
            Style::Meta(_) | Style::Debug(_) => {
                let now = self.seconds();
                let item = container.item_of(row, self.scratch);
                return append_meta_hit(metadata, now, style, id(), item, out);
            }
        }
        if metadata.tracks_accesses() {
            let now = self.seconds();
            metadata.note_access(id(), row.version(), now);
        }
    }

    /// Appends the reply for an item that is in the memory cache or has a chunked value.
    fn append_item(
        &mut self,
        key: &[u8],
        style: &Style<'_>,
        id: ItemId,
        mut item: Item<'_>,
        out: &mut Vec<u8>,
    ) {
        let metadata = self.metadata;
        let own_version = item.version;
        match style {
            Style::Ascii { cas } => {
                let version = cas.then(|| metadata.shown(|| id, own_version));
                reply::value(out, key, item.flags, item.value, version);
            }
            Style::Binary(get) => {
                item.version = metadata.shown(|| id, own_version);
                binary_reply::hit(out, get, &item);
            }
            Style::Meta(_) | Style::Debug(_) => {
                let now = self.seconds();
                return append_meta_hit(metadata, now, style, id, item, out);
            }
        }
        if metadata.tracks_accesses() {
            let now = self.seconds();
            metadata.note_access(id, own_version, now);
        }
    }

    /// Appends the reply for a key of the memory cache. Returns whether the item exists.
    pub(crate) fn append_cached(
        &mut self,
        key: &[u8],
        style: &Style<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let now = self.seconds();
        let Some(found) = self.cache.get(key, now) else {
            self.append_missing(style, |metadata| Some(metadata.id(CACHE_TABLE, key)), out);
            return false;
        };
        let item = Item {
            flags: found.flags,
            version: found.version,
            value: &found.value,
            expires: found.expires,
        };
        let id = self.metadata.id(CACHE_TABLE, key);
        self.append_item(key, style, id, item, out);
        true
    }

    /// Appends the reply for a key without an item. `id` returns the id that the item would have.
    #[inline]
    pub(crate) fn append_missing(
        &mut self,
        style: &Style<'_>,
        id: impl FnOnce(&ItemMetadata) -> Option<ItemId>,
        out: &mut Vec<u8>,
    ) {
        match style {
            Style::Ascii { .. } => {}
            Style::Binary(get) => binary_reply::miss(out, get),
            Style::Debug(_) => meta_reply::missing(out),
            Style::Meta(get) => match self.placeholder(get, id) {
                Some(hit) => meta_reply::hit(out, &get.format, &hit),
                None => meta_reply::miss(out, &get.format),
            },
        }
    }

    /// Returns the placeholder of a missing item, created now if the request has `vivify`.
    fn placeholder(
        &mut self,
        get: &meta::Get<'_>,
        id: impl FnOnce(&ItemMetadata) -> Option<ItemId>,
    ) -> Option<Hit<'static>> {
        let metadata = self.metadata;
        if get.vivify.is_none() && !metadata.any_marks() {
            return None;
        }
        let now = self.seconds();
        let id = id(metadata)?;
        let (made, mark) = match get.vivify {
            Some(exptime) if self.placeholder_version != 0 => {
                let new = ItemMark {
                    sent: true,
                    shown: get.version.unwrap_or(self.placeholder_version),
                    expires: crate::container::expiry_time(exptime, now),
                    ..ItemMark::default()
                };
                metadata.vivify(id, now, new)?
            }
            _ => (false, metadata.placeholder(id, now)?),
        };
        let won = made || !mark.sent;
        if won && !made {
            metadata.change(id, 0, |mark| mark.sent = true);
        }
        Some(Hit {
            item: Item {
                flags: 0,
                version: mark.shown,
                value: &[],
                expires: mark.expires,
            },
            expired_before: mark.expires,
            now,
            fetched: false,
            idle: 0,
            refresh: RefreshState {
                is_winner: won,
                stale: mark.stale,
                is_sent: !won,
            },
        })
    }
}

/// Appends the reply to a meta command for an existing item.
fn append_meta_hit(
    metadata: &ItemMetadata,
    now: i64,
    style: &Style<'_>,
    id: ItemId,
    mut item: Item<'_>,
    out: &mut Vec<u8>,
) {
    let mark = metadata.mark(id, item.version).unwrap_or_default();
    let (idle, fetched) = match metadata.last_access(id, item.version) {
        Some(at) => (now.saturating_sub(at).max(0).cast_unsigned(), true),
        None => (0, false),
    };
    let row_version = item.version;
    if mark.shown != 0 {
        item.version = mark.shown;
    }
    let mut hit = Hit {
        item,
        expired_before: item.expires,
        now,
        fetched,
        idle,
        refresh: RefreshState::default(),
    };
    let get = match style {
        Style::Debug(format) => {
            metadata.track_accesses();
            return meta_reply::debug(out, format, &hit);
        }
        Style::Meta(get) => get,
        _ => return,
    };
    let due = get.recache.is_some_and(|limit| {
        item.expires != 0 && item.expires < crate::container::expiry_time(limit, now)
    });
    hit.refresh = refresh_state(metadata, id, row_version, &mark, due);
    meta_reply::hit(out, &get.format, &hit);
    if get.history {
        metadata.track_accesses();
    }
    if metadata.tracks_accesses() && !get.unseen {
        metadata.note_access(id, row_version, now);
    }
}

/// Computes the recache flags of an item, and records if this client won the right to recache the
/// item. `due`: the item expires sooner than the client's limit allows.
pub(crate) fn refresh_state(
    metadata: &ItemMetadata,
    id: ItemId,
    version: u64,
    mark: &ItemMark,
    due: bool,
) -> RefreshState {
    let won = (mark.stale || due) && !mark.sent && metadata.claim_refresh(id, version);
    RefreshState {
        is_winner: won,
        stale: mark.stale,
        is_sent: !won && (mark.sent || mark.stale || due),
    }
}
