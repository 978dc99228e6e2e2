//! The registry of scalar functions.
//!
//! One entry holds a function's name, number of arguments, result type,
//! documentation, an example that is run as a test, and the code. Functions
//! with special syntax or lazy arguments (CASE, IF, COALESCE, CAST, EXTRACT,
//! `+ INTERVAL`) are expression nodes of their own.
//!
//! Adding a function: one entry in one of the files beside this one.

/// An entry: name, least and most arguments, type, nullability, whether equal
/// arguments give equal results (they do where nothing is said), the function,
/// documentation, an example and what it comes to.
macro_rules! f {
    ($name:literal, $args:expr, $ty:expr, $null:ident, $run:expr, $doc:literal, $call:literal => $result:literal) => {
        f!($name, $args, $ty, $null, true, $run, $doc, $call => $result)
    };
    ($name:literal, $args:expr, $ty:expr, $null:ident, $constant:literal, $run:expr, $doc:literal, $call:literal => $result:literal) => {
        Function {
            name: $name,
            args: $args,
            constant: $constant,
            nullable: Nullable::$null,
            ty: $ty,
            run: $run,
            doc: $doc,
            example: ($call, $result),
        }
    };
}

pub mod calendar;
pub mod codes;
mod date_format;
mod date_parse;
pub mod hash;
pub mod info;
pub mod interval;
pub mod json;
mod linear;
pub mod locks;
pub mod numbers;
pub mod regexp;
pub mod strings;
pub mod text;
pub mod times;
mod widths;

use crate::error::Result;
use crate::expr::Expr;
use crate::expr::convert;
use crate::expr::eval::EvalCx;
use porpoise_types::{
    Collation, ColumnType, Date, DateTime, Decimal, Kind, Level, Time, ValueRef, Warning,
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

/// Finds the type of the result from the bound arguments; the collation is
/// that of the connection for functions that make text of their own.
pub type TypeOf = fn(&[Expr], Collation) -> ColumnType;

/// A scalar function.
pub struct Function {
    /// The name in capitals.
    pub name: &'static str,
    /// Least and greatest number of arguments.
    pub args: (usize, usize),
    /// Equal arguments give equal results within one statement.
    pub constant: bool,
    /// Whether the result can be NULL.
    pub nullable: Nullable,
    /// The type of the result.
    pub ty: TypeOf,
    /// The code; arguments are already evaluated.
    pub run: for<'c, 'a> fn(&Call<'c, 'a>) -> Result<ValueRef<'a>>,
    /// One line of documentation.
    pub doc: &'static str,
    /// An expression and the text of its value; empty where it depends on the
    /// session or on chance.
    pub example: (&'static str, &'static str),
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every registered function.
pub fn all() -> impl Iterator<Item = &'static Function> {
    let files: [&'static [Function]; 13] = [
        strings::FUNCTIONS,
        numbers::FUNCTIONS,
        times::FUNCTIONS,
        info::FUNCTIONS,
        hash::FUNCTIONS,
        json::read::FUNCTIONS,
        json::search::FUNCTIONS,
        json::make::FUNCTIONS,
        regexp::FUNCTIONS,
        text::FUNCTIONS,
        codes::FUNCTIONS,
        calendar::FUNCTIONS,
        locks::FUNCTIONS,
    ];
    files.into_iter().flatten()
}

/// The function of that name, in any case.
pub fn find(name: &str) -> Option<&'static Function> {
    all().find(|f| f.name.eq_ignore_ascii_case(name))
}

/// A call: evaluated arguments and what is known about them.
pub struct Call<'c, 'a> {
    /// The function's name in capitals.
    pub name: &'static str,
    /// The bound arguments, for their types.
    pub args: &'c [Expr],
    /// Their values.
    pub values: &'c [ValueRef<'a>],
    /// The type of the result.
    pub ty: &'c ColumnType,
    /// The evaluation.
    pub cx: &'c EvalCx<'a>,
}

impl<'a> Call<'_, 'a> {
    /// How many arguments were given.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// NULL and warning 1301 where the result would exceed `max_allowed_packet`.
    /// Asked with the length of the result before that is allocated.
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

    /// [`Call::too_long`] of a function whose result holds its arguments: twice
    /// the limit may become less once it is in normal form.
    pub fn arguments_too_long(&self) -> Option<ValueRef<'a>> {
        let length = |v: &ValueRef<'_>| match v {
            ValueRef::Bytes(text) => text.len(),
            _ => 0,
        };
        self.too_long(self.values.iter().map(length).sum::<usize>() / 2)
    }

    /// The result, if it is within `max_allowed_packet` or no longer than an
    /// argument: every function's result passes here, after [`Call::too_long`]
    /// kept those that grow by more than a factor from being made.
    pub(crate) fn limited(&self, result: ValueRef<'a>) -> ValueRef<'a> {
        let ValueRef::Bytes(text) = result else {
            return result;
        };
        let longer = |v: &ValueRef<'_>| matches!(v, ValueRef::Bytes(a) if a.len() >= text.len());
        match text.len() as u64 > self.cx.env.max_allowed_packet && !self.values.iter().any(longer)
        {
            true => self.too_long(text.len()).unwrap_or(result),
            false => result,
        }
    }

    fn arg(&self, at: usize) -> (ValueRef<'a>, Option<&ColumnType>) {
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

    /// Argument as text in its own character set.
    pub fn text(&self, at: usize) -> Result<Option<&'a [u8]>> {
        Ok(self.with(at, convert::text)?.flatten())
    }

    /// Argument as a signed integer, rounded.
    pub fn int(&self, at: usize) -> Result<Option<i64>> {
        self.with(at, convert::int)
    }

    /// Argument as a double.
    pub fn double(&self, at: usize) -> Result<Option<f64>> {
        self.with(at, convert::double)
    }

    /// Argument as a decimal.
    pub fn decimal(&self, at: usize) -> Result<Option<Decimal>> {
        self.with(at, convert::decimal)
    }

    /// Argument as a date and time; NULL with a warning when it is none.
    pub fn datetime(&self, at: usize) -> Result<Option<DateTime>> {
        Ok(self.with(at, convert::datetime)?.flatten())
    }

    /// Argument as a date; NULL with a warning when it is none.
    pub fn date(&self, at: usize) -> Result<Option<Date>> {
        Ok(self.datetime(at)?.map(DateTime::date))
    }

    /// Argument as a time; NULL with a warning when it is none.
    pub fn time(&self, at: usize) -> Result<Option<Time>> {
        Ok(self.with(at, convert::time)?.flatten())
    }

    /// The collation of an argument.
    pub fn collation(&self, at: usize) -> Collation {
        let ty = self.args.get(at).map(|e| &e.ty);
        ty.map_or(Collation::BINARY, |t| t.collation)
    }

    /// Text that lives as long as the evaluation.
    pub fn keep(&self, text: &[u8]) -> ValueRef<'a> {
        ValueRef::Bytes(self.cx.arena.alloc_slice_copy(text))
    }
}

/// Result type: signed 64-bit integer.
pub fn bigint(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::bigint()
}

/// Result type: unsigned 64-bit integer.
pub fn unsigned(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::bigint_unsigned()
}

/// Result type: double.
pub fn double(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::double()
}

/// Characters that an argument's text has at most.
pub fn width(e: &Expr) -> u32 {
    let ty = &e.ty;
    let max = ty.collation.charset().max_len().max(1);
    match ty.kind {
        Kind::Char | Kind::VarChar | Kind::Binary | Kind::VarBinary => ty.length,
        Kind::TinyInt => 4,
        Kind::SmallInt | Kind::Year => 6,
        Kind::MediumInt => 9,
        Kind::Int => 11,
        Kind::BigInt | Kind::Bit => 21,
        Kind::Decimal => ty.length.saturating_add(2),
        Kind::Float | Kind::Double => 23,
        Kind::Date => 10,
        Kind::DateTime | Kind::Timestamp => 26,
        Kind::Time => 17,
        Kind::Null => 0,
        Kind::Enum | Kind::Set => {
            let charset = ty.collation.charset();
            let chars = |m: &[u8]| u32::try_from(charset.char_count(m)).unwrap_or(u32::MAX);
            let lengths = ty.members.iter().map(|m| chars(m));
            match ty.kind {
                Kind::Enum => lengths.max().unwrap_or(0),
                _ => lengths.fold(0, |sum, n| sum.saturating_add(n).saturating_add(1)),
            }
        }
        _ => ty.max_bytes() / max,
    }
}

/// Result type: text of the connection's character set.
pub fn text_of(chars: u32, collation: Collation) -> ColumnType {
    if chars > 16_383 {
        return ColumnType::text(Kind::LongText, collation);
    }
    ColumnType::varchar(chars, collation)
}

/// Result type: text as wide as all arguments together, in the collation on
/// which they agree.
pub fn joined(args: &[Expr], collation: Collation) -> ColumnType {
    let chars = args.iter().map(width).fold(0u32, u32::saturating_add);
    text_of(chars, common_collation(args, collation))
}

/// Result type: text of the kind of the first argument.
pub fn like_first(args: &[Expr], collation: Collation) -> ColumnType {
    let first = args.get(..1).unwrap_or(&[]);
    joined(first, collation)
}

/// Result type: text of the kind of the first argument, in the collation on which it agrees
/// with the second, which is looked for in it.
pub fn like_both(args: &[Expr], collation: Collation) -> ColumnType {
    let mut ty = like_first(args, collation);
    ty.collation = common_collation(args.get(..2).unwrap_or(args), collation);
    ty
}

/// The collation of the argument that insists most; binary wins over text.
pub fn common_collation(args: &[Expr], otherwise: Collation) -> Collation {
    let textual = |e: &&Expr| e.ty.is_string() || e.ty.is_binary() || e.ty.is_blob();
    if args
        .iter()
        .filter(textual)
        .any(|e| e.ty.collation == Collation::BINARY)
    {
        return Collation::BINARY;
    }
    let Some(least) = args.iter().filter(textual).map(|e| e.coercibility).min() else {
        return otherwise;
    };
    // Of those that insist most, Unicode wins, and `_bin` over its siblings.
    let insisting = args
        .iter()
        .filter(textual)
        .filter(|e| e.coercibility == least);
    insisting
        .map(|e| e.ty.collation)
        .reduce(porpoise_types::compare::common_collation)
        .unwrap_or(otherwise)
}
