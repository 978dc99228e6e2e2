//! Equal columns: `a.x = b.y AND b.y = c.z` implies `a.x = c.z`.
//!
//! Columns of inner-joined tables that equal each other form a *class*. A table can be joined by
//! any other member of the class, so that the join order is free and an index is usable in more
//! orders.
//!
//! The rule finds the classes and creates the equalities that the query does not state. When a
//! table is joined, [`BlockConditions::on_table`] selects one equality for each of its columns in
//! a class, with a table joined before. The others follow from it: they are neither counted in
//! estimates nor evaluated.
//!
//! ```text
//! a.x = b.y AND b.y = c.z    class {a.x, b.y, c.z}, implied: a.x = c.z
//! order a, c, b              c by a.x = c.z, b by a.x = b.y; b.y = c.z follows
//! ```
//!
//! Invariants:
//! 1. All comparisons of a class are made in the same way ([`CompareAs`]), stated or implied; see
//!    [`super::constants`] for why they are then transitive.
//! 2. A class has columns of the tables of one block. That of an outer join's right side may also
//!    have one column of a table outside: its ON may use the equality, and nothing outside changes
//!    by it. With two of them, the ON would have to compare these with each other.
//! 3. The selected equalities connect all members of a class that are joined so far.
//!
//! Rejected: classes in place of the stated equalities. Rules and EXPLAIN read conditions; classes
//! would be a second form that all of them have to know.

use super::constants::{equality, place};
use super::from::{Block, From};
use crate::bind::nodes::compare;
use crate::expr::{CmpOp, Expr};
use crate::statistics::StatisticsSource;
use porpoise_base::interrupt;
use porpoise_types::CompareAs;

/// A column: slot and position.
type Place = (usize, usize);

/// Maximum number of members of a class; their pairs are listed.
const MAX_MEMBERS: usize = 64;

/// Columns that equal each other.
#[derive(Clone, Debug)]
pub(super) struct EqualColumns {
    how: CompareAs,
    members: Vec<Place>,
    /// Equalities that the query does not state.
    implied: Vec<Expr>,
}

/// Rule: finds the classes of equal columns of each block.
pub(super) fn equal_columns(from: &mut From, _: &dyn StatisticsSource) {
    find_classes(&mut from.block, &[]);
}

fn find_classes(block: &mut Block, on: &[Expr]) {
    if interrupt::leaves() {
        return;
    }
    block.equal = classes_of(block, on);
    for outer in &mut block.outers {
        find_classes(&mut outer.block, &outer.on);
    }
}

/// An equality of two columns.
struct Equality<'e> {
    how: CompareAs,
    sides: [(Place, &'e Expr); 2],
}

impl<'e> Equality<'e> {
    fn of(condition: &'e Expr) -> Option<Equality<'e>> {
        let (how, [a, b]) = equality(condition)?;
        Some(Equality {
            how,
            sides: [(place(a)?, a), (place(b)?, b)],
        })
    }

    fn slots(&self) -> [u64; 2] {
        self.sides.map(|((slot, _), _)| bit(slot))
    }

    fn is_between(&self, a: Place, b: Place) -> bool {
        let [c, d] = self.sides.map(|(place, _)| place);
        (a, b) == (c, d) || (b, a) == (c, d)
    }
}

/// A class while it is collected.
struct Class<'e> {
    how: CompareAs,
    members: Vec<(Place, &'e Expr)>,
}

fn classes_of(block: &Block, on: &[Expr]) -> Vec<EqualColumns> {
    if block.tables.len() < 2 {
        return Vec::new();
    }
    let own = block.tables.iter().fold(0, |all, slot| all | bit(*slot));
    let optional = block.slots() & !own;
    let conditions = block.conditions.iter().chain(on);
    let mut equalities: Vec<Equality<'_>> = conditions.filter_map(Equality::of).collect();
    equalities.retain(|e| {
        let [a, b] = e.slots();
        (a | b) & own != 0 && (a | b) & optional == 0
    });
    let mut classes: Vec<Class<'_>> = Vec::new();
    for equality in &equalities {
        add(&mut classes, equality, own);
    }
    classes.retain(|class| (3..=MAX_MEMBERS).contains(&class.members.len()));
    let complete = classes.iter().map(|class| class.complete(&equalities));
    complete.flatten().collect()
}

/// Adds an equality to the classes, except where a class would get two members outside the block.
fn add<'e>(classes: &mut Vec<Class<'e>>, equality: &Equality<'e>, own: u64) {
    let [a, b] = equality.sides;
    if a.0.0 == b.0.0 {
        return;
    }
    let of = |place: Place| {
        let same = |class: &Class<'_>| class.how == equality.how && class.has(place);
        classes.iter().position(same)
    };
    let (first, second) = (of(a.0), of(b.0));
    let mut joined = Class {
        how: equality.how,
        members: Vec::new(),
    };
    if first.is_some() && first == second {
        return;
    }
    for (side, class) in [(a, first), (b, second)] {
        match class.and_then(|at| classes.get(at)) {
            Some(class) => joined.members.extend(&class.members),
            None => joined.members.push(side),
        }
    }
    let outside = joined.members.iter().filter(|m| bit(m.0.0) & own == 0);
    if outside.count() > 1 {
        return;
    }
    let mut at = 0;
    classes.retain(|_| {
        at += 1;
        first != Some(at - 1) && second != Some(at - 1)
    });
    classes.push(joined);
}

impl Class<'_> {
    fn has(&self, place: Place) -> bool {
        self.members.iter().any(|m| m.0 == place)
    }

    /// Creates the equalities that are not stated; `None` if one of them is compared in another
    /// way.
    fn complete(&self, stated: &[Equality<'_>]) -> Option<EqualColumns> {
        let mut implied = Vec::new();
        for (at, (second, b)) in self.members.iter().enumerate() {
            let before = self.members.get(..at)?;
            for (first, a) in before {
                let known = |e: &Equality<'_>| e.how == self.how && e.is_between(*first, *second);
                if stated.iter().any(known) {
                    continue;
                }
                let created = compare(CmpOp::Eq, (*a).clone(), (*b).clone()).ok()?;
                let alike = Equality::of(&created)?;
                if alike.how != self.how || !alike.is_between(*first, *second) {
                    return None;
                }
                implied.push(created);
            }
        }
        Some(EqualColumns {
            how: self.how,
            members: self.members.iter().map(|m| m.0).collect(),
            implied,
        })
    }
}

/// The conditions of a block, stated and implied.
#[derive(Debug, Default)]
pub(super) struct BlockConditions<'e> {
    pub(super) list: Vec<BlockCondition<'e>>,
    /// Slots of the members of each class.
    classes: Vec<u64>,
}

/// One of the conditions of a block.
#[derive(Debug)]
pub(super) struct BlockCondition<'e> {
    pub(super) expr: &'e Expr,
    /// The slots that it reads.
    pub(super) slots: u64,
    /// The class of which it is an equality.
    pub(super) member: Option<Membership>,
}

/// An equality of two members of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Membership {
    class: usize,
    places: [Place; 2],
}

/// When an equality of a class is selected for a table.
pub(super) enum Selection {
    /// If one of these slots is joined before, and no other equality of the column is selected.
    ByColumn {
        class: usize,
        column: usize,
        partner: u64,
    },
    /// If none of these slots is joined before: both columns belong to the table.
    Within { partners: u64 },
}

impl<'e> BlockConditions<'e> {
    /// The conditions of a block, and the ON for which it is the right side.
    pub(super) fn of(block: &'e Block, on: &'e [Expr]) -> BlockConditions<'e> {
        let mut all = BlockConditions::default();
        for class in &block.equal {
            let slots = class.members.iter().fold(0, |all, m| all | bit(m.0));
            all.classes.push(slots);
        }
        let stated = block.conditions.iter().chain(on);
        let implied = block.equal.iter().flat_map(|class| &class.implied);
        for expr in stated.chain(implied) {
            all.list.push(BlockCondition {
                expr,
                slots: expr.slots(),
                member: membership(expr, &block.equal),
            });
        }
        all
    }

    /// Conditions without classes.
    pub(super) fn plain(conditions: impl Iterator<Item = &'e Expr>) -> BlockConditions<'e> {
        let list = conditions.map(|expr| BlockCondition {
            expr,
            slots: expr.slots(),
            member: None,
        });
        BlockConditions {
            list: list.collect(),
            classes: Vec::new(),
        }
    }

    /// When an equality of a class is selected for one of its tables.
    pub(super) fn selection(&self, member: Membership, slot: usize) -> Selection {
        let [(first, a), (second, b)] = member.places;
        let class = member.class;
        if first == second {
            let slots = self.classes.get(class).copied().unwrap_or(0);
            return Selection::Within {
                partners: slots & !bit(slot),
            };
        }
        let (column, partner) = if first == slot {
            (a, bit(second))
        } else {
            (b, bit(first))
        };
        Selection::ByColumn {
            class,
            column,
            partner,
        }
    }

    /// The conditions that read a table, without those that follow from others when it is joined
    /// to the slots `joined`.
    pub(super) fn on_table(&self, slot: usize, joined: u64) -> Vec<&'e Expr> {
        let mut connected: Vec<(usize, usize)> = Vec::new();
        let those = self.list.iter().filter(|c| c.slots & bit(slot) != 0);
        let selected = those.filter(|condition| {
            let Some(member) = condition.member else {
                return true;
            };
            match self.selection(member, slot) {
                Selection::Within { partners } => partners & joined == 0,
                Selection::ByColumn {
                    class,
                    column,
                    partner,
                } => {
                    let first = partner & joined != 0 && !connected.contains(&(class, column));
                    if first {
                        connected.push((class, column));
                    }
                    first
                }
            }
        });
        selected.map(|condition| condition.expr).collect()
    }
}

/// The class of which a condition is an equality.
fn membership(condition: &Expr, classes: &[EqualColumns]) -> Option<Membership> {
    if classes.is_empty() {
        return None;
    }
    let equality = Equality::of(condition)?;
    let places = equality.sides.map(|(place, _)| place);
    let has = |class: &EqualColumns| {
        let member = |place: &Place| class.members.contains(place);
        class.how == equality.how && places.iter().all(member)
    };
    let class = classes.iter().position(has)?;
    Some(Membership { class, places })
}

fn bit(slot: usize) -> u64 {
    1u64 << (slot & 63)
}
