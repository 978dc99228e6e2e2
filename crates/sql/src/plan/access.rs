//! Choosing the access path of one table.
//!
//! Candidates come from the conditions that compare a bare column of the
//! table with something known before it is read. For each index the leading
//! parts with an equality are counted, then a range on the next part; the
//! best index wins. An order asked for breaks ties and may turn a full scan
//! into one of an index.

use super::{Access, Bound, OrderKey};
use crate::expr::query::TestKind;
use crate::expr::{CmpOp, Expr, ExprKind};
use porpoise_rows::catalog::{IndexKind, IndexPart, IndexState, Table};
use porpoise_types::{Collation, CompareAs, Kind};

/// Keys that one look-up may have at most; longer IN lists are scanned.
const MAX_KEYS: usize = 10_000;

/// What the conditions say about one column.
#[derive(Default)]
pub(super) struct Facts<'e> {
    /// Equal to one of these (one for `=`, several for IN).
    pub(super) equal: Option<Vec<&'e Expr>>,
    /// One of what a subquery yields.
    set: Option<&'e Expr>,
    pub(super) low: Option<(&'e Expr, bool)>,
    pub(super) high: Option<(&'e Expr, bool)>,
}

/// What the conditions say about each column of the table in `slot`, given
/// the slots that are already joined.
pub(super) fn facts<'e>(
    table: &Table,
    slot: usize,
    conditions: &[&'e Expr],
    joined: u64,
) -> Vec<Facts<'e>> {
    let mut facts: Vec<Facts<'_>> = (0..table.columns.len()).map(|_| Facts::default()).collect();
    for condition in conditions {
        learn(condition, slot, joined, &mut facts);
    }
    facts
}

/// Chooses how to find the rows of the table in `slot`, given the conditions
/// and the set of slots that are already joined. Returns the path and whether
/// it yields the wanted order.
pub fn choose(
    table: &Table,
    slot: usize,
    conditions: &[&Expr],
    joined: u64,
    order: &[OrderKey],
    limited: bool,
) -> (Access, bool) {
    let facts = facts(table, slot, conditions, joined);
    let mut best: Option<(u64, Access, bool)> = None;
    for position in 0..table.indexes.len() {
        if let Some((score, access, ordered)) = candidate(table, slot, position, &facts, order)
            && best.as_ref().is_none_or(|(s, _, _)| score > *s)
        {
            best = Some((score, access, ordered));
        }
    }
    match best {
        Some((_, access, ordered)) => (access, ordered),
        None => full(table, slot, order, limited),
    }
}

/// All rows, in an order that is asked for where an index has it.
fn full(table: &Table, slot: usize, order: &[OrderKey], limited: bool) -> (Access, bool) {
    if !order.is_empty() {
        for (index, definition) in table.indexes.iter().enumerate() {
            if index != 0 && (!limited || definition.state != IndexState::Public) {
                continue;
            }
            if let Some(reverse) = gives_order(table, slot, index, 0, order) {
                return (Access::Full { index, reverse }, true);
            }
        }
    }
    let access = Access::Full {
        index: 0,
        reverse: false,
    };
    (access, order.is_empty())
}

/// Whether index entries after `skip` equal parts come in the wanted order;
/// `Some(true)` when backwards.
fn gives_order(
    table: &Table,
    slot: usize,
    index: usize,
    skip: usize,
    order: &[OrderKey],
) -> Option<bool> {
    let index = table.indexes.get(index)?;
    if index.using_hash || order.len() + skip > index.parts.len() {
        return None;
    }
    let mut direction = None;
    for (key, part) in order.iter().zip(index.parts.iter().skip(skip)) {
        let ExprKind::Column {
            slot: s, column, ..
        } = &key.expr.kind
        else {
            return None;
        };
        // ENUM and SET sort by number in the index as in ORDER BY.
        if *s != slot || *column != part.column || part.prefix.is_some() {
            return None;
        }
        let reverse = key.desc != part.desc;
        if *direction.get_or_insert(reverse) != reverse {
            return None;
        }
    }
    direction
}

/// Whether the entries with a value's part are all that an equal value can
/// have. A prefix of so many characters is the same for equal texts, unless the
/// collation takes one character for several.
fn finds_equal(table: &Table, part: &IndexPart) -> bool {
    let ty = table.columns.get(part.column).map(|c| &c.ty);
    part.prefix.is_none() || ty.is_some_and(|ty| ty.collation != Collation::UTF8MB4_0900_AI_CI)
}

fn candidate(
    table: &Table,
    slot: usize,
    position: usize,
    facts: &[Facts<'_>],
    order: &[OrderKey],
) -> Option<(u64, Access, bool)> {
    let index = table.indexes.get(position)?;
    if index.state != IndexState::Public || index.invisible || index.parts.is_empty() {
        return None;
    }
    let mut keys: Vec<Vec<Expr>> = vec![Vec::new()];
    let mut equal = 0;
    for part in &index.parts {
        let fact = facts.get(part.column)?;
        let Some(values) = fact.equal.as_ref().filter(|_| finds_equal(table, part)) else {
            break;
        };
        if keys.len() * values.len() > MAX_KEYS {
            break;
        }
        keys = keys
            .into_iter()
            .flat_map(|key| {
                values.iter().map(move |value| {
                    let mut key = key.clone();
                    key.push((*value).clone());
                    key
                })
            })
            .collect();
        equal += 1;
    }
    let whole = equal == index.parts.len() && index.kind != IndexKind::Plain;
    if whole {
        let ordered = order.is_empty() || keys.len() == 1;
        let score = 1_000_000 - keys.len() as u64 + u64::from(position == 0);
        let access = Access::Lookup {
            index: position,
            keys,
            whole,
            reverse: false,
        };
        return Some((score, access, ordered));
    }
    if index.using_hash {
        return None;
    }
    let next = index.parts.get(equal);
    let range = next
        .filter(|p| p.prefix.is_none())
        .and_then(|p| facts.get(p.column));
    let bounded = range.filter(|f| (f.low.is_some() || f.high.is_some()) && keys.len() == 1);
    if let (Some(fact), Some(part)) = (bounded, next) {
        let single = keys.into_iter().next().unwrap_or_default();
        let order_here = gives_order(table, slot, position, equal, order);
        let bound = |b: &Option<(&Expr, bool)>| {
            b.map(|(value, inclusive)| Bound {
                value: value.clone(),
                inclusive,
            })
        };
        let (low, high) = match part.desc {
            false => (bound(&fact.low), bound(&fact.high)),
            true => (bound(&fact.high), bound(&fact.low)),
        };
        let both = u64::from(low.is_some() && high.is_some());
        let score = 1000 * equal as u64 + 300 + 100 * both + u64::from(position == 0);
        let access = Access::Range {
            index: position,
            equal: single,
            low,
            high,
            reverse: order_here == Some(true),
        };
        return Some((score, access, order.is_empty() || order_here.is_some()));
    }
    if equal == 0 {
        let first = index.parts.first().filter(|p| p.prefix.is_none())?;
        let test = facts.get(first.column)?.set?;
        let access = Access::Set {
            index: position,
            test: Box::new(test.clone()),
        };
        return Some((250 + u64::from(position == 0), access, order.is_empty()));
    }
    let one = keys.len() == 1;
    let order_here = gives_order(table, slot, position, equal, order).filter(|_| one);
    let score = 1000 * equal as u64 + 500 + u64::from(order_here.is_some());
    let access = Access::Lookup {
        index: position,
        keys,
        whole: false,
        reverse: order_here == Some(true),
    };
    Some((score, access, order.is_empty() || order_here.is_some()))
}

/// Notes what `condition` says about columns of `slot`.
fn learn<'e>(condition: &'e Expr, slot: usize, joined: u64, facts: &mut [Facts<'e>]) {
    match &condition.kind {
        ExprKind::Compare(op, how, args) => {
            let [a, b] = args.as_ref();
            note(*op, *how, a, b, slot, joined, facts);
            note(flipped(*op), *how, b, a, slot, joined, facts);
        }
        ExprKind::Between {
            args,
            how,
            negated: false,
        } => {
            let [arg, low, high] = args.as_ref();
            let [how_low, how_high] = *how;
            note(CmpOp::Ge, how_low, arg, low, slot, joined, facts);
            note(CmpOp::Le, how_high, arg, high, slot, joined, facts);
        }
        ExprKind::In {
            arg,
            list,
            negated: false,
        } => {
            let Some(column) = bare_column(arg, slot) else {
                return;
            };
            let all = list
                .iter()
                .all(|(how, item)| known(item, joined) && fits(arg, *how, item));
            if let Some(fact) = facts.get_mut(column).filter(|f| all && f.equal.is_none()) {
                fact.equal = Some(list.iter().map(|(_, item)| item).collect());
            }
        }
        ExprKind::Query(test) if test.kind == TestKind::Any(CmpOp::Eq) => {
            let ([column], [how], [item]) = (
                test.left.as_slice(),
                test.how.as_slice(),
                test.query.plan.items.as_slice(),
            ) else {
                return;
            };
            let depends = test.query.free.iter().any(|f| f.level == 1);
            if let Some(at) = bare_column(column, slot)
                && !depends
                && test.query.fixed
                && fits(column, *how, item)
                && let Some(fact) = facts.get_mut(at)
            {
                fact.set = Some(condition);
            }
        }
        _ => {}
    }
}

fn flipped(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
        same => same,
    }
}

fn bare_column(e: &Expr, slot: usize) -> Option<usize> {
    match &e.kind {
        ExprKind::Column {
            slot: s, column, ..
        } if *s == slot => Some(*column),
        _ => None,
    }
}

/// Whether the value is known before a row of the table is read.
fn known(e: &Expr, joined: u64) -> bool {
    e.is_fixed() && !e.has_aggregate() && e.slots() & !joined == 0
}

/// Whether comparing the column with this value can go through its index:
/// the index orders in the way the comparison does.
fn fits(column: &Expr, how: CompareAs, value: &Expr) -> bool {
    let ty = &column.ty;
    match how {
        CompareAs::Int => ty.is_integer() || matches!(ty.kind, Kind::Year),
        CompareAs::Decimal | CompareAs::Double => {
            // A number compared with a text constant compares as doubles; the
            // constant is turned into the column's type when it is exact.
            ty.is_integer() || matches!(ty.kind, Kind::Decimal | Kind::Double)
        }
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

fn note<'e>(
    op: CmpOp,
    how: CompareAs,
    column: &'e Expr,
    value: &'e Expr,
    slot: usize,
    joined: u64,
    facts: &mut [Facts<'e>],
) {
    let Some(at) = bare_column(column, slot) else {
        return;
    };
    let usable = known(value, joined) && fits(column, how, value);
    let ordered = column.ty.kind != Kind::Enum && column.ty.kind != Kind::Set;
    let Some(fact) = facts.get_mut(at).filter(|_| usable) else {
        return;
    };
    match op {
        CmpOp::Eq => fact.equal = Some(vec![value]),
        CmpOp::Lt | CmpOp::Le if ordered && fact.high.is_none() => {
            fact.high = Some((value, op == CmpOp::Le));
        }
        CmpOp::Gt | CmpOp::Ge if ordered && fact.low.is_none() => {
            fact.low = Some((value, op == CmpOp::Ge));
        }
        _ => {}
    }
}
