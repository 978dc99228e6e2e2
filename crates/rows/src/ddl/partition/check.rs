//! The rules of MySQL's PARTITION BY (manual, "Restrictions and Limitations on
//! Partitioning", and the error reference for the texts).

use crate::definition::{Index, IndexKind, TableDef};
use crate::error::{Error, Result};
use crate::partition::expr::{MAX_DEPTH, PartitionExpr};
use crate::partition::{MAX_PARTITIONS, Method, PartitionBound, Partitioning};
use crate::table::router::encode_bound;
use porpoise_types::{ColumnType, Kind, Value, encode_key};
use std::collections::HashSet;

pub(super) fn refuse(code: u16, message: impl Into<String>) -> Error {
    Error::refused(code, "HY000", message)
}

/// 1735: no partition or subpartition of that name.
pub(super) fn unknown(name: &str, table: &TableDef) -> Error {
    let text = format!("Unknown partition '{name}' in table '{}'", table.name);
    refuse(1735, text)
}

/// Checks a table's partitioning as a whole, its keys included.
pub(crate) fn check(table: &TableDef) -> Result<()> {
    let Some(by) = &table.partitioning else {
        return Ok(());
    };
    if by.partitions.is_empty() {
        return Err(refuse(
            1504,
            "Number of partitions = 0 is not an allowed value",
        ));
    }
    if by.sub.is_some() && by.method.is_hash() {
        return Err(refuse(
            1500,
            "It is only possible to mix RANGE/LIST partitioning with HASH/KEY partitioning for \
             subpartitioning",
        ));
    }
    if by.leaf_count() > MAX_PARTITIONS {
        return Err(refuse(
            1499,
            "Too many partitions (including subpartitions) were defined",
        ));
    }
    if table.indexes.iter().any(Index::is_full_text) {
        let text = "The used table type doesn't support FULLTEXT indexes";
        return Err(refuse(1214, text));
    }
    check_columns(table, by.method, &by.columns, by.expr.as_ref())?;
    if let Some(sub) = &by.sub {
        check_columns(table, sub.method, &sub.columns, sub.expr.as_ref())?;
    }
    unique_keys(table, by)?;
    check_names(by)?;
    check_bounds(table, by)
}

/// Checks the columns or the expression of PARTITION BY or SUBPARTITION BY.
fn check_columns(
    table: &TableDef,
    method: Method,
    columns: &[usize],
    expr: Option<&PartitionExpr>,
) -> Result<()> {
    if columns.is_empty() {
        return match expr {
            Some(_) => Err(constant()),
            None => Err(refuse(
                1488,
                "Field in list of fields for partition function not found in table",
            )),
        };
    }
    if expr.is_some_and(|e| e.depth() > MAX_DEPTH) {
        return Err(refuse(1564, "This partition function is not allowed"));
    }
    for column in columns.iter().filter_map(|c| table.columns.get(*c)) {
        if column.ty.is_blob() || column.ty.kind == Kind::Json {
            return Err(refuse(
                1502,
                "A BLOB field is not allowed in partition function",
            ));
        }
        let listed = matches!(method, Method::RangeColumns | Method::ListColumns);
        let allowed = column.ty.is_integer()
            || matches!(column.ty.kind, Kind::Date | Kind::DateTime | Kind::Time)
            || column.ty.is_string();
        if listed && !allowed {
            return Err(refuse(
                1659,
                format!(
                    "Field '{}' is of a not allowed type for this type of partitioning",
                    column.name
                ),
            ));
        }
    }
    expr.map_or(Ok(()), |expr| check_expression(table, expr))
}

fn constant() -> Error {
    refuse(
        1486,
        "Constant, random or timezone-dependent expressions in (sub)partitioning function are \
         not allowed",
    )
}

/// The expression must be of integer type, and must not depend on a time zone.
fn check_expression(table: &TableDef, expr: &PartitionExpr) -> Result<()> {
    let wrong_type = || refuse(1491, "The PARTITION function returns the wrong type");
    if let PartitionExpr::Column(at) = expr {
        let column = table.columns.get(*at);
        return match column {
            Some(c) if c.ty.is_integer() || c.ty.kind == Kind::Year => Ok(()),
            Some(c) => Err(refuse(
                1659,
                format!(
                    "Field '{}' is of a not allowed type for this type of partitioning",
                    c.name
                ),
            )),
            None => Err(wrong_type()),
        };
    }
    check_operands(table, expr, &wrong_type)
}

fn check_operands(table: &TableDef, expr: &PartitionExpr, wrong: &dyn Fn() -> Error) -> Result<()> {
    use crate::partition::expr::PartitionFunction as F;
    let kind = |e: &PartitionExpr| match e {
        PartitionExpr::Column(at) => table.columns.get(*at).map(|c| &c.ty),
        _ => None,
    };
    // Whether an operand is a number; only columns can be anything else.
    let number = |e: &PartitionExpr| {
        kind(e).is_none_or(|ty| ty.is_integer() || matches!(ty.kind, Kind::Year))
    };
    match expr {
        PartitionExpr::Column(_) if number(expr) => Ok(()),
        PartitionExpr::Column(_) => match kind(expr).map(|ty| ty.kind) {
            Some(Kind::Timestamp) => Err(constant()),
            _ => Err(wrong()),
        },
        PartitionExpr::Int(_) => Ok(()),
        PartitionExpr::Op(_, a, b) => {
            check_operands(table, a, wrong)?;
            check_operands(table, b, wrong)
        }
        PartitionExpr::Call(function, args) => match function {
            F::Abs => args
                .iter()
                .try_for_each(|a| check_operands(table, a, wrong)),
            F::Ceil | F::Ceiling | F::Floor => {
                args.iter()
                    .try_for_each(|a| match kind(a).map(|ty| ty.kind) {
                        Some(Kind::Decimal) => Ok(()),
                        _ => check_operands(table, a, wrong),
                    })
            }
            F::UnixTimestamp => match args.first().and_then(kind).map(|ty| ty.kind) {
                Some(Kind::Timestamp) => Ok(()),
                _ => Err(constant()),
            },
            _ => args
                .iter()
                .try_for_each(|a| check_date_argument(kind(a), *function)),
        },
    }
}

/// A date function's argument.
fn check_date_argument(
    ty: Option<&ColumnType>,
    function: crate::partition::expr::PartitionFunction,
) -> Result<()> {
    use crate::partition::expr::PartitionFunction as F;
    // Functions of the time of day.
    let clock = matches!(
        function,
        F::Hour | F::Minute | F::Second | F::Microsecond | F::TimeToSec
    );
    match ty.map(|ty| ty.kind) {
        Some(Kind::Date) if !clock => Ok(()),
        Some(Kind::DateTime) => Ok(()),
        Some(Kind::Time) if clock => Ok(()),
        _ => Err(constant()),
    }
}

fn unique_keys(table: &TableDef, by: &Partitioning) -> Result<()> {
    for (n, index) in table.indexes.iter().enumerate() {
        if !index.kind.is_unique() || (n == 0 && table.hidden_key) {
            continue;
        }
        let has = |c: usize| {
            let mut parts = index.parts.iter();
            parts.any(|p| p.column == c && p.prefix.is_none())
        };
        if !by.all_columns().all(has) {
            let what = match index.kind {
                IndexKind::Primary => "PRIMARY KEY",
                _ => "UNIQUE INDEX",
            };
            return Err(refuse(
                1503,
                format!(
                    "A {what} must include all columns in the table's partitioning function \
                     (prefixed columns are not considered)."
                ),
            ));
        }
    }
    Ok(())
}

fn check_names(by: &Partitioning) -> Result<()> {
    let mut seen = HashSet::new();
    let names = by.partitions.iter().flat_map(|partition| {
        let subpartitions = partition.subpartitions.iter().map(|sub| &sub.name);
        std::iter::once(&partition.name).chain(subpartitions)
    });
    for name in names {
        super::super::check_name(name)?;
        if name.is_empty() || name.ends_with(' ') {
            return Err(refuse(1567, "Incorrect partition name"));
        }
        if !seen.insert(name.to_lowercase()) {
            return Err(refuse(1517, format!("Duplicate partition name {name}")));
        }
    }
    Ok(())
}

fn check_bounds(table: &TableDef, by: &Partitioning) -> Result<()> {
    match by.method {
        Method::Hash { .. } | Method::Key { .. } => Ok(()),
        Method::Range | Method::RangeColumns => check_ranges(table, by),
        Method::List | Method::ListColumns => check_lists(table, by),
    }
}

fn types(table: &TableDef, by: &Partitioning) -> Vec<ColumnType> {
    if by.expr.is_some() {
        // The expression and its bounds are integers.
        return vec![ColumnType::int(Kind::BigInt)];
    }
    by.columns
        .iter()
        .filter_map(|c| table.columns.get(*c).map(|c| c.ty.clone()))
        .collect()
}

fn check_ranges(table: &TableDef, by: &Partitioning) -> Result<()> {
    let types = types(table, by);
    let not_increasing = || {
        refuse(
            1493,
            "VALUES LESS THAN value must be strictly increasing for each partition",
        )
    };
    let mut before: Option<Vec<u8>> = None;
    let mut number_before: Option<i128> = None;
    let last = by.partitions.len().saturating_sub(1);
    for (n, partition) in by.partitions.iter().enumerate() {
        let PartitionBound::LessThan(bounds) = &partition.bound else {
            return Err(refuse(
                1479,
                "Syntax error: RANGE PARTITIONING requires definition of VALUES LESS THAN for \
                 each partition",
            ));
        };
        if bounds.len() != types.len() {
            return Err(refuse(
                1653,
                "Inconsistency in usage of column lists for partitioning",
            ));
        }
        if by.expr.is_some() {
            let bound = match bounds.first() {
                Some(Some(Value::Int(v))) => Some(i128::from(*v)),
                Some(Some(Value::UInt(v))) => Some(i128::from(*v)),
                _ => None,
            };
            if bound.is_none() && n != last {
                return Err(refuse(
                    1481,
                    "MAXVALUE can only be used in last partition definition",
                ));
            }
            if bound.is_some() && number_before.is_some_and(|b| bound <= Some(b)) {
                return Err(not_increasing());
            }
            number_before = bound;
            continue;
        }
        let bound = encode_bound(bounds, &types);
        if before.as_ref().is_some_and(|b| bound <= *b) {
            return Err(not_increasing());
        }
        before = Some(bound);
    }
    Ok(())
}

fn check_lists(table: &TableDef, by: &Partitioning) -> Result<()> {
    let types = types(table, by);
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    for partition in &by.partitions {
        let PartitionBound::In(tuples) = &partition.bound else {
            return Err(refuse(
                1479,
                "Syntax error: LIST PARTITIONING requires definition of VALUES IN for each \
                 partition",
            ));
        };
        for tuple in tuples {
            if tuple.len() != types.len() {
                return Err(refuse(
                    1653,
                    "Inconsistency in usage of column lists for partitioning",
                ));
            }
            let mut key = Vec::new();
            for (value, ty) in tuple.iter().zip(&types) {
                match (value, by.expr.is_some()) {
                    (Value::UInt(v), true) => key.extend_from_slice(&v.to_be_bytes()),
                    _ => encode_key(value.as_ref(), ty, true, false, &mut key),
                }
            }
            if !seen.insert(key) {
                return Err(refuse(
                    1495,
                    "Multiple definition of same constant in list partitioning",
                ));
            }
        }
    }
    Ok(())
}
