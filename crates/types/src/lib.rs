//! MySQL values as pure functions: integers, DECIMAL, floats, strings and
//! collations, dates and times, JSON text; casts, comparison, text output and
//! the order-preserving key encoding.
//!
//! No function reads a clock, a file or a setting: everything that a conversion
//! depends on (SQL mode, session time zone, the current time) is passed in
//! [`CastCx`]. Where to start:
//!
//! * [`value`]: values, owned and borrowed.
//! * [`column_type`]: types of columns and their persisted form; [`column_flag`]: flags of a
//!   result's columns.
//! * [`cast`]: assignment to a column ([`store`]) and conversions in
//!   expressions.
//! * [`mod@compare`], [`collation`]: order and equality.
//! * [`key`]: memory-comparable keys; [`mod@array`]: stored arrays of them.
//! * [`text`]: values in the text protocol.
//! * [`full_text`]: words, searches and relevance of full-text search.
//!
//! Invariants:
//! 1. Every function is total: bytes that are not valid text of their character set still compare,
//!    sort and print, in a fixed order.
//! 2. `encode_key` orders exactly as `compare` of the same column type does.
//! 3. Anything persisted (column types, keys, weights) carries a version.

#![forbid(unsafe_code)]

pub mod array;
pub mod cast;
pub mod collation;
pub mod column_flag;
pub mod column_type;
pub mod compare;
pub mod decimal;
pub mod error;
pub mod full_text;
pub mod json;
pub mod key;
pub mod sql_mode;
pub mod temporal;
pub mod text;
pub mod time_zone;
pub mod value;

pub use cast::{
    CastCx, JsonStoreError, double_prefix, round_f64, round_to_digits, round_to_i64, store,
    store_json_value, to_bool, to_date, to_datetime, to_decimal, to_f64, to_i64, to_text, to_time,
    to_u64,
};
pub use collation::{AsciiEquality, Charset, Collation, LikePattern};
pub use column_type::{ColumnType, Kind};
pub use compare::{CompareAs, compare, comparison_type};
pub use decimal::{Decimal, DecimalError};
pub use error::{Level, TypeError, Warning};
pub use key::{
    Decoded, KEY_FORMAT_VERSION, decode_key, decode_key_borrowed, decode_key_part, encode_key,
    encode_key_prefix, encode_text_start, is_decodable, key_width, take_key_part,
};
pub use sql_mode::SqlMode;
pub use temporal::{Date, DateTime, Time};
pub use text::{storage_to_sql, write_text};
pub use time_zone::TimeZone;
pub use value::{Value, ValueRef};
