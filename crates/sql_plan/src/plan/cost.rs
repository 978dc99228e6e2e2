//! The cost model: weights of operations.
//!
//! The unit of cost is the next row of a scan in primary key order. The weights
//! are rounded measurements of the embedded engine, made by
//! `cargo run --release -p porpoise-sql --example plan_costs`, of 200,000 rows
//! whose index order is unrelated to row order, on two idle cores:
//!
//! | step | ns | rows |
//! |---|---|---|
//! | the next row in key order | 52 to 57 | 1 |
//! | the next entry of an index, with its values | 94 to 101 | 1.9 |
//! | the row of an entry, in addition to the entry | 82 to 129 | 1.5 to 2.4 |
//! | a row joined by its key | 218 to 223 | 4 |
//! | the start of one of many ranges | 230 | 4.4 |
//! | a lookup of an index range for a joined row, without its rows | 1,370 to 1,660 | 28 |
//! | a row put into a hash table | 287 to 290 | 5.4 |
//! | a hash table probe | 127 to 133 | 2.4 |
//! | a pair of rows compared | 107 to 116 | 2 |
//! | a row sorted, times the logarithm of their number | 14 to 20 | 0.3 |
//! | a row put into one of 100 groups | 8 to 12 | 0.2 |
//! | a row put into a group of its own | 1,380 to 1,430 | 26 |
//! | the same in order | 470 | 9 |
//!
//! Index ranges without a histogram are assumed to be narrow: reading a wide range costs a few
//! table scans, whereas scanning the table for a narrow range costs some thousand times the range.
//! [`super::selectivity`] estimates conditions.

use super::group_order::Purpose;

/// The next row of a scan.
pub(super) const ROW: f64 = 1.0;
/// The next entry of an index.
pub(super) const ENTRY: f64 = 2.0;
/// The row of an index entry, in addition to the entry.
pub(super) const ROW_OF_ENTRY: f64 = 1.5;
/// A row found by its key.
pub(super) const LOOKUP: f64 = 4.0;
/// The start of a range.
pub(super) const SEEK: f64 = 4.0;
/// A range looked up for a joined row, in addition to its start.
pub(super) const LOOKUP_OF_SEVERAL: f64 = 20.0;
/// A row put into a hash table.
pub(super) const BUILD: f64 = 5.0;
/// A hash table probe.
pub(super) const PROBE: f64 = 2.4;
/// A pair of rows compared.
pub(super) const COMPARE_PAIR: f64 = 2.0;
/// A row sorted, times the logarithm of their number.
pub(super) const SORT: f64 = 0.3;
/// A row found to belong to a group by a hash table.
pub(super) const GROUP: f64 = 0.2;
/// A group that a hash table did not know, beyond one in order.
const NEW_GROUP: f64 = 18.0;

/// Minimum row count assumed for a table: a small table may grow before its
/// statistics are sampled again.
pub(super) const MIN_TABLE_ROWS: f64 = 1000.0;

/// Assumed row count of a LIMIT.
pub(super) const LIMIT_ROWS: f64 = 100.0;

/// Maximum number of rows materialized for a join if an index lookup is possible.
pub(super) const MAX_MATERIALIZED_ROWS: f64 = 2_000_000.0;

/// Selectivity of a range with both bounds.
pub(super) const BETWEEN_SELECTIVITY: f64 = 1.0 / 9.0;

/// Selectivity of a search for words.
pub(super) const SEARCH_SELECTIVITY: f64 = 0.01;

/// Selectivity of an index range with one bound.
const ONE_BOUND_SELECTIVITY: f64 = 0.2;

/// Selectivity of an index range with this number of bounds.
pub(super) fn range_selectivity(bounds: usize) -> f64 {
    match bounds {
        0 => 1.0,
        1 => ONE_BOUND_SELECTIVITY,
        _ => BETWEEN_SELECTIVITY,
    }
}

/// The cost of sorting rows, or of hashing them into `groups` groups, if their
/// access path lacks the order.
pub(super) fn ordering_cost(purpose: Purpose, rows: f64, groups: impl FnOnce() -> f64) -> f64 {
    match purpose {
        Purpose::Sort => SORT * rows * rows.max(2.0).log2(),
        Purpose::Groups | Purpose::SortedGroups => GROUP * rows + NEW_GROUP * rows.min(groups()),
    }
}

/// The combined selectivity of several ranges of one condition, given the sums
/// for ranges with one bound and with two. Ranges with two bounds are assumed
/// to be narrow: they raise the result to [`ONE_BOUND_SELECTIVITY`] at most.
pub(super) fn ranges_selectivity(one_end: f64, two_ends: f64) -> f64 {
    (one_end + two_ends).min(one_end.max(ONE_BOUND_SELECTIVITY))
}
