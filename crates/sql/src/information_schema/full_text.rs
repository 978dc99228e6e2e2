//! The tables of FULLTEXT indexes (manual, "InnoDB INFORMATION_SCHEMA FULLTEXT Index Tables"): of the
//! table that `innodb_ft_aux_table` names, and of its first FULLTEXT index.
//!
//! Words are split from the texts of the rows, not read from the index, whose entries have keys of
//! words. A document's id is the value of a primary key of one integer column, or of a hidden key;
//! documents of other tables have none.

use crate::context::StatementContext;
use crate::definition::full_text::{AUX_TABLE, STOPWORD_TABLE, USER_STOPWORD_TABLE, aux_table};
use porpoise_rows::catalog::Table;
use porpoise_rows::text_index::TextIndex;
use porpoise_rows::{BeginOptions, KeyRange, OverflowFetch, ScanPosition, ScanSpec};
use porpoise_rows::{Fetch, Txn};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_types::full_text::DEFAULT_STOPWORDS;
use porpoise_types::{Value, ValueRef, decode_key_part};
use std::collections::BTreeMap;
use std::sync::Arc;

type Rows = Vec<Vec<Value>>;

/// Computes the rows of one of the tables.
pub(super) type RowsOf = fn(&StatementContext) -> Result<Rows>;

/// Maximum number of rows that are listed: places of words.
const MAX_PLACES: usize = 1_000_000;

/// Rows of a table read in one call.
const BATCH: usize = 256;

/// The function for a table; `None` if it is not one of these.
pub(super) fn rows_of(name: &str) -> Option<RowsOf> {
    let rows: RowsOf = match name {
        "INNODB_FT_DEFAULT_STOPWORD" => |_| {
            let words = DEFAULT_STOPWORDS.iter();
            Ok(words.map(|word| vec![text(word)]).collect())
        },
        "INNODB_FT_CONFIG" => config,
        "INNODB_FT_DELETED" => deleted,
        // Documents are removed from blocks in transactions.
        "INNODB_FT_BEING_DELETED" => |_| Ok(Rows::new()),
        "INNODB_FT_INDEX_TABLE" => |cx| places(cx, false),
        "INNODB_FT_INDEX_CACHE" => |cx| places(cx, true),
        _ => return None,
    };
    Some(rows)
}

fn text(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

/// The index that is shown.
struct Shown {
    table: Arc<Table>,
    position: usize,
    index: Arc<TextIndex>,
}

fn shown(cx: &StatementContext) -> Option<Shown> {
    let name = cx.server.globals.read().text(AUX_TABLE).to_owned();
    let table = aux_table(cx, &name).ok()?;
    let mut positions = 0..table.indexes.len();
    let (position, index) = positions.find_map(|at| Some((at, table.text_index(at)?.clone())))?;
    Some(Shown {
        table,
        position,
        index,
    })
}

/// Begins a transaction that reads one snapshot.
fn snapshot(cx: &StatementContext) -> Result<Txn> {
    let mut txn = cx.server.db.begin(BeginOptions::default())?;
    txn.pin()?;
    Ok(txn)
}

/// Settings of the index.
fn config(cx: &StatementContext) -> Result<Rows> {
    let Some(shown) = shown(cx) else {
        return Ok(Rows::new());
    };
    let globals = cx.server.globals.read();
    let definition = shown.table.indexes.get(shown.position);
    let settings = definition.and_then(|index| index.full_text.as_deref());
    let uses_stopwords =
        settings.is_none_or(|s| s.stopwords.as_ref().is_none_or(|w| !w.is_empty()));
    let table = match cx.values.text(USER_STOPWORD_TABLE) {
        "" => globals.text(STOPWORD_TABLE),
        name => name,
    };
    let row = |key: &str, value: &str| vec![text(key), text(value)];
    Ok(vec![
        row("optimize_checkpoint_limit", "180"),
        row("synced_doc_id", "0"),
        row("stopword_table_name", table),
        row("use_stopword", if uses_stopwords { "1" } else { "0" }),
    ])
}

/// The id of a document.
fn document_id(table: &Table, primary: &[u8]) -> Value {
    let unsigned = |bytes: &[u8]| Some(u64::from_be_bytes(*bytes.first_chunk()?));
    if table.hidden_key {
        return unsigned(primary).map_or(Value::Null, Value::UInt);
    }
    let parts = table.indexes.first().map(|index| index.parts.as_slice());
    let Some([part]) = parts else {
        return Value::Null;
    };
    let mut rest = primary;
    let column = table.columns.get(part.column);
    let value = column.and_then(|c| decode_key_part(&c.ty, c.nullable, part.desc, &mut rest));
    match value {
        Some(Value::UInt(id)) => Value::UInt(id),
        Some(Value::Int(id)) => u64::try_from(id).map_or(Value::Null, Value::UInt),
        _ => Value::Null,
    }
}

/// Documents that are removed, and whose postings may still be there.
fn deleted(cx: &StatementContext) -> Result<Rows> {
    let Some(shown) = shown(cx) else {
        return Ok(Rows::new());
    };
    let mut txn = snapshot(cx)?;
    let entries = txn.text_entries(&shown.table, shown.position)?;
    txn.rollback();
    let ids = entries.removed.iter();
    let ids = ids.map(|row| vec![document_id(&shown.table, row)]);
    Ok(ids.collect())
}

/// Documents and places of a word.
type Places = Vec<(Value, u64)>;

/// The places of all words in documents that are pending, or in those that are not.
fn places(cx: &StatementContext, pending: bool) -> Result<Rows> {
    let Some(shown) = shown(cx) else {
        return Ok(Rows::new());
    };
    let mut txn = snapshot(cx)?;
    let entries = txn.text_entries(&shown.table, shown.position)?;
    let mut words: BTreeMap<String, Places> = BTreeMap::new();
    let mut count = 0;
    let spec = ScanSpec {
        index: 0,
        ranges: vec![KeyRange::ALL],
        reverse: false,
        entries_only: false,
    };
    let mut position = ScanPosition::default();
    let fetch = Fetch {
        overflow: OverflowFetch::All,
        partitions: None,
    };
    while !position.done() {
        porpoise_base::interrupt::check()?;
        if count > MAX_PLACES {
            let text = "FTS query exceeds result cache limit";
            return Err(SqlError::new(188, "HY000", text));
        }
        let read = porpoise_kv::Read::SNAPSHOT;
        let table = &shown.table;
        txn.scan_with(
            table,
            &spec,
            fetch,
            read,
            &mut position,
            BATCH,
            &mut |primary, row| {
                if entries.pending.contains(primary) != pending {
                    return;
                }
                let id = document_id(table, primary);
                let texts = shown.index.texts(|column| row.get(column));
                each_word(&shown.index, &texts, &mut |word, at| {
                    count += 1;
                    let places = words.entry(word.to_owned()).or_default();
                    places.push((id.clone(), at));
                });
            },
        )?;
    }
    txn.rollback();
    Ok(listed(words))
}

/// Calls `visit` with the indexed words of a row's texts, and the offset of each, in bytes. Texts stand
/// one after the other, with a byte between them.
fn each_word(
    index: &TextIndex,
    texts: &[std::borrow::Cow<'_, str>],
    visit: &mut dyn FnMut(&str, u64),
) {
    let mut before = 0;
    for text in texts {
        for word in index.rules().tokens(text) {
            if index.rules().is_indexed(word) {
                let at = word.as_ptr().addr() - text.as_ptr().addr();
                visit(&word.to_lowercase(), (before + at) as u64);
            }
        }
        before += text.len() + 1;
    }
}

/// The rows of words with their documents.
fn listed(words: BTreeMap<String, Places>) -> Rows {
    let number = |value: &Value| match value.as_ref() {
        ValueRef::UInt(id) => Some(id),
        _ => None,
    };
    let mut rows = Rows::new();
    for (word, places) in words {
        let ids = || places.iter().filter_map(|(id, _)| number(id));
        let end = |id: Option<u64>| id.map_or(Value::Null, Value::UInt);
        let (first, last) = (end(ids().min()), end(ids().max()));
        let documents = places.chunk_by(|a, b| a.0 == b.0).count() as u64;
        for (id, at) in &places {
            let count = Value::UInt(documents);
            let place = Value::UInt(*at);
            rows.push(vec![
                text(&word),
                first.clone(),
                last.clone(),
                count,
                id.clone(),
                place,
            ]);
        }
    }
    rows
}
