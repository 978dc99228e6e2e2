//! Translation of PARTITION BY and of the partitioning clauses of ALTER TABLE into the
//! operations of `rows`.
//!
//! Partitioning expressions become expressions over column positions ([`expression`]), and bounds
//! become values of their columns. Definitions that MySQL does not allow are rejected with its error
//! numbers. `rows` checks that the partitioning fits the table (unique keys, ascending bounds).

use crate::context::StatementContext;
use porpoise_rows::catalog::Table;
use porpoise_rows::ddl::AlterOp;
use porpoise_rows::ddl::partition::PartitionChange;
use porpoise_rows::partition::expr::{PartitionExpr, PartitionFunction, PartitionOp};
use porpoise_rows::partition::{
    MAX_PARTITIONS, Method, Partition, PartitionBound, Partitioning, Subpartition, Subpartitioning,
    default_name,
};
use porpoise_sql_expr::error::{Result, SqlError};
use porpoise_sql_parser::ast::{
    AlterAction, BinaryOp, Expr, ExprKind, Func, Ident, IntervalUnit, Literal, PartitionBy,
    PartitionDef, PartitionMaintenance, PartitionScheme, PartitionValues, TableOption, UnaryOp,
};
use porpoise_types::{CastCx, ColumnType, Kind, Level, Value, store};

/// The table's columns as partitioning sees them: names, types and the primary key.
pub struct Columns<'a> {
    /// The columns in order.
    pub all: Vec<(&'a str, &'a ColumnType)>,
    /// The columns by which PARTITION BY KEY () partitions: those of the primary key, else of the
    /// first unique key.
    pub key: Vec<usize>,
}

/// An error with SQLSTATE HY000.
fn error(code: u16, text: impl Into<String>) -> SqlError {
    SqlError::new(code, "HY000", text)
}

impl Columns<'_> {
    fn position(&self, name: &str) -> Option<usize> {
        self.all
            .iter()
            .position(|(n, _)| n.eq_ignore_ascii_case(name))
    }

    /// The kind of a column; `None` for another expression.
    fn kind_of(&self, e: &Expr<'_>) -> Option<Kind> {
        let ExprKind::Column(name) = &e.kind else {
            return None;
        };
        let at = self.position(name.name.name)?;
        self.all.get(at).map(|(_, ty)| ty.kind)
    }

    fn positions(&self, names: &[Ident<'_>]) -> Result<Vec<usize>> {
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let at = self.position(name.name).ok_or_else(|| {
                error(
                    1488,
                    "Field in list of fields for partition function not found in table",
                )
            })?;
            if found.contains(&at) {
                let text = format!("Duplicate partition field name '{}'", name.name);
                return Err(error(1652, text));
            }
            found.push(at);
        }
        Ok(found)
    }
}

/// Converts PARTITION BY.
///
/// # Errors
/// MySQL's errors (1479 to 1504).
pub fn partitioning(
    cx: &StatementContext,
    columns: &Columns<'_>,
    by: &PartitionBy<'_>,
) -> Result<Partitioning> {
    let scheme = scheme(columns, &by.scheme)?;
    let mut out = Partitioning {
        method: scheme.method,
        columns: scheme.columns,
        expr: scheme.expr,
        algorithm: scheme.algorithm,
        by_number: false,
        partitions: Vec::new(),
        next_id: 0,
        sub: subpartitioning(columns, by)?,
    };
    check_column_types(columns, &out)?;
    out.partitions = definitions(cx, columns, &out, by.partitions)?;
    number_partitions(by, &mut out)?;
    let mut partitions = std::mem::take(&mut out.partitions);
    partitions.iter_mut().for_each(|p| out.number(p));
    out.partitions = partitions;
    Ok(out)
}

/// Error 1659 unless every column of RANGE COLUMNS or LIST COLUMNS is an integer, a date or time without a time zone, or
/// a string.
fn check_column_types(columns: &Columns<'_>, by: &Partitioning) -> Result<()> {
    if !matches!(by.method, Method::RangeColumns | Method::ListColumns) {
        return Ok(());
    }
    for (name, ty) in by.columns.iter().filter_map(|at| columns.all.get(*at)) {
        let of_strings = ty.is_string() || ty.is_binary() || ty.is_blob() || ty.kind == Kind::Json;
        let of_dates = matches!(ty.kind, Kind::Date | Kind::DateTime | Kind::Time);
        if !(ty.is_integer() && ty.kind != Kind::Bit || of_dates || of_strings) {
            let text =
                format!("Field '{name}' is of a not allowed type for this type of partitioning");
            return Err(error(1659, text));
        }
    }
    Ok(())
}

/// Method, columns and expression of a PARTITION BY or SUBPARTITION BY clause.
struct Scheme {
    method: Method,
    columns: Vec<usize>,
    expr: Option<PartitionExpr>,
    algorithm: Option<u8>,
}

fn scheme(columns: &Columns<'_>, scheme: &PartitionScheme<'_>) -> Result<Scheme> {
    let by_expr = |method, e| -> Result<Scheme> {
        let expr = expression(columns, e, 0)?;
        let mut used = Vec::new();
        expr.columns(&mut used);
        Ok(Scheme {
            method,
            columns: used,
            expr: Some(expr),
            algorithm: None,
        })
    };
    let by_columns = |method, columns| Scheme {
        method,
        columns,
        expr: None,
        algorithm: None,
    };
    Ok(match scheme {
        PartitionScheme::Hash { linear, expr } => by_expr(Method::Hash { linear: *linear }, expr)?,
        PartitionScheme::Key {
            linear,
            algorithm,
            columns: names,
        } => {
            let listed = match names {
                [] => columns.key.clone(),
                names => columns.positions(names)?,
            };
            Scheme {
                algorithm: algorithm.and_then(|a| u8::try_from(a).ok()),
                ..by_columns(Method::Key { linear: *linear }, listed)
            }
        }
        PartitionScheme::Range(expr) => by_expr(Method::Range, expr)?,
        PartitionScheme::List(expr) => by_expr(Method::List, expr)?,
        PartitionScheme::RangeColumns(names) => {
            by_columns(Method::RangeColumns, columns.positions(names)?)
        }
        PartitionScheme::ListColumns(names) => {
            by_columns(Method::ListColumns, columns.positions(names)?)
        }
    })
}

/// Converts SUBPARTITION BY.
fn subpartitioning(columns: &Columns<'_>, by: &PartitionBy<'_>) -> Result<Option<Subpartitioning>> {
    let given = by.partitions.first().map_or(0, |p| p.subpartitions.len());
    let Some(sub) = &by.sub_scheme else {
        return if given == 0 {
            Ok(None)
        } else {
            Err(mixed_methods())
        };
    };
    if by.sub_count == Some(0) {
        return Err(error(
            1504,
            "Number of subpartitions = 0 is not an allowed value",
        ));
    }
    let scheme = scheme(columns, sub)?;
    // `rows` rejects a count above the maximum.
    let count = by.sub_count.unwrap_or(given.max(1) as u64);
    let count = usize::try_from(count).map_or(MAX_PARTITIONS + 1, |n| n.min(MAX_PARTITIONS + 1));
    Ok(Some(Subpartitioning {
        method: scheme.method,
        columns: scheme.columns,
        expr: scheme.expr,
        algorithm: scheme.algorithm,
        by_number: given == 0,
        count,
    }))
}

fn mixed_methods() -> SqlError {
    error(
        1500,
        "It is only possible to mix RANGE/LIST partitioning with HASH/KEY partitioning for \
         subpartitioning",
    )
}

/// The subpartitions of a partition: those given, or as many as the table has.
fn subpartitions(by: &Partitioning, def: &PartitionDef<'_>) -> Result<Vec<Subpartition>> {
    let Some(sub) = &by.sub else {
        return if def.subpartitions.is_empty() {
            Ok(Vec::new())
        } else {
            Err(mixed_methods())
        };
    };
    if def.subpartitions.is_empty() {
        let default = |n: usize| Subpartition {
            id: 0,
            name: default_name(def.name.name, n),
            comment: comment(def.options),
        };
        return Ok((0..sub.count).map(default).collect());
    }
    let given = def.subpartitions.iter();
    let given = given.map(|(name, options)| Subpartition {
        id: 0,
        name: name.name.to_owned(),
        comment: match comment(options) {
            own if own.is_empty() => comment(def.options),
            own => own,
        },
    });
    Ok(given.collect())
}

/// COMMENT of a partition or subpartition.
fn comment(options: &[TableOption<'_>]) -> String {
    let mut comment = String::new();
    for option in options {
        if let TableOption::Comment(text) = option {
            comment = String::from_utf8_lossy(text).into_owned();
        }
    }
    comment
}

/// Determines the number of partitions, which may be implicit.
fn number_partitions(by: &PartitionBy<'_>, out: &mut Partitioning) -> Result<()> {
    if by.count == Some(0) {
        return Err(error(
            1504,
            "Number of partitions = 0 is not an allowed value",
        ));
    }
    let given = out.partitions.len() as u64;
    if given > 0 {
        return match by.count {
            Some(n) if n != given => Err(error(
                1484,
                "Wrong number of partitions defined, mismatch with previous setting",
            )),
            _ => Ok(()),
        };
    }
    if !out.method.is_hash() {
        let method = if out.method.is_range() {
            "RANGE"
        } else {
            "LIST"
        };
        let text = format!("For {method} partitions each partition must be defined");
        return Err(error(1492, text));
    }
    let count = by.count.unwrap_or(1);
    if count > MAX_PARTITIONS as u64 {
        return Err(error(
            1499,
            "Too many partitions (including subpartitions) were defined",
        ));
    }
    out.by_number = true;
    out.partitions = (0..count)
        .map(|n| Partition {
            id: 0,
            name: format!("p{n}"),
            bound: PartitionBound::None,
            comment: String::new(),
            subpartitions: Vec::new(),
        })
        .collect();
    Ok(())
}

/// Converts the partition definitions.
fn definitions(
    cx: &StatementContext,
    columns: &Columns<'_>,
    by: &Partitioning,
    defs: &[PartitionDef<'_>],
) -> Result<Vec<Partition>> {
    let last = defs.len().saturating_sub(1);
    let mut out = Vec::with_capacity(defs.len());
    for (n, def) in defs.iter().enumerate() {
        let only = |method: &str, values: &str| {
            error(
                1480,
                format!(
                    "Only {method} PARTITIONING can use VALUES {values} in partition definition"
                ),
            )
        };
        let bound = match def.values {
            PartitionValues::None => PartitionBound::None,
            PartitionValues::LessThan(_) if !by.method.is_range() => {
                return Err(only("RANGE", "LESS THAN"));
            }
            PartitionValues::In(_) if !by.method.is_list() => return Err(only("LIST", "IN")),
            PartitionValues::LessThan(bounds) => {
                if by.expr.is_some() && matches!(bounds, [None]) && n != last {
                    return Err(error(
                        1481,
                        "MAXVALUE can only be used in last partition definition",
                    ));
                }
                less_than(cx, columns, by, def.name.name, bounds)?
            }
            PartitionValues::In(values) => values_in(cx, columns, by, def.name.name, values)?,
        };
        out.push(Partition {
            id: 0,
            name: def.name.name.to_owned(),
            bound,
            comment: comment(def.options),
            subpartitions: subpartitions(by, def)?,
        });
    }
    Ok(out)
}

fn inconsistent() -> SqlError {
    error(
        1653,
        "Inconsistency in usage of column lists for partitioning",
    )
}

/// Number of values in one bound: 1 for a partitioning expression, else one for each column.
fn bound_len(by: &Partitioning) -> usize {
    if by.expr.is_some() {
        1
    } else {
        by.columns.len()
    }
}

/// Converts VALUES LESS THAN; `None` among `bounds` is MAXVALUE.
fn less_than(
    cx: &StatementContext,
    columns: &Columns<'_>,
    by: &Partitioning,
    partition: &str,
    bounds: &[Option<Expr<'_>>],
) -> Result<PartitionBound> {
    let len = bound_len(by);
    // MAXVALUE without parentheses applies to all columns.
    if let ([None], true) = (bounds, len > 1) {
        return Ok(PartitionBound::LessThan(vec![None; len]));
    }
    if bounds.len() != len {
        return Err(inconsistent());
    }
    let mut values = Vec::with_capacity(bounds.len());
    for (n, bound) in bounds.iter().enumerate() {
        values.push(match bound {
            None => None,
            Some(e) => {
                let value = bound_value(cx, columns, by, (partition, n), e)?;
                if value.is_null() {
                    let text = "Not allowed to use NULL value in VALUES LESS THAN";
                    return Err(error(1566, text));
                }
                Some(value)
            }
        });
    }
    Ok(PartitionBound::LessThan(values))
}

/// Converts VALUES IN.
fn values_in(
    cx: &StatementContext,
    columns: &Columns<'_>,
    by: &Partitioning,
    partition: &str,
    values: &[Expr<'_>],
) -> Result<PartitionBound> {
    let len = bound_len(by);
    let mut tuples = Vec::with_capacity(values.len());
    for e in values {
        let parts: &[Expr<'_>] = match &e.kind {
            ExprKind::Row(parts) => parts,
            _ => std::slice::from_ref(e),
        };
        if parts.len() != len {
            return Err(inconsistent());
        }
        let tuple = parts.iter().enumerate();
        let tuple = tuple.map(|(n, e)| bound_value(cx, columns, by, (partition, n), e));
        tuples.push(tuple.collect::<Result<Vec<_>>>()?);
    }
    Ok(PartitionBound::In(tuples))
}

/// The value at position `n` of a bound: an integer for a partitioning expression, else a value of
/// the `n`th partitioning column.
fn bound_value(
    cx: &StatementContext,
    columns: &Columns<'_>,
    by: &Partitioning,
    (partition, n): (&str, usize),
    e: &Expr<'_>,
) -> Result<Value> {
    let (value, source) = cx.evaluate(e, &[], &[])?;
    if value.is_null() {
        return Ok(value);
    }
    if by.expr.is_some() {
        return match value {
            Value::Int(_) => Ok(value),
            Value::UInt(v) => Ok(i64::try_from(v).map_or(Value::UInt(v), Value::Int)),
            _ => {
                let text = format!("VALUES value for partition '{partition}' must have type INT");
                Err(error(1697, text))
            }
        };
    }
    let column = by.columns.get(n).and_then(|c| columns.all.get(*c));
    let Some((name, ty)) = column else {
        return Err(inconsistent());
    };
    let mut changed = false;
    let mut note = |w: porpoise_types::Warning| changed |= w.level != Level::Note;
    let mut cx = CastCx {
        mode: cx.settings.mode,
        strict: true,
        warnings: &mut note,
        tz: &cx.settings.time_zone,
        now: cx.env.now(),
    };
    let same_kind = ty.is_integer() == source.is_integer();
    match store(value.as_ref(), Some(&source), ty, name, 1, &mut cx) {
        Ok(value) if !changed && same_kind => Ok(value),
        _ => Err(error(1654, "Partition column values of incorrect type")),
    }
}

/// The columns by which a table may be partitioned.
fn columns_of(table: &Table) -> Columns<'_> {
    let key = table.indexes.first();
    Columns {
        all: table
            .columns
            .iter()
            .map(|c| (c.name.as_str(), &c.ty))
            .collect(),
        key: key.map_or_else(Vec::new, |i| i.parts.iter().map(|p| p.column).collect()),
    }
}

/// The operation for a partitioning clause that may be combined with other clauses; `altered`
/// computes the table as those leave it. `None` for a clause that must stand alone.
///
/// # Errors
/// MySQL's errors.
pub fn combined_change(
    cx: &StatementContext,
    action: &AlterAction<'_>,
    altered: &dyn Fn() -> Result<Table>,
) -> Result<Option<AlterOp>> {
    Ok(match action {
        AlterAction::PartitionBy(by) => {
            let table = altered()?;
            let by = partitioning(cx, &columns_of(&table), by)?;
            Some(AlterOp::Partition(Some(Box::new(by))))
        }
        AlterAction::RemovePartitioning => Some(AlterOp::Partition(None)),
        _ => None,
    })
}

/// The change that a partitioning clause makes; `None` if `action` is not a partitioning clause or the
/// table does not exist.
///
/// # Errors
/// MySQL's errors.
pub fn change(
    cx: &StatementContext,
    database: &str,
    name: &str,
    action: &AlterAction<'_>,
) -> Result<Option<PartitionChange>> {
    let catalog = cx.server.db.catalog();
    let Some(table) = catalog.table(database, name) else {
        return Ok(None);
    };
    let columns = columns_of(table);
    let not_partitioned = || {
        error(
            1505,
            "Partition management on a not partitioned table is not possible",
        )
    };
    let names = |list: &[Ident<'_>]| list.iter().map(|n| n.name.to_owned()).collect();
    // Counts above the maximum are rejected by `rows`.
    let count = |n: &u64| {
        usize::try_from(*n)
            .unwrap_or(usize::MAX)
            .min(MAX_PARTITIONS + 1)
    };
    Ok(Some(match action {
        AlterAction::PartitionBy(by) => PartitionChange::By(partitioning(cx, &columns, by)?),
        AlterAction::RemovePartitioning => PartitionChange::Remove,
        AlterAction::AddPartitions(defs) => {
            let by = table.partitioning.as_ref().ok_or_else(not_partitioned)?;
            PartitionChange::Add(definitions(cx, &columns, by, defs)?)
        }
        AlterAction::AddPartitionCount(n) => PartitionChange::AddCount(count(n)),
        AlterAction::DropPartitions(list) => PartitionChange::Drop(names(list)),
        AlterAction::CoalescePartition(n) => PartitionChange::Coalesce(count(n)),
        AlterAction::ReorganizePartition(list, defs) => {
            let by = table.partitioning.as_ref().ok_or_else(not_partitioned)?;
            PartitionChange::Reorganize(names(list), definitions(cx, &columns, by, defs)?)
        }
        AlterAction::MaintainPartitions(PartitionMaintenance::Truncate, list) => {
            PartitionChange::Truncate(names(list))
        }
        _ => return Ok(None),
    }))
}

/// Whether an action is a partitioning clause.
pub fn is_partition_clause(action: &AlterAction<'_>) -> bool {
    matches!(
        action,
        AlterAction::PartitionBy(_)
            | AlterAction::RemovePartitioning
            | AlterAction::AddPartitions(_)
            | AlterAction::AddPartitionCount(_)
            | AlterAction::DropPartitions(_)
            | AlterAction::CoalescePartition(_)
            | AlterAction::ReorganizePartition(..)
            | AlterAction::ExchangePartition(..)
            | AlterAction::MaintainPartitions(..)
    )
}

/// Whether a partitioning clause may be combined with clauses of other kinds.
pub fn may_be_combined(action: &AlterAction<'_>) -> bool {
    matches!(
        action,
        AlterAction::PartitionBy(_) | AlterAction::RemovePartitioning
    )
}

fn not_allowed() -> SqlError {
    error(1564, "This partition function is not allowed")
}

fn wrong_type() -> SqlError {
    error(1491, "The PARTITION function returns the wrong type")
}

/// Error 1486, also for arguments that are no columns of a suitable type.
fn unstable_expression() -> SqlError {
    let text = "Constant, random or timezone-dependent expressions in (sub)partitioning function are \
                not allowed";
    error(1486, text)
}

/// Converts a partitioning expression, over positions of columns.
fn expression(columns: &Columns<'_>, e: &Expr<'_>, depth: usize) -> Result<PartitionExpr> {
    if depth > porpoise_rows::partition::expr::MAX_DEPTH {
        return Err(not_allowed());
    }
    let inner = |e: &Expr<'_>| expression(columns, e, depth + 1);
    match &e.kind {
        ExprKind::Column(name) => match columns.position(name.name.name) {
            Some(at) => Ok(PartitionExpr::Column(at)),
            None => Err(SqlError::unknown_column(
                name.name.name,
                "partition function",
            )),
        },
        ExprKind::Literal(Literal::Int(n)) => {
            let n = i64::try_from(*n).map_err(|_| not_allowed())?;
            Ok(PartitionExpr::Int(n))
        }
        ExprKind::Unary(UnaryOp::Plus, e) => inner(e),
        ExprKind::Unary(UnaryOp::Neg, e) => Ok(PartitionExpr::Op(
            PartitionOp::Sub,
            Box::new(PartitionExpr::Int(0)),
            Box::new(inner(e)?),
        )),
        ExprKind::Binary(b) => Ok(PartitionExpr::Op(
            operator(b.op)?,
            Box::new(inner(&b.left)?),
            Box::new(inner(&b.right)?),
        )),
        ExprKind::Chain(chain) => {
            let mut out = inner(&chain.first)?;
            for (o, right) in chain.rest {
                out = PartitionExpr::Op(operator(*o)?, Box::new(out), Box::new(inner(right)?));
            }
            Ok(out)
        }
        ExprKind::Func(call) => function_call(columns, call, depth),
        ExprKind::Extract(unit, e) => extract_expression(columns, *unit, e),
        _ => Err(not_allowed()),
    }
}

fn function_call(columns: &Columns<'_>, call: &Func<'_>, depth: usize) -> Result<PartitionExpr> {
    let inner = |e: &Expr<'_>| expression(columns, e, depth + 1);
    if call.name.name.eq_ignore_ascii_case("mod")
        && let [a, b] = call.args
    {
        let (a, b) = (Box::new(inner(a)?), Box::new(inner(b)?));
        return Ok(PartitionExpr::Op(PartitionOp::Mod, a, b));
    }
    if call.name.name.eq_ignore_ascii_case("from_days")
        && let [days] = call.args
    {
        // Its value is a date, not an integer. MySQL reports 1486 if its argument is a date or time, or if it is within
        // another expression.
        let is_temporal = columns.kind_of(days).is_some_and(is_date_or_time);
        return Err(if is_temporal || depth > 0 {
            unstable_expression()
        } else {
            wrong_type()
        });
    }
    let found = PartitionFunction::by_name(call.name.name);
    let (function, args) = found.ok_or_else(not_allowed)?;
    if call.args.len() != args || call.star || call.over.is_some() {
        return Err(not_allowed());
    }
    if function.takes_dates() && call.args.iter().any(|e| columns.kind_of(e).is_none()) {
        return Err(unstable_expression());
    }
    let args = call.args.iter().map(inner).collect::<Result<_>>()?;
    Ok(PartitionExpr::Call(function, args))
}

fn is_date_or_time(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Date | Kind::DateTime | Kind::Timestamp | Kind::Time
    )
}

/// EXTRACT of a column, composed of the functions of its fields. Fields of a date need a DATE or DATETIME, fields of a
/// time a TIME or DATETIME.
fn extract_expression(
    columns: &Columns<'_>,
    unit: IntervalUnit,
    e: &Expr<'_>,
) -> Result<PartitionExpr> {
    use IntervalUnit as U;
    use PartitionFunction as F;
    // Each field has two digits, microseconds have six.
    let fields: &[F] = match unit {
        U::Microsecond => &[F::Microsecond],
        U::Second => &[F::Second],
        U::Minute => &[F::Minute],
        U::Hour => &[F::Hour],
        U::Day => &[F::DayOfMonth],
        U::Month => &[F::Month],
        U::Quarter => &[F::Quarter],
        U::Year => &[F::Year],
        U::YearMonth => &[F::Year, F::Month],
        U::DayHour => &[F::DayOfMonth, F::Hour],
        U::DayMinute => &[F::DayOfMonth, F::Hour, F::Minute],
        U::DaySecond => &[F::DayOfMonth, F::Hour, F::Minute, F::Second],
        U::DayMicrosecond => &[F::DayOfMonth, F::Hour, F::Minute, F::Second, F::Microsecond],
        U::HourMinute => &[F::Hour, F::Minute],
        U::HourSecond => &[F::Hour, F::Minute, F::Second],
        U::HourMicrosecond => &[F::Hour, F::Minute, F::Second, F::Microsecond],
        U::MinuteSecond => &[F::Minute, F::Second],
        U::MinuteMicrosecond => &[F::Minute, F::Second, F::Microsecond],
        U::SecondMicrosecond => &[F::Second, F::Microsecond],
        // The week depends on default_week_format.
        U::Week => return Err(unstable_expression()),
    };
    let of_time = |f: &F| matches!(f, F::Hour | F::Minute | F::Second | F::Microsecond);
    let (needs_time, needs_date) = (fields.iter().any(of_time), !fields.iter().all(of_time));
    let fits = match columns.kind_of(e) {
        Some(Kind::DateTime) => true,
        Some(Kind::Date) => !needs_time,
        Some(Kind::Time) => !needs_date,
        _ => false,
    };
    if !fits {
        return Err(unstable_expression());
    }
    let column = expression(columns, e, 1)?;
    let mut out: Option<PartitionExpr> = None;
    for field in fields {
        let value = PartitionExpr::Call(*field, vec![column.clone()]);
        let digits = if *field == F::Microsecond {
            1_000_000
        } else {
            100
        };
        out = Some(match out {
            None => value,
            Some(before) => {
                let digits = Box::new(PartitionExpr::Int(digits));
                let shifted = PartitionExpr::Op(PartitionOp::Mul, Box::new(before), digits);
                PartitionExpr::Op(PartitionOp::Add, Box::new(shifted), Box::new(value))
            }
        });
    }
    out.ok_or_else(not_allowed)
}

fn operator(op: BinaryOp) -> Result<PartitionOp> {
    Ok(match op {
        BinaryOp::Add => PartitionOp::Add,
        BinaryOp::Sub => PartitionOp::Sub,
        BinaryOp::Mul => PartitionOp::Mul,
        BinaryOp::IntDiv => PartitionOp::Div,
        BinaryOp::Mod => PartitionOp::Mod,
        _ => return Err(not_allowed()),
    })
}
