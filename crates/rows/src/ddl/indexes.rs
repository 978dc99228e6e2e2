//! Converts index specifications to indexes: names, parts, lengths, order.

use super::{IndexSpec, check_name, errors};
use crate::definition::{Column, GeneratedKind, Index, IndexKind, IndexPart, IndexState};
use crate::error::Result;
use crate::text_index::is_searchable;
use porpoise_types::{ColumnType, Kind};
use std::sync::Arc;

/// MySQL's limits ("InnoDB Limits").
const MAX_INDEXES: usize = 65;
const MAX_PARTS: usize = 16;
const MAX_KEY_BYTES: u64 = 3072;

/// The primary index of a table without a declared one.
pub(super) fn hidden_primary() -> Index {
    Index {
        id: 0,
        name: "PRIMARY".to_owned(),
        kind: IndexKind::Primary,
        parts: Vec::new(),
        spaces: Vec::new(),
        state: IndexState::Public,
        using_hash: false,
        implicit: true,
        comment: String::new(),
        invisible: false,
        full_text: None,
    }
}

/// Adds an index to a table's, still without spaces. [`sort`] determines the order.
pub(super) fn add(
    indexes: &mut Vec<Index>,
    columns: &[Column],
    spec: &IndexSpec,
    implicit: bool,
) -> Result<()> {
    if indexes.len() >= MAX_INDEXES {
        return Err(errors::too_many_keys());
    }
    if spec.kind == IndexKind::Primary
        && indexes
            .iter()
            .any(|i| i.kind == IndexKind::Primary && !i.parts.is_empty())
    {
        return Err(errors::two_primary_keys());
    }
    let parts = parts(columns, spec)?;
    let first = parts.first().and_then(|part| columns.get(part.column));
    let name = name(indexes, spec, first)?;
    let id = indexes.iter().map(|i| i.id + 1).max().unwrap_or(0);
    indexes.push(Index {
        id,
        name,
        kind: spec.kind,
        parts,
        spaces: Vec::new(),
        state: IndexState::Public,
        using_hash: spec.using_hash,
        implicit,
        comment: spec.comment.clone(),
        invisible: spec.invisible,
        full_text: spec.full_text.clone().map(Arc::new),
    });
    Ok(())
}

/// The name of an index; without one, that of its first column.
fn name(indexes: &[Index], spec: &IndexSpec, first: Option<&Column>) -> Result<String> {
    if spec.kind == IndexKind::Primary {
        return Ok("PRIMARY".to_owned());
    }
    let taken = |name: &str| indexes.iter().any(|i| i.name.eq_ignore_ascii_case(name));
    if let Some(name) = &spec.name {
        check_name(name)?;
        if name.is_empty() || name.eq_ignore_ascii_case("PRIMARY") {
            return Err(errors::bad_index_name(name));
        }
        if taken(name) {
            return Err(errors::duplicate_index(name));
        }
        return Ok(name.clone());
    }
    let base = first.map_or("", |column| column.name.as_str());
    let free = std::iter::once(base.to_owned())
        .chain((2..).map(|n| format!("{base}_{n}")))
        .find(|name| !taken(name) && !name.eq_ignore_ascii_case("PRIMARY"));
    Ok(free.unwrap_or_default())
}

fn parts(columns: &[Column], spec: &IndexSpec) -> Result<Vec<IndexPart>> {
    if spec.parts.len() > MAX_PARTS {
        return Err(errors::too_many_parts());
    }
    let mut parts: Vec<IndexPart> = Vec::with_capacity(spec.parts.len());
    let mut bytes = 0u64;
    for (name, prefix, desc) in &spec.parts {
        let position = columns
            .iter()
            .position(|c| c.name.eq_ignore_ascii_case(name));
        let Some((position, column)) = position.and_then(|p| Some((p, columns.get(p)?))) else {
            return Err(errors::no_key_column(name));
        };
        if parts.iter().any(|p| p.column == position) {
            return Err(errors::duplicate_column(name));
        }
        if spec.kind == IndexKind::FullText {
            check_text_part(columns, column, parts.first())?;
            parts.push(IndexPart {
                column: position,
                prefix: None,
                desc: false,
            });
            continue;
        }
        let prefix = part_prefix(column, *prefix)?;
        bytes += part_bytes(&column.ty, prefix);
        parts.push(IndexPart {
            column: position,
            prefix,
            desc: *desc,
        });
    }
    if bytes > MAX_KEY_BYTES {
        return Err(errors::key_too_long());
    }
    Ok(parts)
}

/// Checks the columns of a FULLTEXT index.
pub(super) fn check_text_parts(columns: &[Column], index: &Index) -> Result<()> {
    for part in &index.parts {
        if let Some(column) = columns.get(part.column) {
            check_text_part(columns, column, index.parts.first())?;
        }
    }
    Ok(())
}

/// The columns of a FULLTEXT index are texts of one collation. Prefix lengths have no effect.
fn check_text_part(columns: &[Column], column: &Column, first: Option<&IndexPart>) -> Result<()> {
    let first = first.and_then(|part| columns.get(part.column));
    let agrees = first.is_none_or(|first| first.ty.collation == column.ty.collation);
    if !is_searchable(&column.ty) || !agrees {
        return Err(errors::bad_full_text_column(&column.name));
    }
    let generated = column.generated.as_ref();
    if generated.is_some_and(|g| g.kind == GeneratedKind::Virtual) {
        return Err(errors::full_text_over_virtual());
    }
    Ok(())
}

fn part_prefix(column: &Column, prefix: Option<u32>) -> Result<Option<u32>> {
    let ty = &column.ty;
    let prefixable = ty.is_string() || ty.is_binary() || ty.is_blob();
    match prefix {
        _ if ty.kind == Kind::Json => Err(errors::json_key(&column.name)),
        None if ty.is_blob() => Err(errors::blob_key_without_length(&column.name)),
        None => Ok(None),
        Some(_) if !prefixable => Err(errors::bad_prefix()),
        Some(0) => Err(errors::bad_prefix()),
        Some(n) if ty.is_blob() => Ok(Some(n)),
        Some(n) if n > ty.length => Err(errors::bad_prefix()),
        Some(n) if n == ty.length => Ok(None),
        Some(n) => Ok(Some(n)),
    }
}

/// Number of bytes that MySQL counts for this part; nullability does not matter.
fn part_bytes(ty: &ColumnType, prefix: Option<u32>) -> u64 {
    match prefix {
        Some(n) => u64::from(n) * u64::from(ty.collation.charset().max_len()),
        None => u64::from(ty.max_bytes()),
    }
}

/// Returns the prefix length to which a part that exceeds the maximum key length is shortened: in
/// characters for texts, in bytes for others. Without strict mode MySQL shortens such parts of
/// non-unique keys (manual, "CREATE INDEX Statement").
pub fn shortened_prefix(ty: &ColumnType, prefix: Option<u32>) -> Option<u32> {
    let texts = ty.is_string() || ty.is_binary() || ty.is_blob();
    let whole_blob = prefix.is_none() && ty.is_blob();
    if !texts || whole_blob || ty.kind == Kind::Json || part_bytes(ty, prefix) <= MAX_KEY_BYTES {
        return None;
    }
    let unit = u64::from(ty.collation.charset().max_len().max(1));
    u32::try_from(MAX_KEY_BYTES / unit).ok()
}

/// Sorts indexes in MySQL's order: the primary key, unique keys without nullable columns, other
/// unique keys, the rest; otherwise as given. Ids and names do not change.
pub(super) fn sort(indexes: &mut [Index], columns: &[Column]) {
    let nullable = |index: &Index| {
        index
            .parts
            .iter()
            .any(|p| columns.get(p.column).is_some_and(|c| c.nullable))
    };
    indexes.sort_by_key(|index| match index.kind {
        IndexKind::Primary => 0,
        IndexKind::Unique if !nullable(index) => 1,
        IndexKind::Unique => 2,
        IndexKind::Plain => 3,
        IndexKind::FullText => 4,
    });
}
