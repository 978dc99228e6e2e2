//! What EXPLAIN's columns say of an access path, in all its formats.

use crate::expr::{Expr, ExprKind};
use crate::plan::Access;
use porpoise_rows::catalog::{Index, IndexKind, Table};
use porpoise_types::Kind;

/// Whether a look-up depends on tables joined before.
pub(super) fn depends(access: &Access) -> bool {
    match access {
        Access::Lookup { keys, .. } => keys.iter().flatten().any(|e| e.slots() != 0),
        _ => false,
    }
}

/// The `ref` column of a part.
pub(super) fn reference(e: &Expr) -> &'static str {
    match &e.kind {
        ExprKind::Column { .. } => "func",
        _ => "const",
    }
}

/// Leading parts of the index that narrow what is looked at.
pub(super) fn parts_used(access: &Access, index: &Index) -> usize {
    match access {
        Access::Lookup { keys, .. } => keys.first().map_or(0, Vec::len),
        Access::Range { keys, .. } => keys.first().map_or(0, Vec::len) + 1,
        Access::Set { .. } => 1,
        _ => index.parts.len(),
    }
}

/// `key_len` as MySQL counts it: bytes of the parts, one more for NULL, two
/// more for a length.
pub(super) fn key_length(table: &Table, index: &Index, parts: usize) -> u64 {
    let mut length = 0;
    for part in index.parts.iter().take(parts) {
        let Some(column) = table.columns.get(part.column) else {
            continue;
        };
        let ty = &column.ty;
        let varying = matches!(ty.kind, Kind::VarChar | Kind::VarBinary) || ty.is_blob();
        let bytes = match part.prefix {
            Some(n) => u64::from(n) * u64::from(ty.collation.charset().max_len()),
            None => u64::from(ty.max_bytes()),
        };
        length += ty.fixed_width().map_or(bytes, |w| w as u64);
        length += u64::from(varying) * 2;
        let nullable = column.nullable && index.kind != IndexKind::Primary;
        length += u64::from(nullable);
    }
    length
}
