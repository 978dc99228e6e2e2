//! Rows of the catalog space that only servers of a cluster write: changes of definitions that are
//! under way, and tokens by which servers notice commits to tables that caches are derived from.

use super::{
    CATALOG_FORMAT_VERSION, CATALOG_SPACE, KEY_CHANGE, KEY_META, KEY_TOKEN, put_or_delete,
};
use crate::bytes::{Reader, Writer};
use crate::catalog::{Catalog, ChangeKey, DefinitionChange};
use crate::definition::TableId;
use crate::error::{Error, Result};
use porpoise_kv::{Check, Key, Read, Txn};

fn change_key((server, statement): ChangeKey) -> Vec<u8> {
    let mut key = vec![KEY_CHANGE];
    key.extend_from_slice(&server.to_be_bytes());
    key.extend_from_slice(&statement.to_be_bytes());
    key
}

/// Adds a change that is under way. `key` and `r` follow the kind and the format version.
pub(super) fn add_change(catalog: &mut Catalog, key: &[u8], r: &mut Reader<'_>) -> Result<()> {
    let corrupt = || Error::corrupt("the key of a change of definitions");
    let (server, statement) = key.split_first_chunk::<8>().ok_or_else(corrupt)?;
    let statement = <[u8; 8]>::try_from(statement).map_err(|_| corrupt())?;
    let key = (u64::from_be_bytes(*server), u64::from_be_bytes(statement));
    let change = DefinitionChange {
        version: r.u64()?,
        is_online: r.bool()?,
        tables: r.list(|r| Ok(TableId(r.u64()?)))?,
    };
    catalog.changes.insert(key, change);
    Ok(())
}

/// Writes the changes that differ.
pub(super) fn write_definition_changes(
    txn: &mut dyn Txn,
    old: &Catalog,
    new: &Catalog,
) -> Result<()> {
    for (key, change) in &new.changes {
        if old.changes.get(key) != Some(change) {
            let mut w = Writer::new();
            w.u8(CATALOG_FORMAT_VERSION);
            w.u64(change.version);
            w.bool(change.is_online);
            w.list(&change.tables, |w, table| w.u64(table.0));
            put_or_delete(txn, &change_key(*key), Some(w.as_slice()))?;
        }
    }
    for key in old.changes.keys() {
        if !new.changes.contains_key(key) {
            put_or_delete(txn, &change_key(*key), None)?;
        }
    }
    Ok(())
}

fn token_key(table: TableId) -> Vec<u8> {
    let mut key = vec![KEY_TOKEN];
    key.extend_from_slice(&table.0.to_be_bytes());
    key
}

/// Writes a token, different from all before it, with a transaction that has written `table`.
pub(crate) fn write_token(txn: &mut dyn Txn, table: TableId, token: u64) -> Result<()> {
    let mut w = Writer::new();
    w.u8(CATALOG_FORMAT_VERSION);
    w.u64(token);
    let key = token_key(table);
    txn.put(Key::new(CATALOG_SPACE, &key), w.as_slice(), Check::Blind)?;
    Ok(())
}

/// The value of the catalog's version row, or of a token, after its format version.
fn number(value: &[u8]) -> Result<u64> {
    let mut r = Reader::new(value);
    super::read_version(&mut r)?;
    r.u64()
}

/// Decodes the version row; without one the catalog is empty.
pub(crate) fn version_of(value: Option<&[u8]>) -> Result<u64> {
    value.map_or(Ok(0), number)
}

/// The newest catalog version, and the newest tokens of `tables` (0 without one): one batch of reads.
pub(crate) fn read_version_and_tokens(
    txn: &mut dyn Txn,
    tables: &[TableId],
) -> Result<(u64, Vec<u64>)> {
    let keys: Vec<Vec<u8>> = std::iter::once(vec![KEY_META])
        .chain(tables.iter().map(|table| token_key(*table)))
        .collect();
    let keys: Vec<Key<'_>> = keys.iter().map(|k| Key::new(CATALOG_SPACE, k)).collect();
    let mut numbers = vec![0; keys.len()];
    let mut failed = None;
    txn.get(Read::CURRENT, &keys, &mut |n, value| match (
        value.map_or(Ok(0), number),
        numbers.get_mut(n),
    ) {
        (Ok(found), Some(place)) => *place = found,
        (Err(error), _) => failed = Some(error),
        (Ok(_), None) => {}
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let version = numbers.remove(0);
    Ok((version, numbers))
}

/// Replaces tables and histograms of `new` by equal ones of `old`, so that both catalogs share what is derived from
/// them. Called before [`Catalog::derive`].
pub(super) fn reuse(old: &Catalog, new: &mut Catalog) {
    let encode = |table: &crate::definition::TableDef| {
        let mut w = Writer::new();
        super::write_table(&mut w, table);
        w.as_slice().to_vec()
    };
    for (id, table) in new.tables.iter_mut() {
        if let Some(before) = old.tables.get(id)
            && before.triggers == table.triggers
            && encode(before.definition()) == encode(table.definition())
        {
            *table = before.clone();
        }
    }
    for (key, histogram) in &mut new.histograms {
        if let Some(before) = old.histograms.get(key)
            && before.to_stored_document().to_text() == histogram.to_stored_document().to_text()
        {
            *histogram = before.clone();
        }
    }
}
