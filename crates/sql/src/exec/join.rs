//! Nested-loop joins, a batch at a time, and hash joins.
//!
//! A batch of rows of the tables joined so far is extended by the next step:
//! the keys of the whole batch are made, those that are equal are asked for
//! once, and one call fetches them all ([`super::lookup`]). A table that no
//! index leads to is read once and held ([`super::held`]).
//!
//! Invariants:
//! 1. Whatever finds the rows that may belong together, every condition is
//!    checked on what was found.
//! 2. A group (the right side of an outer join of several tables) is joined
//!    for a batch as a whole; each row of the batch without a match goes on
//!    alone, once.

use super::conditions::Conditions;
use super::first::FirstRows;
use super::held::{Held, HeldTables, number_key};
use super::lookup::{LookedUp, lookup};
use super::profile::Role;
use super::select::{all_true, cx_of};
use super::state::append_comparable;
use super::step::slot_of;
use super::{Exec, Run, Stop, derived};
use crate::bind::Origin;
use crate::error::SqlError;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::number::{Found, NumberExpr};
use crate::plan::{Access, SelectPlan, Step};
use bumpalo::Bump;
use porpoise_base::interrupt::Pacer;
use porpoise_rows::catalog::Table;
use std::collections::HashMap;
use std::rc::Rc;

/// Rows of the first table in one batch.
pub(super) const BATCH: usize = 256;

/// What a joined row is handed to; false ends the query.
pub type Consumer<'c> = dyn for<'r> FnMut(&[Slot<'r>], &EvalCx<'r>) -> Run<bool> + 'c;

/// A row of all tables joined so far; the slots of the others are empty.
pub(super) type Tuple<'a> = &'a [Slot<'a>];

/// The stored tables of a query, by slot.
pub(super) fn tables_of(plan: &SelectPlan) -> Vec<Option<&Table>> {
    let sources = plan.sources.iter();
    sources.map(|s| s.table().map(AsRef::as_ref)).collect()
}

/// Runs the join and hands every joined row to the consumer. `wanted` rows
/// are enough for it.
pub fn join(
    plan: &SelectPlan,
    exec: &mut Exec<'_>,
    wanted: u64,
    consume: &mut Consumer<'_>,
) -> Run<()> {
    join_behind(plan, exec, (0, wanted), &mut |_| (), consume)
}

/// As [`join`], without the first `skip` rows, as far as they can be passed
/// over unseen: `passed` is told how many were. The others come.
pub(super) fn join_behind(
    plan: &SelectPlan,
    exec: &mut Exec<'_>,
    (skip, wanted): (u64, u64),
    passed: &mut dyn FnMut(u64),
    consume: &mut Consumer<'_>,
) -> Run<()> {
    let Some(first) = plan.steps.first() else {
        let arena = Bump::new();
        consume(&[], &cx_of(exec, &arena))?;
        return Ok(());
    };
    let held = Bump::new();
    let tables = tables_of(plan);
    let mut inner = Inner {
        plan,
        held: HeldTables::new(&held, tables.clone()),
        tables,
        judged: HashMap::new(),
    };
    let mut first_rows = FirstRows::open(plan, first, wanted, exec)?;
    if skip > 0 && plan.steps.len() == 1 {
        passed(first_rows.skip(first, skip, exec)?);
    }
    let mut arena = Bump::new();
    let mut loops = 1;
    loop {
        exec.check_cancelled()?;
        arena.reset();
        let since = exec.begin_part();
        let tuples = first_rows.next(plan, first, exec, &arena)?;
        let rows = tuples.as_ref().map_or(0, Vec::len) as u64;
        exec.end_part(first, Role::Step, (std::mem::take(&mut loops), rows), since);
        let Some(tuples) = tuples else {
            return Ok(());
        };
        let rest = plan.steps.get(1..).unwrap_or_default();
        if !inner.go_on(rest, tuples, exec, &arena, consume)? {
            return Ok(());
        }
    }
}

/// A row of a batch with the number of the row that it grew from.
type Grown<'a> = (usize, Tuple<'a>);

/// The steps after the first.
struct Inner<'h> {
    plan: &'h SelectPlan,
    /// What steps without an index hold.
    held: HeldTables<'h>,
    /// The stored tables of the join, by slot.
    tables: Vec<Option<&'h Table>>,
    /// What a step's rows are judged by, by the step's address.
    judged: HashMap<usize, Judged<'h>>,
}

/// What the rows of one step are judged by.
struct Judged<'h> {
    on: Conditions<'h>,
    filter: Conditions<'h>,
    /// What is known of the step's only equality, where it is numbers.
    known: Option<NumberExpr<'h>>,
    learnt: bool,
}

impl<'h> Judged<'h> {
    fn new(step: &'h Step) -> Judged<'h> {
        Judged {
            on: Conditions::new(&step.on),
            filter: Conditions::new(&step.filter),
            known: None,
            learnt: false,
        }
    }

    /// Before a batch of so many rows.
    fn learn(
        &mut self,
        (step, rows): (&'h Step, usize),
        tables: &[Option<&'h Table>],
        cx: &EvalCx<'_>,
    ) {
        if self.learnt || rows < FEW && step.hash.is_empty() {
            return;
        }
        self.on.learn(tables, cx);
        self.filter.learn(tables, cx);
        self.known = number_key(step, tables, cx).map(|(known, _)| known);
        self.learnt = true;
    }
}

/// Batches of fewer rows are judged by the conditions as they stand.
const FEW: usize = 64;

impl<'h> Inner<'h> {
    /// Extends the batch by these steps; false when the consumer has enough.
    fn go_on<'a, 'x: 'a + 'h>(
        &mut self,
        steps: &'h [Step],
        tuples: Vec<Tuple<'a>>,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
        consume: &mut Consumer<'_>,
    ) -> Run<bool>
    where
        'h: 'a,
    {
        let Some((step, rest)) = steps.split_first() else {
            let cx = cx_of(exec, arena);
            let mut pacer = Pacer::new();
            for tuple in tuples {
                pacer.tick()?;
                if !consume(tuple, &cx)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        for part in tuples.chunks(BATCH) {
            exec.check_cancelled()?;
            let batch = part.iter().copied().enumerate().collect();
            let grown = self.extend(step, batch, exec, arena)?;
            let joined = grown.into_iter().map(|(_, tuple)| tuple).collect();
            if !self.go_on(rest, joined, exec, arena, consume)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The rows of the batch with what the step adds to them.
    fn extend<'a, 'x: 'a + 'h>(
        &mut self,
        step: &'h Step,
        batch: Vec<Grown<'a>>,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> Run<Vec<Grown<'a>>>
    where
        'h: 'a,
    {
        let (since, loops) = (exec.begin_part(), batch.len() as u64);
        let grown = match step.group.is_empty() {
            true => {
                let address = std::ptr::from_ref(step).addr();
                let judged = self.judged.entry(address);
                let judged = judged.or_insert_with(|| Judged::new(step));
                judged.learn((step, batch.len()), &self.tables, &cx_of(exec, arena));
                let candidates = self.candidates(step, &batch, exec, arena)?;
                match self.judged.get(&address) {
                    Some(judged) => by_rows((step, judged), batch, &candidates, (exec, arena))?,
                    None => Vec::new(),
                }
            }
            false => {
                let joined = self.group(step, &batch, exec, arena)?;
                by_group(step, batch, joined, &cx_of(exec, arena))?
            }
        };
        exec.end_part(step, Role::Step, (loops, grown.len() as u64), since);
        Ok(grown)
    }

    /// The rows of the batch joined with the tables of a group, each with the
    /// position of the row that it grew from.
    fn group<'a, 'x: 'a + 'h>(
        &mut self,
        step: &'h Step,
        batch: &[Grown<'a>],
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> Run<Vec<Grown<'a>>>
    where
        'h: 'a,
    {
        let numbered = batch.iter().enumerate();
        let mut grown: Vec<Grown<'a>> = numbered.map(|(at, (_, tuple))| (at, *tuple)).collect();
        for inner in &step.group {
            let mut next = Vec::with_capacity(grown.len());
            for part in grown.chunks(BATCH) {
                exec.check_cancelled()?;
                next.extend(self.extend(inner, part.to_vec(), exec, arena)?);
            }
            grown = next;
        }
        Ok(grown)
    }

    /// The rows that may belong to each row of the batch.
    fn candidates<'a, 'x: 'a + 'h>(
        &mut self,
        step: &'h Step,
        batch: &[Grown<'a>],
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> Run<Candidates<'a, 'h>>
    where
        'h: 'a,
    {
        let plan: &'h SelectPlan = self.plan;
        let Some(source) = plan.sources.get(step.slot) else {
            return Err(Stop::Error(SqlError::internal("a step without a table")));
        };
        match (&source.origin, &step.access) {
            (Origin::Stored(table), Access::Lookup { .. }) if !step.held => {
                let tuples: Vec<Tuple<'a>> = batch.iter().map(|(_, tuple)| *tuple).collect();
                let found = lookup(step, table, &tuples, exec, arena)?;
                return Ok(Candidates::LookedUp(found));
            }
            (Origin::Derived(derived), _) if derived.free.iter().any(|f| f.level == 1) => {
                let cx = cx_of(exec, arena);
                let mut out = Vec::with_capacity(batch.len());
                for (_, tuple) in batch {
                    let rows = derived::rows(derived, tuple, exec)?;
                    out.push(rows.rows.iter().map(|r| slot_of(r, &cx)).collect());
                }
                return Ok(Candidates::Lists(out));
            }
            _ => {}
        }
        let held = self.held.rows(step, &source.origin, exec)?;
        let Some(by_key) = &held.by_key else {
            return Ok(Candidates::All(held));
        };
        let cx = cx_of(exec, arena);
        let mut first = Vec::with_capacity(batch.len());
        if by_key.unit().is_some() {
            let judged = self.judged.get(&std::ptr::from_ref(step).addr());
            let known = judged.and_then(|j| j.known.as_ref()).zip(step.hash.first());
            let Some((known, part)) = known else {
                return Err(Stop::Error(SqlError::internal("a key without numbers")));
            };
            for (_, tuple) in batch {
                first.push(match known.eval(tuple) {
                    Found::Value(number) => by_key.first_of_number(number),
                    Found::Null => None,
                    Found::Elsewhere => by_key.first_of_value(eval(&part.known, tuple, &cx)?),
                });
            }
            return Ok(Candidates::Hashed(held, first));
        }
        let mut key = Vec::new();
        for (_, tuple) in batch {
            key.clear();
            let mut known = true;
            for part in &step.hash {
                let value = eval(&part.known, tuple, &cx)?;
                known &= append_comparable(value, &part.known.ty, part.how, &cx, &mut key)?;
            }
            // What has no encoding is NULL, and equal to nothing.
            first.push(known.then(|| by_key.first(&key)).flatten());
        }
        Ok(Candidates::Hashed(held, first))
    }
}

/// Each row of the batch with the rows of one table that belong to it.
fn by_rows<'a, 'h: 'a, 'x: 'a>(
    (step, judged): (&'h Step, &Judged<'h>),
    batch: Vec<Grown<'a>>,
    candidates: &Candidates<'a, 'h>,
    (exec, arena): (&Exec<'x>, &'a Bump),
) -> Run<Vec<Grown<'a>>> {
    let cx = &cx_of(exec, arena);
    let before = arena.allocated_bytes();
    let mut out = Vec::with_capacity(batch.len());
    // Conditions see this one row; only what they let through is kept.
    let mut joined: Vec<Slot<'a>> = Vec::new();
    let mut pacer = Pacer::new();
    for (at, (from, tuple)) in batch.into_iter().enumerate() {
        // Each may be met with millions.
        if matches!(candidates, Candidates::All(_)) {
            exec.check_cancelled()?;
            let grown = arena.allocated_bytes().saturating_sub(before) as u64;
            exec.shared.states.hold(grown)?;
            exec.shared.states.let_go(grown);
        }
        joined.clear();
        joined.extend_from_slice(tuple);
        let mut found = false;
        for slot in candidates.of(at) {
            pacer.tick()?;
            if let Some(place) = joined.get_mut(step.slot) {
                *place = slot;
            }
            if !judged.on.hold(&joined, cx)? {
                continue;
            }
            found = true;
            if step.semi.is_some() {
                break;
            }
            if judged.filter.hold(&joined, cx)? {
                out.push((from, &*cx.arena.alloc_slice_copy(&joined)));
            }
        }
        let alone = match step.semi {
            Some(anti) => found != anti,
            None => step.outer && !found,
        };
        if alone && judged.filter.hold(tuple, cx)? {
            out.push((from, tuple));
        }
    }
    Ok(out)
}

/// Each row of the batch with those that grew from it in an outer join of
/// several tables, or alone where none did.
fn by_group<'a, 'h: 'a>(
    step: &'h Step,
    batch: Vec<Grown<'a>>,
    grown: Vec<Grown<'a>>,
    cx: &EvalCx<'a>,
) -> Run<Vec<Grown<'a>>> {
    let mut out = Vec::with_capacity(batch.len());
    let mut grown = grown.into_iter().peekable();
    for (at, (from, tuple)) in batch.into_iter().enumerate() {
        let mut found = false;
        while let Some((_, joined)) = grown.next_if(|(of, _)| *of == at) {
            found = true;
            if all_true(&step.filter, joined, cx)? {
                out.push((from, joined));
            }
        }
        if !found && step.outer && all_true(&step.filter, tuple, cx)? {
            out.push((from, tuple));
        }
    }
    Ok(out)
}

/// The rows that may belong to those of a batch.
enum Candidates<'a, 'h> {
    /// What an index led to.
    LookedUp(LookedUp<'a>),
    /// These, for each row of the batch.
    Lists(Vec<Vec<Slot<'a>>>),
    /// Of those held the ones from this position on, for each.
    Hashed(Rc<Held<'h>>, Vec<Option<usize>>),
    /// All that are held.
    All(Rc<Held<'h>>),
}

impl<'a, 'h: 'a> Candidates<'a, 'h> {
    /// Those of the row at this position of the batch.
    fn of(&self, at: usize) -> impl Iterator<Item = Slot<'a>> + '_ {
        let (mut list, mut keys, mut chain): (&[Slot<'a>], _, _) = (&[], None, None);
        match self {
            Candidates::LookedUp(found) => keys = Some(found.of(at)),
            Candidates::Lists(rows) => list = rows.get(at).map_or(&[], Vec::as_slice),
            Candidates::All(held) => list = &held.rows,
            Candidates::Hashed(held, first) => {
                let first = first.get(at).copied().flatten();
                let rows = held.by_key.as_ref().map(|by_key| by_key.from(first));
                let slots = rows.into_iter().flatten();
                chain = Some(slots.filter_map(|row| held.rows.get(row).copied()));
            }
        }
        let list = list.iter().copied();
        list.chain(keys.into_iter().flatten())
            .chain(chain.into_iter().flatten())
    }
}
