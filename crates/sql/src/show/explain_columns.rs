//! EXPLAIN's columns that describe an access path, for all formats.

use porpoise_rows::catalog::{Index, IndexKind, Table};
use porpoise_sql_expr::expr::{Expr, ExprKind};
use porpoise_sql_plan::plan::scan::{Access, IndexRange};
use porpoise_types::Kind;

/// The `ref` column for an index part.
pub(super) fn reference(e: &Expr) -> &'static str {
    match &e.kind {
        ExprKind::Column { .. } => "func",
        _ => "const",
    }
}

/// The indexes that a path reads, each with the number of leading parts that narrow the scan; for a
/// union one for each arm.
pub(super) fn indexes_used<'t>(access: &Access, table: &'t Table) -> Vec<(&'t Index, usize)> {
    match access {
        Access::IndexMergeUnion { arms, .. } => {
            let all = arms.iter().flat_map(|arm| indexes_used(arm, table));
            all.collect()
        }
        _ => {
            let index = access.index().and_then(|at| table.indexes.get(at));
            let used = index.map(|index| (index, parts_used(access, index)));
            used.into_iter().collect()
        }
    }
}

/// The names of the indexes, for a column of EXPLAIN.
pub(super) fn names(used: &[(&Index, usize)]) -> String {
    let names: Vec<&str> = used.iter().map(|(index, _)| index.name.as_str()).collect();
    names.join(",")
}

/// The key lengths of the indexes; see [`key_length`].
pub(super) fn lengths(table: &Table, used: &[(&Index, usize)]) -> String {
    let each = used.iter().map(|(i, parts)| key_length(table, i, *parts));
    let each: Vec<String> = each.map(|length| length.to_string()).collect();
    each.join(",")
}

/// Kind of an index-merge union: `union` if the entries of all arms are in the order of the
/// primary key, otherwise `sort_union` (manual, "Index Merge Optimization").
pub(super) fn union_kind(access: &Access, table: &Table) -> Option<String> {
    let Access::IndexMergeUnion { arms, .. } = access else {
        return None;
    };
    let in_key_order = |arm: &Access| match arm {
        Access::PointLookup { index, keys } | Access::IndexLookup { index, keys, .. } => {
            let parts = table.indexes.get(*index).map_or(0, |i| i.parts.len());
            keys.len() == 1 && keys.iter().all(|k| k.len() == parts)
        }
        Access::IndexRangeScan { index, .. } => *index == 0,
        _ => false,
    };
    let kind = if arms.iter().all(in_key_order) {
        "union"
    } else {
        "sort_union"
    };
    Some(format!("{kind}({})", names(&indexes_used(access, table))))
}

/// Number of leading parts of the index that narrow the scan.
fn parts_used(access: &Access, index: &Index) -> usize {
    match access {
        Access::PointLookup { keys, .. } | Access::IndexLookup { keys, .. } => {
            keys.first().map_or(0, Vec::len)
        }
        Access::IndexRangeScan { ranges, .. } => {
            ranges.iter().map(IndexRange::parts).max().unwrap_or(0)
        }
        Access::LooseScan(scan) => scan.parts,
        Access::TextSearch { .. } => 0,
        Access::SubqueryLookup { .. } => 1,
        _ => index.parts.len(),
    }
}

/// `key_len` as in MySQL: the bytes of the parts, plus one if nullable and two if of variable
/// length.
fn key_length(table: &Table, index: &Index, parts: usize) -> u64 {
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
