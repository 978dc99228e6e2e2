//! Partition pruning, and projection of overflow values: which partitions a
//! scan reads, and which large values it fetches, whole or as a prefix.
//!
//! Predicates are extracted at planning time; their constants are evaluated at
//! run time, because a plan is reused with other parameters. If a query uses
//! only the length of a column, its overflow values are not fetched; if it uses
//! only a prefix, no more than that prefix is.
//!
//! Invariants:
//! 1. Pruning predicates hold for every row that the scan can yield; the
//!    conditions are still evaluated on each row.
//! 2. A value that is assigned, returned, compared or passed to a function other
//!    than those of [`needs_only_length`] and [`prefix_read_by`] is fetched whole.

use super::QueryPlan;
use super::sargable::{Sargable, sargable_predicates};
use super::scan::{Bound, FilterPlace, Scan};
use super::sinks::Target;
use crate::bind::{Origin, Source};
use crate::error::{Result, SqlError};
use crate::expr::large::reads_only_prefix;
use crate::expr::{Expr, ExprKind, Truth};
use crate::parse::ast::Ident;
use porpoise_rows::catalog::Table;
use std::sync::Arc;

/// Partitions that a scan reads, and overflow values that it fetches; see the module.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// PARTITION (names): these leaves only.
    pub named_partitions: Option<Arc<[usize]>>,
    /// Constants that partitioning columns are compared with, by column.
    pub partition_constants: Vec<(usize, KnownExprs)>,
    /// Columns whose large values are needed whole; `None`: all.
    pub whole_columns: Option<Arc<[usize]>>,
    /// Columns of which only a prefix is needed, with the function arguments that
    /// determine its length in characters.
    pub prefix_columns: Vec<(usize, Vec<Expr>)>,
}

/// Constants that a column is compared with.
#[derive(Clone, Debug, Default)]
pub struct KnownExprs {
    /// Equal to one of these.
    pub equal: Option<Vec<Expr>>,
    /// Not below this.
    pub low: Option<Bound>,
    /// Not above this.
    pub high: Option<Bound>,
}

/// Restricts a table to the partitions and subpartitions that a statement names. The partitions of a view are those
/// that its query names.
///
/// # Errors
/// 1747 for a view or a table without partitions, 1735 for an unknown partition.
pub fn set_named_partitions(source: &mut Source, names: &[Ident<'_>]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let table = source.table().filter(|_| source.view.is_none());
    source.partitions = named_partitions(table.ok_or_else(not_partitioned)?, names)?;
    Ok(())
}

fn not_partitioned() -> SqlError {
    let text = "PARTITION () clause on non partitioned table";
    SqlError::new(1747, "HY000", text)
}

/// The leaves of the partitions and subpartitions with these names; `None` without names.
///
/// # Errors
/// 1747 for a table without partitions, 1735 for an unknown partition.
fn named_partitions(table: &Table, names: &[Ident<'_>]) -> Result<Option<Arc<[usize]>>> {
    if names.is_empty() {
        return Ok(None);
    }
    let by = table.partitioning.as_ref().ok_or_else(not_partitioned)?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let leaves = by.named_leaves(name.name).ok_or_else(|| {
            let text = format!(
                "Unknown partition '{}' in table '{}'",
                name.name, table.name
            );
            SqlError::new(1735, "HY000", text)
        })?;
        found.extend(leaves);
    }
    found.sort_unstable();
    found.dedup();
    Ok(Some(found.into()))
}

/// The conditions on the columns of PARTITION BY and SUBPARTITION BY.
fn partition_constants(
    table: &Table,
    slot: usize,
    conditions: &[&Expr],
) -> Vec<(usize, KnownExprs)> {
    let Some(by) = &table.partitioning else {
        return Vec::new();
    };
    let predicates = sargable_predicates(table, slot, conditions, 0);
    let mut columns: Vec<usize> = by.all_columns().collect();
    columns.sort_unstable();
    columns.dedup();
    columns
        .into_iter()
        .filter_map(|column| Some((column, of_predicates(predicates.get(column)?)?)))
        .collect()
}

fn of_predicates(predicates: &Sargable<'_>) -> Option<KnownExprs> {
    let bound = |b: &Option<(&Expr, bool)>| {
        b.map(|(value, inclusive)| Bound {
            pattern: None,
            value: value.clone(),
            inclusive,
        })
    };
    let known = KnownExprs {
        equal: predicates
            .values()
            .map(|all| all.iter().map(|e| (*e).clone()).collect()),
        low: bound(&predicates.low),
        high: bound(&predicates.high),
    };
    let some = known.equal.is_some() || known.low.is_some() || known.high.is_some();
    some.then_some(known)
}

/// Fills in the partitions of a scan, given the conditions of its join.
fn place_partitions(scan: &mut Scan, on: &[Expr], sources: &[Source]) {
    let Some(source) = sources.get(scan.slot) else {
        return;
    };
    scan.placement
        .named_partitions
        .clone_from(&source.partitions);
    let Some(table) = source.table() else {
        return;
    };
    let narrowing: Vec<&Expr> = scan.implied.iter().chain(on).chain(&scan.filter).collect();
    scan.placement.partition_constants = partition_constants(table, scan.slot, &narrowing);
    let reads = scan.lock().is_none() && scan.access.can_visit_in_place();
    let subqueries = scan.filter.iter().filter(|e| e.has_subquery()).count();
    scan.filter_place = if !reads || !scan.filter.iter().all(Expr::is_fixed) {
        FilterPlace::Copies
    } else if subqueries == 0 {
        FilterPlace::InPlace
    } else if subqueries < scan.filter.len() {
        FilterPlace::Split
    } else {
        FilterPlace::Copies
    };
}

/// Sets the placement of all scans of a query, and whether their conditions are
/// checked in place.
pub(super) fn set_placement(plan: &mut QueryPlan) {
    let lateral = |s: &Source| matches!(&s.origin, Origin::Derived(d) if !d.free.is_empty());
    let all = plan.has_subqueries || plan.sources.iter().any(lateral);
    let mut needed = NeededColumns::of(&plan.sources);
    if !all {
        plan.expressions(&mut |e| needed.visit(e));
    }
    let sources = std::mem::take(&mut plan.sources);
    plan.scans_mut(&mut |scan, on| {
        place_partitions(scan, on, &sources);
        if !all {
            needed.apply_to(scan);
        }
    });
    plan.sources = sources;
}

/// As [`set_placement`] for the rows of an UPDATE or DELETE: assigned columns are fetched whole to
/// detect whether they change, and so are columns that new values or a view's check use.
pub(super) fn set_change_placement(plan: &mut QueryPlan, targets: &[Target]) {
    set_placement(plan);
    let mut needed = NeededColumns::of(&plan.sources);
    let mut all = plan.has_subqueries;
    plan.expressions(&mut |e| needed.visit(e));
    let values = targets.iter().flat_map(|target| &target.set);
    let checks = targets.iter().filter_map(|target| target.check.as_ref());
    let checks = checks.flat_map(|check| &check.conditions);
    for e in values.filter_map(|(_, value)| value.expr()).chain(checks) {
        all |= e.has_subquery();
        needed.visit(e);
    }
    for target in targets {
        for (column, _) in &target.set {
            needed.add(target.slot, *column);
        }
    }
    plan.scans_mut(&mut |scan, _| {
        if all {
            scan.placement.whole_columns = None;
        } else {
            needed.apply_to(scan);
        }
    });
}

/// Columns needed whole, by slot; only of tables that can have large values.
struct NeededColumns {
    columns: Vec<Option<Vec<usize>>>,
    /// Slot, column, counts of characters.
    prefix_columns: Vec<(usize, usize, Vec<Expr>)>,
    /// FULLTEXT searches: slot, whether rows have a hidden key, columns. A search reads these columns of rows that
    /// are locked, or whose key is not available.
    searches: Vec<(usize, bool, Vec<usize>)>,
}

impl NeededColumns {
    fn of(sources: &[Source]) -> NeededColumns {
        let large = |s: &Source| s.table().is_some_and(|t| t.may_overflow());
        NeededColumns {
            columns: sources.iter().map(|s| large(s).then(Vec::new)).collect(),
            prefix_columns: Vec::new(),
            searches: Vec::new(),
        }
    }

    fn add(&mut self, slot: usize, column: usize) {
        if let Some(Some(columns)) = self.columns.get_mut(slot)
            && !columns.contains(&column)
        {
            columns.push(column);
        }
    }

    /// Adds the columns that an expression needs whole.
    fn visit(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Column { slot, column, .. } => self.add(*slot, *column),
            _ if needs_only_length(e) => {}
            ExprKind::TextMatch(search) => self.searches.extend(search.slot().map(|slot| {
                let columns = search.columns.iter().filter_map(|e| match e.kind {
                    ExprKind::Column { column, .. } => Some(column),
                    _ => None,
                });
                (slot, search.searched.table.hidden_key, columns.collect())
            })),
            ExprKind::Call(f, args) => match prefix_read_by(f.name, args) {
                Some((slot, column, counts)) => self.prefix_columns.push((slot, column, counts)),
                None => args.iter().for_each(|arg| self.visit(arg)),
            },
            _ => e.each_child(&mut |child| self.visit(child)),
        }
    }

    fn apply_to(&self, scan: &mut Scan) {
        if let Some(Some(columns)) = self.columns.get(scan.slot) {
            let mut columns = columns.clone();
            let searches = self.searches.iter().filter(|(slot, ..)| *slot == scan.slot);
            for (_, hidden_key, searched) in searches {
                if *hidden_key || scan.lock().is_some() {
                    columns.extend(searched);
                }
            }
            scan.placement.whole_columns = Some(columns.as_slice().into());
            let starts = self
                .prefix_columns
                .iter()
                .filter(|(slot, ..)| *slot == scan.slot);
            scan.placement.prefix_columns = starts.map(|(_, c, e)| (*c, e.clone())).collect();
        }
    }
}

/// Functions computed from the value's length, which the row stores.
pub const LENGTH_FUNCTIONS: &[&str] = &[
    "LENGTH",
    "OCTET_LENGTH",
    "CHAR_LENGTH",
    "CHARACTER_LENGTH",
    "BIT_LENGTH",
];

/// Whether an expression needs only a column's NULL flag or length, not its
/// value.
fn needs_only_length(e: &Expr) -> bool {
    let column = |e: &Expr| matches!(e.kind, ExprKind::Column { .. });
    match &e.kind {
        ExprKind::Is {
            arg,
            truth: Truth::Null,
            ..
        } => column(arg),
        ExprKind::Call(f, args) => match args.as_slice() {
            [arg] if LENGTH_FUNCTIONS.contains(&f.name) => column(arg),
            _ => false,
        },
        _ => false,
    }
}

/// The column of a function that reads only a prefix of its argument: slot,
/// column, and the arguments that bound the prefix.
fn prefix_read_by(name: &str, args: &[Expr]) -> Option<(usize, usize, Vec<Expr>)> {
    let (_, counts) = args
        .split_first()
        .filter(|_| reads_only_prefix(name, args.len()))?;
    let plain = |e: &Expr| matches!(e.kind, ExprKind::Const(_) | ExprKind::Param(_));
    match args.first().map(|a| &a.kind) {
        Some(ExprKind::Column { slot, column, .. }) if counts.iter().all(plain) => {
            Some((*slot, *column, counts.to_vec()))
        }
        _ => None,
    }
}
