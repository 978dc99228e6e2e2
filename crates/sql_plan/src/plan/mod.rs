//! Query plans: join order, access paths and operators.
//!
//! A plan is made from a bound statement and owns everything it needs; it is
//! executed any number of times with different parameters. Access paths and
//! the order of joins are chosen by estimated cost, from statistics of the
//! tables; a lookup by a full unique key needs none. Every condition is also
//! evaluated on the rows, so that an access path only reduces the rows read and
//! never decides which rows qualify.
//!
//! A query's plan is a tree of operators: see [`physical`].
//!
//! Invariant: outer joins keep the order of the FROM clause.

pub mod access;
mod aggregate_joins;
mod columns;
mod constants;
mod context;
mod cost;
pub mod derived;
mod derived_pushdown;
mod dml;
mod equal_columns;
mod exact_range;
mod finish;
mod from;
mod generated;
mod group_order;
mod grouping;
mod hinted;
mod index_order;
mod insert;
mod join_order;
mod join_search;
mod join_steps;
mod join_tree;
mod keys;
pub mod load;
mod loose_index_scan;
mod min_max;
mod multi;
mod needed;
mod or_expansion;
mod or_factors;
pub mod physical;
pub mod placement;
pub mod planned;
mod query;
mod recursive;
mod restriction;
mod rules;
mod sargable;
pub mod scan;
pub mod select;
mod selectivity;
mod semi;
pub mod sinks;
mod top_n_per_group;
mod upsert;
pub mod uses;
pub mod views;
mod windows;
mod zero_dates;

use porpoise_types::ColumnType;
use std::sync::OnceLock;

pub use crate::bind::OrderKey;
pub use physical::{QueryPlan, plan_of};

/// Metadata of a result column, as sent to clients.
#[derive(Clone, Debug)]
pub struct ResultColumn {
    /// Database of the table.
    pub schema: String,
    /// Alias of the table.
    pub table: String,
    /// The table.
    pub org_table: String,
    /// Alias of the column.
    pub name: String,
    /// The column.
    pub org_name: String,
    /// The type.
    pub ty: ColumnType,
    /// Flags of [`porpoise_types::column_flag`].
    pub flags: u16,
    /// Its encoding for clients.
    pub encoding: ColumnEncoding,
}

impl ResultColumn {
    /// A column that belongs to no table.
    pub fn without_table(name: String, ty: ColumnType, flags: u16) -> ResultColumn {
        ResultColumn {
            schema: String::new(),
            table: String::new(),
            org_table: String::new(),
            name,
            org_name: String::new(),
            ty,
            flags,
            encoding: ColumnEncoding::default(),
        }
    }
}

/// The encoding of a [`ResultColumn`] for clients, kept for the next execution of the plan. A clone has
/// none, since its column may be changed.
#[derive(Debug, Default)]
pub struct ColumnEncoding(OnceLock<Box<[u8]>>);

impl Clone for ColumnEncoding {
    fn clone(&self) -> ColumnEncoding {
        ColumnEncoding::default()
    }
}

impl ColumnEncoding {
    /// The encoding; `encode` appends it the first time.
    #[inline]
    pub fn get_or_encode(&self, encode: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        self.0.get_or_init(|| {
            let mut out = Vec::new();
            encode(&mut out);
            out.into_boxed_slice()
        })
    }
}
