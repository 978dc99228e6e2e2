//! The room `sql`: from statement text to rows.

pub mod parse;
