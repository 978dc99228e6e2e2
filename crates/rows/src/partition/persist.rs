//! Partitioning in the catalog's rows (docs/formats.md, "Catalog").

use super::expr::PartitionExpr;
use super::{Method, Partition, PartitionBound, Partitioning};
use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};

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
    w.u8(code(by.method));
    w.list(&by.columns, |w, c| {
        w.u32(u32::try_from(*c).unwrap_or(u32::MAX));
    });
    match &by.expr {
        None => w.bool(false),
        Some(e) => {
            w.bool(true);
            e.write(w);
        }
    }
    w.u8(by.algorithm.unwrap_or(0));
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
    });
}

pub(crate) fn read(r: &mut Reader<'_>) -> Result<Option<Partitioning>> {
    if !r.bool()? {
        return Ok(None);
    }
    Ok(Some(Partitioning {
        method: method(r.u8()?)?,
        columns: r.list(|r| Ok(r.u32()? as usize))?,
        expr: if r.bool()? {
            Some(PartitionExpr::read(r, 0)?)
        } else {
            None
        },
        algorithm: Some(r.u8()?).filter(|a| *a != 0),
        by_number: r.bool()?,
        next_id: r.u32()?,
        partitions: r.list(read_partition)?,
    }))
}

fn read_partition(r: &mut Reader<'_>) -> Result<Partition> {
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
    })
}
