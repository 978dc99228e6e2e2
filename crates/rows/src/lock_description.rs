//! Descriptions of locked keys, for lists of lock waits and deadlocks.
//!
//! The engine knows only spaces and bytes. This module maps them to a table, an index and column
//! values, as far as keys can be decoded. Collation weights cannot; such keys are shown in
//! hexadecimal.

use crate::catalog::Catalog;
use crate::table::Table;
use porpoise_kv::SpaceId;
use porpoise_types::{Value, decode_key_part, write_text};
use std::sync::Arc;

/// Maximum number of bytes of a key that are shown.
const MAX_SHOWN_BYTES: usize = 64;

/// A locked key in terms of the catalog.
#[derive(Clone, Debug)]
pub struct LockDescription {
    /// The table; `None` for the catalog's spaces and dropped spaces.
    pub table: Option<Arc<Table>>,
    /// The position of the index.
    pub index: usize,
    /// The partition's name, of a partitioned table.
    pub partition: Option<String>,
    /// The values of the key, joined by commas, or hexadecimal bytes.
    pub values: String,
}

impl LockDescription {
    /// Describes a key by the catalog.
    pub fn of(catalog: &Catalog, space: SpaceId, key: &[u8]) -> LockDescription {
        for table in catalog.tables.values() {
            for (index, definition) in table.indexes.iter().enumerate() {
                let Some(part) = definition.spaces.iter().position(|s| *s == space) else {
                    continue;
                };
                let by = table.partitioning.as_ref();
                let name = by.and_then(|by| by.leaf_name(part));
                return LockDescription {
                    table: Some(table.clone()),
                    index,
                    partition: name.map(str::to_owned),
                    values: LockDescription::key_text(table, index, key),
                };
            }
        }
        LockDescription {
            table: None,
            index: 0,
            partition: None,
            values: hexadecimal(key),
        }
    }

    /// The values of a key of an index, joined by commas, or hexadecimal bytes.
    pub fn key_text(table: &Table, index: usize, key: &[u8]) -> String {
        values(table, index, key).unwrap_or_else(|| hexadecimal(key))
    }

    /// The name of the index; empty if there is no table.
    pub fn index_name(&self) -> &str {
        let index = self.table.as_ref().and_then(|t| t.indexes.get(self.index));
        index.map_or("", |index| index.name.as_str())
    }
}

/// Decodes the values of the index's columns at the start of a key.
fn values(table: &Table, index: usize, key: &[u8]) -> Option<String> {
    if index == 0 && table.hidden_key {
        let id = u64::from_be_bytes(key.try_into().ok()?);
        return Some(format!("row {id}"));
    }
    let mut rest = key;
    let mut shown: Vec<String> = Vec::new();
    for part in &table.indexes.get(index)?.parts {
        let column = table.columns.get(part.column)?;
        if part.prefix.is_some() {
            return None;
        }
        let value = decode_key_part(&column.ty, column.nullable, part.desc, &mut rest)?;
        let mut text = Vec::new();
        match value {
            Value::Null => text.extend_from_slice(b"NULL"),
            value => write_text(value.as_ref(), &column.ty, &mut text),
        }
        shown.push(String::from_utf8(text).ok()?);
    }
    Some(shown.join(", "))
}

fn hexadecimal(key: &[u8]) -> String {
    let mut shown = "0x".to_owned();
    for byte in key.iter().take(MAX_SHOWN_BYTES) {
        shown.push_str(&format!("{byte:02X}"));
    }
    if key.len() > MAX_SHOWN_BYTES {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_cut_and_unknown_spaces_have_no_table() {
        let found = LockDescription::of(&Catalog::default(), SpaceId(7), &[0xab; 70]);
        assert!(found.table.is_none() && found.index_name().is_empty());
        assert!(found.values.starts_with("0xABAB") && found.values.ends_with("..."));
        assert_eq!(found.values.len(), 2 + 2 * MAX_SHOWN_BYTES + 3);
    }
}
