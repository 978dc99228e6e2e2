//! Sargable predicates: what conditions imply for the columns of a table: equal to one of some
//! values, NULL, within bounds, or among the rows of a subquery.
//!
//! Only comparisons of a bare column with a value known before the table is read count, and only if
//! the column's indexes are ordered as the comparison compares.

use crate::expr::query::{QueryTest, TestKind};
use crate::expr::{ArrayTest, CmpOp, Expr, ExprKind, Truth};
use porpoise_base::interrupt;
use porpoise_rows::catalog::Table;
use porpoise_types::{CompareAs, Kind};

/// The sargable predicates on one column.
#[derive(Default)]
pub(super) struct Sargable<'e> {
    /// Values that the column equals one of (one for `=`, several for IN).
    pub(super) equal: Option<Vec<&'e Expr>>,
    /// Whether the column may also be NULL.
    pub(super) allows_null: bool,
    /// Whether one of `equal` may equal several values of the column.
    pub(super) inexact: bool,
    /// The condition behind `equal`, if it compares integers: a whole key then implies it.
    pub(super) equal_condition: Option<&'e Expr>,
    /// The condition that the column is among the rows of a subquery.
    pub(super) set: Option<&'e Expr>,
    pub(super) low: Option<(&'e Expr, bool)>,
    pub(super) high: Option<(&'e Expr, bool)>,
    /// LIKE: the pattern and its escape character.
    pub(super) like: Option<(&'e Expr, Option<u8>)>,
    /// NOT IN: values that the column does not have.
    pub(super) except: Vec<&'e Expr>,
}

impl<'e> Sargable<'e> {
    /// The values that the column equals one of, if none of them is NULL.
    pub(super) fn values(&self) -> Option<&Vec<&'e Expr>> {
        self.equal.as_ref().filter(|_| !self.allows_null)
    }
}

/// The sargable predicates on each column of the table in `slot`, given the slots that are already
/// joined.
pub(super) fn sargable_predicates<'e>(
    table: &Table,
    slot: usize,
    conditions: &[&'e Expr],
    joined: u64,
) -> Vec<Sargable<'e>> {
    let mut predicates: Vec<Sargable<'_>> = (0..table.columns.len())
        .map(|_| Sargable::default())
        .collect();
    for condition in conditions {
        analyze(condition, slot, joined, &mut predicates);
    }
    keep_one_inexact(&mut predicates);
    predicates
}

/// Leaves at most one column whose values are compared as doubles. Each value may equal about a
/// thousand integers, and several such columns would multiply the number of keys.
fn keep_one_inexact(predicates: &mut [Sargable<'_>]) {
    let inexact = predicates.iter_mut().filter(|p| p.inexact);
    for predicate in inexact.skip(1) {
        predicate.equal = None;
        predicate.equal_condition = None;
    }
}

/// Whether a value may equal several integers of the column: both are compared as doubles.
fn is_inexact(column: &Expr, how: CompareAs) -> bool {
    how == CompareAs::Double && column.ty.kind == Kind::BigInt
}

/// An operand of an OR.
#[derive(Clone, Copy)]
pub(super) enum Disjunct<'e> {
    /// A condition.
    Condition(&'e Expr),
    /// A comparison of two expressions.
    Comparison(CmpOp, CompareAs, &'e Expr, &'e Expr),
}

/// The disjuncts of a condition; fewer than two if it is not a disjunction. `<>` is split into less
/// and greater, and NOT BETWEEN likewise.
pub(super) fn disjuncts(condition: &Expr) -> Vec<Disjunct<'_>> {
    match &condition.kind {
        ExprKind::Or(of) => {
            let mut all = Vec::with_capacity(of.len());
            for arm in of {
                match &arm.kind {
                    ExprKind::Or(_) => all.extend(disjuncts(arm)),
                    _ => all.push(Disjunct::Condition(arm)),
                }
            }
            all
        }
        ExprKind::Compare(CmpOp::Ne, how, args) => {
            let [a, b] = args.as_ref();
            let side = |op| Disjunct::Comparison(op, *how, a, b);
            vec![side(CmpOp::Lt), side(CmpOp::Gt)]
        }
        ExprKind::Between {
            args,
            how: [how_low, how_high],
            negated: true,
        } => {
            let [arg, low, high] = args.as_ref();
            vec![
                Disjunct::Comparison(CmpOp::Lt, *how_low, arg, low),
                Disjunct::Comparison(CmpOp::Gt, *how_high, arg, high),
            ]
        }
        _ => Vec::new(),
    }
}

/// The predicates that hold if this disjunct is true, combined with those of all conditions. The
/// disjunct's own predicates take precedence, except over an equality with one value.
pub(super) fn sargable_in<'e>(
    arm: Disjunct<'e>,
    slot: usize,
    together: &[Sargable<'e>],
    joined: u64,
) -> Vec<Sargable<'e>> {
    let mut predicates: Vec<Sargable<'_>> = together.iter().map(|_| Sargable::default()).collect();
    match arm {
        Disjunct::Condition(condition) => analyze(condition, slot, joined, &mut predicates),
        Disjunct::Comparison(op, how, a, b) => {
            add_comparison(op, how, a, b, slot, joined, &mut predicates);
            add_comparison(flipped(op), how, b, a, slot, joined, &mut predicates);
        }
    }
    for (own, all) in predicates.iter_mut().zip(together) {
        let single = all.values().is_some_and(|values| values.len() == 1);
        if single || own.equal.is_none() {
            own.equal.clone_from(&all.equal);
            own.allows_null = all.allows_null;
            own.inexact = all.inexact;
        }
        own.low = own.low.or(all.low);
        own.high = own.high.or(all.high);
        own.like = own.like.or(all.like);
    }
    keep_one_inexact(&mut predicates);
    predicates
}

/// Adds what `condition` implies for columns of `slot`.
fn analyze<'e>(condition: &'e Expr, slot: usize, joined: u64, predicates: &mut [Sargable<'e>]) {
    match &condition.kind {
        ExprKind::Compare(op, how, args) => {
            let [a, b] = args.as_ref();
            add_comparison(*op, *how, a, b, slot, joined, predicates);
            add_comparison(flipped(*op), *how, b, a, slot, joined, predicates);
            if *op == CmpOp::Eq && *how == CompareAs::Int {
                add_exact(condition, args, slot, predicates);
            }
        }
        ExprKind::Between {
            args,
            how,
            negated: false,
        } => {
            let [arg, low, high] = args.as_ref();
            let [how_low, how_high] = *how;
            add_comparison(CmpOp::Ge, how_low, arg, low, slot, joined, predicates);
            add_comparison(CmpOp::Le, how_high, arg, high, slot, joined, predicates);
        }
        ExprKind::In { arg, list, negated } => {
            let all = |(how, item): &(CompareAs, Expr)| {
                is_known(item, joined) && can_use_index(arg, *how, item)
            };
            match (list.iter().all(all), negated) {
                (true, false) => add_list(condition, arg, list, slot, predicates),
                (true, true) => add_excluded(arg, list, slot, predicates),
                (false, _) => {}
            }
        }
        ExprKind::Is {
            arg,
            truth: Truth::Null,
            negated: false,
        } => {
            let predicate = bare_column(arg, slot).and_then(|column| predicates.get_mut(column));
            if let Some(predicate) = predicate.filter(|f| f.equal.is_none()) {
                predicate.equal = Some(Vec::new());
                predicate.allows_null = true;
            }
        }
        ExprKind::Like {
            args,
            escape,
            collation,
            negated: false,
        } => {
            let [arg, pattern] = args.as_ref();
            let orders = !matches!(arg.ty.kind, Kind::Enum | Kind::Set | Kind::Json);
            let same = arg.ty.is_string() && orders && arg.ty.collation == *collation;
            let at = bare_column(arg, slot).filter(|_| same && is_known(pattern, joined));
            if let Some(predicate) = at.and_then(|at| predicates.get_mut(at)) {
                predicate.like = Some((pattern, *escape));
            }
        }
        ExprKind::ArrayTest(test) => add_array(test, slot, joined, predicates),
        ExprKind::And(args) => {
            for arg in args {
                analyze(arg, slot, joined, predicates);
            }
        }
        ExprKind::Or(arms) => add_disjunction(arms, slot, joined, predicates),
        ExprKind::Query(test) if test.kind == TestKind::Any(CmpOp::Eq) => {
            add_subquery(condition, test, slot, predicates);
        }
        _ => {}
    }
}

/// Adds that an array has one of some elements.
fn add_array<'e>(test: &'e ArrayTest, slot: usize, joined: u64, predicates: &mut [Sargable<'e>]) {
    let at = bare_column(&test.column, slot).filter(|_| is_known(&test.keys, joined));
    let predicate = at.and_then(|at| predicates.get_mut(at));
    if let Some(predicate) = predicate.filter(|p| p.equal.is_none()) {
        predicate.equal = Some(vec![&test.keys]);
    }
    // The array may be in several indexes.
    analyze(&test.condition, slot, joined, predicates);
}

/// Adds that a column's value is none of a list.
fn add_excluded<'e>(
    column: &'e Expr,
    list: &'e [(CompareAs, Expr)],
    slot: usize,
    predicates: &mut [Sargable<'e>],
) {
    let predicate = bare_column(column, slot).and_then(|at| predicates.get_mut(at));
    let exact = list.iter().all(|(_, item)| has_exact_keys(column, item));
    if let Some(predicate) = predicate.filter(|_| exact) {
        predicate.except.extend(list.iter().map(|(_, item)| item));
    }
}

/// Whether a row whose key is that of the value equals the value, as NOT IN requires: rows that it
/// excludes are not read. For a lookup the reverse is enough, because conditions are checked on the
/// rows found.
fn has_exact_keys(column: &Expr, value: &Expr) -> bool {
    let (ty, other) = (&column.ty, &value.ty);
    let text = ty.is_string() && ty.collation.charset() == other.collation.charset();
    ty.is_integer() || text
}

/// Adds that a column's value is one of a list.
fn add_list<'e>(
    condition: &'e Expr,
    column: &'e Expr,
    list: &'e [(CompareAs, Expr)],
    slot: usize,
    predicates: &mut [Sargable<'e>],
) {
    let predicate = bare_column(column, slot).and_then(|at| predicates.get_mut(at));
    if let Some(predicate) = predicate.filter(|p| p.equal.is_none()) {
        predicate.equal = Some(list.iter().map(|(_, item)| item).collect());
        predicate.inexact = list.iter().any(|(how, _)| is_inexact(column, *how));
        let integers = list.iter().all(|(how, _)| *how == CompareAs::Int);
        predicate.equal_condition = (integers && column.ty.is_integer()).then_some(condition);
    }
}

/// Adds that a column's value is among the rows of an uncorrelated subquery.
fn add_subquery<'e>(
    condition: &'e Expr,
    test: &'e QueryTest,
    slot: usize,
    predicates: &mut [Sargable<'e>],
) {
    let ([column], [how], [item]) = (
        test.left.as_slice(),
        test.compare_as.as_slice(),
        test.query.items(),
    ) else {
        return;
    };
    let depends = test.query.free.iter().any(|f| f.level == 1);
    if let Some(at) = bare_column(column, slot)
        && !depends
        && test.query.is_deterministic
        && can_use_index(column, *how, item)
        && let Some(predicate) = predicates.get_mut(at)
    {
        predicate.set = Some(condition);
    }
}

/// Adds the integer equality that determines a column.
fn add_exact<'e>(
    condition: &'e Expr,
    args: &'e [Expr; 2],
    slot: usize,
    predicates: &mut [Sargable<'e>],
) {
    let [a, b] = args;
    for (column, value) in [(a, b), (b, a)] {
        let at = bare_column(column, slot).filter(|_| column.ty.is_integer());
        let predicate = at.and_then(|at| predicates.get_mut(at));
        let newest = |f: &&mut Sargable<'_>| {
            let equal = f.equal.as_deref();
            matches!(equal, Some([v]) if std::ptr::eq(*v, value))
        };
        if let Some(predicate) = predicate.filter(newest) {
            predicate.equal_condition = Some(condition);
        }
    }
}

/// A disjunction of equalities on one column is an IN list.
fn add_disjunction<'e>(
    arms: &'e [Expr],
    slot: usize,
    joined: u64,
    predicates: &mut [Sargable<'e>],
) {
    let mut together: Option<usize> = None;
    let (mut values, mut null, mut inexact) = (Vec::new(), false, false);
    for arm in arms {
        if interrupt::leaves() {
            return;
        }
        let mut own: Vec<Sargable<'e>> =
            (0..predicates.len()).map(|_| Sargable::default()).collect();
        analyze(arm, slot, joined, &mut own);
        // A disjunct with equalities on two columns counts for the first.
        let mut columns = own.into_iter().enumerate();
        let Some((at, predicate)) = columns.find(|(_, predicate)| predicate.equal.is_some()) else {
            return;
        };
        if *together.get_or_insert(at) != at {
            return;
        }
        values.extend(predicate.equal.into_iter().flatten());
        null |= predicate.allows_null;
        inexact |= predicate.inexact;
    }
    let predicate = together.and_then(|at| predicates.get_mut(at));
    if let Some(predicate) = predicate.filter(|f| f.equal.is_none()) {
        predicate.equal = Some(values);
        predicate.allows_null = null;
        predicate.inexact = inexact;
    }
}

/// The operator with its operands exchanged.
pub(super) fn flipped(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
        same => same,
    }
}

pub(super) fn bare_column(e: &Expr, slot: usize) -> Option<usize> {
    match &e.kind {
        ExprKind::Column {
            slot: s, column, ..
        } if *s == slot => Some(*column),
        _ => None,
    }
}

/// Whether the value is known before a row of the table is read.
fn is_known(e: &Expr, joined: u64) -> bool {
    e.is_fixed() && !e.has_aggregate() && e.slots() & !joined == 0
}

/// Whether a comparison of the column with this value can use an index: the index order must be
/// that of the comparison.
pub(super) fn can_use_index(column: &Expr, how: CompareAs, value: &Expr) -> bool {
    let ty = &column.ty;
    match how {
        CompareAs::Int => ty.is_integer() || matches!(ty.kind, Kind::Year),
        CompareAs::Decimal | CompareAs::Number | CompareAs::Double => {
            // The value is converted to the column's type if that is exact; an integer column has
            // several keys for a double beyond 2^53.
            ty.is_integer() || matches!(ty.kind, Kind::Decimal | Kind::Double)
        }
        // The FLOAT and the DOUBLE that are nearest to one number of fixed digits differ.
        CompareAs::FixedDouble(_) => ty.kind == Kind::Double && value.ty.kind != Kind::Float,
        CompareAs::Bytes(collation) => {
            matches!(ty.kind, Kind::Enum) || (ty.collation == collation && !ty.is_numeric())
        }
        CompareAs::DateTime | CompareAs::Date => {
            matches!(ty.kind, Kind::Date | Kind::DateTime | Kind::Timestamp) && value.slots() == 0
        }
        CompareAs::Time => ty.kind == Kind::Time && value.slots() == 0,
        CompareAs::Json => false,
    }
}

fn add_comparison<'e>(
    op: CmpOp,
    how: CompareAs,
    column: &'e Expr,
    value: &'e Expr,
    slot: usize,
    joined: u64,
    predicates: &mut [Sargable<'e>],
) {
    let Some(at) = bare_column(column, slot) else {
        return;
    };
    let usable = is_known(value, joined) && can_use_index(column, how, value);
    let ordered = column.ty.kind != Kind::Enum && column.ty.kind != Kind::Set;
    let Some(predicate) = predicates.get_mut(at).filter(|_| usable) else {
        return;
    };
    match op {
        CmpOp::Eq => {
            predicate.equal = Some(vec![value]);
            predicate.inexact = is_inexact(column, how);
            predicate.allows_null = false;
            predicate.equal_condition = None;
        }
        CmpOp::Lt | CmpOp::Le if ordered && predicate.high.is_none() => {
            predicate.high = Some((value, op == CmpOp::Le));
        }
        CmpOp::Gt | CmpOp::Ge if ordered && predicate.low.is_none() => {
            predicate.low = Some((value, op == CmpOp::Ge));
        }
        _ => {}
    }
}
