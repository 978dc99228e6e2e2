//! Choosing the access path of one table.
//!
//! Candidates come from the conditions that compare a bare column of the
//! table with something known before it is read. For each index the leading
//! parts with an equality are counted, then a range on the next part; beside
//! them stand the rows in key order and, where its entries hold all that is
//! needed or its order is asked for, every other index as a whole. What each
//! costs is estimated ([`super::cost`]), and the cheapest wins.
//!
//! Invariants:
//! 1. A path only narrows: conditions are checked again on the rows. Left out
//!    are only equalities of integers that a whole key stands for, on rows
//!    that are not locked.
//! 2. Hints choose among the paths, whatever they cost.

use super::group_order::Purpose;
use super::sargable::{Sargable, sargable_predicates};
use super::scan::{Access, Estimate, ScanMode};
use super::{OrderKey, cost};
use crate::bind::hints::Hints;
use crate::expr::Expr;
use crate::statistics::{Figures, TableStatistics};
use porpoise_rows::catalog::{Index, IndexState, Table};
use porpoise_types::Value;
use std::cell::OnceCell;
use std::sync::Arc;

/// Keys that one look-up may have at most; longer IN lists are scanned.
pub(super) const MAX_KEYS: usize = 10_000;

/// Factor of the cost of a table scan under FORCE INDEX.
const FORCED: f64 = 1e9;

/// A way to the rows of a table, for one row of the tables joined before.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// How.
    pub(super) access: Access,
    /// It gives the order asked for.
    pub(super) ordered: bool,
    /// The entries of the index hold all columns that are needed.
    pub(super) entries: bool,
    /// Rows that it looks at, about.
    pub(super) rows: f64,
    /// Estimated cost.
    pub(super) cost: f64,
    /// The addresses of conditions that hold for all that it finds.
    pub(super) implied: Vec<usize>,
}

/// Chooses the access path of one table.
pub(super) struct AccessPlanner<'a> {
    pub(super) table: &'a Table,
    pub(super) slot: usize,
    pub(super) conditions: &'a [&'a Expr],
    /// The slots that are already joined.
    pub(super) joined: u64,
    pub(super) order: &'a [OrderKey],
    pub(super) purpose: Purpose,
    pub(super) hints: &'a Hints,
    /// Columns that are read at all; `None`: all.
    pub(super) needed: Option<&'a [usize]>,
    pub(super) figures: &'a dyn Figures,
    known: OnceCell<Arc<TableStatistics>>,
}

impl Path {
    /// Estimated rows without statistics.
    pub(super) fn rows_unasked(&self) -> f64 {
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
        figures: &'a dyn Figures,
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
            figures,
            known: OnceCell::new(),
        }
    }

    /// The statistics of the table.
    pub(super) fn statistics(&self) -> &TableStatistics {
        self.known.get_or_init(|| self.figures.of(self.table))
    }

    /// The part of each row that a path reads.
    pub(super) fn scan_mode(&self, path: &Path) -> ScanMode {
        match (path.entries, self.needed) {
            (false, _) => ScanMode::Row,
            (true, Some([])) => ScanMode::CountOnly,
            (true, _) => ScanMode::Covering,
        }
    }

    pub(super) fn rows(&self) -> f64 {
        self.statistics().rows.max(1.0)
    }

    /// Rows that all conditions on what is joined then leave, about.
    pub(super) fn left(&self) -> f64 {
        let here = self.joined | 1u64 << (self.slot & 63);
        let mut left = self.rows();
        for condition in self.conditions {
            let slots = condition.slots();
            if slots & !here == 0 && slots & !self.joined != 0 {
                left *= cost::selectivity(condition, self.slot, self.table, self.statistics());
            }
        }
        left
    }

    /// Rows of which a LIMIT asks for the first: as [`AccessPlanner::left`], of as many
    /// rows as are taken to be there.
    pub(super) fn left_of_many(&self) -> f64 {
        self.left() * (cost::LEAST_ROWS / self.rows()).max(1.0)
    }

    /// All ways to the rows; the table itself is always one. Where one row by
    /// a whole key is asked for, there is no other.
    pub(super) fn paths(&self) -> Vec<Path> {
        let predicates = sargable_predicates(self.table, self.slot, self.conditions, self.joined);
        let mut paths = Vec::new();
        for (position, index) in self.table.indexes.iter().enumerate() {
            if !self.usable(position, index) {
                continue;
            }
            if let Some(path) = self.narrowed(position, index, &predicates) {
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
                _ => self.order_of(position, index, 0, &predicates),
            };
            let entries = self.covers(position);
            let hinted = self.hints.find(position) && !index.invisible;
            let worth = (entries && hinted) || order.is_some();
            if table || (worth && index.state == IndexState::Public) {
                paths.push(self.whole(position, entries, order));
            }
        }
        paths
    }

    /// The cheapest way.
    pub(super) fn best(&self, limited: bool) -> Path {
        let mut paths = self.paths();
        if paths.len() > 1 {
            let left = match limited {
                true => self.left_of_many(),
                false => self.left(),
            };
            let whole = |path: &Path| self.with_order(path, left, limited);
            paths.sort_by(|a, b| whole(a).total_cmp(&whole(b)));
        }
        let first = paths.into_iter().next();
        first.unwrap_or_else(|| self.whole(0, false, None))
    }

    /// The cost of a path when the order must be made where it gives none, and
    /// where a LIMIT may end it early when it does.
    pub(super) fn with_order(&self, path: &Path, left: f64, limited: bool) -> f64 {
        match (path.ordered, limited) {
            (true, true) => path.cost * (cost::LIMIT / left.max(1.0)).min(1.0),
            (true, false) => path.cost,
            (false, _) => path.cost + cost::to_order(self.purpose, left, || left),
        }
    }

    /// The estimate for a path alone.
    pub(super) fn estimate(&self, path: &Path) -> Estimate {
        let part = match self.figures.shown() {
            true => (self.left().max(1.0) / path.rows.max(1.0)).min(1.0),
            false => 1.0,
        };
        Estimate {
            rows: path.rows,
            part,
            cost: path.cost,
            total: path.rows,
        }
    }

    pub(super) fn usable(&self, position: usize, index: &Index) -> bool {
        index.state == IndexState::Public
            && !index.invisible
            && !index.parts.is_empty()
            && self.hints.find(position)
    }

    /// Whether the keys of the index hold all that is needed.
    pub(super) fn covers(&self, position: usize) -> bool {
        self.needed.is_some_and(|needed| {
            let held = self.table.columns_in_entries(position);
            needed.iter().all(|column| held.contains(column))
        })
    }

    /// The cost of a row of the index once its entry is reached.
    fn row_cost(&self, position: usize, entries: bool) -> f64 {
        match (position, entries) {
            (_, true) => cost::ENTRY,
            (0, false) => cost::ROW,
            (_, false) => cost::ENTRY + cost::ROW_OF_ENTRY,
        }
    }

    /// A whole index.
    pub(super) fn whole(&self, position: usize, entries: bool, order: Option<bool>) -> Path {
        let rows = self.rows();
        let mut cost = cost::SEEK + rows.max(cost::LEAST_ROWS) * self.row_cost(position, entries);
        if self.hints.forced && position == 0 {
            cost *= FORCED;
        }
        Path {
            access: Access::FullScan {
                index: position,
                reverse: order == Some(true),
            },
            ordered: self.order.is_empty() || order.is_some(),
            entries,
            rows,
            cost,
            implied: Vec::new(),
        }
    }

    /// A part of an index, if the conditions say which.
    fn narrowed(
        &self,
        position: usize,
        index: &Index,
        predicates: &[Sargable<'_>],
    ) -> Option<Path> {
        let entries = self.covers(position);
        let Some(restriction) = self.restriction(index, predicates, entries) else {
            return self.of_set(position, index, predicates);
        };
        if restriction.whole {
            return Some(self.by_whole_keys(position, index, restriction.range.keys, predicates));
        }
        let one = restriction.range.keys.len() == 1;
        let skip = if one { restriction.equal } else { 0 };
        let mut order = match self.order {
            [] => Some(false),
            _ => self.order_of(position, index, skip, predicates),
        };
        if restriction.or_table() {
            order = order.filter(|_| self.order.is_empty());
        }
        let seeks = restriction.range.keys.len() as f64;
        let rows = self.rows_of(position, &restriction);
        let reverse = order == Some(true);
        let access = match restriction.bounded {
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
        let mut path = self.of_ranges(position, access, order.is_some(), (seeks, rows));
        if !restriction.null {
            path.implied = implied(index, predicates, restriction.equal);
        }
        Some(path)
    }

    /// A path over so many ranges of an index with so many rows.
    pub(super) fn of_ranges(
        &self,
        position: usize,
        access: Access,
        ordered: bool,
        (seeks, rows): (f64, f64),
    ) -> Path {
        let entries = self.covers(position);
        let rows = rows.min(self.rows()).max(1.0);
        Path {
            access,
            ordered,
            entries,
            rows,
            cost: seeks * cost::SEEK + rows * self.row_cost(position, entries),
            implied: Vec::new(),
        }
    }

    /// One row a key at most.
    fn by_whole_keys(
        &self,
        position: usize,
        index: &Index,
        keys: Vec<Vec<Expr>>,
        predicates: &[Sargable<'_>],
    ) -> Path {
        let rows = keys.len() as f64;
        let order = || self.order_of(position, index, 0, predicates);
        let forwards = || self.order_of_whole_keys(order()) == Some(false);
        Path {
            ordered: self.order.is_empty()
                || (keys.len() == 1 && self.orders_alone())
                || forwards(),
            entries: false,
            rows,
            cost: rows * self.whole_key_cost(position),
            implied: implied(index, predicates, index.parts.len()),
            access: Access::PointLookup {
                index: position,
                keys,
            },
        }
    }

    /// Rows with one value of so many leading parts.
    pub(super) fn of_keys(&self, position: usize, parts: usize) -> f64 {
        match parts {
            0 => self.rows(),
            _ => self.rows() / self.statistics().distinct(position, parts),
        }
    }

    /// The keys that a subquery yields, of unknown number. Rows are read,
    /// for many keys make it a scan of the table.
    fn of_set(&self, position: usize, index: &Index, predicates: &[Sargable<'_>]) -> Option<Path> {
        let first = index.parts.first().filter(|p| p.prefix.is_none())?;
        let test = predicates
            .get(first.column)?
            .set
            .filter(|_| !index.using_hash)?;
        let keys = (self.rows() / 10.0).clamp(1.0, 100.0);
        let rows = (keys * self.of_keys(position, 1)).min(self.rows());
        Some(Path {
            access: Access::SubqueryLookup {
                index: position,
                test: Box::new(test.clone()),
            },
            ordered: self.order.is_empty(),
            entries: false,
            rows,
            cost: keys * cost::SEEK + rows * self.row_cost(position, false),
            implied: Vec::new(),
        })
    }
}

/// The conditions that hold for every row that equal values of so many leading
/// parts find. A NULL that is written finds NULLs, of which no equality holds.
fn implied(index: &Index, predicates: &[Sargable<'_>], equal: usize) -> Vec<usize> {
    let parts = index.parts.iter().take(equal);
    let said = parts.filter_map(|part| {
        let predicate = predicates.get(part.column)?;
        let is_null = |e: &&Expr| matches!(e.as_const(), Some(Value::Null));
        let null = predicate.equal.iter().flatten().any(is_null);
        predicate.by.filter(|_| part.prefix.is_none() && !null)
    });
    said.map(|condition| std::ptr::from_ref(condition).addr())
        .collect()
}
