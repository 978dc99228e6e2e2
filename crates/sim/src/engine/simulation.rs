//! The main loop of a run: the next step, and the disk's callbacks.

use super::oracle::{
    COUNTER, ExpectedState, RecoveredStore, SpacePair, check_nothing_repeats, recover_and_check,
};
use super::plan::{Faults, Plan};
use super::report::Report;
use super::steps::is_disk_error;
use super::transactions::{RunningStore, StepContext, note};
use parking_lot::Mutex;
use porpoise_base::clock::ManualClock;
use porpoise_base::disk::{Disk, DiskFault, MemDisk};
use porpoise_kv::{Engine, Error};
use porpoise_kv_mem::KvMem;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// State that the disk's callback may read during a step.
pub(super) struct Observer {
    pub(super) known: ExpectedState,
    /// `None` while the store is down.
    engine: Option<Weak<KvMem>>,
    rng: fastrand::Rng,
    failure: Option<String>,
    pub(super) report: Report,
    /// Whether the last start recovered a store that can no longer be compared with the model.
    is_incomparable: bool,
    /// Whether a copy is being checked, or none may be checked.
    pub(super) checking_copy: bool,
}

struct Simulation {
    plan: Plan,
    clock: Arc<ManualClock>,
    observer: Mutex<Observer>,
    /// `None` while the store is down.
    store: Mutex<Option<RunningStore>>,
}

/// Simulates a store's starts, work and crashes by a plan.
///
/// # Errors
/// The first failed check, with the seed and the last steps.
pub fn simulate(plan: &Plan) -> Result<Report, String> {
    let simulation = Arc::new(Simulation {
        plan: plan.clone(),
        clock: Arc::default(),
        observer: Mutex::new(Observer {
            known: ExpectedState::new(),
            engine: None,
            rng: fastrand::Rng::with_seed(plan.seed ^ 0xE7E),
            failure: None,
            report: Report::default(),
            is_incomparable: false,
            checking_copy: false,
        }),
        store: Mutex::new(None),
    });
    let mut disk = MemDisk::new();
    let outcome = simulation.run_until_crash(&mut disk);
    disk.watch(None);
    let store = simulation.store.lock().take();
    outcome.map_err(|what| {
        let trace = store.map(|w| Vec::from(w.trace).join("\n"));
        format!("{plan:?}\n{}\n{what}", trace.unwrap_or_default())
    })?;
    Ok(simulation.observer.lock().report)
}

impl Simulation {
    fn run_until_crash(self: &Arc<Simulation>, disk: &mut MemDisk) -> Result<(), String> {
        let mut rng = fastrand::Rng::with_seed(self.plan.seed);
        self.start(disk, &mut rng, VecDeque::new())?;
        for n in 0..self.plan.steps {
            let last = n + 1 == self.plan.steps;
            if last || self.crash_is_due(&mut rng) {
                if !self.crash(disk, &mut rng)? {
                    return Ok(());
                }
            } else if rng.u8(0..200) == 0 {
                if !self.restart(disk, &mut rng)? {
                    return Ok(());
                }
            } else {
                self.random_action(disk, &mut rng)?;
            }
            let mut observer = self.observer.lock();
            if let Some(failure) = observer.failure.take() {
                return Err(failure);
            }
            if let Some(engine) = observer.engine.as_ref().and_then(Weak::upgrade) {
                observer
                    .known
                    .note_durable(engine.durable_position(), &self.plan);
            }
        }
        Ok(())
    }

    fn crash_is_due(&self, rng: &mut fastrand::Rng) -> bool {
        let broken = self.store.lock().as_ref().is_none_or(|w| w.broken);
        rng.u8(0..if broken { 10 } else { 120 }) == 0
    }

    /// Starts the store on a disk, and enables the disk's callbacks.
    fn start(
        self: &Arc<Simulation>,
        disk: &MemDisk,
        rng: &mut fastrand::Rng,
        trace: VecDeque<String>,
    ) -> Result<bool, String> {
        let (simulation, copied) = (Arc::downgrade(self), disk.clone());
        disk.watch(Some(Arc::new(move |operation, path: &Path| {
            if let Some(simulation) = simulation.upgrade() {
                simulation.operation(&copied, operation, path);
            }
        })));
        // The disk may call back during recovery, and check a copy.
        let known = self.observer.lock().known.copy();
        let found = recover_and_check(&self.plan, &known, disk, &self.clock)?;
        let mut observer = self.observer.lock();
        if let Some(failure) = observer.failure.take() {
            return Err(failure);
        }
        observer.is_incomparable = found.as_ref().is_some_and(|found| found.is_incomparable);
        let Some(RecoveredStore {
            engine,
            prepared,
            commit,
            dropped,
            is_incomparable: false,
        }) = found
        else {
            observer.report.refused += 1;
            return Ok(false);
        };
        observer.known.note_recovered(commit, dropped);
        observer.engine = Some(Arc::downgrade(&engine));
        let mut store = RunningStore::new(rng.fork(), engine, trace);
        store.restore(prepared, &observer.known.model)?;
        store.begin_some(self.plan.transactions, &observer.known.model)?;
        drop(observer);
        *self.store.lock() = Some(store);
        Ok(true)
    }

    /// Simulates a power cut and a restart. Returns false if the disk is beyond repair.
    fn crash(
        self: &Arc<Simulation>,
        disk: &mut MemDisk,
        rng: &mut fastrand::Rng,
    ) -> Result<bool, String> {
        let store = self.store.lock().take();
        let (mut trace, engine) = match store {
            Some(store) => (store.trace, Some(store.engine)),
            None => (VecDeque::new(), None),
        };
        note(
            &mut trace,
            format!("crash at operation {}", disk.operations()),
        );
        {
            let mut observer = self.observer.lock();
            if let Some(engine) = &engine {
                observer
                    .known
                    .note_durable(engine.durable_position(), &self.plan);
            }
            observer.engine = None;
            observer.report.crashes += 1;
        }
        disk.watch(None);
        let after = disk.after_power_cut(rng.u64(..));
        after.set_capacity(None);
        // Later writes of the old store are ignored.
        disk.stop_after(Some(0));
        drop(engine);
        *disk = after;
        let flips = self.flip_bits(disk, rng);
        // A tail that no later group confirms as durable may be removed as torn.
        self.observer.lock().known.has_lied |= !flips.is_empty();
        let up = self.start(disk, rng, trace.clone())?;
        if self.observer.lock().is_incomparable {
            // The store started with a part of its data, and may have changed or removed files.
            return Ok(false);
        }
        if !up && !flips.is_empty() {
            // The refused start changed nothing: with the bits restored, the store starts.
            for (path, offset, bit) in &flips {
                disk.flip_bit(path, *offset, *bit)
                    .map_err(|e| format!("the refused start removed a file: {e}"))?;
            }
            let known = ExpectedState {
                has_lied: false,
                ..self.observer.lock().known.copy()
            };
            let plan = Plan {
                faults: Faults::None,
                ..self.plan.clone()
            };
            recover_and_check(&plan, &known, disk, &self.clock)?;
            return Ok(false);
        }
        if !up && self.plan.faults == Faults::Errors {
            // The fault is over: the next start must succeed.
            let after = disk.after_power_cut(rng.u64(..));
            disk.watch(None);
            *disk = after;
            return if self.start(disk, rng, trace)? {
                Ok(true)
            } else {
                Err("a start on a sound disk was refused".to_owned())
            };
        }
        Ok(up)
    }

    /// Flips some bits of some files, if that is the plan's fault.
    fn flip_bits(
        &self,
        disk: &MemDisk,
        rng: &mut fastrand::Rng,
    ) -> Vec<(std::path::PathBuf, usize, u8)> {
        let mut flips = Vec::new();
        if self.plan.faults != Faults::BitFlips || rng.u8(0..3) == 0 {
            return flips;
        }
        let dir = Path::new("/data");
        let names = disk.list(dir).unwrap_or_default();
        for _ in 0..rng.usize(1..4) {
            let Some(name) = names.get(rng.usize(0..names.len().max(1))) else {
                continue;
            };
            let path = dir.join(name);
            let len = disk.open(&path).and_then(|file| file.len()).unwrap_or(0) as usize;
            if len > 0 {
                // Prefer written bytes to the zeroes after them.
                let below = rng.usize(1..=len);
                let (offset, bit) = (rng.usize(0..below), rng.u8(0..8));
                if disk.flip_bit(&path, offset, bit).is_ok() {
                    flips.push((path, offset, bit));
                }
            }
        }
        flips
    }

    /// Performs a random action other than a crash.
    fn random_action(&self, disk: &MemDisk, rng: &mut fastrand::Rng) -> Result<(), String> {
        self.schedule_fault(disk, rng);
        let engine = self.store.lock().as_ref().map(|w| w.engine.clone());
        let Some(engine) = engine else {
            return Ok(());
        };
        match rng.u8(0..100) {
            0..=13 => {
                self.note("log turn");
                engine.step_log();
            }
            14 | 15 => engine.reclaim(),
            16 | 17 => {
                self.note("checkpoint");
                match engine.checkpoint() {
                    Ok(()) => self.observer.lock().report.checkpoints += 1,
                    Err(error) => self.failed(&error)?,
                }
            }
            18..=20 => self.reserve(&engine, rng)?,
            21 => self.create_space(&engine)?,
            22 if rng.u8(0..3) == 0 => self.drop_space(&engine, rng)?,
            23 | 24 => self.clock.advance(Duration::from_millis(rng.u64(1..30))),
            _ => {
                let mut store = self.store.lock();
                if let Some(store) = store.as_mut() {
                    store.step(&self.plan, &self.observer, StepContext::Idle)?;
                }
            }
        }
        Ok(())
    }

    fn schedule_fault(&self, disk: &MemDisk, rng: &mut fastrand::Rng) {
        let soon = disk.operations() + rng.u64(1..30);
        match self.plan.faults {
            Faults::Errors if rng.u8(0..60) == 0 => {
                let fault = if rng.bool() {
                    DiskFault::Error
                } else {
                    DiskFault::ShortWrite(rng.usize(0..5000))
                };
                self.note(&format!("{fault:?} at operation {soon}"));
                disk.inject(soon, fault);
            }
            Faults::LyingSyncs if rng.u8(0..30) == 0 => {
                self.observer.lock().known.has_lied = true;
                self.note(&format!(
                    "a sync at operation {soon} will be reported as done but is not"
                ));
                disk.inject(soon, DiskFault::LyingSync);
            }
            Faults::Full if rng.u8(0..25) == 0 => {
                let mut store = self.store.lock();
                if let Some(store) = store.as_mut() {
                    store.full = !store.full;
                    let room = rng.usize(0..(self.plan.segment_bytes * 2) as usize);
                    disk.set_capacity(store.full.then(|| disk.used() + room));
                    note(&mut store.trace, format!("disk full: {}", store.full));
                }
            }
            _ => {}
        }
    }

    fn note(&self, what: &str) {
        if let Some(store) = self.store.lock().as_mut() {
            note(&mut store.trace, what.to_owned());
        }
    }

    /// Accepts an error of the disk if the disk has faults.
    fn failed(&self, error: &Error) -> Result<(), String> {
        if !is_disk_error(error) || matches!(self.plan.faults, Faults::None | Faults::BitFlips) {
            return Err(format!("on a sound disk: {error}"));
        }
        if let Some(store) = self.store.lock().as_mut() {
            note(&mut store.trace, format!("  {error}"));
            store.broken |= !matches!(error, Error::Full(_));
        }
        Ok(())
    }

    fn reserve(&self, engine: &KvMem, rng: &mut fastrand::Rng) -> Result<(), String> {
        let count = if rng.bool() {
            rng.u64(1..10)
        } else {
            rng.u64(1..60_000)
        };
        self.note(&format!("reserve {count} ids"));
        match engine.reserve_ids(COUNTER, count, 1) {
            Ok(ids) => {
                let known = &mut self.observer.lock().known;
                if ids.start <= known.last_id && !known.has_lied {
                    return Err(format!("ids {ids:?} after {}", known.last_id));
                }
                known.last_id = known.last_id.max(ids.end - 1);
                Ok(())
            }
            Err(error) => self.failed(&error),
        }
    }

    fn create_space(&self, engine: &KvMem) -> Result<(), String> {
        self.note("create a space");
        match engine.create_spaces(&[Default::default()]) {
            Ok(made) => {
                let known = &mut self.observer.lock().known;
                let ours = known.model.create_spaces(&[Default::default()]);
                let ours = ours.map_err(|e| e.to_string())?;
                for (engine, model) in made.into_iter().zip(ours) {
                    if engine.0 <= known.last_space && !known.has_lied {
                        return Err(format!("space {engine:?} after {}", known.last_space));
                    }
                    known.last_space = engine.0;
                    known.spaces.push(SpacePair {
                        engine,
                        model,
                        dropped: false,
                    });
                }
                Ok(())
            }
            Err(error) => self.failed(&error),
        }
    }

    fn drop_space(&self, engine: &KvMem, rng: &mut fastrand::Rng) -> Result<(), String> {
        // A table with a prepared transaction cannot be dropped.
        if self
            .store
            .lock()
            .as_ref()
            .is_none_or(RunningStore::has_prepared)
        {
            return Ok(());
        }
        let (at, pair) = {
            let known = &mut self.observer.lock().known;
            let at = rng.usize(0..known.spaces.len());
            let Some(pair) = known.spaces.get(at).copied() else {
                return Ok(());
            };
            if at < super::oracle::BUILT_IN.len() || pair.dropped || known.dropping.is_some() {
                return Ok(());
            }
            known.dropping = Some(at);
            (at, pair)
        };
        self.note(&format!("drop space {pair:?}"));
        match engine.drop_spaces(&[pair.engine]) {
            Ok(()) => {
                self.observer.lock().known.note_space_dropped(at);
                Ok(())
            }
            // The space may exist or not; it is not used until the next start.
            Err(error @ Error::UnknownOutcome(_)) => self.failed(&error),
            Err(error) => {
                self.observer.lock().known.dropping = None;
                self.failed(&error)
            }
        }
    }

    /// Simulates a clean shutdown and a start, possibly with a power cut in between. Returns false
    /// if the disk is beyond repair.
    fn restart(
        self: &Arc<Simulation>,
        disk: &mut MemDisk,
        rng: &mut fastrand::Rng,
    ) -> Result<bool, String> {
        self.note("shutdown");
        let engine = self.store.lock().as_mut().map(|store| {
            store.open.clear();
            store.engine.clone()
        });
        let Some(engine) = engine else {
            return Ok(true);
        };
        let next = engine.next_id(COUNTER).map_err(|e| e.to_string())?;
        if let Err(error) = engine.shutdown() {
            self.failed(&error)?;
            return self.crash(disk, rng);
        }
        {
            let known = &mut self.observer.lock().known;
            known.floor = known.model.last_commit().0;
        }
        drop(engine);
        if !self.crash(disk, rng)? {
            return Ok(false);
        }
        let store = self.store.lock();
        let after = store.as_ref().map(|store| store.engine.next_id(COUNTER));
        match after {
            Some(Ok(after)) if after != next && !self.observer.lock().known.has_lied => Err(
                format!("the next id was {next} at a clean shutdown and is {after}"),
            ),
            _ => Ok(true),
        }
    }

    /// Called before each operation of the disk.
    fn operation(&self, disk: &MemDisk, operation: u64, path: &Path) {
        if let Some(mut store) = self.store.try_lock()
            && let Some(store) = store.as_mut()
        {
            // A checkpoint or an iteration of the log is in progress, not on behalf of a
            // transaction: other transactions continue.
            let context = if is_checkpoint(path) {
                StepContext::Checkpoint
            } else {
                StepContext::LogWrite
            };
            let steps = store.rng.usize(0..3);
            for _ in 0..steps {
                let outcome = store.step(&self.plan, &self.observer, context);
                if let Err(what) = outcome {
                    self.observer.lock().failure.get_or_insert(what);
                }
            }
        }
        self.check_copy(disk, operation);
    }

    /// Sometimes recovers and checks the state that a power cut now would leave.
    fn check_copy(&self, disk: &MemDisk, operation: u64) {
        let (known, seed) = {
            let mut observer = self.observer.lock();
            if observer.checking_copy || observer.rng.u32(0..self.plan.crash_one_in) > 0 {
                return;
            }
            if let Some(engine) = observer.engine.as_ref().and_then(Weak::upgrade) {
                observer
                    .known
                    .note_durable(engine.durable_position(), &self.plan);
            }
            observer.checking_copy = true;
            observer.report.copies += 1;
            (observer.known.copy(), observer.rng.u64(..))
        };
        let copy = disk.after_power_cut(seed);
        copy.set_capacity(None);
        let plan = Plan {
            faults: match self.plan.faults {
                Faults::LyingSyncs => Faults::LyingSyncs,
                _ => Faults::None,
            },
            ..self.plan.clone()
        };
        let outcome = recover_and_check(&plan, &known, &copy, &self.clock);
        let outcome = outcome.and_then(|found| match found {
            Some(found) if !known.has_lied => check_nothing_repeats(&known, &found.engine),
            _ => Ok(()),
        });
        let mut observer = self.observer.lock();
        observer.checking_copy = false;
        if let Err(what) = outcome {
            let what = format!("after a crash before operation {operation}: {what}");
            observer.failure.get_or_insert(what);
        }
    }
}

/// Whether a file belongs to a checkpoint rather than to the log.
fn is_checkpoint(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("ckpt-") || name.starts_with("MANIFEST")
}
