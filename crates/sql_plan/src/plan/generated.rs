//! Indexed generated columns in place of their expressions (manual, "Optimizer Use of Generated
//! Column Indexes", and "CREATE INDEX Statement", Functional Key Parts).
//!
//! `WHERE lower(a) = 'x'` becomes `WHERE g = 'x'` if `g` is a generated column with this expression
//! and has an index; functional key parts are such columns. The same applies to ORDER BY and GROUP
//! BY. Access paths, order and covering indexes then follow as for any other column.
//!
//! Invariants:
//! 1. The expression must be equal, and its type that of the column up to its width. A column that
//!    is narrower than its expression has the same values in strict mode, as writes of others fail.
//! 2. A column is replaced only in the block of joins of its own table: above an outer join, the
//!    expression need not be NULL where the column is.
//! 3. Expressions over TIMESTAMP columns depend on the session's time zone, and are left alone.
//! 4. If a literal decides, the plan is not kept for other literals
//!    ([`StatisticsSource::depends_on_literals`]).

use super::OrderKey;
use super::from::{Block, From};
use crate::bind::nodes::MULTI_VALUED_CLAUSE;
use crate::bind::table_expression::table_expression;
use crate::bind::types::is_text;
use crate::bind::{Source, SystemVariables};
use crate::error::{Result, SqlError};
use crate::expr::same::Form;
use crate::expr::{ArithOp, ArrayTest, ArrayTestKind, Expr, ExprKind, Load, load_of};
use crate::statistics::StatisticsSource;
use bumpalo::Bump;
use porpoise_rows::catalog::{IndexState, Table};
use porpoise_types::{ColumnType, Kind};
use std::sync::Arc;

/// An indexed generated column of a table in a query.
struct Candidate {
    slot: usize,
    /// The column.
    column: Expr,
    /// Its expression, and what a functional key part is a CAST or COLLATE of; what a multi-valued
    /// one is a CAST of.
    patterns: Vec<Expr>,
    /// Whether the column is that of a multi-valued key part.
    array: bool,
}

/// Rejects variables, which no definition contains.
struct NoVariables;

impl StatisticsSource for NoVariables {}

impl SystemVariables for NoVariables {
    fn get(&self, _: bool, name: &str) -> Result<Expr> {
        Err(SqlError::unknown_variable(name))
    }
}

/// Replaces expressions by generated columns in the conditions of a FROM clause and in sort keys and
/// groups.
pub(super) fn use_generated_columns<'e>(
    from: &mut From,
    keys: impl Iterator<Item = &'e mut Expr>,
    statistics: &dyn StatisticsSource,
) {
    let candidates = candidates(&from.scope.sources);
    if candidates.is_empty() {
        return;
    }
    let inner = tables_of(&from.block);
    keys.for_each(|key| replace(key, &candidates, inner, statistics));
    replace_in_block(&mut from.block, &candidates, statistics);
}

/// The same for the conditions and sort keys of a statement on one table.
pub(super) fn use_generated_columns_of(
    source: &Source,
    conditions: &mut [Expr],
    keys: &mut [OrderKey],
    statistics: &dyn StatisticsSource,
) {
    let candidates = candidates(std::slice::from_ref(source));
    let keys = keys.iter_mut().map(|key| &mut key.expr);
    for e in conditions.iter_mut().chain(keys) {
        replace(e, &candidates, 1, statistics);
    }
}

fn replace_in_block(
    block: &mut Block,
    candidates: &[Candidate],
    statistics: &dyn StatisticsSource,
) {
    let tables = tables_of(block);
    for condition in &mut block.conditions {
        replace(condition, candidates, tables, statistics);
    }
    for outer in &mut block.outers {
        let tables = tables_of(&outer.block);
        for condition in &mut outer.on {
            replace(condition, candidates, tables, statistics);
        }
        replace_in_block(&mut outer.block, candidates, statistics);
    }
}

/// The slots of a block's inner-joined tables, as a bit set.
fn tables_of(block: &Block) -> u64 {
    let tables = block.tables.iter();
    tables.fold(0, |all, slot| all | 1u64 << (slot & 63))
}

/// The indexed generated columns of stored tables.
fn candidates(sources: &[Source]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (slot, source) in sources.iter().enumerate() {
        let Some(table) = source.table() else {
            continue;
        };
        for column in indexed_generated_columns(table) {
            found.extend(candidate(table, slot, column));
        }
    }
    found
}

/// Positions of the generated columns that are parts of usable indexes.
fn indexed_generated_columns(table: &Table) -> impl Iterator<Item = usize> {
    let usable = |i: &&porpoise_rows::catalog::Index| i.state == IndexState::Public && !i.invisible;
    let indexes = table.indexes.iter().filter(usable);
    let parts = indexes.flat_map(|i| i.parts.iter()).map(|p| p.column);
    let generated = |at: &usize| {
        let column = table.columns.get(*at);
        column.is_some_and(|c| c.generated.is_some())
    };
    let mut positions: Vec<usize> = parts.filter(generated).collect();
    positions.sort_unstable();
    positions.dedup();
    positions.into_iter()
}

fn candidate(table: &Arc<Table>, slot: usize, position: usize) -> Option<Candidate> {
    let column = table.columns.get(position)?;
    let text = &column.generated.as_ref()?.expression.text;
    let arena = Bump::new();
    let clause = if column.is_hidden() {
        MULTI_VALUED_CLAUSE
    } else {
        "generated column function"
    };
    let bound = table_expression(&arena, table, text, clause, &NoVariables);
    let (_, mut expr) = bound.ok()?;
    let mut zoned = false;
    expr.rewrite(&mut |e| {
        if let ExprKind::Column { slot: at, load, .. } = &mut e.kind {
            *at = slot;
            zoned |= *load == Load::Timestamp;
        }
    });
    if zoned || !expr.is_fixed() || matches!(expr.kind, ExprKind::Column { .. }) {
        return None;
    }
    let mut patterns = Vec::new();
    if column.is_hidden() {
        patterns.extend(text_below_casts(&expr, &column.ty));
    }
    let array = column.is_array();
    match expr.kind {
        ExprKind::CastArray(of) => patterns.push(*of),
        _ if holds_values_of(&column.ty, &expr.ty) && !divides(&expr) => patterns.push(expr),
        _ => {}
    }
    let coercibility = patterns.first()?.coercibility;
    let column = Expr {
        kind: ExprKind::Column {
            slot,
            column: position,
            load: load_of(&column.ty),
        },
        ty: column.ty.clone(),
        nullable: column.nullable,
        coercibility,
    };
    Some(Candidate {
        slot,
        column,
        patterns,
        array,
    })
}

/// The text of which a key part is `CAST(text AS CHAR(n)) COLLATE c`, if its own collation is `c`: a
/// text that the cast would cut cannot be stored (3907).
fn text_below_casts(e: &Expr, ty: &ColumnType) -> Option<Expr> {
    let mut inner = e;
    while let ExprKind::Cast(arg) = &inner.kind {
        inner = arg;
    }
    let cast = !std::ptr::eq(inner, e);
    let same = is_text(&e.ty) && is_text(&inner.ty) && inner.ty.collation == ty.collation;
    let plain = matches!(inner.kind, ExprKind::Column { .. });
    (cast && same && !plain).then(|| inner.clone())
}

/// Whether an exact value has more digits than its type: a quotient, which a column rounds.
fn divides(e: &Expr) -> bool {
    let mut found = false;
    e.walk(&mut |e| found |= matches!(e.kind, ExprKind::Arith(ArithOp::Div, _)));
    found && e.ty.kind == Kind::Decimal
}

/// Whether a column of this type has the values of an expression unchanged.
fn holds_values_of(column: &ColumnType, expr: &ColumnType) -> bool {
    let same_kind = column.kind == expr.kind;
    match column.kind {
        _ if column.is_integer() => expr.is_integer(),
        Kind::Decimal => same_kind && column.decimals == expr.decimals,
        // DOUBLE(m, d) rounds.
        Kind::Double if column.decimals == ColumnType::double().decimals => {
            matches!(expr.kind, Kind::Double | Kind::Float)
        }
        Kind::Date => same_kind,
        Kind::DateTime | Kind::Time => same_kind && column.decimals == expr.decimals,
        Kind::VarChar => is_text(expr) && column.collation == expr.collation,
        Kind::VarBinary => expr.kind == Kind::VarBinary && !expr.unsigned,
        _ => false,
    }
}

/// Replaces the expression, or parts of it, by generated columns of these slots.
fn replace(e: &mut Expr, candidates: &[Candidate], slots: u64, statistics: &dyn StatisticsSource) {
    if matches!(e.kind, ExprKind::ArrayTest(_)) {
        // Done before.
        return;
    }
    let here = candidates.iter();
    for candidate in here.filter(|c| slots & 1 << (c.slot & 63) != 0) {
        if candidate.array {
            use_array(e, candidate, statistics);
            continue;
        }
        for pattern in &candidate.patterns {
            match e.form(pattern) {
                Form::Equal => {
                    let coercibility = e.coercibility;
                    e.clone_from(&candidate.column);
                    e.coercibility = coercibility;
                    return;
                }
                Form::DependsOnParameters => statistics.depends_on_literals(),
                Form::Different => {}
            }
        }
    }
    replace_below(e, candidates, slots, statistics);
}

/// Replaces in the operands, those of a test that was given look-ups.
fn replace_below(
    e: &mut Expr,
    candidates: &[Candidate],
    slots: u64,
    statistics: &dyn StatisticsSource,
) {
    match &mut e.kind {
        ExprKind::ArrayTest(test) => {
            replace_below(&mut test.condition, candidates, slots, statistics);
        }
        _ => e.each_child_mut(&mut |child| replace(child, candidates, slots, statistics)),
    }
}

/// Whether elements of the index can equal the operand, judged by its type. Texts and numbers
/// are never equal in JSON.
fn suits(kind: ArrayTestKind, operand: &Expr, element: &ColumnType) -> bool {
    let number = operand.ty.is_numeric();
    match kind {
        ArrayTestKind::Member if element.is_string() => !number,
        ArrayTestKind::Member => !(is_text(&operand.ty) && element.is_numeric()),
        ArrayTestKind::Contains | ArrayTestKind::Overlaps => true,
    }
}

/// Adds to a test of the candidate's array the look-up in its index.
fn use_array(e: &mut Expr, candidate: &Candidate, statistics: &dyn StatisticsSource) {
    if let ExprKind::ArrayTest(test) = &mut e.kind {
        // The same array is in another index.
        return use_array(&mut test.condition, candidate, statistics);
    }
    let ExprKind::Call(function, args) = &e.kind else {
        return;
    };
    let (kind, places): (_, &[(usize, usize)]) = match (function.name, args.len()) {
        ("MEMBER OF", 2) => (ArrayTestKind::Member, &[(1, 0)]),
        ("JSON_CONTAINS", 2) => (ArrayTestKind::Contains, &[(0, 1)]),
        ("JSON_OVERLAPS", 2) => (ArrayTestKind::Overlaps, &[(0, 1), (1, 0)]),
        _ => return,
    };
    for (array, operand) in places {
        let (Some(array), Some(operand)) = (args.get(*array), args.get(*operand)) else {
            continue;
        };
        let mut patterns = candidate.patterns.iter();
        match patterns.next().map(|pattern| array.form(pattern)) {
            Some(Form::Equal) if suits(kind, operand, &candidate.column.ty) => {
                let keys = Expr {
                    kind: ExprKind::ArrayKeys(kind, Box::new(operand.clone())),
                    ty: candidate.column.ty.clone(),
                    nullable: true,
                    coercibility: candidate.column.coercibility,
                };
                let (ty, nullable, coercibility) = (e.ty.clone(), e.nullable, e.coercibility);
                let test = ArrayTest {
                    condition: e.clone(),
                    column: candidate.column.clone(),
                    keys,
                };
                *e = Expr {
                    kind: ExprKind::ArrayTest(Box::new(test)),
                    ty,
                    nullable,
                    coercibility,
                };
                return;
            }
            Some(Form::DependsOnParameters) => statistics.depends_on_literals(),
            _ => {}
        }
    }
}
