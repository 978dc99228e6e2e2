//! The open transactions of a run, in the engine and in the model.

use super::oracle::SpacePair;
use super::plan::{Faults, Plan};
use super::simulation::Observer;
use super::steps::{Step, is_disk_error, perform, random, text};
use parking_lot::Mutex;
use porpoise_kv::model::Model;
use porpoise_kv::{
    Commit, CommitPosition, Durability, Engine, Error, Isolation, PreparedTxn, Result as KvResult,
    SpaceId, Txn, TxnOptions,
};
use porpoise_kv_mem::KvMem;
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of the last steps that are printed.
const MAX_TRACE_STEPS: usize = 120;

/// A transaction in both stores.
pub(super) struct TxnPair {
    engine: Box<dyn Txn>,
    model: Box<dyn Txn>,
}

/// A prepared transaction in both stores.
struct PreparedPair {
    engine: Box<dyn PreparedTxn>,
    model: Box<dyn PreparedTxn>,
    /// Whether it was prepared before the last crash.
    is_restored: bool,
    /// Whether the outcome of its end is unknown.
    is_unknown: bool,
}

/// Work of the store during which a transaction makes a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StepContext {
    /// None.
    Idle,
    /// A disk operation of a checkpoint.
    Checkpoint,
    /// A disk operation of the log. A commit might wait for it, so none is made.
    LogWrite,
}

/// State of one start of the store.
pub(super) struct RunningStore {
    pub(super) rng: fastrand::Rng,
    pub(super) open: Vec<TxnPair>,
    prepared: Vec<PreparedPair>,
    pub(super) engine: Arc<KvMem>,
    pub(super) trace: VecDeque<String>,
    /// Whether the store refuses writes.
    pub(super) broken: bool,
    pub(super) full: bool,
}

/// Adds a line to the trace, and drops old ones.
pub(super) fn note(trace: &mut VecDeque<String>, what: String) {
    trace.push_back(what);
    if trace.len() > MAX_TRACE_STEPS {
        trace.pop_front();
    }
}

impl RunningStore {
    pub(super) fn new(
        rng: fastrand::Rng,
        engine: Arc<KvMem>,
        trace: VecDeque<String>,
    ) -> RunningStore {
        RunningStore {
            rng,
            engine,
            open: Vec::new(),
            prepared: Vec::new(),
            trace,
            broken: false,
            full: false,
        }
    }

    /// Takes over the transactions that a recovered store and the model truncated to its state have found.
    pub(super) fn restore(
        &mut self,
        engine: Vec<Box<dyn PreparedTxn>>,
        model: &Model,
    ) -> Result<(), String> {
        let mut ours = model.take_restored().map_err(|error| error.to_string())?;
        for engine in engine {
            let found = ours.iter().position(|model| model.name() == engine.name());
            let found = found.ok_or("a prepared transaction that the model lacks")?;
            self.prepared.push(PreparedPair {
                model: ours.swap_remove(found),
                engine,
                is_restored: true,
                is_unknown: false,
            });
        }
        if ours.is_empty() {
            Ok(())
        } else {
            Err("a prepared transaction is lost".to_owned())
        }
    }

    /// Whether a transaction is prepared.
    pub(super) fn has_prepared(&self) -> bool {
        !self.prepared.is_empty()
    }

    pub(super) fn begin_some(&mut self, count: usize, model: &Model) -> Result<(), String> {
        for _ in 0..count {
            let pair = self.begin(model)?;
            self.open.push(pair);
        }
        Ok(())
    }

    fn begin(&mut self, model: &Model) -> Result<TxnPair, String> {
        let options = TxnOptions {
            isolation: match self.rng.u8(0..6) {
                0 => Isolation::Serializable,
                _ => Isolation::Snapshot,
            },
            ..TxnOptions::default()
        };
        let failed = |error: Error| format!("no transaction begins: {error}");
        let mut pair = TxnPair {
            engine: self.engine.begin(options.clone()).map_err(failed)?,
            model: model.begin(options).map_err(failed)?,
        };
        if self.rng.bool() {
            pair.engine.track_reads();
            pair.model.track_reads();
        }
        Ok(pair)
    }

    /// Makes one step of one transaction.
    pub(super) fn step(
        &mut self,
        plan: &Plan,
        observer: &Mutex<Observer>,
        context: StepContext,
    ) -> Result<(), String> {
        let (model, spaces, dropping) = {
            let known = &mut observer.lock().known;
            known.note_durable(self.engine.durable_position(), plan);
            (known.model.clone(), known.spaces.clone(), known.dropping)
        };
        let may_commit = context != StepContext::LogWrite;
        // Preparation and end wait for the disk if commits do not.
        let may_prepare =
            context == StepContext::Idle || may_commit && plan.durability == Durability::Sync;
        // Without open transactions the store is being shut down.
        let may_end = may_prepare && self.has_prepared() && !self.open.is_empty();
        if may_end && self.rng.u8(0..25) == 0 {
            return self.end_prepared(plan, observer);
        }
        let at = self.rng.usize(0..self.open.len().max(1));
        let Some(pair) = self.open.get_mut(at) else {
            return Ok(());
        };
        let mark = pair.model.mark();
        if pair.engine.mark() != mark {
            return Err(format!("mark {:?}, not {mark:?}", pair.engine.mark()));
        }
        let step = random(&mut self.rng, mark.0, spaces.len());
        let concerned = step.space() == dropping || matches!(step, Step::Advance);
        let avoided = dropping.is_some() && concerned;
        let has_to_wait = match step {
            Step::Commit => !may_commit,
            Step::Prepare => !may_prepare,
            _ => false,
        };
        if avoided || has_to_wait {
            return Ok(());
        }
        note(&mut self.trace, format!("{at}: {step:?}"));
        if matches!(step, Step::Commit | Step::Prepare | Step::Rollback) {
            let fresh = self.begin(&model)?;
            return self.replace(at, fresh, &step, plan, observer);
        }
        observer.lock().report.answers += 1;
        let engine_space = |n: usize| spaces.get(n).map_or(SpaceId(0), |p: &SpacePair| p.engine);
        let model_space = |n: usize| spaces.get(n).map_or(SpaceId(0), |p: &SpacePair| p.model);
        let engine = perform(&mut *pair.engine, &step, engine_space);
        if let Err(error) = &engine
            && is_disk_error(error)
        {
            self.disk_failed(error, plan)?;
            // The model has no disk: both begin another transaction.
            let fresh = self.begin(&model)?;
            if let Some(place) = self.open.get_mut(at) {
                *place = fresh;
            }
            return Ok(());
        }
        let (engine, model) = (
            text(engine),
            text(perform(&mut *pair.model, &step, model_space)),
        );
        if engine != model {
            return Err(format!("engine: {engine}\nmodel:  {model}"));
        }
        Ok(())
    }

    /// Ends a transaction by a step, and puts another one in its place.
    fn replace(
        &mut self,
        at: usize,
        fresh: TxnPair,
        step: &Step,
        plan: &Plan,
        observer: &Mutex<Observer>,
    ) -> Result<(), String> {
        let Some(place) = self.open.get_mut(at) else {
            return Ok(());
        };
        let old = std::mem::replace(place, fresh);
        match step {
            Step::Commit => self.commit(old, plan, observer),
            Step::Prepare => self.prepare(old, plan, observer),
            _ => {
                old.engine.rollback();
                old.model.rollback();
                Ok(())
            }
        }
    }

    fn disk_failed(&mut self, error: &Error, plan: &Plan) -> Result<(), String> {
        note(&mut self.trace, format!("  {error}"));
        if matches!(plan.faults, Faults::None | Faults::BitFlips) {
            return Err(format!("on a sound disk: {error}"));
        }
        self.broken |= !matches!(error, Error::Full(_));
        Ok(())
    }

    fn commit(
        &mut self,
        pair: TxnPair,
        plan: &Plan,
        observer: &Mutex<Observer>,
    ) -> Result<(), String> {
        let engine = pair.engine.commit();
        if let Err(error) = &engine
            && is_disk_error(error)
        {
            pair.model.rollback();
            return self.disk_failed(error, plan);
        }
        let mut observer = observer.lock();
        let Observer { known, report, .. } = &mut *observer;
        let before = known.model.last_commit();
        let model = pair.model.commit();
        let after = known.model.last_commit();
        let (engine_text, model_text) = (
            text(engine.clone().map(|_| String::new())),
            text(model.map(|_| String::new())),
        );
        if engine_text != model_text {
            return Err(format!("engine: {engine_text}\nmodel:  {model_text}"));
        }
        if let (Ok(commit), true) = (engine, after > before) {
            report.commits += 1;
            return note_commit(&mut observer, commit.position);
        }
        Ok(())
    }

    /// Prepares a transaction under a name that no other prepared one has.
    fn prepare(
        &mut self,
        pair: TxnPair,
        plan: &Plan,
        observer: &Mutex<Observer>,
    ) -> Result<(), String> {
        let name = vec![b'x', self.rng.u8(0..6)];
        let note = vec![self.rng.u8(..); 3];
        if self.prepared.iter().any(|p| p.engine.name() == name) {
            pair.engine.rollback();
            pair.model.rollback();
            return Ok(());
        }
        let engine = with_sync(plan, observer, || pair.engine.prepare(&name, &note));
        if let Err(error) = &engine
            && is_disk_error(error)
        {
            pair.model.rollback();
            return self.disk_failed(error, plan);
        }
        let model = pair.model.prepare(&name, &note);
        match (engine, model) {
            (Ok(engine), Ok(model)) => {
                let mut observer = observer.lock();
                note_synced_commit(&mut observer, engine.position(), plan)?;
                observer.report.prepared += 1;
                self.prepared.push(PreparedPair {
                    engine,
                    model,
                    is_restored: false,
                    is_unknown: false,
                });
                Ok(())
            }
            (engine, model) => same_errors(engine.map(|_| ()), model.map(|_| ())),
        }
    }

    /// Commits or rolls back a prepared transaction.
    fn end_prepared(&mut self, plan: &Plan, observer: &Mutex<Observer>) -> Result<(), String> {
        let at = self.rng.usize(0..self.prepared.len());
        let commits = self.rng.bool();
        let Some(pair) = self.prepared.get_mut(at).filter(|pair| !pair.is_unknown) else {
            return Ok(());
        };
        let end = |txn: &mut dyn PreparedTxn| -> KvResult<Commit> {
            if commits {
                txn.commit()
            } else {
                txn.rollback()
            }
        };
        let name = pair.engine.name().escape_ascii().to_string();
        note(&mut self.trace, format!("end {name}, commits: {commits}"));
        let engine = with_sync(plan, observer, || end(&mut *pair.engine));
        if let Err(error) = &engine
            && is_disk_error(error)
        {
            // Still prepared, with its locks; or unknown, and then left alone until the next start.
            pair.is_unknown = matches!(error, Error::UnknownOutcome(_));
            return self.disk_failed(error, plan);
        }
        let model = end(&mut *pair.model);
        let is_restored = pair.is_restored;
        match (engine, model) {
            (Ok(commit), Ok(_)) => {
                self.prepared.remove(at);
                let mut observer = observer.lock();
                observer.report.ended += 1;
                observer.report.ended_after_crash += u64::from(is_restored);
                note_synced_commit(&mut observer, commit.position, plan)
            }
            (engine, model) => {
                same_errors(engine.map(|_| ()), model.map(|_| ()))?;
                Err("the end of a prepared transaction was refused".to_owned())
            }
        }
    }
}

/// Makes a call that waits for the disk if commits do not. Until it has returned, the model lacks the commit that
/// the disk may have already, so no copy of the disk is checked meanwhile.
fn with_sync<T>(plan: &Plan, observer: &Mutex<Observer>, call: impl FnOnce() -> T) -> T {
    if plan.durability == Durability::Sync {
        return call();
    }
    observer.lock().checking_copy = true;
    let done = call();
    observer.lock().checking_copy = false;
    done
}

/// As [`note_commit`]; the commit survives crashes from now on if the call has waited for the disk.
fn note_synced_commit(
    observer: &mut Observer,
    position: CommitPosition,
    plan: &Plan,
) -> Result<(), String> {
    note_commit(observer, position)?;
    if plan.durability != Durability::Sync {
        let known = &mut observer.known;
        known.floor = known.floor.max(known.model.last_commit().0);
    }
    Ok(())
}

/// Records that the model's last commit is the engine's commit at this position.
fn note_commit(observer: &mut Observer, position: CommitPosition) -> Result<(), String> {
    let known = &mut observer.known;
    if position.0 <= known.last_ts && !known.has_lied {
        return Err(format!("timestamp {} after {}", position.0, known.last_ts));
    }
    known.last_ts = position.0;
    known
        .commits
        .push((position.0, known.model.last_commit().0));
    Ok(())
}

/// Fails unless both stores have refused something with the same error.
fn same_errors(engine: KvResult<()>, model: KvResult<()>) -> Result<(), String> {
    let texts = [engine, model].map(|outcome| text(outcome.map(|()| "done".to_owned())));
    let [engine, model] = &texts;
    if engine == model {
        return Ok(());
    }
    Err(format!("engine: {engine}\nmodel:  {model}"))
}
