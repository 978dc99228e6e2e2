//! The registry of scalar functions.
//!
//! An entry has a function's name, number of arguments, result type, documentation, an example that
//! is run as a test, and the implementation. Functions with special syntax or lazily evaluated
//! arguments (CASE, IF, COALESCE, CAST, EXTRACT, `+ INTERVAL`) are expression nodes.
//!
//! To add a function, add an entry in one of the files of this folder.

/// Defines an entry: name, minimum and maximum number of arguments, type, nullability, whether
/// equal arguments give equal results (the default), function, documentation, example and its
/// value.
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

pub mod binary_bits;
pub mod calendar;
mod cipher;
pub mod codes;
pub mod column_constants;
mod compression;
mod date_format;
mod date_parse;
pub mod digest;
mod gtid;
pub mod hash;
pub mod info;
pub mod json;
mod linear;
pub mod locks;
pub mod numbers;
pub mod regexp;
mod regexp_pattern;
mod seed_text;
pub mod strings;
pub mod text;
pub mod times;
pub mod units;
mod widths;
mod xml;

pub use crate::expr::function::{Call, Function, Nullable, TypeOf};
pub use crate::expr::types::{common_collation, text_of, width};

use crate::expr::Expr;
use porpoise_types::{Collation, ColumnType, Kind};

/// Every registered function.
pub fn all() -> impl Iterator<Item = &'static Function> {
    let files: [&'static [Function]; 26] = [
        binary_bits::FUNCTIONS,
        digest::FUNCTIONS,
        gtid::FUNCTIONS,
        strings::FUNCTIONS,
        numbers::FUNCTIONS,
        times::FUNCTIONS,
        info::FUNCTIONS,
        hash::FUNCTIONS,
        json::cast::FUNCTIONS,
        json::read::FUNCTIONS,
        json::schema::FUNCTIONS,
        json::search::FUNCTIONS,
        json::make::FUNCTIONS,
        json::storage::FUNCTIONS,
        json::value::FUNCTIONS,
        regexp::FUNCTIONS,
        seed_text::FUNCTIONS,
        text::FUNCTIONS,
        codes::FUNCTIONS,
        column_constants::FUNCTIONS,
        cipher::FUNCTIONS,
        compression::FUNCTIONS,
        units::FUNCTIONS,
        calendar::FUNCTIONS,
        locks::FUNCTIONS,
        xml::FUNCTIONS,
    ];
    files.into_iter().flatten()
}

/// Whether a registered name belongs to a construct with its own syntax, such as `TRIM(LEADING x
/// FROM y)`: these names contain a space, so no call by name reaches them.
pub fn has_own_syntax(name: &str) -> bool {
    name.contains(' ')
}

/// The function of this name, case-insensitively.
pub fn find(name: &str) -> Option<&'static Function> {
    all().find(|f| f.name.eq_ignore_ascii_case(name))
}

/// Result type: signed 64-bit integer.
pub fn bigint(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::bigint()
}

/// Result type: unsigned 64-bit integer.
pub fn unsigned(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::bigint_unsigned()
}

/// Result type: LONGBLOB.
pub(crate) fn long_blob(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::blob(Kind::LongBlob)
}

/// Result type: double.
pub fn double(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::double()
}

/// Result type: text as wide as all arguments together, in the collation on
/// which they agree.
pub fn joined(args: &[Expr], collation: Collation) -> ColumnType {
    let chars = args.iter().map(width).fold(0u32, u32::saturating_add);
    text_of(chars, common_collation(args, collation))
}

/// Result type: text of the same kind as the first argument.
pub fn like_first(args: &[Expr], collation: Collation) -> ColumnType {
    let first = args.get(..1).unwrap_or(&[]);
    joined(first, collation)
}

/// Result type: text of the same kind as the first argument, in the common collation of the first two
/// arguments. For functions that search for the second argument in the first.
pub fn like_both(args: &[Expr], collation: Collation) -> ColumnType {
    let mut ty = like_first(args, collation);
    ty.collation = common_collation(args.get(..2).unwrap_or(args), collation);
    ty
}
