//! Record of what clients observed of a store, and the check of its state after a crash against
//! that record.

use super::plan::{Faults, Plan};
use porpoise_base::clock::ManualClock;
use porpoise_base::disk::MemDisk;
use porpoise_kv::model::Model;
use porpoise_kv::{
    Check, CommitPosition, CounterId, Durability, Engine, Error, Key, PreparedTxn, Read, ScanRange,
    SpaceId,
};
use porpoise_kv_mem::{Background, KvMem, KvMemOptions};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The counter that ids are reserved from.
pub(super) const COUNTER: CounterId = CounterId(70);

/// The spaces that always exist and have rows.
pub(super) const BUILT_IN: [SpaceId; 2] = [SpaceId(1), SpaceId(2)];

/// Space in which a recovered copy writes a row, to check the timestamp that it gets.
const SCRATCH: SpaceId = SpaceId(3);

type Rows = BTreeMap<(SpaceId, Vec<u8>), Vec<u8>>;

/// A space in both stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpacePair {
    pub(super) engine: SpaceId,
    pub(super) model: SpaceId,
    pub(super) dropped: bool,
}

/// Replies that clients of the store have received, and the rows that they may see.
pub(super) struct ExpectedState {
    pub(super) model: Arc<Model>,
    pub(super) spaces: Vec<SpacePair>,
    /// Timestamp and number in the model of commits since the last start.
    pub(super) commits: Vec<(u64, u64)>,
    /// The model's newest commit that must survive a crash.
    pub(super) floor: u64,
    /// The largest id, timestamp and space number given out.
    pub(super) last_id: u64,
    pub(super) last_ts: u64,
    pub(super) last_space: u64,
    /// The space whose drop is in progress or has an unknown outcome.
    pub(super) dropping: Option<usize>,
    /// Whether the disk has reported syncs that it did not do.
    pub(super) has_lied: bool,
}

impl ExpectedState {
    pub(super) fn new() -> ExpectedState {
        let model = Model::new()
            .with_commit_wait(Duration::ZERO)
            .with_late_durability();
        let built_in = BUILT_IN.iter().map(|id| SpacePair {
            engine: *id,
            model: *id,
            dropped: false,
        });
        ExpectedState {
            model: Arc::new(model),
            spaces: built_in.collect(),
            commits: Vec::new(),
            floor: 0,
            last_id: 0,
            last_ts: 0,
            last_space: 0,
            dropping: None,
            has_lied: false,
        }
    }

    /// Returns the model's number of the newest commit up to a commit position of the engine.
    pub(super) fn commit_at(&self, position: CommitPosition) -> u64 {
        let upto = self.commits.partition_point(|(ts, _)| *ts <= position.0);
        let last = upto.checked_sub(1).and_then(|n| self.commits.get(n));
        last.map_or(self.floor, |(_, commit)| *commit)
    }

    /// Records a durable LSN that the store has shown: commits below it may be known to clients.
    pub(super) fn note_durable(&mut self, position: CommitPosition, plan: &Plan) {
        let upto = self.commit_at(position);
        self.model.set_durable(CommitPosition(upto));
        if plan.durability == Durability::Sync {
            self.floor = self.floor.max(upto);
        }
    }

    /// Copies the knowledge, for a check that runs while it changes.
    pub(super) fn copy(&self) -> ExpectedState {
        ExpectedState {
            model: self.model.clone(),
            spaces: self.spaces.clone(),
            commits: Vec::new(),
            ..*self
        }
    }

    /// Records that a space was dropped, and that clients know it.
    pub(super) fn note_space_dropped(&mut self, at: usize) {
        if let Some(pair) = self.spaces.get_mut(at) {
            pair.dropped = true;
            // Dropping in the model cannot fail: it is open.
            let _ = self.model.drop_spaces(&[pair.model]);
        }
        self.dropping = None;
    }

    /// Records that a store recovered to a commit, which must survive from then on.
    pub(super) fn note_recovered(&mut self, commit: u64, dropped: bool) {
        self.model = Arc::new(self.model.truncated_at(CommitPosition(commit)));
        match self.dropping.take() {
            Some(at) if dropped => self.note_space_dropped(at),
            _ => {}
        }
        self.floor = commit;
        self.commits.clear();
    }

    /// The rows after a commit, by the engine's space numbers. Names and notes of prepared transactions are rows
    /// of [`SpaceId::PREPARED`].
    fn rows_after(&self, commit: u64, dropped: Option<usize>) -> Rows {
        let rows = self.model.rows_after(CommitPosition(commit));
        let renamed = rows.into_iter().filter_map(|((space, key), value)| {
            if space == SpaceId::PREPARED {
                return Some(((space, key), value));
            }
            let of = self.spaces.iter().position(|pair| pair.model == space)?;
            let pair = self.spaces.get(of)?;
            let gone = pair.dropped || dropped == Some(of);
            (!gone).then_some(((pair.engine, key), value))
        });
        renamed.collect()
    }
}

/// A recovered store.
pub(super) struct RecoveredStore {
    pub(super) engine: Arc<KvMem>,
    /// The transactions that were prepared.
    pub(super) prepared: Vec<Box<dyn PreparedTxn>>,
    /// The model's commit whose rows it has.
    pub(super) commit: u64,
    /// Whether the drop with an unknown outcome has happened.
    pub(super) dropped: bool,
    /// Whether a broken disk has lost or restored spaces, so that the store can no longer be
    /// compared with the model.
    pub(super) is_incomparable: bool,
}

/// Options with which the store is opened.
pub(super) fn options(plan: &Plan, disk: &MemDisk, clock: &Arc<ManualClock>) -> KvMemOptions {
    KvMemOptions {
        dir: Some("/data".into()),
        disk: Arc::new(disk.clone()),
        durability: plan.durability,
        segment_bytes: plan.segment_bytes,
        lock_wait: Duration::ZERO,
        clock: clock.clone(),
        background: Background::Callers,
        ..KvMemOptions::default()
    }
}

/// Recovers a store and checks its state. Returns `None` if the start was refused, which is
/// permitted on a broken disk.
///
/// # Errors
/// A description of the fault.
pub(super) fn recover_and_check(
    plan: &Plan,
    known: &ExpectedState,
    disk: &MemDisk,
    clock: &Arc<ManualClock>,
) -> Result<Option<RecoveredStore>, String> {
    let engine = match KvMem::open(options(plan, disk, clock)) {
        Ok(engine) => engine,
        Err(Error::Corrupt(_)) if plan.faults == Faults::BitFlips => return Ok(None),
        Err(Error::Corrupt(_) | Error::Io(_)) if known.has_lied => return Ok(None),
        Err(Error::Full(_) | Error::Io(_)) if plan.faults == Faults::Full => return Ok(None),
        Err(Error::Full(_) | Error::Io(_)) if plan.faults == Faults::Errors => return Ok(None),
        Err(error) => return Err(format!("the start was refused: {error}")),
    };
    let mut rows = rows_of(&engine).map_err(|error| format!("rows cannot be read: {error}"))?;
    let prepared = engine.take_restored();
    let prepared =
        prepared.map_err(|error| format!("prepared transactions cannot be read: {error}"))?;
    for txn in &prepared {
        let name = (SpaceId::PREPARED, txn.name().to_vec());
        rows.insert(name, txn.note().to_vec());
    }
    engine.verify()?;
    let there = |id: SpaceId| -> Result<bool, String> {
        let spaces = engine.spaces().map_err(|error| error.to_string())?;
        Ok(spaces.iter().any(|(space, _)| *space == id))
    };
    let broken = known.has_lied || plan.faults == Faults::BitFlips;
    let (mut dropped, mut is_incomparable) = (false, false);
    for (n, pair) in known.spaces.iter().enumerate().skip(BUILT_IN.len()) {
        let is_there = there(pair.engine)?;
        if known.dropping == Some(n) {
            dropped = !is_there;
        } else if is_there == pair.dropped {
            if !broken {
                return Err(format!("space {pair:?} is there: {is_there}"));
            }
            is_incomparable = true;
        }
    }
    let (commit, exact) = find_commit(known, &rows, dropped, broken)?;
    is_incomparable |= !exact;
    Ok(Some(RecoveredStore {
        engine,
        prepared,
        commit,
        dropped,
        is_incomparable,
    }))
}

/// Finds the commit after which the rows were these.
fn find_commit(
    known: &ExpectedState,
    rows: &Rows,
    dropped: bool,
    broken: bool,
) -> Result<(u64, bool), String> {
    let last = known.model.last_commit().0;
    let lowest = if broken { 0 } else { known.floor };
    let gone = known.dropping.filter(|_| dropped);
    for commit in (lowest..=last).rev() {
        let expected = known.rows_after(commit, gone);
        if expected == *rows {
            return Ok((commit, true));
        }
        // Spaces are created and dropped independently of commits: a broken disk may have lost them.
        if broken && agree_on_common_spaces(&expected, rows) {
            return Ok((commit, false));
        }
    }
    let old = (0..lowest)
        .rev()
        .find(|n| known.rows_after(*n, gone) == *rows);
    Err(match old {
        Some(commit) => {
            format!("commit {commit}, although commits up to {lowest} were acknowledged")
        }
        None => format!(
            "rows of no commit from {lowest} to {last}: {}",
            difference(&known.rows_after(last, gone), rows)
        ),
    })
}

fn agree_on_common_spaces(expected: &Rows, found: &Rows) -> bool {
    let built_in = |rows: &Rows| -> Rows {
        let mut own = rows.clone();
        own.retain(|(space, _), _| BUILT_IN.contains(space));
        own
    };
    built_in(expected) == built_in(found)
}

fn difference(expected: &Rows, found: &Rows) -> String {
    let missing = expected.iter().filter(|(k, v)| found.get(*k) != Some(*v));
    let surplus = found.iter().filter(|(k, v)| expected.get(*k) != Some(*v));
    let keys = |rows: &mut dyn Iterator<Item = (&(SpaceId, Vec<u8>), &Vec<u8>)>| {
        let shown = rows.take(4).map(|(k, v)| format!("{k:?}={}b", v.len()));
        shown.collect::<Vec<_>>().join(" ")
    };
    format!(
        "missing {} surplus {}",
        keys(&mut missing.into_iter()),
        keys(&mut surplus.into_iter())
    )
}

/// Returns all rows that a snapshot sees.
pub(super) fn rows_of(engine: &KvMem) -> Result<Rows, Error> {
    let mut rows = Rows::new();
    let mut spaces: Vec<SpaceId> = engine.spaces()?.into_iter().map(|(id, _)| id).collect();
    spaces.extend(BUILT_IN);
    let mut txn = engine.begin(Default::default())?;
    for space in spaces {
        let range = ScanRange {
            space,
            start: b"",
            end: None,
            reverse: false,
        };
        txn.scan(
            Read::SNAPSHOT,
            &[range],
            usize::MAX,
            &mut |_, key, value| {
                rows.insert((space, key.to_vec()), value.to_vec());
                ControlFlow::Continue(())
            },
        )?;
    }
    Ok(rows)
}

/// Checks that a recovered store assigns no id, space or timestamp twice. Called on copies
/// that are discarded.
pub(super) fn check_nothing_repeats(known: &ExpectedState, engine: &KvMem) -> Result<(), String> {
    let io = |error: Error| format!("a store that came up refuses: {error}");
    let ids = engine.reserve_ids(COUNTER, 1, 1).map_err(io)?;
    if ids.start <= known.last_id {
        return Err(format!("id {} after {}", ids.start, known.last_id));
    }
    let spaces = engine.create_spaces(&[Default::default()]).map_err(io)?;
    let space = spaces.first().map_or(0, |id| id.0);
    if space <= known.last_space {
        return Err(format!("space {space} after {}", known.last_space));
    }
    let mut txn = engine.begin(Default::default()).map_err(io)?;
    let key = Key::new(SCRATCH, b"row");
    txn.put(key, b"value", Check::FirstCommitter).map_err(io)?;
    let ts = txn.commit().map_err(io)?.position;
    if ts.0 <= known.last_ts {
        return Err(format!("timestamp {ts:?} after {}", known.last_ts));
    }
    engine.wait_durable(ts).map_err(io)
}
