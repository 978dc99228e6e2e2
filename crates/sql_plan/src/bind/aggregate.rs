//! Aggregate functions (manual, "Aggregate Function Descriptions"): names, arguments, types, and
//! the query in which each is evaluated.

use super::expr::is_byte_operand;
use super::nodes::{node, numeric_operand};
use super::query::Enclosing;
use super::types::{is_text, number_like, precision};
use super::{Aggregates, BindEnv, Binder, OrderKey};
use crate::error::{Result, SqlError};
use crate::expr::collations::{Use, agree};
use crate::expr::query::{AGGREGATES, FreeRef};
use crate::expr::{Coercibility, Expr, ExprKind, Load};
use crate::functions::binary_bits::MAX_AGGREGATED;
use crate::functions::{common_collation, text_of};
use crate::parse::ast::{self, Func};
use porpoise_types::{Collation, ColumnType, Kind, SqlMode};

/// An aggregate function of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateKind {
    /// COUNT(*).
    CountRows,
    /// COUNT(e), COUNT(DISTINCT e, ...).
    Count,
    /// SUM(e).
    Sum,
    /// AVG(e).
    Avg,
    /// MIN(e).
    Min,
    /// MAX(e).
    Max,
    /// BIT_AND(e).
    BitAnd,
    /// BIT_OR(e).
    BitOr,
    /// BIT_XOR(e).
    BitXor,
    /// Variance or standard deviation.
    Deviation {
        /// Sample variance: divided by the number of values minus one.
        sample: bool,
        /// Standard deviation: the square root of the variance.
        root: bool,
    },
    /// GROUP_CONCAT(e, ...).
    Concat,
    /// JSON_ARRAYAGG(e).
    JsonArray,
    /// JSON_OBJECTAGG(name, e).
    JsonObject,
}

/// One aggregate of a query.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// The function.
    pub kind: AggregateKind,
    /// The arguments; none for COUNT(*).
    pub args: Vec<Expr>,
    /// DISTINCT.
    pub distinct: bool,
    /// ORDER BY of GROUP_CONCAT.
    pub order: Vec<OrderKey>,
    /// SEPARATOR of GROUP_CONCAT.
    pub separator: Vec<u8>,
    /// The type of the result.
    pub ty: ColumnType,
}

impl Aggregate {
    /// Whether the value does not depend on the order of a group's rows, apart from the rounding of
    /// floating-point sums.
    pub fn ignores_order(&self) -> bool {
        !matches!(
            self.kind,
            AggregateKind::Concat | AggregateKind::JsonArray | AggregateKind::JsonObject
        )
    }
}

/// Arguments and order.
type Parts = (Vec<Expr>, Vec<OrderKey>);

/// The aggregate function with this name.
pub(super) fn kind_named(name: &str, star: bool) -> Option<AggregateKind> {
    let deviation = |sample, root| AggregateKind::Deviation { sample, root };
    Some(match name.to_ascii_uppercase().as_str() {
        "COUNT" if star => AggregateKind::CountRows,
        "COUNT" => AggregateKind::Count,
        "SUM" => AggregateKind::Sum,
        "AVG" => AggregateKind::Avg,
        "MIN" => AggregateKind::Min,
        "MAX" => AggregateKind::Max,
        "BIT_AND" => AggregateKind::BitAnd,
        "BIT_OR" => AggregateKind::BitOr,
        "BIT_XOR" => AggregateKind::BitXor,
        "STD" | "STDDEV" | "STDDEV_POP" => deviation(false, true),
        "STDDEV_SAMP" => deviation(true, true),
        "VARIANCE" | "VAR_POP" => deviation(false, false),
        "VAR_SAMP" => deviation(true, false),
        "GROUP_CONCAT" => AggregateKind::Concat,
        "JSON_ARRAYAGG" => AggregateKind::JsonArray,
        "JSON_OBJECTAGG" => AggregateKind::JsonObject,
        _ => return None,
    })
}

impl Binder<'_> {
    /// Binds a call of an aggregate function; `None` if the function is not an aggregate.
    ///
    /// # Errors
    /// 1111 if no aggregate is allowed here.
    pub(super) fn aggregate(&mut self, f: &Func<'_>) -> Result<Option<Expr>> {
        let Some(kind) = kind_named(f.name.name, f.star) else {
            return Ok(None);
        };
        let nearest = self.plan.and_then(|planner| planner.outer());
        let noted = nearest.map(Enclosing::reference_counts);
        let mut own = self.aggregates.take();
        let nested = self.in_aggregate;
        self.in_aggregate |= own.is_some();
        // Aggregates of one query cannot be nested. In their arguments, columns take precedence over
        // select-list aliases in HAVING, too.
        let keys = self.group_keys.take();
        let bound = self.aggregate_parts(kind, f);
        self.group_keys = keys;
        self.in_aggregate = nested;
        let result = bound.and_then(|parts| {
            if let Some(level) = self.outer_level(&parts, own.is_some())? {
                if let (Some(around), Some(noted)) = (nearest, noted) {
                    around.truncate_references(&noted);
                }
                return self.bind_outer_aggregate(kind, f, level);
            }
            let own = own.as_deref_mut().ok_or_else(misplaced)?;
            add(own, kind, f, parts, self.env)
        });
        self.aggregates = own;
        result.map(Some)
    }

    /// The level of the enclosing query that an aggregate belongs to; `None` for its own query, which
    /// allows aggregates here if `allowed`.
    ///
    /// # Errors
    /// 1111 if it belongs to the query of an aggregate around it.
    fn outer_level(&self, parts: &Parts, allowed: bool) -> Result<Option<usize>> {
        let Some(around) = self.plan.and_then(|planner| planner.outer()) else {
            return Ok(None);
        };
        let furthest = match nearest_level(parts) {
            Some(0) => return Ok(None),
            None if allowed || self.in_aggregate => return Ok(None),
            None => usize::MAX,
            Some(level) => level,
        };
        let found = outermost_allowed(around, furthest)?;
        let must_be_outer = self.env.mode.contains(SqlMode::ANSI);
        if found.is_none() && furthest != usize::MAX && must_be_outer {
            return Err(misplaced());
        }
        Ok(found)
    }

    /// Binds an aggregate that belongs to the query `level` levels out, whose names it uses.
    fn bind_outer_aggregate(
        &self,
        kind: AggregateKind,
        f: &Func<'_>,
        level: usize,
    ) -> Result<Expr> {
        let missing = || SqlError::internal("an aggregate of a query that is not there");
        let inner = self.plan.ok_or_else(missing)?;
        let nearest = inner.outer().ok_or_else(missing)?;
        let around = nearest.at(level).ok_or_else(missing)?;
        let planner = inner.outer_planner(level).ok_or_else(missing)?;
        let mut list = around.aggregates.take().ok_or_else(missing)?;
        let mut binder = Binder {
            scope: around.scope,
            env: self.env,
            clause: self.clause,
            aggregates: None,
            in_aggregate: true,
            windows_allowed: false,
            values_allowed: false,
            system: self.system,
            aliases: &[],
            preceding_aliases: None,
            later_aliases: &[],
            group_keys: None,
            plan: Some(&*planner),
        };
        let bound = binder.aggregate_parts(kind, f);
        let added = bound.and_then(|parts| add(&mut list, kind, f, parts, self.env));
        around.aggregates.replace(Some(list));
        let mut e = added?;
        let ExprKind::Aggregate(at) = e.kind else {
            return Err(missing());
        };
        nearest.note_reference(FreeRef {
            level,
            slot: AGGREGATES,
            column: at,
            load: Load::Plain,
            ty: e.ty.clone(),
        });
        e.kind = ExprKind::Outer {
            level,
            slot: AGGREGATES,
            column: at,
            load: Load::Plain,
        };
        Ok(e)
    }

    fn aggregate_parts(&mut self, kind: AggregateKind, f: &Func<'_>) -> Result<Parts> {
        let args = match kind {
            AggregateKind::CountRows => Vec::new(),
            _ => self.list(f.args)?,
        };
        let mut order = Vec::with_capacity(f.order_by.len());
        for item in f.order_by {
            let position = match item.expr.kind {
                ast::ExprKind::Literal(ast::Literal::Int(n)) => Some(n),
                _ => None,
            };
            let expr = match position {
                Some(n) => {
                    let at = usize::try_from(n).ok().and_then(|n| n.checked_sub(1));
                    let found = at.and_then(|at| args.get(at)).cloned();
                    let unknown = || SqlError::unknown_column(&n.to_string(), "order clause");
                    found.ok_or_else(unknown)?
                }
                None => self.expr(&item.expr)?,
            };
            let desc = item.desc;
            let expr = numeric_operand(&expr);
            order.push(OrderKey { expr, desc });
        }
        Ok((args, order))
    }
}

/// Adds an aggregate to its query's list.
fn add(
    list: &mut Aggregates,
    kind: AggregateKind,
    f: &Func<'_>,
    parts: Parts,
    env: &BindEnv,
) -> Result<Expr> {
    let (aggregate, mut e) = bound(kind, f, parts, env)?;
    e.kind = ExprKind::Aggregate(list.list.len());
    list.list.push(aggregate);
    Ok(e)
}

/// Creates an aggregate, and an expression with the properties of its result.
pub(super) fn bound(
    kind: AggregateKind,
    f: &Func<'_>,
    (args, mut order): Parts,
    env: &BindEnv,
) -> Result<(Aggregate, Expr)> {
    let several = kind == AggregateKind::Concat || (kind == AggregateKind::Count && f.distinct);
    match (kind, args.len()) {
        (AggregateKind::JsonObject, 2) | (AggregateKind::CountRows, 0) => {}
        (kind, 1) if kind != AggregateKind::JsonObject => {}
        (_, n) if n > 1 && several => {}
        _ => return Err(SqlError::argument_count(f.name.name)),
    }
    let is_bits = matches!(
        kind,
        AggregateKind::BitAnd | AggregateKind::BitOr | AggregateKind::BitXor
    );
    let over_bytes = is_bits && args.iter().any(is_byte_operand);
    if over_bytes
        && args
            .iter()
            .any(|e| e.ty.max_bytes() as usize > MAX_AGGREGATED)
    {
        let text = "Aggregate bitwise functions cannot accept arguments longer than 511 bytes; \
                    consider using the SUBSTRING() function";
        return Err(SqlError::new(3514, "HY000", text));
    }
    let args = match kind {
        _ if over_bytes => args,
        AggregateKind::Sum
        | AggregateKind::Avg
        | AggregateKind::BitAnd
        | AggregateKind::BitOr
        | AggregateKind::BitXor
        | AggregateKind::Deviation { .. } => args.iter().map(numeric_operand).collect(),
        _ => args,
    };
    if kind == AggregateKind::Concat {
        let all: Vec<&Expr> = args.iter().collect();
        agree(&all, "group_concat", Use::Result)?;
        if f.distinct && order.is_empty() {
            order = ascending(&args);
        }
    }
    let ty = type_of(kind, &args, env);
    let coercibility = args.iter().map(|a| a.coercibility).min();
    let aggregate = Aggregate {
        kind,
        args,
        distinct: f.distinct,
        order,
        separator: f.separator.unwrap_or(b",").to_vec(),
        ty: ty.clone(),
    };
    let never_null = matches!(
        kind,
        AggregateKind::CountRows
            | AggregateKind::Count
            | AggregateKind::BitAnd
            | AggregateKind::BitOr
            | AggregateKind::BitXor
    );
    let mut e = node(ExprKind::Aggregate(0), ty, !never_null);
    e.coercibility = coercibility.unwrap_or(Coercibility::Implicit);
    Ok((aggregate, e))
}

/// The order by all arguments, in which distinct values come.
fn ascending(args: &[Expr]) -> Vec<OrderKey> {
    let key = |e: &Expr| OrderKey {
        expr: e.clone(),
        desc: false,
    };
    args.iter().map(key).collect()
}

/// The nearest query whose columns the arguments and sort keys read; `None` if they read no column.
/// Results of other aggregates are not columns.
fn nearest_level((args, order): &Parts) -> Option<usize> {
    let mut nearest: Option<usize> = None;
    let mut see = |level: usize| nearest = Some(nearest.map_or(level, |n| n.min(level)));
    for e in args.iter().chain(order.iter().map(|k| &k.expr)) {
        e.walk(&mut |e| match &e.kind {
            ExprKind::Column { .. } => see(0),
            ExprKind::Outer { level, slot, .. } if *slot != AGGREGATES => see(*level),
            ExprKind::Enclosing(level, _) => see(*level),
            ExprKind::Query(test) => {
                let columns = test.query.free.iter().filter(|f| f.slot != AGGREGATES);
                columns.for_each(|f| see(f.level - 1));
            }
            _ => {}
        });
    }
    nearest
}

/// The outermost query, at most `level` levels out, that allows an aggregate here.
fn outermost_allowed(nearest: &Enclosing<'_>, level: usize) -> Result<Option<usize>> {
    let (mut found, mut nested) = (None, false);
    let mut around = Some(nearest);
    let mut at = 1;
    while let Some(query) = around.filter(|_| at <= level) {
        if query.in_aggregate {
            (found, nested) = (Some(at), true);
        } else if query.aggregates.borrow().is_some() {
            (found, nested) = (Some(at), false);
        }
        around = query.outer;
        at += 1;
    }
    if nested {
        return Err(misplaced());
    }
    Ok(found)
}

/// Error 1111: an aggregate where none is allowed.
fn misplaced() -> SqlError {
    SqlError::new(1111, "HY000", "Invalid use of group function")
}

fn type_of(kind: AggregateKind, args: &[Expr], env: &BindEnv) -> ColumnType {
    let arg = args
        .first()
        .map_or_else(ColumnType::bigint, |e| e.ty.clone());
    let number = number_like(&arg);
    match kind {
        AggregateKind::CountRows | AggregateKind::Count => ColumnType::bigint(),
        AggregateKind::Min | AggregateKind::Max => arg,
        AggregateKind::BitAnd | AggregateKind::BitOr | AggregateKind::BitXor
            if args.iter().any(is_byte_operand) =>
        {
            ColumnType::varbinary(arg.max_bytes())
        }
        AggregateKind::BitAnd | AggregateKind::BitOr | AggregateKind::BitXor => {
            ColumnType::bigint_unsigned()
        }
        AggregateKind::Deviation { .. } => ColumnType::double(),
        AggregateKind::JsonArray | AggregateKind::JsonObject => ColumnType::json(),
        AggregateKind::Concat => {
            let binary = args
                .iter()
                .any(|a| is_text(&a.ty) && a.ty.collation == Collation::BINARY);
            if binary {
                ColumnType::text(Kind::LongBlob, Collation::BINARY)
            } else {
                text_of(u32::MAX, common_collation(args, env.collation))
            }
        }
        _ if number.kind == Kind::Double => {
            let more = match kind {
                AggregateKind::Avg => env.div_precision,
                _ => 0,
            };
            let mut ty = ColumnType::double();
            ty.decimals = number.decimals.saturating_add(more).min(ty.decimals);
            ty
        }
        AggregateKind::Sum => {
            let (precision, scale) = precision(&number);
            ColumnType::decimal(precision.saturating_add(22).min(65), scale)
        }
        AggregateKind::Avg => {
            let (precision, scale) = precision(&number);
            let more = env.div_precision;
            let scale = scale.saturating_add(more).min(30);
            ColumnType::decimal(precision.saturating_add(more).min(65), scale)
        }
    }
}
