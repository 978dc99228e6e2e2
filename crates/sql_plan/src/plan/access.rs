//! Choice of the access path of one table.
//!
//! Candidates come from the sargable predicates: conditions that compare a bare column of the table
//! with a value known before the table is read. For each index the planner counts the leading parts
//! with an equality, then adds a range on the next part. Further candidates are the table scan in
//! key order and a full scan of each index that is covering or gives the wanted order. The cheapest
//! by estimated cost ([`super::cost`]) wins.
//!
//! Invariants:
//! 1. A path only narrows: conditions are checked again on the rows. The exception are equalities
//!    of integers that a whole key implies, on rows that are not locked.
//! 2. Hints restrict the choice, whatever the paths cost.

use super::group_order::Purpose;
use super::sargable::{Sargable, sargable_predicates};
use super::scan::{Access, Estimate, IndexRange, ScanMode, SearchOrder};
use super::selectivity::Estimator;
use super::{OrderKey, cost};
use crate::bind::hints::Hints;
use crate::expr::same::Form;
use crate::expr::{Expr, ExprKind};
use crate::statistics::{StatisticsSource, TableStatistics};
use porpoise_rows::catalog::{Index, IndexState, Table};
use porpoise_types::Value;
use std::cell::OnceCell;
use std::sync::Arc;

/// Maximum number of keys of one lookup; longer IN lists are scanned.
pub(super) const MAX_KEYS: usize = 10_000;

/// Factor of the cost of a table scan under FORCE INDEX.
const FORCED_SCAN_FACTOR: f64 = 1e9;

/// A way to find the rows of a table, for one row of the tables joined before.
#[derive(Clone, Debug)]
pub(super) struct AccessPath {
    /// The access method.
    pub(super) access: Access,
    /// Whether rows come in the wanted order.
    pub(super) ordered: bool,
    /// Whether the index is covering: entries have all columns that are needed.
    pub(super) covering: bool,
    /// Estimated number of rows that the path reads.
    pub(super) rows: f64,
    /// Estimated cost.
    pub(super) cost: f64,
    /// Addresses of the conditions that hold for every row found.
    pub(super) implied: Vec<usize>,
}

/// Chooses the access path of one table.
pub(super) struct AccessPlanner<'a> {
    pub(super) table: &'a Table,
    pub(super) slot: usize,
    pub(super) conditions: &'a [&'a Expr],
    /// The slots that are already joined, as a bit set.
    pub(super) joined: u64,
    pub(super) order: &'a [OrderKey],
    pub(super) purpose: Purpose,
    pub(super) hints: &'a Hints,
    /// Columns that the query reads; `None`: all.
    pub(super) needed: Option<&'a [usize]>,
    pub(super) statistics: &'a dyn StatisticsSource,
    known: OnceCell<Arc<TableStatistics>>,
}

impl AccessPath {
    /// Maximum number of rows that the path finds.
    pub(super) fn max_rows(&self) -> f64 {
        match &self.access {
            Access::PointLookup { keys, .. } => keys.len() as f64,
            _ => f64::INFINITY,
        }
    }

    /// Row estimate that reads no statistics.
    pub(super) fn rows_without_statistics(&self) -> f64 {
        match &self.access {
            Access::PointLookup { keys, .. } => keys.len() as f64,
            _ => 1.0,
        }
    }
}

impl<'a> AccessPlanner<'a> {
    pub(super) fn new(
        table: &'a Table,
        slot: usize,
        conditions: &'a [&'a Expr],
        hints: &'a Hints,
        statistics: &'a dyn StatisticsSource,
    ) -> AccessPlanner<'a> {
        AccessPlanner {
            table,
            slot,
            conditions,
            joined: 0,
            order: &[],
            purpose: Purpose::Sort,
            hints,
            needed: None,
            statistics,
            known: OnceCell::new(),
        }
    }

    /// Sets the statistics of the table, if they are known.
    pub(super) fn set_statistics(&self, statistics: Arc<TableStatistics>) {
        self.known.get_or_init(|| statistics);
    }

    /// Statistics of the table.
    pub(super) fn statistics(&self) -> &TableStatistics {
        self.known.get_or_init(|| self.statistics.of(self.table))
    }

    /// The part of each row that a path reads.
    pub(super) fn scan_mode(&self, path: &AccessPath) -> ScanMode {
        match (path.covering, self.needed) {
            (false, _) => ScanMode::Row,
            (true, Some([])) => ScanMode::CountOnly,
            (true, _) => ScanMode::Covering,
        }
    }

    pub(super) fn rows(&self) -> f64 {
        self.statistics().rows.max(1.0)
    }

    /// Estimates conditions on the table.
    pub(super) fn estimator(&self) -> Estimator<'_> {
        Estimator {
            slot: self.slot,
            table: self.table,
            statistics: self.statistics(),
            source: self.statistics,
        }
    }

    /// Estimated number of rows that pass all conditions on the tables joined so far.
    pub(super) fn output_rows(&self) -> f64 {
        let here = self.joined | 1u64 << (self.slot & 63);
        let (mut left, estimator) = (self.rows(), self.estimator());
        for condition in self.conditions {
            let slots = condition.slots();
            if slots & !here == 0 && slots & !self.joined != 0 {
                left *= estimator.selectivity(condition);
            }
        }
        left
    }

    /// As [`AccessPlanner::output_rows`], for the first rows under a LIMIT: with an assumed minimum size
    /// of the table.
    pub(super) fn output_rows_of_large(&self) -> f64 {
        self.output_rows() * (cost::MIN_TABLE_ROWS / self.rows()).max(1.0)
    }

    /// All candidate paths, always including the table scan; but a lookup of one row by a whole key
    /// is the only candidate.
    pub(super) fn paths(&self) -> Vec<AccessPath> {
        let predicates = sargable_predicates(self.table, self.slot, self.conditions, self.joined);
        let mut paths: Vec<AccessPath> = self.search_paths().collect();
        for (position, index) in self.table.indexes.iter().enumerate() {
            if !self.is_usable(position, index) {
                continue;
            }
            if let Some(path) = self.range_path(position, index, &predicates) {
                if let Access::PointLookup { keys, .. } = &path.access
                    && keys.len() == 1
                {
                    return vec![path];
                }
                paths.push(path);
            }
        }
        paths.extend(self.or_paths(&predicates));
        for (position, index) in self.table.indexes.iter().enumerate() {
            let table = position == 0;
            let order = match self.order {
                [] => None,
                _ => self.index_order(position, index, 0, &predicates),
            };
            let entries = self.covers(position);
            let hinted = self.hints.allows_lookup(position) && !index.invisible;
            let worth = (entries && hinted) || order.is_some();
            if table || (worth && index.state == IndexState::Public) {
                paths.push(self.full_index_scan(position, entries, order));
            }
        }
        paths
    }

    /// Searches of FULLTEXT indexes. Hints have no effect on them, as in MySQL.
    fn search_paths(&self) -> impl Iterator<Item = AccessPath> {
        let searches = self.conditions.iter().filter_map(|condition| {
            let search = condition.as_text_condition()?;
            let ExprKind::TextMatch(found) = &search.kind else {
                return None;
            };
            let here = found.slot() == Some(self.slot);
            let index = found.searched.index;
            here.then(|| self.search_path(index, search, condition))
        });
        searches.collect::<Vec<_>>().into_iter()
    }

    /// Whether two searches are the same. Literals that are parameters of the plan are compared by
    /// their values, if they are known: the plan is for this execution then.
    fn is_same_search(&self, a: &Expr, b: &Expr) -> bool {
        if a.form(b) == Form::Equal {
            return true;
        }
        let (ExprKind::TextMatch(a), ExprKind::TextMatch(b)) = (&a.kind, &b.kind) else {
            return false;
        };
        let (ExprKind::Param(first), ExprKind::Param(second)) = (&a.against.kind, &b.against.kind)
        else {
            return false;
        };
        a.is_same(b)
            && a.slot() == b.slot()
            && (first == second || {
                let value = self.statistics.parameter(*first);
                value.is_some() && value == self.statistics.parameter(*second)
            })
    }

    fn search_path(&self, index: usize, search: &Expr, condition: &Expr) -> AccessPath {
        let rows = (self.rows() * cost::SEARCH_SELECTIVITY).max(1.0);
        // Rows come by descending relevance.
        let is_order = |key: &OrderKey| key.desc && self.is_same_search(&key.expr, search);
        let ordered = match self.order {
            [] => true,
            [key] => self.purpose == Purpose::Sort && is_order(key),
            _ => false,
        };
        AccessPath {
            access: Access::TextSearch {
                index,
                search: Box::new(search.clone()),
                order: SearchOrder::Relevance,
            },
            ordered,
            covering: false,
            rows,
            cost: cost::SEEK + rows * cost::ENTRY,
            implied: vec![std::ptr::from_ref(condition).addr()],
        }
    }

    /// The cheapest path.
    pub(super) fn cheapest_path(&self, limited: bool) -> AccessPath {
        let mut paths = self.paths();
        if paths.len() > 1 {
            let left = if limited {
                self.output_rows_of_large()
            } else {
                self.output_rows()
            };
            let whole = |path: &AccessPath| self.cost_with_order(path, left, limited);
            paths.sort_by(|a, b| whole(a).total_cmp(&whole(b)));
        }
        let first = paths.into_iter().next();
        first.unwrap_or_else(|| self.full_index_scan(0, false, None))
    }

    /// Cost of a path, with a sort if it does not give the wanted order, and reduced if a LIMIT may
    /// end it early.
    pub(super) fn cost_with_order(&self, path: &AccessPath, left: f64, limited: bool) -> f64 {
        match (path.ordered, limited) {
            (true, true) => path.cost * (cost::LIMIT_ROWS / left.max(1.0)).min(1.0),
            (true, false) => path.cost,
            (false, _) => path.cost + cost::ordering_cost(self.purpose, left, || left),
        }
    }

    /// Estimate for a path by itself.
    pub(super) fn estimate(&self, path: &AccessPath) -> Estimate {
        let part = if self.statistics.estimates_are_shown() {
            (self.output_rows().max(1.0) / path.rows.max(1.0)).min(1.0)
        } else {
            1.0
        };
        Estimate {
            rows: path.rows,
            selectivity: part,
            cost: path.cost,
            join_rows: path.rows,
        }
    }

    pub(super) fn is_usable(&self, position: usize, index: &Index) -> bool {
        index.state == IndexState::Public
            && !index.is_full_text()
            && !index.invisible
            && !index.parts.is_empty()
            && self.hints.allows_lookup(position)
    }

    /// Whether the index covers the columns that are needed, with one entry for each row.
    pub(super) fn covers(&self, position: usize) -> bool {
        let index = self.table.indexes.get(position);
        let several =
            |index: &Index| index.is_full_text() || self.table.array_column(index).is_some();
        if index.is_some_and(several) {
            return false;
        }
        self.needed.is_some_and(|needed| {
            let held = self.table.columns_in_entries(position);
            needed.iter().all(|column| held.contains(column))
        })
    }

    /// Cost of reading a row after its index entry was found.
    fn row_cost(&self, position: usize, covering: bool) -> f64 {
        match (position, covering) {
            (_, true) => cost::ENTRY,
            (0, false) => cost::ROW,
            (_, false) => cost::ENTRY + cost::ROW_OF_ENTRY,
        }
    }

    /// A full scan of an index.
    pub(super) fn full_index_scan(
        &self,
        position: usize,
        covering: bool,
        order: Option<bool>,
    ) -> AccessPath {
        let rows = self.rows();
        let mut cost =
            cost::SEEK + rows.max(cost::MIN_TABLE_ROWS) * self.row_cost(position, covering);
        if self.hints.is_forced && position == 0 {
            cost *= FORCED_SCAN_FACTOR;
        }
        AccessPath {
            access: Access::FullScan {
                index: position,
                reverse: order == Some(true),
            },
            ordered: self.order.is_empty() || order.is_some(),
            covering,
            rows,
            cost,
            implied: Vec::new(),
        }
    }

    /// The part of an index that the conditions select, if they do.
    fn range_path(
        &self,
        position: usize,
        index: &Index,
        predicates: &[Sargable<'_>],
    ) -> Option<AccessPath> {
        if self.table.array_column(index).is_some() {
            return self.array_path(position, index, predicates);
        }
        let entries = self.covers(position);
        let Some(restriction) = self.restriction(index, predicates, entries) else {
            let by_rows = self.subquery_lookup_path(position, index, predicates);
            return by_rows.or_else(|| self.all_but_path(position, index, predicates));
        };
        if restriction.is_unique_key {
            return Some(self.unique_lookup_path(
                position,
                index,
                restriction.range.keys,
                predicates,
            ));
        }
        let one = restriction.range.keys.len() == 1;
        let skip = if one { restriction.equal } else { 0 };
        let mut order = match self.order {
            [] => Some(false),
            _ => self.index_order(position, index, skip, predicates),
        };
        if restriction.may_scan_table() {
            order = order.filter(|_| self.order.is_empty());
        }
        let seeks = restriction.range.keys.len() as f64;
        let rows = self.rows_of(position, &restriction);
        let reverse = order == Some(true);
        let access = match restriction.bound_count {
            0 => Access::IndexLookup {
                index: position,
                keys: restriction.range.keys,
                reverse,
            },
            _ => Access::IndexRangeScan {
                index: position,
                ranges: vec![restriction.range],
                reverse,
            },
        };
        let mut path = self.ranges_path(position, access, order.is_some(), seeks, rows);
        if !restriction.includes_null {
            path.implied = implied(index, predicates, restriction.equal);
        }
        Some(path)
    }

    /// NOT IN: the ranges of an index between the values that its first column does not have.
    fn all_but_path(
        &self,
        position: usize,
        index: &Index,
        predicates: &[Sargable<'_>],
    ) -> Option<AccessPath> {
        let first = index.parts.first().filter(|p| p.prefix.is_none())?;
        let values = &predicates.get(first.column)?.except;
        if values.is_empty() || values.len() > MAX_KEYS || index.using_hash {
            return None;
        }
        let order = match self.order {
            [] => Some(false),
            _ => self.index_order(position, index, 0, predicates),
        };
        let missing = values.len() as f64 / self.statistics().distinct(position, 1);
        let left = (1.0 - missing).max(0.0);
        let seeks = values.len() as f64 + 1.0;
        let access = Access::IndexRangeScan {
            index: position,
            ranges: vec![IndexRange {
                keys: vec![Vec::new()],
                low: None,
                high: None,
                except: values.iter().map(|value| (*value).clone()).collect(),
            }],
            reverse: order == Some(true),
        };
        let selected = self.rows() * left;
        let mut path = self.ranges_path(position, access, order.is_some(), seeks, selected);
        // As many rows are assumed as for a scan of the table, with which the path competes.
        let rows = self.rows().max(cost::MIN_TABLE_ROWS) * left;
        path.cost = seeks * cost::SEEK + rows * self.row_cost(position, path.covering);
        Some(path)
    }

    /// A path over a number of ranges of an index with an estimated number of rows.
    pub(super) fn ranges_path(
        &self,
        position: usize,
        access: Access,
        ordered: bool,
        seeks: f64,
        rows: f64,
    ) -> AccessPath {
        let entries = self.covers(position);
        let rows = rows.min(self.rows()).max(1.0);
        AccessPath {
            access,
            ordered,
            covering: entries,
            rows,
            cost: seeks * cost::SEEK + rows * self.row_cost(position, entries),
            implied: Vec::new(),
        }
    }

    /// Lookup by whole keys of a unique index: at most one row for each key.
    fn unique_lookup_path(
        &self,
        position: usize,
        index: &Index,
        keys: Vec<Vec<Expr>>,
        predicates: &[Sargable<'_>],
    ) -> AccessPath {
        let rows = keys.len() as f64;
        let order = || self.index_order(position, index, 0, predicates);
        let forwards = || self.order_of_whole_keys(order()) == Some(false);
        AccessPath {
            ordered: self.order.is_empty()
                || (keys.len() == 1 && self.order_reads_only_this_table())
                || forwards(),
            covering: false,
            rows,
            cost: rows * self.whole_key_cost(position),
            implied: implied(index, predicates, index.parts.len()),
            access: Access::PointLookup {
                index: position,
                keys,
            },
        }
    }

    /// Estimated number of rows with equal values in this many leading parts.
    pub(super) fn rows_of_equal_keys(&self, position: usize, parts: usize) -> f64 {
        match parts {
            0 => self.rows(),
            _ => self.rows() / self.statistics().distinct(position, parts),
        }
    }

    /// Lookup by the keys that a subquery yields, whose number is unknown. Reads rows, not entries:
    /// with many keys it turns into a table scan.
    fn subquery_lookup_path(
        &self,
        position: usize,
        index: &Index,
        predicates: &[Sargable<'_>],
    ) -> Option<AccessPath> {
        let first = index.parts.first().filter(|p| p.prefix.is_none())?;
        let test = predicates
            .get(first.column)?
            .set
            .filter(|_| !index.using_hash)?;
        let keys = (self.rows() / 10.0).clamp(1.0, 100.0);
        let rows = (keys * self.rows_of_equal_keys(position, 1)).min(self.rows());
        Some(AccessPath {
            access: Access::SubqueryLookup {
                index: position,
                test: Box::new(test.clone()),
            },
            ordered: self.order.is_empty(),
            covering: false,
            rows,
            cost: keys * cost::SEEK + rows * self.row_cost(position, false),
            implied: Vec::new(),
        })
    }
}

/// The conditions implied by an equality lookup on this many leading parts. Not with a literal
/// NULL, which finds NULLs, for which no equality is true.
fn implied(index: &Index, predicates: &[Sargable<'_>], equal: usize) -> Vec<usize> {
    let parts = index.parts.iter().take(equal);
    let conditions = parts.filter_map(|part| {
        let predicate = predicates.get(part.column)?;
        let is_null = |e: &&Expr| matches!(e.as_const(), Some(Value::Null));
        let null = predicate.equal.iter().flatten().any(is_null);
        predicate
            .equal_condition
            .filter(|_| part.prefix.is_none() && !null)
    });
    conditions
        .map(|condition| std::ptr::from_ref(condition).addr())
        .collect()
}
