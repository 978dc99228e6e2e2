//! Selectivities of conditions: the parts of the rows of a table that they let through.
//!
//! A comparison with a literal is estimated by the histogram of its column, if there is one
//! (ANALYZE TABLE ... UPDATE HISTOGRAM). Other selectivities come from the number of different
//! values of an index that begins with the column, and are guesses otherwise (those of the manual,
//! "Optimizer Cost Model", where it names any).
//!
//! Plans and literals: a cached plan is reused with other literals (transactions.md, rule 42), so
//! that its planner does not see them. Where a histogram could use one, the planner requests the
//! value ([`StatisticsSource::parameter`]); this marks the plan as one that is not kept. Columns
//! without a histogram therefore cost nothing: their plans are cached as before.

use super::cost::{self, BETWEEN_SELECTIVITY};
use super::restriction::Restriction;
use super::sargable::{bare_column, can_use_index, flipped};
use super::scan::Bound;
use crate::expr::{CmpOp, Expr, ExprKind, Truth};
use crate::statistics::{StatisticsSource, TableStatistics};
use porpoise_rows::catalog::{Index, Table};
use porpoise_rows::histogram::Histogram;
use porpoise_types::{CastCx, CompareAs, DateTime, SqlMode, TimeZone, Value, store};

const EQUAL_SELECTIVITY: f64 = 0.1;
const COMPARISON_SELECTIVITY: f64 = 1.0 / 3.0;
const DEFAULT_SELECTIVITY: f64 = 0.5;

/// The least selectivity by a histogram, which may be outdated or of a sample.
const LEAST_SELECTIVITY: f64 = 1e-4;

/// The number of a parameter that no statement has.
const NO_PARAMETER: usize = usize::MAX;

/// Estimates conditions on the table in `slot`.
pub(super) struct Estimator<'a> {
    pub(super) slot: usize,
    pub(super) table: &'a Table,
    pub(super) statistics: &'a TableStatistics,
    pub(super) source: &'a dyn StatisticsSource,
}

impl Estimator<'_> {
    /// The part of the rows of the table that a condition lets through, once the other tables that
    /// it names are joined.
    pub(super) fn selectivity(&self, condition: &Expr) -> f64 {
        if let Some(part) = self.by_histogram(condition) {
            return part.clamp(LEAST_SELECTIVITY, 1.0);
        }
        match &condition.kind {
            ExprKind::Compare(CmpOp::Eq | CmpOp::NullSafe, _, args) => {
                let [a, b] = args.as_ref();
                match (self.equality(a), self.equality(b)) {
                    (Some(a), Some(b)) => a.min(b),
                    (Some(one), None) | (None, Some(one)) => one,
                    (None, None) => EQUAL_SELECTIVITY,
                }
            }
            ExprKind::Compare(CmpOp::Ne, ..) => 1.0 - EQUAL_SELECTIVITY,
            ExprKind::Compare(..) => COMPARISON_SELECTIVITY,
            ExprKind::Between { negated, .. } => negate(BETWEEN_SELECTIVITY, *negated),
            ExprKind::In { arg, list, negated } => {
                let one = self.equality(arg).unwrap_or(EQUAL_SELECTIVITY);
                negate((one * list.len() as f64).min(DEFAULT_SELECTIVITY), *negated)
            }
            ExprKind::Like { negated, .. } => negate(BETWEEN_SELECTIVITY, *negated),
            ExprKind::Is {
                arg,
                truth,
                negated,
            } if *truth == Truth::Null => {
                negate(if arg.nullable { EQUAL_SELECTIVITY } else { 0.0 }, *negated)
            }
            ExprKind::And(args) => args.iter().map(|e| self.selectivity(e)).product(),
            ExprKind::Or(args) => self.disjunction(args),
            ExprKind::Not(arg) => 1.0 - self.selectivity(arg).min(1.0),
            _ => DEFAULT_SELECTIVITY,
        }
    }

    fn disjunction(&self, arms: &[Expr]) -> f64 {
        let (mut equal, mut one_end, mut two_ends) = (0.0, 0.0, 0.0);
        for arm in arms {
            let sum = match &arm.kind {
                _ if self.by_histogram(arm).is_some() => &mut equal,
                ExprKind::Between { negated: false, .. } => &mut two_ends,
                ExprKind::Compare(CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge, ..) => {
                    &mut one_end
                }
                _ => &mut equal,
            };
            *sum += self.selectivity(arm);
        }
        (equal + cost::ranges_selectivity(one_end, two_ends)).min(1.0)
    }

    /// The selectivity of equality with a column, if an index has statistics for it.
    fn equality(&self, e: &Expr) -> Option<f64> {
        let column = bare_column(e, self.slot)?;
        let mut indexes = self.table.indexes.iter().enumerate();
        let (index, _) = indexes.find(|(_, index)| {
            let first = index.parts.first().filter(|_| !index.is_full_text());
            first.is_some_and(|p| p.column == column && p.prefix.is_none())
        })?;
        Some(1.0 / self.statistics.distinct(index, 1))
    }

    /// The selectivity by the histogram of the column that a condition compares with literals.
    fn by_histogram(&self, condition: &Expr) -> Option<f64> {
        if self.table.histograms.is_empty() {
            return None;
        }
        match &condition.kind {
            ExprKind::Compare(op, how, args) => {
                let [a, b] = args.as_ref();
                let part = self.comparison(*op, *how, a, b);
                part.or_else(|| self.comparison(flipped(*op), *how, b, a))
            }
            ExprKind::Between { args, how, negated } => {
                let [arg, low, high] = args.as_ref();
                let histogram = self.histogram(arg)?;
                let low = self.literal(arg, how[0], low)?;
                let high = self.literal(arg, how[1], high)?;
                if low.as_ref().is_null() || high.as_ref().is_null() {
                    return Some(0.0);
                }
                let part = (up_to(histogram, &high) - histogram.less_than(low.as_ref())).max(0.0);
                Some(negate_among(histogram, part, *negated))
            }
            ExprKind::In { arg, list, negated } => {
                let histogram = self.histogram(arg)?;
                let mut part = 0.0;
                for (how, item) in list {
                    let value = self.literal(arg, *how, item)?;
                    if value.as_ref().is_null() && *negated {
                        return Some(0.0);
                    }
                    part += histogram.equal_to(value.as_ref());
                }
                let part = part.min(histogram.not_null());
                Some(negate_among(histogram, part, *negated))
            }
            ExprKind::Is {
                arg,
                truth: Truth::Null,
                negated,
            } => Some(negate(self.histogram(arg)?.nulls(), *negated)),
            _ => None,
        }
    }

    fn comparison(&self, op: CmpOp, how: CompareAs, column: &Expr, value: &Expr) -> Option<f64> {
        let histogram = self.histogram(column)?;
        let value = self.literal(column, how, value)?;
        let null = value.as_ref().is_null();
        let below = || histogram.less_than(value.as_ref());
        Some(match op {
            CmpOp::NullSafe if null => histogram.nulls(),
            _ if null => 0.0,
            CmpOp::Eq | CmpOp::NullSafe => histogram.equal_to(value.as_ref()),
            CmpOp::Ne => histogram.not_null() - histogram.equal_to(value.as_ref()),
            CmpOp::Lt => below(),
            CmpOp::Le => up_to(histogram, &value),
            CmpOp::Gt => histogram.not_null() - up_to(histogram, &value),
            CmpOp::Ge => histogram.not_null() - below(),
        })
    }

    /// The part of the rows that a restriction of an index selects, by the histogram of its first
    /// column, if it restricts no other.
    pub(super) fn restriction(&self, index: &Index, restriction: &Restriction) -> Option<f64> {
        let first = index.parts.first().filter(|part| part.prefix.is_none())?;
        let histogram = self.table.histogram(first.column)?;
        let range = &restriction.range;
        let part = match (restriction.equal, restriction.bound_count) {
            (1, 0) => {
                let mut part = 0.0;
                for key in &range.keys {
                    let [value] = key.as_slice() else {
                        return None;
                    };
                    let value = self.converted(value, histogram)?;
                    part += match value.as_ref().is_null() {
                        true if restriction.includes_null => histogram.nulls(),
                        _ => histogram.equal_to(value.as_ref()),
                    };
                }
                part
            }
            (0, _) => {
                let (mut low, mut high) = (&range.low, &range.high);
                if first.desc {
                    (low, high) = (high, low);
                }
                let above = match low {
                    Some(bound) => self.below_bound(bound, !bound.inclusive, histogram)?,
                    None => 0.0,
                };
                let below = match high {
                    Some(bound) => self.below_bound(bound, bound.inclusive, histogram)?,
                    None => histogram.not_null(),
                };
                below - above
            }
            _ => return None,
        };
        Some(part.clamp(LEAST_SELECTIVITY, 1.0))
    }

    /// The part of the rows below a bound, or with `inclusive` up to it.
    fn below_bound(&self, bound: &Bound, inclusive: bool, histogram: &Histogram) -> Option<f64> {
        if bound.pattern.is_some() {
            return None;
        }
        let value = self.converted(&bound.value, histogram)?;
        Some(if inclusive {
            up_to(histogram, &value)
        } else {
            histogram.less_than(value.as_ref())
        })
    }

    fn histogram(&self, column: &Expr) -> Option<&Histogram> {
        self.table.histogram(bare_column(column, self.slot)?)
    }

    /// A value that is known to the planner, of the type of the column with which it is compared.
    fn literal(&self, column: &Expr, how: CompareAs, value: &Expr) -> Option<Value> {
        if !can_use_index(column, how, value) {
            return None;
        }
        self.converted(value, self.histogram(column)?)
    }

    fn converted(&self, value: &Expr, histogram: &Histogram) -> Option<Value> {
        let known = match &value.kind {
            ExprKind::Const(value) => value.clone(),
            ExprKind::Param(number) => self.source.parameter(*number)?,
            _ if value.is_fixed() && value.slots() == 0 && !value.has_aggregate() => {
                // Without the cache the expression may be a constant.
                return self.source.parameter(NO_PARAMETER);
            }
            _ => return None,
        };
        let mut ignored = |_| ();
        let mut cast = CastCx {
            mode: SqlMode::EMPTY,
            strict: false,
            warnings: &mut ignored,
            tz: &TimeZone::UTC,
            now: DateTime::ZERO,
        };
        let ty = histogram.column_type();
        store(known.as_ref(), Some(&value.ty), ty, "", 0, &mut cast).ok()
    }
}

/// The part of the rows whose value is at most this one.
fn up_to(histogram: &Histogram, value: &Value) -> f64 {
    histogram.less_than(value.as_ref()) + histogram.equal_to(value.as_ref())
}

fn negate(part: f64, negated: bool) -> f64 {
    if negated { 1.0 - part } else { part }
}

/// The part itself, or that of the other rows without NULL.
fn negate_among(histogram: &Histogram, part: f64, negated: bool) -> f64 {
    if negated {
        histogram.not_null() - part
    } else {
        part
    }
}
