//! Meta commands: converts requests to commands, and outcomes to reply lines.

use crate::commands;
use crate::commands::touch::{self, TouchedRow};
use crate::connection::ascii;
use crate::connection::meta_transaction::MetaTransaction;
use crate::connection::{ChangeReply, ConnectionState, finish};
use crate::container::convert::Conversion;
use crate::container::expiry_time;
use crate::item_metadata::ItemId;
use crate::mapping::Operation;
use crate::read::request::{ReadRequest, Style, refresh_state};
use crate::reply_sink::ReplySink;
use porpoise_wire::memcached::command::Change;
use porpoise_wire::memcached::meta::{Get, Meta, ReplyFormat};
use porpoise_wire::memcached::meta_reply::{self, Hit};
use porpoise_wire::memcached::reply;

/// Converts a meta command to a read request, if it is one that can join a batch.
#[inline]
pub(crate) fn read_request<'a>(meta: &Meta<'a>) -> Option<ReadRequest<'a>> {
    match meta {
        Meta::Get(get) if get.touch.is_none() && !get.format.is_base64() => {
            Some(ReadRequest::one(get.format.key_text(), Style::Meta(*get)))
        }
        Meta::Debug(format) if !format.is_base64() => {
            Some(ReadRequest::one(format.key_text(), Style::Debug(*format)))
        }
        _ => None,
    }
}

impl ConnectionState {
    /// Executes a meta command, whose bytes are `raw`. Returns false if the connection must end.
    pub(crate) fn meta(&mut self, meta: &Meta<'_>, raw: &[u8], out: &mut impl ReplySink) -> bool {
        if let Meta::Noop(word) = meta {
            return self.noop(word, out);
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.add(meta, raw);
            return true;
        }
        match meta {
            Meta::Noop(_) => true,
            Meta::Debug(format) => self.read(format, Style::Debug(*format), out),
            Meta::Get(get) => match get.touch {
                Some(exptime) => self.meta_touch(get, exptime, out),
                None => self.read(&get.format, Style::Meta(*get), out),
            },
            Meta::Change(change, format) => self.meta_change(change, format, out),
        }
    }

    /// Executes `mn`, which may begin or end a meta transaction.
    fn noop(&mut self, word: &[u8], out: &mut impl ReplySink) -> bool {
        match (word, self.transaction.take()) {
            (b"begin", None) => {
                self.transaction = Some(MetaTransaction::new());
                out.buf().extend_from_slice(b"MN B\r\n");
                true
            }
            (b"begin", Some(mut transaction)) => {
                transaction.mark_failed();
                self.transaction = Some(transaction);
                reply::client_error(out.buf(), "mn begin within a transaction");
                true
            }
            (b"rollback", Some(_)) => {
                out.buf().extend_from_slice(b"MN R\r\n");
                true
            }
            (_, Some(transaction)) => transaction.execute(self, out),
            (_, None) => {
                out.buf().extend_from_slice(meta_reply::NOOP);
                true
            }
        }
    }

    fn read(
        &mut self,
        format: &ReplyFormat<'_>,
        style: Style<'_>,
        out: &mut impl ReplySink,
    ) -> bool {
        let decoded = format.decoded();
        let key = decoded.as_ref().map_or(format.key_text(), |d| d.bytes());
        let mut batch = crate::read::request::ReadBatch::new();
        batch.push(ReadRequest::one(key, style));
        self.answer_reads(&mut batch, out)
    }

    fn meta_change(
        &mut self,
        change: &Change<'_>,
        format: &ReplyFormat<'_>,
        out: &mut impl ReplySink,
    ) -> bool {
        let decoded = format.decoded();
        let change = match &decoded {
            Some(decoded) => change.with_key(decoded.bytes()),
            None => *change,
        };
        let done = commands::apply(&mut self.context, &mut self.current, &change);
        ChangeReply::Meta(*format).finish(done, out, &self.shared.db)
    }

    /// Current time in seconds since 1970.
    fn now(&self) -> i64 {
        self.shared.db.clock().unix_micros().div_euclid(1_000_000)
    }

    /// `mg` with a new expiry time.
    fn meta_touch(&mut self, get: &Get<'_>, exptime: i64, out: &mut impl ReplySink) -> bool {
        let decoded = get.format.decoded();
        let key = decoded
            .as_ref()
            .map_or(get.format.key_text(), |d| d.bytes());
        let (context, current) = (&mut self.context, &mut self.current);
        let mut done = touch::get_and_touch(context, current, &[key], exptime);
        let mut found = None;
        if let Ok(rows) = &mut done.outcome {
            found = rows.pop().flatten();
            if found.is_none() {
                // A placeholder, or a read that may create one.
                return self.read(&get.format, Style::Meta(*get), out);
            }
        }
        let now = self.now();
        let id = self.item_id(key);
        let shared = self.shared.clone();
        let show = |_, buf: &mut Vec<u8>| {
            if let Some(row) = found {
                let hit = touched(&shared.metadata, get, &row, id, now);
                meta_reply::hit(
                    buf,
                    &get.format,
                    &Hit {
                        item: row.item(),
                        ..hit
                    },
                );
            }
        };
        finish(done, out, show, ascii::fail)
    }

    /// Returns the metadata id of a key's item; `None` if no row can have the key.
    fn item_id(&self, key: &[u8]) -> Option<ItemId> {
        let (_, container, rest) = self.current.mapping.find(key, Operation::Get).ok()?;
        let mut primary = Vec::new();
        let mut convert = Conversion::for_keys();
        container
            .append_key(rest, &mut convert, &mut primary)
            .ok()?;
        Some(self.shared.metadata.id(container.table.id, &primary))
    }
}

/// Builds the hit for a row that was touched. Its metadata is left out if `id` is `None`.
fn touched<'r>(
    metadata: &crate::item_metadata::ItemMetadata,
    get: &Get<'_>,
    row: &'r TouchedRow,
    id: Option<ItemId>,
    now: i64,
) -> Hit<'r> {
    let mut hit = Hit {
        item: row.item(),
        expired_before: row.previous_expiry,
        now,
        fetched: false,
        idle: 0,
        refresh: meta_reply::RefreshState::default(),
    };
    let Some(id) = id else { return hit };
    if let Some(at) = metadata.last_access(id, row.row_version) {
        hit.fetched = true;
        hit.idle = now.saturating_sub(at).max(0).cast_unsigned();
    }
    let mark = metadata.mark(id, row.row_version).unwrap_or_default();
    let due = get
        .recache
        .is_some_and(|limit| row.expires != 0 && row.expires < expiry_time(limit, now));
    hit.refresh = refresh_state(metadata, id, row.row_version, &mark, due);
    if get.history {
        metadata.track_accesses();
    }
    if metadata.tracks_accesses() && !get.unseen {
        metadata.note_access(id, row.row_version, now);
    }
    hit
}
