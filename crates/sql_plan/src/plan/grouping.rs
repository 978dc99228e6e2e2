//! Checks of grouped queries: ONLY_FULL_GROUP_BY with functional dependence (manual, "MySQL
//! Handling of GROUP BY", "Detection of Functional Dependence"), the columns of HAVING, and WITH
//! ROLLUP.
//!
//! A column is functionally dependent on the groups if it is a key of GROUP BY, if a condition that
//! always holds equates it with a constant or another dependent column, if it belongs to a table of
//! which a primary key, or a unique key without nullable columns, is dependent, or if it is generated
//! from dependent columns. The right side
//! of an outer join is dependent through its ON, too: either all of it is NULL, or the equality
//! holds. Columns of a derived table or view are dependent through its query.

use super::from::{Block, From, OuterBlock};
use super::select::Item;
use crate::bind::window::Windows;
use crate::bind::{Aggregates, Derived, Origin, Scope, Source};
use crate::error::{Result, SqlError};
use crate::expr::query::{AGGREGATES, FreeRef, TestKind};
use crate::expr::{BitOp, CmpOp, Expr, ExprKind, Truth};
use crate::parse::ast;
use crate::plan::OrderKey;
use crate::plan::derived::{TableOperator, operator_of};
use porpoise_types::{ColumnType, Value};
use std::collections::HashSet;

/// Whether two bound expressions are the same.
pub(super) fn is_same_expr(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (
            ExprKind::Column { slot, column, .. },
            ExprKind::Column {
                slot: s, column: c, ..
            },
        ) => slot == s && column == c,
        (ExprKind::Column { .. }, _) | (_, ExprKind::Column { .. }) => false,
        (a, b) => {
            std::mem::discriminant(a) == std::mem::discriminant(b)
                && format!("{a:?}") == format!("{b:?}")
        }
    }
}

/// The columns that are functionally dependent on the groups.
pub(super) struct DependentColumns<'f> {
    from: &'f From,
    keys: &'f [Expr],
    windows: &'f Windows,
    columns: HashSet<(usize, usize)>,
    /// Columns for which a condition rejects NULL.
    never_null: HashSet<(usize, usize)>,
}

impl<'f> DependentColumns<'f> {
    /// Only the keys, for WITH ROLLUP: in a super-aggregate row a key is NULL, but a column that depends on it need
    /// not be.
    fn keys_only(from: &'f From, keys: &'f [Expr], windows: &'f Windows) -> DependentColumns<'f> {
        DependentColumns {
            from,
            keys,
            windows,
            columns: keys.iter().filter_map(column_of).collect(),
            never_null: HashSet::new(),
        }
    }

    pub(super) fn new(
        from: &'f From,
        keys: &'f [Expr],
        windows: &'f Windows,
    ) -> DependentColumns<'f> {
        let mut found = DependentColumns::keys_only(from, keys, windows);
        for condition in &from.block.conditions {
            find_rejected_nulls(condition, &mut found.never_null);
        }
        found.find_rejected_by_joins(&from.block.outers);
        loop {
            let before = found.columns.len();
            found.add_block(&from.block);
            found.add_by_unique_keys();
            found.add_generated();
            if found.columns.len() == before {
                return found;
            }
        }
    }

    fn add_block(&mut self, block: &Block) {
        for condition in &block.conditions {
            self.add_by_condition(condition, u64::MAX);
        }
        self.add_outers(&block.outers);
    }

    /// Finds columns of the right sides of outer joins for which ON rejects NULL: they are NULL only in rows without
    /// a match.
    fn find_rejected_by_joins(&mut self, outers: &[OuterBlock]) {
        for outer in outers {
            let inside = outer.block.slots();
            let mut found = HashSet::new();
            for condition in outer.on.iter().chain(&outer.block.conditions) {
                find_rejected_nulls(condition, &mut found);
            }
            found.retain(|(slot, _)| inside & (1 << (slot & 63)) != 0);
            self.never_null.extend(found);
            self.find_rejected_by_joins(&outer.block.outers);
        }
    }

    fn add_outers(&mut self, outers: &[OuterBlock]) {
        for outer in outers {
            let inside = outer.block.slots();
            let conditions = || outer.on.iter().chain(&outer.block.conditions);
            if !conditions().all(|condition| self.is_determined(condition, inside)) {
                continue;
            }
            for condition in conditions() {
                self.add_by_condition(condition, inside);
            }
            self.add_outers(&outer.block.outers);
        }
    }

    /// Whether dependent columns determine which rows match a condition of an outer join, and so in which groups the
    /// right side is NULL.
    fn is_determined(&self, condition: &Expr, inside: u64) -> bool {
        let mut decided = condition.is_fixed();
        condition.columns(&mut |slot, at| {
            let is_inside = inside & (1 << (slot & 63)) != 0;
            decided &= is_inside || self.columns.contains(&(slot, at));
        });
        decided
    }

    /// Whether a slot is on the right side of an outer join.
    fn is_outer_joined(&self, slot: usize) -> bool {
        let bit = 1u64 << (slot & 63);
        let mut outers = self.from.block.outers.iter();
        outers.any(|outer| outer.block.slots() & bit != 0)
    }

    /// Adds the column of `column = value` if the value is dependent; only columns of `slots` can
    /// be added.
    fn add_by_condition(&mut self, condition: &Expr, slots: u64) {
        let (ExprKind::Compare(CmpOp::Eq, _, _), false) =
            (&condition.kind, condition.has_subquery())
        else {
            return;
        };
        let ExprKind::Compare(_, _, args) = &condition.kind else {
            return;
        };
        let [a, b] = args.as_ref();
        for (column, value) in [(a, b), (b, a)] {
            if let Some((slot, at)) = column_of(column)
                && slots & (1 << (slot & 63)) != 0
                && self.first_independent_column(value).is_none()
                && value.is_fixed()
            {
                self.columns.insert((slot, at));
            }
        }
    }

    /// Adds all columns of tables of which a unique key is dependent.
    fn add_by_unique_keys(&mut self) {
        for (slot, source) in self.from.scope.sources.iter().enumerate() {
            let known = |at: &usize| self.columns.contains(&(slot, *at));
            let whole = match &source.origin {
                Origin::Stored(table) => table.indexes.iter().any(|index| {
                    let never_null = |at: usize| {
                        self.never_null.contains(&(slot, at))
                            || table.columns.get(at).is_some_and(|c| !c.nullable)
                    };
                    index.kind.is_unique()
                        && !index.parts.is_empty()
                        && index
                            .parts
                            .iter()
                            .all(|p| p.prefix.is_none() && known(&p.column) && never_null(p.column))
                }),
                Origin::Derived(derived) => {
                    let width = source.columns.len();
                    let more = self.columns_of_derived(slot, width, derived);
                    self.columns.extend(more.into_iter().map(|at| (slot, at)));
                    false
                }
                // Virtual tables are exempt: tools query information_schema without full GROUP BY
                // clauses.
                Origin::Virtual(_) => true,
            };
            if whole {
                let all = (0..source.columns.len()).map(|at| (slot, at));
                self.columns.extend(all);
            }
        }
    }

    /// Adds the generated columns that read only dependent columns. In the right side of an outer join,
    /// a row of NULLs need not have the value of the expression.
    fn add_generated(&mut self) {
        let from = self.from;
        for slot in from.block.tables.iter().copied() {
            let source = from.scope.sources.get(slot);
            let Some(table) = source.and_then(Source::table) else {
                continue;
            };
            for (at, column) in table.columns.iter().enumerate() {
                let known = |name: &String| {
                    let mut columns = table.columns.iter();
                    let read = columns.position(|c| c.name.eq_ignore_ascii_case(name));
                    read.is_some_and(|read| self.columns.contains(&(slot, read)))
                };
                let generated = column.generated.as_ref();
                if generated.is_some_and(|g| g.expression.columns.iter().all(known)) {
                    self.columns.insert((slot, at));
                }
            }
        }
    }

    /// The columns of a derived table that are dependent through its query: the query is looked at as
    /// if it was grouped by the columns that are known to be dependent.
    fn columns_of_derived(&self, slot: usize, width: usize, derived: &Derived) -> Vec<usize> {
        let TableOperator::Materialize(plan) = operator_of(derived) else {
            return Vec::new();
        };
        let Some(query) = plan.bound.as_ref().filter(|query| !query.rollup) else {
            return Vec::new();
        };
        let items = || query.items.iter().map(|i| &i.expr).take(width).enumerate();
        let known = |at: usize| self.columns.contains(&(slot, at));
        // In a row without a match all columns are NULL, also those that the derived table computes from NULL.
        let never_null = |at: usize| derived.columns.get(at).is_some_and(|c| !c.nullable);
        let is_weak =
            self.is_outer_joined(slot) && !(0..width).any(|at| known(at) && never_null(at));
        let keys: Vec<Expr> = items()
            .filter(|(at, _)| known(*at))
            .map(|(_, e)| e.clone())
            .collect();
        let within = DependentColumns::new(&query.from, &keys, &query.aggregates.windows);
        let mut groups = query.group_by.iter();
        let whole = query.grouped && groups.all(|e| within.first_independent_column(e).is_none());
        let is_null_with_keys = |e: &Expr| {
            let mut strict = HashSet::new();
            find_strict(e, &mut strict);
            let mut columns = keys.iter().filter_map(column_of);
            columns.any(|column| strict.contains(&column))
        };
        let dependent = |e: &Expr| {
            if is_weak && !is_null_with_keys(e) {
                return false;
            }
            let depends = within.first_independent_column(e).is_none();
            whole || depends && e.is_fixed() && !e.has_window() && !e.has_aggregate()
        };
        items()
            .filter(|(at, e)| !known(*at) && dependent(e))
            .map(|(at, _)| at)
            .collect()
    }

    /// The first column in `e` that is not dependent on the groups.
    pub(super) fn first_independent_column(&self, e: &Expr) -> Option<(usize, usize)> {
        if self.keys.iter().any(|key| is_same_expr(key, e)) {
            return None;
        }
        match &e.kind {
            ExprKind::Aggregate(_) => None,
            ExprKind::Window(call) => {
                let mut parts = self.windows.expressions_of(*call);
                parts.find_map(|e| self.first_independent_column(e))
            }
            ExprKind::Call(f, _) if f.name == "ANY_VALUE" => None,
            ExprKind::Column { slot, column, .. } => {
                let place = (*slot, *column);
                (!self.columns.contains(&place)).then_some(place)
            }
            ExprKind::Query(test) => {
                let left = test
                    .left
                    .iter()
                    .find_map(|e| self.first_independent_column(e));
                let here = |f: &&FreeRef| f.level == 1 && f.slot != AGGREGATES;
                let free = test.query.free.iter().filter(here);
                let mut free = free.map(|f| (f.slot, f.column));
                left.or_else(|| free.find(|place| !self.columns.contains(place)))
            }
            _ => {
                let mut found = None;
                e.each_child(&mut |child| {
                    if found.is_none() {
                        found = self.first_independent_column(child);
                    }
                });
                found
            }
        }
    }
}

/// Adds the columns that are not NULL in the rows for which a condition is true, or false.
fn find_rejected_nulls(condition: &Expr, found: &mut HashSet<(usize, usize)>) {
    match &condition.kind {
        ExprKind::Compare(op, _, args) if *op != CmpOp::NullSafe => {
            args.iter().for_each(|arg| find_strict(arg, found));
        }
        ExprKind::Like { args, .. } => args.iter().for_each(|arg| find_strict(arg, found)),
        ExprKind::Between { args, .. } => {
            let [arg, _, _] = args.as_ref();
            find_strict(arg, found);
        }
        ExprKind::In { arg, .. } => find_strict(arg, found),
        ExprKind::Query(test) if matches!(test.kind, TestKind::Any(_)) => {
            test.left.iter().for_each(|arg| find_strict(arg, found));
        }
        ExprKind::Is {
            arg,
            truth: Truth::Null,
            negated: true,
        } => find_strict(arg, found),
        ExprKind::Is {
            arg,
            truth: Truth::True | Truth::False,
            negated: false,
        } => find_rejected_nulls(arg, found),
        ExprKind::Not(arg) => match &arg.kind {
            ExprKind::Is {
                arg,
                truth: Truth::Null,
                negated: false,
            } => find_strict(arg, found),
            ExprKind::Is { .. } => {}
            _ => find_rejected_nulls(arg, found),
        },
        _ => find_strict(condition, found),
    }
}

/// Adds the columns that make an expression NULL if they are NULL.
fn find_strict(e: &Expr, found: &mut HashSet<(usize, usize)>) {
    match &e.kind {
        ExprKind::Column { slot, column, .. } => {
            found.insert((*slot, *column));
        }
        ExprKind::Arith(_, args) => args.iter().for_each(|arg| find_strict(arg, found)),
        ExprKind::Negate(arg) | ExprKind::Cast(arg) | ExprKind::BitNot(arg) => {
            find_strict(arg, found);
        }
        _ => {}
    }
}

fn column_of(e: &Expr) -> Option<(usize, usize)> {
    match &e.kind {
        ExprKind::Column { slot, column, .. } => Some((*slot, *column)),
        _ => None,
    }
}

/// The qualified name of a column, for error messages.
fn full_name(scope: &Scope, (slot, at): (usize, usize)) -> String {
    let Some(source) = scope.sources.get(slot) else {
        return String::new();
    };
    let column = source.columns.get(at).map_or("", |c| c.name.as_str());
    let parts = [source.shown_database(), source.alias.as_str(), column];
    let parts: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    parts.join(".")
}

/// Error 3602 for an argument of GROUPING() that is no key of GROUP BY.
pub(super) fn check_grouping<'e>(
    clauses: impl Iterator<Item = &'e Expr>,
    keys: &[Expr],
) -> Result<()> {
    let mut wrong = None;
    for clause in clauses {
        clause.walk(&mut |e| {
            if let ExprKind::Grouping(args) = &e.kind {
                let is_key = |arg: &Expr| keys.iter().any(|key| is_same_expr(key, arg));
                wrong = wrong.or(args.iter().position(|arg| !is_key(arg)));
            }
        });
    }
    wrong.map_or(Ok(()), |at| Err(not_a_key(at)))
}

/// Error of GROUPING() for the argument at this position.
fn not_a_key(at: usize) -> SqlError {
    let number = at + 1;
    let text = format!("Argument #{number} of GROUPING function is not in GROUP BY");
    SqlError::new(3602, "HY000", text)
}

/// The clauses of a grouped query.
pub(super) struct GroupedClauses<'q> {
    /// The select list.
    pub(super) items: &'q [Item],
    /// The keys of GROUP BY.
    pub(super) keys: &'q [Expr],
    /// The keys of ORDER BY.
    pub(super) order: &'q [OrderKey],
    /// The windows.
    pub(super) windows: &'q Windows,
    /// WITH ROLLUP.
    pub(super) rollup: bool,
}

/// ONLY_FULL_GROUP_BY: errors 1055, 1140 and 3029.
pub(super) fn check(from: &From, clauses: &GroupedClauses<'_>, implicit: bool) -> Result<()> {
    let GroupedClauses {
        items,
        keys,
        order,
        windows,
        rollup,
    } = *clauses;
    if implicit {
        let first = order.iter().position(|key| key.expr.has_aggregate());
        let number = first.unwrap_or(0) + 1;
        let text = format!(
            "Expression #{number} of ORDER BY contains aggregate function and applies to the result \
             of a non-aggregated query"
        );
        return Err(SqlError::new(3029, "HY000", text));
    }
    let determined = if rollup {
        DependentColumns::keys_only(from, keys, windows)
    } else {
        DependentColumns::new(from, keys, windows)
    };
    let items = items.iter().map(|i| &i.expr).enumerate();
    // The single row of a query without GROUP BY is not sorted.
    let order = if keys.is_empty() { &[] } else { order };
    let order = order.iter().map(|k| &k.expr).enumerate();
    let clauses = items
        .map(|(at, e)| ("SELECT list", at, e))
        .chain(order.map(|(at, e)| ("ORDER BY clause", at, e)));
    for (clause, at, e) in clauses {
        let Some(place) = determined.first_independent_column(e) else {
            continue;
        };
        let name = full_name(&from.scope, place);
        let number = at + 1;
        if keys.is_empty() {
            let text = format!(
                "In aggregated query without GROUP BY, expression #{number} of {clause} contains \
                 nonaggregated column '{name}'; this is incompatible with \
                 sql_mode=only_full_group_by"
            );
            return Err(SqlError::new(1140, "42000", text));
        }
        let text = format!(
            "Expression #{number} of {clause} is not in GROUP BY clause and contains nonaggregated \
             column '{name}' which is not functionally dependent on columns in GROUP BY clause; \
             this is incompatible with sql_mode=only_full_group_by"
        );
        return Err(SqlError::new(1055, "42000", text));
    }
    Ok(())
}

/// A column by slot and position.
type Place = (usize, usize);

/// The first column of an expression that is not part of a subexpression that `is_known` accepts. Columns that
/// subqueries read must be accepted by `is_known_below`.
fn first_unknown_column(
    e: &Expr,
    is_known: &dyn Fn(&Expr) -> bool,
    is_known_below: &dyn Fn(Place) -> bool,
) -> Option<Place> {
    if is_known(e) {
        return None;
    }
    if let Some(place) = column_of(e) {
        return Some(place);
    }
    let mut found = None;
    if let ExprKind::Query(test) = &e.kind {
        let free = test.query.free.iter();
        found = free
            .filter(|f| f.level == 1 && f.slot != AGGREGATES)
            .map(|f| (f.slot, f.column))
            .find(|place| !is_known_below(*place));
    }
    e.each_child(&mut |child| {
        if found.is_none() {
            found = first_unknown_column(child, is_known, is_known_below);
        }
    });
    found
}

/// ORDER BY of a SELECT DISTINCT may only use the select list: its expressions as a whole, its columns, and
/// its names as parts of an expression. Errors 3065 and 3066.
pub(super) fn check_distinct(
    scope: &Scope,
    items: &[Item],
    order: &[OrderKey],
    written: &[ast::OrderItem<'_>],
    aggregates: &Aggregates,
) -> Result<()> {
    // Equal aggregates get the number of the first of them.
    let texts: Vec<String> = aggregates.list.iter().map(|a| format!("{a:?}")).collect();
    let first_equal = |at: usize| texts.iter().position(|text| Some(text) == texts.get(at));
    let with_first_numbers = |e: &Expr| {
        let mut e = e.clone();
        e.rewrite(&mut |e| {
            if let ExprKind::Aggregate(at) = &mut e.kind {
                *at = first_equal(*at).unwrap_or(*at);
            }
        });
        e
    };
    let is_same = |shown: &Expr, e: &Expr| {
        is_same_expr(shown, e)
            || e.has_aggregate() && is_same_expr(&with_first_numbers(shown), &with_first_numbers(e))
    };
    let is_shown = |e: &Expr| is_any_value(e) || items.iter().any(|i| is_same(&i.expr, e));
    let is_shown_column = |place| items.iter().any(|i| column_of(&i.expr) == Some(place));
    let is_column = |e: &Expr| is_any_value(e) || column_of(e).is_some() && is_shown(e);
    for (at, key) in order.iter().enumerate() {
        let number = at + 1;
        let named = written.get(at).is_some_and(|w| names_item(&w.expr, items));
        if is_shown(&key.expr) {
            continue;
        }
        if !named && has_bare_aggregate(&key.expr) {
            let text = format!(
                "Expression #{number} of ORDER BY clause is not in SELECT list, contains aggregate \
                 function; this is incompatible with DISTINCT"
            );
            return Err(SqlError::new(3066, "HY000", text));
        }
        let unknown = if named {
            first_unknown_column(&key.expr, &is_shown, &is_shown_column)
        } else {
            first_unknown_column(&key.expr, &is_column, &is_shown_column)
        };
        if let Some(place) = unknown {
            let text = format!(
                "Expression #{number} of ORDER BY clause is not in SELECT list, references column '{}' \
                 which is not in SELECT list; this is incompatible with DISTINCT",
                full_name(scope, place)
            );
            return Err(SqlError::new(3065, "HY000", text));
        }
    }
    Ok(())
}

fn is_any_value(e: &Expr) -> bool {
    matches!(&e.kind, ExprKind::Call(f, _) if f.name == "ANY_VALUE")
}

/// Whether an expression has an aggregate outside of ANY_VALUE().
fn has_bare_aggregate(e: &Expr) -> bool {
    let mut found = matches!(e.kind, ExprKind::Aggregate(_));
    if !is_any_value(e) {
        e.each_child(&mut |child| found |= has_bare_aggregate(child));
    }
    found
}

/// Whether an expression has the name of an item that is not a column.
fn names_item(written: &ast::Expr<'_>, items: &[Item]) -> bool {
    let is_named = |name: &str| {
        let mut named = items.iter().filter(|i| i.name.eq_ignore_ascii_case(name));
        named.any(|i| column_of(&i.expr).is_none())
    };
    written.any(&|e| match &e.kind {
        ast::ExprKind::Column(name) => name.table.is_none() && is_named(name.name.name),
        _ => false,
    })
}

/// HAVING may only use the groups and the select list: error 1054.
pub(super) fn check_having(
    scope: &Scope,
    having: &Expr,
    items: &[Item],
    keys: &[Expr],
) -> Result<()> {
    let known = |e: &Expr| {
        let items = items.iter().map(|i| &i.expr);
        items.chain(keys).any(|shown| is_same_expr(shown, e))
    };
    match first_unknown_column(having, &known, &|_| true) {
        None => Ok(()),
        Some((slot, at)) => {
            let name = scope.column(slot, at).map_or("", |c| c.name.as_str());
            Err(SqlError::unknown_column(name, "having clause"))
        }
    }
}

/// Layout of a ROLLUP row: after the aggregates come the values of the GROUP BY keys and of
/// GROUPING().
#[derive(Clone, Copy)]
pub(super) struct Rollup<'k> {
    /// The keys.
    pub(super) keys: &'k [Expr],
    /// Number of aggregates.
    pub(super) aggregates: usize,
}

impl Rollup<'_> {
    /// Makes an expression read a key of the group's row.
    pub(super) fn replace_with_key(&self, key: usize, e: &mut Expr) {
        e.kind = ExprKind::Aggregate(self.aggregates + key);
        e.nullable = true;
    }

    /// Makes references to GROUP BY keys read the key of the group's row, which is NULL in
    /// super-aggregate rows.
    pub(super) fn replace(&self, e: &mut Expr) -> Result<()> {
        if let Some(at) = self.keys.iter().position(|key| is_same_expr(key, e)) {
            self.replace_with_key(at, e);
            return Ok(());
        }
        if let ExprKind::Grouping(args) = &e.kind {
            e.kind = self.grouping(args)?;
            return Ok(());
        }
        if let ExprKind::Query(test) = &mut e.kind
            && test.left.is_empty()
        {
            return Ok(());
        }
        let mut result = Ok(());
        e.each_child_mut(&mut |child| {
            if result.is_ok() {
                result = self.replace(child);
            }
        });
        result
    }

    /// GROUPING(a, b): one bit for each argument, the last one lowest.
    fn grouping(&self, args: &[Expr]) -> Result<ExprKind> {
        let mut whole: Option<Expr> = None;
        for (at, arg) in args.iter().enumerate() {
            let Some(key) = self.keys.iter().position(|key| is_same_expr(key, arg)) else {
                return Err(not_a_key(at));
            };
            let kind = ExprKind::Aggregate(self.aggregates + self.keys.len() + key);
            let bit = Expr::boolean(kind, false);
            whole = Some(match whole {
                None => bit,
                Some(before) => {
                    let one = Expr::constant(Value::Int(1), ColumnType::bigint());
                    let shift = ExprKind::Bit(BitOp::Shl, Box::new([before, one]));
                    let shifted = Expr::boolean(shift, false);
                    Expr::boolean(ExprKind::Bit(BitOp::Or, Box::new([shifted, bit])), false)
                }
            });
        }
        whole.map_or_else(|| Err(SqlError::argument_count("GROUPING")), |e| Ok(e.kind))
    }
}
