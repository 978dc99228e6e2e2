//! Optimizer hints of a query block: what they ask of the join order, the access paths and the
//! rules.
//!
//! A hint applies to the query block in whose SELECT it is written. A table is named by its alias. Hints that
//! name tables of another block (`t@block`) have no effect; SEMIJOIN and NO_SEMIJOIN may name the
//! block of a subquery.
//!
//! Invariant: the orders that hints ask for have no cycle. A hint that would close one is ignored,
//! with warning 3126.

use super::from::From;
use super::select::PlanCx;
use crate::bind::optimizer_hints::{Hint, HintKind, of_block};
use crate::parse::ast::Select;

/// Requirements of the hints of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct JoinHints {
    /// QB_NAME.
    name: Option<String>,
    /// For each slot, the slots that must be joined before it; empty without a hint.
    before: Vec<u64>,
    /// Slots that are joined by an index if possible (NO_BNL).
    by_index: u64,
    /// Slots that are joined without an index (BNL).
    read_once: u64,
    /// Derived tables that keep their conditions outside.
    no_pushdown: u64,
    /// SEMIJOIN or NO_SEMIJOIN in the block of a subquery.
    semi_join: Option<bool>,
    /// The same for subqueries by name.
    semi_joins_of: Vec<(String, bool)>,
}

impl JoinHints {
    /// The slots that must be joined before a slot.
    pub(super) fn before(&self, slot: usize) -> u64 {
        self.before.get(slot).copied().unwrap_or(0)
    }

    /// Whether a table should be joined by an index; `None` without a hint.
    pub(super) fn by_index(&self, slot: usize) -> Option<bool> {
        let bit = 1u64 << (slot & 63);
        match (self.by_index & bit != 0, self.read_once & bit != 0) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Whether conditions may move into a derived table.
    pub(super) fn allows_pushdown(&self, slot: usize) -> bool {
        self.no_pushdown & 1u64 << (slot & 63) == 0
    }

    /// Whether a subquery with these hints should become a semi-join; `None` without a hint.
    pub(super) fn wants_semi_join(&self, subquery: &JoinHints) -> Option<bool> {
        let named = subquery.name.as_ref().and_then(|name| {
            let mut all = self.semi_joins_of.iter();
            all.find(|(block, _)| block.eq_ignore_ascii_case(name))
        });
        named.map(|(_, wants)| *wants).or(subquery.semi_join)
    }

    /// Adds an order of tables; `slots` are all tables of the block. Returns false if it contradicts
    /// the orders before it.
    fn add_order(&mut self, kind: HintKind, order: &[usize], slots: usize) -> bool {
        let mut before = self.before.clone();
        before.resize(slots, 0);
        let bits = |of: &[usize]| of.iter().fold(0, |all, slot| all | 1u64 << (slot & 63));
        let listed = bits(order);
        for (slot, waits_for) in before.iter_mut().enumerate() {
            let at = order.iter().position(|s| *s == slot);
            *waits_for |= match (at, kind) {
                (Some(at), HintKind::Suffix) => {
                    let all = (1u64 << (slots & 63)).wrapping_sub(1);
                    bits(order.get(..at).unwrap_or_default()) | (all & !listed)
                }
                (Some(at), _) => bits(order.get(..at).unwrap_or_default()),
                (None, HintKind::Prefix) => listed,
                (None, _) => 0,
            };
        }
        let acyclic = is_acyclic(&before);
        if acyclic {
            self.before = before;
        }
        acyclic
    }
}

/// Whether every table can be joined after those that it waits for.
fn is_acyclic(before: &[u64]) -> bool {
    let mut joined = 0u64;
    loop {
        let mut all = before.iter().enumerate();
        let next = all.find(|(slot, waits_for)| {
            joined & 1u64 << (slot & 63) == 0 && **waits_for & !joined == 0
        });
        match next {
            Some((slot, _)) => joined |= 1u64 << (slot & 63),
            None => return before.len() == joined.count_ones() as usize,
        }
    }
}

/// Applies the hints of a SELECT to its FROM clause.
pub(super) fn apply(select: &Select<'_>, from: &mut From, cx: &PlanCx<'_>) {
    let hints = of_block(cx.text, select.span.start as usize);
    if let Some(at) = hints.error_at {
        let near: String = cx
            .text
            .get(at..)
            .unwrap_or_default()
            .chars()
            .take(80)
            .collect();
        let near = near.split(';').next().unwrap_or_default();
        let line = cx.text.get(..at).unwrap_or_default().lines().count().max(1);
        let text = format!("Optimizer hint syntax error near '{near}' at line {line}");
        cx.system.warn(1064, text);
    }
    for hint in &hints.list {
        if hint.kind == HintKind::BlockName {
            from.hints.name = hint.names.first().map(|n| n.name.clone());
        }
    }
    for hint in &hints.list {
        let mut block = Block { from, cx };
        block.apply(hint);
    }
}

/// A query block to which hints are applied.
struct Block<'f, 'c> {
    from: &'f mut From,
    cx: &'f PlanCx<'c>,
}

impl Block<'_, '_> {
    fn apply(&mut self, hint: &Hint) {
        let own = |block: &Option<String>| {
            let name = self.from.hints.name.as_ref();
            block
                .as_ref()
                .is_none_or(|b| name.is_some_and(|n| n.eq_ignore_ascii_case(b)))
        };
        let here = own(&hint.block) && hint.names.iter().all(|n| own(&n.block));
        match (hint.kind, &hint.block) {
            (HintKind::SemiJoin(wants), Some(block)) if !here => {
                self.from.hints.semi_joins_of.push((block.clone(), wants));
            }
            _ if !here => {}
            (HintKind::SemiJoin(wants), _) => self.from.hints.semi_join = Some(wants),
            (HintKind::FixedOrder, _) => self.from.straight = true,
            (HintKind::BlockName | HintKind::Other, _) => {}
            _ => self.apply_to_tables(hint),
        }
    }

    fn apply_to_tables(&mut self, hint: &Hint) {
        let mut slots = Vec::with_capacity(hint.names.len());
        for named in &hint.names {
            let mut sources = self.from.scope.sources.iter();
            match sources.position(|s| s.alias.eq_ignore_ascii_case(&named.name)) {
                Some(slot) => slots.push(slot),
                None => self.warn_unresolved(&named.name, None, hint),
            }
        }
        let tables = self.from.scope.sources.len();
        let of_slots = if hint.names.is_empty() {
            u64::MAX
        } else {
            slots.iter().fold(0, |all, slot| all | 1u64 << (slot & 63))
        };
        let hints = &mut self.from.hints;
        match hint.kind {
            HintKind::Order | HintKind::Prefix | HintKind::Suffix => {
                let is_added = hints.add_order(hint.kind, &slots, tables);
                if !is_added {
                    let text = hint.text();
                    let text = format!("Hint {text} is ignored as conflicting/duplicated");
                    self.cx.system.warn(3126, text);
                }
            }
            HintKind::BlockNestedLoop(true) => hints.read_once |= of_slots,
            HintKind::BlockNestedLoop(false) => hints.by_index |= of_slots,
            HintKind::DerivedPushdown(false) => hints.no_pushdown |= of_slots,
            HintKind::Index(purpose, wanted) => {
                for slot in slots {
                    self.restrict_indexes(slot, hint, purpose, wanted);
                }
            }
            _ => {}
        }
    }

    fn restrict_indexes(
        &mut self,
        slot: usize,
        hint: &Hint,
        purpose: crate::parse::ast::IndexHintFor,
        wanted: bool,
    ) {
        let source = self.from.scope.sources.get(slot);
        let Some((table, alias)) = source.and_then(|s| Some((s.table()?.clone(), s.alias.clone())))
        else {
            return;
        };
        let mut named = Vec::with_capacity(hint.indexes.len());
        for name in &hint.indexes {
            let mut indexes = table.indexes.iter();
            match indexes.position(|i| i.name.eq_ignore_ascii_case(name) && !i.parts.is_empty()) {
                Some(at) => named.push(at),
                None => self.warn_unresolved(&alias, Some(name), hint),
            }
        }
        if hint.indexes.is_empty() {
            named.extend(0..table.indexes.len());
        }
        if let Some(source) = self.from.scope.sources.get_mut(slot)
            && !named.is_empty()
        {
            source.hints.restrict(purpose, wanted, &named);
        }
    }

    /// Warning 3128.
    fn warn_unresolved(&self, table: &str, index: Option<&str>, hint: &Hint) {
        let block = match &self.from.hints.name {
            Some(name) => name.clone(),
            None => format!("select#{}", self.cx.depth + 1),
        };
        let index = index.map_or_else(String::new, |name| format!(" `{name}`"));
        let text = format!(
            "Unresolved name `{table}`@`{block}`{index} for {} hint",
            hint.name
        );
        self.cx.system.warn(3128, text);
    }
}
