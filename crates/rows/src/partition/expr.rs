//! Expressions of PARTITION BY HASH, RANGE and LIST: integers computed from columns by arithmetic
//! and the date functions that MySQL allows there (manual, "Partitioning Limitations Relating to
//! Functions").
//!
//! They are evaluated wherever a row is routed, and depend on no session state (time zone, SQL
//! mode).
//!
//! Invariants:
//! 1. The result depends on the columns' values only.
//! 2. Nesting is bounded by [`MAX_DEPTH`], when built and when decoded.
//! 3. Overflow, division by zero and invalid dates give NULL.

use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};
use porpoise_types::{Date, DateTime, ValueRef};

/// Maximum nesting depth of an expression.
pub const MAX_DEPTH: usize = 64;

/// An expression; see the module.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionExpr {
    /// A column of the table (position).
    Column(usize),
    /// A constant.
    Int(i64),
    /// `a op b`.
    Op(PartitionOp, Box<PartitionExpr>, Box<PartitionExpr>),
    /// A function.
    Call(PartitionFunction, Vec<PartitionExpr>),
}

/// Operators between whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// DIV
    Div,
    /// `%` and MOD
    Mod,
}

macro_rules! functions {
    ($($code:literal $variant:ident $name:literal $args:literal;)*) => {
        /// Functions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PartitionFunction {
            $(#[doc = concat!($name, "()")] $variant,)*
        }

        impl PartitionFunction {
            /// The function of that name, in any case, and its number of arguments.
            pub fn by_name(name: &str) -> Option<(PartitionFunction, usize)> {
                $(if name.eq_ignore_ascii_case($name) {
                    return Some((PartitionFunction::$variant, $args));
                })*
                None
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(PartitionFunction::$variant => $name,)* }
            }

            fn code(self) -> u8 {
                match self { $(PartitionFunction::$variant => $code,)* }
            }

            fn of(code: u8) -> Option<PartitionFunction> {
                match code { $($code => Some(PartitionFunction::$variant),)* _ => None }
            }
        }
    };
}

functions! {
    1 Abs "ABS" 1;
    2 Ceiling "CEILING" 1;
    3 Floor "FLOOR" 1;
    4 DateDiff "DATEDIFF" 2;
    5 DayOfMonth "DAYOFMONTH" 1;
    6 DayOfWeek "DAYOFWEEK" 1;
    7 DayOfYear "DAYOFYEAR" 1;
    8 Hour "HOUR" 1;
    9 Microsecond "MICROSECOND" 1;
    10 Minute "MINUTE" 1;
    11 Month "MONTH" 1;
    12 Quarter "QUARTER" 1;
    13 Second "SECOND" 1;
    14 TimeToSec "TIME_TO_SEC" 1;
    15 ToDays "TO_DAYS" 1;
    16 ToSeconds "TO_SECONDS" 1;
    17 UnixTimestamp "UNIX_TIMESTAMP" 1;
    18 Weekday "WEEKDAY" 1;
    19 Year "YEAR" 1;
    20 YearWeek "YEARWEEK" 1;
    21 Day "DAY" 1;
    22 Ceil "CEIL" 1;
}

impl PartitionFunction {
    /// Whether its arguments are dates or times. They must then be columns.
    pub fn takes_dates(self) -> bool {
        use PartitionFunction as F;
        !matches!(self, F::Abs | F::Ceil | F::Ceiling | F::Floor)
    }
}

/// Monotonicity of an expression in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monotone {
    /// Strictly increasing.
    Strict,
    /// Non-decreasing.
    NonDecreasing,
    /// Not known to be monotonic.
    No,
}

impl PartitionExpr {
    /// The value for a row; `None` is NULL.
    pub fn eval<'v>(&self, column: &dyn Fn(usize) -> ValueRef<'v>) -> Option<i128> {
        match self {
            PartitionExpr::Column(at) => to_integer(column(*at)),
            PartitionExpr::Int(v) => Some(i128::from(*v)),
            PartitionExpr::Op(op, a, b) => {
                let (a, b) = (a.eval(column)?, b.eval(column)?);
                match op {
                    PartitionOp::Add => a.checked_add(b),
                    PartitionOp::Sub => a.checked_sub(b),
                    PartitionOp::Mul => a.checked_mul(b),
                    PartitionOp::Div => a.checked_div(b),
                    PartitionOp::Mod => a.checked_rem(b),
                }
            }
            PartitionExpr::Call(function, args) => call(*function, args, column),
        }
    }

    /// The columns it uses, each once.
    pub fn columns(&self, out: &mut Vec<usize>) {
        match self {
            PartitionExpr::Column(at) if !out.contains(at) => out.push(*at),
            PartitionExpr::Column(_) | PartitionExpr::Int(_) => {}
            PartitionExpr::Op(_, a, b) => {
                a.columns(out);
                b.columns(out);
            }
            PartitionExpr::Call(_, args) => args.iter().for_each(|a| a.columns(out)),
        }
    }

    pub(super) fn move_columns(&mut self, to: &dyn Fn(usize) -> usize) {
        match self {
            PartitionExpr::Column(at) => *at = to(*at),
            PartitionExpr::Int(_) => {}
            PartitionExpr::Op(_, a, b) => {
                a.move_columns(to);
                b.move_columns(to);
            }
            PartitionExpr::Call(_, args) => args.iter_mut().for_each(|a| a.move_columns(to)),
        }
    }

    /// Returns the monotonicity in its only column.
    pub fn monotone(&self) -> Monotone {
        match self {
            PartitionExpr::Column(_) => Monotone::Strict,
            PartitionExpr::Call(f, args) => match (f, args.as_slice()) {
                (
                    PartitionFunction::ToDays
                    | PartitionFunction::ToSeconds
                    | PartitionFunction::UnixTimestamp
                    | PartitionFunction::Year
                    | PartitionFunction::Floor
                    | PartitionFunction::Ceiling
                    | PartitionFunction::Ceil,
                    [PartitionExpr::Column(_)],
                ) => Monotone::NonDecreasing,
                _ => Monotone::No,
            },
            _ => Monotone::No,
        }
    }

    /// Returns the nesting depth.
    pub fn depth(&self) -> usize {
        1 + match self {
            PartitionExpr::Column(_) | PartitionExpr::Int(_) => 0,
            PartitionExpr::Op(_, a, b) => a.depth().max(b.depth()),
            PartitionExpr::Call(_, args) => {
                args.iter().map(PartitionExpr::depth).max().unwrap_or(0)
            }
        }
    }

    pub(super) fn write(&self, w: &mut Writer) {
        match self {
            PartitionExpr::Column(at) => {
                w.u8(0);
                w.u32(u32::try_from(*at).unwrap_or(u32::MAX));
            }
            PartitionExpr::Int(v) => {
                w.u8(1);
                w.i64(*v);
            }
            PartitionExpr::Op(op, a, b) => {
                w.u8(2);
                w.u8(match op {
                    PartitionOp::Add => 0,
                    PartitionOp::Sub => 1,
                    PartitionOp::Mul => 2,
                    PartitionOp::Div => 3,
                    PartitionOp::Mod => 4,
                });
                a.write(w);
                b.write(w);
            }
            PartitionExpr::Call(function, args) => {
                w.u8(3);
                w.u8(function.code());
                w.list(args, |w, a| a.write(w));
            }
        }
    }

    pub(super) fn read(r: &mut Reader<'_>, depth: usize) -> Result<PartitionExpr> {
        let bad = || Error::corrupt("a partitioning expression");
        if depth > MAX_DEPTH {
            return Err(bad());
        }
        Ok(match r.u8()? {
            0 => PartitionExpr::Column(r.u32()? as usize),
            1 => PartitionExpr::Int(r.i64()?),
            2 => {
                let op = match r.u8()? {
                    0 => PartitionOp::Add,
                    1 => PartitionOp::Sub,
                    2 => PartitionOp::Mul,
                    3 => PartitionOp::Div,
                    4 => PartitionOp::Mod,
                    _ => return Err(bad()),
                };
                let a = PartitionExpr::read(r, depth + 1)?;
                let b = PartitionExpr::read(r, depth + 1)?;
                PartitionExpr::Op(op, Box::new(a), Box::new(b))
            }
            3 => {
                let function = PartitionFunction::of(r.u8()?).ok_or_else(bad)?;
                let args = r.list(|r| PartitionExpr::read(r, depth + 1))?;
                PartitionExpr::Call(function, args)
            }
            _ => return Err(bad()),
        })
    }
}

/// A column's value as a whole number.
fn to_integer(value: ValueRef<'_>) -> Option<i128> {
    match value {
        ValueRef::Int(v) => Some(i128::from(v)),
        ValueRef::UInt(v) => Some(i128::from(v)),
        _ => None,
    }
}

fn to_datetime(value: ValueRef<'_>) -> Option<DateTime> {
    match value {
        ValueRef::Date(d) => Some(d.at_midnight()),
        ValueRef::DateTime(d) => Some(d),
        _ => None,
    }
}

/// Returns a date with nonzero month and day, so that days can be counted.
fn countable_date(value: ValueRef<'_>) -> Option<Date> {
    let date = to_datetime(value)?.date();
    (date.month() > 0 && date.day() > 0).then_some(date)
}

/// Hours, minutes, seconds, microseconds.
fn time_fields(value: ValueRef<'_>) -> Option<(i128, i128, i128, i128, bool)> {
    if let ValueRef::Time(t) = value {
        return Some((
            t.hour().into(),
            t.minute().into(),
            t.second().into(),
            t.micros().into(),
            t.is_negative(),
        ));
    }
    let d = to_datetime(value)?;
    Some((
        d.hour().into(),
        d.minute().into(),
        d.second().into(),
        d.micros().into(),
        false,
    ))
}

fn call<'v>(
    function: PartitionFunction,
    args: &[PartitionExpr],
    column: &dyn Fn(usize) -> ValueRef<'v>,
) -> Option<i128> {
    use PartitionFunction as F;
    let first = args.first()?;
    if let F::Abs | F::Ceil | F::Ceiling | F::Floor = function {
        let v = match first {
            PartitionExpr::Column(at) => match column(*at) {
                ValueRef::Decimal(d) => return round_decimal(function, d),
                value => to_integer(value)?,
            },
            e => e.eval(column)?,
        };
        return match function {
            F::Abs => v.checked_abs(),
            _ => Some(v),
        };
    }
    let value_of = |e: &PartitionExpr| match e {
        PartitionExpr::Column(at) => column(*at),
        _ => ValueRef::Null,
    };
    let value = value_of(first);
    Some(match function {
        F::DateDiff => {
            let other = countable_date(value_of(args.get(1)?))?;
            i128::from(countable_date(value)?.to_days() - other.to_days())
        }
        F::Day | F::DayOfMonth => to_datetime(value)?.day().into(),
        F::DayOfWeek => (i128::from(countable_date(value)?.weekday()) + 1) % 7 + 1,
        F::DayOfYear => countable_date(value)?.day_of_year().into(),
        F::Hour => time_fields(value)?.0,
        F::Minute => time_fields(value)?.1,
        F::Second => time_fields(value)?.2,
        F::Microsecond => time_fields(value)?.3,
        F::Month => to_datetime(value)?.month().into(),
        F::Quarter => (i128::from(to_datetime(value)?.month()) + 2) / 3,
        F::TimeToSec => {
            let (h, m, s, _, negative) = time_fields(value)?;
            let seconds = h * 3600 + m * 60 + s;
            if negative { -seconds } else { seconds }
        }
        F::ToDays => countable_date(value)?.to_days().into(),
        F::ToSeconds => {
            let days = i128::from(countable_date(value)?.to_days());
            let (h, m, s, ..) = time_fields(value)?;
            days * 86_400 + h * 3600 + m * 60 + s
        }
        F::UnixTimestamp => i128::from(to_datetime(value)?.to_unix_micros().div_euclid(1_000_000)),
        F::Weekday => countable_date(value)?.weekday().into(),
        F::Year => to_datetime(value)?.year().into(),
        F::YearWeek => {
            let (year, week) = countable_date(value)?.week(2);
            i128::from(year) * 100 + i128::from(week)
        }
        F::Abs | F::Ceil | F::Ceiling | F::Floor => return None,
    })
}

/// Rounding functions of a decimal. ABS of decimals is refused when a table is created.
fn round_decimal(function: PartitionFunction, d: porpoise_types::Decimal) -> Option<i128> {
    let cut = d.truncate(0);
    let exact = cut.cmp_value(&d).is_eq();
    let v = i128::from(cut.to_i64()?);
    Some(match function {
        PartitionFunction::Floor if !exact && d.is_negative() => v - 1,
        PartitionFunction::Ceil | PartitionFunction::Ceiling if !exact && !d.is_negative() => v + 1,
        _ => v,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(y: u16, m: u8, d: u8) -> ValueRef<'static> {
        ValueRef::Date(Date::new(y, m, d).unwrap())
    }

    fn of(f: PartitionFunction, value: ValueRef<'static>) -> Option<i128> {
        PartitionExpr::Call(f, vec![PartitionExpr::Column(0)]).eval(&|_| value)
    }

    #[test]
    fn date_functions_give_the_numbers_of_sql() {
        let day = date(2024, 2, 29);
        assert_eq!(of(PartitionFunction::Year, day), Some(2024));
        assert_eq!(of(PartitionFunction::ToDays, day), Some(739_310));
        assert_eq!(of(PartitionFunction::DayOfWeek, day), Some(5));
        assert_eq!(of(PartitionFunction::Weekday, day), Some(3));
        assert_eq!(of(PartitionFunction::Quarter, day), Some(1));
        assert_eq!(of(PartitionFunction::ToDays, date(2024, 0, 0)), None);
        assert_eq!(of(PartitionFunction::Year, ValueRef::Null), None);
    }

    #[test]
    fn impossible_arithmetic_is_null_and_expressions_round_trip() {
        let e = PartitionExpr::Op(
            PartitionOp::Mod,
            Box::new(PartitionExpr::Column(3)),
            Box::new(PartitionExpr::Int(0)),
        );
        assert_eq!(e.eval(&|_| ValueRef::Int(7)), None);
        let mut w = Writer::new();
        e.write(&mut w);
        assert_eq!(
            PartitionExpr::read(&mut Reader::new(w.as_slice()), 0).unwrap(),
            e
        );
        assert_eq!(
            PartitionExpr::read(&mut Reader::new(w.as_slice()), MAX_DEPTH).ok(),
            None
        );
    }
}
