//! Scalar functions: entries of the registry, and calls.

use super::Expr;
use super::convert;
use super::eval::EvalCx;
use crate::error::Result;
use porpoise_types::{
    Collation, ColumnType, Date, DateTime, Decimal, Level, Time, ValueRef, Warning,
};

/// Whether the result can be NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nullable {
    /// When an argument can be.
    IfArgument,
    /// Also without a NULL argument.
    Always,
    /// Never.
    Never,
}

/// Derives the result type from the bound arguments. The collation is that of the connection, for
/// functions that produce new text.
pub type TypeOf = fn(&[Expr], Collation) -> ColumnType;

/// A scalar function.
pub struct Function {
    /// The name in capitals.
    pub name: &'static str,
    /// Minimum and maximum number of arguments.
    pub args: (usize, usize),
    /// Whether equal arguments give equal results within one statement.
    pub constant: bool,
    /// Whether the result can be NULL.
    pub nullable: Nullable,
    /// The type of the result.
    pub ty: TypeOf,
    /// The implementation; arguments are evaluated already.
    pub run: for<'c, 'a> fn(&Call<'c, 'a>) -> Result<ValueRef<'a>>,
    /// One line of documentation.
    pub doc: &'static str,
    /// An example expression and the text of its value; empty if it depends on the session or on
    /// chance.
    pub example: (&'static str, &'static str),
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A call: evaluated arguments with their expressions.
pub struct Call<'c, 'a> {
    /// The function's name in capitals.
    pub name: &'static str,
    /// The bound arguments, which have the types.
    pub args: &'c [Expr],
    /// Values of the arguments.
    pub values: &'c [ValueRef<'a>],
    /// The type of the result.
    pub ty: &'c ColumnType,
    /// Context of the evaluation.
    pub cx: &'c EvalCx<'a>,
}

impl<'a> Call<'_, 'a> {
    /// Number of arguments.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// NULL with warning 1301 if the result would exceed `max_allowed_packet`. Called with the
    /// result's length before it is allocated.
    pub fn too_long(&self, bytes: usize) -> Option<ValueRef<'a>> {
        let limit = self.cx.env.max_allowed_packet;
        if bytes as u64 <= limit {
            return None;
        }
        let name = self.name.to_ascii_lowercase();
        self.cx.env.warn(Warning {
            level: Level::Warning,
            code: 1301,
            message: format!(
                "Result of {name}() was larger than max_allowed_packet ({limit}) - truncated"
            ),
        });
        Some(ValueRef::Null)
    }

    /// [`Call::too_long`] for a function whose result contains its arguments. The limit is doubled,
    /// because the normalized result may be shorter.
    pub fn arguments_too_long(&self) -> Option<ValueRef<'a>> {
        let length = |v: &ValueRef<'_>| match v {
            ValueRef::Bytes(text) => text.len(),
            _ => 0,
        };
        self.too_long(self.values.iter().map(length).sum::<usize>() / 2)
    }

    /// Returns the result, or NULL if it exceeds `max_allowed_packet` and is longer than every
    /// argument. Applied to every function's result; [`Call::too_long`] has rejected results that
    /// grow by more than a factor.
    pub fn limit_size(&self, result: ValueRef<'a>) -> ValueRef<'a> {
        let ValueRef::Bytes(text) = result else {
            return result;
        };
        let longer = |v: &ValueRef<'_>| matches!(v, ValueRef::Bytes(a) if a.len() >= text.len());
        if text.len() as u64 > self.cx.env.max_allowed_packet && !self.values.iter().any(longer) {
            self.too_long(text.len()).unwrap_or(result)
        } else {
            result
        }
    }

    /// Value and type of an argument.
    pub fn arg(&self, at: usize) -> (ValueRef<'a>, Option<&ColumnType>) {
        let value = self.values.get(at).copied().unwrap_or(ValueRef::Null);
        (value, self.args.get(at).map(|e| &e.ty))
    }

    fn with<T>(
        &self,
        at: usize,
        convert: impl FnOnce(ValueRef<'a>, &ColumnType, &EvalCx<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.arg(at) {
            (ValueRef::Null, _) | (_, None) => Ok(None),
            (value, Some(ty)) => convert(value, ty, self.cx).map(Some),
        }
    }

    /// Argument as text, in its own character set.
    pub fn text(&self, at: usize) -> Result<Option<&'a [u8]>> {
        Ok(self.with(at, convert::text)?.flatten())
    }

    /// Argument as a signed integer, rounded.
    pub fn int(&self, at: usize) -> Result<Option<i64>> {
        if let Some(e) = self.args.get(at)
            && let Some(clipped) = convert::clipped_double(self.arg(at).0, e)?
        {
            return Ok(Some(clipped));
        }
        self.with(at, convert::int)
    }

    /// Argument as a count; negative numbers are 0.
    pub fn count(&self, at: usize) -> Result<Option<usize>> {
        if let (ValueRef::UInt(count), _) = self.arg(at) {
            return Ok(Some(usize::try_from(count).unwrap_or(usize::MAX)));
        }
        let count = self.int(at)?;
        Ok(count.map(|count| usize::try_from(count).unwrap_or(0)))
    }

    /// Argument as a double.
    pub fn double(&self, at: usize) -> Result<Option<f64>> {
        self.with(at, convert::double)
    }

    /// Argument as a decimal.
    pub fn decimal(&self, at: usize) -> Result<Option<Decimal>> {
        self.with(at, convert::decimal)
    }

    /// Argument as a date and time; NULL with a warning if it is not a valid one.
    pub fn datetime(&self, at: usize) -> Result<Option<DateTime>> {
        Ok(self.with(at, convert::datetime)?.flatten())
    }

    /// Argument as a date; NULL with a warning if it is not a valid one.
    pub fn date(&self, at: usize) -> Result<Option<Date>> {
        Ok(self.datetime(at)?.map(DateTime::date))
    }

    /// Argument as a time; NULL with a warning if it is not a valid one.
    pub fn time(&self, at: usize) -> Result<Option<Time>> {
        Ok(self.with(at, convert::time)?.flatten())
    }

    /// The collation of an argument.
    pub fn collation(&self, at: usize) -> Collation {
        let ty = self.args.get(at).map(|e| &e.ty);
        ty.map_or(Collation::BINARY, |t| t.collation)
    }

    /// Copies text into the arena of the evaluation.
    pub fn keep(&self, text: &[u8]) -> ValueRef<'a> {
        ValueRef::Bytes(self.cx.arena.alloc_slice_copy(text))
    }
}
