//! Nested-loop joins, a batch at a time, and hash joins.
//!
//! A tree of joins runs as a pipeline. Its leftmost leaf, the driving scan, yields a batch of rows,
//! which each join above extends: the keys of the whole batch are built, deduplicated and fetched
//! in one call ([`super::index_lookup`]). A table without a usable index is read once and
//! materialized ([`super::materialized`]).
//!
//! A join whose right side was partitioned into files does not extend the batch but writes it to
//! partitions. When the driving scan has ended, these are joined ([`super::partitioned_join`]), and
//! the joins above continue with the result.
//!
//! Invariants:
//! 1. Every condition is checked on every candidate row, however it was found.
//! 2. The right side of a nested join (an outer join of several tables) is joined for a whole batch
//!    at once; each row of the batch without a match is emitted once, NULL-extended.

use super::conditions::Conditions;
use super::driving_scan::DrivingScan;
use super::index_lookup::{LookupResult, lookup};
use super::join_hash_table::JoinHashTable;
use super::materialized::{Materialized, MaterializedTables, SpilledInputs, number_key};
use super::partitioned_join::{MatchedRows, PartitionPair, ProbeInput, ProbeWriter};
use super::profile::{Role, SpillSize};
use super::query::{all_true, cx_of};
use super::row_set::RowCursor;
use super::rows::Demand;
use super::scan::slot_of;
use super::spilled_build::{BatchSize, Decision, SpilledBuild};
use super::{Exec, ExecResult, derived};
use crate::bind::{Origin, Source};
use crate::error::SqlError;
use crate::expr::comparable::append_comparable;
use crate::expr::eval::{EvalCx, Slot, eval};
use crate::expr::number::{NumberExpr, NumberResult};
use crate::plan::QueryPlan;
use crate::plan::physical::{Join, JoinKind, JoinMethod, NestedJoin, RowOperator};
use crate::plan::scan::Scan;
use bumpalo::Bump;
use porpoise_base::interrupt::Pacer;
use porpoise_rows::catalog::Table;
use smallvec::SmallVec;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// Rows of the driving scan in one batch.
pub(super) const BATCH: usize = 256;

/// Receives the joined rows. Returns whether it wants more.
pub type Consumer<'c> = dyn for<'r> FnMut(&[Slot<'r>], &EvalCx<'r>) -> ExecResult<bool> + 'c;

/// A row of all tables joined so far; the slots of the other tables are empty.
pub(super) type Tuple<'a> = &'a [Slot<'a>];

/// The stored tables of a query, by slot.
pub(super) fn tables_of(sources: &[Source]) -> Vec<Option<&Table>> {
    let tables = sources.iter().map(|s| s.table().map(AsRef::as_ref));
    tables.collect()
}

/// A join of the pipeline.
#[derive(Clone, Copy)]
enum JoinNode<'p> {
    /// A join whose right side is one table.
    Table(&'p Join),
    /// A join whose right side is a join of several tables.
    Nested(&'p NestedJoin),
}

/// The joins on the path from the leftmost leaf of a tree to its root.
type Joins<'p> = SmallVec<[JoinNode<'p>; 8]>;

/// Splits a tree of joins into its leftmost leaf and the joins above it, the lowest first.
fn pipeline(mut operator: &RowOperator) -> (&RowOperator, Joins<'_>) {
    let mut joins = Joins::new();
    loop {
        operator = match operator {
            RowOperator::Join(join) => {
                joins.push(JoinNode::Table(join));
                &join.left
            }
            RowOperator::NestedJoin(join) => {
                joins.push(JoinNode::Nested(join));
                &join.left
            }
            leaf => {
                joins.reverse();
                return (leaf, joins);
            }
        };
    }
}

/// Runs a tree of joins, or a single scan, and passes every joined row to the consumer.
///
/// When the first batch finds that a right side exceeds its share of memory, no row has been passed
/// to the consumer. The join then restarts, and reads that side to files.
pub(super) fn run(
    plan: &QueryPlan,
    operator: &RowOperator,
    demand: Demand<'_>,
    exec: &mut Exec<'_>,
    consume: &mut Consumer<'_>,
) -> ExecResult<()> {
    let spilled = SpilledInputs::default();
    loop {
        let done = run_pipeline(plan, operator, &spilled, demand, exec, consume);
        if !spilled.must_restart.take() {
            return done;
        }
    }
}

fn run_pipeline(
    plan: &QueryPlan,
    operator: &RowOperator,
    spilled: &SpilledInputs,
    demand: Demand<'_>,
    exec: &mut Exec<'_>,
    consume: &mut Consumer<'_>,
) -> ExecResult<()> {
    let (leaf, joins) = pipeline(operator);
    let Some(first) = leaf.as_scan() else {
        return Err(SqlError::internal("a join without a driving scan").into());
    };
    let (held, codecs) = (Bump::new(), OnceCell::new());
    let tables = tables_of(&plan.sources);
    let partitionable = partitionable(first, &joins, demand);
    let mut inner = JoinState {
        plan,
        materialized: MaterializedTables::new(&held, plan, &codecs, spilled, partitionable),
        tables,
        conditions: HashMap::new(),
        probes: HashMap::new(),
    };
    let wanted = if joins.is_empty() {
        demand.rows
    } else {
        u64::MAX
    };
    let mut driving = DrivingScan::open(plan, first, wanted, exec)?;
    if let Some(skip) = demand
        .skip
        .filter(|skip| joins.is_empty() && skip.get() > 0)
    {
        skip.set(skip.get() - driving.skip(first, skip.get(), exec)?);
    }
    let mut arena = Bump::new();
    let mut size = BatchSize::new(BATCH);
    let mut loops = 1;
    loop {
        exec.check_cancelled()?;
        arena.reset();
        let since = exec.begin_part();
        let tuples = driving.next(plan, first, exec, &arena)?;
        let Some(mut tuples) = tuples else {
            exec.end_part(first, Role::Scan, loops, 0, since);
            inner.join_partitions(&joins, exec, consume)?;
            return Ok(());
        };
        let is_adaptive = first.lock().is_none() && inner.materialized.has_spilled_keys();
        while is_adaptive && tuples.len() < size.rows() {
            match driving.next(plan, first, exec, &arena)? {
                Some(more) => tuples.extend(more),
                None => break,
            }
        }
        let rows = tuples.len();
        let done = std::mem::take(&mut loops);
        exec.end_part(first, Role::Scan, done, rows as u64, since);
        if !inner.run_joins(&joins, tuples, exec, &arena, consume)? {
            return Ok(());
        }
        if is_adaptive {
            size.adapt(rows, exec, &arena)?;
        }
    }
}

/// The slots of the right sides that may be partitioned, as a bit set.
fn partitionable(first: &Scan, joins: &[JoinNode<'_>], demand: Demand<'_>) -> u64 {
    let is_locked = |join: &JoinNode<'_>| match join {
        JoinNode::Table(join) => join.right.lock().is_some(),
        JoinNode::Nested(_) => false,
    };
    if demand.is_ordered || first.lock().is_some() || joins.iter().any(is_locked) {
        return 0;
    }
    let slots = joins.iter().map(|join| match join {
        JoinNode::Table(join) if !join.hash_keys().is_empty() => join.right.slot_bit(),
        _ => 0,
    });
    slots.fold(0, |all, slot| all | slot)
}

/// A joined row with the position of the batch row that it extends.
type ExtendedTuple<'a> = (usize, Tuple<'a>);

/// State of the joins above the driving scan.
struct JoinState<'h> {
    plan: &'h QueryPlan,
    /// Materialized right sides.
    materialized: MaterializedTables<'h>,
    /// The stored tables of the join, by slot.
    tables: Vec<Option<&'h Table>>,
    /// Compiled conditions of each join, by the join's address.
    conditions: HashMap<usize, JoinConditions<'h>>,
    /// Rows of the joins with partitioned inputs, by the slot of the input.
    probes: HashMap<usize, ProbeWriter<'h>>,
}

/// The compiled conditions of one join.
struct JoinConditions<'h> {
    on: Conditions<'h>,
    filter: Conditions<'h>,
    /// The probe side of a hash join's only equality, if it is a plain integer.
    probe: Option<NumberExpr<'h>>,
    compiled: bool,
}

impl<'h> JoinConditions<'h> {
    fn new(join: &'h Join) -> JoinConditions<'h> {
        JoinConditions {
            on: Conditions::new(&join.on),
            filter: Conditions::new(&join.filter),
            probe: None,
            compiled: false,
        }
    }

    /// Compiles the conditions unless the batch is too small to pay for it.
    fn compile(
        &mut self,
        join: &'h Join,
        rows: usize,
        tables: &[Option<&'h Table>],
        cx: &EvalCx<'_>,
    ) {
        if self.compiled || rows < MIN_COMPILED_BATCH && join.hash_keys().is_empty() {
            return;
        }
        self.on.compile(tables, cx);
        self.filter.compile(tables, cx);
        self.probe = number_key(join.hash_keys(), tables, cx).map(|(probe, _)| probe);
        self.compiled = true;
    }
}

/// Conditions are not compiled for smaller batches.
const MIN_COMPILED_BATCH: usize = 64;

impl<'h> JoinState<'h> {
    /// Extends the batch by these joins. Returns false when the consumer wants no more.
    fn run_joins<'a, 'x: 'a + 'h>(
        &mut self,
        joins: &[JoinNode<'h>],
        tuples: Vec<Tuple<'a>>,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
        consume: &mut Consumer<'_>,
    ) -> ExecResult<bool>
    where
        'h: 'a,
    {
        let Some((join, rest)) = joins.split_first() else {
            let cx = cx_of(exec, arena);
            let mut pacer = Pacer::new();
            self.materialized.note_consumed();
            for tuple in tuples {
                pacer.tick()?;
                if !consume(tuple, &cx)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        if let JoinNode::Table(join) = *join
            && !tuples.is_empty()
            && self.materialized.is_partitionable(&join.right)
            && self.partition_probe(join, rest, &tuples, exec, arena)?
        {
            return Ok(true);
        }
        for part in tuples.chunks(self.chunk_size(*join)) {
            exec.check_cancelled()?;
            let batch = part.iter().copied().enumerate().collect();
            let grown = self.join_batch(*join, batch, exec, arena)?;
            let joined = grown.into_iter().map(|(_, tuple)| tuple).collect();
            if !self.run_joins(rest, joined, exec, arena, consume)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the batch to partitions if the join's right side is partitioned, too. Returns whether it
    /// is. The rows go on to the joins above, `rest`, by [`JoinState::join_partitions`].
    fn partition_probe<'a, 'x: 'a + 'h>(
        &mut self,
        join: &'h Join,
        rest: &[JoinNode<'h>],
        tuples: &[Tuple<'a>],
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> ExecResult<bool>
    where
        'h: 'a,
    {
        let Some(build) = self.partitioned_input(join, exec)? else {
            return Ok(false);
        };
        let states = exec.shared.states;
        if !self.probes.contains_key(&join.right.slot) {
            // The inputs of the joins above are read now: if one is too large for memory, the join
            // restarts before it has written the rows of this one.
            for node in rest {
                if let JoinNode::Table(join) = *node
                    && self.materialized.is_partitionable(&join.right)
                {
                    self.partitioned_input(join, exec)?;
                }
            }
            let writer = ProbeWriter::new(self.materialized.codecs(), states)?;
            self.probes.insert(join.right.slot, writer);
        }
        let (Some(build), Some(probe)) =
            (build.partitioned(), self.probes.get_mut(&join.right.slot))
        else {
            return Ok(false);
        };
        let cx = cx_of(exec, arena);
        let (keys, mut pacer) = (join.hash_keys(), Pacer::new());
        for tuple in tuples {
            pacer.tick()?;
            let build = (&build.hasher, build.partitions.as_slice());
            probe.add((join.kind, keys), build, tuple, &cx)?;
        }
        Ok(true)
    }

    /// The right side of a join, which is read on the first call, if it is partitioned.
    fn partitioned_input<'x: 'h>(
        &mut self,
        join: &'h Join,
        exec: &mut Exec<'x>,
    ) -> ExecResult<Option<Rc<Materialized<'h>>>> {
        let plan: &'h QueryPlan = self.plan;
        let Some(source) = plan.sources.get(join.right.slot) else {
            return Ok(None);
        };
        let input = self.materialized.rows(join, &source.origin, exec)?;
        Ok(input.partitioned().is_some().then_some(input))
    }

    /// Joins the partitions of the joins whose rows were written to some, the lowest join first. The
    /// rows go on to the joins above. Returns false when the consumer wants no more.
    fn join_partitions<'x: 'h>(
        &mut self,
        joins: &[JoinNode<'h>],
        exec: &mut Exec<'x>,
        consume: &mut Consumer<'_>,
    ) -> ExecResult<bool> {
        let states = exec.shared.states;
        for (at, node) in joins.iter().enumerate() {
            let JoinNode::Table(join) = *node else {
                continue;
            };
            let Some(probe) = self.probes.remove(&join.right.slot) else {
                continue;
            };
            let input = self.partitioned_input(join, exec)?;
            let Some(build) = input.as_ref().and_then(|input| input.partitioned()) else {
                return Err(SqlError::internal("a join without its partitions").into());
            };
            let mut pending = probe.finish(&build.partitions, states)?;
            let size = SpillSize {
                runs: pending.len() as u64,
                bytes: pending.iter().map(PartitionPair::probe_bytes).sum(),
            };
            exec.note_spilled(&join.right, Role::Scan, size);
            let rest = joins.get(at + 1..).unwrap_or_default();
            while let Some(pair) = pending.pop() {
                exec.check_cancelled()?;
                if pair.is_irrelevant(join.kind) {
                    continue;
                }
                if pair.must_split(states) {
                    pending.extend(pair.split(states)?);
                } else if !self.join_partition(join, &pair, rest, exec, consume)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Joins the rows of a pair of partitions. Returns false when the consumer wants no more.
    fn join_partition<'x: 'h>(
        &mut self,
        join: &'h Join,
        pair: &PartitionPair,
        rest: &[JoinNode<'h>],
        exec: &mut Exec<'x>,
        consume: &mut Consumer<'_>,
    ) -> ExecResult<bool> {
        let states = exec.shared.states;
        let address = std::ptr::from_ref(join).addr();
        let conditions = self.conditions.remove(&address);
        let mut conditions = conditions.unwrap_or_else(|| JoinConditions::new(join));
        let (mut held, mut arena) = (Bump::new(), Bump::new());
        let codecs = self.materialized.codecs();
        let mut chunks = pair.build_chunks(self.materialized.codec(join.right.slot)?);
        let mut matched = MatchedRows::default();
        loop {
            held.reset();
            let Some(chunk) = chunks.next(&held, states)? else {
                break;
            };
            let mut probe = pair.probe_cursor();
            loop {
                exec.check_cancelled()?;
                arena.reset();
                let (since, before) = (exec.begin_part(), probe.rows_read());
                conditions.compile(join, MIN_COMPILED_BATCH, &self.tables, &cx_of(exec, &arena));
                let input = ProbeInput {
                    join,
                    on: &conditions.on,
                    filter: &conditions.filter,
                    codecs,
                    chunk: &chunk,
                };
                let Some(tuples) = probe.next(&input, &mut matched, exec, &arena)? else {
                    break;
                };
                let loops = probe.rows_read() - before;
                exec.end_part(&join.right, Role::Scan, loops, tuples.len() as u64, since);
                if !self.run_joins(rest, tuples, exec, &arena, consume)? {
                    return Ok(false);
                }
            }
            chunk.release(states);
        }
        matched.release(states);
        self.conditions.insert(address, conditions);
        Ok(true)
    }

    /// Number of rows that a join extends at once.
    fn chunk_size(&self, node: JoinNode<'h>) -> usize {
        match node {
            JoinNode::Table(join) if self.materialized.is_spilled_by_keys(join.right.slot) => {
                usize::MAX
            }
            JoinNode::Table(_) | JoinNode::Nested(_) => BATCH,
        }
    }

    /// Joins the batch with the right side of one join.
    fn join_batch<'a, 'x: 'a + 'h>(
        &mut self,
        node: JoinNode<'h>,
        batch: Vec<ExtendedTuple<'a>>,
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> ExecResult<Vec<ExtendedTuple<'a>>>
    where
        'h: 'a,
    {
        let (since, loops) = (exec.begin_part(), batch.len() as u64);
        match node {
            JoinNode::Table(join) => {
                let address = std::ptr::from_ref(join).addr();
                let conditions = self.conditions.entry(address);
                let conditions = conditions.or_insert_with(|| JoinConditions::new(join));
                conditions.compile(join, batch.len(), &self.tables, &cx_of(exec, arena));
                let candidates = self.candidates(join, &batch, exec, arena)?;
                let grown = match self.conditions.get(&address) {
                    Some(conditions) => {
                        join_candidates(join, conditions, batch, &candidates, exec, arena)?
                    }
                    None => Vec::new(),
                };
                exec.end_part(&join.right, Role::Scan, loops, grown.len() as u64, since);
                Ok(grown)
            }
            JoinNode::Nested(join) => {
                let joined = self.join_nested(join, &batch, exec, arena)?;
                let grown = emit_nested(join, batch, joined, &cx_of(exec, arena))?;
                exec.end_part(join, Role::Scan, loops, grown.len() as u64, since);
                Ok(grown)
            }
        }
    }

    /// Joins the batch with the right side of a nested join. Each result row carries the position
    /// of the batch row that it extends.
    fn join_nested<'a, 'x: 'a + 'h>(
        &mut self,
        join: &'h NestedJoin,
        batch: &[ExtendedTuple<'a>],
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> ExecResult<Vec<ExtendedTuple<'a>>>
    where
        'h: 'a,
    {
        let numbered = batch.iter().enumerate();
        let mut grown: Vec<ExtendedTuple<'a>> =
            numbered.map(|(at, (_, tuple))| (at, *tuple)).collect();
        let (_, joins) = pipeline(&join.right);
        for inner in joins {
            let mut next = Vec::with_capacity(grown.len());
            for part in grown.chunks(BATCH) {
                exec.check_cancelled()?;
                next.extend(self.join_batch(inner, part.to_vec(), exec, arena)?);
            }
            grown = next;
        }
        Ok(grown)
    }

    /// The candidate matches for each row of the batch.
    fn candidates<'a, 'x: 'a + 'h>(
        &mut self,
        join: &'h Join,
        batch: &[ExtendedTuple<'a>],
        exec: &mut Exec<'x>,
        arena: &'a Bump,
    ) -> ExecResult<Candidates<'a, 'h>>
    where
        'h: 'a,
    {
        let plan: &'h QueryPlan = self.plan;
        let Some(source) = plan.sources.get(join.right.slot) else {
            return Err(SqlError::internal("a join without a table").into());
        };
        match (&join.method, &source.origin) {
            (JoinMethod::IndexLookup, Origin::Stored(table)) => {
                let tuples: Vec<Tuple<'a>> = batch.iter().map(|(_, tuple)| *tuple).collect();
                let found = lookup(join, table, &tuples, exec, arena)?;
                return Ok(Candidates::LookupResult(found));
            }
            (JoinMethod::Lateral, Origin::Derived(derived)) => {
                let cx = cx_of(exec, arena);
                let before = arena.allocated_bytes();
                let mut out = Vec::with_capacity(batch.len());
                for (_, tuple) in batch {
                    exec.check_cancelled()?;
                    let grown = arena.allocated_bytes().saturating_sub(before) as u64;
                    exec.shared.states.hold(grown)?;
                    exec.shared.states.release(grown);
                    let rows = derived::rows(derived, tuple, exec)?;
                    let all = RowCursor::default().next(&rows, usize::MAX)?;
                    out.push(all.iter().map(|r| slot_of(r, &cx)).collect());
                }
                return Ok(Candidates::PerRow(out));
            }
            _ => {}
        }
        let held = self.materialized.rows(join, &source.origin, exec)?;
        let cx = cx_of(exec, arena);
        let table = match &*held {
            Materialized::Spilled(build) if build.has_keys() => {
                let tuples = batch.iter().map(|(_, tuple)| *tuple);
                return build.candidates(join.hash_keys(), tuples, &cx);
            }
            Materialized::InMemory {
                table: Some(table), ..
            } => table,
            Materialized::InMemory { table: None, .. } | Materialized::Spilled(_) => {
                return Ok(Candidates::All(held));
            }
        };
        let conditions = self.conditions.get(&std::ptr::from_ref(join).addr());
        let probe = conditions.and_then(|j| j.probe.as_ref());
        let first = first_matches(join, probe, table, batch, &cx)?;
        Ok(Candidates::Hashed(held, first))
    }
}

/// The first row in the hash table for each row of the batch.
fn first_matches<'a>(
    join: &Join,
    probe: Option<&NumberExpr<'_>>,
    table: &JoinHashTable<'_>,
    batch: &[ExtendedTuple<'a>],
    cx: &EvalCx<'a>,
) -> ExecResult<Vec<Option<usize>>> {
    let mut first = Vec::with_capacity(batch.len());
    if table.unit().is_some() {
        let Some((probe, part)) = probe.zip(join.hash_keys().first()) else {
            return Err(SqlError::internal("a key without numbers").into());
        };
        for (_, tuple) in batch {
            first.push(match probe.eval(tuple) {
                NumberResult::Value(number) => table.first_of_number(number),
                NumberResult::Null => None,
                NumberResult::NotApplicable => table.first_of_value(eval(&part.probe, tuple, cx)?),
            });
        }
        return Ok(first);
    }
    let mut key = Vec::new();
    for (_, tuple) in batch {
        key.clear();
        let mut known = true;
        for part in join.hash_keys() {
            let value = eval(&part.probe, tuple, cx)?;
            known &= append_comparable(value, &part.probe.ty, part.compare_as, cx, &mut key)?;
        }
        // A key without an encoding contains NULL, which equals nothing.
        first.push(known.then(|| table.first(&key)).flatten());
    }
    Ok(first)
}

/// Joins each batch row with its candidates of one table.
fn join_candidates<'a, 'h: 'a, 'x: 'a>(
    join: &'h Join,
    conditions: &JoinConditions<'h>,
    batch: Vec<ExtendedTuple<'a>>,
    candidates: &Candidates<'a, 'h>,
    exec: &Exec<'x>,
    arena: &'a Bump,
) -> ExecResult<Vec<ExtendedTuple<'a>>> {
    let cx = &cx_of(exec, arena);
    let before = arena.allocated_bytes();
    let mut out = Vec::with_capacity(batch.len());
    // Conditions are evaluated on this scratch row; only rows that pass are copied.
    let mut joined: Vec<Slot<'a>> = Vec::new();
    let mut pacer = Pacer::new();
    for (at, (from, tuple)) in batch.into_iter().enumerate() {
        // Without a key, each batch row may have millions of candidates.
        if matches!(candidates, Candidates::All(_)) {
            exec.check_cancelled()?;
            let grown = arena.allocated_bytes().saturating_sub(before) as u64;
            exec.shared.states.hold(grown)?;
            exec.shared.states.release(grown);
        }
        joined.clear();
        joined.extend_from_slice(tuple);
        let mut found = false;
        for slot in candidates.of_row(at) {
            pacer.tick()?;
            if let Some(place) = joined.get_mut(join.right.slot) {
                *place = slot;
            }
            if !conditions.on.hold(&joined, cx)? {
                continue;
            }
            found = true;
            if matches!(join.kind, JoinKind::Semi | JoinKind::Anti) {
                break;
            }
            if conditions.filter.hold(&joined, cx)? {
                out.push((from, &*cx.arena.alloc_slice_copy(&joined)));
            }
        }
        if let Some(build) = candidates.spilled() {
            found = join_spilled(join, conditions, from, tuple, build, cx, &mut out)?;
        }
        let alone = match join.kind {
            JoinKind::Inner => false,
            JoinKind::Left | JoinKind::Anti => !found,
            JoinKind::Semi => found,
        };
        if alone && conditions.filter.hold(tuple, cx)? {
            out.push((from, tuple));
        }
    }
    Ok(out)
}

/// Joins a row with its matches in a spilled table. Returns whether there are any.
fn join_spilled<'a, 'h: 'a>(
    join: &'h Join,
    conditions: &JoinConditions<'h>,
    from: usize,
    tuple: Tuple<'a>,
    build: &SpilledBuild<'h>,
    cx: &EvalCx<'a>,
    out: &mut Vec<ExtendedTuple<'a>>,
) -> ExecResult<bool> {
    let slot = join.right.slot;
    let mut found = false;
    let mut decide = |candidate: Slot<'_>| -> ExecResult<Decision> {
        let mut joined: SmallVec<[Slot<'_>; 8]> = SmallVec::from_slice(tuple);
        if let Some(place) = joined.get_mut(slot) {
            *place = candidate;
        }
        if !conditions.on.hold(&joined, cx)? {
            return Ok(Decision::NoMatch);
        }
        found = true;
        if matches!(join.kind, JoinKind::Semi | JoinKind::Anti) {
            return Ok(Decision::Stop);
        }
        Ok(if conditions.filter.hold(&joined, cx)? {
            Decision::Match
        } else {
            Decision::NoMatch
        })
    };
    let mut keep = |candidate: Slot<'a>| {
        let joined = cx.arena.alloc_slice_copy(tuple);
        if let Some(place) = joined.get_mut(slot) {
            *place = candidate;
        }
        out.push((from, &*joined));
    };
    build.for_each(cx.arena, &mut decide, &mut keep)?;
    Ok(found)
}

/// Emits each batch row with its matches from a nested join, or NULL-extended if there are none.
fn emit_nested<'a, 'h: 'a>(
    join: &'h NestedJoin,
    batch: Vec<ExtendedTuple<'a>>,
    grown: Vec<ExtendedTuple<'a>>,
    cx: &EvalCx<'a>,
) -> ExecResult<Vec<ExtendedTuple<'a>>> {
    let mut out = Vec::with_capacity(batch.len());
    let mut grown = grown.into_iter().peekable();
    for (at, (from, tuple)) in batch.into_iter().enumerate() {
        let mut found = false;
        while let Some((_, joined)) = grown.next_if(|(of, _)| *of == at) {
            found = true;
            if all_true(&join.filter, joined, cx)? {
                out.push((from, joined));
            }
        }
        if !found && all_true(&join.filter, tuple, cx)? {
            out.push((from, tuple));
        }
    }
    Ok(out)
}

/// Candidate matches for the rows of a batch.
pub(super) enum Candidates<'a, 'h> {
    /// Rows found through an index.
    LookupResult(LookupResult<'a>),
    /// A list of rows for each row of the batch.
    PerRow(Vec<Vec<Slot<'a>>>),
    /// Rows, and for each row of the batch the range of those that match.
    Shared(Vec<Slot<'a>>, Vec<Range<usize>>),
    /// A hash table's rows, and for each row of the batch the start of its chain.
    Hashed(Rc<Materialized<'h>>, Vec<Option<usize>>),
    /// All materialized rows, for every row of the batch.
    All(Rc<Materialized<'h>>),
}

impl<'a, 'h: 'a> Candidates<'a, 'h> {
    /// The files, if all rows are candidates and were spilled.
    fn spilled(&self) -> Option<&SpilledBuild<'h>> {
        match self {
            Candidates::All(held) => match &**held {
                Materialized::Spilled(build) => Some(build),
                Materialized::InMemory { .. } => None,
            },
            _ => None,
        }
    }

    /// The in-memory candidates of the batch row at this position.
    fn of_row(&self, at: usize) -> impl Iterator<Item = Slot<'a>> + '_ {
        let (mut list, mut keys, mut chain): (&[Slot<'a>], _, _) = (&[], None, None);
        match self {
            Candidates::LookupResult(found) => keys = Some(found.matches(at)),
            Candidates::PerRow(rows) => list = rows.get(at).map_or(&[], Vec::as_slice),
            Candidates::Shared(rows, of) => {
                let found = of.get(at).and_then(|range| rows.get(range.clone()));
                list = found.unwrap_or_default();
            }
            Candidates::All(held) => {
                if let Materialized::InMemory { rows, .. } = &**held {
                    list = rows;
                }
            }
            Candidates::Hashed(held, first) => {
                if let Materialized::InMemory { rows, table } = &**held {
                    let first = first.get(at).copied().flatten();
                    let found = table.as_ref().map(|table| table.chain(first));
                    let slots = found.into_iter().flatten();
                    chain = Some(slots.filter_map(|row| rows.get(row).copied()));
                }
            }
        }
        let list = list.iter().copied();
        list.chain(keys.into_iter().flatten())
            .chain(chain.into_iter().flatten())
    }
}
