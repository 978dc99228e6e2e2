//! What a step needs to know of where a table's data lie: the partitions that
//! a statement names or its conditions leave, and the large values it needs.
//!
//! Conditions are looked at when a plan is made, their constants when it runs:
//! a plan serves other parameters. A column whose large values a query looks at
//! only by their length or their start is read without them.
//!
//! Invariants:
//! 1. What is known of a partitioning column holds for every row that the step
//!    can yield; conditions are checked on the rows all the same.
//! 2. A value that is assigned, shown, compared or handed to any function but
//!    those of [`length_is_enough`] and [`start_of`] is fetched whole.

use super::dml::NewValue;
use super::facts::{Facts, facts};
use super::multi::MultiTarget;
use super::{Bound, SelectPlan, Step};
use crate::bind::{Origin, Source};
use crate::error::{Result, SqlError};
use crate::expr::large::looks_at_start;
use crate::expr::{Expr, ExprKind, Truth};
use crate::parse::ast::Ident;
use porpoise_rows::catalog::Table;
use std::sync::Arc;

/// Where a step looks, and what it fetches; see the module.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// PARTITION (names): these positions only.
    pub chosen: Option<Arc<[usize]>>,
    /// What constants say of partitioning columns, by column.
    pub known: Vec<(usize, KnownExprs)>,
    /// Columns whose large values are needed whole; `None`: all.
    pub whole: Option<Arc<[usize]>>,
    /// Columns of which as much of the start is needed as these counts of
    /// characters say together.
    pub starts: Vec<(usize, Vec<Expr>)>,
}

/// What is known of a column before the table is read.
#[derive(Clone, Debug, Default)]
pub struct KnownExprs {
    /// Equal to one of these.
    pub equal: Option<Vec<Expr>>,
    /// Not below this.
    pub low: Option<Bound>,
    /// Not above this.
    pub high: Option<Bound>,
}

/// The positions of the partitions that a statement names; `None` without
/// names.
///
/// # Errors
/// 1747 for a table without partitions, 1735 for a name that is not there.
pub fn chosen(table: &Table, names: &[Ident<'_>]) -> Result<Option<Arc<[usize]>>> {
    if names.is_empty() {
        return Ok(None);
    }
    let Some(by) = &table.partitioning else {
        let text = "PARTITION () clause on non partitioned table";
        return Err(SqlError::new(1747, "HY000", text));
    };
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let at = by.partition(name.name).ok_or_else(|| {
            let text = format!(
                "Unknown partition '{}' in table '{}'",
                name.name, table.name
            );
            SqlError::new(1735, "HY000", text)
        })?;
        found.push(at);
    }
    found.sort_unstable();
    found.dedup();
    Ok(Some(found.into()))
}

/// What the conditions say of a table's partitioning columns.
fn known(table: &Table, slot: usize, conditions: &[&Expr]) -> Vec<(usize, KnownExprs)> {
    let Some(by) = &table.partitioning else {
        return Vec::new();
    };
    let facts = facts(table, slot, conditions, 0);
    by.columns
        .iter()
        .filter_map(|column| Some((*column, of_facts(facts.get(*column)?)?)))
        .collect()
}

fn of_facts(facts: &Facts<'_>) -> Option<KnownExprs> {
    let bound = |b: &Option<(&Expr, bool)>| {
        b.map(|(value, inclusive)| Bound {
            pattern: None,
            value: value.clone(),
            inclusive,
        })
    };
    let known = KnownExprs {
        equal: facts
            .values()
            .map(|all| all.iter().map(|e| (*e).clone()).collect()),
        low: bound(&facts.low),
        high: bound(&facts.high),
    };
    let some = known.equal.is_some() || known.low.is_some() || known.high.is_some();
    some.then_some(known)
}

/// Fills in the partitions of a step.
pub(super) fn place(step: &mut Step, sources: &[Source]) {
    for inner in &mut step.group {
        place(inner, sources);
    }
    let Some(source) = sources.get(step.slot).filter(|_| step.group.is_empty()) else {
        return;
    };
    step.placement.chosen.clone_from(&source.partitions);
    let Some(table) = source.table() else {
        return;
    };
    // The WHERE does not narrow what matches an outer join's right side.
    let narrowing: Vec<&Expr> = match step.outer {
        true => step.on.iter().collect(),
        false => {
            let all = step.on.iter().chain(&step.implied);
            all.chain(&step.filter).collect()
        }
    };
    step.placement.known = known(table, step.slot, &narrowing);
}

/// Fills in the partitions of all steps of a query, and the values that it
/// needs whole.
pub(super) fn settle(plan: &mut SelectPlan) {
    let lateral = |s: &Source| matches!(&s.origin, Origin::Derived(d) if !d.free.is_empty());
    let all = plan.has_queries || plan.sources.iter().any(lateral);
    let mut needed = Needed::of(&plan.sources);
    if !all {
        plan.expressions(&mut |e| needed.look(e));
    }
    let SelectPlan { sources, steps, .. } = plan;
    for step in steps {
        place(step, sources);
        if !all {
            needed.tell(step);
        }
    }
}

/// As [`settle`] for the table of an UPDATE or DELETE: `set` are the
/// assignments, whose columns must be known whole to see whether they change.
pub(super) fn settle_target(
    step: &mut Step,
    source: &Source,
    order: &[&Expr],
    set: &[(usize, NewValue)],
) {
    let sources = std::slice::from_ref(source);
    place(step, sources);
    let mut needed = Needed::of(sources);
    let mut queries = false;
    let values = set.iter().filter_map(|(_, value)| match value {
        NewValue::Expr(e) => Some(e),
        NewValue::Default => None,
    });
    let conditions = step.filter.iter().chain(&step.on);
    for e in conditions.chain(values).chain(order.iter().copied()) {
        queries |= e.has_query();
        needed.look(e);
    }
    for (column, _) in set {
        needed.add(0, *column);
    }
    if !queries {
        needed.tell(step);
    }
}

/// As [`settle`] for the join of an UPDATE of several tables: what is assigned,
/// and what it is computed from, is needed whole, too.
pub(super) fn settle_join(plan: &mut SelectPlan, targets: &[MultiTarget]) {
    let mut needed = Needed::of(&plan.sources);
    let mut all = plan.has_queries;
    plan.expressions(&mut |e| needed.look(e));
    for target in targets {
        for (column, value) in &target.set {
            needed.add(target.slot, *column);
            if let NewValue::Expr(e) = value {
                all |= e.has_query();
                needed.look(e);
            }
        }
    }
    for step in &mut plan.steps {
        match all {
            true => whole(step),
            false => needed.tell(step),
        }
    }
}

/// Everything is fetched.
fn whole(step: &mut Step) {
    step.group.iter_mut().for_each(whole);
    step.placement.whole = None;
}

/// Columns needed whole, by slot; only of tables that can have large values.
struct Needed {
    columns: Vec<Option<Vec<usize>>>,
    /// Slot, column, counts of characters.
    starts: Vec<(usize, usize, Vec<Expr>)>,
}

impl Needed {
    fn of(sources: &[Source]) -> Needed {
        let large = |s: &Source| s.table().is_some_and(|t| t.may_have_parts());
        Needed {
            columns: sources.iter().map(|s| large(s).then(Vec::new)).collect(),
            starts: Vec::new(),
        }
    }

    fn add(&mut self, slot: usize, column: usize) {
        if let Some(Some(columns)) = self.columns.get_mut(slot)
            && !columns.contains(&column)
        {
            columns.push(column);
        }
    }

    /// Notes the columns that an expression needs whole.
    fn look(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Column { slot, column, .. } => self.add(*slot, *column),
            _ if length_is_enough(e) => {}
            ExprKind::Call(f, args) => match start_of(f.name, args) {
                Some((slot, column, counts)) => self.starts.push((slot, column, counts)),
                None => args.iter().for_each(|arg| self.look(arg)),
            },
            _ => e.each_child(&mut |child| self.look(child)),
        }
    }

    fn tell(&self, step: &mut Step) {
        for inner in &mut step.group {
            self.tell(inner);
        }
        if let Some(Some(columns)) = self.columns.get(step.slot) {
            step.placement.whole = Some(columns.as_slice().into());
            let starts = self.starts.iter().filter(|(slot, ..)| *slot == step.slot);
            step.placement.starts = starts.map(|(_, c, e)| (*c, e.clone())).collect();
        }
    }
}

/// Functions whose value follows from the length that the row keeps.
pub const LENGTHS: &[&str] = &[
    "LENGTH",
    "OCTET_LENGTH",
    "CHAR_LENGTH",
    "CHARACTER_LENGTH",
    "BIT_LENGTH",
];

/// Whether an expression over a column needs no more of its value than that it
/// is there, and how long it is.
fn length_is_enough(e: &Expr) -> bool {
    let column = |e: &Expr| matches!(e.kind, ExprKind::Column { .. });
    match &e.kind {
        ExprKind::Is {
            arg,
            truth: Truth::Null,
            ..
        } => column(arg),
        ExprKind::Call(f, args) => match args.as_slice() {
            [arg] if LENGTHS.contains(&f.name) => column(arg),
            _ => false,
        },
        _ => false,
    }
}

/// The column of a function that looks at the start of a text: slot, column,
/// and the counts that say how far.
fn start_of(name: &str, args: &[Expr]) -> Option<(usize, usize, Vec<Expr>)> {
    let (_, counts) = args
        .split_first()
        .filter(|_| looks_at_start(name, args.len()))?;
    let plain = |e: &Expr| matches!(e.kind, ExprKind::Const(_) | ExprKind::Param(_));
    match args.first().map(|a| &a.kind) {
        Some(ExprKind::Column { slot, column, .. }) if counts.iter().all(plain) => {
            Some((*slot, *column, counts.to_vec()))
        }
        _ => None,
    }
}
