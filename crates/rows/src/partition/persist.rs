//! Partitioning in the catalog's rows (docs/formats.md, "Catalog").

use super::expr::PartitionExpr;
use super::{Method, Partition, PartitionBound, Partitioning, Subpartition, Subpartitioning};
use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};

/// Bit of the method's code: SUBPARTITION BY follows the method.
const HAS_SUBPARTITIONS: u8 = 0x80;

fn code(method: Method) -> u8 {
    match method {
        Method::Hash { linear } => u8::from(linear),
        Method::Key { linear } => 2 + u8::from(linear),
        Method::Range => 4,
        Method::RangeColumns => 5,
        Method::List => 6,
        Method::ListColumns => 7,
    }
}

fn method(code: u8) -> Result<Method> {
    Ok(match code {
        0 | 1 => Method::Hash { linear: code == 1 },
        2 | 3 => Method::Key { linear: code == 3 },
        4 => Method::Range,
        5 => Method::RangeColumns,
        6 => Method::List,
        7 => Method::ListColumns,
        other => return Err(Error::corrupt(&format!("partitioning of kind {other}"))),
    })
}

pub(crate) fn write(w: &mut Writer, by: &Option<Partitioning>) {
    let Some(by) = by else {
        w.bool(false);
        return;
    };
    w.bool(true);
    let flag = by.sub.as_ref().map_or(0, |_| HAS_SUBPARTITIONS);
    w.u8(code(by.method) | flag);
    if let Some(sub) = &by.sub {
        w.u8(code(sub.method));
        write_columns(w, &sub.columns, sub.expr.as_ref(), sub.algorithm);
        w.bool(sub.by_number);
        w.u32(u32::try_from(sub.count).unwrap_or(u32::MAX));
    }
    write_columns(w, &by.columns, by.expr.as_ref(), by.algorithm);
    w.bool(by.by_number);
    w.u32(by.next_id);
    w.list(&by.partitions, |w, p| {
        w.u32(p.id);
        w.str(&p.name);
        w.str(&p.comment);
        match &p.bound {
            PartitionBound::None => w.u8(0),
            PartitionBound::LessThan(bounds) => {
                w.u8(1);
                w.list(bounds, |w, bound| {
                    w.bool(bound.is_some());
                    if let Some(value) = bound {
                        w.value(value);
                    }
                });
            }
            PartitionBound::In(tuples) => {
                w.u8(2);
                w.list(tuples, |w, tuple| w.list(tuple, |w, value| w.value(value)));
            }
        }
        if by.sub.is_some() {
            w.list(&p.subpartitions, |w, sub| {
                w.u32(sub.id);
                w.str(&sub.name);
                w.str(&sub.comment);
            });
        }
    });
}

fn write_columns(
    w: &mut Writer,
    columns: &[usize],
    expr: Option<&PartitionExpr>,
    algorithm: Option<u8>,
) {
    w.list(columns, |w, c| {
        w.u32(u32::try_from(*c).unwrap_or(u32::MAX));
    });
    match expr {
        None => w.bool(false),
        Some(e) => {
            w.bool(true);
            e.write(w);
        }
    }
    w.u8(algorithm.unwrap_or(0));
}

type ColumnsRead = (Vec<usize>, Option<PartitionExpr>, Option<u8>);

fn read_columns(r: &mut Reader<'_>) -> Result<ColumnsRead> {
    let columns = r.list(|r| Ok(r.u32()? as usize))?;
    let expr = if r.bool()? {
        Some(PartitionExpr::read(r, 0)?)
    } else {
        None
    };
    Ok((columns, expr, Some(r.u8()?).filter(|a| *a != 0)))
}

pub(crate) fn read(r: &mut Reader<'_>) -> Result<Option<Partitioning>> {
    if !r.bool()? {
        return Ok(None);
    }
    let kind = r.u8()?;
    let sub = if kind & HAS_SUBPARTITIONS == 0 {
        None
    } else {
        Some(read_subpartitioning(r)?)
    };
    let (columns, expr, algorithm) = read_columns(r)?;
    let by = Partitioning {
        method: method(kind & !HAS_SUBPARTITIONS)?,
        columns,
        expr,
        algorithm,
        by_number: r.bool()?,
        next_id: r.u32()?,
        partitions: r.list(|r| read_partition(r, sub.is_some()))?,
        sub,
    };
    let count = by.sub.as_ref().map_or(0, |sub| sub.count);
    let complete = |p: &Partition| p.subpartitions.len() == count;
    if !by.partitions.iter().all(complete) {
        return Err(Error::corrupt(
            "a partition with another number of subpartitions",
        ));
    }
    Ok(Some(by))
}

fn read_subpartitioning(r: &mut Reader<'_>) -> Result<Subpartitioning> {
    let method = method(r.u8()?)?;
    let (columns, expr, algorithm) = read_columns(r)?;
    Ok(Subpartitioning {
        method,
        columns,
        expr,
        algorithm,
        by_number: r.bool()?,
        count: r.u32()? as usize,
    })
}

fn read_subpartition(r: &mut Reader<'_>) -> Result<Subpartition> {
    Ok(Subpartition {
        id: r.u32()?,
        name: r.str()?,
        comment: r.str()?,
    })
}

fn read_partition(r: &mut Reader<'_>, has_subpartitions: bool) -> Result<Partition> {
    Ok(Partition {
        id: r.u32()?,
        name: r.str()?,
        comment: r.str()?,
        bound: match r.u8()? {
            0 => PartitionBound::None,
            1 => PartitionBound::LessThan(r.list(|r| {
                if r.bool()? {
                    Ok(Some(r.value()?))
                } else {
                    Ok(None)
                }
            })?),
            2 => PartitionBound::In(r.list(|r| r.list(|r| r.value()))?),
            other => return Err(Error::corrupt(&format!("partition bound of kind {other}"))),
        },
        subpartitions: if has_subpartitions {
            r.list(read_subpartition)?
        } else {
            Vec::new()
        },
    })
}
