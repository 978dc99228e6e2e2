//! Partition pruning, and the overflow values that a scan fetches.
//!
//! Evaluates the plan's placement constants ([`crate::plan::placement`]) with the statement's
//! parameters. Nothing here depends on rows, so all batches of a scan read the same partitions.

use super::ExecResult;
use super::keys::{KeyValue, convert_to_column};
use crate::expr::Expr;
use crate::expr::eval::{EvalCx, eval};
use crate::plan::placement::{KnownExprs, Placement};
use crate::plan::scan::{Bound, Scan};
use porpoise_rows::catalog::Table;
use porpoise_rows::routing::prune::KnownCondition;
use porpoise_rows::{Fetch, OverflowFetch};
use porpoise_types::{ColumnType, Date, DateTime, Value, ValueRef};
use std::sync::Arc;

/// The partitions and overflow values that a scan reads.
#[derive(Clone, Debug, Default)]
pub struct Pruning {
    /// Partitions that the scan reads; `None`: all.
    partitions: Option<Vec<usize>>,
    /// Partitions that the statement names.
    named_partitions: Option<Arc<[usize]>>,
    /// Columns whose overflow values are fetched, each up to a number of bytes; `None`: all.
    prefix_lengths: Option<Vec<(usize, usize)>>,
}

/// The rows that one call reads of a cursor.
#[derive(Clone, Copy)]
pub struct Batch<'p> {
    /// The partitions that are read.
    pub pruning: &'p Pruning,
    /// Number of rows at most.
    pub limit: usize,
}

impl Pruning {
    /// Computes the pruning of a scan.
    pub fn of<'a>(scan: &'a Scan, table: &Table, cx: &EvalCx<'a>) -> ExecResult<Pruning> {
        let placement = &scan.placement;
        let mut pruning = Pruning::default();
        if table.partitioning.is_some() {
            pruning
                .named_partitions
                .clone_from(&placement.named_partitions);
            pruning.partitions = partitions(placement, table, cx)?;
        }
        if let Some(whole) = &placement.whole_columns {
            let mut prefix_lengths: Vec<(usize, usize)> =
                whole.iter().map(|c| (*c, usize::MAX)).collect();
            for (column, counts) in &placement.prefix_columns {
                let ty = table.columns.get(*column).map(|c| &c.ty);
                let width = ty.map_or(4, |ty| ty.collation.charset().max_len() as usize);
                let bytes = character_count(counts, cx)?.saturating_mul(width);
                match prefix_lengths.iter_mut().find(|(c, _)| c == column) {
                    Some((_, end)) => *end = bytes.max(*end),
                    None => prefix_lengths.push((*column, bytes)),
                }
            }
            pruning.prefix_lengths = Some(prefix_lengths);
        }
        Ok(pruning)
    }

    /// Computes the pruning of a scan by whole keys that names no partitions, for which only
    /// overflow values matter.
    pub fn overflow_only<'a>(
        scan: &'a Scan,
        table: &Table,
        cx: &EvalCx<'a>,
    ) -> ExecResult<Pruning> {
        match scan.placement.whole_columns {
            Some(_) => Pruning::of(scan, table, cx),
            None => Ok(Pruning::default()),
        }
    }

    /// The pruning as a parameter of reads.
    pub fn fetch(&self) -> Fetch<'_> {
        Fetch {
            overflow: self.overflow(),
            partitions: self.partitions.as_deref(),
        }
    }

    /// The overflow values to fetch.
    pub fn overflow(&self) -> OverflowFetch<'_> {
        match &self.prefix_lengths {
            None => OverflowFetch::All,
            Some(columns) if columns.is_empty() => OverflowFetch::Prefixes,
            Some(columns) => OverflowFetch::UpTo(columns),
        }
    }

    /// Whether a whole key of an index lies in a partition that the statement names.
    pub fn allows(&self, table: &Table, index: usize, key: &[u8]) -> bool {
        match &self.named_partitions {
            None => true,
            Some(chosen) => chosen.contains(&table.partition_of(index, key)),
        }
    }

    /// The partitions that the scan reads, if not all.
    pub fn partitions(&self) -> Option<&[usize]> {
        self.partitions.as_deref()
    }
}

/// The partitions that the statement names, intersected with those that its constants allow.
fn partitions<'a>(
    placement: &'a Placement,
    table: &Table,
    cx: &EvalCx<'a>,
) -> ExecResult<Option<Vec<usize>>> {
    let mut known = Vec::with_capacity(placement.partition_constants.len());
    for (column, exprs) in &placement.partition_constants {
        if let Some(definition) = table.columns.get(*column) {
            known.push((*column, evaluate_known(exprs, &definition.ty, cx)?));
        }
    }
    let pruned = table.prune(&known);
    Ok(match (&placement.named_partitions, pruned) {
        (None, pruned) => pruned,
        (Some(chosen), None) => Some(chosen.to_vec()),
        (Some(chosen), Some(mut pruned)) => {
            pruned.retain(|p| chosen.contains(p));
            Some(pruned)
        }
    })
}

fn evaluate_known<'a>(
    exprs: &'a KnownExprs,
    ty: &ColumnType,
    cx: &EvalCx<'a>,
) -> ExecResult<KnownCondition> {
    let mut known = KnownCondition::default();
    if let Some(list) = &exprs.equal {
        let mut values = Vec::with_capacity(list.len());
        let mut every_known = true;
        for e in list {
            match convert_to_column(eval(e, &[], cx)?, e, ty, cx) {
                KeyValue::Exact(value) => values.push(value),
                KeyValue::Integers(..) => every_known = false,
                KeyValue::NoMatch => {}
            }
        }
        known.equal = Some(values).filter(|_| every_known);
    }
    known.low = evaluate_bound(exprs.low.as_ref(), 1, ty, cx)?;
    known.high = evaluate_bound(exprs.high.as_ref(), -1, ty, cx)?;
    Ok(known)
}

/// The value of a bound. An exclusive bound is moved inwards by one step if the type has discrete
/// values.
fn evaluate_bound<'a>(
    bound: Option<&'a Bound>,
    inwards: i64,
    ty: &ColumnType,
    cx: &EvalCx<'a>,
) -> ExecResult<Option<Value>> {
    let Some(bound) = bound else {
        return Ok(None);
    };
    let value = eval(&bound.value, &[], cx)?;
    Ok(match convert_to_column(value, &bound.value, ty, cx) {
        KeyValue::Exact(value) if bound.inclusive => Some(value),
        KeyValue::Exact(value) => Some(next(&value, inwards).unwrap_or(value)),
        KeyValue::Integers(..) | KeyValue::NoMatch => None,
    })
}

/// The value moved by `step`; `None` if the type has no next value.
fn next(value: &Value, step: i64) -> Option<Value> {
    Some(match value {
        Value::Int(v) => Value::Int(v.checked_add(step)?),
        Value::UInt(v) => Value::UInt(v.checked_add_signed(step)?),
        Value::Date(d) if d.month() > 0 && d.day() > 0 => {
            Value::Date(Date::from_days(d.to_days() + step)?)
        }
        Value::DateTime(d) if d.month() > 0 && d.day() > 0 => {
            Value::DateTime(DateTime::from_unix_micros(d.to_unix_micros() + step)?)
        }
        _ => return None,
    })
}

/// Number of leading characters that a function with these arguments (position and length, or
/// length) reads; the maximum if the arguments do not limit it.
fn character_count<'a>(counts: &'a [Expr], cx: &EvalCx<'a>) -> ExecResult<usize> {
    let mut sum = 0usize;
    for count in counts {
        let count = match eval(count, &[], cx)? {
            ValueRef::Int(n @ 1..) => usize::try_from(n).ok(),
            ValueRef::UInt(n @ 1..) => usize::try_from(n).ok(),
            _ => None,
        };
        sum = sum.saturating_add(count.unwrap_or(usize::MAX));
    }
    Ok(sum)
}
