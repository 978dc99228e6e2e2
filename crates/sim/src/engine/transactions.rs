//! The open transactions of a run, in the engine and in the model.

use super::oracle::SpacePair;
use super::plan::{Faults, Plan};
use super::simulation::Observer;
use super::steps::{Step, is_disk_error, perform, random, text};
use parking_lot::Mutex;
use porpoise_kv::model::Model;
use porpoise_kv::{Engine, Error, Isolation, SpaceId, Txn, TxnOptions};
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
            trace,
            broken: false,
            full: false,
        }
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
        if avoided || context == StepContext::LogWrite && matches!(step, Step::Commit) {
            return Ok(());
        }
        note(&mut self.trace, format!("{at}: {step:?}"));
        if matches!(step, Step::Commit | Step::Rollback) {
            let fresh = self.begin(&model)?;
            let Some(place) = self.open.get_mut(at) else {
                return Ok(());
            };
            let old = std::mem::replace(place, fresh);
            if matches!(step, Step::Commit) {
                return self.commit(old, plan, observer);
            }
            old.engine.rollback();
            old.model.rollback();
            return Ok(());
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
            if commit.position.0 <= known.last_ts && !known.has_lied {
                let (ts, last) = (commit.position.0, known.last_ts);
                return Err(format!("timestamp {ts} after {last}"));
            }
            known.last_ts = commit.position.0;
            report.commits += 1;
            known.commits.push((commit.position.0, after.0));
        }
        Ok(())
    }
}
