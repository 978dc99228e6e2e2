//! The state of an aggregate function over a group.
//!
//! Integers and decimals are summed exactly, as decimals. Variances use Welford's
//! algorithm: the mean so far and the sum of squared distances from it. It loses no digits if values
//! are large and close together.

use super::distinct::DistinctValues;
use super::documents::Document;
use super::extreme::replaces_extreme;
use super::numbers::AggregateInput;
use crate::bind::{Aggregate, AggregateKind};
use crate::error::SqlError;
use crate::exec::ExecResult;
use crate::exec::sort::order_keys;
use crate::exec::state::{States, size_of_row};
use crate::expr::BitOp;
use crate::expr::convert;
use crate::expr::eval::{Env, EvalCx, Slot, eval};
use crate::expr::number::{NumberResult, Unit, to_value};
use porpoise_base::interrupt::Pacer;
use porpoise_base::sorting;
use porpoise_sql_expr::functions::binary_bits::combine;
use porpoise_types::{Decimal, Kind, Value, ValueRef, cast};

/// The state of an aggregate; [`super::image`] writes and reads it.
#[derive(Clone)]
pub(in crate::exec) enum State {
    Count(i64),
    Exact {
        sum: Option<Decimal>,
        count: u64,
    },
    /// A sum of integers (scale 0) or of decimals of one scale, as its multiple of `10^-scale`.
    ScaledInteger {
        sum: i128,
        scale: u8,
        count: u64,
    },
    Double {
        sum: f64,
        count: u64,
    },
    Extreme(Value),
    Bits(u64),
    Variance {
        count: u64,
        mean: f64,
        squares: f64,
    },
    GroupConcat(Vec<ConcatPart>),
    Document(Document),
}

/// One row's part of GROUP_CONCAT.
#[derive(Clone)]
pub(in crate::exec) struct ConcatPart {
    pub(super) keys: Vec<Value>,
    pub(super) text: Vec<u8>,
}

/// An aggregate function over a group: the rows added so far.
pub(in crate::exec) struct Accumulator {
    pub(super) state: State,
    /// The least or greatest of the numbers that were added.
    pub(super) numeric_extreme: Option<(i64, Unit)>,
    pub(super) distinct: Option<Box<DistinctValues>>,
}

impl Accumulator {
    /// The state before any row.
    pub(in crate::exec) fn new(aggregate: &Aggregate) -> Accumulator {
        let state = match aggregate.kind {
            AggregateKind::CountRows | AggregateKind::Count => State::Count(0),
            AggregateKind::Min | AggregateKind::Max => State::Extreme(Value::Null),
            AggregateKind::BitAnd | AggregateKind::BitOr | AggregateKind::BitXor
                if aggregate.ty.is_binary() =>
            {
                State::Extreme(Value::Null)
            }
            AggregateKind::BitAnd => State::Bits(u64::MAX),
            AggregateKind::BitOr | AggregateKind::BitXor => State::Bits(0),
            AggregateKind::Deviation { .. } => State::Variance {
                count: 0,
                mean: 0.0,
                squares: 0.0,
            },
            AggregateKind::Concat => State::GroupConcat(Vec::new()),
            AggregateKind::JsonArray => State::Document(Document::Array(Vec::new())),
            AggregateKind::JsonObject => State::Document(Document::Object(Vec::new())),
            _ if aggregate.ty.kind == Kind::Double => State::Double { sum: 0.0, count: 0 },
            _ => match scaled_integer_scale(aggregate) {
                Some(scale) => State::ScaledInteger {
                    sum: 0,
                    scale,
                    count: 0,
                },
                None => State::Exact {
                    sum: None,
                    count: 0,
                },
            },
        };
        Accumulator {
            state,
            numeric_extreme: None,
            distinct: aggregate.distinct.then(Box::default),
        }
    }

    /// Counts rows; for COUNT(*).
    pub(super) fn count(&mut self, rows: u64) {
        if let State::Count(n) = &mut self.state {
            *n = n.saturating_add(i64::try_from(rows).unwrap_or(i64::MAX));
        }
    }

    /// Sets the value of MIN or MAX.
    pub(super) fn set_extreme(&mut self, value: Value) {
        if let State::Extreme(best) = &mut self.state {
            *best = value;
        }
    }

    /// Whether rows can be added by [`Accumulator::add_single`] if the aggregate has one argument: the
    /// state has a fixed size.
    pub(in crate::exec) fn takes_single_values(&self) -> bool {
        self.distinct.is_none() && !matches!(self.state, State::GroupConcat(_) | State::Document(_))
    }

    /// Takes a row into account, given the value of the only argument.
    pub(in crate::exec) fn add_single(
        &mut self,
        aggregate: &Aggregate,
        value: ValueRef<'_>,
        cx: &EvalCx<'_>,
    ) -> ExecResult<()> {
        match aggregate.args.first() {
            Some(arg) if !value.is_null() => self.add_value(aggregate, value, arg, cx),
            _ => Ok(()),
        }
    }

    /// Takes a row into account.
    pub(in crate::exec) fn add(
        &mut self,
        aggregate: &Aggregate,
        row: &[Slot<'_>],
        cx: &EvalCx<'_>,
        states: &States,
    ) -> ExecResult<()> {
        if let ([arg], true) = (aggregate.args.as_slice(), self.takes_single_values()) {
            return self.add_single(aggregate, eval(arg, row, cx)?, cx);
        }
        let mut values: smallvec::SmallVec<[ValueRef<'_>; 4]> = smallvec::SmallVec::new();
        for arg in &aggregate.args {
            let value = eval(arg, row, cx)?;
            // All aggregates but the JSON ones ignore NULL.
            if value.is_null() && !matches!(self.state, State::Document(_)) {
                return Ok(());
            }
            values.push(value);
        }
        if let Some(seen) = &mut self.distinct
            && !seen.insert_values(&values, &aggregate.args, states)?
        {
            return Ok(());
        }
        if let State::GroupConcat(parts) = &mut self.state {
            let piece = concat_part(aggregate, &values, row, cx)?;
            states.hold(piece.text.len() as u64 + 48 + size_of_row(&piece.keys))?;
            parts.push(piece);
            return Ok(());
        }
        if let State::Document(document) = &mut self.state {
            return document.add(aggregate, &values, states);
        }
        match (values.first(), aggregate.args.first()) {
            (Some(value), Some(arg)) => self.add_value(aggregate, *value, arg, cx),
            _ => {
                if let State::Count(n) = &mut self.state {
                    *n += 1;
                }
                Ok(())
            }
        }
    }

    /// Adds a row whose value is a number. Returns false, without effect, if the value is not a
    /// number.
    #[inline]
    pub(super) fn add_number(
        &mut self,
        aggregate: &Aggregate,
        input: &AggregateInput<'_>,
        row: &[Slot<'_>],
        states: &States,
    ) -> ExecResult<bool> {
        let number = match input {
            AggregateInput::Values => return Ok(false),
            AggregateInput::Row => {
                self.count(1);
                return Ok(true);
            }
            AggregateInput::Present(e)
            | AggregateInput::Number(e)
            | AggregateInput::Distinct(e) => e,
        };
        let found = match number.eval(row) {
            NumberResult::Value(found) => found,
            // These aggregates ignore NULL.
            NumberResult::Null => return Ok(true),
            NumberResult::NotApplicable => return Ok(false),
        };
        let fits = match &self.state {
            State::Count(_) | State::Extreme(_) => true,
            State::ScaledInteger { sum, scale, .. } => {
                number.scale() == Some(*scale) && sum.checked_add(i128::from(found)).is_some()
            }
            _ => false,
        };
        if !fits {
            return Ok(false);
        }
        if let (AggregateInput::Distinct(_), Some(arg), Some(seen)) =
            (input, aggregate.args.first(), &mut self.distinct)
            && !seen.insert_number(found, number.unit(), &arg.ty, states)?
        {
            return Ok(true);
        }
        match &mut self.state {
            State::Count(n) => *n += 1,
            State::ScaledInteger { sum, count, .. } => {
                *sum += i128::from(found);
                *count += 1;
            }
            _ => {
                let better = match (self.numeric_extreme, aggregate.kind) {
                    (None, _) => true,
                    (Some((best, _)), AggregateKind::Min) => found < best,
                    (Some((best, _)), _) => found > best,
                };
                if better {
                    self.numeric_extreme = Some((found, number.unit()));
                }
            }
        }
        Ok(true)
    }

    fn add_value(
        &mut self,
        aggregate: &Aggregate,
        value: ValueRef<'_>,
        arg: &crate::expr::Expr,
        cx: &EvalCx<'_>,
    ) -> ExecResult<()> {
        match &mut self.state {
            State::Count(n) => *n += 1,
            State::ScaledInteger { sum, scale, count } => {
                let number = whole_number(value, arg, cx)?;
                let number = number.filter(|(_, own)| own == scale);
                if let Some(more) = number.and_then(|(number, _)| sum.checked_add(number)) {
                    *sum = more;
                    *count += 1;
                    return Ok(());
                }
                self.state = decimal_sum(*sum, *scale, *count)?;
                return self.add_value(aggregate, value, arg, cx);
            }
            State::Exact { sum, count } => {
                let number = convert::decimal(value, &arg.ty, cx)?;
                let range = |_| SqlError::out_of_range("DECIMAL", "sum");
                *sum = Some(match sum.take() {
                    Some(sum) => sum.add(number).map_err(range)?,
                    None => number,
                });
                *count += 1;
            }
            State::Double { sum, count } => {
                *sum += convert::double(value, &arg.ty, cx)?;
                *count += 1;
            }
            State::Variance {
                count,
                mean,
                squares,
            } => {
                let x = convert::double(value, &arg.ty, cx)?;
                *count += 1;
                let distance = x - *mean;
                *mean += distance / *count as f64;
                *squares += distance * (x - *mean);
            }
            State::Bits(bits) => {
                let Some(new) = convert::bits(value, &arg.ty, cx)? else {
                    return Ok(());
                };
                *bits = match aggregate.kind {
                    AggregateKind::BitAnd => *bits & new,
                    AggregateKind::BitOr => *bits | new,
                    _ => *bits ^ new,
                };
            }
            State::Extreme(bytes)
                if aggregate.ty.is_binary() && bit_operator(aggregate).is_some() =>
            {
                combine_bytes(bytes, value, aggregate)?;
            }
            State::Extreme(best) => {
                if replaces_extreme(value, best, aggregate.kind, &arg.ty) {
                    *best = value.to_owned();
                }
            }
            State::GroupConcat(_) | State::Document(_) => {}
        }
        Ok(())
    }

    /// Whether [`Accumulator::remove`] takes rows back without a loss of digits.
    pub(in crate::exec) fn is_invertible(&self, aggregate: &Aggregate) -> bool {
        match self.state {
            State::Count(_) | State::ScaledInteger { .. } | State::Exact { .. } => true,
            State::Bits(_) => aggregate.kind == AggregateKind::BitXor,
            _ => false,
        }
    }

    /// Removes a row that was added, given the value of the first argument.
    pub(in crate::exec) fn remove(
        &mut self,
        aggregate: &Aggregate,
        value: Option<ValueRef<'_>>,
        cx: &EvalCx<'_>,
    ) -> ExecResult<()> {
        let value = value.zip(aggregate.args.first());
        if value.is_some_and(|(value, _)| value.is_null()) {
            return Ok(());
        }
        match (&mut self.state, value) {
            (State::Count(n), _) => *n -= 1,
            (State::ScaledInteger { sum, scale, count }, Some((value, arg))) => {
                let (number, own) = whole_number(value, arg, cx)?.unwrap_or((0, *scale));
                debug_assert_eq!(own, *scale, "a number of another scale was added");
                *sum -= number;
                *count -= 1;
            }
            (State::Exact { sum, count }, Some((value, arg))) => {
                let number = convert::decimal(value, &arg.ty, cx)?;
                let range = |_| SqlError::out_of_range("DECIMAL", "sum");
                *count -= 1;
                *sum = match sum.take() {
                    Some(sum) if *count > 0 => Some(sum.sub(number).map_err(range)?),
                    _ => None,
                };
            }
            (State::Bits(bits), Some((value, arg))) => {
                *bits ^= convert::bits(value, &arg.ty, cx)?.unwrap_or(0);
            }
            _ => {}
        }
        Ok(())
    }

    /// The result so far.
    pub(in crate::exec) fn result(&self, aggregate: &Aggregate, env: &Env) -> ExecResult<Value> {
        match self.state {
            State::Count(n) => return Ok(Value::Int(n)),
            State::ScaledInteger { count: 0, .. } => return Ok(Value::Null),
            State::ScaledInteger { sum, scale, count } => {
                let range = |_| SqlError::out_of_range("DECIMAL", "sum");
                let sum = Decimal::from_i128(sum, scale).map_err(range)?;
                return sum_or_mean(aggregate, sum, count, env);
            }
            _ => {}
        }
        let copy = Accumulator {
            state: self.state.clone(),
            numeric_extreme: self.numeric_extreme,
            distinct: None,
        };
        copy.finish(aggregate, env)
    }

    /// The result.
    pub(super) fn finish(self, aggregate: &Aggregate, env: &Env) -> ExecResult<Value> {
        let state = match self.state {
            State::ScaledInteger { sum, scale, count } => decimal_sum(sum, scale, count)?,
            State::Extreme(value) => {
                State::Extreme(merge_extremes(value, self.numeric_extreme, aggregate))
            }
            state => state,
        };
        Ok(match (state, aggregate.kind) {
            (State::ScaledInteger { .. }, _) => Value::Null,
            (State::Count(n), _) => Value::Int(n),
            (State::Extreme(Value::Null), kind) if bit_operator(aggregate).is_some() => {
                let neutral = if kind == AggregateKind::BitAnd {
                    0xff
                } else {
                    0
                };
                Value::Bytes(vec![neutral; aggregate.ty.length as usize])
            }
            (State::Extreme(value), _) => value,
            (State::Bits(bits), _) => Value::UInt(bits),
            (State::GroupConcat(parts), _) => join_parts(aggregate, parts, env)?,
            (State::Document(document), _) => document.finish(),
            (State::Variance { count, squares, .. }, kind) => {
                variance_or_deviation(kind, count, squares)
            }
            (State::Double { count: 0, .. }, _) | (State::Exact { sum: None, .. }, _) => {
                Value::Null
            }
            (State::Double { sum, count }, AggregateKind::Avg) => Value::Double(sum / count as f64),
            (State::Double { sum, .. }, _) => Value::Double(sum),
            (
                State::Exact {
                    sum: Some(sum),
                    count,
                },
                _,
            ) => sum_or_mean(aggregate, sum, count, env)?,
        })
    }
}

/// The result of SUM or AVG.
fn sum_or_mean(aggregate: &Aggregate, sum: Decimal, count: u64, env: &Env) -> ExecResult<Value> {
    if aggregate.kind != AggregateKind::Avg {
        return Ok(Value::Decimal(sum));
    }
    let range = |_| SqlError::out_of_range("DECIMAL", "avg");
    let count = Decimal::from_u64(count);
    let mean = sum.div(count, env.div_precision).map_err(range)?;
    let rounded = mean
        .map(|m| m.round(aggregate.ty.decimals))
        .transpose()
        .map_err(range)?;
    Ok(rounded.map_or(Value::Null, Value::Decimal))
}

/// A number as an integer and its scale, if it is small enough.
fn whole_number(
    value: ValueRef<'_>,
    arg: &crate::expr::Expr,
    cx: &EvalCx<'_>,
) -> ExecResult<Option<(i128, u8)>> {
    Ok(match value {
        ValueRef::Int(v) => Some((i128::from(v), 0)),
        ValueRef::UInt(v) => Some((i128::from(v), 0)),
        other => convert::decimal(other, &arg.ty, cx)?.unscaled(),
    })
}

/// A sum as a decimal.
fn decimal_sum(sum: i128, scale: u8, count: u64) -> Result<State, SqlError> {
    let range = |_| SqlError::out_of_range("DECIMAL", "sum");
    let sum = match count {
        0 => None,
        _ => Some(Decimal::from_i128(sum, scale).map_err(range)?),
    };
    Ok(State::Exact { sum, count })
}

/// The scale of the numbers that SUM or AVG adds, if they are integers or decimals (which may all have
/// the scale of their type); `None` for other aggregates and types.
fn scaled_integer_scale(aggregate: &Aggregate) -> Option<u8> {
    let sums = matches!(aggregate.kind, AggregateKind::Sum | AggregateKind::Avg);
    let arg = aggregate.args.first().filter(|_| sums)?;
    match arg.ty.kind {
        Kind::TinyInt | Kind::SmallInt | Kind::MediumInt | Kind::Int | Kind::BigInt => Some(0),
        Kind::Decimal => Some(arg.ty.decimals),
        _ => None,
    }
}

/// Returns the result of MIN or MAX over a value and a number.
fn merge_extremes(value: Value, number: Option<(i64, Unit)>, aggregate: &Aggregate) -> Value {
    let number = number.zip(aggregate.args.first());
    let found = number.and_then(|((v, unit), arg)| Some((to_value(v, unit, &arg.ty)?, arg)));
    match found {
        Some((number, arg))
            if replaces_extreme(number.as_ref(), &value, aggregate.kind, &arg.ty) =>
        {
            number
        }
        _ => value,
    }
}

/// The operator of BIT_AND, BIT_OR and BIT_XOR.
fn bit_operator(aggregate: &Aggregate) -> Option<BitOp> {
    match aggregate.kind {
        AggregateKind::BitAnd => Some(BitOp::And),
        AggregateKind::BitOr => Some(BitOp::Or),
        AggregateKind::BitXor => Some(BitOp::Xor),
        _ => None,
    }
}

/// Combines the result of a bit operator so far (NULL before the first string) with a binary string.
fn combine_bytes(so_far: &mut Value, value: ValueRef<'_>, aggregate: &Aggregate) -> ExecResult<()> {
    let (Some(op), ValueRef::Bytes(bytes)) = (bit_operator(aggregate), value) else {
        return Ok(());
    };
    *so_far = Value::Bytes(match so_far {
        Value::Bytes(before) => combine(op, before, bytes)?,
        _ => bytes.to_vec(),
    });
    Ok(())
}

fn variance_or_deviation(kind: AggregateKind, count: u64, squares: f64) -> Value {
    let AggregateKind::Deviation { sample, root } = kind else {
        return Value::Null;
    };
    let divisor = count.saturating_sub(u64::from(sample));
    if divisor == 0 {
        return Value::Null;
    }
    let variance = squares / divisor as f64;
    let result = if root { variance.sqrt() } else { variance };
    // MySQL prints numbers that are not finite as 0.
    Value::Double(if result.is_finite() { result } else { 0.0 })
}

fn concat_part(
    aggregate: &Aggregate,
    values: &[ValueRef<'_>],
    row: &[Slot<'_>],
    cx: &EvalCx<'_>,
) -> ExecResult<ConcatPart> {
    let mut text = Vec::new();
    for (value, arg) in values.iter().zip(&aggregate.args) {
        match value {
            ValueRef::Bytes(bytes) => {
                let charset = aggregate.ty.collation.charset();
                text.extend_from_slice(&convert::recode(bytes, &arg.ty, charset));
            }
            // A BIT value among distinct ones is a number, as in MySQL's temporary table.
            ValueRef::UInt(bits) if aggregate.distinct && arg.ty.kind == Kind::Bit => {
                text.extend_from_slice(bits.to_string().as_bytes());
            }
            value => {
                cast::to_text(*value, &arg.ty, &mut text);
            }
        }
    }
    let mut keys = Vec::with_capacity(aggregate.order.len());
    for key in &aggregate.order {
        keys.push(eval(&key.expr, row, cx)?.to_owned());
    }
    Ok(ConcatPart { keys, text })
}

/// The texts in order, joined, and cut at `group_concat_max_len`.
fn join_parts(aggregate: &Aggregate, mut parts: Vec<ConcatPart>, env: &Env) -> ExecResult<Value> {
    if parts.is_empty() {
        return Ok(Value::Null);
    }
    if !aggregate.order.is_empty() {
        let by_keys =
            |a: &ConcatPart, b: &ConcatPart| order_keys(&aggregate.order, &a.keys, &b.keys);
        // MySQL returns rows with equal keys in reverse order.
        parts.reverse();
        sorting::sort_by(&mut parts, sorting::RUN_EXPENSIVE, by_keys)?;
    }
    let most = usize::try_from(env.group_concat_max_len).unwrap_or(usize::MAX);
    let mut out: Vec<u8> = Vec::new();
    let mut pacer = Pacer::new();
    // The row number in the warning counts over all groups.
    let address = std::ptr::from_ref(aggregate).addr();
    let mut joined = env.joined_rows.borrow_mut();
    let rows = joined.entry(address).or_insert(0);
    for (at, piece) in parts.iter().enumerate() {
        pacer.tick()?;
        *rows += 1;
        if at > 0 {
            out.extend_from_slice(&aggregate.separator);
        }
        out.extend_from_slice(&piece.text);
        if out.len() > most {
            let charset = aggregate.ty.collation.charset();
            let cut = out.get(..most).unwrap_or(&out);
            let whole = charset.validate(cut).err().filter(|at| at + 4 > most);
            let whole = whole.unwrap_or(most);
            out.truncate(whole);
            let message = format!("Row {rows} was cut by GROUP_CONCAT()");
            env.warn_or_fail(1260, "HY000", message)?;
            break;
        }
    }
    Ok(Value::Bytes(out))
}
